//! The SLC area: blocks used with one bit per cell, which take the host's writes first.
//!
//! With [`Config::slc`] the host stream opens blocks of the area only. What the area holds is
//! *folded*: copied as garbage collection copies, into ordinary blocks, by a stream of its own. The
//! blocks that were closed first, one for each lane of the host stream, are folded together, row by
//! row of all of them: so all dies work at once, and units that were written one after the other on
//! many dies do not come to lie on few. A host write that finds no free block of the area waits
//! until so many are folded; [`Ftl::fold_idle`] folds while the device is idle. A unit has the
//! same tag in either place, so recovery need not know of folding: the copy keeps its birth
//! version (ftl-I4), and the SLC block is erased only when the copies are durable (ftl-I2).
//!
//! - I12 (area): the host stream opens blocks of the area and no other stream does; folding and
//!   collection fill ordinary blocks. Folding leaves the reserve free, as the host does without an
//!   area (ftl-I6). Folding a block ends, whatever the area holds: the capacity exported fits into
//!   the ordinary blocks alone.

use super::{Ftl, FtlError};
use crate::blocks::SLC;
use crate::config::SlcArea;
use crate::{Config, Layout};
use base::Time;
use nand::{BlockId, SlcMode};

impl SlcArea {
    /// Rows of a block of the area.
    pub(crate) fn rows(&self, config: &Config, rows_per_block: u32) -> Result<u32, String> {
        if !(2..=4).contains(&self.bits_per_cell) {
            return Err(format!(
                "slc.bits_per_cell = {}; it may be 2 to 4",
                self.bits_per_cell
            ));
        }
        // This is one more than lanes, so that one block can be folded while the others are open.
        let least = SlcArea::least_blocks(config.lanes);
        if !(least..=1 << 24).contains(&self.blocks) {
            return Err(format!(
                "slc: {} blocks; {} lanes need {least} to 16777216",
                self.blocks, config.lanes
            ));
        }
        if self.endurance == 0 || self.endurance > u32::MAX / 2 {
            return Err(format!("slc.endurance = {}", self.endurance));
        }
        match rows_per_block / self.bits_per_cell {
            0 => Err("slc: a block has less than one row in this mode".into()),
            rows => Ok(rows),
        }
    }
    /// Blocks of the smallest area with which `lanes` open blocks can work.
    pub fn least_blocks(lanes: u32) -> u32 {
        lanes.saturating_add(1)
    }
    /// The form in which the chips take the area.
    pub(crate) fn mode(&self, layout: &Layout) -> SlcMode {
        SlcMode {
            first: BlockId(2 * layout.area),
            blocks: layout.slc_blocks,
            pages: layout.slc_rows * layout.pages_per_row,
            read_us: self.read_us,
            program_us: self.program_us,
            erase_us: self.erase_us,
            endurance: self.endurance,
        }
    }
}

impl Ftl {
    /// Folds until the host stream may take a block of the area.
    pub(crate) fn make_slc_room(&mut self, now: Time) -> Result<(), FtlError> {
        while self.blocks.free(SLC) == 0 {
            self.rescue(now)?;
            if self.blocks.free(SLC) == 0 && !self.collect_victim(now, SLC)? {
                return Err(self.end_of_life("no block of the SLC area can be folded"));
            }
        }
        Ok(())
    }
    /// True if there is an SLC area.
    pub fn has_slc(&self) -> bool {
        self.config.slc.is_some()
    }
    /// True if a full block of the area has a valid slot.
    pub fn can_fold(&mut self) -> bool {
        self.has_slc() && self.read_only().is_none() && self.pick_victim(SLC).is_some()
    }
    /// Folds up to `units` units while the device is idle. Answers when the chips have finished
    /// that, or `None` if no full block of the area holds anything.
    ///
    /// # Errors
    /// The device became read-only.
    pub fn fold_idle(&mut self, now: Time, units: u32) -> Result<Option<Time>, FtlError> {
        if !self.can_fold() {
            return Ok(None);
        }
        self.collect(now, SLC, units)?;
        self.rescue(now)?;
        Ok(Some(self.nand.all_free().max(now)))
    }
    /// How urgently the area needs folding: 0 not at all, 1 less than half is free, 2 the next
    /// block that a lane opens is the last.
    pub(crate) fn slc_need(&self) -> u8 {
        match self.blocks.free(SLC) {
            _ if self.config.slc.is_none() => 0,
            0 | 1 => 2,
            free if free < self.layout.slc_blocks / 2 => 1,
            _ => 0,
        }
    }
    /// Open blocks of the host stream.
    pub fn lanes(&self) -> u32 {
        self.config.lanes
    }
    /// Units that fit into the empty SLC area; 0 if there is none.
    pub fn slc_units(&self) -> u64 {
        u64::from(self.layout.slc_blocks)
            * u64::from(self.layout.slc_rows * self.layout.slots_per_row)
    }
    /// Units that the SLC area holds.
    pub fn slc_held(&self) -> u64 {
        let area = (0..self.layout.blocks).filter(|b| self.layout.is_slc(*b));
        area.map(|b| u64::from(self.blocks.get(b).valid)).sum()
    }
    /// Makes the device read-only when the area has too few good blocks for the lanes.
    pub(crate) fn check_slc_life(&mut self) {
        let Some(_) = self.config.slc else { return };
        let good = self.blocks.good(SLC);
        let least = SlcArea::least_blocks(self.config.lanes);
        if good < least {
            self.end_of_life(&format!(
                "the SLC area is worn out: {good} good blocks are left, {least} are needed"
            ));
        }
    }
}
