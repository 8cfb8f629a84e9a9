//! Path walk, open files, and the policy of write-back.
//!
//! [`Vfs`] turns paths into the inode operations of one [`fscore::FileSystem`]. It acts as the
//! superuser: permission bits are stored, not checked.
//!
//! Invariants:
//!
//! - **V1** An inode number that a running operation has seen is not reused before that operation
//!   ends: whoever removes a name pins the inode first and unpins it when every operation that was
//!   running at the removal has ended ([`grace`]).
//! - **V2** A name that is to be removed or replaced is looked up and removed under the lock of its
//!   directory, so the pinned inode is the one that loses its name ([`lockset`]).
//! - **V3** A directory never becomes its own ancestor: renames between directories are one at a
//!   time and look upwards from the target first.
//! - **V4** An appending write is exclusive with every other change of the size through this `Vfs`.
//!
//! Lock order: rename lock -> directory lock set -> append lock -> locks of the file system. The
//! [`grace`] lock and the node table are leaves.

mod file;
mod flags;
mod grace;
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
pub use fscore::{
    Accepted, AccessTimes, Attr, Caller, Creds, DirEntry, Errno, ErrorSeen, FallocateMode,
    FileFlags, FileKind, FileSystem, FsError, FsResult, FsStat, NoAccessTime, RenameMode, SeekMode,
    SetAttr, TimeSet, XATTR_NAME_BYTES_MAX, XATTR_VALUE_BYTES_MAX, XattrMode,
};
pub use inodes::PinnedEntry;
pub use mount::Vfs;
pub use path::{NAME_BYTES_MAX, PATH_BYTES_MAX, SYMLINKS_MAX};
pub use synclog::SyncRecord;
pub use writeback::{WritebackPolicy, WritebackStats};
