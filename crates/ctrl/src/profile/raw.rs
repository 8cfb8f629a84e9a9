//! The part of a profile that describes raw flash.

use super::flash::{Chips, Flash, Translation};
use super::{EnergyProfile, HostProfile};
use crate::AnyModel;
use crate::raw::{Raw, RawConfig, RawMedia, RawTiming};
use ftl::nand;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Raw flash: the translation layer without a card around it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawProfile {
    pub name: String,
    pub capacity_mib: u64,
    pub host: HostProfile,
    /// True if writes are compared with what was programmed lately, and equal content is shared.
    #[serde(default)]
    transparent: bool,
    /// How much of what was programmed lately is indexed, MiB.
    #[serde(default = "window_mib")]
    transparent_window_mib: u32,
    /// How much of what was programmed last is kept in memory as well, MiB, so that comparing a
    /// write with it takes no read.
    #[serde(default)]
    transparent_copies_mib: u32,
    controller: RawConfig,
    nand: Chips,
    ftl: Translation,
    pub energy: Option<EnergyProfile>,
    pub default_timing: String,
    pub timing: BTreeMap<String, RawTiming>,
}

/// The default window: more than the largest log that ext4 makes by default on volumes of this
/// size.
const fn window_mib() -> u32 {
    64
}

impl RawProfile {
    /// Chips and translation layer.
    pub fn flash(&self) -> Flash<'_> {
        Flash {
            chips: &self.nand,
            translation: &self.ftl,
            slc: None,
        }
    }
    /// The speed of the chips that the profile gives, whatever the timing set.
    pub fn die_timing(&self) -> nand::Timing {
        self.nand.timing
    }
    /// Checks these values; the error names the first impossible field.
    pub fn check(&self) -> Result<(), String> {
        let controller = self.controller.check();
        controller.map_err(|e| format!("controller.{e}"))?;
        let window = self.transparent_window_mib;
        if !(1..=1 << 16).contains(&window) {
            return Err(format!(
                "transparent_window_mib = {window}; it may be 1 to 65536"
            ));
        }
        let copies = self.transparent_copies_mib;
        if copies > window {
            return Err(format!(
                "transparent_copies_mib = {copies}; it may be 0 to transparent_window_mib, {window}"
            ));
        }
        for (name, timing) in &self.timing {
            let checked = timing.check();
            checked.map_err(|e| format!("timing.{name}.{e}"))?;
        }
        self.flash().check(self.capacity_mib << 20)
    }
    /// Units of the translation layer of a device that exports `units`.
    pub fn all_units(&self, units: u64) -> u64 {
        units + self.controller.scratch(units)
    }
    /// The configuration of the translation layer.
    pub fn config(&self, units: u64) -> ftl::Config {
        let mut config = self.flash().config(self.all_units(units));
        // With sharing, zeros are content like any other; a unit of zeros needs no page.
        config.housekeeping.zero_units |= self.transparent;
        config
    }
    /// The chips of a device of `units` units.
    pub fn sized(&self, units: u64) -> Result<nand::Geometry, String> {
        self.flash().sized(&self.config(units))
    }
    /// The speed of the chips.
    pub fn chips(&self, timing: &str) -> nand::Timing {
        self.timing[timing].nand.unwrap_or(self.nand.timing)
    }
    /// The device, of `units` units.
    pub fn build(
        &self,
        timing: &str,
        units: u64,
        media: Option<RawMedia>,
    ) -> Result<AnyModel, String> {
        let config = self.config(units);
        let (ftl, patch) = self.flash().build(self.chips(timing), config, media)?;
        let raw = Raw::new(&self.controller, self.timing[timing], units, ftl);
        let mut raw = raw.map_err(|e| e.to_string())?;
        if self.transparent {
            raw.share_content(self.transparent_window_mib, self.transparent_copies_mib);
        }
        let applied = raw.firmware_mut().apply(patch);
        applied.map_err(|e| e.to_string())?;
        Ok(AnyModel::Raw(Box::new(raw)))
    }
}
