//! How a file is opened: the flags of `open(2)` that this library knows.

use std::ops::BitOr;

/// Flags of [`Vfs::open`](crate::Vfs::open), joined with `|`, with the meanings of `open(2)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenFlags(u16);

impl OpenFlags {
    /// Neither reading nor writing: the file can be asked for attributes, synced and closed.
    pub const NONE: OpenFlags = OpenFlags(0);
    /// Reading (part of `O_RDWR`, or `O_RDONLY`).
    pub const READ: OpenFlags = OpenFlags(1);
    /// Writing (part of `O_RDWR`, or `O_WRONLY`).
    pub const WRITE: OpenFlags = OpenFlags(2);
    /// `O_CREAT`: makes the file if there is none.
    pub const CREATE: OpenFlags = OpenFlags(4);
    /// `O_EXCL`: with [`CREATE`](Self::CREATE), EEXIST if the name exists, even as a dangling
    /// symlink.
    pub const EXCL: OpenFlags = OpenFlags(8);
    /// `O_TRUNC`: cuts an existing file to size 0.
    pub const TRUNC: OpenFlags = OpenFlags(16);
    /// `O_APPEND`: every write goes to the end of the file.
    pub const APPEND: OpenFlags = OpenFlags(32);
    /// `O_DIRECTORY`: ENOTDIR unless it is a directory.
    pub const DIRECTORY: OpenFlags = OpenFlags(64);
    /// `O_NOFOLLOW`: ELOOP if the last component is a symlink.
    pub const NOFOLLOW: OpenFlags = OpenFlags(128);
    /// `O_SYNC`: every write is followed by [`File::fsync`](crate::File::fsync).
    pub const SYNC: OpenFlags = OpenFlags(256);
    /// `O_DSYNC`: every write is followed by [`File::fdatasync`](crate::File::fdatasync).
    pub const DSYNC: OpenFlags = OpenFlags(512);
    /// `O_RDWR`.
    pub const READ_WRITE: OpenFlags = OpenFlags(3);

    /// True if all flags of `other` are set.
    pub const fn has(self, other: OpenFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for OpenFlags {
    type Output = OpenFlags;
    fn bitor(self, other: OpenFlags) -> OpenFlags {
        OpenFlags(self.0 | other.0)
    }
}
