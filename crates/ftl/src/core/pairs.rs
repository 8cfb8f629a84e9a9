//! Parts with two bits per cell: a page is safe only when the later page of its word line is
//! programmed.
//!
//! An interrupted program of the later page can destroy the earlier one, which may have been
//! flushed long ago (hazards-R17). So:
//!
//! - I20 (pairs): a flush is done, a checkpoint names a slot, and a program is evidence for an
//!   erase (ftl-I2), only when every page that shares cells with it is programmed, or its block
//!   gets no more programs. Where the data end before that, pages without content follow in each
//!   open block, at most as many as the distance of the pairs.
//! - The map's own areas are used with one bit per cell, so the root and the log have no pairs.
//!
//! A block that leaves its lane gets no more programs, so what it holds is safe. Blocks of the SLC
//! area and parts with one bit per cell have no pairs, so nothing of this is done there.

use super::program::broken_rules_panic;
use super::streams::Row;
use super::{Ftl, FtlError};
use base::{Mutant, Time};
use nand::{Page, PageAddr, SlcMode};

/// A row whose cells will be programmed again.
#[derive(Clone, Copy, Debug)]
struct OpenRow {
    block: u32,
    /// Rows that the block must hold before this one is safe.
    until: u32,
    /// Number of the oldest operation in the row.
    accept: u64,
    /// True if a flush waits for the row.
    host: bool,
}

/// The rows whose cells will be programmed again (I20); none on parts with one bit per cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs {
    open: Vec<OpenRow>,
}

impl Pairs {
    /// Notes that a row was programmed, after which its block holds `filled` rows. It is safe when
    /// the block holds `until` of them.
    fn note(&mut self, row: &Row, filled: u32, until: u32) {
        self.open
            .retain(|open| open.block != row.block || open.until > filled);
        if until > filled {
            let accepts = row.entries.iter().map(|e| e.accept);
            self.open.push(OpenRow {
                block: row.block,
                until,
                accept: accepts.min().unwrap_or(u64::MAX),
                host: row.is_host(),
            });
        }
    }
    /// Notes that a block gets no more programs, so that its rows are safe.
    pub fn forget(&mut self, block: u32) {
        self.open.retain(|open| open.block != block);
    }
    /// The block of the first row that is not safe, or of the first for which a flush waits.
    fn first(&self, all: bool) -> Option<u32> {
        let open = self.open.iter().find(|open| all || open.host);
        open.map(|open| open.block)
    }
    /// The numbers of the operations that wait for their rows to be safe.
    pub fn wait(&self) -> impl Iterator<Item = u64> {
        self.open.iter().map(|open| open.accept)
    }
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
        let (g, per_row) = (self.nand.geometry(), self.layout.pages_per_row);
        let pages = row.row * per_row..(row.row + 1) * per_row;
        let uppers = pages.filter_map(|p| g.pairing.upper_of(p, g.pages_per_block));
        let rows = self.layout.rows_in(row.block);
        let until = uppers.max().map_or(0, |p| (p / per_row + 1).min(rows));
        let filled = self.blocks.get(row.block).filled;
        self.pairs.note(row, filled, until);
    }
    /// Makes every programmed row safe (I20), or only those that a flush waits for.
    pub(crate) fn close_pairs(&mut self, now: Time, all: bool) -> Result<(), FtlError> {
        while let Some(block) = self.pairs.first(all) {
            // hazards-R17
            if !all && self.mutant(Mutant::FlushHalfPairs) {
                return Ok(());
            }
            let Some(stream) = self.streams.of_block(block) else {
                self.pairs.forget(block);
                continue;
            };
            // A row that is being filled comes first, because its place in the block is taken.
            if self.streams.filling(stream, block) {
                self.issue(now, stream)?;
            } else if !self.streams.drop_empty_row(stream, block) {
                self.pad(now, stream, block)?;
            }
        }
        Ok(())
    }
    /// Programs the next row of a block without content.
    fn pad(&mut self, now: Time, stream: usize, block: u32) -> Result<(), FtlError> {
        let row = Row::new(block, self.blocks.get(block).filled, 0);
        let first = self.layout.page(block, row.row);
        let now = self.group.start_of(now, std::iter::empty());
        let cause = self.cause(stream);
        self.nand.because(cause);
        for i in 0..self.layout.pages_per_row {
            let at = PageAddr {
                page: first.page + i,
                ..first
            };
            let empty = Page::new(Vec::new(), base::Bytes::new());
            self.stats.program(cause, 1);
            match broken_rules_panic(self.nand.program(now, at, empty)) {
                Ok(span) => {
                    self.note_evidence(span.end);
                    self.evidence.flush_waits(span.end);
                }
                Err(_failed) => {
                    // An operation that is half done here forbids more than this: the next rescue
                    // retires the block.
                    self.set_aside(stream, row);
                    return Ok(());
                }
            }
        }
        self.stats.pad(self.layout.slots_per_row);
        self.row_programmed(stream, &row);
        Ok(())
    }
}
