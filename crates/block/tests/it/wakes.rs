//! elevator-E4: whoever sleeps in an elevator is woken by each event that may let it go on. Each
//! test hangs, which the simulation reports, or takes too long, if the wake-up that it names is
//! left out.

use crate::plug::plain;
use base::{Lba, Nanos, SECTORS_PER_BLOCK, Time};
use blockdev::{BlockDevice, Caps, DevError, Op, Reply, Request, SpecDisk, Ticket};
use rt::{Mutex, Sim, SimConfig};
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_block::{Batch, Class, Queue, Scheduler};

const MS: u64 = 1_000_000;
const SCHEDULERS: [Scheduler; 3] = [Scheduler::Cfq310, Scheduler::MqDeadline, Scheduler::Bfq];

/// A device on which a write with FUA takes 100 ms and all else one, side by side.
struct Device {
    disk: Arc<SpecDisk>,
    ends: Mutex<BTreeMap<Ticket, Time>>,
}

impl BlockDevice for Device {
    fn caps(&self) -> Caps {
        self.disk.caps()
    }
    fn submit(&self, request: Request) -> Ticket {
        let slow = matches!(request.op, Op::Write { fua: true, .. });
        let took = if slow { 100 * MS } else { MS };
        let ticket = self.disk.submit(request);
        self.ends.lock().insert(ticket, rt::now() + Nanos(took));
        ticket
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        let until = self.ends.lock().remove(&ticket).expect("submitted");
        let answer = self.disk.wait(ticket);
        rt::sleep_until(until);
        answer
    }
}

/// Runs `body` on such a device.
fn on<T>(scheduler: Scheduler, depth: usize, body: impl FnOnce(Arc<Queue>) -> T) -> T {
    let outcome = Sim::new(SimConfig::default()).run(|| {
        let caps = Caps {
            sectors: 400 * SECTORS_PER_BLOCK,
            ..plain()
        };
        let device = Device {
            disk: SpecDisk::new(caps, 5),
            ends: Mutex::default(),
        };
        body(Queue::scheduled(Arc::new(device), scheduler, depth).expect("tags"))
    });
    outcome.unwrap()
}

fn send(queue: &Arc<Queue>, block: u64, background: bool) -> Batch {
    let mut plug = queue.plug();
    plug.write(Lba(block * 8), Class::Data, vec![1; 4096].into());
    match background {
        true => plug.background().submit(),
        false => plug.submit(),
    }
}

/// Keeps the device busy for 100 ms with a command that passes the scheduler; ends when it has
/// begun.
fn occupy(queue: &Arc<Queue>, block: u64) -> rt::JoinHandle<()> {
    let own = queue.clone();
    let task = rt::spawn("occupies", move || {
        let content = vec![2; 4096].into();
        own.write_fua(Lba(block * 8), Class::Data, content).unwrap();
    });
    rt::sleep(Nanos::from_micros(10));
    task
}

fn millis_since(since: Time) -> u64 {
    (rt::now() - since).0 / MS
}

/// A tag sleeps because a command that passed it fills the device: the end of that command wakes
/// it.
#[test]
fn the_end_of_what_passed_wakes_a_tag() {
    for scheduler in SCHEDULERS {
        on(scheduler, 1, |queue| {
            let other = occupy(&queue, 1);
            send(&queue, 9, true).wait().unwrap();
            other.join().unwrap();
        });
    }
}

/// A task waits for a request in the lanes, and another task's request sends it past the tags: the
/// first one wakes, and waits for the device itself.
#[test]
fn who_waits_for_what_was_sent_past_the_tags_wakes() {
    for scheduler in SCHEDULERS {
        on(scheduler, 1, |queue| {
            let other = occupy(&queue, 1);
            let since = rt::now();
            let waits = {
                let batch = send(&queue, 9, true);
                rt::spawn("waits", move || {
                    batch.wait().unwrap();
                    millis_since(since)
                })
            };
            rt::sleep(Nanos::from_millis(5));
            queue.read(Lba(9 * 8), 8).unwrap();
            let took = waits.join().unwrap();
            assert!(took < 20, "{scheduler}: {took} ms");
            other.join().unwrap();
        });
    }
}

/// The device is kept for the next request that somebody waits for; none comes, and the tag wakes
/// at the end of that span.
#[test]
fn the_end_of_idling_wakes_a_tag() {
    for (scheduler, idles) in [(Scheduler::Cfq310, 5), (Scheduler::Bfq, 8)] {
        let took = on(scheduler, 2, |queue| {
            let awaited = send(&queue, 1, false);
            let background = send(&queue, 9, true);
            let since = rt::now();
            awaited.wait().unwrap();
            background.wait().unwrap();
            millis_since(since)
        });
        assert!(
            (idles + 1..idles + 4).contains(&took),
            "{scheduler}: {took} ms"
        );
    }
}

/// Where one request may go, further ones may: all tags wake, and the device is full at once.
#[test]
fn one_that_is_sent_wakes_the_next_tag() {
    let took = on(Scheduler::Cfq310, 4, |queue| {
        let awaited = send(&queue, 1, false);
        rt::sleep(Nanos::from_micros(10));
        let background: Vec<Batch> = (0..4).map(|n| send(&queue, 20 + 2 * n, true)).collect();
        awaited.wait().unwrap();
        let since = rt::now();
        background.into_iter().for_each(|b| b.wait().unwrap());
        (rt::now() - since).0 / 1000
    });
    assert!(
        (6_000..6_500).contains(&took),
        "5 ms of idling and one: {took} us"
    );
}

/// 128 requests of a side wait, and whoever has one more waits itself, until one is sent.
#[test]
fn no_more_than_128_of_a_side_wait() {
    for scheduler in SCHEDULERS {
        on(scheduler, 1, |queue| {
            let other = occupy(&queue, 399);
            let since = rt::now();
            let mut batches: Vec<Batch> = (0..128).map(|n| send(&queue, 2 * n, true)).collect();
            assert_eq!(millis_since(since), 0, "{scheduler}: 128 have room");
            batches.push(send(&queue, 300, true));
            let waited = millis_since(since);
            assert!(waited >= 99, "{scheduler}: the 129th waited {waited} ms");
            batches.into_iter().for_each(|b| b.wait().unwrap());
            other.join().unwrap();
        });
    }
}

/// Room is also made by one that is sent past the tags.
#[test]
fn what_is_sent_past_the_tags_makes_room() {
    for scheduler in SCHEDULERS {
        on(scheduler, 1, |queue| {
            let other = occupy(&queue, 399);
            let since = rt::now();
            let batches: Vec<Batch> = (0..128).map(|n| send(&queue, 2 * n, true)).collect();
            let late = {
                let queue = queue.clone();
                rt::spawn("late", move || {
                    let batch = send(&queue, 300, true);
                    let waited = millis_since(since);
                    batch.wait().unwrap();
                    waited
                })
            };
            rt::sleep(Nanos::from_millis(5));
            queue
                .write_fua(Lba(0), Class::Data, vec![3; 4096].into())
                .unwrap();
            let waited = late.join().unwrap();
            assert!((5..8).contains(&waited), "{scheduler}: {waited} ms");
            batches.into_iter().for_each(|b| b.wait().unwrap());
            other.join().unwrap();
        });
    }
}
