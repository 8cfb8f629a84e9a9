//! xFileControl: operations that SQLite's unix VFS knows
//! (<https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html>); any other one is answered
//! SQLITE_NOTFOUND, which SQLite takes for "not supported".
//!
//! Not supported is memory mapping: pages are always copied, and xFetch returns nothing.

use crate::batch;
use crate::calls::Calls;
use crate::error::During;
use crate::ffi;
use crate::file::SqliteFile;
use crate::io::Host;
use std::ffi::{c_char, c_int, c_void};

/// Bytes between the probe writes that allocate space for SIZE_HINT.
const BLOCK_BYTES: u64 = base::BLOCK_BYTES as u64;

/// The form of an operation's argument.
enum Argument {
    Int,
    Long,
    Text,
    /// Whether there is any counts.
    Presence,
    /// It has none that is looked at.
    Nothing,
}

fn argument(op: c_int) -> Option<Argument> {
    Some(match op {
        ffi::SQLITE_FCNTL_LOCKSTATE
        | ffi::SQLITE_FCNTL_LAST_ERRNO
        | ffi::SQLITE_FCNTL_CHUNK_SIZE
        | ffi::SQLITE_FCNTL_PERSIST_WAL
        | ffi::SQLITE_FCNTL_POWERSAFE_OVERWRITE
        | ffi::SQLITE_FCNTL_HAS_MOVED
        | ffi::SQLITE_FCNTL_EXTERNAL_READER => Argument::Int,
        ffi::SQLITE_FCNTL_SIZE_HINT => Argument::Long,
        ffi::SQLITE_FCNTL_VFSNAME | ffi::SQLITE_FCNTL_TEMPFILENAME => Argument::Text,
        ffi::SQLITE_FCNTL_SYNC => Argument::Presence,
        ffi::SQLITE_FCNTL_BEGIN_ATOMIC_WRITE
        | ffi::SQLITE_FCNTL_COMMIT_ATOMIC_WRITE
        | ffi::SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE => Argument::Nothing,
        _ => return None,
    })
}

/// # Safety
/// `arg` is what SQLite passes with `op`.
pub(crate) unsafe fn file_control(
    file: &mut dyn Calls,
    host: &Host,
    op: c_int,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: per operation, SQLite documents what `arg` points to: an int, an i64 or a char*,
    // valid for this call.
    unsafe {
        match argument(op) {
            None => ffi::SQLITE_NOTFOUND,
            Some(Argument::Nothing) => file.control(op, 0).0,
            Some(Argument::Presence) => file.control(op, i64::from(!arg.is_null())).0,
            Some(Argument::Int) => {
                let place = arg.cast::<c_int>();
                let (code, value) = file.control(op, i64::from(*place));
                *place = value as c_int;
                code
            }
            Some(Argument::Long) => {
                let place = arg.cast::<i64>();
                let (code, value) = file.control(op, *place);
                *place = value;
                code
            }
            Some(Argument::Text) => {
                let text = match op {
                    ffi::SQLITE_FCNTL_VFSNAME => Some(host.name.to_bytes().to_vec()),
                    _ => file.temp_name(),
                };
                let Some(text) = text else {
                    return ffi::SQLITE_IOERR;
                };
                *arg.cast::<*mut c_char>() = allocated(host, &text);
                ffi::SQLITE_OK
            }
        }
    }
}

/// An operation whose argument is a number: the code, and the number that takes its place.
pub(crate) fn number(file: &mut SqliteFile, op: c_int, value: i64) -> (c_int, i64) {
    let answer = match op {
        ffi::SQLITE_FCNTL_LOCKSTATE => file.level as i64,
        ffi::SQLITE_FCNTL_LAST_ERRNO => i64::from(file.last_errno),
        ffi::SQLITE_FCNTL_CHUNK_SIZE => {
            file.chunk = u64::try_from(value).unwrap_or(0);
            value
        }
        ffi::SQLITE_FCNTL_SIZE_HINT => {
            let size = u64::try_from(value).unwrap_or(0);
            return (size_hint(file, size), value);
        }
        // The name of a super-journal comes with it if the transaction covers several databases.
        ffi::SQLITE_FCNTL_SYNC => return (file.commit_kept(value != 0), value),
        ffi::SQLITE_FCNTL_BEGIN_ATOMIC_WRITE => return (batch::begin(file), value),
        ffi::SQLITE_FCNTL_COMMIT_ATOMIC_WRITE => return (batch::commit(file), value),
        ffi::SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE => return (batch::roll_back(file), value),
        ffi::SQLITE_FCNTL_PERSIST_WAL => mode_bit(&mut file.persist_wal, value),
        ffi::SQLITE_FCNTL_POWERSAFE_OVERWRITE => mode_bit(&mut file.powersafe_overwrite, value),
        ffi::SQLITE_FCNTL_HAS_MOVED => i64::from(has_moved(file)),
        ffi::SQLITE_FCNTL_EXTERNAL_READER => 0,
        _ => return (ffi::SQLITE_NOTFOUND, value),
    };
    (ffi::SQLITE_OK, answer)
}

/// Negative asks, 0 and 1 set; answers the bit, or what was set.
fn mode_bit(bit: &mut bool, value: i64) -> i64 {
    if value < 0 {
        return i64::from(*bit);
    }
    *bit = value != 0;
    value
}

/// With a chunk size, allocates the file up to `size`: one byte into each new block, as the unix
/// VFS without `posix_fallocate`.
fn size_hint(file: &mut SqliteFile, size: u64) -> c_int {
    // A batch allocates when it is committed, and so does what is kept.
    if file.chunk == 0 || file.batch.is_some() || !file.pending.is_empty() {
        return ffi::SQLITE_OK;
    }
    let old = match file.size() {
        Ok(old) => old,
        Err(code) => return code,
    };
    let Some(new) = size.checked_next_multiple_of(file.chunk) else {
        return file.fail(During::Truncate, &vfs::Errno::FBig.into());
    };
    let mut end = (old / BLOCK_BYTES + 1) * BLOCK_BYTES;
    while end < new + BLOCK_BYTES {
        let last = end.min(new) - 1;
        if last >= old {
            let code = file.write(last, &[0]);
            if code != ffi::SQLITE_OK {
                return code;
            }
        }
        end += BLOCK_BYTES;
    }
    ffi::SQLITE_OK
}

/// The name does not lead to this inode any more.
fn has_moved(file: &SqliteFile) -> bool {
    let there = file.mount.vfs.stat(&file.path);
    there.map_or(true, |attr| attr.ino != file.file.ino())
}

/// A C string in memory that SQLite will free; null if there is none.
fn allocated(host: &Host, text: &[u8]) -> *mut c_char {
    let bytes = text.len() + 1;
    // SAFETY: sqlite3_malloc64 answers null or `bytes` bytes, which nobody else knows yet.
    unsafe {
        let memory = (host.malloc64)(bytes as u64).cast::<u8>();
        if memory.is_null() {
            return std::ptr::null_mut();
        }
        memory.copy_from_nonoverlapping(text.as_ptr(), text.len());
        memory.add(text.len()).write(0);
        memory.cast()
    }
}
