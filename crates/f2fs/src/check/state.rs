//! The state of a running check: what it has learned so far about blocks, node numbers and inodes.

use super::finding::Findings;
use super::tables::Tables;
use super::usage::Reached;
use super::volume::Volume;
use base::{Map, Set};
use ondisk::f2fs::{FileType, Nid};
use std::collections::VecDeque;

/// Facts of an inode.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    pub kind: FileType,
    /// Links that the inode says it has.
    pub links: u32,
    /// Entries that lead to it, '.' and '..' left out.
    pub names: u32,
    /// Subdirectories.
    pub subdirs: u32,
    /// The list of orphans has it.
    pub orphan: bool,
}

impl File {
    pub fn is_dir(&self) -> bool {
        self.kind == FileType::Directory
    }
}

/// Why an inode is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// It is the root directory.
    Root,
    /// The list of orphans names it.
    Orphan,
    /// The superblock names it: a hidden quota file.
    Hidden,
    /// An entry of the directory `parent` names it, and says that it is of this kind.
    Entry { parent: Nid, kind: FileType },
}

/// All that grows during a check.
pub(super) struct State<'v> {
    pub volume: &'v Volume<'v>,
    pub found: &'v mut Findings,
    pub tables: Tables<'v>,
    /// Inodes that wait to be looked at.
    pub queue: VecDeque<(Nid, Reason)>,
    pub files: Map<u32, File>,
    pub seen_nodes: Set<u32>,
    /// By number of the segment.
    pub reached: Map<u32, Reached>,
    pub inodes: u64,
    pub nodes: u64,
    /// Blocks that count as valid, reserved ones without a place included.
    pub blocks: u64,
}

impl<'v> State<'v> {
    pub fn new(volume: &'v Volume<'v>, found: &'v mut Findings) -> State<'v> {
        let tables = Tables::new(volume, found);
        State {
            volume,
            found,
            tables,
            queue: VecDeque::new(),
            files: Map::default(),
            seen_nodes: Set::default(),
            reached: Map::default(),
            inodes: 0,
            nodes: 0,
            blocks: 0,
        }
    }
}
