//! Varve as a loadable extension of SQLite: a VFS named `varve`, whose databases lie in an ext4,
//! ext3 or F2FS image. `docs/use/sqlite.md` tells how it is used.
//!
//! Rules, beside sqlite-S3, sqlite-S5, sqlite-S6 and sqlite-S7:
//!
//! - **E1** Only functions of the SQLite that loads the extension are called, through the table
//!   that it passes (`api`); no other SQLite is linked.
//! - **E2** The extension stays loaded (`SQLITE_OK_LOAD_PERMANENTLY`), because connections point to
//!   its functions. It does not become the default VFS. A second load changes nothing.
//! - **E3** A database's full name is `IMAGE:/PATH` with an absolute image, so names of journals,
//!   which SQLite makes of it, lead to the same image (`name`).
//! - **E4** An image is mounted once per process, from the first file that SQLite opens in it to
//!   the last that it closes (`images`), so that all connections see each other's locks and WAL
//!   index. The lock of the image keeps other mounts out, and ends with the mount, whoever has
//!   forked meanwhile. A path that has come to lead to another file is refused until then.
//! - **E5** A process that forked from the one that mounted uses nothing of the mount: the tasks
//!   of the mount are threads that a fork does not copy.
//! - **E6** Other processes reach the image through the one that mounted it, which has all locks
//!   and whose memory the WAL index is (module `share`). Their locks are free once all that they
//!   had asked for is done.
//! - **E7** A process that has ended has no locks: who finds one taken waits until the files of
//!   those that have ended are closed (`share::gone`).

#![allow(clippy::missing_safety_doc)] // The entry points are called by SQLite alone.

mod api;
mod defaults;
mod entry;
mod images;
mod making;
mod name;
mod said;
mod share;
mod table;
mod uri;

pub use entry::{sqlite3_extension_init, sqlite3_varve_init, sqlite3_varvesqlite_init};
