//! Path walk, open files, and the policy of write-back, for any file system.
//!
//! [`Vfs`] turns paths into the inode operations of one [`fscore::FileSystem`], so that file
//! systems know no paths and programs no inodes. It acts as the superuser: permission bits are
//! stored and not checked.
//!
//! It stands where a kernel stands between a program and a file system, so what that kernel takes
//! for a call is charged here ([`base::cost::host`]), the same for every file system. Calls by
//! inode number are charged nothing: above them there is a kernel, that of FUSE, which takes its
//! own time.
//!
//! Invariants:
//!
//! - **V1** An inode number that a running operation has seen is not reused before that operation
//!   ends: a removal of a name pins the inode as the name goes, and the inode is unpinned when
//!   every operation that ran at the removal has ended ([`fscore::Grace`]). It is not pinned if no
//!   other operation can know it, and the file system asks that itself while nobody can look the
//!   name up ([`FileSystem::take_name`]).
//! - **V2** The inode that is pinned is the one that loses its name: either the file system pins it
//!   under its own locks, or the name is looked up and removed under the lock of its directory here
//!   (`lockset`).
//! - **V3** A directory never becomes its own ancestor: one rename between directories runs at a
//!   time, and it looks upwards from its target first.
//! - **V4** While an appending write runs no other call through this `Vfs` changes the size of the
//!   file, unless the caller works on inode numbers ([`Vfs::write_pinned`]): such a front end keeps
//!   these calls apart itself, as the kernel does above FUSE.
//!
//! Lock order: rename lock -> directory lock set -> append lock -> locks of the file system. The
//! lock of [`fscore::Grace`] and the node table are leaves.

mod file;
mod flags;
mod inodes;
mod lockset;
mod names;
mod path;
mod synclog;
mod walk;
mod writeback;
mod xattr;

mod mount;

pub use file::File;
pub use flags::OpenFlags;
pub use fscore::shell::options;
pub use fscore::{
    Accepted, AccessTimes, Attr, Caller, Creds, DirEntry, Errno, ErrorSeen, FallocateMode,
    FileFlags, FileKind, FileSystem, FsError, FsResult, FsStat, NoAccessTime, OfWrite, RenameMode,
    Requester, SeekMode, Sends, SetAttr, TimeSet, WriteErrorCounts, XATTR_NAME_BYTES_MAX,
    XATTR_VALUE_BYTES_MAX, XattrMode,
};
pub use inodes::PinnedEntry;
pub use mount::Vfs;
pub use path::{NAME_BYTES_MAX, PATH_BYTES_MAX, SYMLINKS_MAX};
pub use synclog::SyncRecord;
pub use writeback::{WritebackPolicy, WritebackStats};
