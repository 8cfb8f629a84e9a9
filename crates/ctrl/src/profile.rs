//! Device profiles: TOML tables with the source of each number beside it, from which device models
//! are built.

mod areas;
mod description;
mod energy;
mod file;
mod flash;
mod nvme;
mod overrides;
mod raw;
mod recovering;
mod slc;

use flash::{Chips, Flash, Translation};
use nvme::NvmeProfile;
use raw::RawProfile;

pub use areas::{CellArea, CellAreas};
pub use description::Description;
pub use energy::{DieTimes, EnergyProfile};
pub use recovering::Recovering;
pub use slc::SlcProfile;

use crate::emmc::{CardConfig, Emmc, EmmcMedia, EmmcTiming};
use crate::plain::{Plain, PlainTiming};
use crate::{AnyModel, Media};
use base::{BLOCK_BYTES, SECTORS_PER_BLOCK};
use blockdev::{Caps, Scheduler};
use ftl::nand;
use serde::Deserialize;
use std::collections::BTreeMap;
use thiserror::Error;

/// The profiles that come with the program: name, text.
const BUILTIN: [(&str, &str); 8] = [
    (
        "emmc-odroid-xu4",
        include_str!("../profiles/emmc-odroid-xu4.toml"),
    ),
    ("loop-like", include_str!("../profiles/loop-like.toml")),
    ("nvme-980pro", include_str!("../profiles/nvme-980pro.toml")),
    ("ufs-generic", include_str!("../profiles/ufs-generic.toml")),
    (
        "nandsim-2007",
        include_str!("../profiles/nandsim-2007.toml"),
    ),
    ("raw-slc", include_str!("../profiles/raw-slc.toml")),
    ("raw-mlc", include_str!("../profiles/raw-mlc.toml")),
    ("raw-tlc", include_str!("../profiles/raw-tlc.toml")),
];

/// Smallest and largest device that a profile builds, bytes.
const CAPACITY_RANGE: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 40;

/// Why a profile cannot be used.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum ProfileError {
    /// No such built-in profile.
    #[error("unknown device profile `{name}`; valid are: {valid}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names there are, comma separated.
        valid: String,
    },
    /// No such timing table in the profile.
    #[error("device profile `{profile}` has no timing `{name}`; valid are: {valid}")]
    UnknownTiming {
        /// The profile.
        profile: String,
        /// What was asked for.
        name: String,
        /// The names there are, comma separated.
        valid: String,
    },
    /// A file that is to be a profile and cannot be used.
    #[error("device profile {path}: {why}")]
    File {
        /// The file, as it was named.
        path: String,
        /// What is wrong with it, with line and field where it has been read.
        why: String,
    },
    /// The text is not a profile.
    #[error("device profile: {0}")]
    Syntax(String),
    /// A value with which no device can be built.
    #[error("device profile `{profile}`: {what}")]
    Invalid {
        /// The profile.
        profile: String,
        /// Which value, and what it may be.
        what: String,
    },
    /// The medium cannot be used: its map is damaged, or its chips are worn out.
    #[error("device of profile `{profile}`: {why}")]
    Device {
        /// The profile.
        profile: String,
        /// The device's error.
        why: String,
    },
    /// The medium does not belong to this profile.
    #[error("this medium is not of profile `{profile}`: {what}")]
    Media {
        /// The profile.
        profile: String,
        /// What differs.
        what: String,
    },
}

/// The host that drives the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostProfile {
    /// What work costs on a core of this host, percent of the table of CPU costs (`base::cost`).
    cpu_percent: u32,
    /// The I/O scheduler that its Linux puts in front of such a device.
    #[serde(default)]
    scheduler: Scheduler,
}

impl HostProfile {
    /// Checks these values; the error names the first impossible field.
    fn check(self) -> Result<(), String> {
        match self.cpu_percent {
            1..=10_000 => Ok(()),
            other => Err(format!(
                "host.cpu_percent = {other}; it may be 1 to 10000, where 100 is the core of a PC"
            )),
        }
    }
}

/// A cached medium without flash.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainProfile {
    name: String,
    capacity_mib: u64,
    host: HostProfile,
    max_transfer_kib: u64,
    fua: bool,
    discard: bool,
    default_timing: String,
    timing: BTreeMap<String, PlainTiming>,
}

/// An eMMC.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EmmcProfile {
    name: String,
    capacity_mib: u64,
    host: HostProfile,
    card: CardConfig,
    nand: Chips,
    ftl: Translation,
    slc: SlcProfile,
    energy: Option<EnergyProfile>,
    default_timing: String,
    timing: BTreeMap<String, EmmcTiming>,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Kind {
    Plain(PlainProfile),
    Emmc(Box<EmmcProfile>),
    Raw(Box<RawProfile>),
    Nvme(Box<NvmeProfile>),
}

/// A device description from which models are built.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    kind: Kind,
    timing: String,
}

impl Profile {
    /// The names of the built-in profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }
    /// The built-in profile called `name`.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`], which lists the valid names.
    pub fn builtin(name: &str) -> Result<Profile, ProfileError> {
        Profile::from_toml(Profile::text(name)?)
    }
    /// A profile with changes: `NAME[,KEY=VALUE...]`, where a key is the dotted path of a field of
    /// the profile's TOML, e.g. `emmc-odroid-xu4,card.cache_on=false,card.pack_order=any-subset`.
    ///
    /// # Errors
    /// An unknown name or field (the message lists the valid ones), or a value that the field
    /// cannot take.
    pub fn parse(text: &str) -> Result<Profile, ProfileError> {
        let (name, changes) = overrides::split(text);
        Profile::changed(name, Profile::text(name)?, &changes)
    }
    /// The profile of `text`, which is called `name` in errors, with changes.
    fn changed(name: &str, text: &str, changes: &[&str]) -> Result<Profile, ProfileError> {
        let whole = Profile::from_toml(text)?;
        let mut table: toml::Table =
            toml::from_str(text).map_err(|e| ProfileError::Syntax(e.to_string()))?;
        // Each change is tried by itself, so that an error can name it.
        let mut one = |change: &str| {
            overrides::apply(&mut table, change)?;
            Kind::deserialize(table.clone()).map_err(|e| {
                let why = e.to_string();
                let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
                format!("{change}: {why}")
            })
        };
        let mut kind = None;
        for change in changes {
            kind = Some(one(change).map_err(|what| ProfileError::Invalid {
                profile: name.into(),
                what,
            })?);
        }
        kind.map_or(Ok(whole), Profile::checked)
    }
    fn text(name: &str) -> Result<&'static str, ProfileError> {
        match BUILTIN.iter().find(|(n, _)| *n == name) {
            Some((_, text)) => Ok(text),
            None => Err(ProfileError::Unknown {
                name: name.into(),
                valid: join(Profile::names()),
            }),
        }
    }
    /// A profile from its text.
    ///
    /// # Errors
    /// Not TOML, a field is missing, unknown, or out of range, with its line.
    pub fn from_toml(text: &str) -> Result<Profile, ProfileError> {
        let kind = file::kind(text).map_err(ProfileError::Syntax)?;
        Profile::checked(kind).map_err(|e| file::located(text, e))
    }
    fn checked(kind: Kind) -> Result<Profile, ProfileError> {
        let timing = match &kind {
            Kind::Plain(p) => p.default_timing.clone(),
            Kind::Emmc(p) => p.default_timing.clone(),
            Kind::Raw(p) => p.default_timing.clone(),
            Kind::Nvme(p) => p.default_timing.clone(),
        };
        let profile = Profile {
            kind,
            timing: String::new(),
        };
        profile.check_capacity(profile.capacity_bytes())?;
        profile.check_numbers()?;
        profile.with_timing(&timing)
    }
    /// This profile with the timing table called `name`.
    ///
    /// # Errors
    /// [`ProfileError::UnknownTiming`], which lists the valid names.
    pub fn with_timing(mut self, name: &str) -> Result<Profile, ProfileError> {
        let names: Vec<&str> = match &self.kind {
            Kind::Plain(p) => p.timing.keys().map(String::as_str).collect(),
            Kind::Emmc(p) => p.timing.keys().map(String::as_str).collect(),
            Kind::Raw(p) => p.timing.keys().map(String::as_str).collect(),
            Kind::Nvme(p) => p.timing.keys().map(String::as_str).collect(),
        };
        if !names.contains(&name) {
            let valid = join(names.into_iter());
            return Err(ProfileError::UnknownTiming {
                profile: self.name().into(),
                name: name.into(),
                valid,
            });
        }
        self.timing = name.into();
        Ok(self)
    }
    /// The name of the profile.
    pub fn name(&self) -> &str {
        match &self.kind {
            Kind::Plain(p) => &p.name,
            Kind::Emmc(p) => &p.name,
            Kind::Raw(p) => &p.name,
            Kind::Nvme(p) => &p.name,
        }
    }
    /// The name of the timing table in use.
    pub fn timing(&self) -> &str {
        &self.timing
    }
    /// The capacity of a device that `build` is given none for, bytes.
    pub fn capacity_bytes(&self) -> u64 {
        match &self.kind {
            Kind::Plain(p) => p.capacity_mib.saturating_mul(1 << 20),
            Kind::Emmc(p) => p.capacity_mib.saturating_mul(1 << 20),
            Kind::Raw(p) => p.capacity_mib.saturating_mul(1 << 20),
            Kind::Nvme(p) => p.capacity_mib.saturating_mul(1 << 20),
        }
    }
    /// What work costs on a core of the host that drives such a device, percent of the table of CPU
    /// costs (`base::cost`): 100 is the core of a PC.
    pub fn cpu_percent(&self) -> u32 {
        self.host().cpu_percent
    }
    /// The I/O scheduler that Linux of the profile's year puts in front of such a device; a profile
    /// that names none has [`Scheduler::None`].
    pub fn scheduler(&self) -> Scheduler {
        self.host().scheduler
    }
    fn host(&self) -> HostProfile {
        match &self.kind {
            Kind::Plain(p) => p.host,
            Kind::Emmc(p) => p.host,
            Kind::Raw(p) => p.host,
            Kind::Nvme(p) => p.host,
        }
    }
    /// Builds the device: blank with `capacity_bytes` (rounded down to 4 KiB; the profile's own if
    /// `None`), or on the `media` that a cut left, whose size then counts.
    ///
    /// # Errors
    /// The capacity is out of range, or the medium belongs to a different kind or size of device.
    pub fn build(
        &self,
        capacity_bytes: Option<u64>,
        media: Option<Media>,
    ) -> Result<AnyModel, ProfileError> {
        let found = media.as_ref().map(Media::capacity_bytes);
        if let Some(found) = found {
            self.check_media(capacity_bytes, found)?;
        }
        let bytes = found.or(capacity_bytes).unwrap_or(self.capacity_bytes());
        self.check_capacity(bytes)?;
        let blocks = bytes / BLOCK_BYTES as u64;
        match (&self.kind, media) {
            (Kind::Plain(p), None) => Ok(p.build(&self.timing, blocks, None)),
            (Kind::Plain(p), Some(Media::Plain(media))) => {
                Ok(p.build(&self.timing, blocks, Some(media)))
            }
            (Kind::Emmc(p), None) => self.device(p.build(&self.timing, blocks, None)),
            (Kind::Emmc(p), Some(Media::Emmc(media))) => {
                self.device(p.build(&self.timing, blocks, Some(media)))
            }
            (Kind::Raw(p), None) => self.device(p.build(&self.timing, blocks, None)),
            (Kind::Raw(p), Some(Media::Raw(media))) => {
                self.device(p.build(&self.timing, blocks, Some(media)))
            }
            (Kind::Nvme(p), None) => self.device(p.build(&self.timing, blocks, None)),
            (Kind::Nvme(p), Some(Media::Nvme(media))) => {
                self.device(p.build(&self.timing, blocks, Some(media)))
            }
            (_, Some(other)) => Err(self.foreign(&other)),
        }
    }
    /// Checks that `media` can come from a device of this profile: kind, capacity, and the chips
    /// that such a device has.
    ///
    /// # Errors
    /// [`ProfileError::Media`], or the capacity is out of range.
    pub fn check_fit(&self, media: &Media) -> Result<(), ProfileError> {
        match (&self.kind, media) {
            (Kind::Plain(_), Media::Plain(_))
            | (Kind::Emmc(_), Media::Emmc(_))
            | (Kind::Raw(_), Media::Raw(_))
            | (Kind::Nvme(_), Media::Nvme(_)) => {}
            (_, other) => return Err(self.foreign(other)),
        }
        let expected = self.chips(media.capacity_bytes())?;
        let found = media.chips().map(|c| *c.geometry());
        if expected == found {
            return Ok(());
        }
        let what = format!("its chips are {found:?}, such a device has {expected:?}");
        Err(ProfileError::Media {
            profile: self.name().into(),
            what,
        })
    }
    /// The chips of a device of `bytes`; `None` for one without flash.
    ///
    /// # Errors
    /// The capacity is out of range.
    pub fn chips(&self, bytes: u64) -> Result<Option<nand::Geometry>, ProfileError> {
        self.check_capacity(bytes)?;
        let units = bytes / BLOCK_BYTES as u64;
        self.device(match &self.kind {
            Kind::Plain(_) => Ok(None),
            Kind::Emmc(p) => p.flash().sized(&p.flash().config(units)).map(Some),
            Kind::Raw(p) => p.sized(units).map(Some),
            Kind::Nvme(p) => p.sized(units).map(Some),
        })
    }
    fn foreign(&self, media: &Media) -> ProfileError {
        ProfileError::Media {
            profile: self.name().into(),
            what: format!("it belongs to a device of kind {}", media.kind()),
        }
    }
    fn device<T>(&self, built: Result<T, String>) -> Result<T, ProfileError> {
        built.map_err(|why| ProfileError::Device {
            profile: self.name().into(),
            why,
        })
    }
    fn check_numbers(&self) -> Result<(), ProfileError> {
        let checked = match &self.kind {
            Kind::Plain(p) => p.check(),
            Kind::Emmc(p) => p.check(),
            Kind::Raw(p) => p.check(),
            Kind::Nvme(p) => p.check(),
        };
        let checked = self.host().check().and(checked).and(self.check_energy());
        checked.map_err(|what| ProfileError::Invalid {
            profile: self.name().into(),
            what,
        })
    }
    fn check_capacity(&self, bytes: u64) -> Result<(), ProfileError> {
        if CAPACITY_RANGE.contains(&bytes) {
            return Ok(());
        }
        let (min, max) = (CAPACITY_RANGE.start() >> 20, CAPACITY_RANGE.end() >> 20);
        let what =
            format!("capacity_mib: {bytes} bytes; the capacity may be {min} MiB to {max} MiB");
        Err(ProfileError::Invalid {
            profile: self.name().into(),
            what,
        })
    }
    fn check_media(&self, asked: Option<u64>, found: u64) -> Result<(), ProfileError> {
        let rounded = asked.map(|b| b / BLOCK_BYTES as u64 * BLOCK_BYTES as u64);
        if rounded.is_none_or(|b| b == found) {
            return Ok(());
        }
        let what = format!(
            "it holds {found} bytes, the device was to have {}",
            rounded.unwrap_or(0)
        );
        Err(ProfileError::Media {
            profile: self.name().into(),
            what,
        })
    }
}

impl PlainProfile {
    /// Checks these values; the error names the first impossible field.
    fn check(&self) -> Result<(), String> {
        let transfer = self.max_transfer_kib;
        if !(4..=1 << 20).contains(&transfer) {
            return Err(format!(
                "max_transfer_kib = {transfer}; it may be 4 to 1048576"
            ));
        }
        let mut sets = self.timing.iter();
        sets.try_for_each(|(name, t)| t.check().map_err(|e| format!("timing.{name}.{e}")))
    }
    fn build(
        &self,
        timing: &str,
        blocks: u64,
        media: Option<crate::plain::PlainMedia>,
    ) -> AnyModel {
        let caps = Caps {
            sectors: blocks * SECTORS_PER_BLOCK,
            sector_bytes: base::SECTOR_BYTES as u32,
            volatile_cache: true,
            fua: self.fua,
            fua_flushes: false,
            reliable_granule: None,
            // The host file lies on a disk that, as disks do, writes a sector whole or not at all.
            tear_granule: Some(base::SECTOR_BYTES as u32),
            atomic_write_bytes: 0,
            no_collateral: true,
            packed: None,
            cache_fifo: false,
            barrier: false,
            discard: self.discard,
            remap: None,
            max_transfer_sectors: self.max_transfer_kib * 2,
        };
        AnyModel::Plain(Box::new(Plain::new(
            caps,
            self.timing[timing],
            blocks,
            media,
        )))
    }
}

impl EmmcProfile {
    fn flash(&self) -> Flash<'_> {
        Flash {
            chips: &self.nand,
            translation: &self.ftl,
            slc: Some(&self.slc),
        }
    }
    /// Checks these values; the error names the first impossible field.
    fn check(&self) -> Result<(), String> {
        self.card.check().map_err(|e| format!("card.{e}"))?;
        for (name, timing) in &self.timing {
            let checked = timing.check();
            checked.map_err(|e| format!("timing.{name}.{e}"))?;
        }
        self.flash().check(self.capacity_mib << 20)
    }
    fn chips(&self, timing: &str) -> nand::Timing {
        self.timing[timing].nand.unwrap_or(self.nand.timing)
    }
    fn build(
        &self,
        timing: &str,
        units: u64,
        media: Option<EmmcMedia>,
    ) -> Result<AnyModel, String> {
        let flash = self.flash();
        let (ftl, patch) = flash.build(self.chips(timing), flash.config(units), media)?;
        let emmc = Emmc::new(&self.card, self.timing[timing], ftl);
        let mut emmc = emmc.map_err(|e| e.to_string())?;
        emmc.apply(patch).map_err(|e| e.to_string())?;
        Ok(AnyModel::Emmc(Box::new(emmc)))
    }
}

fn join<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
