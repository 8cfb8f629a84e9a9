//! Names: create, mkdir, symlink, link, unlink, rmdir, rename, readdir, compared with a shadow in
//! memory, e2fsck, debugfs and the kernel.

mod crash;
mod foreign;
mod hostile;
mod limits;
mod tasks;
mod trees;
mod walk;
