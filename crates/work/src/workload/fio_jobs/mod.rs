//! Job files of fio: `varve replay FILE.fio` runs their jobs on each scheme.
//!
//! What fio's options do here, and what is assumed in place of those that are not known, stands in
//! docs/use/fio.md.

mod engine;
mod options;
mod parse;

pub use engine::FioJobs;
pub use parse::{JobFile, is_jobs};

use super::values::{SpecError, plain_name, text_of};
use crate::RunError;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A job file by its name, with its text once it has been read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FioJobsSpec {
    name: String,
    text: Option<Arc<str>>,
}

impl FioJobsSpec {
    pub(super) const KEYS: &'static str = "file";

    /// Reads the job file at `path`.
    ///
    /// # Errors
    /// It cannot be read, or is not valid.
    pub fn of_file(path: &Path) -> Result<FioJobsSpec, RunError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let text = text_of(path, parse::TEXT_MAX).map_err(RunError::Recording)?;
        let spec = FioJobsSpec {
            name: plain_name(&name),
            text: Some(text),
        };
        spec.jobs().map(|_| spec)
    }

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<bool, SpecError> {
        if name == "file" {
            self.name = value.into();
        }
        Ok(name == "file")
    }

    pub(super) fn load(&mut self, path: Option<&Path>) -> Result<(), RunError> {
        if self.text.is_some() {
            return Ok(());
        }
        let path = path.ok_or_else(|| {
            let what = "a job file of fio runs with `varve replay FILE`";
            RunError::Recording(format!("{self}: {what}"))
        })?;
        *self = FioJobsSpec {
            name: self.name.clone(),
            ..FioJobsSpec::of_file(path)?
        };
        Ok(())
    }

    /// The jobs.
    ///
    /// # Errors
    /// The text is not valid, or has not been read.
    pub fn jobs(&self) -> Result<JobFile, RunError> {
        let wrong = |what: String| RunError::Recording(format!("{}: {what}", self.name));
        let text = self
            .text
            .as_ref()
            .ok_or_else(|| wrong("was not read".into()))?;
        match text.len() > parse::TEXT_MAX {
            true => Err(wrong("it is longer than 1 MiB".into())),
            false => parse::parse(text).map_err(wrong),
        }
    }
}

impl fmt::Display for FioJobsSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fiojobs:file={}", self.name)
    }
}
