//! Reads a recording of block requests from a file: unpacks it, recognises its format by its
//! content, and brings the requests in order.

use super::formats::{Parser, Said, fio_version};
use super::{BlockTrace, Format, LINE_BYTES_MAX, REQUESTS_MAX, Request};
use crate::RunError;
use crate::recording::{self, Reading};
use std::fs::File;
use std::io::{BufRead, Read};
use std::path::Path;

/// Number of lines at the beginning by which a format is recognised.
const HEAD_LINES: usize = 64;

/// Reads a recording of `format`, or of the format that its content shows. Lines at fault are
/// skipped and counted; `strict` refuses the first.
///
/// # Errors
/// The file cannot be read, is in no format that is known here, or holds no request; when `strict`,
/// the first line at fault.
pub fn read(path: &Path, format: Option<Format>, strict: bool) -> Result<BlockTrace, RunError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let file = File::open(path)
        .map_err(|e| RunError::Recording(format!("{name} cannot be opened: {e}")))?;
    read_from(&name, file, format, strict)
}

/// Reads a recording from any reader of bytes.
///
/// # Errors
/// As [`read`].
pub fn read_from(
    name: &str,
    bytes: impl Read,
    format: Option<Format>,
    strict: bool,
) -> Result<BlockTrace, RunError> {
    recording::unpacked(name, bytes, |head, lines| {
        let known = || {
            recording::detect(head).and_then(|format| match format {
                recording::Format::Blocks(format) => Ok(format),
                other => Err(format!("{}, not of block requests", other.words())),
            })
        };
        let format = match format {
            Some(format) => format,
            None => known().map_err(|e| RunError::Recording(format!("{name}: {e}")))?,
        };
        collect(name, lines, format, strict)
    })
}

/// The format of block requests in which a file begins like this, if there is one.
pub fn detect(head: &str) -> Option<Format> {
    let lines = head.lines().map(str::trim).filter(|l| !l.is_empty());
    for (n, line) in lines.take(HEAD_LINES).enumerate() {
        if n == 0 && fio_version(line.as_bytes()).is_some() {
            return Some(Format::Fio);
        }
        let header = line.ends_with(",device,rw_flag,sector,size,timestamp");
        if header {
            return Some(Format::Pixel);
        }
        if line.to_ascii_lowercase().starts_with("timestamp,hostname,") {
            return Some(Format::Msr);
        }
        // Formats that are plain columns of numbers come last, as their lines tell least.
        let guesses = [
            Format::Msr,
            Format::Blkparse,
            Format::Pixel,
            Format::Mqsim,
            Format::Disksim,
        ];
        let fits =
            |format: &Format| Parser::new(*format).line(line.as_bytes()) == Ok(Said::Request);
        if let Some(format) = guesses.into_iter().find(fits) {
            return Some(format);
        }
    }
    None
}

fn collect(
    name: &str,
    lines: &mut dyn BufRead,
    format: Format,
    strict: bool,
) -> Result<BlockTrace, RunError> {
    let mut reading = Reading {
        name: name.into(),
        format: format.word().into(),
        ..Reading::default()
    };
    let mut parser = Parser::new(format);
    let mut preparing = 0;
    let mut line = Vec::new();
    while next_line(lines, strict, &mut reading, &mut line)? {
        let text = line.trim_ascii();
        if text.is_empty() || text.starts_with(b"#") {
            continue;
        }
        match parser.line(text) {
            Ok(Said::Request) => {}
            Ok(Said::LeftOut(why)) => reading.leave_out(why),
            Ok(Said::Mark) => preparing = parser.requests.len(),
            Err(kind) => reading.fault(strict, kind, reading.lines, text)?,
        }
        let held = parser.requests.len() + parser.others.iter().map(Vec::len).sum::<usize>();
        // blocktrace-B3: a file with more requests is refused.
        if held > REQUESTS_MAX {
            return Err(RunError::Recording(format!(
                "{name}: more than {REQUESTS_MAX} requests (line {}); split the file",
                reading.lines
            )));
        }
    }
    let requests = one_kind(&mut parser, &mut reading);
    if requests.is_empty() {
        return Err(RunError::Recording(format!(
            "{name}: there is no request in it that format {format} knows, so there is nothing to replay"
        )));
    }
    let mut trace = BlockTrace {
        name: name.into(),
        format,
        devices: std::mem::take(&mut parser.devices.names),
        preparing: preparing.min(requests.len()),
        requests,
        reading,
    };
    in_order(&mut trace);
    Ok(trace)
}

/// Keeps one kind of event of blkparse (blocktrace-B4).
fn one_kind(parser: &mut Parser, reading: &mut Reading) -> Vec<Request> {
    let [queued, completed] = std::mem::take(&mut parser.others);
    let issued = std::mem::take(&mut parser.requests);
    let mut kinds = [issued, queued, completed];
    let taken = kinds.iter().position(|k| !k.is_empty()).unwrap_or(0);
    let requests = std::mem::take(&mut kinds[taken]);
    let others: usize = kinds.iter().map(Vec::len).sum();
    if others > 0 {
        let rule = [
            "B4 issued ones count",
            "B4 queued ones count",
            "B4 completed ones count",
        ];
        reading.rules.insert(rule[taken], requests.len() as u64);
        *reading
            .left_out
            .entry("the same requests at another step")
            .or_default() += others as u64;
    }
    requests
}

/// Orders the requests by time (blocktrace-B1) and counts times from the first one.
fn in_order(trace: &mut BlockTrace) {
    let first = trace.requests.iter().map(|r| r.at).min().unwrap_or(0);
    trace.requests.iter_mut().for_each(|r| r.at -= first);
    let (before, after) = trace.requests.split_at_mut(trace.preparing);
    for part in [before, after] {
        let back = part.windows(2).filter(|w| w[0].at > w[1].at).count() as u64;
        if back > 0 {
            part.sort_by_key(|r| r.at);
            let rule = "B1 requests earlier than the one before them: sorted by time";
            *trace.reading.rules.entry(rule).or_default() += back;
        }
    }
    let last = trace.requests.iter().map(|r| r.at).max().unwrap_or(0);
    trace.reading.seconds = last as f64 / 1e9;
}

/// Reads the next line; false at the end. A line that is too long is a fault and is skipped.
fn next_line(
    lines: &mut dyn BufRead,
    strict: bool,
    reading: &mut Reading,
    line: &mut Vec<u8>,
) -> Result<bool, RunError> {
    loop {
        line.clear();
        let number = reading.lines + 1;
        let limit = LINE_BYTES_MAX as u64 + 1;
        match (&mut *lines).take(limit).read_until(b'\n', line) {
            Ok(0) => return Ok(false),
            Ok(_) => reading.lines = number,
            Err(e) => {
                let why = e.to_string();
                reading.fault(strict, "the file breaks off", number, why.as_bytes())?;
                return Ok(false);
            }
        }
        if line.len() <= LINE_BYTES_MAX || line.ends_with(b"\n") {
            return Ok(true);
        }
        reading.fault(strict, "lines that are too long", number, line)?;
        loop {
            line.clear();
            let end = (&mut *lines).take(limit).read_until(b'\n', line);
            if !matches!(end, Ok(n) if n > 0) || line.ends_with(b"\n") {
                break;
            }
        }
    }
}
