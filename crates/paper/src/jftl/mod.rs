//! Lim, Choi, Park: Journal Remap-Based FTL for Journaling File System with Flash Memory (HPCC
//! 2007), measured again: ext3 whose committed blocks come home by REMAP, on the paper's flash.

pub mod bare;
mod counts;
mod fig_bonnie;
mod fig_iozone;
mod fig_recovery;
pub mod job;
mod linux;
mod measure;
mod model;
mod modern;
mod pages16k;
pub mod plan;
pub mod recovery;
#[cfg(test)]
mod tests;
mod traffic;
mod transparent;
mod under_linux;
mod wa;

pub use plan::{Mode, Plan};

use crate::{Table, study};
use job::Job;

/// A figure, table or section of the page.
pub type Part = study::Part<Plan, Job>;

/// The note in each row of a quick report.
pub const QUICK: &str = "quick: fewer and shorter runs";

/// All parts in the order of the page: as in the paper, then what goes beyond it.
pub const PARTS: &[Part] = &[
    Part {
        name: "model",
        jobs: model::jobs,
        section: model::section,
    },
    Part {
        name: "fig7a",
        jobs: fig_bonnie::jobs_of_char,
        section: fig_bonnie::char,
    },
    Part {
        name: "fig7b",
        jobs: fig_bonnie::jobs_of_block,
        section: fig_bonnie::block,
    },
    Part {
        name: "fig8a",
        jobs: fig_iozone::jobs_of_write,
        section: fig_iozone::write,
    },
    Part {
        name: "fig8b",
        jobs: fig_iozone::jobs_of_rewrite,
        section: fig_iozone::rewrite,
    },
    Part {
        name: "counts",
        jobs: counts::jobs,
        section: counts::section,
    },
    Part {
        name: "linux",
        jobs: traffic::jobs,
        section: traffic::section,
    },
    Part {
        name: "recovery",
        jobs: fig_recovery::jobs,
        section: fig_recovery::section,
    },
    Part {
        name: "wa",
        jobs: wa::jobs,
        section: wa::section,
    },
    Part {
        name: "pages16k",
        jobs: pages16k::jobs,
        section: pages16k::section,
    },
    Part {
        name: "modern",
        jobs: modern::jobs,
        section: modern::section,
    },
    Part {
        name: "transparent",
        jobs: transparent::jobs,
        section: transparent::section,
    },
    Part {
        name: "under-linux",
        jobs: under_linux::jobs,
        section: under_linux::section,
    },
];

/// Why the curves of a figure are not drawn.
pub(crate) const LOST: &str = "its curves are lost; what the text says of them is drawn below";

/// The committed table of published values.
pub fn published() -> Table {
    let text = include_str!("published.toml");
    Table::parse(text, &[]).expect("the committed table is valid: a test reads it")
}
