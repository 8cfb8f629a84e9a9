//! Recovery on chips whose pages may read well after a cut and fail later.
//!
//! As linux-mtd found on 34 nm parts, pages under program at the cut have unstable bits, and
//! reading them once proves nothing. So the pages that may have been under program, or ended just
//! before, and the pages that share their cells, are *suspects* (hazards-R18):
//!
//! - I21 (suspects): a suspect page counts only if it reads twice, and what it holds is programmed
//!   anew before the first checkpoint; the content comes from the second read. If a cut comes in
//!   between, the next recovery has the same suspects, or the older versions, which no erase can
//!   have taken (ftl-I2).
//!
//! Suspects are the last three rows of every block that a program may have been under way in, and
//! the earlier pages of their word lines. Such blocks are, of those that were open at the
//! checkpoint or programmed since: those that are not full, those whose last rows do not read, and
//! on each die those with the three newest rows (a brown-out reaches back two programs). On chips
//! of level L1 there are none: a page that reads is sound.

use super::streams::GC;
use super::{Ftl, FtlError};
use base::{Mutant, Time};
use nand::{FaultLevel, PageAddr};
use std::collections::{BTreeMap, BTreeSet};

/// Programs of a die that a cut can have harmed: the one under way and the two before it.
const NEWEST: usize = 3;
/// Rows at the end of a block that these can lie in.
const LAST_ROWS: u32 = NEWEST as u32;

impl Ftl {
    /// True if a page that reads well may fail later.
    pub(crate) fn may_be_unstable(&self) -> bool {
        self.nand.cells().level >= FaultLevel::L2
    }
    /// The rows that recovery does not trust, among the rows programmed since the checkpoint and
    /// the blocks open at it.
    pub(crate) fn suspects(
        &self,
        rows: &[(u32, u32)],
        open: &BTreeSet<u32>,
    ) -> BTreeSet<(u32, u32)> {
        if !self.may_be_unstable() || self.mutant(Mutant::TrustLastPage) {
            return BTreeSet::new();
        }
        let mut blocks: BTreeSet<u32> = open.clone();
        let mut newest: BTreeMap<u32, Vec<(u64, u32)>> = BTreeMap::new();
        for (block, row) in rows {
            let full = self.blocks.get(*block).filled >= self.layout.rows_in(*block);
            let tags =
                (0..self.layout.slots_per_row).filter_map(|s| self.fetch_tag(*block, *row, s));
            match tags.map(|tag| tag.prog).max() {
                Some(prog) if full => {
                    let die = self.nand.geometry().die_of(nand::BlockId(*block));
                    newest.entry(die).or_default().push((prog, *block));
                }
                None if full && row + LAST_ROWS < self.layout.rows_in(*block) => {}
                _ => drop(blocks.insert(*block)),
            }
        }
        for mut all in newest.into_values() {
            all.sort_unstable();
            blocks.extend(all.iter().rev().take(NEWEST).map(|(_, block)| *block));
        }
        let mut suspects = BTreeSet::new();
        for block in blocks {
            let filled = self.blocks.get(block).filled;
            for row in filled.saturating_sub(LAST_ROWS)..filled {
                suspects.insert((block, row));
                suspects.extend(self.word_lines(block, row).map(|row| (block, row)));
            }
        }
        suspects
    }
    /// The most rows that [`Ftl::read_suspects`] reads of one block.
    pub(crate) fn suspect_reads_max(&self) -> u64 {
        match self.may_be_unstable() {
            true => 2 * u64::from(LAST_ROWS * (1 + self.layout.pages_per_row)),
            false => 0,
        }
    }
    /// The earlier rows that share cells with a row.
    fn word_lines(&self, block: u32, row: u32) -> impl Iterator<Item = u32> {
        let (g, per_row) = (*self.nand.geometry(), self.layout.pages_per_row);
        let paired = !self.layout.is_slc(block);
        let pages = row * per_row..(row + 1) * per_row;
        let lowers = pages.filter_map(move |p| g.pairing.lower_of(p, g.pages_per_block));
        lowers.filter(move |_| paired).map(move |p| p / per_row)
    }
    /// Reads suspects twice; one that does not read both times counts as unreadable. Answers when
    /// that is done.
    pub(crate) fn read_suspects(&mut self, now: Time, suspects: &BTreeSet<(u32, u32)>) -> Time {
        let mut end = now;
        for (block, row) in suspects {
            let first = self.layout.page(*block, *row);
            for _ in 0..2 {
                for i in 0..self.layout.pages_per_row {
                    let page = first.page + i;
                    let bytes = self.page_bytes() as usize;
                    end = end.max(self.nand.read(now, PageAddr { page, ..first }, bytes).1);
                }
            }
        }
        end
    }
    /// Programs the content of suspects anew (I21).
    ///
    /// # Errors
    /// The device became read-only.
    pub(crate) fn move_suspects(
        &mut self,
        now: Time,
        suspects: &BTreeSet<(u32, u32)>,
    ) -> Result<(), FtlError> {
        if self.read_only().is_some() {
            return Ok(());
        }
        let rows = suspects.iter();
        let live = rows.flat_map(|(block, row)| self.map.live(self.layout.row(*block, *row)));
        let live: Vec<u32> = live.collect();
        for ppn in live {
            self.copy(now, now, ppn, GC)?;
        }
        self.rescue(now)
    }
}
