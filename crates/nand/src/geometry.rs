//! Shape and speed of a chip set.

use crate::Pairing;
use base::Nanos;
use serde::{Deserialize, Serialize};

/// A physical erase block: a dense number over all dies, die first (`block % dies`), so that
/// ascending numbers visit the dies in turn.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockId(pub u32);

/// A physical page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageAddr {
    /// Erase block.
    pub block: BlockId,
    /// Page inside the block.
    pub page: u32,
}

/// Shape of a chip set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Channels; each has a bus of its own.
    pub channels: u32,
    /// Dies on each channel.
    pub dies_per_channel: u32,
    /// Planes in each die.
    pub planes: u32,
    /// Erase blocks in each plane.
    pub blocks_per_plane: u32,
    /// Pages in each erase block.
    pub pages_per_block: u32,
    /// Data bytes in each page.
    pub page_bytes: u32,
    /// Spare bytes in each page that the translation layer may use (what the error correction
    /// leaves).
    pub spare_bytes: u32,
    /// Programs allowed per page between two erases: 4 on single-bit parts of the time, 1 on
    /// multi-bit parts.
    pub nop: u32,
    /// Erases that a block is rated for; each block fails somewhere between this and a quarter
    /// more.
    pub endurance: u32,
    /// Pages that share cells.
    #[serde(default)]
    pub pairing: Pairing,
}

impl Geometry {
    /// Dies of all channels.
    pub const fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }
    /// Erase blocks of all dies.
    pub const fn blocks(&self) -> u32 {
        self.dies() * self.planes * self.blocks_per_plane
    }
    /// The die that holds a block.
    pub const fn die_of(&self, block: BlockId) -> u32 {
        block.0 % self.dies()
    }
    /// The plane of its die that holds a block.
    pub const fn plane_of(&self, block: BlockId) -> u32 {
        block.0 / self.dies() % self.planes
    }
    /// The channel that serves a die.
    pub const fn channel_of(&self, die: u32) -> u32 {
        die % self.channels
    }
    /// Where the bad-block mark lies (nand-N3): bytes of the raw spare area of the first page of a
    /// block; any of them other than 0xFF is the mark. Byte 5 on pages of 512 bytes, 0 and 1 on
    /// larger ones.
    pub const fn mark_at(&self) -> std::ops::Range<u32> {
        if self.page_bytes <= 512 { 5..6 } else { 0..2 }
    }
    /// Checks these numbers.
    ///
    /// # Errors
    /// The first field with which there is no chip, in words.
    pub fn check(&self) -> Result<(), String> {
        let fields = [
            ("channels", self.channels, 1, 64),
            ("dies_per_channel", self.dies_per_channel, 1, 64),
            ("planes", self.planes, 1, 8),
            ("blocks_per_plane", self.blocks_per_plane, 1, 1 << 20),
            ("pages_per_block", self.pages_per_block, 2, 1 << 12),
            ("page_bytes", self.page_bytes, 512, 1 << 16),
            ("spare_bytes", self.spare_bytes, 0, 1 << 13),
            ("nop", self.nop, 1, 8),
            ("endurance", self.endurance, 1, u32::MAX / 2),
        ];
        for (name, value, min, max) in fields {
            if !(min..=max).contains(&value) {
                return Err(format!("{name} = {value}; it may be {min} to {max}"));
            }
        }
        // Addresses are bit fields on the bus of a chip (ONFI 3.1).
        for (name, value) in [("page_bytes", self.page_bytes), ("planes", self.planes)] {
            if !value.is_power_of_two() {
                return Err(format!("{name} = {value} is not a power of two"));
            }
        }
        let (bits, at_once) = (self.pairing.bits(), self.pairing.pages_at_once());
        if !self.pages_per_block.is_multiple_of(at_once) {
            return Err(format!(
                "pages_per_block = {}; pairing {:?} programs {at_once} pages at once, so it must be a multiple of {at_once} (nand-N6)",
                self.pages_per_block, self.pairing
            ));
        }
        if bits > 1 && self.nop > 1 {
            return Err(format!(
                "nop = {}; with pairing {:?} a page is programmed once (nand-N1)",
                self.nop, self.pairing
            ));
        }
        if u64::from(self.dies()) * u64::from(self.planes) * u64::from(self.blocks_per_plane)
            > 1 << 24
        {
            return Err("more than 16 million blocks".into());
        }
        Ok(())
    }
}

/// Speed of a chip set, without firmware and host bus.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Array to page register (tR), microseconds.
    pub read_us: f64,
    /// Page register to array (tPROG), microseconds.
    pub program_us: f64,
    /// Block erase (tBERS), microseconds.
    pub erase_us: f64,
    /// One byte over the channel's bus, nanoseconds.
    pub bus_ns_per_byte: f64,
    /// One byte over the bus to the chip (data of a program), nanoseconds; `None`: as
    /// [`Timing::bus_ns_per_byte`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_bus_ns_per_byte: Option<f64>,
    /// Whether the spare bytes of a program take time on the bus; nandsim counts the data only.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub spare_on_bus: bool,
    /// Whether a page crosses the bus while its die programs another one (cache program: a second
    /// page register); nandsim does one after the other.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub cache_program: bool,
    /// Whether a transfer may use the bus of its channel while a transfer of an earlier command
    /// waits for its die; else commands use the bus in the order in which they were given.
    #[serde(default, skip_serializing_if = "is_false")]
    pub bus_gaps: bool,
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_true(value: &bool) -> bool {
    *value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl Timing {
    pub(crate) fn read(&self) -> Nanos {
        micros(self.read_us)
    }
    pub(crate) fn program(&self) -> Nanos {
        micros(self.program_us)
    }
    pub(crate) fn erase(&self) -> Nanos {
        micros(self.erase_us)
    }
    /// Time of a transfer of `bytes` from the chip (read).
    pub(crate) fn transfer(&self, bytes: usize) -> Nanos {
        Nanos((self.bus_ns_per_byte * bytes as f64) as u64)
    }
    /// Time of a transfer of data and spare bytes to the chip (program).
    pub(crate) fn transfer_in(&self, data: usize, spare: usize) -> Nanos {
        let per_byte = self.program_bus_ns_per_byte.unwrap_or(self.bus_ns_per_byte);
        let bytes = data + if self.spare_on_bus { spare } else { 0 };
        Nanos((per_byte * bytes as f64) as u64)
    }
    /// Checks these numbers.
    ///
    /// # Errors
    /// The first field that is not a sensible time, in words.
    pub fn check(&self) -> Result<(), String> {
        let fields = [
            ("read_us", self.read_us),
            ("program_us", self.program_us),
            ("erase_us", self.erase_us),
            ("bus_ns_per_byte", self.bus_ns_per_byte),
            (
                "program_bus_ns_per_byte",
                self.program_bus_ns_per_byte.unwrap_or(0.0),
            ),
        ];
        match fields.iter().find(|(_, v)| !(0.0..1e6).contains(v)) {
            Some((name, value)) => Err(format!("{name} = {value}; it may be 0 to one second")),
            None => Ok(()),
        }
    }
}

/// Blocks used with one bit per cell although the cells hold more (pseudo-SLC): faster,
/// longer-lived, with fewer pages.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SlcMode {
    /// The first such block.
    pub first: BlockId,
    /// Number of such blocks, one behind the other.
    pub blocks: u32,
    /// Pages of such a block: the ordinary number divided by the bits of a cell.
    pub pages: u32,
    /// Array to page register (tR) in this mode, microseconds.
    pub read_us: f64,
    /// Page register to array (tPROG), microseconds.
    pub program_us: f64,
    /// Block erase (tBERS), microseconds.
    pub erase_us: f64,
    /// Erases that such a block is rated for, in place of [`Geometry::endurance`].
    pub endurance: u32,
}

impl SlcMode {
    /// True if the block is used in this mode.
    pub fn holds(&self, block: BlockId) -> bool {
        block
            .0
            .checked_sub(self.first.0)
            .is_some_and(|i| i < self.blocks)
    }
}

fn micros(us: f64) -> Nanos {
    Nanos((us * 1000.0) as u64)
}
