//! Measures what F2FS's own code costs: the figures behind `base::cost::f2fs`. `cargo xtask
//! calibrate-cpu` runs this bench and prints the table and the measurement side by side. Each line
//! has a name, the nanoseconds for the constant, and the time taken including everything below.
#![allow(clippy::disallowed_macros)] // Nothing prints inside of a simulation: it cannot hold up a yield.

mod common;
mod logged;

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

/// What a block of a transaction costs.
fn transaction(times: &mut Times) {
    let fs = mounted(true);
    let dirs = dirs(&*fs);
    fs.sync().expect("durable");
    each(&dirs, |dir, n| {
        create(&fs, dir, n);
    });
    times.add_counted("log-block", || sync(&fs));
    fs.unmount().expect("unmounts");
}

/// Freeing an inode that has no content.
fn evictions(times: &mut Times) {
    let fs = mounted(false);
    let dirs = dirs(&*fs);
    let mut inos = Vec::new();
    each(&dirs, |dir, n| {
        let ino = create(&fs, dir, n);
        fs.open(ino).expect("there");
        inos.push(ino);
    });
    sync(&fs);
    each(&dirs, |dir, n| fs.unlink(dir, &name(n)).expect("there"));
    times.add("evict-empty", ALL, || {
        (inos.iter()).for_each(|ino| fs.release(*ino).expect("open"));
    });
    fs.unmount().expect("unmounts");
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
    times.add("log-compare", n, || measured::compares(n));
}

/// `--logged OPERATION plain|journaled`: one round of it, and nothing else. False if that was not
/// asked for.
fn alone() -> bool {
    let args: Vec<String> = std::env::args().skip_while(|a| a != "--logged").collect();
    let [_, op, which, ..] = &args[..] else {
        return false;
    };
    logged::alone(op, which == "journaled");
    true
}

fn main() {
    if alone() {
        return;
    }
    let own = [
        ("nat-take", cost::NAT_TAKE),
        ("nat-set", cost::NAT_SET),
        ("seg-take", cost::SEG_TAKE),
        ("seg-free", cost::SEG_FREE),
        ("node-edit", cost::NODE_EDIT),
        ("create-plain", cost::CREATE),
        ("mkdir-plain", cost::MKDIR),
        ("unlink", cost::UNLINK),
        ("unlink-plain", cost::UNLINK_LAST),
        ("rmdir-plain", cost::RMDIR),
        ("evict-empty", cost::EVICT),
        ("drop-map=evict~evict-empty", cost::DROP_MAP),
        ("lookup", cost::LOOKUP),
        ("rename-plain", cost::RENAME),
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
        ("log-compare", cost::LOG_COMPARE),
        ("touch-block", cost::TOUCH_BLOCK),
        ("list-append", cost::LIST_APPEND),
        ("list-sort", cost::LIST_SORT),
        ("log-block", cost::LOG_BLOCK),
    ];
    let measured = common::measure("f2fs", &own, |times| {
        parts(times);
        logging(times);
        let fs = mounted(false);
        common::operations(&*fs, times, |times| {
            times.add_counted("checkpoint-block", || sync(&fs));
        });
        fs.unmount().expect("unmounts");
        evictions(times);
        logged::round(times);
        transaction(times);
    });
    let Some([real, charged]) = measured else {
        return;
    };
    logged_parts(&real, &charged);
}

/// What logging takes, without what other constants stand for: of the operations that free no
/// inode, and then of the others.
fn logged_parts(real: &Times, charged: &Times) {
    let mut per_record = cost::LOG_RECORD.0 as f64;
    for (row, with_ends, of_all) in [
        (
            "log-record",
            false,
            "mean of the operations that free nothing",
        ),
        ("log-end", true, "mean of the operations that free an inode"),
    ] {
        let (mut left, mut records, mut ops) = (0.0, 0.0, 0.0);
        for (op, rows) in logged::OPS {
            if logged::frees(op) != with_ends {
                continue;
            }
            let of = |times: &Times| times.best(rows[1]) - times.best(rows[0]);
            let logged = logged::records(op);
            println!(
                "f2fs/logged-{op}\t{:.0}\t{:.0} charged, {logged:.2} records",
                of(real),
                of(charged)
            );
            left += of(real) - of(charged) + logged * cost::LOG_RECORD.0 as f64;
            records += logged;
            ops += 1.0;
        }
        let part = match with_ends {
            false => left / records,
            true => cost::LOG_END.0 as f64 + left / ops - per_record * records / ops,
        };
        println!("f2fs/{row}\t{part:.0}\t{of_all}");
        if !with_ends {
            per_record = part;
        }
    }
}
