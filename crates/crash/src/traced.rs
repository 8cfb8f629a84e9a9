//! A run on a disk in memory with all its commands, to be cut afterwards at any moment and in any
//! legal way.

use super::CrashConfig;
use super::device::{Disk, Remains, Volume};
use super::oracle::{Oracle, Subject};
use crate::CrashError;
use base::Time;
use blockdev::Trace;
use rig::Mounted;
use rt::Sim;

/// A recorded run.
pub struct Traced {
    /// All commands of the run.
    pub trace: Trace,
    /// The oracle, which knows what was promised when.
    pub oracle: Box<dyn Oracle>,
    /// When the subject began; until then the volume was being mounted.
    pub began: Time,
    /// When the subject ended; from then on the volume was being unmounted.
    pub ended: Time,
    /// Why the run ended early, if it did.
    pub failure: Option<String>,
    /// How often the guard of each mutant was reached.
    pub reached: rt::Reached,
}

/// Runs `subject` on a fresh volume and records every command. The device must be a disk in memory.
///
/// # Errors
/// The device cannot be made, the volume cannot be mounted, or the simulation fails before the
/// subject begins.
pub fn trace(
    config: &CrashConfig,
    volume: &Volume,
    subject: &dyn Subject,
) -> Result<Traced, CrashError> {
    let disk = volume.fresh(config.seed)?;
    let Disk::Spec(spec) = &disk else {
        return Err(CrashError::Check(
            "only a disk in memory can be traced".into(),
        ));
    };
    let outcome = Sim::new(config.sim(config.seed)).run(|| {
        spec.record();
        let mounted = config.mount(disk.device())?;
        let began = rt::now();
        let (oracle, outcome) = subject.run(config, &mounted);
        let ended = rt::now();
        let outcome = outcome.and_then(|()| Ok(mounted.unmount()?));
        if outcome.is_err() {
            disk.power_off();
            rt::power_cut();
        }
        let failure = outcome.err().map(|e| e.to_string());
        Ok::<_, CrashError>((oracle, began, ended, failure))
    });
    let simulation = outcome
        .first_failure
        .map(|f| format!("{f}; replay: {}", outcome.replay));
    let (oracle, began, ended, failure) = match outcome.value {
        Some(value) => value?,
        None => return Err(CrashError::Simulation(simulation.unwrap_or_default())),
    };
    let trace = spec.take_trace().expect("the disk was recording");
    Ok(Traced {
        trace,
        oracle,
        began,
        ended,
        failure: failure.or(simulation),
        reached: outcome.reached,
    })
}

/// Recovers `remains` by a mount and an unmount and records every command, to cut the recovery.
///
/// # Errors
/// The device cannot be made. A recovery that fails gives the commands up to then, and the reason.
pub fn trace_recovery(
    config: &CrashConfig,
    volume: &Volume,
    remains: &Remains,
    seed: u64,
) -> Result<(Trace, Option<String>), CrashError> {
    let disk = volume.attach(remains, seed)?;
    let Disk::Spec(spec) = &disk else {
        return Err(CrashError::Check(
            "only a disk in memory can be traced".into(),
        ));
    };
    let mut sim = config.sim(seed);
    sim.quiet = true;
    let outcome = Sim::new(sim).run(|| {
        spec.record();
        let mounted = config.mount(disk.device());
        let outcome = mounted.and_then(Mounted::unmount);
        if outcome.is_err() {
            disk.power_off();
            rt::power_cut();
        }
        outcome
    });
    let failure = match outcome.value {
        Some(Err(why)) => Some(why.to_string()),
        _ => outcome.first_failure.map(|f| f.to_string()),
    };
    let trace = spec.take_trace().expect("the disk was recording");
    Ok((trace, failure))
}
