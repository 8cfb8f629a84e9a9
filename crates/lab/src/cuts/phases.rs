//! Cuts in each phase of the workload `files:`.

use crate::life::live;
use crate::workload::files::{self, FilesRun, FilesSpec};
use crate::workload::{SpecError, Workload};
use crate::{RunConfig, RunError};
use base::{Nanos, Rng, Time};
use rig::{AnyModel, Media, Model, Stack};
use rt::Mutex;
use std::sync::Arc;

/// What a cut in a phase leaves.
pub struct PhaseCut {
    /// The phase: `create`, `transactions` or `delete`.
    pub phase: &'static str,
    /// When the power went, counted from the beginning of the run.
    pub at: Time,
    /// What survives.
    pub media: Media,
}

/// A run with all its cuts.
pub struct Phases {
    /// The phases and how long they took.
    pub spans: Vec<(&'static str, Nanos)>,
    /// The cuts by ascending time, as many in each phase.
    pub cuts: Vec<PhaseCut>,
}

/// Begin and end of each phase.
type Bounds = Vec<(&'static str, Time, Time)>;

/// Runs the workload twice: once to learn when its phases begin and end, once with `cuts` cuts at seeded moments in each. The
/// volume is not fresh: as many files have been created and removed on it, and it was unmounted, so that metadata blocks have a home
/// that was used before.
///
/// # Errors
/// Another workload than `files:`; the run itself fails.
pub fn record_phases(config: &RunConfig, cuts: usize) -> Result<Phases, RunError> {
    let spec = match config.workload.parse()? {
        Workload::Files(spec) => spec,
        other => {
            let why = format!("workload `{other}` has no phases to cut in; files: has");
            return Err(SpecError::Together(why).into());
        }
    };
    let volume = used_volume(config, &spec)?;
    let (bounds, _) = simulate(config, &spec, volume.clone(), Vec::new())?;
    let moments = moments(config.seed, &bounds, cuts);
    let times = moments.iter().map(|(_, at)| *at).collect();
    let (again, snapshots) = simulate(config, &spec, volume, times)?;
    assert_eq!(again, bounds, "taking snapshots changed the run");
    let cuts = moments.iter().zip(snapshots);
    Ok(Phases {
        spans: bounds.iter().map(|&(p, a, b)| (p, b - a)).collect(),
        cuts: cuts
            .map(|(&(phase, at), media)| PhaseCut { phase, at, media })
            .collect(),
    })
}

/// Seeded moments in each phase, ascending.
fn moments(seed: u64, bounds: &Bounds, cuts: usize) -> Vec<(&'static str, Time)> {
    let mut moments = Vec::new();
    for &(phase, start, end) in bounds {
        let mut rng = Rng::named(seed, &format!("cuts/{phase}"));
        let span = (end - start).0.max(1);
        moments.extend((0..cuts).map(|_| (phase, start + Nanos(rng.below(span)))));
    }
    moments.sort_by_key(|(_, at)| *at);
    moments
}

/// A volume on which the files of `spec` were created and removed once.
fn used_volume(config: &RunConfig, spec: &FilesSpec) -> Result<Media, RunError> {
    let once = FilesSpec {
        transactions: 0,
        pause_us: 0,
        ..spec.clone()
    };
    let model = config.stack.format()?;
    let life = live(config, model, |stack, _| {
        FilesRun::prepare(&once, &stack.vfs, config.seed)?.run(&mut |_, _| {})?;
        stack.vfs.rmdir(files::DIR)?;
        Ok(rt::now())
    })?;
    Ok(switched_off(life.model, life.value))
}

/// The medium of a device that was unmounted soon after `at`, and then lost its power.
pub(crate) fn switched_off(model: AnyModel, at: Time) -> Media {
    model.power_off(at + LONG_AFTER, 0)
}

/// Longer than any unmount.
const LONG_AFTER: Nanos = Nanos::from_secs(3600);

fn simulate(
    config: &RunConfig,
    spec: &FilesSpec,
    volume: Media,
    moments: Vec<Time>,
) -> Result<(Bounds, Vec<Media>), RunError> {
    let model = config.stack.attach(volume)?;
    let life = live(config, model, |stack, _| {
        workload(config, spec, moments, stack)
    })?;
    Ok(life.value)
}

fn workload(
    config: &RunConfig,
    spec: &FilesSpec,
    moments: Vec<Time>,
    stack: &Stack,
) -> Result<(Bounds, Vec<Media>), RunError> {
    let snapshots = Arc::new(Mutex::named("cuts", Vec::with_capacity(moments.len())));
    let cutter = {
        let (device, snapshots, seed) = (stack.device.clone(), snapshots.clone(), config.seed);
        rt::spawn("cutter", move || {
            for (number, &at) in moments.iter().enumerate() {
                rt::sleep_until(at);
                // What of the cache survives and what is torn comes from a stream per cut.
                let choice = Rng::named(seed, &format!("cut/{number}")).next_u64();
                let media = device.snapshot(choice);
                snapshots
                    .lock()
                    .push(media.expect("the power is on during the run"));
            }
        })
    };
    let mut run = FilesRun::prepare(spec, &stack.vfs, config.seed)?;
    run.run(&mut |_, _| {})?;
    let phases = run.phases().iter();
    let bounds = phases.filter_map(|p| Some((p.name, p.begin, p.end?)));
    let bounds: Bounds = bounds.collect();
    cutter
        .join()
        .map_err(|_| RunError::Simulation("the cutter panicked".into()))?;
    let snapshots = std::mem::take(&mut *snapshots.lock());
    Ok((bounds, snapshots))
}
