//! Workload models of Filebench: reads the `.f` files that its well-known personalities need, and
//! runs them on a mounted file system.
//!
//! The personalities here are files of our own, with the parameters that the artifact of the F2FSJ
//! paper gives (docs/use/filebench.md). Most of what is wrong with a model is known before anything
//! is made: `parse` and `resolve` check it by itself, `fit` checks it against the volume. What only
//! a thread can tell, as a flowop on a slot in which no file is open, ends the run.

mod aio;
mod amount;
mod attributes;
mod define;
mod engine;
mod error;
mod files;
mod fit;
mod lex;
mod model;
mod ops;
mod parse;
mod random;
mod resolve;
mod spec;
mod sync;
#[cfg(test)]
mod tests;
mod tree;
mod worker;

pub use engine::Filebench;
pub use error::Fault;
pub use lex::is_model;
pub use model::Model;
pub use parse::{Settings, parse};
pub use spec::{FilebenchSpec, PERSONALITIES, read};
