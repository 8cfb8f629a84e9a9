//! All tests of the crate but its catalogues of mutants, those of the journal, and those beside a kernel: one program, linked once.

#[path = "../common/mod.rs"]
mod common;
#[path = "../crowd/mod.rs"]
mod crowd;
#[path = "../packs/mod.rs"]
mod packs;
#[path = "../pressure/mod.rs"]
mod pressure;

mod check;
mod check_kinds;
mod checkpoint;
mod cleaning;
mod conformance;
mod content_cuts;
mod content_fuzz;
mod data_path;
mod full_writers;
mod hostile;
mod hostile_chain;
mod posix;
mod sync_cuts;
