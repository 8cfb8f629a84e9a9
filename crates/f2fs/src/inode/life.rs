//! Making and freeing inodes.

use super::Inode;
use crate::F2fs;
use fscore::{Creds, FileKind};
use ondisk::f2fs::InodeFields;

/// A new inode.
pub(crate) struct NewInode<'a> {
    pub kind: FileKind,
    pub perm: u16,
    pub rdev: u32,
    pub creds: Creds,
    /// Its first name: kept in the inode for roll-forward.
    pub name: &'a [u8],
}

/// Sets change time, and with `modify` the modification time, to now.
pub(super) fn touch(fields: &mut InodeFields, modify: bool) {
    let _ = (fields, modify);
    todo!("file")
}

impl F2fs {
    /// Frees an inode without links that nobody has open. The caller holds no lock.
    pub(crate) fn evict_if_unused(&self, inode: &Inode) -> fscore::FsResult<()> {
        let _ = inode;
        todo!("file")
    }
}
