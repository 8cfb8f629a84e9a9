//! Operations that change names, by path and by inode number: mkdir, mknod, symlink, link, unlink,
//! rmdir, rename. They answer the errors of the Linux system calls, also for trailing slashes and
//! dots, because programs test for them.

use crate::mount::{ATTEMPTS, SET_GID, Vfs};
use crate::path;
use crate::walk::{Follow, Last, Parent};
use base::Ino;
use base::cost::host;
use fscore::{Attr, Errno, FileKind, FsError, FsResult, Onlookers, OpNo, RenameMode, Taking};

impl Vfs {
    /// Makes a directory.
    ///
    /// # Errors
    /// Those of `mkdir(2)`.
    pub fn mkdir(&self, path: impl AsRef<[u8]>, perm: u16) -> FsResult<Attr> {
        self.call(host::MKDIR, |op| {
            let parent = self.parent(op, path.as_ref())?;
            let (dir, name) = self.new_name(parent, true)?;
            let (creds, set_gid) = self.inherit(dir)?;
            self.fs
                .mkdir(dir, &name, perm & (0o7777 & !SET_GID) | set_gid, creds)
        })
    }

    /// Makes a regular or special file without opening it. `rdev` counts for devices only.
    ///
    /// # Errors
    /// Those of `mknod(2)`; EINVAL for directories and symlinks.
    pub fn mknod(
        &self,
        path: impl AsRef<[u8]>,
        kind: FileKind,
        perm: u16,
        rdev: u32,
    ) -> FsResult<Attr> {
        if matches!(kind, FileKind::Dir | FileKind::Symlink) {
            return Err(Errno::Inval.into());
        }
        self.call(host::CREATE, |op| {
            let parent = self.parent(op, path.as_ref())?;
            let (dir, name) = self.new_name(parent, false)?;
            let (creds, _) = self.inherit(dir)?;
            self.fs.create(dir, &name, kind, perm & 0o7777, rdev, creds)
        })
    }

    /// Makes a symbolic link at `path` that points to `target`.
    ///
    /// # Errors
    /// Those of `symlink(2)`.
    pub fn symlink(&self, target: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> FsResult<Attr> {
        let target = target.as_ref();
        path::check(target)?;
        self.call(host::CREATE, |op| {
            let parent = self.parent(op, path.as_ref())?;
            let (dir, name) = self.new_name(parent, false)?;
            let (creds, _) = self.inherit(dir)?;
            self.fs.symlink(dir, &name, target, creds)
        })
    }

    /// Gives the file `old` the further name `new`; a symbolic link is not followed.
    ///
    /// # Errors
    /// Those of `link(2)`; EPERM for a directory.
    pub fn link(&self, old: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> FsResult<Attr> {
        self.call(host::LINK, |op| {
            let attr = self.resolve(op, old.as_ref(), Follow::No)?.found()?;
            let (dir, name) = self.new_name(self.parent(op, new.as_ref())?, false)?;
            if attr.kind == FileKind::Dir {
                return match self.find(dir, &name)? {
                    Some(_) => Err(Errno::Exist.into()),
                    None => Err(Errno::Perm.into()),
                };
            }
            self.fs.link(attr.ino, dir, &name)
        })
    }

    /// Removes a name of anything but a directory. A file that is open stays usable.
    ///
    /// # Errors
    /// Those of `unlink(2)`; EISDIR for a directory.
    pub fn unlink(&self, path: impl AsRef<[u8]>) -> FsResult<()> {
        self.call(host::UNLINK, |op| {
            let parent = self.parent(op, path.as_ref())?;
            let Last::Name(name) = &parent.last else {
                return Err(Errno::IsDir.into());
            };
            if parent.slash {
                let victim = self.fs.getattr(self.fs.lookup(parent.dir, name)?)?;
                return Err(match victim.kind {
                    FileKind::Dir => Errno::IsDir,
                    _ => Errno::NotDir,
                }
                .into());
            }
            self.take(op, Taking::Unlink(parent.dir, name)).map(drop)
        })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Those of `rmdir(2)`.
    pub fn rmdir(&self, path: impl AsRef<[u8]>) -> FsResult<()> {
        self.call(host::RMDIR, |op| {
            let parent = self.parent(op, path.as_ref())?;
            let name = match &parent.last {
                Last::Name(name) => name,
                Last::Dot => return Err(Errno::Inval.into()),
                Last::DotDot => return Err(Errno::NotEmpty.into()),
                Last::Root => return Err(Errno::Busy.into()),
            };
            self.take(op, Taking::Rmdir(parent.dir, name)).map(drop)
        })
    }

    /// Moves the name `from` to `to`.
    ///
    /// # Errors
    /// Those of `renameat2(2)`: EINVAL for a directory into itself, ENOTEMPTY, EISDIR, ENOTDIR,
    /// EEXIST, EBUSY for `.` and `..`.
    pub fn rename(
        &self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        mode: RenameMode,
    ) -> FsResult<()> {
        self.call(host::RENAME, |op| {
            let from = self.parent(op, from.as_ref())?;
            let to = self.parent(op, to.as_ref())?;
            let (Last::Name(from_name), Last::Name(to_name)) = (&from.last, &to.last) else {
                let taken = mode.keeps_target() && matches!(from.last, Last::Name(_));
                return Err(if taken { Errno::Exist } else { Errno::Busy }.into());
            };
            let slashes = (from.slash, to.slash);
            self.rename_in(op, (from.dir, from_name), (to.dir, to_name), slashes, mode)
                .map(drop)
        })
    }

    /// Moves a name between directories that are given by inode number, for front ends that work on
    /// inodes (FUSE); they keep both directories pinned. Answers the inode that had the new name
    /// before, if there was one: it has lost it, unless the names were exchanged.
    ///
    /// # Errors
    /// As [`rename`](Vfs::rename).
    pub fn rename_at(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
    ) -> FsResult<Option<Ino>> {
        path::check_name(from.1)?;
        path::check_name(to.1)?;
        self.operation(|op| self.rename_in(op, from, to, (false, false), mode))
    }

    /// Removes a name from a directory that is given by inode number: see [`unlink`](Vfs::unlink)
    /// and [`rename_at`](Vfs::rename_at). Answers the inode that lost it.
    ///
    /// # Errors
    /// As [`unlink`](Vfs::unlink).
    pub fn unlink_at(&self, dir: Ino, name: &[u8]) -> FsResult<Option<Ino>> {
        path::check_name(name)?;
        self.operation(|op| self.take(op, Taking::Unlink(dir, name)))
    }

    /// Removes an empty directory from a parent that is given by inode number: see
    /// [`rmdir`](Vfs::rmdir) and [`rename_at`](Vfs::rename_at). Answers its inode.
    ///
    /// # Errors
    /// As [`rmdir`](Vfs::rmdir).
    pub fn rmdir_at(&self, dir: Ino, name: &[u8]) -> FsResult<Option<Ino>> {
        path::check_name(name)?;
        self.operation(|op| self.take(op, Taking::Rmdir(dir, name)))
    }

    /// Looks up a name, `.` and `..` included, and pins its inode for a front end that keeps inode
    /// numbers. [`FileSystem::release`](fscore::FileSystem::release) gives the pin back.
    ///
    /// # Errors
    /// ENOENT, ENOTDIR; errors of the file system.
    pub fn lookup_pinned(&self, dir: Ino, name: &[u8]) -> FsResult<Attr> {
        self.operation(|op| {
            self.grace.looks_up(op, name);
            let ino = self.fs.lookup(dir, name)?;
            self.fs.open(ino)?;
            self.fs.getattr(ino).inspect_err(|_| {
                // The caller is told the first failure; the file system has latched its own.
                let _ = self.fs.release(ino);
            })
        })
    }

    /// Where a new name goes. A slash behind it is an error unless a directory is made.
    fn new_name(&self, parent: Parent, directory: bool) -> FsResult<(Ino, Vec<u8>)> {
        let Last::Name(name) = parent.last else {
            return Err(Errno::Exist.into());
        };
        if parent.slash && !directory {
            return Err(match self.find(parent.dir, &name)? {
                Some(_) => Errno::Exist,
                None => Errno::NoEnt,
            }
            .into());
        }
        Ok((parent.dir, name))
    }

    fn find(&self, dir: Ino, name: &[u8]) -> FsResult<Option<Attr>> {
        match self.fs.lookup(dir, name) {
            Ok(ino) => self.fs.getattr(ino).map(Some),
            Err(FsError::Posix(Errno::NoEnt)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a name. If the file system leaves it to its callers to pin what loses a name, looks
    /// the name up under the lock of its directory (vfs-V2), and pins its inode until no operation
    /// can know it (vfs-V1).
    fn take(&self, op: OpNo, what: Taking<'_>) -> FsResult<Option<Ino>> {
        if let Some(taken) = self.fs.take_name(what, Onlookers::beside(&self.grace, op)) {
            return taken;
        }
        let (dir, name) = match what {
            Taking::Unlink(dir, name) | Taking::Rmdir(dir, name) => (dir, name),
            Taking::Rename(..) => unreachable!("a rename looks its names up itself"),
        };
        self.dirs.with(dir, dir, || {
            let victim = self.fs.getattr(self.fs.lookup(dir, name)?)?;
            match (what, victim.kind) {
                (Taking::Unlink(..), FileKind::Dir) => return Err(Errno::IsDir.into()),
                (Taking::Unlink(..), _) => {
                    self.pinned_by_grace(victim.ino, || self.fs.unlink(dir, name))?;
                }
                (_, FileKind::Dir) => {
                    self.pinned_by_grace(victim.ino, || self.fs.rmdir(dir, name))?;
                }
                _ => return Err(Errno::NotDir.into()),
            }
            Ok(Some(victim.ino))
        })
    }

    /// Pins an inode that `f` takes a name from, until no operation can know it (vfs-V1).
    fn pinned_by_grace(&self, ino: Ino, f: impl FnOnce() -> FsResult<()>) -> FsResult<()> {
        self.fs.open(ino)?;
        let result = f();
        self.grace.retire(ino);
        result
    }

    fn rename_in(
        &self,
        op: OpNo,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        slashes: (bool, bool),
        mode: RenameMode,
    ) -> FsResult<Option<Ino>> {
        // grace-G2. It knows what lies above its directories, too (vfs-V3).
        self.grace.moves(op);
        let _one_at_a_time = (from.0 != to.0).then(|| self.rename.lock());
        self.dirs.with(from.0, to.0, || {
            let source = self
                .find(from.0, from.1)?
                .ok_or(FsError::Posix(Errno::NoEnt))?;
            // A damaged directory may have and not have a name, so the attempts are counted.
            for _ in 0..ATTEMPTS {
                let target = self.find(to.0, to.1)?;
                self.check_rename(&source, target.as_ref(), (from.0, to.0), slashes, mode)?;
                if let Some(target) = target {
                    let both = (source.ino, target.ino);
                    return self.rename_over(op, from, to, both, mode);
                }
                // A new name takes no lock of its directory. One that appears now has to be pinned
                // before it is replaced (vfs-V1), so it is not replaced in this turn.
                let kept = mode.keeping_target();
                match self.fs.rename(from.0, from.1, to.0, to.1, kept) {
                    Err(FsError::Posix(Errno::Exist)) if !mode.keeps_target() => {}
                    moved => return moved.map(|()| None),
                }
            }
            Err(Errno::Busy.into())
        })
    }

    /// Moves a name to one that exists, and answers what that led to; both directories are locked.
    fn rename_over(
        &self,
        op: OpNo,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        (source, target): (Ino, Ino),
        mode: RenameMode,
    ) -> FsResult<Option<Ino>> {
        if source == target {
            return Ok(None);
        }
        let what = Taking::Rename(from, to, mode);
        let onlookers = Onlookers::beside(&self.grace, op);
        let taken = self.fs.take_name(what, onlookers).unwrap_or_else(|| {
            let rename = || self.fs.rename(from.0, from.1, to.0, to.1, mode);
            self.pinned_by_grace(target, rename).map(|()| None)
        });
        taken.map(|_| Some(target))
    }

    fn check_rename(
        &self,
        source: &Attr,
        target: Option<&Attr>,
        (from_dir, to_dir): (Ino, Ino),
        (from_slash, to_slash): (bool, bool),
        mode: RenameMode,
    ) -> FsResult<()> {
        let is_dir = |attr: &Attr| attr.kind == FileKind::Dir;
        match (mode, target) {
            (mode, Some(_)) if mode.keeps_target() => return Err(Errno::Exist.into()),
            (RenameMode::Exchange, None) => return Err(Errno::NoEnt.into()),
            _ => {}
        }
        let exchange = mode == RenameMode::Exchange;
        if !is_dir(source) && (from_slash || (to_slash && !exchange))
            || exchange && to_slash && target.is_some_and(|t| !is_dir(t))
        {
            return Err(Errno::NotDir.into());
        }
        if from_dir != to_dir {
            if is_dir(source) && self.is_ancestor(source.ino, to_dir)? {
                return Err(Errno::Inval.into());
            }
            if let Some(target) = target
                && is_dir(target)
                && self.is_ancestor(target.ino, from_dir)?
            {
                return Err(if exchange {
                    Errno::Inval
                } else {
                    Errno::NotEmpty
                }
                .into());
            }
        }
        match target {
            Some(t) if !exchange && is_dir(source) && !is_dir(t) => Err(Errno::NotDir.into()),
            Some(t) if !exchange && !is_dir(source) && is_dir(t) => Err(Errno::IsDir.into()),
            _ => Ok(()),
        }
    }

    /// True if `ancestor` is `dir` or lies above it (vfs-V3). The caller holds the rename lock.
    fn is_ancestor(&self, ancestor: Ino, mut dir: Ino) -> FsResult<bool> {
        let root = self.fs.root();
        // A damaged tree may contain a loop, so the walk is bounded.
        for _ in 0..DEPTH_MAX {
            if dir == ancestor {
                return Ok(true);
            }
            if dir == root {
                return Ok(false);
            }
            dir = self.fs.lookup(dir, b"..")?;
        }
        Err(FsError::corrupt(format!(
            "directory inode {dir} has more than {DEPTH_MAX} ancestors"
        )))
    }
}

/// Levels after which the walk to the root gives up. A path names at most 2048 of them, but renames
/// of deep trees into each other add up.
const DEPTH_MAX: usize = 1 << 20;
