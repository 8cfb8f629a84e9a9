//! Histories that random ones would hardly ever be.

pub mod stale;
pub mod twice;
