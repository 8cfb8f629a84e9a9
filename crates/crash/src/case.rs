//! A case: workload, scheme, device, I/O scheduler, seed and mutant of one exploration, as a value
//! with a text.
//!
//! These six decide how the run goes and what its cuts may leave; the bound of an exploration only
//! selects among these states. So a build makes each crash state again from a case and the id of
//! the state: a [`StateId`], or on a modelled device a [`NandPath`](super::nand::NandPath).

use super::nand::{aged_volume, small_chips};
use super::oracle::Subject;
use super::promises::Promises;
use super::used::with_used_area;
use super::{CrashConfig, Script, Target, Volume, small_volume, subject};
use crate::CrashError;
use base::{BLOCK_BYTES, Mutant};
use blockdev::Adversary;
use blockdev::spec::Choice;
use rig::{Fs, Scheduler, Scheme};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A workload under a scheme on a device.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Case {
    /// The scheme as `varve compare` takes it, `data=` and `cluster=` included.
    pub scheme: String,
    /// `spec:...` ([`Promises`]): a disk in memory; [`NAND`] or a profile: a modelled device.
    pub device: String,
    /// The workload, as [`subject::parse`] reads it.
    pub workload: String,
    /// Seeds schedule, device times and random workloads. With a multiple of 3 no timers run.
    pub seed: u64,
    /// The I/O scheduler in front of the device; `None`: no scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Scheduler>,
    /// The guard that is left out; only builds with the feature `mutants` honour it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutant: Option<String>,
}

/// Blocks of the log in volumes of crash tests: the fewest that ext4 takes.
const LOG_BLOCKS: u32 = 1024;
/// Bytes of a group of a volume with blocks above 4 KiB: as many as one of 4 KiB has.
const GROUP_BYTES: u32 = 128 << 20;
/// This device is small and was in use for long, so its chips collect garbage all the time.
pub const NAND: &str = "nand";
const NAND_BYTES: u64 = 32 << 20;
/// Bytes of an F2FS. Of less mkfs makes none: there is no room for six logs and cleaning.
const F2FS_BYTES: u64 = 64 << 20;
/// Seeds the identity of the file system. It is one for all cases, so that they can share volumes.
const VOLUME_SEED: u64 = 1;

/// Fresh volumes, each made once and shared by the cases that need an equal one.
#[derive(Default)]
pub struct Volumes(BTreeMap<(Fs, Formatted, String), Volume>);

/// What mkfs depends on in a scheme.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Formatted {
    /// ext4 has a journal.
    journal: bool,
    /// Its log has an area of fast commits: without one the scheme makes none.
    fast: bool,
    /// Bytes of a cluster of ext4.
    cluster: Option<u32>,
    /// The ring of F2FSJ; `Some(None)` is one of default size.
    ring: Option<Option<u32>>,
    /// Bytes of a block; `None`: 4096.
    block_bytes: Option<u32>,
    casefold: bool,
}

/// A case, ready to run.
pub struct Setup {
    /// How to run: scheme, device, seed, mutant.
    pub config: CrashConfig,
    /// The fresh volume that the run begins with.
    pub volume: Volume,
    /// What runs on it.
    pub subject: Box<dyn Subject>,
}

impl Case {
    /// Builds what the case names, and takes the volume from `volumes` if an equal one is there.
    ///
    /// # Errors
    /// A scheme, device, mutant or workload that does not exist, by its name; a scheme that loses
    /// data on this device.
    pub fn setup(&self, volumes: &mut Volumes) -> Result<Setup, CrashError> {
        let device = match self.device.as_str() {
            NAND => small_chips(),
            spec if spec.starts_with("spec:") => "emmc-odroid-xu4",
            profile => profile,
        };
        let mut stack = small_volume(rig::Preset::default().into(), device, VOLUME_SEED);
        if self.device == NAND {
            stack.bytes = NAND_BYTES;
        }
        stack.journal_blocks = Some(LOG_BLOCKS);
        stack.scheduler = self.scheduler;
        stack.set_scheme(&self.scheme)?;
        if let Scheme::F2fs(_) = stack.scheme {
            stack.fs = Fs::F2fs;
            stack.bytes = stack.bytes.max(F2FS_BYTES);
            stack.journal_blocks = None;
        }
        let mut used_area = false;
        if let Some(promises) = self.device.strip_prefix("spec:") {
            let promises: Promises = promises.parse().map_err(check)?;
            self.set_blocks(&mut stack, promises.block_bytes)?;
            stack.casefold = promises.casefold;
        }
        let target = match self.device.strip_prefix("spec:") {
            Some(promises) => {
                let promises: Promises = promises.parse().map_err(check)?;
                used_area = promises.used_area && stack.scheme.journal().is_some();
                Target::Spec(promises.caps(stack.bytes))
            }
            None => Target::Profile(Adversary::Own),
        };
        match &target {
            Target::Spec(caps) => stack.scheme.check(&self.device, caps)?,
            Target::Profile(_) => stack.check()?,
        }
        let fresh = self.volume(&stack, &target, volumes)?;
        let volume = match used_area {
            true => with_used_area(&fresh, &stack)?,
            false => fresh,
        };
        let mut config = CrashConfig::new(stack, target, self.seed, Script::Fixed(Vec::new()), 0);
        config.mutant = match &self.mutant {
            Some(word) => Some(word.parse::<Mutant>().map_err(check)?),
            None => None,
        };
        let subject = subject::parse(&self.workload)?;
        Ok(Setup {
            config,
            volume,
            subject,
        })
    }

    /// Gives an ext4 blocks of another size. Its groups end early enough that there is a second
    /// one, which has the backup of the superblock.
    fn set_blocks(
        &self,
        stack: &mut rig::Config,
        block_bytes: Option<u32>,
    ) -> Result<(), CrashError> {
        let Some(bytes) = block_bytes.filter(|&bytes| bytes != BLOCK_BYTES as u32) else {
            return Ok(());
        };
        if stack.fs == Fs::F2fs {
            let what = format!(
                "{} on {}: an F2FS has blocks of 4096 bytes",
                self.scheme, self.device
            );
            return Err(CrashError::Check(what));
        }
        stack.block_bytes = Some(bytes);
        stack.blocks_per_group = (bytes > BLOCK_BYTES as u32).then_some(GROUP_BYTES / bytes);
        Ok(())
    }

    fn volume(
        &self,
        stack: &rig::Config,
        target: &Target,
        volumes: &mut Volumes,
    ) -> Result<Volume, CrashError> {
        let profile = match target {
            Target::Spec(_) => String::new(),
            Target::Profile(_) => self.device.clone(),
        };
        let ring = match stack.scheme {
            Scheme::F2fs(scheme) => scheme.journal().map(|_| scheme.ring),
            Scheme::Journal(_) => None,
        };
        let formatted = Formatted {
            journal: stack.scheme.is_consistent(),
            fast: stack.scheme.journal().is_some_and(|s| s.is_fast()),
            cluster: stack.cluster_bytes,
            ring,
            block_bytes: stack.block_bytes,
            casefold: stack.casefold,
        };
        let key = (stack.fs, formatted, profile);
        if !volumes.0.contains_key(&key) {
            let volume = match target {
                Target::Profile(adversary) if self.device == NAND => {
                    aged_volume(stack, *adversary, VOLUME_SEED)?
                }
                _ => Volume::new(stack, target)?,
            };
            volumes.0.insert(key.clone(), volume);
        }
        let volume = &volumes.0[&key];
        Ok(match target {
            Target::Spec(caps) => volume.on(caps.clone()),
            Target::Profile(_) => volume.clone(),
        })
    }
}

fn check(e: impl fmt::Display) -> CrashError {
    CrashError::Check(e.to_string())
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case {
            scheme,
            device,
            workload,
            seed,
            scheduler,
            mutant,
        } = self;
        write!(f, "{scheme} on {device}")?;
        if let Some(scheduler) = scheduler {
            write!(f, " under {scheduler}")?;
        }
        write!(f, ", seed {seed}: {workload}")?;
        match mutant {
            Some(word) => write!(f, " (without {word})"),
            None => Ok(()),
        }
    }
}

/// Names a crash state of a case on a disk in memory: the cut of the run, then cuts of its
/// recoveries. In the text `17.newest/4.s2a` each part has the number of the moment and the choice
/// of what the device did there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct StateId(pub Vec<(usize, Choice)>);

impl fmt::Display for StateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (point, choice)) in self.0.iter().enumerate() {
            let slash = if n > 0 { "/" } else { "" };
            write!(f, "{slash}{point}.{choice}")?;
        }
        Ok(())
    }
}

impl FromStr for StateId {
    type Err = String;
    fn from_str(text: &str) -> Result<StateId, String> {
        let level = |part: &str| {
            let (point, choice) = part.split_once('.')?;
            Some((point.parse().ok()?, choice.parse().ok()?))
        };
        let levels: Option<Vec<_>> = text.split('/').map(level).collect();
        levels.map(StateId).ok_or_else(|| {
            format!("`{text}` names no state: MOMENT.CHOICE, with `/` before a cut of its recovery")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back() {
        let id = StateId(vec![(17, Choice::Newest), (4, Choice::Seed(42))]);
        assert_eq!(id.to_string(), "17.newest/4.s2a");
        assert_eq!(id.to_string().parse::<StateId>().unwrap(), id);
        assert!("17".parse::<StateId>().is_err());
    }
}
