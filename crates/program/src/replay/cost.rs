//! What a recording costs on a modelled device: its calls are carried out there one behind the
//! other, in virtual time.
//!
//! Only the calls take time. What a program computes between them is not in a recording, so two
//! recordings of one program are compared, and not a recording with the program.

use super::carry::{Carrier, EXT4_BYTES_MIN, SEED, bytes, fill, last_use, simulate};
use super::runs::{Run, Then};
use super::steps::steps;
use crate::call::{Recording, What};
use crate::state::ModelError;
use base::Nanos;
use rig::{Clock, Config, DeviceStats, Preset, Stack};
use std::collections::BTreeMap;
use std::fmt::Display;

/// What the calls of a recording took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// Time of all calls.
    pub calls: Nanos,
    /// Time of those that sync.
    pub syncs: Nanos,
    /// Writes of the device.
    pub writes: u64,
    /// Flushes of the device, and writes that are durable by themselves.
    pub flushes: u64,
}

/// Carries a recording out on ext4 with the defaults of Linux, on the device of this profile.
///
/// # Errors
/// There is no such profile, or the file system refuses a call.
pub fn cost(recording: &Recording, device: &str) -> Result<Cost, ModelError> {
    let failed = |e: &dyn Display| ModelError::Simulation(format!("on {device}: {e}"));
    let config = Config {
        bytes: bytes(recording)?.max(EXT4_BYTES_MIN),
        ..Config::new(Preset::Jbd2, device, SEED)
    };
    let fresh = config.format().map_err(|e| failed(&e))?;
    let filled = simulate(|| {
        let stack = Stack::mount(fresh, &config, Clock::Runtime).map_err(|e| e.to_string())?;
        let mut inos = BTreeMap::new();
        fill(&*stack.fs.seam(), &recording.start, &mut inos)?;
        let model = stack.unmount().map_err(|e| e.to_string())?;
        Ok((model, inos))
    });
    let (model, inos) = filled.and_then(|filled| filled).map_err(|e| failed(&e))?;
    let carried = simulate(|| {
        let stack = Stack::mount(model, &config, Clock::Runtime).map_err(|e| failed(&e))?;
        let before = stack.device.device_stats().unwrap_or_default();
        let steps = steps(recording);
        let run = Run {
            name: "cost".into(),
            then: vec![Then::default(); steps.len()],
            seed: 0,
        };
        let mut carrier = Carrier {
            fs: stack.fs.seam(),
            ended: &|| Ok(()),
            at_once: false,
            recording,
            last_use: last_use(recording),
            inos,
            pinned: BTreeMap::new(),
            spans: Vec::with_capacity(recording.calls.len()),
        };
        let carried = carrier.all(&steps, &run);
        let spans = std::mem::take(&mut carrier.spans);
        let after = stack.device.device_stats().unwrap_or_default();
        // Its tasks end with it.
        drop(stack.device.power_off(0));
        rt::power_cut();
        carried.map(|()| summed(recording, &spans, &before, &after))
    });
    carried.map_err(|e| failed(&e))?
}

fn summed(
    recording: &Recording,
    spans: &[(base::Time, base::Time)],
    before: &DeviceStats,
    after: &DeviceStats,
) -> Cost {
    let took = |call: usize| spans.get(call).map_or(0, |(from, to)| to.0 - from.0);
    let is_sync = |call: &usize| {
        let what = &recording.calls[*call].what;
        matches!(what, What::Sync { .. } | What::SyncAll)
    };
    let calls = 0..recording.calls.len();
    let durable = |stats: &DeviceStats| stats.flushes + stats.fua_writes;
    Cost {
        calls: Nanos(calls.clone().map(took).sum()),
        syncs: Nanos(calls.filter(is_sync).map(took).sum()),
        writes: after.writes - before.writes,
        flushes: durable(after) - durable(before),
    }
}
