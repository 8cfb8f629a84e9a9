//! Attributes of inodes and file systems.

use crate::{Errno, FileFlags};
use base::Ino;
use rt::WallTime;

/// The kind of an inode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FileKind {
    /// Regular file.
    File,
    /// Directory.
    Dir,
    /// Symbolic link.
    Symlink,
    /// Character device.
    Char,
    /// Block device.
    Block,
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
}

impl FileKind {
    /// The file-type bits of `st_mode`.
    pub const fn mode_bits(self) -> u16 {
        match self {
            FileKind::Fifo => 0o010_000,
            FileKind::Char => 0o020_000,
            FileKind::Dir => 0o040_000,
            FileKind::Block => 0o060_000,
            FileKind::File => 0o100_000,
            FileKind::Symlink => 0o120_000,
            FileKind::Socket => 0o140_000,
        }
    }
    /// True for a directory.
    pub const fn is_dir(self) -> bool {
        matches!(self, FileKind::Dir)
    }
    /// Checks that there is content to read, write or cut off.
    ///
    /// # Errors
    /// EISDIR for a directory, EINVAL for all other kinds but files.
    pub const fn check_file(self) -> Result<(), Errno> {
        match self {
            FileKind::File => Ok(()),
            FileKind::Dir => Err(Errno::IsDir),
            _ => Err(Errno::Inval),
        }
    }
    /// The kind in the upper bits of `st_mode`.
    pub const fn from_mode(mode: u16) -> Option<FileKind> {
        Some(match mode & 0o170_000 {
            0o010_000 => FileKind::Fifo,
            0o020_000 => FileKind::Char,
            0o040_000 => FileKind::Dir,
            0o060_000 => FileKind::Block,
            0o100_000 => FileKind::File,
            0o120_000 => FileKind::Symlink,
            0o140_000 => FileKind::Socket,
            _ => return None,
        })
    }
}

/// What `stat` tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attr {
    /// Inode number.
    pub ino: Ino,
    /// Kind.
    pub kind: FileKind,
    /// Permission bits with set-uid, set-gid and sticky: the low 12 bits of `st_mode`.
    pub perm: u16,
    /// Hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device file (Linux encoding of `dev_t`), else 0.
    pub rdev: u32,
    /// Size in bytes.
    pub size: u64,
    /// Allocated space in 512-byte sectors, as `st_blocks`.
    pub sectors: u64,
    /// Last access.
    pub atime: WallTime,
    /// Last change of the content.
    pub mtime: WallTime,
    /// Last change of the inode.
    pub ctime: WallTime,
    /// Creation.
    pub crtime: WallTime,
    /// Inode generation.
    pub generation: u32,
    /// What `lsattr` shows; `statx` tells part of it ([`FileFlags::statx`]).
    pub flags: FileFlags,
}

impl Attr {
    /// Whether a file with these flags can be opened this way: an immutable one not for writing, an
    /// append-only one for writing only with `O_APPEND` and without `O_TRUNC` (Linux `may_open`).
    /// The caller of `open` checks this, because only the caller knows how the file is opened; file
    /// systems check everything else that the flags forbid.
    ///
    /// # Errors
    /// EPERM.
    pub fn check_open(&self, write: bool, append: bool, truncate: bool) -> Result<(), Errno> {
        let immutable = self.flags.has(FileFlags::IMMUTABLE) && (write || truncate);
        let appends = self.flags.has(FileFlags::APPEND) && (write && !append || truncate);
        // Devices, pipes and sockets are written to without changing anything here.
        let content = matches!(self.kind, FileKind::File | FileKind::Dir);
        match content && (immutable || appends) {
            true => Err(Errno::Perm),
            false => Ok(()),
        }
    }
}

/// A new value of a time stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeSet {
    /// The time of the call.
    Now,
    /// This time.
    To(WallTime),
}

/// When reading changes the access time of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AccessTimes {
    /// If it is not newer than the last change, or older than a day (`relatime`, Linux's default).
    #[default]
    Relative,
    /// Always (`strictatime`).
    Strict,
    /// Never (`noatime`).
    Never,
}

/// The age from which on [`AccessTimes::Relative`] takes a new one, seconds.
const ACCESS_AGE_SECS: i64 = 86_400;

impl AccessTimes {
    /// Whether an inode that was last read at `last`, and last changed at `modified` and `changed`,
    /// is given the time `now` when it is read.
    pub fn is_due(
        self,
        now: WallTime,
        last: WallTime,
        modified: WallTime,
        changed: WallTime,
    ) -> bool {
        match self {
            AccessTimes::Never => false,
            AccessTimes::Strict => now != last,
            AccessTimes::Relative => {
                let old = now.secs.saturating_sub(last.secs) >= ACCESS_AGE_SECS;
                last <= modified || last <= changed || old
            }
        }
    }
}

/// Attributes to change; `None` leaves one as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SetAttr {
    /// Permission bits (12 bits).
    pub perm: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size: truncates or extends with zeros.
    pub size: Option<u64>,
    /// Access time.
    pub atime: Option<TimeSet>,
    /// Modification time.
    pub mtime: Option<TimeSet>,
    /// The times are those of writes that were accepted before: a kernel that keeps times with its
    /// cache tells of them late. Flags that the file has by now refuse them no more.
    pub of_writes: bool,
}

impl SetAttr {
    /// True if something beside the size changes.
    pub fn has_fields(&self) -> bool {
        let only_size = SetAttr {
            size: self.size,
            ..SetAttr::default()
        };
        *self != only_size
    }

    /// True for a change that an append-only inode refuses as an immutable one does (Linux
    /// `notify_change`): times that the caller names count as a change of attributes, times that
    /// the call itself sets count as a write.
    pub fn is_guarded(&self) -> bool {
        let named = |time: Option<TimeSet>| matches!(time, Some(TimeSet::To(_)));
        let attributes = self.perm.is_some() || self.uid.is_some() || self.gid.is_some();
        attributes || self.size.is_some() || named(self.atime) || named(self.mtime)
    }
}

/// One entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    /// The inode.
    pub ino: Ino,
    /// Its kind.
    pub kind: FileKind,
    /// The name: any bytes but `/` and NUL.
    pub name: Vec<u8>,
    /// Where reading goes on after this entry. Stays valid while the entry exists.
    pub next: u64,
}

/// Single writes that are all there or not at all after a cut of power: those of a power of two of
/// bytes from `min` to `max`, at a multiple of their length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtomicUnit {
    /// Shortest, bytes. A part of a block can be written as well, at the cost of the whole.
    pub min: u32,
    /// Longest that is never too large, bytes.
    pub max: u32,
}

/// What `statfs` tells.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FsStat {
    /// Block size, bytes.
    pub block_bytes: u32,
    /// Blocks in the file system.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Free blocks for unprivileged users.
    pub blocks_available: u64,
    /// Inodes.
    pub inodes: u64,
    /// Free inodes.
    pub inodes_free: u64,
    /// Longest name, bytes.
    pub name_bytes_max: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_an_access_time_is_due() {
        let at = |secs| WallTime { secs, nanos: 5 };
        let due = |how: AccessTimes, now, last, modified, changed| {
            how.is_due(at(now), at(last), at(modified), at(changed))
        };
        use AccessTimes::{Never, Relative, Strict};
        for (now, last, modified, changed, relative) in [
            (100, 50, 40, 40, false),
            (100, 50, 50, 40, true),
            (100, 50, 40, 50, true),
            (100, 50, 60, 40, true),
            (50 + 86_399, 50, 40, 40, false),
            (50 + 86_400, 50, 40, 40, true),
            // Of a clock that was ahead.
            (100, 500, 40, 40, false),
        ] {
            assert_eq!(due(Relative, now, last, modified, changed), relative);
            assert!(due(Strict, now, last, modified, changed));
            assert!(!due(Never, now, last, modified, changed));
        }
        assert!(!due(Strict, 7, 7, 7, 7));
    }
}
