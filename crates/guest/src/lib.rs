//! Runs a Linux kernel as a guest (User Mode Linux, or QEMU where that does not run): as second
//! opinion on images for tests and `cargo xtask crosscheck`, and as the subject of
//! `varve crash --kernel`.
//!
//! - [`Guest`] boots the kernel on image files, runs a shell script in it and brings back status
//!   and output, or a crash. Its disks are volatile write caches without FUA over those files
//!   (`engine`).
//! - [`Session`] runs many scripts in one boot.
//! - The root of the guest is the host's root, read-only. So the calling program can run itself
//!   inside: [`hook()`] is its entry there, and a script calls it as `guest WORD ARGUMENT...` (no
//!   argument holds white space).
//! - [`Plan`] is a list of file operations made from a name and a seed; [`posix`] applies it to a
//!   directory (in the guest), [`ours`] to a [`fscore::FileSystem`].
//! - [`Tree`] is the content of a tree of files, as the kernel or our code sees it; two of them are
//!   compared entry by entry.
//! - [`Seen`] is a tree with the bytes of its files.
//! - [`LogWrites`] reads a log of device mapper's `log-writes` and gives the image as of any of its
//!   entries.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod engine;
pub mod foreign;
mod hook;
pub mod judge;
mod log_writes;
mod modules;
pub mod names;
pub mod ours;
mod plan;
mod plans;
pub mod posix;
mod running;
mod seen;
mod session;
mod tree;
mod vm;

pub use engine::Machine;
pub use hook::{hook, hook_with};
pub use log_writes::{LogEntry, LogWrites};
pub use plan::{Op, Plan};
pub use seen::Seen;
pub use session::Session;
pub use tree::{Node, Tree};
pub use vm::{Ending, Guest, Outcome, lacks, told};
