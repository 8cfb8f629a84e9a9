//! The width of comments.
//!
//! - T4: a line of a comment is at most 100 columns wide, as code is. rustfmt leaves comments
//!   alone, so this is checked here. Rows of tables, fenced drawings, and text without a space to
//!   break it at are excepted.

use super::Finding;
use super::source::Source;

/// Most columns of a line.
const WIDTH: usize = 100;

/// Checks one file.
pub fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut drawing = false;
    for (i, line) in source.text.lines().enumerate() {
        let Some(text) = comment(line) else {
            drawing = false;
            continue;
        };
        if text.starts_with("```") {
            drawing = !drawing;
        }
        let indent = line.len() - text.len();
        let breaks = text.find(' ').is_some_and(|at| indent + at <= WIDTH);
        if line.len() > WIDTH && !drawing && !text.starts_with('|') && breaks {
            let what = format!("T4: {} columns of a comment, at most {WIDTH}", line.len());
            findings.push(Finding::new(&source.path, i + 1, what));
        }
    }
    findings
}

/// The text of a line that is a comment and nothing else.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let source = Source::parse("crates/base/src/a.rs", text.to_string()).unwrap();
        check(&source).into_iter().map(|f| f.line).collect()
    }

    #[test]
    fn prose_is_found_and_tables_drawings_and_long_words_are_not() {
        let long = "a word ".repeat(20);
        let word = "w".repeat(120);
        let head = "//! Head.\n";
        assert_eq!(lines(&format!("{head}    // {long}\nfn f() {{}}\n")), [2]);
        assert_eq!(lines(&format!("{head}//! {long}\n")), [2]);
        assert!(lines(&format!("{head}//!\n//! | {long} |\n")).is_empty());
        assert!(lines(&format!("{head}// {word}\n")).is_empty());
        let fenced = format!("{head}//! ```text\n//! {long}\n//! ```\n");
        assert!(lines(&fenced).is_empty());
        assert_eq!(lines(&format!("{fenced}//! {long}\n")), [5]);
        let exact = format!("// {}", "ab ".repeat(32));
        assert!(lines(&format!("{head}{}\n", exact.trim_end())).is_empty());
    }
}
