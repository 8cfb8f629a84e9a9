//! The failures of a simulation, as values with a readable report.

use base::Time;
use std::any::Any;
use std::fmt;

/// What a panic carries, as in `std::thread::Result`.
pub type Payload = Box<dyn Any + Send + 'static>;

/// Why a simulation failed. The first failure is the one reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A task panicked.
    Panic {
        /// Name of the task.
        task: String,
        /// Virtual time of the panic.
        time: Time,
        /// Its message, with source line when the panic hook saw it.
        message: String,
        /// Where the task tried to wait while it was unwinding, if it did.
        parked_at: Option<String>,
    },
    /// Every task waits and no timer is left.
    Deadlock {
        /// The blocked tasks, and what each waits for.
        tasks: Vec<Blocked>,
        /// True if the power was already cut: then an error path forgot to wake a task.
        after_cut: bool,
    },
    /// A limit of [`crate::SimConfig`] was reached.
    Limit {
        /// The limit, with its value.
        limit: String,
        /// The task that ran.
        task: String,
        /// Virtual time.
        time: Time,
        /// What all other tasks were doing.
        tasks: Vec<Blocked>,
    },
    /// Many switches without progress of virtual time: a task spins.
    NoProgress {
        /// Switches (or lock operations) since the clock last moved.
        switches: u64,
        /// The task that ran last.
        task: String,
        /// Virtual time.
        time: Time,
        /// What all tasks were doing.
        tasks: Vec<Blocked>,
    },
    /// Tasks outlived the main task, or the power cut, by more than the run-out budget.
    TasksLeft {
        /// The tasks that are left, and what each waits for.
        tasks: Vec<Blocked>,
        /// True if it happened after a power cut.
        after_cut: bool,
    },
    /// A task used more than half of its stack (rule 9).
    StackDepth {
        /// The last task on that stack.
        task: String,
        /// Deepest use in bytes.
        used: usize,
        /// Size of the stack in bytes.
        size: usize,
    },
}

/// One task in a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Name of the task.
    pub task: String,
    /// What it waits for, with source line and name of the lock.
    pub waits_for: String,
    /// The task that holds the lock, if it waits for a lock.
    pub holder: Option<String>,
    /// Since when it waits.
    pub since: Time,
    /// The locks it holds (debug builds only).
    pub holds: Vec<String>,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "task `{}` {} since {}",
            self.task,
            self.waits_for,
            Clock(self.since)
        )?;
        if let Some(holder) = &self.holder {
            write!(f, ", held by {holder}")?;
        }
        if !self.holds.is_empty() {
            write!(f, "; it holds {}", self.holds.join(", "))?;
        }
        Ok(())
    }
}

/// Virtual time for people: milliseconds with six decimals.
pub(crate) struct Clock(pub(crate) Time);

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} ms", self.0.0 / 1_000_000, self.0.0 % 1_000_000)
    }
}

fn list(f: &mut fmt::Formatter<'_>, tasks: &[Blocked]) -> fmt::Result {
    const SHOWN: usize = 50;
    for task in tasks.iter().take(SHOWN) {
        write!(f, "\n  {task}")?;
    }
    if tasks.len() > SHOWN {
        write!(f, "\n  and {} more", tasks.len() - SHOWN)?;
    }
    Ok(())
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = |after: &bool| if *after { " after the power cut" } else { "" };
        match self {
            Failure::Panic {
                task,
                time,
                message,
                parked_at,
            } => {
                write!(f, "task `{task}` panicked at {}: {message}", Clock(*time))?;
                match parked_at {
                    Some(site) => write!(f, "\n  and then tried to wait at {site} while unwinding"),
                    None => Ok(()),
                }
            }
            Failure::Deadlock { tasks, after_cut } => {
                write!(
                    f,
                    "deadlock{}: every task waits and no timer is left",
                    cut(after_cut)
                )?;
                list(f, tasks)
            }
            Failure::Limit {
                limit,
                task,
                time,
                tasks,
            } => {
                write!(
                    f,
                    "limit reached at {} in task `{task}`: {limit}",
                    Clock(*time)
                )?;
                list(f, tasks)
            }
            Failure::NoProgress {
                switches,
                task,
                time,
                tasks,
            } => {
                write!(
                    f,
                    "no progress: {switches} steps without time passing, at {} in task `{task}`: somebody spins",
                    Clock(*time)
                )?;
                list(f, tasks)
            }
            Failure::TasksLeft { tasks, after_cut } => {
                let whom = if *after_cut {
                    "the power cut"
                } else {
                    "the main task"
                };
                write!(f, "{} task(s) left over after {whom}", tasks.len())?;
                list(f, tasks)
            }
            Failure::StackDepth { task, used, size } => write!(
                f,
                "task `{task}` or one before it on the same stack used {} KiB of {} KiB: more than half",
                used / 1024,
                size / 1024
            ),
        }
    }
}

impl std::error::Error for Failure {}
