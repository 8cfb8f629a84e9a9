//! The result for a terminal.

use super::lanes::{Fate, Lanes};
use super::report::{OfFinding, OfModelReport, Report};
use base::plain;
use std::fmt::Write;

/// Findings that are told in full.
const FINDINGS_MAX: usize = 10;
/// Places where something was not synced that are told.
const LINTS_MAX: usize = 2;
/// Calls of a finding.
const ROWS_MAX: usize = 14;
/// Lines that a judge's words may have.
const WHY_LINES: usize = 6;

/// The report in words.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    let judges = match report.judges.is_empty() {
        true => "nothing: only whether the tree can be recovered and read, and the lint".into(),
        false => report.judges.join("; "),
    };
    // A String takes everything.
    let _ = writeln!(
        text,
        "{}: {} calls, {} acknowledgements; judged by {judges}",
        report.run, report.calls, report.acknowledgements
    );
    if let Some(why) = &report.incomplete {
        let _ = writeln!(text, "INCOMPLETE: {why}");
    }
    text.push_str(&table(&report.models));
    for finding in report.findings.iter().take(FINDINGS_MAX) {
        text.push('\n');
        text.push_str(&finding_text(finding));
    }
    if report.findings.len() > FINDINGS_MAX {
        let more = report.findings.len() - FINDINGS_MAX;
        let _ = writeln!(text, "\n{more} more findings stand in results.json");
    }
    for words in report.lint.iter().take(LINTS_MAX) {
        let mut lines = words.lines();
        let _ = writeln!(text, "lint: {}", lines.next().unwrap_or_default());
        for line in lines {
            let _ = writeln!(text, "  {line}");
        }
    }
    if report.lint.len() > LINTS_MAX {
        let more = report.lint.len() - LINTS_MAX;
        let _ = writeln!(text, "lint: {more} more places stand in results.json");
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    // A judge and the tested program may print anything.
    plain::message(&text)
}

fn table(models: &[OfModelReport]) -> String {
    let width = models.iter().map(|model| model.name.len()).max();
    let width = width.unwrap_or_default().max(5);
    let mut text = format!(
        "{:width$} {:>6} {:>8} {:>7} {:>6} {:>7}  verdict\n",
        "model", "cuts", "states", "trees", "bad", "beyond"
    );
    for model in models {
        let OfModelReport {
            name,
            cuts,
            states,
            trees,
            bad,
            beyond,
            findings,
            gave_up,
            ..
        } = model;
        let verdict = match (gave_up, findings) {
            (Some(why), _) => format!("gave up: {why}"),
            (None, 0) if *states == 0 => "not looked at".into(),
            (None, 0) if *beyond > 0 => "holds in these".into(),
            (None, 0) => "holds".into(),
            (None, 1) => "1 finding".into(),
            (None, n) => format!("{n} findings"),
        };
        let _ = writeln!(
            text,
            "{name:width$} {cuts:>6} {states:>8} {trees:>7} {bad:>6} {beyond:>7}  {verdict}"
        );
    }
    text
}

/// Frames of a stack that are printed; the files have all.
const FRAMES_MAX: usize = 6;

/// A finding in words.
pub(super) fn finding_text(finding: &OfFinding) -> String {
    let mut text = format!("{}. {}\n", finding.number, finding.sentence);
    let models: Vec<String> = (finding.models.iter())
        .map(|of| format!("{} ({} trees)", of.model, of.states))
        .collect();
    let mut line = |head: &str, words: &str| {
        let mut lines = words.lines();
        let _ = writeln!(text, "   {head:8} {}", lines.next().unwrap_or_default());
        for more in lines.take(WHY_LINES - 1) {
            let _ = writeln!(text, "            {more}");
        }
    };
    line("models", &models.join(", "));
    line("judge", &finding.why);
    if !finding.lacks.is_empty() {
        line("missing", &finding.lacks.join(", "));
    }
    line("again", &finding.again);
    text.push_str(&rows(&finding.story));
    text
}

/// Those that matter, with their neighbours where there is room.
fn rows(story: &Lanes) -> String {
    let mut text = String::new();
    let width = story
        .names
        .iter()
        .map(String::len)
        .max()
        .unwrap_or_default();
    let few = story.rows.len() <= ROWS_MAX;
    let mut hidden = 0;
    let mut cut = false;
    for row in &story.rows {
        if !few && row.fate == Fate::Plain {
            hidden += 1 + row.skipped;
            continue;
        }
        if hidden > 0 {
            let _ = writeln!(text, "       ... {hidden} calls");
            hidden = 0;
        }
        if row.fate == Fate::Never && !cut {
            cut = true;
            let _ = writeln!(text, "       --- {}", story.moment());
        }
        let (nr, lane) = (row.call, &story.names[row.lane]);
        let fate = row.fate.words();
        let lost = match &row.lost[..] {
            [] => String::new(),
            [one] => format!("  {one}"),
            [one, ..] => format!("  {one} and {} parts more", row.lost.len() - 1),
        };
        let words = format!("{nr:>6} {lane:width$}  {}", row.words);
        let _ = writeln!(
            text,
            "{}",
            format!("{words:<60} {fate:<9}{lost}").trim_end()
        );
        for frame in row.stack.iter().take(FRAMES_MAX) {
            let _ = writeln!(text, "       {:width$}    at {frame}", "");
        }
        if row.fate != Fate::Never {
            hidden += row.skipped;
        }
    }
    if !cut {
        let _ = writeln!(text, "       --- {}", story.moment());
    }
    text
}
