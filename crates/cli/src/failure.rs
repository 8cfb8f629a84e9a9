//! How a command fails: a sentence for people, a number for scripts.

use std::fmt;

/// A failed command.
#[derive(Debug)]
pub enum Failure {
    /// The request makes no sense: exit code 2, as clap's own.
    Usage(String),
    /// It made sense and did not work: exit code 1.
    Failed(String),
}

impl Failure {
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Failed(_) => 1,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(why) | Failure::Failed(why) => f.write_str(why),
        }
    }
}

/// For errors that mean the request was wrong.
pub fn usage(e: impl fmt::Display) -> Failure {
    Failure::Usage(e.to_string())
}

/// For errors that mean it did not work.
pub fn failed(e: impl fmt::Display) -> Failure {
    Failure::Failed(e.to_string())
}
