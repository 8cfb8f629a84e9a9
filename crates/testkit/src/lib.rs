//! What the tests of several crates share: cases that every file system has to pass and the
//! contract of a device, a model file system in memory, a shadow of a tree, writers of full
//! volumes, a spy between `vfs` and a file system and one between a queue and a device.
//!
//! It is for tests only: each edge to it is a dev-dependency, so nothing of it is in a program.

pub mod conformance;
pub mod device;
pub mod full;
pub mod model;
pub mod record;
pub mod shadow;
pub mod spy;
