//! Workloads, metrics, crash tests and reports.

pub mod blocktrace;
pub mod characterise;
mod config;
pub mod crash;
pub mod cuts;
pub mod energy;
mod error;
pub mod fsck;
pub mod life;
pub mod paper;
pub mod recording;
pub mod run;
pub mod workload;

pub use config::RunConfig;
pub use error::RunError;
