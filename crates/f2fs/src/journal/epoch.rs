//! Epochs, and what one operation may add to one: the words that the rest of the file system shares
//! with the journal. Nothing else of the journal is needed to say them, so this file imports
//! nothing of it.

/// An epoch: what becomes durable together. They rise by one; 0 stands for "none".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(pub u64);

/// One operation logs at most so many bytes; what may become more is done in several of them.
pub(crate) const OP_MAX: usize = 32 << 10;

/// How an operation changes the counts of the volume.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct UsageDelta {
    pub blocks: i64,
    pub nodes: i64,
    pub inodes: i64,
}

impl std::ops::AddAssign for UsageDelta {
    fn add_assign(&mut self, other: UsageDelta) {
        self.blocks += other.blocks;
        self.nodes += other.nodes;
        self.inodes += other.inodes;
    }
}

impl UsageDelta {
    /// True if nothing changes.
    pub fn is_none(&self) -> bool {
        *self == UsageDelta::default()
    }
}
