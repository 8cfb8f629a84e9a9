//! What a command does on SIGINT, SIGTERM or SIGHUP: it stops its workers, keeps the results that
//! are complete and labels them as partial, and its exit code names the signal, as that of a shell
//! does.

use crate::failure::{Failure, failed, no_thread};
use rig::signals;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How often a signal is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// Shared by all threads that may have to end.
#[derive(Default)]
pub struct Stop {
    children: Mutex<BTreeSet<i32>>,
}

/// A child that is killed when the command is asked to end.
pub struct Guard<'a> {
    stop: &'a Stop,
    pid: i32,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.stop.lock().remove(&self.pid);
    }
}

impl Stop {
    /// Begins to note signals, each of which ends the guarded children.
    ///
    /// # Errors
    /// The host refuses.
    pub fn watch() -> Result<Arc<Stop>, Failure> {
        let stop = Arc::new(Stop::default());
        signals::note_ends().map_err(|e| failed(format!("handling signals: {e}")))?;
        let watched = stop.clone();
        let watching = thread::Builder::new().spawn(move || {
            while signals::noted().is_none() {
                thread::sleep(LOOK);
            }
            // One that is guarded from now on is killed there.
            watched.lock().iter().for_each(|&pid| kill(pid));
        });
        watching.map_err(no_thread("signals"))?;
        Ok(stop)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<i32>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The signal that asked the command to end, if there was one.
    pub fn signal(&self) -> Option<i32> {
        signals::noted()
    }

    /// The part that is complete, if a signal left only a part.
    ///
    /// # Errors
    /// The signal left no complete result.
    pub fn part(&self, done: usize, all: usize, what: &str) -> Result<Option<Part>, Failure> {
        match self.signal() {
            Some(signal) if done == 0 => {
                let kept = format!("none of {all} {what} was complete, nothing is written");
                Err(Failure::Stopped(signal, kept))
            }
            Some(signal) if done < all => {
                Ok(Some(Part::new(signal, done as u64, all as u64, what)))
            }
            _ => Ok(None),
        }
    }

    /// Guards a child. Drop the guard before waiting for the child: afterwards its process id may
    /// belong to another process.
    pub fn guard(&self, child: &Child) -> Guard<'_> {
        let pid = child.id() as i32;
        let mut children = self.lock();
        children.insert(pid);
        if signals::noted().is_some() {
            kill(pid);
        }
        Guard { stop: self, pid }
    }
}

fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        // The process may have ended by itself.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// The part of the results that was complete when a signal came.
pub struct Part {
    signal: i32,
    text: String,
}

impl Part {
    /// `done` of `all` items, which `what` names.
    pub fn new(signal: i32, done: u64, all: u64, what: &str) -> Part {
        Part::of_unknown(signal, done, &format!("of {all} {what}"))
    }

    /// `done` items, which `what` names, where nobody knows how many there would be.
    pub fn of_unknown(signal: i32, done: u64, what: &str) -> Part {
        Part {
            signal,
            text: format!("{done} {what}"),
        }
    }

    /// How results say that they are incomplete.
    pub fn mark(&self) -> String {
        format!("{} after {}", name(self.signal), self.text)
    }

    /// How the command ends after it has written the results to `folder`.
    pub fn kept_in(&self, folder: &Path) -> Failure {
        let (part, folder) = (&self.text, folder.display());
        let kept = format!("{part} were complete; {folder} has them, marked as incomplete");
        Failure::Stopped(self.signal, kept)
    }
}

/// The name of a signal that a command handles.
pub fn name(signal: i32) -> &'static str {
    [Signal::INT, Signal::TERM, Signal::HUP]
        .into_iter()
        .zip(["SIGINT", "SIGTERM", "SIGHUP"])
        .find_map(|(known, name)| (known.as_raw() == signal).then_some(name))
        .unwrap_or("a signal")
}
