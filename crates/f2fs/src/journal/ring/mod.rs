//! The ring of transactions: which transaction occupies which of its blocks.
//!
//! Transactions lie one behind the other, and the last block of the ring is followed by the first.
//! The tail is where the oldest transaction begins that no durable pack contains; recovery needs
//! everything from there to the head:
//!
//! - f2fs-journal-I8 a transaction takes free blocks only: what lies between tail and head is not
//!   overwritten, and the tail moves only over transactions that a durable pack contains.
//!
//! An epoch that is committed by a pack (f2fs-commit-K8) has no block here, but has its place in
//! the order of epochs.
//!
//! The files below are everything that brings epochs into the ring and keeps room in it: commit
//! and who waits for it, the wait of an operation for room, and the superblocks and the guard that
//! say that the ring may hold something.

pub(crate) mod area;
mod commit;
#[cfg(test)]
mod commit_tests;
mod fsync;
mod gather;
mod group;
pub(crate) mod guard;
mod locked;
#[cfg(test)]
mod locked_tests;
mod log;
pub(crate) mod pace;
pub(crate) mod reserve;
mod supers;
mod timer;
mod transaction;
mod trim;

pub(super) use group::Group;
use group::Led;
pub(super) use log::LogState;
pub(crate) use log::{Committed, Start};
pub(crate) use reserve::Reserve;

use super::Epoch;
use base::BlockNo;
use std::collections::VecDeque;
use std::ops::Range;

/// What a mount knows of its ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RingPlace {
    /// First block of the ring, behind the two superblocks of the journal.
    pub first: BlockNo,
    /// Blocks of the ring.
    pub blocks: u32,
    /// Life of the ring: stands in every block written into it.
    pub incarnation: u64,
}

/// Blocks of a transaction, counted from the first block of the ring; it may go over the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    /// Its first block.
    pub start: u32,
    /// How many.
    pub blocks: u32,
}

/// A transaction between tail and head.
#[derive(Clone, Copy, Debug)]
struct Live {
    epoch: Epoch,
    span: Span,
}

/// The ring of a mounted volume.
#[derive(Debug)]
pub(crate) struct Ring {
    place: RingPlace,
    /// Where the next transaction begins.
    head: u32,
    /// Blocks between tail and head.
    used: u32,
    used_max: u32,
    live: VecDeque<Live>,
    /// Last block of the newest transaction: what the next one names as its predecessor.
    previous: u32,
    /// Of the newest transaction, in this life or before.
    newest: Epoch,
}

impl Ring {
    /// An empty ring; the next transaction begins at block `head` and is the one behind `newest`.
    ///
    /// # Panics
    /// If the head is not in the ring.
    pub fn empty(place: RingPlace, head: u32, newest: Epoch) -> Ring {
        assert!(
            head < place.blocks,
            "f2fs-journal-I8: head {head} in a ring of {}",
            place.blocks
        );
        Ring {
            place,
            head,
            used: 0,
            used_max: 0,
            live: VecDeque::new(),
            previous: head,
            newest,
        }
    }

    /// Where it lies.
    pub fn place(&self) -> RingPlace {
        self.place
    }
    /// Where the oldest transaction begins that is still needed; the head if there is none.
    pub fn tail(&self) -> u32 {
        self.live.front().map_or(self.head, |t| t.span.start)
    }
    /// The oldest transaction that is still needed; the next one if there is none.
    pub fn tail_epoch(&self) -> Epoch {
        let next = Epoch(self.newest.0 + 1);
        self.live.front().map_or(next, |t| t.epoch)
    }
    /// The newest transaction.
    pub fn newest(&self) -> Epoch {
        self.newest
    }
    /// Last block of the newest transaction.
    pub fn previous(&self) -> u32 {
        self.previous
    }
    /// Blocks that a transaction may take.
    pub fn free(&self) -> u32 {
        self.place.blocks - self.used
    }
    /// Blocks between tail and head.
    pub fn used(&self) -> u32 {
        self.used
    }
    /// The most that there ever were.
    pub fn used_max(&self) -> u32 {
        self.used_max
    }

    /// Where a transaction of so many blocks would lie; `None`: it does not fit before the tail has
    /// moved.
    pub fn fits(&self, blocks: u32) -> Option<Span> {
        let start = self.head;
        (blocks <= self.free()).then_some(Span { start, blocks })
    }

    /// Blocks of the device under `span`: one run, or two where it goes over the end of the ring.
    pub fn runs(&self, span: Span) -> impl Iterator<Item = Range<BlockNo>> {
        let room = self.place.blocks - span.start;
        let (head, wrapped) = (span.blocks.min(room), span.blocks.saturating_sub(room));
        let first = self.place.first.0;
        let run = move |from: u32, blocks: u32| {
            let from = first + u64::from(from);
            BlockNo(from)..BlockNo(from + u64::from(blocks))
        };
        let runs = [run(span.start, head), run(0, wrapped)];
        runs.into_iter().filter(|run| run.start < run.end)
    }

    /// A transaction is about to be written.
    ///
    /// # Panics
    /// f2fs-journal-I8: if it would overwrite one that is needed, or not lie behind the newest.
    pub fn check_free(&self, span: Span) {
        assert_eq!(
            span.start, self.head,
            "f2fs-journal-I8: a transaction begins at the head"
        );
        assert!(
            span.blocks <= self.free(),
            "f2fs-journal-I8: {} blocks over {} free ones",
            span.blocks,
            self.free()
        );
        let taken = |at: u32| {
            self.live
                .iter()
                .any(|t| t.span.holds(at, self.place.blocks))
        };
        let last = (span.start + span.blocks - 1) % self.place.blocks;
        // A look at all of them: a mount may bring a ring full of small ones back.
        debug_assert!(
            !taken(span.start) && !taken(last),
            "f2fs-journal-I8: {span:?} lies over what the tail {} protects",
            self.tail()
        );
    }

    /// A transaction is durable.
    ///
    /// # Panics
    /// f2fs-journal-I1: if it is not the one behind the newest. f2fs-journal-I8: if it does not lie
    /// at the head.
    pub fn push(&mut self, epoch: Epoch, span: Span) {
        self.check_free(span);
        assert_eq!(
            epoch.0,
            self.newest.0 + 1,
            "f2fs-journal-I1: epochs commit in order"
        );
        self.live.push_back(Live { epoch, span });
        self.newest = epoch;
        self.used += span.blocks;
        self.used_max = self.used_max.max(self.used);
        self.previous = (self.head + span.blocks - 1) % self.place.blocks;
        self.head = (self.head + span.blocks) % self.place.blocks;
    }

    /// The next epoch has no transaction: a pack that has it is about to be durable. Answers where
    /// it would have been.
    pub fn push_aside(&mut self, epoch: Epoch) -> Span {
        assert_eq!(
            epoch.0,
            self.newest.0 + 1,
            "f2fs-journal-I1: epochs commit in order"
        );
        let span = Span {
            start: self.head,
            blocks: 0,
        };
        self.live.push_back(Live { epoch, span });
        self.newest = epoch;
        span
    }

    /// A durable pack contains all epochs up to `applied`: the tail moves over them.
    ///
    /// # Panics
    /// f2fs-journal-I8: if one of them is not in the ring yet.
    pub fn release(&mut self, applied: Epoch) {
        assert!(
            applied <= self.newest,
            "f2fs-journal-I8: epoch {} is applied, {} is the newest in the ring",
            applied.0,
            self.newest.0
        );
        while let Some(oldest) = self.live.front().filter(|t| t.epoch <= applied) {
            self.used -= oldest.span.blocks;
            self.live.pop_front();
        }
    }
}

impl Span {
    /// True if block `at` is one of it, in a ring of `ring` blocks.
    fn holds(self, at: u32, ring: u32) -> bool {
        (at + ring - self.start) % ring < self.blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    const PLACE: RingPlace = RingPlace {
        first: BlockNo(100),
        blocks: 16,
        incarnation: 7,
    };

    #[test]
    fn it_wraps_at_every_offset() {
        for head in 0..16 {
            for blocks in 1..=16 {
                let mut ring = Ring::empty(PLACE, head, Epoch(4));
                let span = ring.fits(blocks).expect("an empty ring has room");
                let runs: Vec<_> = ring.runs(span).collect();
                let total: u64 = runs.iter().map(|r| r.end.0 - r.start.0).sum();
                assert_eq!(total, u64::from(blocks), "{head} {blocks}: {runs:?}");
                assert_eq!(runs[0].start, BlockNo(100 + u64::from(head)));
                assert!(runs.iter().all(|r| r.start.0 >= 100 && r.end.0 <= 116));
                assert_eq!(runs.len(), 1 + usize::from(head + blocks > 16));
                ring.push(Epoch(5), span);
                assert_eq!(ring.head, (head + blocks) % 16);
                assert_eq!(ring.previous(), (head + blocks - 1) % 16);
                assert_eq!((ring.tail(), ring.tail_epoch()), (head, Epoch(5)));
                assert_eq!(ring.free(), 16 - blocks);
                ring.release(Epoch(5));
                assert_eq!((ring.free(), ring.tail_epoch()), (16, Epoch(6)));
            }
        }
    }

    #[test]
    fn an_epoch_without_blocks_has_its_turn() {
        let mut ring = Ring::empty(PLACE, 3, Epoch(4));
        let span = ring.fits(16).expect("an empty ring has room");
        ring.push(Epoch(5), span);
        let aside = ring.push_aside(Epoch(6));
        assert_eq!(aside.blocks, 0);
        let state = |r: &Ring| (r.tail(), r.tail_epoch(), r.newest(), r.free());
        assert_eq!(state(&ring), (3, Epoch(5), Epoch(6), 0));
        ring.release(Epoch(5));
        assert_eq!(
            state(&ring),
            (3, Epoch(6), Epoch(6), 16),
            "f2fs-journal-I8: not applied"
        );
        let span = ring.fits(2).expect("room");
        ring.push(Epoch(7), span);
        ring.release(Epoch(6));
        assert_eq!(state(&ring), (3, Epoch(7), Epoch(7), 14));
    }

    /// A model that knows the owner of each block.
    #[test]
    fn nothing_needed_is_overwritten() {
        for seed in 0..50 {
            let mut rng = Rng::named(seed, "ring");
            let mut ring = Ring::empty(PLACE, rng.below(16) as u32, Epoch(0));
            let mut owner = [0_u64; 16];
            let (mut next, mut applied) = (1, 0);
            for _ in 0..200 {
                let blocks = 1 + rng.below(6) as u32;
                match ring.fits(blocks) {
                    Some(span) => {
                        for at in ring.runs(span).flat_map(|run| run.start.0..run.end.0) {
                            let slot = &mut owner[(at - 100) as usize];
                            assert!(*slot <= applied, "f2fs-journal-I8: over epoch {slot}");
                            *slot = next;
                        }
                        ring.push(Epoch(next), span);
                        next += 1;
                    }
                    None => {
                        applied += 1 + rng.below(next - 1 - applied);
                        ring.release(Epoch(applied));
                    }
                }
            }
            assert!(next > 50 && ring.used_max() > 10, "{next} {ring:?}");
        }
    }

    #[test]
    #[should_panic(expected = "f2fs-journal-I8: 5 blocks over 4 free ones")]
    fn an_overwriting_transaction_is_refused() {
        let mut ring = Ring::empty(PLACE, 3, Epoch(0));
        let span = ring.fits(12).expect("room");
        ring.push(Epoch(1), span);
        assert_eq!(ring.fits(5), None);
        let start = ring.head;
        ring.push(Epoch(2), Span { start, blocks: 5 });
    }

    #[test]
    #[should_panic(expected = "f2fs-journal-I8: epoch 2 is applied")]
    fn the_tail_does_not_pass_the_head() {
        let mut ring = Ring::empty(PLACE, 3, Epoch(0));
        let span = ring.fits(1).expect("room");
        ring.push(Epoch(1), span);
        ring.release(Epoch(2));
    }
}
