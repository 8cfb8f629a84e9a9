//! When a free block may be erased: as soon as what replaces its content is durable (ftl-I2).
//!
//! A block becomes free when its last valid slot is taken by operation number f
//! ([`BlockInfo::freed_at`]). It may be erased when the programs of all operations up to f have
//! ended. The end of everything programmed so far is always late enough; but where a row waits for
//! a die that is being erased, that makes all dies wait for each other. [`Evidence`] knows earlier
//! times.
//!
//! - I24 (milestones): a milestone (d, end) says that the programs of all operations below d end by
//!   `end`; both ascend.
//!
//! [`BlockInfo::freed_at`]: crate::core::BlockInfo::freed_at

use crate::core::Ftl;
use base::Time;
use std::collections::VecDeque;

/// Milestones that lie ahead of the clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
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
    fn advance(&mut self, now: Time) {
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
        self.evidence_end = self.evidence_end.max(end);
        if self.config.housekeeping.own_evidence {
            let below = self.durable_before().min(self.accepted + 1);
            self.evidence.reach(below, self.evidence_end);
        }
    }
    /// Drops milestones before `now`, because no erase will be asked for before.
    pub(crate) fn forget_evidence(&mut self, now: Time) {
        self.evidence.advance(now);
    }
    /// Notes that every program is over and the clock is at 0.
    pub(crate) fn settle_evidence(&mut self) {
        self.evidence_end = Time(0);
        self.evidence.ahead.clear();
        self.evidence.settled = self.durable_before().min(self.accepted + 1);
    }
    /// When a free block may be erased, not before `now`.
    pub(crate) fn erase_from(&self, now: Time, block: u32) -> Time {
        let freed_at = self.blocks[block as usize].freed_at;
        let own = match self.config.housekeeping.own_evidence {
            true => self.evidence.of(freed_at),
            false => None,
        };
        now.max(own.unwrap_or(self.evidence_end))
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
