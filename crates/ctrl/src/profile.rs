//! Device profiles: TOML tables with the source of each number beside it.

use crate::plain::{Plain, PlainTiming};
use crate::{AnyModel, Media};
use base::{BLOCK_BYTES, SECTORS_PER_BLOCK};
use blockdev::Caps;
use serde::Deserialize;
use std::collections::BTreeMap;
use thiserror::Error;

/// The profiles that come with the program: name, text.
const BUILTIN: [(&str, &str); 1] = [("loop-like", include_str!("../profiles/loop-like.toml"))];

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
    /// Not a profile.
    #[error("device profile: {0}")]
    Syntax(String),
    /// A value that makes no device.
    #[error("device profile `{profile}`: {what}")]
    Invalid {
        /// The profile.
        profile: String,
        /// Which value, and what it may be.
        what: String,
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

/// A cached medium without flash.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainProfile {
    name: String,
    capacity_mib: u64,
    max_transfer_kib: u64,
    fua: bool,
    discard: bool,
    default_timing: String,
    timing: BTreeMap<String, PlainTiming>,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Kind {
    Plain(PlainProfile),
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
        match BUILTIN.iter().find(|(n, _)| *n == name) {
            Some((_, text)) => Profile::from_toml(text),
            None => Err(ProfileError::Unknown {
                name: name.into(),
                valid: join(Profile::names()),
            }),
        }
    }
    /// A profile from its text.
    ///
    /// # Errors
    /// Not TOML, a field is missing, unknown, or out of range.
    pub fn from_toml(text: &str) -> Result<Profile, ProfileError> {
        let kind: Kind = toml::from_str(text).map_err(|e| ProfileError::Syntax(e.to_string()))?;
        let timing = match &kind {
            Kind::Plain(p) => p.default_timing.clone(),
        };
        let profile = Profile {
            kind,
            timing: String::new(),
        };
        profile.check_capacity(profile.capacity_bytes())?;
        profile.with_timing(&timing)
    }
    /// The same profile with the timing table called `name`.
    ///
    /// # Errors
    /// [`ProfileError::UnknownTiming`], which lists the valid names.
    pub fn with_timing(mut self, name: &str) -> Result<Profile, ProfileError> {
        let names: Vec<&str> = match &self.kind {
            Kind::Plain(p) => p.timing.keys().map(String::as_str).collect(),
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
        }
    }
    /// The name of the timing table in use.
    pub fn timing(&self) -> &str {
        &self.timing
    }
    /// The capacity if `build` is not told otherwise, bytes.
    pub fn capacity_bytes(&self) -> u64 {
        match &self.kind {
            Kind::Plain(p) => p.capacity_mib.saturating_mul(1 << 20),
        }
    }
    /// Builds the device: blank with `capacity_bytes` (rounded down to 4 KiB; the profile's own if `None`), or on the
    /// `media` of an earlier life, whose size then counts.
    ///
    /// # Errors
    /// The capacity is out of range, or the medium belongs to a different kind or size of device.
    pub fn build(
        &self,
        capacity_bytes: Option<u64>,
        media: Option<Media>,
    ) -> Result<AnyModel, ProfileError> {
        let bytes = capacity_bytes.unwrap_or(self.capacity_bytes());
        self.check_capacity(bytes)?;
        let blocks = bytes / BLOCK_BYTES as u64;
        match (&self.kind, media) {
            (Kind::Plain(p), None) => Ok(p.build(&self.timing, blocks, None)),
            (Kind::Plain(p), Some(Media::Plain(media))) => {
                self.check_media(capacity_bytes, media.capacity_bytes())?;
                Ok(p.build(&self.timing, blocks, Some(media)))
            }
        }
    }
    fn check_capacity(&self, bytes: u64) -> Result<(), ProfileError> {
        if CAPACITY_RANGE.contains(&bytes) {
            return Ok(());
        }
        let (min, max) = (CAPACITY_RANGE.start() >> 20, CAPACITY_RANGE.end() >> 20);
        let what = format!("capacity of {bytes} bytes; it may be {min} MiB to {max} MiB");
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
            reliable_granule: None,
            atomic_write_bytes: 0,
            no_collateral: true,
            packed: None,
            discard: self.discard,
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

fn join<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
