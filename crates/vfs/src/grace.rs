//! When an inode that lost its name may be unpinned (vfs-V1).
//!
//! Every operation on paths carries a number while it runs. An inode that loses a name is pinned by
//! the remover and retired with the number of the newest operation. It is unpinned by the operation
//! that ends last among those that ran at that time, as the last `iput` does in Linux. Nobody
//! waits.

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
    /// Oldest first.
    retired: VecDeque<(OpNo, Ino)>,
}

/// Running operations and retired inodes.
pub(crate) struct Grace(Mutex<State>);

impl Grace {
    pub(crate) fn new() -> Grace {
        Grace(Mutex::named("vfs grace", State::default()))
    }
    /// An operation begins.
    pub(crate) fn enter(&self) -> OpNo {
        let mut s = self.0.lock();
        s.newest += 1;
        let op = OpNo(s.newest);
        s.active.insert(op);
        op
    }
    /// `ino` has lost a name; the caller's pin passes to the last operation that may know it.
    pub(crate) fn retire(&self, ino: Ino) {
        let mut s = self.0.lock();
        let newest = OpNo(s.newest);
        s.retired.push_back((newest, ino));
    }
    /// The operation ends; the caller unpins the inodes in the answer.
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
