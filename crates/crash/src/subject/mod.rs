//! Workloads of the explorer, each chosen by a text. [`expand`] turns a text into complete ones,
//! which depend on no file, because a reproduction line has only such a text to make the workload
//! from.
//!
//! | text | what runs |
//! |---|---|
//! | `script:OPERATIONS`, `@FILE` | a list of operations ([`FileScript`]) |
//! | `known:NAME` | a script of the literature ([`known`]); `known:all` stands for all of them |
//! | `ace:LENGTH,bound=NAME#NUMBER` | one of the bounded enumeration ([`ace`]); without `#NUMBER` all of them, with `every=N` each N-th |
//! | `mix:KEY=VALUE,...` | seeded mixes ([`MixSpec`]) |
//! | `sqlite:KEY=VALUE,...` | SQLite transactions, with the parameters of `varve compare` |
//! | `fsync:KEY=VALUE,...`, `files:KEY=VALUE,...` | the other workloads of `varve compare` |
//! | `mobibench:TEST`, `androbench:TEST`, `pcmark:TEST`, `postmark` | tests of published benchmarks that are one of these workloads |

pub mod ace;
mod compare;
mod error;
pub mod known;
mod mix;
mod script;
mod sqlite;
mod text;
mod words;

pub use error::TextError;
pub use mix::MixSpec;
pub use script::{FileScript, OPS_MAX, Place, TASKS_MAX};

use super::files::FileOracle;
use super::oracle::{Oracle, Subject};
use super::rules::Terms;
use super::run::run_tasks;
use super::{CrashConfig, Script};
use crate::CrashError;
use rig::Mounted;
use rt::Mutex;
use std::fmt;
use std::sync::Arc;
use work::workload::{SpecError, Workload, sets};

/// Tasks that work on files.
pub struct Files {
    /// What the tasks do.
    pub script: Script,
}

impl Subject for Files {
    fn run(
        &self,
        config: &CrashConfig,
        mounted: &Mounted,
    ) -> (Box<dyn Oracle>, Result<(), CrashError>) {
        let logs = Arc::new(Mutex::named("crash logs", Vec::new()));
        let outcome = run_tasks(config, &self.script, mounted, &logs);
        let logs = std::mem::take(&mut *logs.lock());
        let terms = Terms::of(config);
        (Box::new(FileOracle::new(logs, terms)), outcome)
    }
}

/// A workload on files whose operations depend on the seed.
struct Seeded {
    spec: Spec,
}

impl Subject for Seeded {
    fn run(
        &self,
        config: &CrashConfig,
        mounted: &Mounted,
    ) -> (Box<dyn Oracle>, Result<(), CrashError>) {
        let fixed = self.spec.fixed(config.seed);
        let script = fixed.expect("a workload of files").script();
        Files { script }.run(config, mounted)
    }
}

/// A workload as its text says it. The text that it gives ([`fmt::Display`]) is complete: it
/// depends on no file and on no version of the enumeration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Spec {
    /// Lists of operations.
    Script(FileScript),
    /// Seeded mixes.
    Mix(MixSpec),
    /// A workload of `varve compare`.
    Compare(Workload),
}

/// The forms of all texts, for messages.
const KINDS: &str = "script:OPERATIONS, @FILE, known:NAME, ace:LENGTH#NUMBER, mix:KEY=VALUE,..., \
                     sqlite:KEY=VALUE,..., fsync:KEY=VALUE,..., files:KEY=VALUE,..., mobibench:TEST, androbench:TEST, pcmark:TEST, postmark";

impl Spec {
    /// Reads a text.
    ///
    /// # Errors
    /// The text is wrong; line and column say where. Or a file cannot be read.
    pub fn parse(text: &str) -> Result<Spec, TextError> {
        if let Some(path) = text.strip_prefix('@') {
            return of_file(path);
        }
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let columns = kind.chars().count() + 1;
        let spec = match kind {
            "script" => FileScript::parse(rest).map(Spec::Script),
            "known" => known::find(rest).map(Spec::Script),
            "ace" => ace::one(rest).map(Spec::Script),
            "mix" => MixSpec::parse(rest).map(Spec::Mix),
            "sqlite" | "fsync" | "files" => return of_compare(text).map(Spec::Compare),
            set if sets::NAMES.contains(&set) => return of_compare(text).map(Spec::Compare),
            _ => {
                let what = format!("unknown workload `{}`; there is: {KINDS}", head(kind));
                return Err(TextError::at(1, 1, what));
            }
        };
        spec.map_err(|e| e.shifted(columns))
    }

    /// The subject that runs it.
    pub fn subject(&self) -> Box<dyn Subject> {
        let script = match self {
            Spec::Script(script) => script.script(),
            Spec::Mix(mix) => mix.script(),
            Spec::Compare(Workload::Sqlite(spec)) => {
                return Box::new(sqlite::Transactions { spec: spec.clone() });
            }
            Spec::Compare(_) => {
                return Box::new(Seeded { spec: self.clone() });
            }
        };
        Box::new(Files { script })
    }

    /// The operations that run with this seed, for shrinking; `None` if they are not known
    /// beforehand.
    pub fn fixed(&self, seed: u64) -> Option<FileScript> {
        match self {
            Spec::Script(script) => Some(script.clone()),
            Spec::Mix(mix) => mix.fixed(seed),
            Spec::Compare(Workload::Fsync(spec)) => Some(compare::fsync(spec, seed)),
            Spec::Compare(Workload::Files(spec)) => Some(compare::files(spec, seed)),
            Spec::Compare(_) => None,
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spec::Script(script) => write!(f, "script:{script}"),
            Spec::Mix(mix) => mix.fmt(f),
            Spec::Compare(workload) => workload.fmt(f),
        }
    }
}

/// Most transactions of a SQLite workload here: each state is compared with the table after each of
/// them, and all of these are held in memory.
const TRANSACTIONS_MAX: u64 = 10_000;

/// A workload of `varve compare`.
fn of_compare(text: &str) -> Result<Workload, TextError> {
    let workload: Workload = text.parse().map_err(|e: SpecError| {
        let given = match &e {
            SpecError::Name { given, .. }
            | SpecError::Test { given, .. }
            | SpecError::Key { given, .. }
            | SpecError::Value { given, .. } => given.as_str(),
            SpecError::Together(_) => "",
        };
        let before = text.find(given).map_or("", |at| &text[..at]);
        TextError::at(1, before.chars().count() + 1, e.to_string())
    })?;
    if let Some(beside) = workload.background().beside() {
        let what = format!(
            "beside={beside}: it runs as long as the workload, and the explorer cuts lists of operations; leave it out, or use `writer=`"
        );
        let at = text.find("beside").unwrap_or_default();
        return Err(TextError::at(1, at + 1, what));
    }
    if workload.background().aged.percent > 0 {
        let what = "aged=: the explorer begins with a fresh volume; leave it out".to_string();
        let at = text.find("aged").unwrap_or_default();
        return Err(TextError::at(1, at + 1, what));
    }
    let too_large = match &workload {
        Workload::Sqlite(spec) => {
            let all = spec.transactions() + u64::from(spec.prefill);
            (all > TRANSACTIONS_MAX).then(|| {
                format!(
                    "{all} transactions and rows; the explorer takes at most {TRANSACTIONS_MAX} \
                     (set insert, update, delete, prefill)"
                )
            })
        }
        Workload::Fsync(spec) => compare::fsync_too_large(spec),
        Workload::Files(spec) => compare::files_too_large(spec),
        Workload::Bench(_) => {
            Some("a benchmark is no list of operations; the explorer cannot run it".into())
        }
        Workload::Replay(_) | Workload::App(_) => {
            Some("recordings have no model to judge by; the explorer cannot run them".into())
        }
    };
    match too_large {
        Some(what) => Err(TextError::at(1, 1, what)),
        None => Ok(workload),
    }
}

/// Largest script file, bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

fn of_file(path: &str) -> Result<Spec, TextError> {
    let named = |e: TextError| TextError {
        file: path.into(),
        ..e
    };
    let refuse = |what: String| named(TextError::at(1, 1, what));
    let unreadable = |e: std::io::Error| refuse(format!("reading the file: {e}"));
    let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(refuse(format!(
            "the file has {bytes} bytes; at most {FILE_BYTES_MAX} are read"
        )));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    FileScript::parse(&text).map(Spec::Script).map_err(named)
}

/// The first characters of a text, for a message.
fn head(text: &str) -> String {
    text.chars().take(40).collect()
}

/// The subject that a text names.
///
/// # Errors
/// The text is wrong; line and column say where.
pub fn parse(text: &str) -> Result<Box<dyn Subject>, CrashError> {
    Ok(Spec::parse(text)?.subject())
}

/// The workloads that a text stands for, as complete texts: `ace:LENGTH` without a number stands
/// for all of its bound, `known:all` for all scripts of the literature, any other text for itself.
///
/// # Errors
/// As [`parse`].
pub fn expand(text: &str) -> Result<Vec<String>, CrashError> {
    let canonical = |script: FileScript| Spec::Script(script).to_string();
    match text.split_once(':') {
        Some(("ace", rest)) if !rest.contains('#') => {
            let all = ace::all(rest).map_err(|e| e.shifted("ace:".len()))?;
            Ok(all.map(canonical).collect())
        }
        Some(("known", "all")) => {
            let all = known::ALL
                .iter()
                .map(|k| known::find(k.name).map(canonical));
            Ok(all.collect::<Result<_, _>>()?)
        }
        _ => Ok(vec![Spec::parse(text)?.to_string()]),
    }
}

#[cfg(test)]
mod tests;
