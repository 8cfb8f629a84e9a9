//! The buffer cache: one cache of metadata blocks for the file system, commits and checkpoints.
//!
//! Content is reference-counted and copied on write. So an image is *taken* by cloning a reference:
//! a commit or a home write that holds a reference never sees a later change, and no handle waits
//! for the commit or the write (Linux needs frozen data and shadow waits here).
//!
//! - U1: what the running transaction makes of a block stands in `current` and nowhere else.
//! - U2: `pending` is the newest committed image until it is home (under full-first it may stay
//!   longer, track-D2); only such images go home (hazards-H5). In a journal without a log,
//!   `pending` says that `current` has to go home.
//! - U3: at most one home write of a block is in flight (`writing`); a REMAP counts as one.
//! - U4: a load changes nothing if `create` or `forget` changed the block while the load was under
//!   way.
//! - U5: a block has a `rec` (the transaction of `track.rs`) if and only if a committed image of it
//!   is pending; it stands in the checkpoint list of that `rec`.
//! - U6: a buffer is `running`, with a kind, exactly while the running transaction lists the block
//!   with that kind. So a handle that changes it again has nothing to ask the transaction.
//! - U7: `clean` has the buffers with content that nothing keeps in memory: no transaction, no way
//!   home, no load. A sweep sees only them, because a cache full of dirty buffers would be searched
//!   in vain at each load.
//! - U8: `checked` says as what the content was found right. A change by a handle keeps it, because
//!   the file system leaves a structure right that it found right; content from anywhere else
//!   clears it.

use crate::ring::LogPos;
use crate::track::{Basis, Logged, Track};
use crate::transaction::Kind;
use crate::words::WordMap;
use base::{BlockNo, Bytes, Map, Mutant, Tid, Time};
use std::collections::BTreeSet;

/// The image of a block that has to be written home.
#[derive(Clone, Debug)]
pub(crate) enum Pending {
    /// The newest committed image.
    Committed {
        image: Bytes,
        kind: Kind,
        since: Time,
        /// Where the log holds the same bytes, if home can be pointed there (`home_remap.rs`).
        source: Option<LogPos>,
    },
    /// The journal has no log: the current content.
    Current { kind: Kind, since: Time },
}

impl Pending {
    pub fn since(&self) -> Time {
        match self {
            Pending::Committed { since, .. } | Pending::Current { since, .. } => *since,
        }
    }
    pub fn kind(&self) -> Kind {
        match self {
            Pending::Committed { kind, .. } | Pending::Current { kind, .. } => *kind,
        }
    }
}

/// Whether modified bytes are tracked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tracking {
    /// Every record is a full image, or there is no log.
    Off,
    /// Journal coalition; `full_first` as in track-D2.
    On { full_first: bool },
}

/// What the transaction being committed logs of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Promise {
    /// A full image, or nothing if nothing changed.
    Full,
    /// Not known before it is composed.
    Any,
}

/// A move of a block from one checkpoint list to another.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[must_use = "the checkpoint lists have to follow (U5)"]
pub(crate) struct Refile {
    pub leave: Option<Tid>,
    pub join: Option<Tid>,
}

#[derive(Default)]
struct Buffer {
    current: Option<Bytes>,
    /// `current` was read from home while a newer image was not home yet (track-D5).
    stale: bool,
    /// As what the content was checked (U8).
    checked: Option<Checked>,
    /// Ticket of the load under way.
    loading: Option<u64>,
    /// U6.
    running: Option<Kind>,
    committing: Option<Promise>,
    pending: Option<Pending>,
    /// U5.
    rec: Option<Tid>,
    writing: bool,
    /// What was modified, while anything of the block is not home.
    track: Option<Box<Track>>,
    /// Read since the sweep passed by.
    used: bool,
    /// It stands in the list of clean buffers (U7).
    listed: bool,
}

impl Buffer {
    fn is_clean(&self) -> bool {
        let member = self.running.is_some() || self.committing.is_some();
        !member && self.pending.is_none() && !self.writing && self.loading.is_none()
    }

    /// Replaces pieces of the content (offset and bytes). Copies the content first if anything else
    /// holds a reference to it.
    fn store<'b>(&mut self, pieces: impl Iterator<Item = (usize, &'b [u8])>) {
        let content = self
            .current
            .take()
            .expect("U1: content is loaded before it is changed");
        let mut own = content.try_into_mut().unwrap_or_else(|shared| {
            rt::charge(base::cost::journal::BLOCK_COPY);
            let copy = Bytes::copy_from_slice(&shared).try_into_mut();
            copy.expect("nothing else refers to a new copy")
        });
        for (offset, bytes) in pieces {
            if let (Some(_), Some(track)) = (self.running, &mut self.track) {
                track.stored(offset, bytes.len());
            }
            own[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        self.current = Some(own.freeze());
    }
}

/// As what the file system has checked the content of a block: a number of its choice that names
/// the structure and its owner.
pub type Checked = u64;

/// The result of a look into the cache.
pub(crate) enum Look {
    /// The content.
    Hit(Bytes),
    /// Another task is loading the block: wait.
    Loading,
    /// The caller has to load it and say [`Cache::loaded`] with this ticket.
    Load(u64),
}

/// The buffer cache.
pub(crate) struct Cache {
    buffers: Map<BlockNo, Buffer>,
    /// U7.
    clean: BTreeSet<BlockNo>,
    limit: usize,
    tracking: Tracking,
    tickets: u64,
    /// The block at which the sweep goes on.
    hand: BlockNo,
}

impl Cache {
    pub fn new(limit: usize, tracking: Tracking) -> Cache {
        Cache {
            buffers: Map::default(),
            clean: BTreeSet::new(),
            limit,
            tracking,
            tickets: 0,
            hand: BlockNo(0),
        }
    }

    fn buffer(&mut self, block: BlockNo) -> &mut Buffer {
        self.buffers.entry(block).or_default()
    }

    /// Looks a block up.
    pub fn look(&mut self, block: BlockNo) -> Look {
        let ticket = self.tickets;
        let buffer = self.buffer(block);
        if let Some(bytes) = &buffer.current {
            buffer.used = true;
            return Look::Hit(bytes.clone());
        }
        if buffer.loading.is_some() {
            return Look::Loading;
        }
        buffer.stale = !buffer.is_clean();
        buffer.loading = Some(ticket);
        self.tickets += 1;
        Look::Load(ticket)
    }

    /// As what the cached content was checked.
    pub fn checked(&self, block: BlockNo) -> Option<Checked> {
        self.buffers.get(&block)?.checked
    }

    /// `content` was checked; without effect if it is not the content any more.
    pub fn note_checked(&mut self, block: BlockNo, content: &Bytes, checked: Checked) {
        if let Some(buffer) = self.buffers.get_mut(&block)
            && buffer.current.as_ref().is_some_and(|c| same(c, content))
        {
            buffer.checked = Some(checked);
        }
    }

    /// True if the content is here or on its way.
    pub fn holds(&self, block: BlockNo) -> bool {
        self.buffers
            .get(&block)
            .is_some_and(|b| b.current.is_some() || b.loading.is_some())
    }

    /// Ends a load; `None` if it failed. Without effect if the load was overtaken (U4).
    pub fn loaded(&mut self, block: BlockNo, ticket: u64, bytes: Option<Bytes>) {
        let buffer = self.buffer(block);
        if buffer.loading == Some(ticket) {
            buffer.loading = None;
            buffer.stale |= !buffer.is_clean();
            buffer.current = bytes;
            buffer.checked = None;
            buffer.used = true;
        }
        self.settle(block);
        self.sweep();
    }

    /// Replaces pieces (offset and bytes) of a block whose content is in the cache.
    pub fn modify<'b>(&mut self, block: BlockNo, pieces: impl Iterator<Item = (usize, &'b [u8])>) {
        self.buffer(block).store(pieces);
    }

    /// True if the running transaction has the block, as one of metadata.
    pub fn is_member(&self, block: BlockNo) -> bool {
        let buffer = self.buffers.get(&block);
        buffer.is_some_and(|buffer| buffer.running == Some(Kind::Metadata))
    }

    /// Gives a block new content without reading its home.
    pub fn create(&mut self, block: BlockNo, content: Bytes) {
        let buffer = self.buffer(block);
        buffer.loading = None;
        buffer.stale = false;
        let bytes = content.len();
        buffer.current = Some(content);
        buffer.checked = None;
        if let (Some(_), Some(track)) = (buffer.running, &mut buffer.track) {
            track.created(bytes);
        }
        self.sweep();
    }

    /// Makes the block one of the running transaction, before its content changes.
    pub fn join_running(&mut self, block: BlockNo, kind: Kind) {
        let tracking = self.tracking;
        let buffer = self.dirtied(block);
        if buffer.running.replace(kind).is_some() {
            return;
        }
        if let Tracking::On { full_first } = tracking {
            let track = buffer.track.get_or_insert_with(|| {
                // All of the block is home.
                Box::new(Track::new(full_first))
            });
            track.joined(buffer.current.clone().filter(|_| !buffer.stale));
        }
    }

    /// A buffer that is about to be dirty (U7).
    fn dirtied(&mut self, block: BlockNo) -> &mut Buffer {
        let buffer = self.buffers.entry(block).or_default();
        if std::mem::take(&mut buffer.listed) {
            self.clean.remove(&block);
        }
        buffer
    }

    /// No log: the current content has to go home.
    pub fn mark_dirty(&mut self, block: BlockNo, kind: Kind, now: Time) {
        let buffer = self.dirtied(block);
        let since = buffer.pending.as_ref().map_or(now, Pending::since);
        buffer.pending = Some(Pending::Current { kind, since });
    }

    /// The block was freed: its current content is gone, the committed one stays until the freeing
    /// is committed.
    pub fn forget(&mut self, block: BlockNo) {
        let buffer = self.buffer(block);
        buffer.loading = None;
        buffer.current = None;
        buffer.checked = None;
        buffer.stale = false;
        buffer.running = None;
        if let Some(track) = &mut buffer.track {
            track.forgotten();
        }
        if matches!(buffer.pending, Some(Pending::Current { .. })) {
            buffer.pending = None;
        }
        self.settle(block);
    }

    /// Takes the image of a block of the running transaction for its commit, and what its record is
    /// made from.
    pub fn take_image(&mut self, block: BlockNo) -> (Bytes, Option<Basis>) {
        let buffer = self.buffer(block);
        assert!(
            buffer.running.take().is_some(),
            "U1: block {block} belongs to the running transaction"
        );
        buffer.stale = false;
        let rec = buffer.rec;
        let basis = buffer.track.as_mut().map(|track| track.switched(rec));
        buffer.committing = Some(match &basis {
            Some(basis) if !basis.must_be_full() => Promise::Any,
            _ => Promise::Full,
        });
        let image = buffer.current.clone().expect("U1: a member has content");
        (image, basis)
    }

    /// The transaction `tid` is durable: the image waits for its way home.
    pub fn committed(
        &mut self,
        block: BlockNo,
        image: Bytes,
        tid: Tid,
        (kind, logged, changed): (Kind, Logged, &WordMap),
        now: Time,
    ) -> Refile {
        let buffer = self.buffer(block);
        let promise = buffer.committing.take();
        if logged == Logged::Unchanged {
            if let Some(track) = &mut buffer.track {
                track.unchanged(promise == Some(Promise::Full));
            }
            self.settle(block);
            return Refile::default();
        }
        if let Some(track) = &mut buffer.track {
            track.published(tid, logged, changed, buffer.writing);
        }
        let since = buffer.pending.as_ref().map_or(now, Pending::since);
        buffer.pending = Some(Pending::Committed {
            image,
            kind,
            since,
            source: None,
        });
        match buffer.rec {
            // track-R1. hazards-H2: JBD2's rule would move it.
            Some(_) if !logged.supersedes() && !rt::mutant(Mutant::RefileDeltas) => {
                Refile::default()
            }
            _ => Refile {
                leave: buffer.rec.replace(tid),
                join: Some(tid),
            },
        }
    }

    /// A freeing is durable: an older image no longer goes home.
    pub fn drop_pending(&mut self, block: BlockNo) -> Refile {
        let Some(buffer) = self.buffers.get_mut(&block) else {
            return Refile::default();
        };
        assert!(!buffer.writing, "U3: block {block} is not on its way home");
        assert!(
            buffer.committing.is_none(),
            "U5: block {block} was freed by the transaction that has just been published, so it has no image in it"
        );
        buffer.pending = None;
        let leave = buffer.rec.take();
        self.settle(block);
        Refile { leave, join: None }
    }

    /// Takes the image that has to go home, if there is one that is not on its way.
    pub fn begin_home(&mut self, block: BlockNo) -> Option<(Bytes, Kind)> {
        let tracking = self.tracking;
        let buffer = self.buffers.get_mut(&block)?;
        if buffer.writing {
            return None;
        }
        let pending = buffer.pending.as_ref()?;
        let image = match pending {
            Pending::Committed { image, .. } => image.clone(),
            Pending::Current { .. } => buffer.current.clone()?,
        };
        let kind = pending.kind();
        buffer.writing = true;
        if let (Some(track), Tracking::On { full_first }) = (&mut buffer.track, tracking) {
            track.home_begins(full_first);
        }
        Some((image, kind))
    }

    /// The log block at `source` holds the pending image of this block; `None`: no log block holds
    /// it any more, and the image has to be copied.
    pub fn set_source(&mut self, block: BlockNo, at: Option<LogPos>) {
        let pending = self.buffers.get_mut(&block).map(|b| &mut b.pending);
        if let Some(Some(Pending::Committed { source, .. })) = pending {
            *source = at;
        }
    }

    /// hazards-R13: the deliberate mistake that takes a block out of the running transaction.
    pub fn leave_running(&mut self, block: BlockNo) {
        self.buffer(block).running = None;
        self.settle(block);
    }

    /// As [`begin_home`](Self::begin_home), if home can be pointed at the log.
    pub fn begin_remap(&mut self, block: BlockNo) -> Option<(Bytes, LogPos)> {
        let buffer = self.buffers.get_mut(&block)?;
        let Some(Pending::Committed {
            image,
            source: Some(source),
            ..
        }) = &buffer.pending
        else {
            return None;
        };
        // U3. hazards-R10: an older image that is on its way would land behind the REMAP.
        if buffer.writing && !rt::mutant(Mutant::RemapInFlight) {
            return None;
        }
        assert!(
            buffer.track.is_none(),
            "home_remap-X2: a block of a coalition journal has no image in the log"
        );
        let begun = (image.clone(), *source);
        buffer.writing = true;
        Some(begun)
    }

    /// A home write of `image` has ended (track-R3).
    pub fn end_home(&mut self, block: BlockNo, image: &Bytes, ok: bool) -> Refile {
        let full_first = self.tracking == Tracking::On { full_first: true };
        let Some(buffer) = self.buffers.get_mut(&block) else {
            return Refile::default();
        };
        buffer.writing = false;
        let track = buffer.track.as_mut();
        let next = track.and_then(|track| track.home_ended(ok));
        let newest = match &buffer.pending {
            Some(Pending::Committed { image: newest, .. }) => same(newest, image),
            Some(Pending::Current { .. }) => {
                buffer.current.as_ref().is_some_and(|c| same(c, image))
            }
            None => false,
        };
        let mut refile = Refile::default();
        if ok && newest {
            // track-D2: the delta that is being committed leans on the full image at `rec`.
            let leant_on = full_first && buffer.committing == Some(Promise::Any);
            if !leant_on {
                buffer.pending = None;
                refile.leave = buffer.rec.take();
            }
        } else if let Some(next) = next.filter(|_| !full_first)
            && buffer.rec != Some(next)
        {
            refile.leave = buffer.rec.replace(next);
            refile.join = Some(next);
        }
        self.settle(block);
        refile
    }

    /// True while a home write of this block is in flight.
    pub fn is_writing(&self, block: BlockNo) -> bool {
        self.buffers.get(&block).is_some_and(|b| b.writing)
    }

    /// Blocks with a pending image that no transaction is working on, ascending.
    pub fn write_back_list(&self) -> Vec<BlockNo> {
        let idle =
            |b: &Buffer| b.pending.is_some() && b.running.is_none() && b.committing.is_none();
        let list = self.buffers.iter().filter(|(_, b)| idle(b));
        let mut list: Vec<BlockNo> = list.map(|(n, _)| *n).collect();
        list.sort_unstable();
        list
    }

    /// The earliest time at which something that could be written back became pending.
    pub fn oldest_pending(&self) -> Option<Time> {
        let idle = |b: &&Buffer| b.running.is_none() && b.committing.is_none();
        let pending = self.buffers.values().filter(idle);
        pending
            .filter_map(|b| b.pending.as_ref())
            .map(Pending::since)
            .min()
    }

    /// The content of a block that a transaction is working on: it is not durable yet.
    pub fn uncommitted(&self, block: BlockNo) -> Option<Bytes> {
        let working = |b: &&Buffer| b.running.is_some() || b.committing.is_some();
        let buffer = self.buffers.get(&block).filter(working);
        buffer.and_then(|b| b.current.clone())
    }

    /// Files the block as if recovery needed `rec` of it.
    #[cfg(test)]
    pub fn misfile(&mut self, block: BlockNo, rec: Tid) {
        self.buffer(block).rec = Some(rec);
    }

    /// Drops the content of a clean block: from now on it may be written directly, past the
    /// journal, and the cached content would become stale.
    pub fn drop_clean(&mut self, block: BlockNo) {
        if self.buffers.get(&block).is_some_and(Buffer::is_clean) {
            self.remove(block);
        }
    }

    /// True if an image waits for its way home.
    pub fn has_pending(&self, block: BlockNo) -> bool {
        self.buffers
            .get(&block)
            .is_some_and(|b| b.pending.is_some())
    }

    /// Number of buffers.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.buffers.len()
    }

    /// Drops what is not needed of a clean block any more.
    fn settle(&mut self, block: BlockNo) {
        let Some(buffer) = self.buffers.get_mut(&block) else {
            return;
        };
        debug_assert_eq!(
            buffer.rec.is_some(),
            matches!(buffer.pending, Some(Pending::Committed { .. })),
            "U5: block {block}"
        );
        if buffer.is_clean() {
            buffer.track = None;
            if buffer.current.is_none() {
                self.remove(block);
            } else if !std::mem::replace(&mut buffer.listed, true) {
                self.clean.insert(block);
            }
        }
    }

    fn remove(&mut self, block: BlockNo) {
        if self.buffers.remove(&block).is_some_and(|b| b.listed) {
            self.clean.remove(&block);
        }
    }

    /// Second chance: passes over a few clean buffers and drops those that were not read since the
    /// last sweep.
    fn sweep(&mut self) {
        const STEPS_MAX: usize = 64;
        for _ in 0..STEPS_MAX {
            if self.clean.len() <= self.limit {
                return;
            }
            let ahead = self.clean.range(self.hand..).next();
            let Some(&block) = ahead.or_else(|| self.clean.first()) else {
                return;
            };
            self.hand = block.plus(1);
            let buffer = self.buffer(block);
            assert!(buffer.is_clean(), "U7: block {block} is clean");
            if !std::mem::take(&mut buffer.used) {
                self.remove(block);
            }
        }
    }
}

/// Whether `a` and `b` are one buffer, not merely equal bytes: while a reference is held, the
/// content of a buffer cannot change.
fn same(a: &Bytes, b: &Bytes) -> bool {
    a.as_ptr() == b.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::BLOCK_BYTES;

    const B: BlockNo = BlockNo(7);
    const DELTAS: Tracking = Tracking::On { full_first: false };
    const FULL_FIRST: Tracking = Tracking::On { full_first: true };

    fn block(byte: u8) -> Bytes {
        vec![byte; BLOCK_BYTES].into()
    }

    fn content(cache: &mut Cache) -> u8 {
        match cache.look(B) {
            Look::Hit(bytes) => bytes[0],
            _ => panic!("cached"),
        }
    }

    fn load(c: &mut Cache, byte: u8) {
        let Look::Load(ticket) = c.look(B) else {
            panic!("miss")
        };
        c.loaded(B, ticket, Some(block(byte)));
    }

    fn modify(c: &mut Cache, block: BlockNo, at: usize, byte: u8) {
        c.modify(block, std::iter::once((at, &[byte][..])));
    }

    /// A transaction that stores one byte.
    fn store(c: &mut Cache, at: usize, byte: u8) -> (Bytes, Option<Basis>) {
        c.join_running(B, Kind::Metadata);
        modify(c, B, at, byte);
        c.take_image(B)
    }

    fn changed(at: usize) -> WordMap {
        let mut map = WordMap::NONE;
        map.mark(at, 1);
        map
    }

    fn publish(c: &mut Cache, image: Bytes, tid: u32, logged: Logged, words: WordMap) -> Refile {
        let record = (Kind::Metadata, logged, &words);
        c.committed(B, image, Tid(tid), record, Time(0))
    }

    /// Stores a byte and logs it in `tid`.
    fn log(c: &mut Cache, tid: u32, at: usize, logged: Logged) -> Refile {
        let (image, _) = store(c, at, tid as u8);
        publish(c, image, tid, logged, changed(at))
    }

    fn refile(leave: Option<u32>, join: Option<u32>) -> Refile {
        Refile {
            leave: leave.map(Tid),
            join: join.map(Tid),
        }
    }

    #[test]
    fn image_survives_a_later_change() {
        let mut c = Cache::new(10, Tracking::Off);
        c.join_running(B, Kind::Metadata);
        c.create(B, block(1));
        let (image, basis) = c.take_image(B);
        assert!(basis.is_none());
        modify(&mut c, B, 0, 2);
        assert_eq!((image[0], content(&mut c)), (1, 2));
        let first = publish(&mut c, image, 4, Logged::Full, WordMap::ALL);
        assert_eq!(first, refile(None, Some(4)));
        let (home, _) = c.begin_home(B).expect("pending");
        assert_eq!(home[0], 1);
        assert!(c.begin_home(B).is_none(), "U3");
        assert_eq!(c.end_home(B, &home, true), refile(Some(4), None));
        assert!(c.begin_home(B).is_none());
    }

    #[test]
    fn home_write_of_an_older_image_leaves_the_newer_pending() {
        let mut c = Cache::new(10, Tracking::Off);
        load(&mut c, 1);
        assert_eq!(log(&mut c, 1, 0, Logged::Full), refile(None, Some(1)));
        let (home, _) = c.begin_home(B).expect("pending");
        assert_eq!(log(&mut c, 2, 0, Logged::Full), refile(Some(1), Some(2)));
        assert_eq!(c.end_home(B, &home, true), Refile::default());
        assert_eq!(c.begin_home(B).expect("still pending").0[0], 2);
    }

    #[test]
    fn delta_stays_with_the_oldest_transaction_and_others_move() {
        let mut c = Cache::new(10, DELTAS);
        load(&mut c, 0);
        assert_eq!(log(&mut c, 1, 0, Logged::Delta), refile(None, Some(1)));
        assert_eq!(
            log(&mut c, 2, 64, Logged::Delta),
            Refile::default(),
            "track-R1"
        );
        let (image, basis) = store(&mut c, 128, 3);
        let basis = basis.expect("tracked");
        assert_eq!((basis.rec, basis.must_be_full()), (Some(Tid(1)), false));
        assert_eq!(
            basis.since_home.runs(BLOCK_BYTES),
            [0..8, 64..72],
            "track-D7"
        );
        assert_eq!(basis.marked, changed(128), "track-D4");
        let base = basis.base.expect("known");
        assert_eq!((base[64], base[128], image[128]), (2, 0, 3), "track-D5");
        let moved = publish(&mut c, image, 3, Logged::Cumulative, changed(128));
        assert_eq!(moved, refile(Some(1), Some(3)), "track-R2");
        assert_eq!(log(&mut c, 4, 0, Logged::Full), refile(Some(3), Some(4)));
        let (home, _) = c.begin_home(B).expect("pending");
        assert_eq!(
            c.end_home(B, &home, true),
            refile(Some(4), None),
            "track-R3"
        );
        assert!(
            store(&mut c, 0, 9)
                .1
                .expect("tracked")
                .since_home
                .is_empty()
        );
    }

    #[test]
    fn home_write_of_an_older_image_moves_to_the_first_record_after_it() {
        let mut c = Cache::new(10, DELTAS);
        load(&mut c, 0);
        assert_eq!(log(&mut c, 1, 0, Logged::Delta), refile(None, Some(1)));
        // Switched before the home write begins, published while it is in flight.
        let (second, _) = store(&mut c, 64, 2);
        let (home, _) = c.begin_home(B).expect("pending");
        assert_eq!((home[0], home[64]), (1, 0), "track-D1");
        let stays = publish(&mut c, second, 2, Logged::Delta, changed(64));
        assert_eq!(stays, Refile::default());
        assert_eq!(log(&mut c, 3, 128, Logged::Delta), Refile::default());
        let (image, basis) = store(&mut c, 256, 4);
        let unsaved = basis.expect("tracked").since_home;
        assert_eq!(
            unsaved.runs(BLOCK_BYTES),
            [0..8, 64..72, 128..136],
            "track-D7: not yet complete"
        );
        assert_eq!(
            c.end_home(B, &home, true),
            refile(Some(1), Some(2)),
            "track-R3"
        );
        let _ = publish(&mut c, image, 4, Logged::Unchanged, WordMap::NONE);
        let basis = store(&mut c, 512, 5).1.expect("tracked");
        assert_eq!(
            basis.since_home.runs(BLOCK_BYTES),
            [64..72, 128..136],
            "track-D7"
        );
        assert_eq!(basis.rec, Some(Tid(2)));
    }

    #[test]
    fn failed_home_write_changes_nothing() {
        let mut c = Cache::new(10, DELTAS);
        load(&mut c, 0);
        let _ = log(&mut c, 1, 0, Logged::Delta);
        let (home, _) = c.begin_home(B).expect("pending");
        let _ = log(&mut c, 2, 64, Logged::Delta);
        assert_eq!(c.end_home(B, &home, false), Refile::default());
        let basis = store(&mut c, 128, 3).1.expect("tracked");
        assert_eq!(basis.since_home.runs(BLOCK_BYTES), [0..8, 64..72]);
        assert_eq!(basis.rec, Some(Tid(1)));
    }

    #[test]
    fn full_first_after_load_and_after_each_home_write() {
        let mut c = Cache::new(10, FULL_FIRST);
        load(&mut c, 0);
        let (image, basis) = store(&mut c, 0, 1);
        assert!(basis.expect("tracked").full, "track-D2: after a load");
        assert_eq!(
            publish(&mut c, image, 1, Logged::Full, changed(0)),
            refile(None, Some(1))
        );
        let (image, basis) = store(&mut c, 0, 2);
        assert!(!basis.expect("tracked").full);
        let (home, _) = c.begin_home(B).expect("pending");
        assert_eq!(
            c.end_home(B, &home, true),
            Refile::default(),
            "track-D2: the delta being committed leans on the full image"
        );
        assert_eq!(
            publish(&mut c, image, 2, Logged::Delta, changed(0)),
            Refile::default()
        );
        let (image, basis) = store(&mut c, 0, 3);
        assert!(basis.expect("tracked").full, "track-D2: a home write began");
        assert_eq!(
            publish(&mut c, image, 3, Logged::Full, changed(0)),
            refile(Some(1), Some(3))
        );
        let (home, _) = c.begin_home(B).expect("pending");
        let (image, basis) = store(&mut c, 0, 3);
        assert!(basis.expect("tracked").full);
        assert_eq!(c.end_home(B, &home, true), refile(Some(3), None));
        let _ = publish(&mut c, image, 4, Logged::Unchanged, WordMap::NONE);
        assert!(
            store(&mut c, 0, 5).1.expect("tracked").full,
            "track-D8: still owed"
        );
    }

    #[test]
    fn older_home_write_leaves_the_full_image_needed() {
        let mut c = Cache::new(10, FULL_FIRST);
        load(&mut c, 0);
        let _ = log(&mut c, 1, 0, Logged::Full);
        let (image, _) = store(&mut c, 8, 2);
        let (home, _) = c.begin_home(B).expect("pending");
        assert_eq!(
            publish(&mut c, image, 2, Logged::Delta, changed(8)),
            Refile::default()
        );
        assert_eq!(c.end_home(B, &home, true), Refile::default(), "track-D2");
    }

    #[test]
    fn made_anew_is_logged_in_full_and_differs_from_home_everywhere() {
        let mut c = Cache::new(10, DELTAS);
        load(&mut c, 1);
        c.join_running(B, Kind::Metadata);
        modify(&mut c, B, 0, 2);
        c.create(B, block(3));
        modify(&mut c, B, 9, 4);
        let (image, basis) = c.take_image(B);
        let basis = basis.expect("tracked");
        assert!(basis.must_be_full() && basis.base.is_none(), "track-D5");
        let _ = publish(&mut c, image, 1, Logged::Full, WordMap::ALL);
        let basis = store(&mut c, 0, 5).1.expect("tracked");
        assert_eq!(basis.since_home, WordMap::ALL, "track-D7");
    }

    #[test]
    fn content_read_while_a_newer_image_is_pending_is_no_base() {
        let mut c = Cache::new(10, DELTAS);
        load(&mut c, 0);
        let _ = log(&mut c, 1, 0, Logged::Delta);
        c.join_running(B, Kind::Metadata);
        c.forget(B);
        load(&mut c, 0);
        let basis = store(&mut c, 8, 2).1.expect("tracked");
        assert!(basis.must_be_full(), "track-D5");
    }

    #[test]
    fn freed_block_leaves_its_list() {
        let mut c = Cache::new(10, DELTAS);
        load(&mut c, 0);
        let _ = log(&mut c, 1, 0, Logged::Delta);
        c.forget(B);
        assert_eq!(c.drop_pending(B), refile(Some(1), None));
        assert_eq!((c.len(), c.drop_pending(B)), (0, Refile::default()));
    }

    #[test]
    fn overtaken_load_is_ignored() {
        let mut c = Cache::new(10, Tracking::Off);
        let Look::Load(ticket) = c.look(B) else {
            panic!("miss")
        };
        assert!(matches!(c.look(B), Look::Loading));
        c.create(B, block(3));
        c.loaded(B, ticket, Some(block(9)));
        assert_eq!(content(&mut c), 3);
        c.forget(B);
        assert_eq!(c.len(), 0);
    }

    #[test]
    fn dirty_buffers_take_no_place_of_clean_ones() {
        let mut c = Cache::new(8, Tracking::Off);
        for n in 100..200 {
            c.join_running(BlockNo(n), Kind::Metadata);
            c.create(BlockNo(n), block(1));
        }
        let load_at = |c: &mut Cache, n| {
            if let Look::Load(ticket) = c.look(BlockNo(n)) {
                c.loaded(BlockNo(n), ticket, Some(block(0)));
            }
        };
        (0..8).for_each(|n| load_at(&mut c, n));
        assert!((0..8).all(|n| c.holds(BlockNo(n))), "U7");
        // A buffer that becomes dirty leaves the clean ones, and comes back with its image home.
        c.join_running(BlockNo(0), Kind::Metadata);
        modify(&mut c, BlockNo(0), 0, 1);
        (8..200).for_each(|n| load_at(&mut c, n));
        assert!(c.holds(BlockNo(0)), "U7");
        let (image, _) = c.take_image(BlockNo(0));
        let record = (Kind::Metadata, Logged::Full, &WordMap::ALL);
        let _ = c.committed(BlockNo(0), image, Tid(1), record, Time(0));
        let (home, _) = c.begin_home(BlockNo(0)).expect("pending");
        let _ = c.end_home(BlockNo(0), &home, true);
        (200..300).for_each(|n| load_at(&mut c, n));
        assert!(!c.holds(BlockNo(0)), "U7");
        assert!(c.len() <= 100 + 9, "{} buffers", c.len());
    }

    #[test]
    fn a_member_is_one_of_the_running_transaction_with_its_kind() {
        let mut c = Cache::new(10, Tracking::Off);
        load(&mut c, 1);
        assert!(!c.is_member(B), "U6: it is no member");
        c.join_running(B, Kind::Data);
        assert!(!c.is_member(B), "U6: it is one of data");
        c.join_running(B, Kind::Metadata);
        assert!(c.is_member(B));
        let _ = c.take_image(B);
        assert!(!c.is_member(B), "U6: that transaction is over");
        c.join_running(B, Kind::Metadata);
        c.forget(B);
        assert!(!c.is_member(B), "U6: it was freed");
    }

    #[test]
    fn what_was_checked_holds_for_that_content_and_its_changes() {
        let mut c = Cache::new(10, Tracking::Off);
        load(&mut c, 1);
        assert_eq!(c.checked(B), None);
        let Look::Hit(old) = c.look(B) else {
            panic!("cached")
        };
        c.join_running(B, Kind::Metadata);
        modify(&mut c, B, 0, 2);
        c.note_checked(B, &old, 7);
        assert_eq!(c.checked(B), None, "U8: that was another content");
        let Look::Hit(now) = c.look(B) else {
            panic!("cached")
        };
        c.note_checked(B, &now, 7);
        modify(&mut c, B, 0, 3);
        assert_eq!(c.checked(B), Some(7), "U8");
        c.create(B, block(4));
        assert_eq!(c.checked(B), None, "U8: made anew");
        c.note_checked(B, &c.buffers[&B].current.clone().expect("made"), 7);
        c.forget(B);
        assert_eq!(c.checked(B), None, "U8: freed");
        load(&mut c, 5);
        assert_eq!(c.checked(B), None, "U8: read again");
    }

    #[test]
    fn stays_near_its_limit_and_keeps_dirty_buffers() {
        let mut c = Cache::new(8, Tracking::Off);
        c.create(BlockNo(0), block(1));
        c.mark_dirty(BlockNo(0), Kind::Metadata, Time(0));
        for n in 1..200 {
            let Look::Load(t) = c.look(BlockNo(n)) else {
                panic!("miss")
            };
            c.loaded(BlockNo(n), t, Some(block(0)));
        }
        assert!(c.len() <= 16, "{} buffers", c.len());
        assert!(c.holds(BlockNo(0)));
    }
}
