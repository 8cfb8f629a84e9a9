//! The table of segments in memory: valid blocks, blocks that may not be reused yet, states and
//! their counts. It does no I/O and takes no lock.
//!
//! - V1 a block is `held` from the moment that it is valid until a checkpoint is durable in which
//!   it is not. A held block is not given out. So whatever the last durable checkpoint refers to,
//!   and what roll-forward finds behind it, keeps its content (F2FSJ paper, section 3.5: nothing
//!   that recovery refers to is overwritten);
//! - V2 valid blocks are held, counts are those of the maps, and the state of a segment follows
//!   from both: it is open if a log writes it; otherwise used if a block is valid, prefree if none
//!   is valid but some are held, free if none is held;
//! - V3 what changed since the last checkpoint is in `touched`: a checkpoint writes those entries,
//!   those that the SIT journal of the last one held, and what shares a SIT block with them.
//!
//! With a journal (F2FSJ) V1 refers to the pack that apply wrote last and to the records behind it:
//! a block that epoch e has freed stays held until a pack is durable that contains e
//! (f2fs-journal-I6). [`released`](Table::released) is told which blocks;
//! [`committed`](Table::committed) is for a pack that contains everything.
//!
//! Without checkpoints (`checkpoint=disable`) V1 refers only to what the last checkpoint knew:
//! there is no roll-forward, and a block that was allocated later may be reused at once, because
//! otherwise the volume would fill up with blocks that no mount can read.

use super::map::BlockMap;
use base::Set;
use fscore::{FsError, FsResult};
use ondisk::f2fs::{BLOCKS_PER_SEG, BlockAddr, Geometry, Log, SegNo, SitEntry};
use std::collections::BTreeMap;

/// What a segment is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// A log may open it.
    Free,
    /// The next checkpoint frees it.
    Prefree,
    /// It has valid blocks.
    Used,
    /// A log writes it.
    Open,
}

/// All segments.
pub(crate) struct Table {
    geo: Geometry,
    valid: Vec<BlockMap>,
    held: Vec<BlockMap>,
    /// Counts of the maps: V2.
    valid_count: Vec<u16>,
    held_count: Vec<u16>,
    /// The log that wrote it.
    kind: Vec<Log>,
    mtime: Vec<u64>,
    state: Vec<State>,
    touched: Vec<SegNo>,
    is_touched: Vec<bool>,
    /// Segments of each section that are not free.
    busy: Vec<u32>,
    free: u32,
    free_sections: u32,
    prefree: u32,
    /// What the last checkpoint knew, while there are no others.
    frozen: Option<Vec<BlockMap>>,
    allocated: u64,
    /// The same up to the last checkpoint.
    allocated_before: u64,
    /// Valid blocks of all segments, and held ones.
    total: u64,
    held_total: u64,
}

/// What a checkpoint freed in one segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Freed {
    pub seg: SegNo,
    /// The whole segment is free now.
    pub whole: bool,
    /// Blocks that may be reused now.
    pub blocks: BlockMap,
}

impl Table {
    /// Bytes of its maps and counts.
    pub fn memory(&self) -> u64 {
        let maps = self.valid.len() + self.held.len() + self.frozen.as_ref().map_or(0, Vec::len);
        let counts = self.valid_count.len() + self.held_count.len();
        let all = maps * size_of::<BlockMap>()
            + counts * size_of::<u16>()
            + self.kind.len() * size_of::<Log>()
            + self.mtime.len() * size_of::<u64>()
            + self.state.len() * size_of::<State>()
            + self.touched.len() * size_of::<SegNo>()
            + self.is_touched.len() * size_of::<bool>()
            + self.busy.len() * size_of::<u32>();
        all as u64
    }

    /// A table without a valid block: every segment is free.
    pub fn new(geo: Geometry) -> Table {
        let n = geo.segments_main as usize;
        Table {
            geo,
            valid: vec![BlockMap::default(); n],
            held: vec![BlockMap::default(); n],
            valid_count: vec![0; n],
            held_count: vec![0; n],
            kind: vec![Log::HotData; n],
            mtime: vec![0; n],
            state: vec![State::Free; n],
            touched: Vec::new(),
            is_touched: vec![false; n],
            busy: vec![0; geo.sections as usize],
            free: geo.segments_main,
            free_sections: geo.sections,
            prefree: 0,
            frozen: None,
            allocated: 0,
            allocated_before: 0,
            total: 0,
            held_total: 0,
        }
    }

    /// Takes an entry as the last checkpoint has it.
    ///
    /// # Errors
    /// It contradicts itself.
    pub fn load(&mut self, seg: SegNo, entry: &SitEntry) -> FsResult<()> {
        let bad = |what: String| {
            Err(FsError::corrupt(format!(
                "SIT entry of segment {seg}: {what}; run fsck.f2fs"
            )))
        };
        let Some(kind) = Log::from_index(entry.kind.into()) else {
            return bad(format!("there is no log {}", entry.kind));
        };
        if entry.valid != entry.count() {
            let marked = entry.count();
            return bad(format!(
                "{} valid blocks, but {marked} are marked",
                entry.valid
            ));
        }
        let map = BlockMap::from_bytes(&entry.map);
        let at = seg.0 as usize;
        (self.valid[at], self.held[at]) = (map, map);
        (self.valid_count[at], self.held_count[at]) = (entry.valid, entry.valid);
        (self.kind[at], self.mtime[at]) = (kind, entry.mtime);
        self.total += u64::from(entry.valid);
        self.held_total += u64::from(entry.valid);
        self.settle(seg, false);
        Ok(())
    }

    /// Its entry as it is now.
    pub fn entry(&self, seg: SegNo) -> SitEntry {
        let at = seg.0 as usize;
        SitEntry {
            valid: self.valid_count[at],
            kind: self.kind[at] as u8,
            map: self.valid[at].to_bytes(),
            mtime: self.mtime[at],
        }
    }

    pub fn geo(&self) -> &Geometry {
        &self.geo
    }
    pub fn state(&self, seg: SegNo) -> State {
        self.state[seg.0 as usize]
    }
    pub fn kind(&self, seg: SegNo) -> Log {
        self.kind[seg.0 as usize]
    }
    pub fn mtime(&self, seg: SegNo) -> u64 {
        self.mtime[seg.0 as usize]
    }
    pub fn valid_in(&self, seg: SegNo) -> u32 {
        self.valid_count[seg.0 as usize].into()
    }
    pub fn held_in(&self, seg: SegNo) -> u32 {
        self.held_count[seg.0 as usize].into()
    }
    pub fn valid_map(&self, seg: SegNo) -> BlockMap {
        self.valid[seg.0 as usize]
    }
    pub fn held_map(&self, seg: SegNo) -> BlockMap {
        self.held[seg.0 as usize]
    }
    /// Free segments.
    pub fn free(&self) -> u32 {
        self.free
    }
    /// Sections of free segments only.
    pub fn free_sections(&self) -> u32 {
        self.free_sections
    }
    /// Segments that the next checkpoint frees.
    pub fn prefree(&self) -> u32 {
        self.prefree
    }
    /// Valid blocks of all segments.
    pub fn total(&self) -> u64 {
        self.total
    }
    /// Blocks taken since the mount.
    pub fn ever_taken(&self) -> u64 {
        self.allocated_before + self.allocated
    }
    /// Blocks that may be taken.
    pub fn usable(&self) -> u64 {
        u64::from(self.geo.main_blocks()) - self.held_total
    }
    /// The ages of the oldest and of the newest used segment.
    pub fn ages(&self) -> (u64, u64) {
        let used = self.state.iter().zip(&self.mtime);
        let ages = used.filter(|(state, _)| **state == State::Used);
        let ages = ages.map(|(_, &mtime)| mtime);
        (ages.clone().min().unwrap_or(0), ages.max().unwrap_or(0))
    }
    /// Blocks that became valid since the last checkpoint.
    pub fn allocated(&self) -> u64 {
        self.allocated
    }
    /// Segments that differ from the last checkpoint.
    pub fn touched(&self) -> &[SegNo] {
        &self.touched
    }
    /// True if all segments of a section are free.
    pub fn section_is_free(&self, section: u32) -> bool {
        self.busy[section as usize] == 0
    }
    /// Valid blocks of all segments: data, nodes.
    pub fn totals(&self) -> (u64, u64) {
        let sum = |nodes: bool| {
            let counts = self.kind.iter().zip(&self.valid_count);
            let of_kind = counts.filter(|(kind, _)| kind.is_node() == nodes);
            of_kind.map(|(_, &n)| u64::from(n)).sum()
        };
        (sum(false), sum(true))
    }

    /// Whether a block of the main area is valid.
    pub fn is_valid(&self, addr: BlockAddr) -> bool {
        let (at, offset) = self.place(addr);
        self.valid[at].has(offset)
    }

    /// The next block of a segment that may be used.
    pub fn next_usable(&self, seg: SegNo, from: u32) -> Option<u32> {
        self.held[seg.0 as usize].next_clear(from)
    }

    /// Gives the block to a log.
    ///
    /// # Panics
    /// V1: it is held.
    pub fn take(&mut self, addr: BlockAddr, now: u64) {
        let (at, offset) = self.place(addr);
        let was = self.held[at].set(offset);
        assert!(
            !was,
            "V1: block {addr} is used again before the next checkpoint"
        );
        self.held_count[at] += 1;
        self.held_total += 1;
        self.validate(at, offset, now);
        self.allocated += 1;
    }

    /// Roll-forward found the block in use: held or not, it is valid now.
    ///
    /// # Errors
    /// Damage: it is valid already.
    pub fn adopt(&mut self, addr: BlockAddr, kind: Log, now: u64) -> FsResult<()> {
        let (at, offset) = self.place(addr);
        if self.valid[at].has(offset) {
            return Err(FsError::corrupt(format!(
                "block {addr} has an owner, and roll-forward finds another one"
            )));
        }
        self.hold(addr);
        if self.valid_count[at] == 0 && self.state[at] != State::Open {
            self.kind[at] = kind;
        }
        self.validate(at, offset, now);
        self.settle(SegNo(at as u32), self.state[at] == State::Open);
        Ok(())
    }

    /// Redo of a journal: the block becomes valid, or invalid; true if that is a change. It stays
    /// held.
    pub fn redo(&mut self, addr: BlockAddr, valid: bool, kind: Log, now: u64) -> bool {
        let (at, offset) = self.place(addr);
        if self.valid[at].has(offset) == valid {
            return false;
        }
        let seg = SegNo(at as u32);
        let open = self.state[at] == State::Open;
        if valid {
            self.hold(addr);
            if self.valid_count[at] == 0 && !open {
                self.kind[at] = kind;
            }
            self.validate(at, offset, now);
        } else {
            self.valid[at].clear(offset);
            self.valid_count[at] -= 1;
            self.total -= 1;
            self.touch(at);
        }
        self.settle(seg, open);
        true
    }

    /// Holds a block: it is not given out before the next checkpoint.
    pub fn hold(&mut self, addr: BlockAddr) {
        let (at, offset) = self.place(addr);
        if !self.held[at].set(offset) {
            self.held_count[at] += 1;
            self.held_total += 1;
            self.touch(at);
            self.settle(SegNo(at as u32), self.state[at] == State::Open);
        }
    }

    fn validate(&mut self, at: usize, offset: u32, now: u64) {
        self.valid[at].set(offset);
        let before = u64::from(self.valid_count[at]);
        self.valid_count[at] += 1;
        self.total += 1;
        let mtime = &mut self.mtime[at];
        *mtime = match *mtime {
            0 => now,
            mean => mean.saturating_mul(before).saturating_add(now) / (before + 1),
        };
        self.touch(at);
    }

    /// The block is not valid any more; it stays held.
    ///
    /// # Errors
    /// Damage: it was not valid.
    pub fn release(&mut self, addr: BlockAddr) -> FsResult<()> {
        let (at, offset) = self.place(addr);
        if !self.valid[at].clear(offset) {
            return Err(FsError::corrupt(format!(
                "block {addr} is freed, and it is not in use"
            )));
        }
        self.valid_count[at] -= 1;
        self.total -= 1;
        self.touch(at);
        let known = self.frozen.as_ref().is_none_or(|maps| maps[at].has(offset));
        // V1, hazards-F1.
        if !known || rt::mutant(base::Mutant::F2fsReuseBeforeCheckpoint) {
            self.held[at].clear(offset);
            self.held_count[at] -= 1;
            self.held_total -= 1;
        }
        if self.valid_count[at] == 0 && self.state[at] != State::Open {
            self.settle(SegNo(at as u32), false);
        }
        Ok(())
    }

    /// A log opens the segment.
    pub fn open(&mut self, seg: SegNo, log: Log) {
        debug_assert_ne!(
            self.state(seg),
            State::Open,
            "V2: segment {seg} has two logs"
        );
        if self.kind[seg.0 as usize] != log {
            self.kind[seg.0 as usize] = log;
            self.touch(seg.0 as usize);
        }
        self.settle(seg, true);
    }

    /// The log has left it.
    pub fn close(&mut self, seg: SegNo) {
        debug_assert_eq!(self.state(seg), State::Open, "V2: segment {seg} has no log");
        self.settle(seg, false);
    }

    /// Sets the state that follows from the counts (V2).
    fn settle(&mut self, seg: SegNo, open: bool) {
        let at = seg.0 as usize;
        let new = match (open, self.valid_count[at], self.held_count[at]) {
            (true, _, _) => State::Open,
            (false, 0, 0) => State::Free,
            (false, 0, _) => State::Prefree,
            (false, _, _) => State::Used,
        };
        let old = std::mem::replace(&mut self.state[at], new);
        self.prefree += u32::from(new == State::Prefree);
        self.prefree -= u32::from(old == State::Prefree);
        let section = self.geo.section(seg) as usize;
        match (old == State::Free, new == State::Free) {
            (true, false) => {
                self.free_sections -= u32::from(self.busy[section] == 0);
                self.busy[section] += 1;
                self.free -= 1;
            }
            (false, true) => {
                self.busy[section] -= 1;
                self.free_sections += u32::from(self.busy[section] == 0);
                self.free += 1;
            }
            _ => {}
        }
    }

    fn touch(&mut self, at: usize) {
        if !std::mem::replace(&mut self.is_touched[at], true) {
            self.touched.push(SegNo(at as u32));
        }
    }

    /// The last checkpoint is durable: every block that is not valid may be used (V1). Answers what
    /// became usable, in the order of segments.
    pub fn committed(&mut self) -> Vec<Freed> {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        self.allocated_before += std::mem::take(&mut self.allocated);
        let mut freed = Vec::new();
        for seg in touched {
            let at = seg.0 as usize;
            self.is_touched[at] = false;
            let blocks = self.held[at].without(&self.valid[at]);
            self.held[at] = self.valid[at];
            self.held_total -= u64::from(self.held_count[at] - self.valid_count[at]);
            self.held_count[at] = self.valid_count[at];
            let open = self.state[at] == State::Open;
            self.settle(seg, open);
            let whole = self.state[at] == State::Free;
            if whole || blocks != BlockMap::default() {
                freed.push(Freed { seg, whole, blocks });
            }
        }
        if let Some(frozen) = &mut self.frozen {
            frozen.clone_from(&self.valid);
        }
        freed
    }

    /// A pack is durable that contains the freeing of these blocks, and they were not written since
    /// (f2fs-journal-I6). Answers what became usable, in the order of segments.
    pub fn released(&mut self, blocks: &[BlockAddr]) -> Vec<Freed> {
        let mut by_seg: BTreeMap<usize, BlockMap> = BTreeMap::new();
        for &addr in blocks {
            let (at, offset) = self.place(addr);
            if !self.valid[at].has(offset) && self.held[at].clear(offset) {
                self.held_count[at] -= 1;
                self.held_total -= 1;
                by_seg.entry(at).or_default().set(offset);
            }
        }
        let mut freed = Vec::with_capacity(by_seg.len());
        for (at, blocks) in by_seg {
            let seg = SegNo(at as u32);
            self.settle(seg, self.state[at] == State::Open);
            let whole = self.state[at] == State::Free;
            freed.push(Freed { seg, whole, blocks });
        }
        freed
    }

    /// Blocks that are held and not valid: they wait for a checkpoint, or for apply.
    pub fn deferred(&self) -> u64 {
        self.held_total - self.total
    }

    /// Sets whether checkpoints are disabled from the one on that was just written.
    pub fn set_frozen(&mut self, on: bool) {
        self.frozen = on.then(|| self.valid.clone());
    }

    /// Segments behind `from`, around the end, up to the one before it.
    pub fn round(&self, from: SegNo) -> impl Iterator<Item = SegNo> + use<> {
        let n = self.geo.segments_main;
        (0..n).map(move |i| SegNo((from.0 % n + 1 + i) % n))
    }

    fn place(&self, addr: BlockAddr) -> (usize, u32) {
        let seg = self
            .geo
            .segno(addr)
            .expect("callers have looked: the block is in the main area");
        (seg.0 as usize, self.geo.offset_in_seg(addr))
    }

    /// Checks V2 and V3 by a walk over everything.
    ///
    /// # Panics
    /// If they do not hold.
    pub fn check(&self) {
        let (mut free, mut prefree, mut busy) = (0, 0, vec![0; self.busy.len()]);
        for at in 0..self.valid.len() {
            let (valid, held) = (self.valid[at], self.held[at]);
            let counts = (self.valid_count[at].into(), self.held_count[at].into());
            assert_eq!(
                (valid.count(), held.count()),
                counts,
                "V2: counts of segment {at}"
            );
            assert_eq!(
                valid.without(&held),
                BlockMap::default(),
                "V2: valid and not held, segment {at}"
            );
            let state = match counts {
                _ if self.state[at] == State::Open => State::Open,
                (0, 0) => State::Free,
                (0, _) => State::Prefree,
                _ => State::Used,
            };
            assert_eq!(self.state[at], state, "V2: segment {at}");
            free += u32::from(state == State::Free);
            prefree += u32::from(state == State::Prefree);
            busy[self.geo.section(SegNo(at as u32)) as usize] += u32::from(state != State::Free);
            assert!(self.is_touched[at] || valid == held, "V3: segment {at}");
        }
        let all: u64 = self.valid.iter().map(|map| u64::from(map.count())).sum();
        assert_eq!(all, self.total, "V2: all valid blocks");
        let held: u64 = self.held.iter().map(|map| u64::from(map.count())).sum();
        assert_eq!(held, self.held_total, "V2: all held blocks");
        assert_eq!(
            (free, prefree),
            (self.free, self.prefree),
            "V2: counts of segments"
        );
        assert_eq!(busy, self.busy, "V2: sections");
        let free_sections = busy.iter().filter(|&&n| n == 0).count();
        assert_eq!(
            free_sections as u32, self.free_sections,
            "V2: free sections"
        );
        let touched: Set<SegNo> = self.touched.iter().copied().collect();
        assert_eq!(touched.len(), self.touched.len(), "V3: twice");
        let flags = (0..self.is_touched.len()).filter(|&at| self.is_touched[at]);
        assert!(
            flags.clone().all(|at| touched.contains(&SegNo(at as u32))),
            "V3: list"
        );
        assert_eq!(flags.count(), touched.len(), "V3: list");
    }

    /// Blocks of a segment.
    pub fn addr(&self, seg: SegNo, offset: u32) -> BlockAddr {
        debug_assert!(offset < BLOCKS_PER_SEG);
        BlockAddr(self.geo.seg_start(seg).0 + offset)
    }
}
