//! The requests that a host makes of a device.

use crate::{Remap, Remapped};
use base::{Bytes, Lba, SECTOR_BYTES};

base::words! {
    /// Why a block is written: the rows of `blocks` in `results.json`.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
    pub enum Class {
        /// File data at its home address.
        Data => "data",
        /// File data in the journal (`data=journal`).
        JournalData => "journal_data",
        /// JBD2 descriptor block.
        JournalDescriptor => "journal_descriptor",
        /// A full metadata block in the journal.
        JournalMetadata => "journal_metadata",
        /// JBD2 revoke block.
        JournalRevoke => "journal_revoke",
        /// JBD2 commit block.
        JournalCommit => "journal_commit",
        /// JBD2 superblock.
        JournalSuperblock => "journal_superblock",
        /// Coalition block: the modified bytes of all metadata of a transaction.
        Coalition => "coalition",
        /// Block of a fast commit.
        FastCommit => "journal_fast_commit",
        /// Metadata at its home address (checkpoint, recovery, or a file system without journal).
        Home => "home",
        /// A block of directory entries of F2FS.
        Dentry => "dentry",
        /// A node block of F2FS: inode, direct or indirect node, extended attributes.
        Node => "node",
        /// F2FS's node address table.
        Nat => "nat",
        /// F2FS's segment information table.
        Sit => "sit",
        /// Summaries of segments of F2FS.
        Ssa => "ssa",
        /// A block of a checkpoint pack of F2FS.
        CheckpointPack => "checkpoint_pack",
    }
}

/// A run of bytes of one class inside a write. Merged writes keep their pieces, so that figures by
/// class survive merging.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The class of the bytes.
    pub class: Class,
    /// The bytes, a non-zero multiple of 512.
    pub bytes: Bytes,
}

/// One write of a packed command.
#[derive(Clone, Debug)]
pub struct PackedWrite {
    /// First sector.
    pub lba: Lba,
    /// What to write.
    pub pieces: Vec<Piece>,
    /// The write's `fua`, as in [`Op::Write`].
    pub fua: bool,
}

impl PackedWrite {
    /// Number of 512-byte sectors.
    pub fn sectors(&self) -> u64 {
        sectors_of(&self.pieces)
    }
}

fn sectors_of(pieces: &[Piece]) -> u64 {
    let bytes: usize = pieces.iter().map(|p| p.bytes.len()).sum();
    (bytes / SECTOR_BYTES) as u64
}

/// A device operation.
#[derive(Clone, Debug)]
pub enum Op {
    /// Read `sectors` 512-byte sectors.
    Read {
        /// First sector.
        lba: Lba,
        /// Number of sectors, at least one.
        sectors: u64,
    },
    /// Write the pieces one after the other from `lba` on.
    Write {
        /// First sector.
        lba: Lba,
        /// What to write.
        pieces: Vec<Piece>,
        /// Completion means non-volatile, whatever the cache does (eMMC: the reliable-write bit;
        /// NVMe: FUA).
        fua: bool,
    },
    /// Several writes as one command, as many as `Caps::packed` allows, no sector twice.
    /// [`PackOrder`](crate::PackOrder) says what a cut inside it leaves.
    Pack {
        /// The writes, in their order.
        writes: Vec<PackedWrite>,
    },
    /// Cached writes completed before the barrier reach the medium before any that come later; the
    /// barrier makes nothing durable. Only with [`Caps::barrier`](crate::Caps::barrier).
    Barrier,
    /// Everything completed before this command *started* is non-volatile when it completes.
    Flush,
    /// Home addresses take over the content of other addresses; see [`Remap`]. Only with
    /// [`Caps::remap`](crate::Caps::remap).
    Remap(Remap),
    /// The content of these sectors is no longer needed; they may read as zeros.
    Discard {
        /// First sector.
        lba: Lba,
        /// Number of sectors, at least one.
        sectors: u64,
    },
}

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    /// What to do.
    pub op: Op,
}

impl Request {
    /// Reads `sectors` sectors from `lba`.
    pub fn read(lba: Lba, sectors: u64) -> Request {
        Request {
            op: Op::Read { lba, sectors },
        }
    }
    /// Writes `bytes` of one class at `lba`.
    pub fn write(lba: Lba, class: Class, bytes: Bytes) -> Request {
        Request {
            op: Op::Write {
                lba,
                pieces: vec![Piece { class, bytes }],
                fua: false,
            },
        }
    }
    /// Writes `bytes` of one class at `lba`, non-volatile at completion.
    pub fn write_fua(lba: Lba, class: Class, bytes: Bytes) -> Request {
        Request {
            op: Op::Write {
                lba,
                pieces: vec![Piece { class, bytes }],
                fua: true,
            },
        }
    }
    /// A cache flush.
    pub fn flush() -> Request {
        Request { op: Op::Flush }
    }
    /// Several writes as one command.
    pub fn pack(writes: Vec<PackedWrite>) -> Request {
        Request {
            op: Op::Pack { writes },
        }
    }
    /// A batch of remapped addresses.
    pub fn remap(remap: Remap) -> Request {
        Request {
            op: Op::Remap(remap),
        }
    }
    /// A cache barrier.
    pub fn barrier() -> Request {
        Request { op: Op::Barrier }
    }
    /// Discards `sectors` sectors from `lba`.
    pub fn discard(lba: Lba, sectors: u64) -> Request {
        Request {
            op: Op::Discard { lba, sectors },
        }
    }
    /// The sectors touched, as (first, count); none for a flush, a barrier, a pack and a REMAP (see
    /// [`Request::spans`]).
    pub fn span(&self) -> Option<(Lba, u64)> {
        match &self.op {
            Op::Read { lba, sectors } | Op::Discard { lba, sectors } => Some((*lba, *sectors)),
            Op::Write { lba, pieces, .. } => Some((*lba, sectors_of(pieces))),
            Op::Pack { .. } | Op::Remap(_) | Op::Barrier | Op::Flush => None,
        }
    }
    /// All runs of sectors touched, in order; for a REMAP the homes, then the sources.
    pub fn spans(&self) -> Vec<(Lba, u64)> {
        match &self.op {
            Op::Pack { writes } => writes.iter().map(|w| (w.lba, w.sectors())).collect(),
            Op::Remap(remap) => {
                let homes = remap.pairs.iter().map(|p| (p.home, p.sectors));
                homes
                    .chain(remap.pairs.iter().map(|p| (p.src, p.sectors)))
                    .collect()
            }
            _ => self.span().into_iter().collect(),
        }
    }
    /// What is written, with its place and its FUA flag: one item for a write, several for a pack.
    pub fn written(&self) -> Vec<(Lba, &[Piece], bool)> {
        match &self.op {
            Op::Write { lba, pieces, fua } => vec![(*lba, pieces, *fua)],
            Op::Pack { writes } => writes
                .iter()
                .map(|w| (w.lba, &w.pieces[..], w.fua))
                .collect(),
            _ => Vec::new(),
        }
    }
}

/// The answer to a completed request.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// The bytes of a read, in order, as pieces of any length; empty for everything else.
    pub data: Vec<Bytes>,
    /// What a REMAP did; `None` for everything else.
    pub remapped: Option<Remapped>,
}

impl Reply {
    /// The bytes of a read as one buffer; no copy if the device answered with one piece.
    pub fn into_bytes(mut self) -> Bytes {
        if self.data.len() == 1 {
            return self.data.remove(0);
        }
        self.data.concat().into()
    }
}
