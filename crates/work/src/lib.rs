//! Workloads, recordings of system calls and of block requests, and runs: what happens on a mounted
//! stack while figures are taken.
//!
//! A [`RunConfig`] says what to run; [`run`] runs it and gives a [`Run`](report::results::Run);
//! [`life`] is a single mount with something of the caller's own in it, which is what tests of
//! power cuts and papers are made of.

pub mod blocktrace;
mod config;
mod error;
pub mod fsck;
pub mod life;
pub mod recording;
pub mod run;
pub mod workload;

pub use config::RunConfig;
pub use error::RunError;
