//! Attributes of inodes, and the privileges (set-user-ID, set-group-ID, capabilities) that a change
//! takes away.

use super::{Caller, Server};
use base::Ino;
use std::sync::atomic::Ordering;
use vfs::{Attr, Errno, FileFlags, FileKind, FsError, FsResult, OfWrite, SetAttr, TimeSet};

const SET_UID: u16 = 0o4000;
const SET_GID: u16 = 0o2000;
const GROUP_EXEC: u16 = 0o010;
/// Largest file offset (`loff_t`).
pub(super) const OFFSET_MAX: u64 = i64::MAX as u64;
pub(super) const CAPABILITY: &[u8] = b"security.capability";

/// Attributes to change; `None` leaves one as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// Permission bits.
    pub perm: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size, bytes.
    pub size: Option<u64>,
    /// Access time.
    pub atime: Option<TimeSet>,
    /// Modification time.
    pub mtime: Option<TimeSet>,
    /// The kernel names the time of change, and an open file: so it tells, before an fsync or a
    /// close, of the times that it has kept with `writeback`. A program cannot ask for that.
    pub of_writes: bool,
}

impl Change {
    /// Nothing changes but the time of the last write.
    fn only_of_writes(&self) -> bool {
        let Change {
            perm: None,
            uid: None,
            gid: None,
            size: None,
            atime: None,
            mtime: Some(TimeSet::To(_)),
            of_writes: true,
        } = self
        else {
            return false;
        };
        true
    }
}

impl Server {
    /// Attributes.
    ///
    /// # Errors
    /// ESTALE; of the file system.
    pub fn getattr(&self, number: u64) -> Result<Attr, Errno> {
        self.run(|| self.vfs().fs().getattr(self.ino(number)))
    }

    /// Changes attributes. Changing the owner, and cutting as a user, take set-user-ID and
    /// set-group-ID away; both take capabilities.
    ///
    /// # Errors
    /// Those of `chmod(2)`, `chown(2)`, `truncate(2)`, `utimensat(2)`.
    pub fn setattr(&self, caller: Caller, number: u64, change: &Change) -> Result<Attr, Errno> {
        let ino = self.ino(number);
        self.run_for_room(|| {
            if change.size.is_some_and(|size| size > OFFSET_MAX) {
                return Err(Errno::FBig.into());
            }
            let owner = change.uid.is_some() || change.gid.is_some();
            if owner || change.size.is_some() {
                self.drop_capability(ino)?;
            }
            let mut set = SetAttr {
                perm: change.perm.map(|perm| perm & 0o7777),
                uid: change.uid,
                gid: change.gid,
                size: change.size,
                atime: change.atime,
                mtime: change.mtime,
                of_writes: change.only_of_writes(),
            };
            if set.perm.is_none() && set.size.is_some() && caller.uid != 0 {
                set.perm = self.without_privileges(ino)?;
            }
            self.vfs().set_attr_pinned(ino, &set)
        })
    }

    /// Permission bits of a file without set-user-ID, and without set-group-ID where the group may
    /// execute or the caller is not in it (Linux `setattr_should_drop_suidgid`); `None` if that
    /// changes nothing.
    pub(super) fn without_privileges(&self, ino: Ino) -> FsResult<Option<u16>> {
        let attr = self.vfs().fs().getattr(ino)?;
        if attr.kind != FileKind::File {
            return Ok(None);
        }
        if attr.perm & (SET_UID | SET_GID) == 0 {
            return Ok(None);
        }
        let keeps_group = attr.perm & GROUP_EXEC == 0
            && (attr.perm & SET_GID == 0 || vfs::Caller::current_is_in(attr.gid));
        let group = if keeps_group { 0 } else { SET_GID };
        let perm = attr.perm & !(SET_UID | group);
        Ok((perm != attr.perm).then_some(perm))
    }

    /// The content of a file is about to change: capabilities go, and with `kill` set-user-ID and
    /// set-group-ID.
    pub(super) fn drop_privileges(&self, ino: Ino, kill: bool) -> FsResult<()> {
        let drop_capability = || OfWrite::scope(|| self.drop_capability(ino));
        if !kill {
            return drop_capability();
        }
        if self.without_privileges(ino)?.is_some() {
            // Flags may refuse this, and the write with it: then all privileges stay.
            self.drop_set_ids(ino)?;
            return drop_capability();
        }
        drop_capability()?;
        if self.killing.load(Ordering::SeqCst) != 0 {
            // The request that took them away may not have told the kernel yet.
            drop(self.killer.lock());
        }
        Ok(())
    }

    /// Takes set-user-ID and set-group-ID away, on the volume and in what the kernel keeps
    /// (fuse-U6).
    fn drop_set_ids(&self, ino: Ino) -> FsResult<()> {
        self.killing.fetch_add(1, Ordering::SeqCst);
        let guard = self.killer.lock();
        let dropped = self.without_privileges(ino).and_then(|perm| {
            let set = SetAttr {
                perm,
                ..SetAttr::default()
            };
            match perm {
                Some(_) => self.vfs().fs().setattr(ino, &set).map(drop),
                None => Ok(()),
            }
        });
        self.kernel.attributes_changed(self.number(ino));
        drop(guard);
        self.killing.fetch_sub(1, Ordering::SeqCst);
        dropped
    }

    fn drop_capability(&self, ino: Ino) -> FsResult<()> {
        if self.nodes.lock().is_plain(ino) {
            return Ok(());
        }
        // A file whose flags forbid any change can be written to by who has it open, if it has
        // none.
        let found = self.vfs().fs().getxattr(ino, CAPABILITY);
        match found.and_then(|_| self.vfs().fs().removexattr(ino, CAPABILITY)) {
            Ok(()) | Err(FsError::Posix(Errno::NoData | Errno::NotSup | Errno::RoFs)) => {}
            Err(e) => return Err(e),
        }
        self.nodes.lock().set_plain(ino, true);
        Ok(())
    }

    /// The flags that `lsattr` shows.
    ///
    /// # Errors
    /// ENOTTY if the file system has none.
    pub fn file_flags(&self, number: u64) -> Result<FileFlags, Errno> {
        self.run(|| self.vfs().fs().file_flags(self.ino(number)))
    }

    /// Sets the flags that `chattr` can change; the kernel has checked that the caller may.
    ///
    /// # Errors
    /// EOPNOTSUPP; of the file system.
    pub fn set_file_flags(&self, number: u64, flags: FileFlags) -> Result<(), Errno> {
        self.run_for_room(|| self.vfs().fs().set_file_flags(self.ino(number), flags))?;
        self.kernel.attributes_changed(number);
        Ok(())
    }

    /// The project that an inode belongs to.
    ///
    /// # Errors
    /// Of the file system.
    pub fn project(&self, number: u64) -> Result<u32, Errno> {
        self.run(|| self.vfs().fs().project(self.ino(number)))
    }

    /// Gives an inode to another project.
    ///
    /// # Errors
    /// EOPNOTSUPP; of the file system.
    pub fn set_project(&self, number: u64, project: u32) -> Result<(), Errno> {
        self.run_for_room(|| self.vfs().fs().set_project(self.ino(number), project))?;
        self.kernel.attributes_changed(number);
        Ok(())
    }

    /// An attribute of this name has been set.
    pub(super) fn note_xattr(&self, ino: Ino, name: &[u8]) {
        if name == CAPABILITY {
            self.nodes.lock().set_plain(ino, false);
        }
    }
}
