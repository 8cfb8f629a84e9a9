//! What SQLite calls of a VFS ("file system" in SQLite's words, <https://www.sqlite.org/vfs.html>),
//! done on the Varve file layer. No SQLite is linked here: [`ffi`] has the structures and numbers
//! of its C interface. `varve-sqlite` builds a VFS of it for the SQLite of our simulations, and
//! `varve-sqlite-ext` one that any program's SQLite loads.
//!
//! The rules stand in `varve-sqlite`. Kept here are sqlite-S3 (a panic goes no further than a
//! callback, [`Mount::take_panic`]), sqlite-S6 (which syncs there are, [`Options::sync_call`]) and
//! sqlite-S7 (the WAL index is memory, and no file).

mod ahead;
mod batch;
mod calls;
mod control;
mod cost;
mod error;
pub mod ffi;
mod file;
mod held;
mod io;
mod locks;
mod mount;
mod open;
mod options;
mod pathname;
mod region;
mod shm;

pub use calls::Calls;
pub use error::During;
pub use file::SqliteFile;
pub use io::{Ended, Host, RawFile, install};
pub use mount::{Gone, Listener, Mount, this_process};
pub use open::{Request, delete, exists, open};
pub use options::{Options, SyncCall};
pub use pathname::{FullPath, full};
pub use region::Region;
pub use shm::{SHARED_REGION_BYTES, SHARED_REGIONS_MAX, slots};
