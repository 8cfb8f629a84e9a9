//! The report on the terminal: how many rows agree with the publication, and each row that does
//! not, with its cause.

use crate::table::framed;
use comfy_table::{CellAlignment, Table};
use paper::{Report, Row, Section, Summary};

/// The whole text.
pub fn text(report: &Report, sections: &[Section]) -> String {
    let mut text = format!("{}\n{}\n", by_section(sections), by_timing(&report.rows));
    let outside: Vec<&Row> = report.rows.iter().filter(|row| row.is_outside()).collect();
    if !outside.is_empty() {
        text.push_str("\noutside of the tolerance:\n");
    }
    outside.iter().for_each(|row| text.push_str(&line(row)));
    text.push('\n');
    text
}

const HEAD: [&str; 8] = [
    "within",
    "strictly",
    "outside",
    "not explained",
    "no experiment",
    "contradicted",
    "not compared",
    "not measured",
];

fn cells(name: &str, sum: &Summary) -> Vec<String> {
    let counts = [
        sum.within,
        sum.strictly,
        sum.outside,
        sum.unexplained,
        sum.unshown,
        sum.contradicted,
        sum.not_compared,
        sum.unmeasured,
    ];
    let shown = counts.iter().map(|n| match n {
        0 => "-".to_string(),
        n => n.to_string(),
    });
    [name.to_string()].into_iter().chain(shown).collect()
}

fn table(first: &str, lines: impl Iterator<Item = Vec<String>>) -> Table {
    let mut table = framed([first].into_iter().chain(HEAD));
    lines.for_each(|line| {
        table.add_row(line);
    });
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn by_section(sections: &[Section]) -> Table {
    let lines = sections.iter().map(|section| {
        let sum = Summary::of(&section.rows);
        cells(&section.title, &sum)
    });
    table("section", lines)
}

fn by_timing(rows: &[Row]) -> Table {
    let mut all = Summary::by_timing(rows);
    all.push(("all".into(), Summary::of(rows)));
    table("timing", all.iter().map(|(name, sum)| cells(name, sum)))
}

fn line(row: &Row) -> String {
    let of = row
        .of
        .as_ref()
        .map_or(String::new(), |of| format!(", {of}"));
    let timing = row
        .timing
        .as_ref()
        .map_or(String::new(), |timing| format!(" [{timing}]"));
    let why = row.why.as_deref().unwrap_or(paper::NOT_EXPLAINED);
    let contradicted = row.contradicted.as_ref();
    let contradicted = contradicted.map_or(String::new(), |how| format!("{how}; "));
    format!(
        "- {}, {}{of}{timing}: published {}, measured {} {}: {contradicted}{why}\n",
        row.figure,
        row.item,
        row.published_text(),
        row.measured_text(),
        row.unit
    )
}
