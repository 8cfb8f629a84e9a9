//! Wait queues and timers of a simulation.

use crate::task::{TaskId, Waiter};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};

/// The queues of all locks and condition variables that a task waits for. A lock stores the number
/// of its queue (0: none), so a free lock costs one word, and nothing is keyed by an address.
#[derive(Default)]
pub(crate) struct Queues {
    slots: Vec<VecDeque<Waiter>>,
    free: Vec<u32>,
}

impl Queues {
    /// Appends a waiter to the queue numbered in `word`, making one if there is none.
    pub(crate) fn push(&mut self, word: &AtomicU32, waiter: Waiter) {
        let mut number = word.load(Ordering::Relaxed);
        if number == 0 {
            number = self.free.pop().unwrap_or_else(|| {
                self.slots.push(VecDeque::new());
                self.slots.len() as u32
            });
            word.store(number, Ordering::Relaxed);
        }
        self.slots[number as usize - 1].push_back(waiter);
    }
    /// Waiters in the queue.
    pub(crate) fn len(&self, word: &AtomicU32) -> usize {
        match word.load(Ordering::Relaxed) {
            0 => 0,
            n => self.slots[n as usize - 1].len(),
        }
    }
    /// The first waiter.
    pub(crate) fn front(&self, word: &AtomicU32) -> Option<Waiter> {
        match word.load(Ordering::Relaxed) {
            0 => None,
            n => self.slots[n as usize - 1].front().copied(),
        }
    }
    /// Takes out waiter `index`; gives the queue back when it is empty.
    pub(crate) fn remove_at(&mut self, word: &AtomicU32, index: usize) -> Option<Waiter> {
        let number = word.load(Ordering::Relaxed);
        if number == 0 {
            return None;
        }
        let queue = &mut self.slots[number as usize - 1];
        let waiter = queue.remove(index);
        if queue.is_empty() {
            self.free.push(number);
            word.store(0, Ordering::Relaxed);
        }
        waiter
    }
    /// Takes out `waiter` if it is still there.
    pub(crate) fn remove(&mut self, word: &AtomicU32, waiter: Waiter) {
        let number = word.load(Ordering::Relaxed);
        if number != 0
            && let Some(i) = self.slots[number as usize - 1]
                .iter()
                .position(|w| *w == waiter)
        {
            self.remove_at(word, i);
        }
    }
}

/// A timer: (time, sequence number, task, generation).
type Entry = (u64, u64, TaskId, u32);

/// Timers in order of (virtual time, sequence number).
#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<Entry>>,
    seq: u64,
    stale: usize,
}

impl Timers {
    pub(crate) fn push(&mut self, at: u64, waiter: Waiter) {
        self.seq += 1;
        self.heap
            .push(Reverse((at, self.seq, waiter.task, waiter.generation)));
    }
    /// The earliest timer whose waiter `is_live`; drops stale ones before it.
    pub(crate) fn peek(&mut self, is_live: impl Fn(Waiter) -> bool) -> Option<u64> {
        while let Some(&Reverse((at, _, task, generation))) = self.heap.peek() {
            if is_live(Waiter {
                task,
                generation,
                exclusive: false,
            }) {
                return Some(at);
            }
            self.heap.pop();
            self.stale = self.stale.saturating_sub(1);
        }
        None
    }
    /// Takes out the earliest timer, stale or not.
    pub(crate) fn pop(&mut self) -> Option<(u64, Waiter)> {
        let Reverse((at, _, task, generation)) = self.heap.pop()?;
        Some((
            at,
            Waiter {
                task,
                generation,
                exclusive: false,
            },
        ))
    }
    /// Counts one more stale timer; drops all stale ones when they are half of the heap.
    pub(crate) fn note_stale(&mut self, is_live: impl Fn(Waiter) -> bool) {
        self.stale += 1;
        if self.stale > 64 && self.stale * 2 > self.heap.len() {
            self.heap.retain(|Reverse((_, _, task, generation))| {
                is_live(Waiter {
                    task: *task,
                    generation: *generation,
                    exclusive: false,
                })
            });
            self.stale = 0;
        }
    }
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(task: u32) -> Waiter {
        Waiter {
            task,
            generation: 0,
            exclusive: false,
        }
    }

    #[test]
    fn timers_come_in_order_of_time_then_of_arrival() {
        let mut t = Timers::default();
        for (at, task) in [(5, 1), (3, 2), (5, 3), (3, 4)] {
            t.push(at, waiter(task));
        }
        let order: Vec<u32> = std::iter::from_fn(|| t.pop())
            .map(|(_, w)| w.task)
            .collect();
        assert_eq!(order, [2, 4, 1, 3]);
    }

    #[test]
    fn stale_timers_are_compacted() {
        let mut t = Timers::default();
        for task in 0..1000 {
            t.push(u64::from(task), waiter(task));
        }
        for _ in 0..900 {
            t.note_stale(|w| w.task >= 900);
        }
        assert!(t.len() < 500, "{} entries left of 100 live ones", t.len());
        assert_eq!(t.peek(|w| w.task >= 900), Some(900));
    }

    #[test]
    fn empty_queues_are_reused() {
        let mut q = Queues::default();
        let (a, b) = (AtomicU32::new(0), AtomicU32::new(0));
        q.push(&a, waiter(1));
        q.push(&a, waiter(2));
        q.remove(&a, waiter(1));
        assert_eq!((q.len(&a), q.front(&a)), (1, Some(waiter(2))));
        q.remove_at(&a, 0);
        assert_eq!(a.load(Ordering::Relaxed), 0);
        q.push(&b, waiter(3));
        assert_eq!((b.load(Ordering::Relaxed), q.len(&a), q.len(&b)), (1, 0, 1));
    }
}
