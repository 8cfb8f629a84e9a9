//! The list of orphans: the superblock names the newest, and each orphan names the next older one
//! in its deletion time.

use super::Place;
use crate::Ext4;
use crate::inode::Inode;
use crate::tx::Tx;
use base::Ino;
use fscore::{FsError, FsResult};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Names the list in error messages.
const BY: &str = "list of orphans";

impl Ext4 {
    /// Puts an inode on the list.
    pub(super) fn list_add(&self, tx: &mut Tx<'_>, inode: &Inode) -> FsResult<()> {
        let mut list = self.orphans.list.lock();
        let next = list.last().map_or(0, |ino| ino.0);
        {
            let mut core = inode.core();
            core.disk.set_deletion_time(next);
            core.orphan = Some(Place::List);
        }
        list.push(inode.ino);
        self.put_inode(tx, inode)?;
        self.update_superblock(tx, |sb| sb.set_last_orphan(inode.ino))
    }

    /// Takes an inode off the list.
    pub(super) fn list_del(&self, tx: &mut Tx<'_>, inode: &Inode) -> FsResult<()> {
        let mut list = self.orphans.list.lock();
        let at = list.iter().position(|&ino| ino == inode.ino);
        let at = at.expect("orphan-O3: an orphan is on the list");
        let older = at.checked_sub(1).map_or(Ino(0), |i| list[i]);
        match list.get(at + 1) {
            Some(&newer) => {
                let newer = self
                    .inodes
                    .get(newer)
                    .expect("ext4-inode-N3: orphans stay in memory");
                newer.core().disk.set_deletion_time(older.0);
                self.put_inode(tx, &newer)?;
            }
            None => self.update_superblock(tx, |sb| sb.set_last_orphan(older))?,
        }
        list.remove(at);
        {
            let mut core = inode.core();
            core.orphan = None;
            core.disk.set_deletion_time(0);
        }
        self.put_inode(tx, inode)
    }

    /// The chain on the device, newest first, all of it in the cache of inodes.
    pub(super) fn read_chain(&self) -> FsResult<Vec<Arc<Inode>>> {
        let mut chain: Vec<Arc<Inode>> = Vec::new();
        let mut seen = BTreeSet::new();
        let mut next = self.sb.lock().last_orphan();
        while next.0 != 0 {
            if !seen.insert(next) {
                return Err(FsError::corrupt(format!(
                    "{BY}: inode {next} is on it twice"
                )));
            }
            let inode = self.load_orphan(next, Place::List, BY)?;
            next = Ino(inode.core().disk.deletion_time());
            chain.push(inode);
        }
        Ok(chain)
    }
}
