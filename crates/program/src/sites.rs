//! Calls and syncs in words, and the places of a program that they come from.
//!
//! A loop makes the same call many times. What is found at one of them is one finding, so calls are
//! of one site if they have the same innermost frame, or, without stacks, the same name and the
//! same path but for numbers in it.

use crate::call::{Attribute, Call, Recording, What};
use crate::tree::{Kind, NodeId};
use base::plain;
use std::fmt;

/// Name of the system call.
pub fn name(what: &What) -> &'static str {
    match what {
        What::Create { kind, .. } => match kind {
            Kind::File => "creat",
            Kind::Dir => "mkdir",
            Kind::Symlink(_) => "symlink",
            Kind::Special(..) => "mknod",
        },
        What::CreateUnnamed { .. } => "open(O_TMPFILE)",
        What::Link { .. } => "link",
        What::Unlink { .. } => "unlink",
        What::Rename { .. } => "rename",
        What::Write { .. } => "write",
        What::Truncate { .. } => "truncate",
        What::Allocate { .. } => "fallocate",
        What::SetAttribute { attribute, .. } => match attribute {
            Attribute::Mode(_) => "chmod",
            Attribute::Owner(..) => "chown",
            Attribute::Xattr(_, Some(_)) => "setxattr",
            Attribute::Xattr(_, None) => "removexattr",
        },
        What::Sync {
            data_only: true, ..
        } => "fdatasync",
        What::Sync { .. } => "fsync",
        What::SyncAll => "sync",
        What::Acknowledge(_) => "acknowledge",
        What::Failed { call, .. } => call.word(),
    }
}

/// A call in words: `rename(db.tmp, db)` in backticks, with its number and who made it.
pub fn call(recording: &Recording, index: usize) -> String {
    let Some(call) = recording.calls.get(index) else {
        return "the end of the recording".into();
    };
    let what = match &call.what {
        What::Acknowledge(text) => {
            let place = call.stack.first().map(|frame| format!(", at {frame}"));
            let place = place.unwrap_or_default();
            let text = plain::line(text);
            return format!("the acknowledgement of `{text}` (call {index}{place})");
        }
        what => format!("`{}({})`", name(what), call.path),
    };
    let who = &call.who;
    if who.process == 0 {
        return format!("{what} (call {index}, write-back of a mapping)");
    }
    let program = if who.program.is_empty() {
        String::new()
    } else {
        format!(" {}", who.program)
    };
    let (process, thread) = (who.process, who.thread);
    let place = call.stack.first().map(|frame| format!(", at {frame}"));
    let place = place.unwrap_or_default();
    format!("{what} (call {index}, process {process}{program}, thread {thread}{place})")
}

/// The site of a call.
pub fn site(call: &Call) -> String {
    let name = name(&call.what);
    if let Some(frame) = call.stack.first() {
        return format!("{name} at {frame}");
    }
    match &call.what {
        What::Acknowledge(text) => {
            format!("acknowledgement {}", without_numbers(&plain::line(text)))
        }
        _ => format!("{name}({})", without_numbers(&call.path)),
    }
}

/// A text with `#` for each number in it.
pub fn without_numbers(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        if !c.is_ascii_digit() {
            plain.push(c);
        } else if !plain.ends_with('#') {
            plain.push('#');
        }
    }
    plain
}

/// A sync that is not in a program, and where it would stand.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Insertion {
    /// Index of the call in front of which it stands; the number of calls: at the end.
    pub before: usize,
    /// File or directory.
    pub node: NodeId,
    /// It is an fdatasync.
    pub data_only: bool,
    /// Path of the file or directory.
    pub path: String,
}

impl fmt::Display for Insertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.data_only { "fdatasync" } else { "fsync" };
        write!(f, "{name}({})", self.path)
    }
}
