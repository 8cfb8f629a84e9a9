//! Access times: a read changes them in memory only, and they are stored later, as Linux F2FS does
//! by default (`lazytime`).
//!
//! A read holds the gate of an inode shared, so it may change nothing that a checkpoint or an epoch
//! of the journal saves. Its new access time waits in `core.fields` until
//!
//! - the inode is written to its node block (put) for another reason: the time goes along; or
//! - everything is synced, the volume is unmounted, very many times wait, or one has waited for
//!   long: then each inode is put in an operation of its own that holds its gate exclusively, as
//!   every other change of attributes does (f2fs-journal-I4). With a journal this is logged.
//!
//! A cut loses the access times that still wait, and nothing else.

use super::Inode;
use super::attr::{coarse_now, to_wall};
use crate::F2fs;
use base::Nanos;
use fscore::{FsResult, NoAccessTime};
use ondisk::f2fs::InodeFlags;

/// With more inodes than this whose access times wait, a reader stores them: such inodes cannot
/// leave memory.
const WAITING_MAX: usize = 4096;

/// How long one waits before write-back stores them (Linux `dirtytime_expire_seconds`).
const WAIT_MAX: Nanos = Nanos::from_secs(12 * 3600);

impl F2fs {
    /// The inode has been read: its access time changes, in memory, if the mount options ask for
    /// it.
    pub(crate) fn note_access(&self, inode: &Inode) {
        if NoAccessTime::here() || self.check_writable().is_err() {
            return;
        }
        let now = coarse_now();
        let mut core = inode.core();
        let f = &mut core.fields;
        let [wall, last, modified, changed] = [now, f.atime, f.mtime, f.ctime].map(to_wall);
        let due = self.options.atime.is_due(wall, last, modified, changed);
        if !due || f.flags.has(InodeFlags::NO_ATIME) || core.gone {
            return;
        }
        core.fields.atime = now;
        let first = !std::mem::replace(&mut core.access_waits, true);
        drop(core);
        if first {
            let mut waiting = self.inodes.accesses.0.lock();
            waiting.since.get_or_insert_with(rt::now);
            waiting.inos.insert(inode.ino);
        }
    }

    /// Stores access times if one has waited for long.
    ///
    /// # Errors
    /// I/O, damage.
    pub(crate) fn store_old_accesses(&self) -> FsResult<()> {
        let since = self.inodes.accesses.0.lock().since;
        match since.is_some_and(|since| rt::now() >= since + WAIT_MAX) {
            true => self.store_accesses(),
            false => Ok(()),
        }
    }

    /// Stores access times if very many wait. Called before reading, without locks; what fails is
    /// latched, and reading goes on.
    pub(crate) fn limit_accesses(&self) {
        let waiting = self.inodes.accesses.0.lock().inos.len();
        if waiting >= WAITING_MAX {
            let _ = self.store_accesses();
        }
    }

    /// Puts all inodes whose access times wait. The caller holds no lock.
    ///
    /// # Errors
    /// I/O, damage.
    pub(crate) fn store_accesses(&self) -> FsResult<()> {
        let waiting = std::mem::take(&mut *self.inodes.accesses.0.lock());
        for ino in waiting.inos {
            self.check_writable()?;
            self.balance()?;
            // f2fs-inode-N2: one that still waits is in memory.
            let Some(inode) = self.inodes.get(ino) else {
                continue;
            };
            let _gate = inode.gate.write();
            let waits = {
                let core = inode.core();
                core.access_waits && !core.gone
            };
            if waits {
                self.with_op(|op| self.put_inode(op, &inode))?;
            }
        }
        Ok(())
    }
}
