//! A crash-safe flash storage stack as a library: byte-compatible ext4, ext3 and F2FS on an image
//! file, in memory, or on a device of your own.
//!
//! ```
//! use std::io::Write;
//! use varve::{Disk, Format, Volume};
//!
//! # fn main() -> Result<(), varve::Error> {
//! let disk = Disk::ram(16 << 20)?;
//! disk.format(&Format::ext4())?;
//! let volume = Volume::mount(&disk, "")?;
//! let mut file = volume.create("/hello")?;
//! file.write_all(b"written to flash")?;
//! file.sync_all()?;
//! file.close()?;
//! assert_eq!(volume.read("/hello")?, b"written to flash");
//! volume.unmount()?;
//! assert!(disk.check()?.is_clean());
//! # Ok(())
//! # }
//! ```
//!
//! - [`Disk`]: an image file or block device of the host, memory, or a [`Device`] of your own. It
//!   is formatted ([`Format`]) and checked ([`Disk::check`]).
//! - [`Volume`]: a mounted disk, with the operations of `std::fs` as methods, and [`File`], which
//!   reads, writes and seeks as `std::fs::File` does.
//! - [`simulated`] (feature of that name, on by default): workloads and power cuts on modelled
//!   devices, as functions.
//!
//! - [`crash_test`](macro@crash_test) (feature `crash-test`, on by default): the attribute of tests
//!   that ask what a power cut may leave of the files that your own code writes.
//!
//! # What is durable
//!
//! What [`File::sync_all`] or [`File::sync_data`] has covered survives a cut of power, and all else
//! at the next commit, as on Linux. [`Volume::unmount`] makes everything durable. **Dropping a
//! volume is a crash**: what no sync covered may be gone, and the next mount recovers.
//!
//! # Threads
//!
//! Everything here is `Send + Sync`. A mount has tasks of its own, which are threads that call the
//! device.

mod check;
mod cut;
mod device;
mod disk;
mod error;
mod file;
mod format;
mod metadata;
mod open_files;
mod open_options;
mod paths;
#[cfg(feature = "simulated")]
pub mod simulated;
mod volume;

#[cfg(feature = "crash-test")]
#[doc(inline)]
pub use ::crash_test::crash_test_of_varve as crash_test;
pub use check::{Check, Finding};
pub use device::Device;
pub use disk::Disk;
pub use error::Error;
pub use file::File;
pub use format::{Format, Kind};
pub use metadata::{DirEntry, FileType, Metadata, Space};
pub use open_options::OpenOptions;
pub use volume::{NotUnmounted, Volume};

/// The result of most calls of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Crash tests: acknowledgements, and what functions of a test answer.
#[cfg(feature = "crash-test")]
pub mod crash_test {
    #[doc(hidden)]
    pub use ::crash_test::made;
    pub use ::crash_test::{Outcome, ack};
}

/// What languages other than Rust need of the mount: paths as any bytes, flags as in `open(2)`.
#[doc(hidden)]
pub mod raw {
    pub use vfs::options;
    pub use vfs::{Attr, DirEntry, Errno, File, FileKind, FsError, OpenFlags, RenameMode, Vfs};
    pub use vfs::{SetAttr, TimeSet};
}
