//! House rules that neither rustc nor clippy checks. Limits are a ratchet: code that breaks one
//! today is listed in `tidy.toml`, and an entry that is no longer needed is itself a finding.
//!
//! - `size`: files and functions stay within their budget.
//! - `code`: no leftovers, no bare `unwrap`, `unsafe` and statics only where listed, a head on each
//!   file.
//! - `text`: ASCII in Rust files, the glossary's words, no notes to self.
//! - `columns`: comments are no wider than code.
//! - `labels`: each label of an invariant or a hazard that is cited is defined, once.
//! - `docs`: links lead somewhere, and what a newcomer needs is there.
//! - `book`: the pages of docs/ are in its table of contents, and results say when and how they
//!   were measured.

mod book;
mod code;
mod columns;
pub mod config;
mod docs;
mod labels;
mod size;
pub mod source;
mod text;

use crate::{Result, workspace};
use config::Config;
use labels::Text;
use source::Source;
use std::path::{Path, PathBuf};

/// A broken rule: where, and what to do about it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Finding {
        Finding {
            path: path.to_string(),
            line,
            what: what.into(),
        }
    }
}

/// Runs `cargo xtask tidy`.
pub fn run() -> Result {
    let root = workspace::root();
    let config = Config::parse(&workspace::read("tidy.toml")?)?;
    let files = files_below(&root)?;
    let mut findings = Vec::new();
    let mut sources = Vec::new();
    let mut pages = Vec::new();
    for path in &files {
        let Ok(text) = std::fs::read_to_string(root.join(path)) else {
            continue;
        };
        findings.extend(text::check(path, &text, &config));
        if path.ends_with(".rs") {
            match Source::parse(path, text) {
                Ok(source) => sources.push(source),
                Err(finding) => findings.push(finding),
            }
        } else if path.ends_with(".md") {
            pages.push((path, text));
        }
    }
    for source in &sources {
        findings.extend(code::check(source, &config));
        findings.extend(columns::check(source));
    }
    findings.extend(size::check(&sources, &config));
    let rust = sources.iter().map(|source| (&source.path, &source.text));
    let texts = rust.chain(pages.iter().map(|(path, text)| (*path, text)));
    let texts: Vec<Text<'_>> = texts.map(|(path, text)| Text { path, text }).collect();
    findings.extend(labels::check(&texts, &config));
    findings.extend(docs::check(&root, &files, &sources)?);
    findings.extend(book::check(&files, &read_below(&root)));
    report(findings, files.len())
}

/// Checks the rules on Markdown files alone, for `cargo xtask book`.
pub fn pages() -> Result {
    let root = workspace::root();
    let files = files_below(&root)?;
    let mut findings = docs::check(&root, &files, &[])?;
    findings.extend(book::check(&files, &read_below(&root)));
    report(findings, files.len())
}

fn read_below(root: &Path) -> impl Fn(&str) -> Option<String> {
    move |path: &str| std::fs::read_to_string(root.join(path)).ok()
}

fn report(mut findings: Vec<Finding>, files: usize) -> Result {
    findings.sort();
    if findings.is_empty() {
        println!("tidy: {files} files clean");
        return Ok(());
    }
    for finding in &findings {
        println!("{}:{}: {}", finding.path, finding.line, finding.what);
    }
    Err(format!("tidy: {} findings", findings.len()))
}

/// All files of the tree as relative paths, sorted, without build output and hidden directories.
fn files_below(root: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        let entries = std::fs::read_dir(root.join(&directory))
            .map_err(|e| format!("cannot list {}: {e}", directory.display()))?;
        for entry in entries {
            let entry = entry.map_err(|e| format!("cannot list {}: {e}", directory.display()))?;
            let kind = entry.file_type().map_err(|e| e.to_string())?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = directory.join(&name);
            if kind.is_dir() && !name.starts_with('.') && !OUTPUT.contains(&name.as_str()) {
                directories.push(path);
            } else if kind.is_file() {
                files.push(path.to_string_lossy().into_owned());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Directories that a build or a run leaves behind.
const OUTPUT: [&str; 2] = ["target", "varve-report"];

#[cfg(test)]
mod tests {
    #[test]
    fn the_tree_is_tidy() {
        super::run().unwrap();
    }
}
