//! `index.html` of a campaign: one page, which needs nothing else. It shows the first
//! `FINDINGS_MAX` findings in full; `results.json` has all. Equal reports give equal bytes.

use super::report::{CampaignReport, CaseReport, FindingReport, ShrunkReport};
use super::steps::{Fate, Level, Line};
use super::totals::{FINDINGS_MAX, Row, Totals, Troubles};
use crate::campaign::Losses;
use maud::{Markup, html};

const OWN_STYLE: &str = "td.bad,span.bad{color:var(--bad);font-weight:600}td.text,th.text{text-align:left}\
details{margin:.8rem 0;border-left:3px solid var(--line);padding-left:.8rem}\
pre{background:var(--code);padding:.6rem;overflow-x:auto;white-space:pre-wrap;word-break:break-all}\
table.steps{font:12.5px/1.4 ui-monospace,monospace}table.steps td{border:0;padding:.05rem .5rem;text-align:left}\
tr.lost td,tr.torn td,tr.garbage td,tr.damaged td{background:var(--lost)}tr.kept td{background:var(--kept)}tr.never td{color:var(--dim)}\
tr.op td{color:var(--link)}tr.cut td{background:#b42318;color:#fff}";

/// The report of a campaign as one HTML page.
pub fn page(report: &CampaignReport) -> String {
    page_of(report, &Totals::of(report))
}

/// The same of a campaign whose cases are not in memory: `report` is its head, its cases are not
/// looked at.
pub fn page_of(report: &CampaignReport, totals: &Totals) -> String {
    let total = &totals.tested;
    let body = html! {
        h1 { "Varve: " (report.command) }
        p {
            (totals.all.cases) " cases on " code { (report.profile) } ", seed " (report.seed) ". Bound: " (report.bound)
            ". Times are virtual. A state is what one power cut may leave of the device; it is judged after recovery."
        }
        p { "Made by " code { (report.reproduce) } }
        @if let Some(why) = &report.incomplete { p { b { "Incomplete: " (why) } } }
        p {
            @if totals.is_blind() { span.bad { "The positive control shows no damage: the explorer is blind." } }
            @else if totals.is_clean() { b { "No violation in " (total.judged) " distinct states." } }
            @else { span.bad { (total.violations) " states violate a rule, of " (total.judged) " judged." } }
        }
        h2 { "States" }
        (states(totals))
        h2 { "Losses" }
        p.note {
            "What had ended before the cut and is gone after recovery, promised or not: mean over all states, and the most in one. "
            "Acknowledged: covered by a completed sync. Age: from the newest operation that the recovered state holds to the cut."
        }
        (losses(totals))
        (troubles(totals))
        h2 { "Findings" }
        @if totals.findings.is_empty() { p { "None." } }
        @for (case, finding) in &totals.findings { (one_finding(case, finding)) }
        @if totals.findings_all > FINDINGS_MAX as u64 {
            p { (totals.findings_all - FINDINGS_MAX as u64) " more findings stand in " code { "results.json" } "." }
        }
    };
    report::whole(&format!("Varve: {}", report.command), OWN_STYLE, &body)
}

/// Counts of states, by scheme and class of workload.
fn states(totals: &Totals) -> Markup {
    let head = [
        "cases",
        "moments",
        "enumerated",
        "deduplicated",
        "pruned",
        "judged",
        "of these nested",
        "beyond the bound",
        "timed out",
        "violations",
    ];
    let row = |row: &Row| {
        let sum = &row.counts;
        html! {
            td { (row.cases) } td { (sum.points) } td { (sum.enumerated) } td { (sum.deduplicated) } td { (sum.pruned) }
            td { (sum.judged) } td { (sum.nested) } td { (sum.beyond) } td { (sum.timed_out) }
            td.bad[sum.violations > 0 && row.tested] { (sum.violations) }
        }
    };
    report::scrolled(&html! {
        table {
            (heads(["scheme", "workload", "device"], &head))
            tbody {
                @for ((scheme, class, device), of) in totals.states.iter() {
                    tr { th scope="row" { (scheme) } td.text { (class) } td.text { (device) } (row(of)) }
                }
                tr { th scope="row" { "all" } td {} td {} (row(&totals.all)) }
            }
        }
    })
}

/// The heads of a table: of texts, then of numbers.
fn heads(texts: [&str; 3], numbers: &[&str]) -> Markup {
    html! {
        thead { tr {
            @for text in texts { th.text scope="col" { (text) } }
            @for number in numbers { th scope="col" { (number) } }
        } }
    }
}

/// What was lost, by class of workload, with the schemes side by side.
fn losses(totals: &Totals) -> Markup {
    let head = [
        "states",
        "operations",
        "most",
        "KiB",
        "most",
        "age, ms",
        "most",
        "states with acknowledged loss",
        "with old data",
        "with foreign data",
    ];
    report::scrolled(&html! {
        table {
            (heads(["workload", "device", "scheme"], &head))
            tbody {
                @for ((class, device), schemes) in totals.losses.iter() {
                    @for (scheme, loss) in schemes.iter() {
                        tr { th scope="row" { (class) } td.text { (device) } td.text { (scheme) } (loss_cells(loss)) }
                    }
                }
            }
        }
    })
}

fn loss_cells(loss: &Losses) -> Markup {
    let mean =
        |sum: u64, unit: f64| format!("{:.2}", sum as f64 / unit / loss.states.max(1) as f64);
    let most = |n: u64, unit: f64| format!("{:.1}", n as f64 / unit);
    let (kib, ms) = (1024.0, 1e6);
    html! {
        td { (loss.states) }
        td { (mean(loss.ops, 1.0)) } td { (loss.ops_max) }
        td { (mean(loss.bytes, kib)) } td { (most(loss.bytes_max, kib)) }
        td { (mean(loss.age, ms)) } td { (most(loss.age_max, ms)) }
        td.bad[loss.acked > 0] { (loss.acked) }
        td { (loss.old) } td { (loss.foreign) }
    }
}

/// Runs that failed, and files that could not be written.
fn troubles(totals: &Totals) -> Markup {
    let list = |troubles: &Troubles| {
        let more = troubles.all - troubles.first.len() as u64;
        html! {
            ul {
                @for (case, words) in &troubles.first {
                    li { "case " (case.number) ", " (case.scheme) ": " code { (case.workload) } ": " (words.join("; ")) }
                }
            }
            @if more > 0 { p { (more) " more stand in " code { "results.json" } "." } }
        }
    };
    html! {
        @if totals.failed.all > 0 {
            h2 { "Runs that failed" }
            (list(&totals.failed))
        }
        @if totals.unkept.all > 0 {
            h2 { "Not kept" }
            p { "The exploration went on; these could not be written down:" }
            (list(&totals.unkept))
        }
    }
}

fn one_finding(case: &CaseReport, finding: &FindingReport) -> Markup {
    html! {
        details {
            summary {
                b.bad { (finding.rule) } " " (case.scheme) @if case.control { " (positive control)" } " on " (case.device) ", case " (case.number) ", state "
                code { (finding.state) } ": " (finding.violations.first().map_or("", String::as_str))
            }
            p { "Workload " code { (case.workload) } ", seed " (case.seed)
                @if let Some(scheduler) = &case.scheduler { ", I/O scheduler " (scheduler) }
                @if let Some(mutant) = &case.mutant { ", without the guard " code { (mutant) } }
            }
            @if let Some(folder) = &finding.folder { p { "Folder " code { (folder) } } }
            ul { @for violation in &finding.violations { li { (violation) } } }
            p { "Reproduce:" }
            pre { "varve crash --repro '" (finding.line) "'" }
            @if let Some(shrunk) = &finding.shrunk { (one_shrunk(shrunk)) }
            details {
                summary { "What had begun" }
                ol { @for line in &finding.story { li { (line) } } }
            }
            (steps(&finding.steps))
        }
    }
}

fn one_shrunk(shrunk: &ShrunkReport) -> Markup {
    html! {
        details open {
            summary {
                "The same with less" @if let Some(ops) = shrunk.ops { ": " (ops) " operations" }
                " (" (shrunk.states) " states judged" @if !shrunk.complete { ", budget used up" } ")"
            }
            pre { (shrunk.workload) }
            ul { @for violation in &shrunk.violations { li { (violation) } } }
            pre { "varve crash --repro '" (shrunk.line) "'" }
            (steps(&shrunk.steps))
        }
    }
}

fn steps(levels: &[Level]) -> Markup {
    html! {
        @for level in levels {
            p.note {
                "Cut of the " (level.of) " at " (micros(level.cut_ns)) " us (" (level.moment())
                "). Addresses are 4 KiB blocks." @if level.earlier > 0 { " " (level.earlier) " earlier commands are not shown." }
            }
            table.steps { tbody {
                @let cut = level.lines.iter().position(|line| line.fate == Some(Fate::Never)).unwrap_or(level.lines.len());
                @for (n, line) in level.lines.iter().enumerate() {
                    @if n == cut { (cut_row()) }
                    (step(line))
                }
                @if cut == level.lines.len() { (cut_row()) }
            } }
        }
    }
}

fn cut_row() -> Markup {
    html! { tr.cut { td colspan="4" { "power cut" } } }
}

fn step(line: &Line) -> Markup {
    let class = match (line.number().as_str(), line.fate) {
        (_, Some(fate)) => fate.word(),
        ("", None) => "op",
        _ => "",
    };
    let to = line.to_ns.map(micros).unwrap_or_default();
    html! {
        tr class=(class) {
            td { (micros(line.from_ns)) ".." (to) }
            td { (line.number()) }
            td { (line.what) @if let Some(tid) = line.tid { " (tid " (tid) ")" } }
            td {
                @match line.fate {
                    Some(fate) => (fate.to_string()),
                    None if line.to_ns.is_none() => "under way",
                    None => "",
                }
            }
        }
    }
}

fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

#[cfg(test)]
mod tests {
    use super::super::report::Counts;
    use super::super::report::tests::{campaign, parts};
    use super::*;

    #[test]
    fn the_page_holds_every_scheme_and_line_and_nothing_from_outside() {
        let mut report = campaign();
        parts().into_iter().for_each(|part| report.enter(part));
        let text = page(&report);
        assert_eq!(text, page(&report));
        for (case, finding) in report.findings() {
            assert!(text.contains(&finding.line) && text.contains(&case.scheme));
        }
        assert!(text.contains("create /a &amp; &lt;b&gt;") && !text.contains("<b>zero"));
        assert!(text.contains("no space left on device") && text.contains("the run failed"));
        for foreign in ["http:", "https:", "src=", "<script", "@import"] {
            assert!(!text.contains(foreign), "{foreign}");
        }
    }

    #[test]
    fn a_clean_campaign_says_so() {
        let mut report = campaign();
        report.enter(CaseReport {
            counts: Counts {
                judged: 12,
                ..Counts::default()
            },
            ..CaseReport::default()
        });
        let text = page(&report);
        assert!(text.contains("No violation in 12 distinct states") && text.contains("None."));
    }
}
