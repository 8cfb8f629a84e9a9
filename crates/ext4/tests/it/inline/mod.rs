//! Content that lies in the inode (feature `inline_data`): written here, judged by e2fsck, debugfs,
//! the checker, and after cuts.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

mod content;
mod cuts;
mod directories;
