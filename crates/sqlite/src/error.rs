//! Why a mount is not registered.

use thiserror::Error;

/// Why a mount could not be registered.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SetupError {
    /// SQLite was in use before the first registration of the process.
    #[error(
        "SQLite was initialised before varve-sqlite; call sqlite::set_up before the first use of SQLite in this process"
    )]
    InUse,
    /// SQLite refused.
    #[error("SQLite refused `{what}` with code {code}")]
    Refused {
        /// The call.
        what: &'static str,
        /// Its result code.
        code: i32,
    },
    /// Files are still open at the end of the registration.
    #[error("{files} SQLite files are still open; close all connections before unregistering")]
    FilesOpen {
        /// How many.
        files: usize,
    },
}
