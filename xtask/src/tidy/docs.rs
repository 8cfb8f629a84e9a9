//! Rules on the prose around the code.
//!
//! - D1: a relative link of a Markdown file leads to a file, and its anchor to a heading there.
//! - D2: the first screen of `README.md` shows the two commands.
//! - D3: the files that every newcomer looks for exist, and the changelog has an open section.
//! - D4: a page that a comment of a Rust file names exists in this tree, and so does one below
//!   docs/ that anything else in a Rust or TOML file names, because reports and tables send their
//!   readers there.
//! - D5: a hazard (H and a number) that a comment names has a row in docs/design/hazards.md.
//! - D6: a crate whose examples are not run (`doctest = false`, because looking for them takes
//!   seconds in each crate) has only blocks of `text`.

use super::Finding;
use super::source::Source;
use crate::Result;
use std::path::Path;

const COMMANDS: [&str; 2] = ["cargo run --release -- compare", "cargo xtask test"];
/// Lines of the README that count as the first screen.
const FIRST_SCREEN: usize = 40;
const HAZARDS: &str = "docs/design/hazards.md";
const EXPECTED: [&str; 10] = [
    "README.md",
    "ARCHITECTURE.md",
    "STYLE.md",
    "GLOSSARY.md",
    "CHANGELOG.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "docs/use/cli.md",
    "docs/use/figures.md",
    HAZARDS,
];

/// Checks all Markdown files among `files`, and what the Rust files say about them.
pub fn check(root: &Path, files: &[String], sources: &[Source]) -> Result<Vec<Finding>> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    let mut findings: Vec<Finding> = sources
        .iter()
        .flat_map(|s| strange_pages(s, files))
        .collect();
    let hazards = read(HAZARDS).unwrap_or_default();
    findings.extend(sources.iter().flat_map(|s| strange_hazards(s, &hazards)));
    let manifests = files.iter().filter(|path| path.ends_with("Cargo.toml"));
    for path in manifests {
        let manifest = read(path).unwrap_or_default();
        if manifest.lines().any(|line| line == "doctest = false") {
            let of = sources.iter().filter(|s| belongs(&s.path, path));
            findings.extend(of.flat_map(examples));
        }
    }
    for path in files.iter().filter(|path| path.ends_with(".toml")) {
        let text = read(path).unwrap_or_default();
        findings.extend(strange_pages_of_toml(path, &text, files));
    }
    for path in files.iter().filter(|path| path.ends_with(".md")) {
        let text = read(path).ok_or(format!("cannot read {path}"))?;
        for (line, target) in links(&text) {
            if let Some(what) = dead(path, target, &text, &read) {
                findings.push(Finding::new(path, line, what));
            }
        }
    }
    for path in EXPECTED
        .iter()
        .filter(|path| !files.iter().any(|f| f == *path))
    {
        findings.push(Finding::new(path, 1, "D3: this file is missing"));
    }
    findings.extend(check_readme(&read("README.md").unwrap_or_default()));
    if !read("CHANGELOG.md")
        .unwrap_or_default()
        .contains("\n## Unreleased\n")
    {
        findings.push(Finding::new(
            "CHANGELOG.md",
            1,
            "D3: no section \"## Unreleased\"",
        ));
    }
    Ok(findings)
}

/// Whether a source file is compiled into the library of this manifest.
fn belongs(source: &str, manifest: &str) -> bool {
    let below = manifest.strip_suffix("Cargo.toml");
    let rest = below.and_then(|below| source.strip_prefix(below));
    rest.is_some_and(|rest| rest.starts_with("src/"))
}

/// Checks the examples of a library that are not run (D6).
fn examples(source: &Source) -> Vec<Finding> {
    let fence = |line: &str| {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or(line.strip_prefix("//!"));
        doc.is_some_and(|text| text.trim_start().starts_with("```"))
    };
    let lines = source.text.lines().enumerate();
    let fences = lines.filter(|(_, line)| fence(line)).step_by(2);
    let code = fences.filter(|(_, line)| !line.trim_end().ends_with("```text"));
    let what = "D6: nobody runs this example: make it a test, or take doctest = false out of the crate's manifest and name a suite that runs it";
    code.map(|(i, _)| Finding::new(&source.path, i + 1, what))
        .collect()
}

fn check_readme(text: &str) -> Vec<Finding> {
    let screen: Vec<&str> = text.lines().take(FIRST_SCREEN).collect();
    COMMANDS
        .iter()
        .filter(|command| !screen.iter().any(|line| line.trim() == **command))
        .map(|command| {
            Finding::new(
                "README.md",
                1,
                format!("D2: the first screen lacks `{command}`"),
            )
        })
        .collect()
}

/// Finds names of pages that do not exist (D4). Test code may name such pages.
fn strange_pages(source: &Source, files: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = source.text.lines().enumerate();
    for (i, line) in lines.filter(|(i, _)| !source.is_test(i + 1)) {
        let comment = line.split_once("//").map_or("", |(_, comment)| comment);
        let mut words: Vec<&str> = pages_of(comment).collect();
        words
            .extend(pages_of(line).filter(|word| is_page_of_docs(word) && !comment.contains(word)));
        for word in words {
            if !files.iter().any(|file| file.ends_with(word)) {
                let what = format!("D4: {word} is no page of this tree");
                findings.push(Finding::new(&source.path, i + 1, what));
            }
        }
    }
    findings
}

/// Finds names of pages in a TOML file that do not exist (D4).
fn strange_pages_of_toml(path: &str, text: &str, files: &[String]) -> Vec<Finding> {
    let lines = text.lines().enumerate();
    let words = lines.flat_map(|(i, line)| pages_of(line).map(move |word| (i + 1, word)));
    let strange = words.filter(|(_, word)| {
        is_page_of_docs(word) && !files.iter().any(|file| file.ends_with(word))
    });
    let what = |word: &str| format!("D4: {word} is no page of this tree");
    strange
        .map(|(line, word)| Finding::new(path, line, what(word)))
        .collect()
}

/// The words of a text that name a page.
fn pages_of(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
    text.split(move |c| !is_word(c))
        .map(|word| word.trim_end_matches('.').trim_start_matches("../"))
        .filter(|word| word.ends_with(".md"))
}

fn is_page_of_docs(word: &str) -> bool {
    word.starts_with("docs/")
}

/// Finds hazards without a row (D5).
fn strange_hazards(source: &Source, page: &str) -> Vec<Finding> {
    let known = |word: &str| {
        page.lines()
            .any(|row| row.starts_with(&format!("| {word} |")))
    };
    let mut findings = Vec::new();
    for (i, line) in source.text.lines().enumerate() {
        let comment = line.split_once("//").map_or("", |(_, comment)| comment);
        for word in comment.split(|c: char| !c.is_ascii_alphanumeric()) {
            let number = word.strip_prefix('H').unwrap_or_default();
            let is_hazard = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
            if is_hazard && !known(word) {
                let what = format!("D5: {HAZARDS} has no row {word}");
                findings.push(Finding::new(&source.path, i + 1, what));
            }
        }
    }
    findings
}

/// Inline links `[text](target)` outside code, with their lines.
pub fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut fenced = false;
    for (i, line) in text.lines().enumerate() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        for (at, _) in line.match_indices("](") {
            let target = &line[at + 2..];
            if let Some(end) = target.find(')') {
                links.push((i + 1, &target[..end]));
            }
        }
    }
    links
}

/// Why the link leads nowhere (D1); `None` if it leads somewhere.
fn dead(
    path: &str,
    target: &str,
    text: &str,
    read: &impl Fn(&str) -> Option<String>,
) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let there = if file.is_empty() {
        Some(text.to_string())
    } else {
        resolve(path, file).and_then(|full| read(&full))
    };
    match there {
        None => Some(format!("D1: link to {target} leads to no file")),
        Some(there) if anchor.is_empty() || headings(&there).any(|h| h == anchor) => None,
        Some(_) => Some(format!("D1: link to {target}: no heading #{anchor} there")),
    }
}

/// `file` as seen from the directory of `path`, relative to the root; `None` if it lies outside.
pub fn resolve(path: &str, file: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            ".." => {
                parts.pop()?;
            }
            "." => {}
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The anchors that a Markdown viewer makes of the headings.
fn headings(text: &str) -> impl Iterator<Item = String> {
    text.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            title
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(target: &str) -> Option<String> {
        let read = |path: &str| match path {
            "docs/b.md" => Some("# Title\n## The second, part\n".to_string()),
            "README.md" => Some(String::new()),
            _ => None,
        };
        dead("docs/a.md", target, "# Here\n", &read)
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        for good in [
            "b.md",
            "../README.md",
            "./b.md#the-second-part",
            "#here",
            "https://a.b/c",
        ] {
            assert_eq!(answer(good), None, "{good}");
        }
        for bad in ["c.md", "../docs/c.md", "../../b.md", "b.md#third", "#there"] {
            assert!(answer(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn links_are_found_outside_code_only() {
        let text = "see [a](x.md) and [b](y.md#z)\n```\n[c](no.md)\n```\n[d](w.md)\n";
        assert_eq!(links(text), [(1, "x.md"), (1, "y.md#z"), (5, "w.md")]);
    }

    #[test]
    fn pages_named_in_comments_exist() {
        let text = "//! See docs/a.md.\nfn f() {} // c.md 1.2\n";
        let source = Source::parse("crates/base/src/a.rs", text.to_string()).unwrap();
        let found = strange_pages(&source, &["docs/a.md".to_string()]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].what, "D4: c.md is no page of this tree");
    }

    #[test]
    fn pages_named_in_strings_and_settings_exist() {
        let files = ["docs/use/a.md".to_string()];
        let text = "//! Head.\nfn f() { g(\"docs/use/a.md, docs/b.md, c.md\") }\n";
        let source = Source::parse("crates/base/src/a.rs", text.to_string()).unwrap();
        let found = strange_pages(&source, &files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].what, "D4: docs/b.md is no page of this tree");
        let text = "# See docs/use/a.md.\n# docs/b.md has more\n";
        let found = strange_pages_of_toml("tests.toml", text, &files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].line, 2);
    }

    #[test]
    fn hazards_named_in_comments_have_a_row() {
        let row = |number: u32| format!("H{number}");
        let (known, unknown) = (row(2), row(3));
        let text = "/".repeat(2) + &format!(" Guards {known}, not {unknown} (HX).\nfn f() {{}}\n");
        let source = Source::parse("crates/base/src/a.rs", text).unwrap();
        let found = strange_hazards(
            &source,
            &format!("| no |\n|---|\n| {known} | what | guard |\n"),
        );
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            found[0].what,
            format!("D5: docs/design/hazards.md has no row {unknown}")
        );
    }

    #[test]
    fn examples_that_nobody_runs_are_found() {
        let text = "//! Head.\n//!\n//! ```\n//! f();\n//! ```\n//! ```text\n//! a -> b\n//! ```\nfn f() {} // ```\n";
        let source = Source::parse("crates/base/src/a.rs", text.to_string()).unwrap();
        let found = examples(&source);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].line, 3);
        assert!(belongs(&source.path, "crates/base/Cargo.toml"));
        assert!(!belongs(&source.path, "crates/block/Cargo.toml"));
        assert!(!belongs("crates/base/tests/a.rs", "crates/base/Cargo.toml"));
    }

    #[test]
    fn a_readme_without_the_commands_is_found() {
        assert_eq!(check_readme("# Varve\n").len(), 2);
        assert!(check_readme(&format!("x\n    {}\n    {}\n", COMMANDS[0], COMMANDS[1])).is_empty());
        let late = format!(
            "{}{}\n{}\n",
            "\n".repeat(FIRST_SCREEN),
            COMMANDS[0],
            COMMANDS[1]
        );
        assert_eq!(check_readme(&late).len(), 2);
    }
}
