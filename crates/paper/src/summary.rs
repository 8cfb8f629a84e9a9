//! How many rows agree, in all and with each timing set of the device.

use super::Row;
use std::collections::BTreeMap;

/// Number of rows by verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Rows within the tolerance.
    pub within: usize,
    /// Rows within it even without the floor of their table.
    pub strictly: usize,
    /// Rows outside of it.
    pub outside: usize,
    /// Rows outside of it for which no cause is known.
    pub unexplained: usize,
    /// Rows outside of it beside which no run varies the cause.
    pub unshown: usize,
    /// Rows outside of it whose value the publication itself contradicts.
    pub contradicted: usize,
    /// Rows that were measured and have nothing to compare with: a lost figure, an absolute time, a
    /// value of our own.
    pub not_compared: usize,
    /// Rows that cannot be measured here.
    pub unmeasured: usize,
}

/// The text of a row whose cause is not known.
pub const NOT_EXPLAINED: &str = "not explained";

impl Summary {
    /// Counts the verdicts of rows.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Summary {
        let mut sum = Summary::default();
        for row in rows {
            match (row.within, row.measured) {
                (Some(true), _) => {
                    sum.within += 1;
                    sum.strictly += usize::from(row.strictly != Some(false));
                }
                (Some(false), _) => {
                    sum.outside += 1;
                    let why = row.why.as_deref().unwrap_or(NOT_EXPLAINED);
                    sum.unexplained += usize::from(why.starts_with(NOT_EXPLAINED));
                    sum.unshown += usize::from(row.experiment.is_none());
                    sum.contradicted += usize::from(row.contradicted.is_some());
                }
                (None, Some(_)) => sum.not_compared += 1,
                (None, None) => sum.unmeasured += 1,
            }
        }
        sum
    }

    /// Counts the verdicts for each timing set; `counts` stands for rows that depend on none.
    pub fn by_timing(rows: &[Row]) -> Vec<(String, Summary)> {
        let mut by: BTreeMap<Option<&str>, Vec<&Row>> = BTreeMap::new();
        for row in rows {
            by.entry(row.timing.as_deref()).or_default().push(row);
        }
        let name = |timing: Option<&str>| timing.unwrap_or("counts").to_string();
        by.into_iter()
            .map(|(timing, rows)| (name(timing), Summary::of(rows)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(within: Option<bool>, why: Option<&str>) -> Row {
        let mut row = Row::ours("F", "i", "u", 1.0);
        (row.within, row.why) = (within, why.map(String::from));
        row
    }

    #[test]
    fn each_row_counts_once() {
        let mut rows = vec![
            row(Some(true), None),
            row(Some(false), Some("the flush is dearer")),
            row(Some(false), Some(NOT_EXPLAINED)),
            row(Some(false), None),
            row(None, None).timed("fig8"),
            row(None, Some("no board")),
            row(Some(true), None),
        ];
        rows[6].strictly = Some(false);
        rows[5].measured = None;
        rows[1] = rows[1].clone().shown_by("with half of it, 2");
        rows[0] = rows[0].clone().shown_by("nothing to explain");
        assert_eq!(rows[0].experiment, None);
        rows[1].contradicted = Some("another says more".into());
        rows[0].contradicted = rows[1].contradicted.clone();
        let wanted = Summary {
            within: 2,
            strictly: 1,
            outside: 3,
            unexplained: 2,
            unshown: 2,
            contradicted: 1,
            not_compared: 1,
            unmeasured: 1,
        };
        assert_eq!(Summary::of(&rows), wanted);
        let by = Summary::by_timing(&rows);
        assert_eq!((by[0].0.as_str(), by[0].1.outside), ("counts", 3));
        assert_eq!((by[1].0.as_str(), by[1].1.not_compared), ("fig8", 1));
    }
}
