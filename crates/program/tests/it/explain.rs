//! Findings in words: what is lost, what is durable, and which sync lacks between them.

use crate::programs::{self, Program};
use crate::script::{BOUND, Script, content, states};
use std::collections::BTreeMap;
use varve_program::explain::{Cause, ExplainError, Explanation, explain};
use varve_program::posix::Posix;
use varve_program::state::{State, Verdict, acknowledged};
use varve_program::tree::{Kind, Node, NodeId, ROOT, Tree};

/// Why a state of a program is bad; `None`: it is not.
fn why(program: &Program, state: &State) -> Option<Explanation> {
    let told = acknowledged(&program.recording, program.recording.calls.len());
    if (program.judge)(&state.tree, &told[..state.acknowledged]) == Verdict::Good {
        return None;
    }
    let judge = &mut |tree: &Tree, told: &[&str]| Ok((program.judge)(tree, told));
    Some(explain(&Posix::default(), &program.recording, state, judge).unwrap())
}

/// One explanation of each key. Each is of a bad state that any lost part back makes good.
fn findings(program: &Program) -> BTreeMap<String, Explanation> {
    let model = Posix::default();
    let mut findings = BTreeMap::new();
    let told = acknowledged(&program.recording, program.recording.calls.len());
    for state in states(&model, &program.recording, &BOUND) {
        let Some(finding) = why(program, &state) else {
            continue;
        };
        let told = &told[..finding.state.acknowledged];
        assert_ne!((program.judge)(&finding.state.tree, told), Verdict::Good);
        let (mut cut, lost) = model.read(&program.recording, &finding.state.line).unwrap();
        for part in lost.iter() {
            let mut less = lost.clone();
            less.remove(&cut.kept_with(part));
            assert_eq!(
                (program.judge)(&cut.tree(&less), told),
                Verdict::Good,
                "{}",
                finding.sentence
            );
        }
        findings.entry(finding.key.clone()).or_insert(finding);
    }
    findings
}

fn only<'a>(findings: &'a BTreeMap<String, Explanation>, key: &str) -> &'a Explanation {
    findings
        .get(key)
        .unwrap_or_else(|| panic!("no {key}: {:?}", findings.keys()))
}

fn lacks(finding: &Explanation) -> Vec<String> {
    let lacks = finding.lacks.iter();
    lacks
        .map(|sync| format!("{}: {sync}", sync.before))
        .collect()
}

#[test]
fn a_file_replaced_without_a_sync() {
    let findings = findings(&programs::replace());
    assert_eq!(findings.len(), 2, "{:?}", findings.keys());
    let order = only(&findings, "data of write(db.#) < name of rename(db.#, db)");
    assert_eq!(order.cause, Cause::Order);
    assert_eq!(
        order.sentence,
        "the rename of db.1 to db, by `rename(db.1, db)` (call 2, process 3 test, thread 4), is durable and 4096 bytes of db.1 from 0 \
         on, by `write(db.1)` (call 1, process 3 test, thread 4), are not; no fdatasync(db.1) comes before `rename(db.1, db)` (call 2, \
         process 3 test, thread 4)"
    );
    assert_eq!(
        (order.lost.as_slice(), order.kept.as_slice()),
        (&[1][..], &[2][..])
    );
    assert_eq!(lacks(order), ["2: fdatasync(db.1)"]);
    assert_eq!(order.why, "db is half");
    let promise = only(&findings, "name of rename(db.#, db) < acknowledgement #");
    assert_eq!(lacks(promise), ["3: fsync(.)"]);
    assert_eq!(
        (promise.promise, promise.lost.as_slice()),
        (Some(3), &[2][..])
    );
}

#[test]
fn a_file_rewritten_in_place() {
    let findings = findings(&programs::rewrite());
    let between = only(&findings, "after truncate(conf)");
    assert_eq!(between.cause, Cause::Between);
    assert!(between.state.lost.is_empty() && between.lacks.is_empty());
    let order = only(&findings, "data of write(conf) < data of truncate(conf)");
    assert!(order.lacks.is_empty(), "{order:?}");
    assert!(order.sentence.contains("no sync can stand between them"));
}

#[test]
fn a_log_that_is_acknowledged_too_early() {
    let findings = findings(&programs::log());
    assert_eq!(findings.len(), 1, "{:?}", findings.keys());
    let promise = only(&findings, "data of write(log) < acknowledgement record #");
    assert_eq!(
        promise.sentence,
        "the acknowledgement of `record 1` (call 1) was given while 100 bytes of log from 0 on, by `write(log)` (call 0, process 3 \
         test, thread 4), could still be lost; no fdatasync(log) comes before the acknowledgement of `record 1` (call 1)"
    );
}

#[test]
fn a_rollback_journal_without_a_sync_of_its_directory() {
    let findings = findings(&programs::rollback());
    let order = findings
        .values()
        .find(|f| f.cause == Cause::Order)
        .expect("the name is lost");
    assert_eq!(lacks(order), ["3: fsync(.)"], "{order:?}");
    assert!(
        order
            .sentence
            .contains("the name db-journal, by `creat(db-journal)`")
    );
    let commit = only(
        &findings,
        "name of unlink(db-journal) < acknowledgement commit",
    );
    assert_eq!(lacks(commit), ["6: fsync(.)"]);
    assert_eq!(findings.len(), 2, "{:?}", findings.keys());
}

#[test]
fn a_log_cut_off_before_its_checkpoint_is_durable() {
    let findings = findings(&programs::wal());
    let order = only(&findings, "data of write(db) < data of truncate(wal)");
    assert_eq!(
        (order.cause, lacks(order)),
        (Cause::Order, vec!["4: fdatasync(db)".into()])
    );
}

#[test]
fn a_root_page_before_what_it_leads_to() {
    let findings = findings(&programs::two_roots());
    let order = only(&findings, "data of write(data) < data of write(data)");
    assert_eq!(lacks(order), ["1: fdatasync(data)"]);
    let promise = only(&findings, "data of write(data) < acknowledgement #");
    assert_eq!(promise.cause, Cause::Promise);
}

#[test]
fn a_state_of_another_model_is_found_by_its_tree() {
    let program = programs::replace();
    // Nodes have other numbers, and the line is none of ours.
    let mut tree = Tree::default();
    tree.insert(NodeId(77), Node::new(Kind::File, 0o644, (0, 0)));
    tree.set_name(ROOT, b"db", Some(NodeId(77)));
    let mut state = State {
        tree,
        calls: 3,
        under_way: false,
        acknowledged: 0,
        lost: Vec::new(),
        line: "block 12".into(),
    };
    let finding = why(&program, &state).expect("db is empty");
    assert_eq!(finding.cause, Cause::Order);
    assert_eq!(lacks(&finding), ["2: fdatasync(db.1)"]);
    // No call has ever left that.
    state.tree.set_size(NodeId(77), 3);
    state.tree.write(NodeId(77), 0, b"???");
    let finding = why(&program, &state).expect("db is garbage");
    assert_eq!(finding.cause, Cause::Other);
    assert!(
        finding.sentence.contains("db has 3 bytes, not 5000"),
        "{}",
        finding.sentence
    );
}

#[test]
fn a_judge_that_changes_its_mind_is_told() {
    let mut script = Script::new();
    script.create("f").write("f", 0, b"x");
    let recording = script.recording();
    let state = states(&Posix::default(), &recording, &BOUND).remove(0);
    assert!(content(&state.tree, "f").is_none());
    let error = explain(&Posix::default(), &recording, &state, &mut |_, _| {
        Ok(Verdict::Good)
    });
    assert!(matches!(error, Err(ExplainError::Unstable)));
}

#[test]
fn an_explanation_asks_the_judge_only_so_often() {
    let mut script = Script::new().with_file("f", &[0; 8192]);
    for turn in 0..900_u32 {
        script.write("f", u64::from(turn) * 4096, &(turn + 1).to_le_bytes());
    }
    let recording = script.recording();
    let cut = Posix::default()
        .cut(&recording, recording.calls.len())
        .unwrap();
    let all = cut.close(0..cut.len());
    let state = { cut }.state(&all);
    let mut judged = 0;
    // Bad unless 400 pages are there: no single part is enough.
    let finding = explain(
        &Posix::default(),
        &recording,
        &state,
        &mut |tree: &Tree, _: &[&str]| {
            judged += 1;
            let file = tree.node(tree.find(b"f").expect("f")).expect("f");
            Ok(match file.pages.len() >= 400 {
                true => Verdict::Good,
                false => Verdict::Bad("few".into()),
            })
        },
    );
    assert_ne!(finding.unwrap().cause, Cause::Other);
    assert!((100..1300).contains(&judged), "{judged}");
}

#[test]
fn a_change_under_way_does_not_hide_a_lost_order() {
    let mut script = Script::new().with_file("f", b"old").with_file("g", b"x");
    script
        .write("f", 0, b"new")
        .truncate("g", 0)
        .write("g", 0, b"y");
    let program = Program {
        recording: script.recording(),
        judge: |tree, _| match (content(tree, "f").as_deref(), content(tree, "g").as_deref()) {
            (_, Some(b"x")) | (Some(b"new"), Some(b"y")) => Verdict::Good,
            _ => Verdict::Bad("g without f, or half".into()),
        },
    };
    let mut cut = Posix::default().cut(&program.recording, 3).unwrap();
    let lost = cut.lost_with(0);
    let state = cut.state(&lost);
    let finding = why(&program, &state).expect("g is there without f");
    // Between truncate and write g is half in any case: that is another finding.
    assert_eq!(finding.cause, Cause::Order, "{finding:?}");
    assert_eq!(lacks(&finding), ["1: fdatasync(f)"]);
}

/// Such a judge rejects a tree with nothing lost, too, where it is told of fewer acknowledgements
/// than the program had given.
#[test]
fn what_is_lost_is_told_also_by_a_judge_that_takes_nothing_newer() {
    let mut script = Script::new().with_file("log", b"");
    for turn in b"12345" {
        script
            .append("log", &[*turn])
            .ack(&char::from(*turn).to_string());
    }
    let program = Program {
        recording: script.recording(),
        judge: |tree, told| {
            let found = content(tree, "log").unwrap_or_default();
            let newest = told.len() + 1;
            match b"12345".starts_with(&found) && (told.len()..=newest).contains(&found.len()) {
                true => Verdict::Good,
                false => Verdict::Bad(format!("{found:?}")),
            }
        },
    };
    let all = states(&Posix::default(), &program.recording, &BOUND);
    let lost = |state: &&State| {
        state.acknowledged == 5 && content(&state.tree, "log").is_some_and(|log| log.is_empty())
    };
    let lost = all.iter().find(lost).expect("all may be lost");
    let finding = why(&program, lost).expect("it is bad");
    assert_ne!(finding.cause, Cause::Between, "{}", finding.sentence);
    assert!(!finding.lost.is_empty(), "{}", finding.sentence);
}
