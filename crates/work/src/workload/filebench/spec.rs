//! The text form of a model with its changes: `filebench:varmail,scale=1/20,ops=10000`.

use super::define::ENTRIES_MAX;
use super::model::{Model, OPS_MAX, Op, Step};
use super::parse::{self, SECONDS_MAX, Settings};
use crate::RunError;
use crate::workload::values::{SpecError, number, plain_name, text_of};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

macro_rules! personalities {
    ($($name:literal),* $(,)?) => {
        /// The personalities that are built in, as (name, text of the model).
        pub const PERSONALITIES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!($name, ".f"))),)*];
    };
}

personalities![
    "varmail",
    "oltp",
    "fileserver",
    "webserver",
    "webproxy",
    "makedir",
    "removedir",
    "createfile",
    "deletefile",
    "copyfiles",
    "listdir",
];

/// A model, and what is changed in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilebenchSpec {
    source: Source,
    /// Values for variables of the file.
    settings: Settings,
    /// Factor, as a fraction, on numbers of files and directories and on counts that end the run.
    scale: (u32, u32),
    /// Operations after which the run ends.
    ops: Option<u64>,
    /// Seconds after which the run ends, instead of those in the file.
    seconds: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Source {
    /// A built-in personality, as an index into [`PERSONALITIES`].
    BuiltIn(usize),
    /// A file of this name, with its text once it has been read.
    File(String, Option<Arc<str>>),
}

const SCALE_MAX: u64 = 1_000_000;
const SETTINGS_MAX: usize = 100;

impl Default for FilebenchSpec {
    fn default() -> Self {
        FilebenchSpec {
            source: Source::BuiltIn(0),
            settings: Settings::new(),
            scale: (1, 1),
            ops: None,
            seconds: None,
        }
    }
}

impl FilebenchSpec {
    pub(crate) const KEYS: &'static str = "a personality (varmail, oltp, fileserver, webserver, webproxy, makedir, removedir, createfile, \
                                           deletefile, copyfiles, listdir), scale, ops, seconds, file, variables of the file";

    /// The model in a file of this name and text. Characters of the name that would end a parameter
    /// are replaced.
    pub fn of_file(name: &str, text: Arc<str>) -> FilebenchSpec {
        FilebenchSpec {
            source: Source::File(plain_name(name), Some(text)),
            ..FilebenchSpec::default()
        }
    }

    /// Sets one parameter; false if the key is none of its own.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<bool, SpecError> {
        match name {
            "scale" => self.scale = scale(value)?,
            "ops" => self.ops = Some(number(value, 1..=OPS_MAX)?),
            "seconds" => self.seconds = Some(number(value, 1..=SECONDS_MAX)?),
            "file" if !value.is_empty() => self.source = Source::File(value.into(), None),
            // These keys belong to what runs beside the workload, and to the aging before it.
            "writer" | "beside" | "aged" | "overwrites" => return Ok(false),
            _ if value.is_empty() => {
                let found = PERSONALITIES.iter().position(|(own, _)| *own == name);
                let names: Vec<&str> = PERSONALITIES.iter().map(|(own, _)| *own).collect();
                self.source = Source::BuiltIn(found.ok_or_else(|| SpecError::Test {
                    set: "filebench".into(),
                    given: name.into(),
                    valid: names.join(", "),
                })?);
            }
            _ if self.settings.len() < SETTINGS_MAX => {
                // The two variables with a short name of their own.
                let name = match name {
                    "files" => "nfiles",
                    "threads" => "nthreads",
                    other => other,
                };
                self.settings.insert(name.into(), value.into());
            }
            _ => {
                let what = format!("more than {SETTINGS_MAX} variables");
                return Err(SpecError::Together(what));
            }
        }
        Ok(true)
    }

    /// Reads the model, so that what is wrong with it is known before anything runs.
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        match &self.source {
            Source::File(_, None) => Ok(()),
            _ => self
                .model()
                .map(drop)
                .map_err(|e| SpecError::Together(e.to_string())),
        }
    }

    /// Reads the text of a model that is in a file at `path`.
    ///
    /// # Errors
    /// No path is given, or the file cannot be read or is not valid.
    pub fn load(&mut self, path: Option<&Path>) -> Result<(), RunError> {
        let Source::File(name, text @ None) = &mut self.source else {
            return Ok(());
        };
        let Some(path) = path else {
            let what =
                format!("filebench:file={name}: a file of Filebench runs with `varve replay FILE`");
            return Err(RunError::Filebench(what));
        };
        *text = Some(read(path)?);
        self.model().map(drop)
    }

    /// The model with its settings and its scale applied.
    ///
    /// # Errors
    /// The text is not valid, or has not been read.
    pub fn model(&self) -> Result<Model, RunError> {
        let (name, text) = match &self.source {
            Source::BuiltIn(n) => (format!("{}.f", PERSONALITIES[*n].0), PERSONALITIES[*n].1),
            Source::File(name, Some(text)) => (name.clone(), &**text),
            Source::File(name, None) => {
                return Err(RunError::Filebench(format!("{name} was not read")));
            }
        };
        let parsed = parse::parse(text, &self.settings);
        let mut model = parsed.map_err(|e| RunError::Filebench(format!("{name}, {e}")))?;
        scaled(&mut model, self.scale);
        let all: u64 = model
            .filesets
            .iter()
            .map(|set| set.entries + set.leafdirs)
            .sum();
        if all > ENTRIES_MAX {
            let what = format!("{name}: {all} files and directories; at most {ENTRIES_MAX}");
            return Err(RunError::Filebench(what));
        }
        model.seconds = self.seconds.or(model.seconds);
        Ok(model)
    }

    /// Number of operations after which the run ends, if there is a limit.
    pub fn ops(&self) -> Option<u64> {
        self.ops
    }
}

/// Reads a file of Filebench.
///
/// # Errors
/// It cannot be read, is too long, or is no text.
pub fn read(path: &Path) -> Result<Arc<str>, RunError> {
    text_of(path, super::lex::TEXT_MAX).map_err(RunError::Filebench)
}

/// Parses `1/20`, `3` or `1`.
fn scale(text: &str) -> Result<(u32, u32), SpecError> {
    let (a, b) = text.split_once('/').unwrap_or((text, "1"));
    let (a, b) = (number(a, 1..=SCALE_MAX)?, number(b, 1..=SCALE_MAX)?);
    Ok((a as u32, b as u32))
}

/// Multiplies numbers of files and directories, and counts that end the run, by the scale; sizes of
/// files stay.
fn scaled(model: &mut Model, (a, b): (u32, u32)) {
    let times = |n: u64| match n {
        0 => 0,
        n => u64::try_from(u128::from(n) * u128::from(a) / u128::from(b))
            .unwrap_or(u64::MAX)
            .max(1),
    };
    for set in model.filesets.iter_mut().filter(|set| !set.single) {
        (set.entries, set.leafdirs) = (times(set.entries), times(set.leafdirs));
    }
    let threads = model.processes.iter_mut().flat_map(|p| &mut p.threads);
    threads.for_each(|thread| scale_steps(&mut thread.body, &times));
}

fn scale_steps(steps: &mut [Step], times: &dyn Fn(u64) -> u64) {
    for step in steps {
        match step {
            Step::Group { body, .. } => scale_steps(body, times),
            Step::Op(op) if matches!(op.op, Op::FinishOnCount | Op::FinishOnBytes) => {
                if let super::amount::Amount::Fixed(n) = &mut op.value {
                    *n = times(*n);
                }
            }
            Step::Op(_) => {}
        }
    }
}

impl fmt::Display for FilebenchSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::BuiltIn(n) => write!(f, "filebench:{}", PERSONALITIES[*n].0)?,
            Source::File(name, _) => write!(f, "filebench:file={name}")?,
        }
        write!(f, ",scale={}/{}", self.scale.0, self.scale.1)?;
        if let Some(ops) = self.ops {
            write!(f, ",ops={ops}")?;
        }
        if let Some(seconds) = self.seconds {
            write!(f, ",seconds={seconds}")?;
        }
        self.settings
            .iter()
            .try_for_each(|(name, value)| write!(f, ",{name}={value}"))
    }
}
