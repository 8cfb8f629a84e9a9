//! The processor cores of a controller, which all commands share.

use base::{Nanos, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The cores, which process commands in the order of their fetch.
#[derive(Clone, Debug)]
pub(super) struct Cores {
    free: BinaryHeap<Reverse<Time>>,
}

impl Cores {
    pub fn new(cores: u32) -> Cores {
        Cores {
            free: (0..cores).map(|_| Reverse(Time(0))).collect(),
        }
    }
    /// Lets the core that is free first work for `cost` from `ready` on; answers when it begins and
    /// ends.
    pub fn work(&mut self, ready: Time, cost: Nanos) -> (Time, Time) {
        let mut free = self.free.peek_mut().expect("there is a core");
        let begin = free.0.max(ready);
        free.0 = begin + cost;
        (begin, begin + cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_cores_so_many_commands_at_a_time() {
        let mut cores = Cores::new(2);
        let ends: Vec<u64> = (0..4).map(|_| cores.work(Time(10), Nanos(5)).1.0).collect();
        assert_eq!(ends, [15, 15, 20, 20]);
        assert_eq!(cores.work(Time(100), Nanos(5)), (Time(100), Time(105)));
    }
}
