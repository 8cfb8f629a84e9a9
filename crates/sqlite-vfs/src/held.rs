//! A rollback journal that is held in memory, with the writes of the database that it is for. The
//! transaction becomes one atomic write of the file system, as a batch does, for an SQLite that
//! knows of no batches.
//!
//! SQLite writes its journal, syncs it, writes the database, syncs that, and ends the journal. Here
//! the journal's content and the writes stay in memory until SQLite has said all of them
//! (`SQLITE_FCNTL_SYNC`, just before the sync of the database); then the writes go to the file
//! system as one atomic write, and the sync makes it durable. The journal's file stays empty, which
//! to SQLite is no journal. So a cut leaves the database before or behind the transaction, and
//! nothing to roll back.
//!
//! - H1 a journal is held from its first byte or not at all: if its file is empty when SQLite
//!   writes its head. What an earlier transaction left in the file stays where it is.
//! - H2 what the file system cannot take whole goes the way of SQLite: the journal is written to
//!   its file and made durable, with its name, before the first write of the database
//!   ([`SqliteFile::settle`]). So do transactions that cover several databases, whose journals have
//!   to name each other on the medium, and a database that is cut shorter.
//! - H3 a journal that ends, or a lock that is given back, takes what was not committed along:
//!   SQLite has given the transaction up, and the file system has nothing of it. With the lock goes
//!   the journal itself, although SQLite may keep its file open: as long as one connection's
//!   journal is held, none of another one can be.
//! - H4 only the file that began a journal reads, changes and ends it. Several connections have the
//!   file open at the same time, and one of them may close it while another one writes.
//! - H5 a journal that cannot be written to its file stays held: SQLite is told of the failure and
//!   rolls back, for which it reads the whole journal. The file is cut to nothing, so that half a
//!   journal is none to whoever opens the database next; the database has not changed.
//! - H6 once the journal is in its file, what was kept of the database goes to the file before any
//!   later write: of two writes of a page the later one counts, also where the later one is that of
//!   a rollback.

use crate::batch::Batch;
use crate::error::During;
use crate::ffi;
use crate::file::{SqliteFile, sync_parent};
use crate::mount::Mount;
use std::ffi::c_int;
use vfs::{Errno, FsError, FsResult, OpenFlags};

/// Most bytes of a journal, or of writes, that stay in memory.
const HELD_MAX: usize = 8 << 20;

/// The journal of a database, if it is held.
#[derive(Default)]
pub(crate) struct Journal {
    content: Option<Content>,
    /// How many were held so far, which numbers them.
    begun: u64,
}

struct Content {
    /// Whoever knows it has begun this journal (held-H4).
    number: u64,
    /// The path of its file.
    path: Vec<u8>,
    bytes: Vec<u8>,
}

impl Journal {
    /// Begins to hold the journal at `path`, and answers its number, unless one is held already.
    fn begin(&mut self, path: &[u8]) -> Option<u64> {
        if self.is_held() {
            return None;
        }
        self.begun += 1;
        self.content = Some(Content {
            number: self.begun,
            path: path.to_vec(),
            bytes: Vec::new(),
        });
        Some(self.begun)
    }

    fn is_held(&self) -> bool {
        self.content.is_some()
    }

    /// Holds none any more.
    pub(crate) fn drop_content(&mut self) {
        self.content = None;
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Option<usize> {
        let content = &self.content.as_ref()?.bytes;
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let there = content.get(from..).unwrap_or_default();
        let n = there.len().min(buf.len());
        buf[..n].copy_from_slice(&there[..n]);
        Some(n)
    }

    /// Whether the write is held; false if it would make too much of it.
    fn write(&mut self, offset: u64, data: &[u8]) -> bool {
        let Some(content) = &mut self.content else {
            return false;
        };
        let end = usize::try_from(offset)
            .ok()
            .and_then(|from| from.checked_add(data.len()));
        let Some(end) = end.filter(|&end| end <= HELD_MAX) else {
            return false;
        };
        if content.bytes.len() < end {
            content.bytes.resize(end, 0);
        }
        content.bytes[end - data.len()..end].copy_from_slice(data);
        true
    }
}

/// Writes a held journal to its file, durable with its name (held-H2). After a failure the file is
/// empty again, if that can be had (held-H5).
fn release(mount: &Mount, content: &Content) -> FsResult<()> {
    let file = mount.vfs.open(&content.path, OpenFlags::WRITE, 0)?;
    let written = write_all(&file, &content.bytes)
        .and_then(|()| file.fsync())
        .and_then(|()| sync_parent(mount, &content.path));
    if written.is_err() {
        // The first failure is the one that is told.
        let _ = file.truncate(0);
    }
    file.close()?;
    written
}

fn write_all(file: &vfs::File, mut data: &[u8]) -> FsResult<()> {
    let mut offset = 0;
    while !data.is_empty() {
        match file.write_at(offset, data)? {
            0 => return Err(Errno::NoSpc.into()),
            n => {
                offset += n as u64;
                data = &data[n..];
            }
        }
    }
    Ok(())
}

/// What a journal's own file does while it is held; each answers `None` if it is not.
impl SqliteFile {
    /// Holds the journal if its file is empty (held-H1).
    fn hold_if_empty(&mut self) {
        if self.held(|_| ()).is_some() {
            return;
        }
        let Some(node) = &self.journal_of else {
            return;
        };
        if self.file.stat().is_ok_and(|attr| attr.size == 0) {
            self.holds = node.journal.lock().begin(&self.path);
        }
    }

    /// Calls `f` with the journal that this file has begun, if it is still held (held-H4).
    fn held<R>(&mut self, f: impl FnOnce(&mut Journal) -> R) -> Option<R> {
        let mine = self.holds?;
        let node = self.journal_of.as_ref()?;
        let mut journal = node.journal.lock();
        let is_mine = |content: &Content| content.number == mine;
        if !journal.content.as_ref().is_some_and(is_mine) {
            self.holds = None;
            return None;
        }
        Some(f(&mut journal))
    }

    pub(crate) fn read_held(&mut self, offset: u64, buf: &mut [u8]) -> Option<usize> {
        self.held(|journal| journal.read(offset, buf))?
    }

    /// Too much of it goes to the file from there on.
    pub(crate) fn write_held(&mut self, offset: u64, data: &[u8]) -> Option<c_int> {
        if offset == 0 {
            self.hold_if_empty();
        }
        if self.held(|journal| journal.write(offset, data))? {
            return Some(ffi::SQLITE_OK);
        }
        match self.release_journal() {
            ffi::SQLITE_OK => None,
            failed => Some(failed),
        }
    }

    pub(crate) fn size_held(&mut self) -> Option<u64> {
        let bytes = |journal: &mut Journal| journal.content.as_ref().map(|c| c.bytes.len() as u64);
        self.held(bytes)?
    }

    pub(crate) fn truncate_held(&mut self, size: u64) -> Option<c_int> {
        let cut = |journal: &mut Journal| {
            let content = journal.content.as_mut().expect("it is held");
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            content.bytes.truncate(size);
            content.bytes.len() == size
        };
        match self.held(cut)? {
            true => Some(ffi::SQLITE_OK),
            // SQLite makes no journal longer.
            false => Some(ffi::SQLITE_IOERR_TRUNCATE),
        }
    }

    /// It is made durable when the database needs it.
    pub(crate) fn sync_held(&mut self) -> Option<c_int> {
        self.held(|_| ffi::SQLITE_OK)
    }

    /// The journal's file is closed (held-H3).
    pub(crate) fn drop_held(&mut self) {
        self.held(Journal::drop_content);
    }

    fn release_journal(&mut self) -> c_int {
        let node = self.journal_of.as_ref().or(self.node.as_ref());
        let Some(node) = node.map(std::sync::Arc::clone) else {
            return ffi::SQLITE_OK;
        };
        let mut journal = node.journal.lock();
        let Some(content) = &journal.content else {
            return ffi::SQLITE_OK;
        };
        let released = release(&self.mount, content);
        // held-H5.
        if released.is_ok() {
            journal.drop_content();
        }
        drop(journal);
        self.outcome(During::Sync, released)
    }
}

/// What a database does while its journal is held.
impl SqliteFile {
    /// Keeps a write; `None`: it goes to the file.
    pub(crate) fn keep_write(&mut self, offset: u64, data: &[u8]) -> Option<c_int> {
        let node = self.node.as_ref()?;
        let is_held = node.journal.lock().is_held();
        if !is_held && self.pending.is_empty() {
            return None;
        }
        let bytes = self.pending.bytes().saturating_add(data.len());
        let fits = bytes <= HELD_MAX && self.pending.has_room(data.len());
        if is_held && fits && !self.batch_refused {
            self.pending.write(offset, data);
            return Some(ffi::SQLITE_OK);
        }
        match self.settle() {
            ffi::SQLITE_OK => None,
            failed => Some(failed),
        }
    }

    /// Hands over what was kept: as one atomic write, or the way of SQLite (held-H2).
    /// `in_several`: the transaction covers other databases, too.
    pub(crate) fn commit_kept(&mut self, in_several: bool) -> c_int {
        if self.pending.is_empty() {
            return ffi::SQLITE_OK;
        }
        let node = self.node.as_ref();
        let is_held = node.is_some_and(|node| node.journal.lock().is_held());
        // held-H6: the journal is in its file, so the database may be written in parts.
        if in_several || !is_held {
            return self.settle();
        }
        // batch-T1.
        let ready = self.mount.sync_ended_journals();
        let written = ready.and_then(|()| self.file.write_atomic(self.pending.parts()));
        match written {
            Ok(()) => {
                self.pending = Batch::default();
                ffi::SQLITE_OK
            }
            Err(FsError::Posix(Errno::FBig | Errno::NotSup | Errno::NoSpc)) => self.settle(),
            Err(error) => self.fail(During::Write, &error),
        }
    }

    /// The way of SQLite: the journal durable, then the writes.
    pub(crate) fn settle(&mut self) -> c_int {
        let pending = std::mem::take(&mut self.pending);
        match self.release_journal() {
            ffi::SQLITE_OK => {}
            failed => return failed,
        }
        for (offset, data) in pending.parts() {
            match self.write_file(*offset, data) {
                ffi::SQLITE_OK => {}
                failed => return failed,
            }
        }
        ffi::SQLITE_OK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_journal_is_read_as_it_was_written() {
        let mut journal = Journal::default();
        assert!(!journal.write(0, b"none is held"));
        assert_eq!(journal.begin(b"/j"), Some(1));
        assert_eq!(journal.begin(b"/other"), None);
        assert!(journal.write(4, b"abc") && journal.write(0, b"head"));
        let mut buf = [9; 10];
        assert_eq!(journal.read(2, &mut buf), Some(5));
        assert_eq!(&buf[..6], b"adabc\x09");
        assert_eq!(journal.read(u64::MAX, &mut buf), Some(0));
        assert!(!journal.write(HELD_MAX as u64, b"x"));
        assert!(!journal.write(u64::MAX, b"x"));
    }
}
