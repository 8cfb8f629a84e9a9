//! ext4 in user space, byte-compatible with Linux.

pub mod dir;
