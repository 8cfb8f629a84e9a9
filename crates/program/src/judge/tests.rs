//! What tests of judges share, and tests of their texts.

use super::*;
use crate::apply::apply;
use crate::call::{Call, What, Who};
use crate::tree::{Kind, Node, NodeId, ROOT};
use base::{Bytes, Nanos};
use std::sync::Arc;
use tempfile::TempDir;

/// A place for folders, and settings.
pub(crate) struct Env {
    _place: TempDir,
    settings: Settings,
}

impl Env {
    pub(crate) fn new() -> Env {
        Env::with_timeout(Nanos(30_000_000_000))
    }

    pub(crate) fn with_timeout(timeout: Nanos) -> Env {
        let place = tempfile::tempdir().unwrap();
        let settings = Settings {
            place: place.path().into(),
            patience: Patience {
                timeout,
                stop: Arc::new(|| false),
            },
            notes: Notes::default(),
        };
        Env {
            _place: place,
            settings,
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A judge that needs no recording.
    #[track_caller]
    pub(crate) fn judge(&self, spec: &str) -> Box<dyn Judge> {
        let spec = JudgeSpec::parse(spec).unwrap();
        let recording = Tape::with(&[]).recording;
        build(&[spec], &recording, &self.settings).unwrap()
    }
}

/// A tree of these files; directories of their paths are made. A path that ends with `/` is a
/// directory.
pub(crate) fn tree_of(files: &[(&str, &[u8])]) -> Tree {
    let mut tree = Tree::default();
    let mut next = 1;
    for (path, content) in files {
        let mut dir = ROOT;
        let mut names: Vec<&str> = path.split('/').collect();
        let last = names.pop().unwrap();
        for name in names {
            let known = tree.node(dir).unwrap().names.get(name.as_bytes()).copied();
            dir = known.unwrap_or_else(|| {
                let id = NodeId(next);
                next += 1;
                tree.insert(id, Node::new(Kind::Dir, 0o755, (0, 0)));
                tree.set_name(dir, name.as_bytes(), Some(id));
                id
            });
        }
        if last.is_empty() {
            continue;
        }
        let id = NodeId(next);
        next += 1;
        tree.insert(id, Node::new(Kind::File, 0o644, (0, 0)));
        tree.set_name(dir, last.as_bytes(), Some(id));
        tree.set_size(id, content.len() as u64);
        tree.write(id, 0, content);
    }
    tree
}

/// A recording that is made call by call.
pub(crate) struct Tape {
    pub(crate) recording: Recording,
    now: Tree,
    next: u64,
}

impl Tape {
    pub(crate) fn with(files: &[(&str, &[u8])]) -> Tape {
        let start = tree_of(files);
        Tape {
            now: start.clone(),
            recording: Recording {
                start,
                calls: Vec::new(),
            },
            next: 1000,
        }
    }

    pub(crate) fn call(&mut self, path: &str, what: What) {
        apply(&mut self.now, &what);
        let who = Who {
            process: 7,
            thread: 7,
            program: "test".into(),
        };
        self.recording.calls.push(Call {
            who,
            what,
            path: path.into(),
            stack: Vec::new(),
        });
    }

    pub(crate) fn create(&mut self, path: &str, content: &[u8]) {
        let node = NodeId(self.next);
        self.next += 1;
        let create = What::Create {
            dir: ROOT,
            name: path.into(),
            node,
            kind: Kind::File,
            mode: 0o644,
            owner: (0, 0),
        };
        self.call(path, create);
        if !content.is_empty() {
            self.write(path, 0, content);
        }
    }

    fn node(&self, path: &str) -> NodeId {
        self.now.find(path.as_bytes()).expect(path)
    }

    fn size(&self, path: &str) -> u64 {
        self.now.node(self.node(path)).unwrap().size
    }

    pub(crate) fn write(&mut self, path: &str, offset: u64, data: &[u8]) {
        let write = What::Write {
            node: self.node(path),
            offset,
            data: Bytes::copy_from_slice(data),
            size_before: self.size(path),
        };
        self.call(path, write);
    }

    pub(crate) fn truncate(&mut self, path: &str, size: u64) {
        let truncate = What::Truncate {
            node: self.node(path),
            size,
            size_before: self.size(path),
        };
        self.call(path, truncate);
    }

    pub(crate) fn sync(&mut self, path: &str) {
        let sync = What::Sync {
            node: self.node(path),
            data_only: false,
            failed: None,
        };
        self.call(path, sync);
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        let rename = What::Rename {
            from: (ROOT, from.into()),
            to: (ROOT, to.into()),
            node: self.node(from),
            replaced: self.now.find(to.as_bytes()),
            exchange: false,
        };
        self.call(&format!("{from}, {to}"), rename);
    }

    pub(crate) fn ack(&mut self, text: &str) {
        self.call("", What::Acknowledge(text.into()));
    }
}

#[test]
fn texts_name_judges() {
    let parse = |text: &str| JudgeSpec::parse(text).unwrap();
    assert_eq!(parse("sqlite"), JudgeSpec::Sqlite(Databases::All(None)));
    let glob = Some(Paths::parse("d/*.db").unwrap());
    assert_eq!(
        parse("sqlite=d/*.db"),
        JudgeSpec::Sqlite(Databases::All(glob))
    );
    let query = Databases::Query("a.db".into(), "SELECT k FROM t".into());
    assert_eq!(
        parse("sqlite=/a.db:SELECT k FROM t"),
        JudgeSpec::Sqlite(query)
    );
    assert_eq!(parse("git"), JudgeSpec::Git(None));
    assert_eq!(parse("git:r"), JudgeSpec::Git(Some("r".into())));
    assert_eq!(parse("parse=json"), JudgeSpec::Parse(Language::Json, None));
    let paths = Some(Paths::parse("a:b*").unwrap());
    assert_eq!(
        parse("parse=toml:a:b*"),
        JudgeSpec::Parse(Language::Toml, paths)
    );
    assert_eq!(parse("same-or-old:f"), JudgeSpec::SameOrOld("f".into()));
    assert_eq!(parse("prefix=/log"), JudgeSpec::Prefix("log".into()));
    assert_eq!(parse("command=a=b: c"), JudgeSpec::Command("a=b: c".into()));
    for text in [
        "",
        "sqlit",
        "prefix",
        "parse",
        "parse=xml",
        "command=",
        "sqlite=",
        "sqlite=x:",
        "sqlite= ",
        "git=",
        "parse=json:",
        "=x",
        "parse=csv:***",
    ] {
        let why = JudgeSpec::parse(text).unwrap_err();
        assert!(!why.is_empty(), "{text}");
    }
    assert!(
        JudgeSpec::parse("sqlit")
            .unwrap_err()
            .contains("same-or-old=PATH")
    );
}

#[test]
fn several_judges_must_all_be_content() {
    let env = Env::new();
    let specs = [
        "parse=json",
        "command=rm $VARVE_DIR/a.json",
        "command=test -e $VARVE_DIR/a.json",
    ];
    let specs = specs.map(|text| JudgeSpec::parse(text).unwrap());
    let recording = Tape::with(&[]).recording;
    let mut judge = build(&specs, &recording, env.settings()).unwrap();
    let good = tree_of(&[("a.json", b"1")]);
    assert_eq!(judge.judge(&good, &[]).unwrap(), Verdict::Good);
    let bad = judge.judge(&tree_of(&[("a.json", b"{")]), &[]).unwrap();
    assert!(
        matches!(&bad, Verdict::Bad(why) if why.contains("does not parse")),
        "{bad:?}"
    );
    let bad = judge.judge(&Tree::default(), &[]).unwrap();
    assert_ne!(bad, Verdict::Good, "the last of them is asked, too");
}

#[test]
fn folders_are_in_memory_where_there_is_room() {
    let (memory, temp) = (Path::new("/dev/shm"), Path::new("/somewhere"));
    if rustix::fs::statfs(memory).is_ok_and(|fs| fs.f_type as u64 == 0x0102_1994) {
        assert_eq!(place(memory, temp, 0), (memory.into(), true));
        assert_eq!(place(memory, temp, u64::MAX), (temp.into(), false));
    }
    assert_eq!(place(Path::new("/proc"), temp, 0), (temp.into(), false));
    assert_eq!(place(Path::new("/no/such"), temp, 0), (temp.into(), false));
}
