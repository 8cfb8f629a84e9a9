//! Cuts in each phase of the workload `files:`, for studies of how long recovery takes.

use crate::CrashError;
use base::{Nanos, Rng, Time};
use blockdev::Model;
use rig::{AnyModel, Media, Stack};
use rt::Mutex;
use std::sync::Arc;
use work::RunConfig;
use work::RunError;
use work::life::live;
use work::workload::files::{self, FilesRun, FilesSpec, FilesState};
use work::workload::{SpecError, Workload};

/// What a cut in a phase leaves.
pub struct PhaseCut {
    /// The phase: `create`, `transactions` or `delete`.
    pub phase: &'static str,
    /// When the power was cut, counted from the mount.
    pub at: Time,
    /// What survives of the device.
    pub media: Media,
}

/// A run with all its cuts.
pub struct Phases {
    /// The phases and how long they took.
    pub spans: Vec<(&'static str, Nanos)>,
    /// The cuts by ascending time; each phase has equally many.
    pub cuts: Vec<PhaseCut>,
}

/// Begin and end of each phase.
type Bounds = Vec<(&'static str, Time, Time)>;

/// What the run that is cut begins with.
#[derive(Clone)]
struct Beginning {
    volume: Media,
    /// The files that exist; `None`: the run creates them.
    files: Option<FilesState>,
}

/// Runs the workload twice: once to learn when its phases begin and end, once with `cuts` cuts at
/// seeded moments in each of them.
///
/// The volume was used before, so that its metadata blocks have a home: as many files were created
/// and removed on it, and it was unmounted. With `remounted` it is unmounted once more behind the
/// phase `create`. Then that phase is not cut, and the log holds nothing of it.
///
/// # Errors
/// The workload is not `files:`, or the run itself fails.
pub fn record_phases(
    config: &RunConfig,
    cuts: usize,
    remounted: bool,
) -> Result<Phases, CrashError> {
    let spec = match config.workload.parse()? {
        Workload::Files(spec) => spec,
        other => {
            let why = format!("workload `{other}` has no phases to cut in; files: has");
            return Err(SpecError::Together(why).into());
        }
    };
    let mut from = Beginning {
        volume: used_volume(config, &spec)?,
        files: None,
    };
    if remounted {
        from = with_files(config, &spec, from.volume)?;
    }
    let (bounds, _) = simulate(config, &spec, from.clone(), Vec::new())?;
    let moments = moments(config.seed, &bounds, cuts);
    let times = moments.iter().map(|(_, at)| *at).collect();
    let (again, snapshots) = simulate(config, &spec, from, times)?;
    assert_eq!(again, bounds, "taking snapshots changed the run");
    let cuts = moments.iter().zip(snapshots);
    Ok(Phases {
        spans: bounds.iter().map(|&(p, a, b)| (p, b - a)).collect(),
        cuts: cuts
            .map(|(&(phase, at), media)| PhaseCut { phase, at, media })
            .collect(),
    })
}

/// Seeded moments in each phase, ascending. They are fractions of a phase, so that schemes are cut
/// at equal places however long a phase takes.
fn moments(seed: u64, bounds: &Bounds, cuts: usize) -> Vec<(&'static str, Time)> {
    let mut moments = Vec::new();
    for &(phase, start, end) in bounds {
        let mut rng = Rng::named(seed, &format!("cuts/{phase}"));
        let span = u128::from((end - start).0);
        let mut part = || Nanos(((span * u128::from(rng.below(1 << 32))) >> 32) as u64);
        moments.extend((0..cuts).map(|_| (phase, start + part())));
    }
    moments.sort_by_key(|(_, at)| *at);
    moments
}

/// A volume on which the files of `spec` were created and removed once.
fn used_volume(config: &RunConfig, spec: &FilesSpec) -> Result<Media, CrashError> {
    let once = FilesSpec {
        transactions: 0,
        pause_us: 0,
        ..spec.clone()
    };
    let model = config.stack.format()?;
    let life = live(config, model, |stack, _| {
        FilesRun::prepare(&once, &stack.vfs, config.seed)?.run(&mut |_| {})?;
        stack.vfs.rmdir(files::DIR)?;
        Ok(rt::now())
    })?;
    Ok(switched_off(life.model, life.value))
}

/// The volume after the phase `create`, with its files.
fn with_files(
    config: &RunConfig,
    spec: &FilesSpec,
    volume: Media,
) -> Result<Beginning, CrashError> {
    let model = config.stack.attach(volume)?;
    let life = live(config, model, |stack, _| {
        let mut run = FilesRun::prepare(spec, &stack.vfs, config.seed)?;
        run.begin(&mut |_| {})?;
        Ok((rt::now(), run.state()))
    })?;
    let (at, files) = life.value;
    Ok(Beginning {
        volume: switched_off(life.model, at),
        files: Some(files),
    })
}

/// The medium of a device that is unmounted soon after `at` and loses its power long after that.
pub fn switched_off(model: AnyModel, at: Time) -> Media {
    model.power_off(at + LONG_AFTER, 0)
}

/// Longer than any unmount takes.
const LONG_AFTER: Nanos = Nanos::from_secs(3600);

fn simulate(
    config: &RunConfig,
    spec: &FilesSpec,
    from: Beginning,
    moments: Vec<Time>,
) -> Result<(Bounds, Vec<Media>), CrashError> {
    let model = config.stack.attach(from.volume)?;
    let life = live(config, model, |stack, _| {
        workload(config, spec, from.files, moments, stack)
    })?;
    Ok(life.value)
}

fn workload(
    config: &RunConfig,
    spec: &FilesSpec,
    files: Option<FilesState>,
    moments: Vec<Time>,
    stack: &Stack,
) -> Result<(Bounds, Vec<Media>), RunError> {
    let snapshots = Arc::new(Mutex::named("cuts", Vec::with_capacity(moments.len())));
    let cutter = {
        let (device, snapshots, seed) = (stack.device.clone(), snapshots.clone(), config.seed);
        rt::spawn("cutter", move || {
            for (number, &at) in moments.iter().enumerate() {
                rt::sleep_until(at);
                // Each cut has a random stream of its own for what survives and what is torn.
                let choice = Rng::named(seed, &format!("cut/{number}")).next_u64();
                let media = device.snapshot(choice);
                snapshots
                    .lock()
                    .push(media.expect("the power is on during the run"));
            }
        })
    };
    let quiet = &mut |_| {};
    let run = match files {
        None => {
            let mut run = FilesRun::prepare(spec, &stack.vfs, config.seed)?;
            run.run(quiet)?;
            run
        }
        Some(files) => {
            let mut run = FilesRun::resume(spec, &stack.vfs, files);
            run.finish(quiet)?;
            run
        }
    };
    let phases = run.phases().iter();
    let bounds = phases.filter_map(|p| Some((p.name, p.begin, p.end?)));
    cutter
        .join()
        .map_err(|_| RunError::Simulation("the cutter panicked".into()))?;
    let snapshots = std::mem::take(&mut *snapshots.lock());
    Ok((bounds.collect(), snapshots))
}
