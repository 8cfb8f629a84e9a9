//! The node address table (NAT): where each node is, which node numbers are free, and what the last
//! checkpoint recorded of both.
//!
//! Of several entries for a node the first of these counts: the one changed since the last
//! checkpoint, the one in the NAT journal of that checkpoint, the one in the NAT block (the copy
//! that the version bitmap names).
//!
//! Invariants:
//! - T1 a NAT block is written only into the copy that the last checkpoint does not name as
//!   current, and only by a checkpoint or an apply;
//! - T2 a number that was freed is not given out before a checkpoint has made that durable (Linux
//!   puts it back into its list when the checkpoint has flushed it): so blocks on the device that
//!   carry the number (summaries, nodes of roll-forward) cannot be taken for blocks of the new
//!   owner. With a journal (F2FSJ) the number is not given out before the epoch that freed it is
//!   committed, so never in that same epoch, in which the records of two inodes have no order among
//!   each other;
//! - T3 a checkpoint meets no NEW entry, because all nodes were written before;
//! - T4 memory: some 24 bytes for each number changed since the last checkpoint (a trigger bounds
//!   these), with a journal up to 20 more; at most [`BLOCKS_CACHED`] blocks; a bitmap of 64 bytes
//!   for each block searched for free numbers, and as much for each that was looked at.

mod ahead;
mod blocks;
mod cached;
mod change;
mod flush;
mod free;
mod home;

use crate::bell::Bell;
use crate::fault;
use crate::journal::Epoch;
use crate::locks::lock;
use crate::ops::Freeze;
use base::cost::f2fs as cost;
use base::{BLOCK_BYTES, BlockNo, Bytes, Map, Mutant, SECTORS_PER_BLOCK, Set};
use block::Queue;
use blocks::Blocks;
use cached::Cached;
use free::FreePool;
use fscore::{Errno, FsError, FsResult};
use ondisk::f2fs::{BlockAddr, Geometry, NatEntry, Nid, bits};
use rt::{Mutex, MutexGuard};
use std::sync::Arc;

pub(crate) use flush::NatToWrite;
pub(crate) use home::{FreedNode, MovedNode, NatChange};

/// NAT blocks kept in memory, 4 KiB each.
const BLOCKS_CACHED: usize = 1024;
/// NAT blocks searched for free numbers at once (Linux `FREE_NID_PAGES`).
const SCAN_BLOCKS: u32 = 8;

/// The table in memory.
pub(crate) struct Nat {
    queue: Arc<Queue>,
    geo: Geometry,
    state: Mutex<State>,
    /// Free numbers run low (ahead-T8).
    bell: Bell,
}

struct State {
    /// Changed since the last checkpoint.
    dirty: Map<u32, NatEntry>,
    /// In the journal of the last checkpoint.
    journal: Map<u32, NatEntry>,
    /// What happened to a number since the last checkpoint.
    history: Map<u32, Marks>,
    /// Version bitmap: which copy of each block counts.
    bitmap: Vec<u8>,
    blocks: Blocks,
    cached: Cached,
    /// Rises with each flush: what was read before is not kept after.
    flushes: u64,
    pool: FreePool,
    /// Numbers freed since the last checkpoint (T2).
    freed: u32,
    /// With a journal instead: those freed in epochs that are not committed.
    limbo: Option<Set<u32>>,
    /// With a journal: numbers that became used or free in an epoch that home does not have yet,
    /// each with the last such epoch (home-T5).
    turns: Map<u32, Epoch>,
}

#[derive(Clone, Copy, Default)]
struct Marks {
    /// The last checkpoint does not have its entry.
    young: bool,
    inode_fsynced: bool,
    /// The last node block of the inode had no fsync mark.
    last_unmarked: bool,
}

/// What is known of a node beyond its entry: decides whether an fsync needs a checkpoint, and how
/// it marks nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NodeHistory {
    /// The last checkpoint contains the entry of this node (Linux `IS_CHECKPOINTED`).
    pub checkpointed: bool,
    /// The inode block was written with an fsync mark since then (Linux `HAS_FSYNCED_INODE`).
    pub inode_fsynced: bool,
    /// The last node block of this inode written since then had an fsync mark, or none was written
    /// (Linux `HAS_LAST_FSYNC`).
    pub last_fsynced: bool,
}

impl Nat {
    /// The table that a checkpoint describes. Journal entries of numbers that do not exist are left
    /// out; the answer says how many.
    pub fn load(
        queue: Arc<Queue>,
        geo: Geometry,
        bitmap: Vec<u8>,
        journal: impl Iterator<Item = (Nid, NatEntry)>,
        next_free: Nid,
    ) -> (Nat, usize) {
        let (mut kept, mut odd) = (Map::default(), 0);
        for (nid, entry) in journal {
            match nid.0 > 0 && nid.0 < geo.max_nid {
                true => drop(kept.insert(nid.0, entry)),
                false => odd += 1,
            }
        }
        let state = State {
            dirty: Map::default(),
            journal: kept,
            history: Map::default(),
            bitmap,
            blocks: Blocks::new(BLOCKS_CACHED),
            cached: Cached::default(),
            flushes: 0,
            pool: FreePool::new(geo.nat_blocks, next_free),
            freed: 0,
            limbo: None,
            turns: Map::default(),
        };
        let state = Mutex::named("f2fs nat", state);
        let nat = Nat {
            queue,
            geo,
            state,
            bell: Bell::new(),
        };
        (nat, odd)
    }

    /// Entries changed since the last checkpoint.
    pub fn dirty(&self) -> u64 {
        self.state.lock().dirty.len() as u64
    }

    /// True if as many entries as `max` are in memory, which Linux counts; the oldest clean ones
    /// are let go then.
    pub fn holds(&self, max: u64) -> bool {
        let state = &mut *self.state.lock();
        let many = state.cached.count() >= max;
        if many {
            state.cached.let_go(&state.dirty);
        }
        many
    }

    /// Bytes in memory (T4).
    pub fn memory(&self) -> u64 {
        let state = self.state.lock();
        let entries = state.dirty.len() + state.journal.len();
        let marks = state.history.len() * size_of::<(u32, Marks)>();
        let turns = state.turns.len() * size_of::<(u32, Epoch)>();
        let waiting = state.limbo.as_ref().map_or(0, |l| l.len()) * size_of::<u32>();
        let entries = entries * size_of::<(u32, NatEntry)>() + marks + turns + waiting;
        let entries = entries + state.cached.memory();
        (entries + state.bitmap.len()) as u64 + state.blocks.memory() + state.pool.memory()
    }

    /// True if no number can be handed out although a checkpoint, or a commit, would make some
    /// free.
    pub fn starved(&self) -> bool {
        let state = self.state.lock();
        let waiting = match &state.limbo {
            Some(limbo) => !limbo.is_empty(),
            None => state.freed > 0,
        };
        waiting && state.pool.is_exhausted()
    }

    /// Begins the use of a journal: from now on freed numbers wait for
    /// [`nids_committed`](Self::nids_committed), or for a checkpoint that contains everything.
    pub fn begin_journal(&self) {
        self.state.lock().limbo = Some(Set::default());
    }

    /// The epoch that freed these numbers is committed (T2).
    pub fn nids_committed(&self, nids: &[Nid]) {
        let state = &mut *self.state.lock();
        for &nid in nids {
            let waited = state
                .limbo
                .as_mut()
                .is_none_or(|limbo| limbo.remove(&nid.0));
            // If a number was taken although it waited, it would be handed out twice.
            if waited
                && state
                    .overlay(nid.0)
                    .is_none_or(|e| e.addr == BlockAddr::NULL)
            {
                state.pool.give_back(nid);
            }
        }
    }

    /// Where the search for free numbers goes on after the next mount.
    pub fn next_free(&self) -> Nid {
        self.state.lock().pool.next()
    }

    /// The entry of a node number; reads its NAT block if need be. A free number has address NULL.
    pub fn get(&self, nid: Nid) -> FsResult<NatEntry> {
        self.entry_of(nid).map(|(_, entry)| entry)
    }

    fn check(&self, nid: Nid) -> FsResult<()> {
        if nid.0 > 0 && nid.0 < self.geo.max_nid {
            return Ok(());
        }
        Err(FsError::corrupt(format!(
            "node number {nid}; the NAT has entries up to {}",
            self.geo.max_nid - 1
        )))
    }

    /// Reads the current copies of blocks that are not in memory. The lock is given up meanwhile;
    /// what a flush has overtaken is not kept.
    fn load_blocks<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        blocks: &[u32],
    ) -> FsResult<MutexGuard<'a, State>> {
        let missing = |b: &u32| !state.blocks.has(*b);
        let wanted: Vec<u32> = blocks.iter().copied().filter(missing).collect();
        let flushes = state.flushes;
        let place = |&b: &u32| {
            let addr = self
                .geo
                .nat_addr(b, bits::test_bit(&state.bitmap, b as usize));
            (BlockNo(addr.into()).lba(), SECTORS_PER_BLOCK)
        };
        let runs: Vec<_> = wanted.iter().map(place).collect();
        drop(state);
        let read = self.queue.read_many(&runs);
        let mut state = self.state.lock();
        for (&block, bytes) in wanted.iter().zip(read) {
            let bytes: Bytes = bytes.map_err(fault::device("reading the NAT"))?;
            debug_assert_eq!(bytes.len(), BLOCK_BYTES, "a block was asked for");
            if state.flushes == flushes {
                state.blocks.put(block, bytes);
            }
        }
        Ok(state)
    }

    /// `born`: the epoch of a new node (home-T5: known together with its entry).
    fn set(&self, nid: Nid, ino: Nid, addr: BlockAddr, born: Option<Epoch>) -> FsResult<u8> {
        let (mut state, old) = self.entry_of(nid)?;
        rt::charge(cost::NAT_SET);
        let entry = match addr {
            BlockAddr::NULL => freed(old),
            _ => NatEntry { ino, addr, ..old },
        };
        state.put(nid, old, entry);
        if let Some(epoch) = born {
            state.turns.insert(nid.0, epoch);
        }
        Ok(entry.version)
    }

    /// Redo of a journal: the entry, with the version that a record says.
    pub fn redo(&self, _: &Freeze<'_>, nid: Nid, entry: NatEntry) -> FsResult<()> {
        let (mut state, old) = self.entry_of(nid)?;
        state.put(nid, old, entry);
        Ok(())
    }

    /// No node came of a number that was taken.
    pub fn give_back(&self, nid: Nid) {
        self.state.lock().pool.give_back(nid);
    }

    fn take(&self) -> FsResult<Nid> {
        let mut state = lock(&self.state);
        loop {
            if let Some(nid) = state.pool.take() {
                // Linux has a list of its own for free numbers, under a spin lock of its own; here
                // the table's lock guards both.
                rt::charge(cost::NAT_TAKE);
                return Ok(nid);
            }
            let blocks = state.pool.to_search(SCAN_BLOCKS);
            if blocks.is_empty() {
                return Err(Errno::NoSpc.into());
            }
            state = self.load_blocks(state, &blocks)?;
            for block in blocks {
                state.search(&self.geo, block);
            }
        }
    }

    /// What is known of a node.
    pub fn history(&self, nid: Nid) -> FsResult<NodeHistory> {
        self.check(nid)?;
        let marks = self.state.lock().history.get(&nid.0).copied();
        let marks = marks.unwrap_or_default();
        Ok(NodeHistory {
            checkpointed: !marks.young,
            inode_fsynced: marks.inode_fsynced,
            last_fsynced: !marks.last_unmarked,
        })
    }

    /// A node block of inode `ino` was written, with an fsync mark or not; `inode_block`: it was
    /// the inode itself.
    pub fn written(&self, ino: Nid, inode_block: bool, fsync_mark: bool) {
        let mut state = self.state.lock();
        let marks = state.history.entry(ino.0).or_default();
        marks.inode_fsynced |= inode_block && fsync_mark;
        marks.last_unmarked = !fsync_mark;
    }
}

/// The entry of a node that goes. Linux raises the version if it had a place on the device.
fn freed(old: NatEntry) -> NatEntry {
    NatEntry {
        version: old.version.wrapping_add(u8::from(old.addr.is_data())),
        ino: Nid(0),
        addr: BlockAddr::NULL,
    }
}

impl State {
    /// Changes the entry of a number.
    fn put(&mut self, nid: Nid, old: NatEntry, entry: NatEntry) {
        if entry.addr == BlockAddr::NULL && old.addr != BlockAddr::NULL {
            self.freed += 1;
            // T2 (hazards-F24, hazards-F62).
            let early = match &mut self.limbo {
                Some(limbo) => {
                    limbo.insert(nid.0);
                    rt::mutant(Mutant::F2fsjNidEarly)
                }
                None => rt::mutant(Mutant::F2fsNidAtOnce),
            };
            if early {
                self.pool.give_back(nid);
            }
        }
        if !entry.addr.is_data() {
            self.history.entry(nid.0).or_default().young = true;
        }
        if entry.addr != BlockAddr::NULL {
            self.pool.used(nid);
        }
        self.cached.note(nid.0);
        self.dirty.insert(nid.0, entry);
    }

    /// The entry, if it counts more than the one in the NAT block.
    fn overlay(&self, nid: u32) -> Option<NatEntry> {
        self.dirty
            .get(&nid)
            .or_else(|| self.journal.get(&nid))
            .copied()
    }

    /// Puts the free numbers of a block into the pool. A block that is not in memory (a flush came
    /// between) is tried again later.
    fn search(&mut self, geo: &Geometry, block: u32) {
        if self.pool.has_searched(block) {
            return;
        }
        let Some(bytes) = self.blocks.get(block).cloned() else {
            return;
        };
        let per_block = ondisk::f2fs::NAT_PER_BLOCK as u32;
        let first = block * per_block;
        let free = |index: &u32| {
            let nid = first + index;
            let reserved = nid <= geo.root.0 || nid >= geo.max_nid;
            let in_table = || NatEntry::get(&bytes, *index as usize);
            // T2: a changed entry is in use or was freed since the last checkpoint.
            let waits = match &self.limbo {
                Some(limbo) => limbo.contains(&nid),
                None => self.dirty.contains_key(&nid),
            };
            let entry = || self.overlay(nid).unwrap_or_else(in_table);
            !reserved && !waits && entry().addr == BlockAddr::NULL
        };
        let found: Vec<u32> = (0..per_block).filter(free).collect();
        self.pool.searched(block, &found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockdev::Ram;

    /// A table of one block, all of it free.
    pub(super) fn table() -> Nat {
        let geo = crate::segs::test_geometry(1);
        let queue = Queue::new(Arc::new(Ram::new(geo.block_count * BLOCK_BYTES as u64)));
        Nat::load(queue, geo, vec![0; 64], std::iter::empty(), Nid(0)).0
    }

    /// T2 with a journal (hazards-F62): not in the epoch that freed it, whether its block has been
    /// searched or not.
    #[test]
    fn numbers_come_back_with_the_commit_of_their_epoch() {
        let nat = table();
        nat.begin_journal();
        let first = nat.take().expect("one");
        nat.set(first, first, BlockAddr::NEW, None).expect("in use");
        nat.set(first, first, BlockAddr::NULL, None).expect("free");
        let second = nat.take().expect("another");
        assert_ne!(first, second, "T2: handed out in the epoch that freed it");
        nat.nids_committed(&[first]);
        nat.nids_committed(&[first]);
        assert_eq!(nat.take().expect("again"), first);
        assert_ne!(nat.take().expect("another"), first, "T2: handed out twice");
        // One of a block that is searched after it was freed.
        let far = Nid(200 * ondisk::f2fs::NAT_PER_BLOCK as u32 + 7);
        nat.set(far, far, BlockAddr::NEW, None).expect("in use");
        nat.set(far, far, BlockAddr::NULL, None).expect("free");
        let search = |nat: &Nat| {
            let mut state = nat.load_blocks(nat.state.lock(), &[200]).expect("read");
            state.search(&nat.geo, 200);
            state.pool.is_free(far)
        };
        assert!(
            !search(&nat),
            "T2: a number that waits is found by a search"
        );
        nat.nids_committed(&[far]);
        assert!(nat.state.lock().pool.is_free(far));
    }
}
