//! What SQLite is told about a mount: the system call behind a sync, and what it may assume of the
//! device.

use std::ffi::c_int;

/// Which system call syncs a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SyncCall {
    /// fdatasync: SQLite as Debian, Fedora and Android build it (`HAVE_FDATASYNC`,
    /// `-Dfdatasync=fdatasync`).
    #[default]
    Fdatasync,
    /// fsync: SQLite's amalgamation compiled without `HAVE_FDATASYNC`.
    Fsync,
}

/// What SQLite is told about the mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The call behind xSync.
    pub sync_call: SyncCall,
    /// A write never changes bytes outside of its range, even at a power cut
    /// (`SQLITE_IOCAP_POWERSAFE_OVERWRITE`, the default of the unix VFS; the URI parameter `psow`
    /// overrides it). Without it SQLite pads journals to sectors.
    pub powersafe_overwrite: bool,
    /// Answer of xSectorSize, bytes: 4096 in the unix VFS (`SQLITE_DEFAULT_SECTOR_SIZE`).
    pub sector_bytes: c_int,
    /// The volume is mounted read-only: databases open for reading.
    pub read_only: bool,
    /// A transaction of SQLite becomes one atomic write of the file system, where that has any
    /// (`SQLITE_IOCAP_BATCH_ATOMIC`). It counts for an SQLite that is compiled with
    /// `SQLITE_ENABLE_BATCH_ATOMIC_WRITE`.
    pub batch_atomic: bool,
    /// Rollback journals are held in memory, and transactions are atomic writes of the file system,
    /// where that has any: as `batch_atomic`, for an SQLite that knows of no batches (`held`).
    pub hold_journals: bool,
    /// The files of write-ahead logs are longer than the logs, so that few syncs of a log that
    /// grows make the file system commit (`ahead`).
    pub extend_logs: bool,
    /// The WAL index lies in memory that other processes can map; in the real world only.
    pub shared_index: bool,
    /// What SQLite itself computes is charged by the table of CPU costs, so that it takes virtual
    /// time; in simulations only. Runs that judge no times leave it out.
    pub charge_cpu: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            sync_call: SyncCall::Fdatasync,
            powersafe_overwrite: true,
            sector_bytes: 4096,
            read_only: false,
            batch_atomic: false,
            hold_journals: false,
            extend_logs: false,
            shared_index: false,
            charge_cpu: false,
        }
    }
}
