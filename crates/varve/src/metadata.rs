//! What `stat`, `read_dir` and `statfs` tell.

// Callers compare times of files with those of `std::fs`.
#![allow(clippy::disallowed_types)]

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vfs::{Attr, FileKind, FsStat};

/// The kind of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// A device, a pipe or a socket.
    Special,
}

impl FileType {
    pub(crate) fn of(kind: FileKind) -> FileType {
        match kind {
            FileKind::File => FileType::File,
            FileKind::Dir => FileType::Dir,
            FileKind::Symlink => FileType::Symlink,
            FileKind::Char | FileKind::Block | FileKind::Fifo | FileKind::Socket => {
                FileType::Special
            }
        }
    }
}

/// What `stat` tells of an inode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metadata(pub(crate) Attr);

#[allow(clippy::len_without_is_empty)] // As `std::fs::Metadata`.
impl Metadata {
    /// The kind.
    pub fn file_type(&self) -> FileType {
        FileType::of(self.0.kind)
    }
    /// True for a regular file.
    pub fn is_file(&self) -> bool {
        self.file_type() == FileType::File
    }
    /// True for a directory.
    pub fn is_dir(&self) -> bool {
        self.file_type() == FileType::Dir
    }
    /// True for a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.file_type() == FileType::Symlink
    }
    /// The size, bytes.
    pub fn len(&self) -> u64 {
        self.0.size
    }
    /// `st_mode`: kind and permission bits.
    pub fn mode(&self) -> u32 {
        u32::from(self.0.kind.mode_bits() | self.0.perm)
    }
    /// Inode number.
    pub fn ino(&self) -> u64 {
        u64::from(self.0.ino.0)
    }
    /// Hard links.
    pub fn nlink(&self) -> u32 {
        self.0.nlink
    }
    /// Owner and group.
    pub fn owner(&self) -> (u32, u32) {
        (self.0.uid, self.0.gid)
    }
    /// Allocated space in units of 512 bytes.
    pub fn blocks(&self) -> u64 {
        self.0.sectors
    }
    /// Last change of the content.
    pub fn modified(&self) -> SystemTime {
        time(self.0.mtime)
    }
    /// Last access.
    pub fn accessed(&self) -> SystemTime {
        time(self.0.atime)
    }
    /// Last change of the inode.
    pub fn changed(&self) -> SystemTime {
        time(self.0.ctime)
    }
    /// Creation.
    pub fn created(&self) -> SystemTime {
        time(self.0.crtime)
    }
}

fn time(at: rt::WallTime) -> SystemTime {
    let whole = Duration::from_secs(at.secs.unsigned_abs());
    let base = match at.secs < 0 {
        true => UNIX_EPOCH - whole,
        false => UNIX_EPOCH + whole,
    };
    base + Duration::from_nanos(u64::from(at.nanos))
}

/// One entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry(pub(crate) vfs::DirEntry);

impl DirEntry {
    /// The name, without a path.
    pub fn file_name(&self) -> OsString {
        OsString::from_vec(self.0.name.clone())
    }
    /// The kind.
    pub fn file_type(&self) -> FileType {
        FileType::of(self.0.kind)
    }
    /// Inode number.
    pub fn ino(&self) -> u64 {
        u64::from(self.0.ino.0)
    }
    /// True if the name is this.
    pub fn is_named(&self, name: impl AsRef<OsStr>) -> bool {
        self.file_name() == name.as_ref()
    }
}

/// What `statfs` tells of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Space {
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Bytes of the volume.
    pub bytes: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Inodes.
    pub inodes: u64,
    /// Inodes that are free.
    pub inodes_free: u64,
}

impl From<FsStat> for Space {
    fn from(stat: FsStat) -> Space {
        let block = u64::from(stat.block_bytes);
        Space {
            block_bytes: stat.block_bytes,
            bytes: stat.blocks * block,
            free: stat.blocks_free * block,
            inodes: stat.inodes,
            inodes_free: stat.inodes_free,
        }
    }
}
