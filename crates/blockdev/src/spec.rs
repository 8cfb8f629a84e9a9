//! The `spec` adversary: the worst state that a device may leave behind, judged by its [`Caps`]
//! alone.
//!
//! A [`Ledger`] remembers every write whose durability is open (within its limit of memory: see
//! [`Ledger::new`]), with its time span and the content it replaced. [`Ledger::draw`] turns the
//! ledger into one legal state of the medium at a cut.
//!
//! | area | what the adversary may do | what must survive |
//! |---|---|---|
//! | write that starts at or after the cut | nothing: it never happened | the content before it |
//! | normal write in flight | each sector old, new or garbage | sectors it does not name |
//! | completed write, not flushed | each sector any version since the last durable one, or garbage (eviction in flight) | sectors it does not name |
//! | normal write in flight, or completed and not flushed, or write in flight with the cache off; without `no_collateral` | garbage in sectors of the same 16 KiB, durable ones included | all other sectors |
//! | completed write, covered by a completed flush that started after it | nothing | the write |
//! | completed FUA write | nothing | the write, over all older versions |
//! | write in flight, cache off | each sector old, new or garbage | sectors it does not name |
//! | completed write, cache off | nothing | the write |
//! | FUA write in flight, `reliable_granule = g` | each granule of `g` bytes old or new | no garbage in its sectors |
//! | normal write, `tear_granule = g` | each granule of `g` bytes old or new | no garbage in its sectors |
//! | write of at most `atomic_write_bytes`, aligned to its size | all old or all new | no mixture |
//! | discard, not flushed | each sector old or zeros | sectors it does not name |
//! | REMAP in flight, or completed and not flushed | the whole batch as one granule: all its homes (of a move its sources too), or none of them | no garbage in its sectors, no part of a batch |
//! | completed REMAP, covered by a flush that started after it, or FUA, or cache off | nothing | the batch, over all older versions |
//! | pack in flight, `prefix` | it was executed up to some entry: those before it as completed writes of their kind, that entry as a write in flight, those after it not at all | header order |
//! | pack in flight, `any-subset` | each entry as a write of its own | each entry's own promise |
//! | `cache_fifo` | cached writes were written back up to one of them, in order of arrival; that one as without FIFO, those after it not at all | those before it, but for a granule that a later write replaced in the cache before its turn came |
//! | barrier | if a cached write that began after its end left anything on the medium | all cached writes completed before its start |
//!
//! Flushed and FUA writes need no order, because they survive in any case. FUA writes bypass the
//! cache, so neither FIFO nor barriers hold them back; discards are not held back either.
//!
//! A REMAP is a write of what its sources held when it began, to all its homes at once, and for a
//! move also the discard of its sources; so a batch may survive whose sources were never written to
//! the medium. It has one fate: one turn in the order of a FIFO cache, it is replaced in the cache
//! only when later writes have replaced all of it, and it lies on one side of every barrier. For
//! each sector, the batch is one version among others: a later write to one of its homes may
//! survive without the batch (the other homes are old), and the batch without the later write. But
//! of the sectors whose newest kept version is the batch, it shows in all or in none.
//!
//! Invariants:
//! - I1: a sector without an open write keeps its content (but for collateral damage where the Caps
//!   allow it).
//! - I2: a drawn sector is one of its versions since the last durable one, or garbage where the
//!   table says so.
//! - I3: with equal history, cut and seed the draw is equal, whenever [`Ledger::advance`] was
//!   called in between.
//! - I4: every state that the table allows is drawn by some seed, collateral damage aside.
//! - I5: the parts of a REMAP have one fate (remap-S4): they are entered, decided, durable and
//!   forgotten together.

use crate::Caps;
use base::{Bytes, Lba, SECTORS_PER_BLOCK, Time};
use draw::Draw;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

mod choice;
mod cut;
mod draw;
mod enumerate;
mod exact;
mod legal;
mod mood;
mod order;
mod prune;

pub use choice::{Bound, Choice, ChoiceError, Mode};
pub(crate) use cut::{Change, Touched};
pub(crate) use draw::{new_block, new_run};
pub use enumerate::{Counted, SETTINGS_MAX};
pub(crate) use enumerate::{Cut, enumerate};
pub use exact::{Exact, Form, Named, Queue, Rest};
pub(crate) use prune::{Group, Pruner};

/// Chooses how a power cut is modelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adversary {
    /// A cut leaves what this project's model of the device leaves.
    Own,
    /// A cut leaves the worst that the device's Caps leave open.
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
    /// Non-volatile at completion, without a promise about what a cut in flight leaves (cache
    /// switched off).
    Through,
    /// Zeros from now on, as volatile as a normal write.
    Discard,
    /// A part of a REMAP: a home with its new content, or a source that is discarded (no new
    /// content). Entered by [`Ledger::remap`] only.
    Remap {
        /// Non-volatile at completion; else as a normal write.
        durable: bool,
    },
}

impl Kind {
    /// True if completion means non-volatile.
    pub fn is_durable(self) -> bool {
        matches!(
            self,
            Kind::Fua | Kind::Through | Kind::Remap { durable: true }
        )
    }

    /// True for a part of a REMAP.
    pub fn is_remap(self) -> bool {
        matches!(self, Kind::Remap { .. })
    }

    /// True if the write goes through the cache, and so is subject to the cache's order.
    fn is_cached(self) -> bool {
        matches!(self, Kind::Normal | Kind::Remap { durable: false })
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
    /// The content before it of every 4 KiB block it touches, as (block number, 4096 bytes),
    /// ascending; a block that is missing held zeros.
    pub prev: Vec<(u64, Bytes)>,
}

/// The fate of a write at a cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WriteFate {
    /// It was non-volatile.
    Durable,
    /// It was open, and all of it is there.
    Kept,
    /// It was open, and nothing of it is there.
    Lost,
    /// It was open, and parts of it are there; sectors of the device.
    Torn {
        /// Sectors that are there.
        kept: Vec<Range<u64>>,
        /// Sectors that hold garbage.
        garbage: Vec<Range<u64>>,
    },
    /// It was open, and all its sectors hold garbage.
    Garbage,
}

#[derive(Clone, Copy, Debug)]
struct Flush {
    start: Time,
    end: Time,
}

/// A write in the ledger.
#[derive(Clone, Debug)]
struct Entry {
    /// Its number in the order of entry.
    id: u64,
    /// The number by which the cut decides about the entry: its own, or that of the first part of
    /// its REMAP (I5).
    lead: u64,
    write: Arc<Write>,
    /// Fingerprints of the blocks that it touches, before and after it; empty if they are not
    /// known.
    prints: Vec<(u64, u64)>,
    /// Its pack, and its place in it.
    pack: Option<(u64, usize)>,
    /// True if it is covered by a flush that the ledger has forgotten.
    flushed: bool,
}

impl Entry {
    /// True if the cut decides about this write: true for every one except the second and later
    /// parts of a REMAP.
    fn leads(&self) -> bool {
        self.lead == self.id
    }

    /// The place of the write that the cut decides about: this one at `place`, or the first part of
    /// its REMAP.
    fn lead_place(&self, place: usize) -> usize {
        place - (self.id - self.lead) as usize
    }
}

/// Cached writes completed by `start` reach the medium before those that begin at or after `end`.
#[derive(Clone, Copy, Debug)]
struct Barrier {
    start: Time,
    end: Time,
}

/// The writes whose durability is open. Times of calls do not decrease.
#[derive(Clone, Debug)]
pub struct Ledger {
    entries: VecDeque<Entry>,
    flushes: VecDeque<Flush>,
    barriers: VecDeque<Barrier>,
    next_id: u64,
    bytes: u64,
    limit: u64,
}

impl Ledger {
    /// An empty ledger. When open writes keep more than `limit_bytes` of old and new content, the
    /// oldest completed ones count as durable, so that memory stays bounded.
    pub fn new(limit_bytes: u64) -> Ledger {
        Ledger {
            entries: VecDeque::new(),
            flushes: VecDeque::new(),
            barriers: VecDeque::new(),
            next_id: 0,
            bytes: 0,
            limit: limit_bytes,
        }
    }
    /// Enters a write. Writes are entered in the order in which they become visible to reads.
    pub fn write(&mut self, write: impl Into<Arc<Write>>) {
        self.enter(write.into(), None, Vec::new());
    }
    /// Enters the writes of one packed command, in their order; all have the span of the command.
    /// At the draw, [`Caps::packed`] says what a cut inside it leaves.
    pub fn pack(&mut self, writes: Vec<Write>) {
        self.pack_shared(writes.into_iter().map(Arc::new).collect());
    }
    /// As [`Ledger::pack`], for writes that the caller keeps as well.
    pub fn pack_shared(&mut self, writes: Vec<Arc<Write>>) {
        let pack = self.next_id;
        for (place, write) in writes.into_iter().enumerate() {
            self.enter(write, Some((pack, place)), Vec::new());
        }
    }
    /// Enters the parts of one REMAP, which have its span and [`Kind::Remap`] and do not overlap.
    /// Any cut keeps all of them or none.
    ///
    /// # Panics
    /// I5: if they are something else.
    pub fn remap(&mut self, parts: Vec<Write>) {
        self.remap_shared(parts.into_iter().map(Arc::new).collect());
    }
    /// As [`Ledger::remap`], for writes that the caller keeps as well.
    pub fn remap_shared(&mut self, parts: Vec<Arc<Write>>) {
        let first = self.next_id;
        for (place, part) in parts.into_iter().enumerate() {
            self.enter(part, Some((first, place)), Vec::new());
        }
    }
    /// The number that the next write gets.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id
    }
    /// Enters a write whose blocks have these fingerprints before and after it; for a pack or a
    /// REMAP with the number of its first write and the place in it.
    pub(crate) fn enter(
        &mut self,
        write: Arc<Write>,
        group: Option<(u64, usize)>,
        prints: Vec<(u64, u64)>,
    ) {
        self.bytes += weight(&write);
        let remap = write.kind.is_remap();
        let lead = match group {
            Some((first, _)) if remap => first,
            _ => self.next_id,
        };
        if let Some(front) = self.entries.back().filter(|_| lead != self.next_id) {
            let span = |w: &Write| (w.kind, w.start, w.end);
            assert!(
                front.lead == lead && span(&front.write) == span(&write),
                "I5: the parts of a REMAP are entered together"
            );
        }
        self.entries.push_back(Entry {
            id: self.next_id,
            lead,
            write,
            prints,
            pack: group.filter(|_| !remap),
            flushed: false,
        });
        self.next_id += 1;
    }
    /// Enters a flush: writes completed by `start` are durable from `end` on.
    pub fn flush(&mut self, start: Time, end: Time) {
        self.flushes.push_back(Flush { start, end });
    }
    /// Enters a cache barrier.
    pub fn barrier(&mut self, start: Time, end: Time) {
        self.barriers.push_back(Barrier { start, end });
    }
    /// Number of writes whose durability is open.
    pub fn open_writes(&self) -> usize {
        self.entries.iter().filter(|e| !e.flushed).count()
    }
    /// Forgets writes whose fate no cut at or after `now` can change.
    pub fn advance(&mut self, now: Time) {
        while self.flushes.front().is_some_and(|f| f.end <= now) {
            let Some(flush) = self.flushes.pop_front() else {
                break;
            };
            self.forget_flushed(flush);
        }
        let mut forgotten = None;
        while let Some(front) = self.entries.front() {
            let durable = front.flushed || front.write.kind.is_durable() || self.bytes > self.limit;
            // I5: a REMAP is forgotten as a whole.
            let durable = durable || forgotten == Some(front.lead);
            if !durable || front.write.end > now {
                break;
            }
            forgotten = Some(front.lead);
            self.bytes -= weight(&front.write);
            self.entries.pop_front();
        }
        if self.barriers.is_empty() {
            return;
        }
        // A barrier without an open write before it orders nothing.
        let oldest = self.entries.iter().map(|e| e.write.end).min();
        let orders = |b: &Barrier| b.end > now || oldest.is_some_and(|end| end <= b.start);
        while self.barriers.front().is_some_and(|b| !orders(b)) {
            self.barriers.pop_front();
        }
    }
    /// Notes that what the flush covers is durable. A write stays in the ledger while an older one
    /// is open that it may have replaced.
    fn forget_flushed(&mut self, flush: Flush) {
        let mut kept_open = false;
        let mut bytes = 0;
        self.entries.retain_mut(|e| {
            e.flushed |= e.write.end <= flush.start;
            kept_open |= !e.flushed;
            let keep = !e.flushed || kept_open;
            bytes += if keep { weight(&e.write) } else { 0 };
            keep
        });
        self.bytes = bytes;
    }
    /// One legal state at the cut: the 4 KiB blocks that have open sectors, with their content,
    /// ascending. All other blocks are as they were. `visible` gives the content of a block as
    /// reads see it after all writes of the ledger.
    pub fn draw(
        &self,
        at: Time,
        seed: u64,
        caps: &Caps,
        visible: impl Fn(u64) -> Bytes,
    ) -> Vec<(u64, Bytes)> {
        self.state(&Draw::new(self, at, seed, caps), visible)
    }
    /// The state at the cut if every open write is lost, in the form of [`Ledger::draw`].
    pub fn lost(&self, at: Time, caps: &Caps, visible: impl Fn(u64) -> Bytes) -> Vec<(u64, Bytes)> {
        self.state(&Draw::lost(self, at, caps), visible)
    }
    fn state(&self, draw: &Draw<'_>, visible: impl Fn(u64) -> Bytes) -> Vec<(u64, Bytes)> {
        let mut out: BTreeMap<u64, Bytes> = BTreeMap::new();
        for (block, writes) in self.by_block() {
            out.insert(block, draw.block(block, &writes, &visible));
        }
        draw.collateral(&visible, &mut out);
        out.into_iter().collect()
    }
    /// The open writes of each block, in order, as places in `entries`.
    fn by_block(&self) -> BTreeMap<u64, Vec<usize>> {
        let mut map: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for w in self.entries.iter().map(|e| &*e.write) {
            match w.kind {
                // A discard of blocks that held zeros changes nothing.
                Kind::Discard => map.extend(w.prev.iter().map(|(block, _)| (*block, Vec::new()))),
                _ => map.extend(blocks_of(w).map(|block| (block, Vec::new()))),
            }
        }
        for (i, e) in self.entries.iter().enumerate() {
            map.range_mut(blocks_of(&e.write))
                .for_each(|(_, list)| list.push(i));
        }
        map
    }
}

/// Bytes of content that an open write keeps in memory; a discard of blocks that held zeros keeps
/// none.
fn weight(w: &Write) -> u64 {
    let new: usize = w.new.iter().map(Bytes::len).sum();
    let prev: usize = w.prev.iter().map(|(_, bytes)| bytes.len()).sum();
    (new + prev) as u64 + 64
}

fn blocks_of(w: &Write) -> Range<u64> {
    w.lba.0 / SECTORS_PER_BLOCK..(w.lba.0 + w.sectors).div_ceil(SECTORS_PER_BLOCK)
}

#[cfg(test)]
mod tests;
