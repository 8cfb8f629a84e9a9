//! Manual pages and completions, as `man` and a shell read them.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::program::{text, varve};
use std::fs;
use std::process::Command;

#[test]
fn each_command_has_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let made = varve(&["man", "--out", out]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let page = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    for name in [
        "varve.1",
        "varve-compare.1",
        "varve-device-show.1",
        "varve-crash.1",
    ] {
        let page = page(name);
        assert!(
            page.contains(".TH") && page.contains("NAME"),
            "{name}: {page}"
        );
    }
    assert!(page("varve-compare.1").contains("schemes"));
    let hidden = dir.path().join("varve-worker.1");
    assert!(
        !hidden.exists(),
        "what other processes call is no command of a user"
    );
    let printed = varve(&["man"]);
    assert_eq!(text(&printed.stdout), page("varve.1"));
}

#[test]
fn a_shell_reads_its_completions() {
    for shell in ["bash", "zsh", "fish"] {
        let made = varve(&["completions", shell]);
        let words = text(&made.stdout);
        assert!(
            made.status.success() && words.contains("compare"),
            "{shell}: {words}"
        );
    }
    let bash = text(&varve(&["completions", "bash"]).stdout);
    let script = format!(
        "{bash}\nCOMP_WORDS=(varve comp); COMP_CWORD=1; _varve varve comp varve; echo ${{COMPREPLY[*]}}"
    );
    let out = Command::new("bash").args(["-c", &script]).output().unwrap();
    assert!(
        text(&out.stdout).contains("compare"),
        "{}",
        text(&out.stderr)
    );
    assert_eq!(varve(&["completions", "csh"]).status.code(), Some(2));
}
