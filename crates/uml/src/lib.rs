//! Runs a Linux kernel as an ordinary program (User Mode Linux, Debian package `user-mode-linux`)
//! as second opinion on images. Used by tests and `cargo xtask crosscheck` only; no shipped crate
//! depends on this one.
//!
//! - [`Uml`] boots the kernel on image files, runs a shell script in it and brings back status and
//!   output, or a crash.
//! - The root of the guest is the host's root, read-only. So the calling program can run itself
//!   inside: [`guest::hook`] is its entry there, and a script calls it as `guest WORD ARGUMENT...`
//!   (no argument holds white space).
//! - [`Plan`] is a list of file operations made from a name and a seed; [`posix`] applies it to a
//!   directory (in the guest), [`ours`] to a [`fscore::FileSystem`].
//! - [`Tree`] is the content of a tree of files, as the kernel or our code sees it; two of them are
//!   compared entry by entry.
//! - [`LogWrites`] reads a log of device mapper's `log-writes` and gives the image as of any of its
//!   entries.
//!
//! The guest's block device `ubd` (seen with 6.1.176) has a volatile write cache and no FUA, so the
//! kernel turns a FUA write into write and flush. A flush is an fsync of the image file. Writes go
//! to the file when they are issued: a guest that is killed leaves every write that it completed,
//! whether flushed or not (the host's page cache survives).
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod foreign;
pub mod guest;
mod log_writes;
mod modules;
pub mod ours;
mod plan;
mod plans;
pub mod posix;
mod tree;
mod vm;

pub use log_writes::{LogEntry, LogWrites};
pub use plan::{Op, Plan};
pub use tree::{Node, Tree};
pub use vm::{Ending, Outcome, Uml, lacks};
