//! The command lines that other programs run: those of the examples, word for word.

use super::{Camp, TWO};
use crate::program::{tool, words};
use std::fs;
use std::path::{Path, PathBuf};

fn example(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("examples/campaign").join(name)
}

/// The folder of the program as first place to look for programs.
fn path() -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_varve")).parent().unwrap();
    format!("{}:{}", program.display(), std::env::var("PATH").unwrap())
}

#[test]
fn the_pods_of_an_indexed_job_make_all_results() {
    let camp = Camp::new();
    camp.plan(&TWO);
    let manifest = fs::read_to_string(example("job.yaml")).unwrap();
    let line = manifest
        .lines()
        .find_map(|l| l.trim().strip_prefix("- exec varve"))
        .unwrap();
    for index in 0..2 {
        let mut shell = tool("/bin/sh");
        let out = shell
            .args(["-c", &format!("exec varve{line}")])
            .env("JOB_COMPLETION_INDEX", index.to_string())
            .env("SHARES", "2")
            .env("FOLDER", camp.path(""))
            .env("PATH", path())
            .output()
            .unwrap();
        assert!(
            out.status.success() && words(&out).contains("1 jobs: 1 made"),
            "{}",
            words(&out)
        );
    }
    assert_eq!(camp.status("store")["done"], 2);
}

#[test]
fn gnu_parallel_makes_all_results() {
    let camp = Camp::new();
    camp.plan(&TWO);
    if !tool("parallel")
        .arg("--version")
        .output()
        .is_ok_and(|o| o.status.success())
    {
        eprintln!("skipped: GNU parallel is not installed");
        return;
    }
    let mut shell = tool("/bin/sh");
    shell.arg(example("parallel.sh")).current_dir(camp.path(""));
    // A name with a space in it is one word.
    std::fs::copy(camp.path("plan.jsonl"), camp.path("my plan.jsonl")).unwrap();
    let named = [
        ("PLAN", "my plan.jsonl"),
        ("STORE", "store"),
        ("SHARES", "2"),
    ];
    let out = shell.envs(named).env("PATH", path()).output().unwrap();
    assert!(out.status.success(), "{}", words(&out));
    assert_eq!(camp.status("store")["done"], 2);
}

#[test]
fn the_sweep_of_the_examples_is_a_thousand_runs() {
    let camp = Camp::new();
    let sweep = example("sweep.toml");
    camp.plan(&[sweep.to_str().unwrap()]);
    let plan = camp.read("plan.jsonl");
    assert_eq!(
        plan.lines().filter(|l| l.starts_with("{\"job\":")).count(),
        1000
    );
}

#[test]
fn the_script_for_slurm_says_what_was_asked_for() {
    let camp = Camp::new();
    camp.plan(&TWO);
    let more = [
        "--slurm",
        "--dry-run",
        "--tasks",
        "2",
        "--throttle",
        "1",
        "--partition",
        "long",
        "--time",
        "2:00:00",
        "--mem",
        "4G",
        "--sbatch=--account=lab",
    ];
    let script = camp.good(&Camp::line("submit", "it's a store", &more));
    for word in [
        "#!/bin/sh\n",
        "#SBATCH --array=1-2%1\n",
        "#SBATCH --requeue\n",
        "#SBATCH --partition=long\n",
        "#SBATCH --time=2:00:00\n",
        "#SBATCH --mem=4G\n",
        "#SBATCH --account=lab\n",
    ] {
        assert!(script.contains(word), "{word}: {script}");
    }
    // The script does what it says where Slurm has set the number of the task.
    for task in ["1", "2"] {
        let mut shell = tool("/bin/sh");
        let out = shell
            .args(["-c", &script])
            .env("SLURM_ARRAY_TASK_ID", task)
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", words(&out));
    }
    assert_eq!(camp.status("it's a store")["done"], 2);
}
