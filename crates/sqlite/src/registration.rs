//! Registers a [`Vfs`] with SQLite for the time of a simulation (or of a mount), and opens
//! connections on it.

use crate::cost;
use crate::error::SetupError;
use crate::process;
use crate::table::Table;
use rusqlite::{Connection, OpenFlags};
use sqlite_vfs::{Mount, Options};
use std::ffi::CStr;
use std::path::Path;
use std::sync::Arc;
use vfs::Vfs;

/// A [`Vfs`] registered with SQLite under a name of its own. Share it between tasks in an `Arc`.
///
/// End it with [`unregister`](Registration::unregister); dropping it does the same but reports no
/// errors.
pub struct Registration {
    mount: Arc<Mount>,
    table: Option<Table>,
}

/// Makes `vfs` known to SQLite. In a simulation this also starts its stream of random numbers, so
/// call it once, at the beginning, from inside of the simulation.
///
/// # Errors
/// [`SetupError`]; the first call of the process sets SQLite up and must come before any other use
/// of SQLite.
pub fn register(vfs: &Arc<Vfs>, options: Options) -> Result<Registration, SetupError> {
    process::set_up()?;
    process::start_stream();
    let mount = Arc::new(Mount::new(Arc::clone(vfs), options));
    let table = Table::register(Arc::clone(&mount)).map_err(|code| SetupError::Refused {
        what: "sqlite3_vfs_register",
        code,
    })?;
    Ok(Registration {
        mount,
        table: Some(table),
    })
}

impl Registration {
    /// The name of the VFS, for `sqlite3_open_v2`, `ATTACH 'file:/x?vfs=...'` and others.
    pub fn name(&self) -> &'static CStr {
        self.table
            .expect("the table is taken only at the end of the registration")
            .name()
    }

    /// Opens a connection on `path` of the mount, for reading and writing; makes the database if
    /// there is none. The connection must stay with one task at a time, and be closed before
    /// [`unregister`](Self::unregister).
    ///
    /// # Errors
    /// What SQLite says; [`first_error`](Self::first_error) tells what the file system said.
    pub fn open(&self, path: impl AsRef<Path>) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        self.open_with_flags(path, flags)
    }

    /// As [`open`](Self::open), with other flags; `SQLITE_OPEN_NOMUTEX` is added (sqlite-S5).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with_flags(
        &self,
        path: impl AsRef<Path>,
        flags: OpenFlags,
    ) -> rusqlite::Result<Connection> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        let db = Connection::open_with_flags_and_vfs(path, flags, self.name())?;
        if self.mount.options().charge_cpu {
            cost::charge(&db);
        }
        Ok(db)
    }

    /// The mount's files.
    pub fn vfs(&self) -> &Arc<Vfs> {
        self.mount.vfs()
    }
    /// Files that SQLite has open.
    pub fn open_files(&self) -> usize {
        self.mount.open_files()
    }
    /// The error of the file system that first failed a call: SQLite's own codes only tell that
    /// something failed.
    pub fn first_error(&self) -> Option<String> {
        self.mount.first_error()
    }
    /// The payload of the first panic in a callback (sqlite-S3), for `std::panic::resume_unwind`.
    pub fn take_panic(&self) -> Option<rt::Payload> {
        self.mount.take_panic()
    }

    /// Ends the registration.
    ///
    /// # Errors
    /// [`SetupError::FilesOpen`]; the registration has ended all the same, and the open files keep
    /// their mount.
    pub fn unregister(mut self) -> Result<(), SetupError> {
        self.end();
        match self.open_files() {
            0 => Ok(()),
            files => Err(SetupError::FilesOpen { files }),
        }
    }

    fn end(&mut self) {
        if let Some(table) = self.table.take() {
            table.unregister(&self.mount);
        }
    }
}

impl Drop for Registration {
    /// Takes the name off SQLite's list: no I/O, no wait, no lock of `rt` (rule 11).
    fn drop(&mut self) {
        self.end();
    }
}
