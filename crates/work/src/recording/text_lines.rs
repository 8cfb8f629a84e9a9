//! The lines of a text file, read within bounds whatever the file holds.

use super::reading::Reading;
use crate::RunError;
use std::io::{BufRead, Read};

/// Longest line, bytes: a path has at most 4096.
pub(super) const LINE_BYTES_MAX: usize = 16 << 10;
/// Most calls of a recording, because all of them are in memory.
pub(super) const CALLS_MAX: usize = 4_000_000;

/// The error for a recording of more than [`CALLS_MAX`] calls.
pub(super) fn too_many(name: &str) -> RunError {
    RunError::Recording(format!(
        "{name}: more than {CALLS_MAX} calls; cut it into parts"
    ))
}

/// Calls `take` with the number (from 1) and the trimmed text of each line that is not empty.
/// Lines that are too long or no text, and a file that breaks off, are faults.
///
/// # Errors
/// The first error of `take`; with `strict`, the first fault.
pub(super) fn each(
    lines: &mut dyn BufRead,
    strict: bool,
    reading: &mut Reading,
    mut take: impl FnMut(&mut Reading, u64, &str) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = LINE_BYTES_MAX as u64 + 1;
        let number = reading.lines + 1;
        match (&mut *lines).take(limit).read_until(b'\n', &mut line) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(e) => {
                // What was unpacked before the damage of an archive is a recording, too.
                let why = e.to_string();
                return reading.fault(strict, "the file breaks off", number, why.as_bytes());
            }
        }
        reading.lines = number;
        let ended = line.last() == Some(&b'\n');
        if !ended && line.len() > LINE_BYTES_MAX {
            reading.fault(strict, "line too long", number, &line)?;
            if !skip_line(lines) {
                return Ok(());
            }
            continue;
        }
        let text = match std::str::from_utf8(&line) {
            Ok(text) if !text.contains('\0') => text.trim(),
            _ => {
                reading.fault(strict, "not text", number, &line)?;
                continue;
            }
        };
        if !text.is_empty() {
            take(reading, number, text)?;
        }
    }
}

/// Skips the rest of a line; false at the end of the file.
fn skip_line(lines: &mut dyn BufRead) -> bool {
    loop {
        let Ok(buffer) = lines.fill_buf() else {
            return false;
        };
        if buffer.is_empty() {
            return false;
        }
        match buffer.iter().position(|b| *b == b'\n') {
            Some(at) => {
                lines.consume(at + 1);
                return true;
            }
            None => {
                let all = buffer.len();
                lines.consume(all);
            }
        }
    }
}
