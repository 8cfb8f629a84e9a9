//! The scheduler of one simulation: virtual clock, ready queue, timers, parking and waking.
//!
//! - I1: events have a total order: (virtual time, sequence number). Nothing here depends on
//!   addresses, hash order, thread ids or the real clock.
//! - I2: every decision "task T runs next, at time t" goes through [`Core::decide`], also where the
//!   switch itself is skipped; so the trace hash, the counters and the limits do not depend on the
//!   fast paths.
//! - I3: no borrow of [`State`] is held over a switch.
//! - I4: once `ended` is set no task runs again; suspended coroutines are leaked, never dropped or
//!   reset.

use crate::config::{Policy, SimConfig};
use crate::explore::Explorer;
use crate::failure::{Failure, Payload};
use crate::order::Graph;
use crate::queue::{Queues, Timers};
use crate::task::{Site, Task, TaskId, Wait, Waiter, Wake};
use crate::watchdog::Watch;
use base::collections::mix;
use base::{Rng, Time};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::Location;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Lock operations that count as one switch for the no-progress limit.
const STEPS_PER_SWITCH: u64 = 64;

thread_local! {
    /// A simulation on this OS thread ended while a task was unwinding, so std's panic count stays
    /// above zero.
    static LEFT_UNWINDING: Cell<bool> = const { Cell::new(false) };
}

/// What changes while a simulation runs, apart from the counters in [`Core`].
pub(crate) struct State {
    pub(crate) tasks: Vec<Option<Rc<Task>>>,
    pub(crate) live: usize,
    pub(crate) ready: VecDeque<TaskId>,
    pub(crate) timers: Timers,
    pub(crate) queues: Queues,
    /// When each virtual core is free.
    pub(crate) cores: Vec<u64>,
    pub(crate) schedule: Rng,
    pub(crate) failure: Option<Failure>,
    pub(crate) payload: Option<Payload>,
    pub(crate) order: Graph,
}

impl State {
    pub(crate) fn is_live(&self, w: Waiter) -> bool {
        is_live(&self.tasks, w)
    }
    /// Time of the next timer.
    pub(crate) fn next_timer(&mut self) -> Option<u64> {
        let State { tasks, timers, .. } = self;
        timers.peek(|w| is_live(tasks, w))
    }
}

fn is_live(tasks: &[Option<Rc<Task>>], w: Waiter) -> bool {
    tasks
        .get(w.task as usize)
        .and_then(|t| t.as_deref())
        .is_some_and(|t| t.generation.get() == w.generation)
}

/// One simulation.
pub(crate) struct Core {
    pub(crate) world: u64,
    pub(crate) cfg: SimConfig,
    pub(crate) now: Cell<u64>,
    pub(crate) hash: Cell<u64>,
    /// CPU time charged so far, ns.
    pub(crate) charged: Cell<u64>,
    pub(crate) switches: Cell<u64>,
    steps: Cell<u64>,
    /// The step at which a limit has to be looked at.
    stop_at: Cell<u64>,
    switches_at_progress: Cell<u64>,
    /// The switch at which the run-out budget is spent.
    pub(crate) leash: Cell<u64>,
    pub(crate) current: Cell<*const Task>,
    /// The task of the last decision, for reports.
    pub(crate) last: Cell<TaskId>,
    pub(crate) powered: Cell<bool>,
    pub(crate) main_done: Cell<bool>,
    pub(crate) ended: Cell<bool>,
    yield_one_in: u64,
    pub(crate) random: bool,
    explored: bool,
    pub(crate) explorer: Explorer,
    yields: RefCell<Rng>,
    pub(crate) watch: Watch,
    #[cfg(feature = "mutants")]
    pub(crate) reached: RefCell<crate::Reached>,
    /// Where it is noted what tasks do, if it is.
    pub(crate) doings: RefCell<Option<crate::doing::Doings>>,
    pub(crate) st: RefCell<State>,
}

impl Core {
    pub(crate) fn new(cfg: SimConfig) -> Core {
        let (random, yield_one_in) = match cfg.policy {
            Policy::Fifo => (false, 0),
            Policy::Random { yield_one_in } => (true, yield_one_in),
            Policy::Delays(_) | Policy::Pct { .. } | Policy::Stalls { .. } => (false, 0),
        };
        let explored = !matches!(cfg.policy, Policy::Fifo | Policy::Random { .. });
        let st = State {
            tasks: Vec::new(),
            live: 0,
            ready: VecDeque::new(),
            timers: Timers::default(),
            queues: Queues::default(),
            cores: vec![0; cfg.cores.max(1)],
            schedule: Rng::named(cfg.seed, "rt/schedule"),
            failure: None,
            payload: None,
            order: Graph::default(),
        };
        let core = Core {
            world: crate::world::fresh(),
            now: Cell::new(0),
            hash: Cell::new(mix(cfg.seed)),
            charged: Cell::new(0),
            switches: Cell::new(0),
            steps: Cell::new(0),
            stop_at: Cell::new(0),
            switches_at_progress: Cell::new(0),
            leash: Cell::new(u64::MAX),
            current: Cell::new(std::ptr::null()),
            last: Cell::new(0),
            powered: Cell::new(true),
            main_done: Cell::new(false),
            ended: Cell::new(false),
            yield_one_in,
            random,
            explored,
            explorer: Explorer::new(cfg.policy, cfg.seed),
            yields: RefCell::new(Rng::named(cfg.seed, "rt/yield")),
            watch: Watch::new(Duration::from_nanos(cfg.watchdog.0)),
            #[cfg(feature = "mutants")]
            reached: RefCell::default(),
            doings: RefCell::default(),
            st: RefCell::new(st),
            cfg,
        };
        core.rearm();
        core
    }

    /// The running task.
    ///
    /// # Panics
    /// If called from the scheduler itself.
    #[inline]
    pub(crate) fn task(&self) -> &Task {
        // SAFETY: `current` points into an `Rc` that the scheduler holds while the task runs.
        unsafe { self.current.get().as_ref() }.expect("a task runs")
    }
    #[inline]
    pub(crate) fn has_task(&self) -> bool {
        !self.current.get().is_null()
    }

    // ---- counters and limits
    // -------------------------------------------------------------------------------

    fn rearm(&self) {
        let idle = self.cfg.no_progress_limit.saturating_mul(STEPS_PER_SWITCH);
        self.stop_at.set(
            self.cfg
                .step_limit
                .min(self.steps.get().saturating_add(idle)),
        );
    }
    #[inline]
    fn count_step(&self) -> bool {
        let steps = self.steps.get() + 1;
        self.steps.set(steps);
        self.watch.0.steps.store(steps, Ordering::Relaxed);
        steps >= self.stop_at.get()
    }
    /// Counts a lock, atomic or channel operation of the running task.
    #[inline]
    pub(crate) fn tick(&self) {
        if self.count_step() {
            let failure = {
                let st = self.st.borrow();
                self.step_failure(&st)
            };
            self.end_here(failure);
        }
    }
    fn step_failure(&self, st: &State) -> Failure {
        if self.steps.get() >= self.cfg.step_limit {
            return self.limit(st, format!("{} steps", self.cfg.step_limit));
        }
        self.no_progress(
            st,
            self.cfg.no_progress_limit.saturating_mul(STEPS_PER_SWITCH),
        )
    }
    fn no_progress(&self, st: &State, switches: u64) -> Failure {
        let task = self.last_name(st);
        Failure::NoProgress {
            switches,
            task,
            time: Time(self.now.get()),
            tasks: self.blocked(st),
        }
    }
    fn limit(&self, st: &State, limit: String) -> Failure {
        let task = self.last_name(st);
        Failure::Limit {
            limit,
            task,
            time: Time(self.now.get()),
            tasks: self.blocked(st),
        }
    }
    /// Records the decision that `id` runs now (I2). Fails if a limit is reached.
    #[inline]
    pub(crate) fn decide(&self, st: &State, id: TaskId) -> Result<(), Box<Failure>> {
        self.mix(mix(u64::from(id) << 32 | 1) ^ self.now.get());
        let switches = self.switches.get() + 1;
        self.switches.set(switches);
        self.last.set(id);
        if self.count_step() {
            return Err(Box::new(self.step_failure(st)));
        }
        if switches >= self.leash.get() {
            let after_cut = !self.powered.get();
            return Err(Box::new(Failure::TasksLeft {
                tasks: self.blocked(st),
                after_cut,
            }));
        }
        let idle = switches - self.switches_at_progress.get();
        if idle > self.cfg.no_progress_limit {
            return Err(Box::new(self.no_progress(st, idle)));
        }
        Ok(())
    }
    /// Mixes a word into the trace hash.
    #[inline]
    pub(crate) fn mix(&self, word: u64) {
        self.hash.set(mix(self.hash.get().rotate_left(5) ^ word));
    }
    /// Moves the clock.
    pub(crate) fn advance_to(&self, st: &State, at: u64) -> Result<(), Box<Failure>> {
        debug_assert!(at >= self.now.get(), "I1: the clock never goes back");
        if at > self.cfg.time_limit.0 {
            return Err(Box::new(
                self.limit(st, format!("virtual time {} ns", self.cfg.time_limit.0)),
            ));
        }
        if at > self.now.get() {
            self.now.set(at);
            self.switches_at_progress.set(self.switches.get());
            self.rearm();
        }
        Ok(())
    }
    /// Starts the run-out budget.
    pub(crate) fn start_run_out(&self) {
        self.leash.set(
            self.leash
                .get()
                .min(self.switches.get().saturating_add(self.cfg.run_out)),
        );
    }

    // ---- failing
    // -------------------------------------------------------------------------------------------

    /// Records `failure` unless there is one already.
    pub(crate) fn fail(&self, failure: Failure) {
        self.st.borrow_mut().failure.get_or_insert(failure);
    }
    /// Ends the simulation from within the running task, which never runs again.
    #[cold]
    pub(crate) fn end_here(&self, failure: Failure) -> ! {
        self.fail(failure);
        self.leave_for_good()
    }
    /// Ends the simulation after its failure has been noted.
    #[cold]
    pub(crate) fn leave_for_good(&self) -> ! {
        self.ended.set(true);
        LEFT_UNWINDING.set(LEFT_UNWINDING.get() || std::thread::panicking());
        self.task().wait.set(Wait::Ended);
        self.suspend();
        // I4: a resumed task of an ended simulation would run code without a scheduler.
        std::process::abort();
    }
    /// True if the running task is unwinding.
    #[inline]
    pub(crate) fn unwinding(&self) -> bool {
        std::thread::panicking()
            && (!LEFT_UNWINDING.get() || self.task().panic_note.borrow().is_some())
    }

    // ---- parking and waking
    // --------------------------------------------------------------------------------

    #[inline]
    fn suspend(&self) {
        let yielder = self.task().yielder.get();
        // SAFETY: the task set its yielder when it started; we are on its stack, below the root
        // that owns it. I3: `park` and `end_here` are reached without a borrow of the state (a
        // `RefCell`, so a mistake panics).
        unsafe { (*yielder).suspend(()) };
    }
    /// Refuses to wait where that is not allowed: inside `no_yield`, and while unwinding.
    #[inline]
    pub(crate) fn may_park(&self, site: Site) {
        let task = self.task();
        if std::thread::panicking() && self.unwinding() {
            let message = task
                .panic_note
                .borrow()
                .clone()
                .unwrap_or_else(|| "a panic without message".into());
            let (name, time) = (task.name.to_string(), Time(self.now.get()));
            self.end_here(Failure::Panic {
                task: name,
                time,
                message,
                parked_at: Some(site.to_string()),
            });
        }
        assert!(
            task.no_yield.get() == 0,
            "rt::no_yield: task `{}` would wait at {site}",
            task.name
        );
    }
    /// Suspends the running task until another one wakes it. The caller has registered it where it
    /// will be found and has called [`Core::may_park`].
    pub(crate) fn park(&self, wait: Wait, site: Site) -> Wake {
        let task = self.task();
        task.wait.set(wait);
        task.site.set(site);
        task.since.set(self.now.get());
        self.suspend();
        self.note_doing(task, wait, task.since.get());
        task.wait.set(Wait::No);
        task.wake.get()
    }
    /// Makes `waiter` ready, unless its registration is stale.
    pub(crate) fn wake(&self, st: &mut State, waiter: Waiter, how: Wake) -> bool {
        if !st.is_live(waiter) {
            return false;
        }
        let Some(task) = st.tasks[waiter.task as usize].clone() else {
            return false;
        };
        task.generation.set(task.generation.get().wrapping_add(1));
        task.wake.set(how);
        task.abortable.set(false);
        if task.has_timer.replace(false) && how != Wake::TimedOut {
            let State { tasks, timers, .. } = st;
            timers.note_stale(|w| is_live(tasks, w));
        }
        st.ready.push_back(waiter.task);
        true
    }
    /// Registers a timer for the next wait of the running task.
    pub(crate) fn set_timer(&self, at: u64) {
        let task = self.task();
        task.has_timer.set(true);
        self.st.borrow_mut().timers.push(at, task.waiter(false));
    }
    /// Lets other ready tasks run.
    pub(crate) fn yield_now(&self, site: Site) {
        self.may_park(site);
        let task = self.task();
        let mut st = self.st.borrow_mut();
        if self.cfg.fast_path && st.ready.is_empty() {
            let verdict = self.decide(&st, task.id);
            drop(st);
            return self.check(verdict);
        }
        st.ready.push_back(task.id);
        drop(st);
        self.park(Wait::No, site);
    }
    fn check(&self, verdict: Result<(), Box<Failure>>) {
        if let Err(failure) = verdict {
            self.end_here(*failure);
        }
    }
    /// Waits until `at`; without a switch if no other task could run before.
    pub(crate) fn sleep_until(&self, at: u64, wait: Wait, site: Site) {
        if !self.powered.get() || at <= self.now.get() {
            return self.yield_now(site);
        }
        self.may_park(site);
        let task = self.task();
        let mut st = self.st.borrow_mut();
        if self.cfg.fast_path && st.ready.is_empty() && st.next_timer().is_none_or(|next| next > at)
        {
            let since = self.now.get();
            let verdict = self
                .advance_to(&st, at)
                .and_then(|()| self.decide(&st, task.id));
            drop(st);
            self.note_doing(task, wait, since);
            return self.check(verdict);
        }
        drop(st);
        self.set_timer(at);
        self.park(wait, site);
    }
    /// CPU time on the earliest free virtual core, first come first served, without preemption.
    pub(crate) fn charge(&self, span: u64, site: Site) {
        if !self.powered.get() {
            return self.scheduling_point(site);
        }
        let span = span * u64::from(self.cfg.cpu_percent) / 100;
        self.charged.set(self.charged.get().saturating_add(span));
        let until = {
            let mut st = self.st.borrow_mut();
            let free = st
                .cores
                .iter_mut()
                .min_by_key(|t| **t)
                .expect("a simulation has a core");
            *free = (*free).max(self.now.get()).saturating_add(span);
            *free
        };
        self.sleep_until(until, Wait::Charge(until), site);
    }
    /// A point where another task may run, in random schedules; besides, counts a step.
    #[inline]
    pub(crate) fn scheduling_point(&self, site: Site) {
        self.tick();
        if self.random {
            self.maybe_yield(site);
        } else if self.explored {
            self.explored_point(site);
        }
    }
    fn maybe_yield(&self, site: Site) {
        if self.yield_one_in == 0 || self.task().no_yield.get() > 0 || std::thread::panicking() {
            return;
        }
        let draw = self.yields.borrow_mut().one_in(self.yield_one_in);
        if draw {
            self.yield_now(site);
        }
    }
    /// A scheduling point under a schedule that looks for rare interleavings.
    fn explored_point(&self, site: Site) {
        if self.task().no_yield.get() > 0 || std::thread::panicking() {
            return;
        }
        match self.explorer.gives_way(self.task().id) {
            None => {}
            Some(0) => self.yield_now(site),
            Some(stall) => {
                let until = self.now.get().saturating_add(stall);
                self.sleep_until(until, Wait::Sleep(until), site);
            }
        }
    }
    /// A coin of the schedule's random stream; false in FIFO order.
    pub(crate) fn coin(&self) -> bool {
        self.random && self.st.borrow_mut().schedule.one_in(2)
    }

    // ---- queues
    // --------------------------------------------------------------------------------------------

    /// Registers the next wait of the running task in the queue of `word`.
    pub(crate) fn enqueue(&self, word: &AtomicU32, exclusive: bool) -> Waiter {
        let waiter = self.task().waiter(exclusive);
        self.st.borrow_mut().queues.push(word, waiter);
        waiter
    }
    /// Takes a registration back that did not lead to the wake-up.
    pub(crate) fn dequeue(&self, word: &AtomicU32, waiter: Waiter) {
        self.st.borrow_mut().queues.remove(word, waiter);
    }
    /// Wakes one waiter of the queue of `word`: the first, or in random schedules any. False if
    /// there is none.
    pub(crate) fn notify(&self, word: &AtomicU32) -> bool {
        let mut st = self.st.borrow_mut();
        loop {
            let len = st.queues.len(word);
            if len == 0 {
                return false;
            }
            let index = if self.random && len > 1 {
                st.schedule.below(len as u64) as usize
            } else {
                0
            };
            let Some(waiter) = st.queues.remove_at(word, index) else {
                return false;
            };
            if self.wake(&mut st, waiter, Wake::Notified) {
                return true;
            }
        }
    }
    /// Cuts the power: time stops, sleepers and abortable waits run again, the run-out budget
    /// starts.
    pub(crate) fn power_cut(&self) {
        if !self.powered.replace(false) {
            return;
        }
        self.mix(u64::MAX);
        self.start_run_out();
        let mut st = self.st.borrow_mut();
        while let Some((_, waiter)) = st.timers.pop() {
            self.wake(&mut st, waiter, Wake::PowerLost);
        }
        let abortable: Vec<Waiter> = st
            .tasks
            .iter()
            .flatten()
            .filter(|t| t.abortable.get())
            .map(|t| t.waiter(false))
            .collect();
        for waiter in abortable {
            self.wake(&mut st, waiter, Wake::PowerLost);
        }
    }
}

/// The caller's source line.
#[inline]
#[track_caller]
pub(crate) fn here() -> Site {
    Location::caller()
}
