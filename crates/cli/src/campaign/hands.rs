//! Runs one job after the other in worker processes, those of the command that the job is of.

use super::task::Task;
use crate::crash::pool::{self, End, Program};
use crate::failure::{Failure, failed};
use crate::stop::Stop;
use crate::worker::run_in_process;
use serde_json::value::RawValue;
use std::time::Duration;

/// How a run of a job ended.
pub enum Ran {
    /// With this result.
    Done(String),
    /// Without one, for this reason.
    Failed(String),
    /// A signal asked for an end.
    Stopped,
}

/// What a thread keeps between its jobs.
pub struct Hands<'s> {
    stop: &'s Stop,
    patience: Duration,
    program: Program,
    /// A worker of `crash` keeps volumes between its cases, so it stays.
    crash: Option<pool::Worker<'s>>,
}

impl<'s> Hands<'s> {
    /// Without any worker yet.
    ///
    /// # Errors
    /// The host does not tell which program this is.
    pub fn new(stop: &'s Stop, patience: Duration) -> Result<Hands<'s>, Failure> {
        Ok(Hands {
            stop,
            patience,
            program: Program::this()?,
            crash: None,
        })
    }

    /// Runs a job.
    ///
    /// # Errors
    /// No worker can be started.
    pub fn run(&mut self, task: &Task) -> Result<Ran, Failure> {
        if self.stop.signal().is_some() {
            return Ok(Ran::Stopped);
        }
        let ran = match task {
            Task::Compare(_) => self.alone("worker", task),
            Task::Paper(_) => self.alone("paper-worker", task),
            Task::Program(_) => self.alone("program-worker", task),
            Task::Crash(text) => self.case(text)?,
        };
        Ok(match ran {
            // What failed then, failed because of that.
            Ran::Failed(_) if self.stop.signal().is_some() => Ran::Stopped,
            ran => ran,
        })
    }

    fn alone(&self, subcommand: &str, task: &Task) -> Ran {
        let name = task.name();
        let text = run_in_process(self.stop, subcommand, &name, task.text(), |_, _| {});
        text.map_or_else(|why| Ran::Failed(why.to_string()), Ran::Done)
    }

    /// The text of the job goes to the worker as it is, and what it found is kept as it comes: to
    /// read and to write both would cost as much as all else that a campaign does for a job.
    fn case(&mut self, job: &RawValue) -> Result<Ran, Failure> {
        let why = |e: std::io::Error| failed(format!("worker process: {e}"));
        let mut worker = match self.crash.take() {
            Some(worker) => worker,
            None => pool::Worker::start(self.stop, &self.program).map_err(why)?,
        };
        let end = pool::one(self.stop, &self.program, &mut worker, job, self.patience);
        let end: End<Box<RawValue>> = end.map_err(why)?;
        self.crash = Some(worker);
        Ok(match end {
            End::Done(explored) => Ran::Done(Box::<str>::from(explored).into()),
            End::Failed(why) => Ran::Failed(why),
            End::Stopped => Ran::Stopped,
            End::Lost { state, why } => {
                let state = state.as_deref().unwrap_or("the run itself");
                Ran::Failed(format!("state {state}: the worker is gone: {why}"))
            }
        })
    }

    /// Lets go of every worker, so that the next job has one that knows of no other.
    ///
    /// # Errors
    /// A worker cannot be waited for.
    pub fn let_go(&mut self) -> Result<(), Failure> {
        let stopped = self.crash.take().map_or(Ok(()), pool::Worker::stop);
        stopped.map_err(|e| failed(format!("worker process: {e}")))
    }
}
