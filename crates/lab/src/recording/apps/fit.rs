//! Finds `pages` and `others` of each app from the characterisation of the baseline.

use super::baseline::{Counts, run};
use super::*;
use crate::paper::emmc::published;

#[test]
#[ignore]
fn parts() {
    let table = table();
    let base = table.apps[3].clone();
    let one = |mix: Mix, fsyncs, pages, others, shards, scheme: &str| -> Counts {
        let app = Parameters {
            mix,
            fsyncs,
            pages,
            others,
            shards,
            burst: 3.0,
            ..base.clone()
        };
        run(&generate_with(&table, &app, 60, 1).unwrap(), scheme).unwrap()
    };
    let d = Mix::default();
    let mixes = [
        (
            "rollback",
            Mix {
                rollback: 1.0,
                wal: 0.001,
                ..d
            },
        ),
        (
            "delete",
            Mix {
                delete: 1.0,
                wal: 0.001,
                ..d
            },
        ),
        ("wal", Mix { wal: 1.0, ..d }),
        (
            "overwrite",
            Mix {
                overwrite: 1.0,
                ..d
            },
        ),
        ("cache", Mix { cache: 1.0, ..d }),
        ("prefs", Mix { prefs: 1.0, ..d }),
    ];
    for (fsyncs, pages, others, shards) in [
        (40, 2.0, 0.0, 4),
        (3, 2.0, 0.0, 4),
        (40, 2.0, 2.0, 4),
        (40, 2.0, 2.0, 16),
        (3, 2.0, 4.0, 16),
        (3, 2.0, 8.0, 16),
    ] {
        for (name, mix) in mixes {
            let c = one(mix, fsyncs, pages, others, shards, "jbd2");
            let syncs = f64::from(fsyncs * 12);
            println!(
                "rate {fsyncs:2} pages {pages} others {others} shards {shards:2} {name:9} commits/fsync {:.2} m {:.2} Rc {:.3} d/commit {:.2} b {:.3} home {}",
                c.commits as f64 / syncs,
                c.metadata as f64 / c.commits as f64,
                c.control_ratio(),
                c.data as f64 / c.commits as f64,
                c.journal_ratio(),
                c.home,
            );
        }
    }
}

/// Seconds of each run of the fit.
const SECONDS: u32 = 120;

/// The committed table, or the one that VARVE_FIT_TABLE names.
fn start() -> Table {
    match std::env::var("VARVE_FIT_TABLE") {
        Ok(path) => toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap(),
        Err(_) => table(),
    }
}

fn measure(table: &Table, app: &Parameters, seconds: u32, seed: u64) -> Counts {
    run(&generate_with(table, app, seconds, seed).unwrap(), "jbd2").unwrap()
}

/// Means over the seeds: control ratio, journal block ratio, journal blocks per commit.
fn point(table: &Table, app: &Parameters) -> (f64, f64, f64) {
    let runs: Vec<Counts> = (1..=(60 / u64::from(app.fsyncs)).clamp(2, 12))
        .map(|seed| measure(table, app, SECONDS, seed))
        .collect();
    let mean = |of: fn(&Counts) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
    (
        mean(Counts::control_ratio_mean),
        mean(Counts::journal_ratio),
        mean(|c| c.journal as f64 / c.commits as f64),
    )
}

#[test]
#[ignore = "the fit itself: minutes"]
fn fit() {
    let (table, published) = (start(), published().unwrap());
    let only = std::env::var("VARVE_FIT").ok();
    for app in table
        .apps
        .iter()
        .filter(|a| only.as_ref().is_none_or(|o| o.contains(&a.name)))
    {
        let wanted = |figure, item| published.get(figure, item, Some(&app.name)).value.unwrap();
        let control = wanted("Table 3", "control blocks over journal blocks");
        let journal = wanted("Table 4", "journal block ratio, baseline");
        let mut app = app.clone();
        let record = |rc: f64| 2.0 / rc;
        let data = |at: (f64, f64, f64), b: f64| at.2 * (1.0 - b) / b;
        let (mut slope_t, mut slope_p) = (1.5, 1.0);
        let mut last: Option<(f64, f64, f64, f64)> = None;
        for round in 0..8 {
            let at = point(&table, &app);
            println!(
                "{} round {round} pages {:.3} others {:.3} Rc {:.4} ({control}) b {:.4} ({journal})",
                app.name, app.pages, app.others, at.0, at.1
            );
            if (at.0 - control).abs() < 0.002 && (at.1 - journal).abs() < 0.003 {
                break;
            }
            if let Some((t, p, r, d)) = last {
                let secant = |dx: f64, dy: f64, old: f64| {
                    if dx.abs() > 0.02 {
                        (dy / dx).clamp(0.3, 5.0)
                    } else {
                        old
                    }
                };
                slope_t = secant(app.others - t, record(at.0) - r, slope_t);
                slope_p = secant(app.pages - p, data(at, at.1) - d, slope_p);
            }
            last = Some((app.others, app.pages, record(at.0), data(at, at.1)));
            app.others = (app.others + (record(control) - record(at.0)) / slope_t).max(0.0);
            app.pages = (app.pages + (data(at, journal) - data(at, at.1)) / slope_p).max(1.0);
        }
        println!(
            "FIT {} pages = {:.2} others = {:.2}",
            app.name, app.pages, app.others
        );
        app.pages = (app.pages * 100.0).round() / 100.0;
        app.others = (app.others * 100.0).round() / 100.0;
        for (seconds, seed) in [
            (120, 1),
            (120, 2),
            (120, 11),
            (120, 12),
            (60, 13),
            (60, 14),
            (20, 1),
            (20, 2),
            (20, 3),
        ] {
            let c = measure(&table, &app, seconds, seed);
            println!(
                "  {} {seconds} s seed {seed}: Rc {:+.4} of all {:.3} b {:+.4} m {:.2} d {:.2} commits {} home {}",
                app.name,
                c.control_ratio() - control,
                c.control_ratio_mean(),
                c.journal_ratio() - journal,
                c.metadata_per_commit(),
                c.data_per_commit(),
                c.commits,
                c.home
            );
        }
    }
}

/// The table of docs/apps.md.
#[test]
#[ignore = "prints a table of the documentation"]
fn report() {
    let (table, published) = (start(), published().unwrap());
    println!(
        "| app | fsyncs | commits | m | Rcontrol (of all commits) | b | d | coalition: ratio | volume | paper: Rcontrol, b, ratio |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for app in &table.apps {
        let recording = generate_with(&table, app, SECONDS, 1).unwrap();
        let syncs = recording.calls.iter().filter(|c| c.op.is_sync()).count();
        let [base, coalition] =
            ["jbd2", "coalition"].map(|scheme| run(&recording, scheme).unwrap());
        let value = |figure, item| published.get(figure, item, Some(&app.name)).value.unwrap();
        let volume = |c: &Counts| (c.journal + c.data) as f64;
        println!(
            "| {} | {syncs} | {} | {:.2} | {:.3} ({:.3}) | {:.3} | {:.2} | {:.3} | {:+.0} % | {:.3}, {:.2}, {:.2} |",
            app.name,
            base.commits,
            base.metadata_per_commit(),
            base.control_ratio_mean(),
            base.control_ratio(),
            base.journal_ratio(),
            base.data_per_commit(),
            coalition.journal_ratio(),
            (volume(&coalition) / volume(&base) - 1.0) * 100.0,
            value("Table 3", "control blocks over journal blocks"),
            value("Table 4", "journal block ratio, baseline"),
            value("Table 4", "journal block ratio, journal coalition"),
        );
    }
}
