//! Sends what waits in [`Lanes`] to the device, one command a tag.
//!
//! A tag is a task that sends a request, waits for its end, and takes the next one. So a request
//! that nobody waits for yet goes to the device, too, and no more than `depth` of those that waited
//! are at the device at once.
//!
//! - E1 each request goes to the device once, and its answer is that of the device: nobody learns
//!   of an end before the device has told it.
//! - E2 requests that share a sector go to the device in the order in which they came: one that
//!   comes sends those that wait ahead of itself. So a read sees what waits, and the newer of two
//!   writes stays the newer.
//! - E3 a flush, a write with FUA, a pack, a REMAP and a discard go to the device at once
//!   (`blk-flush` of Linux: the elevator never sees them). So a flush starts when it is called, and
//!   covers what had ended by then (hazards-H17). What waits has ended for nobody: no mark counts
//!   it, and a queue with something that waits has a dirty cache (durability-B1).
//! - E4 what waits is sent at some time: a tag is at work or asleep, and who sleeps is woken when
//!   something comes, when something has ended, and at the moment that a pick named. No choice
//!   depends on what a caller does next, but for the span of `idle`. A turn of each side comes, as
//!   those of the other one end, and it sends a request at least. After a power cut everything is
//!   sent without a choice, and fails at the device.
//!
//! So a scheduler adds no state that a power cut may leave. A cut leaves what the device makes of
//! the commands that it got: those that had ended by the last flush whole, the others whole, torn
//! or not at all, in any order. A write that still waits is one that is not there, as if it were at
//! the device and lost. E3 keeps it out of what a flush covers, E1 out of what callers build on,
//! and E2 orders what has an order. With `none` the same program, held up for a while before each
//! such write, leaves the same.

use crate::lanes::{Lanes, Pick, Waiting};
use crate::scheduler::describe;
use base::Mutant;
use blockdev::{BlockDevice, DevError, Op, Reply, Request, Scheduler, Ticket};
use rt::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// How a request goes to the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    /// Not by a scheduler (E3).
    AtOnce,
    /// A task waits for it, or will do so next.
    Awaited,
    /// It has time.
    Background,
}

/// A scheduler at work. Its tags end with it; nobody may be waiting then.
pub(crate) struct Elevator(Arc<Shared>);

struct Shared {
    device: Arc<dyn BlockDevice>,
    depth: usize,
    state: Mutex<State>,
    /// Wakes a tag.
    work: Condvar,
    /// Something has ended, or was sent past the tags.
    ended: Condvar,
    /// Something waits no more.
    room: Condvar,
}

struct State {
    lanes: Lanes,
    /// The number of the next request: our ticket.
    next: u64,
    /// Sent by tags.
    busy: usize,
    /// Sent past the tags; the task that waits for such a request waits for the device itself.
    direct: BTreeMap<u64, Ticket>,
    /// Tasks that do so.
    watching: usize,
    answers: BTreeMap<u64, Result<Reply, DevError>>,
    stop: bool,
}

impl Elevator {
    /// `None` for [`Scheduler::None`]. `depth`: commands that the device takes at once, at least
    /// one.
    ///
    /// # Errors
    /// The host starts no thread for one of these commands.
    pub fn start(
        device: &Arc<dyn BlockDevice>,
        scheduler: Scheduler,
        depth: usize,
    ) -> io::Result<Option<Elevator>> {
        let Some(what) = describe(scheduler) else {
            return Ok(None);
        };
        let depth = depth.max(1);
        let state = State {
            lanes: Lanes::new(what, depth),
            next: 0,
            busy: 0,
            direct: BTreeMap::new(),
            watching: 0,
            answers: BTreeMap::new(),
            stop: false,
        };
        let shared = Arc::new(Shared {
            device: device.clone(),
            depth,
            state: Mutex::named("elevator", state),
            work: Condvar::named("elevator: work"),
            ended: Condvar::named("elevator: end of a request"),
            room: Condvar::named("elevator: room"),
        });
        // Dropping it ends the tags that have started.
        let elevator = Elevator(shared);
        for _ in 0..depth {
            let shared = elevator.0.clone();
            drop(rt::try_spawn("io-tag", move || shared.serve())?);
        }
        Ok(Some(elevator))
    }

    /// Sends a request, now or later. It waits only where too many wait already.
    pub fn submit(&self, request: Request, how: How) -> Ticket {
        let shared = &self.0;
        let mut state = shared.state.lock();
        let background = how == How::Background;
        let lane = (state.lanes).lane_of(&request, background, rt::task_number());
        let waits = how != How::AtOnce;
        while waits && state.lanes.is_full(lane.0) {
            shared.room.wait(&mut state);
        }
        shared.send_shared(&mut state, &request);
        let number = state.next;
        state.next += 1;
        if waits {
            let waiting = Waiting {
                number,
                request,
                since: rt::now(),
            };
            let writes = matches!(waiting.request.op, Op::Write { .. });
            if writes && rt::mutant(Mutant::SchedulerPassesFlush) {
                state.answers.insert(number, Ok(Reply::default()));
            }
            state.lanes.add(rt::now(), lane, waiting);
            shared.work.notify_one();
        } else {
            let ticket = shared.device.submit(request);
            state.direct.insert(number, ticket);
        }
        Ticket(number)
    }

    /// Waits for the end of a request.
    ///
    /// # Errors
    /// That of the device.
    pub fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        let shared = &self.0;
        let mut state = shared.state.lock();
        loop {
            if let Some(answer) = state.answers.remove(&ticket.0) {
                return answer;
            }
            if let Some(direct) = state.direct.remove(&ticket.0) {
                state.watching += 1;
                drop(state);
                let answer = shared.device.wait(direct);
                shared.state.lock().watching -= 1;
                shared.work.notify_one();
                return answer;
            }
            shared.ended.wait(&mut state);
        }
    }
}

impl Drop for Elevator {
    fn drop(&mut self) {
        self.0.state.lock().stop = true;
        self.0.work.notify_all();
    }
}

impl Shared {
    /// E2.
    fn send_shared(&self, state: &mut State, request: &Request) {
        let ahead = match rt::mutant(Mutant::SchedulerSwaps) {
            true => Vec::new(),
            false => state.lanes.take_shared(request),
        };
        if ahead.is_empty() {
            return;
        }
        for waiting in ahead {
            // The lock is held, so that nothing gets between the order in the lanes and that at the
            // device.
            let ticket = self.device.submit(waiting.request);
            state.direct.insert(waiting.number, ticket);
        }
        self.ended.notify_all();
        self.room.notify_all();
    }

    /// The life of a tag.
    fn serve(&self) {
        let mut state = self.state.lock();
        while !state.stop {
            match self.pick(&mut state) {
                Pick::Later => self.work.wait(&mut state),
                Pick::At(time) => drop(self.work.wait_until(&mut state, time)),
                Pick::Send((side, _), waiting) => {
                    let ticket = self.device.submit(waiting.request);
                    state.lanes.sent(side);
                    state.busy += 1;
                    // Another tag may have something to do as well.
                    self.work.notify_one();
                    self.room.notify_all();
                    drop(state);
                    let answer = self.device.wait(ticket);
                    state = self.state.lock();
                    state.busy -= 1;
                    state.lanes.ended(rt::now(), side, waiting.since);
                    state.answers.insert(waiting.number, answer);
                    self.ended.notify_all();
                }
            }
        }
    }

    fn pick(&self, state: &mut State) -> Pick {
        if !rt::powered() {
            // E4.
            return match state.lanes.take_any() {
                Some((lane, waiting)) => Pick::Send(lane, waiting),
                None => Pick::Later,
            };
        }
        match state.busy + state.watching < self.depth {
            true => state.lanes.pick(rt::now()),
            false => Pick::Later,
        }
    }
}
