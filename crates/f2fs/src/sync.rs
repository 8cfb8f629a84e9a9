//! fsync and fdatasync.

use crate::F2fs;
use crate::inode::Inode;
use fscore::FsResult;

impl F2fs {
    /// Makes an inode durable. The caller holds no lock.
    pub(crate) fn sync_inode(&self, inode: &Inode, data_only: bool) -> FsResult<()> {
        let _ = (inode, data_only);
        todo!("node")
    }
}
