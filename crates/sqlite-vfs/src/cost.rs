//! What SQLite computes around a call of its file layer, and what the calls cost that its unix VFS
//! makes for locks, which need no file system here: charged by the table of CPU costs where
//! [`Options::charge_cpu`](crate::Options::charge_cpu) asks for it. Statements and commits are
//! charged by `varve-sqlite`, which sees connections.

use crate::file::SqliteFile;
use crate::locks::Level;
use base::Nanos;
use base::cost::host;
use base::cost::sqlite;

/// Bytes of the page that the table of costs is about.
const PAGE_BYTES: u64 = 4096;
/// The smallest page. What is shorter is a header or a page number.
const PAGE_BYTES_MIN: usize = 512;

/// Charges SQLite for the page that it reads.
pub(crate) fn read(file: &SqliteFile, bytes: usize) {
    pages(file, sqlite::READ_PAGE, bytes);
}

/// Charges SQLite for the page that it writes.
pub(crate) fn write(file: &SqliteFile, bytes: usize) {
    let page = match (file.is_database(), file.path.ends_with(b"-wal")) {
        (true, _) => sqlite::PAGE,
        (false, true) => sqlite::WAL_PAGE,
        (false, false) => sqlite::JOURNAL_PAGE,
    };
    pages(file, page, bytes);
}

fn pages(file: &SqliteFile, page: Nanos, bytes: usize) {
    if file.mount.options.charge_cpu && bytes >= PAGE_BYTES_MIN {
        rt::charge(Nanos(page.0 * bytes as u64 / PAGE_BYTES));
    }
}

/// Charges the `fcntl` calls of a change of locks.
pub(crate) fn lock(file: &SqliteFile, from: Level, to: Level) {
    if file.mount.options.charge_cpu {
        rt::charge_each(host::CALL, calls(from, to));
    }
}

/// `fcntl` calls of SQLite's unix VFS for a change of locks, as the comments of its source
/// (`os_unix.c`) tell them.
fn calls(from: Level, to: Level) -> u64 {
    match (from, to) {
        (from, to) if from == to => 0,
        // The pending byte, the shared range, and the pending byte again, to release it.
        (Level::None, Level::Shared) => 3,
        (_, Level::Reserved) => 1,
        // The pending byte, then the shared range.
        (from, Level::Exclusive) if from < Level::Pending => 2,
        // The shared range for reading, then the bytes of pending and reserved.
        (from, Level::Shared) if from > Level::Shared => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_locks_is_as_many_calls_as_in_the_unix_vfs() {
        use Level::{Exclusive, None, Pending, Reserved, Shared};
        for (from, to, wanted) in [
            (None, None, 0),
            (None, Shared, 3),
            (Shared, Reserved, 1),
            (Reserved, Exclusive, 2),
            (Pending, Exclusive, 1),
            (Exclusive, Shared, 2),
            (Shared, None, 1),
        ] {
            assert_eq!(calls(from, to), wanted, "{from:?} to {to:?}");
        }
    }
}
