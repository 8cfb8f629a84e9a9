//! Measures what F2FS's own code costs: the figures behind `base::cost::f2fs`. `cargo xtask
//! calibrate-cpu` runs this bench and prints the table and the measurement side by side. Each line
//! has a name, the nanoseconds for the constant, and the time taken including everything below.
#![allow(clippy::disallowed_macros)] // Nothing prints inside of a simulation: it cannot hold up a yield.

mod common;

use base::cost::f2fs as cost;
use blockdev::Ram;
use common::{ALL, ROOT, Times, dirs, each, name};
use fscore::{FileKind, FileSystem};
use std::sync::Arc;
use testkit::brief::MADE;
use varve_f2fs::mkfs::{self, DeviceContent, JournalSize, Options};
use varve_f2fs::{F2fs, JournalOptions, MountOptions, measured};

const BYTES: u64 = 1 << 30;
/// Parts in a row.
const PARTS: u32 = 20_000;

fn mounted(journal: bool) -> Arc<F2fs> {
    let queue = block::Queue::new(Arc::new(Ram::new(BYTES)));
    let options = Options {
        journal: journal.then_some(JournalSize::Bytes(64 << 20)),
        ..Options::new(BYTES, [3; 16], MADE)
    };
    let plan = mkfs::plan(&options).expect("a volume");
    plan.write(&queue, DeviceContent::Zeros).expect("written");
    let options = MountOptions {
        timers: false,
        discard: false,
        journal: journal.then(JournalOptions::default),
        ..MountOptions::default()
    };
    F2fs::mount(queue, options).expect("mounts")
}

/// Blocks that a sync writes.
fn sync(fs: &F2fs) -> u64 {
    let before = fs.queue().stats().blocks_written_total();
    fs.sync().expect("durable");
    fs.queue().stats().blocks_written_total() - before
}

/// The parts that are charged under locks, one after the other.
fn parts(times: &mut Times) {
    let fs = mounted(false);
    let n = u64::from(PARTS);
    let mut nids = Vec::new();
    times.add("nat-take", n, || {
        nids = measured::nat_take(&fs, PARTS).expect("free numbers");
    });
    times.add("nat-set", n, || {
        measured::nat_set(&fs, &nids).expect("in memory");
    });
    let mut blocks = Vec::new();
    times.add("seg-take", n, || {
        blocks = measured::seg_take(&fs, PARTS).expect("room");
    });
    times.add("seg-free", n, || {
        measured::seg_free(&fs, &blocks).expect("valid");
    });
    let fs = mounted(false);
    let inos: Vec<_> = (dirs(&*fs).iter())
        .flat_map(|dir| (0..common::FILES).map(|n| create(&fs, *dir, n)))
        .collect();
    times.add("node-edit", ALL, || {
        measured::node_edit(&fs, &inos).expect("in memory");
    });
}

fn create(fs: &F2fs, dir: base::Ino, n: u32) -> base::Ino {
    let made = fs.create(dir, &name(n), FileKind::File, 0o644, 0, ROOT);
    made.expect("room").ino
}

/// What the journal adds to an operation, by the creation of a file, and what a block of a
/// transaction costs.
fn journaled(times: &mut Times, records: u64) {
    for (journal, row) in [(false, "plain"), (true, "journaled")] {
        let fs = mounted(journal);
        let dirs = dirs(&*fs);
        fs.sync().expect("durable");
        times.add(row, records, || {
            each(&dirs, |dir, n| {
                create(&fs, dir, n);
            });
        });
        if journal {
            times.add_counted("log-block", || sync(&fs));
        }
        fs.unmount().expect("unmounts");
    }
}

/// Records that the creation of the files of a round leaves.
fn records() -> u64 {
    let fs = mounted(true);
    let dirs = dirs(&*fs);
    let so_far = || {
        fs.sync().expect("durable");
        fs.journal_stats().expect("a journal").plane.records
    };
    let before = so_far();
    each(&dirs, |dir, n| {
        create(&fs, dir, n);
    });
    let records = so_far() - before;
    fs.unmount().expect("unmounts");
    records
}

/// Parts of logging.
fn logging(times: &mut Times) {
    let n = u64::from(PARTS);
    let fs = mounted(true);
    times.add("log-epoch", n, || measured::log_epochs(&fs, n));
    fs.unmount().expect("unmounts");
    times.add("list-append", n, || measured::list_appends(n));
    let unsorted = measured::Unsorted::new(n);
    times.add("list-sort", n, || {
        unsorted.sort();
    });
    times.add_counted("touch-block", || measured::touch_blocks(PARTS));
}

fn main() {
    let own = [
        ("nat-take", cost::NAT_TAKE),
        ("nat-set", cost::NAT_SET),
        ("seg-take", cost::SEG_TAKE),
        ("seg-free", cost::SEG_FREE),
        ("node-edit", cost::NODE_EDIT),
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
        ("checkpoint-block", cost::META_BLOCK),
        ("log-epoch", cost::EPOCH_OP),
        ("log-record=journaled~plain", cost::LOG_RECORD),
        ("touch-block", cost::TOUCH_BLOCK),
        ("list-append", cost::LIST_APPEND),
        ("list-sort", cost::LIST_SORT),
        ("log-block", cost::LOG_BLOCK),
    ];
    let records = records();
    common::measure("f2fs", &own, |times| {
        parts(times);
        logging(times);
        let fs = mounted(false);
        common::operations(&*fs, times, |times| {
            times.add_counted("checkpoint-block", || sync(&fs));
        });
        fs.unmount().expect("unmounts");
        journaled(times, records);
    });
}
