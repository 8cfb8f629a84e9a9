//! Parses the lines of a Mobibench recording into calls on descriptors. Calls that failed or moved
//! nothing are kept, because the rules conclude from them, too.

use crate::RunError;
use crate::recording::paths::normal;
use crate::recording::reading::Reading;
use crate::recording::text_lines::{self, CALLS_MAX, too_many};
use std::collections::BTreeMap;
use std::io::BufRead;

/// Largest offset: what follows it must still be a legal one.
const OFFSET_MAX: u64 = i64::MAX as u64 >> 1;

/// A call as its line has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Raw {
    pub thread: u32,
    /// When it was made, microseconds.
    pub us: u64,
    pub call: Said,
}

/// What a line says that was called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Said {
    Open {
        path: Path,
        flags: Flags,
        /// The new descriptor; `None`: the open failed.
        fd: Option<u32>,
    },
    Close(u32),
    Read(u32, Range),
    Write(u32, Range),
    Sync {
        fd: u32,
        data_only: bool,
    },
    Truncate {
        fd: u32,
        size: u64,
    },
    Fstat(u32),
    /// `access`, `stat` or `lstat`: asks whether a name is there.
    Probe {
        path: Path,
        found: bool,
    },
    Unlink(Path),
    Rename(Path, Path),
    Mkdir(Path),
    Rmdir(Path),
    /// A call on this descriptor that failed or moved nothing.
    Nothing(Option<u32>),
}

/// Offset and length; without an offset the call goes on where the last one ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub offset: Option<u64>,
    pub bytes: u32,
}

/// How much of a path was recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Path {
    /// The whole path.
    Known(String),
    /// An absolute path without quotes: made up by the recorder (mobibench-M1), or known.
    Bare(String),
    /// The beginning of a path only, as `data/data`.
    Lost(String),
}

/// Flags of an open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Flags {
    pub create: bool,
    pub exclusive: bool,
    pub truncate: bool,
    pub append: bool,
    pub write_only: bool,
    pub read_only: bool,
    pub directory: bool,
}

/// True if the line is a call in this format.
pub fn is_call(line: &str) -> bool {
    parse(line).is_ok()
}

/// Reads all calls and orders them by time; ties keep the order of the file.
pub(super) fn read(
    lines: &mut dyn BufRead,
    strict: bool,
    reading: &mut Reading,
) -> Result<Vec<Raw>, RunError> {
    let mut calls: Vec<Raw> = Vec::new();
    let mut threads: BTreeMap<u32, u64> = BTreeMap::new();
    text_lines::each(lines, strict, reading, |reading, number, text| {
        let raw = match parse(text) {
            Ok(raw) => raw,
            Err(kind) => return reading.fault(strict, kind, number, text.as_bytes()),
        };
        let last = threads.entry(raw.thread).or_default();
        if raw.us < *last {
            // The call is put where its time says.
            let kind = "time goes back in a thread";
            reading.fault(strict, kind, number, text.as_bytes())?;
        }
        *last = raw.us.max(*last);
        push(&mut calls, raw, reading)
    })?;
    calls.sort_by_key(|raw| raw.us);
    reading.threads = threads.len();
    if let (Some(first), Some(last)) = (calls.first(), calls.last()) {
        reading.seconds = (last.us - first.us) as f64 / 1e6;
    }
    Ok(calls)
}

fn push(calls: &mut Vec<Raw>, raw: Raw, reading: &Reading) -> Result<(), RunError> {
    if calls.len() == CALLS_MAX {
        return Err(too_many(&reading.name));
    }
    calls.push(raw);
    Ok(())
}

const BROKEN: &str = "broken line";

/// Parses one line; the error says what is wrong with it.
fn parse(line: &str) -> Result<Raw, &'static str> {
    let mut words = line.split_ascii_whitespace();
    let mut word = || words.next().ok_or(BROKEN);
    let thread = word()?.parse().map_err(|_| BROKEN)?;
    let us: u64 = word()?.parse().map_err(|_| BROKEN)?;
    if us > OFFSET_MAX / 1000 {
        return Err(BROKEN);
    }
    let call = word()?;
    if !call.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err(BROKEN);
    }
    let rest: Vec<&str> = words.collect();
    let call = said(call, &rest)?;
    Ok(Raw { thread, us, call })
}

fn said(call: &str, args: &[&str]) -> Result<Said, &'static str> {
    match (call, args) {
        ("open", [path @ .., flags, fd]) => Ok(Said::Open {
            path: path_of(path)?,
            flags: flags_of(flags),
            fd: descriptor(fd)?,
        }),
        ("close", [fd] | [fd, _]) => with(fd, Said::Close),
        ("read", [fd, bytes]) => moved(fd, None, bytes, Said::Read),
        ("write", [fd, bytes]) => moved(fd, None, bytes, Said::Write),
        ("pread" | "pread64", [fd, at, bytes]) => moved(fd, Some(at), bytes, Said::Read),
        ("pwrite" | "pwrite64", [fd, at, bytes]) => moved(fd, Some(at), bytes, Said::Write),
        ("fsync" | "fdatasync", [fd] | [fd, _]) => {
            let data_only = call == "fdatasync";
            done(args.get(1), || with(fd, |fd| Said::Sync { fd, data_only }))
        }
        ("ftruncate" | "ftruncate64", [fd, size] | [fd, size, _]) => {
            let size = offset(size)?;
            done(args.get(2), || with(fd, |fd| Said::Truncate { fd, size }))
        }
        ("fstat" | "fstat64", [fd] | [fd, _]) => with(fd, Said::Fstat),
        ("access" | "stat" | "stat64" | "lstat" | "lstat64", [path @ .., result]) => {
            let found = number(result)? == 0;
            Ok(Said::Probe {
                path: path_of(path)?,
                found,
            })
        }
        ("unlink", [path @ .., result]) => {
            let path = path_of(path)?;
            done(Some(result), || Ok(Said::Unlink(path)))
        }
        ("rename", [from, to] | [from, to, _]) => {
            let (from, to) = (path_of(&[from])?, path_of(&[to])?);
            done(args.get(2), || Ok(Said::Rename(from, to)))
        }
        ("mkdir" | "rmdir", [path @ .., result]) => {
            let path = path_of(path)?;
            let made = match call {
                "mkdir" => Said::Mkdir(path),
                _ => Said::Rmdir(path),
            };
            done(Some(result), || Ok(made))
        }
        (
            "open" | "close" | "read" | "write" | "pread" | "pread64" | "pwrite" | "pwrite64"
            | "fsync" | "fdatasync" | "ftruncate" | "ftruncate64" | "fstat" | "fstat64" | "access"
            | "stat" | "stat64" | "lstat" | "lstat64" | "unlink" | "rename" | "mkdir" | "rmdir",
            _,
        ) => Err(BROKEN),
        _ => Err("unknown call"),
    }
}

fn number(text: &str) -> Result<i64, &'static str> {
    text.parse().map_err(|_| BROKEN)
}

fn offset(text: &str) -> Result<u64, &'static str> {
    match number(text)? {
        n if n < 0 => Err("negative offset or size"),
        n if n as u64 > OFFSET_MAX => Err("offset or size too large"),
        n => Ok(n as u64),
    }
}

/// Parses a descriptor; `None` for -1, which marks a failed open.
fn descriptor(text: &str) -> Result<Option<u32>, &'static str> {
    match number(text)? {
        n if n < 0 => Ok(None),
        n => u32::try_from(n).map(Some).map_err(|_| BROKEN),
    }
}

fn with(fd: &str, said: impl FnOnce(u32) -> Said) -> Result<Said, &'static str> {
    Ok(descriptor(fd)?.map_or(Said::Nothing(None), said))
}

/// `said`, unless the result says that the call failed.
fn done(
    result: Option<&&str>,
    said: impl FnOnce() -> Result<Said, &'static str>,
) -> Result<Said, &'static str> {
    match result {
        Some(result) if number(result)? != 0 => Ok(Said::Nothing(None)),
        _ => said(),
    }
}

fn moved(
    fd: &str,
    at: Option<&&str>,
    bytes: &str,
    said: impl FnOnce(u32, Range) -> Said,
) -> Result<Said, &'static str> {
    let offset = at.map(|at| offset(at)).transpose()?;
    let bytes = match number(bytes)? {
        // -1 marks a call that failed; no other result is below 0.
        -1 | 0 => return with(fd, |fd| Said::Nothing(Some(fd))),
        n if n < 0 => return Err("negative offset or size"),
        n => u32::try_from(n).map_err(|_| "offset or size too large")?,
    };
    with(fd, |fd| said(fd, Range { offset, bytes }))
}

fn flags_of(text: &str) -> Flags {
    let mut flags = Flags::default();
    for flag in text.split('|') {
        match flag {
            "O_CREAT" => flags.create = true,
            "O_EXCL" => flags.exclusive = true,
            "O_TRUNC" => flags.truncate = true,
            "O_APPEND" => flags.append = true,
            "O_WRONLY" => flags.write_only = true,
            "O_RDONLY" => flags.read_only = true,
            "O_DIRECTORY" => flags.directory = true,
            _ => {}
        }
    }
    flags
}

/// Parses a path. It may hold blanks, so it extends over all words between the call and the last
/// arguments.
fn path_of(words: &[&str]) -> Result<Path, &'static str> {
    let text = words.join(" ");
    if text.is_empty() {
        return Err(BROKEN);
    }
    let quoted = text.starts_with('"');
    let inner = text.trim_matches('"');
    if !inner.starts_with('/') {
        return Ok(Path::Lost(normal(inner)?.trim_matches('/').to_string()));
    }
    let path = normal(inner)?;
    Ok(match quoted {
        true => Path::Known(path),
        false => Path::Bare(path),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(text: &str) -> Result<Said, &'static str> {
        parse(text).map(|raw| raw.call)
    }

    #[test]
    fn lines_are_calls() {
        let raw = parse("7 79121 open \"/a/./b c/../d\" O_RDONLY|O_LARGEFILE 94").unwrap();
        assert_eq!((raw.thread, raw.us), (7, 79121));
        let Said::Open { path, flags, fd } = raw.call else {
            panic!("an open");
        };
        assert_eq!((path, fd), (Path::Known("/a/d".into()), Some(94)));
        assert!(flags.read_only && !flags.create);
        let at = |offset, bytes| Range { offset, bytes };
        assert_eq!(
            call("1 2 pwrite 89 4616 4"),
            Ok(Said::Write(89, at(Some(4616), 4)))
        );
        assert_eq!(call("1 2 read 89 7"), Ok(Said::Read(89, at(None, 7))));
        assert_eq!(call("1 2 read 89 -1"), Ok(Said::Nothing(Some(89))));
        assert_eq!(call("1 2 unlink \"/a\" -1"), Ok(Said::Nothing(None)));
        let lost = Path::Lost("dev/fimg2d".into());
        let opened = call("1 2 open dev/fimg2d\" O_RDWR -1").unwrap();
        assert!(matches!(opened, Said::Open { path, fd: None, .. } if path == lost));
    }

    #[test]
    fn faults_have_names() {
        for (line, kind) in [
            ("hello", BROKEN),
            ("1 x close 3", BROKEN),
            ("1 2 close", BROKEN),
            ("1 2 pwrite 3 4", BROKEN),
            ("1 2 mmap 3 4", "unknown call"),
            ("1 2 pwrite 3 4 -9", "negative offset or size"),
            ("1 2 pwrite 3 -4 9", "negative offset or size"),
            (
                "1 2 pwrite 3 9223372036854775807 9",
                "offset or size too large",
            ),
            ("1 2 write 3 99999999999", "offset or size too large"),
            ("1 99999999999999999 close 3", BROKEN),
        ] {
            assert_eq!(call(line), Err(kind), "{line}");
        }
        let long = format!("1 2 unlink \"/{}\" 0", "n".repeat(256));
        assert_eq!(call(&long), Err("path too long"));
    }
}
