//! Symbolic links: a short target lies in the inode, where other inodes have their block mapping; a
//! longer one has a block, which passes through the journal like a directory's. With feature
//! `inline_data` a target of up to some hundred bytes may lie in the inode as inline data. Such a
//! link is read and removed, but none is made, as in Linux: e2fsck does not count a block of its
//! attributes.

use crate::map::Span;
use crate::tx::Tx;
use crate::{Ext4, Inode};
use base::Ino;
use fscore::{Errno, FileKind, FsError, FsResult};
use ondisk::ext4::{BLOCK_AREA_BYTES, InodeFlags};

impl Ext4 {
    /// Gives a new symbolic link its target.
    pub(super) fn store_target(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        target: &[u8],
    ) -> FsResult<()> {
        let size = target.len();
        if size < BLOCK_AREA_BYTES {
            let mut core = inode.core();
            let flags = core.disk.flags().without(InodeFlags::EXTENTS);
            core.disk.set_flags(flags);
            let area = core.disk.block_area_mut();
            area.fill(0);
            area[..size].copy_from_slice(target);
        } else {
            let mut block = target.to_vec();
            block.resize(self.block_size.bytes(), 0);
            self.append_block(tx, inode, block.into())?;
        }
        inode.core().set_size(size as u64);
        self.put_inode(tx, inode)
    }

    pub(crate) fn op_readlink(&self, ino: Ino) -> FsResult<Vec<u8>> {
        let inode = self.inode(ino)?;
        if inode.kind()? != FileKind::Symlink {
            return Err(Errno::Inval.into());
        }
        let _gate = inode.gate.read();
        let target = self.load_target(&inode)?;
        self.note_access(&inode)?;
        Ok(target)
    }

    fn load_target(&self, inode: &Inode) -> FsResult<Vec<u8>> {
        let bad =
            |what: String| FsError::corrupt(format!("symbolic link inode {}: {what}", inode.ino));
        let size = inode.core().size;
        if size == 0 || size >= self.block() {
            return Err(bad(format!("a target of {size} bytes")));
        }
        let size = size as usize;
        let target = if inode.is_inline() {
            let target = self.inline_content(inode)?;
            match target.len() == size {
                true => target,
                false => return Err(bad(format!("{} of {size} bytes", target.len()))),
            }
        } else if inode.core().is_fast_symlink() {
            inode.core().disk.block_area()[..size].to_vec()
        } else {
            match self.lookup_span(inode, 0, 1)? {
                Span::Data { start, .. } => self.read_meta(start)?[..size].to_vec(),
                Span::Hole { .. } | Span::Unwritten { .. } => {
                    return Err(bad("no block holds the target".into()));
                }
            }
        };
        match target.contains(&0) {
            true => Err(bad(format!("a NUL within the {size} bytes of the target"))),
            false => Ok(target),
        }
    }
}
