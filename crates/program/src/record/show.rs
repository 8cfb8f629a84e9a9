//! A recording as a list for people.

use crate::call::{Attribute, Call, Recording, What};
use std::fmt::Write;

/// All calls, a line each, with number and caller.
pub fn list(recording: &Recording) -> String {
    let mut text = String::new();
    let width = recording.calls.len().to_string().len();
    for (nr, call) in recording.calls.iter().enumerate() {
        let who = match call.who.process {
            0 => String::from("kernel"),
            id if id == call.who.thread => format!("{}[{id}]", call.who.program),
            id => format!("{}[{id}/{}]", call.who.program, call.who.thread),
        };
        // A String takes everything.
        let _ = writeln!(text, "{nr:>width$}  {who:<20} {}", line(call));
    }
    text
}

/// A call as a person would write it.
pub fn line(call: &Call) -> String {
    let path = &call.path;
    match &call.what {
        What::Create { kind, mode, .. } => {
            use crate::tree::Kind;
            let word = match kind {
                Kind::File => "creat",
                Kind::Dir => "mkdir",
                Kind::Symlink(target) => {
                    let target = String::from_utf8_lossy(target);
                    return format!("symlink({target}, {path})");
                }
                Kind::Special(..) => "mknod",
            };
            format!("{word}({path}, {mode:04o})")
        }
        What::CreateUnnamed { mode, .. } => format!("open(O_TMPFILE, {mode:04o})"),
        What::Link { .. } => format!("link({path})"),
        What::Unlink { .. } => format!("unlink({path})"),
        What::Rename { exchange, .. } => match exchange {
            true => format!("rename({path}, RENAME_EXCHANGE)"),
            false => format!("rename({path})"),
        },
        What::Write { offset, data, .. } => {
            format!("write({path}, {} bytes at {offset})", data.len())
        }
        What::Truncate { size, .. } => format!("truncate({path}, {size})"),
        What::Allocate {
            offset, len, zero, ..
        } => match zero {
            true => format!("fallocate({path}, zeros, {len} bytes at {offset})"),
            false => format!("fallocate({path}, {len} bytes at {offset})"),
        },
        What::SetAttribute { attribute, .. } => match attribute {
            Attribute::Mode(mode) => format!("chmod({path}, {mode:04o})"),
            Attribute::Owner(user, group) => format!("chown({path}, {user}, {group})"),
            Attribute::Xattr(name, value) => {
                let name = String::from_utf8_lossy(name);
                match value {
                    Some(value) => format!("setxattr({path}, {name}, {} bytes)", value.len()),
                    None => format!("removexattr({path}, {name})"),
                }
            }
        },
        What::Sync {
            data_only, failed, ..
        } => {
            let word = if *data_only { "fdatasync" } else { "fsync" };
            match failed {
                None => format!("{word}({path})"),
                Some(errno) => format!("{word}({path}) = error {errno}"),
            }
        }
        What::SyncAll => String::from("sync()"),
        What::Acknowledge(text) => format!("acknowledged: {text}"),
    }
}
