//! Each rule forbids something: without it a tree appears which the whole model refuses. A belief
//! forbids something that the book allows.

use crate::script::{BOUND, Script, states};
use varve_program::call::Recording;
use varve_program::posix::{Grain, Posix, RULES, Rule};

/// A recording in which the rule matters.
fn witness(rule: Rule) -> Recording {
    let mut s = Script::new().with_file("old", &[b'o'; 5000]);
    match rule {
        Rule::InOrder => s.create("f").write("f", 0, b"one").write("f", 1, b"2"),
        Rule::RenameWhole => s.rename("old", "new"),
        Rule::RenameReaches => s.mkdir("d").rename("old", "d/new"),
        Rule::TruncateWhole => s.truncate("old", 0).truncate("old", 4500),
        Rule::RemovedEmpty => {
            s.mkdir("d")
                .create("d/f")
                .write("d/f", 0, b"x")
                .sync_all()
                .ack("there");
            s.rename("d/f", "f").unlink("d")
        }
        Rule::FsyncContent => s.write("old", 0, b"new").fsync("old").ack("x"),
        Rule::FsyncSize => s.truncate("old", 10).fsync("old").ack("x"),
        Rule::FsyncAttributes => s.chmod("old", 0o600).fsync("old").ack("x"),
        Rule::FdatasyncContent => s.write("old", 0, b"new").fdatasync("old").ack("x"),
        Rule::FdatasyncSize => s.truncate("old", 10).fdatasync("old").ack("x"),
        Rule::FsyncNames => s.create("f").fsync("").ack("x"),
        Rule::SyncAll => s.create("f").sync_all().ack("x"),
        Rule::OrderedData => s.create("f").append("f", b"data"),
        Rule::AtomicAppend => s.append("old", b"data"),
        Rule::NameWithFile => s.mkdir("d").create("d/f").fsync("d/f").ack("x"),
        Rule::OrderedNames => s.create("a").create("b").chmod("a", 0o600),
        Rule::RetriedSync => s
            .write("old", 0, b"new")
            .failed_fsync("old")
            .fsync("old")
            .ack("x"),
    };
    s.recording()
}

#[test]
fn without_a_rule_a_tree_appears_that_it_forbids() {
    for row in RULES {
        let beliefs: Vec<_> = row.belief.into_iter().collect();
        let whole = Posix::new(&beliefs, Grain::Page);
        let recording = witness(row.rule);
        for state in states(&whole, &recording, &BOUND) {
            let allowed = whole.allows(&recording, state.calls, &state.tree);
            assert_eq!(allowed, Ok(()), "{}: {}", row.name, state.line);
        }
        let weak = whole.clone().without(row.rule);
        let weak = states(&weak, &recording, &BOUND);
        let refused = weak.iter().find(|state| {
            let strict = acknowledged_calls(&recording, state.acknowledged).max(state.calls);
            whole.allows(&recording, strict, &state.tree).is_err()
        });
        assert!(
            refused.is_some(),
            "{}: nothing appears without it",
            row.name
        );
    }
}

/// Calls that had ended when so many acknowledgements had been given.
fn acknowledged_calls(recording: &Recording, told: usize) -> usize {
    let all = recording.calls.iter().enumerate();
    let mut told_at =
        all.filter(|(_, call)| matches!(call.what, varve_program::call::What::Acknowledge(_)));
    told.checked_sub(1)
        .and_then(|at| told_at.nth(at))
        .map_or(0, |(index, _)| index + 1)
}

#[test]
fn names_of_models_are_read_back() {
    for row in RULES {
        let Some(belief) = row.belief else { continue };
        let name = format!("posix+{belief}");
        assert_eq!(name.parse::<Posix>().unwrap().to_string(), name);
    }
    let wrong = "posix+journal".parse::<Posix>().unwrap_err();
    assert!(wrong.contains("ordered-data"), "{wrong}");
    assert!("ext4".parse::<Posix>().is_err());
}
