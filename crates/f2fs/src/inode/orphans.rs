//! Inodes without links that are still open: a checkpoint lists them, a mount frees them.

use base::Ino;

/// The list.
pub(crate) struct Orphans {}

impl Orphans {
    /// All of them, by number: what a checkpoint writes.
    pub fn all(&self) -> Vec<Ino> {
        todo!("file")
    }
}

impl crate::F2fs {
    /// Frees what the checkpoint lists as orphans. At mount, before operations begin.
    pub(crate) fn free_orphans(&self, listed: &[Ino]) -> fscore::FsResult<u64> {
        let _ = listed;
        todo!("file")
    }
}
