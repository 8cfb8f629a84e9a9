//! The offline checker on a small volume: 64 MiB with `lost+found`, as mkfs makes it.

#![allow(clippy::disallowed_types)] // The attribute of divan expands to a LazyLock.

use base::{BLOCK_BYTES, BlockNo, Bytes};
use divan::{Bencher, black_box, counter::ItemsCount};
use std::collections::BTreeMap;
use testkit::brief::MADE;
use varve_f2fs::check::{Options, check};
use varve_f2fs::mkfs;

const BYTES: u64 = 64 << 20;

fn main() {
    divan::main();
}

/// One check of a new volume.
#[divan::bench]
fn new_volume(bencher: Bencher) {
    let plan = mkfs::plan(&mkfs::Options::new(BYTES, [3; 16], MADE)).expect("a volume");
    let blocks: BTreeMap<u64, Bytes> = plan
        .blocks()
        .iter()
        .map(|(n, b)| (n.0, b.clone()))
        .collect();
    let zeros = Bytes::from(vec![0; BLOCK_BYTES]);
    let options = Options::new(BYTES / BLOCK_BYTES as u64);
    bencher.counter(ItemsCount::new(1u32)).bench_local(|| {
        let read = |block: BlockNo| {
            let bytes = blocks.get(&block.0).unwrap_or(&zeros);
            Ok::<_, std::convert::Infallible>(bytes.clone())
        };
        let report = check(&read, black_box(&options));
        assert!(report.is_clean(), "{:?}", report.findings);
    });
}
