//! Workloads: what runs on a mounted file system while the figures are taken.

mod spec;
pub mod sqlite;

pub use spec::{JournalMode, SpecError, SqliteSpec, Synchronous, Workload};
