//! The only adapter from a sans-IO [`Model`] to a blocking [`BlockDevice`].
//!
//! Invariants:
//! - I1 the model is never called while time could pass: it is locked, called with the current
//!   time, and unlocked;
//! - I2 no task sleeps with the model locked;
//! - I3 a completion later than the cut is never delivered; one at exactly the cut is;
//! - I4 with a cut that was announced ([`Modelled::cut_at`]) the model is never called at a later
//!   time, so the medium is that of the cut, whenever it is asked for.

use crate::tickets::Tickets;
use crate::{
    BlockDevice, Caps, Completion, DevError, DeviceStats, FlashStats, Model, Reply, Request, Ticket,
};
use base::Time;
use rt::Mutex;

/// The clock by which a modelled device runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// The clock of `rt`: virtual inside a simulation; outside it the wall clock, so that waiting
    /// takes as long as the modelled device would.
    Runtime,
    /// The clock of `rt`, but the device takes this many thousandths of the modelled time.
    Paced {
        /// 1000: as [`Clock::Runtime`]; at least 1.
        permille: u32,
    },
    /// A clock of the device's own that jumps to each completion, so that nothing waits.
    Unpaced,
}

impl Clock {
    /// The time by the clock of `rt` at which the model's time is `at`; `None` with a clock of the
    /// device's own.
    fn outside(self, at: Time) -> Option<Time> {
        match self {
            Clock::Runtime => Some(at),
            Clock::Paced { permille } => Some(scaled(at, u64::from(permille), 1000)),
            Clock::Unpaced => None,
        }
    }
}

/// `at * by / of`, rounded up: a waiter wakes after what it waits for, never before.
fn scaled(at: Time, by: u64, of: u64) -> Time {
    let scaled = (u128::from(at.0) * u128::from(by)).div_ceil(u128::from(of));
    Time(u64::try_from(scaled).unwrap_or(u64::MAX))
}

/// A model as a blocking device.
pub struct Modelled<M: Model> {
    caps: Caps,
    clock: Clock,
    state: Mutex<State<M>>,
}

struct State<M> {
    /// `None` after the cut, when the media was handed out.
    model: Option<M>,
    done: Tickets<Completion>,
    /// Time of [`Clock::Unpaced`].
    own_now: Time,
    cut_at: Option<Time>,
    /// When the power goes, if that was announced.
    announced: Option<Time>,
}

impl<M: Model> Modelled<M> {
    /// Puts `model` behind the blocking seam.
    pub fn new(model: M, clock: Clock) -> Modelled<M> {
        let caps = model.caps().clone();
        let state = State {
            model: Some(model),
            done: Tickets::default(),
            own_now: Time(0),
            cut_at: None,
            announced: None,
        };
        Modelled {
            caps,
            clock,
            state: Mutex::named("modelled", state),
        }
    }

    /// Announces that the power goes at the model's time `at`: later completions are not delivered,
    /// later requests answer power loss, and [`power_off`](Modelled::power_off) cuts then (I4).
    pub fn cut_at(&self, at: Time) {
        self.state.lock().announced = Some(at);
    }

    /// Whether the power is off, or an announced cut is due (I4).
    pub fn is_cut(&self) -> bool {
        let state = self.state.lock();
        let now = state.now(self.clock);
        state.cut_at.is_some() || state.announced.is_some_and(|at| now >= at)
    }

    /// The model's time now; with a cut that was announced, at most that of the cut.
    pub fn model_time(&self) -> Time {
        let state = self.state.lock();
        let now = state.now(self.clock);
        state.announced.map_or(now, |at| at.min(now))
    }

    /// Cuts the power now and hands out what survives. Every request that is not complete, and
    /// every later one, answers power loss. `None` if the power is off already.
    pub fn power_off(&self, seed: u64) -> Option<M::Media> {
        let mut state = self.state.lock();
        let now = state.now(self.clock);
        // I4: the model was not called after the announced cut.
        let now = state.announced.map_or(now, |at| at.min(now));
        let model = state.model.take()?;
        state.cut_at = Some(now);
        drop(state);
        Some(model.power_off(now, seed))
    }

    /// What a power cut at this moment would leave, while the device runs on. `None` if the power
    /// is off.
    pub fn snapshot(&self, seed: u64) -> Option<M::Media>
    where
        M: Clone,
    {
        let state = self.state.lock();
        let now = state.now(self.clock);
        let model = state.model.clone()?;
        drop(state);
        Some(model.power_off(now, seed))
    }

    /// Lets the model's time become at least `at` (I2: without the lock).
    fn pass_until(&self, at: Time) {
        if let Some(at) = self.clock.outside(at) {
            return rt::sleep_until(at);
        }
        let mut state = self.state.lock();
        state.own_now = state.own_now.max(at);
    }

    /// Takes the model out, e.g. to read its content after unmounting. Every later request answers
    /// power loss; `None` if the power is off already.
    pub fn take_model(&self) -> Option<M> {
        self.state.lock().model.take()
    }

    /// Calls `look` with the model.
    pub fn with_model<R>(&self, look: impl FnOnce(&M) -> R) -> Option<R> {
        self.state.lock().model.as_ref().map(look)
    }

    /// Calls `change` with the model, which it may change, e.g. what the model records.
    pub fn with_model_mut<R>(&self, change: impl FnOnce(&mut M) -> R) -> Option<R> {
        self.state.lock().model.as_mut().map(change)
    }

    /// Host commands so far.
    pub fn device_stats(&self) -> Option<DeviceStats> {
        self.with_model(M::device_stats)
    }

    /// Flash operations so far; `None` without flash below or without power.
    pub fn flash_stats(&self) -> Option<FlashStats> {
        self.with_model(M::flash_stats).flatten()
    }
}

impl<M> State<M> {
    fn now(&self, clock: Clock) -> Time {
        match clock {
            Clock::Runtime => rt::now(),
            Clock::Paced { permille } => scaled(rt::now(), 1000, u64::from(permille)),
            Clock::Unpaced => self.own_now,
        }
    }
}

impl<M: Model> BlockDevice for Modelled<M> {
    fn caps(&self) -> Caps {
        self.caps.clone()
    }

    fn submit(&self, request: Request) -> Ticket {
        let mut state = self.state.lock();
        let now = state.now(self.clock);
        let late = state.announced.is_some_and(|at| now > at);
        let completion = match state.model.as_mut() {
            Some(model) if !late => model.execute(now, request),
            // I4, or the model was taken out.
            _ => Completion {
                at: now,
                result: Err(DevError::power_lost()),
            },
        };
        assert!(
            completion.at >= now,
            "I1: a completion lies before its command"
        );
        state.done.keep(completion)
    }

    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        let (completion, cut, announced) = {
            let mut state = self.state.lock();
            let completion = state.done.fetch(ticket)?;
            (completion, state.cut_at, state.announced)
        };
        if cut.is_some_and(|cut| completion.at > cut) {
            return Err(DevError::power_lost());
        }
        if let Some(cut) = announced
            && completion.at > cut
        {
            // Nobody learns of a cut before it happens.
            self.pass_until(cut);
            return Err(DevError::power_lost());
        }
        self.pass_until(completion.at);
        // I3.
        match self.state.lock().cut_at {
            Some(cut) if completion.at > cut => Err(DevError::power_lost()),
            _ => completion.result,
        }
    }

    fn due(&self, ticket: Ticket) -> Option<Time> {
        let state = self.state.lock();
        let at = state.done.look(ticket)?.at;
        self.clock.outside(at)
    }
}
