//! Power cuts over the SQLite workload, and over the phases of `files:`: the device is stopped at
//! seeded moments, and each remainder is recovered and judged.
//!
//! Rules, cited by name in every violation: R1 to R3, S1 and S2 of [`crash::rules`](crate::rules).
//!
//! One run yields all its cuts: a task sleeps until each moment and takes what a cut there would
//! leave; the run goes on. Only recovery runs once a cut.

mod judge;
mod phases;
mod record;
mod tree;

pub(crate) use judge::differences;
pub use judge::{Judgement, Opinions, judge, second_opinions};
pub use phases::{PhaseCut, Phases, record_phases, switched_off};
pub use record::{Cut, Recording, record};
pub use tree::{Tree, walk};

/// What to cut.
#[derive(Clone, Debug)]
pub struct CutConfig {
    /// Stack, workload and seed.
    pub run: work::RunConfig,
    /// Number of cuts.
    pub cuts: usize,
    /// Transactions at the start that no cut falls into, so that the database exists.
    pub warm_up: usize,
}
