//! Symbolic links: a target that fits is stored in the inode (with the option `inline_data`), any
//! other in a block of its own.

use crate::F2fs;
use crate::inode::{Inode, Use};
use crate::ops::Op;
use base::Ino;
use fscore::{Errno, FileKind, FsError, FsResult};
use ondisk::f2fs::{BLOCK_BYTES, Inline, InodeFields};

/// Longest target: a NUL must follow it in the block.
const TARGET_BYTES_MAX: usize = BLOCK_BYTES - 1;

impl F2fs {
    /// The fields of a new link say how long its target is, and whether it is in the inode's block,
    /// which it is if it fits.
    pub(super) fn shape_link(&self, fields: &mut InodeFields, target: &[u8]) {
        fields.size = target.len() as u64;
        if self.options.inline_data && target.len() <= fields.inline_data_range().len() {
            fields.inline = fields.inline | Inline::DATA | Inline::DATA_EXIST;
        }
    }

    /// Gives a target that did not fit a block.
    pub(super) fn put_long_target(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        target: &[u8],
    ) -> FsResult<()> {
        if inode.core().fields.inline.has(Inline::DATA) {
            return Ok(());
        }
        self.store_content(op, inode, target)
    }

    pub(crate) fn op_readlink(&self, ino: Ino) -> FsResult<Vec<u8>> {
        let inode = self.inode(ino)?;
        if inode.kind()? != FileKind::Symlink {
            return Err(Errno::Inval.into());
        }
        inode.check_use(Use::Read)?;
        self.limit_accesses();
        let _gate = inode.gate.read();
        let bad =
            |what: String| FsError::corrupt(format!("symbolic link inode {}: {what}", inode.ino));
        let fields = inode.core().fields.clone();
        let size = fields.size;
        if size == 0 || size > TARGET_BYTES_MAX as u64 {
            return Err(bad(format!("a target of {size} bytes")));
        }
        let size = size as usize;
        let target = match fields.inline.has(Inline::DATA) {
            true => self.with_node(inode.nid(), |block| {
                block[fields.inline_data_range()][..size].to_vec()
            })?,
            false => self.dir_page(&inode, 0)?[..size].to_vec(),
        };
        if target.contains(&0) {
            return Err(bad(format!("a NUL within the {size} bytes of the target")));
        }
        self.note_access(&inode);
        Ok(target)
    }
}
