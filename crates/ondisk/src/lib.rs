//! Byte formats of JBD2, ext4 and F2FS: pure, no I/O.
