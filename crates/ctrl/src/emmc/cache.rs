//! The volatile write cache: lines of 4 KiB with one bit per sector.

use crate::span::{Part, merged};
use base::{BLOCK_BYTES, Bytes, Map, Rng, SECTOR_BYTES};
use std::collections::VecDeque;

/// A line: the sectors in `mask` are newer than the FTL's.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub data: Bytes,
    pub mask: u8,
    /// Its place in the order of arrival.
    seq: u64,
}

impl Line {
    /// True if every sector of the block is here.
    pub fn is_whole(&self) -> bool {
        self.mask == 0xFF
    }
    /// `below` with the sectors of this line over it.
    pub fn over(&self, below: &[u8]) -> Bytes {
        let mut out = below.to_vec();
        for s in (0..8).filter(|s| self.mask & 1 << s != 0) {
            let range = s * SECTOR_BYTES..(s + 1) * SECTOR_BYTES;
            out[range.clone()].copy_from_slice(&self.data[range]);
        }
        out.into()
    }
}

/// The lines, and the order in which they will be written back.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    lines: Map<u64, Line>,
    /// Arrivals; an entry whose line has left or has another number is skipped.
    order: VecDeque<(u64, u64)>,
    seq: u64,
    fifo: bool,
    rng: Rng,
}

impl Cache {
    pub fn new(fifo: bool) -> Cache {
        let rng = Rng::named(0, "emmc cache order");
        Cache {
            lines: Map::default(),
            order: VecDeque::new(),
            seq: 0,
            fifo,
            rng,
        }
    }
    pub fn len(&self) -> usize {
        self.lines.len()
    }
    /// Entries of the order of arrival, those of lines that have left included.
    pub fn places(&self) -> usize {
        self.order.len()
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
    /// Puts bytes of a block into its line; a line that is there keeps its place in the order.
    pub fn put(&mut self, part: Part, bytes: Bytes) {
        if let Some(line) = self.lines.get_mut(&part.block) {
            line.data = if part.is_whole() {
                bytes
            } else {
                merged(&line.data, part, &bytes)
            };
            line.mask |= part.mask();
            return;
        }
        self.seq += 1;
        let data = if part.is_whole() {
            bytes
        } else {
            merged(&[0; BLOCK_BYTES], part, &bytes)
        };
        self.lines.insert(
            part.block,
            Line {
                data,
                mask: part.mask(),
                seq: self.seq,
            },
        );
        self.order.push_back((part.block, self.seq));
    }
    /// Forgets sectors of a block.
    pub fn remove(&mut self, part: Part) {
        if let Some(line) = self.lines.get_mut(&part.block) {
            line.mask &= !part.mask();
            if line.mask == 0 {
                self.lines.remove(&part.block);
                self.sweep();
            }
        }
    }
    /// Takes out the line to be written back next.
    pub fn take_next(&mut self) -> Option<(u64, Line)> {
        while !self.order.is_empty() {
            let pick = if self.fifo {
                0
            } else {
                self.rng.below(self.order.len() as u64) as usize
            };
            let (block, seq) = self.order.swap_remove_front(pick)?;
            if self.lines.get(&block).is_some_and(|l| l.seq == seq) {
                return self.lines.remove(&block).map(|line| (block, line));
            }
        }
        None
    }
    /// The blocks that have a line, ascending.
    pub fn blocks(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self
            .order
            .iter()
            .filter(|(b, s)| self.lines.get(b).is_some_and(|l| l.seq == *s))
            .map(|(b, _)| *b)
            .collect();
        all.sort_unstable();
        all
    }
    /// Keeps the order from growing with entries of lines that have left.
    fn sweep(&mut self) {
        if self.order.len() > 2 * self.lines.len() + 64 {
            let lines = &self.lines;
            self.order
                .retain(|(block, seq)| lines.get(block).is_some_and(|l| l.seq == *seq));
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

    #[test]
    fn fifo_keeps_order_and_any_order_loses_nothing() {
        for fifo in [true, false] {
            let mut c = Cache::new(fifo);
            (0..100).for_each(|b| c.put(part(b, 0, 4096), fill::zeros(4096)));
            c.put(part(0, 0, 4096), fill::filled(1, 4096));
            c.remove(part(50, 0, 4096));
            c.put(part(50, 0, 4096), fill::zeros(4096));
            let mut out: Vec<u64> = std::iter::from_fn(|| c.take_next())
                .map(|(b, _)| b)
                .collect();
            assert_eq!(out[0] == 0 && out[98] == 99 && out[99] == 50, fifo);
            out.sort_unstable();
            assert_eq!(out, (0..100).collect::<Vec<u64>>());
        }
    }
}
