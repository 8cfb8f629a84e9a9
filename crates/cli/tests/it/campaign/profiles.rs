//! Devices of files of their own: the plan carries them, and no host judges another device.

use super::{Camp, SMALL};
use std::fs;

/// A comparison, and an exploration at the chips, of the card in `card.toml`.
fn lines() -> [Vec<&'static str>; 2] {
    let compare = ["compare", "--size", "64", "--workload", SMALL];
    let crash = ["crash", "--workload", "known:create_delete"];
    let on = ["--schemes", "jbd2,emmc", "--device", "./card.toml"];
    [[&compare[..], &on].concat(), [&crash[..], &on].concat()]
}

/// A folder with a card whose cache is smaller than that of the card that it is like.
fn with_card() -> Camp {
    let camp = Camp::new();
    let card = camp.good(&["device", "new", "emmc-odroid-xu4,card.cache_kib=2224"]);
    fs::write(camp.path("card.toml"), card).unwrap();
    camp
}

#[test]
fn a_host_without_the_file_judges_the_device_of_the_plan() {
    let here = with_card();
    let there = Camp::new();
    for (line, name) in lines().iter().zip(["compare", "crash"]) {
        here.plan(line);
        here.good(&[&line[..], &["--out", name]].concat());
        fs::copy(here.path("plan.jsonl"), there.path("plan.jsonl")).unwrap();
        there.work("store", &[]);
        there.merge("store", name);
        let results = format!("{name}/results.json");
        assert_eq!(there.read(&results), here.read(&results), "{name}");
    }
    // What is asked for twice is the same job.
    let said = there.work("store", &[]);
    assert!(said.contains("0 made here"), "{said}");
}

#[test]
fn another_file_in_its_place_is_refused_by_name() {
    let camp = with_card();
    camp.plan(&lines()[0]);
    let card = camp.read("card.toml");
    fs::write(camp.path("card.toml"), format!("{card}\n# changed\n")).unwrap();
    fs::create_dir_all(camp.path("store/results")).unwrap();
    for sub in ["work", "merge"] {
        let said = camp.fails(&Camp::line(sub, "store", &[]), 1);
        assert!(
            said.contains("./card.toml is not the file that the plan was made with"),
            "{sub}: {said}"
        );
    }
    fs::write(camp.path("card.toml"), card).unwrap();
    camp.work("store", &[]);
}

#[test]
fn a_device_that_was_edited_in_the_plan_is_refused() {
    let camp = with_card();
    camp.plan(&lines()[0]);
    let plan = camp.read("plan.jsonl");
    fs::remove_file(camp.path("card.toml")).unwrap();
    for (changed, word) in [
        (
            plan.replacen("2224", "2228", 1),
            "line 3: its text is not the ./card.toml",
        ),
        (
            plan.lines()
                .filter(|l| !l.starts_with("{\"profile\""))
                .map(|l| format!("{l}\n"))
                .collect(),
            "lines above were changed",
        ),
    ] {
        fs::write(camp.path("plan.jsonl"), changed).unwrap();
        let said = camp.fails(&Camp::line("work", "store", &[]), 2);
        assert!(said.contains(word), "{said}");
    }
}
