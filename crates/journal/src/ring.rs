//! The ring of log blocks between the superblock and the fast-commit area.
//!
//! Positions count up for ever; the block is the position modulo the length. So a full ring and an
//! empty one have different positions.
//!
//! - R1: `tail <= head <= tail + len`.
//! - R2: blocks from `tail` to `head` are in use; `tail` is never ahead of the tail that the
//!   superblock on the medium names.

use crate::LogBlock;

/// A position in the endless log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct LogPos(pub u64);

/// Free space, head and tail.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    first: u32,
    len: u32,
    head: LogPos,
    tail: LogPos,
}

impl Ring {
    /// An empty ring over the log blocks `first..end`.
    pub fn new(first: u32, end: u32) -> Ring {
        assert!(first < end, "R1: a ring has blocks");
        Ring {
            first,
            len: end - first,
            head: LogPos(0),
            tail: LogPos(0),
        }
    }
    /// Number of blocks.
    pub fn len(&self) -> u32 {
        self.len
    }
    /// Blocks that may be written.
    pub fn free(&self) -> u32 {
        self.len - (self.head.0 - self.tail.0) as u32
    }
    /// Where the next transaction begins.
    pub fn head(&self) -> LogPos {
        self.head
    }
    /// The oldest block in use.
    pub fn tail(&self) -> LogPos {
        self.tail
    }
    /// The block at a position.
    pub fn block(&self, at: LogPos) -> LogBlock {
        LogBlock(self.first + (at.0 % u64::from(self.len)) as u32)
    }
    /// Takes `n` blocks at the head.
    ///
    /// # Panics
    /// If so many are not free: admission has gone wrong, and the log would overwrite itself.
    pub fn take(&mut self, n: u32) -> LogPos {
        assert!(n <= self.free(), "R1: {n} blocks taken of {}", self.free());
        let start = self.head;
        self.head.0 += u64::from(n);
        start
    }
    /// Gives back the end of the `taken` blocks at `start`, of which `used` are needed. No other
    /// blocks may have been taken after them.
    pub fn give_back(&mut self, start: LogPos, taken: u32, used: u32) {
        assert!(
            self.head.0 == start.0 + u64::from(taken),
            "journal-commit-K3: log blocks are given back by who took them last"
        );
        assert!(
            used <= taken,
            "journal-commit-K3: {used} log blocks are needed, {taken} were taken"
        );
        self.head.0 = start.0 + u64::from(used);
    }
    /// Frees everything before `to`; the superblock on the medium already names it.
    pub fn release(&mut self, to: LogPos) {
        assert!(
            self.tail <= to && to <= self.head,
            "R1: the tail moves forward, not beyond the head"
        );
        self.tail = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_and_tells_full_from_empty() {
        let mut ring = Ring::new(1, 6);
        assert_eq!(ring.take(5), LogPos(0));
        assert_eq!(ring.free(), 0);
        ring.release(LogPos(3));
        let at = ring.take(3);
        let blocks: Vec<u32> = (0..3).map(|n| ring.block(LogPos(at.0 + n)).0).collect();
        assert_eq!(blocks, [1, 2, 3]);
        ring.give_back(at, 3, 1);
        assert_eq!((ring.free(), ring.head()), (2, LogPos(6)));
        ring.release(ring.head());
        assert_eq!(ring.free(), 5);
    }

    #[test]
    #[should_panic(expected = "R1")]
    fn never_overwrites_itself() {
        Ring::new(1, 4).take(4);
    }
}
