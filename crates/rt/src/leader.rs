//! Threads of the real world that take requests from one source, with one of them reading at a
//! time: Leader/Followers (Schmidt, O'Ryan, Kircher, Pyarali, Buschmann, "Leader/Followers", PLoP
//! 2000).
//!
//! A source that many threads wait at, as the device of FUSE, wakes the thread that has waited
//! longest for each request, so a thread that has just answered is the last to be chosen. Often
//! that thread is back at the source before the woken one and takes the request, and the wake-up
//! was wasted. A single thread wastes none, but a request that waits for the disk then holds up all
//! others. So one thread reads until it is about to wait. Then another one is called to the source:
//! at once if there is a crowd (several clients, or requests that queue), else by an alarm after
//! [`LATE`], so that a single client that waits for each answer pays for no second thread. Before a
//! request that takes long by itself another thread is called in any case.
//!
//! Where requests queue, as many threads take turns as there are processors, and none of them parks
//! between two turns. To call another thread for each request, and to park behind it, would cost
//! two changes of threads for each.
//! ```text
//!  reading --request--> in a turn --about to wait: a crowd? call another : set the alarm--> in a turn, waiting
//!     ^                    | end: nobody reads?                                                | end: nobody reads?
//!     +------- yes --------+--------------------------- yes -----------------------------------+
//!     +--- called --- parked <-- no -----------------------------------------------------------+
//! ```
//!
//! - L1: while a thread is parked, one of these holds: a thread reads, is on its way to the source,
//!   or is in a turn in which it has not waited yet; or the alarm is set.
//! - L2: the alarm is set for [`LATE`] after a thread was about to wait, and is not put off: it is
//!   not set again before a thread reads again. Several threads may be in turns in which they have
//!   not waited yet, so the second of them to wait must not set it anew.
//! - L3: a thread parks only while another one that has had a turn reads. Threads that never had a
//!   turn are not counted, because nothing would tell of their end.
//! - L4: a thread that ends calls a parked one, so the end of the source reaches all.
//! - L5: where requests queue, another thread is called only while fewer threads than processors
//!   read or are in turns in which they have not waited yet; so no thread is called only to wait
//!   for a processor.
//! - L6: nothing here waits for a task, and a thread without a turn ignores all calls: so these
//!   functions may be called inside a simulation.

use base::Nanos;
use parking_lot::{Condvar as OsCondvar, Mutex as OsMutex};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

/// How long requests of other clients may lie unread while the only reading thread waits, if there
/// was one client until then.
const LATE: Nanos = Nanos(1_000_000);
/// Requests for which a crowd is remembered.
const CROWD_REQUESTS: u32 = 64;
/// So many requests in a row that found the next one already there make a crowd. A single client
/// seldom has requests that it does not wait for.
const QUEUED_MIN: u32 = 4;

/// Where requests queue, a second thread reads also on a single processor: the first one may not
/// wait for long.
const BUSY_MIN: usize = 2;
/// Parts of a batch that one thread works on while no other one reads.
const PARTS_MAX: u32 = 64;

/// The threads that take turns at one source.
pub struct Leaders {
    state: OsMutex<State>,
    /// Without it each wait calls another thread.
    alarm: Option<Alarm>,
    /// Threads that take turns where requests queue, at most (L5).
    busy_max: usize,
}

#[derive(Default)]
struct State {
    /// Of the threads that have had a turn: those that read, or are called to (L3).
    readers: usize,
    /// Threads in a turn in which they have not waited yet (L1, L5).
    leading: usize,
    parked: Vec<Arc<Bed>>,
    /// No thread reads, and the last one that did is waiting (L2).
    late: bool,
    /// The client of the last request.
    client: u32,
    /// Requests in a row that found the next one already there.
    queued: u32,
    /// For so many more requests a crowd is assumed.
    crowd: u32,
    /// Threads that were called.
    #[cfg(test)]
    calls: usize,
}

/// Where a thread is parked.
#[derive(Default)]
struct Bed {
    called: OsMutex<bool>,
    news: OsCondvar,
}

impl Bed {
    fn call(&self) {
        *self.called.lock() = true;
        self.news.notify_one();
    }
    fn wait(&self) {
        let mut called = self.called.lock();
        while !*called {
            self.news.wait(&mut called);
        }
    }
}

/// A timer with a thread that waits for it: setting it is one system call, and wakes no thread.
struct Alarm {
    timer: Arc<OwnedFd>,
    after: Nanos,
}

impl Alarm {
    /// One that calls `ring` until that answers false.
    fn new(after: Nanos, ring: impl Fn() -> bool + Send + 'static) -> io::Result<Alarm> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        let timer = Arc::new(timer);
        let watched = Arc::clone(&timer);
        let watch = move || {
            let mut rung = [0; 8];
            loop {
                match rustix::io::read(&*watched, &mut rung) {
                    Err(rustix::io::Errno::INTR) => {}
                    Ok(_) if ring() => {}
                    _ => return,
                }
            }
        };
        std::thread::Builder::new()
            .name("leaders alarm".into())
            .spawn(watch)?;
        Ok(Alarm { timer, after })
    }

    fn set(&self, after: Nanos) {
        let timespec = |span: Nanos| Timespec {
            tv_sec: (span.0 / 1_000_000_000) as i64,
            tv_nsec: (span.0 % 1_000_000_000) as _,
        };
        let once = Itimerspec {
            it_interval: timespec(Nanos(0)),
            it_value: timespec(after),
        };
        let set = timerfd_settime(&*self.timer, TimerfdTimerFlags::empty(), &once);
        debug_assert!(set.is_ok(), "timerfd_settime: {set:?}");
    }
}

impl Drop for Alarm {
    /// The thread of the alarm finds the [`Leaders`] gone, and ends.
    fn drop(&mut self) {
        self.set(Nanos(1));
    }
}

/// The properties of a request that decide which threads read.
#[derive(Clone, Copy, Default, Debug)]
pub struct Asked {
    /// The thread of another process that sent the request; 0 if that is not known.
    pub client: u32,
    /// Another request is there already.
    pub queued: bool,
    /// The answer takes far longer than waking a thread does, whether it waits or not: another
    /// thread is called first.
    pub long: bool,
}

/// What a thread knows of its source; dropped when it ends.
#[derive(Default)]
struct Seat {
    leaders: RefCell<Option<Arc<Leaders>>>,
    /// Counted among the readers.
    reads: Cell<bool>,
    /// In a turn in which it has not waited yet.
    leads: Cell<bool>,
    /// The last batch that work aside belonged to, and the number of its parts so far.
    batch: Cell<(u64, u32)>,
}

thread_local! {
    static SEAT: Seat = Seat::default();
}

/// To be called before this thread waits for something of the real world. The locks and queues of
/// this crate call it themselves; code that waits in the kernel has to.
#[inline]
pub fn about_to_wait() {
    // A thread that is ending has no seat any more.
    let _ = SEAT.try_with(Seat::about_to_wait);
}

impl Leaders {
    /// For threads yet to come.
    pub fn new() -> Arc<Leaders> {
        Leaders::with(LATE)
    }

    fn with(late: Nanos) -> Arc<Leaders> {
        Arc::new_cyclic(|it: &Weak<Leaders>| {
            let it = Weak::clone(it);
            let ring = move || it.upgrade().is_some_and(|leaders| leaders.rung());
            Leaders {
                state: OsMutex::default(),
                alarm: Alarm::new(late, ring).ok(),
                busy_max: processors().max(BUSY_MIN),
            }
        })
    }

    /// Answers a request that this thread has read. The thread parks before it returns if another
    /// one reads.
    pub fn turn(self: &Arc<Self>, request: &Asked, answer: impl FnOnce()) {
        self.begin(request);
        answer();
        self.end(true);
    }

    /// As [`Leaders::turn`] for work whose end no client waits for, and without parking: the thread
    /// may have more to do before it reads again. `batch` numbers what the thread has read at once:
    /// from the 64th part of a batch on another thread is called to the source, because a batch
    /// may have a million parts.
    pub fn aside(self: &Arc<Self>, batch: u64, work: impl FnOnce()) {
        let parts = SEAT.with(|seat| {
            let (last, parts) = seat.batch.get();
            let parts = if last == batch { parts + 1 } else { 1 };
            seat.batch.set((batch, parts));
            parts
        });
        self.begin(&Asked {
            long: parts >= PARTS_MAX,
            ..Asked::default()
        });
        work();
        self.end(false);
    }

    fn begin(self: &Arc<Self>, request: &Asked) {
        SEAT.with(|seat| {
            let mut leaders = seat.leaders.borrow_mut();
            let mut state = self.state.lock();
            match &*leaders {
                Some(known) => {
                    debug_assert!(Arc::ptr_eq(known, self), "a thread has one source");
                    state.readers -= 1;
                }
                None => *leaders = Some(Arc::clone(self)),
            }
            seat.reads.set(false);
            seat.leads.set(true);
            state.leading += 1;
            let queue = state.queues(request.client, request.queued);
            if request.long || queue && state.busy() < self.busy_max {
                state.call_if_none();
            }
        });
    }

    fn about_to_wait(&self) {
        let mut state = self.state.lock();
        state.leading -= 1;
        match &self.alarm {
            Some(alarm) if state.crowd == 0 => {
                if state.readers == 0 && !state.late && !state.parked.is_empty() {
                    state.late = true;
                    drop(state);
                    alarm.set(alarm.after);
                }
            }
            _ => state.call_if_none(),
        }
    }

    /// The alarm (L1).
    fn rung(&self) -> bool {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.late) {
            state.call_if_none();
        }
        true
    }

    /// A thread has answered: it goes back to the source, or parks.
    fn end(&self, may_park: bool) {
        let led = SEAT.try_with(|seat| seat.leads.replace(false));
        let mut state = self.state.lock();
        state.leading -= usize::from(led.unwrap_or(false));
        let wanted = state.readers == 0 || state.is_queued() && state.busy() < self.busy_max;
        if wanted || !may_park {
            state.readers += 1;
            state.late = false;
        } else {
            let bed = Arc::new(Bed::default());
            state.parked.push(Arc::clone(&bed));
            drop(state);
            bed.wait();
        }
        let _ = SEAT.try_with(|seat| seat.reads.set(true));
    }

    /// A thread has ended (L4): at the source, or by a panic.
    fn left(&self, read: bool, led: bool) {
        let mut state = self.state.lock();
        state.readers -= usize::from(read);
        state.leading -= usize::from(led);
        state.call();
    }
}

/// The processors of this process.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

impl State {
    /// Notes a request; true if more of them queue than one thread should have.
    fn queues(&mut self, client: u32, queued: bool) -> bool {
        self.queued = if queued { self.queued + 1 } else { 0 };
        let another = client != 0 && self.client != 0 && client != self.client;
        if client != 0 {
            self.client = client;
        }
        let queue = self.is_queued();
        self.crowd = match queue || another {
            true => CROWD_REQUESTS,
            false => self.crowd.saturating_sub(1),
        };
        queue
    }

    /// Requests have found the next one already there for a while.
    fn is_queued(&self) -> bool {
        self.queued >= QUEUED_MIN
    }

    /// Threads that need a processor or wait for requests.
    fn busy(&self) -> usize {
        self.readers + self.leading
    }

    fn call_if_none(&mut self) {
        if self.readers == 0 {
            self.call();
        }
    }

    /// Calls the thread that parked last: its memory is the warmest.
    fn call(&mut self) {
        if let Some(bed) = self.parked.pop() {
            self.readers += 1;
            self.late = false;
            #[cfg(test)]
            {
                self.calls += 1;
            }
            bed.call();
        }
    }
}

impl Seat {
    #[inline]
    fn about_to_wait(&self) {
        if self.leads.replace(false)
            && let Some(leaders) = &*self.leaders.borrow()
        {
            leaders.about_to_wait();
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(leaders) = self.leaders.take() {
            leaders.left(self.reads.get(), self.leads.get());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Condvar, Mutex, RwLock, Semaphore, channel};
    use rustix::time::timerfd_gettime;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    /// Longer than anything here takes: a thread that waits that long waits for ever.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// A client that is alone, and a second one.
    const ALONE: u32 = 1;
    const OTHER: u32 = 2;
    /// Not a request.
    const ASIDE: u32 = 0;
    const BATCH: u64 = 7;
    /// A batch of it.
    const PARTS: u32 = u32::MAX;
    /// An alarm that never rings here.
    const NEVER: Nanos = Nanos(3_600_000_000_000);

    type Request = (Asked, Box<dyn FnOnce() + Send>);

    /// A source: the first thread that asks gets the next request; no further request is the end.
    struct Served {
        source: Option<mpsc::Sender<Request>>,
        threads: Vec<thread::JoinHandle<()>>,
        /// Turns of each thread.
        turns: Vec<Arc<AtomicU32>>,
        leaders: Arc<Leaders>,
    }

    impl Served {
        fn by(threads: usize, leaders: Arc<Leaders>) -> Served {
            let (source, requests) = mpsc::channel::<Request>();
            let requests = Arc::new(OsMutex::new(requests));
            let turns: Vec<_> = (0..threads).map(|_| Arc::default()).collect();
            let thread = |count: &Arc<AtomicU32>| {
                let (requests, leaders) = (Arc::clone(&requests), Arc::clone(&leaders));
                let count = Arc::clone(count);
                thread::spawn(move || {
                    loop {
                        let next = requests.lock().recv();
                        let Ok((asked, request)) = next else {
                            return;
                        };
                        count.fetch_add(1, Ordering::Relaxed);
                        match asked.client {
                            ASIDE => leaders.aside(BATCH, request),
                            PARTS => {
                                leaders.aside(BATCH, || ());
                                request();
                            }
                            _ => leaders.turn(&asked, request),
                        }
                    }
                })
            };
            let threads = turns.iter().map(thread).collect();
            Served {
                source: Some(source),
                threads,
                turns,
                leaders,
            }
        }
        fn send(&self, client: u32, queued: bool, request: impl FnOnce() + Send + 'static) {
            let source = self.source.as_ref().expect("it has not ended");
            let asked = Asked {
                client,
                queued,
                long: false,
            };
            let request = (asked, Box::new(request) as Box<_>);
            source.send(request).expect("threads are there");
        }
        /// Sends a batch, whose first part is nothing.
        fn send_parts(&self, parts: impl FnOnce() + Send + 'static) {
            let source = self.source.as_ref().expect("it has not ended");
            let asked = Asked {
                client: PARTS,
                ..Asked::default()
            };
            source
                .send((asked, Box::new(parts)))
                .expect("threads are there");
        }
        fn send_long(&self, request: impl FnOnce() + Send + 'static) {
            let source = self.source.as_ref().expect("it has not ended");
            let asked = Asked {
                client: ALONE,
                queued: false,
                long: true,
            };
            let request = (asked, Box::new(request) as Box<_>);
            source.send(request).expect("threads are there");
        }
        /// Sends a request that does nothing, and waits for its answer.
        fn ask(&self) {
            let (tell, told) = mpsc::channel();
            self.send(ALONE, false, move || {
                tell.send(()).expect("somebody waits");
            });
            told.recv_timeout(PATIENCE).expect("nobody reads requests");
        }
        fn taken(&self) -> Vec<u32> {
            self.turns
                .iter()
                .map(|t| t.load(Ordering::Relaxed))
                .collect()
        }
        fn parked(&self) -> usize {
            self.leaders.state.lock().parked.len()
        }
        /// Asks until all threads but one are parked.
        fn settle(&self) {
            while self.parked() + 1 < self.threads.len() {
                self.ask();
            }
        }
        /// The end of the source; true if all threads end.
        fn end(mut self) -> bool {
            self.source = None;
            let (tell, told) = mpsc::channel();
            thread::spawn(move || {
                for thread in self.threads {
                    let _ = thread.join();
                }
                tell.send(())
            });
            told.recv_timeout(PATIENCE).is_ok()
        }
    }

    #[test]
    fn requests_that_do_not_wait_are_one_threads() {
        let served = Served::by(4, Leaders::new());
        served.settle();
        let before = served.taken();
        for _ in 0..1000 {
            served.ask();
        }
        let after = served.taken();
        let busy = before.iter().zip(&after).filter(|(b, a)| a > b).count();
        assert_eq!(busy, 1, "{before:?} {after:?}");
        assert!(served.end());
    }

    /// A request waits in `wait` until `let_go`; another one is answered meanwhile, by the alarm's
    /// help or without.
    fn another_is_answered(wait: impl FnOnce() + Send + 'static, let_go: impl FnOnce()) {
        let served = Served::by(3, Leaders::new());
        served.settle();
        let (tell, told) = mpsc::channel();
        served.send(ALONE, false, move || {
            wait();
            tell.send(()).expect("somebody waits");
        });
        served.ask();
        assert!(told.try_recv().is_err(), "it was to wait");
        let_go();
        told.recv_timeout(PATIENCE).expect("it is let go");
        served.ask();
        assert!(served.end());
    }

    /// Threads that are parked while a request of `client` waits, of three, without an alarm that
    /// rings.
    fn parked_beside_a_wait(client: u32) -> usize {
        let served = Served::by(3, Leaders::with(NEVER));
        served.settle();
        let (waits, waited) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        served.send(client, false, move || {
            about_to_wait();
            waits.send(()).expect("somebody waits");
            gone.recv().expect("it is let go");
        });
        waited.recv_timeout(PATIENCE).expect("it is taken");
        let parked = served.parked();
        go.send(()).expect("it waits");
        assert!(served.end());
        parked
    }

    #[test]
    fn a_crowd_is_not_left_to_the_alarm_and_a_lone_client_wakes_nobody() {
        assert_eq!(parked_beside_a_wait(ALONE), 2);
        assert_eq!(parked_beside_a_wait(OTHER), 1);
    }

    #[test]
    fn a_crowd_is_forgotten() {
        let mut state = State::default();
        let mut crowd = |client, queued| {
            let calls = state.queues(client, queued);
            (calls, state.crowd > 0)
        };
        assert_eq!(crowd(ALONE, false), (false, false));
        // The client is not known: the request is the kernel's own.
        assert_eq!(crowd(0, false), (false, false));
        assert_eq!(crowd(ALONE, false), (false, false));
        assert_eq!(crowd(OTHER, false), (false, true));
        for _ in 1..CROWD_REQUESTS {
            assert_eq!(crowd(OTHER, false), (false, true));
        }
        assert_eq!(crowd(OTHER, false), (false, false));
        for _ in 1..QUEUED_MIN {
            assert_eq!(crowd(OTHER, true), (false, false));
        }
        assert_eq!(crowd(OTHER, false), (false, false), "not in a row");
        for _ in 1..QUEUED_MIN {
            assert_eq!(crowd(OTHER, true), (false, false));
        }
        assert_eq!(crowd(OTHER, true), (true, true));
    }

    #[test]
    fn a_request_that_waits_holds_up_no_other() {
        let lock = Arc::new(Mutex::new(()));
        let held = lock.lock();
        let it = Arc::clone(&lock);
        another_is_answered(move || drop(it.lock()), || drop(held));

        let lock = Arc::new(RwLock::new(()));
        let held = lock.write();
        let it = Arc::clone(&lock);
        another_is_answered(move || drop(it.read()), || drop(held));
        let held = lock.read();
        let it = Arc::clone(&lock);
        another_is_answered(move || drop(it.write()), || drop(held));

        let news = Arc::new((Mutex::new(false), Condvar::new()));
        let it = Arc::clone(&news);
        let wait = move || {
            let mut come = it.0.lock();
            while !*come {
                it.1.wait(&mut come);
            }
        };
        another_is_answered(wait, || {
            *news.0.lock() = true;
            news.1.notify_all();
        });

        let permits = Arc::new(Semaphore::new(0));
        let it = Arc::clone(&permits);
        another_is_answered(move || it.acquire(1), || permits.release(1));

        let (sender, receiver) = channel::<()>(1);
        let let_go = || sender.send(()).expect("it is received");
        another_is_answered(move || receiver.recv().expect("it is sent"), let_go);
    }

    #[test]
    fn where_requests_queue_another_thread_is_called_before_anybody_waits() {
        let served = Served::by(2, Leaders::with(NEVER));
        served.settle();
        for _ in 1..QUEUED_MIN {
            served.send(ALONE, true, || ());
        }
        let done = Arc::new(AtomicBool::new(false));
        let it = Arc::clone(&done);
        served.send(ALONE, true, move || {
            while !it.load(Ordering::Acquire) {
                thread::yield_now();
            }
        });
        served.ask();
        done.store(true, Ordering::Release);
        assert!(served.end());
    }

    /// L5.
    #[test]
    fn where_requests_queue_threads_are_called_once_and_not_for_each_request() {
        let served = Served::by(processors().max(BUSY_MIN) + 4, Leaders::with(NEVER));
        served.settle();
        let calls = || served.leaders.state.lock().calls;
        let before = calls();
        for _ in 0..5000 {
            served.send(ALONE, true, || ());
        }
        served.ask();
        let called = calls() - before;
        assert!(called < 500, "L5: {called} calls for 5000 requests");
        assert!(served.end());
    }

    #[test]
    fn work_aside_parks_nobody_and_holds_up_nobody() {
        let served = Served::by(2, Leaders::new());
        served.settle();
        for _ in 0..3 {
            served.send(ASIDE, false, || ());
        }
        served.ask();
        let (go, gone) = mpsc::channel::<()>();
        served.send(ASIDE, false, move || {
            about_to_wait();
            gone.recv().expect("it is let go");
        });
        served.ask();
        go.send(()).expect("it waits");
        assert!(served.end());
    }

    #[test]
    fn before_a_long_request_another_thread_is_called() {
        let served = Served::by(2, Leaders::with(NEVER));
        served.settle();
        let done = Arc::new(AtomicBool::new(false));
        let it = Arc::clone(&done);
        served.send_long(move || {
            while !it.load(Ordering::Acquire) {
                thread::yield_now();
            }
        });
        served.ask();
        done.store(true, Ordering::Release);
        assert!(served.end());
    }

    #[test]
    fn beside_a_long_batch_another_thread_is_called() {
        let served = Served::by(2, Leaders::with(NEVER));
        served.settle();
        let done = Arc::new(AtomicBool::new(false));
        let (it, leaders) = (Arc::clone(&done), Arc::clone(&served.leaders));
        // What a thread reads at once comes as parts that it works on one after the other.
        served.send_parts(move || {
            (2..PARTS_MAX).for_each(|_| leaders.aside(BATCH, || ()));
            leaders.aside(BATCH, || {
                while !it.load(Ordering::Acquire) {
                    thread::yield_now();
                }
            });
        });
        served.ask();
        done.store(true, Ordering::Release);
        assert!(served.end());
    }

    /// L2.
    #[test]
    fn a_second_thread_that_waits_does_not_put_the_alarm_off() {
        let served = Served::by(3, Leaders::with(NEVER));
        served.settle();
        let (tell, told) = mpsc::channel();
        let waits = |go: mpsc::Receiver<()>| {
            let tell = tell.clone();
            move || {
                tell.send(()).expect("somebody waits");
                go.recv().expect("it is let go");
                about_to_wait();
                tell.send(()).expect("somebody waits");
                go.recv().expect("it is let go");
            }
        };
        let let_go = |it: &mpsc::Sender<()>| it.send(()).expect("it waits");
        let next = || told.recv_timeout(PATIENCE).expect("it is taken");
        let left = || {
            let alarm = served.leaders.alarm.as_ref().expect("there are timers");
            let left = timerfd_gettime(&*alarm.timer).expect("it is a timer");
            Duration::new(left.it_value.tv_sec as u64, left.it_value.tv_nsec as u32)
        };
        let ((first, go), (second, go_too)) = (mpsc::channel(), mpsc::channel());
        served.send_long(waits(go));
        next();
        served.send(ALONE, false, waits(go_too));
        next();
        assert_eq!((served.parked(), left()), (1, Duration::ZERO));
        let_go(&first);
        next();
        let before = left();
        let pause = Duration::from_millis(50);
        thread::sleep(pause);
        let_go(&second);
        next();
        let after = left();
        assert!(
            after > Duration::ZERO && after + pause <= before,
            "L2: {before:?} {after:?}"
        );
        let_go(&first);
        let_go(&second);
        assert!(served.end());
    }

    #[test]
    fn without_an_alarm_each_wait_calls() {
        let none = Arc::new(Leaders {
            state: OsMutex::default(),
            alarm: None,
            busy_max: BUSY_MIN,
        });
        let served = Served::by(2, none);
        served.settle();
        let (go, gone) = mpsc::channel::<()>();
        served.send(ALONE, false, move || {
            about_to_wait();
            gone.recv().expect("it is let go");
        });
        served.ask();
        go.send(()).expect("it waits");
        assert!(served.end());
    }

    #[test]
    fn the_alarms_thread_ends_with_the_leaders() {
        let leaders = Leaders::new();
        let alarm = leaders.alarm.as_ref().expect("there are timers");
        let timer = Arc::downgrade(&alarm.timer);
        drop(leaders);
        let until = std::time::Instant::now() + PATIENCE;
        while timer.strong_count() > 0 {
            assert!(std::time::Instant::now() < until, "it still waits");
            thread::yield_now();
        }
    }

    #[test]
    fn with_all_threads_in_requests_that_wait_the_first_that_is_through_reads() {
        let served = Served::by(3, Leaders::new());
        served.settle();
        let lock = Arc::new(Mutex::new(()));
        let held = lock.lock();
        for _ in 0..3 {
            let it = Arc::clone(&lock);
            served.send(ALONE, false, move || drop(it.lock()));
        }
        drop(held);
        for _ in 0..10 {
            served.ask();
        }
        assert!(served.end());
    }

    #[test]
    fn the_end_reaches_threads_that_are_parked_and_those_that_never_had_a_turn() {
        for asked in 0..6 {
            let served = Served::by(4, Leaders::new());
            for _ in 0..asked {
                served.ask();
            }
            assert!(served.end(), "after {asked} requests");
        }
    }

    #[test]
    fn a_thread_that_panics_leaves_the_source_to_another() {
        let served = Served::by(2, Leaders::new());
        served.settle();
        served.send(ALONE, false, || panic!("planted"));
        served.ask();
        assert!(served.end());
    }

    /// L6.
    #[test]
    fn a_thread_without_a_source_takes_no_notice() {
        about_to_wait();
        let lock = Mutex::new(0);
        *lock.lock() += 1;
        about_to_wait();
        assert_eq!(lock.into_inner(), 1);
    }
}
