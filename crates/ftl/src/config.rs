//! The configuration of an FTL, and the layout that follows from it.

use crate::tag::TAG_BYTES;
use crate::victim::Policy;
use nand::{BlockId, Geometry, PageAddr};
use serde::Deserialize;

/// Free blocks that only garbage collection may take (ftl-I6): one to copy into while one is being
/// filled.
pub const RESERVE: u32 = 2;

/// Stands for "no unit" or "no slot".
pub(crate) const NONE: u32 = u32::MAX;
/// In the map: the unit was written, and the slot with its newest version is lost. Reads fail until
/// it is written again.
pub(crate) const LOST: u32 = u32::MAX - 1;

/// Bytes of a block's entry in the checkpoint.
pub(crate) const BLOCK_ENTRY: u64 = 12;
/// Bytes of the header of a checkpoint or log page.
pub(crate) const META_HEADER: u64 = 32;

/// A write area of blocks used with one bit per cell (pseudo-SLC); see the module `slc`.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlcArea {
    /// Erase blocks.
    pub blocks: u32,
    /// Bits that a cell of an ordinary block holds: an SLC block has one page for each such number
    /// of pages.
    pub bits_per_cell: u32,
    /// Array to page register (tR) in this mode, microseconds.
    pub read_us: f64,
    /// Page register to array (tPROG), microseconds.
    pub program_us: f64,
    /// Block erase (tBERS), microseconds.
    pub erase_us: f64,
    /// Erases that a block of the area is rated for.
    pub endurance: u32,
}

/// What an FTL does by itself, besides carrying out commands. The default is a plain FTL.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Housekeeping {
    /// How the victim of garbage collection is chosen.
    pub policy: Policy,
    /// Seed of the policies that choose at random.
    pub seed: u64,
    /// Blocks of a JBD2 journal's control go into open blocks of their own (see `streams`).
    pub journal_stream: bool,
    /// Static wear levelling begins when erase counts lie further apart than this; 0: never (see
    /// `wear`).
    pub wear_threshold: u32,
    /// True if a unit of zeros is not programmed but noted in the map, with the durability of a
    /// TRIM.
    pub zero_units: bool,
    /// True if a block waits with its erase only until what replaces *its* content is durable; else
    /// it waits for everything programmed until then (see `evidence`). This matters where many dies
    /// work side by side.
    pub own_evidence: bool,
}

impl Housekeeping {
    /// Greedy collection, and no other work.
    pub const PLAIN: Housekeeping = Housekeeping {
        policy: Policy::Greedy,
        seed: 0,
        journal_stream: false,
        wear_threshold: 0,
        zero_units: false,
        own_evidence: false,
    };
}

impl Default for Housekeeping {
    fn default() -> Self {
        Housekeeping::PLAIN
    }
}

/// The configuration of an FTL.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Bytes of a mapping unit: 512 to 16384, a power of two.
    pub unit_bytes: u32,
    /// Logical units.
    pub units: u64,
    /// Open blocks of the host stream (at most one per die is useful).
    pub lanes: u32,
    /// Background collection starts when fewer blocks than this beyond the reserve and the lanes
    /// are free.
    pub gc_slack: u32,
    /// A checkpoint is written after this many blocks were opened; with a large map it is written
    /// less often.
    pub checkpoint_blocks: u32,
    /// The area that host writes go to first; `None`: they go to ordinary blocks.
    pub slc: Option<SlcArea>,
    /// What the FTL does by itself.
    #[serde(default)]
    pub housekeeping: Housekeeping,
}

impl Config {
    /// Blocks that the host's streams keep open.
    pub(crate) fn host_blocks(&self) -> u32 {
        self.lanes + u32::from(self.housekeeping.journal_stream)
    }
    /// Free blocks up to which host writes pay for collection.
    pub(crate) fn low_water(&self) -> u32 {
        RESERVE + self.host_blocks() + self.gc_slack
    }
    /// The blocks an FTL of this configuration needs on such chips, with `spare` (for example 0.07)
    /// over-provisioning.
    pub fn blocks_needed(&self, geometry: &Geometry, spare: f64) -> u64 {
        let slots = u64::from(geometry.pages_per_block) * u64::from(geometry.page_bytes)
            / u64::from(self.unit_bytes);
        let data = ((self.units as f64 * (1.0 + spare)) / slots as f64).ceil() as u64;
        let fixed = u64::from(self.low_water() + 2);
        let all = data + fixed + u64::from(self.slc.map_or(0, |slc| slc.blocks));
        // The size of the map areas depends weakly on the number of blocks, so two rounds settle
        // it.
        let areas = |blocks: u64| 2 * u64::from(area_blocks(self, geometry, blocks));
        all + areas(all + areas(all))
    }
}

/// Pages of a block of a map area, which is used with one bit per cell (pairs-I20).
fn meta_pages(geometry: &Geometry) -> u32 {
    geometry.pages_per_block / geometry.pairing.bits()
}

/// Blocks of one map area: a full checkpoint, half as much log, and a spare block.
pub(crate) fn area_blocks(config: &Config, geometry: &Geometry, blocks: u64) -> u32 {
    let room = u64::from(geometry.page_bytes) - META_HEADER;
    let pages = (config.units * 4).div_ceil(room) + (blocks * BLOCK_ENTRY).div_ceil(room) + 1;
    let blocks_used = (pages + pages / 2 + 8).div_ceil(u64::from(meta_pages(geometry)));
    let parallel = u64::from(geometry.dies()).min(blocks / 64);
    (blocks_used + 1).max(parallel) as u32
}

/// Chips that program word lines whole (nand-N6) are refused.
fn check_pairing(geometry: &Geometry) -> Result<(), String> {
    if geometry.pairing.pages_at_once() > 1 {
        return Err(format!(
            "pairing = {:?} programs word lines whole (nand-N6), which this translation layer cannot; use none, dist3 or shadow6",
            geometry.pairing
        ));
    }
    Ok(())
}

/// Sizes and addresses that follow from configuration and geometry.
///
/// A *row* is what one append programs: one page that holds several units, or several pages that
/// hold one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Layout {
    /// Bytes of a mapping unit.
    pub unit_bytes: u32,
    /// Logical units.
    pub units: u32,
    /// Units in a row.
    pub slots_per_row: u32,
    /// Pages in a row.
    pub pages_per_row: u32,
    /// Rows in a block.
    pub rows_per_block: u32,
    /// Units in a block.
    pub slots_per_block: u32,
    /// Blocks of each of the two map areas: area A is blocks `0..area`, area B `area..2*area`.
    pub area: u32,
    /// Pages of a block of the map areas.
    pub(crate) meta_pages: u32,
    /// Blocks of the SLC area, which follow the map areas; 0: there is none.
    pub slc_blocks: u32,
    /// Rows in a block of the SLC area.
    pub slc_rows: u32,
    /// All blocks.
    pub blocks: u32,
}

impl Layout {
    /// Computes the layout.
    ///
    /// # Errors
    /// Which number does not fit the others, in words.
    pub fn new(config: &Config, geometry: &Geometry) -> Result<Layout, String> {
        check_pairing(geometry)?;
        geometry.check()?;
        let (unit, page) = (config.unit_bytes, geometry.page_bytes);
        if !unit.is_power_of_two() || !(512..=16384).contains(&unit) {
            return Err(format!(
                "unit_bytes = {unit}; it may be 512, 1024, ... 16384"
            ));
        }
        if config.lanes == 0 || config.lanes > 256 || config.gc_slack > 1024 {
            return Err(format!(
                "lanes = {}, gc_slack = {}; at most 256 and 1024",
                config.lanes, config.gc_slack
            ));
        }
        if config.housekeeping.journal_stream && config.slc.is_some() {
            return Err(
                "journal_stream = true with an SLC area: what the host writes goes there first, so \
                 that streams begin behind it; switch one of them off"
                    .into(),
            );
        }
        let (slots_per_row, pages_per_row) = if unit <= page {
            (page / unit, 1)
        } else {
            (1, unit / page)
        };
        let spare_needed = if pages_per_row == 1 {
            slots_per_row * TAG_BYTES as u32
        } else {
            (TAG_BYTES as u32).div_ceil(pages_per_row)
        };
        if geometry.spare_bytes < spare_needed {
            return Err(format!(
                "spare_bytes = {}; the tags need {spare_needed}",
                geometry.spare_bytes
            ));
        }
        let rows_per_block = geometry.pages_per_block / pages_per_row;
        let slots_per_block = rows_per_block * slots_per_row;
        let blocks = geometry.blocks();
        if rows_per_block < 2 || u64::from(slots_per_block) * u64::from(blocks) >= u64::from(LOST) {
            return Err("more than 2^32 units, or less than two units in a block".into());
        }
        // While a batch copies units, every unit may need a second number.
        if config.units >= u64::from(LOST / 2) {
            return Err(format!("{} units; at most {}", config.units, LOST / 2));
        }
        let area = area_blocks(config, geometry, u64::from(blocks));
        let slc_rows = match &config.slc {
            Some(slc) => slc.rows(config, rows_per_block)?,
            None => 0,
        };
        let slc_blocks = config.slc.map_or(0, |slc| slc.blocks);
        let layout = Layout {
            unit_bytes: unit,
            units: u32::try_from(config.units).map_err(|_| "too many units".to_string())?,
            slots_per_row,
            pages_per_row,
            rows_per_block,
            slots_per_block,
            area,
            meta_pages: meta_pages(geometry),
            slc_blocks,
            slc_rows,
            blocks,
        };
        let floor = layout.data_blocks_needed(config);
        if u64::from(blocks) < u64::from(2 * area) + u64::from(floor) + u64::from(slc_blocks) {
            return Err(format!(
                "{} units need {} blocks, there are {blocks}",
                config.units,
                u64::from(2 * area) + u64::from(floor) + u64::from(slc_blocks)
            ));
        }
        Ok(layout)
    }
    /// The slot number of a place.
    pub(crate) fn ppn(&self, block: u32, row: u32, slot: u32) -> u32 {
        block * self.slots_per_block + row * self.slots_per_row + slot
    }
    /// The slot numbers of a row.
    pub(crate) fn row(&self, block: u32, row: u32) -> std::ops::Range<u32> {
        let first = self.ppn(block, row, 0);
        first..first + self.slots_per_row
    }
    /// The place of a slot number: block, row, slot.
    pub(crate) fn place(&self, ppn: u32) -> (u32, u32, u32) {
        let inside = ppn % self.slots_per_block;
        (
            ppn / self.slots_per_block,
            inside / self.slots_per_row,
            inside % self.slots_per_row,
        )
    }
    /// The first page of a row.
    pub(crate) fn page(&self, block: u32, row: u32) -> PageAddr {
        PageAddr {
            block: BlockId(block),
            page: row * self.pages_per_row,
        }
    }
    /// True for the blocks of the SLC area.
    pub(crate) fn is_slc(&self, block: u32) -> bool {
        let first = 2 * self.area;
        (first..first + self.slc_blocks).contains(&block)
    }
    /// Rows that a block holds in its mode.
    pub(crate) fn rows_in(&self, block: u32) -> u32 {
        if self.is_slc(block) {
            self.slc_rows
        } else {
            self.rows_per_block
        }
    }
    /// True for the blocks of the two map areas.
    pub(crate) fn is_meta(&self, block: u32) -> bool {
        block < 2 * self.area
    }
}
