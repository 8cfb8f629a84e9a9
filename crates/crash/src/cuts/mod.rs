//! Power cuts over the SQLite workload, and over the phases of the workload `files:`, on a modelled
//! device.
//!
//! One run yields all its cuts, so only recovery runs once for each: a task sleeps until each
//! seeded moment and takes what a cut there would leave, and the run goes on. (A run without cuts
//! comes first, to learn the times.) What a cut of the SQLite run leaves is recovered and judged by
//! the rules R1 to R3, S1 and S2 of [`crash::rules`](crate::rules), which every violation cites by
//! name. What a cut of a phase leaves is only handed out, for studies of recovery.

mod judge;
mod phases;
mod record;
mod tree;

pub(crate) use judge::differences;
pub use judge::{Judgement, Opinions, judge, second_opinions};
pub use phases::{PhaseCut, Phases, record_phases, switched_off};
pub use record::{Cut, Recording, record};
pub use tree::{Tree, walk};

/// The run to cut, and how often.
#[derive(Clone, Debug)]
pub struct CutConfig {
    /// Stack, workload and seed.
    pub run: work::RunConfig,
    /// Number of cuts.
    pub cuts: usize,
    /// Transactions at the start that no cut falls into, so that there is a database to judge.
    pub warm_up: usize,
}
