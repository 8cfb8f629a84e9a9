//! Budgets: production lines of a file, lines of a function. Exceptions are a ratchet.
//!
//! - S1: a file or function above its budget is listed in `tidy.toml`.
//! - S2: a listed one does not grow beyond the listed size.
//! - S3: a listed one is still above the budget; otherwise its entry has to go.

use super::Finding;
use super::config::Config;
use super::source::Source;

const LIST: &str = "tidy.toml";

/// Checks all files at once, because an entry of the list may name a file that no longer exists.
pub fn check(sources: &[Source], config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        check_file(source, config, &mut findings);
        check_functions(source, config, &mut findings);
    }
    stale_entries(sources, config, &mut findings);
    findings
}

fn check_file(source: &Source, config: &Config, findings: &mut Vec<Finding>) {
    let lines = source.production_lines();
    let listed = config
        .file
        .iter()
        .find(|e| e.path == source.path)
        .map(|e| e.lines);
    if let Some(what) = judge(lines, config.file_lines, listed) {
        findings.push(Finding::new(
            &source.path,
            1,
            format!("{what} in this file"),
        ));
    }
}

fn check_functions(source: &Source, config: &Config, findings: &mut Vec<Finding>) {
    for function in source
        .functions
        .iter()
        .filter(|f| !source.is_test(*f.lines.start()))
    {
        let lines = function.lines.end() - function.lines.start() + 1;
        let listed = config
            .function
            .iter()
            .find(|e| e.path == source.path && e.name == function.name)
            .map(|e| e.lines);
        if let Some(what) = judge(lines, config.function_lines, listed) {
            let what = format!("{what} in function {}", function.name);
            findings.push(Finding::new(&source.path, *function.lines.start(), what));
        }
    }
}

/// Compares a size with its budget and its entry (S1, S2).
fn judge(lines: usize, budget: usize, listed: Option<usize>) -> Option<String> {
    let limit = listed.unwrap_or(budget).max(budget);
    (lines > limit).then(|| format!("S1: {lines} lines, at most {limit},"))
}

/// Finds entries that are no longer needed (S3).
fn stale_entries(sources: &[Source], config: &Config, findings: &mut Vec<Finding>) {
    for entry in &config.file {
        let source = sources.iter().find(|s| s.path == entry.path);
        if source.is_none_or(|s| s.production_lines() <= config.file_lines) {
            let what = format!("S3: {} needs no exception any more", entry.path);
            findings.push(Finding::new(LIST, 1, what));
        }
    }
    for entry in &config.function {
        let longest = sources
            .iter()
            .filter(|s| s.path == entry.path)
            .flat_map(|s| &s.functions)
            .filter(|f| f.name == entry.name)
            .map(|f| f.lines.end() - f.lines.start() + 1)
            .max();
        if longest.is_none_or(|lines| lines <= config.function_lines) {
            let what = format!(
                "S3: {} in {} needs no exception any more",
                entry.name, entry.path
            );
            findings.push(Finding::new(LIST, 1, what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::SMALL;
    use super::*;

    const LONG: &str = "//! Head.\nfn f() {\n    g();\n    g();\n}\nfn g() {}\n";

    fn findings(text: &str, exceptions: &str) -> Vec<String> {
        let config = Config::parse(&format!("{SMALL}{exceptions}")).unwrap();
        let source = Source::parse("a.rs", text.to_string()).unwrap();
        check(&[source], &config)
            .into_iter()
            .map(|f| f.what)
            .collect()
    }

    fn exceptions(file: usize, function: usize) -> String {
        format!(
            "[[file]]\npath = \"a.rs\"\nlines = {file}\nreason = \"r\"\n\
             [[function]]\npath = \"a.rs\"\nname = \"f\"\nlines = {function}\nreason = \"r\"\n"
        )
    }

    #[test]
    fn above_the_budget_is_found() {
        let found = findings(LONG, "");
        assert_eq!(found[0], "S1: 6 lines, at most 5, in this file");
        assert_eq!(found[1], "S1: 4 lines, at most 3, in function f");
    }

    #[test]
    fn an_exception_allows_its_size_and_no_more() {
        assert!(findings(LONG, &exceptions(6, 4)).is_empty());
        let grown = LONG.replacen("    g();\n", "    g();\n    g();\n", 1);
        let found = findings(&grown, &exceptions(6, 4));
        assert_eq!(found[0], "S1: 7 lines, at most 6, in this file");
        assert_eq!(found[1], "S1: 5 lines, at most 4, in function f");
    }

    #[test]
    fn an_exception_that_is_not_needed_is_found() {
        let found = findings("//! Head.\nfn f() {}\n", &exceptions(6, 4));
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|what| what.starts_with("S3")));
    }
}
