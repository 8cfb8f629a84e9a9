//! What the steps of a commit have started and nobody has waited for.

use crate::JournalError;
use block::{Batch, Flushing, Queue, WriteMark};
use std::sync::Arc;

/// Work that one step has started.
pub(crate) enum Started {
    /// Writes.
    Writes(Batch),
    /// A flush.
    Flush(Flushing),
    /// Somebody else's flush that covers this mark.
    Joined(WriteMark),
}

/// All of it, in the order of its start, each with the name of its step.
#[derive(Default)]
pub(crate) struct InFlight(Vec<(&'static str, Started)>);

/// What was waited for.
#[must_use]
pub(crate) struct Landed {
    /// A flush that covers it covers all writes that landed (F2).
    pub mark: WriteMark,
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
            .any(|(_, started)| matches!(started, Started::Writes(_)))
    }

    /// Waits for everything, failures included (F5).
    pub fn land(&mut self, queue: &Arc<Queue>) -> Landed {
        let mut landed = Landed {
            mark: WriteMark::NONE,
            spans: Vec::new(),
            result: Ok(()),
        };
        for (step, started) in self.0.drain(..) {
            let begin = rt::now();
            let result = match started {
                Started::Writes(batch) => {
                    let written = batch.wait_written();
                    landed.mark = landed.mark.max(written.mark);
                    written.result
                }
                Started::Flush(flushing) => flushing.wait(),
                Started::Joined(mark) => queue.ensure_flushed(mark),
            };
            landed.spans.push((step, rt::now() - begin));
            if landed.result.is_ok() {
                landed.result = result.map_err(JournalError::from);
            }
        }
        landed
    }
}
