//! Copies in the controller's memory of what was programmed last, by unit, for comparisons that
//! then need no read of the chips. So a page that has become unreadable since it was programmed is
//! not noticed by a comparison, and is shared; its index is volatile, as the copies are.
//!
//! - C1: a copy is what the unit holds: it is dropped when the unit gets other content.
//! - C2: at most as many copies as there is room for; the oldest go first.

use base::{Bytes, Map};
use std::collections::VecDeque;

/// The copies. Volatile.
#[derive(Clone, Default)]
pub(super) struct Copies {
    room: usize,
    by_unit: Map<u32, (u64, Bytes)>,
    /// Units in the order in which they were programmed, each with the number of that program;
    /// those that have been dropped since are in it, too.
    order: VecDeque<(u32, u64)>,
    programs: u64,
}

impl Copies {
    /// Room for so many units.
    pub fn new(room: usize) -> Copies {
        Copies {
            room,
            ..Copies::default()
        }
    }

    /// Keeps what was programmed.
    pub fn keep(&mut self, unit: u32, content: &Bytes) {
        if self.room == 0 {
            return;
        }
        self.programs += 1;
        self.by_unit.insert(unit, (self.programs, content.clone()));
        self.order.push_back((unit, self.programs));
        // C2. A unit that was dropped or programmed again leaves its former place in the order.
        while self.by_unit.len() > self.room || self.order.len() > 2 * self.room + 64 {
            let Some((unit, nr)) = self.order.pop_front() else {
                break;
            };
            if self.by_unit.get(&unit).is_some_and(|(kept, _)| *kept == nr) {
                self.by_unit.remove(&unit);
            }
        }
    }

    /// Notes that a unit has other content from now on (C1).
    pub fn drop_of(&mut self, unit: u32) {
        self.by_unit.remove(&unit);
    }

    /// The content of a unit, if it is kept.
    pub fn of(&self, unit: u32) -> Option<Bytes> {
        self.by_unit.get(&unit).map(|(_, content)| content.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_and_what_changed_is_not() {
        let mut copies = Copies::new(3);
        let content = |n: u32| Bytes::from(vec![n as u8; 8]);
        for n in 0..1000 {
            copies.keep(n % 5, &content(n));
            assert!(copies.by_unit.len() <= 3 && copies.order.len() <= 3 * 2 + 64);
        }
        assert_eq!(copies.of(999 % 5), Some(content(999)));
        assert_eq!(copies.of(997 % 5), Some(content(997)));
        assert_eq!(copies.of(996 % 5), None, "the oldest go first");
        copies.drop_of(999 % 5);
        assert_eq!(copies.of(999 % 5), None);
        let mut none = Copies::new(0);
        none.keep(1, &content(1));
        assert_eq!(none.of(1), None);
    }

    #[test]
    fn one_unit_that_is_programmed_again_and_again_takes_one_place() {
        let mut copies = Copies::new(2);
        let content = Bytes::from_static(&[7]);
        copies.keep(1, &content);
        (0..100).for_each(|_| copies.keep(2, &content));
        assert!(copies.of(2).is_some() && copies.order.len() <= 68);
    }
}
