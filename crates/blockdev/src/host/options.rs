//! Options for the use of a file or block device of the host, and the errors of opening it.

use base::size::{Bare, parse};
use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;

/// How requests reach the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HostIo {
    /// io_uring with direct I/O, where the kernel allows it; else [`HostIo::Sync`]. Requests
    /// through the host's page cache need no queue.
    #[default]
    Auto,
    /// io_uring, or an error with the reason why not.
    Uring,
    /// `pread`, `pwritev2`, `fdatasync` in the thread that submits.
    Sync,
    /// Commands of an eMMC, which knows reliable and packed writes that way:
    /// [`Card`](crate::Card).
    Mmc,
}

impl FromStr for HostIo {
    type Err = String;
    fn from_str(text: &str) -> Result<HostIo, String> {
        match text {
            "auto" => Ok(HostIo::Auto),
            "uring" => Ok(HostIo::Uring),
            "sync" => Ok(HostIo::Sync),
            "mmc" => Ok(HostIo::Mmc),
            _ => Err("it may be auto, uring, sync or mmc".into()),
        }
    }
}

/// How to open an image file or a block device. The default only reads, through the host's page
/// cache.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostOptions {
    /// Open for writing, which excludes all others. Without it nothing is ever written, and other
    /// readers are let in.
    pub write: bool,
    /// Bypass the host's page cache (`O_DIRECT`) where the host can do that; where it cannot
    /// (tmpfs), go through it.
    pub direct: bool,
    /// How requests reach the kernel.
    pub io: HostIo,
    /// Where the volume begins in the file, bytes; a multiple of 512.
    pub offset: u64,
    /// Bytes of the volume; `None`: to the end.
    pub size: Option<u64>,
}

impl HostOptions {
    /// The options that [`HostOptions::set`] takes, for messages.
    pub const SYNTAX: &'static str =
        "direct, nodirect, io=auto|uring|sync|mmc, offset=SIZE, sizelimit=SIZE";

    /// To read only.
    pub fn read() -> HostOptions {
        HostOptions::default()
    }

    /// To read and write.
    pub fn write() -> HostOptions {
        HostOptions {
            write: true,
            ..HostOptions::default()
        }
    }

    /// Takes one `key` or `key=value` of a list of mount options; answers false for options that
    /// are not defined here. A bare number of `offset` and `sizelimit` is bytes, as in mount(8).
    ///
    /// # Errors
    /// The value is not valid.
    pub fn set(&mut self, item: &str) -> Result<bool, String> {
        let wrong = |allowed: String| format!("mount option `{item}`: {allowed}");
        let bytes =
            |text: &str| parse(text, Bare::Bytes).map_err(|e| wrong(format!("it may be {e}")));
        match item.split_once('=').unwrap_or((item, "")) {
            ("direct", "") => self.direct = true,
            ("nodirect", "") => self.direct = false,
            ("direct" | "nodirect", _) => return Err(wrong("it takes no value".into())),
            ("io", how) => self.io = how.parse().map_err(wrong)?,
            ("offset", text) => self.offset = bytes(text)?,
            ("sizelimit", text) => self.size = Some(bytes(text)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Why an image or a device cannot be used. Every message begins with its path.
#[derive(Debug)]
pub enum HostError {
    /// The host refuses.
    Host {
        /// The image or device.
        path: String,
        /// What was tried.
        doing: &'static str,
        /// The host's error.
        source: io::Error,
    },
    /// Another process or the kernel uses it.
    InUse {
        /// The image or device.
        path: String,
        /// What uses it, and what to do.
        by: String,
    },
    /// It is to be written, but the host allows no writing.
    WriteProtected {
        /// The image or device.
        path: String,
    },
    /// It is nothing that can hold a volume.
    Unfit {
        /// The image or device.
        path: String,
        /// What is wrong with it.
        what: String,
    },
}

impl HostError {
    pub(super) fn host<'a>(
        path: &'a Path,
        doing: &'static str,
    ) -> impl Fn(io::Error) -> HostError + 'a {
        move |source| HostError::Host {
            path: path.display().to_string(),
            doing,
            source,
        }
    }
    pub(super) fn in_use(path: &Path, by: impl Into<String>) -> HostError {
        HostError::InUse {
            path: path.display().to_string(),
            by: by.into(),
        }
    }
    pub(super) fn write_protected(path: &Path) -> HostError {
        HostError::WriteProtected {
            path: path.display().to_string(),
        }
    }
    pub(super) fn unfit(path: &Path, what: impl Into<String>) -> HostError {
        HostError::Unfit {
            path: path.display().to_string(),
            what: what.into(),
        }
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostError::WriteProtected { path } => write!(
                f,
                "{path}: is write-protected: use it read-only (mount it with `ro`)"
            ),
            HostError::Host {
                path,
                doing,
                source,
            } => write!(f, "{path}: {doing}: {source}"),
            HostError::InUse { path, by } => write!(f, "{path}: is in use by {by}"),
            HostError::Unfit { path, what } => write!(f, "{path}: {what}"),
        }
    }
}

impl std::error::Error for HostError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            HostError::Host { source, .. } => Some(source),
            HostError::WriteProtected { .. }
            | HostError::InUse { .. }
            | HostError::Unfit { .. } => None,
        }
    }
}
