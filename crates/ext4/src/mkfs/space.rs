//! The blocks that are taken in a new volume, as runs, and a first-fit search for free runs.

use std::collections::BTreeMap;

/// Taken runs of a volume: start to length, without overlap.
#[derive(Clone, Debug)]
pub(super) struct Space {
    taken: BTreeMap<u64, u64>,
    end: u64,
}

impl Space {
    /// A volume of `end` blocks, all free.
    pub fn new(end: u64) -> Space {
        Space {
            taken: BTreeMap::new(),
            end,
        }
    }

    /// Takes a run.
    ///
    /// # Panics
    /// If one of its blocks is taken or lies outside the volume (mkfs-I1).
    pub fn take(&mut self, start: u64, len: u64) {
        if len == 0 {
            return;
        }
        assert!(
            self.is_free(start, len),
            "mkfs-I1: block {start} (+{len}) has one owner"
        );
        self.taken.insert(start, len);
    }

    /// Takes the rest of each cluster, of `unit` blocks, of which a part is taken.
    pub fn fill_clusters(&mut self, unit: u64) {
        let whole = |(start, len): (u64, u64)| {
            let (first, end) = (start / unit * unit, (start + len).next_multiple_of(unit));
            (first, end.min(self.end))
        };
        let mut filled: BTreeMap<u64, u64> = BTreeMap::new();
        for (first, end) in self.taken.iter().map(|(s, l)| whole((*s, *l))) {
            match filled.last_entry() {
                Some(mut last) if first <= last.key() + last.get() => {
                    let start = *last.key();
                    let len = last.get_mut();
                    *len = (*len).max(end - start);
                }
                _ => drop(filled.insert(first, end - first)),
            }
        }
        self.taken = filled;
    }

    /// True if a run is free and inside the volume.
    pub fn is_free(&self, start: u64, len: u64) -> bool {
        let before = self.taken.range(..start + len).next_back();
        start + len <= self.end && before.is_none_or(|(s, l)| s + l <= start)
    }

    /// First free run of exactly `len` blocks at or after `from`, taken.
    pub fn take_first(&mut self, from: u64, len: u64) -> Option<u64> {
        let (start, _) = self.gaps(from).find(|(_, gap)| *gap >= len)?;
        self.take(start, len);
        Some(start)
    }

    /// Free runs at or after `from`, taken until there are `len` blocks; `None` if there are not so
    /// many.
    pub fn take_runs(&mut self, from: u64, len: u64) -> Option<Vec<(u64, u64)>> {
        let mut left = len;
        let mut runs = Vec::new();
        for (start, gap) in self.gaps(from) {
            let n = gap.min(left);
            runs.push((start, n));
            left -= n;
            if left == 0 {
                break;
            }
        }
        if left > 0 {
            return None;
        }
        runs.iter().for_each(|&(start, n)| self.take(start, n));
        Some(runs)
    }

    /// Free runs at or after `from`.
    fn gaps(&self, from: u64) -> impl Iterator<Item = (u64, u64)> {
        let inside = self
            .taken
            .range(..from)
            .next_back()
            .map_or(0, |(s, l)| s + l);
        let mut at = from.max(inside);
        let ends = self
            .taken
            .range(from..)
            .map(|(s, l)| (*s, *l))
            .chain([(self.end, 0)]);
        ends.filter_map(move |(start, len)| {
            let gap = (at, start.saturating_sub(at));
            at = start + len;
            (gap.1 > 0).then_some(gap)
        })
    }

    /// Taken runs inside `start..end`, cut to it.
    pub fn taken_in(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let first = self
            .taken
            .range(..start)
            .next_back()
            .map_or(start, |(s, _)| *s);
        self.taken.range(first..end).filter_map(move |(s, l)| {
            let (from, to) = ((*s).max(start), (s + l).min(end));
            (from < to).then(|| (from, to - from))
        })
    }

    /// Number of blocks taken inside `start..end`.
    pub fn taken_count(&self, start: u64, end: u64) -> u64 {
        self.taken_in(start, end).map(|(_, len)| len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_fit() {
        let mut s = Space::new(100);
        s.take(0, 10);
        s.take(15, 5);
        assert_eq!(s.take_first(0, 5), Some(10));
        assert_eq!(s.take_first(0, 5), Some(20));
        assert_eq!(s.take_first(90, 11), None);
        assert_eq!(s.take_runs(0, 75), Some(vec![(25, 75)]));
        assert_eq!(s.take_runs(0, 1), None);
        assert_eq!((s.taken_count(0, 100), s.taken_count(12, 17)), (100, 5));
    }

    #[test]
    fn what_touches_a_cluster_takes_it() {
        let mut s = Space::new(96);
        for (start, len) in [(0, 3), (5, 1), (17, 16), (80, 16)] {
            s.take(start, len);
        }
        s.fill_clusters(16);
        assert_eq!(s.taken_in(0, 96).collect::<Vec<_>>(), [(0, 48), (80, 16)]);
        let mut s = Space::new(64);
        s.take(5, 1);
        s.fill_clusters(16);
        assert_eq!((s.take_first(0, 16), s.taken_count(0, 64)), (Some(16), 32));
    }

    #[test]
    fn runs_fill_gaps_from_the_goal_on() {
        let mut s = Space::new(100);
        s.take(10, 10);
        s.take(30, 10);
        assert_eq!(s.take_runs(12, 15), Some(vec![(20, 10), (40, 5)]));
    }

    #[test]
    #[should_panic(expected = "mkfs-I1: ")]
    fn a_block_has_one_owner() {
        let mut s = Space::new(100);
        s.take(10, 10);
        s.take(19, 1);
    }
}
