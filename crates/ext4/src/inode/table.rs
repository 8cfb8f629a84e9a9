//! Where inodes lie in the inode table, and how they are written there.

use super::{Core, Inode};
use crate::Ext4;
use crate::tx::Tx;
use base::{BlockNo, Ino};
use fscore::{FsError, FsResult};
use ondisk::ext4::{InodePlace, InodeSeed, RoCompat};
use smallvec::SmallVec;
use std::ops::Range;

/// Where an inode holds its size (ext4 disk layout, "Index Nodes").
const SIZE: [Range<usize>; 2] = [0x04..0x08, 0x6C..0x70];
/// The fields with the count of blocks and the flags, and the root of the mapping. A block mapped
/// deeper down changes the count here.
const MAPPING: [Range<usize>; 2] = [0x1C..0x24, 0x28..0x64];

impl Ext4 {
    pub(crate) fn inode_place(&self, ino: Ino) -> FsResult<InodePlace> {
        self.geo.inode_place(ino).ok_or_else(|| {
            FsError::corrupt(format!(
                "inode {ino}: there are only {} inodes",
                self.geo.inodes_count()
            ))
        })
    }

    /// Block and byte offset of an inode.
    pub(crate) fn inode_home(&self, ino: Ino) -> FsResult<(BlockNo, usize)> {
        let place = self.inode_place(ino)?;
        let table = self.groups.inode_table(place.group);
        Ok((table.plus(place.table_block), place.offset))
    }

    /// Checksum seed of what belongs to an inode; `None` without metadata checksums.
    pub(crate) fn inode_seed(&self, inode: &Inode) -> Option<InodeSeed> {
        let generation = inode.core().disk.generation();
        self.seed.map(|seed| seed.inode(inode.ino, generation))
    }

    pub(crate) fn has_huge_files(&self) -> bool {
        self.geo.ro_compat().has(RoCompat::HUGE_FILE)
    }

    /// Hands the changes of an inode to the journal (ext4-inode-N1).
    pub(crate) fn put_inode(&self, tx: &mut Tx<'_>, inode: &Inode) -> FsResult<()> {
        let home = self.inode_home(inode.ino)?;
        let core = &mut *inode.core();
        match core.disk.bytes() == &core.logged[..] {
            true => Ok(()),
            false => self.store_inode(tx, (inode.ino, home), core),
        }
    }

    fn store_inode(
        &self,
        tx: &mut Tx<'_>,
        (ino, (block, offset)): (Ino, (BlockNo, usize)),
        core: &mut Core,
    ) -> FsResult<()> {
        if let Some(seed) = self.seed {
            core.disk.update_checksum(seed, ino);
        }
        let (new, logged) = (core.disk.bytes(), &mut core.logged);
        debug_assert!(
            core.disk.size() <= core.size || core.disk.is_dir(),
            "ext4-inode-N2: size on the device {} exceeds {}",
            core.disk.size(),
            core.size
        );
        tx.update(block, offset, logged, new)?;
        tx.note_fields(ino, core.disk.is_dir());
        core.sync_tid = tx.tid();
        let differ = |r: &Range<usize>| logged[r.clone()] != new[r.clone()];
        let (size, mapping) = (SIZE.iter().any(differ), MAPPING.iter().any(differ));
        if size {
            core.datasync_tid = tx.tid();
        }
        core.changes.all += 1;
        core.changes.data += u64::from(size || mapping);
        logged.copy_from_slice(new);
        Ok(())
    }

    /// Hands an inode that was just allocated to the journal, with all of its bytes, because those
    /// of an earlier inode do not count.
    pub(crate) fn put_new_inode(&self, tx: &mut Tx<'_>, inode: &Inode) -> FsResult<()> {
        let home @ (block, offset) = self.inode_home(inode.ino)?;
        let bytes = self.geo.inode_bytes();
        let old = self.read_meta(block)?;
        let core = &mut *inode.core();
        core.logged = SmallVec::from_slice(&old[offset..offset + bytes]);
        // The extra reference would turn the write into a copy.
        drop(old);
        // Also if those bytes are the same: they may lack the checksum.
        self.store_inode(tx, (inode.ino, home), core)
    }

    /// Counts clusters of an inode, those of extent blocks included.
    pub(crate) fn add_clusters(&self, inode: &Inode, clusters: i64) -> FsResult<()> {
        let huge = self.has_huge_files();
        let mut core = inode.core();
        let sectors = core.disk.sectors(huge, self.geo.block_bytes());
        let blocks = clusters * i64::from(self.geo.cluster_blocks());
        let change = blocks * self.block_size.sectors() as i64;
        let new = sectors.checked_add_signed(change).ok_or_else(|| {
            FsError::corrupt(format!(
                "inode {}: {sectors} sectors, and {} more are freed",
                inode.ino, -change
            ))
        })?;
        if !core.disk.set_sectors(new, huge, self.geo.block_bytes()) {
            return Err(fscore::Errno::FBig.into());
        }
        Ok(())
    }
}
