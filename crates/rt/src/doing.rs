//! What tasks do and wait for, noted for time lines of a simulation: nothing is noted unless
//! [`note_doings`] was called in it, and noting changes neither the schedule nor the trace hash.

use crate::core::Core;
use crate::task::{Task, Wait};
use crate::world::core;
use base::Time;
use std::sync::Arc;

/// What a task did for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// It had asked for CPU time: waited for a core, and used it.
    Core,
    /// It slept.
    Sleep,
    /// It waited for the lock of this name (mutex or rwlock), empty if it has none.
    Lock(&'static str),
    /// It waited for this condvar.
    Condvar(&'static str),
    /// It waited for a message in, or for room in, this channel.
    Channel(&'static str),
    /// It waited for this semaphore.
    Semaphore(&'static str),
    /// It waited for another task to end.
    Join,
}

/// A task did something from one moment to a later one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Doing {
    /// The number of the task in its simulation.
    pub task: u32,
    /// Its name.
    pub name: Arc<str>,
    /// What.
    pub what: What,
    /// From when.
    pub from: Time,
    /// Until when.
    pub to: Time,
}

/// What is noted; it outlives the simulation.
#[derive(Clone, Debug, Default)]
pub struct Doings(Arc<parking_lot::Mutex<Vec<Doing>>>);

impl Doings {
    /// Takes what was noted so far, in the order of the ends.
    pub fn take(&self) -> Vec<Doing> {
        std::mem::take(&mut self.0.lock())
    }
}

/// Notes from now on what the tasks of this simulation do; nothing is ever noted outside of one.
pub fn note_doings() -> Doings {
    let doings = Doings::default();
    if let Some(core) = core() {
        *core.doings.borrow_mut() = Some(doings.clone());
    }
    doings
}

impl Core {
    /// A task has done, from `since` until now, what it says that it waits for.
    #[inline]
    pub(crate) fn note_doing(&self, task: &Task, wait: Wait, since: u64) {
        if let Some(doings) = &*self.doings.borrow() {
            note(doings, task, wait, since, self.now.get());
        }
    }
}

#[cold]
fn note(doings: &Doings, task: &Task, wait: Wait, since: u64, now: u64) {
    let what = match wait {
        Wait::Charge(_) => What::Core,
        Wait::Sleep(_) => What::Sleep,
        Wait::Lock(lock) => What::Lock(lock.name),
        Wait::Condvar { name, .. } => What::Condvar(name),
        Wait::Send { name } | Wait::Recv { name } => What::Channel(name),
        Wait::Semaphore { name, .. } => What::Semaphore(name),
        Wait::Join(_) | Wait::Scope => What::Join,
        Wait::No | Wait::Ended => return,
    };
    if now > since {
        doings.0.lock().push(Doing {
            task: task.id,
            name: task.name.clone(),
            what,
            from: Time(since),
            to: Time(now),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mutex, Outcome, Sim, SimConfig, charge, scope, sleep};
    use base::Nanos;

    fn run(noted: bool) -> Outcome<Option<Doings>> {
        Sim::new(SimConfig::seeded(1)).run(|| {
            let doings = noted.then(note_doings);
            let lock = Mutex::named("the lock", ());
            scope(|scope| {
                let _ = scope.spawn("holder", || {
                    let held = lock.lock();
                    sleep(Nanos(700));
                    drop(held);
                });
                let _ = scope.spawn("waiter", || {
                    drop(lock.lock());
                    charge(Nanos(50));
                });
            });
            doings
        })
    }

    #[test]
    fn what_tasks_do_is_noted_and_changes_nothing() {
        let (plain, noted) = (run(false), run(true));
        assert_eq!(plain.trace_hash, noted.trace_hash);
        assert_eq!((plain.switches, plain.end), (noted.switches, noted.end));
        let doings = noted.value.flatten().expect("noted").take();
        let told: Vec<(&str, What, u64, u64)> = doings
            .iter()
            .map(|d| (&*d.name, d.what, d.from.0, d.to.0))
            .collect();
        assert_eq!(
            told,
            [
                ("holder", What::Sleep, 0, 700),
                ("waiter", What::Lock("the lock"), 0, 700),
                ("waiter", What::Core, 700, 750),
                ("main", What::Join, 0, 750),
            ]
        );
    }
}
