//! Texts of workloads: what is accepted reads back, what is not is refused where it is wrong.

use super::*;
use crate::ops::{Op, Stress};
use proptest::prelude::*;

fn wrong(text: &str) -> (usize, usize, String) {
    let e = Spec::parse(text).unwrap_err();
    (e.line, e.column, e.to_string())
}

#[test]
fn a_script_reads_back_as_it_is_written() {
    for (text, canonical) in [
        ("script:", "script:"),
        (
            "script:creat foo;write foo 0+4096;fsync foo",
            "script:create /foo; write /foo 0+4k; fsync /foo",
        ),
        (
            "script: mkdir A # a directory\n fsync A ;; sync\n\n",
            "script:mkdir /A; syncdir /A; sync",
        ),
        (
            "script:create a; hold a; unlink a | mkdir b; chmod b 700; pause 3000000 | sync",
            "script:create /a; hold /a; unlink /a | mkdir /b; chmod /b 700; pause 3ms | sync",
        ),
        (
            "script:symlink \"two words\" \"x;\\\"y\\\"|\\u{e9}\"; unlink \"x;\\\"y\\\"|\\u{e9}\"",
            "script:symlink \"two words\" \"/x;\\\"y\\\"|\\u{e9}\"; unlink \"/x;\\\"y\\\"|\\u{e9}\"",
        ),
        (
            "script:chmod / 755; syncdir .",
            "script:chmod / 755; syncdir /",
        ),
        (
            "script:create f; truncate f 1m; truncate f 512; rename f g; link g f",
            "script:create /f; truncate /f 1m; truncate /f 512; rename /f /g; link /g /f",
        ),
    ] {
        let spec = Spec::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(spec.to_string(), canonical);
        assert_eq!(Spec::parse(canonical).unwrap(), spec);
    }
}

#[test]
fn what_is_wrong_has_line_column_and_what_would_be_right() {
    for (text, line, column, words) in [
        ("blah", 1, 1, "script:OPERATIONS"),
        ("script:crate foo", 1, 8, "create, write, truncate"),
        (
            "script:create foo\nwrite foo",
            2,
            10,
            "write PATH FROM+LENGTH",
        ),
        (
            "script:sync\n  unlink foo",
            2,
            10,
            "`/foo` is not there; expected a file",
        ),
        ("script:create foo bar", 1, 19, "one too many"),
        (
            "script:create foo; create foo",
            1,
            27,
            "a name that is free",
        ),
        (
            "script:create A/foo",
            1,
            15,
            "`/A` is not there; expected a directory",
        ),
        ("script:create foo; write foo 12", 1, 30, "not a range"),
        (
            "script:create foo; write foo 0+4q",
            1,
            30,
            "number of bytes",
        ),
        (
            "script:create foo; write foo 0+0",
            1,
            30,
            "at least one byte",
        ),
        ("script:create foo; write foo 60m+8m", 1, 30, "beyond 64m"),
        (
            "script:create foo; truncate foo 1000m",
            1,
            33,
            "at most 64m",
        ),
        (
            "script:mkdir A; create A/b; rmdir A",
            1,
            35,
            "empty directory",
        ),
        ("script:mkdir A; rename A A/b", 1, 24, "into itself"),
        ("script:create a; link a b; rename a b", 1, 35, "same file"),
        ("script:create ../x", 1, 15, "`.` or `..`"),
        ("script:create \"x", 1, 15, "no closing"),
        ("script:create \"\\x\"", 1, 16, "valid after"),
        ("script:create a\\b", 1, 16, "outside of quotes"),
        ("script:chmod / 999", 1, 16, "octal"),
        ("script:pause 9000s", 1, 14, "an hour"),
        ("script:create | sync", 1, 15, "create PATH"),
        ("@/no/such/file", 1, 1, "/no/such/file"),
        ("mix:tasks=0", 1, 5, "1 to 64"),
        ("mix:ops=3,stress=hard", 1, 11, "swarm, names"),
        ("mix:depth=3", 1, 5, "tasks, ops, stress"),
        ("known:x", 1, 7, "rename_root_to_sub"),
        ("sqlite:insert=3,rows=2", 1, 17, "has no parameter `rows`"),
        ("sqlite:journal=none", 1, 16, "truncate"),
        ("sqlite:insert=1000000", 1, 1, "at most 10000"),
    ] {
        let (l, c, what) = wrong(text);
        assert!(what.contains(words), "{text}: {what}");
        assert_eq!((l, c), (line, column), "{text}: {what}");
    }
}

#[test]
fn a_script_file_is_named_in_errors_and_becomes_part_of_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("workload");
    std::fs::write(&path, "# two files\ncreate a\ncreate b\nsync\n").unwrap();
    let text = format!("@{}", path.display());
    let spec = Spec::parse(&text).unwrap();
    assert_eq!(spec.to_string(), "script:create /a; create /b; sync");
    std::fs::write(&path, "create a\ncreate a\n").unwrap();
    let e = Spec::parse(&text).unwrap_err().to_string();
    assert!(e.contains("workload, line 2, column 8"), "{e}");
}

#[test]
fn a_mix_has_a_text_and_a_list_of_operations() {
    let spec = Spec::parse("mix:ops=40,stress=names,tasks=3").unwrap();
    assert_eq!(spec.to_string(), "mix:tasks=3,ops=40,stress=names");
    assert_eq!(
        Spec::parse("mix").unwrap().to_string(),
        "mix:tasks=2,ops=12,stress=swarm"
    );
    let script = spec.fixed(9).unwrap();
    assert_eq!((script.tasks().len(), script.ops()), (3, 120));
    assert_eq!(script, spec.fixed(9).unwrap());
    assert_ne!(script, spec.fixed(10).unwrap());
}

#[test]
fn operations_can_be_left_out() {
    let script =
        FileScript::parse("mkdir A; create A/f; fsync A/f; sync | create g; sync").unwrap();
    assert_eq!(script.places().len(), 6);
    let less = script.without(&[(0, 2), (1, 0)]).unwrap();
    assert_eq!(less.to_string(), "mkdir /A; create /A/f; sync | sync");
    assert_eq!(script.without(&[(0, 0)]), None);
    let repaired = script.repaired(&[(0, 0)]);
    assert_eq!(repaired.to_string(), "sync | create /g; sync");
    let Err((place, why)) = FileScript::new(vec![vec![Op::Sync, Op::Unlink("/x".into())]]) else {
        panic!("not possible");
    };
    assert_eq!(place, (0, 1));
    assert!(why.contains("`/x` is not there"), "{why}");
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "(script|mix|ace|known|@|):?[ -~\n\u{e9}]{0,60}") {
        if let Err(e) = Spec::parse(&text) {
            prop_assert!(e.line >= 1 && e.column >= 1);
        }
    }

    #[test]
    fn nor_does_one_made_of_its_words(words in prop::collection::vec(
        prop::sample::select(vec![
            "create", "write", "truncate", "rename", "link", "symlink", "unlink", "mkdir", "rmdir", "chmod", "fsync",
            "fdatasync", "syncdir", "sync", "hold", "pause", "a", "b", "a/b", "/", "0+4k", "512", "64m", "777", ";", "|", "\n",
            "\"", "#", "\"q\\n\"", "99999999999999999999+1",
        ]), 0..40)) {
        let text = format!("script:{}", words.join(" "));
        if let Ok(spec) = Spec::parse(&text) {
            prop_assert_eq!(Spec::parse(&spec.to_string()).unwrap(), spec);
        }
    }

    #[test]
    fn what_a_mix_draws_reads_back(seed: u64, stress in prop::sample::select(Stress::ALL.to_vec())) {
        let mix = MixSpec { tasks: 2, ops: 30, stress, free: None };
        let script = mix.fixed(seed).unwrap();
        prop_assert_eq!(FileScript::parse(&script.to_string()).unwrap(), script.clone());
        let half: Vec<Place> = script.places().into_iter().step_by(2).collect();
        let repaired = script.repaired(&half);
        prop_assert!(FileScript::new(repaired.tasks().to_vec()).is_ok());
    }
}
