//! The table of blocks: the state of each, which free one is opened next, and which closed one is
//! emptied next.
//!
//! Every count that a decision needs (free blocks, failing ones, valid slots) changes here together
//! with the entry that it counts, so that they cannot differ. The real FTL and [`crate::counting`]
//! both keep this table and therefore choose the same blocks; each carries the decisions out
//! (erase, copy, program) by itself. Blocks are in two pools, the ordinary ones and those of the
//! SLC area.

use crate::free::FreeBlocks;
use crate::types::{BlockInfo, FtlStats, State};
use crate::victim::Victims;
use crate::wear::{LEVEL_PACE, Levelling};
use crate::{Housekeeping, Layout, RESERVE, config::NONE};

/// Index of the pool of ordinary blocks.
pub(crate) const ORDINARY: usize = 0;
/// Index of the pool of the blocks of the SLC area.
pub(crate) const SLC: usize = 1;

/// The victims of a pool: a block of the ordinary pool; of the SLC area the blocks that were
/// written side by side. These are emptied row by row of all of them, so that what one command
/// wrote on many dies does not come to lie on few.
#[derive(Clone, Debug, Default)]
struct Emptying {
    blocks: Vec<u32>,
    /// The row to look at next, and in which of the blocks.
    row: u32,
    turn: usize,
}

impl Emptying {
    fn of(blocks: Vec<u32>) -> Emptying {
        Emptying {
            blocks,
            row: 0,
            turn: 0,
        }
    }
    /// A block is empty: its last slot has moved, or the host has replaced it.
    fn leave(&mut self, block: u32) {
        if let Some(place) = self.blocks.iter().position(|b| *b == block) {
            self.blocks.remove(place);
            self.turn -= usize::from(place < self.turn);
            self.wrap();
        }
    }
    /// The current row of a block has moved. The block may have left by that.
    fn step(&mut self, block: u32) {
        if self.blocks.get(self.turn) == Some(&block) {
            self.turn += 1;
            self.wrap();
        }
    }
    /// Behind the last block the next row begins: without that nobody would look at the others any
    /// more, and whoever waits for their end would wait for ever (slc-I12).
    fn wrap(&mut self) {
        if self.turn >= self.blocks.len() {
            (self.row, self.turn) = (self.row + 1, 0);
        }
    }
    /// Rows that have been looked at.
    fn rows(&self) -> u64 {
        u64::from(self.row) * self.blocks.len() as u64 + self.turn as u64
    }
}

/// The blocks of one mode: ordinary ones, or those of the SLC area.
#[derive(Clone, Debug, Default)]
struct Pool {
    /// Number of free blocks.
    free: u32,
    /// Number of blocks in which a program failed and that are not empty yet.
    failing: u32,
    victims: Emptying,
    /// True if that victim is moved for its wear.
    levelling: bool,
}

/// The blocks of a device.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    layout: Layout,
    own: Housekeeping,
    dies: u32,
    /// Blocks of the SLC area that are emptied together.
    stripe: usize,
    table: Vec<BlockInfo>,
    pools: [Pool; 2],
    free: FreeBlocks,
    victims: Victims,
    levelling: Levelling,
    /// Blocks that became free since this table was made.
    released: u64,
}

impl Blocks {
    /// The blocks of a layout without data. Those outside the map areas are free, or bad where
    /// `bad` says so.
    pub fn new(
        layout: Layout,
        own: Housekeeping,
        (dies, lanes): (u32, u32),
        bad: impl Fn(u32) -> bool,
    ) -> Blocks {
        let fresh = |b: u32| BlockInfo {
            state: match layout.is_meta(b) {
                true => State::Meta,
                false if bad(b) => State::Bad,
                false => State::Free,
            },
            valid: 0,
            erases: 0,
            filled: 0,
            freed_at: 0,
            failing: false,
        };
        let mut blocks = Blocks {
            table: (0..layout.blocks).map(fresh).collect(),
            pools: Default::default(),
            free: FreeBlocks::new(dies),
            victims: Victims::new(own.policy, own.seed, layout.blocks, layout.slots_per_block),
            levelling: Levelling::new(own),
            released: 0,
            layout,
            own,
            dies,
            stripe: lanes as usize,
        };
        blocks.count();
        blocks
    }
    /// Counts the blocks of the pools anew; there is no victim then.
    fn count(&mut self) {
        let (own, slots) = (self.own, self.layout.slots_per_block);
        self.pools = Default::default();
        self.free = FreeBlocks::new(self.dies);
        self.victims = Victims::new(own.policy, own.seed, self.layout.blocks, slots);
        for (block, info) in (0u32..).zip(&self.table) {
            let which = self.pool_of(block);
            let pool = &mut self.pools[which];
            pool.failing += u32::from(info.failing);
            match info.state {
                State::Free => {
                    pool.free += 1;
                    self.free.insert(which, block, info.erases);
                }
                State::Closed => self.victims.insert(which, block, info.valid, 0),
                _ => {}
            }
        }
    }
    /// What is known of a block.
    pub fn get(&self, block: u32) -> &BlockInfo {
        &self.table[block as usize]
    }
    fn info(&mut self, block: u32) -> &mut BlockInfo {
        &mut self.table[block as usize]
    }
    /// All blocks, by number.
    pub fn all(&self) -> &[BlockInfo] {
        &self.table
    }
    /// The pool that a block belongs to.
    pub fn pool_of(&self, block: u32) -> usize {
        match self.layout.is_slc(block) {
            true => SLC,
            false => ORDINARY,
        }
    }
    /// Free blocks of a pool.
    pub fn free(&self, pool: usize) -> u32 {
        self.pools[pool].free
    }
    /// Blocks of a pool that take data, now or later.
    pub fn good(&self, pool: usize) -> u32 {
        let usable = |(b, info): &(u32, &BlockInfo)| {
            let fit = !matches!(info.state, State::Bad | State::Meta) && !info.failing;
            fit && self.pool_of(*b) == pool
        };
        (0u32..).zip(&self.table).filter(usable).count() as u32
    }

    /// The free block to open next whose content is replaced by operations below `durable`
    /// (ftl-I2): the most worn one for cold data, else the least worn one, of the lane's own die if
    /// that has one.
    pub fn choose(&self, pool: usize, cold: bool, lane: u32, durable: u64) -> Option<u32> {
        let ready = |b: u32| self.get(b).freed_at < durable;
        match cold {
            true => self.free.for_cold(pool, ready),
            false => self.free.for_hot(pool, lane, ready),
        }
    }
    /// Takes a free block, which is going to be erased.
    pub fn take(&mut self, block: u32) {
        let pool = self.pool_of(block);
        self.pools[pool].free -= 1;
        self.free.take(pool, block, self.get(block).erases);
    }
    /// Notes that a block that was taken is erased and open.
    pub fn open(&mut self, block: u32) {
        if self.pool_of(block) == ORDINARY {
            self.levelling.erased();
        }
        let info = self.info(block);
        info.state = State::Open;
        info.erases += 1;
        info.filled = 0;
    }
    /// Notes that a block that was taken cannot be erased.
    pub fn spoil(&mut self, block: u32) {
        self.info(block).state = State::Bad;
    }
    /// Notes that a row of an open block is programmed; true if the block is full now.
    pub fn fill_row(&mut self, block: u32) -> bool {
        let most = self.layout.rows_in(block);
        let info = self.info(block);
        info.filled += 1;
        info.filled == most
    }
    /// Notes that another slot of a block is valid.
    pub fn gain(&mut self, block: u32) {
        self.info(block).valid += 1;
    }
    /// Notes that a slot of a block is no longer valid since operation `now`.
    pub fn lose(&mut self, block: u32, now: u64) {
        let info = self.info(block);
        info.valid -= 1;
        let (state, valid) = (info.state, info.valid);
        if state == State::Closed {
            match valid {
                0 => self.release(block, now),
                _ if self.is_victim(block) => {}
                _ => self.victims.shift(block, valid, now),
            }
        }
    }
    /// Counts a valid slot less than there is: the mistake of [`base::Mutant::CountOwners`].
    pub fn miscount(&mut self, block: u32) {
        self.info(block).valid -= 1;
    }
    /// Closes a block at operation `now`, so that collection may take it from now on.
    pub fn close(&mut self, block: u32, now: u64) {
        let pool = self.pool_of(block);
        let info = self.info(block);
        info.state = State::Closed;
        match info.valid {
            0 => self.release(block, now),
            valid => self.victims.insert(pool, block, valid, now),
        }
    }
    /// Closes a block in which a program failed, at operation `now`: it is emptied before all
    /// others, then retired.
    pub fn fail(&mut self, block: u32, now: u64) {
        let pool = self.pool_of(block);
        self.info(block).failing = true;
        self.pools[pool].failing += 1;
        self.close(block, now);
    }
    /// Frees a block without valid slots; it will be erased when it is opened. A failing block is
    /// retired instead.
    fn release(&mut self, block: u32, now: u64) {
        let which = self.pool_of(block);
        self.victims.remove(block);
        let (pool, info) = (&mut self.pools[which], &mut self.table[block as usize]);
        info.freed_at = now;
        pool.victims.leave(block);
        if info.failing {
            info.state = State::Bad;
            pool.failing -= 1;
        } else {
            info.state = State::Free;
            pool.free += 1;
            self.free.insert(which, block, info.erases);
            self.released += 1;
        }
    }
    /// Blocks that became free since this table was made.
    pub fn released(&self) -> u64 {
        self.released
    }

    /// The current victim, or the next one: failing blocks first, then the choice of the policy
    /// (ftl-I7). In the SLC area, where every full block may be a victim because its copies take
    /// fewer cells, those that were closed first are taken together, as many as the host has lanes.
    /// If blocks are `scarce`, the block with the fewest valid slots comes first.
    pub fn pick_victim(
        &mut self,
        pool: usize,
        scarce: bool,
        now: u64,
        stats: &mut FtlStats,
    ) -> Option<u32> {
        if self.pools[pool].victims.blocks.is_empty() {
            let slots = self.layout.slots_per_block;
            let next: Vec<u32> = match self.failing_block(pool) {
                Some(block) => vec![block],
                None if pool == SLC => self.victims.closed(pool).take(self.stripe).collect(),
                None if scarce => {
                    Vec::from_iter(self.victims.fewest_valid(pool, NONE, &self.table))
                }
                None => Vec::from_iter(self.victims.choose(pool, slots, &self.table, now)),
            };
            if let Some(block) = next.first().filter(|_| pool == ORDINARY) {
                stats.victim(self.get(*block).valid, slots);
            }
            self.pools[pool].levelling = false;
            self.pools[pool].victims = Emptying::of(next);
        }
        self.victim(pool)
    }
    /// The closed block with the fewest valid slots among those in which a program failed.
    fn failing_block(&self, pool: usize) -> Option<u32> {
        if self.pools[pool].failing == 0 {
            return None;
        }
        let failing = self.victims.closed(pool).filter(|b| self.get(*b).failing);
        failing.min_by_key(|b| (self.get(*b).valid, self.get(*b).erases, *b))
    }
    /// The first of the victims.
    fn victim(&self, pool: usize) -> Option<u32> {
        self.pools[pool].victims.blocks.first().copied()
    }
    /// What to look at next: a row of each of the victims that have not had their turn, as block
    /// and row.
    pub fn round(&self, pool: usize) -> Vec<(u32, u32)> {
        let victims = &self.pools[pool].victims;
        let left = victims.blocks.iter().skip(victims.turn);
        left.map(|block| (*block, victims.row)).collect()
    }
    /// True for a block that is being emptied; such a block leaves its list when it is released.
    fn is_victim(&self, block: u32) -> bool {
        self.pools.iter().any(|p| p.victims.blocks.contains(&block))
    }
    /// Notes that the row of `block` which [`round`](Self::round) named has moved. Behind the last
    /// row there is no victim any more.
    pub fn moved_row(&mut self, pool: usize, block: u32) {
        let rows = self.layout.rows_in(block);
        let victims = &mut self.pools[pool].victims;
        victims.step(block);
        if victims.row >= rows {
            let left = std::mem::take(victims).blocks;
            for block in left {
                let valid = self.get(block).valid;
                assert_eq!(valid, 0, "ftl-I1: a collected block has valid slots left");
            }
        }
    }
    /// True if the ordinary victim is moved for its wear.
    pub fn is_levelling(&self) -> bool {
        let pool = &self.pools[ORDINARY];
        pool.levelling && !pool.victims.blocks.is_empty()
    }
    /// True if a host write pays for a step of collection when `low` blocks are too few.
    pub fn collection_due(&self, low: u32) -> bool {
        let pool = &self.pools[ORDINARY];
        pool.free <= low || pool.failing > 0 || self.is_levelling()
    }
    /// Units to copy per unit that the host writes, so that an ordinary victim is empty before the
    /// blocks run out.
    pub fn pace(&self, victim: u32) -> u32 {
        let (valid, slots) = (self.get(victim).valid, self.layout.slots_per_block);
        match self.is_levelling() {
            true => LEVEL_PACE,
            false => valid.div_ceil((slots - valid).max(1)) + 1,
        }
    }
    /// Begins a move for the sake of wear, if one is due and nothing more urgent is under way
    /// (ftl-I6: the host cannot take the blocks that the move needs, and the move needs no more
    /// than a victim of collection does).
    pub fn begin_levelling(&mut self, stats: &mut FtlStats) {
        let pool = &mut self.pools[ORDINARY];
        let busy = !pool.victims.blocks.is_empty() || pool.failing > 0 || pool.free <= RESERVE;
        if busy || !self.levelling.due() {
            return;
        }
        let coldest = self.levelling.look(&self.victims, &self.free, &self.table);
        if let Some(block) = coldest {
            (pool.victims, pool.levelling) = (Emptying::of(vec![block]), true);
            stats.wear_move();
        }
    }

    /// Takes over what a checkpoint says of a block; false if it has no such block or row.
    pub fn load(&mut self, block: u32, filled: u32, erases: u32) -> bool {
        let fits = block < self.layout.blocks && filled <= self.layout.rows_in(block);
        if fits {
            let info = self.info(block);
            (info.filled, info.erases) = (filled, erases);
        }
        fits
    }
    /// Notes that recovery has found so many rows of a block to be programmed.
    pub fn found_rows(&mut self, block: u32, filled: u32) {
        self.info(block).filled = filled;
    }
    /// Notes that recovery has found a tag with so many erases in a block.
    pub fn found_erases(&mut self, block: u32, erases: u32) {
        let info = self.info(block);
        info.erases = info.erases.max(erases);
    }
    /// Ends recovery, which has counted the valid slots: what holds any is closed for good.
    pub fn recovered(&mut self, bad: impl Fn(u32) -> bool) {
        for (block, info) in (0u32..).zip(&mut self.table) {
            info.freed_at = 0;
            info.state = match info.state {
                State::Meta => State::Meta,
                _ if info.valid > 0 => State::Closed,
                State::Bad => State::Bad,
                _ => State::Free,
            };
            info.failing = info.state == State::Closed && bad(block);
        }
        self.count();
    }

    /// Erases of each block that carries data.
    pub fn erases(&self) -> impl Iterator<Item = u32> {
        let data = |b: &&BlockInfo| b.state != State::Meta && b.state != State::Bad;
        self.table.iter().filter(data).map(|b| b.erases)
    }
    /// Slots of ordinary blocks' size in free blocks, and slots already collected from victims.
    pub fn idle_slots(&self) -> u64 {
        let free = u64::from(self.free(ORDINARY) + self.free(SLC));
        let rows = self.pools.iter().map(|p| p.victims.rows()).sum::<u64>();
        free * u64::from(self.layout.slots_per_block) + rows * u64::from(self.layout.slots_per_row)
    }
    /// Bytes of memory that table and lists take.
    pub fn memory_bytes(&self) -> u64 {
        (self.table.capacity() * size_of::<BlockInfo>()) as u64 + self.victims.memory_bytes()
    }
    /// Bytes of memory that table and lists of such a device would take.
    pub fn memory_needed(layout: &Layout) -> u64 {
        let table = u64::from(layout.blocks) * size_of::<BlockInfo>() as u64;
        table + Victims::memory_needed(layout.blocks, layout.slots_per_block)
    }
    /// Asserts that all counts and lists agree with the entries, and these with the valid slots
    /// that the map has in each block.
    pub fn check(&self, valid: &[u32]) {
        for ((i, info), valid) in (0u32..).zip(&self.table).zip(valid) {
            let state = info.state;
            assert_eq!(
                info.valid, *valid,
                "ftl-I1: valid count of block {i} ({state:?})"
            );
            let idle = matches!(state, State::Free | State::Bad | State::Meta);
            assert!(
                !idle || info.valid == 0,
                "ftl-I1: block {i} is {state:?} and holds data"
            );
            assert!(
                info.filled <= self.layout.rows_in(i),
                "ftl-I1: block {i} holds too many rows"
            );
            let listed = self.victims.valid_of(i);
            let closed = (state == State::Closed).then_some(info.valid);
            assert!(
                listed == closed || self.is_victim(i),
                "ftl-I7: block {i} is in bucket {listed:?}"
            );
        }
        for pool in [ORDINARY, SLC] {
            self.check_pool(pool);
        }
    }
    fn check_pool(&self, pool: usize) {
        let all = (0u32..).zip(&self.table);
        let mine: Vec<_> = all.filter(|(i, _)| self.pool_of(*i) == pool).collect();
        let of = |state| mine.iter().filter(move |(_, b)| b.state == state);
        let (free, counts) = (of(State::Free).count() as u32, &self.pools[pool]);
        assert_eq!(
            free, counts.free,
            "ftl-I6: count of free blocks of pool {pool}"
        );
        assert_eq!(
            free,
            self.free.count(pool),
            "ftl-I8: set of free blocks of pool {pool}"
        );
        let mut listed: Vec<u32> = self.victims.closed(pool).collect();
        listed.sort_unstable();
        let closed: Vec<u32> = of(State::Closed).map(|(i, _)| *i).collect();
        assert_eq!(
            listed, closed,
            "ftl-I7: list of closed blocks of pool {pool}"
        );
        let failing = of(State::Closed).filter(|(_, b)| b.failing).count() as u32;
        assert_eq!(
            failing, counts.failing,
            "ftl-I1: count of failing blocks of pool {pool}"
        );
    }
}

#[cfg(test)]
impl Blocks {
    /// Makes `block` the ordinary victim.
    pub fn set_victim(&mut self, block: u32) {
        self.pools[ORDINARY].victims = Emptying::of(vec![block]);
    }
    /// Lets a closed block look as worn as if it had been erased so many times more.
    pub fn wear_out(&mut self, block: u32, erases: u32) {
        self.info(block).erases += erases;
    }
}

#[cfg(test)]
mod tests {
    use super::Emptying;

    /// The last of the victims leave while it is their turn, as when the host replaces all that
    /// they hold between two steps.
    #[test]
    fn a_victim_that_leaves_in_its_turn_lets_the_others_go_on() {
        let mut victims = Emptying::of(vec![7, 8, 9]);
        victims.step(7);
        victims.step(8);
        victims.leave(9);
        assert_eq!((victims.row, victims.turn), (1, 0));
        victims.step(7);
        victims.leave(8);
        assert_eq!(
            (&victims.blocks[..], victims.row, victims.turn),
            (&[7][..], 2, 0)
        );
        // A row whose last slot was the block's last: it leaves, and is told of afterwards.
        let mut victims = Emptying::of(vec![7, 8]);
        victims.leave(7);
        victims.step(7);
        assert_eq!(
            (&victims.blocks[..], victims.row, victims.turn),
            (&[8][..], 0, 0)
        );
    }
}
