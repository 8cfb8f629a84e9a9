//! Composes an epoch into a transaction: groups of records, then the blocks that carry them.

use super::log::LogState;
use crate::journal::pages::OfTables;
use crate::journal::summed::BlockSum;
use crate::journal::{Closed, OwnedGroup};
use crate::segs::Head;
use crate::space::Usage;
use base::{BLOCK_BYTES, Bytes, Mutant};
use block::Class;
use ondisk::f2fs::Nid;
use ondisk::f2fs::journal::{
    Commit, Descriptor, Group, Record, Records, Sums, Transaction, TransactionFlags, put_group,
};

/// What a transaction says of no inode.
pub(super) struct Own {
    records: u32,
    bytes: Vec<u8>,
}

impl Own {
    /// Where the logs `moved`, what a journal of pages says of `tables`, and the checksums of data
    /// (f2fs-commit-K9).
    pub fn of(moved: &[Head], tables: &OfTables, sums: &[BlockSum]) -> Own {
        let mut own = Own {
            records: tables.records,
            bytes: tables.bytes.clone(),
        };
        for head in moved {
            own.put(&Record::Head {
                log: head.log,
                alloc: head.alloc,
                seg: head.seg,
                next: head.next,
            });
        }
        let mut sums = sums.to_vec();
        sums.sort_unstable();
        for run in sums.chunk_by(|a, b| a.addr.checked_add(1) == Some(b.addr)) {
            let bytes: Vec<u8> = run.iter().flat_map(|s| s.sum.to_le_bytes()).collect();
            let sums = Sums::from_bytes(&bytes);
            let addr = run[0].addr;
            own.put(&Record::DataSum { addr, sums });
        }
        own
    }

    fn put(&mut self, record: &Record<'_>) {
        record.encode(&mut self.bytes);
        self.records += 1;
    }

    fn group(self) -> Option<OwnedGroup> {
        (self.records > 0).then_some(OwnedGroup {
            ino: Nid(0),
            records: self.records,
            bytes: self.bytes,
        })
    }
}

/// The group frees inodes together.
fn has_ends(group: &OwnedGroup) -> bool {
    let mut records = Records::new(&group.bytes).flatten();
    group.ino == Nid(0) && records.any(|record| matches!(record, Record::InodeDel { .. }))
}

/// The transaction of `closed`, with its `own` records; `flushed`: a flush is needed before it;
/// `usage`: what is in use after it.
pub(super) fn transaction(
    log: &LogState,
    closed: &Closed,
    own: Own,
    flushed: bool,
    usage: Usage,
    next_free_nid: Nid,
) -> Transaction {
    // records-U2 would refuse the transaction.
    debug_assert!(
        rt::mutant(Mutant::F2fsjEndsFirst) || {
            let mut groups = closed.groups.iter();
            groups.by_ref().any(has_ends);
            groups.all(|group| group.ino == Nid(0))
        },
        "trim-T6: a group of an inode stands behind the ends of inodes"
    );
    let own = own.group();
    let own_bytes = own.as_ref().map_or(0, |group| group.bytes.len());
    let mut descriptor = Descriptor {
        previous: log.ring.previous(),
        opened: log.opened.0,
        ..Descriptor::default()
    };
    let mut payload =
        Vec::with_capacity(closed.bytes as usize + own_bytes + 32 * closed.groups.len() + 256);
    for group in closed.groups.iter().chain(own.as_ref()) {
        descriptor.records += group.records;
        descriptor.groups += put_group(
            &mut payload,
            &Group {
                ino: group.ino,
                generation: 0,
                records: group.records,
                bytes: &group.bytes,
            },
        );
    }
    if flushed {
        descriptor.flags = descriptor.flags.with(TransactionFlags::FLUSHED);
    }
    if !closed.freed_blocks.is_empty() {
        descriptor.flags = descriptor.flags.with(TransactionFlags::FREES);
    }
    Transaction {
        incarnation: log.ring.place().incarnation,
        epoch: closed.epoch.0,
        descriptor,
        commit: Commit {
            time: rt::now().0,
            valid_blocks: usage.blocks,
            valid_nodes: usage.nodes,
            valid_inodes: usage.inodes,
            next_free_nid,
        },
        payload,
    }
}

/// Its blocks with what they are for.
pub(super) fn blocks(transaction: &Transaction) -> impl Iterator<Item = (Class, Bytes)> {
    let bytes = Bytes::from(transaction.encode());
    let count = bytes.len() / BLOCK_BYTES;
    (0..count).map(move |n| {
        let class = match n {
            _ if n + 1 == count => Class::JournalCommit,
            0 => Class::JournalDescriptor,
            _ => Class::JournalMetadata,
        };
        let at = n * BLOCK_BYTES;
        (class, bytes.slice(at..at + BLOCK_BYTES))
    })
}
