//! States of the model `posix`, one call at a time.

use crate::script::{BOUND, Script, content, shown, states};
use varve_program::posix::{Grain, Posix};
use varve_program::state::{Bound, Model};
use varve_program::tree::{Kind, Node, NodeId, ROOT, Tree};

fn text(bytes: Option<Vec<u8>>) -> Option<String> {
    bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[test]
fn a_new_file_comes_in_any_half() {
    let mut script = Script::new();
    script.create("f").write("f", 0, b"abc");
    let model = Posix::default();
    let shown = shown(&model, &script.recording(), |s| text(content(&s.tree, "f")));
    let found: Vec<_> = shown.into_keys().collect();
    let zeros = "\0\0\0".to_string();
    assert_eq!(
        found,
        [None, Some(String::new()), Some(zeros), Some("abc".into())]
    );
}

#[test]
fn a_page_is_that_after_some_write_and_a_sector_alone() {
    let mut script = Script::new().with_file("f", &[b'0'; 1024]);
    script
        .write("f", 0, &[b'1'; 1024])
        .write("f", 0, &[b'2'; 1024]);
    let found = |model: Posix| {
        let show = shown(&model, &script.recording(), |s| {
            let content = content(&s.tree, "f").expect("the file");
            (content[0], content[1023])
        });
        show.into_keys().collect::<Vec<_>>()
    };
    let page = [(b'0', b'0'), (b'1', b'1'), (b'2', b'2')];
    assert_eq!(found(Posix::default()), page);
    let sectors = found(Posix::new(&[], Grain::Sector));
    assert_eq!(sectors.len(), 9, "each sector alone: {sectors:?}");
}

#[test]
fn a_synced_file_is_whole_and_its_name_is_not_promised() {
    let mut script = Script::new();
    script
        .create("f")
        .write("f", 0, b"abc")
        .fsync("f")
        .ack("done");
    let synced = |s: &varve_program::state::State| (s.acknowledged, text(content(&s.tree, "f")));
    let show = shown(&Posix::default(), &script.recording(), synced);
    let told: Vec<_> = show.keys().filter(|(told, _)| *told == 1).collect();
    assert_eq!(told, [&(1, None), &(1, Some("abc".into()))]);
    let model: Posix = "posix+dir-fsync-not-needed".parse().unwrap();
    let show = shown(&model, &script.recording(), synced);
    let told: Vec<_> = show.keys().filter(|(told, _)| *told == 1).collect();
    assert_eq!(told, [&(1, Some("abc".into()))]);
}

#[test]
fn a_line_makes_its_state_again() {
    let mut script = Script::new().with_file("db", b"old");
    script
        .create("t")
        .write("t", 0, &[7; 9000])
        .chmod("t", 0o600)
        .rename("t", "db");
    script
        .mkdir("d")
        .link("db", "d/x")
        .fsync("")
        .write("db", 5000, b"zz")
        .ack("a");
    for name in ["posix", "posix+ordered-data+sectors", "posix+atomic-append"] {
        let model: Posix = name.parse().unwrap();
        assert_eq!(model.name(), name);
        let recording = script.recording();
        let all = states(&model, &recording, &BOUND);
        assert!(all.len() > 30, "{}", all.len());
        for state in all {
            let again = model.again(&recording, &state.line).unwrap();
            assert_eq!(again.tree.hash(), state.tree.hash(), "{}", state.line);
            assert_eq!(again.lost, state.lost, "{}", state.line);
            assert_eq!(
                (again.calls, again.acknowledged),
                (state.calls, state.acknowledged)
            );
        }
    }
    let model = Posix::default();
    for wrong in ["", "x-", "99-", "3-77.0"] {
        assert!(model.again(&script.recording(), wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_a_bound_leaves_out_is_counted() {
    let mut script = Script::new();
    for name in ["a", "b", "c", "d", "e"] {
        script.create(name).write(name, 0, b"x");
    }
    let model = Posix::default();
    let recording = script.recording();
    let bound = |states_max| Bound {
        states_max,
        total_max: u64::MAX,
        parts_max: 2,
    };
    let all = model
        .explore(&recording, &bound(100_000), &mut |_| true)
        .unwrap();
    let few = model
        .explore(&recording, &bound(10), &mut |_| true)
        .unwrap();
    assert_eq!(all.beyond, 0);
    assert!(few.beyond > 0 && few.states < all.states, "{few:?} {all:?}");
    // Of all cuts together: eleven have states, each at least 16 of them.
    let together = Bound {
        total_max: 11 * 17,
        ..bound(100_000)
    };
    let shared = model.explore(&recording, &together, &mut |_| true).unwrap();
    let least = Bound {
        total_max: 1,
        ..together.clone()
    };
    let least = model.explore(&recording, &least, &mut |_| true).unwrap();
    assert!(shared.states <= 11 * 17 && shared.beyond > 0, "{shared:?}");
    assert!(
        least.states < shared.states && least.states > 16,
        "{least:?}"
    );
    let mut visited = 0;
    let one = model.explore(&recording, &bound(10), &mut |_| {
        visited += 1;
        visited < 3
    });
    assert_eq!(
        (one.unwrap().states, visited),
        (3, 3),
        "it stops where it is told to"
    );
}

#[test]
fn a_wide_enough_bound_names_every_legal_set() {
    // Five parts that nothing orders: create has one, each write a size and data.
    let mut script = Script::new();
    script
        .create("a")
        .write("a", 0, b"x")
        .create("b")
        .write("b", 0, b"y");
    let bound = Bound {
        states_max: u64::MAX,
        total_max: u64::MAX,
        parts_max: 6,
    };
    let recording = script.recording();
    let found = states(&Posix::default(), &recording, &bound).len();
    // Of each file: missing, empty, zeros, whole.
    assert_eq!(found, 16);
}

/// A tree with other numbers of nodes, as another model would make it.
fn tree(files: &[(&str, u64, &[u8])]) -> Tree {
    let mut tree = Tree::default();
    for &(name, number, content) in files {
        let node = NodeId(number);
        tree.insert(node, Node::new(Kind::File, 0o644, (0, 0)));
        tree.set_name(ROOT, name.as_bytes(), Some(node));
        tree.set_size(node, content.len() as u64);
        tree.write(node, 0, content);
    }
    tree
}

#[test]
fn a_sync_that_has_not_ended_covers_nothing() {
    let mut script = Script::new().with_file("f", b"old");
    script.write("f", 0, b"new").fsync("f").create("g");
    let (model, recording) = (Posix::default(), script.recording());
    let old = tree(&[("f", 50, b"old")]);
    assert_eq!(model.allows(&recording, 2, &old), Ok(()));
    let refused = model.allows(&recording, 3, &old).unwrap_err();
    assert!(
        refused.contains("the content of f at 0 is older than its last sync"),
        "{refused}"
    );
}

#[test]
fn names_of_one_file_are_no_copies() {
    let mut script = Script::new().with_file("a", b"x");
    script
        .link("a", "b")
        .create("c")
        .write("c", 0, b"x")
        .create("d")
        .write("d", 0, b"x")
        .sync_all()
        .ack("x");
    let (model, recording) = (Posix::default(), script.recording());
    let refused = |files: &[(&str, u64, &[u8])]| model.allows(&recording, 7, &tree(files)).is_err();
    let whole = |a, b, c, d| {
        [
            ("a", a, &b"x"[..]),
            ("b", b, b"x"),
            ("c", c, b"x"),
            ("d", d, b"x"),
        ]
    };
    assert!(!refused(&whole(5, 5, 6, 7)));
    assert!(refused(&whole(5, 4, 6, 7)), "b is a copy");
    assert!(refused(&whole(5, 5, 6, 6)), "c and d are one file");
    assert!(refused(&whole(5, 5, 6, 7)[..3]), "d is missing");
}

#[test]
fn a_size_may_stop_where_a_page_ends() {
    let mut script = Script::new().with_file("f", b"");
    let data = vec![7; 1 << 20];
    script.write("f", 0, &data);
    let (model, recording) = (Posix::default(), script.recording());
    let allowed = |size: usize| model.allows(&recording, 1, &tree(&[("f", 9, &data[..size])]));
    assert_eq!(
        allowed(3 * 4096),
        Ok(()),
        "between the steps that are explored"
    );
    assert_eq!(allowed(0), Ok(()));
    assert!(allowed(5000).is_err());
    let mut cut = Script::new().with_file("f", &data);
    cut.truncate("f", 0);
    let recording = cut.recording();
    let refused = model.allows(&recording, 1, &tree(&[("f", 9, &data[..4096])]));
    assert!(refused.is_err(), "a truncation has no steps");
    let mut grown = Script::new().with_file("f", b"");
    grown.truncate("f", 1 << 20);
    let recording = grown.recording();
    let refused = model.allows(&recording, 1, &tree(&[("f", 9, &[0; 3 * 4096])]));
    assert!(refused.is_err(), "not if it makes a file longer, either");
}

#[test]
fn many_files_of_equal_content_are_told_apart_or_given_up() {
    let mut script = Script::new();
    for turn in 0..12 {
        for name in ["a", "b", "c", "d"] {
            let tmp = format!("{name}{turn}");
            script.create(&tmp).write(&tmp, 0, b"x").rename(&tmp, name);
        }
    }
    let (model, recording) = (Posix::default(), script.recording());
    let all = ["a", "b", "c", "d"].map(|name| (name, name.as_bytes()[0].into(), &b"x"[..]));
    assert_eq!(
        model.allows(&recording, recording.calls.len(), &tree(&all)),
        Ok(())
    );
    let other = [all[0], all[1], ("z", 7, &b"x"[..])];
    assert!(
        model
            .allows(&recording, recording.calls.len(), &tree(&other))
            .is_err()
    );
}

#[test]
fn states_without_a_judge_are_fast() {
    let mut script = Script::new();
    for turn in 0..40_u8 {
        let name = format!("f{}", turn % 8);
        if turn < 8 {
            script.create(&name);
        }
        script.append(&name, &[turn; 100]);
    }
    let bound = Bound {
        states_max: 2000,
        total_max: u64::MAX,
        parts_max: 2,
    };
    let recording = script.recording();
    let counts = Posix::default()
        .explore(&recording, &bound, &mut |_| true)
        .unwrap();
    assert!(counts.states > 10_000, "{counts:?}");
}
