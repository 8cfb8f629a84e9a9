//! The values in the text of a workload, and what is wrong with one.
//!
//! Every workload reads its parameters by these functions, so that one form of value means the same
//! everywhere and an error names what would be valid.

use base::UnknownWord;
use base::size::{Bare, within};
use std::fs::File;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use thiserror::Error;

/// Why a workload text is not valid.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SpecError {
    /// There is no workload of that name.
    #[error("unknown workload `{given}`; there is: {valid}")]
    Name {
        /// What was given.
        given: String,
        /// What would be valid.
        valid: String,
    },
    /// The set of published benchmarks has no test of that name.
    #[error("the first word behind `{set}:` names a test; `{given}` is none, there is: {valid}")]
    Test {
        /// The set.
        set: String,
        /// What was given.
        given: String,
        /// What would be valid.
        valid: String,
    },
    /// The workload has no parameter of that name.
    #[error("workload `{workload}` has no parameter `{given}`; it has: {valid}")]
    Key {
        /// The workload.
        workload: String,
        /// What was given.
        given: String,
        /// What would be valid.
        valid: String,
    },
    /// The value is not valid for its parameter.
    #[error("`{given}` is not a valid value here; valid: {valid}")]
    Value {
        /// What was given.
        given: String,
        /// What would be valid.
        valid: String,
    },
    /// The parameters do not fit together, for this reason.
    #[error("{0}")]
    Together(String),
}

impl From<UnknownWord> for SpecError {
    fn from(unknown: UnknownWord) -> SpecError {
        SpecError::Value {
            given: unknown.given,
            valid: unknown.valid.join(", "),
        }
    }
}

/// The name of a file as the value of a parameter: signs that would end one are replaced.
pub(super) fn plain_name(name: &str) -> String {
    let plain = |c: char| match c {
        c if c.is_whitespace() || c.is_control() => '_',
        ',' | '=' | ':' | ';' => '_',
        c => c,
    };
    name.chars().map(plain).collect()
}

/// The text of a file of at most `most` bytes; one byte more is read, so that its parser refuses
/// what is longer. The error names the file.
pub(super) fn text_of(path: &Path, most: usize) -> Result<Arc<str>, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let file = File::open(path).map_err(|e| format!("{name}: cannot be opened: {e}"))?;
    let mut bytes = Vec::new();
    let read = file.take(most as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|e| format!("{name}: cannot be read: {e}"))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{name}: is no text (UTF-8)"))?;
    Ok(text.into())
}

/// The error for an unknown parameter.
pub(super) fn key(workload: &str, given: &str, valid: &str) -> SpecError {
    SpecError::Key {
        workload: workload.into(),
        given: given.into(),
        valid: valid.into(),
    }
}

pub(super) fn switch(text: &str) -> Result<bool, SpecError> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(SpecError::Value {
            given: text.into(),
            valid: "on, off".into(),
        }),
    }
}

pub(super) fn number(text: &str, range: RangeInclusive<u64>) -> Result<u64, SpecError> {
    let parsed = text.parse().ok().filter(|n| range.contains(n));
    parsed.ok_or_else(|| SpecError::Value {
        given: text.into(),
        valid: format!("a whole number from {} to {}", range.start(), range.end()),
    })
}

/// Parses bytes, as [`base::size`] reads them.
pub(super) fn size(text: &str, range: RangeInclusive<u64>) -> Result<u64, SpecError> {
    let (least, most) = (size_text(*range.start()), size_text(*range.end()));
    within(text, Bare::Bytes, range).map_err(|_| SpecError::Value {
        given: text.into(),
        valid: format!("bytes from {least} to {most}, as 512, 4k or 16m"),
    })
}

/// The shortest text that [`size`] reads as `bytes`.
pub(super) fn size_text(bytes: u64) -> String {
    match bytes {
        n if n > 0 && n.is_multiple_of(1 << 20) => format!("{}m", n >> 20),
        n if n > 0 && n.is_multiple_of(1 << 10) => format!("{}k", n >> 10),
        n => n.to_string(),
    }
}
