//! Operations for a front end that works on inode numbers, as FUSE does. The kernel remembers
//! inodes that it has looked up, so each one is pinned when the front end learns of it, and every
//! pin is given back by [`FileSystem::release`](fscore::FileSystem::release). Names are made by
//! operations of this file, moved and removed by [`Vfs::rename_at`] and its neighbours.

use crate::mount::Vfs;
use crate::path;
use base::Ino;
use fscore::{Attr, Creds, DirEntry, FileKind, FsResult, SetAttr};

/// A name that [`Vfs::readdir_pinned`] answers: the entry, and if its inode was pinned its
/// attributes.
pub type PinnedEntry = (DirEntry, Option<Attr>);

impl Vfs {
    /// Makes an inode of any kind except directory and symbolic link, and pins it.
    ///
    /// # Errors
    /// Those of `mknod(2)`.
    pub fn create_pinned(
        &self,
        dir: Ino,
        name: &[u8],
        kind: FileKind,
        perm: u16,
        rdev: u32,
        creds: Creds,
    ) -> FsResult<Attr> {
        path::check_name(name)?;
        self.pinned(name, || {
            self.fs.create(dir, name, kind, perm & 0o7777, rdev, creds)
        })
    }

    /// Makes a directory and pins it.
    ///
    /// # Errors
    /// Those of `mkdir(2)`.
    pub fn mkdir_pinned(&self, dir: Ino, name: &[u8], perm: u16, creds: Creds) -> FsResult<Attr> {
        path::check_name(name)?;
        self.pinned(name, || self.fs.mkdir(dir, name, perm & 0o7777, creds))
    }

    /// Makes a symbolic link and pins it.
    ///
    /// # Errors
    /// Those of `symlink(2)`.
    pub fn symlink_pinned(
        &self,
        dir: Ino,
        name: &[u8],
        target: &[u8],
        creds: Creds,
    ) -> FsResult<Attr> {
        path::check_name(name)?;
        path::check(target)?;
        self.pinned(name, || self.fs.symlink(dir, name, target, creds))
    }

    /// Gives `ino` one more name, and pins it once more.
    ///
    /// # Errors
    /// Those of `link(2)`.
    pub fn link_pinned(&self, ino: Ino, dir: Ino, name: &[u8]) -> FsResult<Attr> {
        path::check_name(name)?;
        self.pinned(name, || self.fs.link(ino, dir, name))
    }

    /// Runs an operation that gives an inode `name` and answers its attributes; pins the inode.
    fn pinned(&self, name: &[u8], make: impl FnOnce() -> FsResult<Attr>) -> FsResult<Attr> {
        self.operation(|op| {
            self.grace.looks_up(op, name);
            let attr = make()?;
            self.fs.open(attr.ino)?;
            Ok(attr)
        })
    }

    /// Entries as [`FileSystem::readdir`](fscore::FileSystem::readdir) gives them, with the
    /// attributes of their inodes, each of which is pinned once. `.` and `..`, and names whose
    /// inode cannot be read, come without attributes and without a pin.
    ///
    /// # Errors
    /// ENOTDIR; errors of the file system.
    pub fn readdir_pinned(&self, dir: Ino, from: u64, max: usize) -> FsResult<Vec<PinnedEntry>> {
        self.operation(|op| {
            self.grace.looks_at_all(op);
            let entries = self.fs.readdir(dir, from, max)?;
            let with_attr = |entry: DirEntry| {
                let dots = entry.name == b"." || entry.name == b"..";
                let attr = (!dots).then(|| self.pin_known(entry.ino)).flatten();
                (entry, attr)
            };
            Ok(entries.into_iter().map(with_attr).collect())
        })
    }

    fn pin_known(&self, ino: Ino) -> Option<Attr> {
        self.fs.open(ino).ok()?;
        let attr = self.fs.getattr(ino);
        if attr.is_err() {
            // The file system has latched its failure; a lookup of this name answers why.
            let _ = self.fs.release(ino);
        }
        attr.ok()
    }

    /// Writes `data` at `offset` of a pinned file; waits while too many pages are dirty.
    ///
    /// # Errors
    /// As [`File::write_at`](crate::File::write_at).
    pub fn write_pinned(&self, ino: Ino, offset: u64, data: &[u8]) -> FsResult<usize> {
        let n = self.fs.write(ino, offset, data)?;
        self.writeback.throttle(n)?;
        Ok(n)
    }

    /// Changes attributes of a pinned inode as [`set_attr`](Vfs::set_attr) does by path.
    ///
    /// # Errors
    /// As [`set_attr`](Vfs::set_attr).
    pub fn set_attr_pinned(&self, ino: Ino, set: &SetAttr) -> FsResult<Attr> {
        self.set_attr_of(&self.fs.getattr(ino)?, set)
    }
}
