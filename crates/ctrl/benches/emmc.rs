//! Benchmarks of the eMMC model: commands per wall second, snapshots, and rebuilding after a cut.

use base::{Lba, Rng, Time, fill};
use blockdev::{Adversary, Class, Model, PackedWrite, Piece, Request};
use divan::counter::ItemsCount;
use varve_ctrl::{AnyModel, Profile};

const BATCH: u32 = 10_000;
const BLOCKS: u64 = (256 << 20) / 4096;

fn device(adversary: Adversary) -> AnyModel {
    let profile = Profile::builtin("emmc-odroid-xu4").expect("profile");
    let mut model = profile.build(Some(BLOCKS * 4096), None).expect("device");
    model.set_adversary(adversary);
    model
}

fn step(model: &mut AnyModel, now: &mut Time, request: Request) {
    let done = model.execute(*now, request);
    done.result.expect("request");
    *now = done.at;
}

/// 4 KiB writes at random places, a flush after each 64.
fn writes(model: &mut AnyModel, rng: &mut Rng, now: &mut Time, fua: bool) {
    for i in 0..BATCH {
        let block = rng.below(BLOCKS);
        let data = fill::filled(block as u8, 4096);
        let request = match fua {
            true => Request::write_fua(Lba(block * 8), Class::Data, data),
            false => Request::write(Lba(block * 8), Class::Data, data),
        };
        step(model, now, request);
        if i % 64 == 63 {
            step(model, now, Request::flush());
        }
    }
}

#[divan::bench(args = [Adversary::Own, Adversary::Spec])]
fn cached_writes(bencher: divan::Bencher, adversary: Adversary) {
    let (mut model, mut rng, mut now) = (device(adversary), Rng::named(1, "bench"), Time(0));
    bencher
        .counter(ItemsCount::new(BATCH))
        .bench_local(|| writes(&mut model, &mut rng, &mut now, false));
}

/// Random writes on a full device, on which every block has content of its own: each write pays for
/// garbage collection.
#[divan::bench(args = [Adversary::Own, Adversary::Spec])]
fn steady_state_with_collection(bencher: divan::Bencher, adversary: Adversary) {
    let (mut model, mut rng, mut now) = (device(adversary), Rng::named(1, "bench"), Time(0));
    let contents: Vec<base::Bytes> = (0..64u8)
        .map(|seed| {
            let mut bytes = vec![0; 4096];
            Rng::named(seed.into(), "content").fill(&mut bytes);
            bytes.into()
        })
        .collect();
    let mut write = |model: &mut AnyModel, block: u64, i: u64| {
        let data = contents[(i % 64) as usize].clone();
        step(
            model,
            &mut now,
            Request::write(Lba(block * 8), Class::Data, data),
        );
        if i % 64 == 63 {
            step(model, &mut now, Request::flush());
        }
    };
    (0..BLOCKS).for_each(|block| write(&mut model, block, block));
    (0..BLOCKS).for_each(|i| write(&mut model, rng.below(BLOCKS), i));
    let bench = bencher.counter(ItemsCount::new(BATCH));
    bench.bench_local(|| {
        (0..BATCH.into()).for_each(|i| write(&mut model, rng.below(BLOCKS), i));
    });
}

/// Packs of eight FUA writes of 4 KiB; items are writes.
#[divan::bench(args = [Adversary::Own, Adversary::Spec])]
fn packed_writes(bencher: divan::Bencher, adversary: Adversary) {
    let (mut model, mut rng, mut now) = (device(adversary), Rng::named(1, "bench"), Time(0));
    let bench = bencher.counter(ItemsCount::new(BATCH));
    bench.bench_local(|| {
        for _ in 0..BATCH / 8 {
            let block = rng.below(BLOCKS - 8);
            let entry = |i: u64| PackedWrite {
                lba: Lba((block + i) * 8),
                pieces: vec![Piece {
                    class: Class::Data,
                    bytes: fill::filled(block as u8, 4096),
                }],
                fua: true,
            };
            step(
                &mut model,
                &mut now,
                Request::pack((0..8).map(entry).collect()),
            );
        }
    });
}

#[divan::bench]
fn reliable_writes(bencher: divan::Bencher) {
    let (mut model, mut rng, mut now) = (device(Adversary::Spec), Rng::named(1, "bench"), Time(0));
    bencher
        .counter(ItemsCount::new(BATCH))
        .bench_local(|| writes(&mut model, &mut rng, &mut now, true));
}

#[divan::bench]
fn reads(bencher: divan::Bencher) {
    let (mut model, mut rng, mut now) = (device(Adversary::Spec), Rng::named(1, "bench"), Time(0));
    writes(&mut model, &mut rng, &mut now, false);
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        (0..BATCH).for_each(|_| {
            step(
                &mut model,
                &mut now,
                Request::read(Lba(rng.below(BLOCKS) * 8), 8),
            )
        });
    });
}

#[divan::bench]
fn snapshot_and_cut(bencher: divan::Bencher) {
    let (mut model, mut rng, mut now) = (device(Adversary::Spec), Rng::named(1, "bench"), Time(0));
    writes(&mut model, &mut rng, &mut now, false);
    bencher.bench_local(|| {
        step(
            &mut model,
            &mut now,
            Request::write(
                Lba(rng.below(BLOCKS) * 8),
                Class::Data,
                fill::filled(1, 4096),
            ),
        );
        model.clone().power_off(now, 1)
    });
}

#[divan::bench]
fn rebuild_after_cut(bencher: divan::Bencher) {
    let (mut model, mut rng, mut now) = (device(Adversary::Spec), Rng::named(1, "bench"), Time(0));
    writes(&mut model, &mut rng, &mut now, false);
    let profile = Profile::builtin("emmc-odroid-xu4").expect("profile");
    let media = model.power_off(now, 1);
    bencher.bench_local(|| profile.build(None, Some(media.clone())).expect("device"));
}

fn main() {
    divan::main();
}
