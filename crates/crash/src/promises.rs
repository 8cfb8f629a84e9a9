//! Devices that are defined by their promises alone: `spec:NAME[,KEY=VALUE...]`.
//!
//! A crash test with such a device tests a scheme against what a standard promises, and not against
//! the habits of one model. A `KEY=VALUE` changes one promise of the name, as in `emmc,pack=none`.
//! `area` and `block` say how the volume on the device is made.
//!
//! | name | what it stands for |
//! |---|---|
//! | `emmc` | eMMC 5.1 with cache, reliable writes of any length, WR_REL_SET, packs of which a cut leaves a prefix |
//! | `emmc-any` | as `emmc`, but a cut leaves any subset of a pack (seen on real cards) |
//! | `emmc-plain` | as `emmc`, without packed writes |
//! | `nvme` | cache, FUA, 4 KiB sectors that are old or new |
//! | `ufs` | cache, FUA, 4 KiB sectors; a cut may leave anything in a sector that was being written |
//! | `disk` | cache and flush, no FUA, sectors of 512 bytes that are old or new: what JBD2 was made for |

use super::cells::{CacheOrder, Cell, Reliable};
use base::BlockSize;
use blockdev::{Caps, PackOrder, RemapCaps};
use std::fmt;
use std::str::FromStr;

/// What a device promises, made from its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Promises {
    /// Cache, reliable writes, packed commands, sector size and order of the cache.
    pub cell: Cell,
    /// A write without any reliability leaves each sector old or new.
    pub whole_sectors: bool,
    /// The granule of its REMAP command, bytes; `None`: it has no such command.
    pub remap: Option<u32>,
    /// Bytes of a block of an ext4 on it; `None`: 4096.
    pub block_bytes: Option<u32>,
    /// Case does not count in the names of the tasks (feature `casefold`).
    pub casefold: bool,
    /// The area of fast commits holds those of an earlier life when the volume is made.
    pub used_area: bool,
}

/// A text that names no device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PromisesError(String);

impl fmt::Display for PromisesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PromisesError {}

/// Most pairs of one REMAP: more than any transaction has.
const REMAP_PAIRS: u32 = 16 * 1024;

const NAMES: &str = "emmc, emmc-any, emmc-plain, nvme, ufs, disk";
const KEYS: &str = "cache=on|off, reliable=enhanced|legacy|absent, wr_rel_set=on|off, pack=prefix|any-subset|none, sector=512|4096, \
                    order=any|fifo|barrier, whole_sectors=on|off, remap=none|512|4096|16384|65536, area=blank|used, \
                    block=1024|2048|4096|8192|16384|32768|65536, names=case|folded";

impl Promises {
    /// The promises that a name stands for.
    fn named(name: &str) -> Option<Promises> {
        let emmc = Cell {
            cache: true,
            reliable: Reliable::Enhanced,
            wr_rel_set: true,
            pack: Some(PackOrder::Prefix),
            sector: 512,
            order: CacheOrder::Any,
        };
        let pack = |pack| Cell { pack, ..emmc };
        let (cell, whole_sectors) = match name {
            "emmc" => (emmc, false),
            "emmc-any" => (pack(Some(PackOrder::AnySubset)), false),
            "emmc-plain" => (pack(None), false),
            "nvme" | "ufs" => (
                Cell {
                    sector: 4096,
                    ..pack(None)
                },
                name == "nvme",
            ),
            "disk" => (
                Cell {
                    reliable: Reliable::Absent,
                    ..pack(None)
                },
                true,
            ),
            _ => return None,
        };
        Some(Promises {
            cell,
            whole_sectors,
            remap: None,
            block_bytes: None,
            casefold: false,
            used_area: false,
        })
    }

    fn set(&mut self, item: &str) -> Result<(), PromisesError> {
        let bad = || PromisesError(format!("`{item}`; there is: {KEYS}"));
        let (key, value) = item.split_once('=').ok_or_else(bad)?;
        let on = || match value {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(bad()),
        };
        let cell = &mut self.cell;
        match (key, value) {
            ("cache", _) => cell.cache = on()?,
            ("wr_rel_set", _) => cell.wr_rel_set = on()?,
            ("whole_sectors", _) => self.whole_sectors = on()?,
            ("reliable", "enhanced") => cell.reliable = Reliable::Enhanced,
            ("reliable", "legacy") => cell.reliable = Reliable::Legacy,
            ("reliable", "absent") => cell.reliable = Reliable::Absent,
            ("pack", "prefix") => cell.pack = Some(PackOrder::Prefix),
            ("pack", "any-subset") => cell.pack = Some(PackOrder::AnySubset),
            ("pack", "none") => cell.pack = None,
            ("sector", "512") => cell.sector = 512,
            ("sector", "4096") => cell.sector = 4096,
            ("order", "any") => cell.order = CacheOrder::Any,
            ("order", "fifo") => cell.order = CacheOrder::Fifo,
            ("order", "barrier") => cell.order = CacheOrder::Barrier,
            ("area", "blank") => self.used_area = false,
            ("area", "used") => self.used_area = true,
            ("names", "case") => self.casefold = false,
            ("names", "folded") => self.casefold = true,
            ("remap", "none") => self.remap = None,
            ("remap", "512" | "4096" | "16384" | "65536") => self.remap = value.parse().ok(),
            ("block", _) => {
                let size = value
                    .parse()
                    .ok()
                    .and_then(BlockSize::new)
                    .ok_or_else(bad)?;
                self.block_bytes = Some(size.bytes() as u32);
            }
            _ => return Err(bad()),
        }
        Ok(())
    }

    /// The promises of a device of `bytes` bytes, as the block layer sees them.
    pub fn caps(&self, bytes: u64) -> Caps {
        Caps {
            tear_granule: self.whole_sectors.then_some(self.cell.sector),
            remap: self.remap.map(|granule| RemapCaps {
                granule,
                pairs_max: REMAP_PAIRS,
            }),
            ..self.cell.caps(bytes)
        }
    }
}

impl FromStr for Promises {
    type Err = PromisesError;
    fn from_str(text: &str) -> Result<Promises, PromisesError> {
        let mut items = text.split(',');
        let name = items.next().unwrap_or_default();
        let mut promises = Promises::named(name).ok_or_else(|| {
            PromisesError(format!(
                "device `spec:{name}`; there is: {NAMES}, with {KEYS}"
            ))
        })?;
        for item in items {
            promises
                .set(item)
                .map_err(|e| PromisesError(format!("device `spec:{text}`: {e}")))?;
        }
        Ok(promises)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_device_and_changes_apply() {
        for name in NAMES.split(", ") {
            let promises: Promises = name.parse().unwrap();
            assert_eq!(promises.caps(1 << 24).sectors, 1 << 15, "{name}");
        }
        let changed: Promises = "emmc,sector=4096,pack=none".parse().unwrap();
        let caps = changed.caps(1 << 24);
        assert_eq!((caps.sector_bytes, caps.packed), (4096, None));
        assert_eq!(caps.remap, None);
        let large: Promises = "emmc,block=65536".parse().unwrap();
        assert_eq!(large.block_bytes, Some(65_536));
        let remapping: Promises = "disk,remap=4096".parse().unwrap();
        let promise = remapping.caps(1 << 24).remap.expect("as asked");
        assert_eq!((promise.granule, promise.pairs_max), (4096, REMAP_PAIRS));
    }

    #[test]
    fn what_is_not_known_is_named() {
        for (text, word) in [
            ("floppy", "`spec:floppy`"),
            ("emmc,pack=all", "`pack=all`"),
            ("emmc,remap=7", "`remap=7`"),
            ("emmc,block=12288", "`block=12288`"),
        ] {
            let why = text.parse::<Promises>().unwrap_err().to_string();
            assert!(why.contains(word), "{why}");
        }
    }
}
