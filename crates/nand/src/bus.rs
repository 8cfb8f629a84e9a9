//! A bus shared by several users: reserves it for their transfers.
//!
//! - B1: no two transfers overlap, if all of them are reserved in one way: each by [`Bus::append`],
//!   or each by [`Bus::reserve`], because neither looks at what the other has reserved.

use base::{Nanos, Time};
use std::collections::VecDeque;

/// A bus, one transfer at a time.
#[derive(Clone, Debug, Default)]
pub struct Bus {
    /// Reserved times, ascending, with gaps between them; kept only if transfers may use gaps.
    busy: VecDeque<(Time, Time)>,
    /// End of the last transfer.
    free: Time,
}

impl Bus {
    /// Takes the bus for `len` from `ready` on, behind everything that was reserved; answers when
    /// the transfer begins.
    pub fn append(&mut self, ready: Time, len: Nanos) -> Time {
        let begin = self.free.max(ready);
        self.free = begin + len;
        begin
    }
    /// Takes the bus for `len` in the first gap from `ready` on that is long enough; answers when
    /// the transfer begins.
    pub fn reserve(&mut self, ready: Time, len: Nanos) -> Time {
        if len == Nanos(0) {
            return ready;
        }
        if self.busy.back().is_none_or(|(_, end)| *end <= ready) {
            self.insert(self.busy.len(), ready, ready + len);
            return ready;
        }
        let mut i = self.busy.partition_point(|(_, end)| *end <= ready);
        let mut begin = ready;
        while let Some((from, to)) = self.busy.get(i) {
            if begin + len <= *from {
                break;
            }
            begin = begin.max(*to);
            i += 1;
        }
        self.insert(i, begin, begin + len);
        begin
    }
    /// Inserts a reserved time; times that touch become one.
    fn insert(&mut self, i: usize, begin: Time, end: Time) {
        self.free = self.free.max(end);
        let before = i > 0 && self.busy[i - 1].1 == begin;
        let behind = i < self.busy.len() && self.busy[i].0 == end;
        match (before, behind) {
            (true, true) => {
                self.busy[i - 1].1 = self.busy[i].1;
                self.busy.remove(i);
            }
            (true, false) => self.busy[i - 1].1 = end,
            (false, true) => self.busy[i].0 = begin,
            (false, false) => self.busy.insert(i, (begin, end)),
        }
    }
    /// Drops reservations before `now`, because no transfer will ask for an earlier time.
    pub fn forget(&mut self, now: Time) {
        while self.busy.front().is_some_and(|(_, end)| *end <= now) {
            self.busy.pop_front();
        }
    }
    /// Reservations that are kept.
    #[cfg(test)]
    fn kept(&self) -> usize {
        self.busy.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    #[test]
    fn a_gap_is_used_by_what_fits_into_it() {
        let mut c = Bus::default();
        assert_eq!(c.reserve(Time(100), Nanos(10)), Time(100));
        assert_eq!(c.reserve(Time(0), Nanos(50)), Time(0));
        assert_eq!(
            c.reserve(Time(20), Nanos(60)),
            Time(110),
            "too long for the gap"
        );
        assert_eq!(c.reserve(Time(20), Nanos(50)), Time(50));
        assert_eq!(c.kept(), 1, "everything touches");
        assert_eq!(c.append(Time(0), Nanos(5)), Time(170));
        c.forget(Time(170));
        assert_eq!(c.kept(), 0);
    }

    #[test]
    fn transfers_never_overlap_and_none_begins_early() {
        let mut rng = Rng::named(1, "bus");
        let (mut c, mut all, mut now) = (Bus::default(), Vec::new(), 0);
        for _ in 0..2000 {
            now += rng.below(9);
            c.forget(Time(now));
            let (ready, len) = (Time(now + rng.below(200)), Nanos(1 + rng.below(12)));
            let begin = c.reserve(ready, len);
            assert!(begin >= ready);
            all.push((begin, begin + len));
        }
        all.sort_unstable();
        assert!(all.windows(2).all(|w| w[0].1 <= w[1].0), "B1");
    }
}
