//! The file-system interface: operations on inodes, errors, page cache.
