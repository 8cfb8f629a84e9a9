//! Requests on names and directories: lookup, making, removing, renaming, listing.

use super::{Caller, Server};
use base::Ino;
use std::time::Duration;
use vfs::{
    Attr, Creds, DirEntry, Errno, FileKind, FsResult, NAME_BYTES_MAX, PinnedEntry, RenameMode,
};

/// The set-group-ID bit: what is made in such a directory takes over its group, and a directory the
/// bit.
const SET_GID: u16 = 0o2000;
/// The longest time for which the kernel keeps a name.
const NAME_TTL: Duration = Duration::from_secs(3600);

impl Server {
    /// Counts a lookup whose inode comes pinned.
    fn known(&self, attr: Attr) -> Attr {
        if self.nodes.lock().looked_up(attr.ino) {
            self.unpin(attr.ino);
        }
        attr
    }

    pub(super) fn unpin(&self, ino: Ino) {
        // Freeing an inode without names may fail; the file system has latched what matters then.
        let _ = self.vfs().fs().release(ino);
    }

    /// Looks a name up; counts for [`forget`](Self::forget).
    ///
    /// # Errors
    /// ENOENT, ENOTDIR; of the file system.
    pub fn lookup(&self, dir: u64, name: &[u8]) -> Result<Attr, Errno> {
        let dir = self.ino(dir);
        self.run(|| {
            // The protocol has longer ones.
            if name.len() > NAME_BYTES_MAX {
                return Err(Errno::NameTooLong.into());
            }
            match name {
                b"." => self.by_handle(dir),
                _ => Ok(self.known(self.vfs().lookup_pinned(dir, name)?)),
            }
        })
    }

    /// How long the kernel may keep a name in `dir`: every change of a name goes through it, but
    /// where case does not count it does not see that a change of one spelling changes the others.
    pub fn name_ttl(&self, dir: u64) -> Duration {
        match self.vfs().fs().ignores_case(self.ino(dir)) {
            Some(true) => Duration::ZERO,
            _ => NAME_TTL,
        }
    }

    /// How long the kernel may keep the absence of a name: as long as a name. On a volume whose
    /// directories may begin to ignore case, which an empty one may at any time, not at all.
    pub fn absence_ttl(&self, dir: u64) -> Duration {
        match self.vfs().fs().ignores_case(self.ino(dir)) {
            Some(_) => Duration::ZERO,
            None => NAME_TTL,
        }
    }

    /// The inode of a file handle: the kernel asks for `.` of any inode that it has forgotten, and
    /// compares the generation itself (fuse-U7).
    fn by_handle(&self, ino: Ino) -> FsResult<Attr> {
        self.vfs().fs().open_handle(ino)?;
        match self.vfs().fs().getattr(ino) {
            Ok(attr) => Ok(self.known(attr)),
            Err(e) => {
                self.unpin(ino);
                Err(e)
            }
        }
    }

    /// The kernel has dropped so many lookups of an inode.
    pub fn forget(&self, number: u64, lookups: u64) {
        let ino = self.ino(number);
        if self.nodes.lock().forget(ino, lookups) {
            // The kernel waits for no answer to this request.
            let _ = self.run(|| self.vfs().fs().release(ino));
            self.died(ino);
        }
    }

    /// An inode that was forgotten or closed has given its room back, if it had no name.
    pub(super) fn died(&self, ino: Ino) {
        if self.nodes.lock().died(ino) {
            self.ends.came();
        }
    }

    /// Removes a name; the kernel forgets the inode later, if that was the last name.
    /// `work` answers the inode that lost the name.
    fn remove(&self, work: impl Fn() -> FsResult<Option<Ino>>) -> Result<(), Errno> {
        self.run_for_room(|| {
            if let Some(ino) = work()? {
                self.nodes.lock().removed(ino, rt::now());
            }
            Ok(())
        })
    }

    /// Inodes that are pinned for the kernel.
    pub fn known_inodes(&self) -> usize {
        self.nodes.lock().len()
    }

    /// Owner of a new inode in `dir`, and the bit that a new directory takes over.
    fn owner(&self, caller: Caller, dir: Ino) -> FsResult<(Creds, u16)> {
        let parent = self.vfs().fs().getattr(dir)?;
        let inherits = parent.perm & SET_GID != 0;
        let creds = Creds {
            uid: caller.uid,
            gid: if inherits { parent.gid } else { caller.gid },
            umask: caller.umask,
        };
        Ok((creds, if inherits { SET_GID } else { 0 }))
    }

    /// Makes a file, device, pipe or socket; counts as a lookup.
    ///
    /// # Errors
    /// Those of `mknod(2)`.
    pub fn mknod(
        &self,
        caller: Caller,
        dir: u64,
        name: &[u8],
        mode: u16,
        rdev: u32,
    ) -> Result<Attr, Errno> {
        let dir = self.ino(dir);
        self.run_for_room(|| {
            let kind = match mode & 0o170_000 {
                0 => FileKind::File,
                _ => FileKind::from_mode(mode).ok_or(Errno::Inval)?,
            };
            let (creds, _) = self.owner(caller, dir)?;
            let attr = self
                .vfs()
                .create_pinned(dir, name, kind, mode & 0o7777, rdev, creds)?;
            Ok(self.known(attr))
        })
    }

    /// Makes a directory; counts as a lookup.
    ///
    /// # Errors
    /// Those of `mkdir(2)`.
    pub fn mkdir(&self, caller: Caller, dir: u64, name: &[u8], mode: u16) -> Result<Attr, Errno> {
        let dir = self.ino(dir);
        self.run_for_room(|| {
            let (creds, bit) = self.owner(caller, dir)?;
            let perm = mode & 0o7777 | bit;
            Ok(self.known(self.vfs().mkdir_pinned(dir, name, perm, creds)?))
        })
    }

    /// Makes a symbolic link; counts as a lookup.
    ///
    /// # Errors
    /// Those of `symlink(2)`.
    pub fn symlink(
        &self,
        caller: Caller,
        dir: u64,
        name: &[u8],
        target: &[u8],
    ) -> Result<Attr, Errno> {
        let dir = self.ino(dir);
        self.run_for_room(|| {
            let (creds, _) = self.owner(caller, dir)?;
            Ok(self.known(self.vfs().symlink_pinned(dir, name, target, creds)?))
        })
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// EINVAL for anything else; of the file system.
    pub fn readlink(&self, number: u64) -> Result<Vec<u8>, Errno> {
        self.run(|| self.vfs().fs().readlink(self.ino(number)))
    }

    /// A further name for an inode; counts as a lookup.
    ///
    /// # Errors
    /// Those of `link(2)`.
    pub fn link(&self, number: u64, dir: u64, name: &[u8]) -> Result<Attr, Errno> {
        let (ino, dir) = (self.ino(number), self.ino(dir));
        self.run_for_room(|| Ok(self.known(self.vfs().link_pinned(ino, dir, name)?)))
    }

    /// Removes a name of anything but a directory.
    ///
    /// # Errors
    /// Those of `unlink(2)`.
    pub fn unlink(&self, dir: u64, name: &[u8]) -> Result<(), Errno> {
        let dir = self.ino(dir);
        self.remove(|| self.vfs().unlink_at(dir, name))
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Those of `rmdir(2)`.
    pub fn rmdir(&self, dir: u64, name: &[u8]) -> Result<(), Errno> {
        let dir = self.ino(dir);
        self.remove(|| self.vfs().rmdir_at(dir, name))
    }

    /// Moves a name.
    ///
    /// # Errors
    /// Those of `renameat2(2)`.
    pub fn rename(
        &self,
        (dir, name): (u64, &[u8]),
        (to_dir, to_name): (u64, &[u8]),
        mode: RenameMode,
    ) -> Result<(), Errno> {
        let (from, to) = ((self.ino(dir), name), (self.ino(to_dir), to_name));
        // What stood there before may be removed.
        self.remove(|| self.vfs().rename_at(from, to, mode))
    }

    /// Entries of a directory from cookie `from` on, at most `max`.
    ///
    /// # Errors
    /// ENOTDIR; of the file system.
    pub fn readdir(&self, dir: u64, from: u64, max: usize) -> Result<Vec<DirEntry>, Errno> {
        self.run(|| self.vfs().fs().readdir(self.ino(dir), from, max))
    }

    /// As `readdir`, with attributes; each entry that has them counts as a lookup. Entries for
    /// which the answer has no room are given back with [`forget`](Self::forget).
    ///
    /// # Errors
    /// ENOTDIR; of the file system.
    pub fn readdir_plus(&self, dir: u64, from: u64, max: usize) -> Result<Vec<PinnedEntry>, Errno> {
        self.run(|| {
            let entries = self.vfs().readdir_pinned(self.ino(dir), from, max)?;
            let counted = entries
                .into_iter()
                .map(|(e, attr)| (e, attr.map(|a| self.known(a))));
            Ok(counted.collect())
        })
    }
}
