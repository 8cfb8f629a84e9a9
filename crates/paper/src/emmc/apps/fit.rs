//! Finds `pages` and `others` of each app from the characterisation of the baseline, and from
//! nothing else, so that what other schemes gain stays a prediction:
//!
//!     cargo test --release -p varve-paper --lib emmc::apps::fit::fit -- --ignored --nocapture
//!
//! `VARVE_FIT=gmail,amazon` fits these apps; `VARVE_FIT_TABLE` names a table to begin from instead
//! of the committed one.

#![allow(clippy::disallowed_methods)]

use super::baseline::{Counts, run};
use crate::emmc::published;
use work::recording::apps::{Parameters, Table, generate_with, table};

/// Length of each run of the fit, seconds of recording.
const SECONDS: u32 = 120;
/// Most rounds of the fit of an app.
const ROUNDS: u32 = 8;

/// The committed table, or the one that VARVE_FIT_TABLE names.
fn start() -> Table {
    match std::env::var("VARVE_FIT_TABLE") {
        Ok(path) => {
            let text = std::fs::read_to_string(path).expect("VARVE_FIT_TABLE names a file");
            toml::from_str(&text).expect("VARVE_FIT_TABLE has the form of apps.toml")
        }
        Err(_) => table(),
    }
}

/// The published values of an app: Rcontrol, and the journal block ratio of the baseline and of
/// coalition.
fn wanted(app: &Parameters) -> (f64, f64, f64) {
    let published = published().expect("a test reads the committed table");
    let value = |figure, item| {
        let published = published.get(figure, item, Some(&app.name));
        published
            .value
            .expect("the tables have a value for each app")
    };
    (
        value("Table 3", "control blocks over journal blocks"),
        value("Table 4", "journal block ratio, baseline"),
        value("Table 4", "journal block ratio, journal coalition"),
    )
}

fn measure(table: &Table, app: &Parameters, seconds: u32, seed: u64) -> Counts {
    let recording = generate_with(table, app, seconds, seed).expect("parameters in range");
    run(&recording, "jbd2").expect("a sound recording runs")
}

/// What one set of parameters gives, as the mean over some seeds: more seeds where commits are few.
struct Point {
    control: f64,
    journal: f64,
    journal_per_commit: f64,
}

impl Point {
    fn of(table: &Table, app: &Parameters) -> Point {
        let seeds = (60 / u64::from(app.fsyncs)).clamp(2, 12);
        let runs: Vec<Counts> = (1..=seeds)
            .map(|seed| measure(table, app, SECONDS, seed))
            .collect();
        let mean = |of: fn(&Counts) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
        Point {
            control: mean(Counts::control_ratio_mean),
            journal: mean(Counts::journal_ratio),
            journal_per_commit: mean(|c| c.journal as f64 / c.commits as f64),
        }
    }

    /// A function of Rcontrol that grows nearly linearly with `others`.
    fn record(control: f64) -> f64 {
        2.0 / control
    }

    /// Data blocks per commit for a journal block ratio of `journal`; it grows with `pages`.
    fn data(&self, journal: f64) -> f64 {
        self.journal_per_commit * (1.0 - journal) / journal
    }
}

/// Fits by a secant in each of the two parameters: `others` by Rcontrol, `pages` by the journal
/// block ratio.
fn fitted(table: &Table, start: &Parameters) -> Parameters {
    let ((control, journal, _), mut app) = (wanted(start), start.clone());
    let (mut per_other, mut per_page) = (1.5, 1.0);
    let mut last: Option<(f64, f64, f64, f64)> = None;
    for round in 0..ROUNDS {
        let at = Point::of(table, &app);
        eprintln!(
            "{} round {round} pages {:.3} others {:.3} Rcontrol {:.4} ({control}) b {:.4} ({journal})",
            app.name, app.pages, app.others, at.control, at.journal
        );
        if (at.control - control).abs() < 0.002 && (at.journal - journal).abs() < 0.003 {
            break;
        }
        let (record, data) = (Point::record(at.control), at.data(at.journal));
        if let Some((others, pages, r, d)) = last {
            let slope = |dx: f64, dy: f64, old| match dx.abs() > 0.02 {
                true => (dy / dx).clamp(0.3, 5.0),
                false => old,
            };
            per_other = slope(app.others - others, record - r, per_other);
            per_page = slope(app.pages - pages, data - d, per_page);
        }
        last = Some((app.others, app.pages, record, data));
        app.others = (app.others + (Point::record(control) - record) / per_other).max(0.0);
        app.pages = (app.pages + (at.data(journal) - data) / per_page).max(1.0);
    }
    let round = |x: f64| (x * 100.0).round() / 100.0;
    (app.pages, app.others) = (round(app.pages), round(app.others));
    app
}

#[test]
#[ignore = "the fit itself: minutes"]
fn fit() {
    let (table, only) = (start(), std::env::var("VARVE_FIT").ok());
    let chosen = |app: &&Parameters| only.as_ref().is_none_or(|o| o.contains(&app.name));
    for app in table.apps.iter().filter(chosen) {
        let app = fitted(&table, app);
        eprintln!(
            "FIT {} pages = {:.2} others = {:.2}",
            app.name, app.pages, app.others
        );
        let (control, journal, _) = wanted(&app);
        for (seconds, seed) in [(120, 11), (120, 12), (120, 13), (60, 14), (20, 1), (20, 2)] {
            let c = measure(&table, &app, seconds, seed);
            eprintln!(
                "  {seconds} s seed {seed}: Rcontrol {:+.4} b {:+.4} m {:.2} d {:.2} of {} commits",
                c.control_ratio_mean() - control,
                c.journal_ratio() - journal,
                c.metadata_per_commit(),
                c.data_per_commit(),
                c.commits,
            );
        }
    }
}

/// Prints the table of docs/use/apps.md.
#[test]
#[ignore = "prints a table of the documentation"]
fn report() {
    let table = start();
    for app in &table.apps {
        let recording = generate_with(&table, app, SECONDS, 1).expect("parameters in range");
        let syncs = recording.calls.iter().filter(|c| c.op.is_sync()).count();
        let [base, coalition] = ["jbd2", "coalition"]
            .map(|scheme| run(&recording, scheme).expect("a sound recording runs"));
        let volume = |c: &Counts| (c.journal + c.data) as f64;
        let (control, journal, optimised) = wanted(app);
        eprintln!(
            "| {} | {syncs} | {} | {:.2} | {:.3} | {:.3} ({control:.3}) | {:.2} | {:.3} ({journal:.2}) | {:.3} ({optimised:.2}) | {:+.0} % |",
            app.name,
            base.commits,
            base.metadata_per_commit(),
            base.control_ratio(),
            base.control_ratio_mean(),
            base.data_per_commit(),
            base.journal_ratio(),
            coalition.journal_ratio(),
            (volume(&coalition) / volume(&base) - 1.0) * 100.0,
        );
    }
}
