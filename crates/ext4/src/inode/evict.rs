//! The end of an inode: pins count how often an inode is open, and one without links is freed when
//! it loses its last pin.

use super::{Inode, coarse_now};
use crate::Ext4;
use crate::extent::{STEP_CREDITS, Step};
use crate::tx::Tx;
use fscore::{Errno, FsResult};
use std::sync::Arc;

/// Bitmap and descriptor of the inode; the inode and its removal from the orphans; the attribute
/// block with bitmap and descriptor.
const CREDITS_END: u32 = 9;
/// Blocks that the last handle of an inode may change, with a step that frees content.
pub(crate) const CREDITS_EVICT: u32 = STEP_CREDITS + CREDITS_END;

impl Ext4 {
    /// Pins an inode.
    pub(crate) fn pin(&self, inode: &Inode) -> FsResult<()> {
        let mut core = inode.core();
        if core.gone {
            return Err(Errno::Stale.into());
        }
        core.pins += 1;
        Ok(())
    }

    /// Unpins an inode. Removing the last pin frees an inode without links.
    pub(crate) fn unpin(&self, inode: &Arc<Inode>) -> FsResult<()> {
        {
            let mut core = inode.core();
            core.pins = core.pins.checked_sub(1).ok_or(Errno::BadF)?;
        }
        if inode.core().pins == 0 {
            self.close_window_of(inode);
        }
        self.evict_if_unused(inode)
    }

    /// Frees an inode without links that is not open. The caller holds no locks and no handle, and
    /// the handle that took the last link (and made the inode an orphan) has finished.
    pub(crate) fn evict_if_unused(&self, inode: &Arc<Inode>) -> FsResult<()> {
        let _gate = inode.gate.write();
        {
            let core = inode.core();
            if core.pins > 0 || core.disk.links() > 0 || core.gone {
                return Ok(());
            }
        }
        self.evict(inode)
    }

    /// Frees blocks and inode. The gate is held.
    fn evict(&self, inode: &Inode) -> FsResult<()> {
        let _wb = inode.wb.lock();
        rt::charge(base::cost::ext4::EVICT);
        self.land_flights(inode);
        let dropped = self.pages.drop_range(inode.ino, 0..u64::MAX);
        self.drop_promise(inode, dropped);
        self.close_window_of(inode);
        self.transact(CREDITS_EVICT, |tx| {
            self.free_content(tx, inode)?;
            let was_dir = inode.is_dir();
            self.drop_xattr_block(tx, inode)?;
            self.orphan_del(tx, inode)?;
            {
                let mut core = inode.core();
                core.set_size(0);
                core.disk.set_deletion_time(coarse_now().secs as u32);
                core.gone = true;
            }
            self.put_inode(tx, inode)?;
            tx.tell_freed(inode.ino);
            self.free_ino(tx, inode.ino, was_dir)
        })?;
        self.inodes.remove(inode);
        Ok(())
    }

    /// Frees all blocks of an inode, in as many handles as it takes; in between it is an orphan
    /// (orphan-O1). Devices and short symbolic links have none.
    fn free_content(&self, tx: &mut Tx<'_>, inode: &Inode) -> FsResult<()> {
        {
            let mut core = inode.core();
            if !core.maps_blocks() || core.is_fast_symlink() {
                return Ok(());
            }
            // The size of a symbolic link tells whether it has a block; a mount after a crash may
            // need it again.
            if !core.disk.is_symlink() {
                core.set_size(0);
            }
        }
        while self.remove_some(tx, inode, 0)? == Step::More {
            self.put_inode(tx, inode)?;
            // Blocks of an inode without names: they go with it.
            tx.tell();
            tx.ensure(CREDITS_EVICT)?;
        }
        Ok(())
    }
}
