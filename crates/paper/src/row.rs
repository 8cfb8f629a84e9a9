//! A row of a paper: a published value, the measured one, and whether they agree. `paper.json` and
//! the page are made of rows.

use crate::{Class, Published};
use report::metrics::round;
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
    /// What ended it, and which parts were complete then; absent if all were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
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
    /// `least` or `most` where the published value is a bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<String>,
    /// What was measured here; `None` with a `why` where that is impossible.
    pub measured: Option<f64>,
    /// Greatest difference that counts as agreement, in the unit; `None`: not comparable, or a
    /// bound or range.
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
            bound: match published.class {
                Class::Least => Some("least".into()),
                Class::Most => Some("most".into()),
                _ => None,
            },
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
            bound: None,
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

/// A number as people read it: four digits that count, at most six after the point.
pub fn number(x: f64) -> String {
    let digits = match x.abs() {
        x if x >= 1000.0 => 0,
        x if x >= 100.0 => 1,
        x if x >= 10.0 => 2,
        x if x >= 1.0 => 3,
        x if x >= 0.01 => 4,
        _ => 6,
    };
    let text = format!("{x:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    match text {
        // An empty sum, and what rounds to nothing from below.
        "-0" => "0".into(),
        text => text.into(),
    }
}

impl Row {
    /// The published value, bound or range as text; empty where there is none.
    pub fn published_text(&self) -> String {
        match (self.published, self.range, self.bound.as_deref()) {
            (_, Some((low, high)), _) => format!("{} to {}", number(low), number(high)),
            (Some(value), None, Some(bound)) => format!("at {bound} {}", number(value)),
            (Some(value), None, None) => number(value),
            (None, None, _) => String::new(),
        }
    }

    /// The measured value as text; empty where there is none.
    pub fn measured_text(&self) -> String {
        self.measured.map_or(String::new(), number)
    }

    /// Whether it agrees, in a word.
    pub fn verdict(&self) -> &'static str {
        match (self.within, self.measured) {
            (Some(true), _) => "within",
            (Some(false), _) => "outside",
            (None, Some(_)) => "not compared",
            (None, None) => "not measured",
        }
    }

    /// True if it is compared and does not agree.
    pub fn is_outside(&self) -> bool {
        self.within == Some(false)
    }
}

impl Report {
    /// The bytes of `paper.json`.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data serialises");
        text.push('\n');
        text
    }
}

/// A table of a section: caption, head, lines.
pub type Listed = (String, Vec<String>, Vec<Vec<String>>);

/// A figure or table of the page: rows with words, tables and plots around them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Section {
    /// `Fig 13`, `Sensitivity`.
    pub title: String,
    /// Paragraphs, plain text.
    pub words: Vec<String>,
    /// Rows that also stand in `paper.json`.
    pub rows: Vec<Row>,
    /// Tables beside the rows.
    pub tables: Vec<Listed>,
    /// Plots: caption, SVG.
    pub plots: Vec<(String, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (x, text) in [
            (-0.0, "0"),
            (-0.000_000_1, "0"),
            (0.0, "0"),
            (0.73, "0.73"),
            (0.123456, "0.1235"),
            (-0.0041, "-0.0041"),
            (1.6667, "1.667"),
            (42.0, "42"),
            (12345.6, "12346"),
            (100.0, "100"),
        ] {
            assert_eq!(number(x), text);
        }
    }

    #[test]
    fn a_bound_says_on_which_side_it_is() {
        let published = Published {
            figure: "F".into(),
            item: "i".into(),
            of: None,
            unit: "u".into(),
            class: Class::Least,
            value: Some(0.4),
            range: None,
            why: None,
        };
        let row = Row::judged(&published, 0.5);
        assert_eq!(
            (row.published_text().as_str(), row.verdict()),
            ("at least 0.4", "within")
        );
        assert!(Row::judged(&published, 0.3).is_outside());
        assert_eq!(
            Row::unmeasured(&published, Some("no")).verdict(),
            "not measured"
        );
    }
}
