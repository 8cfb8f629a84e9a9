//! Runs one job of a paper in a process of its own, because SQLite has one random generator per
//! process, and any job may use SQLite.
//!
//! The parent writes the job as one JSON line to standard input; the worker answers with one on
//! standard output.

use crate::failure::{Failure, failed};
use crate::worker::Line;
use paper::study::Work;
use paper::{emmc, f2fsj, jftl};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};

/// A job of any paper.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnyJob {
    /// Of the eMMC paper.
    Emmc(emmc::job::Job),
    /// Of the JFTL paper.
    Jftl(jftl::job::Job),
    /// Of the F2FSJ paper.
    F2fsj(f2fsj::job::Job),
}

impl From<&emmc::job::Job> for AnyJob {
    fn from(job: &emmc::job::Job) -> AnyJob {
        AnyJob::Emmc(job.clone())
    }
}

impl From<&f2fsj::job::Job> for AnyJob {
    fn from(job: &f2fsj::job::Job) -> AnyJob {
        AnyJob::F2fsj(job.clone())
    }
}

impl From<&jftl::job::Job> for AnyJob {
    fn from(job: &jftl::job::Job) -> AnyJob {
        AnyJob::Jftl(job.clone())
    }
}

/// Runs as the worker: reads one job and answers its outcome.
pub fn serve() -> Result<(), Failure> {
    crate::worker::begin()?;
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(failed)?;
    match serde_json::from_str(&text).map_err(failed)? {
        AnyJob::Emmc(job) => answer(&job),
        AnyJob::Jftl(job) => answer(&job),
        AnyJob::F2fsj(job) => answer(&job),
    }
}

fn answer<J: Work>(job: &J) -> Result<(), Failure> {
    let line = match job.run() {
        Ok(outcome) => Line::Done(outcome),
        Err(why) => Line::Failed(why.to_string()),
    };
    let text = serde_json::to_string(&line).map_err(failed)?;
    // A parent that is gone needs no answer.
    let _ = writeln!(std::io::stdout(), "{text}");
    Ok(())
}
