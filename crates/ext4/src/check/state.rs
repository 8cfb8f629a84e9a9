//! What a check collects while it reads the volume.

use super::finding::{Finding, Findings, Kind};
use super::usage::Usage;
use ondisk::ext4::{FileType, InodeFlags};
use std::collections::{BTreeMap, BTreeSet};

/// Number of quotas: of users, groups and projects.
pub(super) const KINDS: usize = 3;

/// A run of blocks of a file that follow each other on the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// First block of the file.
    pub logical: u64,
    /// First block of the device.
    pub start: u64,
    /// Blocks.
    pub len: u64,
}

/// The policy by which a file is encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Policy {
    /// The file is not encrypted, or has no attribute that says how.
    None,
    /// The attribute has no possible form.
    Corrupt,
    /// The attribute has an unknown version.
    Unknown,
    /// The policy with this number among those met so far.
    Known(u32),
}

/// What is known of the inode of the orphan file.
pub(super) struct OrphanFile {
    pub generation: u32,
    pub size: u64,
    pub runs: Vec<Run>,
}

/// What one owner is charged for.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Charge {
    pub bytes: u64,
    pub inodes: u64,
}

/// What all owners have, by kind of quota and number of the owner.
pub(super) type Charges = [BTreeMap<u32, Charge>; KINDS];

/// The file of a quota.
pub(super) struct QuotaFile {
    pub runs: Vec<Run>,
}

/// What is known of an inode in use.
pub(super) struct File {
    pub kind: FileType,
    /// The link count that the inode stores.
    pub links: u16,
    /// Entries that lead to it, '.' and '..' included.
    pub names: u32,
    /// True if the inode needs no name: the superblock names it, or it is an orphan.
    pub nameless: bool,
    /// For a directory: the directory in which its name was found.
    pub parent: Option<u32>,
    /// For a directory: the inode that its '..' names.
    pub dotdot: Option<u32>,
    /// How it is encrypted.
    pub policy: Policy,
    /// For an inode that may hold the value of attributes: what it says of them.
    pub holds: Option<Holds>,
}

/// What an inode that holds the value of attributes says of them.
#[derive(Clone, Copy)]
pub(super) struct Holds {
    /// How many attributes have it.
    pub references: u64,
    /// True if Lustre made the inode; it did not count references.
    pub uncounted: bool,
}

/// A directory to be read.
pub(super) struct Dir {
    pub ino: u32,
    pub generation: u32,
    pub flags: InodeFlags,
    pub runs: Vec<Run>,
    /// For a directory whose content lies in its inode and can be read: the block as which that
    /// content is read.
    pub inline: Option<Vec<u8>>,
}

/// A block of attributes.
pub(super) struct XattrUse {
    /// The number of owners that the block stores.
    pub stored: u32,
    /// The number of owners that were met.
    pub seen: u32,
    /// What each owner is charged for the block's values that lie in inodes of their own.
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
    /// What owners are charged for.
    pub charges: Charges,
    /// The files of quotas that are in use.
    pub quotas: [Option<QuotaFile>; KINDS],
    /// Encryption policies that were met, numbered.
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
        self.found.at_inode(ino, kind, what);
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
