//! Each rule on small trees. In their texts `@` stands for the letter of a label, and `%` for the
//! letter of a rule, so that this file cites none of them.

use super::super::config::SMALL;
use super::*;

fn spelt(text: &str) -> String {
    text.replace('@', "F").replace('%', "B")
}

/// What is found in a tree of files, as `path:line: what`.
fn found_with(lists: &str, files: &[(&str, &str)]) -> Vec<String> {
    let config = Config::parse(&spelt(&format!("{lists}{SMALL}"))).unwrap();
    let files: Vec<(&str, String)> = files.iter().map(|(p, t)| (*p, spelt(t))).collect();
    let texts: Vec<Text<'_>> = files
        .iter()
        .map(|(path, text)| Text { path, text })
        .collect();
    let findings = check(&texts, &config).into_iter();
    findings
        .map(|f| format!("{}:{}: {}", f.path, f.line, f.what))
        .collect()
}

fn found(files: &[(&str, &str)]) -> Vec<String> {
    found_with("", files)
}

/// A file that defines the first label, and cites it.
const TRACK: (&str, &str) = (
    "crates/journal/src/track.rs",
    "//! Head.\n//!\n//! - @1 why\n\n// @1.\n",
);

#[test]
fn a_bare_label_is_that_of_its_own_file() {
    assert_eq!(found(&[TRACK]), [""; 0]);
    let other = (
        "crates/journal/src/buffer.rs",
        "//! Head.\n\n// So says @1.\n",
    );
    let what = "%1: @1: this file does not define @1; write track-@1";
    let expected = spelt(&format!("crates/journal/src/buffer.rs:3: {what}"));
    assert_eq!(found(&[TRACK, other]), [expected]);
}

#[test]
fn a_label_of_another_file_has_its_home_before_it() {
    let citing = |text: &str| {
        let text = format!("//! Head.\nfn f() {{ {text} }}\n");
        found(&[TRACK, ("crates/ext4/src/a.rs", &text)])
    };
    for good in [
        "assert!(x, \"track-@1: why\");",
        "// (track-@1)",
        "// journal-track-@1",
    ] {
        assert_eq!(citing(good), [""; 0], "{good}");
    }
    for bad in [
        "panic!(\"@1: why\");",
        "// track-@2",
        "// ring-@1",
        "// ext4-track-@1",
    ] {
        assert_eq!(citing(bad).len(), 1, "{bad}");
    }
    assert!(citing("// track-@2")[0].ends_with(&spelt("%1: track-@2: no file defines @2")));
}

#[test]
fn a_home_is_a_file_a_folder_or_a_crate() {
    let text = "//! - @1 why\n// @1\n";
    for (path, name) in [
        ("crates/ftl/src/lib.rs", "ftl"),
        ("crates/journal/src/commit/mod.rs", "commit"),
        ("crates/f2fs/tests/fsck/main.rs", "fsck"),
        ("xtask/src/tidy/code.rs", "code"),
    ] {
        let page = format!("Here is {name}-@1.\n");
        assert_eq!(found(&[(path, text), ("a.md", &page)]), [""; 0], "{path}");
    }
    let rows = ("docs/any/hazards.md", "| no |\n| @1 | what |\n\nSee @1.\n");
    assert_eq!(found(&[rows, ("a.md", "hazards-@1")]), [""; 0]);
}

#[test]
fn a_crate_goes_before_a_name_that_two_files_have() {
    let text = "//! - @1 why\n// @1\n";
    let two = |name: &str| {
        found(&[
            ("crates/f2fs/src/journal/commit.rs", text),
            ("crates/journal/src/commit/mod.rs", text),
            ("a.md", name),
        ])
    };
    assert_eq!(two("f2fs-commit-@1 and journal-commit-@1"), [""; 0]);
    let wrong = two("commit-@1");
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    let expected = spelt("write f2fs-commit-@1 or journal-commit-@1");
    assert!(wrong[0].ends_with(&expected), "{wrong:?}");
}

#[test]
fn a_folder_goes_between_where_a_crate_is_not_enough() {
    let text = "//! - @1 why\n// @1\n";
    let files = [
        ("crates/f2fs/src/recover/mod.rs", text),
        ("crates/f2fs/src/journal/recover/mod.rs", text),
    ];
    let cited = |name: &str| found(&[files[0], files[1], ("a.md", name)]);
    assert_eq!(cited("f2fs-journal-recover-@1"), [""; 0]);
    assert_eq!(cited("f2fs-recover-@1").len(), 1);
}

#[test]
fn the_name_of_a_crate_is_its_library() {
    let text = "//! - @1 why\n// @1\n";
    let inner = ("crates/f2fs/src/journal/mod.rs", text);
    let cited = |name: &str| {
        let of_crate = ("crates/journal/src/track.rs", "//! Head.\n");
        found(&[inner, of_crate, ("a.md", name)])
    };
    assert_eq!(cited("f2fs-journal-@1"), [""; 0]);
    assert_eq!(cited("journal-@1").len(), 1);
}

#[test]
fn a_label_is_defined_once() {
    let twice = ("a.rs", "//! - @1 why\n//! - **@1** why not\n// @1\n");
    let expected = spelt("a.rs:2: %2: @1 is defined in line 1 already");
    assert_eq!(found(&[twice]), [expected]);
    let row = ("hazards.md", "| @1 | what |\n| @1 | the same |\n\n@1\n");
    assert_eq!(found(&[row]).len(), 1);
}

#[test]
fn a_label_that_nobody_cites_is_found() {
    let alone = found(&[("crates/a/src/b.rs", "//! Head.\n//! - @1 why\n")]);
    assert_eq!(alone.len(), 1, "{alone:?}");
    assert!(
        alone[0].starts_with(&spelt("crates/a/src/b.rs:2: %3: nobody cites @1")),
        "{alone:?}"
    );
    // An item of a list elsewhere defines nothing.
    let item = found(&[("a.rs", "//! Head.\n/// - @1 why\n")]);
    assert!(item[0].starts_with(&spelt("a.rs:2: %1")), "{item:?}");
}

#[test]
fn words_that_are_no_labels_are_listed() {
    let list = "[[not_label]]\nwords = [\"@1\"]\nbelow = [\"crates/nand\"]\nreason = \"levels\"\n";
    let lists = |files: &[(&str, &str)]| {
        let config = format!("{SMALL}{list}");
        let config = Config::parse(&spelt(&config)).unwrap();
        let files: Vec<(&str, String)> = files.iter().map(|(p, t)| (*p, spelt(t))).collect();
        let texts = files.iter().map(|(path, text)| Text { path, text });
        check(&texts.collect::<Vec<_>>(), &config).len()
    };
    let here = ("crates/nand/src/cut.rs", "// Level @1.\n");
    assert_eq!(lists(&[here]), 0);
    assert_eq!(
        lists(&[here, ("crates/nandy/src/cut.rs", "// Level @1.\n")]),
        1
    );
    assert_eq!(lists(&[here, ("crates/nand/src/b.rs", "// cut-@1\n")]), 1);
    assert_eq!(
        lists(&[("a.rs", "// Nothing.\n")]),
        1,
        "nobody needs the entry"
    );
}

/// The labels of a text, with their lines.
fn cited(path: &str, text: &str) -> Vec<(usize, String)> {
    let lines = prose::lines(path, &spelt(text)).into_iter();
    let cited = |line: prose::Line| {
        let labels = line.cited();
        let labels = labels.iter().map(|c| (line.number, c.to_string()));
        labels.collect::<Vec<_>>()
    };
    lines.flat_map(cited).collect()
}

fn expect(labels: &[(usize, &str)]) -> Vec<(usize, String)> {
    labels
        .iter()
        .map(|(line, label)| (*line, spelt(label)))
        .collect()
}

#[test]
fn comments_and_strings_are_read_and_code_is_not() {
    let text = [
        "use a::@1; // @2, and a `@3`",
        "let s = \"@4 \\\" @5",
        "  @6\"; let c = '\"'; let b = '\\\"'; @7();",
        "fn f<'a>(x: &'a str) { g(r#\"\"@8\\\"#, br\"\\\", \"@9\") } // (x-@10)",
    ]
    .join("\n");
    let expected = expect(&[
        (1, "@2"),
        (2, "@4"),
        (2, "@5"),
        (3, "@6"),
        (4, "@8"),
        (4, "@9"),
        (4, "x-@10"),
    ]);
    assert_eq!(cited("a.rs", &text), expected);
}

#[test]
fn what_looks_like_a_label_only_in_part_is_none() {
    for none in [
        "-@1", "X-@1", "@123", "@1b", "0x@1", "a@1", "_@1", "x1@", "@",
    ] {
        assert_eq!(cited("a.md", none), [], "{none}");
    }
    assert_eq!(cited("a.md", "(@1:)").len(), 1);
    assert_eq!(cited("a.toml", "@1"), []);
    let fenced = "@1\n```\n@2\n```\n`@3` @4\n";
    assert_eq!(cited("a.md", fenced), expect(&[(1, "@1"), (5, "@4")]));
}

#[test]
fn a_range_names_what_lies_in_it() {
    let range = |text: &str| cited("a.md", text).len();
    assert_eq!(range("x-@9 to x-@12"), 4);
    assert_eq!(range("@1 to @4, and @6"), 5);
    for two in ["x-@1 to y-@4", "@1 and @4", "@4 to @1", "@1 to %4"] {
        assert_eq!(range(two), 2, "{two}");
    }
    let defined = (
        "crates/a/src/b.rs",
        "//! - @1 one\n//! - @2 two\n//! - @3 three\n",
    );
    assert_eq!(found(&[defined, ("a.md", "b-@1 to b-@3\n")]), [""; 0]);
    assert_eq!(found(&[defined, ("a.md", "b-@1 to b-@5\n")]).len(), 2);
}
