//! The tests of F2FS on whole volumes, of our mkfs and of mkfs.f2fs, with cuts, full, and beside
//! the kernel's. They are one program, so that it is linked once.
#![allow(clippy::disallowed_macros)] // A counter of panics belongs to its thread.

mod background;
mod casefold;
mod check;
mod check_kinds;
mod checkpoint;
mod cleaning;
mod common;
mod conformance;
mod content_cuts;
mod content_fuzz;
mod crowd;
mod data_path;
mod fsck;
mod full_writers;
mod hostile;
mod hostile_chain;
mod journal;
mod journal_gate;
mod journal_pages;
mod kernel;
mod names;
mod packs;
mod panics;
mod posix;
mod pressure;
mod sync_cuts;
