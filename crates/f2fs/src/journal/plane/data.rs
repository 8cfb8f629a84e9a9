//! The data whose mapping an epoch contains, from the operation that sends it to the commit
//! (f2fs-journal-I1).
//!
//! - D1 the commit gets all writes of data that operations of the epoch have sent, because they
//!   note them before they leave the epoch (plane-P2);
//! - D2 what has no checksums, or would have too many in one transaction, has been written before
//!   the commit goes on. What has them may still be under way (f2fs-commit-K9);
//! - D3 a write that fails breaks the plane off, so that its epoch never commits, and no later call
//!   reports success.

use super::Plane;
use crate::fault;
use crate::journal::Epoch;
use crate::journal::summed::BlockSum;
use base::Mutant;
use block::{Batch, Queue, Watch, WriteMark};
use fscore::FsResult;
use ondisk::f2fs::journal::DATA_SUMS_MAX;
use std::sync::Arc;

/// Writes of data that an operation has mapped.
#[derive(Clone)]
pub(crate) struct DataSent {
    pub watch: Watch,
    /// The checksums of the blocks that were mapped; none if the transaction cannot vouch for them.
    pub sums: Vec<BlockSum>,
    /// Left to the commit (f2fs-commit-K11), unless a task could not wait; it has checksums, and
    /// whoever sends it makes it non-volatile.
    pub grouped: bool,
}

/// The data of a drained epoch.
pub(crate) struct EpochData {
    /// A flush has to cover this before the transaction is sent.
    pub mark: WriteMark,
    /// What the transaction vouches for.
    pub sums: Vec<BlockSum>,
    /// The writes of that.
    flying: Vec<Watch>,
    /// All of these are left to the commit.
    grouped: bool,
}

impl EpochData {
    /// True if some of it may still be under way.
    pub fn flies(&self) -> bool {
        !self.flying.is_empty()
    }

    /// True if all of it is left to the commit (f2fs-commit-K11).
    pub fn is_group(&self) -> bool {
        self.grouped && self.flies()
    }

    /// Takes what the commit has to send with the transaction.
    pub fn take_group(&mut self, queue: &Arc<Queue>) -> Batch {
        queue.watched(std::mem::take(&mut self.flying))
    }
}

impl Plane {
    /// Takes the data that operations of the drained `epoch` have mapped (D1, D2).
    ///
    /// # Errors
    /// Some of it was not written (D3).
    pub fn take_data(&self, epoch: Epoch) -> FsResult<EpochData> {
        let mut sent = Vec::new();
        for shard in &self.slot(epoch.0).shards {
            let mut part = shard.0.part.lock();
            if part.epoch == epoch.0 {
                sent.append(&mut part.data);
            }
        }
        let sums = sent.iter().map(|of| of.sums.len()).sum::<usize>();
        let (summed, others): (Vec<DataSent>, _) = sent
            .into_iter()
            .partition(|of| !of.sums.is_empty() && sums <= DATA_SUMS_MAX);
        let mut data = EpochData {
            mark: WriteMark::NONE,
            sums: Vec::new(),
            flying: others.into_iter().map(|of| of.watch).collect(),
            grouped: summed.iter().all(|of| of.grouped),
        };
        match rt::mutant(Mutant::F2fsjCommitBeforeData) {
            true => data.flying.clear(),
            false => self.land(&mut data)?,
        }
        for of in summed {
            data.sums.extend(of.sums);
            data.flying.push(of.watch);
        }
        Ok(data)
    }

    /// Waits for what is under way: a flush has to cover it from now on, and no checksum stands for
    /// it.
    ///
    /// # Errors
    /// Some of it was not written (D3).
    pub fn land(&self, data: &mut EpochData) -> FsResult<()> {
        let mut first = Ok(());
        data.sums.clear();
        for watch in data.flying.drain(..) {
            let written = watch.wait_written();
            data.mark = data.mark.max(written.mark);
            first = first.and(written.result.map_err(fault::device("writing data")));
        }
        if first.is_err() {
            self.break_off();
        }
        first
    }
}
