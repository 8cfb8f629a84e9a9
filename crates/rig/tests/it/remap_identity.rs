//! The write-count identities of journal remapping, for runs whose transactions are the same (same
//! seed, one task, no timers):
//!
//! - A: the writes that a copying run makes and a remapping run does not are exactly the remapped
//!   blocks: counted in blocks at the queue, and in pages on the flash (8 of 512 bytes per block on
//!   `nandsim-2007`);
//! - B: the log has the same number of blocks of every class.
//!
//! When several transactions log one block between two checkpoints, copying writes it home once,
//! and remapping remaps each of its images. So the number of remapped pairs equals the number of
//! home writes saved if a checkpoint follows each commit, and is larger otherwise.

#![allow(
    clippy::disallowed_macros,
    reason = "what was counted goes to stdout; outside of simulations"
)]

use block::{Class, QueueStats};
use blockdev::{Clock, FlashStats, Model};

use rt::{Sim, SimConfig};
use varve_rig::{Config, Data, Fs, Preset, Stack};
use vfs::{Creds, FileKind};

/// What the log consists of, the superblock apart: how often the tail moves is not the
/// transactions' business.
const LOG: [Class; 5] = [
    Class::JournalData,
    Class::JournalDescriptor,
    Class::JournalMetadata,
    Class::JournalRevoke,
    Class::JournalCommit,
];
/// NAND pages in a block of the file system.
const PAGES: u64 = 8;

#[derive(Clone, Copy, Debug)]
struct How {
    fs: Fs,
    data: Data,
    /// A checkpoint follows each commit.
    checkpoints: bool,
}

#[derive(Debug)]
struct Counts {
    queue: QueueStats,
    flash: FlashStats,
    remapped: u64,
    refused: u64,
    transactions: u64,
    superblocks: u64,
}

impl Counts {
    fn blocks(&self, classes: &[Class]) -> u64 {
        classes.iter().map(|c| self.queue.blocks_written(*c)).sum()
    }
    /// Pages programmed for the host: without the map's, and without copies of garbage collection.
    fn host_programs(&self) -> u64 {
        assert_eq!(self.flash.gc_copies, 0, "the device is large enough");
        self.flash.programs - self.flash.map_programs
    }
}

/// Files are written, overwritten, cut and removed, each step made durable.
fn play(preset: Preset, how: How) -> Counts {
    let outcome = Sim::new(SimConfig::seeded(7)).run(move || {
        let mut config = Config::new(preset, "nandsim-2007", 7);
        (config.fs, config.data, config.bytes) = (how.fs, how.data, 64 << 20);
        (config.timers, config.journal_blocks) = (false, Some(1024));
        let model = config.format().expect("formats");
        let stack = Stack::mount(model, &config, Clock::Runtime).expect("mounts");
        let fs = &stack.fs.seam();
        let journal = stack.fs.journal().expect("ext4 has one");
        let creds = || Creds {
            uid: 0,
            gid: 0,
            umask: 0,
        };
        let step = || {
            if how.checkpoints {
                journal.checkpoint_all().expect("goes home");
            }
        };
        // Numbers and not the names themselves: rustc 1.95 loses the second part of a
        // `([u8; 2], u32)` that is pushed in a loop (docs/results/rustc-pairs.md).
        let name = |n: u8| [b'f', b'a' + n];
        let mut files = Vec::new();
        for n in 0..12u8 {
            let made = fs.create(fs.root(), &name(n), FileKind::File, 0o644, 0, creds());
            let ino = made.expect("room").ino;
            fs.write(ino, 0, &vec![n + 1; 5 * 4096 + 700])
                .expect("written");
            fs.fsync(ino, false).expect("durable");
            files.push((n, ino));
            step();
        }
        for round in 0..3u8 {
            for &(_, ino) in &files {
                fs.write(ino, 8192, &[0x80 + round; 4096]).expect("written");
                fs.fsync(ino, false).expect("durable");
                step();
            }
        }
        for &(n, _) in &files[..6] {
            fs.unlink(fs.root(), &name(n)).expect("unlinked");
        }
        fs.sync().expect("durable");
        step();
        let stats = journal.stats();
        let queue = stack.queue.clone();
        let superblocks = queue.stats().blocks_written(Class::JournalSuperblock);
        let model = stack.unmount().expect("unmounts");
        Counts {
            queue: queue.stats(),
            flash: model.flash_stats().expect("flash below"),
            remapped: stats.blocks_remapped,
            refused: stats.remaps_refused,
            transactions: stats.transactions,
            superblocks,
        }
    });
    outcome.unwrap()
}

#[test]
fn remapping_saves_the_home_writes_and_nothing_else_changes() {
    for fs in [Fs::Ext4, Fs::Ext3] {
        for data in [Data::Ordered, Data::Writeback, Data::Journal] {
            for checkpoints in [true, false] {
                let how = How {
                    fs,
                    data,
                    checkpoints,
                };
                identities(how);
            }
        }
    }
}

fn identities(how: How) {
    let (copy, remap) = (play(Preset::Jbd2, how), play(Preset::Jftl, how));
    assert_eq!(copy.transactions, remap.transactions, "{how:?}");
    for class in LOG {
        let of = |c: &Counts| c.queue.blocks_written(class);
        assert_eq!(of(&copy), of(&remap), "B: {class:?}, {how:?}");
    }
    let homes = |c: &Counts| c.blocks(&[Class::Home, Class::Data]);
    let saved = homes(&copy) - homes(&remap);
    assert_eq!(
        (remap.refused, remap.queue.remaps > 0),
        (0, true),
        "{how:?}"
    );
    if how.checkpoints {
        assert_eq!(saved, remap.queue.remap_pairs, "A: blocks, {how:?}");
        assert_eq!(copy.superblocks, remap.superblocks, "B: {how:?}");
    } else {
        assert!(saved > 0 && saved <= remap.queue.remap_pairs, "A: {how:?}");
    }
    let moved = |c: &Counts| c.queue.blocks_written(Class::JournalSuperblock);
    // What else is written: the superblocks of log and file system. So pages differ by the blocks
    // that do.
    let total = |c: &Counts| c.queue.blocks_written_total();
    let blocks = (total(&copy) - total(&remap)) as i64;
    let superblocks = moved(&copy) as i64 - moved(&remap) as i64;
    assert_eq!(blocks - superblocks, saved as i64, "A: all blocks, {how:?}");
    let pages = copy.host_programs() as i64 - remap.host_programs() as i64;
    assert_eq!(pages, blocks * PAGES as i64, "A: pages, {how:?}");
    println!(
        "{:?} {:?} checkpoints={}: {} transactions, blocks {} and {}, home writes saved {saved}, pairs {}, pages {} and {}, map pages {} and {}",
        how.fs,
        how.data,
        how.checkpoints,
        copy.transactions,
        total(&copy),
        total(&remap),
        remap.queue.remap_pairs,
        copy.host_programs(),
        remap.host_programs(),
        copy.flash.map_programs,
        remap.flash.map_programs,
    );
    assert!(remap.remapped <= remap.queue.remap_pairs, "{how:?}");
}
