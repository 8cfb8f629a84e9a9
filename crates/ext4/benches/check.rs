//! Benchmark of the offline checker on the volume of the crash tests: 144 MiB, a log of its default
//! size, a few files.

use base::BlockNo;
use block::Queue;
use blockdev::{Image, Ram};
use divan::{Bencher, black_box, counter::ItemsCount};
use fscore::{Creds, FileKind, FileSystem};
use rt::{Sim, SimConfig};
use std::sync::Arc;
use testkit::brief::MADE;
use varve_ext4::check::{Options, check};
use varve_ext4::mkfs::{self, DeviceContent, MkfsOptions};
use varve_ext4::{Ext4, MountOptions};

const BYTES: u64 = 144 << 20;

fn main() {
    divan::main();
}

/// A volume with this many files of a few blocks, half of them in a directory.
fn volume(files: u64) -> Image {
    let options = MkfsOptions::new(BYTES, [3; 16], [5; 16], MADE);
    let filled = Sim::new(SimConfig::seeded(1)).run(|| {
        let ram = Arc::new(Ram::new(BYTES));
        let plan = mkfs::plan(&options).expect("a volume");
        plan.write(&Queue::new(ram.clone()), DeviceContent::Zeros)
            .expect("written");
        let fs = Ext4::mount(Queue::new(ram.clone()), MountOptions::default()).expect("mounts");
        let root = Creds {
            uid: 0,
            gid: 0,
            umask: 0,
        };
        let dir = fs.mkdir(fs.root(), b"dir", 0o755, root).expect("room").ino;
        for n in 0..files {
            let parent = if n % 2 == 0 { dir } else { fs.root() };
            let name = format!("file {n}");
            let file = fs.create(parent, name.as_bytes(), FileKind::File, 0o644, 0, root);
            let file = file.expect("room").ino;
            fs.write(file, n * 4096, &[n as u8; 10_000]).expect("room");
        }
        fs.unmount().expect("unmounts");
        ram.blocks().into_iter().collect::<Image>()
    });
    filled.unwrap()
}

/// One check of a volume with `files` files.
#[divan::bench(args = [8, 100])]
fn small_volume(bencher: Bencher, files: u64) {
    let image = volume(files);
    let options = Options::new(BYTES / 4096);
    bencher.counter(ItemsCount::new(1u32)).bench_local(|| {
        let read = |block: BlockNo| Ok::<_, std::convert::Infallible>(image.block(block.0));
        let report = check(&read, black_box(&options));
        assert!(report.is_clean(), "{:?}", report.findings);
    });
}
