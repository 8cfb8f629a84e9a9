//! One job of a paper in a process of its own: SQLite's random generator is one per process, and a job may be anything.
//!
//! The parent writes the job as one JSON line to standard input; the worker answers with one on standard output.

use crate::failure::{Failure, failed};
use crate::worker::ask;
use lab::paper::emmc::job::{Job, Outcome};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};

/// The line from a worker.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    /// The job ended well.
    Done(Box<Outcome>),
    /// It did not.
    Failed(String),
}

/// The worker's side.
pub fn serve() -> Result<(), Failure> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(failed)?;
    let job: Job = serde_json::from_str(&text).map_err(failed)?;
    let line = match job.run() {
        Ok(outcome) => Line::Done(Box::new(outcome)),
        Err(why) => Line::Failed(why.to_string()),
    };
    let text = serde_json::to_string(&line).map_err(failed)?;
    // A parent that is gone needs no answer.
    let _ = writeln!(std::io::stdout(), "{text}");
    Ok(())
}

/// The parent's side.
pub fn run_in_process(job: &Job) -> Result<Outcome, Failure> {
    let what = job.key();
    match ask("paper-worker", &what, job, Some)? {
        Line::Done(outcome) => Ok(*outcome),
        Line::Failed(why) => Err(failed(format!("{why}; in job {what}"))),
    }
}
