//! Requests through io_uring.
//!
//! A device has several lanes, each a ring of its own, because the kernel lets only one thread at a
//! time submit into a ring, and copies data for its page cache during the submission. A task uses
//! the lane of its number, or another lane in which no task submits at the moment.
//!
//! ```text
//! submit: [gate] push, enter the kernel            -> Flight::Under
//! wait:   [state] done? -> answer
//!          another task reaps? -> wait to be told, look again
//!          reap: wait in the kernel without any lock, then [state] note all that is complete, tell all waiters
//! ```
//!
//! - U1: a job stays in `State::flights`, untouched, until its completion was seen: the kernel uses
//!   its memory.
//! - U2: from the moment at which a task sets `reaping` until it unsets it, only that task takes
//!   completions. If another task took one between the first one's look and its wait in the kernel,
//!   the first one would wait for a completion that never comes.
//! - U3: no lock is held while waiting for a completion; `gate` is held over a submission, and over
//!   a job that the submitting thread carries out itself (a discard, or one too many). A task that
//!   finds `gate` taken uses another lane, if one is free.
//! - U4: a device that is dropped with jobs under way leaves their memory to the kernel for good.

use super::job::{Job, Pool};
use super::place::Place;
use crate::{DevError, Reply, Ticket};
use io_uring::{IoUring, opcode, squeue, types};
use rt::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd;

/// Rings of a device.
const LANES: usize = 4;
/// Entries of a submission queue; the kernel keeps twice as many completions.
const ENTRIES: u32 = 128;
/// The maximum of jobs under way in a lane; further jobs are carried out in the thread that
/// submits.
const UNDER_WAY_MAX: usize = 256;

const _: () = assert!(UNDER_WAY_MAX <= 2 * ENTRIES as usize);

/// All rings of a device.
pub(super) struct Lanes(Vec<Lane>);

struct Lane {
    ring: IoUring,
    /// Held by the task that pushes and submits.
    gate: Mutex<()>,
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    next: u64,
    flights: BTreeMap<u64, Flight>,
    under_way: usize,
    /// True while a task waits in the kernel.
    reaping: bool,
}

/// A job and its state.
enum Flight {
    /// The kernel has the job. The kernel reads the list of its parts.
    Under(Job, Vec<libc::iovec>),
    /// Complete, with the number that the kernel answered.
    Back(Job, i32),
    /// Carried out without the kernel's queue.
    Done(Result<Reply, DevError>),
}

// SAFETY: the pointers of an iovec lead into the job beside it, which is `Send`, and which no task
// changes meanwhile (U1).
unsafe impl Send for Flight {}

impl Lanes {
    /// Makes the rings.
    pub fn new() -> io::Result<Lanes> {
        let lane = || {
            Ok(Lane {
                ring: IoUring::new(ENTRIES)?,
                gate: Mutex::named("host ring gate", ()),
                state: Mutex::named("host ring", State::default()),
                news: Condvar::named("host ring news"),
            })
        };
        Ok(Lanes(
            (0..LANES).map(|_| lane()).collect::<io::Result<_>>()?,
        ))
    }

    /// Hands a job to the kernel.
    pub fn submit(&self, place: &Place, pool: &Pool, job: Result<Job, DevError>) -> Ticket {
        let home = rt::task_number();
        let order = (0..LANES).map(|n| (home + n) % LANES);
        for n in order {
            // U3: a task does not wait for a lane in which another task submits, as long as there
            // is a free one.
            if let Some(gate) = self.0[n].gate.try_lock() {
                let number = self.0[n].submit(place, pool, job);
                drop(gate);
                return ticket(n, number);
            }
        }
        let n = home % LANES;
        let gate = self.0[n].gate.lock();
        let number = self.0[n].submit(place, pool, job);
        drop(gate);
        ticket(n, number)
    }

    /// Waits for a job.
    pub fn wait(&self, place: &Place, pool: &Pool, ticket: Ticket) -> Result<Reply, DevError> {
        let (n, number) = (ticket.0 as usize % LANES, ticket.0 / LANES as u64);
        self.0[n].wait(place, pool, number).unwrap_or_else(|| {
            let why = format!("{ticket:?} was never submitted, or was waited for before");
            Err(DevError::misuse(None, why))
        })
    }
}

fn ticket(lane: usize, number: u64) -> Ticket {
    Ticket(number * LANES as u64 + lane as u64)
}

impl Lane {
    /// Submits a job; the gate is held.
    fn submit(&self, place: &Place, pool: &Pool, job: Result<Job, DevError>) -> u64 {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        let mut job = match job {
            Ok(job) => job,
            Err(e) => {
                state.flights.insert(number, Flight::Done(Err(e)));
                return number;
            }
        };
        if matches!(job, Job::Discard { .. }) || state.under_way >= UNDER_WAY_MAX {
            drop(state);
            let done = job.run(place, 0).map(|()| job.into_reply(pool));
            self.state.lock().flights.insert(number, Flight::Done(done));
            return number;
        }
        let list = iovecs(&mut job);
        let entry = entry(place, &job, &list).user_data(number);
        state.flights.insert(number, Flight::Under(job, list));
        state.under_way += 1;
        drop(state);
        // SAFETY: the gate lets one task at a time push; the memory that `entry` names stays until
        // the completion (U1, U4).
        let pushed = unsafe { self.ring.submission_shared().push(&entry) };
        let entered = match pushed {
            Ok(()) => self.ring.submit().map(drop),
            Err(_) => Err(io::ErrorKind::WouldBlock.into()),
        };
        if pushed.is_err() {
            // The job never reached the queue, so it is carried out here.
            self.note(number, -libc::EAGAIN);
        } else if let Err(e) = entered {
            // The job lies in the queue; the next task that enters the kernel submits it.
            debug_assert!(is_passing(&e), "io_uring_enter: {e}");
        }
        number
    }

    fn note(&self, number: u64, answer: i32) {
        self.state.lock().note(number, answer);
    }

    /// Waits for a job; `None`: there is no such job.
    fn wait(&self, place: &Place, pool: &Pool, number: u64) -> Option<Result<Reply, DevError>> {
        let mut state = self.state.lock();
        loop {
            if !state.reaping {
                self.reap(&mut state);
            }
            match state.flights.get(&number)? {
                Flight::Under(..) => {}
                Flight::Back(..) | Flight::Done(_) => {
                    let flight = state.flights.remove(&number)?;
                    drop(state);
                    return Some(finish(place, pool, flight));
                }
            }
            if state.reaping {
                self.news.wait(&mut state);
                continue;
            }
            state.reaping = true;
            drop(state);
            rt::about_to_wait();
            let entered = self.ring.submit_and_wait(1);
            state = self.state.lock();
            self.reap(&mut state);
            state.reaping = false;
            self.news.notify_all();
            // Passing errors (EINTR, EAGAIN, EBUSY) are tried again; after another one the job
            // stays the kernel's (U4).
            if let Err(e) = entered
                && !is_passing(&e)
            {
                return Some(Err(place.failed(place.start, "waiting in a ring of", &e)));
            }
        }
    }

    /// Notes what is complete. `state` is locked, and the caller is the task that reaps, or no task
    /// does (U2).
    fn reap(&self, state: &mut State) {
        // SAFETY: the lock, and U2, let one task at a time take completions.
        let done = unsafe { self.ring.completion_shared() };
        for entry in done {
            state.note(entry.user_data(), entry.result());
        }
    }
}

impl State {
    fn note(&mut self, number: u64, answer: i32) {
        if let Some(Flight::Under(job, list)) = self.flights.remove(&number) {
            // The kernel needs neither any more.
            drop(list);
            self.under_way -= 1;
            self.flights.insert(number, Flight::Back(job, answer));
        }
    }
}

impl Drop for Lane {
    /// U4. No I/O, no waiting, no lock (rule 11).
    fn drop(&mut self) {
        for flight in std::mem::take(&mut self.state.get_mut().flights).into_values() {
            if matches!(flight, Flight::Under(..)) {
                std::mem::forget(flight);
            }
        }
    }
}

/// The parts of a job in the form that the kernel takes.
fn iovecs(job: &mut Job) -> Vec<libc::iovec> {
    let iovec = |base: *mut u8, len| libc::iovec {
        iov_base: base.cast(),
        iov_len: len,
    };
    if let Job::Read { into, .. } = job {
        return (into.iter_mut())
            .map(|b| iovec(b.as_mut_ptr(), b.len()))
            .collect();
    }
    let slices = job.slices().into_iter();
    slices
        .map(|s| iovec(s.as_ptr().cast_mut(), s.len()))
        .collect()
}

fn entry(place: &Place, job: &Job, list: &[libc::iovec]) -> squeue::Entry {
    let file = match job {
        Job::Write { at, .. } => place.writer(*at, &job.slices()),
        _ => &place.file,
    };
    let fd = types::Fd(file.as_raw_fd());
    let len = list.len() as u32;
    match job {
        Job::Read { at, .. } => opcode::Readv::new(fd, list.as_ptr(), len)
            .offset(*at)
            .build(),
        Job::Write { at, dsync, .. } => opcode::Writev::new(fd, list.as_ptr(), len)
            .offset(*at)
            .rw_flags(if *dsync { libc::RWF_DSYNC } else { 0 })
            .build(),
        Job::Sync | Job::Discard { .. } => opcode::Fsync::new(fd)
            .flags(types::FsyncFlags::DATASYNC)
            .build(),
    }
}

/// The result of a completion. The rest of a short transfer, and a job that the kernel gave back,
/// are carried out here.
fn finish(place: &Place, pool: &Pool, flight: Flight) -> Result<Reply, DevError> {
    let (mut job, answer) = match flight {
        Flight::Done(result) => return result,
        Flight::Back(job, answer) => (job, answer),
        Flight::Under(..) => return Err(DevError::misuse(None, "still under way")),
    };
    if answer < 0 {
        let e = io::Error::from_raw_os_error(-answer);
        // The kernel cancels what a thread had submitted when the thread ends. An unknown flag is
        // worked around, and so is a transfer that direct I/O refuses.
        let other_way = [libc::ECANCELED, libc::EOPNOTSUPP, libc::EINVAL];
        let again = is_passing(&e) || other_way.contains(&-answer);
        if !again {
            return Err(job.failed(place, &e));
        }
        job.run(place, 0)?;
    } else if (answer as usize) < job.len() {
        job.run(place, answer as usize)?;
    }
    Ok(job.into_reply(pool))
}

fn is_passing(e: &io::Error) -> bool {
    let passing = [libc::EINTR, libc::EAGAIN, libc::EBUSY];
    e.raw_os_error().is_some_and(|n| passing.contains(&n)) || e.kind() == io::ErrorKind::WouldBlock
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostOptions, Op, Request};
    use base::{BLOCK_BYTES, Lba, Nanos};
    use rt::{Asked, Leaders};
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::path::Path;

    const PATIENCE: Nanos = Nanos::from_secs(30);

    /// A place whose reads wait until the other end of a socket writes.
    fn slow_place() -> (Place, UnixStream) {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(BLOCK_BYTES as u64).expect("room");
        let options = HostOptions::write();
        let mut place = Place::new(Path::new("a file"), file, &options).expect("a place");
        let (far, near) = UnixStream::pair().expect("a pair");
        place.file = File::from(OwnedFd::from(near));
        (place, far)
    }

    fn asked(client: u32) -> Asked {
        Asked {
            client,
            ..Asked::default()
        }
    }

    #[test]
    fn a_thread_that_waits_in_a_ring_lets_another_read_requests() {
        let lanes = match Lanes::new() {
            Ok(lanes) => lanes,
            Err(e) => return eprintln!("skipped: no io_uring: {e}"),
        };
        let (place, mut far) = slow_place();
        let leaders = Leaders::new();
        let (parks, (tell, called)) = (leaders.clone(), rt::channel(1));
        let (ready, both) = rt::channel(1);
        let first = rt::spawn("first", move || {
            leaders.turn(&asked(1), || ());
            both.recv().expect("the other one comes");
            leaders.turn(&asked(1), || {
                let pool = Pool::new();
                let op = Op::Read {
                    lba: Lba(0),
                    sectors: 8,
                };
                let ticket = lanes.submit(&place, &pool, Job::new(&place, &pool, Request { op }));
                let reply = lanes.wait(&place, &pool, ticket).expect("it is read");
                assert_eq!(reply.into_bytes()[..], [7; BLOCK_BYTES]);
            });
        });
        let other = rt::spawn("other", move || {
            // With two clients no wait is left to the alarm.
            parks.turn(&asked(2), || ready.send(()).expect("it waits"));
            tell.send(()).expect("it is heard");
        });
        // The read ends only now: the thread that waited for it has called the other one by now, or
        // never will.
        let until = rt::now() + PATIENCE;
        let mut heard = false;
        while !heard && rt::now() < until {
            heard = called.try_recv().is_some();
            rt::yield_now();
        }
        far.write_all(&[7; BLOCK_BYTES]).expect("it is taken");
        first.join().expect("it ends");
        other.join().expect("it ends");
        assert!(heard, "it waited, and told nobody");
    }
}
