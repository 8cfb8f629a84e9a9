//! What runs and is judged, as the explorer sees it: it knows neither files nor databases.

use super::{CrashConfig, Judgement};
use crate::CrashError;
use base::Time;
use rig::Mounted;
use std::sync::Arc;
use vfs::Vfs;

/// Something that works on a mounted volume and knows what it was promised.
pub trait Subject: Send + Sync {
    /// Works, inside of a simulation; unmounting is the caller's business. What it was promised at
    /// each moment is in the oracle, also of a run that failed half-way.
    fn run(
        &self,
        config: &CrashConfig,
        mounted: &Mounted,
    ) -> (Box<dyn Oracle>, Result<(), CrashError>);
}

/// Judges what was recovered after a cut of one run.
pub trait Oracle: Send {
    /// Comes to the cut at `at`. Cuts come by ascending time. What was acknowledged at that very
    /// moment is promised.
    fn advance(&mut self, at: Time);
    /// Changes whenever what is legal changes: equal remainders of one epoch violate the same
    /// rules. (The age that is noted of them is that at the first of their cuts.)
    fn epoch(&self) -> u64;
    /// True if looking needs a mount that can be written, as SQLite's own recovery of a hot journal
    /// does.
    fn writes(&self) -> bool {
        false
    }
    /// How many operations had begun: cuts at equal positions of equal workloads can be compared
    /// between schemes.
    fn position(&self) -> usize;
    /// All moments of the run at which what is legal changes, ascending.
    fn moments(&self) -> Vec<Time>;
    /// Looks at what recovery gave, and enters violations and losses.
    fn judge(&self, vfs: &Arc<Vfs>, judgement: &mut Judgement);
    /// What had begun until the cut, a line each, with how far it had come: for reports.
    fn story(&self) -> Vec<String>;
    /// All that the subject did in the whole run, with its times; empty if it has none. For
    /// reports.
    fn timeline(&self) -> Vec<Told> {
        Vec::new()
    }
}

/// Something that a subject did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    /// When it began.
    pub begun: Time,
    /// When it ended, if it did.
    pub ended: Option<Time>,
    /// What.
    pub what: String,
}
