//! Composes an epoch into a transaction: groups of records, then the blocks that carry them.

use super::log::LogState;
use crate::journal::pages::OfTables;
use crate::journal::{Closed, OwnedGroup};
use crate::segs::Head;
use crate::space::Usage;
use base::{BLOCK_BYTES, Bytes};
use block::Class;
use ondisk::f2fs::Nid;
use ondisk::f2fs::journal::{
    Commit, Descriptor, Group, Record, Transaction, TransactionFlags, put_group,
};

/// The transaction of `closed`, in which the logs `moved`, with what a journal of pages says of
/// `tables`; `flushed`: a flush is needed before it; `usage`: what is in use after it.
pub(super) fn transaction(
    log: &LogState,
    closed: &Closed,
    (moved, tables): (&[Head], &OfTables),
    flushed: bool,
    usage: Usage,
    next_free_nid: Nid,
) -> Transaction {
    let own = group_of(moved, tables);
    let mut descriptor = Descriptor {
        previous: log.ring.previous(),
        opened: log.opened.0,
        ..Descriptor::default()
    };
    let mut payload = Vec::with_capacity(
        closed.bytes as usize + tables.bytes.len() + 32 * closed.groups.len() + 256,
    );
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

/// Where logs write, and blocks of NAT and SIT: belongs to no inode.
fn group_of(heads: &[Head], tables: &OfTables) -> Option<OwnedGroup> {
    let mut bytes = tables.bytes.clone();
    for head in heads {
        let record = Record::Head {
            log: head.log,
            alloc: head.alloc,
            seg: head.seg,
            next: head.next,
        };
        record.encode(&mut bytes);
    }
    let records = tables.records + heads.len() as u32;
    (records > 0).then_some(OwnedGroup {
        ino: Nid(0),
        records,
        bytes,
    })
}
