//! A write-ahead log whose file is longer than what SQLite has written, so that most of its syncs
//! change neither its size nor its blocks.
//!
//! A sync of a file that grew makes the file system commit, which with a journal is a second wait
//! for the disk. A log that fits into blocks that it has waits once: for its own data. SQLite's
//! logs are overwritten from their beginning on after a checkpoint; before the first one they grow
//! with each transaction. So a write behind the end is followed by zeros, as many as the log is
//! long and [`AHEAD_MAX`] at most: a log that stays short costs little, one that grows is made
//! longer seldom.
//!
//! - A1 behind what SQLite has written there are zeros, which are no frame of a log: the number of
//!   a frame's page is not 0. So who reads the log after a cut ends where it would end at the end
//!   of the file. What a cut leaves of frames that are written over zeros is what it leaves of
//!   those that are written over old ones after a checkpoint; their checksums tell.
//! - A2 connections see the log as long as SQLite made it ([`SqliteFile::log_size`]), in all
//!   processes: the length belongs to the inode, as long as one of them has it open. After a cut it
//!   is longer, by zeros (A1).
//! - A3 zeros are written behind the data that needs them, and none in place of data: the lock of
//!   SQLite's writer is held. If there is no room for all of them the log ends where SQLite's does.

use crate::ffi;
use crate::file::SqliteFile;
use std::ffi::c_int;
use std::sync::Arc;

/// Most bytes by which the file is longer than the log.
const AHEAD_MAX: u64 = 256 << 10;
/// The end of the file is a multiple of this, bytes.
const BLOCK: u64 = base::BLOCK_BYTES as u64;

/// How long a log is, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Length {
    /// As SQLite made it.
    written: u64,
    /// As the file system has it.
    file: u64,
}

/// Where the file ends if the log ends at `end` and does not fit.
fn ahead(end: u64) -> u64 {
    (end + end.min(AHEAD_MAX)).next_multiple_of(BLOCK)
}

impl SqliteFile {
    /// The bytes that SQLite has in a log; `None`: those of the file.
    pub(crate) fn log_size(&self) -> Option<u64> {
        let length = *self.log.as_ref()?.log.lock();
        length.map(|length| length.written)
    }

    /// A write of a log; `None`: the file is none, or is not made longer.
    pub(crate) fn write_log(&mut self, offset: u64, data: &[u8]) -> Option<c_int> {
        let node = Arc::clone(self.log.as_ref()?);
        let end = offset + data.len() as u64;
        let known = *node.log.lock();
        let old = match known {
            Some(length) => length,
            None => {
                let file = self.file.stat().ok()?.size;
                Length {
                    written: file,
                    file,
                }
            }
        };
        let code = self.write_file(offset, data);
        let mut new = old;
        let longest = old.file.max(old.written);
        if end > longest {
            if code == ffi::SQLITE_OK && !self.write_zeros(end, ahead(end)) {
                // A3: the room that is left is for the checkpoint.
                let _ = self.file.truncate(end);
            }
            // Also after a failure some of it may have been written. Where the size is not told it
            // is taken for the most that it may be, so that no zeros come over frames.
            new.file = self.file.stat().map_or(longest.max(end), |attr| attr.size);
        }
        if code == ffi::SQLITE_OK {
            new.written = old.written.max(end);
        }
        *node.log.lock() = Some(new);
        Some(code)
    }

    /// A3: a failure is none of the log. False if not all was written.
    fn write_zeros(&self, from: u64, to: u64) -> bool {
        let zeros = vec![0; (to - from) as usize];
        let mut at = from;
        while at < to {
            match self.file.write_at(at, &zeros[(at - from) as usize..]) {
                Ok(n) if n > 0 => at += n as u64,
                _ => return false,
            }
        }
        true
    }

    /// The file was cut, or lengthened, to what SQLite asked for.
    pub(crate) fn log_truncated(&self) {
        if let Some(node) = &self.log {
            *node.log.lock() = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_doubled_until_the_most_is_reached() {
        assert_eq!(ahead(32), 4096);
        assert_eq!(ahead(8272), 20480);
        assert_eq!(ahead(AHEAD_MAX), 2 * AHEAD_MAX);
        assert_eq!(ahead(8 * AHEAD_MAX + 4096), 9 * AHEAD_MAX + 4096);
    }
}
