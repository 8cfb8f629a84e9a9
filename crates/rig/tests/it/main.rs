//! Whole stacks: the cases that every file system has to pass, failing devices, remapping, and
//! volumes left dirty. The tests are one program, so that it is linked once.

mod conformance;
mod dirty_volumes;
mod faults;
mod remap_identity;
mod transparent;
