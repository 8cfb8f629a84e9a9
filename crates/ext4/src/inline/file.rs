//! Files whose content lies in the inode.

use crate::Ext4;
use crate::file::MAP_CREDITS;
use crate::inode::{Inode, Promise};
use crate::tx::Tx;
use fscore::{FsResult, Home};
use ondisk::ext4::ExtentNode;

impl Ext4 {
    /// Writes into the inode if the content lies there, or may, and there is room. Otherwise moves
    /// content that lies in the inode to a block, and answers `None`: the write goes to pages. The
    /// gate is held exclusively.
    ///
    /// # Errors
    /// ENOSPC, with nothing changed.
    pub(crate) fn write_inline(
        &self,
        inode: &Inode,
        offset: u64,
        data: &[u8],
    ) -> FsResult<Option<usize>> {
        if !inode.is_inline() && !self.can_move_in(inode)? {
            return Ok(None);
        }
        let end = (offset + data.len() as u64).max(inode.core().size);
        let room = self.inline_room(inode)?;
        if room.is_none_or(|room| end > room as u64) {
            self.leave_inode_if_inline(inode)?;
            return Ok(None);
        }
        let mut content = match inode.is_inline() {
            true => self.inline_content(inode)?,
            false => Vec::new(),
        };
        content.resize(end as usize, 0);
        content[offset as usize..][..data.len()].copy_from_slice(data);
        self.transact(1, |tx| {
            inode.core().touch(true);
            self.store_inline(tx, inode, &content)
        })?;
        Ok(Some(data.len()))
    }

    /// True for an empty file that maps nothing and has no cached pages (inline-L2).
    fn can_move_in(&self, inode: &Inode) -> FsResult<bool> {
        if !self.may_be_inline() {
            return Ok(false);
        }
        {
            let core = inode.core();
            let empty = core.size == 0 && core.disk.size() == 0;
            if !empty || core.promise != Promise::default() || !core.disk.is_regular() {
                return Ok(false);
            }
            let area = core.disk.block_area();
            let maps = match core.has_extents() {
                true => ExtentNode::parse(area)
                    .map_or(true, |root| root.depth > 0 || !root.entries.is_empty()),
                false => !base::bytes::is_zero(area),
            };
            if maps {
                return Ok(false);
            }
        }
        let cached = self.pages.next_cached(inode.ino, 0..u64::MAX).is_some();
        Ok(!cached && inode.flights.lock().is_empty())
    }

    /// Gives the content of a file a block of its own, if it lies in the inode. The gate is held
    /// exclusively.
    ///
    /// # Errors
    /// ENOSPC, with nothing changed (inline-L5).
    pub(crate) fn leave_inode_if_inline(&self, inode: &Inode) -> FsResult<()> {
        if !inode.is_inline() {
            return Ok(());
        }
        let content = self.inline_content(inode)?;
        self.with_room(|| {
            let _wb = inode.wb.lock();
            self.transact(MAP_CREDITS, |tx| {
                self.leave_inode(tx, inode, |tx| match content.is_empty() {
                    true => Ok(()),
                    false => self.place_content(tx, inode, &content),
                })
            })
        })
    }

    /// Moves the content to a block; inline-L3: content, block and mapping in one transaction. `wb`
    /// is held.
    fn place_content(&self, tx: &mut Tx<'_>, inode: &Inode, content: &[u8]) -> FsResult<()> {
        let start = {
            let _tree = inode.tree.write();
            self.map_hole(tx, inode, 0, 1)?.0
        };
        if self.logs_data(inode) {
            let mut page = content.to_vec();
            page.resize(self.block_size.bytes(), 0);
            tx.write_data(start, page.clone().into())?;
            self.pages.fill(inode.ino, 0, page.into(), Home::Known);
            return Ok(());
        }
        let zeros = self.zero_page();
        self.pages
            .write(inode.ino, 0, 0, content, &zeros, Home::Known);
        self.submit_ordered(tx, inode, 0, true)
    }

    /// Sets the size of a file whose content lies in the inode, if the content can stay there.
    /// Otherwise the content has been moved to a block, or was there before, and the answer is
    /// false. The gate is held exclusively.
    pub(crate) fn resize_inline(&self, inode: &Inode, size: u64) -> FsResult<bool> {
        let room = self.inline_room(inode)?;
        if room.is_none_or(|room| size > room as u64) {
            self.leave_inode_if_inline(inode)?;
            return Ok(false);
        }
        let mut content = self.inline_content(inode)?;
        content.resize(size as usize, 0);
        self.transact(1, |tx| {
            inode.core().touch(true);
            self.store_inline(tx, inode, &content)
        })?;
        Ok(true)
    }

    /// After a crash: removes what a truncation has left behind the size, and takes the inode off
    /// the orphans.
    pub(crate) fn finish_inline(&self, inode: &Inode) -> FsResult<()> {
        let content = self.inline_content(inode)?;
        let size = inode.core().size;
        self.transact(crate::file::ORPHAN_CREDITS, |tx| {
            self.store_inline(tx, inode, &content)?;
            inode.core().set_size(size);
            self.orphan_del(tx, inode)?;
            self.put_inode(tx, inode)
        })
    }
}
