//! Judges that look at the tree itself, without a folder: files that parse, a file that is wholly
//! old or wholly new, a log that is a prefix.
//!
//! What a file may be is taken from the recording. The versions of a path are what it led to
//! (content, or nothing)
//!
//! - before the program ran, and when it had ended;
//! - right behind each call that led the path elsewhere: a rename, a link, an unlink. Creating
//!   an empty file is none, as nobody means it;
//! - at each sync of the file and at each acknowledgement, because the program calls its work
//!   done there.
//!
//! A state that has none of them has half of a change. What had been acknowledged must not be older
//! than the version at the last acknowledgement.

use super::glob::Paths;
use crate::apply::apply;
use crate::call::{Recording, What};
use crate::state::{Judge, JudgeError, Verdict};
use crate::tree::{Kind, NodeId, Tree};
use std::collections::BTreeMap;

/// A language that files are written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// JSON.
    Json,
    /// TOML.
    Toml,
    /// CSV: as many fields in each record.
    Csv,
}

impl Language {
    /// The language of this name, which is also how names of its files end.
    pub fn named(name: &str) -> Option<Language> {
        match name {
            "json" => Some(Language::Json),
            "toml" => Some(Language::Toml),
            "csv" => Some(Language::Csv),
            _ => None,
        }
    }

    /// Why these bytes are no text of the language.
    fn fault(self, content: &[u8]) -> Option<String> {
        match self {
            Language::Json => serde_json::from_slice::<serde::de::IgnoredAny>(content)
                .err()
                .map(|e| e.to_string()),
            Language::Toml => match std::str::from_utf8(content) {
                Ok(text) => toml::from_str::<toml::Table>(text)
                    .err()
                    .map(|e| e.message().to_string()),
                Err(e) => Some(e.to_string()),
            },
            Language::Csv if content.contains(&0) => Some("it holds bytes of zero".into()),
            Language::Csv => csv::Reader::from_reader(content)
                .into_records()
                .find_map(|record| record.err().map(|e| e.to_string())),
        }
    }
}

/// Every file of these paths parses.
pub struct Parse {
    /// The language.
    pub language: Language,
    /// Which files.
    pub paths: Paths,
}

impl Judge for Parse {
    fn judge(&mut self, tree: &Tree, _: &[&str]) -> Result<Verdict, JudgeError> {
        let mut bad = None;
        for (path, id) in self.paths.files(tree) {
            let content = tree.node(id).map(|node| node.content()).unwrap_or_default();
            if let Some(why) = self.language.fault(&content) {
                bad.get_or_insert_with(|| {
                    let (path, size) = (String::from_utf8_lossy(&path).into_owned(), content.len());
                    format!("{path} ({size} bytes) does not parse: {why}")
                });
            }
        }
        Ok(bad.map_or(Verdict::Good, Verdict::Bad))
    }
}

/// What a path led to at a moment: content, or nothing that is a file.
type Content = Option<Vec<u8>>;

/// The versions of a path in a recording.
#[derive(Clone)]
pub struct Versions {
    path: String,
    all: Vec<Content>,
    /// Index of the version at each acknowledgement, and before the first one.
    at_ack: Vec<usize>,
}

impl Versions {
    /// Reads them from a recording.
    pub fn new(recording: &Recording, path: &str) -> Versions {
        let mut tree = recording.start.clone();
        let mut versions = Versions {
            path: path.into(),
            all: vec![content(&tree, path)],
            at_ack: vec![0],
        };
        for call in &recording.calls {
            let before = tree.find(path.as_bytes());
            apply(&mut tree, &call.what);
            let now = tree.find(path.as_bytes());
            let counts = match &call.what {
                What::Create { .. } => false,
                What::Acknowledge(_) | What::SyncAll => true,
                What::Sync { node, failed, .. } => failed.is_none() && now == Some(*node),
                _ => before != now,
            };
            if counts {
                versions.add(&tree);
            }
            if matches!(call.what, What::Acknowledge(_)) {
                versions.at_ack.push(versions.all.len() - 1);
            }
        }
        versions.add(&tree);
        versions
    }

    fn add(&mut self, tree: &Tree) {
        let now = content(tree, &self.path);
        if self.all.last() != Some(&now) {
            self.all.push(now);
        }
    }

    /// The versions that may be left when so many acknowledgements had been given.
    fn since(&self, acknowledged: usize) -> &[Content] {
        let last = self.at_ack.len() - 1;
        &self.all[self.at_ack[acknowledged.min(last)]..]
    }
}

fn content(tree: &Tree, path: &str) -> Content {
    let node = tree.node(tree.find(path.as_bytes())?)?;
    (node.kind == Kind::File).then(|| node.content())
}

/// A file is wholly one of its versions.
pub struct SameOrOld(pub Versions);

impl Judge for SameOrOld {
    fn judge(&mut self, tree: &Tree, acknowledged: &[&str]) -> Result<Verdict, JudgeError> {
        let versions = &self.0;
        let now = content(tree, &versions.path);
        if versions.since(acknowledged.len()).contains(&now) {
            return Ok(Verdict::Good);
        }
        let (path, told) = (&versions.path, told(&now));
        Ok(Verdict::Bad(match versions.all.contains(&now) {
            true => format!(
                "{path} {told}, a version older than what was acknowledged: that of acknowledgement {}",
                acknowledged.len()
            ),
            false => format!("{path} {told}, which is none of its versions, neither old nor new"),
        }))
    }
}

/// A log holds a prefix of what was written to it, and all that was acknowledged.
pub struct Prefix(pub Versions);

impl Judge for Prefix {
    fn judge(&mut self, tree: &Tree, acknowledged: &[&str]) -> Result<Verdict, JudgeError> {
        let versions = &self.0;
        let now = content(tree, &versions.path);
        let have = now.as_deref().unwrap_or_default();
        let allowed = versions.since(acknowledged.len());
        let promised = allowed[0].as_deref().unwrap_or_default();
        let mut prefix = false;
        for version in allowed {
            let version = version.as_deref().unwrap_or_default();
            if version.starts_with(have) {
                prefix = true;
                // A log that was begun anew does not hold what the former one promised.
                if have.starts_with(promised) || !version.starts_with(promised) {
                    return Ok(Verdict::Good);
                }
            }
        }
        let (path, told) = (&versions.path, told(&now));
        let (count, bytes) = (acknowledged.len(), promised.len());
        let differs = || {
            let longest = allowed.iter().flatten().max_by_key(|version| version.len());
            let longest = longest.map_or(&[][..], |version| version);
            have.iter().zip(longest).take_while(|(a, b)| a == b).count()
        };
        Ok(Verdict::Bad(match prefix {
            true => format!(
                "{path} {told}, but {bytes} bytes were there at the last of {count} acknowledgements"
            ),
            false => format!(
                "{path} {told}, which is no prefix of what was written: it differs from byte {} on",
                differs()
            ),
        }))
    }
}

fn told(content: &Content) -> String {
    match content {
        None => "is not there".into(),
        Some(content) if content.is_empty() => "is empty".into(),
        Some(content) => {
            let zeros = content.iter().filter(|&&byte| byte == 0).count();
            format!("has {} bytes, {zeros} of them zeros", content.len())
        }
    }
}

/// The files of a tree by path, without what is no file.
pub fn all_files(tree: &Tree) -> BTreeMap<Vec<u8>, NodeId> {
    let mut files = BTreeMap::new();
    tree.walk(&mut |path, id, node| {
        if node.kind == Kind::File {
            files.insert(path.to_vec(), id);
        }
    });
    files
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Tape, tree_of};
    use super::*;

    fn bad(judge: &mut dyn Judge, tree: &Tree, acknowledged: &[&str]) -> Option<String> {
        match judge.judge(tree, acknowledged).unwrap() {
            Verdict::Good => None,
            Verdict::Bad(why) => Some(why),
        }
    }

    #[test]
    fn files_parse_or_are_named() {
        let check = |spec: &str, path: &str, content: &[u8]| {
            let env = super::super::tests::Env::new();
            bad(&mut *env.judge(spec), &tree_of(&[(path, content)]), &[])
        };
        for (language, good, wrong) in [
            ("json", "{\"a\": [1]}", "{\"a\": [1"),
            ("toml", "a = 1\n", "a = \n"),
            ("csv", "a,b\n1,2\n", "a,b\n1\n"),
            ("csv", "a,b\n1,2\n", "a,b\n1,\0\n"),
            ("json", "1", ""),
        ] {
            let (spec, name) = (format!("parse={language}"), format!("x.{language}"));
            assert_eq!(check(&spec, &name, good.as_bytes()), None, "{spec}");
            let why = check(&spec, &name, wrong.as_bytes()).expect(&spec);
            assert!(why.starts_with(&format!("{name} (")), "{why}");
            assert_eq!(check(&spec, "other", wrong.as_bytes()), None);
            let spec = format!("{spec}:oth*");
            assert!(check(&spec, "other", wrong.as_bytes()).is_some(), "{spec}");
        }
    }

    #[test]
    fn versions_are_what_a_program_means_to_have() {
        let mut tape = Tape::with(&[("f", b"old")]);
        tape.create("f.tmp", b"new!");
        tape.ack("nothing yet");
        tape.rename("f.tmp", "f");
        tape.ack("new");
        let versions = Versions::new(&tape.recording, "f");
        assert_eq!(
            versions.all,
            [Some(b"old".to_vec()), Some(b"new!".to_vec())]
        );
        assert_eq!(versions.at_ack, [0, 0, 1]);
        let mut judge = SameOrOld(versions);
        let (old, new) = (tree_of(&[("f", b"old")]), tree_of(&[("f", b"new!")]));
        for tree in [&old, &new] {
            assert_eq!(bad(&mut judge, tree, &["nothing yet"]), None);
        }
        assert_eq!(bad(&mut judge, &new, &["", ""]), None);
        let why = bad(&mut judge, &old, &["", ""]).expect("lost");
        assert!(why.contains("older than what was acknowledged"), "{why}");
        for half in [&b"ne\0\0"[..], b""] {
            let why = bad(&mut judge, &tree_of(&[("f", half)]), &[]).expect("half");
            assert!(why.contains("neither old nor new"), "{why}");
        }
        assert!(bad(&mut judge, &Tree::default(), &[]).is_some());
    }

    #[test]
    fn what_is_written_in_place_counts_at_syncs_and_at_the_end() {
        let mut tape = Tape::with(&[("f", b"old")]);
        tape.truncate("f", 0);
        tape.write("f", 0, b"a");
        tape.write("f", 1, b"b");
        tape.sync("f");
        tape.write("f", 2, b"c");
        let versions = Versions::new(&tape.recording, "f");
        let all = [&b"old"[..], b"ab", b"abc"].map(|content| Some(content.to_vec()));
        assert_eq!(versions.all, all);
        // Making it is no version, having it is.
        let mut made = Tape::with(&[]);
        made.create("f", b"");
        made.write("f", 0, b"x");
        let versions = Versions::new(&made.recording, "f");
        assert_eq!(versions.all, [None, Some(b"x".to_vec())]);
    }

    #[test]
    fn a_log_is_a_prefix_and_holds_what_was_acknowledged() {
        let mut tape = Tape::with(&[]);
        tape.create("log", b"");
        tape.write("log", 0, b"one\n");
        tape.ack("one");
        tape.write("log", 4, b"two\n");
        let mut judge = Prefix(Versions::new(&tape.recording, "log"));
        let mut check =
            |content: &[u8], acked: &[&str]| bad(&mut judge, &tree_of(&[("log", content)]), acked);
        for (content, acked) in [(&b""[..], 0), (b"on", 0), (b"one\n", 1), (b"one\ntw", 1)] {
            assert_eq!(check(content, &["one"][..acked]), None, "{content:?}");
        }
        let why = check(b"on", &["one"]).expect("lost");
        assert!(why.contains("4 bytes were there"), "{why}");
        let why = check(b"one\n\0\0\0\0", &["one"]).expect("zeros");
        assert!(why.contains("from byte 4 on"), "{why}");
        assert!(check(b"one\ntwo\nmore", &["one"]).is_some());
        assert_eq!(bad(&mut judge, &Tree::default(), &[]), None);
        assert!(bad(&mut judge, &Tree::default(), &["one"]).is_some());
    }

    #[test]
    fn a_log_that_is_begun_anew_owes_nothing_of_the_former() {
        let mut tape = Tape::with(&[("log", b"first\n")]);
        tape.ack("first");
        tape.create("log.new", b"second\n");
        tape.rename("log.new", "log");
        let mut judge = Prefix(Versions::new(&tape.recording, "log"));
        let new = tree_of(&[("log", b"second\n")]);
        assert_eq!(bad(&mut judge, &new, &["first"]), None);
        assert!(bad(&mut judge, &tree_of(&[("log", b"fir")]), &["first"]).is_some());
    }
}
