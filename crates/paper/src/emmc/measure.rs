//! What the figures read out of runs.

use report::results::Run;

/// Blocks in the journal: control blocks, metadata and data in it, coalition blocks.
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

/// Metadata blocks at their home address: checkpoint, write-back, or no journal.
pub fn home_blocks(run: &Run) -> u64 {
    sum(run, |class| class == "home")
}

fn sum(run: &Run, of: impl Fn(&str) -> bool) -> u64 {
    let chosen = run.blocks.iter().filter(|(class, _)| of(class));
    chosen.map(|(_, blocks)| blocks).sum()
}

/// Journal blocks over what a persistence path writes: journal and data, without home writes.
pub fn journal_ratio(run: &Run) -> f64 {
    let journal = journal_blocks(run) as f64;
    ratio(journal, journal + data_blocks(run) as f64)
}

/// Parts of the mean fsync, microseconds together.
pub fn parts_us(run: &Run, parts: &[&str]) -> f64 {
    let of = |part: &&str| run.fsync_us.get(*part).copied().unwrap_or(0.0);
    parts.iter().map(of).sum()
}

/// `a / b`; nothing over nothing is 0.
pub fn ratio(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}

/// By how much `after` is below `before`, as a fraction of `before`.
pub fn decrease(before: f64, after: f64) -> f64 {
    1.0 - ratio(after, before)
}

/// By how much a run is ahead of `base`: its performance is 1 over its virtual time.
pub fn gain(run: &Run, base: &Run) -> f64 {
    ratio(base.virtual_seconds, run.virtual_seconds) - 1.0
}

/// Arithmetic mean; 0 of nothing.
pub fn mean(values: &[f64]) -> f64 {
    ratio(values.iter().sum(), values.len() as f64)
}

/// Parts of a sync in the order in which they come, as the tables name them.
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

/// Journal blocks of a commit, mean.
pub fn blocks_per_commit(run: &Run) -> f64 {
    ratio(journal_blocks(run) as f64, run.commits as f64)
}

/// The part of a run's time in which its syncs ran; syncs of several threads at once count each.
pub fn persistence_share(run: &Run) -> f64 {
    let syncs = run.ops_by_kind.get("fsync").map_or(run.ops, |k| k.ops);
    let time = run.latency_us.fsync.mean * syncs as f64 / 1e6;
    ratio(time, run.virtual_seconds).min(1.0)
}
