//! Takes blocks out of a mapping: all from some page on, or those of a range.
//!
//! Damage that is met (an address outside the main area, a block that was already free, a node of
//! another inode) does not stop the freeing: everything that can be freed is, and then the first
//! damage is returned as the error.
//!
//! With a journal one operation frees only so much that its records stay below
//! [`OP_MAX`](crate::journal::OP_MAX): it stops between two steps of map-M3 and reports that there
//! is [`more`](Cut::more). The next operation begins at the same page and finds what was freed as
//! holes.
//!
//! - C1 a file that goes with its content does not forget that content first: what frees its inode
//!   block makes the block's words count for nothing. Only if the inode stays, because there is
//!   more to free or because of an error, its block says what was freed, in the same operation. A
//!   directory forgets always, because the records of its slots are what frees its blocks at home.

use super::{F2fs, LastNode, Shape, Tree, Way, nid_word, shape, span};
use crate::inode::Inode;
use crate::journal::Tx;
use crate::ops::Op;
use crate::segs::Owned;
use fscore::{FsError, FsResult};
use ondisk::f2fs::{
    ADDRS_PER_BLOCK, BlockAddr, INODE_NID_SLOT0, NIDS_PER_BLOCK, Nid, addr, addr_slot0, nid_slot,
};

/// Place in the tree and level of the five nodes that an inode names.
const ROOTS: [(u32, usize); 5] = [
    (1, 1),
    (2, 1),
    (3, 2),
    (4 + NIDS_PER_BLOCK, 2),
    (5 + 2 * NIDS_PER_BLOCK, 3),
];

/// What a truncation did so far.
struct Freed {
    /// Data blocks and reserved ones.
    blocks: u64,
    nodes: u64,
    /// A direct node below an indirect one was freed, and it is on the device.
    cut_below: bool,
    damage: Option<FsError>,
    /// Stop when the operation has logged so much.
    bound: Option<usize>,
    /// That bound was reached, and something is left to free.
    more: bool,
    owner: Owned,
    /// C1: a file that goes, and words of its inode block that lead to nothing any more.
    dying: Option<(Nid, Vec<usize>)>,
}

/// What became of a truncation.
#[must_use]
pub(crate) struct Cut {
    /// The operation has logged as much as it may: another one has to free the rest.
    pub more: bool,
    /// The first damage, or what ended it.
    pub result: FsResult<()>,
}

/// Bytes of an operation's room in the journal for each slot that is freed between two looks at how
/// much it has logged. A slot logs 28, at worst.
pub(crate) const ROOM_PER_SLOT: usize = 128;

impl Freed {
    /// Nothing yet, of this inode; however much it is.
    fn of(shape: &Shape) -> Freed {
        Freed {
            blocks: 0,
            nodes: 0,
            cut_below: false,
            damage: None,
            bound: None,
            more: false,
            owner: Owned::by(shape.ino, shape.dir),
            dying: None,
        }
    }

    /// A word of a node leads to nothing any more. False if the node has to say so now (C1).
    fn is_left(&mut self, nid: Nid, word: usize) -> bool {
        let dying = self.dying.as_mut().filter(|(ino, _)| *ino == nid);
        dying.map(|(_, words)| words.push(word)).is_some()
    }

    /// The operation has logged what it may.
    fn is_enough(&mut self, op: &Op<'_>) -> bool {
        let logged = op.tx().map_or(0, Tx::so_far);
        self.more |= self.bound.is_some_and(|most| logged >= most / 2);
        self.more
    }

    /// Damage is kept, anything else is an end.
    fn note(&mut self, result: FsResult<()>) -> FsResult<()> {
        match result {
            Err(e @ FsError::Corrupt { .. }) => {
                self.damage.get_or_insert(e);
                Ok(())
            }
            other => other,
        }
    }
}

/// A part of the tree.
#[derive(Clone, Copy)]
struct Part {
    nid: Nid,
    /// Its place in the tree.
    ofs: u32,
    /// 1: direct.
    level: usize,
    /// Pages of it that stay.
    keep: u64,
}

impl F2fs {
    /// Frees all blocks from page `from` on and the nodes that lead to nothing but them; `space`
    /// and the inode's blocks are adjusted. The amount has no bound: for callers that log nothing,
    /// or know that it is little.
    pub(crate) fn truncate_map(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &mut Tree,
        from: u64,
    ) -> FsResult<()> {
        let freed = Freed::of(&shape(inode));
        self.truncate_part_of_map(op, inode, tree, from, freed)
            .result
    }

    /// The same, no more than one operation may log.
    pub(crate) fn truncate_step(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &mut Tree,
        from: u64,
    ) -> Cut {
        let mut freed = Freed::of(&shape(inode));
        freed.bound = op.tx().map(|_| self.op_max());
        self.truncate_part_of_map(op, inode, tree, from, freed)
    }

    /// Frees the whole mapping of an inode that the same operation then frees (C1), no more than
    /// one operation may log if it is `bounded`.
    pub(crate) fn drop_map(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &mut Tree,
        bounded: bool,
    ) -> Cut {
        let shape = shape(inode);
        let mut freed = Freed::of(&shape);
        freed.bound = op.tx().filter(|_| bounded).map(|_| self.op_max());
        freed.dying = (!shape.dir).then(|| (shape.ino, Vec::new()));
        self.truncate_part_of_map(op, inode, tree, 0, freed)
    }

    fn truncate_part_of_map(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &mut Tree,
        from: u64,
        mut freed: Freed,
    ) -> Cut {
        let shape = shape(inode);
        if shape.inline {
            return Cut {
                more: false,
                result: Ok(()),
            };
        }
        tree.last = None;
        tree.forget(from, u64::MAX);
        let result = self.truncate_all(op, shape.ino, u64::from(shape.addrs), from, &mut freed);
        tree.cut_below |= freed.cut_below;
        let more = freed.more && result.is_ok();
        let goes = result.is_ok() && freed.damage.is_none() && !more;
        if goes && freed.dying.is_some() {
            self.space.return_blocks(op, freed.blocks);
            return Cut { more, result };
        }
        let (_, words) = freed.dying.take().unwrap_or_default();
        let result = result.and(self.clear_words(op, shape.ino, &words));
        let result = self.settle_map(op, inode, tree, freed, result);
        Cut { more, result }
    }

    /// These words of a node lead to nothing any more: neither to a block nor to a node.
    fn clear_words(&self, op: &Op<'_>, nid: Nid, words: &[usize]) -> FsResult<()> {
        match words.is_empty() {
            true => Ok(()),
            false => self.edit_node(op, nid, |edit| edit.clear_words(words)),
        }
    }

    /// Frees the `n`-th of the five subtrees of an inode.
    pub(crate) fn drop_subtree(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &mut Tree,
        n: usize,
    ) -> FsResult<()> {
        let shape = shape(inode);
        let (ofs, level) = ROOTS[n];
        let before: u64 = ROOTS[..n].iter().map(|&(_, level)| span(level)).sum();
        let first = u64::from(shape.addrs) + before;
        tree.last = None;
        tree.forget(first, first + span(level));
        let at = nid_word(0, n as u16);
        let nid = self.with_node(shape.ino, |block| nid_slot(block, at))?;
        if nid == Nid(0) {
            return Ok(());
        }
        let mut freed = Freed::of(&shape);
        let part = Part {
            nid,
            ofs,
            level,
            keep: 0,
        };
        let result = self.truncate_part(op, shape.ino, part, &mut freed);
        let result =
            result.and_then(|_| self.edit_node(op, shape.ino, |edit| edit.put_child(at, Nid(0))));
        self.settle_map(op, inode, tree, freed, result)
    }

    /// Frees the blocks of `from..to` and leaves holes; nodes stay.
    pub(crate) fn punch_map(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &mut Tree,
        from: u64,
        to: u64,
    ) -> FsResult<()> {
        let shape = shape(inode);
        tree.forget(from, to);
        let mut freed = Freed::of(&shape);
        let mut index = from;
        let mut result = Ok(());
        while index < to && result.is_ok() {
            index = match self.way(&shape, tree, index) {
                Ok(Way::Node(node)) => {
                    let end = node.end.min(to);
                    result = self.free_slots(op, &node, index, end, &mut freed);
                    end
                }
                Ok(Way::Nowhere(end)) => end,
                Err(e) => {
                    result = Err(e);
                    to
                }
            };
        }
        self.settle_map(op, inode, tree, freed, result)
    }

    /// The counts follow (map-M4), whatever came in between.
    fn settle_map(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &Tree,
        freed: Freed,
        result: FsResult<()>,
    ) -> FsResult<()> {
        self.space.return_blocks(op, freed.blocks);
        let nids = self.with_node(inode.nid(), |block| {
            std::array::from_fn(|n| nid_slot(block, INODE_NID_SLOT0 + n))
        })?;
        {
            let mut core = inode.core();
            let fields = &mut core.fields;
            fields.nids = nids;
            if self.journal.is_none() {
                fields.ext = tree.largest();
            }
            fields.blocks = fields
                .blocks
                .saturating_sub(freed.blocks + freed.nodes)
                .max(1);
        }
        self.put_inode(op, inode)?;
        inode.core().changed();
        result?;
        freed.damage.map_or(Ok(()), Err)
    }

    fn truncate_all(
        &self,
        op: &Op<'_>,
        ino: Nid,
        addrs: u64,
        from: u64,
        freed: &mut Freed,
    ) -> FsResult<()> {
        if from < addrs {
            let node = LastNode {
                first: 0,
                end: addrs,
                nid: ino,
            };
            self.free_slots(op, &node, from, addrs, freed)?;
        }
        let mut first = addrs;
        for (n, (ofs, level)) in ROOTS.into_iter().enumerate() {
            if freed.is_enough(op) {
                break;
            }
            let keep = from.saturating_sub(first);
            first += span(level);
            let at = nid_word(0, n as u16);
            let nid = self.with_node(ino, |block| nid_slot(block, at))?;
            if nid == Nid(0) || keep >= span(level) {
                continue;
            }
            let part = Part {
                nid,
                ofs,
                level,
                keep,
            };
            if self.truncate_part(op, ino, part, freed)? && !freed.is_left(ino, at) {
                self.edit_node(op, ino, |edit| edit.put_child(at, Nid(0)))?;
            }
        }
        Ok(())
    }

    /// Frees a part of the tree behind the pages that it keeps; true if nothing is left of it.
    fn truncate_part(
        &self,
        op: &Op<'_>,
        ino: Nid,
        part: Part,
        freed: &mut Freed,
    ) -> FsResult<bool> {
        if let Err(e) = self.check_part(ino, part.nid, part.ofs) {
            // Another's node, or none: not ours to free. The way to it ends here.
            freed.note(Err(e))?;
            return Ok(part.keep == 0);
        }
        if part.level == 1 {
            let node = LastNode {
                first: 0,
                end: u64::from(ADDRS_PER_BLOCK),
                nid: part.nid,
            };
            self.free_slots(op, &node, part.keep, node.end, freed)?;
        } else {
            self.truncate_children(op, ino, part, freed)?;
        }
        if part.keep > 0 || freed.more {
            return Ok(false);
        }
        if part.level == 1 && part.ofs > 2 {
            freed.cut_below |= self.nat.get(part.nid)?.addr.is_data();
        }
        let result = self.free_node(op, part.nid);
        freed.note(result)?;
        freed.nodes += 1;
        Ok(true)
    }

    fn truncate_children(
        &self,
        op: &Op<'_>,
        ino: Nid,
        part: Part,
        freed: &mut Freed,
    ) -> FsResult<()> {
        let below = span(part.level - 1);
        // Nodes of one child: itself, and of an indirect one what it leads to.
        let each = if part.level == 3 {
            NIDS_PER_BLOCK + 1
        } else {
            1
        };
        let block = self.node(part.nid)?;
        for n in (part.keep / below) as u32..NIDS_PER_BLOCK {
            let nid = nid_slot(&block, n as usize);
            if nid == Nid(0) {
                continue;
            }
            if freed.is_enough(op) {
                break;
            }
            let child = Part {
                nid,
                ofs: part.ofs + 1 + n * each,
                level: part.level - 1,
                keep: part.keep.saturating_sub(u64::from(n) * below),
            };
            if self.truncate_part(op, ino, child, freed)? {
                self.edit_node(op, part.nid, |edit| edit.put_child(n as usize, Nid(0)))?;
            }
        }
        Ok(())
    }

    /// Frees what the slots of pages `from..to` of a node name.
    fn free_slots(
        &self,
        op: &Op<'_>,
        node: &LastNode,
        from: u64,
        to: u64,
        freed: &mut Freed,
    ) -> FsResult<()> {
        let slots = (from - node.first) as usize..(to - node.first) as usize;
        let used: Vec<(usize, BlockAddr)> = self.with_node(node.nid, |block| {
            let slot0 = addr_slot0(block);
            let all = slots.map(|s| (slot0 + s, addr(block, slot0 + s)));
            all.filter(|(_, addr)| *addr != BlockAddr::NULL).collect()
        })?;
        let at_once = freed.bound.map_or(usize::MAX, |most| most / ROOM_PER_SLOT);
        for part in used.chunks(at_once) {
            if freed.is_enough(op) {
                break;
            }
            let mut words: Vec<usize> = part.iter().map(|&(at, _)| at).collect();
            words.retain(|&at| !freed.is_left(node.nid, at));
            self.clear_words(op, node.nid, &words)?;
            freed.blocks += part.len() as u64;
            let blocks = part.iter().map(|&(_, addr)| addr);
            let blocks: Vec<BlockAddr> = blocks.filter(|addr| addr.is_data()).collect();
            let result = self.invalidate_all(op, freed.owner, &blocks);
            freed.note(result)?;
        }
        Ok(())
    }
}
