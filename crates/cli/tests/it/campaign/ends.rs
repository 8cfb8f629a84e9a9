//! Workers that end before their work does, jobs that give no result, and second runs.

use super::{Camp, TWO, forge};
use crate::program::{text, words};
use crate::store::pack::{self, Named};
use crate::store::{Run, Store};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::{Child, Output, Stdio};
use std::time::Duration;

/// Enough cases that a worker is in the middle of them.
const MANY: [&str; 5] = [
    "crash",
    "--schemes",
    "jbd2,none",
    "--workload",
    "ace:1,every=8",
];

/// A worker that has made a few results.
fn working(camp: &Camp) -> Child {
    camp.plan(&MANY);
    let mut line = camp.varve(&Camp::line("work", "store", &["--workers", "1"]));
    let child = line
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while camp.makers("store").len() < 5 {
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

fn end(child: Child, signal: Signal) -> Output {
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(pid, signal).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_worker_that_is_killed_leaves_missing_results_and_nothing_else() {
    let camp = Camp::new();
    end(working(&camp), Signal::KILL);
    let status = camp.status("store");
    let done = status["done"].as_u64().unwrap();
    let jobs = status["jobs"].as_u64().unwrap();
    assert!(5 <= done && done < jobs, "{status}");
    assert_eq!(
        (&status["damaged"], &status["retried"]),
        (&0.into(), &0.into())
    );
    let said = camp.work("store", &[]);
    assert!(
        said.contains(&format!("{} made here, {done} were there", jobs - done)),
        "{said}"
    );
    camp.merge("store", "merged");
    camp.good(&[&MANY[..], &["--out", "own"]].concat());
    assert_eq!(
        camp.read("own/results.json"),
        camp.read("merged/results.json")
    );
}

/// Two short jobs end at about the same time, so that the second one's result waits to share a
/// file; the third takes longer than it may wait.
#[test]
fn a_result_does_not_wait_for_the_end_of_the_next_job() {
    let camp = Camp::new();
    let sweep = "command = \"compare\"\n[options]\nschemes = \"jbd2\"\nsize = 64\n[sweep]\n\
                 workload = [\"sqlite:insert=2\", \"sqlite:insert=3\", \
                 \"fsync:op=overwrite,count=2000000\"]\n";
    fs::write(camp.path("sweep.toml"), sweep).unwrap();
    camp.plan(&["sweep.toml"]);
    let mut line = camp.varve(&Camp::line("work", "store", &["--workers", "2"]));
    let mut child = line.spawn().unwrap();
    while camp.makers("store").len() < 2 {
        assert_eq!(child.try_wait().unwrap(), None, "the third has ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    end(child, Signal::KILL);
    assert_eq!(camp.status("store")["done"], 2);
}

#[test]
fn a_signal_ends_a_worker_in_order_and_keeps_what_is_done() {
    for (signal, code, name) in [(Signal::TERM, 143, "SIGTERM"), (Signal::INT, 130, "SIGINT")] {
        let camp = Camp::new();
        let out = end(working(&camp), signal);
        let said = words(&out);
        assert_eq!(out.status.code(), Some(code), "{said}");
        let made = camp.makers("store").len();
        assert!(said.contains(&format!("{name}: {made} of ")), "{said}");
        assert!(
            camp.files("store", "attempts").is_empty(),
            "a signal is no attempt"
        );
    }
}

#[test]
fn a_run_that_a_signal_ends_is_no_attempt() {
    let camp = Camp::new();
    let long = "sqlite:insert=200000,update=0,delete=0";
    camp.plan(&["compare", "--schemes", "jbd2", "--workload", long]);
    let mut line = camp.varve(&Camp::line("work", "store", &[]));
    let child = line
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let out = end(child, Signal::TERM);
    let said = words(&out);
    assert_eq!(out.status.code(), Some(143), "{said}");
    assert!(
        said.contains("SIGTERM: 0 of 1 jobs are in the store"),
        "{said}"
    );
    assert!(camp.files("store", "attempts").is_empty());
}

/// A worker whose jobs all fail, because they find no place for their images.
fn in_vain(camp: &Camp, more: &[&str]) -> String {
    let line = Camp::line("work", "store", more);
    let out = camp
        .varve(&line)
        .env("TMPDIR", "/nowhere")
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(1), "{}", words(&out));
    words(&out)
}

#[test]
fn three_attempts_and_a_job_is_given_up_until_asked_for_again() {
    let camp = Camp::new();
    camp.plan(&TWO);
    let said = in_vain(&camp, &["--job", "2"]);
    assert!(
        said.contains("gave up job 2 (ext4/emmc") && said.contains("temporary folder"),
        "{said}"
    );
    assert_eq!(camp.files("store", "attempts").len(), 3);
    // Without the guard it would be tried three times more.
    in_vain(&camp, &["--job", "2"]);
    assert_eq!(camp.files("store", "attempts").len(), 3);
    camp.work("store", &["--job", "1"]);
    assert_eq!(camp.status("store")["gave_up"], 1);
    let said = camp.fails(&Camp::line("merge", "store", &["--out", "out"]), 1);
    assert!(said.contains("1 of 2 jobs were given up"), "{said}");
    let csv = camp.read("out/runs.csv");
    assert!(
        csv.lines().nth(2).unwrap().starts_with("2,gave up,1,"),
        "{csv}"
    );
    assert!(camp.read("out/results.json").contains("\"incomplete\""));
    assert!(camp.read("out/junit.xml").contains("failures=\"1\""));
    // Asked for again, it runs; and as it was retried, it runs twice.
    camp.work("store", &["--retry"]);
    let job = camp.plan_ids().remove(1);
    let twice = camp.files("store", "again");
    assert!(twice.iter().any(|file| file.ends_with(&job)), "{twice:?}");
    let status = camp.status("store");
    assert_eq!(
        (&status["retried"], &status["gave_up"]),
        (&1.into(), &0.into())
    );
    camp.merge("store", "out");
    assert!(!camp.read("out/results.json").contains("\"incomplete\""));
}

/// A second run that this plan does not ask for may lie in the store, of another plan.
#[test]
fn a_damaged_second_run_that_nobody_asks_for_blocks_nothing() {
    let camp = Camp::new();
    camp.plan(&TWO);
    camp.work("store", &[]);
    let job = camp.plan_ids().remove(1);
    let file = camp.path("store/again").join(&job[..2]).join(&job);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "half").unwrap();
    let said = camp.good(&Camp::line("status", "store", &[]));
    assert!(said.contains("0 second runs are missing"), "{said}");
    camp.merge("store", "out");
    camp.work("store", &[]);
    assert!(!file.exists() && camp.files("store", "damaged").len() == 1);
}

/// What a signal leaves of a merge is nothing.
#[test]
fn a_merge_that_a_signal_ends_leaves_no_part_of_a_file() {
    let camp = Camp::new();
    let seeds: Vec<String> = (1..=300).map(|n| n.to_string()).collect();
    let sweep = format!(
        "command = \"compare\"\n[options]\nschemes = \"jbd2\"\nsize = 64\n\
         workload = \"sqlite:insert=2,update=0,delete=0\"\n[sweep]\nseed = [{}]\n",
        seeds.join(", ")
    );
    fs::write(camp.path("sweep.toml"), sweep).unwrap();
    camp.plan(&["sweep.toml"]);
    camp.work("store", &[]);
    let mut left = 0;
    for wait in [20, 60, 100, 150] {
        let line = Camp::line("merge", "store", &["--out", "out"]);
        let child = camp.varve(&line).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(wait));
        let out = end(child, Signal::TERM);
        left += usize::from(out.status.code() == Some(143));
        let parts = fs::read_dir(camp.path("out"))
            .into_iter()
            .flatten()
            .flatten();
        let parts: Vec<_> = parts.map(|part| part.file_name()).collect();
        let is_part = |name: &std::ffi::OsString| name.to_string_lossy().starts_with(".tmp");
        assert!(!parts.iter().any(is_part), "{parts:?}");
    }
    eprintln!("{left} of 4 merges were ended");
    camp.merge("store", "out");
}

#[test]
fn a_result_that_comes_after_its_job_was_given_up_counts_once() {
    let camp = Camp::new();
    camp.plan(&TWO);
    in_vain(&camp, &[]);
    assert_eq!(camp.status("store")["gave_up"], 2);
    camp.work("late", &[]);
    for file in camp.files("late", "results") {
        let name = file.strip_prefix(camp.path("late")).unwrap();
        let to = camp.path("store").join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(&file, to).unwrap();
    }
    let status = camp.status("store");
    assert_eq!(
        (&status["done"], &status["gave_up"]),
        (&2.into(), &0.into())
    );
    assert_eq!(status["second_runs_missing"], 2, "both were retried");
    let said = camp.work("store", &[]);
    assert!(
        said.contains("0 made here, 2 were there, 0 given up; 2 run twice"),
        "{said}"
    );
    let said: serde_json::Value = serde_json::from_str(&camp.work("store", &["--json"])).unwrap();
    assert_eq!(
        (&said["jobs"], &said["there"], &said["made"]),
        (&2.into(), &2.into(), &0.into())
    );
    camp.merge("store", "out");
    assert_eq!(camp.read("out/runs.csv").lines().count(), 3);
}

#[test]
fn the_second_run_is_left_to_another_worker_while_one_has_work() {
    let camp = Camp::new();
    camp.plan(&TWO);
    let said = camp.work("store", &["--job", "1"]);
    assert!(said.contains("0 run twice"), "{said}");
    let why = camp.fails(&Camp::line("merge", "store", &[]), 1);
    assert!(why.contains("1 second runs are missing"), "{why}");
    let said = camp.work("store", &["--job", "2"]);
    assert!(said.contains("1 run twice"), "{said}");
    let by = |kind: &str, n: usize| {
        let text = fs::read_to_string(&camp.files("store", kind)[n]).unwrap();
        text.split("\"worker\":\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap()
            .to_string()
    };
    let id = camp.files("store", "again")[0]
        .file_name()
        .unwrap()
        .to_owned();
    let first = camp.files("store", "results");
    let n = first
        .iter()
        .position(|f| f.file_name() == Some(&id))
        .unwrap();
    assert_ne!(by("again", 0), by("results", n));
    camp.merge("store", "out");
}

#[test]
fn two_results_that_differ_are_named_kept_and_not_merged() {
    let camp = Camp::new();
    camp.plan(&TWO);
    camp.work("store", &[]);
    let second = &camp.files("store", "again")[0];
    forge(second, |text| text.replace("\"ops\":22", "\"ops\":23"));
    let forged = fs::read(second).unwrap();
    for sub in ["work", "status", "merge"] {
        let said = camp.fails(&Camp::line(sub, "store", &[]), 1);
        assert!(said.contains("job 1 (ext4/jbd2 on"), "{sub}: {said}");
        assert!(
            said.contains("gave two results, which differ from byte"),
            "{sub}: {said}"
        );
    }
    assert_eq!(fs::read(second).unwrap(), forged, "both are kept");
    assert_eq!(camp.files("store", "results").len(), 2);
    assert!(!camp.path("varve-campaign").join("results.json").exists());
}

/// Both begin at once, so without different places to begin at they would make the same.
#[test]
fn two_workers_on_one_plan_share_the_work() {
    let camp = Camp::new();
    camp.plan(&[
        "crash",
        "--schemes",
        "jbd2,emmc",
        "--workload",
        "ace:1,every=8",
    ]);
    let work = [
        "campaign",
        "work",
        "--plan",
        "plan.jsonl",
        "--store",
        "store",
        "--workers",
        "1",
    ];
    let begin = || camp.varve(&work).stdout(Stdio::piped()).spawn().unwrap();
    let made: u64 = [begin(), begin()]
        .map(|worker| {
            let out = worker.wait_with_output().unwrap();
            assert!(out.status.success());
            let said = text(&out.stdout);
            let (_, rest) = said.split_once("jobs: ").unwrap();
            rest.split(' ').next().unwrap().parse::<u64>().unwrap()
        })
        .iter()
        .sum();
    let jobs = camp.status("store")["jobs"].as_u64().unwrap();
    assert_eq!(camp.status("store")["done"], jobs);
    assert!(made < jobs + jobs / 2, "{made} runs of {jobs} jobs");
}

/// Results that two stores brought together contradict each other in.
#[test]
fn two_first_results_that_differ_are_named_and_not_merged() {
    let camp = Camp::new();
    camp.plan(&MANY);
    let here = [
        "campaign",
        "work",
        "--plan",
        "plan.jsonl",
        "--store",
        "store",
    ];
    camp.good(&here);
    let packs = camp.files("store", pack::FOLDER);
    let packed = pack::whole(packs.first().expect("short jobs share files")).unwrap();
    // A result of its own beside the one in the pack, with another text.
    let Named { id, kept } = &packed[0];
    let changed = kept.text.replacen(':', ": ", 1);
    assert_ne!(changed, kept.text);
    let store = Store::existing(&camp.path("store")).unwrap();
    store.put(id, Run::First, &kept.by, &changed).unwrap();
    assert_eq!(camp.status("store")["differ"], 1);
    let merge = [
        "campaign",
        "merge",
        "--plan",
        "plan.jsonl",
        "--store",
        "store",
        "--out",
        "out",
    ];
    let said = camp.fails(&merge, 1);
    assert!(
        said.contains("gave two results") && said.contains("store/packed/"),
        "{said}"
    );
    let said = camp.fails(&here, 1);
    assert!(said.contains("gave two results"), "{said}");
}
