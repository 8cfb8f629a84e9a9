//! The flags of an inode that `chattr` and `lsattr` know, with the values of `FS_IOC_GETFLAGS`
//! (`linux/fs.h`), which are those of `i_flags` on an ext4 volume.

use crate::{Errno, FileKind};
use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// Flags of an inode as `FS_IOC_GETFLAGS` tells them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FileFlags(pub u32);

impl FileFlags {
    /// Every write returns when it is durable (`chattr +S`).
    pub const SYNC: FileFlags = FileFlags(0x8);
    /// Neither content, attributes nor names change (`+i`).
    pub const IMMUTABLE: FileFlags = FileFlags(0x10);
    /// The content only grows, names stay (`+a`).
    pub const APPEND: FileFlags = FileFlags(0x20);
    /// `dump` leaves it out (`+d`).
    pub const NO_DUMP: FileFlags = FileFlags(0x40);
    /// Reading leaves the access time alone (`+A`).
    pub const NO_ATIME: FileFlags = FileFlags(0x80);
    /// Encrypted (shown only).
    pub const ENCRYPT: FileFlags = FileFlags(0x800);
    /// A directory with a hash tree (shown only).
    pub const INDEX: FileFlags = FileFlags(0x1000);
    /// Content goes through the journal (`+j`).
    pub const JOURNAL_DATA: FileFlags = FileFlags(0x4000);
    /// Changes of the directory return when they are durable (`+D`).
    pub const DIR_SYNC: FileFlags = FileFlags(0x1_0000);
    /// Directories below are no relatives: they are spread over the volume (`+T`).
    pub const TOP_DIR: FileFlags = FileFlags(0x2_0000);
    /// Mapped by extents (shown only).
    pub const EXTENTS: FileFlags = FileFlags(0x8_0000);
    /// A file under fs-verity (shown only).
    pub const VERITY: FileFlags = FileFlags(0x10_0000);
    /// Blocks behind the end, of old ext4 (shown only).
    pub const EOF_BLOCKS: FileFlags = FileFlags(0x40_0000);
    /// Content is read and written past all caches, on memory that is storage (`+x`). No file
    /// system here does that.
    pub const DAX: FileFlags = FileFlags(0x200_0000);
    /// Lies in the inode (shown only).
    pub const INLINE_DATA: FileFlags = FileFlags(0x1000_0000);
    /// New inodes take over the project of the directory (`+P`).
    pub const PROJECT_INHERIT: FileFlags = FileFlags(0x2000_0000);
    /// A directory whose names ignore case (`+F`).
    pub const CASEFOLD: FileFlags = FileFlags(0x4000_0000);

    /// What a file system says of an inode by itself. It may have changed since a program asked for
    /// the flags, so it is no wish when they come back.
    const STATE: FileFlags = FileFlags(
        FileFlags::ENCRYPT.0
            | FileFlags::INDEX.0
            | FileFlags::EXTENTS.0
            | FileFlags::VERITY.0
            | FileFlags::EOF_BLOCKS.0
            | FileFlags::INLINE_DATA.0,
    );
    /// What only directories have.
    const OF_DIRECTORIES: FileFlags = FileFlags(
        FileFlags::DIR_SYNC.0
            | FileFlags::TOP_DIR.0
            | FileFlags::PROJECT_INHERIT.0
            | FileFlags::CASEFOLD.0,
    );
    /// What inodes have that are neither files nor directories.
    const OF_OTHERS: FileFlags = FileFlags(FileFlags::NO_DUMP.0 | FileFlags::NO_ATIME.0);

    /// Bits of `fsx_xflags` and the flags they stand for.
    const XFLAGS: [(u32, FileFlags); 6] = [
        (0x8, FileFlags::IMMUTABLE),
        (0x10, FileFlags::APPEND),
        (0x20, FileFlags::SYNC),
        (0x40, FileFlags::NO_ATIME),
        (0x80, FileFlags::NO_DUMP),
        (0x200, FileFlags::PROJECT_INHERIT),
    ];
    /// Bits of `stx_attributes` and the flags they stand for.
    const STATX: [(u64, FileFlags); 5] = [
        (0x10, FileFlags::IMMUTABLE),
        (0x20, FileFlags::APPEND),
        (0x40, FileFlags::NO_DUMP),
        (0x800, FileFlags::ENCRYPT),
        (0x10_0000, FileFlags::VERITY),
    ];

    /// True if all of `flags` are set.
    pub const fn has(self, flags: FileFlags) -> bool {
        self.0 & flags.0 == flags.0
    }
    /// True if one of `flags` is set.
    pub const fn has_any(self, flags: FileFlags) -> bool {
        self.0 & flags.0 != 0
    }
    /// These without `flags`.
    #[must_use]
    pub const fn without(self, flags: FileFlags) -> FileFlags {
        FileFlags(self.0 & !flags.0)
    }
    /// As `fsx_xflags` of `FS_IOC_FSGETXATTR`.
    pub fn to_xflags(self) -> u32 {
        let set = FileFlags::XFLAGS.iter().filter(|(_, flag)| self.has(*flag));
        set.fold(0, |word, (bit, _)| word | bit)
    }
    /// These, with those that `fsx_xflags` of `FS_IOC_FSSETXATTR` has taken from there.
    ///
    /// # Errors
    /// EOPNOTSUPP for a bit that stands for none of them (`FS_XFLAG_DAX`, hints of XFS): it could
    /// not be kept.
    pub fn with_xflags(self, xflags: u32) -> Result<FileFlags, Errno> {
        let known = FileFlags::XFLAGS
            .iter()
            .fold(0, |word, (bit, _)| word | bit);
        if xflags & !known != 0 {
            return Err(Errno::NotSup);
        }
        let step = |flags: FileFlags, &(bit, flag): &(u32, FileFlags)| match xflags & bit {
            0 => flags.without(flag),
            _ => flags | flag,
        };
        Ok(FileFlags::XFLAGS.iter().fold(self, step))
    }
    /// Which flags change if an inode of this kind, which has these, is asked to have `wanted`, on
    /// a volume where `changeable` can be changed. Others stay as they are.
    ///
    /// # Errors
    /// EOPNOTSUPP if `wanted` turns a flag on that could not be kept: none is accepted and
    /// forgotten. EPERM if the inode is immutable and is to stay so.
    pub fn change(
        self,
        wanted: FileFlags,
        kind: FileKind,
        changeable: FileFlags,
    ) -> Result<FileFlags, Errno> {
        let allowed = match kind {
            FileKind::Dir => changeable,
            FileKind::File => changeable.without(FileFlags::OF_DIRECTORIES),
            _ => FileFlags(changeable.0 & FileFlags::OF_OTHERS.0),
        };
        let new = wanted.without(self | FileFlags::STATE);
        if new.without(allowed) != FileFlags::default() {
            return Err(Errno::NotSup);
        }
        let changed = FileFlags((self.0 ^ wanted.0) & changeable.0);
        let locked = self.has(FileFlags::IMMUTABLE) && !changed.has(FileFlags::IMMUTABLE);
        match locked && changed != FileFlags::default() {
            true => Err(Errno::Perm),
            false => Ok(changed),
        }
    }
    /// As `stx_attributes`.
    pub fn statx(self) -> u64 {
        let set = FileFlags::STATX.iter().filter(|(_, flag)| self.has(*flag));
        set.fold(0, |word, (bit, _)| word | bit)
    }
    /// The bits of `stx_attributes` that [`statx`](Self::statx) knows (`stx_attributes_mask`).
    pub fn statx_mask() -> u64 {
        FileFlags::STATX.iter().fold(0, |word, (bit, _)| word | bit)
    }
}

impl BitOr for FileFlags {
    type Output = FileFlags;
    fn bitor(self, other: FileFlags) -> FileFlags {
        FileFlags(self.0 | other.0)
    }
}
impl BitOrAssign for FileFlags {
    fn bitor_assign(&mut self, other: FileFlags) {
        self.0 |= other.0;
    }
}
impl fmt::Debug for FileFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileFlags({:#x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_words_for_the_same() {
        let flags = FileFlags::IMMUTABLE | FileFlags::NO_DUMP | FileFlags::EXTENTS;
        assert_eq!(flags.to_xflags(), 0x88);
        assert_eq!(flags.statx(), 0x50);
        assert_eq!(FileFlags::statx_mask(), 0x10_0870);
        let set = flags.with_xflags(0x200);
        assert_eq!(set, Ok(FileFlags::EXTENTS | FileFlags::PROJECT_INHERIT));
        for unknown in [0x8000, 0x1, 1 << 31] {
            assert_eq!(flags.with_xflags(0x200 | unknown), Err(Errno::NotSup));
        }
        assert!(flags.has_any(FileFlags::APPEND | FileFlags::NO_DUMP));
        assert!(!flags.has(FileFlags::APPEND | FileFlags::NO_DUMP));
    }

    #[test]
    fn a_flag_is_kept_or_refused() {
        let can = FileFlags::IMMUTABLE | FileFlags::NO_DUMP | FileFlags::DIR_SYNC;
        let (dump, still) = (FileFlags::NO_DUMP, FileFlags::IMMUTABLE);
        let none = FileFlags::default();
        let file = |old: FileFlags, wanted| old.change(wanted, FileKind::File, can);
        assert_eq!(file(dump | FileFlags::EXTENTS, still), Ok(dump | still));
        for bad in [FileFlags::DAX, FileFlags(1 << 31), FileFlags::DIR_SYNC] {
            assert_eq!(file(none, bad), Err(Errno::NotSup), "{bad:?}");
        }
        // What is there already, or says how the file is stored, is handed back by every chattr.
        let shown = FileFlags::DAX | FileFlags::EXTENTS | FileFlags::INLINE_DATA;
        assert_eq!(file(FileFlags::DAX, shown | dump), Ok(dump));
        assert_eq!(file(FileFlags::DAX, none), Ok(none));
        assert_eq!(file(still, still | dump), Err(Errno::Perm));
        assert_eq!(file(still, still), Ok(none));
        assert_eq!(file(still, dump), Ok(still | dump));
        let fifo = |wanted| none.change(wanted, FileKind::Fifo, can);
        assert_eq!((fifo(dump), fifo(still)), (Ok(dump), Err(Errno::NotSup)));
        let dir = none.change(FileFlags::DIR_SYNC, FileKind::Dir, can);
        assert_eq!(dir, Ok(FileFlags::DIR_SYNC));
    }
}
