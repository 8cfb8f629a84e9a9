//! All tests of the crate except its catalogue of mutants, in one program that is linked once.

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
