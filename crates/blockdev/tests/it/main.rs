//! All tests of the crate that need no loop device, in one program that is linked once.

mod conformance;
mod modelled;
mod spec_disk;
mod spec_legal;
mod trace;
