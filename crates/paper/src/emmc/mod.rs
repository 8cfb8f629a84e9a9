//! The eMMC paper, measured again: characterisation of journaling on phones, journal coalition, and
//! flush-ahead commit.

#[cfg(test)]
mod apps;
pub mod barrier;
mod beyond;
mod cards;
mod change;
mod characterised;
pub mod choosing;
mod choosing_life;
pub mod creation;
mod fig_background;
mod fig_barrier;
mod fig_breakdown;
mod fig_commit_time;
mod fig_journal_size;
mod fig_modified;
mod fig_performance;
mod fig_persistence;
mod fig_power;
mod fig_recovery;
mod fig_sqlite;
mod fig_volume;
pub mod job;
mod measure;
mod own_time;
pub mod plan;
pub mod recovery;
pub mod report;
mod sens_device;
mod sens_journal;
mod table_control;
mod table_ratio;

pub use plan::{Pace, Plan, check_recordings};

use super::{Table, TableError};
use job::Job;
use work::recording::apps::APPS;

/// A figure, table or section of the page.
pub type Part = super::study::Part<Plan, Job>;

/// All parts in the order of the page: as in the paper, then what goes beyond it.
pub const PARTS: &[Part] = &[
    Part {
        name: "fig6",
        jobs: fig_modified::jobs_of_blocks,
        section: fig_modified::blocks,
    },
    Part {
        name: "table3",
        jobs: table_control::jobs,
        section: table_control::section,
    },
    Part {
        name: "fig7",
        jobs: fig_commit_time::jobs,
        section: fig_commit_time::section,
    },
    Part {
        name: "fig8",
        jobs: fig_barrier::jobs,
        section: fig_barrier::section,
    },
    Part {
        name: "fig9",
        jobs: fig_modified::jobs_of_commits,
        section: fig_modified::commits,
    },
    Part {
        name: "size",
        jobs: change::jobs,
        section: change::section,
    },
    Part {
        name: "table4",
        jobs: table_ratio::jobs,
        section: table_ratio::section,
    },
    Part {
        name: "fig12",
        jobs: fig_breakdown::jobs,
        section: fig_breakdown::section,
    },
    Part {
        name: "fig13-volume",
        jobs: fig_volume::jobs,
        section: fig_volume::section,
    },
    Part {
        name: "fig13",
        jobs: fig_performance::jobs,
        section: fig_performance::section,
    },
    Part {
        name: "fig14",
        jobs: fig_persistence::jobs,
        section: fig_persistence::section,
    },
    Part {
        name: "fig15",
        jobs: fig_sqlite::jobs,
        section: fig_sqlite::section,
    },
    Part {
        name: "fig16",
        jobs: fig_background::jobs,
        section: fig_background::section,
    },
    Part {
        name: "fig17",
        jobs: fig_journal_size::jobs,
        section: fig_journal_size::section,
    },
    Part {
        name: "power",
        jobs: fig_power::jobs,
        section: fig_power::section,
    },
    Part {
        name: "recovery",
        jobs: fig_recovery::jobs,
        section: fig_recovery::section,
    },
    Part {
        name: "sens-device",
        jobs: sens_device::jobs,
        section: sens_device::section,
    },
    Part {
        name: "sens-journal",
        jobs: sens_journal::jobs,
        section: sens_journal::section,
    },
    Part {
        name: "beyond",
        jobs: beyond::jobs,
        section: beyond::section,
    },
    Part {
        name: "choosing",
        jobs: choosing::jobs,
        section: choosing::section,
    },
];

/// The committed table of published values.
///
/// # Errors
/// The table is not valid; a test reads it.
pub fn published() -> Result<Table, TableError> {
    Table::parse(include_str!("published.toml"), &APPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_table_reads() {
        let table = published().unwrap();
        let of = |app| table.get("Table 3", "control blocks over journal blocks", Some(app));
        assert_eq!(of("chrome").value, Some(0.265));
        assert_eq!(table.all().len(), 108);
    }
}
