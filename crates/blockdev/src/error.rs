//! Errors of devices.

use base::Lba;
use std::fmt;

/// What kind of error it is, for control flow; the rest of [`DevError`] is for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DevErrorKind {
    /// The power was cut: every request fails from now on.
    PowerLost,
    /// The device failed the request (uncorrectable read, program failure, host I/O error).
    Io,
    /// The request is not legal: out of range, misaligned, unsupported.
    Misuse,
}

/// A failed request: what failed, where, why.
#[derive(Clone, Debug)]
pub struct DevError {
    /// The kind, for control flow.
    pub kind: DevErrorKind,
    /// First sector concerned, if any.
    pub at: Option<Lba>,
    /// What happened, in words.
    pub why: String,
}

impl DevError {
    /// The answer of a device without power.
    pub fn power_lost() -> DevError {
        DevError {
            kind: DevErrorKind::PowerLost,
            at: None,
            why: "the device has lost its power".into(),
        }
    }
    /// An I/O error at `at`.
    pub fn io(at: Lba, why: impl Into<String>) -> DevError {
        DevError {
            kind: DevErrorKind::Io,
            at: Some(at),
            why: why.into(),
        }
    }
    /// The error for a request that must not be made.
    pub fn misuse(at: Option<Lba>, why: impl Into<String>) -> DevError {
        DevError {
            kind: DevErrorKind::Misuse,
            at,
            why: why.into(),
        }
    }
}

impl fmt::Display for DevError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "device error at sector {at}: {}", self.why),
            None => write!(f, "device error: {}", self.why),
        }
    }
}

impl std::error::Error for DevError {}
