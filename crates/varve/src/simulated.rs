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
use crash::subject::Spec;
use crash::{CrashConfig, Judge, Opinion, Script, Target};
use rig::{Config, Fs};
use std::fmt::Display;
use work::RunConfig;

pub use report::results::Run;

/// What to run, on which device.
#[derive(Clone, PartialEq, Debug)]
pub struct Experiment {
    device: String,
    workload: String,
    bytes: Option<u64>,
    seed: u64,
}

/// Bytes of the device of a comparison whose size nobody said.
const COMPARED_BYTES: u64 = 1 << 30;

impl Experiment {
    /// A workload on a device profile, as `--device` takes it. [`compare`] takes the workloads of
    /// `varve compare --workload`, [`crash()`] those of `varve crash --workload` that work on
    /// files.
    pub fn new(device: impl Into<String>, workload: impl Into<String>) -> Experiment {
        Experiment {
            device: device.into(),
            workload: workload.into(),
            bytes: None,
            seed: 1,
        }
    }

    /// Size of the device, bytes. By default it is 1 GiB for [`compare`], and for [`crash()`] a
    /// small one, each of whose cuts is recovered and judged sooner.
    #[must_use]
    pub fn bytes(mut self, bytes: u64) -> Experiment {
        self.bytes = Some(bytes);
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
    stack.bytes = experiment.bytes.unwrap_or(COMPARED_BYTES);
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

/// Runs the workload of `experiment` on a device that keeps nothing but what its profile promises;
/// `cuts` cuts of power at random moments are recovered, and judged by what syncs had promised.
///
/// The workload is a list of operations of the caller's (`script:create /a; write /a 0+8k; fsync
/// /a`, tasks parted by `|`), a seeded mix (`mix:tasks=2,ops=40`), or `@FILE`, `known:NAME`,
/// `ace:LENGTH#NUMBER`, `fsync:...`, `files:...`; `docs/use/crash-testing.md` has them all.
///
/// # Errors
/// [`Error::Simulation`]: an unknown scheme, device or workload, an operation that is not possible
/// where it stands, with line and column; a workload of SQLite, which [`compare`] runs; a run that
/// fails.
pub fn crash(experiment: &Experiment, scheme: &str, cuts: usize) -> Result<Cuts> {
    let Experiment { device, seed, .. } = experiment;
    let seed = *seed;
    let script = script(experiment)?;
    let scheme: rig::Scheme = scheme.parse().map_err(failed)?;
    let mut stack = crash::small_volume(scheme, device, seed);
    if matches!(scheme, rig::Scheme::F2fs(_)) {
        stack.fs = Fs::F2fs;
    }
    stack.bytes = experiment.bytes.unwrap_or(stack.bytes);
    stack.check().map_err(failed)?;
    let target = Target::Profile(blockdev::Adversary::default());
    let volume = crash::Volume::new(&stack, &target).map_err(failed)?;
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

/// What the tasks of a run that is cut do.
fn script(experiment: &Experiment) -> Result<Script> {
    match Spec::parse(&experiment.workload).map_err(failed)? {
        Spec::Script(script) => Ok(script.script()),
        Spec::Mix(mix) => Ok(mix.script()),
        spec @ Spec::Compare(_) => match spec.fixed(experiment.seed) {
            Some(fixed) => Ok(fixed.script()),
            None => Err(Error::Simulation(format!(
                "{}: `crash` cuts workloads on files, as script:, mix:, known:, fsync: and \
                 files:; `varve crash --workload` cuts SQLite, too",
                experiment.workload
            ))),
        },
    }
}
