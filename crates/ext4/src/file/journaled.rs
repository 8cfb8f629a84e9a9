//! data=journal: file data goes through the log, so blocks are allocated and logged by the write
//! itself, not by write-back.

use crate::Ext4;
use crate::extent::INSERT_NODES_MAX;
use crate::inode::Inode;
use crate::map::Span;
use base::{BlockNo, Bytes};
use fscore::{Errno, FsResult, Home};

/// Pages per handle.
const PAGES_MAX: usize = 16;
/// For each page: its block, a bitmap and a descriptor; besides these the inode and the tree.
pub(crate) const CREDITS: u32 = 4 * PAGES_MAX as u32 + 4 + 4 * INSERT_NODES_MAX;

/// What becomes of a small rest of the unwritten extent that a page is written into.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// It is zeroed and becomes written (`zero_out.rs`).
    Zeroed,
    /// It stays as it is: pages over it may wait for their write-back.
    Unwritten,
}

impl Ext4 {
    /// Writes through the journal; answers how many bytes were written. The gate is held.
    pub(super) fn write_journaled(
        &self,
        inode: &Inode,
        offset: u64,
        data: &[u8],
    ) -> FsResult<usize> {
        let mut done = 0;
        while done < data.len() {
            let pos = offset + done as u64;
            let room = PAGES_MAX * self.block_size.bytes() - (pos % self.block()) as usize;
            let part = &data[done..data.len().min(done + room)];
            match self.log_pages(inode, pos, part) {
                Ok(0) => break,
                Ok(len) => done += len,
                Err(_) if done > 0 => break,
                Err(e) => return Err(e),
            }
        }
        if done == 0 {
            return Err(Errno::NoSpc.into());
        }
        Ok(done)
    }

    fn log_pages(&self, inode: &Inode, pos: u64, data: &[u8]) -> FsResult<usize> {
        let wanted = PAGES_MAX as u64 + u64::from(INSERT_NODES_MAX);
        // promise-B5: no page of such a file is delayed.
        let logged = self.after_making_room(|| {
            let promise = self.promise_up_to(wanted);
            if promise >= 2 {
                return self.log_promised(inode, pos, data, promise).map(Some);
            }
            self.space.release(promise);
            Ok(None)
        })?;
        match logged {
            Some(len) => Ok(len),
            None => self.log_promised(inode, pos, data, 0),
        }
    }

    fn log_promised(&self, inode: &Inode, pos: u64, data: &[u8], promise: u64) -> FsResult<usize> {
        let contents = self.compose(inode, pos, data);
        let contents = match contents {
            Ok(contents) => contents,
            Err(e) => {
                self.space.release(promise);
                return Err(e);
            }
        };
        self.transact_promised(CREDITS, promise, |tx| {
            let mut done = 0;
            for (index, content, len) in contents {
                let block = match self.place_page(tx, inode, index, Rest::Zeroed) {
                    Ok(block) => block,
                    Err(e) if e.errno() == Errno::NoSpc => break,
                    Err(e) => return Err(e),
                };
                tx.write_data(block, content.clone())?;
                self.pages.drop_range(inode.ino, index..index + 1);
                self.pages.fill(inode.ino, index, content, Home::Known);
                done += len;
            }
            let end = pos + done as u64;
            {
                let mut core = inode.core();
                if done > 0 && end > core.size {
                    core.set_size(end);
                }
                if done > 0 {
                    core.datasync_tid = tx.tid();
                    core.sync_tid = tx.tid();
                }
            }
            self.put_inode(tx, inode)?;
            Ok(done)
        })
    }

    /// The new content of each page, with its index and the bytes of `data` that are in it.
    fn compose(&self, inode: &Inode, pos: u64, data: &[u8]) -> FsResult<Vec<(u64, Bytes, usize)>> {
        let mut out = Vec::new();
        let mut done = 0;
        while done < data.len() {
            let at = pos + done as u64;
            let (index, skip) = (at / self.block(), (at % self.block()) as usize);
            let len = (self.block_size.bytes() - skip).min(data.len() - done);
            let mut page = if len == self.block_size.bytes() {
                self.zero_page()
            } else {
                match self.pages.get(inode.ino, index) {
                    Some(page) => page,
                    None => self.fill(inode, index, index + 1)?,
                }
            }
            .to_vec();
            page[skip..skip + len].copy_from_slice(&data[done..done + len]);
            out.push((index, page.into(), len));
            done += len;
        }
        Ok(out)
    }

    /// The block of a page; allocates one if the page has none.
    pub(super) fn place_page(
        &self,
        tx: &mut crate::tx::Tx<'_>,
        inode: &Inode,
        index: u64,
        rest: Rest,
    ) -> FsResult<BlockNo> {
        let _tree = inode.tree.write();
        let lblk = index as u32;
        match self.lookup_locked(inode, lblk, 1)? {
            Span::Data { start, .. } => Ok(start),
            Span::Unwritten { start, .. } => {
                match rest {
                    Rest::Zeroed => self.convert_around(tx, inode, lblk)?,
                    Rest::Unwritten => self.convert_written(tx, inode, lblk, 1)?,
                }
                Ok(start)
            }
            Span::Hole { .. } => Ok(self.map_hole(tx, inode, lblk, 1)?.0),
        }
    }
}
