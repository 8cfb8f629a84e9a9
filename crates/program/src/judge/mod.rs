//! Judges: what decides whether a tree is one that the program's user may find.
//!
//! ```text
//! JudgeSpec (a text) --build, once for each worker--> Judge
//!    parse, same-or-old, prefix   look at the tree itself
//!    command, server, sqlite, git look at a folder, which holds one tree after the other
//! ```

pub mod command;
mod content;
pub mod files;
mod fit;
pub mod folder;
mod git;
pub mod glob;
mod holes;
pub mod process;
mod server;
mod sqlite;

use crate::call::Recording;
use crate::state::{Judge, JudgeError, Verdict};
use crate::tree::Tree;
pub use fit::fits;

use command::CommandCheck;
use files::{Language, Parse, Prefix, SameOrOld, Versions};
use folder::{Notes, TreeFolder};
use git::GitCheck;
use glob::Paths;
use process::Patience;
use server::ServerCheck;
use sqlite::{Databases, SqliteCheck};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What judges, as a text names it: [`JudgeSpec::parse`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JudgeSpec {
    /// `command=TEXT`: a shell command for each state.
    Command(String),
    /// `server=TEXT`: a process that is asked line by line.
    Server(String),
    /// `sqlite`, `sqlite=GLOB`, `sqlite=PATH:SELECT ...`.
    Sqlite(Databases),
    /// `git`, `git=PATH`.
    Git(Option<String>),
    /// `parse=json`, `parse=toml`, `parse=csv`, each perhaps with `:GLOB`.
    Parse(Language, Option<Paths>),
    /// `same-or-old=PATH`.
    SameOrOld(String),
    /// `prefix=PATH`.
    Prefix(String),
}

/// The forms of a judge, for messages.
pub const FORMS: &str = "sqlite[=GLOB|=PATH:SELECT ...], git[=PATH], parse=json|toml|csv[:GLOB], same-or-old=PATH, prefix=PATH, command=TEXT, server=TEXT";

impl JudgeSpec {
    /// Reads a text. `:` does as well as `=` behind the first word.
    ///
    /// # Errors
    /// It names no judge; the message has all forms.
    pub fn parse(text: &str) -> Result<JudgeSpec, String> {
        let (name, rest) = match text.find(['=', ':']) {
            Some(at) => (&text[..at], Some(text[at + 1..].trim())),
            None => (text, None),
        };
        let path = |rest: &str| rest.trim_start_matches('/').to_string();
        let spec = match (name.trim(), rest.filter(|rest| !rest.is_empty())) {
            (name, None) if rest.is_some() => {
                return Err(format!(
                    "{text:?}: nothing stands behind `{name}`; judges are: {FORMS}"
                ));
            }
            ("command", Some(text)) => JudgeSpec::Command(text.into()),
            ("server", Some(text)) => JudgeSpec::Server(text.into()),
            ("sqlite", None) => JudgeSpec::Sqlite(Databases::All(None)),
            ("sqlite", Some(rest)) => JudgeSpec::Sqlite(databases(rest)?),
            ("git", at) => JudgeSpec::Git(at.map(path)),
            ("parse", Some(rest)) => {
                let (language, paths) = match rest.split_once(':') {
                    Some((language, paths)) => (language, Some(Paths::parse(paths)?)),
                    None => (rest, None),
                };
                let known = Language::named(language)
                    .ok_or_else(|| format!("parse={language}: json, toml and csv are known"))?;
                JudgeSpec::Parse(known, paths)
            }
            ("same-or-old", Some(at)) => JudgeSpec::SameOrOld(path(at)),
            ("prefix", Some(at)) => JudgeSpec::Prefix(path(at)),
            _ => return Err(format!("{text:?} is no judge; judges are: {FORMS}")),
        };
        Ok(spec)
    }
}

fn databases(rest: &str) -> Result<Databases, String> {
    if let Some((path, query)) = rest.split_once(':') {
        if query.trim().is_empty() {
            return Err(format!("sqlite={rest}: no query stands behind `:`"));
        }
        let first = query.split_whitespace().next().unwrap_or_default();
        if ["select", "with"].contains(&first.to_ascii_lowercase().as_str()) {
            let path = path.trim_start_matches('/').to_string();
            return Ok(Databases::Query(path, query.trim().into()));
        }
    }
    Ok(Databases::All(Some(Paths::parse(rest)?)))
}

impl fmt::Display for JudgeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JudgeSpec::Command(text) => write!(f, "command `{text}`"),
            JudgeSpec::Server(text) => write!(f, "server `{text}`"),
            JudgeSpec::Sqlite(Databases::All(_)) => {
                f.write_str("SQLite's integrity_check and acknowledged rows")
            }
            JudgeSpec::Sqlite(Databases::Query(_, query)) => {
                write!(f, "SQLite's integrity_check and `{query}`")
            }
            JudgeSpec::Git(_) => f.write_str("git fsck and acknowledged commits"),
            JudgeSpec::Parse(language, _) => write!(f, "{language:?} files parse"),
            JudgeSpec::SameOrOld(path) => write!(f, "{path} is wholly old or wholly new"),
            JudgeSpec::Prefix(path) => {
                write!(f, "{path} is a prefix with all that was acknowledged")
            }
        }
    }
}

/// What judges of all kinds need.
#[derive(Clone)]
pub struct Settings {
    /// Where folders for trees are made: [`place`].
    pub place: PathBuf,
    /// How long a judge may take.
    pub patience: Patience,
    /// What is to be told of the folders.
    pub notes: Notes,
}

/// Where trees are best put: `memory` (a tmpfs such as `/dev/shm`) if it has twice the bytes that
/// all folders together may need, otherwise `temp`. Answers true for memory.
pub fn place(memory: &Path, temp: &Path, bytes: u64) -> (PathBuf, bool) {
    let room = rustix::fs::statvfs(memory).map(|fs| fs.f_bavail.saturating_mul(fs.f_frsize));
    // Magic number of tmpfs (statfs(2)).
    let kind = rustix::fs::statfs(memory).map(|fs| fs.f_type as u64);
    let writable = rustix::fs::access(memory, rustix::fs::Access::WRITE_OK).is_ok();
    let fits = kind == Ok(0x0102_1994) && room.is_ok_and(|room| room / 2 >= bytes) && writable;
    match fits {
        true => (memory.into(), true),
        false => (temp.into(), false),
    }
}

/// Makes a judge of all that `specs` name, which is content if all of them are. Without any, every
/// tree that a model could make is good. Whether they [fit](fits) the recording is for the caller
/// to ask.
///
/// # Errors
/// The host has no room for a folder.
pub fn build(
    specs: &[JudgeSpec],
    recording: &Recording,
    settings: &Settings,
) -> Result<Box<dyn Judge>, JudgeError> {
    let mut all = All {
        trees: Vec::new(),
        checks: Vec::new(),
        folder: None,
    };
    let patience = || settings.patience.clone();
    for spec in specs {
        let mut check = |check: Box<dyn Check>| all.checks.push(check);
        match spec.clone() {
            JudgeSpec::Command(text) => check(Box::new(CommandCheck {
                text,
                patience: patience(),
            })),
            JudgeSpec::Server(text) => check(Box::new(ServerCheck::new(text, patience()))),
            JudgeSpec::Sqlite(databases) => check(Box::new(SqliteCheck(databases))),
            JudgeSpec::Git(path) => check(Box::new(GitCheck {
                path,
                patience: patience(),
            })),
            JudgeSpec::Parse(language, paths) => {
                let paths = paths.unwrap_or_else(|| language.paths());
                all.trees.push(Box::new(Parse { language, paths }));
            }
            JudgeSpec::SameOrOld(path) => {
                let versions = Versions::new(recording, &path);
                all.trees.push(Box::new(SameOrOld(versions)));
            }
            JudgeSpec::Prefix(path) => {
                let versions = Versions::of_log(recording, &path);
                all.trees.push(Box::new(Prefix(versions)));
            }
        }
    }
    if !all.checks.is_empty() {
        all.folder = Some(TreeFolder::new(&settings.place, settings.notes.clone())?);
    }
    Ok(Box::new(all))
}

/// A judge that looks at a folder.
pub(crate) trait Check: Send {
    /// Judges what the folder holds, which is `tree`; it may change the folder.
    fn check(
        &mut self,
        folder: &TreeFolder,
        tree: &Tree,
        acknowledged: &[&str],
    ) -> Result<Answer, JudgeError>;
}

/// What a judge says of a folder.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The verdict.
    Verdict(Verdict),
    /// Nothing this time: it has to be asked again, about the same tree put into the folder anew.
    Again,
}

impl From<Verdict> for Answer {
    fn from(verdict: Verdict) -> Answer {
        Answer::Verdict(verdict)
    }
}

/// What a judge that is a program finds in its environment.
fn env(command: &mut Command, folder: &TreeFolder, acknowledged: usize) {
    command.env("VARVE_DIR", folder.path());
    command.env("VARVE_ACKED", folder.acked());
    command.env("VARVE_ACKED_COUNT", acknowledged.to_string());
}

/// Several judges; the first that is not content decides, those that need no folder first.
struct All {
    trees: Vec<Box<dyn Judge>>,
    checks: Vec<Box<dyn Check>>,
    folder: Option<TreeFolder>,
}

impl Judge for All {
    fn judge(&mut self, tree: &Tree, acknowledged: &[&str]) -> Result<Verdict, JudgeError> {
        for judge in &mut self.trees {
            let verdict = judge.judge(tree, acknowledged)?;
            if verdict != Verdict::Good {
                return Ok(verdict);
            }
        }
        let Some(folder) = &mut self.folder else {
            return Ok(Verdict::Good);
        };
        for check in &mut self.checks {
            match verdict(&mut **check, folder, tree, acknowledged)? {
                Verdict::Good => {}
                Verdict::Bad(words) => return Ok(Verdict::Bad(placeless(&words, folder))),
            }
        }
        Ok(Verdict::Good)
    }
}

/// What a check said, without the place of the folder, which is another one in each process: the
/// same tree is told in the same words by all.
fn placeless(words: &str, folder: &TreeFolder) -> String {
    let mut words = words.to_string();
    for (path, name) in [
        (folder.path().to_path_buf(), "$VARVE_DIR"),
        (folder.acked(), "$VARVE_ACKED"),
    ] {
        // Some programs tell the path without links.
        let real = path.canonicalize().ok();
        for path in real.iter().chain([&path]) {
            words = words.replace(&path.display().to_string(), name);
        }
    }
    words
}

/// Asks a judge until it has a verdict, each time about the whole tree: one that gave none may have
/// changed the folder.
fn verdict(
    check: &mut dyn Check,
    folder: &mut TreeFolder,
    tree: &Tree,
    acknowledged: &[&str],
) -> Result<Verdict, JudgeError> {
    loop {
        folder.set(tree, acknowledged)?;
        let answer = check.check(folder, tree, acknowledged);
        folder.put_right()?;
        if let Answer::Verdict(verdict) = answer? {
            return Ok(verdict);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
