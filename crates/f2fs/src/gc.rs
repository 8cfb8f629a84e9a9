//! Cleaning: valid blocks leave victim segments, so that a checkpoint can free these.

use crate::F2fs;
use fscore::FsResult;

/// State of cleaning.
pub(crate) struct Gc {}

impl F2fs {
    /// Called before an operation that changes anything, without locks: cleans in the foreground if free segments run out, writes
    /// a checkpoint if one is due.
    ///
    /// # Errors
    /// ENOSPC never: that is for the claim that fails. I/O, damage.
    pub(crate) fn balance(&self) -> FsResult<()> {
        todo!("seg")
    }
}
