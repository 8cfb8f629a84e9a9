//! Writes under way, of one inode's data or of all nodes: a task that needs some of them completed
//! waits for all.
//!
//! - L1 when [`Flights::land`] returns, every batch that was added before the call has completed,
//!   also if another task was the one that waited for it;
//! - L2 the mark covers every cached write that a task has waited for here, and never falls: so a
//!   task lands the writes first and reads the mark then.

use crate::fault;
use block::{Batch, Watch, WriteMark};
use fscore::FsResult;
use rt::Mutex;
use std::ops::Range;

/// One submitted batch.
struct Flight {
    pages: Range<u64>,
    watch: Watch,
    /// A commit waits for all of it, and its transaction has the checksums.
    summed: bool,
}

#[derive(Default)]
struct State {
    under_way: Vec<Flight>,
    /// Of the batches that some task has taken to wait for: how many have not completed.
    landing: usize,
    mark: WriteMark,
}

/// Writes under way of one owner.
pub(crate) struct Flights {
    /// Held by the task that waits (L1).
    landing: Mutex<()>,
    state: Mutex<State>,
}

impl Flights {
    /// An owner without writes under way; `mark` covers what was written of it before it came into
    /// memory.
    pub fn new(mark: WriteMark) -> Flights {
        let under_way = Vec::new();
        Flights {
            landing: Mutex::named("f2fs landing", ()),
            state: Mutex::named(
                "f2fs flights",
                State {
                    under_way,
                    landing: 0,
                    mark,
                },
            ),
        }
    }

    /// Notes a submitted batch. `pages` (of a file, or node numbers) is passed to the task that
    /// waits for the batch.
    pub fn add(&self, pages: Range<u64>, mut batch: Batch) {
        if !batch.is_empty() {
            let watch = batch.watch();
            let summed = false;
            self.state.lock().under_way.push(Flight {
                pages,
                watch,
                summed,
            });
        }
    }

    /// Notes a submitted batch of pages that are not contiguous. Answers a handle by which another
    /// task may wait for them. `summed`: the transaction of the running epoch may have checksums of
    /// all of them.
    pub fn add_runs(
        &self,
        runs: impl IntoIterator<Item = Range<u64>>,
        mut batch: Batch,
        summed: bool,
    ) -> Option<Watch> {
        if batch.is_empty() {
            return None;
        }
        let watch = batch.watch();
        let flights = runs.into_iter().map(|pages| Flight {
            pages,
            watch: watch.clone(),
            summed,
        });
        self.state.lock().under_way.extend(flights);
        Some(watch)
    }

    /// True if nothing is under way.
    pub fn is_empty(&self) -> bool {
        let state = self.state.lock();
        state.under_way.is_empty() && state.landing == 0
    }

    /// True if a commit waits for everything that is under way (f2fs-commit-K9).
    pub fn are_summed(&self) -> bool {
        let state = self.state.lock();
        state.landing == 0 && state.under_way.iter().all(|flight| flight.summed)
    }

    /// The mark of the cached writes that have completed here: what a flush has to cover.
    pub fn mark(&self) -> WriteMark {
        self.state.lock().mark
    }

    /// Waits for all writes that are under way now; `landed` is called once for each batch. Answers
    /// the mark that a flush has to cover.
    ///
    /// # Errors
    /// The first failed write of those that this call waited for; the others are waited for all the
    /// same.
    pub fn land(&self, mut landed: impl FnMut(Range<u64>, &FsResult<()>)) -> FsResult<WriteMark> {
        let _one = self.landing.lock();
        let under_way = {
            let mut state = self.state.lock();
            state.landing = state.under_way.len();
            std::mem::take(&mut state.under_way)
        };
        let mut first = Ok(());
        for flight in under_way {
            let written = flight.watch.wait_written();
            let result = written.result.map_err(fault::device("writing"));
            landed(flight.pages, &result);
            let mut state = self.state.lock();
            // L2.
            state.mark = state.mark.max(written.mark);
            state.landing -= 1;
            drop(state);
            first = first.and(result);
        }
        first.map(|()| self.mark())
    }
}
