//! The worker's side of `varve crash`: tasks as JSON lines on standard input, answers as JSON lines
//! on standard output.

use crate::failure::{Failure, failed};
use crash::campaign::{self, Explored};
use crash::case::Volumes;
use crash::plan::Job;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

/// How often a worker tells where it is; a parent waits for seconds at least.
const SIGN_OF_LIFE: Duration = Duration::from_millis(200);

/// What a worker is asked to do. `J` is the job, or its text as it is.
#[derive(Clone, Serialize, Deserialize)]
pub struct Task<J = Job> {
    /// The job.
    pub job: J,
    /// Name every state before it is judged, not only the first of a batch, to find the state that
    /// hangs.
    pub one_by_one: bool,
}

/// A line from a worker. `D` is what was found, or its text as it came.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line<D = Box<Explored>> {
    /// The worker judges from this state on; told now and then.
    At(String),
    /// The job is done.
    Done(D),
    /// The job could not be done.
    Failed(String),
}

/// Works until standard input ends.
pub fn serve() -> Result<(), Failure> {
    crate::worker::begin()?;
    let mut volumes = Volumes::default();
    for line in std::io::stdin().lock().lines() {
        let task: Task = serde_json::from_str(&line.map_err(failed)?).map_err(failed)?;
        let answer = match work(&task, &mut volumes) {
            Ok(explored) => Line::Done(Box::new(explored)),
            Err(why) => Line::Failed(why.to_string()),
        };
        say(&answer);
    }
    Ok(())
}

fn work(task: &Task, volumes: &mut Volumes) -> Result<Explored, Failure> {
    let setup = task.job.case.setup(volumes).map_err(failed)?;
    let batch = if task.one_by_one { 1 } else { campaign::BATCH };
    let mut said = Instant::now();
    let mut at = |id: &str| {
        // A line for each batch would cost as much as a small case itself.
        if task.one_by_one || said.elapsed() >= SIGN_OF_LIFE {
            said = Instant::now();
            say(&Line::<Box<Explored>>::At(id.into()));
        }
    };
    let reach = &task.job.reach;
    match task.job.part {
        Some(part) => campaign::explore_part(&setup, reach, part, batch, &mut at),
        None => campaign::explore(&setup, reach, batch, &mut at),
    }
    .map_err(failed)
}

fn say(line: &Line) {
    let text = serde_json::to_string(line).expect("plain data serialises");
    // A parent that is gone needs no answer.
    let _ = writeln!(std::io::stdout(), "{text}");
}
