//! What is wrong with the text of a workload, and where in it.

use std::fmt;

/// What is wrong with the text of a workload, and where in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextError {
    /// The file that holds the text; empty for a text of the command line.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub what: String,
}

impl TextError {
    /// An error at a place in a text of the command line.
    pub(super) fn at(line: usize, column: usize, what: impl Into<String>) -> TextError {
        TextError {
            file: String::new(),
            line,
            column,
            what: what.into(),
        }
    }

    /// The error, if its text begins `columns` characters into a longer one.
    pub(super) fn shifted(mut self, columns: usize) -> TextError {
        if self.line == 1 {
            self.column += columns;
        }
        self
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "workload")?;
        if !self.file.is_empty() {
            write!(f, " {}", self.file)?;
        }
        write!(
            f,
            ", line {}, column {}: {}",
            self.line, self.column, self.what
        )
    }
}

impl std::error::Error for TextError {}
