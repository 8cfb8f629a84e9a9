//! What stands between a mount and its disk, so that a mount can be ended as by a cut of power
//! while its tasks still run.
//!
//! - A1 a request that is submitted behind the cut never reaches the disk; it answers that the
//!   power is lost;
//! - A2 the cut ends when every request that had reached the disk has ended there. So whatever the
//!   tasks of the mount do, nothing of it changes the disk behind the cut, where the next mount may
//!   be at work;
//! - A3 behind the cut the disk is held no more, so that an image file's lock goes with the last
//!   [`Disk`](crate::Disk), and not with the last task of a mount.

use base::{Map, Time};
use blockdev::{BlockDevice, Caps, DevError, Reply, Request, Ticket};
use rt::{Condvar, Mutex};
use std::sync::Arc;

/// The disk, as one mount sees it.
pub(crate) struct Cut {
    caps: Caps,
    state: Mutex<State>,
    progress: Condvar,
}

struct State {
    /// `None` behind the cut (A3).
    below: Option<Arc<dyn BlockDevice>>,
    next: u64,
    /// Requests that have reached the disk, and nobody waits for.
    open: Map<u64, Ticket>,
    /// Requests that somebody submits, or waits for, just now.
    busy: u32,
    /// Answers of requests that the cut waited for, or refused.
    answers: Map<u64, Result<Reply, DevError>>,
}

impl Cut {
    pub fn new(below: Arc<dyn BlockDevice>) -> Cut {
        Cut {
            caps: below.caps(),
            state: Mutex::named(
                "cut",
                State {
                    below: Some(below),
                    next: 0,
                    open: Map::default(),
                    busy: 0,
                    answers: Map::default(),
                },
            ),
            progress: Condvar::new(),
        }
    }

    /// Cuts the disk off, and waits until nothing is under way. A second call does nothing.
    pub fn cut(&self) {
        let mut state = self.state.lock();
        // A1.
        let Some(below) = state.below.take() else {
            return;
        };
        // A2. A request that nobody waits for yet is waited for here.
        let open = std::mem::take(&mut state.open);
        drop(state);
        let ended: Vec<_> = open
            .into_iter()
            .map(|(id, ticket)| (id, below.wait(ticket)))
            .collect();
        let mut state = self.state.lock();
        state.answers.extend(ended);
        self.progress.notify_all();
        while state.busy > 0 {
            self.progress.wait(&mut state);
        }
    }

    /// Somebody's request has come to the disk, or its end to them.
    fn not_busy(&self, state: &mut State) {
        state.busy -= 1;
        if state.below.is_none() {
            self.progress.notify_all();
        }
    }
}

impl BlockDevice for Cut {
    fn caps(&self) -> Caps {
        self.caps.clone()
    }

    fn submit(&self, request: Request) -> Ticket {
        let mut state = self.state.lock();
        let id = state.next;
        state.next += 1;
        let Some(below) = state.below.clone() else {
            state.answers.insert(id, Err(DevError::power_lost()));
            return Ticket(id);
        };
        state.busy += 1;
        drop(state);
        let ticket = below.submit(request);
        let mut state = self.state.lock();
        if state.below.is_some() {
            state.open.insert(id, ticket);
        } else {
            // The cut came meanwhile, and waits for this.
            drop(state);
            let answer = below.wait(ticket);
            state = self.state.lock();
            state.answers.insert(id, answer);
        }
        self.not_busy(&mut state);
        Ticket(id)
    }

    fn wait(&self, Ticket(id): Ticket) -> Result<Reply, DevError> {
        let mut state = self.state.lock();
        loop {
            if let Some(answer) = state.answers.remove(&id) {
                return answer;
            }
            if let (Some(below), Some(ticket)) = (state.below.clone(), state.open.remove(&id)) {
                state.busy += 1;
                drop(state);
                let answer = below.wait(ticket);
                self.not_busy(&mut self.state.lock());
                return answer;
            }
            // The cut waits for it.
            self.progress.wait(&mut state);
        }
    }

    fn due(&self, Ticket(id): Ticket) -> Option<Time> {
        let state = self.state.lock();
        state.below.as_ref()?.due(*state.open.get(&id)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Bytes, Lba};
    use blockdev::{Class, Op, Ram};

    fn write(at: u64, with: u8) -> Request {
        Request::write(Lba(at), Class::Data, Bytes::from(vec![with; 4096]))
    }

    fn first_byte(disk: &Ram, at: u64) -> u8 {
        let ticket = disk.submit(Request::read(Lba(at), 8));
        disk.wait(ticket).expect("RAM").data[0][0]
    }

    #[test]
    fn nothing_reaches_a_disk_that_is_cut_off_and_nothing_holds_it() {
        let disk = Arc::new(Ram::new(64 << 10));
        let cut = Cut::new(disk.clone());
        let under_way = cut.submit(write(0, 7));
        cut.cut();
        let late = cut.submit(write(8, 7));
        cut.wait(under_way).expect("it had reached the disk");
        let lost = cut.wait(late).expect_err("A1");
        assert_eq!(lost.kind, blockdev::DevErrorKind::PowerLost);
        cut.cut();
        assert_eq!((first_byte(&disk, 0), first_byte(&disk, 8)), (7, 0));
        assert_eq!(Arc::strong_count(&disk), 1, "A3");
    }

    /// A disk whose commands end when it is told to, and take effect at their end.
    struct Slow {
        disk: Ram,
        asked: Mutex<Map<u64, Request>>,
        go: Mutex<bool>,
        gone: Condvar,
    }

    impl BlockDevice for Slow {
        fn caps(&self) -> Caps {
            self.disk.caps()
        }
        fn submit(&self, request: Request) -> Ticket {
            let mut asked = self.asked.lock();
            let id = asked.len() as u64;
            asked.insert(id, request);
            Ticket(id)
        }
        fn wait(&self, Ticket(id): Ticket) -> Result<Reply, DevError> {
            let mut go = self.go.lock();
            while !*go {
                self.gone.wait(&mut go);
            }
            drop(go);
            let request = self.asked.lock()[&id].clone();
            assert!(matches!(request.op, Op::Write { .. }));
            self.disk.wait(self.disk.submit(request))
        }
    }

    /// A2: whether somebody waits for the request or not.
    #[test]
    fn a_cut_waits_for_what_has_reached_the_disk() {
        rt::Sim::new(rt::SimConfig::seeded(1))
            .run(|| {
                let slow = Arc::new(Slow {
                    disk: Ram::new(64 << 10),
                    asked: Mutex::named("asked", Map::default()),
                    go: Mutex::named("go", false),
                    gone: Condvar::new(),
                });
                let cut = Cut::new(slow.clone());
                let (cut, slow) = (&cut, &slow);
                rt::scope(|s| {
                    let alone = cut.submit(write(0, 7));
                    let waited = cut.submit(write(8, 8));
                    let waiter = s.spawn("waiter", move || cut.wait(waited));
                    rt::sleep(base::Nanos::from_millis(1));
                    let cutter = s.spawn("cutter", || {
                        cut.cut();
                        (first_byte(&slow.disk, 0), first_byte(&slow.disk, 8))
                    });
                    rt::sleep(base::Nanos::from_millis(1));
                    *slow.go.lock() = true;
                    slow.gone.notify_all();
                    assert_eq!(cutter.join().expect("no panic"), (7, 8), "A2");
                    waiter.join().expect("no panic").expect("written");
                    cut.wait(alone).expect("written");
                });
            })
            .unwrap();
    }
}
