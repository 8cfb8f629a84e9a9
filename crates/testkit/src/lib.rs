//! What the tests of several crates share: cases that every file system has to pass and the
//! contract of a device, directories without regard to case, a model file system in memory, a
//! shadow of a tree and of the content of files, writers of full volumes, images for the tools of
//! others, counts of two checkers' verdicts, the proof that a mutant is noticed, a spy between
//! `vfs` and a file system and one between a queue and a device, and short names for calls that
//! tests often make.
//!
//! It is for tests only: each edge to it is a dev-dependency, so nothing of it is in a program.

pub mod brief;
pub mod casefold;
pub mod conformance;
pub mod content;
pub mod corpus;
pub mod device;
pub mod full;
pub mod image;
pub mod model;
pub mod mutants;
pub mod names;
pub mod posix;
pub mod record;
pub mod shadow;
pub mod spy;
pub mod volume;

pub use brief::{Brief, errno};
