//! When an application does what: syncing actions come in bursts, and each burst begins at a random
//! moment of its own share of the time between bursts.

use super::actions::{Action, Files, Kind, Other};
use super::deal;
use super::parameters::{Parameters, Table};
use super::phone::{Phone, Thread};
use crate::recording::Recording;
use base::{Nanos, Rng};

/// Thread of what belongs to no worker: opening at first and closing at the end.
const MAIN: u32 = 1;
/// Number of the first worker's thread.
const WORKERS: u32 = 50;
/// Generates the recording of an application.
pub fn record(table: &Table, app: &Parameters, seconds: u32, rng: Rng) -> Recording {
    let mut phone = Phone::new(table, format!("app:{}", app.name), rng);
    let mut main = Thread {
        number: MAIN,
        now: Nanos(0),
    };
    let mut files = Files::prepare(&mut phone, app, &mut main);
    let bursts = bursts(app, seconds, &mut phone.rng);
    // A burst is recorded as if it began at once, and then moved to its place, because how long it
    // takes is known only afterwards.
    let mut spans = Vec::new();
    for burst in bursts {
        let start = phone.recording.calls.len();
        let end = run_burst(&mut phone, &mut files, app, burst);
        spans.push((start..phone.recording.calls.len(), end));
    }
    let busy: u64 = spans.iter().map(|(_, end)| end.0).sum();
    let whole = Nanos::from_secs(seconds.into()).0;
    let free = whole.saturating_sub(busy + main.now.0);
    let starts = starts(spans.len() as u64, free, &mut phone.rng);
    let mut before = main.now;
    for ((calls, end), start) in spans.into_iter().zip(starts) {
        for call in &mut phone.recording.calls[calls] {
            call.at += before + Nanos(start);
        }
        before += end;
    }
    main.now = Nanos(before.0 + free);
    files.close(&mut phone, &mut main);
    phone.finish()
}

/// When each of `count` bursts begins: at a random moment of its part of `time`.
fn starts(count: u64, time: u64, rng: &mut Rng) -> Vec<u64> {
    let begin = |n: u64| (u128::from(time) * u128::from(n) / u128::from(count.max(1))) as u64;
    let within = |n| begin(n) + rng.below((begin(n + 1) - begin(n)).max(1));
    (0..count).map(within).collect()
}

/// Number of fsyncs of the whole recording (apps-A1).
fn fsyncs(app: &Parameters, seconds: u32) -> u32 {
    ((u64::from(app.fsyncs) * u64::from(seconds) * 2 + 5) / 10) as u32
}

/// All actions, divided into bursts.
fn bursts(app: &Parameters, seconds: u32, rng: &mut Rng) -> Vec<Vec<Action>> {
    let mix = &app.mix;
    let shares: Vec<(Kind, f64, u32)> = [
        (Kind::Rollback, mix.rollback),
        (Kind::Delete, mix.delete),
        (Kind::Wal, mix.wal),
        (Kind::Overwrite, mix.overwrite),
        (Kind::Cache, mix.cache),
        (Kind::Prefs, mix.prefs),
    ]
    .map(|(kind, share)| (kind, share, kind.fsyncs()))
    .into();
    let total = fsyncs(app, seconds);
    let mut kinds = deal::kinds(&shares, total);
    deal::shuffle(&mut kinds, rng);
    let pages = deal::geometric(kinds.len(), app.pages, rng);
    let mut others = others(app, kinds.iter().map(|k| k.commits()).sum(), rng);
    let mut actions = kinds.into_iter().zip(pages).map(|(kind, pages)| Action {
        kind,
        pages,
        others: others.by_ref().take(kind.commits()).collect(),
    });
    let count = (f64::from(total) / app.burst).round().max(1.0) as usize;
    let sizes = deal::geometric(count, f64::from(total) / count as f64, rng);
    let mut bursts = Vec::new();
    for size in sizes {
        let (mut burst, mut have) = (Vec::new(), 0);
        while have < size {
            let Some(action) = actions.next() else { break };
            have += action.kind.fsyncs();
            burst.push(action);
        }
        if !burst.is_empty() {
            bursts.push(burst);
        }
    }
    if let Some(last) = bursts.last_mut() {
        last.extend(actions);
    }
    bursts
}

/// Records a burst that begins at time zero; returns when its last call is over.
fn run_burst(
    phone: &mut Phone<'_>,
    files: &mut Files,
    app: &Parameters,
    burst: Vec<Action>,
) -> Nanos {
    let worker = phone.between(0, app.workers.into()) as u32;
    let mut thread = Thread {
        number: WORKERS + worker,
        now: Nanos(0),
    };
    for action in burst {
        files.act(phone, &mut thread, worker as usize, action);
    }
    thread.now
}

/// What other threads do before each of `commits` commits.
fn others(
    app: &Parameters,
    commits: usize,
    rng: &mut Rng,
) -> impl Iterator<Item = Vec<Other>> + use<> {
    let counts = deal::poisson(commits, app.others, rng);
    let all: u32 = counts.iter().sum();
    let made = (f64::from(all) * app.made).round() as u32;
    let mut kinds: Vec<Other> = (0..all)
        .map(|n| {
            if n < made {
                Other::Made
            } else {
                Other::Written
            }
        })
        .collect();
    deal::shuffle(&mut kinds, rng);
    let mut kinds = kinds.into_iter();
    counts
        .into_iter()
        .map(move |count| kinds.by_ref().take(count as usize).collect())
}
