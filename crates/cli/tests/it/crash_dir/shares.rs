//! `varve campaign` of a `crash --dir`: the trees of one recording, judged in shares.

use super::Room;
use crate::program::{command, text, words};
use std::fs;
use std::process::Output;

/// Writes a file anew without a sync between, which a cut tears.
const RUN: &str = "cd $VARVE_DIR; for i in 1 2 3; do echo good$i > new; mv new f; echo x > log$i; sync log$i; done";
const CHECK: &str = "f=$VARVE_DIR/f; [ ! -e $f ] || grep -q good $f || { echo torn; exit 1; }";

impl Room {
    fn varve(&self, line: &[&str]) -> Output {
        let mut varve = command();
        varve.args(line).env("TMPDIR", self.path().join("tmp"));
        let out = varve.current_dir(self.path()).output();
        self.is_left_clean();
        out.expect("the program starts")
    }

    /// Plans shares that are as small as they may be.
    fn plan(&self, more: &[&str]) -> Output {
        let line = ["campaign", "plan", "--job-seconds", "0.2", "crash", "--dir"];
        let of = ["--model", "posix,ext4"];
        let out = self.varve(&[&line[..], &of, more].concat());
        fs::write(self.path().join("plan.jsonl"), &out.stdout).expect("the plan");
        out
    }

    fn on_plan(&self, sub: &str, more: &[&str]) -> Output {
        let line = ["campaign", sub, "--plan", "plan.jsonl", "--store", "store"];
        self.varve(&[&line[..], more].concat())
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    fn recording(&self) -> String {
        let names = fs::read_dir(self.path()).expect("the folder").flatten();
        let mut names = names.filter_map(|file| file.file_name().into_string().ok());
        names.find(|name| name.ends_with(".recording")).expect("it")
    }
}

#[test]
fn shares_are_merged_to_the_bytes_of_one_process() {
    let room = Room::new();
    let out = room.plan(&["--run", RUN, "--check", CHECK]);
    assert!(out.status.success(), "{}", words(&out));
    let shares = room.read("plan.jsonl").matches("\"job\":").count();
    assert!(shares > 1, "{}", words(&out));
    let part = room.on_plan("work", &["--job", "1"]);
    assert!(part.status.success(), "{}", words(&part));
    let part = room.on_plan("merge", &["--partial", "--out", "part"]);
    assert!(
        words(&part).contains("results are missing"),
        "{}",
        words(&part)
    );
    assert!(room.read("part/results.json").contains("\"incomplete\""));
    let rest = room.on_plan("work", &[]);
    assert!(rest.status.success(), "{}", words(&rest));
    let made = format!("{} made here, 1 were there", shares - 1);
    assert!(words(&rest).contains(&made), "{}", words(&rest));
    let merged = room.on_plan("merge", &["--out", "merged"]);
    assert_eq!(merged.status.code(), Some(1), "{}", words(&merged));
    let file = room.recording();
    let models = ["--model", "posix,ext4", "--check", CHECK, "--out", "own"];
    let own = room.run(&[&["--recording", &file][..], &models].concat());
    assert_eq!(own.status.code(), Some(1), "{}", words(&own));
    for name in ["results.json", "junit.xml", "index.html"] {
        let (merged, own) = (format!("merged/{name}"), format!("own/{name}"));
        // That of one process knows the recording alone.
        let own = room.read(&own).replace(&file, "merged/recording");
        let merged = room.read(&merged);
        let lines = merged.lines().zip(own.lines());
        let differ: Vec<_> = lines.filter(|(merged, own)| merged != own).collect();
        let knows_run = |(merged, own): &(&str, &str)| {
            own.contains("a recording") && merged.contains("cd $VARVE_DIR; for i in")
        };
        assert!(differ.iter().all(knows_run), "{name}: {differ:#?}");
        assert_eq!(merged.lines().count(), own.lines().count(), "{name}");
    }
    assert!(room.path().join("merged/finding-1").is_dir());
    assert_eq!(room.read("merged/shares.csv").lines().count(), shares + 1);
    assert_eq!(
        text(&merged.stdout).matches("torn").count(),
        text(&own.stdout).matches("torn").count()
    );
}

#[test]
fn a_check_that_was_changed_is_another_one() {
    let room = Room::new();
    fs::write(room.path().join("check.sh"), CHECK).expect("the check");
    let out = room.plan(&["--run", RUN, "--check", "sh check.sh"]);
    assert!(out.status.success(), "{}", words(&out));
    fs::write(room.path().join("check.sh"), "exit 0").expect("the check");
    let out = room.on_plan("work", &[]);
    assert_eq!(out.status.code(), Some(1), "{}", words(&out));
    let why = "check.sh is not the file that the plan was made with";
    assert!(words(&out).contains(why), "{}", words(&out));
}

#[test]
fn what_no_share_can_do_is_refused_before_anything_is_planned() {
    let room = Room::new();
    for (more, word) in [
        (
            &["--run", RUN, "--check", "exit 1"][..],
            "the judge rejects the tree before the run",
        ),
        (&["--run", RUN, "--lint"], "--lint is not for a plan"),
        (&["--run", RUN, "--runs", "2"], "--runs is not for a plan"),
        (&["--check", CHECK], "what to run is missing"),
    ] {
        let out = room.plan(more);
        assert!(!out.status.success() && out.stdout.is_empty(), "{more:?}");
        assert!(words(&out).contains(word), "{more:?}: {}", words(&out));
    }
}

/// What one process writes, and what shares of the same recording are merged to.
fn both(room: &Room, run: &str) -> [String; 2] {
    let out = room.plan(&["--run", run, "--check", CHECK]);
    assert!(out.status.success(), "{}", words(&out));
    let work = room.on_plan("work", &[]);
    assert!(work.status.success(), "{}", words(&work));
    let merged = room.on_plan("merge", &["--out", "out"]);
    assert_eq!(merged.status.code(), Some(1), "{}", words(&merged));
    let of_shares = room.read("out/results.json");
    fs::remove_dir_all(room.path().join("out")).expect("the folder");
    let own = room.run(&[
        "--run",
        run,
        "--model",
        "posix,ext4",
        "--check",
        CHECK,
        "--out",
        "out",
    ]);
    assert_eq!(own.status.code(), Some(1), "{}", words(&own));
    [room.read("out/results.json"), of_shares]
}

#[test]
fn the_run_and_the_notes_of_judges_are_those_of_one_process() {
    let room = Room::new();
    let run = format!("mkfifo $VARVE_DIR/pipe; {RUN}");
    let [own, of_shares] = both(&room, &run);
    assert!(own.contains("pipes and sockets are left out"), "{own}");
    assert!(own.contains("mkfifo $VARVE_DIR/pipe"), "{own}");
    let models = |text: &str| {
        let report: serde_json::Value = serde_json::from_str(text).expect("JSON");
        report["models"].clone()
    };
    assert_eq!(models(&own), models(&of_shares));
    // The command was recorded twice, by other processes.
    let without_numbers = |text: String| text.replace(|c: char| c.is_ascii_digit(), "");
    assert_eq!(without_numbers(own), without_numbers(of_shares));
}
