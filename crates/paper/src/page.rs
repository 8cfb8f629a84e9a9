//! The page of a paper: the verdict first, then contents, then each figure with published values
//! beside measured ones. What explains them is folded. Equal reports give equal bytes.

use super::{Kind, Report, Row, Section, Summary, number};
use maud::{Markup, html};
use report::{Pair, Plot, plot, row, scrolled, whole};
use std::collections::BTreeMap;

/// The caption of a plot of published and measured values.
const PAIRS: &str = "Bands are what agrees, diamonds what is published, dots what is measured. Without a band nothing is compared.";
/// Rows in one plot of published and measured values, at most.
const PAIRS_MAX: usize = 40;
/// A table with so many rows is shown unfolded.
const OPEN_ROWS: usize = 6;

/// The verdict has a colour, and stands there as a word.
const OWN_STYLE: &str = "\
.within{color:var(--good)}.outside{color:var(--bad);font-weight:600}.none{color:var(--dim)}\
table.rows tbody th{white-space:normal;min-width:14rem}table.rows td.why{white-space:normal;text-align:left;color:var(--dim);font-size:.9rem}";

/// Makes the page of a report.
pub fn paper_page(title: &str, report: &Report, sections: &[Section]) -> String {
    let outside: Vec<&Row> = report.rows.iter().filter(|r| r.is_outside()).collect();
    let of_all = Summary::of(&report.rows);
    let body = html! {
        h1 { (title) }
        p.verdict { b { (verdict(&of_all)) } }
        p { "Made by " code { (report.command) } }
        @if let Some(why) = &report.incomplete { p { b { "Incomplete: " (why) } } }
        details { summary { "How the values are counted" } (counted(&report.rows)) }
        @if !outside.is_empty() {
            details {
                summary { (outside.len()) " rows outside, of every kind, with their causes" }
                (rows(&outside))
            }
        }
        nav aria-label="Contents" {
            h2 { "Contents" }
            ul { @for (n, section) in sections.iter().enumerate() {
                li { a href={ "#s" (n) } { (section.title) } " " span.dim { (agreeing(&section.rows)) } }
            } }
        }
        @for (n, section) in sections.iter().enumerate() { (one(n, section)) }
    };
    whole(title, OWN_STYLE, &body)
}

/// What the report says, in a sentence or two.
fn verdict(sum: &Summary) -> String {
    let (sound, agree) = (sum.sound(), sum.sound_strictly);
    if sound == 0 {
        return "No value of this report can be compared with a published one.".into();
    }
    let first = format!(
        "{agree} of the {sound} published values that can be compared here agree ({} %).",
        100 * agree / sound
    );
    match sound - agree {
        0 => first,
        others => format!(
            "{first} Of the {others} others, experiments explain {} and a part of {}, arithmetic alone {}; {} are not explained.",
            sum.closed, sum.narrowed, sum.arithmetic, sum.unexplained
        ),
    }
}

/// How many rows of a section agree; empty if none is compared.
fn agreeing(rows: &[Row]) -> String {
    let sum = Summary::of(rows);
    match sum.within + sum.outside {
        0 => String::new(),
        all => format!("{} of {all} agree", sum.within),
    }
}

fn counted(rows: &[Row]) -> Markup {
    let mut all = Summary::by_kind(rows);
    all.extend(Summary::by_timing(rows));
    all.push(("all".into(), Summary::of(rows)));
    html! {
        (scrolled(&html! { table {
            thead { tr {
                th scope="col" { "rows" } @for (head, _) in Summary::default().counts() { th scope="col" { (head) } }
            } }
            tbody {
                @for (name, sum) in &all {
                    tr {
                        th scope="row" { (name) } @for (_, count) in sum.counts() { td { (count) } }
                    }
                }
            }
        } }))
        p { (Summary::of(rows).headline()) }
        p.note { "Published values and tolerances stand in one committed table, written before the first run; docs/use/paper-reports.md explains them." }
    }
}

fn one(n: usize, section: &Section) -> Markup {
    let all: Vec<&Row> = section.rows.iter().collect();
    let agreeing = agreeing(&section.rows);
    html! {
        section {
            h2 id={ "s" (n) } { (section.title) }
            @if !agreeing.is_empty() { p { (agreeing) "." } }
            @for plot in pairs(&all) { (plot.figure(PAIRS)) }
            @for (caption, plot) in &section.plots { (plot.figure(caption)) }
            @if !section.words.is_empty() {
                details { summary { "How it is measured" } @for words in &section.words { p { (words) } } }
            }
            @for (caption, head, lines) in &section.tables {
                details open[lines.len() <= OPEN_ROWS] {
                    summary { "Table: " (caption) }
                    (scrolled(&html! { table {
                        thead { tr { @for h in head { th scope="col" { (h) } } } }
                        tbody { @for line in lines { (row(line)) } }
                    } }))
                }
            }
            @if !all.is_empty() {
                details open[all.len() <= OPEN_ROWS] {
                    summary { (all.len()) " values of this section, with what is said of each" }
                    (rows(&all))
                }
            }
        }
    }
}

/// Plots of the rows with a published and a measured value, one for each unit.
fn pairs(rows: &[&Row]) -> Vec<Plot> {
    let mut by_unit: BTreeMap<&str, Vec<Pair>> = BTreeMap::new();
    for row in rows {
        if let Some(pair) = pair(row) {
            by_unit.entry(&row.unit).or_default().push(pair);
        }
    }
    let mut plots = Vec::new();
    for (unit, mut pairs) in by_unit {
        // A line of the plot is found by its name.
        for n in 1..pairs.len() {
            let same = |p: &&Pair| p.name == pairs[n].name;
            let earlier = pairs[..n].iter().filter(same).count();
            if earlier > 0 {
                pairs[n].name = format!("{} ({})", pairs[n].name, earlier + 1);
            }
        }
        let title = format!("Published and measured, {unit}");
        plots.extend(pairs.chunks_mut(PAIRS_MAX).map(|some| {
            let common = take_common(some);
            let title = match common.is_empty() {
                true => title.clone(),
                false => format!("{title}: {common}"),
            };
            plot::pairs(&title, unit, some)
        }));
    }
    plots
}

/// Takes the words off the names that all of them begin with: on a narrow screen only the beginning
/// of a name is seen.
fn take_common(pairs: &mut [Pair]) -> String {
    const PART: &str = ", ";
    let Some(first) = pairs.first().filter(|_| pairs.len() > 1) else {
        return String::new();
    };
    let mut common: Vec<String> = first.name.split(PART).map(String::from).collect();
    for pair in pairs.iter() {
        let parts: Vec<&str> = pair.name.split(PART).collect();
        let equal = common.iter().zip(&parts).take_while(|(a, b)| a == b);
        // Something is left of each name.
        let kept = equal.count().min(parts.len() - 1);
        common.truncate(kept);
    }
    let common = common.join(PART);
    if !common.is_empty() {
        for pair in pairs {
            pair.name = pair.name[common.len() + PART.len()..].into();
        }
    }
    common
}

fn pair(row: &Row) -> Option<Pair> {
    let agrees = match (row.range, row.published, row.bound.as_deref()) {
        (Some((low, high)), _, _) => (Some(low), Some(high)),
        (None, value, Some("least")) => (value, None),
        (None, value, Some(_)) => (None, value),
        // An absolute time of another machine is shown, and nothing is said of its agreement.
        (None, Some(_), None) if row.within.is_none() => (None, None),
        (None, Some(value), None) => {
            let by = row.tolerance.unwrap_or(0.0);
            (Some(value - by), Some(value + by))
        }
        (None, None, None) => return None,
    };
    let more = [row.of.as_deref(), row.timing.as_deref()];
    let name = [row.item.as_str()]
        .into_iter()
        .chain(more.into_iter().flatten());
    Some(Pair {
        name: name.collect::<Vec<_>>().join(", "),
        published: row.published,
        agrees,
        measured: row.measured?,
        verdict: row.verdict().into(),
    })
}

/// A table of rows, without the columns that are empty in all of them.
fn rows(rows: &[&Row]) -> Markup {
    let any = |cell: fn(&Row) -> bool| rows.iter().any(|r| cell(r));
    let of = any(|r| r.of.is_some());
    let timing = any(|r| r.timing.is_some());
    let columns = 7 + usize::from(of) + usize::from(timing);
    scrolled(&html! {
        table.rows.cards {
            thead { tr {
                @for head in ["value", "of", "timing", "unit", "published", "measured", "tolerance", "verdict", "kind"] {
                    @if (head != "of" || of) && (head != "timing" || timing) { th scope="col" { (head) } }
                }
            } }
            tbody { @for row in rows {
                tr.row {
                    th scope="row" { (row.figure) ": " (row.item) }
                    @if of { td { (row.of.as_deref().unwrap_or("")) } }
                    @if timing { td { (row.timing.as_deref().unwrap_or("")) } }
                    td { (row.unit) }
                    (headed("published", &row.published_text()))
                    (headed("measured", &row.measured_text()))
                    (headed("tolerance", &row.tolerance.map_or(String::new(), number)))
                    td { span class=(class(row)) { (row.verdict()) } }
                    td { (row.kind.map_or("", Kind::word)) }
                }
                @if !row.words().is_empty() { tr { td.why colspan=(columns) { (row.words()) } } }
            } }
        }
    })
}

/// A cell that says on a narrow screen what it is, because no head stands above it.
fn headed(head: &str, text: &str) -> Markup {
    html! { @if text.is_empty() { td {} } @else { td data-head=(head) { (text) } } }
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

    #[test]
    fn what_all_names_begin_with_stands_above_them_once() {
        let pair = |name: &str| Pair {
            name: name.into(),
            published: None,
            agrees: (None, None),
            measured: 1.0,
            verdict: String::new(),
        };
        let mut pairs = [
            "ratio: a, over all, gmail, fig8",
            "ratio: a, over all, nav",
            "ratio: a, over all",
        ]
        .map(pair);
        assert_eq!(take_common(&mut pairs), "ratio: a");
        let names: Vec<&str> = pairs.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(
            names,
            ["over all, gmail, fig8", "over all, nav", "over all"]
        );
        let mut apart = ["a, x", "b, x"].map(pair);
        assert_eq!(
            (take_common(&mut apart), apart[0].name.as_str()),
            (String::new(), "a, x")
        );
        assert_eq!(take_common(&mut [pair("alone, x")]), "");
    }

    fn report() -> (Report, Vec<Section>) {
        let mut row = Row::ours("Fig 1", "a <b>thing</b>", "fraction", 0.25).timed("fig8");
        (row.range, row.within) = (Some((0.5, 0.75)), Some(false));
        let row = row.because("the flush is dearer").noted("quick");
        let section = Section {
            title: "Fig 1".into(),
            words: vec!["What it shows.".into()],
            rows: vec![row],
            tables: vec![("t".into(), vec!["head".into()], vec![vec!["cell".into()]])],
            plots: vec![("p".into(), plot::lines("line", ("x", "y"), &[]))],
        };
        let sections = vec![section];
        let report = Report::new("emmc", "varve paper emmc".into(), &sections);
        (report, sections)
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
            "aria-label=\"line\"",
            "aria-label=\"Published and measured, fraction\"",
            "0 of 1 agree",
            "What it shows.",
            "cell",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("<b>thing") && !page.contains(" src=\"") && !page.contains("<link"));
    }

    #[test]
    fn a_page_without_rows_is_made() {
        let (mut report, _) = report();
        report.rows.clear();
        assert!(!paper_page("T", &report, &[]).contains("with their causes"));
    }
}
