//! `varve crash --kernel` and `--log`: the ext4 of a Linux kernel in a guest, and a log of
//! dm-log-writes.

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
    std::fs::write(dir.path().join("log"), vec![1; 4096]).unwrap();
    let (code, said) = judged("true");
    assert!(code == Some(1) && said.contains("magic"), "{said}");
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
        "crash --kernel qemu --fs ext4 --run true --image x",
        "crash --log y",
    ] {
        let out = run(&dir, line);
        assert_eq!(out.status.code(), Some(2), "{line}: {}", words(&out));
    }
}
