//! The `spec` adversary: the worst state that a device may leave behind, judged by its [`Caps`] alone.
//!
//! A [`Ledger`] remembers every write whose durability is open, with its time span and the content it replaced.
//! [`Ledger::draw`] turns that into one legal state of the medium at a cut.
//!
//! | area | what the adversary may do | what must survive |
//! |---|---|---|
//! | write that starts at or after the cut | nothing: it never happened | the content before it |
//! | normal write in flight | each sector old, new or garbage | sectors it does not name |
//! | completed write, not flushed | each sector any version since the last durable one, or garbage (eviction in flight) | the same |
//! | the same two without `no_collateral` | garbage in sectors of the same 16 KiB, durable ones included | all other sectors |
//! | completed write, covered by a completed flush that started after it | nothing | the write |
//! | completed FUA write | nothing | the write, over all older versions |
//! | FUA write in flight, `reliable_granule = g` | each granule of `g` bytes old or new | no garbage in its sectors |
//! | normal write, `tear_granule = g` | each granule of `g` bytes old or new | no garbage in its sectors |
//! | write of at most `atomic_write_bytes`, aligned to its size | all old or all new | no mixture |
//! | discard, not flushed | each sector old or zeros | the same |
//!
//! Invariants:
//! - I1: a sector without an open write keeps its content (but for collateral damage where the Caps allow it).
//! - I2: a drawn sector is one of its versions since the last durable one, or garbage where the table says so.
//! - I3: with equal ledger, cut and seed the draw is equal.

use crate::Caps;
use base::collections::mix;
use base::{BLOCK_BYTES, Bytes, Lba, Rng, SECTOR_BYTES, SECTORS_PER_BLOCK, Time, fill};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Who decides what a power cut leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adversary {
    /// What our own model of the device really leaves.
    Own,
    /// The worst that the device's Caps leave open.
    #[default]
    Spec,
}

/// How a write promises to reach the medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Through the volatile cache.
    Normal,
    /// Non-volatile at completion (FUA, eMMC reliable write).
    Fua,
    /// Non-volatile at completion, without a promise about what a cut in flight leaves (cache switched off).
    Through,
    /// Zeros from now on, as volatile as a normal write.
    Discard,
}

impl Kind {
    /// True if completion means non-volatile.
    fn is_durable(self) -> bool {
        matches!(self, Kind::Fua | Kind::Through)
    }
}

/// One write, as the ledger keeps it.
#[derive(Clone, Debug)]
pub struct Write {
    /// When the device began with it.
    pub start: Time,
    /// When the host learned of its completion.
    pub end: Time,
    /// How it promises to reach the medium.
    pub kind: Kind,
    /// First sector.
    pub lba: Lba,
    /// Number of sectors.
    pub sectors: u64,
    /// The new content, in order; empty for a discard.
    pub new: Vec<Bytes>,
    /// The content before it of every 4 KiB block it touches, as (block number, 4096 bytes), ascending; a block that is
    /// missing held zeros.
    pub prev: Vec<(u64, Bytes)>,
}

#[derive(Clone, Copy, Debug)]
struct Flush {
    start: Time,
    end: Time,
}

/// The writes whose durability is open. Times of calls do not decrease.
#[derive(Clone, Debug)]
pub struct Ledger {
    writes: VecDeque<Write>,
    flushes: VecDeque<Flush>,
    bytes: u64,
    limit: u64,
}

impl Ledger {
    /// An empty ledger. When open writes keep more than `limit_bytes` of old and new content, the oldest completed ones
    /// count as durable (memory stays bounded).
    pub fn new(limit_bytes: u64) -> Ledger {
        Ledger {
            writes: VecDeque::new(),
            flushes: VecDeque::new(),
            bytes: 0,
            limit: limit_bytes,
        }
    }
    /// Enters a write. Writes are entered in the order in which they become visible to reads.
    pub fn write(&mut self, write: Write) {
        self.bytes += weight(&write);
        self.writes.push_back(write);
    }
    /// Enters a flush: writes completed by `start` are durable from `end` on.
    pub fn flush(&mut self, start: Time, end: Time) {
        self.flushes.push_back(Flush { start, end });
    }
    /// Number of writes whose durability is open.
    pub fn open_writes(&self) -> usize {
        self.writes.len()
    }
    /// Forgets what no cut at or after `now` can touch.
    pub fn advance(&mut self, now: Time) {
        while self.flushes.front().is_some_and(|f| f.end <= now) {
            let Some(flush) = self.flushes.pop_front() else {
                break;
            };
            self.writes.retain(|w| w.end > flush.start);
            self.bytes = self.writes.iter().map(weight).sum();
        }
        while let Some(front) = self.writes.front() {
            let durable = front.kind.is_durable() || self.bytes > self.limit;
            if !durable || front.end > now {
                break;
            }
            self.bytes -= weight(front);
            self.writes.pop_front();
        }
    }
    /// One legal state at the cut: the 4 KiB blocks that have open sectors, with their content, ascending. All other
    /// blocks are as they were. `visible` gives the content of a block as reads see it after all writes of the ledger.
    pub fn draw(
        &self,
        at: Time,
        seed: u64,
        caps: &Caps,
        visible: impl Fn(u64) -> Bytes,
    ) -> Vec<(u64, Bytes)> {
        let draw = Draw::new(at, seed, caps, self.durable_before(at));
        let mut out: BTreeMap<u64, Bytes> = BTreeMap::new();
        for (block, writes) in self.by_block() {
            out.insert(block, draw.block(block, &writes, visible(block)));
        }
        draw.collateral(&self.writes, &visible, &mut out);
        out.into_iter().collect()
    }
    /// The state at the cut if every open write is lost: same form as [`Ledger::draw`].
    pub fn lost(&self, at: Time, caps: &Caps, visible: impl Fn(u64) -> Bytes) -> Vec<(u64, Bytes)> {
        let draw = Draw {
            at,
            seed: 0,
            caps,
            mood: Mood::Oldest,
            durable_before: self.durable_before(at),
        };
        let blocks = self.by_block().into_iter();
        blocks
            .map(|(block, writes)| (block, draw.block(block, &writes, visible(block))))
            .collect()
    }
    /// Writes completed by this time are covered by a flush that was complete at the cut.
    fn durable_before(&self, at: Time) -> Option<Time> {
        self.flushes
            .iter()
            .filter(|f| f.end <= at)
            .map(|f| f.start)
            .max()
    }
    /// The open writes of each block, in order.
    fn by_block(&self) -> BTreeMap<u64, Vec<(usize, &Write)>> {
        let mut map: BTreeMap<u64, Vec<(usize, &Write)>> = BTreeMap::new();
        for w in &self.writes {
            match w.kind {
                // A discard of blocks that held nothing changes nothing.
                Kind::Discard => map.extend(w.prev.iter().map(|(block, _)| (*block, Vec::new()))),
                _ => map.extend(blocks_of(w).map(|block| (block, Vec::new()))),
            }
        }
        for (i, w) in self.writes.iter().enumerate() {
            map.range_mut(blocks_of(w))
                .for_each(|(_, list)| list.push((i, w)));
        }
        map
    }
}

/// Bytes of content that an open write keeps alive; a discard of blocks that held nothing weighs nothing.
fn weight(w: &Write) -> u64 {
    let new: usize = w.new.iter().map(Bytes::len).sum();
    let prev: usize = w.prev.iter().map(|(_, bytes)| bytes.len()).sum();
    (new + prev) as u64 + 64
}

fn blocks_of(w: &Write) -> std::ops::Range<u64> {
    w.lba.0 / SECTORS_PER_BLOCK..(w.lba.0 + w.sectors).div_ceil(SECTORS_PER_BLOCK)
}

/// The sector `lba` of the new content of `w`.
fn new_sector(w: &Write, lba: u64) -> Bytes {
    let mut skip = ((lba - w.lba.0) as usize) * SECTOR_BYTES;
    for piece in &w.new {
        if skip < piece.len() {
            return piece.slice(skip..skip + SECTOR_BYTES);
        }
        skip -= piece.len();
    }
    fill::zeros(SECTOR_BYTES)
}

/// The sector `lba` before `w`.
fn old_sector(w: &Write, lba: u64) -> Bytes {
    let block = lba / SECTORS_PER_BLOCK;
    let skip = (lba % SECTORS_PER_BLOCK) as usize * SECTOR_BYTES;
    match w.prev.binary_search_by_key(&block, |(b, _)| *b) {
        Ok(i) => w.prev[i].1.slice(skip..skip + SECTOR_BYTES),
        Err(_) => fill::zeros(SECTOR_BYTES),
    }
}

/// How a cut treats the writes it may choose about; drawn once per cut, so that extremes are as likely as mixtures.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    /// Every open write is lost.
    Oldest,
    /// Every open write is kept.
    Newest,
    /// Whole writes are kept or lost.
    PerWrite,
    /// Whole 4 KiB blocks are kept or lost.
    PerBlock,
    /// Sectors are kept or lost one by one.
    PerSector,
    /// The same, with garbage.
    Garbage,
}

const MOODS: [Mood; 6] = [
    Mood::Oldest,
    Mood::Newest,
    Mood::PerWrite,
    Mood::PerBlock,
    Mood::PerSector,
    Mood::Garbage,
];

struct Draw<'a> {
    at: Time,
    seed: u64,
    caps: &'a Caps,
    mood: Mood,
    durable_before: Option<Time>,
}

impl Draw<'_> {
    fn new(at: Time, seed: u64, caps: &Caps, durable_before: Option<Time>) -> Draw<'_> {
        let seed = mix(seed ^ mix(at.0 ^ 0x5bec));
        let mood = MOODS[Rng::named(seed, "spec mood").below(MOODS.len() as u64) as usize];
        Draw {
            at,
            seed,
            caps,
            mood,
            durable_before,
        }
    }
    /// A number that depends on the seed and on `what` only.
    fn pick(&self, what: [u64; 3]) -> u64 {
        what.iter().fold(self.seed, |h, x| mix(h ^ mix(*x)))
    }
    fn block(&self, block: u64, writes: &[(usize, &Write)], visible: Bytes) -> Bytes {
        let mut out = visible.to_vec();
        for s in 0..SECTORS_PER_BLOCK {
            let lba = block * SECTORS_PER_BLOCK + s;
            let covers = |w: &Write| w.lba.0 <= lba && lba < w.lba.0 + w.sectors;
            let chain: Vec<(usize, &Write)> =
                writes.iter().copied().filter(|(_, w)| covers(w)).collect();
            if !chain.is_empty() {
                let sector = self.sector(lba, &chain);
                out[s as usize * SECTOR_BYTES..][..SECTOR_BYTES].copy_from_slice(&sector);
            }
        }
        fill::compact(out.into())
    }
    fn durable(&self, w: &Write) -> bool {
        w.end <= self.at && (w.kind.is_durable() || self.durable_before.is_some_and(|t| w.end <= t))
    }
    /// The granule in which the device may tear `w` at `lba`, as an index that is equal within the granule; granules are at
    /// least `min` bytes.
    fn granule(&self, w: &Write, lba: u64, min: usize) -> u64 {
        let promised = match w.kind {
            Kind::Fua => self.caps.reliable_granule,
            Kind::Normal | Kind::Through => self.caps.tear_granule,
            Kind::Discard => None,
        };
        let bytes = promised.unwrap_or(0).max(self.caps.sector_bytes);
        lba * SECTOR_BYTES as u64 / u64::from(bytes.max(min as u32))
    }
    fn sector(&self, lba: u64, chain: &[(usize, &Write)]) -> Bytes {
        let started: Vec<(usize, &Write)> = chain
            .iter()
            .copied()
            .filter(|(_, w)| w.start < self.at)
            .collect();
        let base = started.iter().rposition(|(_, w)| self.durable(w));
        let open = &started[base.map_or(0, |i| i + 1)..];
        let floor = match base {
            Some(i) => new_sector(started[i].1, lba),
            None => old_sector(chain[0].1, lba),
        };
        // The newest write that the draw keeps wins; what lies below it is history.
        let mut kept = floor;
        for (id, w) in open {
            if self.garbled(*id, w, lba) {
                kept = self.garbage(lba);
            } else if self.kept(*id, w, lba) {
                kept = new_sector(w, lba);
            } else if w.kind == Kind::Fua && self.caps.reliable_granule.is_some() {
                // Old or new, never garbage: what lay here before this write was issued is whole.
                if open.iter().any(|(i, o)| i < id && self.garbled(*i, o, lba)) {
                    kept = old_sector(w, lba);
                }
            }
        }
        kept
    }
    /// True if this write is all or nothing by `atomic_write_bytes`.
    fn atomic(&self, w: &Write) -> bool {
        let bytes = w.sectors * SECTOR_BYTES as u64;
        bytes <= u64::from(self.caps.atomic_write_bytes)
            && bytes.is_power_of_two()
            && (w.lba.0 * SECTOR_BYTES as u64).is_multiple_of(bytes)
    }
    fn kept(&self, id: usize, w: &Write, lba: u64) -> bool {
        let id = id as u64;
        let granule = if self.atomic(w) {
            w.lba.0
        } else {
            self.granule(w, lba, SECTOR_BYTES)
        };
        match self.mood {
            Mood::Oldest => false,
            Mood::Newest => true,
            Mood::PerWrite => self.pick([1, id, 0]) & 1 == 1,
            Mood::PerBlock if !self.atomic(w) => {
                self.pick([2, id, self.granule(w, lba, BLOCK_BYTES)]) & 1 == 1
            }
            _ => self.pick([3, id, granule]) & 1 == 1,
        }
    }
    fn garbled(&self, id: usize, w: &Write, lba: u64) -> bool {
        let whole = match w.kind {
            Kind::Normal | Kind::Through => self.atomic(w) || self.caps.tear_granule.is_some(),
            Kind::Fua => self.atomic(w) || self.caps.reliable_granule.is_some(),
            Kind::Discard => true,
        };
        if whole || self.mood != Mood::Garbage {
            return false;
        }
        let one_in = if w.end > self.at { 3 } else { 16 };
        self.pick([4, id as u64, self.granule(w, lba, SECTOR_BYTES)])
            .is_multiple_of(one_in)
    }
    fn garbage(&self, lba: u64) -> Bytes {
        let mut rng = Rng::named(self.seed ^ lba, "spec garbage");
        match rng.below(4) {
            0 => fill::filled(0xFF, SECTOR_BYTES),
            _ => {
                let mut junk = vec![0; SECTOR_BYTES];
                rng.fill(&mut junk);
                junk.into()
            }
        }
    }
    /// Damages stored sectors that share a programming unit with a normal write that reaches the medium at the cut, where the
    /// Caps allow it: one in flight, or a cached one that is just being written back.
    fn collateral(
        &self,
        writes: &VecDeque<Write>,
        visible: &impl Fn(u64) -> Bytes,
        out: &mut BTreeMap<u64, Bytes>,
    ) {
        if self.caps.no_collateral || self.mood != Mood::Garbage {
            return;
        }
        for (id, w) in writes.iter().enumerate() {
            let normal = matches!(w.kind, Kind::Normal | Kind::Through);
            let written_back = || self.pick([6, id as u64, 0]).is_multiple_of(8);
            if normal
                && w.start < self.at
                && !self.durable(w)
                && (w.end > self.at || written_back())
            {
                self.damage_around(w, visible, out);
            }
        }
    }
    fn damage_around(
        &self,
        w: &Write,
        visible: &impl Fn(u64) -> Bytes,
        out: &mut BTreeMap<u64, Bytes>,
    ) {
        /// 4 KiB blocks in a programming unit (16 KiB page).
        const UNIT_BLOCKS: u64 = 4;
        let span = blocks_of(w);
        let unit = span.start / UNIT_BLOCKS * UNIT_BLOCKS;
        let end = (span.end.div_ceil(UNIT_BLOCKS) * UNIT_BLOCKS)
            .min(self.caps.sectors / SECTORS_PER_BLOCK);
        let sectors_of = |block: u64| block * SECTORS_PER_BLOCK..(block + 1) * SECTORS_PER_BLOCK;
        let named = w.lba.0..w.lba.0 + w.sectors;
        for block in unit..end {
            let hit: Vec<u64> = sectors_of(block)
                .filter(|lba| !named.contains(lba) && self.pick([5, *lba, 0]).is_multiple_of(3))
                .collect();
            if hit.is_empty() {
                continue;
            }
            let drawn = out.get(&block).cloned();
            let mut content = drawn.unwrap_or_else(|| visible(block)).to_vec();
            for lba in hit {
                content[(lba % SECTORS_PER_BLOCK) as usize * SECTOR_BYTES..][..SECTOR_BYTES]
                    .copy_from_slice(&self.garbage(lba));
            }
            out.insert(block, content.into());
        }
    }
}

#[cfg(test)]
mod tests;
