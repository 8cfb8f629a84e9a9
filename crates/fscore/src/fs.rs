//! The seam between `vfs` and a file system: the trait [`FileSystem`] and the values that its
//! operations take.

use crate::{
    AtomicUnit, Attr, DirEntry, Errno, FileFlags, FileKind, FsResult, FsStat, Onlookers, SetAttr,
    WriteErrorCounts,
};
use base::{Bytes, Ino, Time};
use std::ops::Range;

/// The root inode of ext4. A file system's own answer is [`FileSystem::root`].
pub const ROOT_INO_HINT: Ino = Ino(2);

/// The creator of a new inode: its owner and group, and the permissions that it never gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Creds {
    /// User.
    pub uid: u32,
    /// Group; a directory with the set-group-ID bit gives its own instead.
    pub gid: u32,
    /// Permission bits taken away from a new inode, unless its directory has a default ACL, which
    /// decides instead (`umask(2)`).
    pub umask: u16,
}

impl Creds {
    /// The permission bits of a new inode whose directory has no default ACL: `perm` without the
    /// bits of `umask`.
    pub const fn masked(&self, perm: u16) -> u16 {
        perm & !(self.umask & 0o777)
    }
}

/// What a rename does when the target exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RenameMode {
    /// Replaces it (POSIX `rename`).
    Replace,
    /// Fails with EEXIST (`RENAME_NOREPLACE`).
    NoReplace,
    /// Swaps the two (`RENAME_EXCHANGE`).
    Exchange,
    /// Replaces it, and leaves a whiteout of this owner under the old name: a character device 0:0
    /// without permissions (`RENAME_WHITEOUT`, for overlays).
    Whiteout(Creds),
    /// As `Whiteout`, but fails with EEXIST if the target exists (`RENAME_WHITEOUT |
    /// RENAME_NOREPLACE`).
    WhiteoutNoReplace(Creds),
}

impl RenameMode {
    /// True if an existing target is EEXIST.
    pub const fn keeps_target(self) -> bool {
        matches!(
            self,
            RenameMode::NoReplace | RenameMode::WhiteoutNoReplace(_)
        )
    }
    /// The mode that does the same where no target exists, and is EEXIST where one does. An
    /// exchange needs its target and stays what it is.
    #[must_use]
    pub const fn keeping_target(self) -> RenameMode {
        match self {
            RenameMode::Replace => RenameMode::NoReplace,
            RenameMode::Whiteout(creds) => RenameMode::WhiteoutNoReplace(creds),
            kept => kept,
        }
    }
    /// The owner of the whiteout that takes the old name, if one does.
    pub const fn whiteout(self) -> Option<Creds> {
        match self {
            RenameMode::Whiteout(creds) | RenameMode::WhiteoutNoReplace(creds) => Some(creds),
            _ => None,
        }
    }
}

/// An operation in which an inode may lose a name.
#[derive(Clone, Copy, Debug)]
pub enum Taking<'a> {
    /// [`FileSystem::unlink`]: directory and name.
    Unlink(Ino, &'a [u8]),
    /// [`FileSystem::rmdir`]: directory and name.
    Rmdir(Ino, &'a [u8]),
    /// [`FileSystem::rename`]: directory and name, before and after.
    Rename((Ino, &'a [u8]), (Ino, &'a [u8]), RenameMode),
}

/// What [`FileSystem::seek`] looks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeekMode {
    /// The next byte that is not in a hole (`SEEK_DATA`).
    Data,
    /// The next byte in a hole; every file ends in one (`SEEK_HOLE`).
    Hole,
}

/// What setting an extended attribute does when there is one of that name, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XattrMode {
    /// Makes or replaces it.
    Any,
    /// Fails with EEXIST if it is there (`XATTR_CREATE`).
    Create,
    /// Fails with ENODATA if it is not there (`XATTR_REPLACE`).
    Replace,
}

/// What `fallocate` does to a range of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FallocateMode {
    /// Gives every block of the range a place; what was a hole reads as zeros. The size grows to
    /// the end of the range.
    Allocate,
    /// As `Allocate`; the size stays (`FALLOC_FL_KEEP_SIZE`).
    KeepSize,
    /// Frees the blocks; the range reads as zeros, the size stays
    /// (`FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE`).
    PunchHole,
    /// The range reads as zeros and keeps its blocks; the size grows to its end
    /// (`FALLOC_FL_ZERO_RANGE`).
    ZeroRange,
    /// As `ZeroRange`; the size stays (`FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE`).
    ZeroRangeKeepSize,
    /// Takes the range out of the file; what lies behind it moves forward, and the size shrinks
    /// (`FALLOC_FL_COLLAPSE_RANGE`). EINVAL unless both ends are multiples of the block size and
    /// the range ends before the file does.
    CollapseRange,
    /// Makes a hole at the start of the range; what lies there moves back, and the size grows
    /// (`FALLOC_FL_INSERT_RANGE`). EINVAL unless both ends are multiples of the block size and the
    /// range begins before the end of the file.
    InsertRange,
    /// Gives shared blocks of the range copies of their own (`FALLOC_FL_UNSHARE_RANGE`). File
    /// systems without shared blocks answer EOPNOTSUPP, as ext4 and F2FS of Linux do.
    Unshare,
}

/// Longest name of an extended attribute with its prefix, bytes (Linux `XATTR_NAME_MAX`).
pub const XATTR_NAME_BYTES_MAX: usize = 255;
/// Longest value of an extended attribute, bytes (Linux `XATTR_SIZE_MAX`); file systems may hold
/// less.
pub const XATTR_VALUE_BYTES_MAX: usize = 65536;

/// A mounted file system. All operations work on inode numbers; names are single components (never
/// empty, without `/` and NUL; `vfs` answers for that and resolves `.` and `..` through
/// [`FileSystem::lookup`]). Permissions are checked by the caller.
///
/// Calls block (inside `rt` primitives only) and may come from many tasks. Every inode between
/// [`open`](Self::open) and [`release`](Self::release) stays usable after its last link is gone.
///
/// Inodes of every kind can be pinned, directories too. `testkit::conformance` checks what is
/// promised here.
///
/// # Errors
/// Each method answers the POSIX error of the system call it serves; I/O, corruption and an earlier
/// failure come as their own classes of [`FsError`](crate::FsError). A number that is not in use is
/// ESTALE. Making a name in a directory that has been removed is ENOENT, reading it gives nothing.
/// A write or truncation beyond the largest file size is EFBIG.
#[allow(clippy::missing_errors_doc)]
pub trait FileSystem: Send + Sync {
    /// The root directory.
    fn root(&self) -> Ino;
    /// The inode called `name` in `dir`; knows `.` and `..`.
    fn lookup(&self, dir: Ino, name: &[u8]) -> FsResult<Ino>;
    /// Whether names of `dir` are compared without regard to case, so that it has each under many
    /// names. `None`: no directory of this volume ever is like that.
    fn ignores_case(&self, dir: Ino) -> Option<bool> {
        let _ = dir;
        None
    }
    /// Attributes.
    fn getattr(&self, ino: Ino) -> FsResult<Attr>;
    /// Changes attributes; answers the new ones.
    fn setattr(&self, ino: Ino, set: &SetAttr) -> FsResult<Attr>;
    /// Makes an inode of any kind but directory and symlink. `rdev` counts for device files.
    ///
    /// Here and in `mkdir` and `tmpfile`: a default ACL of the directory gives the inode its access
    /// ACL and, a directory, its default ACL, and limits `perm`; without one `creds.umask` does. A
    /// directory with the set-group-ID bit gives its group, and a new directory the bit.
    fn create(
        &self,
        dir: Ino,
        name: &[u8],
        kind: FileKind,
        perm: u16,
        rdev: u32,
        creds: Creds,
    ) -> FsResult<Attr>;
    /// Makes a directory.
    fn mkdir(&self, dir: Ino, name: &[u8], perm: u16, creds: Creds) -> FsResult<Attr>;
    /// Makes a symbolic link to `target`.
    fn symlink(&self, dir: Ino, name: &[u8], target: &[u8], creds: Creds) -> FsResult<Attr>;
    /// Makes a regular file without a name (`O_TMPFILE`) on the volume of `dir`. It comes pinned,
    /// as by [`open`](Self::open), and is freed by the last [`release`](Self::release) unless
    /// [`link`](Self::link) has given it a name by then.
    fn tmpfile(&self, dir: Ino, perm: u16, creds: Creds) -> FsResult<Attr> {
        let _ = (dir, perm, creds);
        Err(Errno::NotSup.into())
    }
    /// The target of a symbolic link.
    fn readlink(&self, ino: Ino) -> FsResult<Vec<u8>>;
    /// A further name for `ino`, or the first one of a file made by [`tmpfile`](Self::tmpfile).
    /// ENOENT if its last name has gone.
    fn link(&self, ino: Ino, dir: Ino, name: &[u8]) -> FsResult<Attr>;
    /// Removes a name of anything but a directory.
    fn unlink(&self, dir: Ino, name: &[u8]) -> FsResult<()>;
    /// Removes an empty directory.
    fn rmdir(&self, dir: Ino, name: &[u8]) -> FsResult<()>;
    /// Moves a name.
    fn rename(
        &self,
        from_dir: Ino,
        from: &[u8],
        to_dir: Ino,
        to: &[u8],
        mode: RenameMode,
    ) -> FsResult<()>;
    /// Runs an operation in which an inode may lose a name, for a caller that does not pin the
    /// inode before. If an onlooker may know the inode, the file system pins it as the name goes,
    /// and hands the pin over to the onlookers. If none does, an inode without names, pins and much
    /// content is freed by what removes its last name, so that a cut cannot come in between.
    /// Answers the inode that lost a removed name; a caller that renames knows it.
    ///
    /// `None`, the default, of a file system that frees inodes without names apart: nothing has
    /// happened, and the caller pins the inode and calls the operation itself.
    fn take_name(
        &self,
        what: Taking<'_>,
        onlookers: Onlookers<'_>,
    ) -> Option<FsResult<Option<Ino>>> {
        let _ = (what, onlookers);
        None
    }
    /// Entries from cookie `from` on (0: the start), at most `max`; empty at the end. Includes `.`
    /// and `..`.
    fn readdir(&self, dir: Ino, from: u64, max: usize) -> FsResult<Vec<DirEntry>>;
    /// Reads up to `buf.len()` bytes at `offset`; fewer only at the end of the file.
    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> FsResult<usize>;
    /// Writes all of `data` at `offset` (into the page cache). A short count says how much fitted
    /// before the error.
    fn write(&self, ino: Ino, offset: u64, data: &[u8]) -> FsResult<usize>;
    /// True if [`write_atomic`](Self::write_atomic) works here.
    fn has_atomic_writes(&self) -> bool {
        false
    }
    /// Which single writes [`write_atomic`](Self::write_atomic) takes whatever the file looks like
    /// (`stx_atomic_write_unit_min` and `_max` of `statx`); `None` where it does not work.
    fn atomic_unit(&self) -> Option<AtomicUnit> {
        None
    }
    /// Writes all parts, each with its offset, so that after a cut of power either all of them are
    /// there or none is; other writes go on meanwhile, and no reader sees a part alone. It is
    /// durable after an fsync, if not before. Where parts overlap, the later one counts.
    ///
    /// EOPNOTSUPP for files, or volumes, that cannot do it, EFBIG for more than one transaction
    /// holds, ENOSPC; with these nothing has changed.
    fn write_atomic(&self, ino: Ino, parts: &[(u64, Bytes)]) -> FsResult<()> {
        let _ = (ino, parts);
        Err(Errno::NotSup.into())
    }
    /// True if a sync of a file makes durable every change that ended before it, of any file and
    /// any name, with what it syncs; false if an older change, as the removal of another file, may
    /// be lost while what was synced stays (F2FS without a journal recovers single files).
    fn sync_keeps_order(&self) -> bool {
        false
    }
    /// Sets an extended attribute. `name` begins with the prefix of its name space (`user.`,
    /// `trusted.`, `security.`, `system.posix_acl_access`, `system.posix_acl_default`), as
    /// everywhere here; `vfs` has checked its length.
    ///
    /// EOPNOTSUPP for a name space that this file system has not, EINVAL for a prefix alone, EPERM
    /// for `user.` on anything but files and directories, EEXIST and ENODATA as `mode` says, ENOSPC
    /// if the value does not fit.
    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> FsResult<()> {
        let _ = (ino, name, value, mode);
        Err(Errno::NotSup.into())
    }
    /// The value of an extended attribute; ENODATA if there is none of that name.
    fn getxattr(&self, ino: Ino, name: &[u8]) -> FsResult<Vec<u8>> {
        let _ = (ino, name);
        Err(Errno::NotSup.into())
    }
    /// Names of all extended attributes; the order is that of the file system.
    fn listxattr(&self, ino: Ino) -> FsResult<Vec<Vec<u8>>> {
        let _ = ino;
        Err(Errno::NotSup.into())
    }
    /// True if POSIX ACLs count: new inodes inherit them, and the mode and the access ACL of a file
    /// follow each other. The front door that guards access to such a file system (the kernel of a
    /// mount) leaves the umask to it and asks for the ACLs; elsewhere ACLs must not be set.
    fn obeys_acls(&self) -> bool {
        false
    }
    /// Removes an extended attribute; ENODATA if there is none of that name. The ACLs of a file
    /// system that obeys them are an exception: to have none is not an error there (Linux
    /// `vfs_remove_acl`).
    fn removexattr(&self, ino: Ino, name: &[u8]) -> FsResult<()> {
        let _ = (ino, name);
        Err(Errno::NotSup.into())
    }
    /// Allocates, or gives up, the blocks of `offset..offset + len` (`vfs` has checked that this
    /// does not overflow and that `len` is not 0). EFBIG beyond the largest file, ENOSPC if not all
    /// of it could be allocated (part of it may be). The size grows only if all of it could.
    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64) -> FsResult<()> {
        let _ = (ino, mode, offset, len);
        Err(Errno::NotSup.into())
    }
    /// Where the next data, or the next hole, begins at or behind byte `offset` (`lseek` with
    /// `SEEK_DATA`, `SEEK_HOLE`). Data that waits for its blocks is data; allocated blocks that
    /// were never written are no data, and a hole on ext4 but not on F2FS, as in Linux.
    ///
    /// ENXIO if `offset` lies at or behind the end, or there is no data behind it. This default
    /// knows no holes but the end of the file.
    fn seek(&self, ino: Ino, offset: u64, mode: SeekMode) -> FsResult<u64> {
        let size = self.getattr(ino)?.size;
        match mode {
            _ if offset >= size => Err(Errno::NxIo.into()),
            SeekMode::Data => Ok(offset),
            SeekMode::Hole => Ok(size),
        }
    }
    /// Tells the device which free space in `range` (bytes of the volume) it need not keep, in
    /// pieces of at least `min_bytes` (`FITRIM`). Answers how many bytes that were. EOPNOTSUPP if
    /// the device knows no discard, EINVAL if the range begins behind the volume.
    fn trim(&self, range: Range<u64>, min_bytes: u64) -> FsResult<u64> {
        let _ = (range, min_bytes);
        Err(Errno::NotSup.into())
    }
    /// The flags that `lsattr` shows (`FS_IOC_GETFLAGS`). [`Attr::flags`] has them too.
    fn file_flags(&self, ino: Ino) -> FsResult<FileFlags> {
        self.getattr(ino).map(|attr| attr.flags)
    }
    /// Sets the flags that `chattr` can change (`FS_IOC_SETFLAGS`); others keep their state.
    /// Whether the caller may (owner, `CAP_LINUX_IMMUTABLE`, `CAP_SYS_RESOURCE`) is checked by the
    /// caller.
    ///
    /// EOPNOTSUPP for a flag that the volume cannot have.
    fn set_file_flags(&self, ino: Ino, flags: FileFlags) -> FsResult<()> {
        let _ = (ino, flags);
        Err(Errno::NotSup.into())
    }
    /// The project that the inode belongs to (`fsx_projid` of `FS_IOC_FSGETXATTR`); 0 without the
    /// feature `project`.
    fn project(&self, ino: Ino) -> FsResult<u32> {
        let _ = ino;
        Ok(0)
    }
    /// Sets the project (`FS_IOC_FSSETXATTR`). EOPNOTSUPP without the feature, except for project
    /// 0.
    fn set_project(&self, ino: Ino, project: u32) -> FsResult<()> {
        match project {
            0 => self.getattr(ino).map(drop),
            _ => Err(Errno::NotSup.into()),
        }
    }
    /// Pins the inode.
    fn open(&self, ino: Ino) -> FsResult<()>;
    /// Pins the inode whose number comes from a file handle (`open_by_handle_at(2)`, NFS). The
    /// caller may have made the number up, so inodes of the file system's own, which no name leads
    /// to, answer ESTALE.
    fn open_handle(&self, ino: Ino) -> FsResult<()> {
        self.open(ino)
    }
    /// Unpins the inode; the last release frees an inode without links.
    fn release(&self, ino: Ino) -> FsResult<()>;
    /// Makes data and metadata of the inode durable; with `data_only` leaves out metadata not
    /// needed to read the data back.
    fn fsync(&self, ino: Ino, data_only: bool) -> FsResult<()>;
    /// How many write-backs of the inode's data have failed. An open file asks after each
    /// [`fsync`](Self::fsync), to tell its user of what another open file was told
    /// ([`ErrorSeen`](crate::ErrorSeen)). Without failures, and of an inode that is not in memory:
    /// zeros.
    fn write_errors(&self, ino: Ino) -> WriteErrorCounts {
        let _ = ino;
        WriteErrorCounts::default()
    }
    /// Makes everything durable (`syncfs`).
    fn sync(&self) -> FsResult<()>;
    /// Starts writing back pages that became dirty before `older_than`; waits for neither device
    /// cache nor journal.
    fn writeback(&self, older_than: Time) -> FsResult<()>;
    /// Dirty pages in the cache, in 4 KiB pages.
    fn dirty_pages(&self) -> u64;
    /// Drops clean pages of files (and directories) from the cache; what is dirty stays. A file
    /// system without a cache does nothing.
    fn drop_caches(&self) {}
    /// Space and inodes.
    fn statfs(&self) -> FsResult<FsStat>;
    /// Ends the mount as a power cut would, but for what is in the log: that is committed first,
    /// without the data that waits in the cache (`EXT4_IOC_SHUTDOWN` with
    /// `EXT4_GOING_FLAGS_LOGFLUSH`). Every later call fails, the unmount too, and the next mount
    /// recovers the volume.
    fn go_down(&self) -> FsResult<()> {
        Err(Errno::NotSup.into())
    }
    /// Writes everything, marks the file system clean and stops its tasks. Every later call answers
    /// ESHUTDOWN. Dropping a mounted file system without this is a crash.
    fn unmount(&self) -> FsResult<()>;
}
