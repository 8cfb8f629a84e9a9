//! What SQLite calls of an open file, without raw pointers. `io` is the border to C in front of it;
//! behind it is a file of this process ([`SqliteFile`](crate::SqliteFile)), or one that another
//! process serves.

use rt::Payload;
use std::ffi::{c_int, c_void};
use std::ops::Range;

/// The functions of an open file, each as `sqlite3_io_methods` has it. Numbers that are answered
/// are SQLite's codes.
pub trait Calls {
    /// xRead: fills `buf`, with zeros beyond the end of the file, which is
    /// `SQLITE_IOERR_SHORT_READ`.
    fn read(&mut self, offset: u64, buf: &mut [u8]) -> c_int;
    /// xWrite.
    fn write(&mut self, offset: u64, data: &[u8]) -> c_int;
    /// xTruncate.
    fn truncate(&mut self, size: u64) -> c_int;
    /// xSync.
    fn sync(&mut self) -> c_int;
    /// xFileSize, bytes.
    ///
    /// # Errors
    /// SQLite's code.
    fn size(&mut self) -> Result<u64, c_int>;
    /// xLock, to one of `SQLITE_LOCK_*`.
    fn lock(&mut self, level: c_int) -> c_int;
    /// xUnlock, to one of `SQLITE_LOCK_*`.
    fn unlock(&mut self, level: c_int) -> c_int;
    /// xCheckReservedLock.
    ///
    /// # Errors
    /// SQLite's code.
    fn is_reserved(&mut self) -> Result<bool, c_int>;
    /// xFileControl, of an operation whose argument is a number; answers the code and the number
    /// that takes its place.
    fn control(&mut self, op: c_int, value: i64) -> (c_int, i64);
    /// `SQLITE_FCNTL_TEMPFILENAME`: a name that nothing on the volume has.
    fn temp_name(&mut self) -> Option<Vec<u8>>;
    /// xSectorSize, bytes.
    fn sector_bytes(&mut self) -> c_int;
    /// xDeviceCharacteristics.
    fn device_characteristics(&mut self) -> c_int;
    /// xShmMap: the address of a region of `bytes`; null if it does not exist and `extend` is
    /// false.
    ///
    /// # Errors
    /// SQLite's code.
    fn shm_map(&mut self, region: usize, bytes: usize, extend: bool) -> Result<*mut c_void, c_int>;
    /// xShmLock.
    fn shm_lock(&mut self, slots: Range<usize>, flags: c_int) -> c_int;
    /// xShmUnmap.
    fn shm_unmap(&mut self);
    /// A call that has nothing to do, but is a point of a schedule: xShmBarrier, xFetch, xUnfetch.
    fn idle(&mut self);
    /// xClose.
    fn close(self: Box<Self>) -> c_int;
    /// Whether the process that calls is a fork of the one that opened the file, and has to leave
    /// it alone.
    fn is_of_another_process(&self) -> bool;
    /// Hears of a panic in one of the calls, which was answered with an error.
    fn keep_panic(&self, payload: Payload);
}
