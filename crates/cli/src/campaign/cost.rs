//! What a job costs, roughly, in seconds on one core: enough to size the tasks of a cluster and to
//! say how long a plan takes. What is left is told by what was measured (`status`).
//!
//! The constants were read off jobs that were run; `costs.tsv` has some hundred of them, each with
//! the CPU time that it took, and a test demands that most estimates are within a factor of two of
//! it.

use super::task::Task;
use crash::plan;
use serde_json::Value;
use std::collections::BTreeMap;

/// Seconds of a start and an end of a simulation, with the check of its image.
const RUN: f64 = 0.022;
/// Seconds of a transaction of SQLite on a modelled device, with a rollback journal and with a
/// write-ahead log, and of a row that is there before.
const TRANSACTION: f64 = 190e-6;
const LOGGED: f64 = 70e-6;
const ROW: f64 = 11e-6;
/// Seconds of a job that is like no other.
const OTHER: f64 = 0.3;
/// Seconds of a case of `crash` at the block seam, of one at the chips, and how much each level of
/// cuts inside of recoveries adds, as a part of the first.
const CASE: f64 = 0.018;
const CHIPS: f64 = 1.45;
const NESTED: f64 = 0.35;
/// Seconds of a case of a mix of 60 operations; it grows faster than they do.
const MIX: f64 = 0.22;
const MIX_OPS: f64 = 60.0;
/// Seconds of a transaction of SQLite in a case.
const CASE_ROW: f64 = 0.03;

/// Seconds on one core.
pub fn of(task: &Task) -> f64 {
    let value: Value = serde_json::from_str(task.text().get()).unwrap_or_default();
    match task {
        Task::Compare(_) => run(&value["config"]),
        Task::Crash(text) => serde_json::from_str(text.get()).map_or(CASE, |job| case(&job)),
        Task::Paper(_) => paper(&value),
        // Its plan has measured it.
        Task::Program(_) => OTHER,
    }
}

fn case(job: &plan::Job) -> f64 {
    let (name, with) = parts(&job.case.workload);
    let at_chips = !job.case.device.starts_with("spec:");
    let seconds = match name {
        _ if at_chips => CHIPS,
        "mix" => {
            let ops = with.number("tasks", 1.0) * with.number("ops", 20.0);
            let more = ops / MIX_OPS;
            (MIX * more * more.sqrt()).max(CASE)
        }
        "sqlite" => CASE_ROW * with.rows(),
        _ => CASE,
    };
    seconds * (1.0 + NESTED * f64::from(job.reach.nested))
}

/// A run, which a value describes as a configuration does.
fn run(config: &Value) -> f64 {
    RUN + config["workload"].as_str().map_or(OTHER, workload)
}

/// All runs inside of a job of a paper, by what its kind does with them.
fn paper(job: &Value) -> f64 {
    let kind = job
        .as_object()
        .and_then(|papers| papers.values().next()?.as_object()?.keys().next())
        .map_or("", String::as_str);
    let mut runs = 0.0;
    inner(job, &mut runs);
    match kind {
        "barrier" | "bare" => 0.25,
        "crash" => CASE * 3.0,
        "creation" => RUN,
        // An own time is looked for in several runs, of which the later ones are shorter.
        "own-time" => 0.7 * runs,
        "recovery" if runs > 0.0 => RECOVERED * runs,
        _ if runs > 0.0 => runs,
        "recovery" => 0.45,
        _ => OTHER,
    }
}

/// How much a recovery that is measured adds to its run.
const RECOVERED: f64 = 1.3;

fn inner(value: &Value, seconds: &mut f64) {
    match value {
        Value::Object(fields) if fields.contains_key("workload") => *seconds += run(value),
        Value::Object(fields) => fields.values().for_each(|field| inner(field, seconds)),
        Value::Array(items) => items.iter().for_each(|item| inner(item, seconds)),
        _ => {}
    }
}

/// Seconds of what a text of a workload asks for.
fn workload(text: &str) -> f64 {
    let (name, with) = parts(text);
    match name {
        "sqlite" => {
            let logged = with.text("journal") == Some("wal");
            let each = if logged { LOGGED } else { TRANSACTION };
            each * with.rows() + ROW * with.number("prefill", 0.0)
        }
        "app" => 0.05 + app(&with) * with.number("seconds", 120.0),
        "mobibench" => 0.02,
        "fsync" => {
            let mib = with.mib("size", 0.004);
            with.number("count", 100.0) * (1.5e-4 + 0.002 * mib)
        }
        "meta" => 8e-5 * with.number("count", 1000.0),
        "tree" => 5e-4 * with.number("files", 300.0),
        "filebench" => 1.1e-4 * with.number("ops", 4000.0),
        "fio" => 0.2,
        "files" => 2e-4 * (with.number("count", 500.0) + with.number("transactions", 500.0)),
        "bonnie" => 0.036 * with.number("mib", 32.0),
        "iozone" => 0.06 * with.mib("file", 4.0),
        "jobs" => {
            let fill = 0.006 * with.mib("file", 8.0) * with.number("procs", 1.0);
            let count = with.text("count").map(|_| 4e-5 * with.number("count", 0.0));
            0.02 + count.unwrap_or(fill)
        }
        "small" => 1.5e-4 * with.number("count", 1000.0),
        "churn" => {
            let files = with.number("dirs", 4.0) * with.number("files", 20.0);
            1.2e-4 * files * with.number("rounds", 4.0)
        }
        _ => OTHER,
    }
}

/// Seconds of a second of a generated application.
fn app(with: &Parameters<'_>) -> f64 {
    let each = match with.first {
        "facebook" | "chrome" => 4e-3,
        "twitter" | "google-map" => 1.8e-3,
        _ => 8e-4,
    };
    // One that does not wait ends when its calls do.
    match with.text("pace") {
        Some("busy") => each / 2.0,
        _ => each,
    }
}

/// What stands behind the name of a workload.
struct Parameters<'a> {
    first: &'a str,
    named: BTreeMap<&'a str, &'a str>,
}

/// The name of a workload, and the rest.
fn parts(text: &str) -> (&str, Parameters<'_>) {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let words = rest.split(',').map(str::trim);
    let with = Parameters {
        first: words.clone().next().unwrap_or(""),
        named: words.filter_map(|word| word.split_once('=')).collect(),
    };
    (name.trim(), with)
}

impl Parameters<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.named.get(name).copied()
    }

    fn number(&self, name: &str, default: f64) -> f64 {
        let number = self.text(name).and_then(|text| text.parse().ok());
        number.unwrap_or(default)
    }

    /// A size in MiB.
    fn mib(&self, name: &str, default: f64) -> f64 {
        let size = self.text(name).and_then(|text| {
            let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let unit = match text[digits.len()..].chars().next() {
                Some('k' | 'K') => 1.0 / 1024.0,
                Some('g' | 'G') => 1024.0,
                Some(_) => 1.0,
                None => 1.0 / (1 << 20) as f64,
            };
            Some(digits.parse::<f64>().ok()? * unit)
        });
        size.unwrap_or(default)
    }

    /// Transactions of a workload of SQLite.
    fn rows(&self) -> f64 {
        let kinds = ["insert", "update", "delete"];
        kinds.iter().map(|kind| self.number(kind, 1000.0)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    /// What the estimates of these recorded jobs are, and what the jobs took: seconds of CPU, and
    /// the job as it stands in a plan.
    fn recorded() -> Vec<(Task, f64, f64)> {
        let lines = include_str!("costs.tsv").lines();
        let lines = lines.filter(|line| !line.starts_with('#'));
        lines
            .map(|line| {
                let (seconds, job) = line.split_once('\t').expect("two columns");
                let task: Task = serde_json::from_str(job).expect(job);
                let estimate = of(&task);
                (task, estimate, seconds.parse().expect(line))
            })
            .collect()
    }

    #[test]
    fn estimates_are_within_a_factor_of_two_of_what_was_recorded() {
        let jobs = recorded();
        for (kind, least) in [("compare", 8), ("crash", 8), ("paper", 60)] {
            let is = |task: &Task| match task {
                Task::Compare(_) => kind == "compare",
                Task::Crash(_) => kind == "crash",
                Task::Paper(_) => kind == "paper",
                Task::Program(_) => false,
            };
            let of: Vec<_> = jobs.iter().filter(|(task, ..)| is(task)).collect();
            assert!(of.len() >= least, "{kind}: {} jobs", of.len());
            let (mut estimated, mut took, mut close) = (0.0, 0.0, 0);
            for (task, estimate, seconds) in &of {
                let ratio = estimate / seconds;
                let is_close = (0.5..=2.0).contains(&ratio);
                close += usize::from(is_close);
                estimated += estimate;
                took += seconds;
                if !is_close {
                    eprintln!("{ratio:.2} of {seconds} s: {}", task.name());
                }
            }
            let ratio = estimated / took;
            assert!(
                (0.5..=2.0).contains(&ratio),
                "{kind}: {ratio:.2} of all seconds"
            );
            assert!(
                close * 10 >= of.len() * 8,
                "{kind}: {close} of {}",
                of.len()
            );
        }
    }

    #[test]
    fn more_work_costs_more() {
        let config = |workload: &str| serde_json::json!({"config": {"workload": workload}});
        let cost = |workload: &str| {
            let text = config(workload).to_string();
            of(&Task::Compare(RawValue::from_string(text).expect("JSON")))
        };
        assert!(
            cost("sqlite:insert=5000,update=0,delete=0")
                > 4.0 * cost("sqlite:insert=1000,update=0,delete=0")
        );
        assert!(cost("sqlite:insert=9,journal=wal") < cost("sqlite:insert=9"));
        assert!(cost("iozone:file=64m") > 10.0 * cost("iozone:file=4m"));
        // What is not known costs something.
        assert!(cost("unknown:x=1") > 0.1 && cost("") > 0.1);
    }
}
