//! Compares `nvme-980pro` and `ufs-generic` with published figures: the table "Device figures" of
//! docs/design/models.md, within 10 %.
#![allow(clippy::disallowed_macros)] // No task and no simulation runs here: printing cannot hold up a yield.

use crate::host::random;
use base::{Bytes, Lba, Nanos, Rng, Time};
use blockdev::{Adversary, Class, Model, Request};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use varve_ctrl::{AnyModel, Profile};

fn device(name: &str) -> AnyModel {
    let profile = Profile::parse(name).unwrap();
    let mut m = profile.build(None, None).unwrap();
    m.set_adversary(Adversary::Own);
    m
}

fn data(bytes: usize) -> Bytes {
    random(&mut Rng::named(1, "calibration"), bytes)
}

/// Lets a host keep `depth` commands under way; answers with the commands per second between the
/// completion of the first tenth and that of the last command.
fn rate(
    m: &mut AnyModel,
    from: Time,
    depth: usize,
    commands: u64,
    mut next: impl FnMut(u64) -> Request,
) -> (f64, Time) {
    let mut under_way: BinaryHeap<Reverse<Time>> = (0..depth).map(|_| Reverse(from)).collect();
    let warm = commands / 10;
    let (mut begin, mut last) = (from, from);
    for i in 0..commands {
        let Reverse(now) = under_way.pop().unwrap();
        if i == warm {
            begin = now;
        }
        let done = m.execute(now, next(i));
        done.result.unwrap();
        last = last.max(done.at);
        under_way.push(Reverse(done.at));
    }
    let Nanos(ns) = last - begin;
    ((commands - warm) as f64 * 1e9 / ns as f64, last)
}

/// The first `mib` MiB, written in order, and on the chips.
fn filled(name: &str, mib: u64) -> (AnyModel, Time) {
    let mut m = device(name);
    let payload = data(256 << 10);
    let (_, end) = rate(&mut m, Time(0), 8, mib * 4, |i| {
        Request::write(Lba(i * 512), Class::Data, payload.clone())
    });
    let done = m.execute(end, Request::flush());
    done.result.unwrap();
    (m, done.at)
}

fn close(what: &str, got: f64, want: f64) {
    let off = got / want - 1.0;
    println!(
        "{what}: {got:.4}, published {want:.4} ({:+.1} %)",
        off * 100.0
    );
    assert!(
        off.abs() < 0.10,
        "{what}: {got:.4}, published {want:.4} ({:+.1} %)",
        off * 100.0
    );
}

fn sequential_read(name: &str, depth: usize) -> f64 {
    let (mut m, now) = filled(name, 256);
    let (per_second, _) = rate(&mut m, now, depth, 1500, |i| {
        Request::read(Lba(i * 256 % (256 * 2048)), 256)
    });
    per_second * 131_072.0 / 1e9
}

fn sequential_write(name: &str, depth: usize, commands: u64) -> f64 {
    let mut m = device(name);
    let payload = data(128 << 10);
    let (per_second, _) = rate(&mut m, Time(0), depth, commands, |i| {
        Request::write(Lba(i * 256), Class::Data, payload.clone())
    });
    per_second * 131_072.0 / 1e9
}

fn random_read(name: &str, depth: usize, commands: u64) -> f64 {
    let (mut m, now) = filled(name, 128);
    let mut rng = Rng::named(1, "reads");
    rate(&mut m, now, depth, commands, |_| {
        Request::read(Lba(rng.below(128 * 256) * 8), 8)
    })
    .0 / 1e3
}

fn random_write(name: &str, depth: usize, commands: u64) -> f64 {
    let mut m = device(name);
    let (mut rng, payload) = (Rng::named(1, "writes"), data(4096));
    rate(&mut m, Time(0), depth, commands, |_| {
        Request::write(Lba(rng.below(128 * 256) * 8), Class::Data, payload.clone())
    })
    .0 / 1e3
}

const SSD: &str = "nvme-980pro";
const UFS: &str = "ufs-generic";

#[test]
fn n1_n2_sequential() {
    close("N1 GB/s read", sequential_read(SSD, 32), 7.0);
    close("N2 GB/s written", sequential_write(SSD, 32, 3000), 5.0);
}

#[test]
fn n3_n4_one_command_at_a_time() {
    close("N3 k/s read", random_read(SSD, 1, 2000), 22.0);
    close("N4 k/s written", random_write(SSD, 1, 4000), 60.0);
}

/// 32 commands in each of 16 threads, as the data sheet says.
#[test]
fn n5_n6_many_commands_at_a_time() {
    close("N5 k/s read", random_read(SSD, 512, 40_000), 1000.0);
    close("N6 k/s written", random_write(SSD, 512, 40_000), 1000.0);
}

/// A write beyond the area of cells with one bit each: the host's data is folded out of the area
/// while it arrives.
#[test]
fn n7_behind_the_slc_area() {
    let mut m = device("nvme-980pro,slc.share=false,slc.mib=560");
    let payload = data(256 << 10);
    let area = 560 * 4;
    let (_, end) = rate(&mut m, Time(0), 32, area, |i| {
        Request::write(Lba(i * 512), Class::Data, payload.clone())
    });
    let (per_second, _) = rate(&mut m, end, 32, 4000, |i| {
        Request::write(Lba((area + i) * 512), Class::Data, payload.clone())
    });
    let rate = per_second * 262_144.0 / 1e9;
    println!("N7 GB/s written behind the area: {rate:.3}");
    // The published 2.0 is not reached (docs/design/models.md); dies that wait for each other while
    // the area is folded give less than half of this.
    assert!(rate > 1.0, "{rate}");
}

#[test]
fn u1_to_u4_ufs() {
    close("U1 GB/s read", sequential_read(UFS, 32), 2.1);
    close("U2 GB/s written", sequential_write(UFS, 32, 2000), 1.2);
    close("U3 k/s read", random_read(UFS, 32, 20_000), 100.0);
    close("U4 k/s written", random_write(UFS, 32, 20_000), 70.0);
}

/// No source gives these figures for the two devices: they are sums of their parts, to be read
/// beside docs/design/models.md.
#[test]
fn what_durability_costs() {
    for name in [SSD, UFS] {
        let (mut m, mut now) = (device(name), Time(0));
        let mut step = |request: Request| {
            let done = m.execute(now, request);
            done.result.unwrap();
            let took = (done.at - now).0 as f64 / 1e3;
            now = Time(done.at.0 + 500_000);
            took
        };
        // Opens the first blocks, which are erased then.
        for _ in 0..64 {
            step(Request::write(Lba(0), Class::Data, data(16 << 10)));
            step(Request::flush());
        }
        let write = step(Request::write(Lba(0), Class::Data, data(4096)));
        let flush = step(Request::flush());
        let idle = step(Request::flush());
        let fua = step(Request::write_fua(Lba(0), Class::Data, data(4096)));
        println!(
            "{name}: write {write:.1} us, flush {flush:.1} us, with nothing to do {idle:.1} us, FUA {fua:.1} us"
        );
        assert!(idle < flush && write < fua && flush < 2000.0);
    }
}
