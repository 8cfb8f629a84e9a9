//! Figures that several parts of the report compute from runs.

use report::results::Run;

/// Blocks in the journal: control blocks, metadata, data, and coalition blocks.
pub fn journal_blocks(run: &Run) -> u64 {
    sum(run, |class| {
        class.starts_with("journal") || class == "coalition"
    })
}

/// Blocks of file content at their home address.
pub fn data_blocks(run: &Run) -> u64 {
    sum(run, |class| class == "data")
}

/// Whole metadata blocks in the journal.
pub fn metadata_blocks(run: &Run) -> u64 {
    sum(run, |class| class == "journal_metadata")
}

/// Metadata blocks at their home address, by checkpoint, by write-back or without a journal.
pub fn home_blocks(run: &Run) -> u64 {
    sum(run, |class| class == "home")
}

fn sum(run: &Run, of: impl Fn(&str) -> bool) -> u64 {
    let chosen = run.blocks.iter().filter(|(class, _)| of(class));
    chosen.map(|(_, blocks)| blocks).sum()
}

/// Journal blocks as a share of what a persistence path writes (journal and data, no homes).
pub fn journal_ratio(run: &Run) -> f64 {
    let journal = journal_blocks(run) as f64;
    ratio(journal, journal + data_blocks(run) as f64)
}

/// Sum of these parts of the mean fsync, microseconds.
pub fn parts_us(run: &Run, parts: &[&str]) -> f64 {
    let of = |part: &&str| run.fsync_us.get(*part).copied().unwrap_or(0.0);
    parts.iter().map(of).sum()
}

/// `a / b`; 0 if both are 0.
pub fn ratio(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}

/// By which share `after` is below `before`.
pub fn decrease(before: f64, after: f64) -> f64 {
    1.0 - ratio(after, before)
}

/// Gain of a run over `base`, where performance is 1 over virtual time.
pub fn gain(run: &Run, base: &Run) -> f64 {
    ratio(base.virtual_seconds, run.virtual_seconds) - 1.0
}

/// Arithmetic mean; 0 of an empty list.
pub fn mean(values: &[f64]) -> f64 {
    ratio(values.iter().sum(), values.len() as f64)
}

/// Parts of a sync as the tables name them, in the order in which they happen.
pub const PARTS: [&str; 10] = [
    "data",
    "home",
    "log-start",
    "compose",
    "log",
    "flush",
    "commit-record",
    "tail",
    "hand-over",
    "other",
];

/// Mean number of journal blocks per commit.
pub fn blocks_per_commit(run: &Run) -> f64 {
    ratio(journal_blocks(run) as f64, run.commits as f64)
}

/// Time of all syncs, seconds; syncs of several threads at once count each.
pub fn sync_seconds(run: &Run) -> f64 {
    let syncs = run.ops_by_kind.get("fsync").map_or(run.ops, |k| k.ops);
    run.latency_us.fsync.mean * syncs as f64 / 1e6
}

/// Time of all syncs as a share of a run's time.
pub fn persistence_share(run: &Run) -> f64 {
    ratio(sync_seconds(run), run.virtual_seconds).min(1.0)
}
