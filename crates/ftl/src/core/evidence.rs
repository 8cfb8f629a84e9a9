//! When a free block may be erased: as soon as what replaces its content is durable (ftl-I2).
//!
//! A block becomes free when its last valid slot is taken by operation number f ([`freed_at`]). It
//! may be erased when the programs of all operations up to f have ended. The end of everything
//! programmed so far is always late enough, and is what counts by default; but where a row waits
//! for a die that is being erased, all dies then wait for each other. With
//! [`crate::Housekeeping::own_evidence`] [`Evidence`] keeps milestones, which give earlier times.
//!
//! - I24 (milestones): a milestone (d, end) says that the programs of all operations below d end by
//!   `end`; both ascend.
//!
//! [`freed_at`]: crate::types::BlockInfo::freed_at

use super::Ftl;
use base::{Mutant, Time};
use std::collections::VecDeque;

/// When the programs end that an erase or a flush waits for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    /// When the last program that may be evidence for an erase ends.
    end: Time,
    /// When the last program that a flush waits for ends.
    flush_end: Time,
    /// Milestones that lie ahead of the clock.
    ahead: VecDeque<(u64, Time)>,
    /// The programs of all operations with a number below this have ended.
    settled: u64,
}

impl Evidence {
    /// Adds a milestone.
    fn reach(&mut self, below: u64, end: Time) {
        match self.ahead.back_mut() {
            Some((known, _)) if *known >= below => {}
            Some((known, at)) if *at == end => *known = below,
            _ if below <= self.settled => {}
            _ => self.ahead.push_back((below, end)),
        }
    }
    /// Notes that a flush waits for a program that ends at `end`.
    pub fn flush_waits(&mut self, end: Time) {
        self.flush_end = self.flush_end.max(end);
    }
    /// The earliest time after `now` at which everything that a flush waits for is programmed.
    pub fn after_flush(&self, now: Time) -> Time {
        now.max(self.flush_end)
    }
    /// The earliest time after `now` at which every program so far has ended.
    pub fn after_programs(&self, now: Time) -> Time {
        now.max(self.end)
    }
    /// Drops milestones before `now`, because no erase will be asked for before.
    pub fn advance(&mut self, now: Time) {
        while let Some((below, _)) = self.ahead.front().filter(|(_, end)| *end <= now) {
            self.settled = *below;
            self.ahead.pop_front();
        }
    }
    /// When the programs of all operations up to `number` have ended; `None` if no milestone says
    /// that.
    fn of(&self, number: u64) -> Option<Time> {
        if number < self.settled {
            return Some(Time(0));
        }
        let i = self.ahead.partition_point(|(below, _)| *below <= number);
        self.ahead.get(i).map(|(_, end)| *end)
    }
}

impl Ftl {
    /// Notes that a program which may be evidence for an erase ends at `end`.
    pub(crate) fn note_evidence(&mut self, end: Time) {
        self.evidence.end = self.evidence.end.max(end);
        if self.config.housekeeping.own_evidence {
            let below = self.settled_below();
            self.evidence.reach(below, self.evidence.end);
        }
    }
    /// Notes that every program is over and the clock is at 0.
    pub(crate) fn settle_evidence(&mut self) {
        self.evidence = Evidence {
            settled: self.settled_below(),
            ..Evidence::default()
        };
    }
    fn settled_below(&self) -> u64 {
        self.durable_before().min(self.numbers.accepted() + 1)
    }
    /// Operations with a number below the answer are on flash, or were superseded there.
    pub(crate) fn durable_before(&self) -> u64 {
        let rows = self.streams.pending();
        let rows = rows.filter_map(|r| r.entries.iter().map(|e| e.accept).min());
        let records = self.log.owners_wait();
        let wait = !(records.clone().next().is_some() && self.mutant(Mutant::EraseBeforeOwners));
        let records = records.filter(|_| wait);
        rows.chain(self.log.trims_wait())
            .chain(records)
            .chain(self.pairs.wait())
            .min()
            .unwrap_or(u64::MAX)
    }
    /// When a free block may be erased, not before `now`.
    pub(crate) fn erase_from(&self, now: Time, block: u32) -> Time {
        let freed_at = self.blocks.get(block).freed_at;
        let own = match self.config.housekeeping.own_evidence {
            true => self.evidence.of(freed_at),
            false => None,
        };
        now.max(own.unwrap_or(self.evidence.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_milestone_beyond_an_operation_counts() {
        let mut e = Evidence::default();
        assert_eq!(e.of(0), None);
        e.reach(5, Time(100));
        e.reach(5, Time(300));
        e.reach(9, Time(300));
        e.reach(12, Time(300));
        assert_eq!(
            (e.of(4), e.of(5), e.of(11)),
            (Some(Time(100)), Some(Time(300)), Some(Time(300)))
        );
        assert_eq!(e.of(12), None, "I24");
        e.advance(Time(100));
        assert_eq!((e.of(4), e.of(5)), (Some(Time(0)), Some(Time(300))));
        e.reach(4, Time(400));
        assert_eq!(e.of(12), None);
    }
}
