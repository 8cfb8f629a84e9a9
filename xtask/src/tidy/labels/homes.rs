//! The names by which a label of another file is cited, so that every citation names one file.
//!
//! The name of a file is its stem; that of `mod.rs` or `main.rs` is the folder's, that of `lib.rs`
//! the crate's. If two files of one name define the same label, the crate's name goes before it,
//! and if that is not enough the folder's goes between them: `track-`, `f2fs-commit-`,
//! `f2fs-journal-recover-`. The name of a crate alone means its `lib.rs`, so a folder `journal` of
//! the crate `f2fs` is `f2fs-journal-`.

use std::collections::{BTreeMap, BTreeSet};

/// The directory below `crates/` that a file belongs to, or the first directory of its path.
pub fn crate_of(path: &str) -> &str {
    let below = path.strip_prefix("crates/").unwrap_or(path);
    below.split('/').next().unwrap_or(below)
}

/// The files that each name may mean.
pub struct Homes {
    crates: BTreeSet<String>,
    /// Name and label, with the paths of the files that define it.
    named: BTreeMap<(String, String), Vec<String>>,
}

impl Homes {
    /// Takes the paths of all files, from which the names of the crates are known.
    pub fn new<'a>(paths: impl Iterator<Item = &'a str>) -> Homes {
        let below = paths.filter(|path| path.starts_with("crates/"));
        Homes {
            crates: below.map(|path| crate_of(path).to_string()).collect(),
            named: BTreeMap::new(),
        }
    }

    /// Notes that the file defines the label.
    pub fn add(&mut self, path: &str, label: &str) {
        for name in self.forms(path) {
            let paths = self.named.entry((name, label.to_string())).or_default();
            paths.push(path.to_string());
        }
    }

    /// The files that define the label and may be called by this name.
    pub fn named(&self, name: &str, label: &str) -> &[String] {
        let key = (name.to_string(), label.to_string());
        self.named.get(&key).map_or(&[], Vec::as_slice)
    }

    /// The shortest name that means only this file for this label.
    pub fn name(&self, path: &str, label: &str) -> String {
        let forms = self.forms(path);
        let unique = forms.iter().find(|name| self.named(name, label).len() == 1);
        unique.or(forms.last()).cloned().unwrap_or_default()
    }

    /// All names of a file, the shortest first.
    fn forms(&self, path: &str) -> Vec<String> {
        let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
        let mut parts: Vec<&str> = stem.split('/').filter(|part| *part != "src").collect();
        let Some(mut name) = parts.pop() else {
            return Vec::new();
        };
        let is_library = name == "lib";
        if matches!(name, "mod" | "lib" | "main") {
            name = parts.pop().unwrap_or(name);
        }
        let of_crate = crate_of(path);
        let is_page = path.ends_with(".md");
        if is_page || is_library || parts.is_empty() {
            return vec![name.to_string()];
        }
        let folder = parts.last().copied();
        let folder = folder.filter(|f| *f != of_crate && *f != "crates");
        let mut forms = Vec::new();
        if !self.crates.contains(name) {
            forms.push(name.to_string());
        }
        forms.push(format!("{of_crate}-{name}"));
        forms.extend(folder.map(|folder| format!("{of_crate}-{folder}-{name}")));
        forms
    }
}
