//! The main loop of a simulation: starting tasks, choosing the next one, ending, and reporting
//! which task waits for what.

use crate::core::{Core, State};
use crate::failure::{Blocked, Failure, Payload};
use crate::task::{Co, Site, Task, TaskId, Wait, Wake, quoted};
use crate::{config::OnPanic, stack};
use base::Time;
use corosensei::{CoroutineResult, Yielder};
use std::rc::Rc;
use std::sync::atomic::Ordering;

impl Core {
    /// Makes a task that runs `body`; `body` must not unwind.
    ///
    /// # Safety
    /// What `body` borrows must outlive its run. A task that never ends is never resumed and never
    /// dropped, so it does not touch what it borrowed any more.
    #[track_caller]
    pub(crate) unsafe fn start<F: FnOnce()>(&self, name: &str, body: F) -> TaskId {
        let mut st = self.st.borrow_mut();
        let id = TaskId::try_from(st.tasks.len()).expect("fewer than 2^32 tasks");
        let name: std::sync::Arc<str> = name.into();
        let stack = stack::take(self.cfg.stack, self.world, &name);
        let task = Rc::new(Task::new(id, name.clone(), stack.extent()));
        let root = move |yielder: &Yielder<(), ()>, ()| {
            crate::world::core()
                .expect("a task runs inside of a simulation")
                .task()
                .yielder
                .set(yielder);
            body();
        };
        // SAFETY: the caller promises the lifetime of what `body` borrows.
        let coroutine: Co = unsafe { Co::with_stack_unchecked(stack, root) };
        task.coroutine.set(Box::into_raw(Box::new(coroutine)));
        task.since.set(self.now.get());
        st.tasks.push(Some(task));
        st.live += 1;
        st.ready.push_back(id);
        self.watch.0.names.lock().push(Some(name));
        id
    }

    /// Runs until the simulation ends.
    pub(crate) fn run_all(&self) {
        while let Some(task) = self.next() {
            self.current.set(Rc::as_ptr(&task));
            self.watch.0.current.store(task.id, Ordering::Relaxed);
            // SAFETY: the box lives until `finish` (or is leaked); only this loop resumes it, and a
            // task cannot reach its own coroutine.
            let result = unsafe { (*task.coroutine.get()).resume(()) };
            self.current.set(std::ptr::null());
            if let CoroutineResult::Return(()) = result {
                self.finish(&task);
            }
        }
    }

    fn finish(&self, task: &Rc<Task>) {
        // SAFETY: the pointer came from `Box::into_raw` in `start`; the coroutine has returned and
        // is not used again.
        let coroutine = unsafe { Box::from_raw(task.coroutine.replace(std::ptr::null_mut())) };
        stack::give(coroutine.into_stack());
        let mut st = self.st.borrow_mut();
        st.tasks[task.id as usize] = None;
        st.live -= 1;
        self.watch.0.names.lock()[task.id as usize] = None;
        if task.id == 0 {
            self.main_done.set(true);
            self.start_run_out();
        }
    }

    /// Chooses the task that runs next; `None` ends the simulation.
    fn next(&self) -> Option<Rc<Task>> {
        if self.ended.get() {
            return None;
        }
        let mut st = self.st.borrow_mut();
        let choice = self.choose(&mut st);
        match choice {
            Ok(task) => task,
            Err(failure) => {
                st.failure.get_or_insert(*failure);
                self.ended.set(true);
                None
            }
        }
    }

    fn choose(&self, st: &mut State) -> Result<Option<Rc<Task>>, Box<Failure>> {
        if st.ready.is_empty() && !self.fire_timers(st)? {
            return self.all_wait(st).map(|()| None);
        }
        let n = st.ready.len() as u64;
        let index = if self.random && n > 1 {
            st.schedule.below(n) as usize
        } else {
            self.explorer.choose(st.ready.iter().copied())
        };
        let id = if index == 0 {
            st.ready.pop_front()
        } else {
            st.ready.swap_remove_back(index)
        };
        let id = id.expect("the ready queue is not empty");
        self.decide(st, id)?;
        Ok(st.tasks[id as usize].clone())
    }

    /// Moves the clock to the next timer and makes ready all whose time has come. False if there is
    /// none.
    fn fire_timers(&self, st: &mut State) -> Result<bool, Box<Failure>> {
        let Some(at) = st.next_timer() else {
            return Ok(false);
        };
        self.advance_to(st, at)?;
        while st.next_timer() == Some(at) {
            let (_, waiter) = st.timers.pop().expect("peeked");
            self.wake(st, waiter, Wake::TimedOut);
        }
        Ok(true)
    }

    /// No task is ready and no timer is left.
    fn all_wait(&self, st: &State) -> Result<(), Box<Failure>> {
        if st.live == 0 {
            return Ok(());
        }
        let (tasks, after_cut) = (self.blocked(st), !self.powered.get());
        Err(Box::new(if self.main_done.get() {
            Failure::TasksLeft { tasks, after_cut }
        } else {
            Failure::Deadlock { tasks, after_cut }
        }))
    }

    /// Notes the panic of the running task. True if the simulation goes on.
    pub(crate) fn task_panicked(&self, payload: &Payload) -> bool {
        let task = self.task();
        let message = task
            .panic_note
            .take()
            .unwrap_or_else(|| crate::guards::message_of(&**payload));
        let (task, time) = (task.name.to_string(), Time(self.now.get()));
        self.fail(Failure::Panic {
            task,
            time,
            message,
            parked_at: None,
        });
        let goes_on = self.cfg.on_panic == OnPanic::Join;
        if !goes_on {
            self.ended.set(true);
        }
        goes_on
    }

    // ---- reports
    // -------------------------------------------------------------------------------------------

    /// Name of the task of the last decision.
    pub(crate) fn last_name(&self, st: &State) -> String {
        name_of(st, self.last.get())
    }
    /// All live tasks, in order of creation.
    pub(crate) fn blocked(&self, st: &State) -> Vec<Blocked> {
        st.tasks
            .iter()
            .flatten()
            .map(|t| self.report(st, t))
            .collect()
    }
    fn report(&self, st: &State, task: &Task) -> Blocked {
        let (wait, site) = (task.wait.get(), task.site.get());
        let holder = match wait {
            // SAFETY: the task is suspended in this very wait.
            Wait::Lock(w) => match unsafe { w.holder() } {
                Some(id) => Some(format!("task `{}`", name_of(st, id))),
                None => holders(st, task, w.addr),
            },
            _ => None,
        };
        let held = task.held.borrow();
        Blocked {
            task: task.name.to_string(),
            waits_for: describe(st, wait, site),
            holder,
            since: Time(task.since.get()),
            holds: held
                .iter()
                .map(|h| format!("{} (taken at {})", quoted(h.name), h.site))
                .collect(),
        }
    }
}

fn name_of(st: &State, id: TaskId) -> String {
    st.tasks
        .get(id as usize)
        .and_then(|t| t.as_deref())
        .map_or_else(|| format!("#{id}, which has ended"), |t| t.name.to_string())
}

/// Tasks that hold the lock at `addr` according to their lists (debug builds): the readers of an
/// rwlock.
fn holders(st: &State, but: &Task, addr: usize) -> Option<String> {
    let of = |t: &&Rc<Task>| t.id != but.id && t.held.borrow().iter().any(|h| h.addr == addr);
    let names: Vec<String> = st
        .tasks
        .iter()
        .flatten()
        .filter(of)
        .map(|t| format!("task `{}`", t.name))
        .collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn describe(st: &State, wait: Wait, site: Site) -> String {
    let what = match wait {
        Wait::No => return "is ready to run".into(),
        Wait::Ended => return format!("ended the simulation, last waiting at {site},"),
        Wait::Sleep(until) => format!("sleeps until {until} ns"),
        Wait::Charge(until) => format!("uses a core until {until} ns"),
        Wait::Lock(w) => format!("waits to {} {}", w.verb, quoted(w.name)),
        Wait::Condvar { name, until: None } => format!("waits for condvar {}", quoted(name)),
        Wait::Condvar {
            name,
            until: Some(t),
        } => format!("waits for condvar {} until {t} ns", quoted(name)),
        Wait::Join(id) => format!("waits for the end of task `{}`", name_of(st, id)),
        Wait::Send { name } => format!("waits for room in channel {}", quoted(name)),
        Wait::Recv { name } => format!("waits for a message in channel {}", quoted(name)),
        Wait::Semaphore { name, permits } => {
            format!("waits for {permits} of semaphore {}", quoted(name))
        }
        Wait::Scope => "waits for the tasks of a scope".into(),
    };
    format!("{what} at {site}")
}
