//! `varve crash --kernel` and `--log`: the ext4 of a Linux kernel in a guest, and a log of
//! dm-log-writes.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::program::{folder, run, varve_in, words};
use std::path::Path;
use std::process::Output;

/// A file of 200 bytes, then a name, each acknowledged when it is synced.
const RUN: &str = "head -c 200 /dev/zero | tr '\\0' x >a; sync a; ack file a; \
    mkdir d; echo two >d/b; sync d/b; varve ack file d/b; mv a e; sync .; ack name e";
/// What was acknowledged is there with its content.
const CHECK: &str = "if [ -e a ]; then f=a; else f=e; fi; while read -r kind name; do case $kind-$name in \
    file-a) test \"$(wc -c <$f)\" = 200 || { echo a is short; exit 1; };; \
    file-d/b) read -r word <d/b && test \"$word\" = two || exit 1;; \
    name-e) test -e e -a ! -e a || exit 1;; \
    *) echo \"unknown: $kind $name\"; exit 9;; esac; done <$VARVE_ACKED";

/// The machine that is installed; the suite has looked that it boots.
fn machine() -> &'static str {
    let uml = Path::new("/usr/bin/linux.uml").is_file();
    if uml { "any" } else { "qemu" }
}

/// Explores a file system of so many MiB that `mkfs` makes, with the program behind `before`.
fn explore(
    dir: &Path,
    out: &str,
    (fs, mib, mkfs): (&str, &str, &str),
    mount: &str,
    before: &str,
) -> (Output, serde_json::Value) {
    let args = ["crash", "--kernel", machine(), "--fs", fs, "--size", mib];
    let bound = [
        "--torn", "0", "--subset", "1", "--states", "16", "--out", out,
    ];
    let run = format!("{before}{RUN}");
    let output = varve_in(dir)
        .args(args)
        .args(bound)
        .args([
            "--mkfs", mkfs, "--mount", mount, "--run", &run, "--check", CHECK,
        ])
        .output()
        .expect("the program starts");
    let results = std::fs::read(dir.join(out).join("results.json"));
    let results = results.unwrap_or_else(|e| panic!("{e}: {}", words(&output)));
    eprintln!("{}", words(&output));
    (output, serde_json::from_slice(&results).expect("JSON"))
}

const EXT4: (&str, &str, &str) = ("ext4", "16", "mke2fs -q -F -t ext4 -b 4096 $VARVE_DEVICE");

/// The first fsync behind a mount or a checkpoint does not wait for its node in Linux
/// (docs/results/crash-kernel.md), so another file's comes first.
#[test]
#[ignore = "a minute in QEMU"]
fn the_kernels_f2fs_keeps_what_fsync_promised_behind_another_fsync() {
    let dir = folder();
    let f2fs = ("f2fs", "64", "mkfs.f2fs -q $VARVE_DEVICE");
    let before = "echo x >z; sync z; ";
    let (output, seen) = explore(dir.path(), "f2fs", f2fs, "fsync_mode=posix", before);
    assert!(output.status.success(), "{}", words(&output));
    assert_eq!((&seen["acks"], &seen["bad"]), (&3.into(), &0.into()));
    assert!(seen["states"].as_u64().is_some_and(|n| n > 20), "{seen}");
}

#[test]
#[ignore = "a minute in QEMU"]
fn the_kernels_ext4_keeps_what_fsync_promised_with_barriers_only() {
    let dir = folder();
    let count = |seen: &serde_json::Value, key: &str| seen[key].as_u64().expect("a count");
    let (output, seen) = explore(dir.path(), "ordered", EXT4, "data=ordered", "");
    assert!(output.status.success(), "{}", words(&output));
    assert_eq!((count(&seen, "acks"), count(&seen, "bad")), (3, 0));
    assert!(count(&seen, "states") > 20 && count(&seen, "flushes") >= 3);
    // The positive control.
    let (output, seen) = explore(dir.path(), "control", EXT4, "data=ordered,barrier=0", "");
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    assert!(count(&seen, "bad") > 0 && count(&seen, "acks") == 3);
    assert!(dir.path().join("control/bad.img").exists());
}

/// Some states make the guest's kernel panic: each is found, and all others are judged by a kernel
/// that is booted anew. What a check leaves running does not keep a volume busy.
#[test]
#[ignore = "a boot for each state that kills a kernel"]
fn a_state_under_which_the_kernel_dies_is_a_finding() {
    let dir = folder();
    let check = "sleep 1000 & if [ -e b ]; then echo c >/proc/sysrq-trigger; sleep 1000; fi";
    let args = ["crash", "--kernel", machine(), "--fs", EXT4.0, "--size"];
    let bound = ["16", "--torn", "0", "--subset", "1", "--states", "4"];
    let mut command = varve_in(dir.path());
    command.args(args).args(bound).args(["--mkfs", EXT4.2]);
    let run = "echo 1 >a; sync a; ack a; echo 2 >b; sync b";
    command.args(["--run", run, "--check", check, "--out", "out"]);
    let output = command.output().expect("the program starts");
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    let results = std::fs::read(dir.path().join("out/results.json")).expect("results");
    let seen: serde_json::Value = serde_json::from_slice(&results).expect("JSON");
    let count = |key: &str| seen[key].as_u64().expect("a count");
    // Those with the file follow those without it, some cuts have both.
    assert!(
        count("bad") > 1 && count("states") > count("bad") + 3,
        "{seen}"
    );
    let why = seen["first"]["why"].as_str().expect("the first");
    assert!(why.starts_with("the kernel dies with it"), "{why}");
    assert!(why.contains("sysrq"), "the console tells why: {why}");
}

/// Workloads of the explorer on a file system of the kernel, judged by the rules.
fn workloads(
    dir: &Path,
    out: &str,
    (fs, mib, mkfs): (&str, &str, &str),
    mount: &str,
    texts: &[&str],
) -> (Output, serde_json::Value) {
    let mut command = varve_in(dir);
    let args = ["crash", "--kernel", machine(), "--fs", fs, "--size", mib];
    let bound = ["--subset", "1", "--states", "16", "--out", out];
    command.args(args).args(bound);
    command.args(["--mkfs", mkfs, "--mount", mount]);
    for text in texts {
        command.args(["--workload", text]);
    }
    let output = command.output().expect("the program starts");
    let results = std::fs::read(dir.join(out).join("results.json"));
    let results = results.unwrap_or_else(|e| panic!("{e}: {}", words(&output)));
    eprintln!("{}", words(&output));
    (output, serde_json::from_slice(&results).expect("JSON"))
}

/// A file whose content and name are owed, and a directory.
const OWED: &str =
    "script:create /a; write /a 0+9000; fsync /a; mkdir /d; rename /a /d/b; syncdir /d";

/// Barriers decide: with them no promise of the table is broken, without them one is, and the line
/// that is told shows it again.
#[test]
fn the_rules_hold_on_the_kernels_ext4_with_barriers_only() {
    let dir = folder();
    let (output, seen) = workloads(dir.path(), "ordered", EXT4, "data=ordered", &[OWED]);
    assert!(output.status.success(), "{}", words(&output));
    assert_eq!((&seen["bad"], &seen["sequences"]), (&0.into(), &1.into()));
    assert!(seen["states"].as_u64().is_some_and(|n| n > 20), "{seen}");
    let (output, seen) = workloads(dir.path(), "control", EXT4, "nobarrier", &[OWED]);
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    assert!(seen["bad"].as_u64().is_some_and(|n| n > 0), "{seen}");
    let first = &seen["rows"][0]["first"];
    let line = first["line"].as_str().expect("a line");
    let rule = seen["rows"][0]["rules"].as_object().expect("rules");
    assert!(rule.keys().any(|name| name.starts_with('O')), "{seen}");
    let line = line.replacen("varve", env!("CARGO_BIN_EXE_varve"), 1);
    let mut shell = std::process::Command::new("sh");
    let again = shell.args(["-c", &format!("{line} --out again")]);
    let again = again.current_dir(dir.path()).output().expect("a shell");
    assert_eq!(again.status.code(), Some(1), "{line}: {}", words(&again));
}

/// What is kept is taken: sequences with a bad state and without, and what is told of them. Other
/// options are another run.
#[test]
#[ignore = "four boots"]
fn a_run_with_a_store_goes_on_where_it_was() {
    let dir = folder();
    let command = |mount: &str, texts: &[&str]| {
        let mut command = varve_in(dir.path());
        let args = ["crash", "--kernel", machine(), "--fs", "ext4", "--size"];
        let bound = ["16", "--subset", "1", "--states", "8", "--store", "store"];
        command.args(args).args(bound).args(["--mkfs", EXT4.2]);
        command.args(["--mount", mount, "--out", "out"]);
        texts.iter().for_each(|text| {
            command.args(["--workload", text]);
        });
        let output = command.output().expect("the program starts");
        let results = std::fs::read(dir.path().join("out/results.json")).unwrap();
        let seen: serde_json::Value = serde_json::from_slice(&results).expect("JSON");
        (words(&output), seen)
    };
    let sync = "script:create /b; fsync /b";
    let (said, first) = command("nobarrier", &[OWED]);
    assert!(!said.contains("in the store"), "{said}");
    let (said, both) = command("nobarrier", &[OWED, sync]);
    assert!(said.contains("1 sequences were in the store"), "{said}");
    assert_eq!(both["rows"][0], first["rows"][0]);
    assert!(first["rows"][0]["bad"].as_u64() > Some(0), "{first}");
    let (said, again) = command("nobarrier", &[OWED, sync]);
    assert!(said.contains("2 sequences were in the store"), "{said}");
    assert_eq!(again["rows"], both["rows"]);
    let (said, _) = command("data=ordered", &[sync]);
    assert!(!said.contains("in the store"), "{said}");
}

/// The first example of the page, as it stands there: a user who begins with it sees a correct file
/// system come out whole.
#[test]
fn the_example_of_the_page_finds_nothing_in_a_correct_ext4() {
    let dir = folder();
    let page = include_str!("../../../../docs/use/crash-kernel.md");
    let line = page.lines().find(|line| line.starts_with("    varve "));
    let line = line.expect("an example").trim();
    assert!(!line.contains("--torn"), "by its default: {line}");
    let line = line.replace("--kernel qemu", &format!("--kernel {}", machine()));
    let line = line.replacen("varve", env!("CARGO_BIN_EXE_varve"), 1);
    let mut shell = std::process::Command::new("sh");
    let output = shell.args(["-c", &line]).current_dir(dir.path()).output();
    let output = output.expect("a shell");
    let said = words(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("every state is whole"), "{said}");
    let results = std::fs::read(dir.path().join("varve-crash/results.json")).unwrap();
    let seen: serde_json::Value = serde_json::from_slice(&results).unwrap();
    assert!(seen["states"].as_u64().is_some_and(|n| n > 10), "{seen}");
}

/// Guests whose kernel runs in a process below `tmp`.
fn guests(tmp: &Path) -> Vec<u32> {
    let tmp = tmp.to_str().unwrap();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).into_owned();
        let of_guest = line.contains(&format!("{tmp}/guest")) && !line.contains("--kernel");
        entry
            .file_name()
            .to_str()?
            .parse()
            .ok()
            .filter(|_| of_guest)
    })
    .collect()
}

fn until(what: &str, mut so: impl FnMut() -> bool) {
    let since = std::time::Instant::now();
    while !so() {
        assert!(since.elapsed().as_secs() < 60, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// One signal ends the command at once, with its guests and folders, in the middle of a script; a
/// command that is killed leaves no guest behind.
#[test]
#[ignore = "two boots of two guests"]
fn a_signal_ends_the_command_and_its_guests() {
    for signal in ["-INT", "-KILL"] {
        let dir = folder();
        let tmp = dir.path().join("tmp");
        std::fs::create_dir(&tmp).unwrap();
        let args = [
            "crash",
            "--kernel",
            machine(),
            "--fs",
            "ext4",
            "--size",
            "16",
        ];
        // A shell that runs the tests in the background may have them ignore signals.
        let mut command = std::process::Command::new("env");
        command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_varve")]);
        command.current_dir(dir.path());
        command.args(args).args(["--run", "sleep 1000; true"]);
        command.args(["--mkfs", EXT4.2]).env("TMPDIR", &tmp);
        command.stderr(std::process::Stdio::piped());
        let child = command.spawn().expect("the program starts");
        // The script of the run has begun.
        until("a script of the guest", || {
            let folders = std::fs::read_dir(&tmp).unwrap().flatten();
            folders
                .map(|entry| entry.path())
                .any(|path| path.join("said.0").exists())
        });
        assert!(!guests(&tmp).is_empty());
        let id = child.id().to_string();
        let sent = std::process::Command::new("kill")
            .args([signal, &id])
            .status();
        assert!(sent.unwrap().success());
        let since = std::time::Instant::now();
        let output = child.wait_with_output().unwrap();
        assert!(since.elapsed().as_secs() < 5, "{signal}");
        until("no guest is left", || guests(&tmp).is_empty());
        until("no folder of a guest is left", || {
            let left = std::fs::read_dir(&tmp).unwrap().flatten();
            left.filter(|entry| {
                entry
                    .file_name()
                    .to_str()
                    .is_some_and(|n| n.starts_with("guest"))
            })
            .count()
                == 0
        });
        if signal == "-INT" {
            let said = words(&output);
            assert_eq!(output.status.code(), Some(130), "{said}");
            assert!(said.contains("nothing is written"), "{said}");
            assert_eq!(std::fs::read_dir(&tmp).unwrap().count(), 0);
        }
    }
}

#[test]
fn a_log_is_not_written_over_a_file_that_exists() {
    let dir = folder();
    std::fs::write(dir.path().join("base.img"), vec![0; 1 << 20]).unwrap();
    std::fs::write(dir.path().join("mine"), "mine").unwrap();
    let line = "crash --image base.img --write-log mine --run false";
    let out = run(&dir, line);
    let said = words(&out);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(
        said.contains("mine") && said.contains("--force replaces it"),
        "{said}"
    );
    assert_eq!(std::fs::read(dir.path().join("mine")).unwrap(), b"mine");
}

/// A log of 4 entries in the kernel's format, byte by byte: 4096 bytes of `fill` at 4096, a flush,
/// the mark `saved`, 4096 bytes of `fill` at 8192.
fn log(fill: u8) -> Vec<u8> {
    let sector = |numbers: &[u64], text: &[u8]| {
        let mut raw: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        raw.extend(text);
        raw.resize(512, 0);
        raw
    };
    let data = vec![fill; 4096];
    [
        sector(&[0x006a_7366_7773_6872, 1, 4, 512], b""),
        sector(&[8, 8, 0, 0], b""),
        data.clone(),
        sector(&[0, 0, 1, 0], b""),
        sector(&[0, 0, 8, 5], b"saved"),
        sector(&[16, 8, 0, 0], b""),
        data,
    ]
    .concat()
}

#[test]
fn a_log_of_a_device_is_cut_and_its_marks_are_owed() {
    let dir = folder();
    std::fs::write(dir.path().join("base.img"), vec![0; 1 << 20]).unwrap();
    std::fs::write(dir.path().join("log"), log(7)).unwrap();
    let judged = |judge: &str| {
        let line = "crash --image base.img --log log --torn 0 --out out --judge";
        let mut command = varve_in(dir.path());
        let out = command.args(line.split(' ')).arg(judge).output();
        let out = out.expect("the program starts");
        (out.status.code(), words(&out))
    };
    let byte = |at: u32| format!("$(od -An -tu1 -j{at} -N1 $VARVE_STATE)");
    // Who was told `saved` finds the first block, and may or may not find the second one.
    let kept = format!("! grep -qx saved $VARVE_ACKED || test {} -eq 7", byte(4096));
    let (code, said) = judged(&kept);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("2 writes, 1 syncs, 1 acknowledgements"),
        "{said}"
    );
    // Nothing and the first block without the mark; the first block and both with it.
    assert!(said.contains("4 states"), "{said}");
    let too_much = format!("! grep -qx saved $VARVE_ACKED || test {} -eq 7", byte(8192));
    let (code, said) = judged(&too_much);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("1 of 4 states are not whole"), "{said}");
    // A foreign or cut file is refused by name.
    std::fs::write(dir.path().join("log"), &log(7)[..3000]).unwrap();
    let (code, said) = judged("true");
    assert!(code == Some(1) && said.contains("log: entry 0"), "{said}");
    assert!(said.contains("cut short"), "{said}");
    std::fs::write(dir.path().join("log"), vec![1; 4096]).unwrap();
    let (code, said) = judged("true");
    assert!(code == Some(1) && said.contains("magic"), "{said}");
    // To open a pipe would wait for who writes into it.
    std::fs::remove_file(dir.path().join("log")).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(dir.path().join("log"))
        .status();
    assert!(made.unwrap().success());
    let (code, said) = judged("true");
    assert!(
        code == Some(1) && said.contains("log: it is neither a file"),
        "{said}"
    );
}

#[test]
fn what_makes_no_sense_together_is_refused() {
    let dir = folder();
    for line in [
        "crash --kernel qemu --run true",
        "crash --kernel qemu --fs ext4",
        "crash --kernel qemu --fs ext4;x --run true",
        "crash --kernel qemu --fs ext4 --mount a;b --run true",
        "crash --image x",
        "crash --image x --log y --run true",
        "crash --kernel qemu --fs ext4 --run true --workload ace:1",
        "crash --kernel qemu --fs ext4 --run true --seed 1",
        "crash --kernel qemu --fs ext4 --run true --store s",
        "crash --kernel qemu --fs jfs --workload ace:1",
        "crash --kernel qemu --fs ext4 --workload ace:9",
        "crash --kernel qemu --fs ext4 --workload sqlite:insert=1",
        "crash --kernel qemu --fs ext4 --workload ace:1 --check true",
        "crash --kernel qemu --fs ext4 --run true --image x",
        "crash --kernel qemu --fs ext4 --run true --size 99999999999",
        "crash --kernel qemu --fs ext4 --run true --force",
        "crash --log y",
    ] {
        let out = run(&dir, line);
        assert_eq!(out.status.code(), Some(2), "{line}: {}", words(&out));
    }
}
