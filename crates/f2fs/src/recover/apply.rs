//! Applies the chain of roll-forward: first subtrees go that the chain names no more, because new
//! nodes need numbers of their own; then missing inodes are made; then each node block of the chain
//! changes its inode, in order.

use super::RecoveryReport;
use super::chain::{Link, Plan, Reader, Wanted};
use crate::F2fs;
use crate::inode::Inode;
use crate::ops::Op;
use base::{BLOCK_BYTES, Ino};
use fscore::{FsError, FsResult};
use ondisk::f2fs::{
    Advise, Extent, INODE_NID_SLOT0, Inline, InodeFields, Nid, NodeKind, XATTR_BLOCK_BYTES,
    XATTR_NODE_OFFSET, max_file_blocks, nid_slot,
};
use std::collections::BTreeMap;

impl F2fs {
    pub(super) fn apply_chain(
        &self,
        op: &Op<'_>,
        chain: &[Link],
        plan: &Plan,
        report: &mut RecoveryReport,
    ) -> FsResult<()> {
        let mut reader = Reader::default();
        self.drop_replaced(op, chain, plan)?;
        for (&ino, wanted) in &plan.inodes {
            if let Some(n) = wanted.made_from {
                let block = reader.read(self, chain[n].at)?;
                self.make_recovered(op, ino, &block)?;
                report.inodes_made += 1;
            }
        }
        for (n, link) in chain.iter().enumerate() {
            let Some(wanted) = plan.inodes.get(&link.footer.ino).filter(|w| n <= w.last) else {
                continue;
            };
            let block = reader.read(self, link.at)?;
            self.apply_link(op, n, link, wanted, &block, report)
                .map_err(|e| at_link(e, link))?;
        }
        Ok(())
    }

    fn apply_link(
        &self,
        op: &Op<'_>,
        n: usize,
        link: &Link,
        wanted: &Wanted,
        block: &[u8],
        report: &mut RecoveryReport,
    ) -> FsResult<()> {
        let Ok(inode) = self.inode(Ino(link.footer.ino.0)) else {
            // Its name was given to another inode behind it in the chain, or the checkpoint holds
            // it for an orphan.
            return Ok(());
        };
        match link.footer.kind() {
            NodeKind::Inode => {
                let fields = self.recovered_fields(link.footer.ino, block)?;
                self.apply_fields(op, &inode, &fields)?;
                self.apply_subtrees(op, &inode, &fields)?;
                self.apply_inline_xattr(op, &inode, &fields, block)?;
                if !self.apply_inline_data(op, &inode, &fields, block)? {
                    report.blocks += self.apply_slots(op, &inode, link, block)?;
                }
                if wanted.name == Some(n) {
                    self.apply_name(op, &inode, &fields, report)?;
                }
            }
            NodeKind::Direct => {
                self.leave_inline_behind(op, &inode)?;
                report.blocks += self.apply_slots(op, &inode, link, block)?;
            }
            NodeKind::Xattr => self.apply_xattr_node(op, &inode, block)?,
            NodeKind::Indirect | NodeKind::DoubleIndirect => {}
        }
        if n == wanted.last {
            self.cut_behind_end(op, &inode)?;
            report.inodes += 1;
        }
        Ok(())
    }

    /// The fields of an inode block of the chain, checked.
    fn recovered_fields(&self, ino: Nid, block: &[u8]) -> FsResult<InodeFields> {
        let parsed = InodeFields::parse(block, self.features);
        let fields = parsed.map_err(|e| crate::fault::corrupt(e.at_inode(Ino(ino.0))))?;
        let pages = fields.size.div_ceil(BLOCK_BYTES as u64);
        let what = if !fields.is_regular() {
            format!("mode {:#o} is no regular file's", fields.mode)
        } else if pages > max_file_blocks() + u64::from(fields.addrs_per_inode()) {
            format!("size {} is beyond what can be mapped", fields.size)
        } else if fields.inline.has(Inline::DATA)
            && fields.size > fields.inline_data_range().len() as u64
        {
            format!("{} bytes of inline data", fields.size)
        } else {
            return Ok(fields);
        };
        Err(FsError::corrupt(format!("inode {ino}: {what}")))
    }

    /// Makes an inode that the checkpoint does not have, without content.
    fn make_recovered(&self, op: &Op<'_>, ino: Nid, block: &[u8]) -> FsResult<()> {
        let mut fields = self.recovered_fields(ino, block)?;
        let layout = Inline::XATTR | Inline::EXTRA_ATTR;
        fields.inline = Inline(fields.inline.0 & layout.0);
        (fields.size, fields.blocks, fields.links) = (0, 1, 1);
        (fields.ext, fields.nids, fields.xattr_nid) = (Extent::default(), [Nid(0); 5], Nid(0));
        self.new_node(op, ino, Ino(ino.0), 0, true, |edit| edit.new_inode(&fields))
    }

    fn apply_fields(&self, op: &Op<'_>, inode: &Inode, from: &InodeFields) -> FsResult<()> {
        {
            let mut core = inode.core();
            let to = &mut core.fields;
            if !to.is_regular() || layout(to) != layout(from) {
                let ino = inode.ino;
                return Err(FsError::corrupt(format!(
                    "inode {ino} had another layout before"
                )));
            }
            (to.mode, to.uid, to.gid, to.projid) = (from.mode, from.uid, from.gid, from.projid);
            (to.atime, to.ctime, to.mtime) = (from.atime, from.ctime, from.mtime);
            (to.size, to.flags, to.advise) = (from.size, from.flags, from.advise);
            to.current_depth = from.current_depth;
            for bit in [Inline::PIN_FILE, Inline::DATA_EXIST, Inline::XATTR] {
                let on = if from.inline.has(bit) { bit.0 } else { 0 };
                to.inline = Inline(to.inline.0 & !bit.0 | on);
            }
        }
        self.put_inode(op, inode)
    }

    /// recover-V5: what the inode block names no more is free.
    fn apply_subtrees(&self, op: &Op<'_>, inode: &Inode, from: &InodeFields) -> FsResult<()> {
        let now = inode.core().fields.nids;
        for (n, (is, named)) in now.into_iter().zip(from.nids).enumerate() {
            if is != Nid(0) && named == Nid(0) {
                self.drop_subtree(op, inode, &mut inode.tree.lock(), n)?;
            }
        }
        if from.xattr_nid == Nid(0) && inode.core().fields.xattr_nid != Nid(0) {
            self.drop_xattr_node(op, inode)?;
        }
        Ok(())
    }

    /// recover-V5: of the tree that the checkpoint has, what some inode block of the chain names
    /// otherwise was freed. Nodes that recovery makes have numbers of their own, so this comes
    /// before anything is made.
    fn drop_replaced(&self, op: &Op<'_>, chain: &[Link], plan: &Plan) -> FsResult<()> {
        let mut reader = Reader::default();
        let mut gone: BTreeMap<Nid, [bool; 5]> = BTreeMap::new();
        for (n, link) in chain.iter().enumerate() {
            let ino = link.footer.ino;
            let wanted = plan.inodes.get(&ino);
            if !link.footer.is_inode() || wanted.is_none_or(|w| n > w.last || w.made_from.is_some())
            {
                continue;
            }
            let Ok(inode) = self.inode(Ino(ino.0)) else {
                continue;
            };
            let block = reader.read(self, link.at)?;
            let now = inode.core().fields.nids;
            let gone = gone.entry(ino).or_default();
            for (n, now) in now.into_iter().enumerate() {
                gone[n] |= now != Nid(0) && nid_slot(&block, INODE_NID_SLOT0 + n) != now;
            }
        }
        for (ino, gone) in gone {
            let inode = self.inode(Ino(ino.0))?;
            for n in (0..5).filter(|&n| gone[n]) {
                self.drop_subtree(op, &inode, &mut inode.tree.lock(), n)?;
            }
        }
        Ok(())
    }

    fn apply_inline_xattr(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        from: &InodeFields,
        block: &[u8],
    ) -> FsResult<()> {
        let area = from.inline_xattr_range();
        self.rewrite_node(op, inode.nid(), |to| {
            to[area.clone()].copy_from_slice(&block[area]);
        })
    }

    /// Inline data of the chain replaces what there was. True if the chain has the content inline.
    fn apply_inline_data(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        from: &InodeFields,
        block: &[u8],
    ) -> FsResult<bool> {
        if !from.inline.has(Inline::DATA) {
            self.leave_inline_behind(op, inode)?;
            return Ok(false);
        }
        if !inode.core().fields.inline.has(Inline::DATA) {
            let mut tree = inode.tree.lock();
            self.truncate_map(op, inode, &mut tree, 0)?;
            tree.forget(0, u64::MAX);
            drop(tree);
            let mut core = inode.core();
            core.fields.inline = core.fields.inline | Inline::DATA;
        }
        let area = from.inline_data_range();
        self.rewrite_node(op, inode.nid(), |to| {
            // The word in front of the data stands for an address, and says none.
            to[area.start - 4..area.start].fill(0);
            to[area.clone()].copy_from_slice(&block[area]);
        })?;
        self.put_inode(op, inode)?;
        Ok(true)
    }

    /// The file has blocks from now on: what it had inline is in them.
    fn leave_inline_behind(&self, op: &Op<'_>, inode: &Inode) -> FsResult<()> {
        let area = {
            let mut core = inode.core();
            if !core.fields.inline.has(Inline::DATA) {
                return Ok(());
            }
            let gone = Inline::DATA | Inline::DATA_EXIST;
            core.fields.inline = Inline(core.fields.inline.0 & !gone.0);
            core.fields.inline_data_range()
        };
        self.rewrite_node(op, inode.nid(), |to| to[area].fill(0))?;
        self.put_inode(op, inode)
    }

    fn apply_xattr_node(&self, op: &Op<'_>, inode: &Inode, block: &[u8]) -> FsResult<()> {
        let mut nid = inode.core().fields.xattr_nid;
        if nid == Nid(0) {
            nid = self.nid_take(op)?;
            let made = self.new_node(op, nid, inode.ino, XATTR_NODE_OFFSET, true, |_| ());
            if let Err(e) = made {
                self.nat.give_back(nid);
                return Err(e);
            }
            {
                let mut core = inode.core();
                core.fields.xattr_nid = nid;
                core.fields.blocks += 1;
            }
            self.put_inode(op, inode)?;
        }
        self.rewrite_node(op, nid, |to| {
            to[..XATTR_BLOCK_BYTES].copy_from_slice(&block[..XATTR_BLOCK_BYTES]);
        })
    }

    /// recover-V5: makes sure that nothing lies behind the end of a file, unless its flags allow
    /// that.
    fn cut_behind_end(&self, op: &Op<'_>, inode: &Inode) -> FsResult<()> {
        let (size, keep) = {
            let core = inode.core();
            (core.fields.size, core.fields.advise.has(Advise::KEEP_SIZE))
        };
        if keep {
            return Ok(());
        }
        let mut tree = inode.tree.lock();
        self.truncate_map(op, inode, &mut tree, size.div_ceil(BLOCK_BYTES as u64))
    }
}

/// What decides where things lie in an inode.
fn layout(fields: &InodeFields) -> (u16, u16) {
    (fields.extra_isize, fields.inline_xattr_size)
}

fn at_link(e: FsError, link: &Link) -> FsError {
    match e {
        FsError::Corrupt { what } => {
            let Link { at, footer } = link;
            FsError::corrupt(format!("block {at} (node {}): {what}", footer.nid))
        }
        other => other,
    }
}
