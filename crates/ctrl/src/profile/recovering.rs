//! The recovery of a device after a cut, kept so that the recovery itself can be cut.

use super::flash::Flash;
use super::{Kind, Profile, ProfileError};
use crate::{FlashMedia, Media};
use base::{BLOCK_BYTES, Bytes, Time};
use ftl::nand::{self, Operation};
use ftl::{Config, Ftl};

/// A device that has just recovered; its clock began at 0 with the power. [`Profile::build`]
/// recovers in the same way, but lets the recovery's time pass before the host's clock starts.
#[derive(Clone)]
pub struct Recovering {
    ftl: Box<Ftl>,
    operations: Vec<Operation>,
    patch: Vec<(u64, Bytes)>,
    units: u64,
    /// Wraps the medium in the kind of device that it belongs to.
    wrap: fn(FlashMedia) -> Media,
}

impl Recovering {
    /// The programs and erases of the recovery, in the order of issue.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }
    /// What a cut of the recovery at `at` leaves. What an adversary decided at the cut before stays
    /// decided, because no host has written since.
    pub fn power_off(&self, at: Time, seed: u64) -> Media {
        let ftl = (*self.ftl).clone();
        (self.wrap)(FlashMedia {
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
        let recovered = match (&self.kind, media) {
            (Kind::Emmc(profile), Media::Emmc(media)) => {
                let (flash, chips) = (profile.flash(), profile.chips(&self.timing));
                recover(
                    &flash,
                    chips,
                    flash.config(units(&media)),
                    media,
                    Media::Emmc,
                )
            }
            (Kind::Raw(profile), Media::Raw(media)) => {
                let (chips, config) = (profile.chips(&self.timing), profile.config(units(&media)));
                recover(&profile.flash(), chips, config, media, Media::Raw)
            }
            (Kind::Nvme(profile), Media::Nvme(media)) => {
                let (chips, config) = (profile.chips(&self.timing), profile.config(units(&media)));
                recover(
                    &profile.flash(&profile.slc),
                    chips,
                    config,
                    media,
                    Media::Nvme,
                )
            }
            _ => return Ok(None),
        };
        let recovered = recovered.map_err(|why| ProfileError::Device {
            profile: self.name().into(),
            why,
        })?;
        Ok(Some(recovered))
    }
}

fn units(media: &FlashMedia) -> u64 {
    media.capacity_bytes() / BLOCK_BYTES as u64
}

fn recover(
    flash: &Flash<'_>,
    chips: nand::Timing,
    config: Config,
    media: FlashMedia,
    wrap: fn(FlashMedia) -> Media,
) -> Result<Recovering, String> {
    let units = units(&media);
    let mut nand = flash.power_up(chips, media.nand);
    nand.keep_operations(true);
    let mounted = Ftl::mount(nand, config, Time(0));
    let (mut ftl, _ready) = mounted.map_err(|e| e.to_string())?;
    let operations = ftl.take_operations();
    ftl.keep_operations(false);
    Ok(Recovering {
        ftl: Box::new(ftl),
        operations,
        patch: media.patch,
        units,
        wrap,
    })
}
