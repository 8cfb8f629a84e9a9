//! ext4 under the conformance cases of `vfs`, in both worlds and with and without a journal.

use block::Queue;
use blockdev::Ram;
use ext4::mkfs::{DeviceContent, JournalSize, MkfsOptions, plan};
use ext4::{DataMode, Ext4, MountOptions};
use rt::{Sim, SimConfig, WallTime};
use std::sync::Arc;
use vfs::{FileSystem, conformance};

const BYTES: u64 = 64 << 20;

/// A fresh ext4 on a RAM device.
fn fresh(preset: journal::Preset, data: DataMode) -> Arc<dyn FileSystem> {
    let queue = Queue::new(Arc::new(Ram::new(BYTES)));
    let time = WallTime {
        secs: 1_704_067_200,
        nanos: 0,
    };
    let mut options = MkfsOptions::new(BYTES, [1; 16], [2; 16], time);
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
    conformance::run(|| fresh(journal::Preset::Jbd2, DataMode::Ordered));
}

#[test]
fn simulated() {
    for (preset, data) in [
        (journal::Preset::Jbd2, DataMode::Ordered),
        (journal::Preset::Jbd2, DataMode::Writeback),
        (journal::Preset::Jbd2, DataMode::Journal),
        (journal::Preset::None, DataMode::Ordered),
    ] {
        for case in conformance::cases() {
            let sim = Sim::new(SimConfig::seeded(1));
            sim.run(|| conformance::run_case(case, || fresh(preset, data)))
                .unwrap();
        }
    }
}
