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
//! Of a write that failed, its file lacks a part of what the program meant, so what it holds is no
//! version until the write is made good.
//!
//! A state that has none of them has half of a change. One with so many acknowledgements has none
//! that is older than the version at the last of them, and none that is newer than the version at
//! the next one: no call behind that had begun. A later version may be equal to an older one, so
//! both ends are needed.

use super::content::Content;
use super::glob::Paths;
use super::holes::Holes;
use crate::apply::apply;
use crate::call::{Recording, What};
use crate::state::{Judge, JudgeError, Verdict};
use crate::tree::{Kind, NodeId, Tree};
use base::plain::shown;
use std::collections::BTreeMap;
use std::io::Read;

/// Largest file that is parsed, bytes: all of it is in memory then, for each judge at work.
const PARSED_MAX: u64 = 256 << 20;

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
    /// The language of this name.
    pub fn named(name: &str) -> Option<Language> {
        let all = [Language::Json, Language::Toml, Language::Csv];
        all.into_iter().find(|language| language.name() == name)
    }

    /// Its name, which is also how names of its files end.
    pub fn name(self) -> &'static str {
        match self {
            Language::Json => "json",
            Language::Toml => "toml",
            Language::Csv => "csv",
        }
    }

    /// All files of the language, by their names.
    pub fn paths(self) -> Paths {
        Paths::parse(&format!("**/*.{}", self.name())).expect("a pattern")
    }

    /// Why these bytes are no text of the language.
    fn fault(self, content: &[u8]) -> Option<String> {
        match self {
            // The parser does not look into strings that nobody takes.
            Language::Json => match std::str::from_utf8(content) {
                Ok(text) => serde_json::from_str::<serde::de::IgnoredAny>(text)
                    .err()
                    .map(|e| e.to_string()),
                Err(e) => Some(e.to_string()),
            },
            Language::Toml => match std::str::from_utf8(content) {
                Ok(text) => toml::from_str::<toml::Table>(text)
                    .err()
                    .map(|e| e.message().to_string()),
                Err(e) => Some(e.to_string()),
            },
            Language::Csv if content.contains(&0) => Some("it holds bytes of zero".into()),
            Language::Csv => csv::Reader::from_reader(content)
                .into_records()
                .find_map(|record| record.err().map(|e| e.to_string()))
                .or_else(|| ends_in_quotes(content).then(|| "a quoted field has no end".into())),
        }
    }
}

/// Whether CSV ends inside of a quoted field: then a line behind it is no record of its own.
fn ends_in_quotes(content: &[u8]) -> bool {
    const LINE: &[u8] = b"\nbehind\n";
    let records = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(content.chain(LINE))
        .into_byte_records();
    let last = records.last().and_then(Result::ok);
    last.is_none_or(|record| record != vec!["behind"])
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
            let Some(node) = tree.node(id) else { continue };
            if node.size > PARSED_MAX {
                return Err(self.too_large(&path, node.size));
            }
            let content = node.content();
            if let Some(why) = self.language.fault(&content) {
                bad.get_or_insert_with(|| {
                    let (path, size) = (shown(&path), content.len());
                    format!("{path} ({size} bytes) does not parse: {why}")
                });
            }
        }
        Ok(bad.map_or(Verdict::Good, Verdict::Bad))
    }
}

impl Parse {
    fn too_large(&self, path: &[u8], size: u64) -> JudgeError {
        let (path, language) = (shown(path), self.language.name());
        let most = PARSED_MAX >> 20;
        JudgeError(format!(
            "{path} has {size} bytes, and files of at most {most} MiB are parsed: choose others with parse={language}:GLOB"
        ))
    }
}

/// What a path led to at a moment: content, or nothing that is a file.
type Version = Option<Content>;

/// The versions of a path in a recording.
#[derive(Clone)]
pub struct Versions {
    path: String,
    all: Vec<Version>,
    /// Index of the version at each acknowledgement, and before the first one.
    at_ack: Vec<usize>,
}

impl Versions {
    /// Reads them from a recording.
    pub fn new(recording: &Recording, path: &str) -> Versions {
        Versions::read(recording, path, true)
    }

    /// Those of a log: an entry whose write failed is none of it, and makes nothing else wrong.
    pub fn of_log(recording: &Recording, path: &str) -> Versions {
        Versions::read(recording, path, false)
    }

    fn read(recording: &Recording, path: &str, whole: bool) -> Versions {
        let mut tree = recording.start.clone();
        let mut holes = Holes::default();
        let mut versions = Versions {
            path: path.into(),
            all: vec![content(&tree, path)],
            at_ack: vec![0],
        };
        for call in &recording.calls {
            let before = tree.find(path.as_bytes());
            apply(&mut tree, &call.what);
            if whole {
                holes.follow(&call.what);
            }
            let now = tree.find(path.as_bytes());
            let counts = match &call.what {
                What::Create { .. } => false,
                What::Acknowledge(_) | What::SyncAll => true,
                What::Sync { node, failed, .. } => failed.is_none() && now == Some(*node),
                _ => before != now,
            };
            if counts && !holes.are_in(now) {
                versions.add(&tree);
            }
            if matches!(call.what, What::Acknowledge(_)) {
                versions.at_ack.push(versions.all.len() - 1);
            }
        }
        if !holes.are_in(tree.find(path.as_bytes())) {
            versions.add(&tree);
        }
        versions
    }

    fn add(&mut self, tree: &Tree) {
        let now = content(tree, &self.path);
        if self.all.last() != Some(&now) {
            self.all.push(now);
        }
    }

    /// The versions that may be left when so many acknowledgements had been given and the next one
    /// had not.
    fn between(&self, acknowledged: usize) -> &[Version] {
        let end = |given: usize| self.at_ack.get(given).copied();
        let last = self.all.len() - 1;
        let first = end(acknowledged).unwrap_or(self.at_ack[self.at_ack.len() - 1]);
        &self.all[first..=end(acknowledged + 1).unwrap_or(last)]
    }

    /// Whether one of the versions before the last acknowledgement is this one.
    fn had(&self, acknowledged: usize, content: &Version) -> bool {
        let first = self.at_ack.get(acknowledged).copied();
        self.all[..first.unwrap_or(self.all.len())].contains(content)
    }
}

fn content(tree: &Tree, path: &str) -> Version {
    let node = tree.node(tree.find(path.as_bytes())?)?;
    (node.kind == Kind::File).then(|| Content::of(node))
}

/// A file is wholly one of its versions.
pub struct SameOrOld(pub Versions);

impl Judge for SameOrOld {
    fn judge(&mut self, tree: &Tree, acknowledged: &[&str]) -> Result<Verdict, JudgeError> {
        let versions = &self.0;
        let now = content(tree, &versions.path);
        if versions.between(acknowledged.len()).contains(&now) {
            return Ok(Verdict::Good);
        }
        let (path, told) = (&versions.path, told(&now));
        Ok(Verdict::Bad(match versions.had(acknowledged.len(), &now) {
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
        // As a log, a file that is not there is an empty one.
        let log = |version: &Version| version.clone().unwrap_or_default();
        let have = log(&now);
        let allowed: Vec<Content> = versions
            .between(acknowledged.len())
            .iter()
            .map(log)
            .collect();
        let promised = &allowed[0];
        let is_prefix = |version: &&Content| version.starts_with(&have);
        // A log that was begun anew does not hold what the former one promised. But nothing at all
        // is no begin of it: all may have been lost before it was begun.
        let anew = |version: &Content| {
            !version.starts_with(promised) && (have.size() > 0 || version.size() == 0)
        };
        let mut prefixes = allowed.iter().filter(is_prefix).peekable();
        let prefix = prefixes.peek().is_some();
        if prefixes.any(|version| have.starts_with(promised) || anew(version)) {
            return Ok(Verdict::Good);
        }
        let (path, told) = (&versions.path, told(&now));
        let (count, bytes) = (acknowledged.len(), promised.size());
        let longest = || allowed.iter().max_by_key(|version| version.size());
        Ok(Verdict::Bad(match prefix {
            true => format!(
                "{path} {told}, but {bytes} bytes were there at the last of {count} acknowledgements"
            ),
            false => format!(
                "{path} {told}, which is no prefix of what was written: it differs from byte {} on",
                longest().map_or(0, |longest| have.same_until(longest))
            ),
        }))
    }
}

fn told(content: &Version) -> String {
    match content {
        None => "is not there".into(),
        Some(content) if content.size() == 0 => "is empty".into(),
        Some(content) => {
            format!(
                "has {} bytes, {} of them zeros",
                content.size(),
                content.zeros()
            )
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
    use crate::apply::complete;

    fn held(contents: &[Option<&[u8]>]) -> Vec<Version> {
        let version = |bytes: &[u8]| content(&tree_of(&[("f", bytes)]), "f");
        contents.iter().map(|bytes| version((*bytes)?)).collect()
    }

    fn bad(judge: &mut dyn Judge, tree: &Tree, acknowledged: &[&str]) -> Option<String> {
        match judge.judge(tree, acknowledged).unwrap() {
            Verdict::Good => None,
            Verdict::Bad(why) => Some(why),
        }
    }

    #[test]
    fn what_other_readers_refuse_is_a_fault() {
        let fault = |language: Language, content: &[u8]| language.fault(content).is_some();
        for (language, good, bad) in [
            (
                Language::Json,
                &b"{\"a\": \"\xc3\xa9\"}"[..],
                &b"{\"a\": \"\xc3\"}"[..],
            ),
            (Language::Csv, b"a,b\n1,\"hel, lo\"\n", b"a,b\n1,\"hel"),
            (
                Language::Csv,
                b"a,b\n1,\"x\"\"y\"",
                b"a,b\n1,\"x\"\"\n2,3\n",
            ),
            (Language::Csv, b"", b"a,b\n1\n"),
        ] {
            assert!(!fault(language, good), "{good:?}");
            assert!(fault(language, bad), "{bad:?}");
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

    /// A sparse file may be larger than all memory.
    #[test]
    fn a_huge_file_is_compared_and_is_not_parsed() {
        let mut tape = Tape::with(&[("f.json", b"1")]);
        tape.truncate("f.json", 1 << 40);
        tape.sync("f.json");
        let versions = Versions::new(&tape.recording, "f.json");
        let now = crate::apply::complete(&tape.recording);
        assert_eq!(bad(&mut SameOrOld(versions.clone()), &now, &[]), None);
        let mut judge = Prefix(versions);
        assert_eq!(bad(&mut judge, &now, &[]), None);
        let why = bad(&mut judge, &tree_of(&[("f.json", b"12")]), &[]);
        assert!(why.is_some_and(|why| why.contains("from byte 1 on")));
        let env = super::super::tests::Env::new();
        let why = env.judge("parse=json").judge(&now, &[]).unwrap_err();
        let words = "f.json has 1099511627776 bytes, and files of at most 256 MiB are parsed";
        assert!(why.to_string().starts_with(words), "{why}");
    }

    #[test]
    fn versions_are_what_a_program_means_to_have() {
        let mut tape = Tape::with(&[("f", b"old")]);
        tape.create("f.tmp", b"new!");
        tape.ack("nothing yet");
        tape.rename("f.tmp", "f");
        tape.ack("new");
        let versions = Versions::new(&tape.recording, "f");
        assert_eq!(versions.all, held(&[Some(b"old"), Some(b"new!")]));
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
        let all = [Some(&b"old"[..]), Some(b"ab"), Some(b"abc")];
        assert_eq!(versions.all, held(&all));
        // Making it is no version, having it is.
        let mut made = Tape::with(&[]);
        made.create("f", b"");
        made.write("f", 0, b"x");
        let versions = Versions::new(&made.recording, "f");
        assert_eq!(versions.all, held(&[None, Some(b"x")]));
    }

    #[test]
    fn a_log_is_a_prefix_and_holds_what_was_acknowledged() {
        let mut tape = Tape::with(&[]);
        tape.create("log", b"");
        tape.write("log", 0, b"one\n");
        tape.ack("one");
        tape.write("log", 4, b"two\n");
        let mut judge = Prefix(Versions::of_log(&tape.recording, "log"));
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
    fn what_lacks_a_write_that_failed_is_no_version() {
        let failed = |tape: &mut Tape| {
            let what = What::Failed {
                call: crate::record::Word::Write,
                error: 28,
                node: tape.recording.start.find(b"f"),
                offset: 0,
                len: 3,
            };
            tape.call("f", what);
        };
        let judged = |again: bool| {
            let mut tape = Tape::with(&[("f", b"old")]);
            tape.truncate("f", 0);
            failed(&mut tape);
            if again {
                tape.write("f", 0, b"new");
            }
            let versions = Versions::new(&tape.recording, "f");
            let log = Versions::of_log(&tape.recording, "f");
            let left = complete(&tape.recording);
            (
                bad(&mut SameOrOld(versions), &left, &[]),
                bad(&mut Prefix(log), &left, &[]),
            )
        };
        let (broken, log) = judged(false);
        assert!(broken.expect("it is empty").contains("is empty"));
        assert_eq!(log, None);
        assert_eq!(judged(true), (None, None));
    }

    #[test]
    fn a_log_that_is_begun_anew_owes_nothing_of_the_former() {
        let mut tape = Tape::with(&[("log", b"first\n")]);
        tape.ack("first");
        tape.create("log.new", b"second\n");
        tape.rename("log.new", "log");
        let mut judge = Prefix(Versions::of_log(&tape.recording, "log"));
        let new = tree_of(&[("log", b"second\n")]);
        assert_eq!(bad(&mut judge, &new, &["first"]), None);
        for lost in [&b"fir"[..], b""] {
            let why = bad(&mut judge, &tree_of(&[("log", lost)]), &["first"]);
            assert!(why.is_some_and(|why| why.contains("6 bytes were there")));
        }
        assert!(bad(&mut judge, &Tree::default(), &["first"]).is_some());
    }

    #[test]
    fn a_log_that_is_emptied_owes_nothing_of_the_former() {
        let mut tape = Tape::with(&[("log", b"first\n")]);
        tape.ack("first");
        tape.truncate("log", 0);
        tape.sync("log");
        let mut judge = Prefix(Versions::of_log(&tape.recording, "log"));
        let empty = tree_of(&[("log", b"")]);
        assert_eq!(bad(&mut judge, &empty, &["first"]), None);
    }

    #[test]
    fn what_a_file_becomes_behind_the_next_acknowledgement_does_not_count() {
        let mut tape = Tape::with(&[("f", b"")]);
        tape.write("f", 0, b"one\n");
        tape.ack("one");
        tape.write("f", 4, b"two\n");
        tape.ack("two");
        tape.truncate("f", 0);
        tape.sync("f");
        let versions = Versions::new(&tape.recording, "f");
        let (empty, two) = (tree_of(&[("f", b"")]), tree_of(&[("f", b"one\ntwo\n")]));
        let mut judges: [Box<dyn Judge>; 2] = [
            Box::new(SameOrOld(versions.clone())),
            Box::new(Prefix(versions)),
        ];
        for judge in &mut judges {
            assert!(
                bad(&mut **judge, &empty, &["one"]).is_some(),
                "emptied later"
            );
            assert_eq!(bad(&mut **judge, &empty, &["one", "two"]), None);
            assert_eq!(bad(&mut **judge, &two, &["one"]), None, "about to be told");
            assert!(bad(&mut **judge, &two, &[]).is_some(), "not begun");
        }
    }
}
