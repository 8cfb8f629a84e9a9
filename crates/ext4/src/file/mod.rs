//! Content of files: reading, writing, write-back, truncation, fsync.
//!
//! Invariants:
//! - F1 a page that a write made dirty has a block, or a promise of one (delayed allocation); a
//!   write for which there is no promise left gets its blocks before it returns, or is refused;
//! - F2 data of new blocks is submitted, or held back to travel with the log, before the handle
//!   that maps them finishes, and the transaction of that handle waits for it (data=ordered);
//! - F3 blocks of pages that are on their way to the device are neither freed nor mapped: a task
//!   that does so holds `wb` and first waits for those pages (it lands their flights).

mod atomic_write;
mod fallocate;
mod journaled;
mod promise;
mod read;
mod reshape;
mod seek;
mod small;
mod sync;
mod truncate;
mod write;
mod writeback;
mod zero_out;

pub(crate) use journaled::CREDITS as JOURNALED_CREDITS;
pub(crate) use small::PAGES_MAX as SMALL_PAGES_MAX;
pub(crate) use truncate::ORPHAN_CREDITS;
pub(crate) use writeback::{MAP_CREDITS, Way};

use crate::Ext4;
use crate::inode::Inode;
use ondisk::ext4::Incompat;

impl Ext4 {
    /// True if extents map the blocks of a file, or will when its content leaves the inode.
    fn maps_by_extents(&self, inode: &Inode) -> bool {
        let core = inode.core();
        core.has_extents() || core.is_inline() && self.geo.incompat().has(Incompat::EXTENTS)
    }

    /// Largest size of this file, bytes.
    fn size_max_of(&self, inode: &Inode) -> u64 {
        match self.maps_by_extents(inode) {
            true => crate::extent::size_max(self.block_size),
            false => crate::blockmap::size_max(self.block_size),
        }
    }
}
