//! Cui, Wang, Chen, Shao: Decentralized, Epoch-based F2FS Journaling with Fine-grained Crash
//! Recovery (OSDI 2025), measured again.
//!
//! `published.toml` has all values that the text gives; each of them is in one part of the report.

mod aged;
mod board;
mod breakdown;
mod commands;
mod contradictions;
pub mod crash;
mod fig2;
mod fig_loss;
mod fig_recovery;
mod filebench;
mod fio;
mod ideas_fig;
pub mod job;
mod limits;
#[cfg(test)]
mod log_tests;
pub mod loss;
#[cfg(test)]
mod loss_tests;
pub mod measure;
mod micro;
pub mod names;
mod objects;
mod overheads;
mod period;
pub mod recovery;
pub mod scale;
mod scaling;
#[cfg(test)]
mod settle_tests;
mod shapley;
mod sized;
pub mod system;
mod tail;

use crate::{Row, Table, study};
use job::Job;
use std::path::PathBuf;

/// A figure, table or section of the page.
pub type Part = study::Part<Plan, Job>;

/// The note in each row of a quick report.
pub const QUICK: &str = "quick: fewer objects";

/// All parts in the order of the page.
pub const PARTS: &[Part] = &[
    Part {
        name: "fig2",
        jobs: fig2::jobs,
        section: fig2::section,
    },
    Part {
        name: "loss",
        jobs: fig_loss::jobs,
        section: fig_loss::section,
    },
    Part {
        name: "recovery",
        jobs: fig_recovery::jobs,
        section: fig_recovery::section,
    },
    Part {
        name: "board",
        jobs: board::jobs,
        section: board::section,
    },
    Part {
        name: "breakdown",
        jobs: breakdown::jobs,
        section: breakdown::section,
    },
    Part {
        name: "journal-time",
        jobs: tail::jobs,
        section: tail::section,
    },
    Part {
        name: "names",
        jobs: micro::jobs,
        section: micro::section,
    },
    Part {
        name: "scaling",
        jobs: scaling::jobs,
        section: scaling::section,
    },
    Part {
        name: "ideas",
        jobs: ideas_fig::jobs,
        section: ideas_fig::section,
    },
    Part {
        name: "period",
        jobs: period::jobs,
        section: period::section,
    },
    Part {
        name: "overheads",
        jobs: overheads::jobs,
        section: overheads::section,
    },
    Part {
        name: "limits",
        jobs: limits::jobs,
        section: limits::section,
    },
    Part {
        name: "fio",
        jobs: fio::jobs,
        section: fio::section,
    },
    Part {
        name: "commands",
        jobs: commands::jobs,
        section: commands::section,
    },
    Part {
        name: "aged",
        jobs: aged::jobs,
        section: aged::section,
    },
    Part {
        name: "applications",
        jobs: filebench::jobs,
        section: filebench::section,
    },
];

/// What a report runs, and for how long.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// True for a quick report: fewer objects.
    pub quick: bool,
    /// True for tests in debug builds: hardly any objects. `quick` is true then, as well.
    pub tiny: bool,
    /// Number of objects of an operation on names, instead of that of the report.
    pub objects: Option<u32>,
    /// Seed of every random stream.
    pub seed: u64,
    /// Folder of recordings, if there is one.
    pub traces: Option<PathBuf>,
}

impl Plan {
    /// The plan of `varve paper f2fsj`.
    pub fn new(quick: bool, seed: u64) -> Plan {
        Plan {
            quick,
            tiny: false,
            objects: None,
            seed,
            traces: None,
        }
    }

    /// Sets the folder of recordings.
    #[must_use]
    pub fn with_traces(self, traces: Option<PathBuf>) -> Plan {
        Plan { traces, ..self }
    }

    /// Sets the number of objects; `None` leaves that of the report.
    ///
    /// # Errors
    /// It is not between 100 and the paper's 4 million, with what would be valid.
    pub fn with_objects(self, objects: Option<u32>) -> Result<Plan, String> {
        match objects {
            Some(n) if !(100..=scale::PAPER_OBJECTS).contains(&n) => {
                Err(format!("{n} objects: say 100 to {}", scale::PAPER_OBJECTS))
            }
            objects => Ok(Plan { objects, ..self }),
        }
    }

    /// The plan for tests: all jobs and rows, with as few objects as a debug build runs in seconds.
    pub fn tiny(seed: u64) -> Plan {
        Plan {
            quick: true,
            tiny: true,
            objects: None,
            seed,
            traces: None,
        }
    }
}

/// Rows for the published values of XFS in a figure, which cannot be measured here.
fn xfs_rows(table: &Table, figure: &str) -> Vec<Row> {
    let all = table.all().iter();
    let of = all.filter(|p| p.figure == figure && p.item.ends_with("over XFS"));
    of.map(|p| Row::unmeasured(p, None)).collect()
}

/// How a published gain of F2FSJ over ext4 becomes a value of ext4 over stock F2FS.
const DERIVED: &str = "The published value of ext4 follows from the two gains of F2FSJ, over it and over checkpoint-60.";

/// The committed table of published values.
pub fn published() -> Table {
    let text = include_str!("published.toml");
    let table = Table::parse(text, &[]).expect("the committed table is valid: a test reads it");
    contradictions::marked(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::{self, Work};

    /// Runs every job of every part.
    #[test]
    #[ignore = "long: cargo xtask test --long"]
    fn a_quick_report_has_each_published_value_once_and_can_be_made_again() {
        let plan = Plan::tiny(1);
        let parts: Vec<&Part> = PARTS.iter().collect();
        let jobs = study::jobs(&plan, &parts);
        let run = |job: &Job| (job.key(), job.run().expect("runs"));
        let outcomes = jobs.iter().map(run).collect();
        let made = study::report("f2fsj", &plan, (&parts, &outcomes), "c".into(), None);
        let (_, sections) = made.expect("all there");
        assert_eq!(study::silent(&sections), Vec::<String>::new());
        assert_eq!(
            study::unanswered(&published(), &sections),
            Vec::<String>::new()
        );
        let job = &jobs[0];
        assert_eq!(&job.run().expect("runs"), &outcomes[&job.key()]);
    }
}
