//! Tasks: `spawn`, `join`, and scopes whose tasks may borrow.

use crate::core::{Core, here};
use crate::failure::Payload;
use crate::guards;
use crate::task::{TaskId, Wait, Waiter, Wake};
use crate::world::core;
use parking_lot::Mutex as OsMutex;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A running task. Dropping the handle lets the task run on alone.
pub struct JoinHandle<T>(Kind<T>);

enum Kind<T> {
    Real(std::thread::JoinHandle<T>),
    Sim(SimHandle<T>),
}

struct SimHandle<T> {
    world: u64,
    task: TaskId,
    result: Arc<OsMutex<Option<Result<T, Payload>>>>,
}

/// Starts a task that runs `f`.
///
/// # Panics
/// If the system has no room for another thread or stack.
#[track_caller]
pub fn spawn<T: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    try_spawn(name, f).expect("the system starts a thread")
}

/// Starts a task that runs `f`, for callers that can do without it.
///
/// # Errors
/// The system has no room for another thread.
#[track_caller]
pub fn try_spawn<T: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    let kind = match core() {
        // SAFETY: `f` borrows nothing.
        Some(core) => Kind::Sim(unsafe { spawn_in(core, name, f, || ()) }),
        None => Kind::Real(std::thread::Builder::new().name(name.into()).spawn(f)?),
    };
    Ok(JoinHandle(kind))
}

/// # Safety
/// What `f` and `at_end` borrow must outlive their run.
#[track_caller]
unsafe fn spawn_in<T>(
    core: &Core,
    name: &str,
    f: impl FnOnce() -> T,
    at_end: impl FnOnce(),
) -> SimHandle<T> {
    let result = Arc::new(OsMutex::new(None));
    let slot = result.clone();
    let body = move || {
        let outcome = catch_unwind(AssertUnwindSafe(f));
        let core = crate::world::core().expect("a task runs inside of its simulation");
        if outcome
            .as_ref()
            .err()
            .is_none_or(|payload| core.task_panicked(payload))
        {
            *slot.lock() = Some(outcome);
            drop(slot);
            at_end();
            ended(core);
        } else if let Err(payload) = outcome {
            core.st.borrow_mut().payload.get_or_insert(payload);
        }
    };
    // SAFETY: the caller's promise.
    let task = unsafe { core.start(name, body) };
    SimHandle {
        world: core.world,
        task,
        result,
    }
}

/// The running task has left its result: wakes the task that joins it.
fn ended(core: &Core) {
    let task = core.task();
    task.finished.set(true);
    if let Some(joiner) = task.joiner.take() {
        core.wake(&mut core.st.borrow_mut(), joiner, Wake::Notified);
    }
}

impl<T> JoinHandle<T> {
    /// Waits for the end of the task.
    ///
    /// # Errors
    /// The payload of its panic. (In a simulation only with [`crate::OnPanic::Join`]; else the
    /// panic has ended it.)
    ///
    /// # Panics
    /// If called in another world than `spawn`.
    #[track_caller]
    pub fn join(self) -> Result<T, Payload> {
        match self.0 {
            Kind::Real(handle) => {
                assert!(
                    core().is_none(),
                    "join of an OS thread inside of a simulation would stop all its tasks"
                );
                guards::may_wait();
                handle.join()
            }
            Kind::Sim(handle) => handle.join(),
        }
    }
    /// True if `join` would not wait.
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            Kind::Real(handle) => handle.is_finished(),
            Kind::Sim(handle) => handle.result.lock().is_some(),
        }
    }
}

impl<T> SimHandle<T> {
    #[track_caller]
    fn join(self) -> Result<T, Payload> {
        let site = here();
        let core = core().filter(|c| c.world == self.world);
        let core = core.expect("a task is joined in the simulation that spawned it");
        core.may_park(site);
        loop {
            if let Some(result) = self.result.lock().take() {
                return result;
            }
            let task = core.st.borrow().tasks[self.task as usize]
                .clone()
                .expect("a task without result runs");
            task.joiner.set(Some(core.task().waiter(false)));
            drop(task);
            core.park(Wait::Join(self.task), site);
        }
    }
}

/// Where tasks that borrow are started; see [`scope`].
#[derive(Clone, Copy)]
pub struct Scope<'scope, 'env: 'scope> {
    kind: ScopeKind<'scope, 'env>,
    env: PhantomData<&'env mut &'env ()>,
}

#[derive(Clone, Copy)]
enum ScopeKind<'scope, 'env: 'scope> {
    Real(&'scope std::thread::Scope<'scope, 'env>),
    Sim(&'scope SimScope),
}

#[derive(Default)]
struct SimScope {
    state: OsMutex<ScopeState>,
}

#[derive(Default)]
struct ScopeState {
    running: usize,
    owner: Option<Waiter>,
    /// Panics of tasks that were not joined.
    panics: usize,
}

/// Runs `f`, which may start tasks that borrow what outlives the call, and waits for all of them.
///
/// # Panics
/// If a task of the scope panicked, as in std.
#[track_caller]
pub fn scope<'env, T>(f: impl for<'scope> FnOnce(Scope<'scope, 'env>) -> T) -> T {
    let Some(core) = core() else {
        return std::thread::scope(|s| {
            f(Scope {
                kind: ScopeKind::Real(s),
                env: PhantomData,
            })
        });
    };
    let site = here();
    let sim = SimScope::default();
    let result = catch_unwind(AssertUnwindSafe(|| {
        f(Scope {
            kind: ScopeKind::Sim(&sim),
            env: PhantomData,
        })
    }));
    // The tasks borrow from frames above ours: whatever happened, leave only when the last one has
    // ended.
    if let Err(payload) = &result
        && sim.state.lock().running > 0
        && !core.task_panicked(payload)
    {
        core.st.borrow_mut().payload = result.err();
        core.leave_for_good();
    }
    while sim.state.lock().running > 0 {
        core.may_park(site);
        sim.state.lock().owner = Some(core.task().waiter(false));
        core.park(Wait::Scope, site);
    }
    match result {
        Ok(_) if sim.state.lock().panics > 0 => panic!("a scoped task panicked"),
        Ok(value) => value,
        Err(payload) => std::panic::resume_unwind(payload),
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a task that runs `f`.
    ///
    /// # Panics
    /// If the system has no room for another thread or stack.
    #[track_caller]
    pub fn spawn<T: Send + 'scope>(
        &self,
        name: &str,
        f: impl FnOnce() -> T + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, T> {
        self.try_spawn(name, f).expect("the system starts a thread")
    }

    /// Starts a task that runs `f`, for callers whose user chooses how many there are.
    ///
    /// # Errors
    /// The system has no room for another thread.
    #[track_caller]
    pub fn try_spawn<T: Send + 'scope>(
        &self,
        name: &str,
        f: impl FnOnce() -> T + Send + 'scope,
    ) -> std::io::Result<ScopedJoinHandle<'scope, T>> {
        let kind = match self.kind {
            ScopeKind::Real(s) => {
                let builder = std::thread::Builder::new().name(name.into());
                ScopedKind::Real(builder.spawn_scoped(s, f)?)
            }
            ScopeKind::Sim(sim) => {
                let core = core().expect("a scope is used in the simulation that opened it");
                sim.state.lock().running += 1;
                let f = move || {
                    let result = catch_unwind(AssertUnwindSafe(f));
                    sim.state.lock().panics += usize::from(result.is_err());
                    result.unwrap_or_else(|payload| std::panic::resume_unwind(payload))
                };
                // SAFETY: `scope` leaves only when `running` is zero, which each task does as its
                // last act.
                ScopedKind::Sim(unsafe { spawn_in(core, name, f, move || sim.leave()) }, sim)
            }
        };
        Ok(ScopedJoinHandle {
            kind,
            scope: PhantomData,
        })
    }
}

impl SimScope {
    fn leave(&self) {
        let mut state = self.state.lock();
        state.running -= 1;
        if state.running == 0
            && let Some(owner) = state.owner.take()
            && let Some(core) = core()
        {
            core.wake(&mut core.st.borrow_mut(), owner, Wake::Notified);
        }
    }
}

/// A running task of a scope.
pub struct ScopedJoinHandle<'scope, T> {
    kind: ScopedKind<'scope, T>,
    scope: PhantomData<&'scope ()>,
}

enum ScopedKind<'scope, T> {
    Real(std::thread::ScopedJoinHandle<'scope, T>),
    Sim(SimHandle<T>, &'scope SimScope),
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the end of the task.
    ///
    /// # Errors
    /// As [`JoinHandle::join`].
    #[track_caller]
    pub fn join(self) -> Result<T, Payload> {
        match self.kind {
            ScopedKind::Real(handle) => handle.join(),
            ScopedKind::Sim(handle, sim) => {
                let result = handle.join();
                sim.state.lock().panics -= usize::from(result.is_err());
                result
            }
        }
    }
}
