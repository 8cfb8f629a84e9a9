//! Bounded channels: many senders, many receivers, messages in order.

use crate::condvar::WaitList;
use crate::core::here;
use crate::guards::may_wait;
use crate::power::powered;
use crate::task::{Site, Wait, Wake};
use crate::world::{Binding, core};
use parking_lot::{Mutex as OsMutex, MutexGuard as OsGuard};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// Sending end. Clone it for more senders; the channel ends when the last one is dropped.
pub struct Sender<T>(Arc<Shared<T>>);
/// Receiving end. Clone it for more receivers; each message goes to one of them.
pub struct Receiver<T>(Arc<Shared<T>>);

struct Shared<T> {
    name: &'static str,
    capacity: usize,
    world: Binding,
    /// Held for a few instructions only, never over a wait; so `Drop` may take it.
    state: OsMutex<State<T>>,
    room: WaitList,
    filled: WaitList,
}

struct State<T> {
    queue: VecDeque<T>,
    senders: usize,
    receivers: usize,
}

/// Why nothing was sent; the message comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendError<T> {
    /// No receiver is left.
    Disconnected(T),
    /// The channel is full and the power is gone.
    PowerLost(T),
}

/// Why nothing was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvError {
    /// The channel is empty and no sender is left.
    Disconnected,
    /// The channel is empty and the power is gone.
    PowerLost,
}

/// A channel that holds up to `capacity` messages.
///
/// # Panics
/// If `capacity` is 0: there are no rendezvous channels.
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    channel_named("", capacity)
}

/// As [`channel`], with a name for deadlock reports.
///
/// # Panics
/// If `capacity` is 0.
pub fn channel_named<T>(name: &'static str, capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(
        capacity > 0,
        "rt::channel needs room for at least one message"
    );
    let state = OsMutex::new(State {
        queue: VecDeque::new(),
        senders: 1,
        receivers: 1,
    });
    let (room, filled) = (WaitList::new(), WaitList::new());
    let shared = Arc::new(Shared {
        name,
        capacity,
        world: Binding::new(),
        state,
        room,
        filled,
    });
    (Sender(shared.clone()), Receiver(shared))
}

impl<T> Shared<T> {
    #[track_caller]
    fn enter(&self, site: Site) {
        self.world.check("channel", self.name, || false);
        if let Some(core) = core() {
            core.scheduling_point(site);
        }
    }
    /// Waits in `list`; the power cut ends it.
    #[track_caller]
    fn wait<'a>(
        &'a self,
        list: &WaitList,
        how: Wait,
        mut state: OsGuard<'a, State<T>>,
        site: Site,
    ) -> (OsGuard<'a, State<T>>, Wake) {
        match core() {
            Some(core) => {
                let wake = list.wait_in(core, how, site, None, true, || drop(state));
                (self.state.lock(), wake)
            }
            None => {
                may_wait();
                list.real.wait(&mut state);
                (state, Wake::Notified)
            }
        }
    }
}

impl<T> Sender<T> {
    /// Sends, waiting for room.
    ///
    /// # Errors
    /// If no receiver is left, or the power is gone while there is no room.
    #[track_caller]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        let (site, shared) = (here(), &*self.0);
        shared.enter(site);
        let mut state = shared.state.lock();
        while state.queue.len() >= shared.capacity {
            if state.receivers == 0 {
                return Err(SendError::Disconnected(message));
            }
            if !powered() {
                return Err(SendError::PowerLost(message));
            }
            (state, _) = shared.wait(&shared.room, Wait::Send { name: shared.name }, state, site);
        }
        if state.receivers == 0 {
            return Err(SendError::Disconnected(message));
        }
        state.queue.push_back(message);
        drop(state);
        shared.filled.notify_one();
        Ok(())
    }
}

impl<T> Receiver<T> {
    /// Receives the next message, waiting for it.
    ///
    /// # Errors
    /// If the channel is empty and no sender is left, or the power is gone.
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        let (site, shared) = (here(), &*self.0);
        shared.enter(site);
        let mut state = shared.state.lock();
        loop {
            if let Some(message) = state.queue.pop_front() {
                drop(state);
                shared.room.notify_one();
                return Ok(message);
            }
            if state.senders == 0 {
                return Err(RecvError::Disconnected);
            }
            if !powered() {
                return Err(RecvError::PowerLost);
            }
            (state, _) = shared.wait(
                &shared.filled,
                Wait::Recv { name: shared.name },
                state,
                site,
            );
        }
    }
    /// The next message, if it is there.
    #[track_caller]
    pub fn try_recv(&self) -> Option<T> {
        self.0.enter(here());
        let message = self.0.state.lock().queue.pop_front()?;
        self.0.room.notify_one();
        Some(message)
    }
    /// Messages until the channel ends.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.recv().ok())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.state.lock().senders += 1;
        Sender(self.0.clone())
    }
}
impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.0.state.lock().receivers += 1;
        Receiver(self.0.clone())
    }
}
impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.senders -= 1;
        let last = state.senders == 0;
        drop(state);
        if last {
            self.0.filled.notify_all();
        }
    }
}
impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.receivers -= 1;
        let last = state.receivers == 0;
        drop(state);
        if last {
            self.0.room.notify_all();
        }
    }
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::Disconnected(_) => "Disconnected",
            SendError::PowerLost(_) => "PowerLost",
        })
    }
}
impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::Disconnected(_) => "channel: no receiver is left",
            SendError::PowerLost(_) => "channel: full, and the power is gone",
        })
    }
}
impl<T> std::error::Error for SendError<T> {}
impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecvError::Disconnected => "channel: empty, and no sender is left",
            RecvError::PowerLost => "channel: empty, and the power is gone",
        })
    }
}
impl std::error::Error for RecvError {}
