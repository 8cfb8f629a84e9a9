//! Which calls of a recording cause which writes: the parts are all of it, and each belongs to who
//! sent it.

use report::causes::{By, Cause, Causes};
use report::results::Run;
use rig::{Config, Fs};
use std::fs;
use varve_work::RunConfig;
use varve_work::run::run;

/// Two processes: one writes 40 KiB to a file and syncs it, the other 4 KiB to another; a third
/// writes and never syncs.
const TWO: &str = "\
10 1000.000000 openat(AT_FDCWD, \"/d/big\", O_RDWR|O_CREAT, 0600) = 3 <0.000010>
10 1000.001000 pwrite64(3, \"\"..., 40960, 0) = 40960 <0.000010>
10 1000.002000 fsync(3) = 0 <0.001000>
11 1000.010000 openat(AT_FDCWD, \"/d/small\", O_RDWR|O_CREAT, 0600) = 4 <0.000010>
11 1000.011000 pwrite64(4, \"\"..., 4096, 0) = 4096 <0.000010>
11 1000.012000 fsync(4) = 0 <0.001000>
10 1000.020000 pwrite64(3, \"\"..., 4096, 0) = 4096 <0.000010>
10 1000.021000 fdatasync(3) = 0 <0.001000>
12 1000.030000 openat(AT_FDCWD, \"/d/lazy\", O_RDWR|O_CREAT, 0600) = 5 <0.000010>
12 1000.031000 pwrite64(5, \"\"..., 8192, 0) = 8192 <0.000010>
";

fn replayed(fs: Fs, scheme: &str) -> Run {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), TWO).unwrap();
    let scheme: rig::Scheme = scheme.parse().unwrap();
    let mut stack = Config::new(scheme, "emmc-odroid-xu4", 1);
    (stack.fs, stack.bytes, stack.timers) = (fs, 256 << 20, false);
    let config = RunConfig {
        stack,
        workload: "replay:file=two,pace=none".into(),
        seed: 1,
        recording: Some(file.path().into()),
    };
    run(&config, &mut |_, _| {}).unwrap().run
}

fn named<'a>(causes: &'a Causes, by: By, name: &str) -> &'a Cause {
    let found = causes.by(by).iter().find(|c| c.name == name);
    found.unwrap_or_else(|| panic!("{by} {name}: {causes:?}"))
}

/// All bytes that went to the device, as the queue counts them.
fn whole(run: &Run) -> u64 {
    run.blocks.values().sum::<u64>() * 4096
}

#[test]
fn the_parts_are_the_whole_with_every_scheme() {
    for (fs, scheme) in [
        (Fs::Ext4, "jbd2"),
        (Fs::Ext4, "emmc"),
        (Fs::Ext4, "adaptive"),
        (Fs::Ext4, "none"),
        (Fs::F2fs, "checkpoint-60"),
        (Fs::F2fs, "f2fsj"),
    ] {
        let run = replayed(fs, scheme);
        let causes = run.causes.as_ref().unwrap();
        for by in By::ALL {
            let sum: u64 = causes.by(by).iter().map(Cause::bytes).sum();
            assert_eq!(sum, whole(&run), "{fs} {scheme} by {by}: {:?}", run.blocks);
            let syncs: u64 = causes.by(by).iter().map(|c| c.syncs).sum();
            assert_eq!(syncs, 3, "{by}: {causes:?}");
        }
    }
}

#[test]
fn bytes_belong_to_the_file_and_the_process_that_sent_them() {
    let run = replayed(Fs::Ext4, "jbd2");
    let causes = run.causes.as_ref().unwrap();
    let (big, small) = (
        named(causes, By::File, "/d/big"),
        named(causes, By::File, "/d/small"),
    );
    assert_eq!((big.data_bytes, small.data_bytes), (40_960 + 4096, 4096));
    assert_eq!((big.syncs, small.syncs), (2, 1));
    // Each commit belongs to the sync that waited for it.
    assert!(
        big.metadata_bytes > 0 && small.metadata_bytes > 0,
        "{causes:?}"
    );
    // Processes are numbered in the order of their first calls.
    let (ten, eleven) = (
        named(causes, By::Process, "0"),
        named(causes, By::Process, "1"),
    );
    assert_eq!(
        (ten.data_bytes, eleven.data_bytes),
        (big.data_bytes, small.data_bytes)
    );
    assert_eq!(ten.metadata_bytes, big.metadata_bytes);
    let (fsync, fdatasync) = (
        named(causes, By::Call, "fsync"),
        named(causes, By::Call, "fdatasync"),
    );
    assert_eq!(
        (fsync.data_bytes, fdatasync.data_bytes),
        (40_960 + 4096, 4096)
    );
    assert_eq!((fsync.syncs, fdatasync.syncs), (2, 1));
    assert_eq!(
        fsync.metadata_bytes + fdatasync.metadata_bytes,
        big.metadata_bytes + small.metadata_bytes
    );
}
