//! Describes a profile, for people and scripts.

use super::{Kind, Profile, ProfileError, SlcProfile};
use crate::emmc::FieldText;
use blockdev::{Caps, Model, Scheduler};
use serde::Serialize;
use std::collections::BTreeMap;

/// A device profile in words and figures.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Description {
    /// Name of the profile.
    pub name: String,
    /// Kind of device: `emmc`, `nvme`, `raw`, `plain`.
    pub kind: &'static str,
    /// Capacity of a device for which a command gives none, bytes.
    pub capacity_bytes: u64,
    /// What work costs on a core of its host, percent of the core of a PC.
    pub host_cpu_percent: u32,
    /// The I/O scheduler of its host.
    pub host_scheduler: Scheduler,
    /// What the device promises to the host.
    pub caps: Caps,
    /// The timing set in use.
    pub timing_default: String,
    /// All timing sets: microseconds and nanoseconds as the names of the fields say.
    pub timing: BTreeMap<String, toml::Table>,
    /// The pseudo-SLC write area; `None` if the device has none.
    pub slc: Option<SlcProfile>,
    /// The EXT_CSD register after the host has configured the card; empty for a device that is no
    /// eMMC.
    pub ext_csd: Vec<FieldText>,
    /// Identify data of an NVMe device, descriptors of a UFS device; empty for others.
    pub identify: Vec<FieldText>,
}

impl Profile {
    /// Builds the device and describes it.
    ///
    /// # Errors
    /// The device cannot be built.
    pub fn describe(&self) -> Result<Description, ProfileError> {
        let model = self.build(None, None)?;
        let table = |e: &dyn std::fmt::Display| ProfileError::Syntax(e.to_string());
        let mut timing = BTreeMap::new();
        let kind = match &self.kind {
            Kind::Plain(p) => {
                for (name, set) in &p.timing {
                    timing.insert(
                        name.clone(),
                        toml::Table::try_from(set).map_err(|e| table(&e))?,
                    );
                }
                "plain"
            }
            Kind::Emmc(p) => {
                for (name, set) in &p.timing {
                    timing.insert(
                        name.clone(),
                        toml::Table::try_from(set).map_err(|e| table(&e))?,
                    );
                }
                "emmc"
            }
            Kind::Raw(p) => {
                for (name, set) in &p.timing {
                    timing.insert(
                        name.clone(),
                        toml::Table::try_from(set).map_err(|e| table(&e))?,
                    );
                }
                "raw"
            }
            Kind::Nvme(p) => {
                for (name, set) in &p.timing {
                    timing.insert(
                        name.clone(),
                        toml::Table::try_from(set).map_err(|e| table(&e))?,
                    );
                }
                "nvme"
            }
        };
        Ok(Description {
            name: self.name().into(),
            kind,
            capacity_bytes: self.capacity_bytes(),
            host_cpu_percent: self.cpu_percent(),
            host_scheduler: self.scheduler(),
            caps: model.caps().clone(),
            timing_default: self.timing().into(),
            timing,
            slc: match &self.kind {
                Kind::Plain(_) | Kind::Raw(_) => None,
                Kind::Emmc(p) => Some(p.slc).filter(|slc| slc.on),
                Kind::Nvme(p) => Some(p.slc).filter(|slc| slc.on),
            },
            ext_csd: model.ext_csd(),
            identify: model.identify(),
        })
    }
}
