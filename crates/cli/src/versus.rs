//! `varve report A B`: two results side by side, and whether the second one is worse.
//!
//! Runs are matched by file system and scheme. Only what ran the same workload is compared, because
//! a figure of another workload says nothing about a change; what else differs is named above the
//! table, and so is what one of the two lacks.

use crate::args::ReportArgs;
use crate::failure::{Failure, failed, usage};
use crate::out::say;
use crate::table::{framed, to_the_right};
use report::results::{Results, Run, SCHEMA};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// A figure of a run by which two are compared.
struct Figure {
    name: &'static str,
    of: fn(&Run) -> Option<f64>,
    more_is_better: bool,
}

const FIGURES: [Figure; 6] = [
    Figure {
        name: "ops/s",
        of: |r| Some(r.ops_per_s),
        more_is_better: true,
    },
    Figure {
        name: "fsync p50 us",
        of: |r| Some(r.latency_us.fsync.p50),
        more_is_better: false,
    },
    Figure {
        name: "p99 us",
        of: |r| Some(r.latency_us.fsync.p99),
        more_is_better: false,
    },
    Figure {
        name: "blocks/op",
        of: |r| Some(per_op(r, r.blocks.values().sum())),
        more_is_better: false,
    },
    Figure {
        name: "programs/op",
        of: |r| r.flash.as_ref().map(|f| per_op(r, f.programs)),
        more_is_better: false,
    },
    // Erases by the wall clock also fall where a scheme gets slower, so they count by operation.
    Figure {
        name: "erases due/1000 op",
        of: |r| r.wear.map(|w| w.erases_due * 1000.0 / r.ops.max(1) as f64),
        more_is_better: false,
    },
];

fn per_op(run: &Run, count: u64) -> f64 {
    count as f64 / run.ops.max(1) as f64
}

/// Compares two results; fails if the second is worse by more than the tolerance, or lacks a run.
pub fn report(args: &ReportArgs) -> Result<(), Failure> {
    if !(0.0..=1000.0).contains(&args.tolerance) {
        let given = args.tolerance;
        return Err(usage(format!(
            "--tolerance {given}; it may be 0 to 1000 percent"
        )));
    }
    let (a, b) = (read(&args.before)?, read(&args.after)?);
    let heads = differences(&a, &b).map_err(usage)?;
    say(&heads)?;
    let mut table = framed(
        ["fs/scheme"]
            .into_iter()
            .chain(FIGURES.iter().map(|figure| figure.name)),
    );
    let (mut worse, mut lost) = (Vec::new(), Vec::new());
    for before in &a.runs {
        let name = format!("{}/{}", before.fs, before.scheme);
        let Some(after) = b.runs.iter().find(|run| same(run, before)) else {
            lost.push(name);
            continue;
        };
        let mut cells = vec![name.clone()];
        for figure in &FIGURES {
            let (text, is_worse) = change(figure, before, after, args.tolerance);
            if is_worse {
                worse.push(format!("{name}: {} {text}", figure.name));
            }
            cells.push(text);
        }
        table.add_row(cells);
    }
    say(&format!("{}\n", to_the_right(table)))?;
    for run in b
        .runs
        .iter()
        .filter(|run| !a.runs.iter().any(|r| same(r, run)))
    {
        say(&format!("only in the second: {}/{}\n", run.fs, run.scheme))?;
    }
    if !lost.is_empty() {
        return Err(failed(format!("the second lacks {}", lost.join(", "))));
    }
    match worse.is_empty() {
        true => Ok(()),
        false => Err(failed(format!(
            "worse by more than {} %: {}",
            args.tolerance,
            worse.join("; ")
        ))),
    }
}

fn same(one: &Run, other: &Run) -> bool {
    (&one.fs, &one.scheme) == (&other.fs, &other.scheme)
}

/// The values of a figure and its change, and whether the change is for the worse by more than
/// `tolerance` percent.
fn change(figure: &Figure, before: &Run, after: &Run, tolerance: f64) -> (String, bool) {
    let (Some(old), Some(new)) = ((figure.of)(before), (figure.of)(after)) else {
        return ("-".into(), false);
    };
    if old == new {
        return (format!("{new:.2} ="), false);
    }
    if old == 0.0 {
        return (format!("{old:.2} -> {new:.2}"), !figure.more_is_better);
    }
    let percent = (new / old - 1.0) * 100.0;
    let loss = if figure.more_is_better {
        -percent
    } else {
        percent
    };
    let text = format!("{old:.2} -> {new:.2} ({percent:+.1} %)");
    (text, loss > tolerance)
}

/// What differs between the conditions of two results, a line each.
///
/// # Errors
/// They ran different workloads, or one of them holds no run.
fn differences(a: &Results, b: &Results) -> Result<String, String> {
    let (Some(first), Some(second)) = (a.runs.first(), b.runs.first()) else {
        return Err("one of the two results holds no run".into());
    };
    if first.workload != second.workload {
        let (one, other) = (&first.workload, &second.workload);
        return Err(format!(
            "they ran different workloads: `{one}` and `{other}`"
        ));
    }
    let seeds = (a.seed.to_string(), b.seed.to_string());
    let mut text = String::new();
    for (what, one, other) in [
        ("device", &a.profile, &b.profile),
        ("timing", &first.timing, &second.timing),
        ("seed", &seeds.0, &seeds.1),
    ] {
        if one != other {
            text.push_str(&format!("{what} differs: {one} and {other}\n"));
        }
    }
    for (which, results) in [("first", a), ("second", b)] {
        if let Some(why) = &results.incomplete {
            text.push_str(&format!("the {which} is incomplete: {why}\n"));
        }
    }
    Ok(text)
}

/// The results at `path`: a file, or the folder in which `results.json` lies.
fn read(path: &Path) -> Result<Results, Failure> {
    #[derive(Deserialize)]
    struct Head {
        schema: u32,
    }
    let path: PathBuf = match path.is_dir() {
        true => path.join("results.json"),
        false => path.into(),
    };
    let of = |why: String| usage(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(|e| of(e.to_string()))?;
    let no_results = |e: serde_json::Error| of(format!("no results of varve compare: {e}"));
    let head: Head = serde_json::from_str(&text).map_err(no_results)?;
    if head.schema != SCHEMA {
        let found = head.schema;
        return Err(of(format!(
            "it has schema {found}, and this version reads schema {SCHEMA}"
        )));
    }
    serde_json::from_str(&text).map_err(no_results)
}
