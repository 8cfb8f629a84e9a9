//! Inline data: the content of a small file, stored in its inode block.

use super::{ALL, Why, zero_page};
use crate::F2fs;
use crate::inode::{Core, Inode};
use crate::ops::Op;
use base::{BLOCK_BYTES, Mutant};
use fscore::{FsError, FsResult, Home};
use ondisk::f2fs::journal::Content;
use ondisk::f2fs::{BlockAddr, Inline};
use std::ops::Range;

/// True if the content lies in the inode.
pub(super) fn is_inline(core: &Core) -> bool {
    core.fields.inline.has(Inline::DATA)
}

/// Bytes that fit into the inode (`MAX_INLINE_DATA`).
pub(super) fn room(core: &Core) -> u64 {
    core.fields.inline_data_range().len() as u64
}

impl F2fs {
    /// Where inline content lies in the inode block.
    fn inline_area(&self, inode: &Inode) -> FsResult<Range<usize>> {
        let core = inode.core();
        let area = core.fields.inline_data_range();
        if core.fields.size > area.len() as u64 {
            return Err(FsError::corrupt(format!(
                "inode {}: {} bytes of inline data in a room of {}",
                inode.ino,
                core.fields.size,
                area.len()
            )));
        }
        Ok(area)
    }

    /// Reads inline content; the range lies in the file.
    pub(super) fn read_inline(&self, inode: &Inode, offset: u64, buf: &mut [u8]) -> FsResult<()> {
        let area = self.inline_area(inode)?;
        let at = area.start + offset as usize;
        let len = buf.len();
        self.with_node(inode.nid(), |block| {
            buf.copy_from_slice(&block[at..at + len]);
        })
    }

    /// Writes inline content; the range lies in the room for it. The caller sets size and times,
    /// and puts the inode.
    pub(super) fn write_inline(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        offset: u64,
        data: &[u8],
    ) -> FsResult<()> {
        let at = self.inline_area(inode)?.start + offset as usize;
        self.edit_node(op, inode.nid(), |edit| {
            edit.put_bytes(Content::InlineData, at, data);
        })?;
        let mut core = inode.core();
        core.fields.inline.0 |= Inline::DATA_EXIST.0;
        core.changed();
        Ok(())
    }

    /// Zeroes inline content of `range`, as far as there is room for any.
    pub(super) fn zero_inline(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        range: Range<u64>,
    ) -> FsResult<()> {
        let area = self.inline_area(inode)?;
        let part = |n: u64| area.start + n.min(area.len() as u64) as usize;
        let (from, to) = (part(range.start), part(range.end));
        self.rewrite_node(op, inode.nid(), |block| block[from..to].fill(0))?;
        let mut core = inode.core();
        if range.start == 0 && range.end >= area.len() as u64 {
            core.fields.inline.0 &= !Inline::DATA_EXIST.0;
        }
        core.changed();
        Ok(())
    }

    /// Moves inline data to a block of its own. The gate is held.
    ///
    /// The block is sent in the same `Op`: a checkpoint that has the inode without its inline data
    /// has the block (file-D2).
    ///
    /// # Errors
    /// ENOSPC: the data is still inline.
    pub(crate) fn leave_inline(&self, op: &Op<'_>, inode: &Inode) -> FsResult<()> {
        if !is_inline(&inode.core()) {
            return Ok(());
        }
        let area = self.inline_area(inode)?;
        let mut page = vec![0; BLOCK_BYTES];
        self.with_node(inode.nid(), |block| {
            page[..area.len()].copy_from_slice(&block[area.clone()]);
        })?;
        let size = inode.core().fields.size as usize;
        page[size..].fill(0);
        let empty = base::bytes::is_zero(&page);
        if !empty {
            self.space.claim_blocks(op, 1)?;
        }
        // From now on addresses lie there, and the flags of the inode say so.
        let mut fields = inode.core().fields.clone();
        fields.inline.0 &= !(Inline::DATA.0 | Inline::DATA_EXIST.0);
        let cleared = self.edit_node(op, inode.nid(), |edit| {
            if base::bytes::is_zero(&edit.bytes()[area.clone()]) {
                return edit.put_fields(&fields);
            }
            edit.by_comparing(|block| {
                block[area].fill(0);
                fields.encode_into(block, self.features);
            });
        });
        if let Err(e) = cleared {
            self.space.return_blocks(op, u64::from(!empty));
            return Err(e);
        }
        {
            let mut core = inode.core();
            core.fields.inline.0 &= !(Inline::DATA.0 | Inline::DATA_EXIST.0);
            core.changed();
        }
        self.put_inode(op, inode)?;
        if empty {
            return Ok(());
        }
        // The slot is in the inode block, which is in memory: only damage can fail here.
        {
            let mut tree = inode.tree.lock();
            let slot = self.make_slot(op, inode, &mut tree, 0)?;
            self.set_slot(op, inode, &mut tree, 0, &slot, BlockAddr::NEW)?;
        }
        inode.core().fields.blocks += 1;
        let known = Home::Known;
        self.pages
            .write(inode.ino, 0, 0, &page, &zero_page(), known);
        self.put_inode(op, inode)?;
        match rt::mutant(Mutant::F2fsLeaveInlineLate) {
            true => Ok(()),
            false => self.write_pages_within(op, inode, 0..1, Why::Rewrite, &inode.wb.lock()),
        }
    }

    /// Stores the target of a new symbolic link, or the content of any new inode: inline if its
    /// flag says so and it fits, else in blocks that are sent in the same `Op`. Sets the size; the
    /// inode is put.
    ///
    /// # Errors
    /// ENOSPC: the caller frees the inode.
    pub(crate) fn store_content(&self, op: &Op<'_>, inode: &Inode, data: &[u8]) -> FsResult<()> {
        let (inline, room) = {
            let core = inode.core();
            (is_inline(&core), room(&core))
        };
        if inline && data.len() as u64 <= room {
            self.write_inline(op, inode, 0, data)?;
        } else {
            if inline {
                self.leave_inline(op, inode)?;
            }
            for (index, part) in (0..).zip(data.chunks(BLOCK_BYTES)) {
                self.reserve(op, inode, &mut inode.tree.lock(), index)?;
                let known = Home::Known;
                self.pages
                    .write(inode.ino, index, 0, part, &zero_page(), known);
            }
        }
        {
            let mut core = inode.core();
            core.fields.size = data.len() as u64;
            core.changed();
        }
        self.put_inode(op, inode)?;
        self.write_pages_within(op, inode, ALL, Why::Rewrite, &inode.wb.lock())
    }
}
