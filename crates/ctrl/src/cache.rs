//! The volatile write cache of a controller: lines of 4 KiB with one bit per sector.
//!
//! - C1: a line of an earlier epoch, or with FIFO any line, is written back with the content that
//!   it has: newer content for its block gets a line of its own, with its own turn. Until the older
//!   line is written back both are cached, and the newer one holds the sectors of both.

use crate::span::{Part, merged};
use base::{BLOCK_BYTES, Bytes, Map, Rng, SECTOR_BYTES};
use std::collections::{BTreeMap, VecDeque};

/// A line: the sectors in `mask` are newer than the FTL's.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub data: Bytes,
    pub mask: u8,
    /// Its place in the order of arrival.
    seq: u64,
}

impl Line {
    /// True if the line holds every sector of the block.
    pub fn is_whole(&self) -> bool {
        self.mask == 0xFF
    }
    /// `below` overwritten with the sectors of this line.
    pub fn over(&self, below: &[u8]) -> Bytes {
        let mut out = below.to_vec();
        for s in (0..8).filter(|s| self.mask & 1 << s != 0) {
            let range = s * SECTOR_BYTES..(s + 1) * SECTOR_BYTES;
            out[range.clone()].copy_from_slice(&self.data[range]);
        }
        out.into()
    }
}

/// The lines, and the order in which they will be written back (C1).
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    lines: Map<u64, Line>,
    /// Versions that were replaced before they were written back, by number.
    older: BTreeMap<u64, (u64, Line)>,
    /// The order of arrival, one queue for each epoch; an entry whose line has left the cache or
    /// has another number is skipped.
    epochs: VecDeque<VecDeque<(u64, u64)>>,
    seq: u64,
    /// Lines with numbers up to this belong to earlier epochs.
    epoch_start: u64,
    fifo: bool,
    /// True if the cache is written back in the order of arrival without promising it: then a
    /// replaced line keeps its turn.
    in_turn: bool,
    rng: Rng,
}

/// The line to be written back next.
pub(crate) struct Next {
    pub block: u64,
    pub line: Line,
    /// True if the line is the first of an epoch: lines of earlier epochs must be durable before it
    /// is programmed.
    pub behind_barrier: bool,
}

impl Cache {
    pub fn new(fifo: bool) -> Cache {
        let rng = Rng::named(0, "emmc cache order");
        Cache {
            lines: Map::default(),
            older: BTreeMap::new(),
            epochs: VecDeque::from([VecDeque::new()]),
            seq: 0,
            epoch_start: 0,
            fifo,
            in_turn: fifo,
            rng,
        }
    }
    /// Makes the cache write back in the order of arrival, although the device does not promise
    /// that order.
    pub fn in_turn(mut self) -> Cache {
        self.in_turn = true;
        self
    }
    /// Lines to be written back.
    pub fn len(&self) -> usize {
        self.lines.len() + self.older.len()
    }
    /// Entries in the order of arrival, including those of lines that have left.
    pub fn places(&self) -> usize {
        self.epochs.iter().map(VecDeque::len).sum()
    }
    pub fn get(&self, block: u64) -> Option<&Line> {
        if self.lines.is_empty() {
            None
        } else {
            self.lines.get(&block)
        }
    }
    pub fn contains(&self, block: u64) -> bool {
        self.lines.contains_key(&block)
    }
    /// True if a write to the block takes no further line.
    pub fn has_room_for(&self, block: u64) -> bool {
        let line = self.lines.get(&block);
        line.is_some_and(|line| !self.must_stay(line))
    }
    /// C1: true if the line must not be replaced in place.
    fn must_stay(&self, line: &Line) -> bool {
        self.fifo || line.seq <= self.epoch_start
    }
    /// Sets a barrier: lines that come from now on are written back after all that are cached now.
    pub fn barrier(&mut self) {
        self.epoch_start = self.seq;
        if self.epochs.back().is_some_and(|e| !e.is_empty()) {
            self.epochs.push_back(VecDeque::new());
        }
    }
    /// Puts bytes of a block into its line. An existing line keeps its place in the order, unless
    /// C1 forbids it.
    pub fn put(&mut self, part: Part, bytes: Bytes) {
        let seq = self.seq + 1;
        let stay = match self.lines.get(&part.block) {
            Some(line) => self.must_stay(line),
            None => false,
        };
        if let Some(line) = self.lines.get_mut(&part.block) {
            if stay {
                self.older.insert(line.seq, (part.block, line.clone()));
                line.seq = seq;
            }
            line.data = if part.is_whole() {
                bytes
            } else {
                merged(&line.data, part, &bytes)
            };
            line.mask |= part.mask();
            if !stay {
                return;
            }
        } else {
            let data = if part.is_whole() {
                bytes
            } else {
                merged(&[0; BLOCK_BYTES], part, &bytes)
            };
            let mask = part.mask();
            self.lines.insert(part.block, Line { data, mask, seq });
        }
        self.seq = seq;
        let epoch = self.epochs.back_mut().expect("there is always an epoch");
        epoch.push_back((part.block, seq));
    }
    /// Forgets sectors of a block, in all versions.
    pub fn remove(&mut self, part: Part) {
        if !self.older.is_empty() {
            for (block, line) in self.older.values_mut() {
                if *block == part.block {
                    line.mask &= !part.mask();
                }
            }
            self.older.retain(|_, (_, line)| line.mask != 0);
        }
        if let Some(line) = self.lines.get_mut(&part.block) {
            line.mask &= !part.mask();
            if line.mask == 0 {
                self.lines.remove(&part.block);
                self.sweep();
            }
        }
    }
    /// Takes out the line to be written back next.
    pub fn take_next(&mut self) -> Option<Next> {
        let mut behind_barrier = false;
        loop {
            let epoch = self.epochs.front_mut()?;
            if epoch.is_empty() {
                if self.epochs.len() == 1 {
                    return None;
                }
                self.epochs.pop_front();
                behind_barrier = true;
                continue;
            }
            let pick = if self.in_turn {
                0
            } else {
                self.rng.below(epoch.len() as u64) as usize
            };
            let (block, seq) = epoch.swap_remove_front(pick)?;
            if let Some(line) = self.take(block, seq) {
                return Some(Next {
                    block,
                    line,
                    behind_barrier,
                });
            }
        }
    }
    fn take(&mut self, block: u64, seq: u64) -> Option<Line> {
        if !self.older.is_empty()
            && let Some((_, line)) = self.older.remove(&seq)
        {
            return Some(line);
        }
        let current = self.lines.get(&block).is_some_and(|l| l.seq == seq);
        current.then(|| self.lines.remove(&block)).flatten()
    }
    /// Takes out the line of a block before its turn. Only for a cache without order: no FIFO, no
    /// barrier.
    pub fn take_block(&mut self, block: u64) -> Option<Line> {
        assert!(
            !self.fifo && self.epochs.len() == 1,
            "C1: a cache with an order is written back in it"
        );
        let line = self.lines.remove(&block)?;
        self.sweep();
        Some(line)
    }
    /// The blocks that have a line, ascending.
    pub fn blocks(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self
            .epochs
            .iter()
            .flatten()
            .filter(|(b, s)| self.lines.get(b).is_some_and(|l| l.seq == *s))
            .map(|(b, _)| *b)
            .collect();
        all.sort_unstable();
        all
    }
    /// Removes entries of lines that have left, so that the order does not grow without bound.
    fn sweep(&mut self) {
        if self.places() > 2 * self.len() + 64 {
            let (lines, older) = (&self.lines, &self.older);
            for epoch in &mut self.epochs {
                epoch.retain(|(block, seq)| {
                    older.contains_key(seq) || lines.get(block).is_some_and(|l| l.seq == *seq)
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::fill;

    fn part(block: u64, from: usize, to: usize) -> Part {
        Part { block, from, to }
    }

    #[test]
    fn sectors_merge_and_leave() {
        let mut c = Cache::new(true);
        c.put(part(5, 512, 1024), fill::filled(1, 512));
        c.put(part(5, 1024, 2048), fill::filled(2, 1024));
        let line = c.get(5).unwrap();
        assert_eq!(line.mask, 0b1110);
        let over = line.over(&[9; 4096]);
        assert_eq!((over[0], over[512], over[1024], over[2048]), (9, 1, 2, 9));
        c.remove(part(5, 512, 1536));
        assert_eq!(c.get(5).unwrap().mask, 0b1000);
        c.remove(part(5, 0, 4096));
        assert_eq!((c.len(), c.blocks().len()), (0, 0));
    }

    fn drain(c: &mut Cache) -> Vec<(u64, u8, bool)> {
        std::iter::from_fn(|| c.take_next())
            .map(|n| (n.block, n.line.data[0], n.behind_barrier))
            .collect()
    }

    #[test]
    fn fifo_keeps_order_and_any_order_loses_nothing() {
        for fifo in [true, false] {
            let mut c = Cache::new(fifo);
            (0..100).for_each(|b| c.put(part(b, 0, 4096), fill::zeros(4096)));
            c.put(part(0, 0, 4096), fill::filled(1, 4096));
            c.remove(part(50, 0, 4096));
            c.put(part(50, 0, 4096), fill::zeros(4096));
            // With FIFO both versions of block 0 come, each in its turn (C1).
            assert_eq!(c.len(), if fifo { 101 } else { 100 });
            let mut out = drain(&mut c);
            if fifo {
                assert_eq!((out[0], out[99]), ((0, 0, false), (0, 1, false)));
                assert_eq!(out.remove(99).1, 1);
            }
            let mut blocks: Vec<u64> = out.iter().map(|o| o.0).collect();
            assert_eq!(blocks[0] == 0 && blocks[98] == 99 && blocks[99] == 50, fifo);
            blocks.sort_unstable();
            assert_eq!(blocks, (0..100).collect::<Vec<u64>>());
        }
    }

    #[test]
    fn a_barrier_keeps_old_versions_in_their_epoch() {
        let mut c = Cache::new(false);
        c.put(part(1, 0, 4096), fill::filled(1, 4096));
        c.put(part(1, 0, 4096), fill::filled(2, 4096));
        assert_eq!(c.len(), 1, "the same epoch");
        c.barrier();
        c.barrier();
        assert!(!c.has_room_for(1));
        c.put(part(1, 0, 512), fill::filled(3, 512));
        c.put(part(2, 0, 4096), fill::filled(4, 4096));
        assert!(c.has_room_for(1));
        assert_eq!(
            c.get(1).unwrap().data[..513],
            [vec![3; 512], vec![2]].concat()
        );
        assert_eq!(c.len(), 3);
        let out = drain(&mut c);
        assert_eq!(out[0], (1, 2, false));
        assert!(out[1].2 && !out[2].2 && out.len() == 3);
        assert_eq!(c.len(), 0);
    }

    #[test]
    fn a_removed_sector_leaves_all_versions() {
        let mut c = Cache::new(true);
        c.put(part(1, 0, 4096), fill::filled(1, 4096));
        c.put(part(1, 0, 512), fill::filled(2, 512));
        c.remove(part(1, 0, 512));
        assert_eq!(c.take_next().unwrap().line.mask, 0xFE);
        assert_eq!(c.take_next().unwrap().line.mask, 0xFE);
        c.put(part(1, 0, 512), fill::filled(1, 512));
        c.put(part(1, 0, 512), fill::filled(2, 512));
        c.remove(part(1, 0, 4096));
        assert!(c.len() == 0 && c.take_next().is_none());
    }
}
