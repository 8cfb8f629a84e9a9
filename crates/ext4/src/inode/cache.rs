//! Finding inodes, and the cache of those in memory.

use super::{Core, Inode};
use crate::Ext4;
use crate::fault;
use base::Ino;
use fscore::{Errno, FsError, FsResult};
use ondisk::ext4 as disk;
use ondisk::ext4::InodeFlags;
use rt::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Inodes kept beyond those in use.
const IDLE_MAX: usize = 4096;

/// The inodes in memory.
pub(crate) struct InodeCache {
    map: Mutex<BTreeMap<Ino, Arc<Inode>>>,
}

impl InodeCache {
    pub fn new() -> InodeCache {
        InodeCache {
            map: Mutex::named("inode cache", BTreeMap::new()),
        }
    }

    pub fn get(&self, ino: Ino) -> Option<Arc<Inode>> {
        self.map.lock().get(&ino).cloned()
    }

    /// Adds an inode; answers the one that was there already, if any.
    pub fn add(&self, inode: Arc<Inode>) -> Arc<Inode> {
        let mut map = self.map.lock();
        map.entry(inode.ino).or_insert(inode).clone()
    }

    /// Drops a freed inode, unless its number has a new owner already.
    pub fn remove(&self, inode: &Inode) {
        let mut map = self.map.lock();
        if map
            .get(&inode.ino)
            .is_some_and(|known| std::ptr::eq(&**known, inode))
        {
            map.remove(&inode.ino);
        }
    }

    /// Puts a new inode in the place of what had its number before.
    pub fn replace(&self, inode: Arc<Inode>) {
        self.map.lock().insert(inode.ino, inode);
    }

    pub fn all(&self) -> Vec<Arc<Inode>> {
        self.map.lock().values().cloned().collect()
    }

    fn len(&self) -> usize {
        self.map.lock().len()
    }
}

impl Ext4 {
    /// The inode with this number.
    ///
    /// # Errors
    /// ESTALE if it is not in use; damage; I/O errors.
    pub(crate) fn inode(&self, ino: Ino) -> FsResult<Arc<Inode>> {
        if let Some(inode) = self.inodes.get(ino) {
            if inode.core().gone {
                return Err(Errno::Stale.into());
            }
            return Ok(inode);
        }
        let disk = self.read_inode(ino)?;
        self.check_inode(ino, &disk)?;
        self.prune_inodes();
        // As in Linux: nothing is known of the past, so the running transaction may hold a change of this inode.
        let mut core = Core::new(disk, self.newest_tid());
        // Nor of its data: an earlier life of this inode in memory may have written some that no flush has covered (H19).
        core.data_mark = self.queue.mark();
        Ok(self.inodes.add(Arc::new(Inode::new(ino, core))))
    }

    /// Reads an inode from its table and checks its checksum.
    pub(crate) fn read_inode(&self, ino: Ino) -> FsResult<disk::Inode> {
        let (block, offset) = self.inode_home(ino)?;
        let bytes = self.read_meta(block)?;
        let at_inode = |e: ondisk::Corrupt| fault::corrupt(e.at_inode(ino).at_block(block));
        let disk =
            disk::Inode::parse(&bytes[offset..], self.geo.inode_bytes()).map_err(at_inode)?;
        if disk.is_blank() {
            return Err(Errno::Stale.into());
        }
        if let Some(seed) = self.seed {
            disk.verify_checksum(seed, ino).map_err(at_inode)?;
        }
        Ok(disk)
    }

    /// Refuses an inode that is not in use, or that nothing here can make sense of.
    pub(crate) fn check_inode(&self, ino: Ino, disk: &disk::Inode) -> FsResult<()> {
        if disk.links() == 0 {
            return Err(Errno::Stale.into());
        }
        let bad = |what: String| Err(FsError::corrupt(format!("inode {ino}: {what}")));
        if fscore::FileKind::from_mode(disk.mode()).is_none() {
            return bad(format!("mode {:#o} has no file type", disk.mode()));
        }
        let unknown = [
            (InodeFlags::ENCRYPT, false),
            (InodeFlags::CASEFOLD, false),
            (InodeFlags::INLINE_DATA, true),
            (InodeFlags::VERITY, true),
            (InodeFlags::EA_INODE, true),
        ];
        let refused = |&(flag, readable): &(InodeFlags, bool)| {
            disk.flags().has(flag) && !(readable && self.options.read_only)
        };
        if let Some((flag, _)) = unknown.into_iter().find(refused) {
            return Err(FsError::incompatible(format!(
                "inode {ino} has flag {flag}"
            )));
        }
        if disk.size() > crate::file::size_max(self.block_size) {
            return bad(format!("size {} is beyond what can be mapped", disk.size()));
        }
        if disk.is_dir()
            && !disk.flags().has(InodeFlags::INLINE_DATA)
            && (disk.size() == 0 || !disk.size().is_multiple_of(self.block()))
        {
            return bad(format!("a directory of {} bytes", disk.size()));
        }
        Ok(())
    }

    /// Drops idle inodes when there are many (N3).
    fn prune_inodes(&self) {
        if self.inodes.len() <= IDLE_MAX {
            return;
        }
        let mut map = self.inodes.map.lock();
        map.retain(|&ino, inode| {
            let busy = Arc::strong_count(inode) > 1 || self.pages.is_dirty(ino);
            let flying = inode.flights.try_lock().is_none_or(|f| !f.is_empty());
            busy || flying || {
                let core = inode.core();
                let used = core.pins > 0 || core.orphan || core.disk.links() == 0;
                // A failed write that no fsync has reported yet must not be forgotten.
                used || core.promise.data > 0 || core.write_errors.unreported().is_some()
            }
        });
    }
}
