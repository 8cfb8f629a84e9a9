//! Compares timing set `paper-fit` of `emmc-odroid-xu4` with the primitive costs of set A, within
//! 10 %.

use crate::host::{random, took_ms as run};
use base::{Bytes, Lba, Rng, Time};
use blockdev::{Adversary, Class, PackedWrite, Piece, Request};
use varve_ctrl::{AnyModel, Profile};

fn device() -> AnyModel {
    let profile = Profile::builtin("emmc-odroid-xu4").unwrap();
    assert_eq!(profile.timing(), "fig8", "never the default");
    let profile = profile.with_timing("paper-fit").unwrap();
    let mut m = profile.build(Some(64 << 20), None).unwrap();
    m.set_adversary(Adversary::Own);
    m
}

fn data(blocks: u64) -> Bytes {
    random(&mut Rng::named(blocks, "paper fit"), blocks as usize * 4096)
}

/// Mean in milliseconds over many places. Set A leaves erases out: the first operations, which open
/// a block on each die, do not count, and the others need none.
fn mean(blocks: u64, mut each: impl FnMut(&mut AnyModel, &mut Time, Lba) -> f64) -> f64 {
    let (mut m, mut now) = (device(), Time(0));
    let mut rng = Rng::named(blocks, "places");
    let places = (64 << 20) / 4096 / blocks;
    let mut one = || each(&mut m, &mut now, Lba(rng.below(places) * blocks * 8));
    for _ in 0..8 {
        one();
    }
    (0..100).map(|_| one()).sum::<f64>() / 100.0
}

fn close(what: &str, got: f64, want: f64) {
    let off = got / want - 1.0;
    assert!(
        off.abs() < 0.10,
        "{what}: {got:.3} ms, set A says {want:.3} ({:+.1} %)",
        off * 100.0
    );
}

const BLOCKS: [u64; 6] = [1, 2, 4, 7, 10, 16];

#[test]
fn w_cached_writes() {
    for n in BLOCKS {
        let bytes = data(n);
        let got = mean(n, |m, now, lba| {
            let took = run(m, now, Request::write(lba, Class::Data, bytes.clone()));
            run(m, now, Request::flush());
            took
        });
        close(&format!("W({n})"), got, 0.41 + 0.067 * n as f64);
    }
}

#[test]
fn f_flushes() {
    for n in BLOCKS {
        let bytes = data(n);
        let got = mean(n, |m, now, lba| {
            run(m, now, Request::write(lba, Class::Data, bytes.clone()));
            run(m, now, Request::flush())
        });
        close(&format!("F({n})"), got, 0.45 + 0.069 * n as f64);
    }
}

#[test]
fn p_packed_reliable_writes_and_c_the_commit_block() {
    for n in [2, 4, 7, 10] {
        let bytes = data(n);
        let got = mean(n, |m, now, lba| {
            let entry = |from: u64, to: u64| PackedWrite {
                lba: lba.plus(from * 8),
                pieces: vec![Piece {
                    class: Class::Data,
                    bytes: bytes.slice(from as usize * 4096..to as usize * 4096),
                }],
                fua: true,
            };
            run(
                m,
                now,
                Request::pack(vec![entry(0, n - 1), entry(n - 1, n)]),
            )
        });
        close(&format!("P({n})"), got, 0.41 + 0.067 * n as f64 + 0.80);
    }
    let bytes = data(1);
    let got = mean(1, |m, now, lba| {
        run(m, now, Request::write_fua(lba, Class::Data, bytes.clone()))
    });
    close("C", got, 0.84);
}

#[test]
fn reads() {
    let (mut m, mut now) = (device(), Time(0));
    for i in 0..64 {
        run(
            &mut m,
            &mut now,
            Request::write(Lba(i * 128), Class::Data, data(16)),
        );
    }
    run(&mut m, &mut now, Request::flush());
    let mut rng = Rng::named(1, "reads");
    let mut one = || run(&mut m, &mut now, Request::read(Lba(rng.below(1024) * 8), 8));
    close("read", (0..100).map(|_| one()).sum::<f64>() / 100.0, 0.137);
}
