//! Records: changes as absolute values, so that to redo one twice is to redo it once
//! (f2fs-journal-I5).
//!
//! Node and directory blocks are named by node number and page, never by address: where such a
//! block lies changes only when epochs are applied, and does not concern the journal. The bytes of
//! records: [`codec`](super::Records).

use super::sums::Sums;
use crate::f2fs::{AllocType, BLOCK_BYTES, BlockAddr, FileType, Log, Nid, SegNo, VALID_MAP_BYTES};
use base::checksum::crc32c;
use std::fmt;

base::words! {
    /// What the bytes of [`Record::Bytes`] are. The kinds differ in dumps only: all but the last
    /// mean "these bytes at this place of the node block".
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[repr(u8)]
    pub enum Content {
        /// Data of a small file, in its inode.
        InlineData = 0 => "inline data",
        /// Extended attributes in the inode.
        InlineXattr = 1 => "inline xattr",
        /// A node of extended attributes.
        XattrNode = 2 => "xattr node",
        /// The target of a symbolic link.
        Symlink = 3 => "symlink",
        /// Something else of a node block.
        Node = 4 => "node",
        /// Something else of a directory block: `nid` is the directory, and the page stands in
        /// front of the bytes (le32).
        Dentries = 5 => "dentries",
    }
}

impl Content {
    /// The kind with this number.
    pub fn from_code(code: u8) -> Option<Content> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

base::words! {
    /// What kind of block a [`Record::Page`] holds.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
    #[repr(u8)]
    pub enum PageKind {
        /// A node, by its number.
        Node = 0 => "node",
        /// A directory block: by the inode of the directory, and the page in it.
        Dentries = 1 => "dentries",
        /// A block of the NAT, counted in one copy. It belongs to inode 0.
        Nat = 2 => "NAT",
        /// A block of the SIT, counted in one copy. It belongs to inode 0.
        Sit = 3 => "SIT",
    }
}

impl PageKind {
    /// The kind with this number.
    pub fn from_code(code: u8) -> Option<PageKind> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

/// The bytes of a block; `Debug` shows their checksum.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Block<'a>(pub &'a [u8; BLOCK_BYTES]);

impl fmt::Debug for Block<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block with crc32c {:#010x}", crc32c(!0, self.0))
    }
}

/// A change of something that belongs to the inode of its [`Group`](super::Group).
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Record<'a> {
    /// 1: a new inode (its node was made by [`NodeNew`](Record::NodeNew) before): all attributes
    /// that are not zero, and the name.
    InodeNew {
        /// Which attributes ([`attr`](super::attr)); without [`attr::NAME`](super::attr::NAME).
        mask: u32,
        /// Those attributes, packed.
        fields: &'a [u8],
        /// The name it is made under, at most 255 bytes; zeros behind it.
        name: &'a [u8],
    },
    /// 2: attributes of the inode.
    InodeAttr {
        /// Which attributes ([`attr`](super::attr)).
        mask: u32,
        /// Their values, packed in the order of the bits.
        fields: &'a [u8],
    },
    /// 3: a directory entry is written: its slots, their bits, its name; in the last slot nothing
    /// after the name.
    DentSet {
        /// [`INLINE`](Record::INLINE), or the page of the directory.
        block: u32,
        /// First slot.
        slot: u16,
        /// Hash of the name.
        hash: u32,
        /// Inode it stands for.
        ino: Nid,
        /// Type of that inode.
        kind: FileType,
        /// 1 to 255 bytes: `name.len()` / 8, rounded up, slots.
        name: &'a [u8],
    },
    /// 4: the bits of an entry's slots are cleared.
    DentClear {
        /// As in [`DentSet`](Record::DentSet).
        block: u32,
        /// First slot.
        slot: u16,
        /// Number of slots.
        slots: u8,
    },
    /// 5: an entry stands for another inode.
    DentIno {
        /// As in [`DentSet`](Record::DentSet).
        block: u32,
        /// First slot of the entry.
        slot: u16,
        /// Type of the inode.
        kind: FileType,
        /// The inode.
        ino: Nid,
    },
    /// 6: address slots say `addr`, `addr + 1` ...; [`NULL`](BlockAddr::NULL),
    /// [`NEW`](BlockAddr::NEW), [`COMPRESS`](BlockAddr::COMPRESS): all of them the same.
    MapRun {
        /// The node that holds the slots.
        nid: Nid,
        /// First slot, counted from the first address of that node.
        slot: u16,
        /// Number of slots, at least 1; `slot + count` is at most 1018.
        count: u16,
        /// What the first of them says.
        addr: BlockAddr,
        /// The node belongs to a directory: `addr` is then NULL or NEW, because directory blocks
        /// get their addresses when epochs are applied.
        dir: bool,
    },
    /// 7: an empty node: zeros and a footer.
    NodeNew {
        /// Its number.
        nid: Nid,
        /// Its place in the tree of nodes of the inode.
        ofs: u32,
        /// Cold mark in its footer: the node belongs to an inode that is no directory.
        cold: bool,
        /// Version in the NAT.
        version: u8,
    },
    /// 8: a node names another node, or none.
    NodePtr {
        /// The node that names.
        parent: Nid,
        /// Word, counted from the start of the block; below 1018.
        slot: u16,
        /// The node that is named; 0: none.
        child: Nid,
    },
    /// 9: a node is freed, and its number with it.
    NodeDel {
        /// Its number.
        nid: Nid,
        /// Its version in the NAT.
        version: u8,
    },
    /// 10: blocks are valid, or not any more.
    BlockRun {
        /// First block.
        addr: BlockAddr,
        /// Number of blocks, at least 1.
        count: u16,
        /// True: valid.
        alloc: bool,
        /// Log whose segment they lie in.
        log: Log,
    },
    /// 11: as `BlockRun`, for any blocks of one segment.
    BlockMask {
        /// The segment.
        seg: SegNo,
        /// True: the blocks of the mask are valid.
        alloc: bool,
        /// Log of that segment.
        log: Log,
        /// One bit for each block that changes, as in the valid map of a SIT entry.
        mask: &'a [u8; VALID_MAP_BYTES],
    },
    /// 12: owners of data blocks: for the summaries (SSA).
    SumRun {
        /// First block.
        addr: BlockAddr,
        /// Number of blocks, at least 1.
        count: u16,
        /// Version of the node.
        version: u8,
        /// The node that maps them.
        nid: Nid,
        /// Slot of the first one (`ofs_in_node`); the others follow.
        slot: u16,
    },
    /// 13: content that lies in node blocks, and changes that have no record of their own.
    Bytes {
        /// What the bytes are.
        content: Content,
        /// The node (of [`Content::Dentries`]: the directory).
        nid: Nid,
        /// First byte in the block.
        at: u16,
        /// The bytes; `at + bytes.len()` is at most 4096, the page of [`Content::Dentries`] not
        /// counted.
        bytes: &'a [u8],
    },
    /// 14: the inode of the group has lost its last link.
    OrphanAdd,
    /// 15: the inode is no orphan any more: it is freed, or has a link again.
    OrphanDel,
    /// 16: the blocks of the inode from a page on are being freed, which has to be continued after
    /// a crash.
    Trunc {
        /// First page that is freed; `u64::MAX`: done.
        from: u64,
    },
    /// 17: usage of a quota id.
    Quota {
        /// 0 user, 1 group, 2 project.
        kind: u8,
        /// The id.
        id: u32,
        /// Bytes in use.
        space: i64,
        /// Inodes in use.
        inodes: i64,
    },
    /// 18: where a log writes.
    Head {
        /// The log.
        log: Log,
        /// How it takes its blocks.
        alloc: AllocType,
        /// Its segment.
        seg: SegNo,
        /// Its next block in that segment, 0 to 512.
        next: u16,
    },
    /// 19: a whole block as it is after the epoch (`records=pages`). Of a node the footer says
    /// which node it is and nothing else, the checksum is zero, and slots of a directory say NULL,
    /// or NEW for "in use": the block keeps the place that it has. Entries of the NAT name the
    /// place that a node had when the epoch was committed.
    Page {
        /// The kind of block.
        what: PageKind,
        /// Its number: see [`PageKind`].
        number: u32,
        /// Of [`PageKind::Dentries`]: the page of the directory; else 0.
        page: u32,
        /// Its bytes.
        block: Block<'a>,
    },
    /// 20: checksums of data blocks that this epoch takes, and that may be on their way when the
    /// transaction is sent. It belongs to inode 0.
    DataSum {
        /// First block; the others follow.
        addr: BlockAddr,
        /// The checksum of each of them, at most [`DATA_SUMS_MAX`](super::DATA_SUMS_MAX).
        sums: Sums<'a>,
    },
    /// 21: inodes are freed, and their numbers with them, when all other records of the epoch are
    /// redone: as [`NodeDel`](Record::NodeDel) of each in a group of its own. It belongs to inode
    /// 0.
    InodeDel {
        /// The first one; the others follow. There is a number behind the last one.
        first: Nid,
        /// How many, at least 1.
        count: u16,
        /// Version of each in the NAT.
        version: u8,
    },
}

impl Record<'_> {
    /// [`DentSet::block`](Record::DentSet) of entries in the inode.
    pub const INLINE: u32 = u32::MAX;

    /// Number of the type on disk.
    pub const fn code(&self) -> u8 {
        match self {
            Record::InodeNew { .. } => 1,
            Record::InodeAttr { .. } => 2,
            Record::DentSet { .. } => 3,
            Record::DentClear { .. } => 4,
            Record::DentIno { .. } => 5,
            Record::MapRun { .. } => 6,
            Record::NodeNew { .. } => 7,
            Record::NodePtr { .. } => 8,
            Record::NodeDel { .. } => 9,
            Record::BlockRun { .. } => 10,
            Record::BlockMask { .. } => 11,
            Record::SumRun { .. } => 12,
            Record::Bytes { .. } => 13,
            Record::OrphanAdd => 14,
            Record::OrphanDel => 15,
            Record::Trunc { .. } => 16,
            Record::Quota { .. } => 17,
            Record::Head { .. } => 18,
            Record::Page { .. } => 19,
            Record::DataSum { .. } => 20,
            Record::InodeDel { .. } => 21,
        }
    }

    /// Name for people: as in the specification.
    pub const fn name(&self) -> &'static str {
        const NAMES: [&str; 21] = [
            "INODE_NEW",
            "INODE_ATTR",
            "DENT_SET",
            "DENT_CLR",
            "DENT_INO",
            "MAP_RUN",
            "NODE_NEW",
            "NODE_PTR",
            "NODE_DEL",
            "BLK_RUN",
            "BLK_MASK",
            "SUM_RUN",
            "BYTES",
            "ORPHAN_ADD",
            "ORPHAN_DEL",
            "TRUNC",
            "QUOTA",
            "HEAD",
            "PAGE",
            "DATA_SUM",
            "INODE_DEL",
        ];
        NAMES[self.code() as usize - 1]
    }
}
