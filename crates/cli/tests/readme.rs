//! The README shows what the command beside its table prints.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::process::Command;

const README: &str = include_str!("../../../README.md");

/// The lines of a table that begin as `head` does or name a scheme, without the spaces that line columns up.
fn table(text: &str) -> Vec<String> {
    let from = text.lines().skip_while(|line| !is_head(line));
    let rows = from.take_while(|line| is_head(line) || is_rule(line) || is_row(line));
    rows.filter(|line| !is_rule(line))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

fn is_head(line: &str) -> bool {
    line.trim_start().starts_with("fs/scheme") && line.contains("ops/s")
}

fn is_rule(line: &str) -> bool {
    !line.is_empty() && line.chars().all(|c| c == '\u{2500}')
}

fn is_row(line: &str) -> bool {
    line.trim_start().starts_with("ext4/")
}

#[test]
fn the_readme_shows_what_compare_prints() {
    let out = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_varve"))
        .arg("compare")
        .arg("--out")
        .arg(out.path())
        .output()
        .expect("the program starts");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}");
    let shown = table(README);
    assert_eq!(shown.len(), 7, "a head and six schemes: {shown:?}");
    assert_eq!(
        shown,
        table(&printed),
        "README.md and `cargo run --release -- compare`"
    );
}
