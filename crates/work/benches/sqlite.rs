//! Simulated SQLite transactions per wall second, through the whole stack.

#![allow(clippy::disallowed_types)] // The attribute of divan expands to a LazyLock.

use divan::Bencher;
use divan::counter::ItemsCount;
use rig::{Config, Preset};
use varve_work::RunConfig;
use varve_work::run::run;

fn main() {
    divan::main();
}

const WORKLOAD: &str = "sqlite:insert=300,update=300,delete=300";

fn config(scheme: Preset, device: &str) -> RunConfig {
    RunConfig {
        stack: Config::new(scheme, device, 1),
        workload: WORKLOAD.into(),
        seed: 1,
        recording: None,
    }
}

#[divan::bench(args = ["emmc-odroid-xu4", "loop-like"], sample_count = 5)]
fn jbd2(bencher: Bencher, device: &str) {
    bencher.counter(ItemsCount::new(900_u32)).bench(|| {
        run(&config(Preset::Jbd2, device), &mut |_, _| {})
            .map(|f| f.run.ops)
            .unwrap()
    });
}

#[divan::bench(args = ["emmc-odroid-xu4", "loop-like"], sample_count = 5)]
fn none(bencher: Bencher, device: &str) {
    bencher.counter(ItemsCount::new(900_u32)).bench(|| {
        run(&config(Preset::None, device), &mut |_, _| {})
            .map(|f| f.run.ops)
            .unwrap()
    });
}
