//! The error of the reader: what is wrong with a `.f` file, and in which line.

use std::fmt;

/// An error in a `.f` file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Number of the line, from 1.
    pub line: u32,
    /// What is there, and what would be valid.
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
