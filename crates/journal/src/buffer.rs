//! The buffer cache: one cache of metadata blocks for the file system, commits and checkpoints.
//!
//! Content is reference-counted and copied on write. So an image is *taken* by cloning a reference: a commit or a home write
//! that holds one never sees a later change, and nobody waits for it (Linux needs frozen data and shadow waits here).
//!
//! - U1: a buffer of the running transaction has its content in `current`, and `current` alone.
//! - U2: `pending` is the newest committed image that is not home; only such images go home (H5). Without a log it says
//!   that `current` has to go home.
//! - U3: at most one home write of a block is in flight (`writing`).
//! - U4: a load that was overtaken by `create` or `forget` changes nothing.

use crate::transaction::Kind;
use base::{BlockNo, Bytes, Tid, Time};
use std::collections::BTreeMap;

/// What has to be written home.
#[derive(Clone, Debug)]
pub(crate) enum Pending {
    /// The image that transaction `tid` committed.
    Committed {
        image: Bytes,
        tid: Tid,
        kind: Kind,
        since: Time,
    },
    /// No log: whatever is current.
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

#[derive(Default)]
struct Buffer {
    current: Option<Bytes>,
    /// Ticket of the load under way.
    loading: Option<u64>,
    running: bool,
    committing: bool,
    pending: Option<Pending>,
    writing: bool,
    /// Read since the sweep passed by.
    used: bool,
}

impl Buffer {
    fn is_clean(&self) -> bool {
        let member = self.running || self.committing;
        !member && self.pending.is_none() && !self.writing && self.loading.is_none()
    }
}

/// The result of a look into the cache.
pub(crate) enum Look {
    /// The content.
    Hit(Bytes),
    /// Somebody is loading it: wait.
    Loading,
    /// The caller has to load it and say [`Cache::loaded`] with this ticket.
    Load(u64),
}

/// The cache.
pub(crate) struct Cache {
    buffers: BTreeMap<BlockNo, Buffer>,
    limit: usize,
    tickets: u64,
    /// Where the sweep goes on.
    hand: BlockNo,
}

impl Cache {
    pub fn new(limit: usize) -> Cache {
        Cache {
            buffers: BTreeMap::new(),
            limit,
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
        buffer.loading = Some(ticket);
        self.tickets += 1;
        Look::Load(ticket)
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
            buffer.current = bytes;
            buffer.used = true;
        }
        self.drop_if_empty(block);
        self.sweep();
    }

    /// Replaces bytes of a block whose content is here. Copies it if anybody else holds the content.
    pub fn modify(&mut self, block: BlockNo, offset: usize, bytes: &[u8]) {
        let buffer = self.buffer(block);
        let content = buffer
            .current
            .take()
            .expect("U1: content is loaded before it is changed");
        let range = offset..offset + bytes.len();
        buffer.current = Some(match content.try_into_mut() {
            Ok(mut own) => {
                own[range].copy_from_slice(bytes);
                own.freeze()
            }
            Err(shared) => {
                rt::charge(crate::cost::BLOCK_COPY);
                let mut copy = shared.to_vec();
                copy[range].copy_from_slice(bytes);
                copy.into()
            }
        });
    }

    /// Gives a block new content without reading its home.
    pub fn create(&mut self, block: BlockNo, content: Bytes) {
        let buffer = self.buffer(block);
        buffer.loading = None;
        buffer.current = Some(content);
        self.sweep();
    }

    /// Makes the block one of the running transaction.
    pub fn join_running(&mut self, block: BlockNo) {
        self.buffer(block).running = true;
    }

    /// No log: the current content has to go home.
    pub fn mark_dirty(&mut self, block: BlockNo, kind: Kind, now: Time) {
        let buffer = self.buffer(block);
        let since = buffer.pending.as_ref().map_or(now, Pending::since);
        buffer.pending = Some(Pending::Current { kind, since });
    }

    /// The block was freed: its current content is gone, the committed one stays until the freeing is committed.
    pub fn forget(&mut self, block: BlockNo) {
        let buffer = self.buffer(block);
        buffer.loading = None;
        buffer.current = None;
        buffer.running = false;
        if matches!(buffer.pending, Some(Pending::Current { .. })) {
            buffer.pending = None;
        }
        self.drop_if_empty(block);
    }

    /// Takes the image of a block of the running transaction for its commit.
    pub fn take_image(&mut self, block: BlockNo) -> Bytes {
        let buffer = self.buffer(block);
        assert!(
            buffer.running,
            "U1: block {block} belongs to the running transaction"
        );
        buffer.running = false;
        buffer.committing = true;
        buffer.current.clone().expect("U1: a member has content")
    }

    /// The transaction is durable: its image waits for its way home. Returns the transaction that the block waited for so far.
    pub fn committed(
        &mut self,
        block: BlockNo,
        image: Bytes,
        tid: Tid,
        kind: Kind,
        now: Time,
    ) -> Option<Tid> {
        let buffer = self.buffer(block);
        buffer.committing = false;
        let since = buffer.pending.as_ref().map_or(now, Pending::since);
        let new = Pending::Committed {
            image,
            tid,
            kind,
            since,
        };
        match buffer.pending.replace(new) {
            Some(Pending::Committed { tid, .. }) => Some(tid),
            _ => None,
        }
    }

    /// A freeing is durable: an older image no longer goes home. Returns the transaction it waited for.
    pub fn drop_pending(&mut self, block: BlockNo, freed_in: Tid) -> Option<Tid> {
        let buffer = self.buffers.get_mut(&block)?;
        assert!(!buffer.writing, "U3: block {block} is not on its way home");
        let dropped = match &buffer.pending {
            Some(Pending::Committed { tid, .. }) if !tid.geq(freed_in) => Some(*tid),
            _ => None,
        };
        if dropped.is_some() {
            buffer.pending = None;
        }
        self.drop_if_empty(block);
        dropped
    }

    /// Takes the image that has to go home, if there is one that is not on its way.
    pub fn begin_home(&mut self, block: BlockNo) -> Option<(Bytes, Kind)> {
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
        Some((image, kind))
    }

    /// A home write of `image` has ended. If it succeeded and is still the newest, nothing is pending any more; returns the
    /// transaction that waited for it.
    pub fn end_home(&mut self, block: BlockNo, image: &Bytes, ok: bool) -> Option<Tid> {
        let buffer = self.buffers.get_mut(&block)?;
        buffer.writing = false;
        let mut done = None;
        let newest = match &buffer.pending {
            Some(Pending::Committed {
                image: newest, tid, ..
            }) => {
                done = Some(*tid);
                same(newest, image)
            }
            Some(Pending::Current { .. }) => {
                buffer.current.as_ref().is_some_and(|c| same(c, image))
            }
            None => false,
        };
        if ok && newest {
            buffer.pending = None;
        } else {
            done = None;
        }
        self.drop_if_empty(block);
        done
    }

    /// True while a home write of this block is in flight.
    pub fn is_writing(&self, block: BlockNo) -> bool {
        self.buffers.get(&block).is_some_and(|b| b.writing)
    }

    /// Blocks with something pending that no transaction is working on, ascending.
    pub fn write_back_list(&self) -> Vec<BlockNo> {
        let idle = |b: &Buffer| b.pending.is_some() && !b.running && !b.committing;
        let list = self.buffers.iter().filter(|(_, b)| idle(b));
        list.map(|(n, _)| *n).collect()
    }

    /// The earliest time at which something that could be written back became pending.
    pub fn oldest_pending(&self) -> Option<Time> {
        let idle = |b: &&Buffer| !b.running && !b.committing;
        let pending = self.buffers.values().filter(idle);
        pending
            .filter_map(|b| b.pending.as_ref())
            .map(Pending::since)
            .min()
    }

    /// The content, if it is here.
    #[cfg(test)]
    pub fn current(&self, block: BlockNo) -> Option<Bytes> {
        self.buffers.get(&block).and_then(|b| b.current.clone())
    }

    /// Number of buffers.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.buffers.len()
    }

    fn drop_if_empty(&mut self, block: BlockNo) {
        let empty = |b: &Buffer| b.current.is_none() && b.is_clean();
        if self.buffers.get(&block).is_some_and(empty) {
            self.buffers.remove(&block);
        }
    }

    /// Second chance: passes over a few buffers and drops clean ones that nobody read since the last time.
    fn sweep(&mut self) {
        const STEPS_MAX: usize = 64;
        let excess = self.buffers.len().saturating_sub(self.limit);
        if excess == 0 {
            return;
        }
        let ahead = self.buffers.range(self.hand..);
        let around = ahead.chain(self.buffers.range(..self.hand));
        let passed: Vec<BlockNo> = around.take(STEPS_MAX).map(|(block, _)| *block).collect();
        let mut dropped = 0;
        for block in passed {
            self.hand = block.plus(1);
            let buffer = self.buffer(block);
            if buffer.used || !buffer.is_clean() {
                buffer.used = false;
                continue;
            }
            self.buffers.remove(&block);
            dropped += 1;
            if dropped == excess {
                return;
            }
        }
    }
}

/// The same buffer, not merely equal bytes: while a reference is held its content cannot change.
fn same(a: &Bytes, b: &Bytes) -> bool {
    a.as_ptr() == b.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::BLOCK_BYTES;

    const B: BlockNo = BlockNo(7);

    fn block(byte: u8) -> Bytes {
        vec![byte; BLOCK_BYTES].into()
    }

    fn content(cache: &mut Cache) -> u8 {
        match cache.look(B) {
            Look::Hit(bytes) => bytes[0],
            _ => panic!("cached"),
        }
    }

    #[test]
    fn image_survives_a_later_change() {
        let mut c = Cache::new(10);
        c.create(B, block(1));
        c.join_running(B);
        let image = c.take_image(B);
        c.modify(B, 0, &[2]);
        assert_eq!((image[0], content(&mut c)), (1, 2));
        assert_eq!(c.committed(B, image, Tid(4), Kind::Metadata, Time(0)), None);
        let (home, _) = c.begin_home(B).expect("pending");
        assert_eq!(home[0], 1);
        assert!(c.begin_home(B).is_none(), "U3");
        assert_eq!(c.end_home(B, &home, true), Some(Tid(4)));
        assert!(c.begin_home(B).is_none());
    }

    #[test]
    fn home_write_of_an_older_image_leaves_the_newer_pending() {
        let mut c = Cache::new(10);
        c.create(B, block(1));
        c.join_running(B);
        let old = c.take_image(B);
        c.committed(B, old, Tid(1), Kind::Metadata, Time(0));
        let (home, _) = c.begin_home(B).expect("pending");
        c.modify(B, 0, &[2]);
        c.join_running(B);
        let new = c.take_image(B);
        assert_eq!(
            c.committed(B, new, Tid(2), Kind::Metadata, Time(0)),
            Some(Tid(1))
        );
        assert_eq!(c.end_home(B, &home, true), None);
        assert_eq!(c.begin_home(B).expect("still pending").0[0], 2);
    }

    #[test]
    fn overtaken_load_is_ignored() {
        let mut c = Cache::new(10);
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
    fn stays_near_its_limit_and_keeps_dirty_buffers() {
        let mut c = Cache::new(8);
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
