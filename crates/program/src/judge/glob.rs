//! Which files of a tree a judge looks at.

use super::files::all_files;
use crate::tree::{NodeId, Tree};
use glob::{MatchOptions, Pattern};
use std::collections::BTreeMap;
use std::fmt;

/// A pattern for paths: `*` stands for any part of a name, `**` for any directories.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Paths(Pattern);

impl fmt::Display for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl Paths {
    /// Reads a pattern.
    ///
    /// # Errors
    /// It is none; the message says why.
    pub fn parse(text: &str) -> Result<Paths, String> {
        if text.is_empty() {
            return Err("a pattern of files is missing behind `:` or `=`".into());
        }
        let pattern = Pattern::new(text.trim_start_matches("./").trim_start_matches('/'));
        pattern.map(Paths).map_err(|e| format!("{text}: {e}"))
    }

    /// The files of a tree that it means, by path.
    pub fn files(&self, tree: &Tree) -> BTreeMap<Vec<u8>, NodeId> {
        let options = MatchOptions {
            require_literal_separator: true,
            ..MatchOptions::default()
        };
        let mut files = all_files(tree);
        files.retain(|path, _| {
            let path = String::from_utf8_lossy(path);
            self.0.matches_with(&path, options)
        });
        files
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::tree_of;
    use super::*;

    #[test]
    fn patterns_choose_files() {
        let tree = tree_of(&[("a.json", b""), ("d/b.json", b""), ("d/e/c.json", b"")]);
        let count = |text: &str| Paths::parse(text).unwrap().files(&tree).len();
        assert_eq!(count("*.json"), 1);
        assert_eq!(count("**/*.json"), 3);
        assert_eq!(count("/d/*.json"), 1);
        assert_eq!(count("d/**/?.json"), 2);
        assert_eq!(count("d"), 0, "a directory is no file");
        assert!(Paths::parse("a/***").is_err());
    }
}
