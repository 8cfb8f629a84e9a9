//! `varve report A B`: two results side by side, and whether the second one is worse.
//!
//! Runs are matched by file system and scheme. Only what ran the same workload is compared, because
//! a figure of another workload says nothing about a change; what else differs is named above the
//! table, and so is what one of the two lacks.

use crate::args::ReportArgs;
use crate::failure::{Failure, failed, usage};
use crate::json;
use crate::out::{say, say_json};
use crate::table::{framed, to_the_right};
use report::results::{Results, Run, SCHEMA};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A figure of a run by which two are compared.
struct Figure {
    name: &'static str,
    of: fn(&Run) -> Option<f64>,
    more_is_better: bool,
}

const FIGURES: [Figure; 10] = [
    Figure {
        name: "ops/s",
        of: |r| Some(r.ops_per_s),
        more_is_better: true,
    },
    Figure {
        name: "fsync mean us",
        of: |r| Some(r.latency_us.fsync.mean),
        more_is_better: false,
    },
    Figure {
        name: "p50 us",
        of: |r| Some(r.latency_us.fsync.p50),
        more_is_better: false,
    },
    Figure {
        name: "p99 us",
        of: |r| Some(r.latency_us.fsync.p99),
        more_is_better: false,
    },
    Figure {
        name: "max us",
        of: |r| Some(r.latency_us.fsync.max),
        more_is_better: false,
    },
    Figure {
        name: "blocks/op",
        of: |r| Some(per_op(r, r.blocks.values().sum::<u64>() as f64)),
        more_is_better: false,
    },
    Figure {
        name: "programs/op",
        of: |r| r.flash.as_ref().map(|f| per_op(r, f.programs as f64)),
        more_is_better: false,
    },
    // Erases by the wall clock also fall where a scheme gets slower, so they count by operation.
    Figure {
        name: "erases due/1000 op",
        of: |r| r.wear.map(|w| per_op(r, w.erases_due) * 1000.0),
        more_is_better: false,
    },
    Figure {
        name: "of SLC blocks",
        of: |r| Some(per_op(r, r.wear?.slc?.erases_due) * 1000.0),
        more_is_better: false,
    },
    Figure {
        name: "mJ/op",
        of: |r| r.energy_j.as_ref().map(|j| per_op(r, j.device) * 1000.0),
        more_is_better: false,
    },
];

fn per_op(run: &Run, amount: f64) -> f64 {
    amount / run.ops.max(1) as f64
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
    let versus = Versus::of(&a, &b, args.tolerance).map_err(usage)?;
    match args.json {
        true => say_json(&serde_json::to_value(&versus).map_err(failed)?)?,
        false => versus.say()?,
    }
    if !versus.lost.is_empty() {
        return Err(failed(format!(
            "the second lacks {}",
            versus.lost.join(", ")
        )));
    }
    match versus.worse() {
        worse if worse.is_empty() => Ok(()),
        worse => Err(failed(format!(
            "worse by more than {} %: {}",
            args.tolerance,
            worse.join("; ")
        ))),
    }
}

/// Two results side by side.
#[derive(Serialize)]
struct Versus {
    /// What differs between their conditions.
    differs: Vec<String>,
    /// The runs that both have.
    runs: Vec<Pair>,
    /// What the second lacks.
    lost: Vec<String>,
    /// What the first lacks.
    only_in_the_second: Vec<String>,
}

/// A run of both.
#[derive(Serialize)]
struct Pair {
    run: String,
    figures: Vec<Change>,
}

/// A figure of both.
#[derive(Serialize)]
struct Change {
    figure: &'static str,
    before: Option<f64>,
    after: Option<f64>,
    /// By how much the second is greater, if the first is not 0.
    percent: Option<f64>,
    /// Whether it is worse by more than is tolerated.
    worse: bool,
}

impl Versus {
    fn of(a: &Results, b: &Results, tolerance: f64) -> Result<Versus, String> {
        let mut versus = Versus {
            differs: differences(a, b)?,
            runs: Vec::new(),
            lost: Vec::new(),
            only_in_the_second: Vec::new(),
        };
        let name = |run: &Run| format!("{}/{}", run.fs, run.scheme);
        for before in &a.runs {
            match b.runs.iter().find(|run| same(run, before)) {
                None => versus.lost.push(name(before)),
                Some(after) => {
                    let figures: Vec<Change> = FIGURES
                        .iter()
                        .map(|figure| Change::of(figure, before, after, tolerance))
                        .collect();
                    let gone = figures.iter().filter(|change| change.is_lost());
                    let gone = gone.map(|change| format!("{} of {}", change.figure, name(before)));
                    versus.lost.extend(gone);
                    versus.runs.push(Pair {
                        run: name(before),
                        figures,
                    });
                }
            }
        }
        let new = b
            .runs
            .iter()
            .filter(|run| !a.runs.iter().any(|r| same(r, run)));
        versus.only_in_the_second = new.map(name).collect();
        Ok(versus)
    }

    fn say(&self) -> Result<(), Failure> {
        for line in &self.differs {
            say(&format!("{line}\n"))?;
        }
        let heads = FIGURES.iter().map(|figure| figure.name);
        let mut table = framed(["fs/scheme"].into_iter().chain(heads));
        for pair in &self.runs {
            let cells = pair.figures.iter().map(Change::text);
            table.add_row([pair.run.clone()].into_iter().chain(cells));
        }
        say(&format!("{}\n", to_the_right(table)))?;
        for run in &self.only_in_the_second {
            say(&format!("only in the second: {run}\n"))?;
        }
        Ok(())
    }

    /// The figures that are worse by more than is tolerated.
    fn worse(&self) -> Vec<String> {
        let all = self.runs.iter().flat_map(|pair| {
            let worse = pair.figures.iter().filter(|change| change.worse);
            worse.map(|change| format!("{}: {} {}", pair.run, change.figure, change.text()))
        });
        all.collect()
    }
}

impl Change {
    fn of(figure: &Figure, before: &Run, after: &Run, tolerance: f64) -> Change {
        let (before, after) = ((figure.of)(before), (figure.of)(after));
        let mut change = Change {
            figure: figure.name,
            before,
            after,
            percent: None,
            worse: false,
        };
        let (Some(old), Some(new)) = (before, after) else {
            return change;
        };
        if old == 0.0 {
            change.worse = new != 0.0 && !figure.more_is_better;
            return change;
        }
        let percent = (new / old - 1.0) * 100.0;
        let loss = match figure.more_is_better {
            true => -percent,
            false => percent,
        };
        change.percent = Some(percent);
        change.worse = loss > tolerance;
        change
    }

    /// Only the first result knows it.
    fn is_lost(&self) -> bool {
        self.before.is_some() && self.after.is_none()
    }

    fn text(&self) -> String {
        match (self.before, self.after, self.percent) {
            (Some(old), Some(new), _) if old == new => format!("{new:.2} ="),
            (Some(old), Some(new), Some(percent)) => {
                format!("{old:.2} -> {new:.2} ({percent:+.1} %)")
            }
            (Some(old), Some(new), None) => format!("{old:.2} -> {new:.2}"),
            _ => "-".into(),
        }
    }
}

fn same(one: &Run, other: &Run) -> bool {
    (&one.fs, &one.scheme) == (&other.fs, &other.scheme)
}

/// What differs between the conditions of two results, a line each.
///
/// # Errors
/// They ran different workloads, or one of them holds no run.
fn differences(a: &Results, b: &Results) -> Result<Vec<String>, String> {
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
    let blocks = |run: &Run| {
        run.wear
            .map_or("an unknown number".into(), |w| w.blocks.to_string())
    };
    let sizes = (blocks(first), blocks(second));
    let mut lines = Vec::new();
    for (what, one, other) in [
        ("device", &a.profile, &b.profile),
        ("timing", &first.timing, &second.timing),
        ("seed", &seeds.0, &seeds.1),
        ("number of flash blocks", &sizes.0, &sizes.1),
    ] {
        if one != other {
            lines.push(format!("{what} differs: {one} and {other}"));
        }
    }
    for (which, results) in [("first", a), ("second", b)] {
        if let Some(why) = &results.incomplete {
            lines.push(format!("the {which} is incomplete: {why}"));
        }
    }
    Ok(lines)
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
    let no_results = |why: String| of(format!("no results of varve compare: {why}"));
    let head: Head = json::read(&text).map_err(no_results)?;
    if head.schema != SCHEMA {
        let found = head.schema;
        return Err(of(format!(
            "it has schema {found}, and this version reads schema {SCHEMA}"
        )));
    }
    json::read(&text).map_err(no_results)
}
