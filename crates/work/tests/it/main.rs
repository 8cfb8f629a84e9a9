//! Workloads, recordings and runs through the seams that users have.

mod adaptive;
mod blocktrace;
mod causes;
mod common;
mod cost_table;
mod crowd;
mod recording;
mod settled;
mod wear;
