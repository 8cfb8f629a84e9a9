//! The mapping of a file: from page index to address slot, through the inode and its node tree; and
//! the extent cache.
//!
//! - M1 a node counts as part of a file's tree only if its footer names this inode and this place
//!   in the tree. So a path has at most four nodes, and no node is reached twice;
//! - M2 a slot that names a block outside the main area is damage;
//! - M3 after every step the tree is whole: a node is freed after what it leads to, and its parent
//!   forgets it at once;
//! - M4 counts follow slots: `space` and the inode's blocks change with each slot and node.

mod extents;
mod truncate;

pub(crate) use extents::Tree;
pub(crate) use truncate::ROOM_PER_SLOT;

use crate::F2fs;
use crate::inode::Inode;
use crate::ops::Op;
use base::Ino;
use extents::LastNode;
use fscore::{Errno, FsError, FsResult};
use ondisk::f2fs::{
    ADDRS_PER_BLOCK, BlockAddr, Extent, INODE_NID_SLOT0, Inline, InodeFields, NIDS_PER_BLOCK, Nid,
    NodePath, addr, addr_slot0, footer, nid_slot, node_path,
};

/// An address slot in a node block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    /// The inode or direct node.
    pub nid: Nid,
    /// Which slot of it (Linux `ofs_in_node`).
    pub slot: u16,
    /// The address in the slot.
    pub addr: BlockAddr,
}

/// Neighbouring pages of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    /// The first address: NULL (hole), NEW (reserved: reads as zeros), or a block; blocks of a run
    /// are neighbours.
    pub addr: BlockAddr,
    /// Number of pages.
    pub len: u64,
}

/// What of an inode decides where its slots are.
#[derive(Clone, Copy)]
struct Shape {
    ino: Nid,
    addrs: u32,
    /// Its content stands where its addresses would: it has no slots.
    inline: bool,
    dir: bool,
}

/// Where a way leads.
enum Way {
    /// To the node that has the slot.
    Node(LastNode),
    /// To a node that is missing: no page before this one has a slot.
    Nowhere(u64),
}

impl F2fs {
    /// The tree of an inode with these fields: its largest run as the device says, if it can be.
    pub(crate) fn new_tree(&self, fields: &InodeFields) -> Tree {
        let Extent { addr, len, .. } = fields.ext;
        let last = len.checked_sub(1).and_then(|n| addr.checked_add(n));
        // With a journal the inode does not keep it.
        let sane = self.journal.is_none()
            && self.geo.is_main(addr)
            && last.is_some_and(|a| self.geo.is_main(a));
        if sane && fields.is_regular() {
            Tree::new(fields.ext)
        } else {
            Tree::default()
        }
    }

    /// What lies at page `index` and behind it, at most `max` (> 0) pages. Damage (an address
    /// outside the main area) is an error.
    pub(crate) fn lookup(
        &self,
        inode: &Inode,
        tree: &mut Tree,
        index: u64,
        max: u64,
    ) -> FsResult<Run> {
        if let Some((addr, left)) = tree.find(index) {
            self.check_addr(inode.ino, index, addr)?;
            let len = left.min(max);
            return Ok(Run { addr, len });
        }
        let node = match self.way(&shape(inode), tree, index)? {
            Way::Node(node) => node,
            Way::Nowhere(end) => {
                let len = (end - index).min(max);
                return Ok(Run {
                    addr: BlockAddr::NULL,
                    len,
                });
            }
        };
        let run = self.with_node(node.nid, |block| run_at(block, &node, index))?;
        self.check_addr(inode.ino, index, run.addr)?;
        if run.addr.is_data() {
            let end = BlockAddr(run.addr.0 + (run.len - 1) as u32);
            self.check_addr(inode.ino, index + run.len - 1, end)?;
            tree.learn(index, run.addr, run.len);
        }
        let len = run.len.min(max);
        Ok(Run { len, ..run })
    }

    /// The slot of page `index`; `None` if no node leads there.
    pub(crate) fn find_slot(
        &self,
        inode: &Inode,
        tree: &mut Tree,
        index: u64,
    ) -> FsResult<Option<Slot>> {
        match self.way(&shape(inode), tree, index)? {
            Way::Node(node) => self.slot_of(inode.ino, &node, index).map(Some),
            Way::Nowhere(_) => Ok(None),
        }
    }

    /// The same, and makes the nodes that are missing (each counts in `space` and in the inode's
    /// blocks).
    ///
    /// # Errors
    /// EFBIG, ENOSPC; then no node was made that leads nowhere.
    pub(crate) fn make_slot(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &mut Tree,
        index: u64,
    ) -> FsResult<Slot> {
        let node = self.make_node(op, inode, tree, index)?;
        self.slot_of(inode.ino, &node, index)
    }

    /// The same, and how many slots of its node say the same from this one on (of those that name
    /// blocks: say neighbours).
    ///
    /// # Errors
    /// As [`make_slot`](Self::make_slot).
    pub(crate) fn make_slots(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &mut Tree,
        index: u64,
    ) -> FsResult<(Slot, u64)> {
        let node = self.make_node(op, inode, tree, index)?;
        let slot = self.slot_of(inode.ino, &node, index)?;
        let run = self.with_node(node.nid, |block| run_at(block, &node, index))?;
        Ok((slot, run.len))
    }

    /// The node that has the slot of page `index`; it and those on the way are made if they are
    /// missing.
    fn make_node(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &mut Tree,
        index: u64,
    ) -> FsResult<LastNode> {
        let shape = shape(inode);
        if shape.inline {
            let ino = inode.ino;
            return Err(FsError::corrupt(format!(
                "inode {ino}: a block for inline content"
            )));
        }
        if let Way::Node(node) = self.way(&shape, tree, index)? {
            return Ok(node);
        }
        let path = node_path(index, shape.addrs).ok_or(Errno::FBig)?;
        self.make_way(op, inode, &shape, &path)?;
        match self.way(&shape, tree, index)? {
            Way::Node(node) => Ok(node),
            Way::Nowhere(_) => unreachable!("M3: the way was made"),
        }
    }

    /// Changes what a slot says, in its node block and in the extent cache. Neither counts nor
    /// frees blocks.
    pub(crate) fn set_slot(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &mut Tree,
        index: u64,
        slot: &Slot,
        addr: BlockAddr,
    ) -> FsResult<()> {
        self.set_slots(op, inode, tree, index, slot, &[addr])
    }

    /// The same for slots of one node, one behind the other: `slot` is the first one.
    pub(crate) fn set_slots(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &mut Tree,
        index: u64,
        slot: &Slot,
        addrs: &[BlockAddr],
    ) -> FsResult<()> {
        if self.journal.is_some() {
            self.drop_stale_extent(op, inode)?;
        }
        self.edit_node(op, slot.nid, |edit| edit.put_addrs(slot.slot, addrs))?;
        if slot.nid == inode.nid() {
            inode.core().changed();
        }
        let regular = inode.core().fields.is_regular();
        for (index, &addr) in (index..).zip(addrs) {
            if !regular {
                tree.forget(index, index + 1);
            } else if tree.moved(index, addr) && self.journal.is_none() {
                self.put_extent(op, inode, tree)?;
            }
        }
        Ok(())
    }

    /// The inode says what the cache knows of the largest run.
    fn put_extent(&self, op: &Op<'_>, inode: &Inode, tree: &Tree) -> FsResult<()> {
        inode.core().fields.ext = tree.largest();
        self.put_inode(op, inode)?;
        inode.core().changed();
        Ok(())
    }

    fn slot_of(&self, ino: Ino, node: &LastNode, index: u64) -> FsResult<Slot> {
        let slot = (index - node.first) as u16;
        let addr = self.with_node(node.nid, |block| {
            addr(block, addr_slot0(block) + usize::from(slot))
        })?;
        self.check_addr(ino, index, addr)?;
        let nid = node.nid;
        Ok(Slot { nid, slot, addr })
    }

    /// M2.
    fn check_addr(&self, ino: Ino, index: u64, addr: BlockAddr) -> FsResult<()> {
        if addr == BlockAddr::NULL || addr == BlockAddr::NEW || self.geo.is_main(addr) {
            return Ok(());
        }
        if addr == BlockAddr::COMPRESS {
            return Err(FsError::incompatible(format!(
                "inode {ino}, page {index}: compressed"
            )));
        }
        let what = format!("inode {ino}, page {index}: block {addr} is outside the main area");
        Err(FsError::corrupt(what))
    }

    /// The node that has the slot of page `index`.
    fn way(&self, shape: &Shape, tree: &mut Tree, index: u64) -> FsResult<Way> {
        if let Some(last) = tree.last.filter(|l| (l.first..l.end).contains(&index)) {
            return Ok(Way::Node(last));
        }
        if shape.inline {
            return Ok(Way::Nowhere(u64::MAX));
        }
        let Some(path) = node_path(index, shape.addrs) else {
            return Ok(Way::Nowhere(u64::MAX));
        };
        let level = usize::from(path.level);
        let mut nid = shape.ino;
        for step in 0..level {
            let at = nid_word(step, path.offsets[step]);
            let child = self.with_node(nid, |block| nid_slot(block, at))?;
            if child == Nid(0) {
                return Ok(Way::Nowhere(end_of_subtree(
                    &path,
                    shape.addrs,
                    index,
                    step,
                )));
            }
            self.check_part(shape.ino, child, path.noffset[step + 1])?;
            nid = child;
        }
        let slots = if level == 0 {
            shape.addrs
        } else {
            ADDRS_PER_BLOCK
        };
        let first = index - u64::from(path.offsets[level]);
        let node = LastNode {
            first,
            end: first + u64::from(slots),
            nid,
        };
        tree.last = Some(node);
        Ok(Way::Node(node))
    }

    /// M1: the node belongs to this place of the tree of `ino`.
    fn check_part(&self, ino: Nid, nid: Nid, ofs: u32) -> FsResult<()> {
        let footer = self.with_node(nid, footer)?;
        if footer.ino == ino && footer.ofs_of_node() == ofs {
            return Ok(());
        }
        let (owner, at) = (footer.ino, footer.ofs_of_node());
        let what =
            format!("inode {ino}: its node {nid} says it is node {at} of inode {owner}, not {ofs}");
        Err(FsError::corrupt(what))
    }

    /// Makes the nodes of a way that are missing, from above.
    fn make_way(&self, op: &Op<'_>, inode: &Inode, shape: &Shape, path: &NodePath) -> FsResult<()> {
        let mut nid = shape.ino;
        let mut made: Vec<(Nid, usize, Nid)> = Vec::new();
        for step in 0..usize::from(path.level) {
            let at = nid_word(step, path.offsets[step]);
            let child = self.with_node(nid, |block| nid_slot(block, at))?;
            if child != Nid(0) {
                nid = child;
                continue;
            }
            match self.make_child(op, shape, nid, at, path.noffset[step + 1]) {
                Ok(child) => {
                    made.push((nid, at, child));
                    nid = child;
                }
                Err(e) => {
                    for (parent, at, child) in made.into_iter().rev() {
                        self.edit_node(op, parent, |edit| edit.put_child(at, Nid(0)))?;
                        self.free_node(op, child)?;
                    }
                    return Err(e);
                }
            }
        }
        {
            let mut core = inode.core();
            core.fields.blocks += made.len() as u64;
            if let Some(&(_, at, child)) = made.iter().find(|(parent, _, _)| *parent == shape.ino) {
                core.fields.nids[at - INODE_NID_SLOT0] = child;
            }
        }
        self.put_inode(op, inode)?;
        inode.core().changed();
        Ok(())
    }

    fn make_child(
        &self,
        op: &Op<'_>,
        shape: &Shape,
        parent: Nid,
        at: usize,
        ofs: u32,
    ) -> FsResult<Nid> {
        let child = self.nid_take(op)?;
        let made = self.new_node(op, child, Ino(shape.ino.0), ofs, !shape.dir, |_| ());
        if let Err(e) = made {
            self.nat.give_back(child);
            return Err(e);
        }
        self.edit_node(op, parent, |edit| edit.put_child(at, child))?;
        Ok(child)
    }
}

fn shape(inode: &Inode) -> Shape {
    let core = inode.core();
    let fields = &core.fields;
    Shape {
        ino: inode.nid(),
        addrs: fields.addrs_per_inode(),
        inline: fields.inline.has(Inline::DATA) || fields.inline.has(Inline::DENTRY),
        dir: fields.is_dir(),
    }
}

/// The word of a node that has the number of the next one.
pub(crate) fn nid_word(step: usize, offset: u16) -> usize {
    match step {
        0 => INODE_NID_SLOT0 + usize::from(offset),
        _ => usize::from(offset),
    }
}

/// Pages below a node of this level (1: direct).
fn span(level: usize) -> u64 {
    let nids = u64::from(NIDS_PER_BLOCK);
    u64::from(ADDRS_PER_BLOCK) * nids.pow(level as u32 - 1)
}

/// The page behind all those that lead through the `step`-th number on the way to page `index`.
fn end_of_subtree(path: &NodePath, addrs: u32, index: u64, step: usize) -> u64 {
    let level = usize::from(path.level);
    // Offsets behind this step say how far into the subtree the page lies.
    let inside: u64 = (step + 1..level)
        .map(|s| u64::from(path.offsets[s]) * span(level - s))
        .sum::<u64>()
        + u64::from(path.offsets[level]);
    debug_assert!(
        index >= inside + u64::from(addrs),
        "M1: the way and its page"
    );
    index - inside + span(level - step)
}

/// The run of slots of one kind from page `index` on, inside one node.
fn run_at(block: &[u8], node: &LastNode, index: u64) -> Run {
    let at = addr_slot0(block) + (index - node.first) as usize;
    let first = addr(block, at);
    let most = (node.end - index) as usize;
    let like = |n: usize| {
        let next = addr(block, at + n);
        match first.is_data() {
            true => first.checked_add(n as u32) == Some(next),
            false => next == first,
        }
    };
    let len = (1..most).find(|&n| !like(n)).unwrap_or(most) as u64;
    Run { addr: first, len }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_subtree_ends_where_the_next_begins() {
        let d = 1018u64;
        let i = d * d;
        let addrs = 900;
        let a = u64::from(addrs);
        let cases = [
            (a, 0, a + d),
            (a + d + 5, 0, a + 2 * d),
            (a + 2 * d + 3 * d + 7, 0, a + 2 * d + i),
            (a + 2 * d + 3 * d + 7, 1, a + 2 * d + 4 * d),
            (
                a + 2 * d + 2 * i + 5 * i + 6 * d + 7,
                0,
                a + 2 * d + 2 * i + i * d,
            ),
            (
                a + 2 * d + 2 * i + 5 * i + 6 * d + 7,
                1,
                a + 2 * d + 2 * i + 6 * i,
            ),
            (
                a + 2 * d + 2 * i + 5 * i + 6 * d + 7,
                2,
                a + 2 * d + 2 * i + 5 * i + 7 * d,
            ),
        ];
        for (index, step, end) in cases {
            let path = node_path(index, addrs).expect("a page");
            assert_eq!(
                end_of_subtree(&path, addrs, index, step),
                end,
                "page {index}, step {step}"
            );
        }
    }
}
