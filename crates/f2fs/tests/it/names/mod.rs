//! Names: create, mkdir, symlink, link, unlink, rmdir, rename, readdir, compared with a model in
//! memory and checked by fsck.f2fs.

mod foreign;
mod hostile;
mod levels;
mod limits;
mod tasks;
mod trees;
