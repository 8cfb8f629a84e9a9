//! Figures that several parts of the report compute from runs.

use crate::{Class, Kind, Published, Row};
use report::results::Run;

/// 4 KiB blocks of these classes.
pub fn blocks(run: &Run, classes: &[&str]) -> u64 {
    let of = |class: &&str| run.blocks.get(*class).copied().unwrap_or(0);
    classes.iter().map(of).sum()
}

/// 4 KiB blocks of all classes.
pub fn all_blocks(run: &Run) -> u64 {
    run.blocks.values().sum()
}

/// Blocks of file content and metadata at their home address, whether written in place or as a copy
/// of the journal's.
pub fn home_blocks(run: &Run) -> u64 {
    blocks(run, &["data", "home"])
}

/// Descriptors, logged blocks, revokes and commit records. The journal's superblock is left out,
/// because its writes depend on when the tail moves.
pub fn log_blocks(run: &Run) -> u64 {
    blocks(
        run,
        &[
            "journal_data",
            "journal_metadata",
            "journal_descriptor",
            "journal_revoke",
            "journal_commit",
        ],
    )
}

/// `a / b`; 0 if both are 0.
pub fn ratio(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}

/// Rate of a benchmark, MB/s of file content.
pub fn rate(run: &Run) -> f64 {
    run.mb_per_s.unwrap_or(0.0)
}

/// The row of a count that an identity fixes exactly.
pub fn identity(figure: &str, item: &str, unit: &str, wanted: f64, measured: f64) -> Row {
    let published = Published {
        kind: Some(Kind::Identity),
        ..Published::new(figure, item, unit, Class::Count, Some(wanted))
    };
    Row::judged(&published, measured)
}

/// Pages programmed for blocks that the host wrote, without those for the map and for copies.
pub fn host_programs(run: &Run) -> u64 {
    const PAGES: u64 = 8;
    run.flash.as_ref().map_or(0, |f| {
        f.programs
            .saturating_sub(f.map_programs)
            .saturating_sub(PAGES * f.gc_copies)
    })
}
