//! What the explorer runs, end to end: SQLite and the workloads of `varve compare` keep their
//! promises, and lose what they do not promise.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use varve_crash::campaign::{BATCH, Explored, Look, Reach, explore};
use varve_crash::case::{Case, Volumes};

const REACH: Reach = Reach {
    moments: 0,
    fsck: false,
    deep_one_in: 0,
    mode: Look::Bounded,
    draws: 0,
    subset_max: 1,
    torn_max: 1,
    states_max: 24,
    prune: true,
    nested: 0,
    nested_one_in: 0,
};

fn explored(scheme: &str, device: &str, workload: &str) -> Explored {
    let case = Case {
        scheme: scheme.into(),
        device: device.into(),
        workload: workload.into(),
        seed: 3,
        scheduler: None,
        mutant: None,
    };
    let setup = case.setup(&mut Volumes::default()).unwrap();
    let explored = explore(&setup, &REACH, BATCH, &mut |_| {}).unwrap();
    assert_eq!(explored.failure, None, "{workload}");
    assert!(explored.judged > 10, "{workload}: {explored:?}");
    explored
}

fn assert_kept(scheme: &str, workload: &str) {
    let explored = explored(scheme, "spec:emmc", workload);
    let first = explored.findings.first();
    assert!(first.is_none(), "{scheme}, {workload}: {first:?}");
}

fn assert_found(scheme: &str, workload: &str, rule: &str) {
    let explored = explored(scheme, "spec:emmc", workload);
    let words: Vec<&String> = explored
        .findings
        .iter()
        .flat_map(|f| &f.violations)
        .collect();
    assert!(
        words.iter().any(|w| w.contains(rule)),
        "{scheme}, {workload}: {} findings, {:?}",
        words.len(),
        words.first()
    );
}

/// A sector that is being written may be garbage after a cut on `spec:emmc`: SQLite has to know
/// (psow=off).
const SHORT: &str = "insert=2,update=1,delete=1,psow=off";

#[test]
fn sqlite_loses_no_acknowledged_transaction() {
    for (scheme, modes) in [
        ("jbd2", "journal=wal,synchronous=full"),
        ("emmc", "journal=truncate,synchronous=full"),
        ("coalition", "journal=persist,synchronous=full"),
        ("flush-ahead", "journal=delete,synchronous=extra"),
        ("jbd2", "journal=wal,synchronous=normal"),
    ] {
        assert_kept(scheme, &format!("sqlite:{SHORT},{modes}"));
    }
}

/// Each transaction is one atomic write; `delete` and `full`, which lose the last transaction with
/// a journal file, lose none. A transaction that is too large has a journal file all the same.
#[test]
fn sqlite_with_atomic_writes_loses_no_acknowledged_transaction() {
    for (scheme, modes) in [
        ("jbd2", "journal=delete,synchronous=full"),
        (
            "jbd2",
            "journal=delete,synchronous=full,prefill=300,value=2000",
        ),
        ("emmc", "journal=truncate,synchronous=full"),
        (
            "coalition",
            "journal=delete,synchronous=full,prefill=300,value=2000",
        ),
        ("flush-ahead", "journal=delete,synchronous=full"),
        ("adaptive", "journal=persist,synchronous=full"),
    ] {
        assert_kept(scheme, &format!("sqlite:{SHORT},{modes},batch=on"));
    }
    // Node blocks of F2FS have no checksum, so its devices leave a sector whole. The first
    // transaction has a journal file, whose end SQLite does not sync: it must not come back and be
    // rolled back over those that follow.
    for (scheme, modes) in [
        ("checkpoint-60", "journal=delete,synchronous=full"),
        ("f2fsj", "journal=delete,synchronous=full"),
        ("checkpoint-60", "journal=truncate,synchronous=normal"),
        ("f2fsj", "journal=truncate,synchronous=normal"),
    ] {
        let text = &format!("sqlite:insert=2,update=2,delete=1,{modes},batch=on");
        let explored = explored(scheme, "spec:nvme", text);
        let first = explored.findings.first();
        assert!(first.is_none(), "{scheme}, {text}: {first:?}");
    }
}

/// Atomic writes and other contents on a volume with clusters (`bigalloc`), state by state.
#[test]
fn clusters_keep_what_was_acknowledged() {
    for (scheme, workload) in [
        (
            "jbd2+cluster=65536",
            "sqlite:insert=2,update=1,delete=1,psow=off,journal=delete,synchronous=full,prefill=300,value=2000,batch=on",
        ),
        (
            "emmc+cluster=16384",
            "sqlite:insert=2,update=1,delete=1,psow=off,journal=truncate,synchronous=full,batch=on",
        ),
        (
            "coalition+cluster=32768",
            "script:create f; write f 0+4k; fsync f; write f 8k+4k; fsync f; falloc f 20k+40k keep; truncate f 5000; create g; \
             write g 0+20k; fsync g; unlink f; sync",
        ),
    ] {
        assert_kept(scheme, workload);
    }
}

/// The rows before the first transaction are too many for one atomic write, so they have a journal
/// file, whose removal is durable with `extra`.
#[test]
fn sqlite_whose_journal_is_held_keeps_what_it_acknowledged() {
    for (scheme, modes) in [
        ("jbd2", "journal=delete,synchronous=full"),
        (
            "jbd2",
            "journal=delete,synchronous=extra,prefill=300,value=2000",
        ),
        ("emmc", "journal=truncate,synchronous=full"),
        (
            "coalition",
            "journal=persist,synchronous=full,prefill=300,value=2000",
        ),
        ("flush-ahead", "journal=delete,synchronous=full"),
        ("adaptive", "journal=persist,synchronous=normal"),
    ] {
        assert_kept(scheme, &format!("sqlite:{SHORT},{modes},batch=held"));
    }
    // Each transaction is too large for the journal of the file system: that of SQLite
    // has to be durable before the database is written (held-H2).
    let large = "prefill=1,insert=0,update=2,delete=0,psow=off,value=1200000";
    for modes in ["delete,synchronous=extra", "persist,synchronous=full"] {
        let text = format!("sqlite:{large},batch=held,journal={modes}");
        assert_kept("jbd2", &text);
    }
    for (scheme, modes) in [
        ("checkpoint-60", "journal=delete,synchronous=full"),
        ("f2fsj", "journal=truncate,synchronous=normal"),
    ] {
        let text = &format!("sqlite:insert=2,update=2,delete=1,{modes},batch=held");
        let explored = explored(scheme, "spec:nvme", text);
        let first = explored.findings.first();
        assert!(first.is_none(), "{scheme}, {text}: {first:?}");
    }
}

#[test]
fn sqlite_without_syncs_or_journal_is_seen_to_lose() {
    let off = format!("sqlite:{SHORT},journal=truncate,synchronous=off");
    assert_found("jbd2", &off, "S2: ");
    let none = format!("sqlite:{SHORT},journal=off,synchronous=full");
    assert_found("jbd2", &none, "S1: ");
    let truncate = format!("sqlite:{SHORT},journal=truncate,synchronous=full");
    assert_found("none", &truncate, "P");
}

#[test]
fn sqlite_in_delete_mode_with_full_is_seen_to_lose_its_last_transaction() {
    let text = format!("sqlite:{SHORT},journal=delete,synchronous=full");
    assert_found("jbd2", &text, "by design");
}

#[test]
fn sqlite_that_trusts_a_device_too_much_is_seen_to_lose() {
    let text = "sqlite:insert=2,update=1,delete=1,journal=wal,synchronous=full,psow=on";
    assert_found("jbd2", text, "S2: ");
}

#[test]
fn the_file_workloads_of_compare_keep_what_they_synced() {
    for (scheme, workload) in [
        ("jbd2", "fsync:op=append,count=4,size=6000"),
        ("emmc", "fsync:op=replace,count=3,size=3000"),
        ("coalition", "fsync:op=rename,count=3,size=100"),
        (
            "flush-ahead",
            "fsync:op=random,count=4,file=64k,sync=fdatasync",
        ),
        ("adaptive", "files:count=3,transactions=4,max=5000,sync=on"),
    ] {
        assert_kept(scheme, workload);
    }
}

#[test]
fn the_file_workloads_of_compare_are_seen_to_lose_without_a_journal() {
    assert_found("none", "fsync:op=replace,count=3,size=3000", "O");
    assert_found("none", "files:count=3,transactions=4,max=5000,sync=on", "O");
}

#[test]
fn known_workloads_keep_their_promises() {
    for name in [
        "rename_root_to_sub",
        "create_delete",
        "rename_lost",
        "generic_034",
        "generic_066",
        "generic_468",
        "generic_502",
    ] {
        assert_kept("jbd2", &format!("known:{name}"));
    }
}
