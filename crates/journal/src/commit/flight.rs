//! The writes and flushes that the steps of a commit have started and not yet waited for.

use crate::JournalError;
use crate::devices::{Device, Marks};
use block::{Batch, Flushing, Queue, WriteMark};
use std::sync::Arc;

/// Work that one step has started.
pub(crate) enum Started {
    /// Writes to this device.
    Writes(Device, Batch),
    /// A flush.
    Flush(Flushing),
    /// A flush that another task started and that covers this mark of this queue.
    Joined(Arc<Queue>, WriteMark),
}

/// The work in flight, in the order of its start, each with the name of its step.
#[derive(Default)]
pub(crate) struct InFlight(Vec<(&'static str, Started)>);

/// The outcome of the work that was waited for.
#[must_use]
pub(crate) struct Landed {
    /// Flushes that cover these marks cover all writes that landed (journal-commit-F2).
    pub marks: Marks,
    /// Time waited, by step.
    pub spans: Vec<(&'static str, base::Nanos)>,
    /// The first failure.
    pub result: Result<(), JournalError>,
}

impl InFlight {
    pub fn push(&mut self, step: &'static str, started: Started) {
        self.0.push((step, started));
    }

    /// True if writes are on their way.
    pub fn has_writes(&self) -> bool {
        self.0
            .iter()
            .any(|(_, started)| matches!(started, Started::Writes(..)))
    }

    /// Waits for everything, failures included (journal-commit-F5).
    pub fn land(&mut self) -> Landed {
        let mut landed = Landed {
            marks: Marks::default(),
            spans: Vec::new(),
            result: Ok(()),
        };
        for (step, started) in self.0.drain(..) {
            let begin = rt::now();
            let result = match started {
                Started::Writes(on, batch) => {
                    let written = batch.wait_written();
                    landed.marks.raise(on, written.mark);
                    written.result
                }
                Started::Flush(flushing) => flushing.wait(),
                Started::Joined(queue, mark) => queue.ensure_flushed(mark),
            };
            landed.spans.push((step, rt::now() - begin));
            if landed.result.is_ok() {
                landed.result = result.map_err(JournalError::from);
            }
        }
        landed
    }
}
