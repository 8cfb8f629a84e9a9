//! Orphans: inodes that a mount after a crash must free or finish truncating, because they are
//! without links but were open, or were being truncated.
//!
//! On the device an orphan is named in one of two places:
//!
//! | place | changed blocks beside its inode | for |
//! |---|---|---|
//! | a slot of the orphan file ([`file`]) | the slot's block | volumes with feature `orphan_file` and a log, while a slot is free |
//! | the list ([`list`]) | the superblock, or the next newer orphan's inode | all others |
//!
//! Invariants:
//! - O1 an inode without links, or whose blocks behind its end are being freed, is named on the
//!   device from the transaction that makes it an orphan on to the one that ends that state: it is
//!   named in the handle that takes the last link or sets the size, and taken out in the handle
//!   that frees the inode, gives it a link, or frees the last block;
//! - O2 it is named once: `Core::orphan` says where. A volume that names one twice is refused;
//! - O3 `list` is the chain, oldest first, as the running transaction has it when its open handles
//!   have finished. The lock of the list covers the list and the numbers in the inodes in memory,
//!   not their way to the journal, because each orphan that is made or ended comes by it. Instead
//!   a handle that has changed such a number, or which orphan is the newest, hands over afterwards
//!   what is true at that moment: so the last to do so hands over the last state. Handles that are
//!   open at the same time belong to one transaction, and it is committed when all have finished.
//!   A neighbour that was freed meanwhile has nothing left to hand over, because its last state
//!   went to the journal before its number became free: so no later owner of the number is written
//!   over;
//! - O4 a slot counts as taken exactly while the running transaction's block holds a number there;
//!   the lock of the block is held over both changes and over the checksum, which is set with each
//!   of them;
//! - O5 `orphan_present` is durable before a transaction that fills a slot can commit: it is set
//!   with needs_recovery (ext4-mount-M1), before any other transaction of the mount or in the first
//!   one. It is cleared in place at unmount, when the log is empty, and only if no slot is taken.
//!   Linux sets and clears it at the same moments. e2fsck looks into the file only if it is set;
//!   Linux and this code always look, so that a superblock that came from a backup, where it is
//!   never set, loses no orphan;
//! - O6 a mount has checked all names before it ends the first orphan, and ends each as O1 says: a
//!   cut in between leaves those named that are left;
//! - O7 without a log nothing orders a slot and its inode, and nothing marks the volume: slots are
//!   not taken then, as in Linux.
//!
//! A slot can be reused for the next orphan at once, even in the same transaction, because only
//! whole transactions of a block reach the device.

mod file;
mod list;
mod place;

pub(crate) use file::OrphanFile;
pub(crate) use place::{Place, Slot};

use crate::Ext4;
use crate::inode::{Core, Inode};
use crate::tx::Tx;
use base::{Ino, Mutant};
use fscore::{FsError, FsResult};
use ondisk::ext4::Compat;
use rt::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The orphans of a mount.
pub(crate) struct Orphans {
    /// Those on the list.
    list: Mutex<Vec<Ino>>,
    /// Set before the first operation.
    file: Option<OrphanFile>,
}

/// The orphans that a mount finds, checked (O6).
pub(crate) struct Waiting {
    /// Those on the list, newest first.
    chain: Vec<Arc<Inode>>,
    /// Those in the file.
    slots: file::Named,
}

impl Orphans {
    pub fn new() -> Orphans {
        Orphans {
            list: Mutex::named("orphans", Vec::new()),
            file: None,
        }
    }

    /// True if no slot of the orphan file is taken.
    pub fn file_is_empty(&self) -> bool {
        self.file.as_ref().is_none_or(OrphanFile::is_empty)
    }
}

impl Ext4 {
    /// The inode of the orphan file, if the volume has one.
    pub(crate) fn orphan_file_ino(&self) -> Option<Ino> {
        let has_file = self.geo.compat().has(Compat::ORPHAN_FILE);
        has_file.then(|| self.geo.orphan_file_ino())
    }

    /// Makes an inode an orphan; without effect if it is one. Its gate is held, or no other task
    /// knows it yet.
    pub(crate) fn orphan_add(&self, tx: &mut Tx<'_>, inode: &Inode) -> FsResult<()> {
        if inode.core().orphan.is_some() {
            return Ok(());
        }
        inode.core().orphan_since = Some(tx.tid());
        match self.take_slot(tx, inode.ino)? {
            Some(slot) => {
                inode.core().orphan = Some(Place::Slot(slot));
                Ok(())
            }
            None => self.list_add(tx, inode),
        }
    }

    /// Ends that an inode is an orphan; without effect if it is none. Its gate is held.
    pub(crate) fn orphan_del(&self, tx: &mut Tx<'_>, inode: &Inode) -> FsResult<()> {
        let (place, since) = {
            let core = inode.core();
            (core.orphan, core.orphan_since)
        };
        let older = place.is_some() && since != Some(tx.tid());
        if older && !rt::mutant(Mutant::FastTellsOrphans) {
            // fast_record-B6.
            tx.refuse_fast();
        }
        match place {
            None => Ok(()),
            Some(Place::List) => self.list_del(tx, inode),
            Some(Place::Slot(slot)) => {
                self.free_slot(tx, slot, inode.ino)?;
                inode.core().orphan = None;
                Ok(())
            }
        }
    }

    /// Reads list and file, and refuses impossible names (O6). Nothing is changed.
    pub(crate) fn read_orphans(&mut self) -> FsResult<Waiting> {
        let slots = match OrphanFile::load(self)? {
            Some((file, slots)) => {
                self.orphans.file = Some(file);
                slots
            }
            None => Vec::new(),
        };
        let chain = self.read_chain()?;
        let listed: BTreeSet<Ino> = chain.iter().map(|inode| inode.ino).collect();
        let mut seen = BTreeSet::new();
        for &(slot, ino) in &slots {
            let bad = |what| Err(FsError::corrupt(format!("{slot}: inode {ino} is {what}")));
            if listed.contains(&ino) {
                return bad("on the list of orphans as well");
            }
            if !seen.insert(ino) {
                return bad("in the orphan file twice");
            }
            self.read_orphan(ino, &slot.to_string())?;
        }
        Ok(Waiting { chain, slots })
    }

    /// Finishes what a crash interrupted: frees orphans without links, truncates the others.
    pub(crate) fn finish_orphans(&self, waiting: Waiting) -> FsResult<()> {
        let listed = waiting.chain.iter().rev().map(|inode| inode.ino);
        self.orphans.list.lock().extend(listed);
        for inode in &waiting.chain {
            self.finish_orphan(inode)?;
        }
        for (slot, ino) in waiting.slots {
            self.prune_inodes();
            let inode = self.load_orphan(ino, Place::Slot(slot), &slot.to_string())?;
            self.finish_orphan(&inode)?;
        }
        Ok(())
    }

    fn finish_orphan(&self, inode: &Arc<Inode>) -> FsResult<()> {
        if inode.core().disk.links() == 0 {
            return self.evict_if_unused(inode);
        }
        let _gate = inode.gate.write();
        let _wb = inode.wb.lock();
        if inode.is_inline() {
            return self.finish_inline(inode);
        }
        let size = inode.core().size;
        self.finish_tail(inode, size)?;
        self.finish_truncate(inode, size)
    }

    /// Reads an orphan from the device; `by` says in errors what names it.
    fn read_orphan(&self, ino: Ino, by: &str) -> FsResult<ondisk::ext4::Inode> {
        let bad = |what: &str| FsError::corrupt(format!("{by}: inode {ino} {what}"));
        let own = Some(ino) == self.orphan_file_ino();
        if own || ino < self.geo.first_ino() || ino.0 > self.geo.inodes_count() {
            return Err(bad("is none of a file"));
        }
        let disk = self.read_inode(ino).map_err(|e| match e {
            FsError::Posix(_) => bad("is not in use"),
            other => other,
        })?;
        if !self.is_ino_used(ino)? {
            return Err(bad("is marked free"));
        }
        if disk.links() > 0 {
            self.check_inode(ino, &disk)?;
        }
        Ok(disk)
    }

    /// Loads an orphan into the cache of inodes; no operation of a caller runs yet.
    fn load_orphan(&self, ino: Ino, place: Place, by: &str) -> FsResult<Arc<Inode>> {
        let disk = self.read_orphan(ino, by)?;
        let mut core = Core::new(disk, self.newest_tid());
        core.data_mark = self.queue.mark();
        core.orphan = Some(place);
        let inode = Arc::new(Inode::new(ino, core));
        self.inodes.replace(inode.clone());
        Ok(inode)
    }
}
