//! Content that lies in the inode (feature `inline_data`): written here, judged by e2fsck, debugfs, the checker, and after cuts.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

#[path = "../common/mod.rs"]
mod common;
mod content;
mod cuts;
mod directories;
