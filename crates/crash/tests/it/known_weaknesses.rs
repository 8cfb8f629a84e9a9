//! Weaknesses that are known, each shown by the explorer and gone where their guard or mode is on.
//!
//! | weakness | shown by |
//! |---|---|
//! | stale data with `data=writeback` | here, and `crash.rs` (`controls`) |
//! | no journal: names and content are damaged | here, and `explore.rs`, `crash.rs` (`controls`) |
//! | deltas over home writes that may tear, without full images first | here: refused; `mutants_of_volumes/explored.rs`, the journal's `mutants.rs`: `no-full-first`, `normal-home-write` |
//! | JBD2's refile rule with deltas | `mutants_of_volumes/explored.rs`, the journal's `mutants.rs`: `refile-deltas` |
//! | SQLite `DELETE` with `FULL` loses the last transaction | `cuts.rs`: `delete_mode_with_full_...`; with `EXTRA` none is lost |
//! | F2FS on a device that tears inside of 4 KiB | here; new inodes over old data: `sync_cuts.rs` of `f2fs` |
//! | SQLite's powersafe overwrite on an eMMC | `cuts.rs`: `wal_on_a_device_that_garbles_...` |
//! | fast commits of Linux and their recovery by others | `known_weaknesses/fast_bugs.rs`; the mutants of `ext4`: `fast-full-area`, `fast-no-clear` |
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod fast_bugs;

use varve_crash::campaign::{BATCH, Explored, Look, Reach, explore};
use varve_crash::case::{Case, Volumes};

const REACH: Reach = Reach {
    moments: 0,
    fsck: true,
    deep_one_in: 64,
    mode: Look::Bounded,
    draws: 0,
    subset_max: 1,
    torn_max: 0,
    states_max: 12,
    prune: true,
    nested: 0,
    nested_one_in: 0,
};

fn case(scheme: &str, device: &str, workload: &str, seed: u64) -> Case {
    Case {
        scheme: scheme.into(),
        device: device.into(),
        workload: format!("script:{workload}"),
        seed,
        scheduler: None,
        mutant: None,
    }
}

fn explored(scheme: &str, workload: &str, seed: u64) -> Explored {
    let setup = case(scheme, "spec:emmc", workload, seed).setup(&mut Volumes::default());
    let explored = explore(&setup.unwrap(), &REACH, BATCH, &mut |_| {}).unwrap();
    assert_eq!(explored.failure, None);
    explored
}

/// One task leaves its files to the background, another one commits all the time.
fn laggards() -> String {
    let lazy = (0..8).map(|n| format!("create f{n}; write f{n} 0+32k; pause 900us"));
    let eager = (0..16).map(|n| format!("chmod c {:o}; fsync c", 0o600 + n % 8));
    let lazy: Vec<String> = lazy.collect();
    let eager: Vec<String> = eager.collect();
    format!("{} | create c; {}", lazy.join("; "), eager.join("; "))
}

/// A block is mapped and its data not written: what lay there before shows. That is no violation
/// there; the loss says it.
#[test]
fn writeback_shows_stale_data_and_ordered_does_not() {
    let stale = |scheme: &str| {
        let runs = [1, 2].map(|seed| explored(scheme, &laggards(), seed));
        for run in &runs {
            assert!(run.findings.is_empty(), "{scheme}: {:?}", run.findings);
        }
        runs.iter().map(|run| run.loss().foreign).sum::<u64>()
    };
    assert!(stale("jbd2+data=writeback") > 0, "no stale data was seen");
    assert_eq!(stale("jbd2"), 0);
    assert_eq!(stale("emmc+data=journal"), 0);
}

/// Without a journal nothing keeps names and blocks together.
#[test]
fn without_a_journal_what_was_synced_is_lost() {
    let workload = "mkdir a; create a/f; write a/f 0+10000; fsync a/f; rename a/f g; syncdir /; truncate g 5001; \
                    link g a/h; syncdir a; create i; write i 100+9000; sync";
    let none = [1, 2, 3].map(|seed| explored("none", workload, seed));
    let damaged: u64 = none.iter().map(|run| run.violations).sum();
    assert!(damaged > 0, "the explorer is blind");
    for seed in [1, 2, 3] {
        let run = explored("jbd2", workload, seed);
        assert!(run.findings.is_empty(), "{:?}", run.findings);
        assert!(run.judged > 10);
    }
}

/// A home write that tears cannot be mended by deltas: the mount says so.
#[test]
fn deltas_over_home_writes_that_tear_are_refused() {
    for scheme in ["coalition+full-first=off", "emmc+full-first=off"] {
        let torn = case(scheme, "spec:disk", "create a; fsync a", 1);
        let why = match torn.setup(&mut Volumes::default()) {
            Err(why) => why.to_string(),
            Ok(setup) => {
                let explored = explore(&setup, &REACH, BATCH, &mut |_| {});
                explored.map_or_else(|e| e.to_string(), |e| e.failure.unwrap_or_default())
            }
        };
        assert!(why.contains("full-first"), "{scheme}: `{why}`");
        let whole = explored(
            scheme,
            "create a; write a 0+100; fsync a; unlink a; sync",
            1,
        );
        assert!(whole.findings.is_empty(), "{:?}", whole.findings);
    }
}

/// F2FS expects blocks of 4 KiB that are old or new. Where a device tears inside of them, a node
/// block of an fsync that was under way may be torn, and nothing in it says so.
#[test]
fn f2fs_is_safe_on_whole_blocks_only() {
    let reach = Reach {
        torn_max: 2,
        states_max: 64,
        ..REACH
    };
    let violations = |scheme: &str, device: &str| {
        let workload = "create a; sync; write a 0+4k; fsync a; chmod a 600; write a 4k+4k; fsync a";
        let setup = case(scheme, device, workload, 3).setup(&mut Volumes::default());
        let explored = explore(&setup.unwrap(), &reach, BATCH, &mut |_| {}).unwrap();
        assert_eq!(explored.failure, None);
        assert!(explored.judged > 10);
        explored.violations
    };
    for scheme in ["checkpoint-60", "checkpoint-60+fsync_mode=strict"] {
        assert_eq!(violations(scheme, "spec:nvme"), 0, "{scheme}");
        assert!(
            violations(scheme, "spec:emmc") > 0,
            "{scheme}: the explorer is blind"
        );
    }
}
