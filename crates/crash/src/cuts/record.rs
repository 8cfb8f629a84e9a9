//! The SQLite run that is cut: it runs once to learn its length, then once more with the cuts.

use super::CutConfig;
use crate::CrashError;
use ::sqlite::Registration;
use base::{Nanos, Rng, Time};
use blockdev::Modelled;
use rig::{AnyModel, Media, Stack};
use rt::Mutex;
use std::sync::Arc;
use work::RunError;
use work::life::live;
use work::run::DATABASE;
use work::workload::Workload;
use work::workload::sqlite::{self, Transaction};

/// What a cut leaves.
pub struct Cut {
    /// The number of the cut in its recording.
    pub number: usize,
    /// When the power was cut.
    pub at: Time,
    /// Transactions acknowledged before it.
    pub acknowledged: usize,
    /// What survives of the device.
    pub media: Media,
}

/// A run and all its cuts.
pub struct Recording {
    /// The transactions of the workload, in order.
    pub transactions: Vec<Transaction>,
    /// The cuts, by ascending time.
    pub cuts: Vec<Cut>,
}

/// What one simulation of the run gave.
struct Seen {
    /// When each transaction was acknowledged.
    acknowledged: Vec<Time>,
    snapshots: Vec<(Time, Media)>,
}

/// Runs the workload twice: once to learn how long it takes, once with the cuts.
///
/// # Errors
/// The run itself fails.
pub fn record(config: &CutConfig) -> Result<Recording, CrashError> {
    let spec = config.run.workload.parse::<Workload>()?.into_sqlite()?;
    let transactions = sqlite::transactions(&spec, config.run.seed);
    let probe = simulate(config, &transactions, Vec::new())?;
    let first = probe
        .acknowledged
        .get(config.warm_up)
        .or(probe.acknowledged.last());
    let (Some(&start), Some(&end)) = (first, probe.acknowledged.last()) else {
        return Ok(Recording {
            transactions,
            cuts: Vec::new(),
        });
    };
    let seen = simulate(config, &transactions, moments(config, start, end))?;
    assert_eq!(
        seen.acknowledged, probe.acknowledged,
        "taking snapshots changed the run"
    );
    let cuts = seen
        .snapshots
        .into_iter()
        .enumerate()
        .map(|(number, (at, media))| Cut {
            number,
            at,
            acknowledged: seen.acknowledged.partition_point(|&ack| ack <= at),
            media,
        });
    Ok(Recording {
        cuts: cuts.collect(),
        transactions,
    })
}

/// Seeded moments in the measured part, ascending.
fn moments(config: &CutConfig, start: Time, end: Time) -> Vec<Time> {
    let mut rng = Rng::named(config.run.seed, "cuts");
    let span = (end - start).0.max(1);
    let mut moments: Vec<Time> = (0..config.cuts)
        .map(|_| start + Nanos(rng.below(span)))
        .collect();
    moments.sort_unstable();
    moments
}

fn simulate(
    config: &CutConfig,
    transactions: &[Transaction],
    moments: Vec<Time>,
) -> Result<Seen, CrashError> {
    let model = config.run.stack.format()?;
    let life = live(&config.run, model, |stack, sqlite| {
        workload(config, transactions, moments, stack, sqlite)
    })?;
    Ok(life.value)
}

fn workload(
    config: &CutConfig,
    transactions: &[Transaction],
    moments: Vec<Time>,
    stack: &Stack,
    registration: &Registration,
) -> Result<Seen, RunError> {
    let spec = config.run.workload.parse::<Workload>()?.into_sqlite()?;
    let snapshots = Arc::new(Mutex::named("cuts", Vec::new()));
    let cutter = {
        let (device, snapshots, seed) = (stack.device.clone(), snapshots.clone(), config.run.seed);
        rt::spawn("cutter", move || {
            cut_at(&device, &moments, seed, &snapshots)
        })
    };
    let db = registration.open(DATABASE)?;
    sqlite::prepare(&db, &spec)?;
    let mut acknowledged = Vec::new();
    sqlite::run(&db, transactions, spec.own_time(), |_, _| {
        acknowledged.push(rt::now())
    })?;
    cutter
        .join()
        .map_err(|_| RunError::Simulation("the cutter panicked".into()))?;
    db.close().map_err(|(_, e)| e)?;
    let snapshots = std::mem::take(&mut *snapshots.lock());
    Ok(Seen {
        acknowledged,
        snapshots,
    })
}

/// Takes what a cut at each moment would leave; each cut draws from a random stream of its own.
fn cut_at(
    device: &Modelled<AnyModel>,
    moments: &[Time],
    seed: u64,
    snapshots: &Mutex<Vec<(Time, Media)>>,
) {
    for (number, &at) in moments.iter().enumerate() {
        rt::sleep_until(at);
        let choice = Rng::named(seed, &format!("cut/{number}")).next_u64();
        let media = device
            .snapshot(choice)
            .expect("the power is on during the run");
        snapshots.lock().push((rt::now(), media));
    }
}
