//! A recording as a list for people.

use crate::call::{Attribute, Call, Recording, What};
use crate::record::error_name;
use crate::sites::name;
use crate::tree::Kind;
use base::plain::{self, shown};
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
        let _ = write!(text, "{nr:>width$}  {who:<20} {}", line(call));
        let place = call.stack.first().map(|frame| format!("  at {frame}"));
        let _ = writeln!(text, "{}", place.unwrap_or_default());
    }
    text
}

/// A call with what it was made with.
pub fn line(call: &Call) -> String {
    let with = match &call.what {
        What::Acknowledge(text) => return format!("acknowledged: {}", plain::line(text)),
        What::Create {
            kind: Kind::Symlink(target),
            ..
        } => {
            return format!("symlink({}) -> {}", call.path, shown(target));
        }
        What::Create { mode, .. } | What::CreateUnnamed { mode, .. } => format!(", {mode:04o}"),
        What::Rename { exchange: true, .. } => String::from(", RENAME_EXCHANGE"),
        What::Write { offset, data, .. } => format!(", {} bytes at {offset}", data.len()),
        What::Truncate { size, .. } => format!(", {size}"),
        What::Allocate {
            offset, len, zero, ..
        } => {
            let zero = if *zero { ", zeros" } else { "" };
            format!("{zero}, {len} bytes at {offset}")
        }
        What::SetAttribute { attribute, .. } => match attribute {
            Attribute::Mode(mode) => format!(", {mode:04o}"),
            Attribute::Owner(user, group) => format!(", {user}, {group}"),
            Attribute::Xattr(name, value) => {
                let name = shown(name);
                let bytes = value
                    .as_ref()
                    .map(|value| format!(", {} bytes", value.len()));
                format!(", {name}{}", bytes.unwrap_or_default())
            }
        },
        What::Failed { len, offset, .. } if *len > 0 => format!(", {len} bytes at {offset}"),
        _ => String::new(),
    };
    let failed = call.what.failure();
    let failed = failed.map(|error| format!(" = {}", error_name(error)));
    format!(
        "{}({}{with}){}",
        name(&call.what),
        call.path,
        failed.unwrap_or_default()
    )
}
