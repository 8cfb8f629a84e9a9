//! A row of a report: a published value, the measured one, and whether they agree. `paper.json` and
//! the page are made of rows.

use crate::{Class, Experiment, Kind, NOT_EXPLAINED, Published, Summary, Verdict};
use report::PlotPoint;
use report::metrics::round;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the layout of `paper.json`.
pub const SCHEMA: u32 = 3;

/// The content of `paper.json`: what one paper gave here.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Version of this layout: [`SCHEMA`].
    pub schema: u32,
    /// Short name of the paper, as `emmc`.
    pub paper: String,
    /// The command that makes this report again.
    pub command: String,
    /// Why the report ended early and which parts were complete then; absent if all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// How many of the rows agree.
    pub summary: Summary,
    /// The same for each kind of row.
    pub kinds: BTreeMap<String, Summary>,
    /// All rows, in the order of the paper.
    pub rows: Vec<Row>,
    /// The figures with their points, measured and published, in the order of the page. What the
    /// page draws of the rows themselves is not here again.
    pub plots: Vec<Drawn>,
}

/// A figure of the report as values.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Drawn {
    /// The section of the page that has it.
    pub section: String,
    /// Its title.
    pub title: String,
    /// What is said of it. Where the paper has no value for it, this says so.
    pub caption: String,
    /// What stands along it, with its unit; absent if names do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<String>,
    /// What its values are, with their unit.
    pub y: String,
    /// Its values.
    pub points: Vec<PlotPoint>,
}

impl Drawn {
    fn of(section: &Section) -> Vec<Drawn> {
        let plots = section.plots.iter();
        let drawn = plots.map(|(caption, plot)| Drawn {
            section: section.title.clone(),
            title: plot.title.clone(),
            caption: caption.clone(),
            x: plot.x.clone(),
            y: plot.y.clone(),
            points: plot.points().to_vec(),
        });
        drawn.collect()
    }
}

/// One value of a report.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Figure, table or section, as `Fig 13`.
    pub figure: String,
    /// What is counted.
    pub item: String,
    /// Which of several it is, as an app or a size. `None` where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Timing set of the device; `None` where time does not matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<String>,
    /// Unit of the values: `fraction`, `gain`, `blocks`, `s`.
    pub unit: String,
    /// The published value; `None` if it is a range, or if only a lost figure shows it.
    pub published: Option<f64>,
    /// The published range, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<(f64, f64)>,
    /// `least` or `most` where the published value is a bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<String>,
    /// What was measured here; `None` with a `why` where that is impossible.
    pub measured: Option<f64>,
    /// Greatest difference that counts as agreement, in the unit; `None` for a bound, for a range,
    /// and for a value that is not compared.
    pub tolerance: Option<f64>,
    /// Whether they agree; `None` where they are not compared.
    pub within: Option<bool>,
    /// Whether they agree without the floor of the table; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strictly: Option<bool>,
    /// What it says if they agree; absent in reports that do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// What was fitted to the published value.
    #[serde(skip)]
    pub fitted: Vec<String>,
    /// How the publication contradicts the value itself; absent where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradicted: Option<String>,
    /// Why the measured value is outside, or why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Runs of the report in which a cause was varied; only of rows outside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub experiments: Vec<Experiment>,
    /// What a reader has to know, as that a generator stands in for a recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Row {
    /// The row of a measured value beside its published one.
    pub fn judged(published: &Published, measured: f64) -> Row {
        let mut row = Row::unmeasured(published, None);
        row.within = published.class.within(published, measured);
        if published.floor > 0.0 {
            row.strictly = published.class.strictly(published, measured);
        }
        row.measured = Some(round(measured));
        row
    }

    /// The row of a published value that cannot be measured here, with the reason.
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
            strictly: None,
            kind: published.kind,
            fitted: published.fitted.clone(),
            contradicted: published.contradicted.clone(),
            why: why.map(String::from).or_else(|| published.why.clone()),
            experiments: Vec::new(),
            note: None,
        }
    }

    /// The row of a value that the paper does not have, or shows only in a lost figure.
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
            strictly: None,
            kind: Some(Kind::Beyond),
            fitted: Vec::new(),
            contradicted: None,
            why: None,
            experiments: Vec::new(),
            note: None,
        }
    }

    /// Sets `of`: which of several the value is.
    pub fn of(mut self, which: &str) -> Row {
        self.of = Some(which.into());
        self
    }

    /// Sets the timing set of the device that the value was measured with.
    pub fn timed(mut self, timing: &str) -> Row {
        self.timing = Some(timing.into());
        self.made_with(timing)
    }

    /// Says what the value was made with. Where that was fitted to the published value, the row is
    /// no prediction.
    pub fn made_with(mut self, what: &str) -> Row {
        if self.fitted.iter().any(|fitted| fitted == what) {
            self.kind = Some(Kind::Fitted);
        }
        self
    }

    /// Sets the cause of a difference; it is kept only where there is one.
    pub fn because(mut self, why: &str) -> Row {
        if self.within == Some(false) || self.measured.is_none() {
            self.why = Some(why.into());
        }
        self
    }

    /// Adds runs in which a cause was varied, with what they say of the difference from
    /// `published`, by which the row was judged. They are kept only where there is a difference.
    pub fn shown_by(mut self, published: &Published, experiment: Experiment) -> Row {
        if let (true, Some(measured)) = (self.is_outside(), self.measured) {
            self.experiments
                .push(experiment.judged(published, measured));
        }
        self
    }

    /// Adds several experiments, as [`shown_by`](Self::shown_by) does one.
    pub fn shown_by_all(
        self,
        published: &Published,
        experiments: impl IntoIterator<Item = Experiment>,
    ) -> Row {
        let add = |row: Row, experiment| row.shown_by(published, experiment);
        experiments.into_iter().fold(self, add)
    }

    /// Sets the note.
    pub fn noted(mut self, note: &str) -> Row {
        self.note = Some(match self.note {
            Some(earlier) => format!("{earlier}; {note}"),
            None => note.into(),
        });
        self
    }
}

/// A number as people read it: four significant digits, at most six after the point.
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
        // An empty sum is -0, and so is a small negative value once it is rounded.
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

    /// The verdict on the row in a word.
    pub fn verdict(&self) -> &'static str {
        match (self.within, self.measured) {
            (Some(true), _) if self.strictly == Some(false) => "within the floor",
            (Some(true), _) => "within",
            (Some(false), _) => "outside",
            (None, Some(_)) => "not compared",
            (None, None) => "not measured",
        }
    }

    /// What the experiments say of a row outside: the one that leaves least of the difference.
    /// Without any nothing is explained.
    pub fn explanation(&self) -> Verdict {
        let all = self.experiments.iter().map(|e| e.verdict);
        all.fold(Verdict::NotExplained, Verdict::better)
    }

    /// What is said of the row: how it is contradicted, whether its difference is explained, the
    /// cause, the experiments, the note.
    pub fn words(&self) -> String {
        let explained = self.is_outside().then(|| self.explanation().words());
        let why = self.why.as_deref();
        // A cause that says so itself need not say it twice.
        let why = why.map(|why| why.strip_prefix(NOT_EXPLAINED).unwrap_or(why));
        let why = why.map(|why| why.trim_start_matches(": ").to_string());
        let experiments = self.experiments.iter().map(Experiment::words);
        let all = [self.contradicted.clone(), explained, why].into_iter();
        let all = all.flatten().chain(experiments).chain(self.note.clone());
        let all: Vec<String> = all.filter(|words| !words.is_empty()).collect();
        all.join("; ")
    }

    /// True if the values are compared and do not agree.
    pub fn is_outside(&self) -> bool {
        self.within == Some(false)
    }
}

impl Report {
    /// A complete report of these sections. `command` is what makes it again.
    pub fn new(paper: &str, command: String, sections: &[Section]) -> Report {
        let rows: Vec<Row> = sections.iter().flat_map(|s| s.rows.clone()).collect();
        Report {
            schema: SCHEMA,
            paper: paper.into(),
            command,
            incomplete: None,
            summary: Summary::of(&rows),
            kinds: Summary::by_kind(&rows).into_iter().collect(),
            rows,
            plots: sections.iter().flat_map(Drawn::of).collect(),
        }
    }

    /// The bytes of `paper.json`.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data serialises");
        text.push('\n');
        text
    }
}

/// A table of a section: caption, head, rows.
pub type Listed = (String, Vec<String>, Vec<Vec<String>>);

/// A figure or table of the page: rows with words, tables and plots around them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Section {
    /// Its title, as `Fig 13` or `Sensitivity`.
    pub title: String,
    /// Paragraphs of plain text.
    pub words: Vec<String>,
    /// Rows, which also stand in `paper.json`.
    pub rows: Vec<Row>,
    /// Tables beside the rows.
    pub tables: Vec<Listed>,
    /// Plots, each with its caption.
    pub plots: Vec<(String, report::Plot)>,
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
    fn what_was_fitted_to_a_value_does_not_predict_it() {
        let mut published = Published::new("F", "i", "u", Class::Least, Some(0.4));
        published.kind = Some(Kind::Predicted);
        published.fitted = vec!["set".into()];
        let row = || Row::judged(&published, 0.5);
        let ours = Row::ours("F", "i", "u", 1.0);
        for (row, kind) in [
            (row(), Kind::Predicted),
            (row().timed("another"), Kind::Predicted),
            (row().timed("set"), Kind::Fitted),
            (row().made_with("set").timed("another"), Kind::Fitted),
            (ours.timed("set"), Kind::Beyond),
        ] {
            assert_eq!(row.kind, Some(kind));
        }
    }

    #[test]
    fn a_bound_says_on_which_side_it_is() {
        let published = Published::new("F", "i", "u", Class::Least, Some(0.4));
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
