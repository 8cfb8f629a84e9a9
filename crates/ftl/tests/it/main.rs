//! All tests of the crate but its catalogue of mutants: one program, linked once.

#[path = "../common/mod.rs"]
mod common;

mod amplification;
mod bounded;
mod counting;
mod cycles;
mod failing;
mod flushes;
mod group_copies;
mod groups;
mod housekeeping;
mod levels;
mod recovery;
mod remap;
mod slc;
mod steady;
