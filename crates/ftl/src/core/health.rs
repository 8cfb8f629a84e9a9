//! How much of its life a device has left, in the terms of a drive's SMART log.
//!
//! Over-provisioning: of all blocks, those of the two map areas and of the SLC area, those that
//! streams keep open or free ([`crate::RESERVE`], lanes, slack) and those that are or will be bad
//! are set apart; the rest, divided by 1 + rho, is exported ([`Config::units_for`]). More bad
//! blocks than that use up rho and the slack. Below the floor ([`Health::floor_blocks`]) collection
//! could not end any more (ftl-I6), so the device turns read-only and says why; the exported size
//! never changes.

use super::{Ftl, FtlError};
use crate::blocks::ORDINARY;
use crate::config::area_blocks;
use crate::wear::Wear;
use crate::{Config, Layout};
use nand::Geometry;

/// Whether the device still takes writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Life {
    /// The reason why it takes none any more.
    over: Option<String>,
}

/// What is left of a device's life.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Health {
    /// Ordinary blocks that can hold data.
    pub good_blocks: u32,
    /// Good ordinary blocks below which the device is read-only.
    pub floor_blocks: u32,
    /// Ordinary blocks that are bad, from the factory or grown.
    pub bad_blocks: u32,
    /// Good blocks above the floor by all blocks above the floor, percent (NVMe: Available Spare).
    pub spare_percent: u32,
    /// Mean erases by the rating, percent, above 100 when it is exceeded (NVMe: Percentage Used).
    pub used_percent: u32,
    /// Logical units; never changes.
    pub exported_units: u32,
    /// The reason why the device takes no more writes, if it does not (NVMe: Critical Warning).
    pub read_only: Option<String>,
}

/// Blocks that were used up, in thousandths of a block: each has to be erased once before it can be
/// used again, whether or not that has been done yet. The map areas are erased whole, with few
/// pages programmed, so that pages alone do not tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Used {
    /// Of ordinary blocks, by the pages programmed in them.
    pub ordinary: u64,
    /// Of blocks of the SLC area.
    pub slc: u64,
    /// Of blocks of the map areas: their erases, and the share of the next checkpoint's.
    pub map: u64,
    /// Blocks of all three kinds that became free, which is not what was used up: a device that has
    /// empty blocks fills these first, and frees none.
    pub freed: u64,
}

impl Ftl {
    /// Blocks used up since the FTL was made.
    pub fn used(&self) -> Used {
        let by = &self.stats.by_cause;
        let moved = by.journal + by.collection + by.wear + by.fold;
        let (ordinary, slc) = match self.has_slc() {
            // slc-I12
            true => (moved, by.host),
            false => (moved + by.host, 0),
        };
        let l = &self.layout;
        let share = self.map_share() - self.quiet_share;
        let of = |pages: u64, rows: u32| pages * 1000 / u64::from((rows * l.pages_per_row).max(1));
        let map = (self.stats.map_erases * 1000).saturating_add_signed(share);
        Used {
            ordinary: of(ordinary, l.rows_per_block),
            slc: of(slc, l.slc_rows),
            map,
            freed: self.blocks.released() * 1000 + map,
        }
    }
    /// What the log behind the map has used up of the next checkpoint's area, thousandths of a
    /// block.
    pub(crate) fn map_share(&self) -> i64 {
        (self.towards_checkpoint() * f64::from(self.layout.area) * 1000.0) as i64
    }
    /// The reason why the device takes no more writes, if it does not.
    pub fn read_only(&self) -> Option<&str> {
        self.life.over.as_deref()
    }
    /// Refuses if the device takes no more writes.
    pub(crate) fn alive(&self) -> Result<(), FtlError> {
        match &self.life.over {
            Some(why) => Err(FtlError::ReadOnly(why.clone())),
            None => Ok(()),
        }
    }
    /// Makes the device read-only; the first reason stays.
    pub(crate) fn end_of_life(&mut self, why: &str) -> FtlError {
        let first = self.life.over.get_or_insert_with(|| why.to_string());
        FtlError::ReadOnly(first.clone())
    }
    /// Makes the device read-only when the good blocks cannot carry the exported capacity any more.
    pub(crate) fn check_life(&mut self) {
        self.check_slc_life();
        let good = self.blocks.good(ORDINARY);
        let floor = self.layout.data_blocks_needed(&self.config);
        if good < floor {
            self.end_of_life(&format!(
                "worn out: {good} good blocks are left, {floor} are needed"
            ));
        }
    }
    /// Erases of each block that carries data, for reports and tests of wear levelling.
    pub fn wear(&self) -> Vec<u32> {
        self.blocks.erases().collect()
    }
    /// Erase counts, their spread, and a projection of the lifetime.
    pub fn wear_report(&self) -> Wear {
        let geometry = self.nand.geometry();
        let bytes = u64::from(geometry.pages_per_block) * u64::from(geometry.page_bytes);
        let amplification = self.stats.amplification();
        Wear::of(
            self.blocks.erases(),
            bytes,
            geometry.endurance,
            amplification,
        )
    }
    /// What is left of the device's life.
    pub fn health(&self) -> Health {
        let l = &self.layout;
        let (good, floor) = (
            self.blocks.good(ORDINARY),
            l.data_blocks_needed(&self.config),
        );
        let all = l.blocks - 2 * l.area - l.slc_blocks;
        let wear = self.wear_report();
        Health {
            good_blocks: good,
            floor_blocks: floor,
            bad_blocks: all - good,
            spare_percent: good.saturating_sub(floor) * 100 / (all - floor).max(1),
            used_percent: (wear.mean * 100.0 / f64::from(wear.endurance)) as u32,
            exported_units: l.units,
            read_only: self.life.over.clone(),
        }
    }
}

impl Config {
    /// The units that such chips can export with `spare` (rho) over-provisioning when `bad` blocks
    /// are expected to fail: the inverse of [`Config::blocks_needed`]. [`Config::units`] is
    /// ignored.
    pub fn units_for(&self, geometry: &Geometry, spare: f64, bad: u32) -> u64 {
        let slots = u64::from(geometry.pages_per_block) * u64::from(geometry.page_bytes)
            / u64::from(self.unit_bytes);
        let blocks = u64::from(geometry.blocks());
        let slc = self.slc.map_or(0, |slc| slc.blocks);
        let apart = u64::from(self.low_water() + 2 + slc + bad);
        // The size of the map areas depends on the number of units, and that on the areas: the
        // smallest areas that suffice are taken.
        let with_areas = |area: u32| {
            let left = blocks.saturating_sub(apart + 2 * u64::from(area)) * slots;
            let units = (left as f64 / (1.0 + spare)) as u64;
            let needed = area_blocks(&Config { units, ..*self }, geometry, blocks);
            (needed <= area).then_some(units)
        };
        (1..=geometry.blocks()).find_map(with_areas).unwrap_or(0)
    }
}

impl Layout {
    /// Good ordinary blocks below which the device cannot take writes any more.
    pub(crate) fn data_blocks_needed(&self, config: &Config) -> u32 {
        self.units.div_ceil(self.slots_per_block) + crate::RESERVE + config.host_blocks() + 2
    }
}
