//! Whether a judge has anything to look at: one whose path is misspelt would be content with every
//! tree.

use super::JudgeSpec;
use super::git::repositories;
use super::glob::Paths;
use super::sqlite::{Databases, databases};
use crate::apply::apply;
use crate::call::{Recording, What};
use crate::tree::{Kind, Tree};
use base::plain::shown;
use std::collections::BTreeSet;

/// Names of files that a message lists.
const LISTED: usize = 8;

/// Whether a tree has what a judge names.
type Has = Box<dyn Fn(&Tree) -> bool>;

/// Succeeds if what the judge names was there at some moment of the recording.
///
/// # Errors
/// It never was; the message says what there was.
pub fn fits(spec: &JudgeSpec, recording: &Recording) -> Result<(), String> {
    let (name, has): (String, Has) = match spec {
        JudgeSpec::Command(_) | JudgeSpec::Server(_) => return Ok(()),
        JudgeSpec::SameOrOld(path) => (format!("same-or-old={path}"), file(path)),
        JudgeSpec::Prefix(path) => (format!("prefix={path}"), file(path)),
        JudgeSpec::Parse(language, paths) => {
            let name = language.name();
            let paths = paths.clone().unwrap_or_else(|| language.paths());
            (format!("parse={name}:{paths}"), any(paths))
        }
        JudgeSpec::Sqlite(Databases::Query(path, _)) => (format!("sqlite={path}"), file(path)),
        JudgeSpec::Sqlite(Databases::All(Some(paths))) => {
            (format!("sqlite={paths}"), any(paths.clone()))
        }
        JudgeSpec::Sqlite(Databases::All(None)) => {
            let has = |tree: &Tree| !databases(tree).is_empty();
            ("sqlite".into(), Box::new(has))
        }
        JudgeSpec::Git(path) => {
            let (name, at) = (
                path.as_ref().map(|path| format!("git={path}")),
                path.clone(),
            );
            let has = move |tree: &Tree| !repositories(at.as_deref(), tree).is_empty();
            (name.unwrap_or_else(|| "git".into()), Box::new(has))
        }
    };
    if ever(recording, &*has) {
        return Ok(());
    }
    let what = match spec {
        JudgeSpec::Git(_) => "repository",
        _ => "file",
    };
    Err(format!(
        "{name}: no such {what} at any time; {}; paths count from the directory of --dir",
        files(recording)
    ))
}

fn file(path: &str) -> Has {
    let path = path.as_bytes().to_vec();
    Box::new(move |tree| {
        let node = tree.find(&path).and_then(|id| tree.node(id));
        node.is_some_and(|node| node.kind == Kind::File)
    })
}

fn any(paths: Paths) -> Has {
    Box::new(move |tree| !paths.files(tree).is_empty())
}

/// Whether a tree of the recording has it. Most have it at the begin or at the end, so these are
/// asked first; between, only a call that gives a name or the first content can bring it.
fn ever(recording: &Recording, has: &dyn Fn(&Tree) -> bool) -> bool {
    if has(&recording.start) || has(&crate::apply::complete(recording)) {
        return true;
    }
    let mut tree = recording.start.clone();
    recording.calls.iter().any(|call| {
        apply(&mut tree, &call.what);
        let brings = match call.what {
            What::Create { .. } | What::Link { .. } | What::Rename { .. } => true,
            What::Write { size_before, .. } => size_before == 0,
            _ => false,
        };
        brings && has(&tree)
    })
}

/// Which files there were, in words.
fn files(recording: &Recording) -> String {
    let listed = |files: BTreeSet<String>, none: &str| {
        let count = files.len();
        let words: Vec<String> = files.into_iter().take(LISTED).collect();
        match count.checked_sub(LISTED).filter(|more| *more > 0) {
            _ if count == 0 => none.to_string(),
            Some(more) => format!("{} and {more} more", words.join(", ")),
            None => words.join(", "),
        }
    };
    let made = recording.calls.iter().filter_map(|call| match &call.what {
        What::Create {
            kind: Kind::File, ..
        } => Some(call.path.clone()),
        What::Rename { .. } | What::Link { .. } => {
            call.path.rsplit_once(", ").map(|(_, to)| to.to_string())
        }
        _ => None,
    });
    let made = listed(made.collect(), "no file");
    let mut before = BTreeSet::new();
    recording.start.walk(&mut |path, _, node| {
        if node.kind == Kind::File {
            before.insert(shown(path));
        }
    });
    match before.is_empty() {
        true => format!("the run made {made}"),
        false => format!(
            "the run made {made}, and before it there was {}",
            listed(before, "")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Tape;
    use super::*;

    fn why(recording: &Recording, spec: &str) -> Option<String> {
        fits(&JudgeSpec::parse(spec).expect(spec), recording).err()
    }

    /// What is named was there at the begin, at the end, or between.
    #[test]
    fn a_judge_of_what_never_was_is_none() {
        let mut tape = Tape::with(&[
            ("old.json", b"{}"),
            ("repo/objects/x", b""),
            ("repo/refs/x", b""),
        ]);
        tape.create("config.tmp", b"SQLite format 3\0");
        tape.rename("config.tmp", "config");
        let recording = &tape.recording;
        for spec in [
            "same-or-old=old.json",
            "same-or-old=config.tmp",
            "prefix=config",
            "parse=json",
            "parse=csv:conf*",
            "sqlite",
            "sqlite=*.tmp",
            "sqlite=config:SELECT 1",
            "git",
            "git=repo",
            "command=true",
            "server=cat",
        ] {
            assert_eq!(why(recording, spec), None, "{spec}");
        }
        let words = "no such file at any time; the run made config, config.tmp, and before it there was old.json, repo/objects/x, repo/refs/x;";
        for spec in [
            "same-or-old=confg",
            "prefix=/etc/passwd",
            "prefix=repo",
            "parse=toml",
            "parse=json:*.jsn",
            "sqlite=x:SELECT 1",
            "sqlite=*.db",
        ] {
            let why = why(recording, spec).expect(spec);
            assert!(why.contains(words), "{why}");
        }
        assert!(
            why(recording, "git=../..")
                .expect("none")
                .contains("git=../..: no such repository")
        );
        let nothing = Tape::with(&[]);
        for spec in ["sqlite", "git", "same-or-old=a"] {
            let why = why(&nothing.recording, spec).expect(spec);
            assert!(why.contains("the run made no file"), "{why}");
        }
    }
}
