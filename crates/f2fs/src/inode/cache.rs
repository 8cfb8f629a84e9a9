//! Finding inodes, and the cache of those in memory.

use super::Inode;
use crate::F2fs;
use crate::ops::Op;
use base::Ino;
use fscore::FsResult;
use std::sync::Arc;

/// The inodes in memory.
pub(crate) struct Inodes {}

impl F2fs {
    /// The inode with this number.
    ///
    /// # Errors
    /// ESTALE if it is not in use; incompatible content; damage; I/O.
    pub(crate) fn inode(&self, ino: Ino) -> FsResult<Arc<Inode>> {
        let _ = ino;
        todo!("file")
    }

    /// Writes the fields to the inode's node block (N1).
    pub(crate) fn put_inode(&self, op: &Op<'_>, inode: &Inode) -> FsResult<()> {
        let _ = (op, inode);
        todo!("file")
    }
}
