//! The report on the terminal: how many rows agree with the publication, and each row that does
//! not, with its cause.

use crate::table::framed;
use comfy_table::{CellAlignment, Table};
use paper::{Report, Row, Section, Summary};

/// The whole text.
pub fn text(report: &Report, sections: &[Section]) -> String {
    let mut text = format!(
        "{}\n{}\n{}\n",
        by_section(sections),
        by_timing(&report.rows),
        by_kind(&report.rows)
    );
    text.push_str(&format!("\n{}\n", report.summary.headline()));
    let outside: Vec<&Row> = report.rows.iter().filter(|row| row.is_outside()).collect();
    if !outside.is_empty() {
        text.push_str("\noutside of the tolerance:\n");
    }
    outside.iter().for_each(|row| text.push_str(&line(row)));
    text.push('\n');
    text
}

fn cells(name: &str, sum: &Summary) -> Vec<String> {
    let counts = sum.counts();
    let shown = counts.iter().map(|(_, n)| match n {
        0 => "-".to_string(),
        n => n.to_string(),
    });
    [name.to_string()].into_iter().chain(shown).collect()
}

fn table(first: &str, lines: impl Iterator<Item = Vec<String>>) -> Table {
    let heads = Summary::default().counts().map(|(head, _)| head);
    let mut table = framed([first].into_iter().chain(heads));
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

fn by_kind(rows: &[Row]) -> Table {
    let all = Summary::by_kind(rows);
    table("kind", all.iter().map(|(name, sum)| cells(name, sum)))
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
    format!(
        "- {}, {}{of}{timing}: published {}, measured {} {}: {}\n",
        row.figure,
        row.item,
        row.published_text(),
        row.measured_text(),
        row.unit,
        row.words()
    )
}
