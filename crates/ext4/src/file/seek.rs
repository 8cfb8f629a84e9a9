//! SEEK_DATA and SEEK_HOLE: where data and holes begin.

use crate::Ext4;
use crate::inode::Inode;
use crate::map::Span;
use fscore::{Errno, FsResult, SeekMode};

impl Ext4 {
    /// The next data, or the next hole, at or behind `offset`. Unwritten blocks are holes; delayed
    /// pages, including those over unwritten blocks, are data.
    ///
    /// # Errors
    /// ENXIO at or behind the end, and if only holes follow.
    pub(crate) fn seek_file(&self, inode: &Inode, offset: u64, mode: SeekMode) -> FsResult<u64> {
        let _gate = inode.gate.read();
        // While `wb` is held, a page with content is either dirty or mapped.
        let _wb = inode.wb.lock();
        let size = inode.core().size;
        if offset >= size {
            return Err(Errno::NxIo.into());
        }
        if inode.is_inline() {
            return Ok(if mode == SeekMode::Data { offset } else { size });
        }
        let last = size.div_ceil(self.block());
        let mut lblk = offset / self.block();
        // The loop ends because each turn moves on.
        while lblk < last {
            let want = (last - lblk).min(u32::MAX.into()) as u32;
            let span = self.lookup_span(inode, lblk as u32, want)?;
            let end = lblk + u64::from(span.len());
            let data = match span {
                Span::Data { .. } => Some(lblk),
                Span::Hole { .. } | Span::Unwritten { .. } => {
                    self.pages.next_dirty(inode.ino, lblk..end)
                }
            };
            lblk = match (mode, data, span) {
                (SeekMode::Data, Some(at), _) => return Ok((at * self.block()).max(offset)),
                (SeekMode::Hole, Some(_), Span::Data { .. }) => end,
                // A dirty page lies over the hole; the next page may not be dirty.
                (SeekMode::Hole, Some(at), _) if at == lblk => lblk + 1,
                (SeekMode::Hole, ..) => return Ok((lblk * self.block()).max(offset)),
                (SeekMode::Data, None, _) => end,
            };
        }
        match mode {
            SeekMode::Data => Err(Errno::NxIo.into()),
            SeekMode::Hole => Ok(size),
        }
    }
}
