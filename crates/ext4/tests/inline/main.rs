//! Content that lies in the inode (feature `inline_data`): written here, judged by e2fsck, debugfs,
//! the checker, and after cuts.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

#[path = "../common/mod.rs"]
mod common;
mod content;
#[path = "../common/cut_disk.rs"]
mod cut_disk;
mod cuts;
mod directories;
