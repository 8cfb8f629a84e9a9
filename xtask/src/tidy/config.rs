//! `tidy.toml`: budgets, and the exceptions to the rules. The lists may only become shorter.

use crate::Result;
use serde::Deserialize;

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Production lines a file may have.
    pub file_lines: usize,
    /// Lines a function may have, from its signature to its closing brace.
    pub function_lines: usize,
    /// Files that a circle of files may have (`cargo xtask layers`).
    pub circle_files: usize,
    /// Crates (directories below `crates/`) that may use `unsafe`.
    pub unsafe_crates: Vec<String>,
    /// Crates that may hold a static with state.
    pub static_crates: Vec<String>,
    /// Files above the budget.
    #[serde(default)]
    pub file: Vec<FileException>,
    /// Functions above the budget.
    #[serde(default)]
    pub function: Vec<FunctionException>,
    /// Words that we do not use, with what we say instead.
    #[serde(default)]
    pub word: Vec<Word>,
    /// Words that look like labels and are none.
    #[serde(default)]
    pub not_label: Vec<NotLabel>,
}

/// Words of a letter and a number that have a meaning of their own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotLabel {
    /// The words.
    pub words: Vec<String>,
    /// Files and directories where they may stand.
    pub below: Vec<String>,
    /// What they mean there.
    pub reason: String,
}

/// A file above the budget.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileException {
    /// Its path, relative to the root.
    pub path: String,
    /// Lines it has; it may not grow beyond.
    pub lines: usize,
    /// Why it cannot be split.
    pub reason: String,
}

/// A function above the budget.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionException {
    /// File, relative to the root.
    pub path: String,
    /// Name of the function.
    pub name: String,
    /// Lines it has; it may not grow beyond.
    pub lines: usize,
    /// Why it cannot be split.
    pub reason: String,
}

/// A banned synonym.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Word {
    /// The synonym, lower case, matched as a whole word in any case.
    pub not: String,
    /// The word of the glossary.
    pub say: String,
}

impl Config {
    /// Parses `tidy.toml`; an exception without a reason is refused.
    pub fn parse(text: &str) -> Result<Config> {
        let config: Config = toml::from_str(text).map_err(|e| format!("tidy.toml: {e}"))?;
        let files = config.file.iter().map(|e| (&e.path, &e.reason));
        let functions = config.function.iter().map(|e| (&e.path, &e.reason));
        for (path, reason) in files.chain(functions) {
            if reason.trim().is_empty() {
                return Err(format!("tidy.toml: the exception for {path} has no reason"));
            }
        }
        for entry in &config.not_label {
            if entry.reason.trim().is_empty() {
                let words = entry.words.join(", ");
                return Err(format!(
                    "tidy.toml: {words}: no reason why this is no label"
                ));
            }
        }
        Ok(config)
    }
}

#[cfg(test)]
pub const SMALL: &str = "\
file_lines = 5
function_lines = 3
circle_files = 2
unsafe_crates = [\"rt\"]
static_crates = [\"rt\"]
[[word]]
not = \"oldword\"
say = \"newword\"
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_needs_a_reason() {
        let entry = "[[file]]\npath = \"a.rs\"\nlines = 9\nreason = \" \"\n";
        assert!(Config::parse(&format!("{SMALL}{entry}")).is_err());
        let entry = "[[not_label]]\nwords = [\"x\"]\nbelow = [\"a.rs\"]\nreason = \" \"\n";
        assert!(Config::parse(&format!("{SMALL}{entry}")).is_err());
        assert!(Config::parse(SMALL).is_ok());
    }
}
