//! A FUSE front door: a mounted file system of ours as a directory of the host.
//!
//! ```text
//! kernel <-> fuser <-> adapter --requests--> Server --inode operations--> Vfs
//!        <-> io_uring <-> ring ---requests-->
//! ```
//!
//! [`Server`] knows inodes, pins and POSIX, but no protocol: tests drive it without a kernel.
//! `fuser` is named in `adapter`, `convert`, `leave`, `notices` and `session` only.
//!
//! Invariants:
//!
//! - **U1** Every inode that the kernel knows (looked up and not forgotten) or has open is pinned
//!   once, so its number is not given to another inode.
//! - **U2** A request that panics is answered with EIO, and so is every later one: nothing is
//!   written any more, the volume stays dirty and the next mount recovers it.
//! - **U3** A write to a file opened with `O_SYNC` or `O_DSYNC`, an allocation in it and a copy
//!   into it are answered after their sync.
//! - **U4** A failed write of file data is told once to each descriptor that was open
//!   ([`vfs::ErrorSeen`]).
//! - **U5** ACLs can be set only where the file system obeys them; such a file system gets the
//!   umask.
//! - **U6** When a write, a truncation, an allocation or a copy by an ordinary user is answered,
//!   set-user-ID and set-group-ID of the file are gone from the volume *and* from what the kernel
//!   keeps: a file with new content is not run with the rights of its owner (`server/attrs.rs`).
//! - **U7** A file handle whose inode the kernel has forgotten leads to that inode as long as it is
//!   in use, and never to one of the file system's own.
//! - **U8** A read that begins after a direct write was answered does not find older content in the
//!   kernel's cache (`notices.rs`).

mod abort;
mod adapter;
mod convert;
mod groups;
mod leave;
mod notices;
mod options;
mod place;
mod ring;
mod room;
mod server;
mod session;
mod source;

pub use options::{Access, Options, Transport, WrongValue};
pub use place::device_on;
pub use room::Room;
pub use server::{
    Again, Caller, Change, KernelCache, NoCache, OpenMode, Opened, REMOUNT_XATTR, Remount,
    Remounter, Server,
};
pub use session::{MountError, Mounted};
