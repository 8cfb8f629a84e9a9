//! ext4 and ext3 under the conformance cases of `vfs`, in both worlds and with and without a
//! journal.

use block::Queue;
use blockdev::Ram;
use ext4::mkfs::{DeviceContent, JournalSize, Kind, MkfsOptions, plan};
use ext4::{DataMode, Ext4, MountOptions};
use rt::{Sim, SimConfig, WallTime};
use std::sync::Arc;
use testkit::conformance;
use vfs::FileSystem;

const BYTES: u64 = 64 << 20;

/// A fresh file system on a RAM device.
fn fresh(kind: Kind, preset: journal::Preset, data: DataMode) -> Arc<dyn FileSystem> {
    fresh_of((kind, None), preset, data)
}

/// As [`fresh`], in clusters of so many bytes if there are some.
fn fresh_of(
    (kind, cluster): (Kind, Option<u32>),
    preset: journal::Preset,
    data: DataMode,
) -> Arc<dyn FileSystem> {
    let queue = Queue::new(Arc::new(Ram::new(BYTES)));
    let time = WallTime {
        secs: 1_704_067_200,
        nanos: 0,
    };
    let mut options = MkfsOptions::new(BYTES, [1; 16], [2; 16], time);
    options.kind = kind;
    options.cluster_bytes = cluster;
    if preset == journal::Preset::None {
        options.journal = JournalSize::None;
    }
    plan(&options)
        .unwrap()
        .write(&queue, DeviceContent::Zeros)
        .unwrap();
    let options = MountOptions {
        scheme: preset.scheme(),
        data,
        ..MountOptions::default()
    };
    Ext4::mount(queue, options).unwrap()
}

#[test]
fn real_world() {
    conformance::run(|| fresh(Kind::Ext4, journal::Preset::Jbd2, DataMode::Ordered));
}

/// On volumes with clusters, without the cases that count the blocks of a file one by one.
#[test]
fn in_clusters() {
    for (cluster, preset, data) in [
        (8192, journal::Preset::Jbd2, DataMode::Ordered),
        (16_384, journal::Preset::Emmc, DataMode::Journal),
        (16_384, journal::Preset::None, DataMode::Ordered),
    ] {
        const BLOCKS: [&str; 2] = ["fallocate: blocks and size", "fallocate: the size kept"];
        let cases = conformance::cases().into_iter();
        for case in cases.filter(|(name, _)| !BLOCKS.contains(name)) {
            let fresh = || fresh_of((Kind::Ext4, Some(cluster)), preset, data);
            let sim = Sim::new(SimConfig::seeded(1));
            sim.run(|| conformance::run_case(case, fresh)).unwrap();
        }
    }
}

#[test]
fn simulated() {
    for (kind, preset, data) in [
        (Kind::Ext4, journal::Preset::Jbd2, DataMode::Ordered),
        (Kind::Ext4, journal::Preset::Jbd2, DataMode::Writeback),
        (Kind::Ext4, journal::Preset::Jbd2, DataMode::Journal),
        (Kind::Ext4, journal::Preset::None, DataMode::Ordered),
        (Kind::Ext3, journal::Preset::Jbd2, DataMode::Ordered),
        (Kind::Ext3, journal::Preset::Emmc, DataMode::Journal),
        (Kind::Ext3, journal::Preset::None, DataMode::Ordered),
    ] {
        for case in conformance::cases() {
            let sim = Sim::new(SimConfig::seeded(1));
            sim.run(|| conformance::run_case(case, || fresh(kind, preset, data)))
                .unwrap();
        }
    }
}
