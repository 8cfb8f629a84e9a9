//! Compact summaries of a checkpoint pack: both journals and the owners of the three data logs in
//! one to three blocks.
//!
//! | offset in the first block | size | meaning |
//! |---|---|---|
//! | 0 | 507 | NAT journal |
//! | 507 | 507 | SIT journal |
//! | 1014 | 7 each | owners: hot, warm, cold data log, each up to its next block (all 512 if it fills holes) |
//!
//! An entry never crosses a block, and the last 5 bytes of each block stay free: 439 entries in the
//! first block, 584 in each other.

use super::summary::{JOURNAL_BYTES, SUMMARY_BYTES, SUMMARY_FOOTER_BYTES};
use super::{BLOCK_BYTES, BLOCKS_PER_SEG, Checkpoint, Log, Summary};
use crate::Corrupt;

const WHAT: &str = "f2fs compact summaries";
const ENTRIES_AT: usize = 2 * JOURNAL_BYTES;
const USABLE: usize = BLOCK_BYTES - SUMMARY_FOOTER_BYTES;

/// Entries of the first block.
pub const COMPACT_FIRST: usize = (USABLE - ENTRIES_AT) / SUMMARY_BYTES;
/// Entries of each other block.
pub const COMPACT_NEXT: usize = USABLE / SUMMARY_BYTES;

/// Compact summaries, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactSummaries {
    /// NAT journal, 507 bytes; see [`nat_journal`](super::nat_journal).
    pub nat: Vec<u8>,
    /// SIT journal, 507 bytes.
    pub sit: Vec<u8>,
    /// Owners of the blocks of the hot, warm and cold data log.
    pub owners: [Vec<Summary>; 3],
}

/// Blocks for so many entries in all.
pub fn compact_blocks(entries: usize) -> usize {
    1 + entries.saturating_sub(COMPACT_FIRST).div_ceil(COMPACT_NEXT)
}

/// Block and byte offset of an entry.
fn place(n: usize) -> usize {
    match n.checked_sub(COMPACT_FIRST) {
        None => ENTRIES_AT + n * SUMMARY_BYTES,
        Some(rest) => (1 + rest / COMPACT_NEXT) * BLOCK_BYTES + rest % COMPACT_NEXT * SUMMARY_BYTES,
    }
}

impl CompactSummaries {
    /// Blocks that the compact summaries of a checkpoint fill.
    pub fn blocks_of(cp: &Checkpoint) -> usize {
        compact_blocks(
            Log::DATA
                .iter()
                .map(|&log| cp.compact_entries(log) as usize)
                .sum(),
        )
    }
    /// Reads them from blocks that lie one behind the other; `counts` are the entries of each log
    /// ([`Checkpoint::compact_entries`]).
    ///
    /// # Errors
    /// Too few blocks for the entries, or a count above 512.
    pub fn decode(blocks: &[u8], counts: [u32; 3]) -> Result<CompactSummaries, Corrupt> {
        if let Some(&n) = counts.iter().find(|&&n| n > BLOCKS_PER_SEG) {
            return Err(Corrupt::field(
                WHAT,
                "cur_data_blkoff",
                n.into(),
                "a segment has 512 blocks",
            ));
        }
        let total: usize = counts.iter().map(|&n| n as usize).sum();
        let blocks = Corrupt::need(WHAT, blocks, compact_blocks(total) * BLOCK_BYTES)?;
        let mut next = 0;
        let owners = counts.map(|count| {
            let from = next;
            next += count as usize;
            (from..next)
                .map(|n| Summary::parse(&blocks[place(n)..]))
                .collect()
        });
        let (nat, rest) = blocks.split_at(JOURNAL_BYTES);
        Ok(CompactSummaries {
            nat: nat.to_vec(),
            sit: rest[..JOURNAL_BYTES].to_vec(),
            owners,
        })
    }
    /// Their blocks.
    ///
    /// # Panics
    /// A journal has not 507 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let total = self.owners.iter().map(Vec::len).sum();
        let mut blocks = vec![0; compact_blocks(total) * BLOCK_BYTES];
        blocks[..JOURNAL_BYTES].copy_from_slice(&self.nat);
        blocks[JOURNAL_BYTES..ENTRIES_AT].copy_from_slice(&self.sit);
        for (n, owner) in self.owners.iter().flatten().enumerate() {
            let at = place(n);
            blocks[at..at + SUMMARY_BYTES].copy_from_slice(&owner.encode());
        }
        blocks
    }
}
