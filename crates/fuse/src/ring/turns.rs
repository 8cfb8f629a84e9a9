//! The turns of a thread of the ring: it waits for a request, answers it and waits again, until
//! the connection ends.
//!
//! A request that nobody answers lets its program wait for ever, and the kernel has no deadline for
//! requests. So:
//!
//! - T1 a request that this thread owes an answer is answered with EIO where its work panics, and
//!   where the ring of io_uring fails before it has taken the answer: over a new ring then;
//! - T2 where that fails, too, and where a command was still with a ring that failed, a request may
//!   be left that no thread knows of. The whole connection is ended then, so that the kernel
//!   answers all;
//! - T3 a thread whose command the kernel has refused owes nothing, and no command is under way.
//!   Others of its queue go on, and the last one of a queue ends the connection: requests of its
//!   processor would wait for an entry that never comes.

use super::entry::Next;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The length of an answer, or an error number.
pub(super) type Answer = Result<usize, i32>;

/// Why there is no next request.
#[derive(Debug)]
pub(super) enum Lost {
    /// The kernel has refused a command. None is under way.
    Refused(io::Error),
    /// The ring has failed. A command may be under way.
    Ring(io::Error),
}

/// What requests come through: an entry of the ring.
pub(super) trait Line {
    /// Waits for the first request.
    fn first(&mut self) -> Result<Next, Lost>;
    /// Works on the request that has come.
    fn work(&mut self) -> Answer;
    /// Answers the request that has come and waits for the next one.
    fn answer(&mut self, answer: Answer) -> Result<Next, Lost>;
    /// Whether the kernel waits for the answer to a request that has come.
    fn owes(&mut self) -> bool;
    /// Exchanges the ring for a new one.
    fn renew(&mut self) -> io::Result<()>;
}

/// How the turns of a thread ended.
#[derive(Debug)]
pub(super) enum End {
    /// With the connection.
    Over,
    /// By a refusal; others may go on (T3).
    Alone(io::Error),
    /// With a request that may never be answered (T2).
    Broken(String),
}

/// Takes requests from `line` until its end. `tell` gets a sentence for each request that is
/// answered with EIO because the thread could not go on with it.
pub(super) fn serve(line: &mut impl Line, tell: &dyn Fn(&str)) -> End {
    let panicked = |_| Err(Lost::Ring(io::Error::other("it panicked")));
    let mut next = rt::foreign(|| line.first()).unwrap_or_else(panicked);
    loop {
        // Panics of the file system end below this, so here only the thread's own code can panic.
        let turn = rt::foreign(|| match next {
            Ok(Next::Request) => {
                let answer = line.work();
                line.answer(answer)
            }
            other => other,
        });
        next = match turn {
            Ok(Ok(Next::Request)) => Ok(Next::Request),
            Ok(Ok(Next::Over)) => return End::Over,
            Ok(Err(Lost::Refused(e))) => return End::Alone(e),
            Ok(Err(Lost::Ring(e))) if line.owes() => match line.renew() {
                Ok(()) => excused(line, &e.to_string(), tell),
                Err(again) => return End::Broken(format!("{e}, and no new ring: {again}")),
            },
            Ok(Err(Lost::Ring(e))) => return End::Broken(e.to_string()),
            Err(_) if line.owes() => excused(line, "it panicked", tell),
            Err(_) => return End::Broken("it panicked".into()),
        };
        // What cannot even be excused ends here: another try might go on for ever.
        if let Err(Lost::Ring(e)) = next {
            return End::Broken(e.to_string());
        }
    }
}

/// Answers the request that is owed with EIO (T1).
fn excused(line: &mut impl Line, why: &str, tell: &dyn Fn(&str)) -> Result<Next, Lost> {
    tell(&format!("a request failed with EIO in the ring: {why}"));
    let answered = rt::foreign(|| line.answer(Err(libc::EIO)));
    answered.unwrap_or_else(|_| Err(Lost::Ring(io::Error::other("it panicked twice"))))
}

/// Threads of each queue that take requests.
pub(super) struct Lives(Vec<AtomicUsize>);

impl Lives {
    pub fn new(queues: usize) -> Lives {
        Lives((0..queues).map(|_| AtomicUsize::new(0)).collect())
    }

    /// A thread of `queue` begins.
    pub fn begins(&self, queue: usize) {
        self.0[queue].fetch_add(1, Ordering::Relaxed);
    }

    /// A thread of `queue` has ended. True: it was the last one.
    pub fn ends(&self, queue: usize) -> bool {
        self.0[queue].fetch_sub(1, Ordering::AcqRel) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// What happens to a request.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Step {
        Good,
        /// Its work panics.
        Panics,
        /// The ring fails before it takes the answer.
        RingFails,
        /// The ring fails when it has taken the answer.
        RingFailsLater,
        /// The kernel refuses the answer.
        Refused,
    }
    use Step::{Good, Panics, Refused, RingFails, RingFailsLater};

    /// A line with requests to come, each as a step.
    #[derive(Default)]
    struct Planned {
        coming: VecDeque<Step>,
        now: Option<Step>,
        answers: Vec<Answer>,
        works: bool,
        renewed: usize,
        no_more_rings: bool,
    }

    impl Planned {
        fn of(steps: &[Step]) -> Planned {
            Planned {
                coming: steps.iter().copied().collect(),
                works: true,
                ..Planned::default()
            }
        }
        fn next(&mut self) -> Result<Next, Lost> {
            self.now = self.coming.pop_front();
            Ok(self.now.map_or(Next::Over, |_| Next::Request))
        }
    }

    fn broken() -> io::Error {
        io::Error::other("planted")
    }

    impl Line for Planned {
        fn first(&mut self) -> Result<Next, Lost> {
            self.next()
        }
        fn work(&mut self) -> Answer {
            assert!(self.now != Some(Panics), "planted");
            Ok(self.answers.len())
        }
        fn answer(&mut self, answer: Answer) -> Result<Next, Lost> {
            match self.now.expect("a request") {
                RingFails if answer.is_ok() => {
                    self.works = false;
                    return Err(Lost::Ring(broken()));
                }
                Refused => {
                    self.now = None;
                    return Err(Lost::Refused(broken()));
                }
                _ if !self.works => return Err(Lost::Ring(broken())),
                RingFailsLater => {
                    self.answers.push(answer);
                    self.now = None;
                    return Err(Lost::Ring(broken()));
                }
                Good | Panics | RingFails => {}
            }
            self.answers.push(answer);
            self.next()
        }
        fn owes(&mut self) -> bool {
            self.now.is_some()
        }
        fn renew(&mut self) -> io::Result<()> {
            self.renewed += 1;
            self.works = !self.no_more_rings;
            self.works.then_some(()).ok_or_else(broken)
        }
    }

    fn served(steps: &[Step]) -> (Planned, End, usize) {
        let mut line = Planned::of(steps);
        let told = AtomicUsize::new(0);
        let tell = |_: &str| {
            told.fetch_add(1, Ordering::Relaxed);
        };
        let end = serve(&mut line, &tell);
        (line, end, told.into_inner())
    }

    #[test]
    fn each_request_is_answered_until_the_end() {
        let (line, end, told) = served(&[Good, Good]);
        assert!(matches!(end, End::Over), "{end:?}");
        assert_eq!((line.answers, told), (vec![Ok(0), Ok(1)], 0));
    }

    /// T1.
    #[test]
    fn what_fails_in_the_middle_of_a_request_is_answered_and_the_next_one_too() {
        for (bad, rings) in [(Panics, 0), (RingFails, 1)] {
            let (line, end, told) = served(&[Good, bad, Good]);
            assert!(matches!(end, End::Over), "T1: {bad:?} {end:?}");
            let answers = vec![Ok(0), Err(libc::EIO), Ok(2)];
            assert_eq!((line.answers, told), (answers, 1), "T1: {bad:?}");
            assert_eq!(line.renewed, rings);
        }
    }

    /// T2.
    #[test]
    fn what_cannot_be_answered_breaks_the_connection() {
        let mut line = Planned::of(&[RingFails, Good]);
        line.no_more_rings = true;
        let end = serve(&mut line, &|_| ());
        assert!(matches!(end, End::Broken(_)), "T2: {end:?}");
        assert!(line.owes());
        let (line, end, _) = served(&[RingFailsLater, Good]);
        assert!(matches!(end, End::Broken(_)), "T2: {end:?}");
        assert_eq!(line.renewed, 0);
    }

    /// T3.
    #[test]
    fn a_refusal_ends_the_thread_alone_and_the_last_of_a_queue_is_known() {
        let (line, end, _) = served(&[Good, Refused, Good]);
        assert!(matches!(end, End::Alone(_)), "T3: {end:?}");
        assert_eq!(line.answers, [Ok(0)]);
        let lives = Lives::new(2);
        for queue in [0, 0, 1] {
            lives.begins(queue);
        }
        assert_eq!(
            [0, 0, 1].map(|queue| lives.ends(queue)),
            [false, true, true]
        );
    }
}
