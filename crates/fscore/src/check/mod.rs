//! What the checkers of file systems share: findings, their kinds, and the reader of blocks.
//!
//! A checker belongs to its file system and knows the rules that a volume must satisfy. How a
//! violation is numbered, placed, limited and printed is the same for all of them, so that a user
//! and a script read every check alike.

mod finding;
mod reader;

pub use finding::{Finding, FindingKind, Findings};
pub use reader::Reader;
