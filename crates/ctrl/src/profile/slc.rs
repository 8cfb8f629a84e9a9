//! The pseudo-SLC write area of a flash device.

use ftl::SlcArea;
use ftl::nand::Geometry;
use serde::{Deserialize, Serialize};

/// The table `slc` of a profile: cells that are used with one bit each, in front of the others.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SlcProfile {
    /// Whether the device has the area.
    pub on: bool,
    /// Capacity of the empty area, MiB.
    pub mib: u64,
    /// Bits that each cell holds outside the area.
    pub bits_per_cell: u32,
    /// Array to page register (tR), microseconds.
    pub read_us: f64,
    /// Page register to array (tPROG), microseconds.
    pub program_us: f64,
    /// Block erase (tBERS), microseconds.
    pub erase_us: f64,
    /// Number of erases that a block of the area is rated for.
    pub endurance: u32,
    /// True if the size is meant for a device of the profile's capacity: a device of another
    /// capacity gets the same share, or the smallest area that works.
    #[serde(default, skip_serializing_if = "is_false")]
    pub share: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl SlcProfile {
    /// Checks these values; the error names the first impossible field. An area that is off may
    /// have any size.
    pub(super) fn check(&self, chips: &Geometry, lanes: u32, capacity: u64) -> Result<(), String> {
        if !(2..=4).contains(&self.bits_per_cell) {
            let bits = self.bits_per_cell;
            return Err(format!("bits_per_cell = {bits}; it may be 2 to 4"));
        }
        for (name, us) in [
            ("read_us", self.read_us),
            ("program_us", self.program_us),
            ("erase_us", self.erase_us),
        ] {
            if !(0.0..1e6).contains(&us) {
                return Err(format!("{name} = {us}; it may be 0 to one second"));
            }
        }
        if !(1..=u32::MAX / 2).contains(&self.endurance) {
            let (rated, max) = (self.endurance, u32::MAX / 2);
            return Err(format!("endurance = {rated}; it may be 1 to {max}"));
        }
        if self.on {
            self.check_size(chips, lanes, capacity)?;
        }
        Ok(())
    }
    /// Checks that the device has enough cells for the area, and that every lane can have a block
    /// of it open.
    fn check_size(&self, chips: &Geometry, lanes: u32, capacity: u64) -> Result<(), String> {
        let block = self.block_bytes(chips);
        if block == 0 {
            let pages = chips.pages_per_block;
            return Err(format!(
                "bits_per_cell = {}; a block of {pages} pages has less than one page then",
                self.bits_per_cell
            ));
        }
        let min = (u64::from(SlcArea::least_blocks(lanes)) * block).div_ceil(1 << 20);
        let max = (capacity >> 20) / u64::from(self.bits_per_cell);
        if (min..=max.max(if self.share { min } else { 0 })).contains(&self.mib) {
            return Ok(());
        }
        Err(format!(
            "mib = {}; it may be {min} (an open block for each of ftl.lanes = {lanes}, and one more) to {max} (the cells of \
             {} MiB with one bit each)",
            self.mib,
            capacity >> 20
        ))
    }
    /// The area for a device of `capacity` bytes, if this one is meant for a device of `own` bytes.
    pub(super) fn scaled(
        mut self,
        chips: &Geometry,
        lanes: u32,
        own: u64,
        capacity: u64,
    ) -> SlcProfile {
        if self.share && capacity != own {
            let block = self.block_bytes(chips);
            let min = (u64::from(SlcArea::least_blocks(lanes)) * block).div_ceil(1 << 20);
            let part = u128::from(self.mib) * u128::from(capacity) / u128::from(own.max(1));
            self.mib = u64::try_from(part).unwrap_or(u64::MAX).max(min);
        }
        self
    }
    /// Bytes of an erase block in this mode.
    fn block_bytes(&self, chips: &Geometry) -> u64 {
        u64::from(chips.pages_per_block / self.bits_per_cell.max(1)) * u64::from(chips.page_bytes)
    }
    /// The area in the form that the translation layer takes; `None` if it is off. The size is
    /// rounded up to whole blocks.
    pub(super) fn area(&self, chips: &Geometry) -> Option<SlcArea> {
        let bytes = self.mib.checked_mul(1 << 20)?;
        let blocks = bytes.div_ceil(self.block_bytes(chips).max(1));
        self.on.then_some(SlcArea {
            blocks: u32::try_from(blocks).unwrap_or(u32::MAX),
            bits_per_cell: self.bits_per_cell,
            read_us: self.read_us,
            program_us: self.program_us,
            erase_us: self.erase_us,
            endurance: self.endurance,
        })
    }
}
