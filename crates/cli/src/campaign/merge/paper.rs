//! Merges a `paper`: its own report, made of the stored outcomes, and tables of its rows and of the
//! points of its figures.

use super::Merge;
use super::table::Table;
use crate::campaign::spec::Cell;
use crate::campaign::task::Task;
use crate::failure::{Failure, failed};
use crate::out::say;
use crate::paper::{self, Source};
use serde_json::Value;

/// The first columns of the table.
const FIRST: &[&str] = &[
    "figure",
    "item",
    "of",
    "timing",
    "unit",
    "published",
    "measured",
    "tolerance",
    "within",
    "kind",
];

/// The first columns of the table of points: the figure, what its axes show, and where a point is.
const FIRST_OF_POINT: &[&str] = &[
    "section",
    "title",
    "along",
    "values",
    "published",
    "series",
    "group",
    "x",
    "y",
    "low",
    "high",
    "what",
];

/// Merges.
pub fn merge(merge: &Merge<'_>) -> Result<(), Failure> {
    let (words, jobs) = merge.only_cell()?;
    let Cell::Paper(mut args) = Cell::of("paper", &words)? else {
        return Err(failed("the plan has a command line of another command"));
    };
    args.out = merge.out.path().into();
    let texts = merge.texts(&jobs)?;
    let get = |task: &Task| {
        let id = task.id(&merge.plan.head.build, &task.inputs()?)?;
        Ok(texts.get(&id).cloned())
    };
    paper::with(&args, Source::Others(&get, merge.incomplete.clone()))?;
    let text = std::fs::read_to_string(merge.out.path().join("paper.json")).map_err(failed)?;
    let paper: Value = serde_json::from_str(&text).map_err(failed)?;
    let mut table = Table::begin(merge.out.path(), FIRST)?;
    for row in paper["rows"].as_array().into_iter().flatten() {
        table.add(row)?;
    }
    let rows = table.end(merge.out.path(), "rows")?;
    say(&format!("{rows} rows: rows.parquet and rows.csv\n"))?;
    let points = points(merge, &paper)?;
    say(&format!(
        "{points} points of figures: points.parquet and points.csv\n"
    ))
}

/// Writes the table of the points of all figures, and counts them.
fn points(merge: &Merge<'_>, paper: &Value) -> Result<u64, Failure> {
    let mut table = Table::begin(merge.out.path(), FIRST_OF_POINT)?;
    for plot in paper["plots"].as_array().into_iter().flatten() {
        for point in plot["points"].as_array().into_iter().flatten() {
            let mut row = point.clone();
            row["section"] = plot["section"].clone();
            row["title"] = plot["title"].clone();
            row["along"] = plot["x"].clone();
            row["values"] = plot["y"].clone();
            table.add(&row)?;
        }
    }
    table.end(merge.out.path(), "points")
}
