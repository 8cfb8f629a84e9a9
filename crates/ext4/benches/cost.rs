//! Measures the costs of ext4's own code: the figures behind `base::cost::ext4`, and those behind
//! the blocks of its journal. `cargo xtask calibrate-cpu` runs it and prints table and measurement
//! side by side. A line has: name, nanoseconds for the constant, measured time including everything
//! below.
#![allow(clippy::disallowed_macros)] // Nothing prints inside of a simulation: it cannot hold up a yield.

#[path = "../../f2fs/benches/common/mod.rs"]
mod common;

use base::cost::{ext4 as cost, journal};
use blockdev::Ram;
use fscore::FileSystem;
use std::sync::Arc;
use testkit::brief::MADE;
use varve_ext4::mkfs::{self, DeviceContent, MkfsOptions};
use varve_ext4::{Ext4, MountOptions};

const BYTES: u64 = 1 << 30;

fn mounted() -> Arc<Ext4> {
    let queue = block::Queue::new(Arc::new(Ram::new(BYTES)));
    let options = MkfsOptions::new(BYTES, [3; 16], [5; 16], MADE);
    let plan = mkfs::plan(&options).expect("a volume");
    plan.write(&queue, DeviceContent::Zeros).expect("written");
    let options = MountOptions {
        commit_interval: None,
        writeback_expire: None,
        ..MountOptions::default()
    };
    Ext4::mount(queue, options).expect("mounts")
}

/// Blocks that a commit and its checkpoint write.
fn sync(fs: &Ext4) -> u64 {
    let before = fs.queue().stats().blocks_written_total();
    fs.sync().expect("durable");
    fs.journal().write_back().expect("home");
    fs.queue().stats().blocks_written_total() - before
}

fn main() {
    let own = [
        ("create", cost::CREATE),
        ("mkdir", cost::MKDIR),
        ("unlink", cost::UNLINK),
        ("rmdir", cost::RMDIR),
        ("evict", cost::EVICT),
        ("lookup", cost::LOOKUP),
        ("rename", cost::RENAME),
        ("setattr", cost::SETATTR),
        ("readdir-entry", cost::READDIR_ENTRY),
        ("read-4k", cost::READ_PAGE),
        ("write-4k", cost::WRITE_PAGE),
        ("write-next-page", cost::WRITE_NEXT_PAGE),
        ("read-next-page", cost::READ_NEXT_PAGE),
        ("writeback-page", cost::WRITEBACK_PAGE),
        ("writeback-next-page", cost::WRITEBACK_NEXT_PAGE),
        ("send-block", journal::SEND_BLOCK),
    ];
    let _ = common::measure("ext4", &own, |times| {
        let fs = mounted();
        common::operations(&*fs, times, |times| {
            times.add_counted("send-block", || sync(&fs));
        });
        fs.unmount().expect("unmounts");
    });
}
