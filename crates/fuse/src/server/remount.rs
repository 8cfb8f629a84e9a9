//! A remount: the mount below the server is replaced by another one, while the kernel's mount goes
//! on.
//!
//! A remount with other options is an unmount and a mount, and both are the usual ones. So an
//! option has the effect that it has at a mount, by the same code, and a volume that is read-only
//! from now on is as clean as one that was unmounted.
//!
//! - E1 no request is under way (`gate`), and none is let in before the new mount is there;
//! - E2 every inode that the kernel knows is pinned in the new mount before that: numbers and
//!   generations are those of the volume, and stay. An inode without a name would be lost, so a
//!   remount is refused while there is one;
//! - E3 failures of write-back are counted by each mount anew, so the counts of the old mount are
//!   kept for the inodes that the kernel knows, and added to those of the new one: an open file
//!   that was not told of a failure yet is told after the remount. The remount fails if the unmount
//!   cannot write everything;
//! - E4 a remount whose unmount or mount fails leaves no mount below, or one without all pins, and
//!   then every request fails (fuse-U2). So does every request after a remount that panicked; the
//!   gate stays closed until that is noted.

use super::Server;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{AccessTimes, Vfs};

/// The name of the attribute by which the superuser asks for a remount: reading an attribute of the
/// root whose name begins so, and goes on with options. The kernel lets no other user read such a
/// name, and lets it be read of a read-only mount too. Its value is the reason of a refusal, and
/// empty if the remount was done.
pub const REMOUNT_XATTR: &str = "trusted.varve.remount=";

/// A remount that has been understood.
pub struct Remount {
    /// When reading changes an access time from then on.
    pub access_times: AccessTimes,
    /// Mounts the volume, when it is unmounted.
    pub again: Box<dyn FnOnce() -> Again>,
}

/// Reads the words of a remount; nothing has changed yet.
pub type Remounter = Box<dyn Fn(&str) -> Result<Remount, String> + Send + Sync>;

/// The mount that takes the place of the one that has ended; an error beside it says why it is not
/// the one that was asked for.
pub type Again = (Option<Arc<Vfs>>, Result<(), String>);

impl Server {
    /// Lets the superuser remount, by `remounter`.
    pub fn remount_by(&self, remounter: Remounter) {
        *self.remounter.lock() = Some(remounter);
    }

    /// Remounts with these options: the reason if that is refused, else nothing.
    pub(super) fn answer_remount(&self, words: &[u8]) -> Vec<u8> {
        let prepare = || {
            let words = std::str::from_utf8(words).map_err(|_| "the options are no text")?;
            let remounter = self.remounter.lock();
            let remounter = remounter
                .as_ref()
                .ok_or("this mount has no other options")?;
            remounter(words)
        };
        let prepared = self.caught(prepare).and_then(|prepared| prepared);
        let done = prepared.and_then(|remount| {
            self.remount(remount.again)?;
            *self.access_times.write() = remount.access_times;
            Ok(())
        });
        done.err().unwrap_or_default().into_bytes()
    }

    /// Unmounts the volume and goes on with the mount that `again` makes.
    ///
    /// # Errors
    /// There are inodes without a name; the unmount failed, or `again` did. Then the mount is as it
    /// was, or every request fails.
    pub fn remount(&self, again: impl FnOnce() -> Again) -> Result<(), String> {
        // E1, E4.
        let _gate = self.gate.write();
        self.caught(|| self.exchange(again))?
    }

    fn exchange(&self, again: impl FnOnce() -> Again) -> Result<(), String> {
        if self.panicked.load(Ordering::Acquire) {
            return Err("a request has failed for good".into());
        }
        self.check_names()?;
        let old = self.vfs();
        // The flusher would count failures after the counts have been kept (E3).
        old.stop_writeback();
        let known = self.nodes.lock().all();
        for ino in known {
            let errors = self.write_errors(ino);
            self.nodes.lock().keep_errors(ino, errors);
            // The file system latches its own failures, and tells them below.
            let _ = old.fs().release(ino);
        }
        let ended = old.unmount();
        *self.vfs.write() = None;
        drop(old);
        let next = match ended {
            Ok(()) => again(),
            Err(e) => (None, Err(e.to_string())),
        };
        let (Some(vfs), done) = next else {
            // E4.
            self.panicked.store(true, Ordering::Release);
            let why = next.1.err().unwrap_or_default();
            return Err(format!(
                "{why}; the volume is unmounted, and every request fails from now on"
            ));
        };
        let pinned = self.pin_all(&vfs);
        *self.vfs.write() = Some(vfs);
        if pinned.is_err() {
            self.panicked.store(true, Ordering::Release);
        }
        pinned.and(done)
    }

    /// E2: all inodes that the kernel knows have names.
    fn check_names(&self) -> Result<(), String> {
        let vfs = self.vfs();
        for ino in self.nodes.lock().all() {
            let attr = vfs.fs().getattr(ino).map_err(|e| e.to_string())?;
            if attr.nlink == 0 {
                return Err(format!(
                    "inode {ino} has no name any more and is in use; a remount would end it"
                ));
            }
        }
        Ok(())
    }

    fn pin_all(&self, vfs: &Arc<Vfs>) -> Result<(), String> {
        for ino in self.nodes.lock().all() {
            let pinned = vfs.fs().open(ino);
            pinned.map_err(|e| format!("inode {ino}, which was there a moment ago: {e}"))?;
        }
        Ok(())
    }
}
