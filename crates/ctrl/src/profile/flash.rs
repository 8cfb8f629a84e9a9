//! The part of a profile below the controller: chips and translation layer.

use super::SlcProfile;
use crate::FlashMedia;
use base::{BLOCK_BYTES, Bytes};
use ftl::nand::{self, Geometry, Nand};
use ftl::{Config, Ftl};
use serde::Deserialize;

/// The chips of a flash device: a geometry without the number of blocks, which follows from the
/// capacity.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Chips {
    channels: u32,
    dies_per_channel: u32,
    planes: u32,
    pages_per_block: u32,
    page_bytes: u32,
    spare_bytes: u32,
    nop: u32,
    endurance: u32,
    /// Pages that share cells.
    #[serde(default)]
    pairing: nand::Pairing,
    /// How the cells behave beyond the clean model.
    #[serde(default)]
    cells: nand::Cells,
    /// Share of the blocks that the factory marked bad, at most 0.02.
    #[serde(default)]
    factory_bad: f64,
    pub timing: nand::Timing,
}

/// The translation layer of a flash device.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Translation {
    over_provisioning: f64,
    pub lanes: u32,
    gc_slack: u32,
    checkpoint_blocks: u32,
    #[serde(default)]
    policy: ftl::Policy,
    #[serde(default)]
    policy_seed: u64,
    #[serde(default)]
    journal_stream: bool,
    #[serde(default)]
    wear_threshold: u32,
    #[serde(default)]
    zero_units: bool,
    #[serde(default)]
    own_evidence: bool,
}

impl Translation {
    /// The background work of the translation layer.
    fn housekeeping(&self) -> ftl::Housekeeping {
        ftl::Housekeeping {
            policy: self.policy,
            seed: self.policy_seed,
            journal_stream: self.journal_stream,
            wear_threshold: self.wear_threshold,
            zero_units: self.zero_units,
            own_evidence: self.own_evidence,
        }
    }
}

/// Chips and translation layer of a profile.
pub(super) struct Flash<'a> {
    pub chips: &'a Chips,
    pub translation: &'a Translation,
    pub slc: Option<&'a SlcProfile>,
}

impl Flash<'_> {
    /// Checks these values for a device of `capacity` bytes; the error names the first impossible
    /// field.
    pub fn check(&self, capacity: u64) -> Result<(), String> {
        if self.chips.pairing.pages_at_once() > 1 {
            return Err(
                "nand.pairing = one-shot-tlc: the translation layer cannot program a word line whole (nand-N6); \
                 use none, dist3 or shadow6"
                    .into(),
            );
        }
        self.geometry(1).check().map_err(|e| format!("nand.{e}"))?;
        let chips = self.chips.timing.check();
        chips.map_err(|e| format!("nand.timing.{e}"))?;
        let cells = self.chips.cells.check();
        cells.map_err(|e| format!("nand.cells.{e}"))?;
        nand::Media::factory(self.geometry(1), 0, self.chips.factory_bad)
            .map_err(|e| format!("nand.{e}"))?;
        let ftl = self.translation;
        let spare = ftl.over_provisioning;
        if !(0.01..=1.0).contains(&spare) {
            return Err(format!(
                "ftl.over_provisioning = {spare}; it may be 0.01 to 1"
            ));
        }
        for (name, value, min, max) in [
            ("lanes", ftl.lanes, 1, 256),
            ("gc_slack", ftl.gc_slack, 0, 1024),
            ("checkpoint_blocks", ftl.checkpoint_blocks, 1, 1 << 20),
        ] {
            if !(min..=max).contains(&value) {
                return Err(format!("ftl.{name} = {value}; it may be {min} to {max}"));
            }
        }
        self.check_slc(capacity)
    }
    fn check_slc(&self, capacity: u64) -> Result<(), String> {
        let Some(slc) = self.slc else {
            return Ok(());
        };
        let checked = slc.check(&self.geometry(1), self.translation.lanes, capacity);
        checked.map_err(|e| format!("slc.{e}"))
    }
    pub fn geometry(&self, blocks_per_plane: u32) -> Geometry {
        let n = self.chips;
        Geometry {
            channels: n.channels,
            dies_per_channel: n.dies_per_channel,
            planes: n.planes,
            blocks_per_plane,
            pages_per_block: n.pages_per_block,
            page_bytes: n.page_bytes,
            spare_bytes: n.spare_bytes,
            nop: n.nop,
            endurance: n.endurance,
            pairing: n.pairing,
        }
    }
    /// The configuration of a translation layer of `units` units.
    pub fn config(&self, units: u64) -> Config {
        Config {
            unit_bytes: BLOCK_BYTES as u32,
            units,
            lanes: self.translation.lanes,
            gc_slack: self.translation.gc_slack,
            checkpoint_blocks: self.translation.checkpoint_blocks,
            slc: self.slc.and_then(|slc| slc.area(&self.geometry(1))),
            housekeeping: self.translation.housekeeping(),
        }
    }
    /// Chips of this speed under power.
    pub fn power_up(&self, chips: nand::Timing, media: nand::Media) -> Nand {
        let mut nand = Nand::new(media, chips);
        nand.set_cells(self.chips.cells);
        nand
    }
    /// A translation layer with configuration `config` over chips of this speed: formatted, or
    /// recovered from what a cut left. Answers as well the blocks whose content an adversary
    /// decided.
    pub fn build(
        &self,
        chips: nand::Timing,
        config: Config,
        media: Option<FlashMedia>,
    ) -> Result<(Ftl, Vec<(u64, Bytes)>), String> {
        self.check_slc(config.units * BLOCK_BYTES as u64)?;
        let say = |e: &dyn std::fmt::Display| e.to_string();
        let power_up = |media| self.power_up(chips, media);
        let (mut ftl, patch) = match media {
            Some(media) => {
                let mounted =
                    Ftl::mount(power_up(media.nand), config, base::Time(0)).map_err(|e| say(&e))?;
                (mounted.0, media.patch)
            }
            None => {
                let (seed, bad) = (self.chips.cells.seed, self.chips.factory_bad);
                let blank = nand::Media::factory(self.sized(&config)?, seed, bad)?;
                let ftl = Ftl::format(power_up(blank), config).map_err(|e| say(&e))?;
                (ftl, Vec::new())
            }
        };
        // Formatting and recovery end before the host's clock starts.
        let quiet = ftl.begin_quiet();
        ftl.end_quiet(quiet).map_err(|e| say(&e))?;
        Ok((ftl, patch))
    }
    /// The chips that such a device needs.
    pub fn sized(&self, config: &Config) -> Result<Geometry, String> {
        let blocks = config.blocks_needed(&self.geometry(1), self.translation.over_provisioning);
        let per_plane = blocks.div_ceil(u64::from(self.geometry(1).blocks()));
        let geometry = self.geometry(u32::try_from(per_plane).map_err(|e| e.to_string())?);
        geometry.check()?;
        Ok(geometry)
    }
}
