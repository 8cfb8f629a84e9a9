//! What the tables of a comparison have in common, on the page and in the terminal: the order of
//! kinds of operations and of the parts of an fsync, and how gains are written.

use crate::results::Run;
use std::collections::BTreeSet;

/// The parts of an fsync, in the order in which they happen.
const PARTS: [&str; 8] = [
    "data",
    "home",
    "log-start",
    "compose",
    "log",
    "flush",
    "commit-record",
    "tail",
];
/// The parts for what is left over, which come last.
const LAST: [&str; 2] = ["hand-over", "other"];

/// Known kinds of operations, in the order in which a workload runs them.
const KINDS: [&str; 6] = ["insert", "create", "read", "append", "update", "delete"];

/// The kinds of operations of the first run, in the order of tables; all runs have the same kinds.
pub fn kinds(runs: &[Run]) -> Vec<String> {
    let present = runs.iter().take(1).flat_map(|r| r.ops_by_kind.keys());
    let mut kinds: Vec<String> = present.cloned().collect();
    let place = |kind: &String| KINDS.iter().position(|k| k == kind);
    kinds.sort_by_key(|kind| place(kind).unwrap_or(KINDS.len()));
    kinds
}

/// How much larger `here` is than `first`, in per cent, as `+1.5`; `-` if either is zero.
pub fn gain(here: f64, first: f64) -> String {
    match first > 0.0 && here > 0.0 {
        true => format!("{:+.1}", (here / first - 1.0) * 100.0),
        false => "-".into(),
    }
}

/// The parts of an fsync that take time in any of the runs, in the order in which they happen.
pub fn fsync_parts(runs: &[Run]) -> Vec<String> {
    const NOTICED_US: f64 = 0.5;
    let noticed = runs
        .iter()
        .flat_map(|r| &r.fsync_us)
        .filter(|(_, us)| **us >= NOTICED_US);
    let present: BTreeSet<&str> = noticed.map(|(part, _)| part.as_str()).collect();
    let new = |part: &&str| !PARTS.contains(part) && !LAST.contains(part);
    let all = PARTS
        .into_iter()
        .chain(present.iter().copied().filter(new))
        .chain(LAST);
    all.filter(|part| present.contains(part))
        .map(String::from)
        .collect()
}
