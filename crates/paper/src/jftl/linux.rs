//! The table of what Linux wrote (`linux.toml`), and how far a count of ours may be from it: by the
//! share that its row states, or by [`LEAST`] blocks where those are more.

use crate::{Class, Kind, Published};
use serde::Deserialize;

/// Difference that a column may always have, because a count of one or two has no two per cent.
pub const LEAST: f64 = 2.0;
/// The name of its rows' figure.
pub const FIGURE: &str = "Linux 6.18";

/// What Linux wrote for one workload in one data mode, in 4 KiB blocks.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinuxRow {
    /// The workload that ran.
    pub workload: String,
    /// `ordered` or `journal`.
    pub mode: String,
    /// Share of a value by which a count of ours may differ.
    pub part: f64,
    /// Data and metadata blocks in the journal.
    pub journal_data: u64,
    /// Descriptors.
    pub descriptors: u64,
    /// Commit blocks.
    pub commits: u64,
    /// Superblock of the journal and revoke blocks.
    pub other: u64,
    /// Blocks at their home address.
    pub home: u64,
    /// All blocks.
    pub total: u64,
    /// All blocks without those home writes that were the journal's copy.
    pub remapped: u64,
    /// What had to be deduced of the program, if anything.
    pub assumed: Option<String>,
    /// Why it cannot be run here; `None` if it can.
    pub why: Option<String>,
}

/// The columns of the table, as (item, value).
pub type Columns = [(&'static str, f64); 7];

impl LinuxRow {
    /// The row's counts by column.
    pub fn columns(&self) -> Columns {
        [
            ("logged blocks", self.journal_data as f64),
            ("descriptors", self.descriptors as f64),
            ("commit blocks", self.commits as f64),
            ("journal superblock and revokes", self.other as f64),
            ("home blocks", self.home as f64),
            (TOTAL, self.total as f64),
            (REMAPPED, self.remapped as f64),
        ]
    }

    /// A column as a published value, with its tolerance.
    pub fn published(&self, item: &str, value: f64) -> Published {
        let away = (self.part * value).max(LEAST);
        Published {
            of: Some(self.name()),
            range: Some((value - away, value + away)),
            why: self.why.clone(),
            kind: Some(Kind::Linux),
            ..Published::new(FIGURE, item, "blocks", Class::Range, Some(value))
        }
    }

    /// Workload and mode as a name.
    pub fn name(&self) -> String {
        format!("{}, data={}", self.workload, self.mode)
    }
}

/// Name of the column of all blocks.
pub const TOTAL: &str = "all blocks";
/// Name of the column of all blocks with remap.
pub const REMAPPED: &str = "all blocks with remap";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    row: Vec<LinuxRow>,
}

/// Reads the committed table.
pub fn rows() -> Vec<LinuxRow> {
    let text: Text =
        toml::from_str(include_str!("linux.toml")).expect("the committed table is valid");
    text.row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_each_row_add_up() {
        for row in rows() {
            let parts = row.journal_data + row.descriptors + row.commits + row.other + row.home;
            let name = row.name();
            assert!(
                parts.abs_diff(row.total) <= 2,
                "{name}: {parts} against {}",
                row.total
            );
            assert!(row.remapped <= row.total, "{name}");
            assert!(row.part > 0.0 && row.part <= 0.1, "{name}");
        }
    }

    #[test]
    fn a_small_count_may_be_two_blocks_away() {
        let row = &rows()[1];
        let published = row.published("descriptors", 1.0);
        let within = |n: f64| published.class.within(&published, n);
        assert_eq!((within(3.0), within(4.0)), (Some(true), Some(false)));
        let published = row.published(TOTAL, 16402.0);
        let within = |n: f64| published.class.within(&published, n);
        assert_eq!(
            (within(16700.0), within(16800.0)),
            (Some(true), Some(false))
        );
    }
}
