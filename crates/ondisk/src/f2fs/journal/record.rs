//! Records: absolute values, so that to redo one twice is to redo it once.

use crate::f2fs::{AllocType, BlockAddr, FileType, Log, Nid, SegNo, VALID_MAP_BYTES};

/// What [`Record::Bytes`] is about: told apart for dumps; all mean "these bytes at this place of the node block".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Content {
    /// Data of a small file, in its inode.
    InlineData = 0,
    /// Extended attributes in the inode.
    InlineXattr = 1,
    /// A node of extended attributes.
    XattrNode = 2,
    /// The target of a symbolic link.
    Symlink = 3,
    /// Something else of a node block.
    Node = 4,
    /// Something else of a directory block: `nid` is the directory, and the block stands in front of the bytes (u32).
    Dentries = 5,
}

/// A change. Nodes are named by number, never by address: where they lie is none of the journal's business.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Record<'a> {
    /// 1: a new inode (its node was made by [`NodeNew`](Record::NodeNew) before): all fields that are not zero, and the name.
    InodeNew {
        mask: u64,
        fields: &'a [u8],
        name: &'a [u8],
    },
    /// 2: fields of the inode: those in `mask`, packed in its order (see [`attr`](super::attr)).
    InodeAttr { mask: u64, fields: &'a [u8] },
    /// 3: a directory entry is written. `block`: [`INLINE`](Record::INLINE) or the page of the directory.
    DentSet {
        block: u32,
        slot: u16,
        hash: u32,
        ino: Nid,
        kind: FileType,
        name: &'a [u8],
    },
    /// 4: the slots of an entry are cleared.
    DentClear { block: u32, slot: u16, slots: u8 },
    /// 5: an entry stands for another inode.
    DentIno {
        block: u32,
        slot: u16,
        kind: FileType,
        ino: Nid,
    },
    /// 6: address slots `slot..slot + count` (counted from the first slot of that node) say `addr`, `addr + 1` ...; NULL or NEW: all the same.
    /// `dir`: of a directory.
    MapRun {
        nid: Nid,
        slot: u16,
        count: u16,
        addr: BlockAddr,
        dir: bool,
    },
    /// 7: an empty node: offset in the tree of its inode, cold mark, version in the NAT.
    NodeNew {
        nid: Nid,
        ofs: u32,
        cold: bool,
        version: u8,
    },
    /// 8: word `slot` (counted from the start of the block) of `parent` names `child`, or nothing.
    NodePtr { parent: Nid, slot: u16, child: Nid },
    /// 9: a node is freed.
    NodeDel { nid: Nid, version: u8 },
    /// 10: data blocks are valid, or not any more.
    BlockRun {
        addr: BlockAddr,
        count: u16,
        alloc: bool,
        log: Log,
    },
    /// 11: the same for blocks of one segment (bits as in a SIT entry).
    BlockMask {
        seg: SegNo,
        alloc: bool,
        log: Log,
        mask: &'a [u8; VALID_MAP_BYTES],
    },
    /// 12: owners of data blocks: slots from `slot` on of node `nid`.
    SumRun {
        addr: BlockAddr,
        count: u16,
        version: u8,
        nid: Nid,
        slot: u16,
    },
    /// 13: content that lies in node blocks.
    Bytes {
        content: Content,
        nid: Nid,
        at: u16,
        bytes: &'a [u8],
    },
    /// 14: the inode of the group has lost its last link.
    OrphanAdd,
    /// 15: it is freed.
    OrphanDel,
    /// 16: blocks from page `from` on are being freed: to be continued after a crash. `u64::MAX`: done.
    Trunc { from: u64 },
    /// 17: usage of a quota id.
    Quota {
        kind: u8,
        id: u32,
        space: i64,
        inodes: i64,
    },
    /// 18: where a log writes.
    Head {
        log: Log,
        alloc: AllocType,
        seg: SegNo,
        next: u16,
    },
}

impl Record<'_> {
    /// [`DentSet::block`](Record::DentSet) of entries in the inode.
    pub const INLINE: u32 = u32::MAX;
}
