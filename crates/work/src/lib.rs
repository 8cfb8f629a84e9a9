//! Workloads, recordings of system calls and of block requests, and runs: what happens on a mounted
//! stack while figures are taken.
//!
//! A [`RunConfig`] says what to run; [`run`] runs it and gives a [`Run`](report::results::Run). A
//! test of power cuts or a study of a paper has work of its own to do on a mount: [`life`] mounts
//! for it.

pub mod blocktrace;
mod causes;
mod config;
pub mod energy;
mod error;
pub mod fsck;
mod fsync_parts;
pub mod life;
mod meanwhile;
mod recorder;
pub mod recording;
pub mod run;
mod wear;
pub mod workload;

pub use config::RunConfig;
pub use error::RunError;
pub use recorder::Recorder;
