//! Errors of building a stack.

use blockdev::DevError;
use ctrl::{ProfileError, StateError};
use std::io;
use thiserror::Error;
use vfs::FsError;

/// Why a stack cannot be built, mounted or taken down.
#[derive(Debug, Error)]
pub enum RigError {
    /// Unknown word for a file system or a data mode.
    #[error(transparent)]
    Unknown(#[from] base::UnknownWord),
    /// No scheme, or choices that contradict each other.
    #[error("{0}")]
    Scheme(journal::ChoiceError),
    /// No size of a cluster.
    #[error("cluster={text}: say bytes, as 65536 or 64k")]
    Cluster {
        /// What was asked for.
        text: String,
    },
    /// A scheme that would not be safe on the device.
    #[error("scheme {scheme} on device {device}: {why}")]
    Unsafe {
        /// The scheme.
        scheme: String,
        /// The profile of the device.
        device: String,
        /// The reason, and what to choose instead.
        why: String,
    },
    /// A scheme of another kind of file system.
    #[error("scheme {scheme} is none of {fs}; there are: {valid}")]
    Foreign {
        /// The scheme.
        scheme: String,
        /// The file system.
        fs: &'static str,
        /// Schemes of this file system.
        valid: String,
    },
    /// An option that this kind of file system has not.
    #[error("{what} is no option of {fs}")]
    NotOf {
        /// The option.
        what: String,
        /// The file system.
        fs: &'static str,
    },
    /// A setting of write-back that is not possible.
    #[error("write-back `{item}`: {why}")]
    Writeback {
        /// The setting.
        item: String,
        /// What would be valid.
        why: String,
    },
    /// The device profile.
    #[error("{0}")]
    Profile(#[from] ProfileError),
    /// A size of the journal that is not possible on the volume.
    #[error(
        "a journal of {asked} on a volume of {volume_mib} MiB: choose {least_mib} to {most_mib} MiB"
    )]
    Journal {
        /// What was asked for, with its unit.
        asked: String,
        /// Size of the volume, MiB.
        volume_mib: u64,
        /// Smallest journal, MiB.
        least_mib: u32,
        /// Largest journal of this volume, MiB.
        most_mib: u32,
    },
    /// Making the file system.
    #[error("mkfs: {0}")]
    Mkfs(#[from] ext4::mkfs::MkfsError),
    /// Making an F2FS.
    #[error("mkfs: {0}")]
    MkfsF2fs(#[from] f2fs::mkfs::MkfsError),
    /// Mounting, using or unmounting it.
    #[error("file system: {0}")]
    Fs(#[from] FsError),
    /// The host starts no threads for an I/O scheduler.
    #[error("no thread for the I/O scheduler: {0}")]
    Scheduler(io::Error),
    /// The device.
    #[error("{0}")]
    Device(#[from] DevError),
    /// An image file.
    #[error("image {path}: {source}")]
    Image {
        /// The file.
        path: String,
        /// What the host says.
        source: io::Error,
    },
    /// An image file of a size that no device has.
    #[error("image {path}: {what}")]
    ImageSize {
        /// The file.
        path: String,
        /// What is wrong with its size.
        what: String,
    },
    /// A file that is no saved device, or a device that cannot be saved.
    #[error("{path}: {source}")]
    State {
        /// The file.
        path: String,
        /// Why not.
        source: StateError,
    },
    /// A file is in the way.
    #[error("{path}: {what}")]
    Exists {
        /// The file.
        path: String,
        /// What it is, and what to do.
        what: &'static str,
    },
    /// The power of the device is off.
    #[error("the device has no power any more")]
    PowerOff,
}
