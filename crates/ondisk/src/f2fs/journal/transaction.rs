//! A transaction: all records of one epoch, and the mark that they are complete.
//!
//! A transaction is a descriptor block (JD), blocks of records and a commit block (JC); or, if the
//! records are few, one compact block. After the [header](super::BlockHeader), the descriptor has:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 32 | 4 | blocks of records |
//! | 36 | 4 | flags: 1 a flush was needed for its data, 2 it frees blocks, 4 it moves blocks (cleaning) |
//! | 40 | 8 | bytes of records (groups with their headers) |
//! | 48 | 4 | groups |
//! | 52 | 4 | records |
//! | 56 | 4 | ring index of the commit block of the epoch before |
//! | 60 | 4 | 0 |
//! | 64 | 8 | when the epoch began, nanoseconds |
//!
//! and the commit block (in a compact block the same 40 bytes lie at 72, after those of the
//! descriptor):
//!
//! | offset | size | field |
//! |---|---|---|
//! | 32 | 4 | blocks of the transaction, this one included |
//! | 36 | 4 | crc32c over descriptor block and blocks of records, whole; 0 in a compact one |
//! | 40 | 8 | when it was committed, nanoseconds |
//! | 48 | 8 | valid blocks of the volume after this epoch |
//! | 56 | 4 | valid nodes |
//! | 60 | 4 | valid inodes |
//! | 64 | 4 | where the search for a free nid goes on |
//! | 68 | 4 | 0 |
//!
//! A cut leaves a transaction whole or makes it invalid, in whatever order its blocks reach the
//! medium:
//! - T1 each block has its checksum: a torn block is seen;
//! - T2 each block has incarnation, epoch and index: a block that lay there before is not taken for
//!   one of this transaction;
//! - T3 the commit block has a checksum over all the others: it does not commit blocks of another
//!   attempt at the same epoch.

use super::header::seal;
use super::{
    BLOCK_HEADER_BYTES, BlockHeader, BlockKind, Fault, FaultKind, Groups, Part,
    RECORDS_PER_BLOCK_BYTES, count_records,
};
use crate::f2fs::{BLOCK_BYTES, Nid};
use crate::field::bit_set;
use base::bytes::{get_le32, get_le64, put_le32, put_le64};
use base::checksum::crc32c;

bit_set! {
    /// What is special about a transaction.
    TransactionFlags: u32, "TRANSACTION_" {
        /// It maps data that a flush made durable before.
        FLUSHED = 1, "data_flush";
        /// It frees blocks.
        FREES = 2, "frees";
        /// It moves blocks of a victim segment.
        MOVES = 4, "gc";
    }
}

/// Bytes of records that a compact block holds.
pub const COMPACT_BYTES: usize = BLOCK_BYTES - BlockKind::Compact.header_bytes();

/// What the descriptor says besides lengths, which follow from the payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Descriptor {
    /// What is special about it.
    pub flags: TransactionFlags,
    /// Groups in the payload.
    pub groups: u32,
    /// Records in them.
    pub records: u32,
    /// Ring index of the commit block (or compact block) of the epoch before: for dumps only.
    pub previous: u32,
    /// When the epoch began, nanoseconds.
    pub opened: u64,
}

/// What the commit block says besides lengths and checksum: counters after this epoch, for recovery
/// to compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Commit {
    /// When it was committed, nanoseconds.
    pub time: u64,
    /// Valid blocks of the main area.
    pub valid_blocks: u64,
    /// Nodes.
    pub valid_nodes: u32,
    /// Inodes.
    pub valid_inodes: u32,
    /// Where the search for a free nid goes on.
    pub next_free_nid: Nid,
}

/// A transaction.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Transaction {
    /// Life of the ring.
    pub incarnation: u64,
    /// Its epoch.
    pub epoch: u64,
    /// What the first block says.
    pub descriptor: Descriptor,
    /// What the last block says.
    pub commit: Commit,
    /// Its [groups](Groups).
    pub payload: Vec<u8>,
}

/// Blocks of a transaction with so many bytes of groups.
///
/// # Panics
/// More than fit into the largest ring.
pub fn transaction_blocks(payload: usize) -> u32 {
    if payload <= COMPACT_BYTES {
        return 1;
    }
    let blocks = payload.div_ceil(RECORDS_PER_BLOCK_BYTES) + 2;
    u32::try_from(blocks).expect("an epoch has a bound far below the largest ring")
}

impl Transaction {
    /// Its number of blocks.
    pub fn blocks(&self) -> u32 {
        transaction_blocks(self.payload.len())
    }

    /// Its blocks, one behind the other.
    ///
    /// # Panics
    /// As [`transaction_blocks`].
    pub fn encode(&self) -> Vec<u8> {
        let blocks = self.blocks();
        let mut out = vec![0; blocks as usize * BLOCK_BYTES];
        if blocks == 1 {
            self.encode_compact(&mut out);
            return out;
        }
        self.begin(&mut out, BlockKind::Descriptor, 0);
        self.put_descriptor(&mut out, blocks - 2);
        seal(&mut out[..BLOCK_BYTES]);
        let (body, last) = out.split_at_mut((blocks as usize - 1) * BLOCK_BYTES);
        let places = body[BLOCK_BYTES..].chunks_exact_mut(BLOCK_BYTES);
        for (n, (block, records)) in places
            .zip(self.payload.chunks(RECORDS_PER_BLOCK_BYTES))
            .enumerate()
        {
            self.begin(block, BlockKind::Records, n as u32 + 1);
            block[BLOCK_HEADER_BYTES..BLOCK_HEADER_BYTES + records.len()].copy_from_slice(records);
            seal(block);
        }
        self.begin(last, BlockKind::Commit, blocks - 1);
        // T3.
        self.put_commit(&mut last[BLOCK_HEADER_BYTES..], blocks, crc32c(!0, body));
        seal(last);
        out
    }

    fn encode_compact(&self, block: &mut [u8]) {
        self.begin(block, BlockKind::Compact, 0);
        self.put_descriptor(block, 0);
        self.put_commit(&mut block[BlockKind::Descriptor.header_bytes()..], 1, 0);
        let at = BlockKind::Compact.header_bytes();
        block[at..at + self.payload.len()].copy_from_slice(&self.payload);
        seal(block);
    }

    fn begin(&self, block: &mut [u8], kind: BlockKind, index: u32) {
        let (incarnation, epoch) = (self.incarnation, self.epoch);
        BlockHeader {
            kind,
            incarnation,
            epoch,
            index,
        }
        .put(block);
    }

    fn put_descriptor(&self, block: &mut [u8], blocks: u32) {
        let d = &mut block[BLOCK_HEADER_BYTES..];
        put_le32(d, 0, blocks);
        put_le32(d, 4, self.descriptor.flags.0);
        put_le64(d, 8, self.payload.len() as u64);
        put_le32(d, 16, self.descriptor.groups);
        put_le32(d, 20, self.descriptor.records);
        put_le32(d, 24, self.descriptor.previous);
        put_le64(d, 32, self.descriptor.opened);
    }

    fn put_commit(&self, c: &mut [u8], blocks: u32, crc: u32) {
        put_le32(c, 0, blocks);
        put_le32(c, 4, crc);
        put_le64(c, 8, self.commit.time);
        put_le64(c, 16, self.commit.valid_blocks);
        put_le32(c, 24, self.commit.valid_nodes);
        put_le32(c, 28, self.commit.valid_inodes);
        put_le32(c, 32, self.commit.next_free_nid.0);
    }

    /// Blocks of the transaction that begins with `block`: of this incarnation and epoch.
    ///
    /// # Errors
    /// No such transaction begins there.
    pub fn peek(block: &[u8], incarnation: u64, epoch: u64) -> Result<u64, Fault> {
        let shape = Shape::read(block, incarnation, epoch)?;
        Ok(shape.blocks())
    }

    /// Reads the transaction of this incarnation and epoch from `blocks`, which begin with its
    /// first block; blocks after its last one are ignored.
    ///
    /// # Errors
    /// The transaction is not whole, or contradicts itself: the first fault, from the first block
    /// on.
    pub fn parse(blocks: &[u8], incarnation: u64, epoch: u64) -> Result<Transaction, Fault> {
        let mut assembly = Assembly::begin(blocks, incarnation, epoch)?;
        let mut behind = blocks.chunks_exact(BLOCK_BYTES).skip(1);
        while assembly.missing() > 0 {
            match behind.next() {
                Some(block) => assembly.push(block)?,
                None => return Err(assembly.short()),
            }
        }
        assembly.finish()
    }

    /// Groups and records lie one behind the other, and are as many as the descriptor says.
    fn check_payload(&self) -> Result<(), Fault> {
        let fault = |kind| Fault::new(Part::Records, 0, kind);
        let (mut groups, mut records) = (0u64, 0u64);
        for group in Groups::new(&self.payload) {
            let group = group.map_err(|e| fault(FaultKind::Payload(e)))?;
            let count = count_records(group.bytes).map_err(|e| fault(FaultKind::Payload(e)))?;
            if count != group.records {
                return Err(fault(FaultKind::Field {
                    field: "n_records",
                    value: group.records.into(),
                    reason: "is not the number of records in the group",
                }));
            }
            groups += 1;
            records += u64::from(count);
        }
        let field = |field, value: u32, reason| {
            let value = value.into();
            Err(Fault::new(
                Part::Descriptor,
                0,
                FaultKind::Field {
                    field,
                    value,
                    reason,
                },
            ))
        };
        if groups != u64::from(self.descriptor.groups) {
            return field(
                "n_groups",
                self.descriptor.groups,
                "is not the number of groups",
            );
        }
        if records != u64::from(self.descriptor.records) {
            return field(
                "n_records",
                self.descriptor.records,
                "is not the number of records",
            );
        }
        Ok(())
    }
}

/// A transaction that is read block by block. Its memory is that of the blocks read so far,
/// whatever length the first one promises.
#[derive(Debug)]
pub struct Assembly {
    transaction: Transaction,
    shape: Shape,
    /// Checksum of the blocks so far (T3).
    crc: u32,
    /// Index of the next block.
    next: u32,
}

impl Assembly {
    /// Begins with the first block of the transaction of this incarnation and epoch.
    ///
    /// # Errors
    /// No such transaction begins with it.
    pub fn begin(block: &[u8], incarnation: u64, epoch: u64) -> Result<Assembly, Fault> {
        let shape = Shape::read(block, incarnation, epoch)?;
        let mut transaction = Transaction {
            incarnation,
            epoch,
            descriptor: shape.descriptor,
            ..Transaction::default()
        };
        if shape.compact {
            let at = BlockKind::Compact.header_bytes();
            transaction.payload = block[at..at + shape.bytes].to_vec();
            let c = &block[BlockKind::Descriptor.header_bytes()..at];
            transaction.commit = read_commit(c, Part::Descriptor, 0, 1, 0)?;
        }
        Ok(Assembly {
            transaction,
            shape,
            crc: crc32c(!0, &block[..BLOCK_BYTES]),
            next: 1,
        })
    }

    /// Blocks of the transaction, the first one included.
    pub fn blocks(&self) -> u64 {
        self.shape.blocks()
    }
    /// Blocks that are still to come.
    pub fn missing(&self) -> u64 {
        self.shape.blocks() - u64::from(self.next)
    }
    /// The fault to report if the missing blocks do not come.
    pub fn short(&self) -> Fault {
        let need = self.shape.blocks();
        Fault::new(Part::Descriptor, 0, FaultKind::Short { need })
    }

    /// The next block.
    ///
    /// # Errors
    /// The block is another one.
    ///
    /// # Panics
    /// None is missing.
    pub fn push(&mut self, block: &[u8]) -> Result<(), Fault> {
        assert!(self.missing() > 0, "a transaction ends with its last block");
        let t = &mut self.transaction;
        let last = u64::from(self.next) + 1 == self.shape.blocks();
        let (kind, part) = match last {
            true => (BlockKind::Commit, Part::Commit),
            false => (BlockKind::Records, Part::Records),
        };
        let want = BlockHeader {
            kind,
            incarnation: t.incarnation,
            epoch: t.epoch,
            index: self.next,
        };
        check_header(block, &want, part)?;
        if last {
            // T3.
            let c = &block[BLOCK_HEADER_BYTES..kind.header_bytes()];
            t.commit = read_commit(c, part, self.next, self.next + 1, self.crc)?;
        } else {
            let bytes = (self.shape.bytes - t.payload.len()).min(RECORDS_PER_BLOCK_BYTES);
            let records = &block[BLOCK_HEADER_BYTES..BLOCK_HEADER_BYTES + bytes];
            t.payload.extend_from_slice(records);
            self.crc = crc32c(self.crc, &block[..BLOCK_BYTES]);
        }
        self.next += 1;
        Ok(())
    }

    /// The transaction.
    ///
    /// # Errors
    /// Its groups and records do not fit.
    ///
    /// # Panics
    /// Blocks are missing.
    pub fn finish(self) -> Result<Transaction, Fault> {
        assert_eq!(self.missing(), 0, "a transaction ends with its last block");
        self.transaction.check_payload()?;
        Ok(self.transaction)
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction")
            .field("epoch", &self.epoch)
            .field("descriptor", &self.descriptor)
            .field("commit", &self.commit)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

/// What the first block says.
#[derive(Debug)]
struct Shape {
    compact: bool,
    /// Blocks of records.
    blocks: u32,
    /// Bytes of groups.
    bytes: usize,
    descriptor: Descriptor,
}

impl Shape {
    fn blocks(&self) -> u64 {
        if self.compact {
            1
        } else {
            u64::from(self.blocks) + 2
        }
    }

    fn read(block: &[u8], incarnation: u64, epoch: u64) -> Result<Shape, Fault> {
        let fault = |kind| Fault::new(Part::Descriptor, 0, kind);
        let head = BlockHeader::parse(block).map_err(|e| fault(FaultKind::Header(e)))?;
        check_identity(&head, incarnation, epoch, 0).map_err(fault)?;
        let compact = head.kind == BlockKind::Compact;
        if !compact && head.kind != BlockKind::Descriptor {
            return Err(fault(FaultKind::Kind(head.kind)));
        }
        let d = &block[BLOCK_HEADER_BYTES..];
        let (blocks, bytes) = (get_le32(d, 0), get_le64(d, 8));
        let field = |field, value: u64, reason| {
            Err(fault(FaultKind::Field {
                field,
                value,
                reason,
            }))
        };
        let flags = TransactionFlags(get_le32(d, 4));
        if !flags.without(TransactionFlags::KNOWN).is_empty() || get_le32(d, 28) != 0 {
            return field("flags", flags.0.into(), "an unknown flag");
        }
        let fits = match compact {
            true => blocks == 0 && bytes <= COMPACT_BYTES as u64,
            false => u64::from(blocks) == bytes.div_ceil(RECORDS_PER_BLOCK_BYTES as u64),
        };
        if !fits {
            return field("payload_bytes", bytes, "does not fit the number of blocks");
        }
        Ok(Shape {
            compact,
            blocks,
            bytes: bytes as usize,
            descriptor: Descriptor {
                flags,
                groups: get_le32(d, 16),
                records: get_le32(d, 20),
                previous: get_le32(d, 24),
                opened: get_le64(d, 32),
            },
        })
    }
}

/// T2.
fn check_identity(
    head: &BlockHeader,
    incarnation: u64,
    epoch: u64,
    index: u32,
) -> Result<(), FaultKind> {
    if head.incarnation != incarnation {
        return Err(FaultKind::Incarnation(head.incarnation));
    }
    if head.epoch != epoch {
        return Err(FaultKind::Epoch(head.epoch));
    }
    if head.index != index {
        return Err(FaultKind::Index(head.index));
    }
    Ok(())
}

fn check_header(block: &[u8], want: &BlockHeader, part: Part) -> Result<(), Fault> {
    let fault = |kind| Fault::new(part, want.index, kind);
    // T1.
    let head = BlockHeader::parse(block).map_err(|e| fault(FaultKind::Header(e)))?;
    check_identity(&head, want.incarnation, want.epoch, want.index).map_err(fault)?;
    if head.kind != want.kind {
        return Err(fault(FaultKind::Kind(head.kind)));
    }
    Ok(())
}

fn read_commit(c: &[u8], part: Part, index: u32, blocks: u32, crc: u32) -> Result<Commit, Fault> {
    let fault = |kind| Fault::new(part, index, kind);
    if get_le32(c, 0) != blocks || get_le32(c, 36) != 0 {
        return Err(fault(FaultKind::Field {
            field: "n_blocks",
            value: get_le32(c, 0).into(),
            reason: "is not the number of blocks that the descriptor says",
        }));
    }
    let stored = get_le32(c, 4);
    if stored != crc {
        let computed = crc;
        return Err(fault(FaultKind::Checksum { stored, computed }));
    }
    Ok(Commit {
        time: get_le64(c, 8),
        valid_blocks: get_le64(c, 16),
        valid_nodes: get_le32(c, 24),
        valid_inodes: get_le32(c, 28),
        next_free_nid: Nid(get_le32(c, 32)),
    })
}
