//! Where an orphan is named on the device; the inode in memory remembers it.

use std::fmt;

/// Where an orphan is named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// On the list.
    List,
    /// In the orphan file.
    Slot(Slot),
}

/// A slot of the orphan file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub block: u32,
    pub index: u32,
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Slot { block, index } = self;
        write!(f, "orphan file, block {block}, slot {index}")
    }
}
