//! Results, and how they are shown: `results.json`, tables, plots and the page.
//!
//! `index.html` is one self-contained page with tables and plots; equal results give equal bytes.
//! Everything here is made from the values that a run has left, so this crate names no crate that
//! could run one.

mod best;
pub mod causes;
pub mod energy;
pub mod fio;
pub mod hdr;
pub mod metrics;
pub mod notes;
pub mod over_time;
mod page;
pub mod plot;
pub mod results;
pub mod samples;
mod shell;
pub mod sweep;
mod tables;
pub mod timeline;
pub mod verdict;
pub mod wear;

pub use page::page;
pub use plot::{Pair, Plot, PlotPoint};
pub use shell::{row, scrolled, whole};
pub use tables::{fsync_parts, gain, kinds};
