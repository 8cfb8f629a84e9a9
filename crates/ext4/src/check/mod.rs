//! The offline checker: finds, by reading alone, violations of the rules for metadata.
//!
//! ```text
//!  superblock -> groups -> journal, orphans -> inodes (mappings, attributes) -> directories -> links -> bitmaps, counts
//!                  |                             |                                |             |
//!                zone: what has a fixed place    usage: who owns which block      files: facts of each inode
//! ```
//!
//! Invariants:
//! - C1 nothing is written, no task is started, no lock of `rt` is taken: a check may run on any
//!   thread and inside a simulation;
//! - C2 no content makes it panic, run on without end or take memory beyond what the used parts of
//!   the volume need: a tree is followed into a block once, a range is clipped to the volume, a
//!   group without owners has no bitmap in memory;
//! - C3 a volume without findings is one that `e2fsck -fn` has nothing to say about; the exceptions
//!   are in `docs/use/fsck.md`.
//!
//! Sources: kernel documentation `filesystems/ext4/*.rst`; what e2fsck 1.47 says of mutated images.

mod bitmaps;
mod blockmap;
mod crypt;
mod dirs;
mod extents;
mod finding;
mod groups;
mod htree;
mod inline;
mod inodes;
mod journal;
mod links;
mod mapping;
mod mmp;
mod orphans;
mod quota;
mod rescue;
mod resize;
mod state;
mod superblock;
mod symlink;
mod usage;
mod volume;
mod xattrs;

pub use finding::{Finding, Kind};
pub(crate) use rescue::backup_places;

use base::{BlockNo, Bytes, Ino};
use finding::Findings;
use fscore::check::Reader;
use ondisk::ext4::{FileType, SUPERBLOCK_AT, Superblock};
use state::State;
use std::collections::BTreeSet;
use std::fmt::Display;
use volume::Volume;

/// What a check is told about the volume and its device.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whole blocks of 4 KiB of the device.
    pub blocks: u64,
    /// Bytes of the device behind its whole blocks, fewer than 4096. If there are any, one more
    /// block is read, of which only these bytes count.
    pub tail: usize,
    /// True if the volume is in use by a file system that has written back everything. Then its
    /// marks "needs recovery" and "orphan present" and its orphans are as they should be. The
    /// totals of the superblock, which are brought up to date only at unmount, are not looked at.
    pub in_use: bool,
    /// Most findings to keep; the others are counted.
    pub limit: usize,
    /// The first 8 KiB of the device of an external journal; `None`: the journal is not looked at,
    /// which is a finding.
    pub external_journal: Option<Bytes>,
}

impl Options {
    /// For an unmounted volume on a device of so many blocks of 4 KiB.
    pub fn new(blocks: u64) -> Options {
        Options {
            blocks,
            tail: 0,
            in_use: false,
            limit: 100,
            external_journal: None,
        }
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The findings, in the order in which they were met.
    pub findings: Vec<Finding>,
    /// Findings beyond the limit.
    pub beyond: u64,
    /// The log or a list of orphans waits for recovery, or recovery may mend a torn superblock.
    pub needs_recovery: bool,
    /// False if the volume could not be judged: no usable superblock was found, or the volume uses
    /// unknown features.
    pub judged: bool,
    /// Inodes in use.
    pub inodes: u64,
    /// Directories among them.
    pub directories: u64,
    /// Blocks in use, those of fixed places included.
    pub blocks: u64,
    /// Orphans, on their list or in their file. They are counted for a volume in use only; else
    /// they are a finding.
    pub orphans: u64,
}

impl Report {
    /// True if there is no finding.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Checks the volume behind `read`, whose log is empty. A block of `read` has 4096 bytes; an error
/// of it is a finding. The check only reads (C1).
pub fn check<E: Display>(read: &dyn Fn(BlockNo) -> Result<Bytes, E>, options: &Options) -> Report {
    let read = |block: BlockNo| read(block).map_err(|e| e.to_string());
    let mut found = Findings::new(options.limit);
    let mut report = Report {
        findings: Vec::new(),
        beyond: 0,
        needs_recovery: false,
        judged: false,
        inodes: 0,
        directories: 0,
        blocks: 0,
        orphans: 0,
    };
    run(
        &Reader::new(&read, options.blocks, options.tail),
        options,
        &mut found,
        &mut report,
    );
    let waits =
        |f: &Finding| matches!(f.kind, Kind::LogNotEmpty | Kind::Orphans | Kind::OrphanFile);
    report.needs_recovery |= found.list.iter().any(waits);
    report.findings = found.list;
    report.beyond = found.beyond;
    report
}

/// Most findings of [`of_inodes`].
pub(crate) const INODES_LIMIT: usize = 1000;

/// Checks these inodes, each alone: fields, blocks, attributes and content, but not names, links,
/// or blocks that other inodes own as well. `orphans` are those named as orphans. Of the superblock
/// and the groups it is only reported if they cannot be used. No more than [`INODES_LIMIT`]
/// findings are kept.
pub(crate) fn of_inodes<E: Display>(
    read: &dyn Fn(BlockNo) -> Result<Bytes, E>,
    blocks: u64,
    inos: &BTreeSet<Ino>,
    orphans: &BTreeSet<Ino>,
) -> Vec<Finding> {
    let read = |block: BlockNo| read(block).map_err(|e| e.to_string());
    let reader = Reader::new(&read, blocks, 0);
    let mut found = Findings::new(1);
    let head = match reader.block(0u32, &mut found) {
        Some(block) => Superblock::parse(&block[SUPERBLOCK_AT as usize..]),
        None => return found.list,
    };
    let sb = match head {
        Ok(sb) => sb,
        Err(e) => return vec![Finding::new(Kind::Superblock, e.to_string()).block(0u32)],
    };
    let reader = reader.in_blocks_of(sb.block_bytes() as usize);
    // Findings of a usable volume are dropped: they are not about these inodes, and were there
    // before.
    let Some(volume) = Volume::load(&reader, sb, &mut found) else {
        return found.list;
    };
    let mut found = Findings::new(INODES_LIMIT);
    let mut state = State::new(&mut found);
    state.orphans = orphans.iter().map(|ino| ino.0).collect();
    for ino in inos.union(orphans) {
        inodes::check_one(&volume, &mut state, *ino);
    }
    found.list
}

fn run(reader: &Reader<'_>, options: &Options, found: &mut Findings, report: &mut Report) {
    let Some(sb) = superblock::load(reader, options, found, report) else {
        return;
    };
    let reader = reader.in_blocks_of(sb.block_bytes() as usize);
    let Some(volume) = Volume::load(&reader, sb, found) else {
        return;
    };
    superblock::check_backups(&volume, found);
    let mut state = State::new(found);
    orphans::follow(&volume, &mut state, options);
    inodes::scan(&volume, &mut state);
    journal::check(&volume, &mut state, options);
    orphans::check_file(&volume, &mut state, options);
    mmp::check(&volume, &mut state);
    xattrs::check_references(&mut state);
    quota::check(&volume, &mut state);
    dirs::check(&volume, &mut state);
    links::check(&volume, &mut state);
    bitmaps::check(&volume, &mut state, options);
    let dirs = state
        .files
        .values()
        .filter(|f| f.kind == FileType::Directory);
    report.directories = dirs.count() as u64;
    report.inodes = state.files.len() as u64;
    report.orphans = state.orphans.len() as u64;
    report.blocks = volume.zone.blocks() + state.usage.taken;
}
