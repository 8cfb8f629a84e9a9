//! Tests of the models at the level of blocks: known behaviours of file systems, each with the
//! states that must show and those that must not.

use super::*;
use crate::call::{Attribute, Call, What, Who};
use crate::explain::{Cause, explain};
use crate::posix::Posix;
use crate::state::{Verdict, acknowledged};
use crate::tree::{Kind, Node, NodeId, ROOT, Tree};
use base::Rng;
use follow::Follower;
use std::collections::BTreeSet;

const BOUND: Bound = Bound {
    states_max: 4096,
    total_max: u64::MAX,
    parts_max: 2,
};
const OWNER: (u32, u32) = (0, 0);

/// Makes a recording call by call.
struct Tape {
    recording: Recording,
    next: u64,
}

impl Tape {
    /// A recording that begins with these files.
    fn new(files: &[(&str, &[u8])]) -> Tape {
        let mut start = Tree::default();
        for (n, (name, content)) in (1..).zip(files) {
            start.insert(NodeId(n), Node::new(Kind::File, 0o644, OWNER));
            start.set_name(ROOT, name.as_bytes(), Some(NodeId(n)));
            start.set_size(NodeId(n), content.len() as u64);
            start.write(NodeId(n), 0, content);
        }
        Tape {
            recording: Recording {
                start,
                calls: Vec::new(),
            },
            next: files.len() as u64 + 1,
        }
    }

    fn call(&mut self, what: What) {
        self.recording.calls.push(Call {
            who: Who::default(),
            what,
            path: String::new(),
            stack: Vec::new(),
        });
    }

    fn full(&self) -> Tree {
        let mut follower = Follower::new(&self.recording);
        follower.after(self.recording.calls.len()).clone()
    }

    fn node(&self, path: &str) -> NodeId {
        self.full().find(path.as_bytes()).expect("it is there")
    }

    fn size(&self, node: NodeId) -> u64 {
        self.full().node(node).expect("it is there").size
    }

    fn make(&mut self, dir: NodeId, name: &str, kind: Kind) -> NodeId {
        let node = NodeId(self.next);
        self.next += 1;
        let mode = match kind {
            Kind::Symlink(_) => 0o777,
            _ => 0o644,
        };
        self.call(What::Create {
            dir,
            name: name.into(),
            node,
            kind,
            mode,
            owner: OWNER,
        });
        node
    }

    fn create(&mut self, name: &str) -> NodeId {
        self.make(ROOT, name, Kind::File)
    }

    fn write(&mut self, node: NodeId, offset: u64, data: &[u8]) {
        let size_before = self.size(node);
        self.call(What::Write {
            node,
            offset,
            data: data.to_vec().into(),
            size_before,
        });
    }

    fn truncate(&mut self, node: NodeId, size: u64) {
        let size_before = self.size(node);
        self.call(What::Truncate {
            node,
            size,
            size_before,
        });
    }

    fn rename(&mut self, from: &str, to: &str) {
        let (tree, node) = (self.full(), self.node(from));
        self.call(What::Rename {
            from: (ROOT, from.into()),
            to: (ROOT, to.into()),
            node,
            replaced: tree.find(to.as_bytes()),
            exchange: false,
        });
    }

    fn unlink(&mut self, name: &str) {
        let node = self.node(name);
        self.call(What::Unlink {
            dir: ROOT,
            name: name.into(),
            node,
        });
    }

    fn sync(&mut self, node: NodeId) {
        self.call(What::Sync {
            node,
            data_only: false,
            failed: None,
        });
    }

    fn acknowledge(&mut self, text: &str) {
        self.call(What::Acknowledge(text.into()));
    }
}

fn model(word: &str) -> BlockModel {
    let model = BlockModel::parse(word).expect("a valid word");
    model.expect("a file system")
}

fn states(word: &str, recording: &Recording) -> Vec<State> {
    let mut states = Vec::new();
    let explored = model(word).explore(recording, &BOUND, &mut |state| {
        states.push(state);
        true
    });
    let counts = explored.unwrap_or_else(|e| panic!("{word}: {e}"));
    assert_eq!(counts.states, states.len() as u64);
    assert_eq!(counts.beyond, 0, "{word}");
    states
}

/// Content of a file of the root; `None`: there is none of that name.
fn content(state: &State, name: &str) -> Option<Vec<u8>> {
    let id = state.tree.find(name.as_bytes())?;
    Some(state.tree.node(id).expect("it has a name").content())
}

/// All contents that the file has in any state, as text: `-` if it is not there.
fn contents(states: &[State], name: &str) -> BTreeSet<String> {
    let text = |bytes: Option<Vec<u8>>| match bytes {
        Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        None => "-".into(),
    };
    states.iter().map(|s| text(content(s, name))).collect()
}

fn set(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().map(|t| t.to_string()).collect()
}

const ALL: &[&str] = &[
    "ext4",
    "ext4:data=journal",
    "ext4:data=writeback",
    "ext4:scheme=emmc",
    "ext3",
    "f2fs",
    "f2fs:fsync_mode=strict",
    "f2fs:scheme=f2fsj",
];

#[test]
fn what_was_synced_before_an_acknowledgement_is_there() {
    for word in ALL {
        let mut tape = Tape::new(&[]);
        let f = tape.create("f");
        tape.write(f, 0, b"first");
        tape.sync(f);
        tape.sync(ROOT);
        tape.acknowledge("first");
        tape.write(f, 5, b" second");
        tape.sync(f);
        tape.acknowledge("second");
        let states = states(word, &tape.recording);
        for state in &states {
            let given = acknowledged(&tape.recording, state.calls);
            assert!(given.len() >= state.acknowledged, "{word}");
            let found = content(state, "f");
            let ok = match state.acknowledged {
                0 => true,
                1 => found.is_some_and(|f| f.starts_with(b"first")),
                _ => found.is_some_and(|f| f == b"first second"),
            };
            assert!(ok, "{word}: {}: {:?}", state.line, state.lost);
        }
        let most = states.iter().map(|s| s.acknowledged).max();
        assert_eq!(most, Some(2), "{word}");
        let none = states.iter().any(|s| content(s, "f").is_none());
        assert!(none, "{word}: before the first sync it may not be there");
    }
}

/// What it was to cover is lost before it ends, which is no fault of the sync.
#[test]
fn a_sync_that_has_not_ended_covers_nothing() {
    let mut tape = Tape::new(&[("f", b"old")]);
    let f = tape.node("f");
    tape.write(f, 0, b"new");
    tape.sync(f);
    tape.acknowledge("new");
    let is_old = |tree: &Tree| {
        let node = tree.find(b"f").and_then(|id| tree.node(id));
        node.is_some_and(|f| f.content() == b"old")
    };
    for word in ["ext4", "f2fs"] {
        let states = states(word, &tape.recording);
        let mut syncing = states.iter().filter(|s| s.calls == 2 && is_old(&s.tree));
        let state = syncing.next().expect("a cut in the sync");
        assert!(state.under_way, "{word}: {}", state.line);
        let mut judge = |tree: &Tree, _: &[&str]| match is_old(tree) {
            true => Ok(Verdict::Bad("it is old".into())),
            false => Ok(Verdict::Good),
        };
        let told = explain(&Posix::default(), &tape.recording, state, &mut judge);
        let told = told.unwrap_or_else(|e| panic!("{word}: {e}"));
        assert_ne!(told.cause, Cause::Other, "{word}: {}", told.sentence);
        assert_eq!(told.state.calls, 1, "{word}: {}", told.sentence);
    }
}

/// replay-B6: between two acknowledgements the device may do nothing.
#[test]
fn each_acknowledgement_is_cut_behind() {
    let mut tape = Tape::new(&[]);
    for text in ["one", "two", "three"] {
        tape.acknowledge(text);
    }
    let states = states("ext4", &tape.recording);
    let given: BTreeSet<usize> = states.iter().map(|s| s.acknowledged).collect();
    assert!(given.is_superset(&BTreeSet::from([1, 2, 3])), "{given:?}");
}

#[test]
fn a_file_that_replaces_another_unsynced_may_be_empty() {
    let mut tape = Tape::new(&[("f", b"old")]);
    let new = tape.create("f.tmp");
    tape.write(new, 0, b"new");
    tape.rename("f.tmp", "f");
    tape.acknowledge("done");
    for (word, expected) in [
        ("ext4", set(&["old", "", "new"])),
        ("ext3", set(&["old", "", "new"])),
        // Here the size comes with the inode.
        ("f2fs:noinline_data", set(&["old", "\0\0\0", "new"])),
        // What lies in the inode comes with it.
        ("f2fs", set(&["old", "new"])),
        // Content is in the log with the name, in order.
        ("ext4:data=journal", set(&["old", "new"])),
    ] {
        let states = states(word, &tape.recording);
        assert_eq!(contents(&states, "f"), expected, "{word}");
    }
}

#[test]
fn a_file_that_was_synced_before_it_replaces_another_is_whole() {
    for word in ALL {
        let mut tape = Tape::new(&[("f", b"old")]);
        let new = tape.create("f.tmp");
        tape.write(new, 0, b"new");
        tape.sync(new);
        tape.rename("f.tmp", "f");
        tape.acknowledge("unsynced");
        tape.sync(ROOT);
        tape.acknowledge("synced");
        let states = states(word, &tape.recording);
        assert_eq!(contents(&states, "f"), set(&["old", "new"]), "{word}");
        let synced: Vec<_> = states.into_iter().filter(|s| s.acknowledged == 2).collect();
        assert_eq!(contents(&synced, "f"), set(&["new"]), "{word}");
    }
}

#[test]
fn a_file_that_is_truncated_and_written_anew_may_be_empty() {
    let mut tape = Tape::new(&[("f", b"old")]);
    let f = tape.node("f");
    tape.truncate(f, 0);
    tape.write(f, 0, b"new");
    tape.acknowledge("done");
    for word in [
        "ext4",
        "ext3",
        "f2fs",
        "f2fs:noinline_data",
        "ext4:data=journal",
    ] {
        let states = states(word, &tape.recording);
        assert_eq!(contents(&states, "f"), set(&["old", "", "new"]), "{word}");
    }
}

#[test]
fn writes_in_place_come_in_any_order() {
    let mut tape = Tape::new(&[("f", &[b'o'; 3 * 4096])]);
    let f = tape.node("f");
    tape.write(f, 0, b"a");
    tape.write(f, 8192, b"b");
    tape.acknowledge("done");
    let pairs = |word: &str| -> BTreeSet<(u8, u8)> {
        let states = states(word, &tape.recording);
        let pair = |s: &State| content(s, "f").map(|c| (c[0], c[8192]));
        states.iter().filter_map(pair).collect()
    };
    let any = BTreeSet::from([(b'o', b'o'), (b'a', b'o'), (b'o', b'b'), (b'a', b'b')]);
    assert_eq!(pairs("ext4"), any);
    // Through a log they come in order.
    let mut in_order = any.clone();
    in_order.remove(&(b'o', b'b'));
    assert_eq!(pairs("ext4:data=journal"), in_order);
}

/// The checkpoint behind the new name leaves nothing for that of the sync, so the sync itself has
/// to flush.
#[test]
fn a_sync_of_everything_covers_what_was_written_in_place() {
    let mut tape = Tape::new(&[("f", &[b'o'; 8192])]);
    let f = tape.node("f");
    tape.write(f, 0, &[b'n'; 4096]);
    tape.create("g");
    tape.call(What::SyncAll);
    tape.acknowledge("synced");
    for word in ALL {
        let states = states(word, &tape.recording);
        for state in states.iter().filter(|s| s.acknowledged == 1) {
            let found = content(state, "f").expect("it was there");
            assert_eq!(found[..4096], [b'n'; 4096], "{word}: {}", state.line);
        }
    }
}

#[test]
fn without_order_a_file_may_show_what_its_blocks_held() {
    let mut tape = Tape::new(&[]);
    let f = tape.create("f");
    tape.write(f, 0, &[b'n'; 4096]);
    tape.acknowledge("done");
    let foreign = |word: &str| {
        let states = states(word, &tape.recording);
        let shows = |s: &State| content(s, "f").is_some_and(|c| c.iter().any(|b| *b != b'n'));
        states.iter().any(shows)
    };
    assert!(!foreign("ext4"));
    assert!(foreign("ext4:data=writeback"));
}

/// A journal as SQLite has one: the page that is changed is kept in a file of its own until the
/// change is durable.
fn rollback(synced: bool) -> Recording {
    let mut tape = Tape::new(&[("db", &[b'o'; 8192])]);
    let db = tape.node("db");
    let journal = tape.create("db-journal");
    tape.write(journal, 0, &[b'o'; 4096]);
    if synced {
        tape.sync(journal);
        tape.sync(ROOT);
    }
    tape.write(db, 0, &[b'n'; 4096]);
    if synced {
        tape.sync(db);
    }
    tape.unlink("db-journal");
    tape.acknowledge("committed");
    tape.recording
}

#[test]
fn a_rollback_journal_needs_its_syncs() {
    let torn = |state: &State| {
        let db = content(state, "db").expect("it was there");
        let page: BTreeSet<u8> = db[..4096].iter().copied().collect();
        page != BTreeSet::from([b'o']) && page != BTreeSet::from([b'n'])
    };
    let bad = |state: &State| {
        let kept = content(state, "db-journal");
        let whole = kept.is_some_and(|kept| kept == [b'o'; 4096]);
        let db = content(state, "db").expect("it was there");
        // Torn without a journal to roll back with.
        torn(state) && !whole || db[4096..] != [b'o'; 4096]
    };
    for word in ALL {
        let states = states(word, &rollback(true));
        let found = states.iter().find(|s| bad(s));
        assert!(found.is_none(), "{word}: {:?}", found.map(|s| &s.line));
    }
    for word in ["ext4", "ext3"] {
        let states = states(word, &rollback(false));
        assert!(states.iter().any(bad), "{word}");
    }
}

#[test]
fn a_long_append_may_be_there_in_part() {
    let mut tape = Tape::new(&[]);
    let f = tape.create("f");
    tape.write(f, 0, &[b'n'; 3 * 4096]);
    tape.acknowledge("done");
    for word in ["ext4", "ext4:data=journal"] {
        let states = states(word, &tape.recording);
        let sizes = states.iter().filter_map(|s| content(s, "f"));
        let sizes: BTreeSet<usize> = sizes.map(|content| content.len()).collect();
        assert_eq!(sizes, BTreeSet::from([0, 4096, 8192, 12288]), "{word}");
    }
}

#[test]
fn a_file_without_names_goes_on() {
    for word in ["ext4", "f2fs", "f2fs:scheme=f2fsj"] {
        let mut tape = Tape::new(&[]);
        let f = tape.create("f");
        tape.unlink("f");
        tape.write(f, 0, b"nobody sees it");
        tape.sync(f);
        tape.sync(ROOT);
        tape.acknowledge("synced");
        let states = states(word, &tape.recording);
        let last: Vec<_> = states.into_iter().filter(|s| s.acknowledged == 1).collect();
        assert_eq!(contents(&last, "f"), set(&["-"]), "{word}");
    }
    let mut tape = Tape::new(&[]);
    let unnamed = NodeId(90);
    tape.call(What::CreateUnnamed {
        node: unnamed,
        mode: 0o600,
        owner: OWNER,
    });
    tape.write(unnamed, 0, b"all of it");
    tape.sync(unnamed);
    tape.call(What::Link {
        node: unnamed,
        dir: ROOT,
        name: b"g".to_vec(),
    });
    tape.acknowledge("linked");
    tape.sync(ROOT);
    tape.acknowledge("synced");
    let states = states("ext4", &tape.recording);
    assert_eq!(contents(&states, "g"), set(&["-", "all of it"]));
    let last: Vec<_> = states.into_iter().filter(|s| s.acknowledged == 2).collect();
    assert_eq!(contents(&last, "g"), set(&["all of it"]));
}

/// Each kind of run of replay-B4 that makes a choice reaches a state that no other one does.
#[test]
fn no_kind_of_run_is_in_vain() {
    let shows = |recording: &Recording, expected: &[(&str, Option<&str>)]| {
        let states = states("ext4", recording);
        let fits = |s: &State| {
            let mut files = expected.iter();
            files.all(|(name, text)| content(s, name).as_deref() == text.map(str::as_bytes))
        };
        let found = states.iter().find(|s| fits(s));
        let state = found.unwrap_or_else(|| panic!("no state with {expected:?}"));
        let run = state.line.split_whitespace().nth(1);
        run.expect("a run").trim_start_matches("run=").to_string()
    };
    // The older file has its content and the newer one has not.
    let mut tape = Tape::new(&[]);
    let a = tape.create("a");
    tape.write(a, 0, b"a");
    let b = tape.create("b");
    tape.write(b, 0, b"b");
    tape.create("c");
    let run = shows(
        &tape.recording,
        &[("a", Some("a")), ("b", Some("")), ("c", Some(""))],
    );
    assert_eq!(run, "write@0");
    // What lay there already is newer than all names.
    let mut tape = Tape::new(&[("db", b"old")]);
    let db = tape.node("db");
    let j = tape.create("j");
    tape.write(j, 0, b"j");
    tape.create("k");
    tape.create("l");
    tape.write(db, 0, b"new");
    let run = shows(
        &tape.recording,
        &[("j", Some("j")), ("k", None), ("db", Some("new"))],
    );
    assert_eq!(run, "commit@1+write");
    let run = shows(
        &tape.recording,
        &[
            ("j", Some("")),
            ("k", Some("")),
            ("l", None),
            ("db", Some("new")),
        ],
    );
    assert_eq!(run, "commit@1>write");
}

#[test]
fn what_is_lost_is_said_in_words() {
    let mut tape = Tape::new(&[("f", b"old")]);
    let new = tape.create("f.tmp");
    tape.write(new, 0, b"new");
    tape.rename("f.tmp", "f");
    tape.acknowledge("done");
    let states = states("ext4", &tape.recording);
    let lost = |name: &str| {
        let state = states
            .iter()
            .find(|s| s.acknowledged == 1 && content(s, "f").is_some_and(|c| c == name.as_bytes()));
        let lost = &state.expect("a state").lost;
        let parts = lost.iter().map(|part| format!("{}: {part}", part.call));
        parts.collect::<Vec<_>>()
    };
    assert_eq!(lost(""), ["1: 3 bytes of f from 0 on"]);
    assert_eq!(lost("old"), ["2: the name f"]);
    assert_eq!(lost("new"), [""; 0]);
}

#[test]
fn a_line_makes_its_state_again() {
    let recording = rollback(false);
    for word in ["ext4", "f2fs:scheme=f2fsj"] {
        let model = model(word);
        for state in states(word, &recording) {
            let again = model.again(&recording, &state.line).expect(&state.line);
            assert_eq!(again.tree.hash(), state.tree.hash(), "{}", state.line);
            let counts = |s: &State| (s.calls, s.acknowledged, s.lost.clone());
            assert_eq!(counts(&again), counts(&state));
        }
    }
    for (line, named) in [
        (
            "model=f2fs run=quiet moment=0 choice=newest",
            "another model",
        ),
        ("model=ext4 run=loud moment=0 choice=newest", "no such run"),
        (
            "model=ext4 run=given-up/quiet moment=0 choice=newest",
            "no sync",
        ),
        (
            "model=ext4 run=quiet moment=999 choice=newest",
            "no such moment",
        ),
        ("model=ext4 run=quiet moment=0", "no `choice=`"),
        ("model=ext4 run=quiet moment=0 choice=k999", "k999"),
    ] {
        let why = model("ext4").again(&recording, line).expect_err(line);
        assert!(why.to_string().contains(named), "{line}: {why}");
    }
}

#[test]
fn a_failed_sync_promises_nothing() {
    for word in ["ext4", "f2fs"] {
        let mut tape = Tape::new(&[]);
        let f = tape.create("f");
        tape.sync(f);
        tape.sync(ROOT);
        tape.write(f, 0, b"lost");
        tape.call(What::Sync {
            node: f,
            data_only: false,
            failed: Some(5),
        });
        tape.sync(f);
        tape.acknowledge("done");
        let states = states(word, &tape.recording);
        let last: Vec<_> = states.into_iter().filter(|s| s.acknowledged == 1).collect();
        let found = contents(&last, "f");
        assert_eq!(
            found,
            set(&["lost", "\0\0\0\0"]),
            "{word}: the page was given up"
        );
    }
}

/// The next call writes into the page that was given up, and all of it is back; a cut before that
/// call finds it gone.
#[test]
fn what_was_given_up_lacks_until_its_page_is_written() {
    for word in ["ext4", "f2fs"] {
        let mut tape = Tape::new(&[("f", b"old.....")]);
        let f = NodeId(1);
        tape.write(f, 0, b"new");
        tape.call(What::Sync {
            node: f,
            data_only: false,
            failed: Some(5),
        });
        tape.sync(f);
        tape.acknowledge("1");
        tape.write(f, 4, b"more");
        tape.sync(f);
        tape.acknowledge("2");
        let states = states(word, &tape.recording);
        let of = |told: usize| {
            let these: Vec<_> = states
                .iter()
                .filter(|s| s.acknowledged == told)
                .cloned()
                .collect();
            contents(&these, "f")
        };
        assert!(of(1).contains("old....."), "{word}: {:?}", of(1));
        assert_eq!(of(2), set(&["new.more"]), "{word}");
    }
}

#[test]
fn who_is_asked_to_end_does_so_between_two_states() {
    let mut tape = Tape::new(&[]);
    let f = tape.create("f");
    for n in 0..50 {
        tape.write(f, n, b"x");
    }
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = asked.clone();
    let go_on: crate::state::GoOn =
        std::sync::Arc::new(move || count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 5);
    let mut model = model("ext4");
    model.while_asked(&go_on);
    let ended = model.explore(&tape.recording, &BOUND, &mut |_| {
        panic!("no state was made")
    });
    let why = ended.expect_err("it ends").to_string();
    assert!(why.contains("asked to end"), "{why}");
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 6);
}

#[test]
fn what_cannot_be_replayed_is_named() {
    let explore = |recording: &Recording| {
        let explored = model("ext4").explore(recording, &BOUND, &mut |_| true);
        explored.expect_err("it cannot be done").to_string()
    };
    let mut tape = Tape::new(&[]);
    tape.sync(NodeId(77));
    let why = explore(&tape.recording);
    assert!(why.starts_with("call 0: stale"), "{why}");
    let mut tape = Tape::new(&[]);
    let f = tape.create("f");
    tape.call(What::Allocate {
        node: f,
        offset: 0,
        len: 2 << 30,
        zero: false,
        size: 2 << 30,
        size_before: 0,
    });
    let why = explore(&tape.recording);
    assert!(why.starts_with("call 1: up to here 2048 MiB"), "{why}");
}

#[test]
fn models_are_named_by_words() {
    let names = |words: &str| {
        let models = models(words, "posix", &|word| (word == "posix").then(other));
        models.map(|models| models.iter().map(|m| m.name()).collect::<Vec<_>>())
    };
    fn other() -> Result<Box<dyn Model>, String> {
        let mut model = model("ext4");
        model.name = "posix".into();
        Ok(Box::new(model))
    }
    let words = "ext4,ext4:scheme=emmc,data=journal,device=emmc,f2fs:fsync_mode=strict,posix";
    let expected = [
        "ext4",
        "ext4:scheme=emmc,data=journal,device=emmc",
        "f2fs:fsync_mode=strict",
        "posix",
    ];
    assert_eq!(names(words).expect("all are known"), expected);
    for (words, named) in [
        ("ext5", &["`ext5`", "ext4, ext3, f2fs", "posix"] as &[&str]),
        ("ext4:mode=lfs", &["`ext4:mode=lfs`", "data=ordered|"]),
        ("ext4:device=floppy", &["spec:floppy", "nvme"]),
        ("ext4:scheme=jftl", &["`ext4:scheme=jftl`", "REMAP"]),
        ("", &["no model"]),
    ] {
        let why = names(words).expect_err(words);
        assert!(named.iter().all(|n| why.contains(n)), "{words}: {why}");
    }
}

/// Calls of all kinds, drawn, with a sync of everything and an acknowledgement at the end.
fn drawn(seed: u64, len: usize) -> Recording {
    let mut rng = Rng::named(seed, "calls");
    let mut tape = Tape::new(&[("a", b"content of a"), ("b", &[b'b'; 10_000])]);
    let dir = tape.make(ROOT, "dir", Kind::Dir);
    for n in 0..len {
        let full = tape.full();
        let mut files = Vec::new();
        full.walk(&mut |path, id, node| {
            if node.kind == Kind::File {
                files.push((path.to_vec(), id));
            }
        });
        let dir = if rng.below(3) == 0 { dir } else { ROOT };
        let name = format!("n{n}");
        if files.is_empty() || rng.below(6) == 0 {
            let kind = match rng.below(4) {
                0 => Kind::Symlink(b"target".to_vec()),
                1 => Kind::Special(0o010_000, 0),
                _ => Kind::File,
            };
            tape.make(dir, &name, kind);
            continue;
        }
        let (path, node) = files[rng.below(files.len() as u64) as usize].clone();
        draw(&mut tape, &mut rng, (&path, node), (dir, name.as_bytes()));
    }
    tape.call(What::SyncAll);
    tape.acknowledge("synced");
    tape.recording
}

fn draw(tape: &mut Tape, rng: &mut Rng, (path, node): (&[u8], NodeId), to: (NodeId, &[u8])) {
    let full = tape.full();
    let at = path.iter().rposition(|&c| c == b'/');
    let above = at.map_or(ROOT, |at| full.find(&path[..at]).expect("a directory"));
    let from = (above, path[at.map_or(0, |at| at + 1)..].to_vec());
    let size_before = tape.size(node);
    let offset = rng.below(12_000);
    let named = (to.0, to.1.to_vec());
    match rng.below(10) {
        0..3 => {
            let data: Vec<u8> = (0..rng.below(9000))
                .map(|_| rng.below(255) as u8 + 1)
                .collect();
            tape.write(node, offset, &data);
        }
        3 => tape.truncate(node, offset),
        4 => tape.call(What::Link {
            node,
            dir: named.0,
            name: named.1,
        }),
        5 => tape.call(What::Unlink {
            dir: from.0,
            name: from.1,
            node,
        }),
        6 => {
            // Onto a new name, or over another file.
            let over = full.node(named.0).and_then(|dir| {
                let file = |id: &NodeId| full.node(*id).is_some_and(|n| n.kind == Kind::File);
                let mut names = dir.names.iter();
                names.find(|(_, id)| **id != node && file(id))
            });
            let (to, replaced) = match over.filter(|_| rng.below(2) == 0) {
                Some((name, id)) => ((named.0, name.clone()), Some(*id)),
                None => (named, None),
            };
            let exchange = replaced.is_some() && rng.below(2) == 0;
            tape.call(What::Rename {
                from,
                to,
                node,
                replaced,
                exchange,
            });
        }
        7 => {
            let zero = rng.below(2) == 0;
            let len = 1 + rng.below(9000);
            let grows = !zero && rng.below(2) == 0;
            let size = if grows {
                size_before.max(offset + len)
            } else {
                size_before
            };
            tape.call(What::Allocate {
                node,
                offset,
                len,
                zero,
                size,
                size_before,
            });
        }
        8 => {
            let attribute = match rng.below(3) {
                0 => Attribute::Mode(rng.below(0o1000) as u16),
                1 => Attribute::Owner(rng.below(9) as u32, 7),
                _ => Attribute::Xattr(b"user.x".to_vec(), Some(vec![b'x'; 20])),
            };
            tape.call(What::SetAttribute { node, attribute });
        }
        _ => tape.call(What::Sync {
            node,
            data_only: rng.below(2) == 0,
            failed: None,
        }),
    }
}

#[test]
fn behind_a_sync_of_everything_the_whole_tree_is_there() {
    // ext3 has no fallocate, and a call that the file system does not have cannot be carried out.
    let words = ALL.iter().filter(|word| **word != "ext3").cycle();
    for (seed, word) in (0..).zip(words).take(16) {
        let recording = drawn(seed, 12);
        let mut follower = Follower::new(&recording);
        let full = follower.after(recording.calls.len()).hash();
        let mut synced = 0;
        let explored = model(word).explore(&recording, &BOUND, &mut |state| {
            if state.acknowledged == 1 {
                assert_eq!(
                    state.tree.hash(),
                    full,
                    "{word}, seed {seed}: {} {:?}",
                    state.line,
                    state.lost
                );
                assert!(state.lost.is_empty());
                synced += 1;
            }
            true
        });
        let counts = explored.unwrap_or_else(|e| panic!("{word}, seed {seed}: {e}"));
        assert_eq!(synced, 1, "{word}, seed {seed}");
        assert!(counts.states > 3, "{word}, seed {seed}: {counts:?}");
    }
}
