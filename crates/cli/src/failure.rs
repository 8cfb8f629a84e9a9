//! How a command fails: a sentence for people, a number for scripts.

use crate::{plain, stop};
use std::fmt;

/// A failed command.
#[derive(Debug)]
pub enum Failure {
    /// The request makes no sense: exit code 2, as clap's own.
    Usage(String),
    /// It made sense and did not work: exit code 1.
    Failed(String),
    /// The same, and each failure was told when it happened.
    Told,
    /// A signal asked for the end: exit code 128 and its number. The text says what was kept.
    Stopped(i32, String),
}

impl Failure {
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Failed(_) | Failure::Told => 1,
            Failure::Stopped(signal, _) => 128 + u8::try_from(*signal).unwrap_or(0),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(why) | Failure::Failed(why) => f.write_str(why),
            Failure::Told => Ok(()),
            Failure::Stopped(signal, kept) => write!(f, "{}: {kept}", stop::name(*signal)),
        }
    }
}

/// Tells people on standard error what went wrong, or what they should know.
pub fn tell(what: impl fmt::Display) {
    eprintln!("varve: {}", plain::message(&what.to_string()));
}

/// For errors that mean the request was wrong.
pub fn usage(e: impl fmt::Display) -> Failure {
    Failure::Usage(e.to_string())
}

/// For errors that mean it did not work.
pub fn failed(e: impl fmt::Display) -> Failure {
    Failure::Failed(e.to_string())
}
