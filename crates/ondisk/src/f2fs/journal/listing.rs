//! Lists all that a ring holds, from its tail once around: transactions of this life and of older
//! ones, whole or not, and blocks that belong to none.
//!
//! The listing goes on after damage, block by block. It takes no more memory than one transaction,
//! and no more steps than the ring has blocks.

use super::{
    Assembly, BlockHeader, BlockKind, Fault, Groups, HeaderFault, JournalSuper, RingArea,
    Transaction,
};
use base::bytes::is_zero;
use std::fmt;

/// One item of a listing: blocks that belong together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Ring index of its first block.
    pub at: u32,
    /// Its blocks.
    pub blocks: u32,
    /// What these blocks are.
    pub what: What,
}

/// The kinds of items.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// A whole transaction.
    Transaction(Box<Transaction>),
    /// The beginning of a transaction that is not whole.
    Torn {
        /// The life of the ring that it belongs to.
        incarnation: u64,
        /// Its epoch.
        epoch: u64,
        /// The first fault of it.
        fault: Fault,
    },
    /// Blocks of a transaction whose beginning is not there any more.
    Rest {
        /// The life of the ring that they belong to.
        incarnation: u64,
        /// Their epoch.
        epoch: u64,
    },
    /// Blocks that were never written.
    Unwritten,
    /// Blocks that are damaged, or written by another program.
    Damaged(HeaderFault),
}

/// Lists the ring from `tail` on, each of its blocks once; `read` gives the block of a ring index.
///
/// # Errors
/// Those of `read` and of `seen`.
pub fn list_ring<E>(
    ring: &RingArea,
    tail: u32,
    read: &mut dyn FnMut(u32) -> Result<Vec<u8>, E>,
    seen: &mut dyn FnMut(Found) -> Result<(), E>,
) -> Result<(), E> {
    let mut before: Option<Found> = None;
    let mut done = 0;
    while done < ring.blocks {
        let found = find(ring, ring.step(tail, done.into()), read)?;
        done += found.blocks;
        // Items of one kind in a row become one.
        match &mut before {
            Some(last) if last.what == found.what && last.is_loose() => last.blocks += found.blocks,
            _ => {
                if let Some(last) = before.replace(found) {
                    seen(last)?;
                }
            }
        }
    }
    before.map_or(Ok(()), seen)
}

fn find<E>(
    ring: &RingArea,
    at: u32,
    read: &mut dyn FnMut(u32) -> Result<Vec<u8>, E>,
) -> Result<Found, E> {
    let one = |what| {
        let blocks = 1;
        Ok(Found { at, blocks, what })
    };
    let first = read(at)?;
    let head = match BlockHeader::parse(&first) {
        Ok(head) => head,
        Err(HeaderFault::Magic(0)) if is_zero(&first) => return one(What::Unwritten),
        // Each has another checksum: runs of damaged blocks are one all the same.
        Err(HeaderFault::Checksum { .. }) => return one(What::damaged_checksum()),
        Err(fault) => return one(What::Damaged(fault)),
    };
    let (incarnation, epoch) = (head.incarnation, head.epoch);
    if matches!(head.kind, BlockKind::Records | BlockKind::Commit) {
        return one(What::Rest { incarnation, epoch });
    }
    let torn = |fault| What::Torn {
        incarnation,
        epoch,
        fault,
    };
    let mut assembly = match Assembly::begin(&first, incarnation, epoch) {
        Ok(assembly) => assembly,
        Err(fault) => return one(torn(fault)),
    };
    let blocks = assembly.blocks();
    if blocks > ring.blocks.into() {
        return one(torn(assembly.short()));
    }
    for n in 1..blocks {
        if let Err(fault) = assembly.push(&read(ring.step(at, n))?) {
            return one(torn(fault));
        }
    }
    match assembly.finish() {
        Ok(t) => Ok(Found {
            at,
            blocks: blocks as u32,
            what: What::Transaction(Box::new(t)),
        }),
        Err(fault) => one(torn(fault)),
    }
}

impl What {
    fn damaged_checksum() -> What {
        What::Damaged(HeaderFault::Checksum {
            stored: 0,
            computed: 0,
        })
    }
}

impl Found {
    /// True for items without a beginning and an end of their own.
    fn is_loose(&self) -> bool {
        matches!(
            self.what,
            What::Rest { .. } | What::Unwritten | What::Damaged(_)
        )
    }

    /// The item as text, for a ring with superblock `sb`; each line ends with a newline.
    pub fn describe(&self, sb: Option<&JournalSuper>) -> impl fmt::Display {
        let (found, sb) = (self, sb.copied());
        fmt::from_fn(move |f| found.show(f, sb.as_ref()))
    }

    fn show(&self, f: &mut fmt::Formatter<'_>, sb: Option<&JournalSuper>) -> fmt::Result {
        // A run may go over the end of the ring.
        match self.blocks {
            1 => write!(f, "block {}: ", self.at)?,
            n => write!(f, "{n} blocks from {} on: ", self.at)?,
        }
        match &self.what {
            What::Transaction(t) => {
                show_identity(f, sb, t.incarnation, t.epoch)?;
                show_transaction(f, t)
            }
            What::Torn {
                incarnation,
                epoch,
                fault,
            } => {
                show_identity(f, sb, *incarnation, *epoch)?;
                writeln!(f, ", not whole: {fault}")
            }
            What::Rest { incarnation, epoch } => {
                f.write_str("rest of ")?;
                show_identity(f, sb, *incarnation, *epoch)?;
                writeln!(f)
            }
            What::Unwritten => writeln!(f, "never written"),
            What::Damaged(HeaderFault::Checksum { .. }) => {
                writeln!(f, "the checksum does not fit: damaged, or half written")
            }
            What::Damaged(fault) => writeln!(f, "{fault}"),
        }
    }
}

fn show_identity(
    f: &mut fmt::Formatter<'_>,
    sb: Option<&JournalSuper>,
    incarnation: u64,
    epoch: u64,
) -> fmt::Result {
    write!(f, "epoch {epoch}")?;
    match sb {
        Some(sb) if sb.incarnation != incarnation => {
            write!(f, " of another life of the ring ({incarnation:#018x})")
        }
        Some(sb) if epoch < sb.tail_epoch => f.write_str(" (applied)"),
        _ => Ok(()),
    }
}

fn show_transaction(f: &mut fmt::Formatter<'_>, t: &Transaction) -> fmt::Result {
    let (d, c) = (&t.descriptor, &t.commit);
    let (groups, records, bytes) = (d.groups, d.records, t.payload.len());
    write!(f, ", {groups} groups, {records} records, {bytes} bytes")?;
    if !d.flags.is_empty() {
        write!(f, ", {}", d.flags)?;
    }
    let (opened, time, previous) = (d.opened, c.time, d.previous);
    writeln!(
        f,
        "; opened {opened} ns, committed {time} ns; the epoch before ends in block {previous}"
    )?;
    let (blocks, nodes, inodes, nid) = (
        c.valid_blocks,
        c.valid_nodes,
        c.valid_inodes,
        c.next_free_nid,
    );
    writeln!(
        f,
        "  after it {blocks} valid blocks, {nodes} nodes, {inodes} inodes; next free nid {nid}"
    )?;
    for group in Groups::new(&t.payload) {
        let group = match group {
            Ok(group) => group,
            Err(e) => return writeln!(f, "  damaged: {e}"),
        };
        match group.ino.0 {
            0 => writeln!(f, "  volume:")?,
            ino => writeln!(f, "  inode {ino}, generation {}:", group.generation)?,
        }
        for record in group.iter() {
            match record {
                Ok(record) => writeln!(f, "    {record}")?,
                Err(e) => writeln!(f, "    damaged: {e}")?,
            }
        }
    }
    Ok(())
}

impl fmt::Display for JournalSuper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clean = if self.clean { ", left empty" } else { "" };
        let sizes = match self.transaction_max {
            0 => String::new(),
            most => format!(", transactions of {most} blocks at most"),
        };
        write!(
            f,
            "generation {}{clean}; version {}, ring of {} blocks, life {:#018x}; tail: epoch {} at block {}, what is before it is in checkpoint {}; \
             head: epoch {} or later{sizes}",
            self.generation,
            self.version,
            self.ring_blocks,
            self.incarnation,
            self.tail_epoch,
            self.tail,
            self.checkpoint_version,
            self.head_epoch
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::f2fs::journal::{Descriptor, FaultKind, Group, Record, put_group};
    use crate::f2fs::{BLOCK_BYTES, Nid};
    use std::convert::Infallible;

    const RING: RingArea = RingArea {
        first: 0,
        blocks: 14,
    };

    fn transaction(incarnation: u64, epoch: u64, records: u32) -> Transaction {
        let mut bytes = Vec::new();
        (0..records).for_each(|n| Record::Trunc { from: n.into() }.encode(&mut bytes));
        let mut payload = Vec::new();
        let (ino, generation) = (Nid(4), 7);
        let groups = put_group(
            &mut payload,
            &Group {
                ino,
                generation,
                records,
                bytes: &bytes,
            },
        );
        let descriptor = Descriptor {
            groups,
            records,
            ..Descriptor::default()
        };
        Transaction {
            incarnation,
            epoch,
            descriptor,
            payload,
            ..Transaction::default()
        }
    }

    fn put(image: &mut [u8], at: u32, blocks: &[u8]) {
        for (n, block) in blocks.chunks(BLOCK_BYTES).enumerate() {
            let at = RING.step(at, n as u64) as usize * BLOCK_BYTES;
            image[at..at + BLOCK_BYTES].copy_from_slice(block);
        }
    }

    fn list(image: &[u8], tail: u32) -> Vec<Found> {
        let mut all = Vec::new();
        let mut read = |n: u32| -> Result<Vec<u8>, Infallible> {
            let at = n as usize * BLOCK_BYTES;
            Ok(image[at..at + BLOCK_BYTES].to_vec())
        };
        let done = list_ring(&RING, tail, &mut read, &mut |found| {
            all.push(found);
            Ok(())
        });
        assert_eq!(done, Ok(()));
        all
    }

    #[test]
    fn what_lies_in_a_ring() {
        let mut image = vec![0; 14 * BLOCK_BYTES];
        put(&mut image, 0, &transaction(1, 3, 4000).encode());
        put(&mut image, 12, &transaction(2, 9, 400).encode());
        put(&mut image, 1, &transaction(2, 10, 1).encode());
        let mut torn = transaction(2, 11, 400).encode();
        torn[BLOCK_BYTES + 50] ^= 1;
        put(&mut image, 2, &torn[..2 * BLOCK_BYTES]);
        let sb = JournalSuper {
            incarnation: 2,
            tail_epoch: 10,
            ring_blocks: 14,
            ..JournalSuper::default()
        };
        let found = list(&image, 12);
        let text: String = found
            .iter()
            .map(|f| f.describe(Some(&sb)).to_string())
            .collect();
        let heads: Vec<&str> = text.lines().filter(|l| !l.starts_with(' ')).collect();
        // 12, 13, 0 and 1 would be epoch 9: its commit block is overwritten.
        let expected = [
            "block 12: epoch 9 (applied), not whole: commit block (block 3 of the transaction) is of epoch 10",
            "2 blocks from 13 on: rest of epoch 9 (applied)",
            "block 1: epoch 10, 1 groups, 1 records, 28 bytes; opened 0 ns, committed 0 ns; the epoch before ends in block 0",
            "block 2: epoch 11, not whole: block of records (block 1 of the transaction) has checksum ",
            "block 3: the checksum does not fit: damaged, or half written",
            "8 blocks from 4 on: rest of epoch 3 of another life of the ring (0x0000000000000001)",
        ];
        assert_eq!(heads.len(), expected.len(), "{text}");
        for (head, expected) in heads.iter().zip(expected) {
            assert!(head.starts_with(expected), "{head}");
        }
        let group = "\n  inode 4, generation 7:\n    TRUNC from page 0\n";
        assert!(text.contains(group), "{text}");
    }

    #[test]
    fn each_block_once_from_every_tail() {
        let mut image = vec![0; 14 * BLOCK_BYTES];
        put(&mut image, 11, &transaction(2, 9, 1500).encode());
        put(&mut image, 5, &[7; BLOCK_BYTES]);
        for tail in 0..14 {
            let found = list(&image, tail);
            let whole = found
                .iter()
                .filter(|f| matches!(f.what, What::Transaction(_)))
                .count();
            let inside = RING.distance(11, tail) > 0 && RING.distance(11, tail) < 7;
            assert!(whole == 1 || inside, "{tail}: {found:?}");
            let blocks: u32 = found.iter().map(|f| f.blocks).sum();
            assert!((14..28).contains(&blocks));
            assert!(
                found
                    .iter()
                    .any(|f| matches!(f.what, What::Damaged(HeaderFault::Magic(_))))
            );
        }
    }

    #[test]
    fn more_promised_than_the_ring_has() {
        let mut image = vec![0; 14 * BLOCK_BYTES];
        let large = transaction(2, 9, 5000).encode();
        assert!(large.len() > 14 * BLOCK_BYTES);
        put(&mut image, 3, &large[..BLOCK_BYTES]);
        let found = list(&image, 3);
        assert!(matches!(
            &found[0].what,
            What::Torn {
                fault: Fault {
                    kind: FaultKind::Short { .. },
                    ..
                },
                ..
            }
        ));
    }
}
