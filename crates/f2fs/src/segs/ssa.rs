//! Summaries of segments: in the log while a segment is open, then in memory until the next
//! checkpoint writes them to the device (SSA).

use super::{Inner, Segments};
use crate::fault;
use base::{BlockNo, SECTORS_PER_BLOCK};
use fscore::{FsError, FsResult};
use ondisk::f2fs::{SegNo, SummaryBlock};

impl Segments {
    /// The summary of a segment.
    ///
    /// # Errors
    /// I/O.
    pub fn summary_of(&self, segno: SegNo) -> FsResult<SummaryBlock> {
        self.summary_in(&self.inner.lock(), segno)
    }

    pub(super) fn summary_in(&self, inner: &Inner, segno: SegNo) -> FsResult<SummaryBlock> {
        if let Some(log) = inner.logs.iter().find(|log| log.segno == segno) {
            return Ok(log.owners.clone());
        }
        if let Some(closed) = inner.closed.get(&segno) {
            return Ok(closed.clone());
        }
        self.summary_on_device(segno)
    }

    /// The summary of a segment that is neither a log's nor was closed since the last checkpoint. A
    /// sealed volume has no such summaries; there only damage leads to a call.
    pub(super) fn summary_on_device(&self, segno: SegNo) -> FsResult<SummaryBlock> {
        if self.geo.is_sealed() {
            let what = format!("segment {segno}: the volume has no summaries (feature `ro`)");
            return Err(FsError::corrupt(what));
        }
        let at = BlockNo(self.geo.ssa_block(segno).into());
        let read = self.queue.read(at.lba(), SECTORS_PER_BLOCK);
        let bytes = read.map_err(fault::device("reading a summary block"))?;
        SummaryBlock::parse(&bytes).map_err(fault::corrupt)
    }
}
