//! Link counts of directories (namei-D4).

use crate::{Ext4, Inode};
use fscore::{Errno, FsResult};
use ondisk::ext4::{InodeFlags, RoCompat};

/// The maximum of links (`EXT4_LINK_MAX`).
pub(super) const LINKS_MAX: u16 = 65_000;
/// The link count of a directory with more subdirectories than can be counted.
const UNCOUNTED: u16 = 1;

impl Ext4 {
    /// Checks that `dir` can have one more subdirectory.
    pub(super) fn check_subdirs(&self, dir: &Inode) -> FsResult<()> {
        let links = dir.core().disk.links();
        match links >= LINKS_MAX && !self.may_stop_counting(dir) {
            true => Err(Errno::MLink.into()),
            false => Ok(()),
        }
    }

    /// True if counting may stop for `dir`: only for directories with a hash tree, as in Linux.
    fn may_stop_counting(&self, dir: &Inode) -> bool {
        let indexed = dir.core().disk.flags().has(InodeFlags::INDEX);
        indexed && self.geo.ro_compat().has(RoCompat::DIR_NLINK)
    }

    /// Counts a new subdirectory. Here and below, the caller puts the inode.
    pub(super) fn subdir_came(&self, dir: &Inode) {
        let stop = self.may_stop_counting(dir);
        let mut core = dir.core();
        let links = match core.disk.links() {
            UNCOUNTED => UNCOUNTED,
            LINKS_MAX.. if stop => UNCOUNTED,
            links => links + 1,
        };
        core.disk.set_links(links);
    }

    /// Counts a removed subdirectory.
    pub(super) fn subdir_went(&self, dir: &Inode) {
        let mut core = dir.core();
        let links = core.disk.links();
        if links > 2 {
            core.disk.set_links(links - 1);
        }
    }
}
