//! Cui, Wang, Chen, Shao: Decentralized, Epoch-based F2FS Journaling with Fine-grained Crash Recovery (OSDI 2025), measured again.
//!
//! So far what it publishes of stock F2FS: what its checkpoints cost (section 2.3).

mod checkpoints;
mod fig2;
pub mod job;

use crate::paper::{Table, study};
use job::Job;

/// A figure, table or section of the page.
pub type Part = study::Part<Plan, Job>;

/// What stands in each row of a quick report.
pub const QUICK: &str = "quick: fewer objects";

/// All parts in the order of the page.
pub const PARTS: &[Part] = &[Part {
    name: "fig2",
    jobs: fig2::jobs,
    section: fig2::section,
}];

/// What is run, and how long.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Fewer objects.
    pub quick: bool,
    /// Seed of every random stream.
    pub seed: u64,
}

impl Plan {
    /// The plan of `varve paper f2fsj`.
    pub fn new(quick: bool, seed: u64) -> Plan {
        Plan { quick, seed }
    }
}

/// The committed table of published values.
pub fn published() -> Table {
    let text = include_str!("published.toml");
    Table::parse(text, &[]).expect("the committed table is valid: a test reads it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::study::{self, Work};

    #[test]
    fn a_quick_report_has_each_published_value_once_and_can_be_made_again() {
        let plan = Plan {
            quick: true,
            seed: 1,
        };
        let parts: Vec<&Part> = PARTS.iter().collect();
        let jobs = study::jobs(&plan, &parts);
        let run = |job: &Job| (job.key(), job.run().expect("runs"));
        let outcomes = jobs.iter().map(run).collect();
        let section = fig2::section(&plan, &outcomes).expect("all there");
        assert_eq!(
            study::unanswered(&published(), &[section]),
            Vec::<String>::new()
        );
        let job = &jobs[0];
        assert_eq!(&job.run().expect("runs"), &outcomes[&job.key()]);
    }
}
