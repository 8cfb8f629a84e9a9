//! What became of each line of a recording that was read.

use crate::RunError;
use serde::Serialize;
use std::collections::BTreeMap;

/// Lines of one kind, with the first of them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Lines {
    /// How many.
    pub count: u64,
    /// Number of the first one in the (unpacked) file, from 1.
    pub line: u64,
    /// The first one, shortened.
    pub example: String,
}

/// What was read, what was skipped and why, what was concluded.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Reading {
    /// Name of the file, without its folder.
    pub name: String,
    /// Name of the format.
    pub format: String,
    /// Lines of the unpacked file.
    pub lines: u64,
    /// Time from the first to the last line, seconds.
    pub seconds: f64,
    /// Threads that made any call.
    pub threads: usize,
    /// Lines that are no calls, or none that the format has: skipped, refused by `--strict`.
    pub faults: BTreeMap<&'static str, Lines>,
    /// Calls that are well formed and do nothing to files: by reason.
    pub left_out: BTreeMap<&'static str, u64>,
    /// How often each rule of the reader decided (see its documentation).
    pub rules: BTreeMap<&'static str, u64>,
}

/// Characters of an example.
const EXAMPLE_CHARS: usize = 80;

impl Reading {
    /// Counts a line that is at fault.
    ///
    /// # Errors
    /// The line, if the reading is strict.
    pub fn fault(
        &mut self,
        strict: bool,
        kind: &'static str,
        line: u64,
        text: &[u8],
    ) -> Result<(), RunError> {
        let example: String = String::from_utf8_lossy(&text[..text.len().min(4 * EXAMPLE_CHARS)])
            .trim()
            .chars()
            .map(|c| if c.is_control() { '?' } else { c })
            .take(EXAMPLE_CHARS)
            .collect();
        if strict {
            let name = &self.name;
            return Err(RunError::Recording(format!(
                "{name}, line {line}: {kind}: {example}"
            )));
        }
        let lines = self.faults.entry(kind).or_default();
        if lines.count == 0 {
            (lines.line, lines.example) = (line, example);
        }
        lines.count += 1;
        Ok(())
    }

    /// Counts a call that is left out.
    pub fn leave_out(&mut self, why: &'static str) {
        *self.left_out.entry(why).or_default() += 1;
    }

    /// Counts a decision.
    pub fn decided(&mut self, rule: &'static str) {
        *self.rules.entry(rule).or_default() += 1;
    }
}
