//! What a check gathers on its way.

use super::crypt::Policy;
use super::finding::{Finding, Findings, Kind};
use super::mapping::Run;
use super::orphans::OrphanFile;
use super::quota::{Charges, KINDS, QuotaFile};
use super::usage::Usage;
use ondisk::ext4::{FileType, InodeFlags};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of an inode in use.
pub(super) struct File {
    pub kind: FileType,
    /// Links that it says.
    pub links: u16,
    /// Entries that lead to it, '.' and '..' included.
    pub names: u32,
    /// Needs no name: named by the superblock, or an orphan.
    pub nameless: bool,
    /// Of a directory: where it was found.
    pub parent: Option<u32>,
    /// Of a directory: what its '..' says.
    pub dotdot: Option<u32>,
    /// How it is encrypted.
    pub policy: Policy,
    /// Of an inode that may hold the value of attributes: how many it says.
    pub holds: Option<Holds>,
}

/// What an inode that holds the value of attributes says of them.
#[derive(Clone, Copy)]
pub(super) struct Holds {
    /// How many attributes have it.
    pub references: u64,
    /// Made by Lustre, which did not count them.
    pub uncounted: bool,
}

/// A directory to be read.
pub(super) struct Dir {
    pub ino: u32,
    pub generation: u32,
    pub flags: InodeFlags,
    pub runs: Vec<Run>,
    /// Without blocks: the one block that it seems to have, if its content lies in the inode and can be read.
    pub inline: Option<Vec<u8>>,
}

/// A block of attributes.
pub(super) struct XattrUse {
    /// Owners that it says.
    pub stored: u32,
    /// Owners that were met.
    pub seen: u32,
    /// What its values in inodes of their own count for each owner.
    pub apart: Apart,
}

/// Values of attributes that lie in inodes of their own.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Apart {
    /// Inodes.
    pub inodes: u64,
    /// Clusters that the owner of the attributes is charged for, though the inodes hold them.
    pub clusters: u64,
}

/// Everything a check gathers.
pub(super) struct State<'f> {
    pub found: &'f mut Findings,
    pub usage: Usage,
    /// Inodes in use, by number.
    pub files: BTreeMap<u32, File>,
    pub dirs: Vec<Dir>,
    pub xattrs: BTreeMap<u64, XattrUse>,
    /// How many attributes have their value in an inode.
    pub values: BTreeMap<u32, u64>,
    /// What owners have.
    pub charges: Charges,
    /// The files of quotas that are in use.
    pub quotas: [Option<QuotaFile>; KINDS],
    /// Ways of encryption that were met, numbered.
    pub policies: BTreeMap<Vec<u8>, u32>,
    /// Inodes on the list of orphans or in the orphan file; only of a volume in use.
    pub orphans: BTreeSet<u32>,
    /// Blocks of the journal, if its inode can be used.
    pub journal: Option<(u64, Vec<Run>)>,
    /// The orphan file, if its inode can be used.
    pub orphan_file: Option<OrphanFile>,
}

impl<'f> State<'f> {
    pub fn new(found: &'f mut Findings) -> State<'f> {
        State {
            found,
            usage: Usage::new(),
            files: BTreeMap::new(),
            dirs: Vec::new(),
            xattrs: BTreeMap::new(),
            values: BTreeMap::new(),
            charges: Charges::default(),
            quotas: [const { None }; KINDS],
            policies: BTreeMap::new(),
            orphans: BTreeSet::new(),
            journal: None,
            orphan_file: None,
        }
    }

    /// Notes a finding about an inode.
    pub fn at_inode(&mut self, ino: u32, kind: Kind, what: impl Into<String>) {
        self.found.add(Finding::new(kind, what).ino(ino));
    }

    /// Notes a finding about an inode, and the block of it, if it lies in one.
    pub fn at_place(&mut self, ino: u32, block: Option<u64>, kind: Kind, what: impl Into<String>) {
        match block {
            Some(block) => self.at_block(ino, block, kind, what),
            None => self.at_inode(ino, kind, what),
        }
    }

    /// Notes a finding about a block of an inode.
    pub fn at_block(&mut self, ino: u32, block: u64, kind: Kind, what: impl Into<String>) {
        self.found
            .add(Finding::new(kind, what).ino(ino).block(block));
    }
}
