//! What every command does on a command line that is wrong: one line on standard error, exit code
//! 2 (of `fsck` 16, as e2fsck has it), and nothing on standard output.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::program::{text, varve};
use std::process::Output;

/// The words of all commands, from the names of their manual pages.
fn commands() -> Vec<Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    let made = varve(&["man", "--out", dir.path().to_str().unwrap()]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let name = name.strip_suffix(".1").expect("a page of section 1");
        let words: Vec<String> = name.split('-').skip(1).map(String::from).collect();
        // What lists its own commands is no command to run.
        if !words.is_empty() && !words.iter().any(|word| word == "help") {
            all.push(words);
        }
    }
    all.sort();
    assert!(all.len() > 25, "{all:?}");
    all
}

fn run(words: &[String], more: &[&str]) -> Output {
    let mut all: Vec<&str> = words.iter().map(String::as_str).collect();
    all.extend(more);
    varve(&all)
}

/// The one line that was said.
fn refused(words: &[String], out: &Output) -> String {
    let said = text(&out.stderr);
    let code = if words[0] == "fsck" { 16 } else { 2 };
    assert_eq!(out.status.code(), Some(code), "{words:?}: {said}");
    assert_eq!(text(&out.stdout), "", "{words:?}");
    assert_eq!(said.lines().count(), 1, "{words:?}: {said}");
    assert!(said.starts_with("varve: "), "{words:?}: {said}");
    assert!(said.contains("--help tells more"), "{words:?}: {said}");
    said
}

#[test]
fn an_option_that_does_not_exist_is_named_in_one_line() {
    for words in commands() {
        // The words of a campaign's command line are its own.
        if words == ["campaign", "plan"] {
            continue;
        }
        let said = refused(&words, &run(&words, &["-q", "--no-such-option"]));
        assert!(said.contains("--no-such-option"), "{words:?}: {said}");
    }
}

#[test]
fn a_value_that_does_not_exist_is_refused_with_those_that_do() {
    for words in commands() {
        let said = refused(&words, &run(&words, &["--progress", "sometimes"]));
        for wanted in ["sometimes", "auto", "json", "none"] {
            assert!(said.contains(wanted), "{words:?}: {said}");
        }
    }
}

#[test]
fn help_is_for_reading() {
    for words in commands() {
        for help in ["-h", "--help"] {
            let out = run(&words, &[help]);
            let (said, wrong) = (text(&out.stdout), text(&out.stderr));
            assert!(
                out.status.success() && wrong.is_empty(),
                "{words:?}: {wrong}"
            );
            assert!(said.contains("Usage: varve"), "{words:?}: {said}");
        }
    }
}

/// A request that makes no sense, or cannot be carried out, is one line, too.
#[test]
fn what_cannot_be_done_is_told_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("plain");
    std::fs::write(&plain, "no image").unwrap();
    let plain = plain.to_str().unwrap();
    let place = format!("{plain}:/f");
    let lines: [(&[&str], &str); 24] = [
        (&["compare", "--workload", "knitting"], "unknown workload"),
        (&["compare", "--schemes", "jbd3"], "unknown scheme"),
        (
            &["compare", "--device", "no-such-card"],
            "unknown device profile",
        ),
        (&["crash", "--workload", "knitting"], "unknown workload"),
        (&["crash", "--device", "spec:paper"], "spec:paper"),
        (
            &["campaign", "status", "--plan", plain, "--store", plain],
            "no plan",
        ),
        (&["campaign", "plan", "knit"], "SPEC is a file"),
        (
            &["device", "show", "no-such-card"],
            "unknown device profile",
        ),
        (&["device", "new", "no-such-card"], "unknown device profile"),
        (&["device", "load", plain, plain], "no saved device"),
        (&["device", "save", plain, "/nowhere/x"], "no saved device"),
        (&["fsck", plain], "too short"),
        (&["recover", plain], "too short"),
        (&["mkfs", plain, "--fs", "ntfs"], "unknown file system"),
        (&["mkfs", "/nowhere/x"], "say --size"),
        (&["info", plain], "too short"),
        (&["ls", plain], "too short"),
        (&["cat", &place], "too short"),
        (&["cat", plain], "IMAGE:/PATH"),
        (&["cp", &place, "/nowhere/x"], "too short"),
        (&["extract", plain, "/nowhere/x"], "too short"),
        (&["dump", "inode", plain, "2"], "too short"),
        (&["mount", plain, "/nowhere"], "/nowhere"),
        (&["report", plain, plain], "no results"),
    ];
    for (line, reason) in lines {
        let out = varve(line);
        let said = text(&out.stderr);
        assert!(!out.status.success(), "{line:?}");
        assert_eq!(said.lines().count(), 1, "{line:?}: {said}");
        assert!(said.starts_with("varve: "), "{line:?}: {said}");
        assert!(said.contains(reason), "{line:?}: {said}");
        // Refused by what it asks for, and not for how the line is written.
        assert!(!said.contains("--help tells more"), "{line:?}: {said}");
    }
}
