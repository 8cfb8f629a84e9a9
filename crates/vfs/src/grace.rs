//! Decides when an inode that lost its name may be unpinned, so that its number is not reused while
//! an operation may still know it (vfs-V1).
//!
//! Every operation on paths carries a number while it runs. An operation that removes a name pins
//! the inode and retires it with the number of the newest operation. The pin is dropped by the
//! operation that ends last among those that ran at that time, as the last `iput` does in Linux. So
//! no operation waits for another.

use base::Ino;
use rt::Mutex;
use std::collections::{BTreeSet, VecDeque};

/// The number of a running operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct OpNo(u64);

#[derive(Default)]
struct State {
    newest: u64,
    active: BTreeSet<OpNo>,
    /// The inodes that wait to be unpinned, the oldest first.
    retired: VecDeque<(OpNo, Ino)>,
}

/// Running operations and retired inodes.
pub(crate) struct Grace(Mutex<State>);

impl Grace {
    pub(crate) fn new() -> Grace {
        Grace(Mutex::named("vfs grace", State::default()))
    }
    /// Begins an operation.
    pub(crate) fn enter(&self) -> OpNo {
        let mut s = self.0.lock();
        s.newest += 1;
        let op = OpNo(s.newest);
        s.active.insert(op);
        op
    }
    /// Takes over the caller's pin of `ino`, which has lost a name, until no operation can know it.
    pub(crate) fn retire(&self, ino: Ino) {
        let mut s = self.0.lock();
        let newest = OpNo(s.newest);
        s.retired.push_back((newest, ino));
    }
    /// Ends the operation; the caller unpins the inodes in the answer.
    pub(crate) fn leave(&self, op: OpNo) -> Vec<Ino> {
        let mut s = self.0.lock();
        assert!(s.active.remove(&op), "vfs-V1: operation {op:?} ended twice");
        let oldest = s.active.first().copied();
        let free = |stamp: OpNo| oldest.is_none_or(|oldest| oldest > stamp);
        let mut out = Vec::new();
        while s.retired.front().is_some_and(|&(stamp, _)| free(stamp)) {
            out.extend(s.retired.pop_front().map(|(_, ino)| ino));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retired_inode_waits_for_the_operations_of_its_time_only() {
        let g = Grace::new();
        let walker = g.enter();
        let remover = g.enter();
        g.retire(Ino(7));
        let later = g.enter();
        assert!(g.leave(remover).is_empty(), "the walker may know inode 7");
        assert_eq!(g.leave(walker), [Ino(7)], "the later one cannot");
        assert!(g.leave(later).is_empty());
    }
}
