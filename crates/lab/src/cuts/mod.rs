//! Power cuts over the SQLite workload: the device is stopped at seeded moments, and each remainder is recovered and judged.
//!
//! Properties (cited by number in every violation):
//! - P1 Varve mounts the remainder, recovering the journal, without an error;
//! - P2 `e2fsck -fy` on the remainder gives the same tree as Varve's own recovery;
//! - P3 after Varve's recovery and unmount, `e2fsck -fn` finds nothing;
//! - P4 `PRAGMA integrity_check` says ok;
//! - P5 the table is that of the transactions acknowledged before the cut, or of one more (the one under way).
//!
//! One run yields all its cuts: a task sleeps until each moment and takes what a cut there would leave; the run goes
//! on. Only recovery runs once a cut.

mod judge;
mod record;
mod tree;

pub(crate) use judge::differences;
pub use judge::{Judgement, judge};
pub use record::{Cut, Recording, record};
pub use tree::{Tree, walk};

/// What to cut.
#[derive(Clone, Debug)]
pub struct CutConfig {
    /// Stack, workload and seed.
    pub run: crate::RunConfig,
    /// Number of cuts.
    pub cuts: usize,
    /// Transactions at the start that no cut falls into, so that the database exists.
    pub warm_up: usize,
}
