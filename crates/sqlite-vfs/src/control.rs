//! xFileControl: operations that SQLite's unix VFS knows
//! (<https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html>); any other one is answered
//! SQLITE_NOTFOUND, which SQLite takes for "not supported".
//!
//! Not supported is memory mapping: pages are always copied, and xFetch returns nothing.

use crate::batch;
use crate::error::During;
use crate::ffi;
use crate::file::SqliteFile;
use crate::io::Host;
use std::ffi::{c_char, c_int, c_void};

/// Bytes between the probe writes that allocate space for SIZE_HINT.
const BLOCK_BYTES: u64 = base::BLOCK_BYTES as u64;

/// # Safety
/// `arg` is what SQLite passes with `op`.
pub(crate) unsafe fn file_control(
    file: &mut SqliteFile,
    host: &Host,
    op: c_int,
    arg: *mut c_void,
) -> c_int {
    let int = arg.cast::<c_int>();
    // SAFETY: per operation, SQLite documents what `arg` points to: an int, an i64 or a char*,
    // valid for this call.
    unsafe {
        match op {
            ffi::SQLITE_FCNTL_LOCKSTATE => *int = file.level as c_int,
            ffi::SQLITE_FCNTL_LAST_ERRNO => *int = file.last_errno,
            ffi::SQLITE_FCNTL_CHUNK_SIZE => file.chunk = u64::try_from(*int).unwrap_or(0),
            ffi::SQLITE_FCNTL_SIZE_HINT => {
                let size = u64::try_from(*arg.cast::<i64>()).unwrap_or(0);
                return size_hint(file, size);
            }
            ffi::SQLITE_FCNTL_BEGIN_ATOMIC_WRITE => return batch::begin(file),
            ffi::SQLITE_FCNTL_COMMIT_ATOMIC_WRITE => return batch::commit(file),
            ffi::SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE => return batch::roll_back(file),
            ffi::SQLITE_FCNTL_PERSIST_WAL => mode_bit(&mut file.persist_wal, &mut *int),
            ffi::SQLITE_FCNTL_POWERSAFE_OVERWRITE => {
                mode_bit(&mut file.powersafe_overwrite, &mut *int);
            }
            ffi::SQLITE_FCNTL_VFSNAME => {
                *arg.cast::<*mut c_char>() = allocated(host, host.name.to_bytes())
            }
            ffi::SQLITE_FCNTL_TEMPFILENAME => {
                *arg.cast::<*mut c_char>() = allocated(host, &file.mount.free_temp_name());
            }
            ffi::SQLITE_FCNTL_HAS_MOVED => *int = c_int::from(has_moved(file)),
            ffi::SQLITE_FCNTL_EXTERNAL_READER => *int = 0,
            _ => return ffi::SQLITE_NOTFOUND,
        }
    }
    ffi::SQLITE_OK
}

/// Negative asks, 0 and 1 set.
fn mode_bit(bit: &mut bool, arg: &mut c_int) {
    match *arg {
        n if n < 0 => *arg = c_int::from(*bit),
        n => *bit = n != 0,
    }
}

/// With a chunk size, allocates the file up to `size`: one byte into each new block, as the unix
/// VFS without `posix_fallocate`.
fn size_hint(file: &mut SqliteFile, size: u64) -> c_int {
    // A batch allocates when it is committed.
    if file.chunk == 0 || file.batch.is_some() {
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
