//! The one error of this crate.

use blockdev::HostError;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;
use vfs::{Errno, FsError};

/// Why a call failed. Its text says what failed, where, and, where that helps, what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The host refuses an image file or a block device: not there, in use by another process,
    /// write-protected, too short.
    #[error("{text}")]
    Host {
        /// What is refused, and why.
        text: String,
        /// The host's `errno`: ENOENT for an image that is not there, EBUSY for one in use.
        errno: i32,
    },
    /// A device of the caller's fails, or is not what it says.
    #[error("the device: {0}")]
    Device(String),
    /// An option of `format` or `mount` is unknown or impossible.
    #[error("{0}")]
    Options(String),
    /// The disk holds no file system that is known here.
    #[error("holds no ext4, ext3 or F2FS: no superblock has their magic number; format the disk")]
    NotFormatted,
    /// The disk holds data that formatting would destroy.
    #[error("the disk holds data; `Format::overwrite(true)` writes over it")]
    HoldsData,
    /// The disk is mounted: it cannot be formatted, checked or mounted again.
    #[error("the disk is mounted; unmount it first")]
    Mounted,
    /// The disk was opened to read only.
    #[error("the disk is open to read only; mount it with the option `ro`, or open it for writing")]
    ReadOnlyDisk,
    /// Files are open, so the volume cannot be unmounted.
    #[error("{0} files are open; close or drop them, then unmount")]
    FilesOpen(u64),
    /// The file system refuses to be mounted, synced or unmounted.
    #[error("{doing}: {source}")]
    FileSystem {
        /// What was being done.
        doing: &'static str,
        /// The answer of the file system.
        source: FsError,
    },
    /// An operation on a file or a directory.
    #[error("{doing} {}: {source}", path.display())]
    File {
        /// The operation.
        doing: &'static str,
        /// The path as it was given.
        path: PathBuf,
        /// The answer of the file system.
        source: FsError,
    },
    /// Reading or writing through the traits of `std::io`.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A simulation: a configuration that is not possible, or a run that failed.
    #[error("{0}")]
    Simulation(String),
}

impl Error {
    /// The host refuses `text` for a reason without a number.
    pub(crate) fn host(text: impl Into<String>) -> Error {
        Error::Host {
            text: text.into(),
            errno: Errno::Io.code(),
        }
    }

    /// An image file or a block device that the host does not give.
    pub(crate) fn host_file(e: &HostError) -> Error {
        let errno = match e {
            HostError::Host { source, .. } => source.raw_os_error().unwrap_or(Errno::Io.code()),
            HostError::InUse { .. } => Errno::Busy.code(),
            HostError::WriteProtected { .. } => Errno::RoFs.code(),
            HostError::Unfit { .. } => Errno::Inval.code(),
        };
        let text = e.to_string();
        Error::Host { text, errno }
    }

    pub(crate) fn file(doing: &'static str, path: &Path) -> impl FnOnce(FsError) -> Error {
        move |source| Error::File {
            doing,
            path: path.into(),
            source,
        }
    }

    pub(crate) fn fs(doing: &'static str) -> impl FnOnce(FsError) -> Error {
        move |source| Error::FileSystem { doing, source }
    }

    /// The number that a system call would set `errno` to.
    pub fn errno(&self) -> i32 {
        let errno = match self {
            Error::Host { errno, .. } => return *errno,
            Error::Device(_) => Errno::Io,
            Error::Options(_) | Error::NotFormatted | Error::Simulation(_) => Errno::Inval,
            Error::HoldsData => Errno::Exist,
            Error::Mounted | Error::FilesOpen(_) => Errno::Busy,
            Error::ReadOnlyDisk => Errno::RoFs,
            Error::FileSystem { source, .. } | Error::File { source, .. } => source.errno(),
            Error::Io(e) => return e.raw_os_error().unwrap_or(Errno::Io.code()),
        };
        errno.code()
    }

    /// The kind that `std::fs` would give this error.
    pub fn kind(&self) -> io::ErrorKind {
        io::Error::from_raw_os_error(self.errno()).kind()
    }
}

impl From<Error> for io::Error {
    /// Keeps kind and text.
    fn from(error: Error) -> io::Error {
        match error {
            Error::Io(e) => e,
            other => io::Error::new(other.kind(), other),
        }
    }
}
