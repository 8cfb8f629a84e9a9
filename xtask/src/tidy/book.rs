//! Rules on the pages of docs/, which are a book.
//!
//! - B1: each page below docs/ has one line in docs/SUMMARY.md, because a page without one is in no
//!   book and nobody finds it.
//! - B2: each line of docs/SUMMARY.md leads to a page below docs/.
//! - B3: a page of docs/results/ says when its figures were measured, or that a test measures them
//!   anew, and shows a command, because a figure cannot be checked if nobody knows how it was made.
//! - B4: README.md is short enough to be read, and leads to docs/SUMMARY.md, which omits no page.

use super::Finding;
use super::docs::{links, resolve};
use std::collections::BTreeMap;

const SUMMARY: &str = "docs/SUMMARY.md";
const RESULTS: &str = "docs/results/";
const README_LINES: usize = 120;

/// Checks the pages among `files`.
pub fn check(files: &[String], read: &dyn Fn(&str) -> Option<String>) -> Vec<Finding> {
    let pages: Vec<&String> = files
        .iter()
        .filter(|path| path.starts_with("docs/") && path.ends_with(".md") && *path != SUMMARY)
        .collect();
    let mut findings = summary(&read(SUMMARY).unwrap_or_default(), &pages);
    for page in pages.iter().filter(|page| page.starts_with(RESULTS)) {
        findings.extend(result(page, &read(page).unwrap_or_default()));
    }
    findings.extend(readme(&read("README.md").unwrap_or_default()));
    findings
}

/// Checks the table of contents (B1, B2).
fn summary(text: &str, pages: &[&String]) -> Vec<Finding> {
    let mut entries: BTreeMap<String, usize> = BTreeMap::new();
    let mut findings = Vec::new();
    for (line, target) in links(text) {
        let page = resolve(SUMMARY, target).unwrap_or_default();
        if !pages.iter().any(|other| **other == page) {
            let what = format!("B2: {target} is no page below docs/");
            findings.push(Finding::new(SUMMARY, line, what));
        }
        if entries.insert(page, line).is_some() {
            let what = format!("B1: {target} has two lines here");
            findings.push(Finding::new(SUMMARY, line, what));
        }
    }
    let missing = pages.iter().filter(|page| !entries.contains_key(**page));
    let what = format!("B1: {SUMMARY} has no line for this page");
    findings.extend(missing.map(|page| Finding::new(page, 1, what.as_str())));
    findings
}

/// Checks a page of results (B3).
fn result(page: &str, text: &str) -> Option<Finding> {
    let anew = ["measures them anew", "measured anew by"];
    let dated = text.lines().any(|line| {
        let day = line.starts_with("Measured ") && line.split(' ').any(is_date);
        day || anew.iter().any(|words| line.contains(words))
    });
    let lacks = match (dated, text.lines().any(shows_command)) {
        (true, true) => return None,
        (false, _) => "a line \"Measured 2026-11-25\", or that a test \"measures them anew\"",
        (true, false) => "a command, or the file of a test, that makes its figures",
    };
    Some(Finding::new(page, 1, format!("B3: the page lacks {lacks}")))
}

/// Whether a line of code, or code within a line, is one of our commands or the file of a test.
fn shows_command(line: &str) -> bool {
    let is_test = |code: &str| code.ends_with(".rs") && code.contains("/tests/");
    let is_command = |code: &str| code.starts_with("cargo ") || code.starts_with("varve ");
    let block = line.strip_prefix("    ").into_iter();
    let mut code = block.chain(line.split('`').skip(1).step_by(2));
    code.any(|code| is_command(code) || is_test(code))
}

/// Whether a word is a day like 2026-11-25, with or without punctuation behind it.
fn is_date(word: &str) -> bool {
    let word = word.trim_end_matches(|c: char| c.is_ascii_punctuation());
    word.len() == 10
        && word.char_indices().all(|(i, c)| match i {
            4 | 7 => c == '-',
            _ => c.is_ascii_digit(),
        })
}

/// Checks README.md (B4).
fn readme(text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = text.lines().count();
    if lines > README_LINES {
        let what = format!("B4: {lines} lines; at most {README_LINES} are read");
        findings.push(Finding::new("README.md", lines, what));
    }
    if !links(text).iter().any(|(_, target)| *target == SUMMARY) {
        let what = format!("B4: no link to {SUMMARY}");
        findings.push(Finding::new("README.md", 1, what));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_has_one_line_and_each_line_a_page() {
        let pages = ["docs/use/a.md".to_string(), "docs/b.md".to_string()];
        let pages: Vec<&String> = pages.iter().collect();
        let of = |text| -> Vec<String> {
            let found = summary(text, &pages).into_iter();
            found.map(|f| format!("{}: {}", f.path, f.what)).collect()
        };
        assert!(of("- [a](use/a.md)\n- [b](b.md)\n").is_empty());
        let missing = "docs/b.md: B1: docs/SUMMARY.md has no line for this page";
        assert_eq!(of("- [a](use/a.md)\n"), [missing]);
        let strange = "docs/SUMMARY.md: B2: c.md is no page below docs/";
        assert_eq!(of("- [a](use/a.md)\n- [b](b.md)\n- [c](c.md)\n"), [strange]);
        let twice = "docs/SUMMARY.md: B1: b.md has two lines here";
        assert_eq!(of("- [a](use/a.md)\n- [b](b.md)\n- [b](b.md)\n"), [twice]);
    }

    #[test]
    fn results_have_a_date_and_a_command() {
        let good = "# R\n\nMeasured 2026-11-25, on two cores.\n\n    cargo bench\n";
        assert_eq!(result("r.md", good), None);
        let anew = "A test measures them anew: `cargo test -p varve-work`.\n";
        assert_eq!(result("r.md", anew), None);
        let what = |text| result("r.md", text).unwrap().what;
        assert!(what("    cargo bench\n").contains("Measured"));
        assert!(what("Measured in 2026.\n    cargo bench\n").contains("Measured"));
        assert!(what("Measured 2026-11-25.\n").contains("a command"));
    }

    #[test]
    fn a_long_readme_and_one_without_the_book_are_found() {
        assert!(readme("[book](docs/SUMMARY.md)\n").is_empty());
        assert_eq!(readme("# Varve\n").len(), 1);
        assert_eq!(readme(&"x\n".repeat(README_LINES + 1)).len(), 2);
    }
}
