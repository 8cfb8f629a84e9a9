//! A batch of writes that SQLite wants whole (`SQLITE_FCNTL_BEGIN_ATOMIC_WRITE`): a transaction
//! that needs no journal file. The writes are kept here until the commit, which hands them to the
//! file system as one atomic write; the sync that SQLite asks for next makes it durable.
//!
//! A commit that the file system cannot take, mostly because it is too large for one transaction,
//! is answered SQLITE_IOERR_COMMIT_ATOMIC, and SQLite makes the transaction again with a journal
//! file. **It does not sync that file before it writes the database**: it synced the journal that
//! it had in memory, and takes it for done. So the first write after such an answer syncs the
//! volume ([`before_write`]); else a cut could leave half of the pages and no journal.
//!
//! - T1 a batch is written when no journal of an earlier transaction can come back. A journal
//!   ends by its removal or by truncation, which SQLite does not sync in all modes, since the next
//!   journal would be synced under the same name; after a batch there is no next one. Where the
//!   sync of the database does not bring older changes along, the old journal would be there again
//!   after a cut, and SQLite would roll it back over all batches since. So the volume is synced
//!   first there.

use crate::error::During;
use crate::ffi;
use crate::file::SqliteFile;
use base::Bytes;
use std::ffi::c_int;
use vfs::{Errno, FsError};

/// Most bytes that a batch takes in memory; no transaction of a file system is as large.
const BATCH_MAX: usize = 64 << 20;
/// What a write takes beside its bytes.
const PART_BYTES: usize = 64;

/// The writes, in their order, and the bytes of all.
#[derive(Default)]
pub(crate) struct Batch(Vec<(u64, Bytes)>, usize);

impl Batch {
    /// The end of the write that goes farthest.
    pub fn end(&self) -> u64 {
        let ends = self.0.iter().map(|(at, data)| at + data.len() as u64);
        ends.max().unwrap_or(0)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of all writes.
    pub fn bytes(&self) -> usize {
        self.1
    }

    /// Whether a write of so many bytes may be added.
    pub fn has_room(&self, bytes: usize) -> bool {
        let parts = (self.0.len() + 1).saturating_mul(PART_BYTES);
        self.1.saturating_add(bytes).saturating_add(parts) <= BATCH_MAX
    }

    /// Each write with its offset.
    pub fn parts(&self) -> &[(u64, Bytes)] {
        &self.0
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        self.0.push((offset, Bytes::copy_from_slice(data)));
        self.1 += data.len();
    }

    /// Puts what the batch has of `offset..` over `buf`.
    pub fn read_over(&self, offset: u64, buf: &mut [u8]) {
        let end = offset + buf.len() as u64;
        for (at, data) in &self.0 {
            let from = offset.max(*at);
            let to = end.min(at + data.len() as u64);
            if from < to {
                let source = &data[(from - at) as usize..(to - at) as usize];
                buf[(from - offset) as usize..(to - offset) as usize].copy_from_slice(source);
            }
        }
    }
}

/// `SQLITE_FCNTL_BEGIN_ATOMIC_WRITE`.
pub(crate) fn begin(file: &mut SqliteFile) -> c_int {
    if !file.takes_batches() {
        return ffi::SQLITE_NOTFOUND;
    }
    file.batch = Some(Batch::default());
    ffi::SQLITE_OK
}

/// `SQLITE_FCNTL_COMMIT_ATOMIC_WRITE`.
pub(crate) fn commit(file: &mut SqliteFile) -> c_int {
    let Some(batch) = file.batch.take() else {
        return ffi::SQLITE_NOTFOUND;
    };
    if batch.0.is_empty() {
        return ffi::SQLITE_OK;
    }
    // batch-T1.
    let ready = file.mount.sync_ended_journals();
    let written = ready.and_then(|()| file.file.write_atomic(&batch.0));
    file.batch_refused = written.is_err();
    match written {
        Ok(()) => ffi::SQLITE_OK,
        // The journal file that follows tells what is wrong, if anything is.
        Err(FsError::Posix(Errno::FBig | Errno::NotSup | Errno::NoSpc)) => {
            ffi::SQLITE_IOERR_COMMIT_ATOMIC
        }
        Err(error) => {
            file.fail(During::Write, &error);
            ffi::SQLITE_IOERR_COMMIT_ATOMIC
        }
    }
}

/// To be called before the database is written directly: what SQLite wrote since a batch was
/// refused is its journal, which has to be durable first.
pub(crate) fn before_write(file: &mut SqliteFile) -> c_int {
    if !file.batch_refused {
        return ffi::SQLITE_OK;
    }
    let synced = file.mount.vfs.sync();
    file.batch_refused = synced.is_err();
    file.outcome(During::Sync, synced)
}

/// `SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE`.
pub(crate) fn roll_back(file: &mut SqliteFile) -> c_int {
    match file.batch.take() {
        Some(_) => {
            // What SQLite writes next is its journal, as behind a commit that was refused.
            file.batch_refused = true;
            ffi::SQLITE_OK
        }
        None => ffi::SQLITE_NOTFOUND,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_last_is_read() {
        let mut batch = Batch::default();
        batch.write(4, b"aaaa");
        batch.write(6, b"bbbb");
        let mut buf = *b"0123456789AB";
        batch.read_over(2, &mut buf[2..]);
        assert_eq!(&buf, b"0123aabbbbAB");
        assert_eq!((batch.end(), batch.bytes()), (10, 8));
    }

    #[test]
    fn a_batch_has_an_end_for_writes_of_any_size() {
        assert!(Batch::default().has_room(1 << 20));
        assert!(!Batch::default().has_room(BATCH_MAX));
        let mut batch = Batch::default();
        let mut writes = 0;
        while batch.has_room(1) {
            batch.write(0, b"x");
            writes += 1;
        }
        assert!(writes < BATCH_MAX / PART_BYTES);
    }
}
