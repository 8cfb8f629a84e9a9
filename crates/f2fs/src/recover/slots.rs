//! Addresses in roll-forward: blocks become mapped where the nodes of the chain say, and are
//! unmapped from their slots of before.
//!
//! - S1 only a slot that differs from what the checkpoint has makes a file longer, as in Linux. The
//!   others say nothing of the size: they may lie behind an end that was synced later.

use super::chain::{Link, slots_of};
use crate::F2fs;
use crate::inode::Inode;
use crate::map::{Slot, Tree};
use crate::ops::Op;
use crate::space::Usage;
use base::{BLOCK_BYTES, Ino, Mutant};
use fscore::{FsError, FsResult};
use ondisk::f2fs::{
    ADDRS_PER_BLOCK, Advise, BlockAddr, NIDS_PER_BLOCK, NodeKind, Summary, addr, footer, node_kind,
};

impl F2fs {
    /// Brings the slots of a node to what the chain says; how many blocks came back.
    pub(super) fn apply_slots(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        link: &Link,
        block: &[u8],
    ) -> FsResult<u64> {
        let (addrs, keep_size) = {
            let core = inode.core();
            let keep = core.fields.advise.has(Advise::KEEP_SIZE);
            (core.fields.addrs_per_inode(), keep)
        };
        let ofs = link.footer.ofs_of_node();
        let Some(first) = first_page(ofs, addrs) else {
            let ino = inode.ino;
            return Err(FsError::corrupt(format!("inode {ino} has no node {ofs}")));
        };
        let slots = slots_of(block);
        let count = match footer(block).kind() {
            NodeKind::Inode => addrs as usize,
            _ => slots.len(),
        };
        let mut tree = inode.tree.lock();
        let mut came = 0;
        for (n, slot) in slots.take(count).enumerate() {
            let index = first + n as u64;
            let dest = addr(block, slot);
            let before = self.find_slot(inode, &mut tree, index)?;
            // S1.
            let changed = before.map_or(BlockAddr::NULL, |s| s.addr) != dest;
            came += u64::from(self.apply_slot(op, inode, &mut tree, index, dest)?);
            if changed && dest != BlockAddr::NULL && !keep_size {
                grow(inode, index);
            }
        }
        drop(tree);
        self.put_inode(op, inode)?;
        Ok(came)
    }

    /// True if a block came back.
    fn apply_slot(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &mut Tree,
        index: u64,
        dest: BlockAddr,
    ) -> FsResult<bool> {
        let slot = self.find_slot(inode, tree, index)?;
        let src = slot.map_or(BlockAddr::NULL, |s| s.addr);
        if src == dest {
            return Ok(false);
        }
        if dest == BlockAddr::NULL {
            self.punch_map(op, inode, tree, index, index + 1)?;
            return Ok(false);
        }
        if dest == BlockAddr::COMPRESS || dest.is_data() && !self.geo.is_main(dest) {
            let what = format!("inode {}, page {index}: block {dest}", inode.ino);
            return Err(FsError::corrupt(what));
        }
        if dest.is_data() {
            self.take_from_former(op, inode, tree, dest)?;
        }
        let slot = self.make_slot(op, inode, tree, index)?;
        if slot.addr == BlockAddr::NULL {
            // The block counts even beyond the limit, because the mount that allocated it did not
            // refuse it either.
            self.space.add_recovered(Usage {
                blocks: 1,
                ..Usage::default()
            });
            inode.core().fields.blocks += 1;
        }
        if dest.is_data() {
            let owner = Summary {
                nid: slot.nid,
                version: self.nat.get(slot.nid)?.version,
                ofs_in_node: slot.slot,
            };
            self.adopt(op, dest, slot.addr, owner)?;
        } else if slot.addr.is_data() {
            self.invalidate(op, slot.addr)?;
        }
        self.set_slot(op, inode, tree, index, &slot, dest)?;
        Ok(dest.is_data())
    }

    /// recover-V3: whose block it was at the checkpoint loses it.
    fn take_from_former(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &mut Tree,
        dest: BlockAddr,
    ) -> FsResult<()> {
        if !self.segs.is_valid(dest)? || rt::mutant(Mutant::F2fsKeepFormerOwner) {
            return Ok(());
        }
        let owner = self.segs.owner_of(dest)?;
        let wrong = || {
            FsError::corrupt(format!(
                "block {dest} is in use, and node {} does not have it",
                owner.nid
            ))
        };
        let (ino, ofs) = self.with_node(owner.nid, |block| {
            let footer = footer(block);
            (footer.ino, footer.ofs_of_node())
        })?;
        if ino == inode.nid() {
            return self
                .clear_slot(op, inode, tree, (ofs, &owner), dest)?
                .ok_or_else(wrong);
        }
        let former = self.inode(Ino(ino.0))?;
        let mut tree = former.tree.lock();
        self.clear_slot(op, &former, &mut tree, (ofs, &owner), dest)?
            .ok_or_else(wrong)
    }

    /// Clears the slot that a summary entry points at, if it names `dest`.
    fn clear_slot(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &mut Tree,
        (ofs, owner): (u32, &Summary),
        dest: BlockAddr,
    ) -> FsResult<Option<()>> {
        let addrs = inode.core().fields.addrs_per_inode();
        let Some(first) = first_page(ofs, addrs) else {
            return Ok(None);
        };
        let index = first + u64::from(owner.ofs_in_node);
        let slot: Option<Slot> = self.find_slot(inode, tree, index)?;
        if slot.is_none_or(|s| s.addr != dest || s.nid != owner.nid) {
            return Ok(None);
        }
        self.punch_map(op, inode, tree, index, index + 1)?;
        Ok(Some(()))
    }
}

/// A page that came back lies inside the file.
fn grow(inode: &Inode, index: u64) {
    let mut core = inode.core();
    let size = &mut core.fields.size;
    if *size <= index * BLOCK_BYTES as u64 {
        *size = (index + 1) * BLOCK_BYTES as u64;
    }
}

/// The first page whose slot is in the node at offset `ofs` of a tree; `None` if that is no node
/// with slots.
pub(crate) fn first_page(ofs: u32, addrs: u32) -> Option<u64> {
    let nids = NIDS_PER_BLOCK;
    let direct = match (node_kind(ofs), ofs) {
        (NodeKind::Inode, _) => return Some(0),
        (NodeKind::Direct, 1..=2) => ofs - 1,
        (NodeKind::Direct, _) if ofs < 4 + nids => ofs - 4 + 2,
        (NodeKind::Direct, _) if ofs < 5 + 2 * nids => ofs - (5 + nids) + 2 + nids,
        (NodeKind::Direct, _) => {
            let below = ofs - (6 + 2 * nids);
            let (child, grandchild) = (below / (nids + 1), below % (nids + 1) - 1);
            if child >= nids {
                return None;
            }
            2 + 2 * nids + child * nids + grandchild
        }
        _ => return None,
    };
    Some(u64::from(addrs) + u64::from(direct) * u64::from(ADDRS_PER_BLOCK))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::f2fs::{XATTR_NODE_OFFSET, max_file_blocks, node_path};

    #[test]
    fn the_first_page_of_a_node_leads_to_it() {
        let addrs = 873;
        for ofs in (0..4000).chain((4000..1_040_000).step_by(997)) {
            let Some(first) = first_page(ofs, addrs) else {
                continue;
            };
            let path = node_path(first, addrs).expect("a page");
            let level = usize::from(path.level);
            assert_eq!(
                (path.noffset[level], path.offsets[level]),
                (ofs, 0),
                "{ofs}"
            );
        }
        let last = node_path(u64::from(addrs) + max_file_blocks() - 1, addrs).expect("the last");
        assert!(first_page(last.noffset[3], addrs).is_some());
        assert_eq!(
            first_page(last.noffset[3] + 2, addrs),
            None,
            "beyond the tree"
        );
        assert_eq!(first_page(3, addrs), None, "indirect");
        assert_eq!(first_page(XATTR_NODE_OFFSET, addrs), None);
    }
}
