//! What a checkpoint writes of the table: the NAT journal of the pack takes, as far as it has room,
//! the entries of blocks in which the fewest changed, because each spares a block; the other
//! entries go into the other copies of their blocks.

use super::Nat;
use crate::segs::lba;
use base::{BLOCK_BYTES, Bytes, Map, Mutant};
use block::{Class, Plug};
use fscore::{FsError, FsResult};
use ondisk::f2fs::{BlockAddr, NAT_JOURNAL_MAX, NatEntry, Nid, bits};
use std::collections::BTreeMap;

/// Blocks read at once.
const READ_AHEAD: usize = 32;

/// What a checkpoint writes down of the table.
pub(crate) struct NatToWrite {
    /// The version bitmap, with the blocks turned that were put into the plug.
    pub bitmap: Vec<u8>,
    /// Entries for the NAT journal.
    pub journal: Vec<(Nid, NatEntry)>,
    /// New contents of blocks.
    pub(super) blocks: Vec<(u32, Bytes)>,
    /// Entries that changed, to know what is in the dirty table now.
    changed: usize,
}

impl NatToWrite {
    /// NAT blocks that are written.
    pub fn blocks(&self) -> u64 {
        self.blocks.len() as u64
    }
}

/// Entries of one NAT block.
type Group = (u32, Vec<(Nid, NatEntry)>);

impl Nat {
    /// Puts the NAT blocks that a checkpoint has to write into `plug`, each into the copy that does
    /// not count now (nat-T1). Nothing changes in memory before [`committed`](Self::committed).
    /// Under a freeze.
    ///
    /// # Errors
    /// I/O of reading NAT blocks of which few entries change.
    pub fn flush(&self, plug: &mut Plug) -> FsResult<NatToWrite> {
        let dirty = self.state.lock().dirty.clone();
        self.flush_entries(dirty, plug)
    }

    /// The same for entries `dirty`, and whatever stands in the journal and not among them.
    pub(super) fn flush_entries(
        &self,
        dirty: Map<u32, NatEntry>,
        plug: &mut Plug,
    ) -> FsResult<NatToWrite> {
        let (mut groups, total, mut bitmap) = self.pending(&dirty)?;
        let changed = dirty.len();
        let mut journal = Vec::new();
        if total > NAT_JOURNAL_MAX {
            // The journal saves most where few entries of a block change.
            groups.sort_by_key(|(_, entries)| entries.len());
        }
        let fits = |(_, entries): &mut Group| {
            let room = journal.len() + entries.len() <= NAT_JOURNAL_MAX;
            if room {
                journal.append(entries);
            }
            !room
        };
        groups.retain_mut(fits);
        journal.sort_by_key(|(nid, _)| *nid);
        let mut blocks = Vec::with_capacity(groups.len());
        for chunk in groups.chunks(READ_AHEAD) {
            let numbers: Vec<u32> = chunk.iter().map(|(block, _)| *block).collect();
            for ((block, entries), old) in chunk.iter().zip(self.contents(&numbers)?) {
                let new = self.merged(&old, entries);
                // nat-T1 (hazards-F23).
                let other = !rt::mutant(Mutant::F2fsNatInPlace);
                let second = bits::test_bit(&bitmap, *block as usize) ^ other;
                match second {
                    true => bits::set_bit(&mut bitmap, *block as usize),
                    false => bits::clear_bit(&mut bitmap, *block as usize),
                };
                plug.write(
                    lba(self.geo.nat_addr(*block, second)),
                    Class::Nat,
                    new.clone(),
                );
                blocks.push((*block, new));
            }
        }
        Ok(NatToWrite {
            bitmap,
            journal,
            blocks,
            changed,
        })
    }

    /// All entries that the NAT blocks do not have, by block; how many; the bitmap.
    fn pending(&self, dirty: &Map<u32, NatEntry>) -> FsResult<(Vec<Group>, usize, Vec<u8>)> {
        let state = self.state.lock();
        let mut all: Vec<(u32, NatEntry)> = dirty.iter().map(|(&n, &e)| (n, e)).collect();
        let old = state.journal.iter().filter(|(n, _)| !dirty.contains_key(n));
        all.extend(old.map(|(&n, &e)| (n, e)));
        all.sort_unstable_by_key(|(nid, _)| *nid);
        let mut groups: BTreeMap<u32, Vec<(Nid, NatEntry)>> = BTreeMap::new();
        for &(nid, entry) in &all {
            if entry.addr == BlockAddr::NEW {
                let what = format!("nat-T3: node {nid} was not written before the checkpoint");
                debug_assert!(false, "{what}");
                return Err(FsError::corrupt(what));
            }
            let (block, _) = self.geo.nat_block(Nid(nid));
            groups.entry(block).or_default().push((Nid(nid), entry));
        }
        let groups = groups.into_iter().collect();
        Ok((groups, all.len(), state.bitmap.clone()))
    }

    /// Current contents of blocks, in their order.
    fn contents(&self, blocks: &[u32]) -> FsResult<Vec<Bytes>> {
        let mut state = self.state.lock();
        loop {
            let found: Option<Vec<Bytes>> = blocks
                .iter()
                .map(|&b| state.blocks.get(b).cloned())
                .collect();
            match found {
                Some(all) => return Ok(all),
                None => state = self.load_blocks(state, blocks)?,
            }
        }
    }

    fn merged(&self, old: &[u8], entries: &[(Nid, NatEntry)]) -> Bytes {
        let mut new = old[..BLOCK_BYTES].to_vec();
        for (nid, entry) in entries {
            entry.put(&mut new, self.geo.nat_block(*nid).1);
        }
        new.into()
    }

    /// The checkpoint that `written` went into is durable. Under the same freeze.
    pub fn committed(&self, written: NatToWrite) {
        let mut state = self.state.lock();
        let state = &mut *state;
        assert_eq!(
            written.changed,
            state.dirty.len(),
            "ops-O2: the NAT changed under a freeze"
        );
        state.home_is(written);
        let changed = state.dirty.drain();
        let freed = changed.filter(|(_, entry)| entry.addr == BlockAddr::NULL);
        let mut freed: Vec<u32> = freed.map(|(nid, _)| nid).collect();
        freed.sort_unstable();
        // nat-T2.
        for nid in freed {
            state.pool.give_back(Nid(nid));
            state.cached.forget(nid);
        }
        state.history.clear();
        state.turns.clear();
        state.freed = 0;
        if let Some(limbo) = &mut state.limbo {
            limbo.clear();
        }
    }
}
