//! Benchmark of the NVMe model: commands per wall second, of 4 KiB at random places with 32
//! commands under way.

use base::{Lba, Rng, Time, fill};
use blockdev::{Adversary, Class, Model, Request};
use divan::counter::ItemsCount;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use varve_ctrl::{AnyModel, Profile};

const BATCH: u32 = 20_000;
/// Range that is written to. It is smaller than the SLC area, so that the path of a command is
/// measured, not folding.
const BLOCKS: u64 = (64 << 20) / 4096;
const DEPTH: usize = 32;

/// A device, and a host that gives the next command when one completes.
struct Host {
    model: AnyModel,
    under_way: BinaryHeap<Reverse<Time>>,
    rng: Rng,
}

impl Host {
    fn new(profile: &str, adversary: Adversary) -> Host {
        let profile = Profile::parse(profile).expect("profile");
        let mut model = profile.build(None, None).expect("device");
        model.set_adversary(adversary);
        Host {
            model,
            under_way: (0..DEPTH).map(|_| Reverse(Time(0))).collect(),
            rng: Rng::named(1, "bench"),
        }
    }
    fn step(&mut self, request: Request) {
        let Reverse(now) = self.under_way.pop().expect("the depth is not zero");
        let done = self.model.execute(now, request);
        done.result.expect("request");
        self.under_way.push(Reverse(done.at));
    }
    fn writes(&mut self, flush_after: u32) {
        for i in 0..BATCH {
            let block = self.rng.below(BLOCKS);
            let data = fill::filled(block as u8, 4096);
            self.step(Request::write(Lba(block * 8), Class::Data, data));
            if i % flush_after == flush_after - 1 {
                self.step(Request::flush());
            }
        }
    }
}

#[divan::bench(args = [Adversary::Own, Adversary::Spec])]
fn cached_writes(bencher: divan::Bencher, adversary: Adversary) {
    let mut host = Host::new("nvme-980pro", adversary);
    let bench = bencher.counter(ItemsCount::new(BATCH));
    bench.bench_local(|| host.writes(1024));
}

#[divan::bench]
fn cached_writes_ufs(bencher: divan::Bencher) {
    let mut host = Host::new("ufs-generic", Adversary::Own);
    let bench = bencher.counter(ItemsCount::new(BATCH));
    bench.bench_local(|| host.writes(1024));
}

#[divan::bench]
fn fua_writes(bencher: divan::Bencher) {
    let mut host = Host::new("nvme-980pro", Adversary::Own);
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        for _ in 0..BATCH {
            let block = host.rng.below(BLOCKS);
            let data = fill::filled(block as u8, 4096);
            host.step(Request::write_fua(Lba(block * 8), Class::Data, data));
        }
    });
}

#[divan::bench]
fn reads(bencher: divan::Bencher) {
    let mut host = Host::new("nvme-980pro", Adversary::Own);
    host.writes(1024);
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        for _ in 0..BATCH {
            let block = host.rng.below(BLOCKS);
            host.step(Request::read(Lba(block * 8), 8));
        }
    });
}

fn main() {
    divan::main();
}
