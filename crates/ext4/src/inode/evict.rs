//! The end of an inode: opens, releases, and freeing one without links.

use super::{Inode, coarse_now};
use crate::Ext4;
use crate::fault;
use crate::tx::Tx;
use base::bytes::{get_le32, put_le32};
use fscore::{Errno, FsResult};
use ondisk::ext4::XattrBlock;
use std::sync::Arc;

/// Inode, bitmap, descriptor, superblock and predecessor of the orphan list, attribute block with bitmap and descriptor.
const EVICT_CREDITS: u32 = 9;

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

    /// Unpins it; the last one out frees an inode without links.
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

    /// Frees an inode without links that nobody has open. Call it without locks and handles, after the handle that took the
    /// last link (and put the inode on the list of orphans) has finished.
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
        self.land_flights(inode);
        let dropped = self.pages.drop_range(inode.ino, 0..u64::MAX);
        self.drop_promise(inode, dropped);
        self.close_window_of(inode);
        self.free_content(inode)?;
        self.transact(EVICT_CREDITS, |tx| {
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
            self.free_ino(tx, inode.ino, was_dir)
        })?;
        self.inodes.remove(inode);
        Ok(())
    }

    /// One reference less to the block of extended attributes; the last one frees it.
    fn drop_xattr_block(&self, tx: &mut Tx<'_>, inode: &Inode) -> FsResult<()> {
        let block = inode.core().disk.xattr_block();
        if block.0 == 0 {
            return Ok(());
        }
        self.check_range(block, 1, &format!("i_file_acl of inode {}", inode.ino))?;
        let old = self.read_meta(block)?;
        let place = |e: ondisk::Corrupt| fault::corrupt(e.at_inode(inode.ino).at_block(block));
        XattrBlock::parse(&old).map_err(place)?;
        if let Some(seed) = self.seed {
            XattrBlock::verify_checksum(seed, block, &old).map_err(place)?;
        }
        let references = get_le32(&old, 4);
        if references > 1 {
            let mut new = old.to_vec();
            put_le32(&mut new, 4, references - 1);
            if let Some(seed) = self.seed {
                XattrBlock::update_checksum(seed, block, &mut new);
            }
            tx.update(block, 0, &old, &new)?;
        } else {
            tx.forget(block)?;
            self.free_blocks(tx, block, 1)?;
        }
        inode.core().disk.set_xattr_block(base::BlockNo(0));
        self.add_blocks(inode, -1)
    }

    /// Frees all blocks of an inode. Devices and short symbolic links have none.
    fn free_content(&self, inode: &Inode) -> FsResult<()> {
        let (maps, has_size) = {
            let core = inode.core();
            let maps = core.maps_blocks() && !core.is_fast_symlink();
            // The size of a symbolic link tells whether it has a block; after a crash somebody may have to ask again.
            (maps, !core.disk.is_symlink())
        };
        if !maps {
            return Ok(());
        }
        if has_size {
            self.transact(1, |tx| {
                inode.core().set_size(0);
                self.put_inode(tx, inode)
            })?;
        }
        self.finish_truncate(inode, 0)
    }
}
