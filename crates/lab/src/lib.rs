//! Workloads, metrics, crash tests and reports.

pub mod characterise;
pub mod crash;
pub mod cuts;
pub mod energy;
pub mod paper;
