//! The page of a paper: sections with rows, tables and plots. Equal reports give equal bytes.

use super::{Kind, Report, Row, Section, Summary, number};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use report::STYLE;

/// Colours for the verdict of a row; the verdict also stands there as a word.
const COLOURS: &str = ".within{color:#1a6f37}.outside{color:#b3261e;font-weight:600}.none{color:#57606a}\
td.text{white-space:normal;text-align:left;min-width:16rem}\
td.why{white-space:normal;text-align:left;color:#57606a;font-size:.85rem;padding-left:2rem}";

/// Makes the page of a report.
pub fn paper_page(title: &str, report: &Report, sections: &[Section]) -> String {
    let outside: Vec<&Row> = report.rows.iter().filter(|r| r.is_outside()).collect();
    let body = html! {
        h1 { (title) }
        p { "Made by " code { (report.command) } }
        @if let Some(why) = &report.incomplete { p { b { "Incomplete: " (why) } } }
        (summary(&report.rows))
        @if !outside.is_empty() {
            h2 { "Rows outside, with their causes" }
            (rows(&outside))
        }
        nav { ul { @for (n, section) in sections.iter().enumerate() { li { a href={ "#s" (n) } { (section.title) } } } } }
        @for (n, section) in sections.iter().enumerate() { (one(n, section)) }
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(COLOURS)) }
            }
            body { (body) }
        }
    };
    page.into_string()
}

fn summary(rows: &[Row]) -> Markup {
    let mut all = Summary::by_kind(rows);
    all.extend(Summary::by_timing(rows));
    all.push(("all".into(), Summary::of(rows)));
    html! {
        table {
            thead { tr {
                th { "rows" } @for (head, _) in Summary::default().counts() { th { (head) } }
            } }
            tbody {
                @for (name, sum) in &all {
                    tr {
                        td { (name) } @for (_, count) in sum.counts() { td { (count) } }
                    }
                }
            }
        }
        p { (Summary::of(rows).headline()) }
        p.note { "Published values and tolerances stand in one committed table, written before the first run; docs/use/paper-reports.md explains them." }
    }
}

fn one(n: usize, section: &Section) -> Markup {
    let all: Vec<&Row> = section.rows.iter().collect();
    html! {
        h2 id={ "s" (n) } { (section.title) }
        @for words in &section.words { p { (words) } }
        @for (caption, svg) in &section.plots {
            figure { (PreEscaped(svg)) figcaption { p.note { (caption) } } }
        }
        @for (caption, head, lines) in &section.tables {
            p.note { (caption) }
            table {
                thead { tr { @for h in head { th { (h) } } } }
                tbody { @for line in lines { tr { @for cell in line { td { (cell) } } } } }
            }
        }
        @if !all.is_empty() { (rows(&all)) }
    }
}

/// A table of rows, without the columns that are empty in all of them.
fn rows(rows: &[&Row]) -> Markup {
    let any = |cell: fn(&Row) -> bool| rows.iter().any(|r| cell(r));
    let of = any(|r| r.of.is_some());
    let timing = any(|r| r.timing.is_some());
    let columns = 7 + usize::from(of) + usize::from(timing);
    html! {
        table {
            thead { tr {
                th { "value" } @if of { th { "of" } } @if timing { th { "timing" } } th { "unit" } th { "published" } th { "measured" }
                th { "tolerance" } th { "" } th { "" }
            } }
            tbody { @for row in rows {
                tr {
                    td.text { (row.figure) ": " (row.item) }
                    @if of { td { (row.of.as_deref().unwrap_or("")) } }
                    @if timing { td { (row.timing.as_deref().unwrap_or("")) } }
                    td { (row.unit) }
                    td { (row.published_text()) }
                    td { (row.measured_text()) }
                    td { (row.tolerance.map_or(String::new(), number)) }
                    td { span class=(class(row)) { (row.verdict()) } }
                    td { (row.kind.map_or("", Kind::word)) }
                }
                @if !row.words().is_empty() { tr { td.why colspan=(columns) { (row.words()) } } }
            } }
        }
    }
}

fn class(row: &Row) -> &'static str {
    match row.within {
        Some(true) => "within",
        Some(false) => "outside",
        None => "none",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> (Report, Vec<Section>) {
        let mut row = Row::ours("Fig 1", "a <b>thing</b>", "fraction", 0.25).timed("fig8");
        (row.range, row.within) = (Some((0.5, 0.75)), Some(false));
        let row = row.because("the flush is dearer").noted("quick");
        let section = Section {
            title: "Fig 1".into(),
            words: vec!["What it shows.".into()],
            rows: vec![row.clone()],
            tables: vec![("t".into(), vec!["head".into()], vec![vec!["cell".into()]])],
            plots: vec![("p".into(), "<svg></svg>".into())],
        };
        let report = Report::new("emmc", "varve paper emmc".into(), vec![row]);
        (report, vec![section])
    }

    #[test]
    fn the_page_is_self_contained_and_says_what_is_outside_and_why() {
        let (report, sections) = report();
        let page = paper_page("T", &report, &sections);
        assert_eq!(page, paper_page("T", &report, &sections));
        for part in [
            "0.5 to 0.75",
            "outside</span>",
            "the flush is dearer; quick",
            "<svg></svg>",
            "What it shows.",
            "cell",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("<b>thing") && !page.contains("src=") && !page.contains("http"));
    }

    #[test]
    fn a_page_without_rows_is_made() {
        let (mut report, _) = report();
        report.rows.clear();
        assert!(!paper_page("T", &report, &[]).contains("with their causes"));
    }
}
