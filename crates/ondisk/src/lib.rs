//! Byte formats of JBD2, ext4, F2FS and logs of dm-log-writes: pure, no I/O.
//!
//! One folder per format, one file per structure. Names of the kernel (`s_*`, `i_*`) appear at the
//! byte boundary only; above it each field has a plain name and, where one exists, a newtype. Two
//! shapes of types:
//!
//! - *small structures* (a journal header, a tag, an extent) are plain values with `parse` and
//!   `encode`;
//! - *large structures that others extend* (superblocks, group descriptors, inodes) keep their raw
//!   bytes; getters and setters work on those, so a field this crate does not know survives a
//!   read-modify-write.
//!
//! Invariants:
//! - I1: no input makes a `parse`, a getter or an iterator panic; damage is a [`Corrupt`] that
//!   names the place.
//! - I2: `parse(encode(x)) == x`.
//! - I3: code that stores a structure with a checksum calls its `update_checksum` (or an `encode`
//!   that does it) last; code that loads one calls its `verify_checksum` first, unless `parse` says
//!   that it did.

mod casefold;
mod corrupt;
mod field;

pub mod ext4;
pub mod f2fs;
pub mod jbd2;
pub mod log_writes;

pub use casefold::Folding;
pub use corrupt::{Corrupt, CorruptKind};
