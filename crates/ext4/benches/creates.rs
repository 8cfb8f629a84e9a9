//! Benchmark: empty files created per wall second in the simulation, on one core, with the last
//! commit at unmount. `crates/f2fs/benches/creates.rs` measures F2FS in this way.

#![allow(clippy::disallowed_types)] // The attribute of divan expands to a LazyLock.

use block::Queue;
use blockdev::Ram;
use divan::{Bencher, counter::ItemsCount};
use fscore::FileSystem;
use rt::{Sim, SimConfig};
use std::sync::Arc;
use testkit::Brief;
use testkit::brief::MADE;
use varve_ext4::mkfs::{self, DeviceContent, MkfsOptions};
use varve_ext4::{Ext4, MountOptions};

const BYTES: u64 = 2 << 30;

fn main() {
    divan::main();
}

/// Creates `dirs` directories with `files` files each on a fresh volume.
fn create(dirs: u32, files: u32) {
    let done = Sim::new(SimConfig::seeded(1)).run(move || {
        let queue = Queue::new(Arc::new(Ram::new(BYTES)));
        let options = MkfsOptions::new(BYTES, [3; 16], [5; 16], MADE);
        let plan = mkfs::plan(&options).expect("a volume");
        plan.write(&queue, DeviceContent::Zeros).expect("written");
        let fs = Ext4::mount(queue, MountOptions::default()).expect("mounts");
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

/// 50,000 files, `files` in each directory.
#[divan::bench(args = [100, 1000, 10_000], sample_count = 5, sample_size = 1)]
fn empty_files(bencher: Bencher, files: u32) {
    const ALL: u32 = 50_000;
    let bench = bencher.counter(ItemsCount::new(ALL));
    bench.bench_local(|| create(ALL / files, files));
}
