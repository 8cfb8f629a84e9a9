//! Determines which blocks an operation touches, to charge the CPU costs of a journal of pages:
//! JBD2 asks for write access to a block, and marks it dirty, once per operation and block, however
//! much of it changes.

use base::cost::f2fs::TOUCH_BLOCK;
use ondisk::f2fs::journal::{Content, Record};
use ondisk::f2fs::{BLOCKS_PER_SEG, NAT_PER_BLOCK, Nid, SIT_PER_BLOCK};
use std::collections::BTreeSet;

/// A block of metadata.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Block {
    /// A node.
    Node(Nid),
    /// A page of a directory.
    Page(Nid, u32),
    /// A block of the NAT.
    Nat(u32),
    /// A block of the SIT.
    Sit(u32),
}

/// The blocks that an operation has touched.
#[derive(Default)]
pub(super) struct Touches(BTreeSet<Block>);

impl Touches {
    /// Blocks that the operation has not touched before this record of inode `ino`. Each costs CPU
    /// time.
    pub fn by(&mut self, ino: Nid, record: &Record<'_>) -> u32 {
        let of = blocks(ino, record).into_iter().flatten();
        let fresh = of.filter(|b| self.0.insert(*b)).count() as u32;
        rt::charge_each(TOUCH_BLOCK, fresh.into());
        fresh
    }

    /// Forgets all blocks.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

fn nat(nid: Nid) -> Block {
    Block::Nat(nid.0 / NAT_PER_BLOCK as u32)
}

fn sit(block: u32) -> Block {
    // Where the main area begins makes no difference to how many blocks there are.
    Block::Sit(block / BLOCKS_PER_SEG / SIT_PER_BLOCK as u32)
}

fn blocks(ino: Nid, record: &Record<'_>) -> [Option<Block>; 2] {
    let entry = |block: u32| match block == Record::INLINE {
        true => Block::Node(ino),
        false => Block::Page(ino, block),
    };
    let one = |block| [Some(block), None];
    match *record {
        Record::InodeNew { .. } | Record::InodeAttr { .. } => one(Block::Node(ino)),
        Record::DentSet { block, .. }
        | Record::DentClear { block, .. }
        | Record::DentIno { block, .. } => one(entry(block)),
        Record::MapRun { nid, .. } => one(Block::Node(nid)),
        Record::NodeNew { nid, .. } => [Some(Block::Node(nid)), Some(nat(nid))],
        Record::NodePtr { parent, .. } => one(Block::Node(parent)),
        Record::NodeDel { nid, .. } => one(nat(nid)),
        Record::BlockRun { addr, .. } => one(sit(addr.0)),
        Record::BlockMask { seg, .. } => one(sit(seg.0 * BLOCKS_PER_SEG)),
        Record::Bytes {
            content: Content::Dentries,
            nid,
            bytes,
            ..
        } => {
            let page = bytes.first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
            one(Block::Page(nid, page))
        }
        Record::Bytes { nid, .. } => one(Block::Node(nid)),
        // In the pack, or nowhere.
        _ => [None, None],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::f2fs::journal::attr;

    #[test]
    fn a_block_counts_once_per_operation() {
        let mut touched = Touches::default();
        let fields = &[0; 12];
        let mask = attr::CTIME;
        let attr = Record::InodeAttr { mask, fields };
        let new = Record::NodeNew {
            nid: Nid(5),
            ofs: 0,
            cold: true,
            version: 0,
        };
        assert_eq!(touched.by(Nid(5), &new), 2, "node and NAT");
        assert_eq!(touched.by(Nid(5), &attr), 0);
        assert_eq!(touched.by(Nid(6), &attr), 1);
        let nid = Nid(6);
        assert_eq!(touched.by(nid, &Record::NodeDel { nid, version: 1 }), 0);
        let entry = |block| Record::DentClear {
            block,
            slot: 1,
            slots: 1,
        };
        assert_eq!(touched.by(nid, &entry(Record::INLINE)), 0, "in the inode");
        assert_eq!(touched.by(nid, &entry(3)), 1);
        assert_eq!(touched.by(nid, &entry(3)), 0);
        assert_eq!(touched.by(nid, &Record::OrphanAdd), 0);
        touched.clear();
        assert_eq!(touched.by(nid, &entry(3)), 1);
    }
}
