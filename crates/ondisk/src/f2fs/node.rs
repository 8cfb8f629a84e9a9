//! A node block: its footer, and its slots of addresses or node numbers.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0x000 | 1018 * le32 | `addr` / `nid` | direct node: addresses of blocks; indirect node: numbers of nodes |
//! | 0xFE8 | le32 | `nid` | number of this node |
//! | 0xFEC | le32 | `ino` | number of the inode it belongs to; equal to `nid` in an inode |
//! | 0xFF0 | le32 | `flag` | bit 0 cold, bit 1 fsync, bit 2 dentry, from bit 3 the offset in the tree of nodes |
//! | 0xFF4 | le64 | `cp_ver` | version of the checkpoint after which it was written |
//! | 0xFFC | le32 | `next_blkaddr` | where the next node block of this log goes |
//!
//! An inode has the same footer; its slots begin later, see [`super::addr_slot0`]. Slots are
//! counted in words from the start of the block, so that the same functions serve both: slot
//! `slot0 + n`, with `slot0` = 0 in a direct node.

use super::path::NIDS_PER_BLOCK;
use super::{BLOCK_BYTES, BlockAddr, Nid};
use base::bytes::{get_le32, get_le64, put_le32, put_le64};

/// Byte offset of the footer.
pub const FOOTER_AT: usize = 4072;
/// Flag of a node of a file (not a directory): bit 0 (`COLD_BIT_SHIFT`).
pub const NODE_COLD: u32 = 1;
/// Flag of a node written by fsync (`FSYNC_BIT_SHIFT`): roll-forward takes it.
pub const NODE_FSYNC: u32 = 2;
/// Flag of an inode whose directory entry is not checkpointed yet (`DENT_BIT_SHIFT`): roll-forward
/// makes the entry.
pub const NODE_DENTRY: u32 = 4;
/// Offset of the node that holds extended attributes (`XATTR_NODE_OFFSET`).
pub const XATTR_NODE_OFFSET: u32 = u32::MAX >> OFFSET_SHIFT;
/// Slot of the first of the five node numbers of an inode (`i_nid`).
pub const INODE_NID_SLOT0: usize = 1013;

const OFFSET_SHIFT: u32 = 3;
const _: () = assert!(FOOTER_AT + 24 == BLOCK_BYTES);
const _: () = assert!(INODE_NID_SLOT0 * 4 + 20 == FOOTER_AT);

/// The footer of a node block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Footer {
    /// Number of this node.
    pub nid: Nid,
    /// Inode it belongs to.
    pub ino: Nid,
    /// Flag bits and offset.
    pub flags: u32,
    /// Version of the last checkpoint when it was written (with feature `CRC_RECOVERY` the
    /// checkpoint's CRC in the upper half).
    pub cp_ver: u64,
    /// Where the next node of this log will be written.
    pub next: BlockAddr,
}

impl Footer {
    /// Place in the tree of nodes of its inode.
    pub const fn ofs_of_node(&self) -> u32 {
        self.flags >> OFFSET_SHIFT
    }
    /// Sets the place in the tree of nodes; the flag bits stay.
    pub const fn set_ofs_of_node(&mut self, ofs: u32) {
        self.flags = self.flags & ((1 << OFFSET_SHIFT) - 1) | ofs << OFFSET_SHIFT;
    }
    /// True if all bits of `flag` are set ([`NODE_COLD`], [`NODE_FSYNC`], [`NODE_DENTRY`]).
    pub const fn has(&self, flag: u32) -> bool {
        self.flags & flag == flag
    }
    /// Sets or clears `flag`.
    pub const fn set(&mut self, flag: u32, on: bool) {
        self.flags = if on {
            self.flags | flag
        } else {
            self.flags & !flag
        };
    }
    /// Node of a file, not of a directory.
    pub const fn is_cold(&self) -> bool {
        self.has(NODE_COLD)
    }
    /// Written by fsync.
    pub const fn is_fsync(&self) -> bool {
        self.has(NODE_FSYNC)
    }
    /// Inode whose directory entry roll-forward must make.
    pub const fn is_dentry(&self) -> bool {
        self.has(NODE_DENTRY)
    }
    /// True if the block is an inode.
    pub fn is_inode(&self) -> bool {
        self.nid == self.ino
    }
    /// What the node holds.
    pub const fn kind(&self) -> NodeKind {
        node_kind(self.ofs_of_node())
    }
}

/// The footer of a node block.
///
/// # Panics
/// If `block` is shorter than 4096 bytes.
pub fn footer(block: &[u8]) -> Footer {
    let f = &block[FOOTER_AT..BLOCK_BYTES];
    Footer {
        nid: Nid(get_le32(f, 0)),
        ino: Nid(get_le32(f, 4)),
        flags: get_le32(f, 8),
        cp_ver: get_le64(f, 12),
        next: BlockAddr(get_le32(f, 20)),
    }
}

/// Writes the footer of a node block.
///
/// # Panics
/// If `block` is shorter than 4096 bytes.
pub fn set_footer(block: &mut [u8], footer: &Footer) {
    let f = &mut block[FOOTER_AT..BLOCK_BYTES];
    put_le32(f, 0, footer.nid.0);
    put_le32(f, 4, footer.ino.0);
    put_le32(f, 8, footer.flags);
    put_le64(f, 12, footer.cp_ver);
    put_le32(f, 20, footer.next.0);
}

/// What a node holds, by its place in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// The inode.
    Inode,
    /// Addresses of blocks.
    Direct,
    /// Numbers of direct nodes.
    Indirect,
    /// Numbers of indirect nodes.
    DoubleIndirect,
    /// Extended attributes.
    Xattr,
}

/// What the node at offset `ofs` of the tree holds.
pub const fn node_kind(ofs: u32) -> NodeKind {
    const FIRST_INDIRECT: u32 = 3;
    const SECOND_INDIRECT: u32 = 4 + NIDS_PER_BLOCK;
    const DOUBLE: u32 = 5 + 2 * NIDS_PER_BLOCK;
    match ofs {
        0 => NodeKind::Inode,
        XATTR_NODE_OFFSET => NodeKind::Xattr,
        FIRST_INDIRECT | SECOND_INDIRECT => NodeKind::Indirect,
        DOUBLE => NodeKind::DoubleIndirect,
        _ if ofs > DOUBLE && (ofs - DOUBLE - 1).is_multiple_of(NIDS_PER_BLOCK + 1) => {
            NodeKind::Indirect
        }
        _ => NodeKind::Direct,
    }
}

/// The address in word `slot` of a node block.
///
/// # Panics
/// If the slot lies outside the block.
pub fn addr(block: &[u8], slot: usize) -> BlockAddr {
    BlockAddr(get_le32(block, 4 * slot))
}
/// Sets the address in word `slot`.
///
/// # Panics
/// If the slot lies outside the block.
pub fn set_addr(block: &mut [u8], slot: usize, addr: BlockAddr) {
    put_le32(block, 4 * slot, addr.0);
}
/// The node number in word `slot` of an indirect node, or of an inode ([`INODE_NID_SLOT0`] + 0 to
/// 4).
///
/// # Panics
/// If the slot lies outside the block.
pub fn nid_slot(block: &[u8], slot: usize) -> Nid {
    Nid(get_le32(block, 4 * slot))
}
/// Sets the node number in word `slot`.
///
/// # Panics
/// If the slot lies outside the block.
pub fn set_nid_slot(block: &mut [u8], slot: usize, nid: Nid) {
    put_le32(block, 4 * slot, nid.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footer_round_trip_keeps_the_rest() {
        let mut block = vec![0x5A; BLOCK_BYTES];
        let mut f = Footer {
            nid: Nid(7),
            ino: Nid(3),
            flags: NODE_COLD | NODE_DENTRY,
            cp_ver: 0x1122_3344_5566_7788,
            next: BlockAddr(99),
        };
        f.set_ofs_of_node(XATTR_NODE_OFFSET);
        set_footer(&mut block, &f);
        assert_eq!(footer(&block), f);
        assert!(block[..FOOTER_AT].iter().all(|&b| b == 0x5A));
        assert!(f.is_cold() && f.is_dentry() && !f.is_fsync() && !f.is_inode());
        assert_eq!(
            (f.kind(), f.ofs_of_node()),
            (NodeKind::Xattr, XATTR_NODE_OFFSET)
        );
        f.set(NODE_FSYNC, true);
        f.set(NODE_COLD, false);
        assert!(!f.is_cold() && f.is_fsync() && f.ofs_of_node() == XATTR_NODE_OFFSET);
        assert_eq!(&block[FOOTER_AT..FOOTER_AT + 4], &[7, 0, 0, 0]);
        assert_eq!(&block[4092..], &[99, 0, 0, 0]);
    }

    #[test]
    fn kinds_by_offset() {
        let n = NIDS_PER_BLOCK;
        for (ofs, kind) in [
            (0, NodeKind::Inode),
            (1, NodeKind::Direct),
            (2, NodeKind::Direct),
            (3, NodeKind::Indirect),
            (4, NodeKind::Direct),
            (3 + n, NodeKind::Direct),
            (4 + n, NodeKind::Indirect),
            (5 + n, NodeKind::Direct),
            (4 + 2 * n, NodeKind::Direct),
            (5 + 2 * n, NodeKind::DoubleIndirect),
            (6 + 2 * n, NodeKind::Indirect),
            (7 + 2 * n, NodeKind::Direct),
            (6 + 3 * n, NodeKind::Direct),
            (7 + 3 * n, NodeKind::Indirect),
            (XATTR_NODE_OFFSET, NodeKind::Xattr),
        ] {
            assert_eq!(node_kind(ofs), kind, "{ofs}");
        }
    }
}
