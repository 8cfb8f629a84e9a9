//! What is wrong with a `.f` file, and where.

use std::fmt;

/// What is wrong with a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Line, from 1.
    pub line: u32,
    /// What is there, and what there could be.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

pub(super) fn fault(line: u32, what: impl Into<String>) -> Fault {
    let what = what.into();
    Fault { line, what }
}
