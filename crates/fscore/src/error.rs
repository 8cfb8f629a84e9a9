//! Errors of a file system, in four classes: misuse (POSIX, wrong options), I/O (of the device, or
//! of a host without threads), incompatible, corrupt.

use std::fmt;
use thiserror::Error;

macro_rules! errnos {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        /// POSIX error numbers (Linux values).
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        pub enum Errno { $($(#[$doc])* $name = $code,)* }
        impl Errno {
            /// The Linux number.
            pub const fn code(self) -> i32 { self as i32 }
        }
        impl fmt::Display for Errno {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Errno::$name => $text,)* })
            }
        }
    };
}

errnos! {
    /// EPERM
    Perm = 1, "operation not permitted";
    /// ENOENT
    NoEnt = 2, "no such file or directory";
    /// EIO
    Io = 5, "input/output error";
    /// ENXIO
    NxIo = 6, "no such device or address";
    /// E2BIG
    TooBig = 7, "argument list too long";
    /// EBADF
    BadF = 9, "bad file descriptor";
    /// EAGAIN
    Again = 11, "resource temporarily unavailable";
    /// EACCES
    Access = 13, "permission denied";
    /// EBUSY
    Busy = 16, "device or resource busy";
    /// EEXIST
    Exist = 17, "file exists";
    /// EXDEV
    XDev = 18, "cross-device link";
    /// ENOTDIR
    NotDir = 20, "not a directory";
    /// EISDIR
    IsDir = 21, "is a directory";
    /// EINVAL
    Inval = 22, "invalid argument";
    /// EMFILE
    MFile = 24, "too many open files";
    /// EFBIG
    FBig = 27, "file too large";
    /// ENOSPC
    NoSpc = 28, "no space left on device";
    /// EROFS
    RoFs = 30, "read-only file system";
    /// EMLINK
    MLink = 31, "too many links";
    /// ERANGE
    Range = 34, "numerical result out of range";
    /// ENAMETOOLONG
    NameTooLong = 36, "file name too long";
    /// ENOSYS
    NoSys = 38, "function not implemented";
    /// ENOTEMPTY
    NotEmpty = 39, "directory not empty";
    /// ELOOP
    Loop = 40, "too many levels of symbolic links";
    /// ENODATA
    NoData = 61, "no data available";
    /// EOPNOTSUPP
    NotSup = 95, "operation not supported";
    /// ESHUTDOWN
    Shutdown = 108, "the file system is unmounted";
    /// ESTALE
    Stale = 116, "stale file handle";
    /// EUCLEAN
    UClean = 117, "structure needs cleaning";
}

/// Why an operation failed.
#[derive(Clone, Debug, Error)]
pub enum FsError {
    /// The caller's request cannot be done in this state: a plain POSIX answer.
    #[error("{0}")]
    Posix(Errno),
    /// An option of the mount, or a choice of a scheme, does not exist, has a value that is not
    /// allowed, contradicts another one or asks for what this device or volume does not have.
    /// Another text of options helps.
    #[error("{what}")]
    Options {
        /// The option as it was given, and what is allowed.
        what: String,
    },
    /// The device failed or lost its power.
    #[error("{what}")]
    Io {
        /// What was being done, where, and what the device said.
        what: String,
        /// The device is without power: everything fails from now on.
        power_lost: bool,
    },
    /// The file system uses a feature that this implementation does not have, or has it in a form
    /// it cannot handle.
    #[error("incompatible: {what}")]
    Incompatible {
        /// The feature and its value.
        what: String,
    },
    /// A structure on the device contradicts itself.
    #[error("corrupt: {what}")]
    Corrupt {
        /// Structure, block or inode, and the contradiction.
        what: String,
    },
    /// The host starts no thread for a task of the mount; nothing is mounted.
    #[error("{what}; the host's limit of threads (`ulimit -u`) or of memory is reached")]
    NoThread {
        /// The task, and what the host says.
        what: String,
    },
    /// An earlier failure latched the mount.
    #[error("the mount is shut down after an earlier failure: {first}")]
    Aborted {
        /// The first failure.
        first: String,
    },
}

impl FsError {
    /// The number that a system call would return.
    pub const fn errno(&self) -> Errno {
        match self {
            FsError::Posix(errno) => *errno,
            FsError::Options { .. } => Errno::Inval,
            FsError::Io { .. } => Errno::Io,
            FsError::Incompatible { .. } => Errno::NotSup,
            FsError::Corrupt { .. } => Errno::UClean,
            FsError::NoThread { .. } => Errno::Again,
            FsError::Aborted { .. } => Errno::Io,
        }
    }
    /// The host's refusal of a thread for the task of this name.
    pub fn no_thread(task: &str, why: &std::io::Error) -> FsError {
        FsError::NoThread {
            what: format!("no thread for the task {task} of the mount ({why})"),
        }
    }
    /// A corruption report.
    pub fn corrupt(what: impl Into<String>) -> FsError {
        FsError::Corrupt { what: what.into() }
    }
    /// The refusal of a text of options.
    pub fn options(what: impl Into<String>) -> FsError {
        FsError::Options { what: what.into() }
    }
    /// An incompatibility report.
    pub fn incompatible(what: impl Into<String>) -> FsError {
        FsError::Incompatible { what: what.into() }
    }
}

impl From<Errno> for FsError {
    fn from(errno: Errno) -> FsError {
        FsError::Posix(errno)
    }
}

impl From<base::UnknownWord> for FsError {
    fn from(e: base::UnknownWord) -> FsError {
        let valid = e.valid.join(", ");
        FsError::options(format!("{} `{}`; there are: {valid}", e.what, e.given))
    }
}

/// Result of a file-system operation.
pub type FsResult<T> = Result<T, FsError>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::options::{bad_value, unknown};

    /// Who mistyped an option must not go and look for what is wrong with their volume.
    #[test]
    fn a_wrong_option_is_not_an_incompatible_volume() {
        let wrong = [
            (
                bad_value("cache=0", "it may be 1"),
                "mount option `cache=0`: it may be 1",
            ),
            (
                unknown("speed=max", "ro"),
                "mount option `speed=max` is unknown; there are: ro",
            ),
            (
                FsError::from(base::UnknownWord {
                    what: "preset",
                    given: "fast".into(),
                    valid: vec!["slow"],
                }),
                "preset `fast`; there are: slow",
            ),
        ];
        for (error, text) in wrong {
            assert!(matches!(error, FsError::Options { .. }), "{error}");
            assert_eq!(
                (error.errno(), error.to_string()),
                (Errno::Inval, text.into())
            );
        }
        let volume = FsError::incompatible("feature encrypt");
        assert_eq!(volume.errno(), Errno::NotSup);
        assert_eq!(volume.to_string(), "incompatible: feature encrypt");
    }
}
