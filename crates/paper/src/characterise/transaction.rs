//! A committed transaction, as it is in the log.

use base::{BlockNo, Bytes, Tid};
use ondisk::jbd2::Segment;
use rig::Class;

/// What a transaction says about a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Logged {
    /// The whole block, unescaped.
    Image {
        /// Home of the block.
        home: BlockNo,
        /// Its content after the transaction.
        bytes: Bytes,
        /// True if it is file data (`data=journal`), by the class of the write.
        data: bool,
    },
    /// Some bytes of the block (coalition).
    Delta {
        /// Home of the block.
        home: BlockNo,
        /// [`post_image_checksum`](ondisk::jbd2::post_image_checksum) of the block after the
        /// transaction.
        post_crc: u32,
        /// The bytes, in sorted and disjoint pieces.
        segments: Vec<Segment>,
    },
}

impl Logged {
    /// Home of the block.
    pub fn home(&self) -> BlockNo {
        match self {
            Logged::Image { home, .. } | Logged::Delta { home, .. } => *home,
        }
    }

    /// For an image, whether it is file data.
    pub fn is_data(&self) -> Option<bool> {
        match self {
            Logged::Image { data, .. } => Some(*data),
            Logged::Delta { .. } => None,
        }
    }
}

/// The function of a block in the log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// Lists logged blocks.
    Descriptor,
    /// A logged block.
    Image,
    /// Lists revoked blocks.
    Revoke,
    /// Ends the transaction.
    Commit,
    /// Holds modified bytes of many blocks.
    Coalition,
}

/// A committed transaction, read from the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// Number of the transaction.
    pub tid: Tid,
    /// The function of each block, in log order, and the number of the command that wrote it.
    pub blocks: Vec<(Part, usize)>,
    /// What it says about blocks, in log order; a block may have several deltas.
    pub logged: Vec<Logged>,
    /// Blocks that it revokes.
    pub revoked: Vec<BlockNo>,
    /// Bytes of coalition records, their headers included.
    pub record_bytes: u64,
    /// Bytes of its commit block up to the last that is not zero; `None` if it has no commit block.
    pub commit_bytes: Option<usize>,
}

impl Transaction {
    pub(super) fn new(tid: Tid) -> Transaction {
        Transaction {
            tid,
            blocks: Vec::new(),
            logged: Vec::new(),
            revoked: Vec::new(),
            record_bytes: 0,
            commit_bytes: None,
        }
    }

    /// Number of its blocks with this function.
    pub fn count(&self, part: Part) -> u64 {
        self.blocks.iter().filter(|(p, _)| *p == part).count() as u64
    }

    /// The class of each of its blocks, with the number of the command that wrote it.
    pub fn classes(&self) -> Vec<(Class, usize)> {
        // Images come in the order of their blocks; a delta has no block of its own.
        let mut data = self.logged.iter().filter_map(Logged::is_data);
        let mut class = |part| match part {
            Part::Descriptor => Class::JournalDescriptor,
            Part::Revoke => Class::JournalRevoke,
            Part::Commit => Class::JournalCommit,
            Part::Coalition => Class::Coalition,
            Part::Image if data.next() == Some(true) => Class::JournalData,
            Part::Image => Class::JournalMetadata,
        };
        self.blocks
            .iter()
            .map(|&(part, command)| (class(part), command))
            .collect()
    }

    /// Number of the command that completed the transaction.
    pub fn record(&self) -> usize {
        self.blocks
            .iter()
            .map(|(_, command)| *command)
            .max()
            .unwrap_or(0)
    }
}
