//! Empty files created per wall second in the simulation, on one core: once with the checkpoints
//! that the triggers cause, and once with only the checkpoint at unmount.
//! `crates/ext4/benches/creates.rs` does the same with ext4.

#![allow(clippy::disallowed_types)] // The attribute of divan expands to a LazyLock.

use blockdev::Ram;
use divan::{Bencher, counter::ItemsCount};
use fscore::FileSystem;
use rt::{Sim, SimConfig};
use std::sync::Arc;
use testkit::Brief;
use testkit::brief::MADE;
use varve_f2fs::mkfs::{self, DeviceContent, Options};
use varve_f2fs::{F2fs, MountOptions};

const BYTES: u64 = 2 << 30;

fn main() {
    divan::main();
}

/// Creates `dirs` directories with `files` files each on a fresh volume.
fn create(dirs: u32, files: u32) {
    let done = Sim::new(SimConfig::seeded(1)).run(move || {
        let ram = Arc::new(Ram::new(BYTES));
        let queue = block::Queue::new(ram);
        let plan = mkfs::plan(&Options::new(BYTES, [3; 16], MADE)).expect("a volume");
        plan.write(&queue, DeviceContent::Zeros).expect("written");
        let fs = F2fs::mount(queue, MountOptions::default()).expect("mounts");
        for d in 0..dirs {
            let dir = fs.dir(format!("dir {d}"));
            for n in 0..files {
                fs.make(dir, format!("file {n}")).expect("room");
            }
        }
        fs.unmount().expect("unmounts");
    });
    done.unwrap();
}

/// 50,000 files, so many to a directory.
#[divan::bench(args = [100, 1000, 10_000], sample_count = 5, sample_size = 1)]
fn empty_files(bencher: Bencher, files: u32) {
    const ALL: u32 = 50_000;
    let bench = bencher.counter(ItemsCount::new(ALL));
    bench.bench_local(|| create(ALL / files, files));
}
