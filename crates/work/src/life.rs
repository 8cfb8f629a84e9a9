//! One life of a stack: a simulation of its own from mount to unmount. Nothing in memory can leak
//! into the next life, because only the device is handed on.

use crate::workload::{Batch, Workload};
use crate::{RunConfig, RunError};
use rig::{AnyModel, BlockDevice, Clock, Config, Stack};
use rt::{Sim, SimConfig};
use sqlite::Registration;
use std::sync::Arc;

/// What remains of a life.
pub struct Life<T> {
    /// What its body returned.
    pub value: T,
    /// The device after unmounting.
    pub model: AnyModel,
    /// Fingerprint of the schedule and of every traced event.
    pub trace_hash: u64,
}

/// Wraps the device before the queue gets it, as a recorder of commands does.
pub type Between<'a> = &'a dyn Fn(Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice>;

/// The [`Between`] that adds nothing.
pub fn directly(device: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
    device
}

/// Mounts what is on `model`, makes it known to SQLite, runs `body`, unmounts. When the body fails,
/// the power of the device is cut instead, so that every task of the mount ends.
///
/// # Errors
/// The first failure, of the body or of the simulation (a panic, a deadlock, a limit).
pub fn live<T>(
    config: &RunConfig,
    model: AnyModel,
    body: impl FnOnce(&Stack, &Registration) -> Result<T, RunError>,
) -> Result<Life<T>, RunError> {
    live_through(config, model, &directly, body)
}

/// Like [`live`], with something of the caller's between the queue and the device.
///
/// # Errors
/// As [`live`].
pub fn live_through<T>(
    config: &RunConfig,
    model: AnyModel,
    between: Between<'_>,
    body: impl FnOnce(&Stack, &Registration) -> Result<T, RunError>,
) -> Result<Life<T>, RunError> {
    live_in(
        SimConfig::seeded(config.seed),
        config,
        (model, between),
        body,
    )
}

/// `sim` with its CPU costs scaled by those of the host that drives the device of `stack`: a
/// phone's core takes a multiple of a PC's.
///
/// # Errors
/// The stack names no known profile.
pub fn on_host(sim: SimConfig, stack: &Config) -> Result<SimConfig, RunError> {
    let host = stack.profile()?.cpu_percent();
    Ok(SimConfig {
        cpu_percent: sim.cpu_percent.saturating_mul(host) / 100,
        ..sim
    })
}

/// Like [`live_through`], in a simulation that the caller configures. Its CPU percentage is
/// multiplied by that of the device's host ([`on_host`]).
///
/// # Errors
/// As [`live`].
pub fn live_in<T>(
    sim: SimConfig,
    config: &RunConfig,
    (model, between): (AnyModel, Between<'_>),
    body: impl FnOnce(&Stack, &Registration) -> Result<T, RunError>,
) -> Result<Life<T>, RunError> {
    let workload: Workload = config.workload.parse()?;
    let sim = on_host(sim, &config.stack)?;
    let options = sqlite::Options {
        powersafe_overwrite: workload.powersafe_overwrite(),
        batch_atomic: workload.batch() == Batch::On,
        hold_journals: workload.batch() == Batch::Held,
        extend_logs: workload.batch() == Batch::Held,
        charge_cpu: true,
        ..sqlite::Options::default()
    };
    let outcome = Sim::new(sim).run(|| mounted(&config.stack, options, (model, between), body));
    if let Some(failure) = &outcome.first_failure {
        let what = format!("{failure}; replay: {}", outcome.replay);
        return Err(RunError::Simulation(what));
    }
    let (value, model) = outcome.value.expect("a run without failure has a value")?;
    Ok(Life {
        value,
        model,
        trace_hash: outcome.trace_hash,
    })
}

fn mounted<T>(
    config: &Config,
    options: sqlite::Options,
    (model, between): (AnyModel, Between<'_>),
    body: impl FnOnce(&Stack, &Registration) -> Result<T, RunError>,
) -> Result<(T, AnyModel), RunError> {
    let stack = Stack::mount_through(model, config, Clock::Runtime, between)?;
    match registered(&stack, options, body) {
        Ok(value) => Ok((value, stack.unmount()?)),
        Err(e) => {
            // The device of a failed life is of no use to anybody.
            drop(stack.device.power_off(0));
            rt::power_cut();
            Err(e)
        }
    }
}

fn registered<T>(
    stack: &Stack,
    options: sqlite::Options,
    body: impl FnOnce(&Stack, &Registration) -> Result<T, RunError>,
) -> Result<T, RunError> {
    let registration = sqlite::register(&stack.vfs, options)?;
    let value = body(stack, &registration).map_err(|e| explain(e, &registration))?;
    registration.unregister()?;
    Ok(value)
}

/// Adds the first error of the file system, if SQLite failed because of it.
fn explain(error: RunError, sqlite: &Registration) -> RunError {
    match sqlite.first_error() {
        Some(below) => RunError::Below {
            sqlite: error.to_string(),
            below,
        },
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_board_makes_work_dearer() {
        let percent = |device: &str, own| {
            let stack = Config::new(rig::Preset::default(), device, 1);
            let sim = SimConfig {
                cpu_percent: own,
                ..SimConfig::seeded(1)
            };
            on_host(sim, &stack).unwrap().cpu_percent
        };
        assert_eq!(percent("nvme-980pro", 100), 100);
        assert_eq!(percent("emmc-odroid-xu4", 100), 400);
        assert_eq!(percent("emmc-odroid-xu4", 50), 200);
        assert_eq!(percent("emmc-odroid-xu4,host.cpu_percent=150", 200), 300);
    }
}
