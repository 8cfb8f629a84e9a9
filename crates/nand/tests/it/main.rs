//! All tests of the crate: one program, linked once.

mod cut;
mod levels;
mod rules;
mod state;
