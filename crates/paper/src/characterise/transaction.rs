//! A transaction as it stands in the log.

use base::{BlockNo, Bytes, Tid};
use ondisk::jbd2::Segment;
use rig::Class;

/// What a transaction says about a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Logged {
    /// All of it, unescaped.
    Image {
        /// Its home.
        home: BlockNo,
        /// What it is after the transaction.
        bytes: Bytes,
        /// It is file data (`data=journal`), as whoever wrote it says.
        data: bool,
    },
    /// Bytes of it (coalition).
    Delta {
        /// Its home.
        home: BlockNo,
        /// [`post_image_checksum`](ondisk::jbd2::post_image_checksum) of what it is after the
        /// transaction.
        post_crc: u32,
        /// Sorted and disjoint.
        segments: Vec<Segment>,
    },
}

impl Logged {
    /// Its home.
    pub fn home(&self) -> BlockNo {
        match self {
            Logged::Image { home, .. } | Logged::Delta { home, .. } => *home,
        }
    }

    /// Of an image, whether it is file data.
    pub fn is_data(&self) -> Option<bool> {
        match self {
            Logged::Image { data, .. } => Some(*data),
            Logged::Delta { .. } => None,
        }
    }
}

/// Why a block stands in the log.
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
    /// Modified bytes of many blocks.
    Coalition,
}

/// A committed transaction, read from the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// Its number.
    pub tid: Tid,
    /// What each of its blocks is, in log order, with the number of the command that wrote it.
    pub blocks: Vec<(Part, usize)>,
    /// What it says about blocks, in log order. A block may have several deltas.
    pub logged: Vec<Logged>,
    /// Revoked blocks.
    pub revoked: Vec<BlockNo>,
    /// Bytes of coalition records, their headers included.
    pub record_bytes: u64,
    /// Bytes of its commit block up to the last that is not zero; `None` without one.
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

    /// How many of its blocks are of this kind.
    pub fn count(&self, part: Part) -> u64 {
        self.blocks.iter().filter(|(p, _)| *p == part).count() as u64
    }

    /// The class of each of its blocks, with the number of the command that wrote it.
    pub fn classes(&self) -> Vec<(Class, usize)> {
        // Images come in the order of their blocks; the deltas among what is logged have none.
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

    /// Number of the command that completed it.
    pub fn record(&self) -> usize {
        self.blocks
            .iter()
            .map(|(_, command)| *command)
            .max()
            .unwrap_or(0)
    }
}
