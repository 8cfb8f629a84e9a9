//! Every kind of page in a browser, as wide as a desk's screen and as a phone's: all plots are
//! drawn, their text can be read, nothing goes beyond the screen, and the page has the structure
//! that is kept in `tests/data/pages`. `VARVE_BLESS=1` writes the structures anew.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod look;

use crate::program::{command, text, varve_in, words};
use look::{look, structure};
use std::fs;
use std::path::{Path, PathBuf};

const WIDTHS: [u32; 2] = [1280, 375];
/// Smallest text that counts as legible, pixels of CSS.
const TEXT_MIN_PX: f64 = 11.0;
/// What the caption of a figure says for which the paper has no value.
const NO_VALUE: &str = "The paper publishes no value for what is drawn here";

/// Checks a page, whose structure is kept under this name. Answers what is seen of it on a desk.
fn check(page: &Path, name: &str) -> serde_json::Value {
    assert!(page.is_file(), "{}", page.display());
    let seen = look(page, WIDTHS);
    for (of, width) in seen.iter().zip(WIDTHS) {
        assert_eq!(of["width"], width, "{name}: {of}");
        assert!(
            of["page"].as_u64() <= Some(u64::from(width)),
            "{name}: wider than the screen: {of}"
        );
        assert_eq!(of["beyond"], serde_json::json!([]), "{name} at {width}");
        assert_eq!(of["cut"], serde_json::json!([]), "{name} at {width}");
        assert_eq!(of["drawn"], of["plots"], "{name}: {of}");
        assert!(of["smallest"].as_f64() >= Some(TEXT_MIN_PX), "{name}: {of}");
        assert_eq!(of["headings"], 1, "{name}");
        assert_eq!(of["headless"], 0, "{name}: a cell of a head has no scope");
        let marks = of["marks"].as_array().unwrap();
        assert!(
            marks.iter().all(|n| n.as_u64() > Some(0)),
            "{name}: a plot without marks: {of}"
        );
    }
    assert_eq!(seen[0]["marks"], seen[1]["marks"], "{name}: other plots");
    let told = seen.each_ref().map(structure);
    assert_eq!(told[0], told[1], "{name}: another structure on a phone");
    kept(name, &told[0]);
    let [desk, _] = seen;
    desk
}

/// Compares the structure with the one that is kept.
fn kept(name: &str, told: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/pages/{name}.txt"));
    if std::env::var_os("VARVE_BLESS").is_some() {
        fs::write(&file, told).unwrap();
    }
    let wanted = fs::read_to_string(&file).unwrap_or_default();
    for (n, (told, wanted)) in told.lines().zip(wanted.lines()).enumerate() {
        assert_eq!(told, wanted, "{}, line {}", file.display(), n + 1);
    }
    let lines = (told.lines().count(), wanted.lines().count());
    assert_eq!(lines.0, lines.1, "lines of {}", file.display());
}

/// The page of a paper: in each figure stands what is published, or that nothing is.
fn check_paper(page: &Path, name: &str) {
    let seen = check(page, name);
    let figures = seen["figures"].as_array().unwrap();
    assert!(!figures.is_empty(), "{name}");
    for figure in figures {
        let says_none = text_of(&figure["caption"]).contains(NO_VALUE);
        assert!(
            (figure["published"] == true) != says_none,
            "{name}: neither a published value nor that there is none: {figure}"
        );
    }
}

fn text_of(value: &serde_json::Value) -> &str {
    value.as_str().expect("a text")
}

fn made(dir: &Path, name: &str, args: &[&str]) -> PathBuf {
    let out = dir.join(name);
    let done = command().args(args).arg("--out").arg(&out).output();
    let done = done.unwrap();
    assert!(done.status.code() <= Some(1), "{args:?}: {}", words(&done));
    out.join("index.html")
}

#[test]
fn a_comparison_is_drawn_on_desk_and_phone() {
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "compare",
        "--workload",
        "sqlite:insert=20,update=0,delete=0",
    ];
    check(&made(dir.path(), "compare", &args), "compare");
}

/// A short part of a paper, whose structure is kept under this name.
fn paper(paper: &str, name: &str, only: &str, more: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let args = ["paper", paper, "--quick", "--only", only];
    let page = made(dir.path(), paper, &[&args[..], more].concat());
    check_paper(&page, name);
}

#[test]
fn jftl_is_drawn_on_desk_and_phone() {
    paper("jftl", "jftl", "fig7a,fig8a,counts,recovery,wa", &[]);
}

#[test]
fn emmc_is_drawn_on_desk_and_phone() {
    paper("emmc", "emmc", "fig8,table4", &[]);
}

#[test]
#[ignore = "a minute and a half: apps on each scheme"]
fn the_apps_of_emmc_are_drawn_on_desk_and_phone() {
    paper("emmc", "emmc-apps", "fig13", &[]);
}

#[test]
fn f2fsj_is_drawn_on_desk_and_phone() {
    let only = "fig2,breakdown,journal-time,names";
    paper("f2fsj", "f2fsj", only, &["--objects", "400"]);
}

#[test]
#[ignore = "a minute and more: each set of ideas, up to 16 processes, recoveries"]
fn sets_of_ideas_and_crowds_on_f2fsj_are_drawn_on_desk_and_phone() {
    let only = "recovery,scaling,ideas";
    paper("f2fsj", "f2fsj-sets", only, &["--objects", "400"]);
}

#[test]
fn a_replay_of_calls_is_drawn_on_desk_and_phone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("notes.txt");
    fs::write(&file, include_str!("../../../work/tests/data/notes.txt")).unwrap();
    let file = file.to_str().expect("the path is UTF-8");
    let args = ["replay", file, "--size", "64", "--pace", "none"];
    let schemes = ["--schemes", "jbd2,emmc,none"];
    let page = made(dir.path(), "replay", &[&args[..], &schemes].concat());
    check(&page, "replay");
}

#[test]
fn a_replay_of_blocks_is_drawn_on_desk_and_phone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("phone.csv");
    fs::write(
        &file,
        include_str!("../../../work/tests/data/blocks-pixel.csv"),
    )
    .unwrap();
    let file = file.to_str().expect("the path is UTF-8");
    let args = [
        "replay",
        file,
        "--device",
        "emmc-odroid-xu4",
        "--pace",
        "none:2",
    ];
    check(&made(dir.path(), "blocks", &args), "blocks");
}

#[test]
fn a_campaign_is_drawn_on_desk_and_phone() {
    let dir = tempfile::tempdir().unwrap();
    let spec = "command = \"compare\"\n[options]\nschemes = [\"jbd2\", \"emmc\"]\nsize = \"64M\"\n\
                [sweep]\nseed = \"1-2\"\nworkload = [\"sqlite:insert=8,update=4,delete=2\"]\n";
    fs::write(dir.path().join("sweep.toml"), spec).unwrap();
    let run = |line: &str| {
        let out = varve_in(dir.path()).args(line.split(' ')).output().unwrap();
        assert!(out.status.success(), "{line}: {}", words(&out));
        out.stdout
    };
    let plan = run("campaign plan sweep.toml");
    fs::write(dir.path().join("plan.jsonl"), text(&plan)).unwrap();
    run("campaign work --plan plan.jsonl --store store");
    run("campaign merge --plan plan.jsonl --store store --out out");
    check(&dir.path().join("out/index.html"), "campaign");
}

#[test]
fn findings_are_drawn_on_desk_and_phone() {
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "crash",
        "--workload",
        "ace:1,every=40",
        "--schemes",
        "none",
        "--states",
        "8",
    ];
    check(&made(dir.path(), "crash", &args), "crash");
}
