//! The table of node blocks in memory: which nodes it has, which of them are dirty, and which may
//! be evicted. It does no I/O.
//!
//! - C1 `dirty` equals the number of dirty entries, and each of them stands in `listed`; those that
//!   are not inode blocks also stand in the list of their inode;
//! - C2 an entry stays in memory while it is dirty, while its last write may still be under way,
//!   and while an epoch that changed it is not applied (f2fs-journal-I9).

use crate::journal::Epoch;
use base::{Map, Time};
use bytes::BytesMut;
use ondisk::f2fs::{Footer, Log, Nid, NodeKind};
use std::collections::VecDeque;

use base::Bytes;

/// Entries looked at for one that may go, each time one comes.
const LOOKS: usize = 16;

/// A node block in memory.
pub(super) struct Entry {
    data: Bytes,
    /// The inode it belongs to.
    pub ino: Nid,
    /// Where it is written.
    pub log: Log,
    dirty: bool,
    /// It stands in `State::listed`.
    listed: bool,
    /// Looked at since the last round of eviction.
    used: bool,
    /// Number of the last flight that it was part of.
    flight: u64,
    /// With a journal: the last epoch that logged a change.
    pub last: Epoch,
}

impl Entry {
    /// Its content.
    pub fn bytes(&self) -> &Bytes {
        &self.data
    }

    /// Changes the bytes of the entry; in place if no other reference to them exists.
    pub fn modify<R>(&mut self, change: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut own = match std::mem::take(&mut self.data).try_into_mut() {
            Ok(own) => own,
            Err(shared) => BytesMut::from(&shared[..]),
        };
        let result = change(&mut own);
        self.data = own.freeze();
        result
    }
}

/// The log for a node: directories hot, files warm, indirect nodes cold.
pub(crate) fn log_of(footer: &Footer) -> Log {
    match footer.kind() {
        NodeKind::Indirect | NodeKind::DoubleIndirect => Log::ColdNode,
        _ if footer.is_cold() => Log::WarmNode,
        _ => Log::HotNode,
    }
}

/// The table.
#[derive(Default)]
pub(super) struct State {
    entries: Map<Nid, Entry>,
    /// Every entry once, in the order of the next look at it.
    ring: VecDeque<Nid>,
    dirty: u64,
    /// Since when there are dirty entries.
    dirty_since: Time,
    /// Dirty entries, and some that were.
    listed: Vec<Nid>,
    /// Dirty entries that are no inode blocks, by inode, and some that were.
    of_inode: Map<Nid, Vec<Nid>>,
    /// Node numbers that are being read from the device, each with the number of that read.
    reading: Map<Nid, u64>,
    reads: u64,
    /// Number of the last flight that began.
    pub flight: u64,
    /// Flights up to this one have landed.
    landed: u64,
    /// Flights that are being put together.
    boarding: u32,
    /// Flights up to this one are durable, with all before them.
    pub durable: u64,
    /// With a journal: the last epoch that is applied.
    pub applied: Epoch,
}

impl State {
    pub fn dirty(&self) -> u64 {
        self.dirty
    }

    /// Since when there are dirty entries.
    pub fn dirty_since(&self) -> Option<Time> {
        (self.dirty > 0).then_some(self.dirty_since)
    }

    pub fn contains(&self, nid: Nid) -> bool {
        self.entries.contains_key(&nid)
    }

    /// The entry, for a look.
    pub fn get(&mut self, nid: Nid) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(&nid)?;
        entry.used = true;
        Some(entry)
    }

    pub fn is_dirty(&self, nid: Nid) -> bool {
        self.entries.get(&nid).is_some_and(|e| e.dirty)
    }

    /// Log and inode of a dirty node.
    pub fn place_of_dirty(&self, nid: Nid) -> Option<(Log, Nid)> {
        let entry = self.entries.get(&nid).filter(|e| e.dirty)?;
        Some((entry.log, entry.ino))
    }

    /// The entry, which becomes dirty (C1).
    pub fn get_dirty(&mut self, nid: Nid) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(&nid)?;
        entry.used = true;
        if !entry.dirty {
            entry.dirty = true;
            if self.dirty == 0 {
                self.dirty_since = rt::now();
            }
            self.dirty += 1;
            if entry.ino != nid {
                self.of_inode.entry(entry.ino).or_default().push(nid);
            }
            if !std::mem::replace(&mut entry.listed, true) {
                self.listed.push(nid);
            }
        }
        Some(entry)
    }

    /// Adds a block that is clean; replaces an entry of that number.
    pub fn insert(&mut self, nid: Nid, data: Bytes) {
        let footer = ondisk::f2fs::footer(&data);
        self.remove(nid);
        let entry = Entry {
            data,
            ino: footer.ino,
            log: log_of(&footer),
            dirty: false,
            listed: false,
            used: true,
            flight: 0,
            last: Epoch(0),
        };
        self.entries.insert(nid, entry);
        self.ring.push_back(nid);
    }

    /// Forgets a node that is free now; a read of it that is under way does not bring it back.
    pub fn remove(&mut self, nid: Nid) {
        self.reading.remove(&nid);
        if let Some(entry) = self.entries.remove(&nid) {
            self.dirty -= u64::from(entry.dirty);
            // It stands in the ring still. A number that comes back at once must not stand there
            // twice for ever.
            if self.ring.len() > 2 * self.entries.len() + LOOKS {
                self.sweep();
            }
        }
        self.compact();
    }

    fn sweep(&mut self) {
        let mut seen = base::Set::default();
        let entries = &self.entries;
        self.ring
            .retain(|nid| entries.contains_key(nid) && seen.insert(*nid));
    }

    /// Evicts clean, unused entries beyond `limit`; `landed`: no flight is under way (C2).
    pub fn evict(&mut self, limit: usize, landed: bool) {
        if landed && self.boarding == 0 {
            self.landed = self.flight;
        }
        for _ in 0..LOOKS {
            if self.entries.len() <= limit {
                return;
            }
            let Some(nid) = self.ring.pop_front() else {
                return;
            };
            let Some(entry) = self.entries.get_mut(&nid) else {
                continue;
            };
            let used = std::mem::replace(&mut entry.used, false);
            let ahead = entry.last > self.applied;
            if used || entry.dirty || entry.flight > self.landed || ahead {
                self.ring.push_back(nid);
            } else {
                self.entries.remove(&nid);
            }
        }
    }

    /// Entries, dirty or not.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Drops from the lists what is not dirty, once that is most of them.
    fn compact(&mut self) {
        if self.listed.len() as u64 > 2 * self.dirty + 1024 {
            let entries = &mut self.entries;
            self.listed.retain(|nid| match entries.get_mut(nid) {
                Some(e) if e.dirty => true,
                Some(e) => {
                    e.listed = false;
                    false
                }
                None => false,
            });
        }
    }

    /// All dirty nodes, in the order in which they are written: indirect ones, those of
    /// directories, those of files; by number.
    pub fn all_dirty(&self) -> Vec<Nid> {
        let rank = |log: Log| match log {
            Log::ColdNode => 0,
            Log::HotNode => 1,
            _ => 2,
        };
        let dirty = self.listed.iter().filter_map(|&nid| {
            let entry = self.entries.get(&nid).filter(|e| e.dirty)?;
            Some((rank(entry.log), nid))
        });
        let mut found: Vec<_> = dirty.collect();
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|(_, nid)| nid).collect()
    }

    /// The dirty nodes of an inode but for its inode block, by number.
    pub fn dirty_of(&self, ino: Nid) -> Vec<Nid> {
        let listed = self.of_inode.get(&ino).into_iter().flatten().copied();
        let mut found: Vec<Nid> = listed
            .filter(|nid| {
                self.entries
                    .get(nid)
                    .is_some_and(|e| e.dirty && e.ino == ino)
            })
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// A flight begins: its number.
    pub fn board(&mut self) -> u64 {
        self.boarding += 1;
        self.flight += 1;
        self.flight
    }

    /// A flight is under way, and tasks can wait for it. What was written leaves the list of inode
    /// `of`, or of all.
    pub fn depart(&mut self, of: Option<Nid>) {
        self.boarding -= 1;
        let entries = &self.entries;
        let still = |ino: Nid, list: &mut Vec<Nid>| {
            list.retain(|nid| entries.get(nid).is_some_and(|e| e.dirty && e.ino == ino));
            !list.is_empty()
        };
        match of {
            None => self.of_inode.retain(|&ino, list| still(ino, list)),
            Some(ino) => {
                let left = self
                    .of_inode
                    .get_mut(&ino)
                    .is_none_or(|list| still(ino, list));
                if !left {
                    self.of_inode.remove(&ino);
                }
            }
        }
        self.compact();
    }

    /// Completes a dirty node with `finish`, makes it clean and part of a flight: its bytes.
    pub fn take(&mut self, nid: Nid, flight: u64, finish: impl FnOnce(&mut [u8])) -> Option<Bytes> {
        let entry = self.entries.get_mut(&nid).filter(|e| e.dirty)?;
        entry.modify(finish);
        entry.dirty = false;
        entry.flight = flight;
        self.dirty -= 1;
        Some(entry.data.clone())
    }

    /// Everything that epochs up to `target` changed is on the device and can be found there:
    /// entries that no later epoch changed become clean.
    pub fn clean_upto(&mut self, target: Epoch) {
        for nid in &self.listed {
            if let Some(entry) = self.entries.get_mut(nid)
                && entry.dirty
                && entry.last <= target
            {
                entry.dirty = false;
                self.dirty -= 1;
            }
        }
        let entries = &self.entries;
        self.of_inode.retain(|&ino, list| {
            list.retain(|nid| entries.get(nid).is_some_and(|e| e.dirty && e.ino == ino));
            !list.is_empty()
        });
        self.compact();
    }

    /// Notes a read from the device: its number, or `None` if another task is reading that node.
    pub fn begin_read(&mut self, nid: Nid) -> Option<u64> {
        if self.reading.contains_key(&nid) {
            return None;
        }
        self.reads += 1;
        self.reading.insert(nid, self.reads);
        Some(self.reads)
    }

    /// A read ended; false if the node was freed meanwhile.
    pub fn end_read(&mut self, nid: Nid, read: u64) -> bool {
        let mine = self.reading.get(&nid) == Some(&read);
        if mine {
            self.reading.remove(&nid);
        }
        mine
    }

    /// Checks C1.
    ///
    /// # Panics
    /// If it does not hold.
    #[cfg(test)]
    pub fn check(&self) {
        let dirty = self.entries.iter().filter(|(_, e)| e.dirty);
        assert_eq!(dirty.clone().count() as u64, self.dirty, "C1: count");
        for (nid, entry) in dirty {
            assert!(
                entry.listed && self.listed.contains(nid),
                "C1: {nid} is not listed"
            );
            let in_list = self
                .of_inode
                .get(&entry.ino)
                .is_some_and(|l| l.contains(nid));
            assert!(entry.ino == *nid || in_list, "C1: {nid} of {}", entry.ino);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::f2fs::{BLOCK_BYTES, BlockAddr, NODE_COLD, set_footer};

    fn block(nid: u32, ino: u32, ofs: u32) -> Bytes {
        let mut bytes = vec![0; BLOCK_BYTES];
        let mut footer = Footer {
            nid: Nid(nid),
            ino: Nid(ino),
            flags: NODE_COLD,
            cp_ver: 0,
            next: BlockAddr::NULL,
        };
        footer.set_ofs_of_node(ofs);
        set_footer(&mut bytes, &footer);
        Bytes::from(bytes)
    }

    fn filled(n: u32) -> State {
        let mut state = State::default();
        for nid in 0..n {
            state.insert(Nid(10 + nid), block(10 + nid, 10, nid));
        }
        state
    }

    #[test]
    fn indirect_nodes_are_written_first() {
        let mut state = filled(5);
        for nid in [14, 10, 13, 12] {
            state
                .get_dirty(Nid(nid))
                .expect("there")
                .modify(|b| b[0] = 1);
        }
        state.check();
        assert_eq!(
            state.all_dirty(),
            [13, 10, 12, 14].map(Nid),
            "13 is indirect"
        );
        assert_eq!(state.dirty_of(Nid(10)), [12, 13, 14].map(Nid));
        let flight = state.board();
        for nid in state.all_dirty() {
            state.take(nid, flight, |b| b[1] = 2).expect("dirty");
        }
        state.depart(None);
        state.check();
        assert_eq!((state.dirty(), state.all_dirty().len()), (0, 0));
    }

    #[test]
    fn what_was_handed_out_is_not_changed() {
        let mut state = filled(1);
        state.get_dirty(Nid(10)).expect("there");
        let flight = state.board();
        let out = state.take(Nid(10), flight, |b| b[0] = 7).expect("dirty");
        state.depart(Some(Nid(10)));
        state
            .get_dirty(Nid(10))
            .expect("there")
            .modify(|b| b[0] = 8);
        assert_eq!(out[0], 7);
        state.check();
        assert_eq!(state.get(Nid(10)).expect("there").bytes()[0], 8);
    }

    #[test]
    fn neither_dirty_nor_flying_nodes_are_evicted() {
        let mut state = filled(40);
        for nid in 10..20 {
            state.get_dirty(Nid(nid)).expect("there");
        }
        let flight = state.board();
        for nid in 10..15 {
            state.take(Nid(nid), flight, |_| ()).expect("dirty");
        }
        state.depart(Some(Nid(10)));
        for _ in 0..20 {
            state.evict(4, false);
        }
        assert_eq!(state.len(), 10, "C2");
        for _ in 0..20 {
            state.evict(4, true);
        }
        assert_eq!(state.len(), 5, "C2");
        state.check();
    }

    #[test]
    fn nodes_of_epochs_that_are_not_applied_are_not_evicted() {
        let mut state = filled(40);
        for nid in 10..20 {
            state.get(Nid(nid)).expect("there").last = Epoch(u64::from(nid));
        }
        for _ in 0..20 {
            state.evict(4, true);
        }
        assert_eq!(state.len(), 10, "f2fs-journal-I9");
        state.applied = Epoch(15);
        for _ in 0..20 {
            state.evict(2, true);
        }
        assert_eq!(state.len(), 4, "f2fs-journal-I9");
    }

    #[test]
    fn lists_stay_short_when_one_node_is_written_again_and_again() {
        let mut state = filled(2);
        for _ in 0..10_000 {
            state.get_dirty(Nid(11)).expect("there");
            let flight = state.board();
            state.take(Nid(11), flight, |_| ()).expect("dirty");
            state.depart(Some(Nid(10)));
            state.remove(Nid(10));
            state.insert(Nid(10), block(10, 10, 0));
            state.get_dirty(Nid(10)).expect("there");
        }
        assert!(state.listed.len() < 2000 && state.ring.len() < 100 && state.of_inode.is_empty());
        state.check();
    }
}
