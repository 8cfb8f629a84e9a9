//! Checks that the README shows what the command beside its table prints, and that the page on the
//! command line names every option.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::program;

const README: &str = include_str!("../../../../README.md");

/// The lines of a table that begin as `head` does or name a scheme, without the spaces that line
/// columns up.
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
    let output = program::command()
        .arg("compare")
        .arg("--out")
        .arg(out.path())
        .output()
        .expect("the program starts");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}");
    let shown = table(README);
    assert_eq!(shown.len(), 9, "a head and eight schemes: {shown:?}");
    assert_eq!(
        shown,
        table(&printed),
        "README.md and `cargo run --release -- compare`"
    );
}

/// Every command, as `--help` names them.
const COMMANDS: [&[&str]; 21] = [
    &["compare"],
    &["crash"],
    &["fsck"],
    &["recover"],
    &["mkfs"],
    &["info"],
    &["ls"],
    &["cat"],
    &["cp"],
    &["extract"],
    &["dump"],
    &["mount"],
    &["umount"],
    &["replay"],
    &["paper"],
    &["report"],
    &["device", "list"],
    &["device", "show"],
    &["device", "new"],
    &["device", "load"],
    &["device", "save"],
];

/// The options that `--help` of a command lists: words that begin a line, with the second one
/// behind a comma.
fn options(help: &str) -> Vec<&str> {
    let starts = help
        .lines()
        .filter(|line| line.trim_start().starts_with('-'));
    let words = starts.flat_map(|line| line.split_whitespace().take(2));
    words
        .filter(|word| word.starts_with('-'))
        .map(|word| word.trim_end_matches(','))
        .filter(|word| !["-h", "--help", "-V", "--version", "-"].contains(word))
        .collect()
}

#[test]
fn the_page_on_the_command_line_has_every_option() {
    const PAGE: &str = include_str!("../../../../docs/use/cli.md");
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let named: Vec<&str> = PAGE.split(|c| !is_word(c)).collect();
    let mut missing = Vec::new();
    for command in COMMANDS {
        let output = program::command()
            .args(command)
            .arg("--help")
            .output()
            .expect("the program starts");
        let help = String::from_utf8_lossy(&output.stdout).into_owned();
        let found = options(&help);
        let lacks = found.iter().filter(|option| !named.contains(option));
        missing.extend(lacks.map(|option| format!("{} {option}", command.join(" "))));
    }
    assert!(
        missing.is_empty(),
        "docs/use/cli.md does not name: {missing:?}"
    );
}
