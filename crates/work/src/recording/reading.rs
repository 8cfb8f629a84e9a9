//! What became of each line of a recording that was read. A reader that guesses or skips says so
//! here, because a recording that lost half its lines unseen would give figures of another
//! application.

use crate::RunError;
use serde::Serialize;
use std::collections::BTreeMap;

/// Lines of one kind: their number and the first of them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Lines {
    /// Number of such lines.
    pub count: u64,
    /// Number of the first one in the (unpacked) file, from 1.
    pub line: u64,
    /// The first one's text, shortened.
    pub example: String,
}

/// What was read, what was skipped and why, and what was concluded.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Reading {
    /// Name of the file, without its folder.
    pub name: String,
    /// Name of the format.
    pub format: String,
    /// Lines of the unpacked file.
    pub lines: u64,
    /// Seconds from the first to the last line.
    pub seconds: f64,
    /// Threads that made any call.
    pub threads: usize,
    /// Lines that are no calls, or none that the format has, by reason. They are skipped, or
    /// refused by `--strict`; a call whose time goes back in its thread is only counted here, and
    /// put where its time says.
    pub faults: BTreeMap<&'static str, Lines>,
    /// Well-formed calls that do nothing to files, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
    /// How often each rule of the reader decided; the reader's documentation explains its rules.
    pub rules: BTreeMap<&'static str, u64>,
}

/// Characters of an example.
const EXAMPLE_CHARS: usize = 80;

impl Reading {
    /// Counts a line that is at fault.
    ///
    /// # Errors
    /// The line is refused, if the reading is strict.
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

    /// Counts a decision by a rule.
    pub fn decided(&mut self, rule: &'static str) {
        *self.rules.entry(rule).or_default() += 1;
    }
}
