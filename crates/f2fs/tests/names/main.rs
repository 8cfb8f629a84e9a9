//! Names: create, mkdir, symlink, link, unlink, rmdir, rename, readdir, against a shadow in memory and fsck.f2fs.

#[path = "../common/mod.rs"]
mod common;

mod foreign;
mod hostile;
mod levels;
mod limits;
mod tasks;
mod trees;
mod volumes;
