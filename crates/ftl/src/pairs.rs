//! Parts with two bits per cell: a page is safe only when the later page of its word line is
//! programmed.
//!
//! An interrupted program of the later page can destroy the earlier one, which may have been
//! flushed long ago (hazards-R17). So:
//!
//! - I20 (pairs): a flush is done, a checkpoint names a slot, and a program is evidence for an
//!   erase (ftl-I2), only when every page that shares cells with it is programmed. Where the host's
//!   data end before that, pages without content follow, at most as many as the distance of the
//!   pairs (ftl, "FLUSH pads to the pair boundary").
//! - The map's own areas are used with one bit per cell, so the root and the log have no pairs.
//!
//! A block that leaves its lane gets no more programs, so what it holds is safe. On parts without
//! such pairs nothing of this is needed.

use crate::core::{Ftl, FtlError, Row};
use base::{Mutant, Time};
use nand::{Page, PageAddr, SlcMode};

/// A row whose cells will be programmed again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenRow {
    pub block: u32,
    /// Rows that the block must hold before this one is safe.
    pub until: u32,
    /// Number of the oldest operation in the row.
    pub accept: u64,
    /// True if a flush waits for the row.
    pub host: bool,
}

impl Ftl {
    /// Uses the map's areas with one bit per cell where cells hold more.
    pub(crate) fn unpair_map_areas(&mut self) {
        let (g, t) = (*self.nand.geometry(), *self.nand.timing());
        if g.pairing.bits() > 1 {
            self.nand.set_slc(SlcMode {
                first: nand::BlockId(0),
                blocks: 2 * self.layout.area,
                pages: self.layout.meta_pages,
                // The area is modelled no faster than the other blocks, which is on the safe side.
                read_us: t.read_us,
                program_us: t.program_us,
                erase_us: t.erase_us,
                endurance: g.endurance,
            });
        }
    }
    /// True if pages of ordinary blocks share cells such that an earlier one can be lost.
    fn has_pairs(&self, block: u32) -> bool {
        self.nand.geometry().pairing.retroactive() && !self.layout.is_slc(block)
    }
    /// Notes that a row has been programmed.
    pub(crate) fn note_row(&mut self, row: &Row) {
        if !self.has_pairs(row.block) {
            return;
        }
        let filled = self.blocks[row.block as usize].filled;
        self.pairs
            .retain(|open| open.block != row.block || open.until > filled);
        let (g, per_row) = (self.nand.geometry(), self.layout.pages_per_row);
        let pages = row.row * per_row..(row.row + 1) * per_row;
        let uppers = pages.filter_map(|p| g.pairing.upper_of(p, g.pages_per_block));
        let rows = self.layout.rows_in(row.block);
        let until = uppers.max().map_or(0, |p| (p / per_row + 1).min(rows));
        if until > filled {
            self.pairs.push(OpenRow {
                block: row.block,
                until,
                accept: row
                    .entries
                    .iter()
                    .map(|e| e.accept)
                    .min()
                    .unwrap_or(u64::MAX),
                host: row.entries.iter().any(|e| e.host),
            });
        }
    }
    /// Notes that a block gets no more programs, so that its rows are safe.
    pub(crate) fn forget_pairs(&mut self, block: u32) {
        self.pairs.retain(|open| open.block != block);
    }
    /// Makes every programmed row safe (I20), or only those that a flush waits for.
    pub(crate) fn close_pairs(&mut self, now: Time, all: bool) -> Result<(), FtlError> {
        while let Some(open) = self.pairs.iter().find(|open| all || open.host).copied() {
            // hazards-R17
            if !all && self.mutant(Mutant::FlushHalfPairs) {
                return Ok(());
            }
            let streams = self
                .streams
                .iter()
                .position(|s| s.lanes.contains(&Some(open.block)));
            let Some(stream) = streams else {
                self.forget_pairs(open.block);
                continue;
            };
            let buffered = |row: &Row| row.block == open.block;
            match &self.streams[stream].row {
                // A row that is being filled comes first, because its place in the block is taken.
                Some(row) if buffered(row) && !row.entries.is_empty() => {
                    self.issue(now, stream)?;
                }
                Some(row) if buffered(row) => self.streams[stream].row = None,
                _ => self.pad(now, stream, open.block)?,
            }
        }
        Ok(())
    }
    /// Programs the next row of a block without content.
    fn pad(&mut self, now: Time, stream: usize, block: u32) -> Result<(), FtlError> {
        let row = Row {
            block,
            row: self.blocks[block as usize].filled,
            entries: Vec::new(),
            ready: Time(0),
        };
        let first = self.layout.page(block, row.row);
        let now = match self.group.open {
            true => now,
            false => now.max(self.group.not_before),
        };
        let cause = self.cause(stream);
        self.nand.because(cause);
        for i in 0..self.layout.pages_per_row {
            let at = PageAddr {
                page: first.page + i,
                ..first
            };
            let empty = Page::new(Vec::new(), base::Bytes::new());
            self.stats.by_cause.add(cause, 1);
            match crate::program::broken_rules_panic(self.nand.program(now, at, empty)) {
                Ok(span) => {
                    self.note_evidence(span.end);
                    self.host_end = self.host_end.max(span.end);
                }
                Err(_failed) => {
                    // An operation that is half done here forbids more than this: the next rescue
                    // retires the block.
                    self.set_aside(stream, row);
                    return Ok(());
                }
            }
        }
        self.stats.padded += u64::from(self.layout.slots_per_row);
        let info = &mut self.blocks[block as usize];
        info.filled += 1;
        let full = info.filled == self.layout.rows_in(block);
        self.note_row(&row);
        if full {
            self.close(stream, block);
        }
        Ok(())
    }
}
