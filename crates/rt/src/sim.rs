//! Runs a simulation: sets the world up, runs the main task in it, and returns its result and
//! report.

use crate::config::SimConfig;
use crate::core::{Core, State};
use crate::failure::{Failure, Payload};
use crate::world::Entered;
use crate::{guards, overflow, stack};
use base::Time;
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// A simulation that is ready to run.
pub struct Sim {
    cfg: SimConfig,
}

/// What came out of a simulation.
pub struct Outcome<T> {
    /// What the main task returned, if it did.
    pub value: Option<T>,
    /// Virtual time at the end.
    pub end: Time,
    /// Why the run is bad, if it is.
    pub first_failure: Option<Failure>,
    /// The payload of a panic that ended the simulation.
    pub payload: Option<Payload>,
    /// Hash over every scheduling decision and every [`crate::trace`] word: equal means the same
    /// run.
    pub trace_hash: u64,
    /// Scheduling decisions, including those that needed no switch.
    pub switches: u64,
    /// Scheduling points, where the schedule is one that counts them.
    pub points: u64,
    /// Tasks started.
    pub tasks: u64,
    /// Deepest use of a task's stack in bytes (whole pages; 16 KiB means "at most 16 KiB").
    pub stack_high_water: usize,
    /// Tasks that the watchdog caught running for long without any `rt` call.
    pub stalls: Vec<String>,
    /// How often the guard of each mutant was reached; empty without the feature `mutants`.
    pub reached: crate::Reached,
    /// The line that reproduces this run: `replay.parse::<SimConfig>()`.
    pub replay: String,
}

impl Sim {
    /// A simulation with this configuration.
    ///
    /// # Panics
    /// If it has no core.
    pub fn new(cfg: SimConfig) -> Sim {
        assert!(
            cfg.cores > 0,
            "SimConfig.cores is 0; a simulation needs at least one virtual core"
        );
        Sim { cfg }
    }

    /// Runs `main` as the first task, and all tasks it starts, until the last one has ended or the
    /// run fails.
    ///
    /// After a failure the tasks that have not ended are leaked: they never run again, and what
    /// they own is never dropped. `main` may borrow from the caller: no task touches anything after
    /// `run` has returned.
    ///
    /// # Panics
    /// If this OS thread is inside of a simulation already.
    pub fn run<T, F: FnOnce() -> T>(self, main: F) -> Outcome<T> {
        guards::install_hook();
        overflow::install();
        let replay = self.cfg.to_string();
        let core = Core::new(self.cfg);
        let entered = Entered::new(&core);
        let slot = Rc::new(Cell::new(None));
        let result = slot.clone();
        let body = move || {
            let outcome = catch_unwind(AssertUnwindSafe(main));
            let core = crate::world::core().expect("the main task runs inside of its simulation");
            match outcome {
                Ok(value) => result.set(Some(value)),
                Err(payload) => {
                    core.task_panicked(&payload);
                    core.st.borrow_mut().payload.get_or_insert(payload);
                }
            }
        };
        // SAFETY: `main` may borrow from our caller's frame. The loop below returns when all tasks
        // have ended, or leaves the others suspended for good, so none of them runs after the
        // borrow has ended.
        unsafe { core.start("main", body) };
        core.run_all();
        let (deepest, deepest_task) = measure(&core);
        drop(entered);
        let stalls = core.watch.stalls();
        let size = core.cfg.stack;
        let (end, trace_hash, switches) =
            (Time(core.now.get()), core.hash.get(), core.switches.get());
        let points = core.explorer.points.get();
        #[cfg(feature = "mutants")]
        let reached = core.reached.take();
        #[cfg(not(feature = "mutants"))]
        let reached = crate::Reached::new();
        let Core { st, .. } = core;
        let State {
            failure,
            payload,
            tasks,
            ..
        } = st.into_inner();
        let too_deep =
            deepest_task
                .filter(|_| deepest > size / 2)
                .map(|task| Failure::StackDepth {
                    task,
                    used: deepest,
                    size,
                });
        Outcome {
            value: slot.take(),
            end,
            first_failure: failure.or(too_deep),
            payload,
            trace_hash,
            switches,
            points,
            tasks: tasks.len() as u64,
            stack_high_water: deepest,
            stalls,
            reached,
            replay,
        }
    }
}

/// Deepest stack of the simulation: of the tasks that ended, and of those that are leaked.
fn measure(core: &Core) -> (usize, Option<String>) {
    let (mut deepest, mut name) = stack::measure(core.world);
    let mut owner = name.take().map(|n| n.to_string());
    for task in core.st.borrow().tasks.iter().flatten() {
        let used = task.stack.high_water();
        if used > deepest {
            (deepest, owner) = (used, Some(task.name.to_string()));
        }
    }
    (deepest, owner)
}

impl<T> Outcome<T> {
    /// The value of a run without failure.
    ///
    /// # Panics
    /// With the report and the replay line if the run failed.
    #[track_caller]
    pub fn unwrap(self) -> T {
        match (self.first_failure, self.value) {
            (None, Some(value)) => value,
            (Some(failure), _) => panic!("simulation failed: {failure}\nreplay: {}", self.replay),
            (None, None) => panic!(
                "the main task has not ended, and no failure was noted\nreplay: {}",
                self.replay
            ),
        }
    }
}

impl<T> fmt::Display for Outcome<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.first_failure {
            Some(failure) => writeln!(f, "failed: {failure}")?,
            None => writeln!(f, "ended well")?,
        }
        write!(
            f,
            "end {} ns, {} switches, {} tasks, stack {} KiB, trace {:016x}\nreplay: {}",
            self.end,
            self.switches,
            self.tasks,
            self.stack_high_water / 1024,
            self.trace_hash,
            self.replay
        )
    }
}

impl<T> fmt::Debug for Outcome<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
