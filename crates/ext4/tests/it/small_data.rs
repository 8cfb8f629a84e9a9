//! Small data of an fsync that goes through the log (`file/small.rs`): what it costs, and what of
//! it is found after a cut that loses everything that was not promised.
#![allow(clippy::disallowed_methods)]

use crate::data_path::{MIB, Tear, caps, new_volume};
use base::{Ino, Nanos, Time};
use block::{Class, Queue, QueueStats};
use blockdev::SpecDisk;
use fscore::{FallocateMode, FileSystem};
use rt::{Sim, SimConfig};
use std::sync::Arc;
use testkit::Brief;
use varve_ext4::{Ext4, MountOptions};

const BYTES: u64 = 16 * MIB;

struct Life {
    disk: Arc<SpecDisk>,
    queue: Arc<Queue>,
    fs: Arc<Ext4>,
}

impl Life {
    fn create(&self, name: &str) -> Ino {
        let root = self.fs.root();
        (self.fs).make(root, name).expect("made")
    }

    fn write(&self, ino: Ino, page: u64, byte: u8, pages: usize) {
        let data = vec![byte; pages * 4096];
        let n = self.fs.write(ino, page * 4096, &data).expect("written");
        assert_eq!(n, data.len());
    }

    /// A new file of one page that an fsync has logged.
    fn logged(&self, name: &str, byte: u8) -> Ino {
        let ino = self.create(name);
        self.write(ino, 0, byte, 1);
        let logged = self.logged_blocks();
        self.fs.fsync(ino, true).expect("synced");
        assert_eq!(
            self.logged_blocks(),
            logged + 1,
            "its data went through the log"
        );
        ino
    }

    fn logged_blocks(&self) -> u64 {
        self.queue.stats().blocks_written(Class::JournalData)
    }

    fn costs(&self, body: impl FnOnce()) -> Costs {
        let of = |s: QueueStats| (s.flushes, s.fua_commands, s.write_commands);
        let before = of(self.queue.stats());
        body();
        let after = of(self.queue.stats());
        Costs {
            flushes: after.0 - before.0,
            fua: after.1 - before.1,
            writes: after.2 - before.2,
        }
    }

    /// The content of a file after a cut at this moment that loses everything it may.
    fn after_a_cut(&self, name: &str) -> Vec<u8> {
        let cut = Arc::new(self.disk.snapshot_lost().to_ram(BYTES));
        let fs = Ext4::mount(Queue::new(cut), options("")).expect("recovers");
        let content = read(&fs, name);
        fs.unmount().expect("unmounts");
        content
    }
}

#[derive(PartialEq, Eq, Debug)]
struct Costs {
    flushes: u64,
    fua: u64,
    writes: u64,
}

fn read(fs: &Ext4, name: &str) -> Vec<u8> {
    let ino = fs.find(name);
    let size = fs.getattr(ino).expect("there").size as usize;
    let mut buf = vec![0; size];
    assert_eq!(fs.read(ino, 0, &mut buf).expect("readable"), size);
    buf
}

fn options(more: &str) -> MountOptions {
    let mut options =
        MountOptions::parse(&format!("scheme=emmc,small=64,{more}")).expect("options");
    options.writeback_expire = None;
    options
}

fn live(more: &'static str, body: impl FnOnce(&Life) + Send + 'static) {
    let start = new_volume(16);
    let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
        let disk = SpecDisk::from_image(caps(BYTES, Tear::Blocks), start, 1);
        let queue = Queue::new(disk.clone());
        let fs = Ext4::mount(queue.clone(), options(more)).expect("mounts");
        let life = Life { disk, queue, fs };
        body(&life);
        life.fs.unmount().expect("unmounts");
    });
    outcome.unwrap();
}

/// The purpose of small data: an appending log (SQLite's WAL) pays one non-volatile write for each
/// commit, and no flush.
#[test]
fn an_fsync_that_appends_is_one_write() {
    for more in ["", "commit-by=caller"] {
        live(more, |life| {
            let file = life.logged("wal", 1);
            let mut writes = 0;
            for n in 1..6 {
                rt::sleep(Nanos::from_millis(20));
                life.write(file, n, n as u8 + 1, 1);
                let costs = life.costs(|| life.fs.fsync(file, true).expect("synced"));
                // There are two writes where the blocks of the log file are not contiguous.
                assert!(costs.flushes == 0 && costs.fua == costs.writes, "{costs:?}");
                assert!(costs.writes <= 2, "{costs:?}");
                writes += costs.writes;
                let content = life.after_a_cut("wal");
                assert_eq!(content.len(), (n as usize + 1) * 4096);
                assert!(
                    content
                        .chunks(4096)
                        .zip(1..)
                        .all(|(c, b)| c == vec![b; 4096])
                );
            }
            assert!(writes <= 6, "{writes} writes for 5 appends");
        });
    }
}

/// An overwrite in place that needs no commit logs nothing: one write, one flush.
#[test]
fn an_overwrite_of_what_the_log_never_had_goes_home() {
    live("", |life| {
        let file = life.create("db");
        life.write(file, 0, 1, 64);
        life.fs.fsync(file, false).expect("synced");
        assert_eq!(life.logged_blocks(), 0, "too much to be logged");
        rt::sleep(Nanos::from_millis(20));
        life.write(file, 3, 2, 1);
        let costs = life.costs(|| life.fs.fsync(file, true).expect("synced"));
        let one = Costs {
            flushes: 1,
            fua: 0,
            writes: 1,
        };
        assert_eq!(costs, one);
        assert_eq!(life.after_a_cut("db")[3 * 4096..4 * 4096], vec![2; 4096]);
    });
}

/// small-S2: replay must not bring earlier logged content back.
#[test]
fn what_the_log_holds_is_logged_again() {
    live("", |life| {
        let file = life.logged("f", 1);
        life.write(file, 0, 2, 1);
        life.fs.fsync(file, true).expect("synced");
        assert_eq!(life.after_a_cut("f"), vec![2; 4096]);
        // The page is written by write-back, together with pages that the log does not hold.
        life.write(file, 0, 3, 40);
        life.fs.writeback(Time(u64::MAX)).expect("sent");
        life.fs.fsync(file, true).expect("synced");
        assert_eq!(life.after_a_cut("f"), vec![3; 40 * 4096]);
    });
}

/// small-S2, over blocks that have become unwritten since.
#[test]
fn blocks_that_became_unwritten_are_logged_again() {
    live("", |life| {
        let file = life.logged("f", 1);
        (life.fs)
            .fallocate(file, FallocateMode::ZeroRange, 0, 4096)
            .expect("zeroed");
        life.fs.fsync(file, true).expect("synced");
        assert_eq!(life.after_a_cut("f"), vec![0; 4096]);
        life.write(file, 0, 2, 40);
        life.fs.fsync(file, true).expect("synced");
        assert_eq!(life.after_a_cut("f"), vec![2; 40 * 4096]);
    });
}

/// small-S2: home is older than the log until a checkpoint.
#[test]
fn it_is_read_from_the_log_until_it_is_home() {
    live("", |life| {
        let file = life.logged("f", 7);
        life.write(file, 1, 8, 1);
        life.fs.fsync(file, true).expect("synced");
        for at_home in [false, true] {
            if at_home {
                life.fs.journal().checkpoint_all().expect("goes home");
            }
            life.fs.drop_caches();
            let content = read(&life.fs, "f");
            assert_eq!(content, [vec![7; 4096], vec![8; 4096]].concat());
        }
        // From now on the log holds no image of the block.
        life.write(file, 0, 9, 1);
        rt::sleep(Nanos::from_millis(1));
        life.fs.writeback(Time(u64::MAX)).expect("sent");
        life.fs.fsync(file, true).expect("synced");
        life.fs.drop_caches();
        assert_eq!(read(&life.fs, "f")[..4096], vec![9; 4096]);
        assert_eq!(life.after_a_cut("f")[..4096], vec![9; 4096]);
    });
}

/// small-S2: the zeros behind a new end.
#[test]
fn a_cut_tail_stays_zero() {
    live("", |life| {
        let file = life.logged("f", 5);
        life.write(file, 0, 6, 1);
        let resize = |size| {
            life.fs.resize(file, size).expect("resized");
        };
        resize(100);
        resize(4096);
        life.fs.fsync(file, false).expect("synced");
        let wanted = [vec![6; 100], vec![0; 3996]].concat();
        assert_eq!(life.after_a_cut("f"), wanted);
        life.fs.drop_caches();
        assert_eq!(read(&life.fs, "f"), wanted);
    });
}

/// small-S3: the next owner of a block keeps the content that it wrote, after recovery and after a
/// late home write.
#[test]
fn a_freed_block_is_revoked() {
    live("", |life| {
        for n in 0..40 {
            life.logged(&format!("f{n}"), 1);
        }
        let root = life.fs.root();
        for n in 0..40 {
            let name = format!("f{n}");
            life.fs.unlink(root, name.as_bytes()).expect("removed");
        }
        life.fs.fsync(root, false).expect("synced");
        // Everything that is free, past the log.
        let next = life.create("next");
        let free = life.fs.statfs().expect("known").blocks_free as usize;
        let pages = free - 64;
        life.write(next, 0, 2, pages);
        life.fs.fsync(next, false).expect("synced");
        assert_eq!(life.after_a_cut("next"), vec![2; pages * 4096]);
        life.fs.journal().checkpoint_all().expect("goes home");
        assert_eq!(life.after_a_cut("next"), vec![2; pages * 4096]);
    });
}
