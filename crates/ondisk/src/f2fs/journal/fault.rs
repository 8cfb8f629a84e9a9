//! The reasons why blocks of the ring are not the transaction that was looked for.

use super::{BlockKind, HeaderFault};
use crate::Corrupt;
use std::fmt;

/// Which part of a transaction a block is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The first block: descriptor, or compact.
    Descriptor,
    /// A block of records.
    Records,
    /// The commit block.
    Commit,
}

/// The first fault of a transaction, and where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The part of the transaction that the block is.
    pub part: Part,
    /// The number of the block in the transaction, from 0.
    pub index: u32,
    /// The fault.
    pub kind: FaultKind,
}

/// The kinds of faults, in the order in which they are checked: a later one means that all checks
/// before it passed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// The caller has fewer blocks than the descriptor promises.
    Short {
        /// Blocks of the transaction.
        need: u64,
    },
    /// The block is no sound block of any transaction.
    Header(HeaderFault),
    /// A sound block of another life of the ring.
    Incarnation(u64),
    /// A sound block of this life, of another epoch: an earlier one is what an earlier lap left.
    Epoch(u64),
    /// A block of this transaction, but not the one that belongs here.
    Index(u32),
    /// A block of this transaction and place, of another kind than belongs here.
    Kind(BlockKind),
    /// A number in a sound block contradicts the others.
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The commit block belongs to other blocks than these.
    Checksum {
        /// What it says.
        stored: u32,
        /// What the blocks give.
        computed: u32,
    },
    /// Groups or records do not fit one behind the other, though all checksums are right.
    Payload(Corrupt),
}

impl Fault {
    pub(super) fn new(part: Part, index: u32, kind: FaultKind) -> Fault {
        Fault { part, index, kind }
    }

    /// True if no power cut leaves this: every checksum that concerns it is right, so it was
    /// written this way.
    pub fn is_impossible(&self) -> bool {
        match &self.kind {
            FaultKind::Header(fault) => matches!(fault, HeaderFault::Field { .. }),
            FaultKind::Index(_) | FaultKind::Kind(_) => true,
            FaultKind::Field { .. } | FaultKind::Payload(_) => true,
            FaultKind::Short { .. }
            | FaultKind::Incarnation(_)
            | FaultKind::Epoch(_)
            | FaultKind::Checksum { .. } => false,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = match self.part {
            Part::Descriptor => "descriptor",
            Part::Records => "block of records",
            Part::Commit => "commit block",
        };
        write!(f, "{part} (block {} of the transaction) ", self.index)?;
        match &self.kind {
            FaultKind::Short { need } => {
                write!(f, "promises {need} blocks, more than there are")
            }
            FaultKind::Header(fault) => write!(f, "{fault}"),
            FaultKind::Incarnation(found) => {
                write!(f, "is of another life of the ring ({found:#018x})")
            }
            FaultKind::Epoch(found) => write!(f, "is of epoch {found}"),
            FaultKind::Index(found) => write!(f, "says that it is block {found}"),
            FaultKind::Kind(found) => write!(f, "is of kind {}", found.word()),
            FaultKind::Field {
                field,
                value,
                reason,
            } => write!(f, "has {field} = {value}: {reason}"),
            FaultKind::Checksum { stored, computed } => write!(
                f,
                "has checksum {stored:#010x} for the transaction, its blocks give {computed:#010x}"
            ),
            FaultKind::Payload(corrupt) => write!(f, "has records that cannot be: {corrupt}"),
        }
    }
}

impl std::error::Error for Fault {}
