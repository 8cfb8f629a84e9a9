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
    first: First,
}

/// Who waits for a batch first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum First {
    /// The task that sent it.
    Sender,
    /// The commit of its epoch, whose transaction has the checksums (f2fs-commit-K9).
    Commit,
    /// Nobody has sent it, and no epoch maps it: a commit may take it along (f2fs-commit-K12), or
    /// else the first task that waits sends it.
    Rider,
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
            let first = First::Sender;
            self.state.lock().under_way.push(Flight {
                pages,
                watch,
                first,
            });
        }
    }

    /// Notes a batch of pages that are not contiguous. Answers a handle by which another task may
    /// wait for them.
    pub fn add_runs(
        &self,
        runs: impl IntoIterator<Item = Range<u64>>,
        mut batch: Batch,
        first: First,
    ) -> Option<Watch> {
        if batch.is_empty() {
            return None;
        }
        let watch = batch.watch();
        let flights = runs.into_iter().map(|pages| Flight {
            pages,
            watch: watch.clone(),
            first,
        });
        self.state.lock().under_way.extend(flights);
        Some(watch)
    }

    /// True if nothing is under way.
    pub fn is_empty(&self) -> bool {
        let state = self.state.lock();
        state.under_way.is_empty() && state.landing == 0
    }

    /// True if the task that makes them durable may leave all that is under way to a commit.
    pub fn may_wait(&self) -> bool {
        let state = self.state.lock();
        let sent = |flight: &Flight| flight.first == First::Sender;
        state.landing == 0 && !state.under_way.iter().any(sent)
    }

    /// Takes the batches that a commit may take along, each once: their pages stay under way.
    pub fn riders(&self) -> Vec<Watch> {
        let mut state = self.state.lock();
        let mut riders: Vec<Watch> = Vec::new();
        for flight in &mut state.under_way {
            if flight.first == First::Rider {
                flight.first = First::Commit;
                if !riders.iter().any(|of| of.is_of(&flight.watch)) {
                    riders.push(flight.watch.clone());
                }
            }
        }
        riders
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
