//! `index.html`: one page, which needs nothing else. Equal reports give equal bytes.

use super::lanes::{Fate, Lanes};
use super::report::{OfFinding, Report};
use maud::{Markup, html};

const OWN_STYLE: &str = "td.bad,span.bad{color:var(--bad);font-weight:600}td.text,th.text{text-align:left}\
section{margin:1.6rem 0;border-left:3px solid var(--line);padding-left:.8rem}\
pre{background:var(--code);padding:.6rem;overflow-x:auto;white-space:pre-wrap;word-break:break-all}\
table.lanes{font:12.5px/1.4 ui-monospace,monospace}table.lanes td,table.lanes th{border:0;padding:.05rem .5rem;text-align:left}\
table.lanes td+td{border-left:1px solid var(--line)}tr.lost td{background:var(--lost)}tr.kept td{background:var(--kept)}\
tr.promise td{background:var(--promise)}tr.never td,tr.gap td{color:var(--dim)}tr.cut td{background:#b42318;color:#fff}";

/// The report as a page.
pub fn page(report: &Report) -> String {
    let body = html! {
        h1 { "What " code { (report.run) } " may lose" }
        p {
            (report.calls) " recorded calls, " (report.acknowledgements) " acknowledgements, "
            (report.judged) " distinct trees judged by "
            @if report.judges.is_empty() { "nothing but whether they can be recovered and read" }
            @else { (report.judges.join("; ")) }
            "."
        }
        @if let Some(why) = &report.error { p { b { "No verdict: " } } pre { (why) } }
        @if let Some(why) = &report.incomplete { p { b { "Incomplete: " (why) } } }
        (models(report))
        @if !report.lint.is_empty() {
            h2 { "Not synced when it was acknowledged" }
            ul { @for words in &report.lint { li { (words) } } }
        }
        h2 { "Findings" }
        @if report.findings.is_empty() { p { "None." } }
        @for finding in &report.findings { (one(finding)) }
        @if !report.notes.is_empty() {
            h2 { "Notes" }
            ul { @for note in &report.notes { li { (note) } } }
        }
    };
    report::whole(
        &format!("Varve: what {} may lose", report.run),
        OWN_STYLE,
        &body,
    )
}

fn models(report: &Report) -> Markup {
    report::scrolled(&html! {
        table {
            thead { tr {
                th scope="col" { "model" }
                @for head in ["cuts", "states", "trees", "bad", "beyond the bound"] { th scope="col" { (head) } }
                th.text scope="col" { "verdict" }
            } }
            tbody {
                @for model in &report.models {
                    tr {
                        th scope="row" { (model.name) } td { (model.cuts) } td { (model.states) } td { (model.trees) }
                        td.bad[model.bad > 0] { (model.bad) } td { (model.beyond) }
                        td.text {
                            @if let Some(why) = &model.gave_up { span.bad { "gave up: " (why) } }
                            @else if model.bad == 0 { (if model.beyond > 0 { "holds in these" } else { "holds" }) }
                            @else { span.bad { (model.findings) " findings" } }
                        }
                    }
                }
            }
        }
    })
}

fn one(finding: &OfFinding) -> Markup {
    html! {
        section id={ "finding-" (finding.number) } {
            p { b { (finding.number) ". " (finding.sentence) } }
            p {
                "Left by "
                @for (n, of) in finding.models.iter().enumerate() {
                    @if n > 0 { ", " }
                    (of.model) " (" (of.states) " trees)"
                }
                "."
                @if !finding.lacks.is_empty() { " Missing: " code { (finding.lacks.join(", ")) } "." }
                @if let Some((file, line)) = &finding.source { " At " code { (file) ":" (line) } "." }
            }
            pre { (finding.why) }
            (lanes(&finding.story))
            p { "Make it again:" }
            pre { (finding.again) }
        }
    }
}

fn lanes(story: &Lanes) -> Markup {
    let width = story.names.len() + 3;
    let cut = story.rows.iter().position(|row| row.fate == Fate::Never);
    let cut = cut.unwrap_or(story.rows.len());
    let line = html! { tr.cut { td colspan=(width) { (story.moment()) } } };
    report::scrolled(&html! {
        table.lanes {
            thead { tr {
                th scope="col" { "call" }
                @for name in &story.names { th scope="col" { (name) } }
                td {} td {}
            } }
            tbody {
                @for (n, row) in story.rows.iter().enumerate() {
                    @if n == cut { (line) }
                    tr class=(class(row.fate)) {
                        td { (row.call) }
                        @for lane in 0..story.names.len() { td { @if lane == row.lane { (row.words) (stack(&row.stack)) } } }
                        td { (row.fate.words()) }
                        td { (row.lost.join("; ")) }
                    }
                    @if row.skipped > 0 && n + 1 < story.rows.len() {
                        tr.gap { td colspan=(width) { (row.skipped) " calls are not shown" } }
                    }
                }
                @if cut == story.rows.len() { (line) }
            }
        }
    })
}

/// Where in the program a call was made.
fn stack(frames: &[String]) -> Markup {
    html! { @for frame in frames { br; small { "at " (frame) } } }
}

fn class(fate: Fate) -> &'static str {
    match fate {
        Fate::Plain | Fate::UnderWay => "plain",
        Fate::Lost | Fate::Failed => "lost",
        Fate::Kept => "kept",
        Fate::Promise => "promise",
        Fate::Never => "never",
    }
}
