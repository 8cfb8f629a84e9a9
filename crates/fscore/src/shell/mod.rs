//! The shell of a file system: what stands between its interface and its operations, and is the
//! same in all of ours.
//!
//! - [`Latch`]: the first failure, what it ends (`errors=`), and what later calls are told of it;
//! - [`operations!`](crate::operations): the calls of [`FileSystem`](crate::FileSystem) that look
//!   at the latch, run one operation, and make names durable where flags ask for it;
//! - [`options`]: the text of mount options, and the options that all of them have;
//! - [`names`]: which names and targets can be given, and the order of locks on inodes.

mod latch;
pub mod names;
mod operations;
pub mod options;
mod times;

pub use latch::{Errors, Latch};
pub use times::SyncTimes;
