//! Workloads, metrics, crash tests and reports.
