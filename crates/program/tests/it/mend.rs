//! Syncs that lack, and syncs that nothing needs.

use crate::programs::{self, Program};
use crate::script::{BOUND, Script, content, states};
use varve_program::explain::ExplainError;
use varve_program::mend::{Suggestion, Terms, mended, suggest};
use varve_program::posix::Posix;
use varve_program::state::{JudgeError, Verdict, acknowledged};

fn mend(program: &Program, model: &Posix) -> Suggestion {
    let terms = Terms {
        recording: &program.recording,
        models: &[model],
        bound: &BOUND,
        posix: &Posix::default(),
        go_on: &|| true,
    };
    suggest(&terms, &mut |tree, told| Ok((program.judge)(tree, told))).unwrap()
}

/// What is added: the calls in front of which, and what. Nothing is bad with it, and something
/// without each of them.
fn added(program: &Program, suggestion: &Suggestion) -> Vec<String> {
    let bad = |left_out: Option<usize>| {
        let sites = suggestion.added.iter().enumerate();
        let kept = sites.filter(|(at, _)| Some(*at) != left_out);
        let syncs: Vec<_> = kept.flat_map(|(_, site)| site.syncs.clone()).collect();
        let recording = mended(&program.recording, &syncs);
        let told = acknowledged(&recording, recording.calls.len());
        let states = states(&Posix::default(), &recording, &BOUND);
        let mut verdicts = states
            .iter()
            .map(|s| (program.judge)(&s.tree, &told[..s.acknowledged]));
        verdicts.any(|verdict| verdict != Verdict::Good)
    };
    assert!(suggestion.unmended.is_empty(), "{suggestion:?}");
    assert!(!bad(None), "{suggestion:?}");
    for at in 0..suggestion.added.len() {
        assert!(bad(Some(at)), "{} is not needed", suggestion.added[at]);
    }
    let syncs = suggestion.added.iter().map(|site| {
        let at: Vec<String> = site
            .syncs
            .iter()
            .map(|sync| sync.before.to_string())
            .collect();
        format!("{}: {}", at.join(" "), site.syncs[0])
    });
    syncs.collect()
}

fn mends(program: &Program) -> Vec<String> {
    added(program, &mend(program, &Posix::default()))
}

#[test]
fn each_program_gets_the_syncs_that_it_lacks() {
    let replace = ["2 6 10: fdatasync(db.1)", "3 7 11: fsync(.)"];
    assert_eq!(mends(&programs::replace()), replace);
    assert_eq!(mends(&programs::log()), ["1 3 5: fdatasync(log)"]);
    assert_eq!(mends(&programs::rollback()), ["3: fsync(.)", "6: fsync(.)"]);
    assert_eq!(mends(&programs::wal()), ["4: fdatasync(db)"]);
    let roots = ["1 4 7: fdatasync(data)", "2 5 8: fdatasync(data)"];
    assert_eq!(mends(&programs::two_roots()), roots);
}

/// All writes of a file are of one site, but only the one in front of the root needs a sync.
#[test]
fn a_site_is_parted_by_the_calls_around_it() {
    let mut script = Script::new().with_file("data", &[0; 4 * 4096]);
    for turn in 1..4_u8 {
        let page = u64::from(turn) * 2;
        script.write("data", page * 4096, &[turn; 4096]);
        script.write("data", (page + 1) * 4096, &[turn; 4096]);
        script.write("data", 0, &[turn]).ack(&turn.to_string());
    }
    let program = Program {
        recording: script.recording(),
        judge: |tree, told| {
            let data = content(tree, "data").unwrap_or_default();
            let turn = data.first().copied().unwrap_or(0);
            let begin = usize::from(turn) * 8192;
            let pages = data.get(begin..begin + 8192);
            let whole = turn == 0 || pages.is_some_and(|p| p.iter().all(|&byte| byte == turn));
            match whole && usize::from(turn) >= told.len() {
                true => Verdict::Good,
                false => Verdict::Bad("the root leads to what is not there".into()),
            }
        },
    };
    let roots = ["2 6 10: fdatasync(data)", "3 7 11: fdatasync(data)"];
    assert_eq!(mends(&program), roots);
}

/// Turns each of which writes a page and then the root that leads to it, and last a file of its own,
/// so that no two of them stand between the same calls.
fn differing_turns(turns: u8) -> Program {
    let name = |turn: u8| {
        format!(
            "{}{}",
            char::from(b'a' + turn / 8),
            char::from(b'a' + turn % 8)
        )
    };
    let mut script = Script::new().with_file("data", &vec![0; (usize::from(turns) + 1) * 4096]);
    for turn in 0..turns {
        script = script.with_file(&name(turn), b"");
    }
    for turn in 1..=turns {
        script.write("data", u64::from(turn) * 4096, &[turn; 4096]);
        script.write("data", 0, &[turn]);
        script
            .write(&name(turn - 1), 0, &[1])
            .fsync(&name(turn - 1));
    }
    Program {
        recording: script.recording(),
        judge: |tree, _| {
            let data = content(tree, "data").unwrap_or_default();
            let turn = data.first().copied().unwrap_or(0);
            let begin = usize::from(turn) * 4096;
            let page = data.get(begin..begin + 4096);
            match turn == 0 || page.is_some_and(|p| p.iter().all(|&byte| byte == turn)) {
                true => Verdict::Good,
                false => Verdict::Bad("the root leads to what is not there".into()),
            }
        },
    }
}

/// Each part that is left out costs an exploration, so of many the whole site is told.
#[test]
fn too_many_parts_are_not_left_out_by_turns() {
    let syncs = |turns| -> usize {
        let suggestion = mend(&differing_turns(turns), &Posix::default());
        assert!(suggestion.unmended.is_empty(), "{suggestion:?}");
        suggestion.added.iter().map(|site| site.syncs.len()).sum()
    };
    assert_eq!(syncs(3), 3, "one before each root");
    assert_eq!(
        syncs(33),
        65,
        "one before each write of the file but the first"
    );
}

/// One durable call comes before what is lost, the other behind it: the sync stands between those.
#[test]
fn a_sync_stands_before_the_durable_call_that_comes_behind_the_lost_one() {
    let mut script = Script::new().with_file("db", &[0; 8192]);
    script.create("undo").write("undo", 0, &[1; 4096]);
    script.fsync("undo").fsync("");
    script.write("db", 0, &[1]).write("db", 4096, &[1]);
    script.unlink("undo");
    let program = Program {
        recording: script.recording(),
        judge: |tree, _| {
            let db = content(tree, "db").unwrap_or_default();
            let undo = content(tree, "undo").is_some();
            match undo || db[0] == db[4096] {
                true => Verdict::Good,
                false => Verdict::Bad("half of the change, and nothing undoes it".into()),
            }
        },
    };
    assert_eq!(mends(&program), ["6: fdatasync(db)"]);
}

/// The tail of a log can be torn, which no sync mends; that an acknowledged record is lost is
/// another mistake, which one does, though fewer lost parts show the first.
#[test]
fn a_broken_promise_is_mended_beside_what_is_not() {
    let mut script = Script::new().with_file("log", b"");
    script.append("log", &[1; 10]).ack("1");
    let program = Program {
        recording: script.recording(),
        judge: |tree, told| {
            let log = content(tree, "log").unwrap_or_default();
            match (log.contains(&0), log.len() >= told.len() * 10) {
                (true, _) => Verdict::Bad("zeros".into()),
                (_, false) => Verdict::Bad("an acknowledged record is lost".into()),
                _ => Verdict::Good,
            }
        },
    };
    let suggestion = mend(&program, &Posix::default());
    let sites: Vec<String> = suggestion.added.iter().map(ToString::to_string).collect();
    let lacks = "before the acknowledgement of `1` (call 1): fdatasync(log)";
    assert_eq!(sites, [lacks]);
    assert_eq!(suggestion.unmended.len(), 1, "{suggestion:?}");
}

#[test]
fn what_no_sync_mends_is_told() {
    let suggestion = mend(&programs::rewrite(), &Posix::default());
    assert!(!suggestion.unmended.is_empty() && suggestion.added.is_empty());
}

/// A finding that no sync mends does not hide those that one does.
#[test]
fn the_other_findings_are_mended_nevertheless() {
    let program = programs::rewrite_and_log();
    let suggestion = mend(&program, &Posix::default());
    let unmended: Vec<_> = (suggestion.unmended.iter())
        .map(|finding| finding.sentence.contains("conf"))
        .collect();
    assert!(
        !unmended.is_empty() && unmended.iter().all(|of_conf| *of_conf),
        "{suggestion:?}"
    );
    let sites: Vec<String> = suggestion.added.iter().map(ToString::to_string).collect();
    let lacks = "before the acknowledgement of `1` (call 3): fdatasync(log)";
    assert_eq!(sites, [lacks]);
    assert!(
        suggestion.needless.is_empty(),
        "nothing is said of a program that stays wrong"
    );
}

#[test]
fn a_belief_needs_fewer() {
    let program = programs::replace();
    let model = "posix+ordered-data".parse().unwrap();
    let suggestion = mend(&program, &model);
    let sites: Vec<String> = suggestion.added.iter().map(ToString::to_string).collect();
    let fsync = "before the acknowledgement of `1` (call 3): fsync(.) (3 times in this recording)";
    assert_eq!(sites, [fsync]);
    assert_eq!(suggestion.extra(), (3, 0));
}

#[test]
fn syncs_that_nothing_needs_are_told_together() {
    let mut script = Script::new().with_file("log", b"").with_file("other", b"");
    for turn in 1..3_u8 {
        script
            .append("log", &[turn; 10])
            .fdatasync("log")
            .fsync("log")
            .fsync("other");
        script.ack(&turn.to_string());
    }
    let program = Program {
        recording: script.recording(),
        judge: |tree, told| {
            let len = content(tree, "log").map_or(0, |log| log.iter().filter(|&&b| b != 0).count());
            match len >= told.len() * 10 {
                true => Verdict::Good,
                false => Verdict::Bad("lost".into()),
            }
        },
    };
    let suggestion = mend(&program, &Posix::default());
    assert!(suggestion.added.is_empty());
    let calls: Vec<&[usize]> = suggestion
        .needless
        .iter()
        .map(|n| n.calls.as_slice())
        .collect();
    // One of fdatasync and fsync has to stay.
    assert_eq!(calls, [&[2, 7][..], &[3, 8][..]]);
    let text = suggestion.needless[1].to_string();
    assert!(
        text.contains("`fsync(other)`") && text.contains("not needed in this recording (2 times)")
    );
}

#[test]
fn a_judge_that_fails_ends_it() {
    let program = programs::log();
    let posix = Posix::default();
    let terms = Terms {
        recording: &program.recording,
        models: &[&posix],
        bound: &BOUND,
        posix: &posix,
        go_on: &|| true,
    };
    let ended = suggest(&terms, &mut |_, _| {
        Err(JudgeError("no such command".into()))
    });
    assert!(matches!(ended, Err(ExplainError::Judge(_))));
}

/// Whoever is asked to stop stops, where the judge is asked and where all its verdicts are known.
#[test]
fn it_can_be_ended_at_any_state() {
    let program = programs::log();
    let posix = Posix::default();
    let asked = std::cell::Cell::new(0);
    let last = std::cell::Cell::new(u32::MAX);
    let go_on = || {
        asked.set(asked.get() + 1);
        asked.get() <= last.get()
    };
    let terms = Terms {
        recording: &program.recording,
        models: &[&posix],
        bound: &BOUND,
        posix: &posix,
        go_on: &go_on,
    };
    let search = || suggest(&terms, &mut |tree, told| Ok((program.judge)(tree, told)));
    let states = search().unwrap().states;
    let all = asked.replace(0);
    assert!(
        u64::from(all) >= states,
        "{all} questions at {states} states"
    );
    for until in [0, 1, all / 2, all - 1] {
        last.set(until);
        asked.set(0);
        assert!(matches!(search(), Err(ExplainError::Judge(_))), "{until}");
        assert_eq!(asked.get(), until + 1, "it has gone on");
    }
}

#[test]
fn of_two_syncs_of_which_one_is_enough_one_is_told() {
    let mut script = Script::new().with_file("log", b"").with_file("copy", b"");
    script
        .append("log", b"record")
        .append("copy", b"record")
        .ack("1");
    let program = Program {
        recording: script.recording(),
        judge: |tree, told| {
            let has = |name| content(tree, name).as_deref() == Some(b"record");
            match told.is_empty() || has("log") || has("copy") {
                true => Verdict::Good,
                false => Verdict::Bad("the record is in neither".into()),
            }
        },
    };
    assert_eq!(mends(&program).len(), 1);
}
