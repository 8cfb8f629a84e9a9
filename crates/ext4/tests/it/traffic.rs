//! The traffic of operations to the device, compared block by block with the counts of Linux
//! (contracts.md 4).

use crate::common::{Image, have_tools, made, options_of, pattern};
use base::{Ino, Nanos};
use block::{Class, Queue, QueueStats};
use blockdev::{BlockDevice, Caps, DevError, Ram, Reply, Request, Ticket};
use fscore::FileSystem;
use rt::{Sim, SimConfig};
use std::sync::Arc;
use testkit::Brief;
use varve_ext4::mkfs::MkfsOptions;
use varve_ext4::{Ext4, MountOptions};

/// A RAM device that promises as little as a loop device: a volatile cache and no FUA.
struct LoopLike(Arc<Ram>);

impl BlockDevice for LoopLike {
    fn caps(&self) -> Caps {
        Caps {
            volatile_cache: true,
            fua: false,
            ..self.0.caps()
        }
    }
    fn submit(&self, request: Request) -> Ticket {
        self.0.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        self.0.wait(ticket)
    }
}

struct Rig {
    fs: Arc<Ext4>,
    last: QueueStats,
}

/// Blocks of data, journal metadata, descriptors and commit records, home blocks; flushes.
type Counts = (u64, u64, u64, u64, u64, u64);

impl Rig {
    fn new(image: &Image, options: &str) -> Rig {
        Rig::on(image.load(), options)
    }

    fn on(ram: Arc<Ram>, options: &str) -> Rig {
        let queue = Queue::new(Arc::new(LoopLike(ram)));
        let mut options = MountOptions::parse(options).expect("valid");
        options.commit_interval = None;
        options.writeback_expire = None;
        let fs = Ext4::mount(queue, options).expect("mount");
        let last = fs.queue().stats();
        Rig { fs, last }
    }

    fn file(&self, name: &str) -> Ino {
        self.fs.file(name)
    }

    fn write(&self, ino: Ino, at: u64, len: usize) {
        assert_eq!(
            self.fs.write(ino, at, &pattern(at, len)).expect("write"),
            len
        );
    }

    /// The counts since the last call.
    fn counts(&mut self) -> Counts {
        let now = self.fs.queue().stats();
        let class = |c| now.blocks_written(c) - self.last.blocks_written(c);
        let counts = (
            class(Class::Data),
            class(Class::JournalMetadata),
            class(Class::JournalDescriptor),
            class(Class::JournalCommit),
            class(Class::Home),
            now.flushes - self.last.flushes,
        );
        self.last = now;
        counts
    }
}

/// The system calls of a one-row transaction of SQLite in mode TRUNCATE with synchronous=FULL.
fn truncate_mode(rig: &Rig, db: Ino, journal: Ino) {
    rig.write(journal, 0, 4616);
    rig.write(journal, 4616, 4);
    rig.write(journal, 4620, 4096);
    rig.write(journal, 8716, 4);
    rig.fs.fsync(journal, true).expect("fdatasync");
    rig.write(journal, 0, 12);
    rig.fs.fsync(journal, true).expect("fdatasync");
    rig.write(db, 0, 4096);
    rig.write(db, 8192, 4096);
    rig.fs.fsync(db, true).expect("fdatasync");
    rig.fs.resize(journal, 0).expect("truncate");
    rig.fs.fsync(journal, true).expect("fdatasync");
}

#[test]
fn a_transaction_of_sqlite_in_truncate_mode() {
    if !have_tools() {
        return;
    }
    let image = Image::new(256, &[]);
    let mut rig = Rig::new(&image, "");
    let (db, journal) = (rig.file("db"), rig.file("db-journal"));
    rig.write(db, 0, 40_960);
    rig.fs.sync().expect("sync");
    truncate_mode(&rig, db, journal);
    rig.counts();
    for _ in 0..5 {
        truncate_mode(&rig, db, journal);
        // Commit 1: block bitmap, group descriptor, inode table. Commit 2: these three blocks and
        // the superblock (list of orphans). Data: three journal blocks, its header again, two
        // pages. Two flushes per commit, one per overwrite in place.
        assert_eq!(rig.counts(), (3 + 1 + 2, 3 + 4, 2, 2, 0, 2 + 1 + 1 + 2));
    }
}

#[test]
fn fdatasync_of_an_overwrite_commits_nothing() {
    if !have_tools() {
        return;
    }
    let image = Image::new(64, &[]);
    let mut rig = Rig::new(&image, "");
    let ino = rig.file("f");
    rig.write(ino, 0, 8192);
    rig.fs.fsync(ino, false).expect("fsync");
    rig.counts();
    rig.write(ino, 4096, 4096);
    rig.fs.fsync(ino, true).expect("fdatasync");
    assert_eq!(rig.counts(), (1, 0, 0, 0, 0, 1));
    // A time stamp that has changed counts for fsync; within one tick of the clock nothing has.
    rt::sleep(base::Nanos::from_millis(10));
    rig.write(ino, 4096, 4096);
    rig.fs.fsync(ino, false).expect("fsync");
    assert_eq!(rig.counts(), (1, 1, 1, 1, 0, 2));
    // A size that grows inside a mapped block counts for fdatasync as well.
    rig.write(ino, 8192, 100);
    rig.fs.fsync(ino, true).expect("fdatasync");
    rig.counts();
    rig.write(ino, 8292, 100);
    rig.fs.fsync(ino, true).expect("fdatasync");
    assert_eq!(rig.counts(), (1, 1, 1, 1, 0, 2));
    // Nothing to do: only the flush that fsync owes (none if nothing completed since the last).
    rig.fs.fsync(ino, true).expect("fdatasync");
    assert_eq!(rig.counts(), (0, 0, 0, 0, 0, 0));
}

/// Times of an inode of 128 bytes have whole seconds, so a rewrite in the second of the last one
/// leaves nothing for its fsync to commit; of one of 256 bytes each tick does.
#[test]
fn times_of_small_inodes_change_once_a_second() {
    for (inode_bytes, commits_within) in [(128, 0), (256, 1)] {
        let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
            let made = made(&MkfsOptions {
                inode_bytes,
                ..options_of(64)
            });
            let mut rig = Rig::on(made, "");
            let ino = rig.file("f");
            rig.write(ino, 0, 4096);
            rig.fs.fsync(ino, false).expect("fsync");
            // To the start of a second.
            rt::sleep(Nanos(1_000_000_000 - u64::from(rt::wall().nanos)));
            for (millis, commits) in [(5, 1), (900, commits_within), (200, 1)] {
                rt::sleep(Nanos::from_millis(millis));
                rig.counts();
                rig.write(ino, 0, 4096);
                rig.fs.fsync(ino, false).expect("fsync");
                let (data, _, _, written, ..) = rig.counts();
                assert_eq!((data, written), (1, commits), "{inode_bytes}, {millis} ms");
            }
            rig.fs.clone().unmount().expect("unmount");
        });
        outcome.unwrap();
    }
}

#[test]
fn without_journal_fsync_writes_home_what_is_needed() {
    if !have_tools() {
        return;
    }
    let image = Image::new(64, &[]);
    let mut rig = Rig::new(&image, "scheme=none");
    let ino = rig.file("f");
    rig.fs.sync().expect("sync");
    rig.counts();
    rig.write(ino, 0, 4096);
    rig.fs.fsync(ino, false).expect("fsync");
    let (data, logged, _, _, home, flushes) = rig.counts();
    assert_eq!((data, logged, flushes), (1, 0, 1));
    assert!(
        (1..=3).contains(&home),
        "the inode, and the new file's directory: {home}"
    );
}

#[test]
fn without_journal_fdatasync_leaves_times_where_they_are() {
    if !have_tools() {
        return;
    }
    let image = Image::new(64, &[]);
    let mut rig = Rig::new(&image, "scheme=none");
    let ino = rig.file("f");
    rig.write(ino, 0, 8192);
    // The first fsync knows nothing of the file's past, and the file has a new entry in a
    // directory.
    rig.fs.fsync(ino, true).expect("fdatasync");
    rig.counts();
    let mut home_of = |len: usize, data_only| {
        rt::sleep(base::Nanos::from_millis(10));
        rig.write(ino, 4096, len);
        rig.fs.fsync(ino, data_only).expect("sync");
        let (data, logged, _, _, home, flushes) = rig.counts();
        assert_eq!((logged, flushes), (0, 1));
        (data, home)
    };
    home_of(4096, true);
    assert_eq!(home_of(4096, true), (1, 0), "only the time has changed");
    assert_eq!(home_of(4096, false), (1, 1), "fsync wants the time as well");
    assert_eq!(home_of(4096, true), (1, 0));
    // That block of the inode table, which the last fsync did not write, is written with the first
    // change that counts.
    assert_eq!(home_of(4100, true), (2, 1), "one more block is mapped");
    assert_eq!(home_of(4110, true), (2, 1), "a size that grows");
    assert_eq!(home_of(4110, true), (2, 0));
    rig.fs.resize(ino, 100).expect("truncate");
    rig.fs.fsync(ino, true).expect("fdatasync");
    assert_eq!(rig.counts().4, 1, "a size that shrinks");
    // The root's inode lies in the same block of the table.
    rig.fs.fsync(rig.fs.root(), false).expect("fsync");
    rig.counts();
    rt::sleep(base::Nanos::from_millis(10));
    rig.write(ino, 0, 100);
    rig.fs.fsync(ino, true).expect("fdatasync");
    rig.fs.fsync(rig.fs.root(), false).expect("fsync");
    assert_eq!(
        rig.counts().4,
        0,
        "a directory in which nothing has changed"
    );
}

#[test]
fn neighbouring_pages_go_in_one_command() {
    if !have_tools() {
        return;
    }
    let image = Image::new(64, &[]);
    let rig = Rig::new(&image, "");
    let ino = rig.file("f");
    rig.write(ino, 0, 1 << 20);
    let before = rig.fs.queue().stats();
    rig.fs.writeback(rt::now()).expect("writeback");
    let after = rig.fs.queue().stats();
    assert_eq!(after.write_commands - before.write_commands, 1);
    assert_eq!(
        after.blocks_written(Class::Data),
        before.blocks_written(Class::Data) + 256
    );
}
