//! Labels of invariants and hazards: each one that is cited is defined, once, and each one that is
//! defined is cited, because an argument that cannot be followed is none.
//!
//! A label is a letter and a number. The head of a file defines it as an item of a list (a line of
//! `//!` that begins with `- ` and the label), hazards.md as a row. In that file it stands
//! bare; everywhere else its home stands before it, joined by a hyphen: see [`homes`].
//!
//! - B1: a label in a comment, in a string or on a page names exactly one definition. Words between
//!   backticks are code, and are not looked at.
//! - B2: a file defines a label once.
//! - B3: a label that is defined is cited somewhere, if only in its own file. A sentence that
//!   nobody refers to needs no number.
//! - B4: a word that looks like a label and is none is listed in tidy.toml with the paths where it
//!   stands. An entry that is no longer needed has to go.

mod homes;
mod prose;
#[cfg(test)]
mod tests;

use super::Finding;
use super::config::Config;
use homes::Homes;
use prose::{Cited, Line};
use std::collections::BTreeMap;

/// Most homes that a finding names.
const NAMES_MAX: usize = 4;

/// A file with its text.
pub struct Text<'a> {
    /// Relative to the root.
    pub path: &'a str,
    /// Its content.
    pub text: &'a str,
}

/// Where a label is defined.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Definition<'a> {
    path: &'a str,
    label: &'a str,
}

/// Checks all files at once, because a label may be defined in any of them.
pub fn check(texts: &[Text<'_>], config: &Config) -> Vec<Finding> {
    let read = |text: &Text<'_>| prose::lines(text.path, text.text);
    let files: Vec<(&str, Vec<Line>)> = texts.iter().map(|t| (t.path, read(t))).collect();
    let mut check = Check {
        config,
        homes: Homes::new(texts.iter().map(|t| t.path)),
        defined: BTreeMap::new(),
        cited: BTreeMap::new(),
        listed: config.not_label.iter().map(|_| Vec::new()).collect(),
        findings: Vec::new(),
    };
    for (path, lines) in &files {
        check.define(path, lines);
    }
    for (path, lines) in &files {
        check.cite(path, lines);
    }
    check.unused();
    check.stale();
    check.findings
}

struct Check<'a> {
    config: &'a Config,
    homes: Homes,
    /// Lines that define a label.
    defined: BTreeMap<Definition<'a>, Vec<usize>>,
    /// How often each definition is cited.
    cited: BTreeMap<Definition<'a>, usize>,
    /// For each entry of words that are no labels, those that were met.
    listed: Vec<Vec<&'a str>>,
    findings: Vec<Finding>,
}

impl<'a> Check<'a> {
    /// Notes the definitions of a file, and finds double ones (B2).
    fn define(&mut self, path: &'a str, lines: &'a [Line]) {
        for line in lines {
            let Some(label) = line.defines(path) else {
                continue;
            };
            let lines = self.defined.entry(Definition { path, label }).or_default();
            lines.push(line.number);
            if lines.len() == 1 {
                continue;
            }
            let what = format!("B2: {label} is defined in line {} already", lines[0]);
            self.findings.push(Finding::new(path, line.number, what));
        }
        for definition in self.defined.keys().filter(|d| d.path == path) {
            self.homes.add(definition.path, definition.label);
        }
    }

    /// Resolves each label of a file (B1).
    fn cite(&mut self, path: &'a str, lines: &'a [Line]) {
        for line in lines {
            let own = line.defines(path);
            for (n, cited) in line.cited().iter().enumerate() {
                let is_definition =
                    n == 0 && own == Some(cited.label.as_str()) && cited.home.is_empty();
                if is_definition || self.is_listed(path, cited) {
                    continue;
                }
                match self.resolve(path, cited) {
                    Ok(definition) => *self.cited.entry(definition).or_default() += 1,
                    Err(why) => {
                        let what = format!("B1: {cited}: {why}");
                        self.findings.push(Finding::new(path, line.number, what));
                    }
                }
            }
        }
    }

    /// The definition that is meant, or what was expected instead.
    fn resolve(&self, path: &str, cited: &Cited<'_>) -> Result<Definition<'a>, String> {
        let label = cited.label.as_str();
        let meant = match cited.home.is_empty() {
            true => path,
            false => match self.homes.named(cited.home, label) {
                [] => return Err(self.expected(path, label)),
                [one] => one,
                several => {
                    let several = several.join(" and ");
                    let names = self.names(path, label);
                    return Err(format!("defined by {several}; write {names}"));
                }
            },
        };
        let mut known = self.defined.keys();
        let found = known.find(|d| d.path == meant && d.label == label);
        found.copied().ok_or_else(|| self.expected(path, label))
    }

    fn expected(&self, path: &str, label: &str) -> String {
        match self.names(path, label) {
            names if names.is_empty() => format!("no file defines {label}"),
            names => format!("this file does not define {label}; write {names}"),
        }
    }

    /// How the definitions of a label are cited from a file: those of its own crate if there are
    /// any, otherwise a few of all.
    fn names(&self, path: &str, label: &str) -> String {
        let all: Vec<_> = self.defined.keys().filter(|d| d.label == label).collect();
        let near = all
            .iter()
            .filter(|d| homes::crate_of(d.path) == homes::crate_of(path));
        let near: Vec<_> = near.copied().collect();
        let chosen = if near.is_empty() { &all } else { &near };
        let name = |d: &&Definition<'_>| format!("{}-{label}", self.homes.name(d.path, label));
        let names: Vec<String> = chosen.iter().take(NAMES_MAX).map(name).collect();
        let others = match all.len() - names.len() {
            0 => String::new(),
            n => format!(", or that of one of {n} other files"),
        };
        names.join(" or ") + &others
    }

    /// Finds labels that are defined and not cited (B3).
    fn unused(&mut self) {
        for (definition, lines) in &self.defined {
            let Definition { path, label } = *definition;
            if self.cited.contains_key(definition) {
                continue;
            }
            let name = self.homes.name(path, label);
            let what = format!(
                "B3: nobody cites {label}; name it where it is guarded ({name}-{label}), \
                 or take the number off"
            );
            self.findings.push(Finding::new(path, lines[0], what));
        }
    }

    /// Finds entries of the list that are no longer needed (B4).
    fn stale(&mut self) {
        const LIST: &str = "tidy.toml";
        for (entry, met) in self.config.not_label.iter().zip(&self.listed) {
            for word in entry.words.iter().filter(|w| !met.contains(&w.as_str())) {
                let what = format!("B4: {word} stands nowhere below {}", entry.below.join(", "));
                self.findings.push(Finding::new(LIST, 1, what));
            }
        }
    }

    /// Whether the word is listed as none of our labels here; notes that it was met.
    fn is_listed(&mut self, path: &str, cited: &Cited<'_>) -> bool {
        if !cited.home.is_empty() {
            return false;
        }
        for (entry, met) in self.config.not_label.iter().zip(&mut self.listed) {
            let word = entry.words.iter().find(|word| **word == cited.label);
            if let Some(word) = word
                && entry.below.iter().any(|below| is_below(path, below))
            {
                met.push(word);
                return true;
            }
        }
        false
    }
}

fn is_below(path: &str, directory: &str) -> bool {
    let rest = path.strip_prefix(directory);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
