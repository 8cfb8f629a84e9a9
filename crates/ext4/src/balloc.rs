//! The block allocator: finds runs near a goal, and keeps freed blocks out of use until the
//! transaction that freed them is committed.
//!
//! It hands out whole clusters, because a bit of a block bitmap stands for one. Without feature
//! `bigalloc` a cluster is a block. Counts of bits, claims and frees are in clusters here; which
//! blocks of a cluster a file maps is for `cluster.rs` to know.
//!
//! Invariants:
//! - A1 a block is handed out only if its bit is clear in the allocator's map, which keeps the bits
//!   of pending frees set (hazards-H18), or if it lies in a window of the file that gets it
//!   (prealloc-W1);
//! - A2 a freed block is discarded only after its transaction committed, and before it can be
//!   handed out again;
//! - A3 nothing with a fixed place (superblocks, descriptors, bitmaps, inode tables) is handed out
//!   or freed;
//! - A4 a task with a claim (ext4-space-S2) gets a block, whatever other tasks do at the same time.
//!   Clear bits and bits of windows together are at least as many as all claims. But a search looks
//!   at one group after the other, and meanwhile other tasks may take blocks in groups ahead of it,
//!   free blocks in groups behind it, and open windows over the rest. So a search that found
//!   nothing is made once more *alone*: it keeps windows from being opened (`starving`), closes
//!   those that are open, and holds every group. Then each free bit is clear and stays so, and one
//!   pass finds it.

use crate::Ext4;
use crate::bitmap::{self, Run};
use crate::fault;
use crate::group::{GroupState, PendingFree};
use crate::tx::Tx;
use base::{BlockNo, Mutant};
use fscore::{Errno, FsError, FsResult};
use ondisk::ext4::{BitmapChecksum, GroupFlags};
use std::sync::atomic::Ordering;

/// Clusters that were allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Got {
    /// First block of the first cluster.
    pub start: BlockNo,
    /// Clusters.
    pub len: u32,
}

/// How well a run has to fit for the search of a group to accept it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// At the goal itself: the full length, or any part of it if that continues the file.
    Goal { partly: bool },
    /// A run of the full length.
    Full,
    /// The longest run.
    Any,
}

impl Ext4 {
    /// Allocates up to `want` neighbouring clusters as near to `goal` as possible. With
    /// `continues`, clusters right at the goal are preferred to a longer run elsewhere.
    ///
    /// # Errors
    /// ENOSPC, with nothing changed; damage; errors of the journal.
    pub(crate) fn alloc_clusters(
        &self,
        tx: &mut Tx<'_>,
        goal: BlockNo,
        want: u32,
        continues: bool,
    ) -> FsResult<Got> {
        self.reap_pending()?;
        let want = want.min(self.geo.clusters_per_group());
        let claim = self.claim(want.into(), &mut tx.pool, tx.right);
        if claim.blocks == 0 {
            return Err(Errno::NoSpc.into());
        }
        let want = claim.blocks as u32;
        let mut found = self.search(tx, goal, want, continues);
        if matches!(found, Ok(None)) && !rt::mutant(Mutant::SearchBesideOthers) {
            found = self.search_alone(tx, goal, want);
        }
        let found = found.and_then(|got| got.ok_or_else(|| self.no_bits()));
        let used = found.as_ref().map_or(0, |got| got.len);
        self.space.settle(claim, used.into(), &mut tx.pool);
        found
    }

    fn no_bits(&self) -> FsError {
        FsError::corrupt(format!(
            "block bitmaps: the group descriptors promise {} free blocks, the bitmaps have none",
            self.space.on_disk()
        ))
    }

    fn search(
        &self,
        tx: &mut Tx<'_>,
        goal: BlockNo,
        want: u32,
        continues: bool,
    ) -> FsResult<Option<Got>> {
        let groups = self.groups.count();
        let (first, bit) = self.geo.cluster_place(goal).unwrap_or((0, 0));
        if let Some(got) = self.try_group(tx, first, bit, want, Fit::Goal { partly: continues })? {
            return Ok(Some(got));
        }
        for fit in [Fit::Full, Fit::Any] {
            if fit == Fit::Full && !self.longest.may_be(want) {
                continue;
            }
            let asked = self.longest.ask();
            for n in 0..groups {
                let group = (first + n) % groups;
                let bit = if n == 0 { bit } else { 0 };
                if let Some(got) = self.try_group(tx, group, bit, want, fit)? {
                    return Ok(Some(got));
                }
            }
            if fit == Fit::Full && !self.has_run(first, want) {
                self.longest.none_of(want, asked);
            }
        }
        Ok(None)
    }

    /// True if a loaded map of the group has a free run of `len` clusters.
    fn has_run(&self, group: u32, len: u32) -> bool {
        let state = self.groups.get(group).lock();
        let end = self.geo.group_clusters(group);
        (state.map.as_deref())
            .is_some_and(|map| bitmap::find_run(map, 0, end, len).is_some_and(|r| r.len == len))
    }

    /// Searches like `search`, but while no other task can take a block (A4). The caller holds no
    /// lock of a group, a window or an inode's core.
    fn search_alone(&self, tx: &mut Tx<'_>, goal: BlockNo, want: u32) -> FsResult<Option<Got>> {
        self.starving.fetch_add(1, Ordering::SeqCst);
        self.close_windows();
        let found = self.search_held(tx, goal, want);
        self.starving.fetch_sub(1, Ordering::SeqCst);
        found
    }

    /// Holds the locks of all groups, and searches the groups.
    fn search_held(&self, tx: &mut Tx<'_>, goal: BlockNo, want: u32) -> FsResult<Option<Got>> {
        let (first, _) = self.geo.cluster_place(goal).unwrap_or((0, 0));
        let groups = self.groups.count();
        let mut held: Vec<_> = (0..groups).map(|g| self.groups.get(g).lock()).collect();
        for fit in [Fit::Full, Fit::Any] {
            for n in 0..groups {
                let group = (first + n) % groups;
                let state = &mut held[group as usize];
                if let Some(got) = self.try_held(tx, (group, state), 0, want, fit)? {
                    return Ok(Some(got));
                }
            }
        }
        Ok(None)
    }

    /// Finds `len` free clusters in a row near `goal`, without allocating them.
    pub(crate) fn find_free_run(&self, goal: BlockNo, len: u32) -> FsResult<Option<BlockNo>> {
        let groups = self.groups.count();
        let (first, bit) = self.geo.cluster_place(goal).unwrap_or((0, 0));
        for n in 0..groups {
            let group = (first + n) % groups;
            let mut state = self.groups.get(group).lock();
            let taken = state.waiting + state.held;
            if state.desc.free_blocks().saturating_sub(taken) < len {
                continue;
            }
            self.load_map(group, &mut state)?;
            let map = state.map.as_deref().expect("loaded above");
            let end = self.geo.group_clusters(group);
            let run = bitmap::find_run(map, if n == 0 { bit } else { 0 }, end, len);
            if let Some(run) = run.filter(|r| r.len == len) {
                return Ok(Some(self.geo.cluster_start(group, run.start)));
            }
        }
        Ok(None)
    }

    fn try_group(
        &self,
        tx: &mut Tx<'_>,
        group: u32,
        bit: u32,
        want: u32,
        fit: Fit,
    ) -> FsResult<Option<Got>> {
        let mut state = self.groups.get(group).lock();
        self.try_held(tx, (group, &mut state), bit, want, fit)
    }

    fn try_held(
        &self,
        tx: &mut Tx<'_>,
        (group, state): (u32, &mut GroupState),
        bit: u32,
        want: u32,
        fit: Fit,
    ) -> FsResult<Option<Got>> {
        let taken = state.waiting + state.held;
        let usable = state.desc.free_blocks().saturating_sub(taken);
        if usable == 0 || (fit == Fit::Full && usable < want) {
            return Ok(None);
        }
        self.load_map(group, state)?;
        let map = state.map.as_deref().expect("loaded above");
        let end = self.geo.group_clusters(group);
        let run = match fit {
            Fit::Goal { partly } => {
                bitmap::run_at(map, bit, end, want).filter(|r| partly || r.len == want)
            }
            Fit::Full => bitmap::find_run(map, bit, end, want).filter(|r| r.len == want),
            Fit::Any => bitmap::find_run(map, bit, end, want),
        };
        let Some(run) = run else {
            return Ok(None);
        };
        self.take(tx, group, state, run)?;
        let start = self.geo.cluster_start(group, run.start);
        Ok(Some(Got {
            start,
            len: run.len,
        }))
    }

    /// Loads and checks the bitmap of a group.
    pub(crate) fn load_map(&self, group: u32, state: &mut GroupState) -> FsResult<()> {
        if state.map.is_some() {
            return Ok(());
        }
        if self.group_flags(&state.desc).has(GroupFlags::BLOCK_UNINIT) {
            state.map = Some(self.fresh_block_bitmap(group, &state.desc));
            return Ok(());
        }
        let block = state.desc.block_bitmap();
        let bytes = self.read_meta(block)?;
        BitmapChecksum::Block
            .verify(&self.geo, group, &state.desc, &bytes)
            .map_err(fault::corrupt)?;
        let free = bitmap::count_zeros(&bytes, self.geo.group_clusters(group));
        if free != state.desc.free_blocks() {
            return Err(FsError::corrupt(format!(
                "block bitmap of group {group} at block {block}: {free} blocks are free, the descriptor says {}",
                state.desc.free_blocks()
            )));
        }
        state.map = Some(bytes[..].into());
        Ok(())
    }

    /// Writes a bitmap that was never written. The map must be loaded.
    pub(crate) fn init_block_bitmap(
        &self,
        tx: &mut Tx<'_>,
        group: u32,
        state: &mut GroupState,
    ) -> FsResult<()> {
        let flags = self.group_flags(&state.desc);
        if !flags.has(GroupFlags::BLOCK_UNINIT) {
            return Ok(());
        }
        let map = self.fresh_block_bitmap(group, &state.desc);
        let free = bitmap::count_zeros(&map, self.geo.group_clusters(group));
        if free != state.desc.free_blocks() {
            return Err(FsError::corrupt(format!(
                "group descriptor {group}: {} free blocks, but {free} in a group that was never used",
                state.desc.free_blocks()
            )));
        }
        let before = state.desc.clone();
        state
            .desc
            .set_flags(flags.without(GroupFlags::BLOCK_UNINIT));
        BitmapChecksum::Block.update(&self.geo, &mut state.desc, &map);
        tx.create(state.desc.block_bitmap(), map.into_vec().into())?;
        self.put_desc(tx, group, state, &before)
    }

    /// Sets the bits of a run that is free.
    fn take(&self, tx: &mut Tx<'_>, group: u32, state: &mut GroupState, run: Run) -> FsResult<()> {
        self.take_bits(tx, group, state, run)?;
        let map = state.map.as_deref_mut().expect("A1: the map is loaded");
        bitmap::fill(map, run.start, run.len, true);
        Ok(())
    }

    /// Takes a run like `take`, but one whose bits are already set in the allocator's map.
    pub(crate) fn take_bits(
        &self,
        tx: &mut Tx<'_>,
        group: u32,
        state: &mut GroupState,
        run: Run,
    ) -> FsResult<()> {
        let start = self.geo.cluster_start(group, run.start);
        let blocks = self.cluster_len(run.len);
        if self.groups.is_system(start, blocks) {
            return Err(FsError::corrupt(format!(
                "block bitmap of group {group}: block {start} and {} more are free but hold metadata",
                blocks - 1
            )));
        }
        self.init_block_bitmap(tx, group, state)?;
        self.flip(tx, group, state, run, true)
    }

    /// Takes exactly these clusters, which must be free.
    ///
    /// # Errors
    /// `Corrupt` if one of them is not free, or has a fixed place; errors of the journal.
    pub(crate) fn take_range(&self, tx: &mut Tx<'_>, start: BlockNo, len: u32) -> FsResult<()> {
        self.check_range(start, self.cluster_len(len) as u32, "blocks to be taken")?;
        let (mut at, mut left) = (start, len);
        while left > 0 {
            let (group, bit) = self.geo.cluster_place(at).expect("checked above");
            let part = left.min(self.geo.group_clusters(group) - bit);
            let claim = self.claim(part.into(), &mut tx.pool, tx.right);
            let mut state = self.groups.get(group).lock();
            let run = Run {
                start: bit,
                len: part,
            };
            let loaded = self.load_map(group, &mut state);
            let taken = loaded.and_then(|()| self.take(tx, group, &mut state, run));
            let used = if taken.is_ok() { claim.blocks } else { 0 };
            self.space.settle(claim, used, &mut tx.pool);
            taken?;
            at = at.plus(self.cluster_len(part));
            left -= part;
        }
        Ok(())
    }

    /// Changes the bits on the device, the count and the checksums. That of the bitmap was found
    /// right when the map was loaded.
    fn flip(
        &self,
        tx: &mut Tx<'_>,
        group: u32,
        state: &mut GroupState,
        run: Run,
        value: bool,
    ) -> FsResult<()> {
        let block = state.desc.block_bitmap();
        let bytes = self.read_meta(block)?;
        let range = run.start as usize / 8..(run.start + run.len).div_ceil(8) as usize;
        if bitmap::next(&bytes, run.start, run.start + run.len, value) < run.start + run.len {
            return Err(FsError::corrupt(format!(
                "block bitmap of group {group} at block {block}: blocks {}..{} of the group are not all {}",
                run.start,
                run.start + run.len,
                if value { "free" } else { "in use" }
            )));
        }
        let mut new = bytes[range.clone()].to_vec();
        bitmap::fill(&mut new, run.start % 8, run.len, value);
        let change =
            BitmapChecksum::Block.change(&self.geo, range.start, &bytes[range.clone()], &new);
        // The extra reference would turn the write into a copy.
        drop(bytes);
        tx.write(block, range.start, &new)?;
        let before = state.desc.clone();
        let free = state.desc.free_blocks();
        let free = if value {
            free.checked_sub(run.len)
        } else {
            Some(free + run.len)
        };
        let free = free.filter(|&n| n <= self.geo.group_clusters(group));
        state.desc.set_free_blocks(free.ok_or_else(|| {
            FsError::corrupt(format!("group descriptor {group}: free blocks miscounted"))
        })?);
        change.apply(&mut state.desc);
        self.put_desc(tx, group, state, &before)
    }

    /// Frees `len` clusters, the first of which holds the block `start`. For metadata blocks, the
    /// caller also tells the journal to forget them.
    ///
    /// # Errors
    /// Damage (blocks outside the volume, with a fixed place, or free already); errors of the
    /// journal.
    pub(crate) fn free_clusters(&self, tx: &mut Tx<'_>, start: BlockNo, len: u32) -> FsResult<()> {
        let mut at = self.cluster_of(start);
        self.check_range(at, self.cluster_len(len) as u32, "freed extent")?;
        let mut left = len;
        while left > 0 {
            let (group, bit) = self.geo.cluster_place(at).expect("checked above");
            let part = left.min(self.geo.group_clusters(group) - bit);
            let run = Run {
                start: bit,
                len: part,
            };
            self.free_in_group(tx, group, run)?;
            at = at.plus(self.cluster_len(part));
            left -= part;
        }
        Ok(())
    }

    fn free_in_group(&self, tx: &mut Tx<'_>, group: u32, run: Run) -> FsResult<()> {
        let mut state = self.groups.get(group).lock();
        self.load_map(group, &mut state)?;
        self.init_block_bitmap(tx, group, &mut state)?;
        self.flip(tx, group, &mut state, run, false)?;
        state.waiting += run.len;
        drop(state);
        self.space.freed_pending(run.len.into());
        let free = PendingFree {
            tid: tx.tid(),
            group,
            start: run.start,
            len: run.len,
            late: false,
        };
        self.groups.pending.lock().push_back(free);
        Ok(())
    }

    /// Makes the blocks usable whose freeing transactions are committed by now (A1, A2).
    pub(crate) fn reap_pending(&self) -> FsResult<()> {
        loop {
            let Some(free) = self.next_ripe() else {
                return Ok(());
            };
            // hazards-R14: a discard after the first reuse of the block would destroy what a REMAP
            // has brought there.
            let late = self.options.discard && !free.late && rt::mutant(Mutant::DiscardLate);
            if self.options.discard && !late {
                let start = self.geo.cluster_start(free.group, free.start);
                let (size, blocks) = (self.block_size, self.cluster_len(free.len));
                // A discard is a hint: where it fails, the blocks are free all the same.
                let _ = self.queue.discard(size.lba(start), size.sectors_of(blocks));
            }
            if free.late {
                continue;
            }
            let mut state = self.groups.get(free.group).lock();
            let map = state
                .map
                .as_deref_mut()
                .expect("ext4-group-G2: freeing loads the map");
            bitmap::fill(map, free.start, free.len, false);
            state.waiting -= free.len;
            drop(state);
            self.longest.freed();
            self.space.matured(free.len.into());
            if late {
                let tid = self.journal.committed().next().next();
                let free = PendingFree { tid, late, ..free };
                self.groups.pending.lock().push_back(free);
            }
        }
    }

    fn next_ripe(&self) -> Option<PendingFree> {
        let mut pending = self.groups.pending.lock();
        let first = pending.front()?;
        let ripe = !self.has_log()
            || self.journal.committed().geq(first.tid)
            || rt::mutant(Mutant::ReuseBeforeCommit);
        if ripe { pending.pop_front() } else { None }
    }

    /// Refuses blocks that lie outside the volume or have a fixed place (A3).
    pub(crate) fn check_range(
        &self,
        start: BlockNo,
        len: u32,
        what: impl std::fmt::Display,
    ) -> FsResult<()> {
        let end = start.0.saturating_add(len.into());
        let first = u64::from(self.geo.first_data_block());
        if start.0 <= first || end > self.geo.blocks_count() {
            return Err(FsError::corrupt(format!(
                "{what}: blocks {start}..{end} lie outside the file system of {} blocks",
                self.geo.blocks_count()
            )));
        }
        if self.groups.is_system(start, len.into()) {
            return Err(FsError::corrupt(format!(
                "{what}: blocks {start}..{end} overlap bitmaps, inode tables or descriptors"
            )));
        }
        Ok(())
    }

    /// Refuses a block outside the volume.
    pub(crate) fn check_block(&self, block: BlockNo, what: &str) -> FsResult<()> {
        if block.0 < self.geo.blocks_count() {
            return Ok(());
        }
        Err(FsError::corrupt(format!(
            "{what}: block {block} lies outside the file system of {} blocks",
            self.geo.blocks_count()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MountOptions;
    use crate::mkfs::{self, DeviceContent, MkfsOptions};
    use block::{Class, Queue};
    use blockdev::{Ram, write_block};
    use fscore::FileSystem;
    use std::sync::Arc;

    /// ext4-space-S2: a claim ends, whatever stops the blocks from being taken.
    #[test]
    fn blocks_behind_a_damaged_bitmap_stay_free() {
        const BYTES: u64 = 16 << 20;
        let ram = Arc::new(Ram::new(BYTES));
        let time = rt::WallTime { secs: 1, nanos: 0 };
        let plan = mkfs::plan(&MkfsOptions::new(BYTES, [3; 16], [5; 16], time));
        let queue = Queue::new(ram.clone());
        (plan.expect("a volume").write(&queue, DeviceContent::Zeros)).expect("written");
        let fs = Ext4::mount(queue, MountOptions::default()).expect("mounts");
        let bitmap = fs.groups.get(0).lock().desc.block_bitmap();
        let ones = vec![0xFF; base::BLOCK_BYTES];
        write_block(&*ram, bitmap.lba(), Class::Home, ones.into()).expect("in range");
        let before = (fs.space.free(), fs.space.on_disk());
        let last = BlockNo(fs.geo.blocks_count() - 9);
        let error = fs.transact(3, |tx| fs.take_range(tx, last, 8));
        assert!(matches!(error, Err(FsError::Corrupt { .. })), "{error:?}");
        assert_eq!((fs.space.free(), fs.space.on_disk()), before);
        fs.unmount().expect("unmounts");
    }
}
