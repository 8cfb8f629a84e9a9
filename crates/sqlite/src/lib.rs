//! SQLite over the Varve file layer: a VFS ("file system" in SQLite's words,
//! <https://www.sqlite.org/vfs.html>) written directly on the C interface, so that sync flags,
//! directory syncs and file controls reach the file system as SQLite means them. What SQLite calls
//! of an open file is in `varve-sqlite-vfs`; here is what SQLite has once per process.
//!
//! Rules, each with the place that enforces it:
//!
//! - **S1** SQLite takes time, sleep and randomness from `rt` only: through the default VFS, which
//!   is ours for the whole process and passes everything else to SQLite's own (`process`), and
//!   through the VFS of a [`Registration`].
//! - **S2** Random numbers depend on the simulation only: in a simulation each request reseeds
//!   SQLite's one generator from the simulation's stream. So simulations on several OS threads do
//!   not disturb each other (`process`).
//! - **S3** No panic crosses a frame of C: each callback is an `rt::foreign`, answers SQLITE_IOERR,
//!   and keeps the payload ([`Registration::take_panic`]).
//! - **S4** A callback that holds a lock of SQLite (only xRandomness does) never waits.
//! - **S5** A connection is used by one task at a time (`SQLITE_OPEN_NOMUTEX`;
//!   `rusqlite::Connection` is not `Sync`).
//! - **S6** Sync calls are those of SQLite's unix VFS on Linux: one fdatasync (or fsync, by
//!   [`Options::sync_call`]) per xSync whatever its flags, and one of the directory with the first
//!   sync of a new rollback journal, super-journal or WAL, and with a delete that asks for it.
//! - **S7** The WAL index is memory of the process, at stable addresses, freed with the last
//!   connection of a database. It has no `-shm` file; its traffic (one small file that is never
//!   synced) does not exist here.

#![allow(clippy::disallowed_macros)] // `thread_local!` in `process` and `points`; the lint does not look at the modules' attribute.

mod cost;
mod error;
mod host;
mod points;
mod process;
mod registration;
mod table;

pub use error::SetupError;
pub use host::without_atomic_writes;
pub use points::{Points, shared_memory, with_points};
pub use process::set_up;
pub use registration::{Registration, register};
pub use rusqlite;
pub use sqlite_vfs::{Options, SyncCall};
