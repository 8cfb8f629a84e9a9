//! Profiles as files of their users: where a device string names one, what is wrong in it by line
//! and field, and the commented text from which one begins.
//!
//! A profile is read into the struct of its kind and not through the tagged enum, because serde
//! keeps the values of a tagged enum aside and forgets the lines on which they stood.

use super::{Kind, Profile, ProfileError, overrides};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
#[expect(
    clippy::disallowed_types,
    reason = "it is filled once, before the first profile is opened, and nothing waits for it"
)]
use std::sync::OnceLock;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The longest file that is read: a profile has some kilobytes, so a larger file is no profile.
const BYTES_MAX: u64 = 1 << 20;

/// The kinds of devices, as `kind` has them.
const KINDS: &str = "plain, emmc, raw or nvme";

/// Files that this process was given by their content ([`Profile::supply`]).
#[expect(
    clippy::disallowed_types,
    reason = "it is filled once, before the first profile is opened, and nothing waits for it"
)]
static SUPPLIED: OnceLock<BTreeMap<String, String>> = OnceLock::new();

/// Whether the name in a device string means a file: it ends in `.toml` or has a slash.
pub(super) fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml")
}

/// The text of the file at `path`.
///
/// # Errors
/// There is no such file, it is not a regular one (each worker process reads it again), too long,
/// or not UTF-8.
pub(super) fn read(path: &str) -> Result<String, ProfileError> {
    if let Some(text) = SUPPLIED.get().and_then(|files| files.get(path)) {
        return Ok(text.clone());
    }
    let file = |why: String| ProfileError::File {
        path: path.into(),
        why,
    };
    let found = std::fs::metadata(path).map_err(|e| file(e.to_string()))?;
    if !found.is_file() {
        return Err(file("it is no regular file".into()));
    }
    if found.len() > BYTES_MAX {
        let why = format!("it has {} bytes; a profile has a MiB at most", found.len());
        return Err(file(why));
    }
    std::fs::read_to_string(Path::new(path)).map_err(|e| file(e.to_string()))
}

/// The values of a profile's text.
///
/// # Errors
/// Not TOML, or a field is missing, unknown or of a wrong type: line, what stands there, rule.
pub(super) fn kind(text: &str) -> Result<Kind, String> {
    #[derive(Deserialize)]
    struct Head {
        kind: Spanned<String>,
    }
    let head: Head = toml::from_str(text).map_err(|e| at_line(text, &e))?;
    let rest = blanked(text, head.kind.span());
    let read = match head.kind.get_ref().as_str() {
        "plain" => toml::from_str(&rest).map(Kind::Plain),
        "emmc" => toml::from_str(&rest).map(Kind::Emmc),
        "raw" => toml::from_str(&rest).map(Kind::Raw),
        "nvme" => toml::from_str(&rest).map(Kind::Nvme),
        other => {
            let line = line_of(text, head.kind.span().start);
            return Err(format!("line {line}: kind = {other:?}; it may be {KINDS}"));
        }
    };
    read.map_err(|e| at_line(text, &e))
}

/// `text` with spaces in place of the assignment whose value is `value`, so that lines stay.
fn blanked(text: &str, value: Range<usize>) -> String {
    let begin = text[..value.start].rfind('\n').map_or(0, |at| at + 1);
    let mut rest = text.to_string();
    rest.replace_range(begin..value.end, &" ".repeat(value.end - begin));
    rest
}

/// A message of the parser with the line that it is about.
fn at_line(text: &str, error: &toml::de::Error) -> String {
    const SHOWN: usize = 80;
    let at = error.span().map_or(0, |span| span.start);
    let line = line_of(text, at);
    let what = text.lines().nth(line - 1).unwrap_or_default().trim();
    let what: String = what
        .chars()
        .filter(|c| !c.is_control())
        .take(SHOWN)
        .collect();
    let why = error.message().split_whitespace().collect::<Vec<_>>();
    format!("line {line}: `{what}`: {}", in_words(&why.join(" ")))
}

/// A message of the reader, whose words are those of a programming language, in words for who
/// writes a profile.
fn in_words(why: &str) -> String {
    let wanted = why.rsplit_once(", expected ").map(|(_, wanted)| wanted);
    let whole = |bits: u32| format!("a whole number from 0 to {}", u64::MAX >> (64 - bits));
    let what = match wanted {
        Some("f32" | "f64") => "a number".into(),
        Some("u8") => whole(8),
        Some("u16") => whole(16),
        Some("u32") => whole(32),
        Some("u64" | "usize") => "a whole number from 0 on".into(),
        Some("a boolean") => "true or false".into(),
        Some("a string") => "a text in quotation marks".into(),
        _ if why.starts_with("unknown ") => {
            return why
                .replace("unknown variant", "unknown choice")
                .replace(", expected one of", "; there are")
                .replace(", expected", "; there is");
        }
        _ => return why.into(),
    };
    format!("it must be {what}")
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text[..at].matches('\n').count()
}

/// Where the value of the field `path` stands in `text`.
fn place(text: &str, path: &str) -> Option<Range<usize>> {
    let table = DeTable::parse(text).ok()?;
    inside(table.get_ref(), path)
}

fn inside(table: &DeTable<'_>, path: &str) -> Option<Range<usize>> {
    match path.split_once('.') {
        None => table.get(path).map(Spanned::span),
        Some((group, rest)) => match table.get(group)?.get_ref() {
            DeValue::Table(inner) => inside(inner, rest),
            _ => None,
        },
    }
}

/// The error of a check with the line of the field with which its text begins.
pub(super) fn located(text: &str, error: ProfileError) -> ProfileError {
    let (profile, what) = match error {
        ProfileError::Invalid { profile, what } => (profile, what),
        ProfileError::UnknownTiming {
            profile,
            name,
            valid,
        } => (
            profile,
            format!("default_timing = {name:?}; it may be {valid}"),
        ),
        other => return other,
    };
    let field = what.split([' ', ':', '=']).next().unwrap_or_default();
    let what = match place(text, field) {
        Some(span) => format!("line {}: {what}", line_of(text, span.start)),
        None => what,
    };
    ProfileError::Invalid { profile, what }
}

impl Profile {
    /// The device that a user names: `NAME[,FIELD=VALUE...]` as [`Profile::parse`] reads it, or the
    /// path of a profile's file in place of the name, where it ends in `.toml` or has a slash. Only
    /// for what comes from a command line: a saved device must not open files of the host.
    ///
    /// # Errors
    /// As [`Profile::parse`]; of a file its path, and line, field and rule of what is wrong.
    pub fn open(device: &str) -> Result<Profile, ProfileError> {
        let (name, changes) = overrides::split(device);
        if !is_path(name) {
            return Profile::parse(device);
        }
        let whole = Profile::changed(name, &read(name)?, &changes);
        whole.map_err(|error| match error {
            error @ ProfileError::File { .. } => error,
            error => ProfileError::File {
                path: name.into(),
                why: error.to_string(),
            },
        })
    }

    /// The file that a device string names, if it names one.
    pub fn file_of(device: &str) -> Option<&str> {
        Some(overrides::split(device).0).filter(|name| is_path(name))
    }

    /// Gives this process the texts of files, by the names with which device strings name them:
    /// from here on they are not looked for on the host. A worker of a campaign judges the device
    /// that was planned with, also where its host does not have the file, or has another one.
    /// Called once, before the first profile is opened.
    ///
    /// # Panics
    /// Files were supplied before.
    pub fn supply(files: BTreeMap<String, String>) {
        let again = SUPPLIED.set(files).is_err();
        assert!(!again, "files are supplied once for a process");
    }

    /// The commented text of the profile of a device string, with its changes in it.
    /// [`Profile::from_toml`] makes the profile of it that [`Profile::open`] makes of `device`.
    ///
    /// # Errors
    /// As [`Profile::open`].
    pub fn text_of(device: &str) -> Result<String, ProfileError> {
        let (name, changes) = overrides::split(device);
        Profile::open(device)?;
        let mut text = match is_path(name) {
            true => read(name)?,
            false => Profile::text(name)?.to_string(),
        };
        for change in changes {
            let invalid = |what| ProfileError::Invalid {
                profile: name.into(),
                what,
            };
            let mut table: toml::Table =
                toml::from_str(&text).map_err(|e| ProfileError::Syntax(e.to_string()))?;
            let (path, value) = overrides::apply(&mut table, change).map_err(invalid)?;
            let span = place(&text, &path).expect("a field that was changed stands in the text");
            text.replace_range(span, &value.to_string());
        }
        Ok(text)
    }
}
