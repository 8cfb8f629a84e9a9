//! Numbers that F2FS counts in: nodes, blocks, segments.
//!
//! Block addresses have 32 bits on the medium, of which three values mean no block.

use std::fmt;

/// Bytes of a block: F2FS knows no other size here.
pub const BLOCK_BYTES: usize = 4096;
/// Blocks of a segment (2 MiB).
pub const BLOCKS_PER_SEG: u32 = 512;

macro_rules! number {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
        impl From<$name> for u64 {
            fn from(n: $name) -> u64 {
                n.0.into()
            }
        }
    };
}

number! {
    /// Number of a node; the NAT says where the node lies. The nid of an inode is its inode number.
    /// 0 is no node.
    Nid
}
number! {
    /// Number of a segment of the main area, from 0. Its blocks are found with
    /// [`Geometry::seg_start`](super::Geometry::seg_start).
    SegNo
}

/// Address of a block of the volume, or one of three words that stand for none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BlockAddr(pub u32);

impl BlockAddr {
    /// A hole; in the NAT: a free nid.
    pub const NULL: BlockAddr = BlockAddr(0);
    /// Space is reserved, no block chosen yet.
    pub const NEW: BlockAddr = BlockAddr(u32::MAX);
    /// First slot of a compressed cluster.
    pub const COMPRESS: BlockAddr = BlockAddr(u32::MAX - 1);

    /// True if this names a block: none of the three words. Whether the block lies in the main area
    /// is [`Geometry::is_main`](super::Geometry::is_main).
    pub const fn is_data(self) -> bool {
        self.0 != 0 && self.0 < u32::MAX - 1
    }
    /// The address `n` blocks behind; `None` beyond the last possible block.
    pub const fn checked_add(self, n: u32) -> Option<BlockAddr> {
        match self.0.checked_add(n) {
            Some(sum) if sum < u32::MAX - 1 => Some(BlockAddr(sum)),
            _ => None,
        }
    }
}

impl fmt::Display for BlockAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            BlockAddr::NULL => f.write_str("NULL"),
            BlockAddr::NEW => f.write_str("NEW"),
            BlockAddr::COMPRESS => f.write_str("COMPRESS"),
            BlockAddr(n) => fmt::Display::fmt(&n, f),
        }
    }
}
impl fmt::Debug for BlockAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockAddr({self})")
    }
}
impl From<BlockAddr> for u64 {
    fn from(a: BlockAddr) -> u64 {
        a.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_no_block() {
        let all = [BlockAddr::NULL, BlockAddr::NEW, BlockAddr::COMPRESS];
        assert!(all.iter().all(|a| !a.is_data()));
        assert!(BlockAddr(1).is_data() && BlockAddr(u32::MAX - 2).is_data());
        assert_eq!(
            BlockAddr(u32::MAX - 3).checked_add(1),
            Some(BlockAddr(u32::MAX - 2))
        );
        assert_eq!(BlockAddr(u32::MAX - 3).checked_add(2), None);
        assert_eq!(
            format!("{:?} {} {:?}", BlockAddr::NEW, BlockAddr(7), Nid(3)),
            "BlockAddr(NEW) 7 Nid(3)"
        );
    }
}
