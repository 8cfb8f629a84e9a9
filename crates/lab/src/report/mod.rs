//! `index.html`: one self-contained page with tables and plots. Same results, same bytes.

mod page;
mod plot;

pub use page::page;

use crate::results::Run;
use std::collections::BTreeSet;

/// The parts of an fsync in the order in which they come.
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
/// What is left over comes last.
const LAST: [&str; 2] = ["hand-over", "other"];

/// The parts of an fsync that take time in any of the runs, in the order in which they come.
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
