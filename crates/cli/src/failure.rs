//! How a command fails: a sentence for people, a number for scripts.

use crate::stop;
use base::plain;
use std::fmt;
use std::io::{self, Write};

/// A failed command.
#[derive(Debug)]
pub enum Failure {
    /// The request is invalid: exit code 2, as clap's own.
    Usage(String),
    /// The request was valid and failed: exit code 1.
    Failed(String),
    /// A test of a program came to no verdict, because the test itself is broken: exit code 3.
    Broken(String),
    /// As [`Failed`](Self::Failed), but each failure was already reported when it happened.
    Told,
    /// A signal asked the command to end: exit code 128 plus its number. The text says what was
    /// kept.
    Stopped(i32, String),
}

impl Failure {
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Failed(_) | Failure::Told => 1,
            Failure::Broken(_) => 3,
            Failure::Stopped(signal, _) => 128 + u8::try_from(*signal).unwrap_or(0),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(why) | Failure::Failed(why) | Failure::Broken(why) => f.write_str(why),
            Failure::Told => Ok(()),
            Failure::Stopped(signal, kept) => write!(f, "{}: {kept}", stop::name(*signal)),
        }
    }
}

/// Prints an error or a notice on standard error.
pub fn tell(what: impl fmt::Display) {
    // A terminal that has gone hears nothing, and ends nothing.
    let _ = writeln!(io::stderr(), "varve: {}", plain::message(&what.to_string()));
}

/// An error that means that the request was invalid.
pub fn usage(e: impl fmt::Display) -> Failure {
    Failure::Usage(e.to_string())
}

/// An error that means that a valid request failed.
pub fn failed(e: impl fmt::Display) -> Failure {
    Failure::Failed(e.to_string())
}

/// An error that means that the host has started no thread for `what`.
pub fn no_thread(what: &str) -> impl FnOnce(io::Error) -> Failure + '_ {
    move |e| {
        failed(format!(
            "no thread for {what}: {e}; `ulimit -u` is the limit"
        ))
    }
}

/// An error that means that the host has started no process for `what`.
pub fn no_process(what: &str) -> impl FnOnce(io::Error) -> Failure + '_ {
    move |e| match e.kind() {
        // EAGAIN: the host counts processes and threads together.
        io::ErrorKind::WouldBlock => failed(format!(
            "no process for {what}: {e}; `ulimit -u` is the limit"
        )),
        _ => failed(format!("no process for {what}: {e}")),
    }
}
