//! How many rows agree, in all and with each timing set of the device.

use super::{Kind, Row, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Number of rows by verdict. Each row is within, outside, not compared or not measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Rows within the tolerance.
    pub within: usize,
    /// Rows within it even without the floor of their table.
    pub strictly: usize,
    /// Rows outside of it.
    pub outside: usize,
    /// Rows within or outside whose value the publication itself contradicts.
    pub contradicted: usize,
    /// Rows within it strictly whose value nothing contradicts.
    pub sound_strictly: usize,
    /// Rows outside of it whose value nothing contradicts, and whose difference an experiment
    /// closes.
    pub closed: usize,
    /// The same, where one narrows it.
    pub narrowed: usize,
    /// The same, where no run does, but arithmetic on the row's own runs would.
    #[serde(default)]
    pub arithmetic: usize,
    /// The same, where nothing does, or there is no experiment.
    pub unexplained: usize,
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
            let contradicted = row.within.is_some() && row.contradicted.is_some();
            sum.contradicted += usize::from(contradicted);
            match (row.within, row.measured) {
                (Some(true), _) => {
                    let strictly = row.strictly != Some(false);
                    sum.within += 1;
                    sum.strictly += usize::from(strictly);
                    sum.sound_strictly += usize::from(strictly && !contradicted);
                }
                (Some(false), _) => {
                    sum.outside += 1;
                    match row.explanation() {
                        _ if contradicted => {}
                        Verdict::Closed => sum.closed += 1,
                        Verdict::Narrowed { .. } => sum.narrowed += 1,
                        Verdict::Arithmetic => sum.arithmetic += 1,
                        Verdict::NotExplained => sum.unexplained += 1,
                    }
                }
                (None, Some(_)) => sum.not_compared += 1,
                (None, None) => sum.unmeasured += 1,
            }
        }
        sum
    }

    /// Rows that are compared and whose value nothing contradicts.
    pub fn sound(&self) -> usize {
        self.within + self.outside - self.contradicted
    }

    /// The counts with their heads, for a table.
    pub fn counts(&self) -> [(&'static str, usize); 10] {
        [
            ("within", self.within),
            ("strictly", self.strictly),
            ("outside", self.outside),
            ("contradicted", self.contradicted),
            ("closed", self.closed),
            ("narrowed", self.narrowed),
            ("arithmetic only", self.arithmetic),
            (NOT_EXPLAINED, self.unexplained),
            ("not compared", self.not_compared),
            ("not measured", self.unmeasured),
        ]
    }

    /// The counts in a sentence.
    pub fn headline(&self) -> String {
        let (sound, percent) = (self.sound(), 100 * self.sound_strictly);
        format!(
            "{} rows within ({} of them strictly), {} outside; the publication contradicts {} of both, {} cannot be measured here. Of the {sound} that \
             are neither, {} are within strictly ({} %); of those outside a run of its own closes {} and narrows {}, arithmetic alone explains {}, \
             {} are not explained.",
            self.within,
            self.strictly,
            self.outside,
            self.contradicted,
            self.unmeasured,
            self.sound_strictly,
            percent / sound.max(1),
            self.closed,
            self.narrowed,
            self.arithmetic,
            self.unexplained
        )
    }

    /// Counts the verdicts for each kind of row, of those that there are: agreement says something
    /// else in each. `untold` stands for rows that do not tell theirs.
    pub fn by_kind(rows: &[Row]) -> Vec<(String, Summary)> {
        let kinds = Kind::ALL.into_iter().map(Some).chain([None]);
        let of = |kind: Option<Kind>| {
            let rows: Vec<&Row> = rows.iter().filter(|row| row.kind == kind).collect();
            let name = kind.map_or("untold", Kind::word).to_string();
            (!rows.is_empty()).then(|| (name, Summary::of(rows)))
        };
        kinds.filter_map(of).collect()
    }

    /// The counts by kind as a table of Markdown, as the pages of results have it.
    pub fn table(rows: &[Row]) -> String {
        let head = "| kind | within | outside | of these closed | narrowed | arithmetic only | not explained | contradicted |\n|---|---|---|---|---|---|---|---|\n";
        let mut all = Summary::by_kind(rows);
        all.retain(|(_, sum)| sum.within + sum.outside > 0);
        let line = |(kind, sum): &(String, Summary)| {
            let counts = [
                sum.within,
                sum.outside,
                sum.closed,
                sum.narrowed,
                sum.arithmetic,
                sum.unexplained,
                sum.contradicted,
            ];
            format!(
                "| {kind} | {} |\n",
                counts.map(|n| n.to_string()).join(" | ")
            )
        };
        all.iter()
            .map(line)
            .fold(head.into(), |text, line| text + &line)
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
    use crate::{Class, Experiment, Published};

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
        rows.extend([0.8, 0.6].map(|nearer| {
            let mut published = Published::new("F", "i", "u", Class::Gain, Some(0.9));
            published.floor = 0.07;
            let row = Row::judged(&published, 0.3);
            row.shown_by(&published, Experiment::on("c").with("less", nearer))
        }));
        let published = Published::new("F", "i", "u", Class::Gain, Some(0.9));
        let added = Experiment::on("c").computed("added", 0.9);
        rows.push(Row::judged(&published, 0.3).shown_by(&published, added));
        let mut contradicted = [rows[0].clone(), rows[1].clone()];
        contradicted[0].contradicted = Some("another says more".into());
        contradicted[1].contradicted = contradicted[0].contradicted.clone();
        rows.extend(contradicted);
        let wanted = Summary {
            within: 3,
            strictly: 2,
            outside: 7,
            contradicted: 2,
            sound_strictly: 1,
            closed: 1,
            narrowed: 1,
            arithmetic: 1,
            unexplained: 3,
            not_compared: 1,
            unmeasured: 1,
        };
        assert_eq!(wanted.sound(), 8);
        assert_eq!(Summary::of(&rows), wanted);
        let by = Summary::by_timing(&rows);
        assert_eq!((by[0].0.as_str(), by[0].1.outside), ("counts", 7));
        assert_eq!((by[1].0.as_str(), by[1].1.not_compared), ("fig8", 1));
    }

    #[test]
    fn each_kind_counts_alone() {
        let mut rows = vec![row(Some(true), None), row(Some(false), None)];
        rows.push(row(Some(true), None));
        (rows[0].kind, rows[1].kind) = (Some(Kind::Predicted), Some(Kind::Predicted));
        rows[2].kind = Some(Kind::Fitted);
        let by = Summary::by_kind(&rows);
        let table = Summary::table(&rows);
        assert!(table.ends_with("| predicted | 1 | 1 | 0 | 0 | 0 | 1 | 0 |\n| fitted | 1 | 0 | 0 | 0 | 0 | 0 | 0 |\n"), "{table}");
        let counts: Vec<_> = by.iter().map(|(k, s)| (k.as_str(), s.within)).collect();
        assert_eq!(counts, [("predicted", 1), ("fitted", 1)]);
    }
}
