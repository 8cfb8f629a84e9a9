//! What SQLite calls of a VFS ("file system" in SQLite's words, <https://www.sqlite.org/vfs.html>),
//! done on the Varve file layer. No SQLite is linked here: [`ffi`] has the structures and numbers
//! of its C interface. `varve-sqlite` builds a VFS of it for the SQLite of our simulations, and
//! `varve-sqlite-ext` one that any program's SQLite loads.
//!
//! The rules S1 to S7 stand in `varve-sqlite`; those that are kept here:
//!
//! - **S3** No panic crosses a frame of C: each callback is an `rt::foreign`, answers SQLITE_IOERR,
//!   and keeps the payload ([`Mount::take_panic`]).
//! - **S5** A connection is used by one task at a time.
//! - **S6** Sync calls are those of SQLite's unix VFS on Linux: one fdatasync (or fsync, by
//!   [`Options::sync_call`]) per xSync whatever its flags, and one of the directory with the first
//!   sync of a new rollback journal, super-journal or WAL, and with a delete that asks for it.
//! - **S7** The WAL index is memory of the process, at stable addresses, freed with the last
//!   connection of a database. It has no `-shm` file.

mod batch;
mod control;
mod error;
pub mod ffi;
mod file;
mod io;
mod locks;
mod mount;
mod open;
mod options;
mod pathname;
mod shm;

pub use error::During;
pub use file::SqliteFile;
pub use io::{Host, METHODS, RawFile, install, mount_of};
pub use mount::{Listener, Mount};
pub use open::{Request, delete, exists, open};
pub use options::{Options, SyncCall};
pub use pathname::{FullPath, full};
