//! Submission queues: rings of commands, and the arbitration among them.
//!
//! - Q1: a queue never has more commands than its depth, from their submission to their completion.
//! - Q2: each command is fetched once, those of one queue in the order of submission.

use super::command::Command;
use base::Time;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A queue has no room until the first of its commands completes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueFull {
    /// When the first command completes; `None`: not before the doorbell has been rung.
    pub until: Option<Time>,
}

/// A submission queue with the completions that are still to come.
#[derive(Clone, Debug, Default)]
struct Queue {
    waiting: VecDeque<(Time, Command)>,
    under_way: BinaryHeap<Reverse<Time>>,
}

impl Queue {
    fn forget(&mut self, now: Time) {
        while self.under_way.peek().is_some_and(|end| end.0 <= now) {
            self.under_way.pop();
        }
    }
}

/// All queues of the host.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    queues: Vec<Queue>,
    depth: usize,
    burst: usize,
    /// The queue whose turn it is, and how much of its burst is used.
    turn: (usize, usize),
}

impl Queues {
    pub fn new(queues: u32, depth: u32, burst: u32) -> Queues {
        Queues {
            queues: vec![Queue::default(); queues as usize],
            depth: depth as usize,
            burst: match burst {
                0 => usize::MAX,
                burst => burst as usize,
            },
            turn: (0, 0),
        }
    }
    pub fn count(&self) -> usize {
        self.queues.len()
    }
    /// Checks for room for one more command in a queue at `now` (Q1).
    pub fn room(&mut self, queue: usize, now: Time) -> Result<(), QueueFull> {
        let q = &mut self.queues[queue];
        q.forget(now);
        if q.waiting.len() + q.under_way.len() < self.depth {
            return Ok(());
        }
        let until = q.under_way.peek().map(|end| end.0);
        Err(QueueFull { until })
    }
    /// Puts a command behind the others of a queue.
    pub fn push(&mut self, queue: usize, now: Time, command: Command) -> Result<(), QueueFull> {
        self.room(queue, now)?;
        self.queues[queue].waiting.push_back((now, command));
        Ok(())
    }
    /// The next command by round-robin arbitration (NVMe 1.4, 4.13), with its queue and the time of
    /// its submission.
    pub fn fetch(&mut self) -> Option<(usize, Time, Command)> {
        for _ in 0..=self.queues.len() {
            let (queue, used) = self.turn;
            if used < self.burst
                && let Some((at, command)) = self.queues[queue].waiting.pop_front()
            {
                self.turn.1 += 1;
                return Some((queue, at, command));
            }
            self.turn = ((queue + 1) % self.queues.len(), 0);
        }
        None
    }
    /// Notes that a fetched command of the queue will complete at `end`.
    pub fn under_way(&mut self, queue: usize, end: Time) {
        self.queues[queue].under_way.push(Reverse(end));
    }
    /// Forgets all commands that are under way.
    pub fn clear(&mut self) {
        for queue in &mut self.queues {
            queue.waiting.clear();
            queue.under_way.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::command::Op;
    use super::*;

    fn command(cid: u16) -> Command {
        Command::new(cid, Op::Flush)
    }

    #[test]
    fn each_queue_has_its_burst_in_turn() {
        let mut q = Queues::new(3, 8, 2);
        for cid in 0..5 {
            q.push(0, Time(0), command(cid)).unwrap();
        }
        q.push(2, Time(0), command(20)).unwrap();
        let order: Vec<u16> = std::iter::from_fn(|| q.fetch())
            .map(|(_, _, c)| c.cid)
            .collect();
        assert_eq!(order, [0, 1, 20, 2, 3, 4], "Q2");
        let mut q = Queues::new(2, 8, 0);
        q.push(1, Time(0), command(9)).unwrap();
        (0..3).for_each(|cid| q.push(0, Time(0), command(cid)).unwrap());
        let order: Vec<u16> = std::iter::from_fn(|| q.fetch())
            .map(|(_, _, c)| c.cid)
            .collect();
        assert_eq!(order, [0, 1, 2, 9], "without a limit");
    }

    #[test]
    fn a_full_queue_says_when_there_is_room() {
        let mut q = Queues::new(1, 2, 1);
        q.push(0, Time(0), command(1)).unwrap();
        q.push(0, Time(0), command(2)).unwrap();
        assert_eq!(
            q.push(0, Time(0), command(3)),
            Err(QueueFull { until: None })
        );
        while let Some((queue, _, c)) = q.fetch() {
            q.under_way(queue, Time(100 - u64::from(c.cid)));
        }
        let full = Err(QueueFull {
            until: Some(Time(98)),
        });
        assert_eq!(q.push(0, Time(97), command(3)), full, "Q1");
        assert_eq!(q.push(0, Time(98), command(3)), Ok(()));
        assert_eq!(
            q.push(0, Time(98), command(4)),
            Err(QueueFull {
                until: Some(Time(99))
            })
        );
    }
}
