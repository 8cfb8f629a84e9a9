//! The file-system interface: operations on inodes, attributes, errors, the page cache.
//!
//! `vfs` calls a file system through [`FileSystem`]; `ext4`, `f2fs` and the in-memory model
//! implement it. What `ext4` and `f2fs` have in common beside the interface stands in [`shell`] and
//! [`check`].

pub mod acl;
mod attr;
mod caller;
pub mod check;
mod error;
mod flags;
mod fs;
mod grace;
mod new_inode;
mod page_cache;
mod read_ahead;
mod scope;
pub mod shell;
mod write_errors;
mod xattr_name;

pub use attr::{AccessTimes, AtomicUnit, Attr, DirEntry, FileKind, FsStat, SetAttr, TimeSet};
pub use caller::{Caller, GroupsOf, Requester, ReserveOwner};
pub use error::{Errno, FsError, FsResult};
pub use flags::FileFlags;
pub use fs::{
    Creds, FallocateMode, FileSystem, ROOT_INO_HINT, RenameMode, SeekMode, Taking,
    XATTR_NAME_BYTES_MAX, XATTR_VALUE_BYTES_MAX, XattrMode,
};
pub use grace::{Grace, Onlookers, OpNo};
pub use new_inode::{NewContent, NewInode, rdev};
pub use page_cache::{DirtyRun, Home, PageCache, PageState, Take};
pub use read_ahead::ReadAhead;
pub use scope::{Accepted, NoAccessTime, OfWrite, Sends};
pub use shell::{Errors, Latch, SyncTimes};
pub use write_errors::{ErrorSeen, WriteErrorCounts, WriteErrors};
pub use xattr_name::{XattrName, xattr_full_name};
