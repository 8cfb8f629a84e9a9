//! How many blocks of each kind of cells a device has, and how often each may be erased: what wear
//! is told by.

use super::{Kind, Profile, ProfileError};
use base::BLOCK_BYTES;
use ftl::{Config, Layout, SlcArea};

/// The blocks of one kind of cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellArea {
    /// Erases that each block is rated for.
    pub erases: u32,
    /// Number of blocks.
    pub blocks: u32,
}

/// The blocks of a device by kind of cells. The SLC area has its own blocks always, so that the two
/// kinds do not share their wear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellAreas {
    /// Blocks used with all their bits, those of the map included.
    pub ordinary: CellArea,
    /// Blocks used with one bit per cell; `None` if there are none.
    pub slc: Option<CellArea>,
    /// The blocks that hold the map, always the same ones; they are part of the ordinary ones.
    pub map: CellArea,
}

impl Profile {
    /// The blocks of the device when it has `bytes`; `None` for one without flash.
    ///
    /// # Errors
    /// The capacity is out of range.
    pub fn areas(&self, bytes: u64) -> Result<Option<CellAreas>, ProfileError> {
        let Some(chips) = self.chips(bytes)? else {
            return Ok(None);
        };
        let slc = self.slc_area(bytes).map(|area| CellArea {
            erases: area.endurance,
            blocks: area.blocks,
        });
        let layout = self
            .ftl_config(bytes)
            .map(|config| Layout::new(&config, &chips));
        let map = layout
            .and_then(Result::ok)
            .map_or(0, |layout| 2 * layout.area);
        Ok(Some(CellAreas {
            map: CellArea {
                erases: chips.endurance,
                blocks: map,
            },
            ordinary: CellArea {
                erases: chips.endurance,
                blocks: chips.blocks() - slc.map_or(0, |area| area.blocks),
            },
            slc,
        }))
    }
    /// The SLC area of the device when it has `bytes`.
    fn slc_area(&self, bytes: u64) -> Option<SlcArea> {
        self.ftl_config(bytes)?.slc
    }
    /// The configuration of the translation layer of the device when it has `bytes`.
    fn ftl_config(&self, bytes: u64) -> Option<Config> {
        let units = bytes / BLOCK_BYTES as u64;
        match &self.kind {
            Kind::Plain(_) => None,
            Kind::Raw(p) => Some(p.config(units)),
            Kind::Emmc(p) => Some(p.flash().config(units)),
            Kind::Nvme(p) => Some(p.config(units)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_of_the_slc_area_are_not_counted_twice() {
        let areas = |name: &str| {
            let profile = Profile::open(name).unwrap();
            let all = profile
                .chips(256 << 20)
                .unwrap()
                .map(|chips| chips.blocks());
            (profile.areas(256 << 20).unwrap(), all)
        };
        let (plain, all) = areas("emmc-odroid-xu4");
        let plain = plain.unwrap();
        assert_eq!((plain.slc, Some(plain.ordinary.blocks)), (None, all));
        let (both, all) = areas("emmc-odroid-xu4,slc.on=true,slc.mib=16");
        let (both, slc) = (both.unwrap(), both.unwrap().slc.unwrap());
        // 16 MiB in blocks of 64 pages of 16 KiB.
        assert_eq!((slc.blocks, slc.erases), (16, 30_000));
        assert_eq!(Some(both.ordinary.blocks + slc.blocks), all);
        assert_eq!(both.ordinary.erases, 3000);
        // Two areas of two blocks.
        assert_eq!((plain.map.blocks, plain.map.erases), (4, 3000));
        assert_eq!(areas("loop-like").0, None);
    }
}
