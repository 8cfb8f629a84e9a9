//! The offline checker tests everything that the last checkpoint of a volume must satisfy, by
//! reading alone.
//!
//! ```text
//!  superblocks -> packs -> orphans, root -> inodes -> nodes -> data, directories -> NAT, SIT, summaries, counts
//!                   |                         |         |
//!                 volume: tables as the     files    usage: which nid, which block was reached, and from where
//!                 checkpoint sees them
//! ```
//!
//! Roll-forward is not taken into account: nodes that an fsync wrote after the checkpoint lie in
//! blocks that the checkpoint knows as free, so the check does not see them.
//!
//! Invariants:
//! - C1 nothing is written, no task is started, no lock of `rt` is taken: a check may run on any
//!   thread and inside a simulation;
//! - C2 no content makes it panic, loop for ever, or take memory beyond what the used parts of the
//!   volume need: a node is followed once, a block is counted for one owner, tables are read block
//!   by block;
//! - C3 a volume has no findings but notices exactly if `fsck.f2fs --dry-run` finds nothing wrong
//!   with it; the exceptions are named in the test that compares the two (`tests/it/check.rs`).
//!
//! Sources: kernel documentation `filesystems/f2fs.rst`; what fsck.f2fs 1.15 says of mutated
//! images.

mod dirs;
mod files;
mod finding;
mod packs;
mod state;
mod tables;
mod totals;
mod tree;
mod usage;
mod volume;
mod xattrs;

pub use finding::{Finding, Kind, Severity};

use base::{BlockNo, Bytes};
use finding::Findings;
use fscore::check::Reader;
use state::State;
use std::fmt::Display;
use volume::Volume;

/// The size of the volume and the limits of a check.
#[derive(Clone, Debug)]
pub struct Options {
    /// Blocks of 4 KiB of the device.
    pub blocks: u64,
    /// Most findings to keep; the others are counted.
    pub limit: usize,
}

impl Options {
    /// For a device of so many blocks of 4 KiB.
    pub fn new(blocks: u64) -> Options {
        Options { blocks, limit: 100 }
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Report {
    /// The findings, in the order in which they were met.
    pub findings: Vec<Finding>,
    /// Findings beyond the limit.
    pub beyond: u64,
    /// The last checkpoint was not written by an unmount, or orphans wait: the next mount has to
    /// recover.
    pub needs_recovery: bool,
    /// Which packs hold a sound checkpoint. One may be damaged, because it was being written.
    pub packs: [bool; 2],
    /// Version of the checkpoint that was checked.
    pub version: u64,
    /// Inodes in use.
    pub inodes: u64,
    /// Directories among them.
    pub directories: u64,
    /// Nodes in use.
    pub nodes: u64,
    /// Blocks of the main area in use, reserved ones included.
    pub blocks: u64,
}

impl Report {
    /// True if there is no finding but notices.
    pub fn is_clean(&self) -> bool {
        let damage = |f: &Finding| f.kind.severity() == Severity::Damage;
        self.beyond == 0 && !self.findings.iter().any(damage)
    }
}

/// Checks the volume that `read` gives access to. A block has 4096 bytes; an error of `read`
/// becomes a finding. Nothing is written (C1).
pub fn check<E: Display>(read: &dyn Fn(BlockNo) -> Result<Bytes, E>, options: &Options) -> Report {
    let read = |block: BlockNo| read(block).map_err(|e| e.to_string());
    let mut found = Findings::new(options.limit);
    let mut report = Report::default();
    run(
        &Reader::new(&read, options.blocks, 0),
        &mut found,
        &mut report,
    );
    report.findings = found.list;
    report.beyond = found.beyond;
    report
}

fn run(reader: &Reader<'_>, found: &mut Findings, report: &mut Report) {
    let Some(volume) = Volume::load(reader, found, report) else {
        return;
    };
    let mut state = State::new(&volume, found);
    files::scan(&mut state);
    totals::check(&mut state);
    report.inodes = state.inodes;
    report.nodes = state.nodes;
    report.blocks = state.blocks;
    report.directories = state.files.values().filter(|f| f.is_dir()).count() as u64;
}
