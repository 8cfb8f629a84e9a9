//! Compares `emmc-odroid-xu4` with device figures: the table "Device figures" of
//! docs/design/models.md, within 10 %.

use crate::host::{random, took_ms};
use base::{Bytes, Lba, Rng, Time};
use blockdev::{Adversary, Class, Request};
use varve_ctrl::{AnyModel, Profile};

fn device() -> AnyModel {
    let mut m = Profile::builtin("emmc-odroid-xu4")
        .unwrap()
        .build(Some(64 << 20), None)
        .unwrap();
    m.set_adversary(Adversary::Own);
    m
}

fn data(kib: u64) -> Bytes {
    random(&mut Rng::named(kib, "calibration"), kib as usize * 1024)
}

fn run(m: &mut AnyModel, now: &mut Time, request: Request) -> f64 {
    took_ms(m, now, request) * 1e3
}

/// Mean over many operations at places of their own, erases included: writes of `kib`, each after
/// `each` has been done.
fn mean(kib: u64, mut each: impl FnMut(&mut AnyModel, &mut Time, Lba, Bytes) -> f64) -> f64 {
    let (mut m, mut now, payload) = (device(), Time(0), data(kib));
    let mut rng = Rng::named(kib, "places");
    let rounds = 150;
    let blocks = (64 << 10) / kib;
    let total: f64 = (0..rounds)
        .map(|_| {
            each(
                &mut m,
                &mut now,
                Lba(rng.below(blocks) * kib * 2),
                payload.clone(),
            )
        })
        .sum();
    total / f64::from(rounds)
}

fn close(what: &str, got: f64, want: f64) {
    let off = got / want - 1.0;
    assert!(
        off.abs() < 0.10,
        "{what}: {got:.2}, the device takes {want:.2} ({:+.1} %)",
        off * 100.0
    );
}

const SIZES: [u64; 7] = [4, 8, 16, 32, 64, 128, 256];

#[test]
fn cached_writes() {
    for kib in SIZES {
        let got = mean(kib, |m, now, lba, bytes| {
            let took = run(m, now, Request::write(lba, Class::Data, bytes));
            // Room in the cache is not what is measured here.
            run(m, now, Request::flush());
            took
        });
        close(
            &format!("us for a write of {kib} KiB"),
            got,
            125.0 + 3.5 * kib as f64,
        );
    }
}

#[test]
fn flush_after_write() {
    for kib in SIZES {
        let got = mean(kib, |m, now, lba, bytes| {
            run(m, now, Request::write(lba, Class::Data, bytes));
            run(m, now, Request::flush())
        });
        close(
            &format!("us for a flush of {kib} KiB"),
            got,
            1400.0 + 21.0 * kib as f64,
        );
    }
}

#[test]
fn fua_writes() {
    for kib in SIZES {
        let got = mean(kib, |m, now, lba, bytes| {
            run(m, now, Request::write_fua(lba, Class::Data, bytes))
        });
        close(
            &format!("us for a FUA write of {kib} KiB"),
            got,
            125.0 + 900.0 + (3.5 + 25.0) * kib as f64,
        );
    }
}

#[test]
fn random_reads() {
    let (mut m, mut now) = (device(), Time(0));
    for i in 0..64 {
        run(
            &mut m,
            &mut now,
            Request::write(Lba(i * 512), Class::Data, data(256)),
        );
    }
    run(&mut m, &mut now, Request::flush());
    let mut rng = Rng::named(1, "reads");
    let total: f64 = (0..200)
        .map(|_| {
            run(
                &mut m,
                &mut now,
                Request::read(Lba(rng.below(64 * 64) * 8), 8),
            )
        })
        .sum();
    close("us for a random read of 4 KiB", total / 200.0, 137.0);
}

#[test]
fn large_writes_run_at_the_speed_of_the_chips() {
    let (mut m, mut now) = (device(), Time(0));
    let start = now;
    for i in 0..32 {
        run(
            &mut m,
            &mut now,
            Request::write(Lba(i * 1024), Class::Data, data(512)),
        );
    }
    let mb_per_s = 32.0 * 0.524_288 / ((now - start).0 as f64 / 1e9);
    assert!(
        (43.0..53.0).contains(&mb_per_s),
        "the 16 GB part writes 48 MB/s, the model {mb_per_s:.1}"
    );
}

/// Fig. 8 of the paper in the figures that emmc-jbd2.md 7.4 derives from it: the ratio of write and
/// flush to a FUA write at each size, and the totals with a 4 KiB FUA commit behind, flush-at-end
/// against direct, in milliseconds.
#[test]
fn flush_at_end_against_direct_writes_as_in_figure_8() {
    let fua = |kib| {
        mean(kib, |m, now, lba, bytes| {
            run(m, now, Request::write_fua(lba, Class::Data, bytes))
        }) / 1000.0
    };
    let flushed = |kib| {
        let mut share = 0.0;
        let total = mean(kib, |m, now, lba, bytes| {
            let write = run(m, now, Request::write(lba, Class::Data, bytes));
            let flush = run(m, now, Request::flush());
            share += flush / (write + flush) / 150.0;
            write + flush
        });
        (total / 1000.0, share)
    };
    let figure = [
        (4, 1.43, Some((2.76, 2.28))),
        (8, 1.37, None),
        (16, 1.30, None),
        (32, 1.19, None),
        (64, 1.09, Some((4.24, 3.99))),
        (128, 1.00, None),
        (256, 0.94, Some((8.96, 9.46))),
    ];
    let commit = fua(4);
    for (kib, ratio, totals) in figure {
        let ((at_end, share), direct) = (flushed(kib), fua(kib));
        close(&format!("ratio at {kib} KiB"), at_end / direct, ratio);
        assert!(
            share > 0.4,
            "{kib} KiB: flush takes {share:.2} of the time, Fig. 8 more than 0.4"
        );
        if let Some((want_end, want_direct)) = totals {
            close(
                &format!("flush-at-end, {kib} KiB"),
                at_end + commit,
                want_end,
            );
            close(&format!("direct, {kib} KiB"), direct + commit, want_direct);
        }
    }
}

/// As on a Rock64, where a random write of 4 KiB takes 1.1 ms and writes in line do not.
#[test]
fn a_random_write_costs_what_the_profile_says_and_one_in_line_nothing_more() {
    let took = |text: &str, step: u64| {
        let profile = Profile::parse(text).unwrap();
        let mut m = profile.build(Some(64 << 20), None).unwrap();
        m.set_adversary(Adversary::Own);
        let mut now = Time(0);
        let write = |n| Request::write(Lba(8 * step * n), Class::Data, data(4));
        run(&mut m, &mut now, write(0));
        let rounds = 32;
        (1..=rounds)
            .map(|n| run(&mut m, &mut now, write(n)))
            .sum::<f64>()
            / rounds as f64
    };
    let slow = "emmc-odroid-xu4,timing.fig8.random_us=961";
    assert_eq!(took(slow, 1), took("emmc-odroid-xu4", 1), "in line");
    let more = took(slow, 3) - took("emmc-odroid-xu4", 3);
    assert!((more - 961.0).abs() < 1.0, "{more}");
    assert!(Profile::parse("emmc-odroid-xu4,timing.fig8.random_us=-1").is_err());
}
