//! Workloads and power cuts on modelled devices, in virtual time: what `varve compare` and `varve
//! crash` do, as functions. Equal arguments give equal results, to the bit.
//!
//! ```
//! use varve::simulated::{Experiment, compare};
//!
//! # fn main() -> Result<(), varve::Error> {
//! let asked = Experiment::new("emmc-odroid-xu4", "sqlite:insert=5").bytes(256 << 20);
//! let runs = compare(&asked, &["jbd2", "emmc"])?;
//! assert!(runs[1].journal_block_ratio < runs[0].journal_block_ratio);
//! # Ok(())
//! # }
//! ```

use crate::{Error, Result};
use crash::{CrashConfig, Judge, Opinion, Script, Target, ops::Stress};
use rig::{Config, Fs};
use std::fmt::Display;
use work::RunConfig;

pub use report::results::Run;

/// What to run, on which device.
#[derive(Clone, PartialEq, Debug)]
pub struct Experiment {
    device: String,
    workload: String,
    bytes: u64,
    seed: u64,
}

impl Experiment {
    /// A workload, as `varve compare --workload` takes it, on a device profile, as `--device` does.
    pub fn new(device: impl Into<String>, workload: impl Into<String>) -> Experiment {
        Experiment {
            device: device.into(),
            workload: workload.into(),
            bytes: 1 << 30,
            seed: 1,
        }
    }

    /// Size of the device, bytes; 1 GiB by default.
    #[must_use]
    pub fn bytes(mut self, bytes: u64) -> Experiment {
        self.bytes = bytes;
        self
    }

    /// Seed of the workload, the schedule and the device; 1 by default.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Experiment {
        self.seed = seed;
        self
    }
}

/// Runs the workload of `experiment` once with each journaling scheme, on ext4 or, for its schemes,
/// on F2FS; each run begins with a new volume. The answer has the order of `schemes`.
///
/// # Errors
/// [`Error::Simulation`]: an unknown scheme, device or workload, each with those that there are; a
/// scheme that is not safe on the device; a workload that fails.
pub fn compare(experiment: &Experiment, schemes: &[&str]) -> Result<Vec<Run>> {
    let run = |scheme: &&str| {
        let config = RunConfig {
            stack: stack(experiment, scheme)?,
            workload: experiment.workload.clone(),
            seed: experiment.seed,
            recording: None,
        };
        let finished = work::run::run(&config, &mut |_, _| {});
        Ok(finished.map_err(failed)?.run)
    };
    schemes.iter().map(run).collect()
}

fn stack(experiment: &Experiment, scheme: &str) -> Result<Config> {
    let scheme: rig::Scheme = scheme.parse().map_err(failed)?;
    let mut stack = Config::new(scheme, &experiment.device, experiment.seed);
    if matches!(scheme, rig::Scheme::F2fs(_)) {
        stack.fs = Fs::F2fs;
    }
    stack.bytes = experiment.bytes;
    let profile = rig::Profile::open(&experiment.device).map_err(failed)?;
    stack.scheduler = Some(profile.scheduler());
    stack.check().map_err(failed)?;
    Ok(stack)
}

fn failed(e: impl Display) -> Error {
    Error::Simulation(e.to_string())
}

/// What power cuts left of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Cuts {
    /// Cuts that were made, recovered and judged.
    pub cuts: usize,
    /// Violated promises, each with the seed, its rule and what was found.
    pub violations: Vec<String>,
    /// Bytes that had been written, by no sync covered, and are gone: no violation.
    pub bytes_lost: u64,
}

/// Two tasks make, write, sync, rename and remove files on a device that keeps nothing but what its
/// profile promises; `cuts` cuts of power at random moments are recovered and judged by what syncs
/// had promised.
///
/// # Errors
/// [`Error::Simulation`]: an unknown scheme or device; a run that fails.
pub fn crash(device: &str, scheme: &str, seed: u64, cuts: usize) -> Result<Cuts> {
    let scheme: rig::Scheme = scheme.parse().map_err(failed)?;
    let mut stack = crash::small_volume(scheme, device, seed);
    if matches!(scheme, rig::Scheme::F2fs(_)) {
        stack.fs = Fs::F2fs;
    }
    stack.check().map_err(failed)?;
    let target = Target::Profile(blockdev::Adversary::default());
    let volume = crash::Volume::new(&stack, &target).map_err(failed)?;
    let script = Script::Mixed {
        tasks: 2,
        ops: 40,
        stress: Stress::Swarm,
        free: None,
    };
    let config = CrashConfig::new(stack, target, seed, script, cuts);
    let recording = crash::record(&config, &volume).map_err(failed)?;
    if let Some(why) = recording.failure {
        return Err(failed(why));
    }
    let mut judge = Judge::new(&config, &volume, &recording.logs);
    let mut found = Cuts::default();
    for cut in &recording.cuts {
        let judged = judge.judge(cut, Opinion::Own).map_err(failed)?;
        let named = |v: String| format!("seed {seed}, cut at {} ns: {v}", cut.at);
        found.cuts += 1;
        found
            .violations
            .extend(judged.violations.into_iter().map(named));
        found.bytes_lost += judged.loss.bytes;
    }
    Ok(found)
}
