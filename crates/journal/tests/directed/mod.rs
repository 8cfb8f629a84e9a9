//! Histories for rare cases, which the random histories would hardly ever contain.

pub mod stale;
pub mod twice;
