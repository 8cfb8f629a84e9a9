//! Plans and stores that are not what they should be.

use super::{Camp, TWO, all};
use crate::program::{tool, words};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

#[test]
fn a_result_that_is_half_written_is_put_aside_and_made_again() {
    let camp = Camp::new();
    camp.plan(&TWO);
    camp.work("store", &[]);
    camp.merge("store", "before");
    let file = &camp.files("store", "results")[0];
    let whole = fs::read(file).unwrap();
    fs::write(file, &whole[..whole.len() / 2]).unwrap();
    let said = camp.fails(&Camp::line("merge", "store", &[]), 1);
    assert!(
        said.contains("is no whole result") && said.contains("1 results are missing"),
        "{said}"
    );
    let out = camp.run(&Camp::line("work", "store", &[]));
    assert!(
        out.status.success() && words(&out).contains("put aside"),
        "{}",
        words(&out)
    );
    assert_eq!(camp.files("store", "damaged").len(), 1);
    camp.merge("store", "after");
    assert_eq!(
        camp.read("before/results.json"),
        camp.read("after/results.json")
    );
    // A command with the store does the same.
    fs::write(file, "").unwrap();
    let out = camp.run(&[&TWO[..], &["--store", "store"]].concat());
    assert!(
        out.status.success() && words(&out).contains("put aside"),
        "{}",
        words(&out)
    );
}

#[test]
fn a_plan_that_was_edited_is_refused_before_anything_runs() {
    let camp = Camp::new();
    camp.plan(&TWO);
    let plan = camp.read("plan.jsonl").replace("\"cost\":", "\"cost\":1");
    fs::write(camp.path("plan.jsonl"), plan).unwrap();
    for sub in ["work", "status", "merge"] {
        fs::create_dir_all(camp.path("store/results")).unwrap();
        let said = camp.fails(&Camp::line(sub, "store", &[]), 2);
        assert!(
            said.contains("plan.jsonl, line 5: lines above were changed"),
            "{sub}: {said}"
        );
    }
    assert!(camp.files("store", "results").is_empty());
}

#[test]
fn a_plan_of_another_program_is_refused() {
    let camp = Camp::new();
    // The same program with another build id is another.
    let other = camp.path("other");
    let mut program = fs::read(env!("CARGO_BIN_EXE_varve")).unwrap();
    // The head of the note: bytes of owner and of content, the type, the owner.
    let note = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0";
    let at = program.windows(note.len()).position(|bytes| bytes == note);
    let at = at.expect("a linker of Linux writes a build id") + note.len();
    program[at] ^= 1;
    fs::write(&other, program).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    let mut line = std::process::Command::new(&other);
    let out = line.args(["campaign", "plan"]).args(TWO).output().unwrap();
    assert!(out.status.success(), "{}", words(&out));
    fs::write(camp.path("plan.jsonl"), out.stdout).unwrap();
    fs::create_dir_all(camp.path("store/results")).unwrap();
    for (sub, more) in [("work", &[][..]), ("merge", &[]), ("submit", &["--slurm"])] {
        let said = camp.fails(&Camp::line(sub, "store", more), 2);
        assert!(
            said.contains("it was made by another program (build "),
            "{sub}: {said}"
        );
    }
    assert_eq!(
        camp.status("store")["missing"],
        2,
        "to look at it is no harm"
    );
}

#[test]
fn a_full_disk_is_named_and_leaves_only_whole_results() {
    let camp = Camp::new();
    camp.plan(&["compare", "--size", "64", "--workload", super::SMALL]);
    let store = camp.path("store");
    fs::create_dir(&store).unwrap();
    let mounted = tool("mount")
        .args(["-t", "tmpfs", "-o", "size=8k", "tmpfs"])
        .arg(&store)
        .output();
    if !mounted.is_ok_and(|out| out.status.success()) {
        eprintln!("skipped: a small disk can only be mounted by root");
        return;
    }
    let out = camp.run(&Camp::line("work", "store", &["--workers", "1"]));
    let (code, said) = (out.status.code(), words(&out));
    let status = camp.status("store");
    tool("umount").arg(&store).status().unwrap();
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("No space left") && said.contains("make room"),
        "{said}"
    );
    assert!(status["done"].as_u64().unwrap() > 0, "{status}");
    assert!(status["missing"].as_u64().unwrap() > 0, "{status}");
    assert_eq!(
        (&status["damaged"], &status["retried"]),
        (&0.into(), &0.into()),
        "{status}"
    );
}

/// The output folder of a merge has room for so many files, and is told full at each.
#[test]
fn a_full_disk_in_a_merge_is_named_and_leaves_no_part_of_a_file() {
    let camp = Camp::new();
    camp.plan(&super::TWO);
    camp.work("store", &[]);
    let out = camp.path("out");
    fs::create_dir(&out).unwrap();
    for files in 2..7 {
        // The folder itself is one.
        let mounted = tool("mount")
            .args(["-t", "tmpfs", "tmpfs", "-o"])
            .arg(format!("size=4m,nr_inodes={files}"))
            .arg(&out)
            .output();
        if !mounted.is_ok_and(|out| out.status.success()) {
            eprintln!("skipped: a small disk can only be mounted by root");
            return;
        }
        let merged = camp.run(&Camp::line("merge", "store", &["--out", "out"]));
        let names = fs::read_dir(&out).unwrap().map(|f| f.unwrap().file_name());
        let names: Vec<_> = names.collect();
        tool("umount").arg(&out).status().unwrap();
        let said = words(&merged);
        assert_eq!(merged.status.code(), Some(1), "{files}: {said}");
        assert!(
            said.contains("No space left") && said.contains("make room"),
            "{files}: {said}"
        );
        let is_part = |name: &std::ffi::OsString| name.as_encoded_bytes().starts_with(b".");
        assert!(!names.iter().any(is_part), "{files}: {names:?}");
    }
    camp.merge("store", "out");
}

/// Workers on hosts whose clocks are years apart: what is done stays so, and counts once.
#[test]
fn clocks_that_differ_change_nothing() {
    let camp = Camp::new();
    camp.plan(&[
        "crash",
        "--schemes",
        "jbd2,none",
        "--workload",
        "ace:1,every=40",
    ]);
    fs::create_dir_all(camp.path("empty/results")).unwrap();
    let jobs = camp.status("empty")["jobs"].as_u64().unwrap();
    camp.work("store", &["--jobs", "1-3"]);
    camp.work("store", &["--jobs", "4-6"]);
    let year = Duration::from_secs(365 * 24 * 3600);
    let (past, future) = (SystemTime::now() - 30 * year, SystemTime::now() + 30 * year);
    let skew = |store: &str| {
        let kinds = ["results", "packed", "again"];
        let files: Vec<_> = kinds
            .iter()
            .flat_map(|kind| camp.files(store, kind))
            .collect();
        assert!(files.len() >= 2, "{files:?}");
        for (n, file) in files.iter().enumerate() {
            let at = if n % 2 == 0 { future } else { past };
            fs::File::options()
                .write(true)
                .open(file)
                .unwrap()
                .set_modified(at)
                .unwrap();
        }
    };
    skew("store");
    assert_eq!(camp.status("store")["done"], 6);
    // One more worker, whose own clock is right.
    let said = camp.work("store", &[]);
    assert!(
        said.contains(&format!("{} made here, 6 were there", jobs - 6)),
        "{said}"
    );
    skew("store");
    let said = camp.work("store", &[]);
    assert!(
        said.contains(&format!("0 made here, {jobs} were there")),
        "{said}"
    );
    // A store of another host, with the same results in other files.
    camp.work("other", &[]);
    skew("other");
    let sync = tool("rsync")
        .arg("-a")
        .arg(camp.path("other/"))
        .arg(camp.path("store"))
        .status();
    assert!(sync.unwrap().success());
    let status = camp.status("store");
    assert_eq!(
        (&status["done"], &status["missing"]),
        (&jobs.into(), &0.into()),
        "{status}"
    );
    camp.merge("store", "merged");
    camp.merge("other", "alone");
    assert_eq!(all(&camp.path("merged")), all(&camp.path("alone")));
    assert_eq!(
        camp.read("merged/cases.csv").lines().count() as u64,
        jobs + 1
    );
}

#[test]
fn what_is_asked_for_wrongly_is_refused_by_name() {
    let camp = Camp::new();
    camp.plan(&TWO);
    for (line, code, word) in [
        (&["campaign", "plan", "nothing.toml"][..], 1, "nothing.toml"),
        (
            &["campaign", "plan", "fsck", "-n"],
            2,
            "`fsck`: a campaign is of compare, crash or paper",
        ),
        (
            &["campaign", "plan", "compare", "--out", "x"],
            2,
            "--out is not for a plan",
        ),
        (
            &["campaign", "plan", "compare", "--schemes", "emc"],
            2,
            "emc",
        ),
        (
            &Camp::line("work", "s", &["--jobs", "3-1"]),
            2,
            "A-B with A from 1",
        ),
        (
            &Camp::line("work", "s", &["--job", "1", "--share", "1/2"]),
            2,
            "cannot be used with",
        ),
        (&Camp::line("work", "plan.jsonl", &[]), 1, "plan.jsonl"),
        (
            &Camp::line("status", "nowhere", &[]),
            1,
            "there is no store",
        ),
        (&Camp::line("submit", "s", &[]), 2, "--slurm"),
    ] {
        let said = camp.fails(line, code);
        assert!(said.contains(word), "{line:?}: {said}");
    }
    let said = camp.work("s", &["--job", "9"]);
    assert!(said.contains("nothing to do"), "{said}");
    fs::write(camp.path("twice.toml"), "command = 'compare'\n[options]\nschemes = 'jbd2'\nsize = 64\n[sweep]\ntimers = ['on']\nwriteback = ['linux', 'linux']\n").unwrap();
    let said = camp.fails(&["campaign", "plan", "twice.toml"], 2);
    assert!(
        said.contains("`writeback` under [sweep] has \"linux\" twice"),
        "{said}"
    );
    fs::write(
        camp.path("twice.toml"),
        "command = 'compare'\n[options]\nschemes = 'jbd2'\n[sweep]\nsize = [64, '64M']\n",
    )
    .unwrap();
    let said = camp.fails(&["campaign", "plan", "twice.toml"], 2);
    assert!(said.contains("asks again for ext4/jbd2"), "{said}");
}
