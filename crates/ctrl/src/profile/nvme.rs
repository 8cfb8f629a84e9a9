//! The part of a profile that describes an NVMe or UFS device.

use super::flash::{Chips, Flash, Translation};
use super::{EnergyProfile, HostProfile, SlcProfile};
use crate::AnyModel;
use crate::nvme::{Nvme, NvmeConfig, NvmeMedia, NvmeTiming};
use base::BLOCK_BYTES;
use ftl::nand;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Controller, chips, translation layer and SLC area.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NvmeProfile {
    pub name: String,
    pub capacity_mib: u64,
    pub host: HostProfile,
    controller: NvmeConfig,
    nand: Chips,
    ftl: Translation,
    pub slc: SlcProfile,
    pub energy: Option<EnergyProfile>,
    pub default_timing: String,
    pub timing: BTreeMap<String, NvmeTiming>,
}

impl NvmeProfile {
    /// Chips and translation layer.
    pub fn flash<'a>(&'a self, slc: &'a SlcProfile) -> Flash<'a> {
        Flash {
            chips: &self.nand,
            translation: &self.ftl,
            slc: Some(slc),
        }
    }
    /// The SLC area of a device of `units` units.
    fn slc_of(&self, units: u64) -> SlcProfile {
        let chips = self.flash(&self.slc).geometry(1);
        let (own, capacity) = (self.capacity_mib << 20, units * BLOCK_BYTES as u64);
        self.slc.scaled(&chips, self.ftl.lanes, own, capacity)
    }
    /// The speed of the chips that the profile gives, whatever the timing set.
    pub fn die_timing(&self) -> nand::Timing {
        self.nand.timing
    }
    /// Checks these values; the error names the first impossible field.
    pub fn check(&self) -> Result<(), String> {
        let controller = self.controller.check();
        controller.map_err(|e| format!("controller.{e}"))?;
        for (name, timing) in &self.timing {
            let checked = timing.check();
            checked.map_err(|e| format!("timing.{name}.{e}"))?;
        }
        self.flash(&self.slc).check(self.capacity_mib << 20)
    }
    /// The configuration of the translation layer.
    pub fn config(&self, units: u64) -> ftl::Config {
        self.flash(&self.slc_of(units)).config(units)
    }
    /// The chips of a device of `units` units.
    pub fn sized(&self, units: u64) -> Result<nand::Geometry, String> {
        let slc = self.slc_of(units);
        let flash = self.flash(&slc);
        flash.sized(&flash.config(units))
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
        media: Option<NvmeMedia>,
    ) -> Result<AnyModel, String> {
        let slc = self.slc_of(units);
        let flash = self.flash(&slc);
        let (ftl, patch) = flash.build(self.chips(timing), flash.config(units), media)?;
        let mut nvme = Nvme::new(&self.controller, self.timing[timing], ftl);
        let applied = nvme.controller_mut().firmware_mut().apply(patch);
        applied.map_err(|e| e.to_string())?;
        Ok(AnyModel::Nvme(Box::new(nvme)))
    }
}
