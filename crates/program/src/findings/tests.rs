//! Tests of what is told, on a recording with one mistake.

use super::*;
use crate::explore::OfModel;
use crate::judge::tests::{Tape, tree_of};
use crate::state::{Counts, Part};
use quick_xml::Reader;
use quick_xml::events::Event;
use std::fs;

/// A replace without a sync, acknowledged.
fn recording() -> Recording {
    let mut tape = Tape::with(&[("db", b"old")]);
    tape.create("db.tmp", b"new <b>&");
    tape.rename("db.tmp", "db");
    tape.ack("saved");
    tape.create("later", b"");
    let mut recording = tape.recording;
    recording.calls[1].stack = vec!["save (app.py:17)".into()];
    recording.calls[2].who.thread = 8;
    recording
}

fn bad(line: &str, number: u64, lost: usize) -> Bad {
    let part = |piece| Part {
        call: 1,
        piece,
        what: format!("piece {piece} of db.tmp"),
    };
    Bad {
        state: State {
            tree: tree_of(&[("db", b"")]),
            calls: 3,
            under_way: false,
            acknowledged: 0,
            lost: (0..lost).map(part).collect(),
            line: line.into(),
        },
        why: "db is empty\n<script>".into(),
        group: format!("lost of 1, {lost}"),
        alike: 5,
        number,
    }
}

fn explored() -> Explored {
    let model = |name: &str, kept: Vec<Bad>, gave_up| OfModel {
        name: name.into(),
        counts: Counts {
            cuts: 5,
            states: 100,
            beyond: 1,
        },
        distinct: 40,
        bad: kept.len() as u64 * 5,
        groups: kept.len() as u64,
        kept,
        gave_up,
    };
    Explored {
        models: vec![
            model("ext4", vec![], None),
            model("posix", vec![bad("p2", 7, 2), bad("p1", 3, 1)], None),
            model("f2fs", vec![bad("f's", 1, 2)], Some("too large".into())),
        ],
        trees: 60,
        judged: 60,
        complete: true,
        broken: None,
        verdicts: crate::explore::Verdicts::default(),
    }
}

fn findings() -> Vec<Finding> {
    gather(&explored(), &mut |_, bad| Told {
        key: "the pair".into(),
        sentence: "`rename(db.tmp, db)` is durable and 8 bytes of db.tmp are not".into(),
        kept: vec![2],
        lacks: vec!["fsync(db.tmp)".into()],
        ..plainly(bad)
    })
}

fn report() -> Report {
    let context = Context {
        run: "sh save.sh".into(),
        judges: vec!["db is wholly old or wholly new".into()],
        again: "varve crash --dir --recording r --state".into(),
        ..Context::default()
    };
    Report::new(context, &recording(), &explored(), &findings())
}

#[test]
fn states_of_one_mistake_are_one_finding_with_the_smallest_of_them() {
    let findings = findings();
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].told.state.line, "p1");
    let of: Vec<_> = findings[0]
        .of
        .iter()
        .map(|of| (&*of.model, of.states))
        .collect();
    assert_eq!(of, [("posix", 10), ("f2fs", 5)]);
    // Without explanations states of different groups are different findings.
    assert_eq!(gather(&explored(), &mut |_, bad| plainly(bad)).len(), 2);
    assert!(plainly(&bad("x", 1, 5)).sentence.contains("2 parts more"));
}

/// Whatever is lost of a file that is not synced: one sync in one place mends it.
#[test]
fn mistakes_that_the_same_sync_mends_are_one_finding() {
    let gathered = |mend: &dyn Fn(&Bad) -> Option<String>| {
        let findings = gather(&explored(), &mut |_, bad| Told {
            mend: mend(bad),
            ..plainly(bad)
        });
        let told = findings.iter().map(|finding| {
            let states = finding.of.iter().map(|of| of.states).sum::<u64>();
            (finding.told.state.line.clone(), states)
        });
        told.collect::<Vec<_>>()
    };
    let same = gathered(&|_| Some("fsync(db.tmp) before rename".into()));
    assert_eq!(same, [("p1".into(), 15)], "the smallest state is kept");
    let differ = gathered(&|bad| Some(bad.state.lost.len().to_string()));
    assert_eq!(differ, [("p1".into(), 5), ("p2".into(), 10)]);
}

#[test]
fn a_model_without_a_state_does_not_hold() {
    let mut explored = explored();
    for model in &mut explored.models {
        (model.counts.states, model.gave_up) = (0, None);
    }
    let report = Report::new(Context::default(), &recording(), &explored, &[]);
    assert!(!report.is_whole());
    let text = text(&report);
    assert!(
        text.contains("not looked at") && !text.contains("holds"),
        "{text}"
    );
    let junit = junit(&report).expect("XML");
    assert_eq!(
        junit.matches("no state was looked at").count(),
        1,
        "{junit}"
    );
}

#[test]
fn the_text_says_where_it_holds_what_is_lost_and_what_lacks() {
    let text = text(&report());
    let row = |head: &str| {
        let line = text.lines().find(|line| line.starts_with(head));
        line.expect(head)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(row("ext4"), "ext4 5 100 40 0 1 holds in these");
    assert_eq!(row("posix"), "posix 5 100 40 10 1 1 finding");
    assert_eq!(row("f2fs"), "f2fs 5 100 40 5 1 gave up: too large");
    for words in [
        "1. `rename(db.tmp, db)` is durable",
        "missing  fsync(db.tmp)",
        "again    varve crash --dir --recording r --state 'posix p2'",
        "db is empty",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    let lost = text
        .lines()
        .find(|line| line.contains("LOST"))
        .expect(&text);
    assert!(
        lost.contains("8 bytes at 0") && lost.ends_with("piece 0 of db.tmp"),
        "{lost}"
    );
    let cut = text.lines().position(|line| line.contains("power cut"));
    let ack = text
        .lines()
        .position(|line| line.contains("acknowledged: saved"));
    assert_eq!(cut.map(|n| n + 1), ack, "{text}");
    // Nothing judged is said so.
    let none = Report {
        judges: Vec::new(),
        ..report()
    };
    assert!(super::text(&none).contains("only whether the tree can be recovered"));
}

#[test]
fn json_has_all_of_it() {
    let report = report();
    let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["models"][1]["bad"], 10);
    let finding = &json["findings"][0];
    assert_eq!(finding["again"].as_str(), Some(&*report.findings[0].again));
    assert_eq!(finding["source"][1], "17");
    assert_eq!(finding["story"]["names"][1], "test[7/8]");
    assert_eq!(finding["story"]["rows"][1]["fate"], "lost");
    assert!(report.is_bad() && !report.is_whole());
}

#[test]
fn the_page_escapes_and_needs_nothing_from_outside() {
    let page = page(&report());
    assert!(page.contains("&lt;script&gt;") && !page.contains("<script"));
    assert!(page.contains("power cut") && page.contains("tr class=\"lost\""));
    for foreign in ["http:", "https:", "src=", "@import"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}

#[test]
fn junit_is_well_formed_and_fails_where_a_model_does() {
    let text = junit(&report()).unwrap();
    let mut reader = Reader::from_str(&text);
    let (mut suites, mut cases, mut failures, mut errors) = (0, 0, 0, 0);
    loop {
        match reader.read_event().unwrap() {
            Event::Eof => break,
            Event::Start(e) | Event::Empty(e) => match e.name().as_ref() {
                b"testsuite" => suites += 1,
                b"testcase" => cases += 1,
                b"failure" => failures += 1,
                b"error" => errors += 1,
                _ => {}
            },
            _ => {}
        }
    }
    assert_eq!((suites, cases, failures, errors), (3, 5, 2, 1), "{text}");
}

#[test]
fn annotations_stand_at_the_source_and_on_one_line() {
    let text = github(&report());
    assert_eq!(text.lines().count(), 1);
    assert!(
        text.starts_with("::error file=app.py,line=17,title="),
        "{text}"
    );
    assert!(text.contains("db is empty%0A"), "{text}");
}

#[test]
fn trees_before_and_after_stand_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    save_trees(&recording(), &findings()[0], folder.path()).unwrap();
    let read = |path: &str| fs::read_to_string(folder.path().join(path)).unwrap();
    assert_eq!(read("before/db"), "new <b>&");
    assert_eq!(read("after/db"), "");
    assert!(!folder.path().join("before/later").exists());
    #[allow(clippy::disallowed_methods)] // Only counted.
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 2);
}

#[test]
fn of_a_long_story_only_what_matters_is_shown() {
    let mut tape = Tape::with(&[("f", b"")]);
    for n in 0..1000 {
        tape.write("f", n, b"x");
    }
    let recording = tape.recording;
    let mut told = plainly(&bad("x", 1, 1));
    (told.lost, told.kept, told.state.calls) = (vec![1, 600], vec![990], 1000);
    let lanes = Lanes::new(&recording, &told, 20);
    let shown: Vec<_> = lanes.rows.iter().map(|row| row.call).collect();
    assert_eq!(shown, [0, 1, 2, 599, 600, 601, 989, 990, 991, 998, 999]);
    let skipped: usize = lanes.rows.iter().map(|row| row.skipped).sum();
    assert_eq!(skipped + shown.len(), 1000);
    let all = Lanes::new(&recording, &told, 5000);
    assert_eq!(all.rows.len(), 1000);
}
