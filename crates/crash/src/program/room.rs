//! How much memory an image and its recording may take: a program may write without end, and the
//! machine must not run out of memory.

use crate::CrashError;
use work::RunError;

/// Bytes of memory, given out until none are left.
#[derive(Clone, Debug)]
pub struct Room {
    all: u64,
    left: u64,
}

impl Room {
    /// Room of so many bytes.
    pub fn new(bytes: u64) -> Room {
        Room {
            all: bytes,
            left: bytes,
        }
    }

    /// Takes `bytes` if so many are left; otherwise nothing fits any more.
    pub fn take(&mut self, bytes: u64) -> bool {
        let left = self.left.checked_sub(bytes);
        self.left = left.unwrap_or(0);
        left.is_some()
    }

    /// The error for a caller that needs more; `what` says what does not fit, and where.
    pub fn error(&self, what: String) -> CrashError {
        CrashError::Run(RunError::Memory {
            what,
            mib: self.all >> 20,
        })
    }
}
