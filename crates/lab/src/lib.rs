//! Workloads, metrics, crash tests and reports.

pub mod cuts;
pub mod fsck;
pub mod life;
pub mod metrics;
pub mod report;
pub mod results;
pub mod run;
pub mod workload;
