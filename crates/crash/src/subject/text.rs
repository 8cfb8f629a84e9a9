//! Reads and writes the text of a script, like `create /foo; write /foo 0+4k; fsync /foo`.
//!
//! The model is asked of every operation where it stands, so what parses can run.

use super::error::TextError;
use super::script::{OPS_MAX, TASKS_MAX, begun};
use super::words::{At, Token, Words, write_word};
use crate::model::{State, parent};
use crate::ops::Op;
use std::fmt::{self, Write};
use vfs::{FileKind, NAME_BYTES_MAX};

/// Bytes of the unit in which operations count.
pub(super) const UNIT: u64 = 1;
/// Most bytes of a file, because the model keeps every sector of it.
pub(super) const FILE_MAX: u64 = 64 << 20;
/// Most bytes of a path; the directory of the task needs the rest of what a path may have.
const PATH_MAX: usize = 4000;
/// Longest pause, ns.
const PAUSE_MAX: u64 = 3600 * 1_000_000_000;

/// A row of the grammar: the word, other words with equal meaning, arguments.
struct Verb {
    word: &'static str,
    also: &'static [&'static str],
    arguments: &'static str,
}

const fn verb(word: &'static str, also: &'static [&'static str], arguments: &'static str) -> Verb {
    Verb {
        word,
        also,
        arguments,
    }
}

const VERBS: &[Verb] = &[
    verb("create", &["creat", "touch"], "PATH"),
    verb("write", &["mmapwrite"], "PATH FROM+LENGTH"),
    verb("truncate", &[], "PATH SIZE"),
    verb("falloc", &["fallocate"], "PATH FROM+LENGTH [keep]"),
    verb("setxattr", &[], "PATH NAME VALUE"),
    verb("removexattr", &[], "PATH NAME"),
    verb("rename", &["mv"], "OLD NEW"),
    verb("link", &["ln"], "OLD NEW"),
    verb("symlink", &[], "TARGET PATH"),
    verb("unlink", &["rm"], "PATH"),
    verb("mkdir", &[], "PATH"),
    verb("rmdir", &[], "PATH"),
    verb("chmod", &[], "PATH OCTAL"),
    verb("fsync", &[], "PATH"),
    verb("fdatasync", &[], "PATH"),
    verb("syncdir", &[], "PATH"),
    verb("sync", &[], ""),
    verb("hold", &[], "PATH"),
    verb("pause", &["sleep"], "TIME"),
];

/// The words of all operations, for messages.
fn verbs() -> String {
    let words: Vec<&str> = VERBS.iter().map(|v| v.word).collect();
    words.join(", ")
}

/// Reads a text into lists of operations that are possible one after the other.
pub(super) fn parse(text: &str) -> Result<Vec<Vec<Op>>, TextError> {
    let mut words = Words::new(text);
    let mut tasks = vec![Vec::new()];
    let (mut state, mut count) = (begun(0), 0);
    loop {
        let (statement, end, end_at) = statement(&mut words)?;
        if let Some(((_, at), _)) = statement.split_first() {
            let op = operation(&statement, end_at, &state)?;
            if !state.allows(&op) {
                let place = statement.get(1).map_or(*at, |(_, at)| *at);
                return Err(place.error(why_not(&state, &op)));
            }
            count += 1;
            if count > OPS_MAX {
                return Err(at.error(format!("more than {OPS_MAX} operations")));
            }
            state.apply(&op);
            tasks.last_mut().expect("never empty").push(op);
        }
        match end {
            Token::End => return Ok(tasks),
            Token::Task if tasks.len() == TASKS_MAX => {
                return Err(end_at.error(format!("more than {TASKS_MAX} tasks")));
            }
            Token::Task => {
                state = begun(tasks.len());
                tasks.push(Vec::new());
            }
            _ => {}
        }
    }
}

/// A word and where it begins.
type Word = (String, At);

/// The words up to the next divider, the divider, and where it stands.
fn statement(words: &mut Words<'_>) -> Result<(Vec<Word>, Token, At), TextError> {
    let mut found = Vec::new();
    loop {
        match words.token()? {
            (Token::Word(word), at) => found.push((word, at)),
            (end, at) => return Ok((found, end, at)),
        }
    }
}

/// The arguments of one operation, taken one by one.
struct Arguments<'a> {
    verb: &'static Verb,
    rest: std::slice::Iter<'a, Word>,
    end: At,
}

impl Arguments<'_> {
    fn word(&mut self) -> Result<&Word, TextError> {
        let Verb {
            word, arguments, ..
        } = self.verb;
        let missing = || {
            self.end
                .error(format!("`{word}` takes more: {word} {arguments}"))
        };
        self.rest.next().ok_or_else(missing)
    }

    fn done(&mut self) -> Result<(), TextError> {
        match self.rest.next() {
            None => Ok(()),
            Some((word, at)) => {
                let Verb {
                    word: verb,
                    arguments,
                    ..
                } = self.verb;
                let what = format!(
                    "`{word}` is one too many; it is: {verb} {arguments}, then `;`, `|` or a new line"
                );
                Err(at.error(what))
            }
        }
    }

    /// The optional word `keep`.
    fn keep(&mut self) -> Result<bool, TextError> {
        match self.rest.as_slice().first() {
            None => Ok(false),
            Some((word, _)) if word == "keep" => {
                self.rest.next();
                Ok(true)
            }
            Some((word, at)) => Err(at.error(format!("`{word}`: expected `keep` or nothing"))),
        }
    }

    fn path(&mut self) -> Result<String, TextError> {
        let (word, at) = self.word()?;
        path(word).map_err(|why| at.error(why))
    }

    /// Reads the value of an attribute, which may be empty.
    fn value(&mut self) -> Result<String, TextError> {
        match self.rest.clone().next() {
            Some((word, _)) if word.is_empty() => self.word().map(|(word, _)| word.clone()),
            _ => self.text(),
        }
    }

    fn text(&mut self) -> Result<String, TextError> {
        let (word, at) = self.word()?;
        if word.is_empty() || word.len() > PATH_MAX || word.contains('\0') {
            return Err(at.error(format!("expected 1 to {PATH_MAX} bytes without NUL")));
        }
        Ok(word.clone())
    }

    /// Reads a number of bytes, in units of the model.
    fn size(&mut self) -> Result<u64, TextError> {
        let (word, at) = self.word()?;
        units(word).map_err(|why| at.error(why))
    }

    fn range(&mut self) -> Result<(u64, u64), TextError> {
        let (word, at) = self.word()?;
        let (from, len) = word
            .split_once('+')
            .ok_or_else(|| at.error(format!("`{word}` is not a range, as 0+4k or 512+100")))?;
        let both = units(from).and_then(|from| Ok((from, units(len)?)));
        match both.map_err(|why| at.error(why))? {
            (_, 0) => Err(at.error("a range has at least one byte")),
            (from, len) if (from + len) * UNIT > FILE_MAX => Err(at.error(format!(
                "the range ends beyond {}m, the largest file of a script",
                FILE_MAX >> 20
            ))),
            range => Ok(range),
        }
    }
}

fn operation(statement: &[Word], end: At, state: &State) -> Result<Op, TextError> {
    let ((word, at), rest) = statement.split_first().expect("not empty");
    let named = |v: &&Verb| v.word == word || v.also.contains(&word.as_str());
    let verb = VERBS
        .iter()
        .find(named)
        .ok_or_else(|| at.error(format!("unknown operation `{word}`; there is: {}", verbs())))?;
    let mut arguments = Arguments {
        verb,
        rest: rest.iter(),
        end,
    };
    let op = build(verb.word, &mut arguments)?;
    arguments.done()?;
    let op = match op {
        // The model has two operations where the text has one word, fsync.
        Op::Fsync(path) if kind(state, &path) == Some(FileKind::Dir) => Op::SyncDir(path),
        Op::SyncDir(path) if kind(state, &path) == Some(FileKind::File) => Op::Fsync(path),
        op => op,
    };
    Ok(op)
}

fn build(verb: &str, a: &mut Arguments<'_>) -> Result<Op, TextError> {
    Ok(match verb {
        "create" => Op::Create(a.path()?),
        "write" => {
            let path = a.path()?;
            let (offset, len) = a.range()?;
            Op::Write { path, offset, len }
        }
        "falloc" => {
            let path = a.path()?;
            let (offset, len) = a.range()?;
            Op::Fallocate {
                path,
                offset,
                len,
                keep_size: a.keep()?,
            }
        }
        "setxattr" => Op::SetXattr {
            path: a.path()?,
            name: a.text()?,
            value: a.value()?.into_bytes(),
        },
        "removexattr" => Op::RemoveXattr {
            path: a.path()?,
            name: a.text()?,
        },
        "truncate" => Op::Truncate {
            path: a.path()?,
            size: a.size()?,
        },
        "rename" => Op::Rename {
            from: a.path()?,
            to: a.path()?,
        },
        "link" => Op::Link {
            from: a.path()?,
            to: a.path()?,
        },
        "symlink" => Op::Symlink {
            target: a.text()?,
            to: a.path()?,
        },
        "unlink" => Op::Unlink(a.path()?),
        "mkdir" => Op::Mkdir(a.path()?),
        "rmdir" => Op::Rmdir(a.path()?),
        "chmod" => {
            let path = a.path()?;
            let (word, at) = a.word()?;
            let perm = u16::from_str_radix(word, 8).ok().filter(|p| *p <= 0o7777);
            let perm = perm.ok_or_else(|| {
                at.error(format!("`{word}` is not permission bits, 0 to 7777 octal"))
            })?;
            Op::Chmod { path, perm }
        }
        "fsync" => Op::Fsync(a.path()?),
        "fdatasync" => Op::Fdatasync(a.path()?),
        "syncdir" => Op::SyncDir(a.path()?),
        "sync" => Op::Sync,
        "hold" => Op::Hold(a.path()?),
        "pause" => {
            let (word, at) = a.word()?;
            Op::Pause(nanos(word).map_err(|why| at.error(why))?)
        }
        other => unreachable!("`{other}` stands in the table"),
    })
}

/// A path of the model: empty for the task's directory, otherwise a slash before each component.
fn path(word: &str) -> Result<String, String> {
    let mut path = String::new();
    for name in word.split('/').filter(|name| !name.is_empty()) {
        if name == "." && word.trim_matches('/') == "." {
            break;
        }
        if name == "." || name == ".." {
            return Err(format!("`{word}`: no component may be `.` or `..`"));
        }
        if name.len() > NAME_BYTES_MAX || name.contains('\0') {
            return Err(format!(
                "a name has 1 to {NAME_BYTES_MAX} bytes and no NUL; this one has {}",
                name.len()
            ));
        }
        path.push('/');
        path.push_str(name);
    }
    match (word.is_empty(), path.len() > PATH_MAX) {
        (true, _) => Err("expected a path, as foo or A/foo; `/` is the task's directory".into()),
        (_, true) => Err(format!("a path has at most {PATH_MAX} bytes")),
        _ => Ok(path),
    }
}

/// Reads a number of bytes like `4k`, in units of the model.
fn units(word: &str) -> Result<u64, String> {
    let (digits, unit) = match word.as_bytes().last() {
        Some(b'k') => (&word[..word.len() - 1], 1 << 10),
        Some(b'm') => (&word[..word.len() - 1], 1 << 20),
        _ => (word, 1),
    };
    let all_digits = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let bytes = all_digits.then(|| digits.parse::<u64>().ok()?.checked_mul(unit));
    match bytes.flatten() {
        Some(bytes) if bytes > FILE_MAX => Err(format!("`{word}`: at most {}m", FILE_MAX >> 20)),
        Some(bytes) if !bytes.is_multiple_of(UNIT) => {
            Err(format!("`{word}`: a multiple of {UNIT} bytes is expected"))
        }
        Some(bytes) => Ok(bytes / UNIT),
        None => Err(format!(
            "`{word}` is not a number of bytes, as 512, 4k or 1m"
        )),
    }
}

/// Writes the shortest text that [`units`] reads as this number.
fn write_units(f: &mut dyn Write, units: u64) -> fmt::Result {
    match units * UNIT {
        n if n > 0 && n.is_multiple_of(1 << 20) => write!(f, "{}m", n >> 20),
        n if n > 0 && n.is_multiple_of(1 << 10) => write!(f, "{}k", n >> 10),
        n => write!(f, "{n}"),
    }
}

const TIMES: [(&str, u64); 4] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

fn nanos(word: &str) -> Result<u64, String> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &word[digits.len()..];
    let factor = TIMES.iter().find(|(name, _)| *name == unit);
    let factor = match (unit, factor) {
        ("", _) => Some(1),
        (_, found) => found.map(|(_, factor)| *factor),
    };
    let all_digits = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let nanos = factor
        .filter(|_| all_digits)
        .and_then(|factor| digits.parse::<u64>().ok()?.checked_mul(factor));
    nanos.filter(|n| *n <= PAUSE_MAX).ok_or_else(|| {
        format!("`{word}` is not a time of at most an hour, as 100, 100ns, 5us, 3ms or 6s")
    })
}

fn write_nanos(f: &mut dyn Write, nanos: u64) -> fmt::Result {
    let fits = |(_, factor): &&(&str, u64)| nanos > 0 && nanos.is_multiple_of(*factor);
    match TIMES.iter().rev().find(fits) {
        Some((unit, factor)) => write!(f, "{}{unit}", nanos / factor),
        None => write!(f, "{nanos}ns"),
    }
}

fn write_path(f: &mut dyn Write, path: &str) -> fmt::Result {
    match path {
        "" => f.write_char('/'),
        path => write_word(f, path),
    }
}

fn write_range(f: &mut dyn Write, from: u64, len: u64) -> fmt::Result {
    write_units(f, from)?;
    f.write_char('+')?;
    write_units(f, len)
}

/// Writes an operation as [`parse`] reads it.
pub(super) fn write_op(f: &mut dyn Write, op: &Op) -> fmt::Result {
    let one = |f: &mut dyn Write, verb: &str, path: &str| {
        write!(f, "{verb} ")?;
        write_path(f, path)
    };
    let two = |f: &mut dyn Write, verb: &str, from: &str, to: &str| {
        one(f, verb, from)?;
        f.write_char(' ')?;
        write_path(f, to)
    };
    match op {
        Op::Create(path) => one(f, "create", path),
        Op::Write { path, offset, len } => {
            one(f, "write", path)?;
            f.write_char(' ')?;
            write_range(f, *offset, *len)
        }
        Op::Fallocate {
            path,
            offset,
            len,
            keep_size,
        } => {
            one(f, "falloc", path)?;
            f.write_char(' ')?;
            write_range(f, *offset, *len)?;
            f.write_str(if *keep_size { " keep" } else { "" })
        }
        Op::SetXattr { path, name, value } => {
            one(f, "setxattr", path)?;
            f.write_char(' ')?;
            write_word(f, name)?;
            f.write_char(' ')?;
            write_word(f, &String::from_utf8_lossy(value))
        }
        Op::RemoveXattr { path, name } => {
            one(f, "removexattr", path)?;
            f.write_char(' ')?;
            write_word(f, name)
        }
        Op::Truncate { path, size } => {
            one(f, "truncate", path)?;
            f.write_char(' ')?;
            write_units(f, *size)
        }
        Op::Rename { from, to } => two(f, "rename", from, to),
        Op::Link { from, to } => two(f, "link", from, to),
        Op::Symlink { target, to } => {
            f.write_str("symlink ")?;
            write_word(f, target)?;
            f.write_char(' ')?;
            write_path(f, to)
        }
        Op::Unlink(path) => one(f, "unlink", path),
        Op::Mkdir(path) => one(f, "mkdir", path),
        Op::Rmdir(path) => one(f, "rmdir", path),
        Op::Chmod { path, perm } => {
            one(f, "chmod", path)?;
            write!(f, " {perm:o}")
        }
        Op::Fsync(path) => one(f, "fsync", path),
        Op::Fdatasync(path) => one(f, "fdatasync", path),
        Op::SyncDir(path) => one(f, "syncdir", path),
        Op::Sync => f.write_str("sync"),
        Op::Hold(path) => one(f, "hold", path),
        Op::Pause(ns) => {
            f.write_str("pause ")?;
            write_nanos(f, *ns)
        }
    }
}

fn kind(state: &State, path: &str) -> Option<FileKind> {
    state.view.get(path).map(|e| e.kind)
}

fn shown(path: &str) -> &str {
    match path {
        "" => "/",
        path => path,
    }
}

/// Why the model does not allow `op` now, and what it expected.
pub(super) fn why_not(state: &State, op: &Op) -> String {
    let what = |path: &str| match kind(state, path) {
        None => "is not there",
        Some(FileKind::Dir) => "is a directory",
        Some(FileKind::Symlink) => "is a symbolic link",
        Some(_) => "is a file",
    };
    let not = |path: &str, expected: &str| {
        format!("`{}` {}; expected {expected}", shown(path), what(path))
    };
    let free = |path: &str| match kind(state, path) {
        Some(_) => not(path, "a name that is free"),
        None => not(parent(path), "a directory to put the new name into"),
    };
    match op {
        Op::Create(path) | Op::Symlink { to: path, .. } | Op::Mkdir(path) => free(path),
        Op::Link { from, .. } if kind(state, from) != Some(FileKind::File) => not(from, "a file"),
        Op::Link { to, .. } => free(to),
        Op::Unlink(path) => not(path, "a file or symbolic link"),
        Op::Rmdir(path) if path.is_empty() => "the task's own directory stays".into(),
        Op::Rmdir(path) | Op::SyncDir(path) => not(path, "an empty directory"),
        Op::Chmod { path, .. } | Op::SetXattr { path, .. } => not(path, "a file or directory"),
        Op::RemoveXattr { path, .. } if kind(state, path).is_none() => not(path, "a file"),
        Op::RemoveXattr { path, name } => format!("`{}` has no attribute `{name}`", shown(path)),
        Op::Rename { from, to } => no_rename(state, from, to, &not),
        Op::Write { path, .. }
        | Op::Truncate { path, .. }
        | Op::Fallocate { path, .. }
        | Op::Fsync(path)
        | Op::Fdatasync(path)
        | Op::Hold(path) => not(path, "a file"),
        Op::Sync | Op::Pause(_) => "not possible here".into(),
    }
}

fn no_rename(state: &State, from: &str, to: &str, not: &dyn Fn(&str, &str) -> String) -> String {
    let (source, target) = (state.view.get(from), state.view.get(to));
    match (source, target) {
        _ if from.is_empty() || to.is_empty() => {
            "the task's own directory cannot be renamed".into()
        }
        (None, _) => not(from, "something to rename"),
        _ if from == to => format!("`{from}` has that name"),
        _ if to.starts_with(&format!("{from}/")) => {
            format!("`{from}` cannot be moved into itself")
        }
        (_, None) => not(parent(to), "a directory to put the new name into"),
        (Some(a), Some(b)) if a.id == b.id => {
            format!("`{from}` and `{to}` are the same file: rename would do nothing")
        }
        (Some(a), _) if a.kind == FileKind::Dir => not(to, "a free name or an empty directory"),
        _ => not(to, "a free name or a file"),
    }
}
