//! The runtime of both worlds: time, tasks, locks, randomness, trace, memory of pages.
//!
//! The same blocking, `Send + Sync` code runs on coroutines with a virtual clock (inside of
//! [`Sim::run`]) and on OS threads with the real one (everywhere else); each blocking call looks
//! where it is. In a simulation all tasks share one OS thread, switch only at calls of this crate,
//! and the same seed gives the same run, bit for bit.
//!
//! Rules for callers: no lock but those of this crate is held over a call that may wait; no lock in
//! a `static`; no object shared by two worlds; daemons have an explicit stop; after a power cut
//! tasks get errors and run to their end.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

pub mod atomic;
mod channel;
mod condvar;
mod config;
mod core;
mod doing;
mod explore;
mod failure;
mod guards;
mod leader;
mod local;
mod mutant;
mod mutex;
mod order;
mod overflow;
mod page;
mod power;
mod queue;
mod rwlock;
mod sched;
mod semaphore;
pub mod signals;
mod sim;
mod spawn;
mod stack;
mod task;
mod time;
mod values;
mod watchdog;
mod world;

pub use channel::{Receiver, RecvError, SendError, Sender, channel, channel_named};
pub use condvar::Condvar;
pub use config::{BadReplay, DELAYS, OnPanic, Policy, SimConfig, WallTime};
pub use doing::{Doing, Doings, What, note_doings};
pub use explore::each_schedule;
pub use failure::{Blocked, Failure, Payload};
pub use guards::{foreign, foreign_depth, in_simulation, no_yield, unwinding};
pub use leader::{Asked, Leaders, about_to_wait};
pub use local::{local, with_local};
pub use mutant::{MUTANTS, Reached, mutant};
pub use mutex::{Mutex, MutexGuard};
pub use page::Page;
pub use power::{PowerLost, power_cut, powered, sleep_until_power};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::Semaphore;
pub use sim::{Outcome, Sim};
pub use spawn::{JoinHandle, Scope, ScopedJoinHandle, scope, spawn, try_spawn};
pub use time::{
    charge, charge_each, charge_run, charged, now, rng, sleep, sleep_until, task_name, task_number,
    trace, trace_str, wall, yield_now,
};
