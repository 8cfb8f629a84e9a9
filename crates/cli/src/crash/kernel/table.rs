//! What sequences on a file system of a kernel gave, as text and as JSON.

use super::trials::Row;
use crate::args::CrashArgs;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// Sequences that break a promise and are told in the text; the JSON has all.
const TOLD_MAX: usize = 10;

/// The counts of all sequences.
#[derive(Default)]
struct Sums {
    writes: u64,
    flushes: u64,
    cuts: u64,
    states: u64,
    beyond: u64,
    bad: u64,
}

fn sums(rows: &[Row]) -> Sums {
    let mut sums = Sums::default();
    for tried in rows.iter().filter_map(|row| row.tried.as_ref().ok()) {
        let explored = &tried.explored;
        sums.writes += explored.writes;
        sums.flushes += explored.flushes;
        sums.cuts += explored.cuts;
        sums.states += explored.states;
        sums.beyond += explored.beyond;
        sums.bad += explored.bad;
    }
    sums
}

/// The results as text.
pub fn text(rows: &[Row], took: Duration, line: impl Fn(&Row) -> Option<String>) -> String {
    let Sums {
        writes,
        flushes,
        cuts,
        states,
        beyond,
        bad,
    } = sums(rows);
    let fresh = rows.iter().filter(|row| !row.kept);
    let judged: u64 = fresh.map(Row::states).sum();
    let rate = judged as f64 / took.as_secs_f64().max(1e-9);
    let mut text = format!(
        "{} sequences; {writes} writes, {flushes} syncs; {cuts} cuts, {states} states, {beyond} beyond the bound\n\
         {rate:.1} states a second; {bad} states break a promise\n",
        rows.len()
    );
    let kept = rows.iter().filter(|row| row.kept).count();
    if kept > 0 {
        let _ = writeln!(text, "{kept} sequences were in the store");
    }
    let told = rows
        .iter()
        .filter(|row| row.bad() > 0 || row.tried.is_err());
    for row in told.take(TOLD_MAX) {
        let _ = writeln!(text, "\n{}", row.script);
        match &row.tried {
            Err(why) => {
                let _ = writeln!(text, "  did not run: {why}");
            }
            Ok(tried) => {
                if let Some(known) = row.known {
                    let _ = writeln!(text, "  known: {known}");
                }
                let rules: Vec<String> = rules(row)
                    .into_iter()
                    .map(|(r, n)| format!("{r} in {n}"))
                    .collect();
                let _ = writeln!(
                    text,
                    "  of {} states: {}",
                    tried.explored.states,
                    rules.join(", ")
                );
                for words in tried.broken.iter().take(1).flat_map(|broken| &broken.words) {
                    let _ = writeln!(text, "  {words}");
                }
            }
        }
        if let Some(line) = line(row) {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

/// How many states break each rule first.
fn rules(row: &Row) -> BTreeMap<&str, u64> {
    let mut rules = BTreeMap::new();
    for broken in row.tried.iter().flat_map(|tried| &tried.broken) {
        *rules.entry(broken.rule()).or_default() += 1;
    }
    rules
}

/// The results as JSON.
pub fn results(
    args: &CrashArgs,
    rows: &[Row],
    took: Duration,
    line: impl Fn(&Row) -> Option<String>,
) -> Value {
    let Sums {
        writes,
        flushes,
        cuts,
        states,
        beyond,
        bad,
    } = sums(rows);
    let of = |row: &Row| {
        let script = row.script.to_string();
        let tried = match &row.tried {
            Err(why) => return json!({ "workload": script, "failure": why }),
            Ok(tried) => tried,
        };
        let first = tried.broken.first();
        json!({
            "workload": script, "writes": tried.explored.writes, "flushes": tried.explored.flushes,
            "cuts": tried.explored.cuts, "states": tried.explored.states, "beyond": tried.explored.beyond,
            "bad": tried.explored.bad, "known": row.known, "rules": rules(row),
            "first": first.map(|broken| json!({
                "violations": broken.words, "prefix": broken.prefix.to_string(), "line": line(row),
            })),
        })
    };
    let bad_rows = rows.iter().filter(|row| row.bad() > 0).count();
    let known = rows.iter().filter(|row| row.known.is_some()).count();
    json!({
        "schema": 1, "command": "crash --kernel --workload", "fs": args.kernel.fs, "mount": args.kernel.mount,
        "mode": args.reach().mode, "seconds": took.as_secs_f64(),
        "sequences": rows.len(), "writes": writes, "flushes": flushes, "cuts": cuts, "states": states,
        "beyond": beyond, "bad": bad, "bad_sequences": bad_rows, "known_sequences": known,
        "rows": rows.iter().map(of).collect::<Vec<_>>(),
    })
}
