//! What the explorer knows of what it cuts: a subject that runs and an oracle that judges. The
//! explorer knows neither files nor databases, so each kind of workload brings its own pair.

use super::{CrashConfig, Judgement};
use crate::CrashError;
use base::Time;
use rig::Mounted;
use std::sync::Arc;
use vfs::Vfs;

/// Something that works on a mounted volume and knows what it was promised.
pub trait Subject: Send + Sync {
    /// Works, inside a simulation; the caller unmounts. The oracle knows what was promised at each
    /// moment, also of a run that failed half-way.
    fn run(
        &self,
        config: &CrashConfig,
        mounted: &Mounted,
    ) -> (Box<dyn Oracle>, Result<(), CrashError>);
}

/// Judges what was recovered after the cuts of one run.
pub trait Oracle: Send {
    /// Goes on to the cut at `at`; cuts come by ascending time. What was acknowledged at that very
    /// moment is promised.
    fn advance(&mut self, at: Time);
    /// A number that changes whenever what is legal changes, so equal remainders of one epoch
    /// violate the same rules. (Their age is noted as it was at the first of their cuts.)
    fn epoch(&self) -> u64;
    /// True if judging needs a mount that can be written, as SQLite's recovery of a hot journal
    /// does.
    fn writes(&self) -> bool {
        false
    }
    /// How many operations had begun at the cut. Schemes are compared by it: at equal positions
    /// equal workloads have done equal things.
    fn position(&self) -> usize;
    /// All moments of the run at which what is legal changes, ascending.
    fn moments(&self) -> Vec<Time>;
    /// Judges what recovery gave, and enters violations and losses into `judgement`.
    fn judge(&self, vfs: &Arc<Vfs>, judgement: &mut Judgement);
    /// The operations that had begun before the cut, a line each, with how far they had come; for
    /// reports.
    fn story(&self) -> Vec<String>;
    /// All that the subject did in the whole run, with its times, for reports; empty if it keeps no
    /// record.
    fn timeline(&self) -> Vec<Told> {
        Vec::new()
    }
}

/// Something that a subject did, for reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    /// When it began.
    pub begun: Time,
    /// When it ended, if it did.
    pub ended: Option<Time>,
    /// What it was, in words.
    pub what: String,
}
