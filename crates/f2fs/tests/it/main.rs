//! All tests of the crate in one program, so that it is linked once; except the catalogues of
//! mutants, the tests of the journal, and those that boot a kernel.

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
