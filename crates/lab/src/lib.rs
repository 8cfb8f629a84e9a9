//! Workloads, metrics, crash tests and reports.

pub mod characterise;
pub mod energy;
pub mod paper;
