//! The recovery of a device from what a cut left, to be cut itself.

use super::{EmmcProfile, Kind, Profile, ProfileError};
use crate::Media;
use crate::emmc::EmmcMedia;
use base::{BLOCK_BYTES, Bytes, Time};
use ftl::Ftl;
use ftl::nand::{Nand, Operation};

/// A device that has just recovered; its clock began at 0 with the power. [`Profile::build`] does the same, and lets the time
/// of it pass before the host's clock starts.
#[derive(Clone)]
pub struct Recovering {
    ftl: Box<Ftl>,
    operations: Vec<Operation>,
    patch: Vec<(u64, Bytes)>,
    units: u64,
}

impl Recovering {
    /// The programs and erases of the recovery, in the order of issue.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }
    /// What a cut of the recovery at `at` leaves. What an adversary decided at the cut before stays decided: no host has written
    /// since.
    pub fn power_off(&self, at: Time, seed: u64) -> Media {
        let ftl = (*self.ftl).clone();
        Media::Emmc(EmmcMedia {
            nand: ftl.power_off(at, seed),
            units: self.units,
            patch: self.patch.clone(),
        })
    }
}

impl Profile {
    /// Recovers a device; `None` if devices of this profile have nothing to recover.
    ///
    /// # Errors
    /// As [`Profile::build`].
    pub fn recover(&self, media: Media) -> Result<Option<Recovering>, ProfileError> {
        let (Kind::Emmc(profile), Media::Emmc(media)) = (&self.kind, media) else {
            return Ok(None);
        };
        let recovered = profile.recover(&self.timing, media);
        let recovered = recovered.map_err(|why| ProfileError::Device {
            profile: self.name().into(),
            why,
        })?;
        Ok(Some(recovered))
    }
}

impl EmmcProfile {
    fn recover(&self, timing: &str, media: EmmcMedia) -> Result<Recovering, String> {
        let units = media.capacity_bytes() / BLOCK_BYTES as u64;
        let chips = self.timing[timing].nand.unwrap_or(self.nand.timing);
        let mut nand = Nand::new(media.nand, chips);
        nand.keep_operations(true);
        let mounted = Ftl::mount(nand, self.ftl_config(units), Time(0));
        let (mut ftl, _ready) = mounted.map_err(|e| e.to_string())?;
        let operations = ftl.take_operations();
        ftl.keep_operations(false);
        Ok(Recovering {
            ftl: Box::new(ftl),
            operations,
            patch: media.patch,
            units,
        })
    }
}
