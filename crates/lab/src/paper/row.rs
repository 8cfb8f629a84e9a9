//! A row of a paper: a published value, the measured one, and whether they agree. `paper.json` and the page are made of rows.

use crate::metrics::round;
use crate::paper::Published;
use serde::{Deserialize, Serialize};

/// Version of `paper.json`.
pub const SCHEMA: u32 = 1;

/// What one paper gave here.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `emmc`.
    pub paper: String,
    /// The command that makes the same again.
    pub command: String,
    /// All rows, in the order of the paper.
    pub rows: Vec<Row>,
}

/// One value.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Figure, table or section, as `Fig 13`.
    pub figure: String,
    /// What is counted.
    pub item: String,
    /// Which of several: an app, a size. `None` where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Timing set of the device; `None` where time does not matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<String>,
    /// `fraction`, `gain`, `blocks`, `s`.
    pub unit: String,
    /// The published value; `None` where only a lost figure shows it, or where it is a range.
    pub published: Option<f64>,
    /// A published range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<(f64, f64)>,
    /// What was measured here; `None` with a `why` where that is impossible.
    pub measured: Option<f64>,
    /// Greatest difference that counts as agreement, in the unit; `None`: not comparable, or a bound or range.
    pub tolerance: Option<f64>,
    /// Whether they agree; `None` where they are not comparable.
    pub within: Option<bool>,
    /// Why it is outside, or cannot be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What a reader has to know, as: a generator stands in for a recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Row {
    /// `measured` beside `published`.
    pub fn judged(published: &Published, measured: f64) -> Row {
        let mut row = Row::unmeasured(published, None);
        row.within = published.class.within(published, measured);
        row.measured = Some(round(measured));
        row
    }

    /// A published value that cannot be measured here, with the reason.
    pub fn unmeasured(published: &Published, why: Option<&str>) -> Row {
        Row {
            figure: published.figure.clone(),
            item: published.item.clone(),
            of: published.of.clone(),
            timing: None,
            unit: published.unit.clone(),
            published: published.value,
            range: published.range,
            measured: None,
            tolerance: published.class.tolerance(published),
            within: None,
            why: why.map(String::from).or_else(|| published.why.clone()),
            note: None,
        }
    }

    /// A value that the paper does not have, or shows only in a lost figure.
    pub fn ours(figure: &str, item: &str, unit: &str, measured: f64) -> Row {
        Row {
            figure: figure.into(),
            item: item.into(),
            of: None,
            timing: None,
            unit: unit.into(),
            published: None,
            range: None,
            measured: Some(round(measured)),
            tolerance: None,
            within: None,
            why: None,
            note: None,
        }
    }

    /// The same, of one of several.
    pub fn of(mut self, which: &str) -> Row {
        self.of = Some(which.into());
        self
    }

    /// The same, made with this timing set of the device.
    pub fn timed(mut self, timing: &str) -> Row {
        self.timing = Some(timing.into());
        self
    }

    /// The same with the cause of a difference; kept only where there is one.
    pub fn because(mut self, why: &str) -> Row {
        if self.within == Some(false) || self.measured.is_none() {
            self.why = Some(why.into());
        }
        self
    }

    /// The same with a note.
    pub fn noted(mut self, note: &str) -> Row {
        self.note = Some(match self.note {
            Some(earlier) => format!("{earlier}; {note}"),
            None => note.into(),
        });
        self
    }
}

/// A figure or table of the page: rows with words, tables and plots around them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Section {
    /// `Fig 13`, `Sensitivity`.
    pub title: String,
    /// Paragraphs, plain text.
    pub words: Vec<String>,
    /// Rows that also stand in `paper.json`.
    pub rows: Vec<Row>,
    /// Tables beside the rows: caption, head, lines.
    pub tables: Vec<(String, Vec<String>, Vec<Vec<String>>)>,
    /// Plots: caption, SVG.
    pub plots: Vec<(String, String)>,
}
