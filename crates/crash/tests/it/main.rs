//! Power cuts and what is left of them, through the seams that users have.

mod check;
mod crash;
mod cuts;
mod explore;
mod finding;
mod guarantees;
mod kernel;
mod known_weaknesses;
mod nand;
mod part;
mod prune;
#[path = "../../../../xtask/src/sh.rs"]
mod sh;
mod subjects;

/// An error is the words of whoever failed.
type Result<T, E = String> = std::result::Result<T, E>;
