//! The catalogue of `cargo xtask mutants` for the explorer: small workloads of whole file systems,
//! every cut within a bound.
//!
//! - Each mutant that such a workload reaches ([`CASES`]) is caught, with and without pruning: so
//!   pruning hides none of them. The line says after how many states each way, and that the code
//!   with its guards passes the same reach.
//! - The others ([`ELSEWHERE`]) have the reason why, and stay with the catalogue that is named
//!   there.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use base::Mutant;
use rig::Scheduler;
use std::collections::BTreeSet;
use varve_crash::campaign::{Explored, Look, Reach, Until, explore_until};
use varve_crash::case::{Case, Volumes};

/// States within which a mutant has to be caught, and that the code with its guards has to pass, if
/// there are as many.
const STATES: u64 = 500;
/// States judged in one simulation: few, since the first violation ends it.
const BATCH: usize = 64;

/// What shows that a guard is missing.
struct Shows {
    mutant: Mutant,
    scheme: &'static str,
    device: &'static str,
    workload: fn() -> String,
    seed: u64,
    /// 1: every recovery is cut in turn.
    nested: u32,
    /// One state in so many is also mounted for writing, and used; 0: none.
    deep_one_in: u32,
    /// States of one cut: few where a state takes long.
    states_max: u32,
    scheduler: Option<Scheduler>,
}

impl Shows {
    fn explore(&self, mutant: Option<Mutant>, prune: bool) -> Result<Explored, String> {
        let case = Case {
            scheme: self.scheme.into(),
            device: self.device.into(),
            workload: (self.workload)(),
            seed: self.seed,
            scheduler: self.scheduler,
            mutant: mutant.map(|m| m.word().into()),
        };
        let setup = case.setup(&mut Volumes::default()).expect("a case");
        let reach = Reach {
            mode: Look::Bounded,
            subset_max: 1,
            torn_max: 1,
            states_max: self.states_max,
            prune,
            deep_one_in: self.deep_one_in,
            nested: self.nested,
            nested_one_in: 1,
            ..Reach::default()
        };
        let until = Until::First(STATES);
        // A run that fails by itself was caught by a check of the code.
        explore_until(&setup, &reach, until, BATCH, &mut |_| {}).map_err(|e| e.to_string())
    }
}

/// What was found first.
struct Found {
    /// The rule.
    rule: String,
    /// All that was found of that state.
    words: String,
}

fn found(explored: &Explored) -> Option<Found> {
    let words = explored.findings.first().map(|f| f.violations.join("; "));
    let words = words.or_else(|| explored.failure.clone())?;
    let is_rule = |w: &&str| {
        let (kind, number) = w.split_at(w.len().min(1));
        matches!(kind, "O" | "R")
            && !number.is_empty()
            && number.bytes().all(|b| b.is_ascii_digit())
    };
    let mut parts = words.split(|c: char| !c.is_ascii_alphanumeric());
    let rule = parts.find(is_rule).unwrap_or(FAILS).into();
    Some(Found { rule, words })
}

/// Instead of a rule: the run fails by itself, before any cut.
const FAILS: &str = "the run";

/// How a mutant was caught.
struct Caught {
    found: Found,
    after: u64,
    reached: u64,
}

fn catches(shows: &Shows, prune: bool) -> Caught {
    let mutant = shows.mutant;
    let caught = match shows.explore(Some(mutant), prune) {
        Ok(broken) => {
            let (after, reached) = (broken.judged, broken.reached.get(&mutant).copied());
            let reached = reached.unwrap_or(0);
            let found = found(&broken).unwrap_or_else(|| {
                panic!("{mutant}: not caught with prune={prune} in {after} states, reached {reached} times")
            });
            Caught {
                found,
                after,
                reached,
            }
        }
        // A panic in the run; the code with its guards has none, so the guard was reached.
        Err(words) => Caught {
            found: Found {
                rule: FAILS.into(),
                words,
            },
            after: 0,
            reached: 1,
        },
    };
    assert!(caught.reached > 0, "{mutant}: no one asked for its guard");
    let Caught { found, after, .. } = &caught;
    println!(
        "{mutant}, prune={prune}: after {after} states: {}",
        found.words
    );
    caught
}

/// Proves what the catalogue says of `mutant`, and says it.
fn caught(mutant: Mutant) {
    let shows = CASES.iter().find(|s| s.mutant == mutant).expect("a case");
    let [on, off] = [true, false].map(|prune| catches(shows, prune));
    let clean = shows.explore(None, true).expect("a run");
    let wrong = found(&clean).map(|f| f.words);
    assert_eq!(wrong, None, "{mutant}: the code with its guard");
    assert!(
        clean.judged > 30,
        "{mutant}: hardly a state of the code with its guard"
    );
    let Shows { scheme, device, .. } = shows;
    println!(
        "mutant|{mutant}|explorer, {scheme} on {device}|{}|{}; unpruned {} after {}|{}|{}",
        on.reached, on.found.rule, off.found.rule, off.after, on.after, clean.judged
    );
}

fn text(text: &'static str) -> String {
    text.into()
}

/// Transactions of SQLite, each an atomic write in place of a journal file.
fn atomic_transactions() -> String {
    text(
        "sqlite:insert=2,update=1,delete=1,psow=off,journal=delete,synchronous=full,prefill=300,value=2000,batch=on",
    )
}

/// Five extents need a block of the extent tree; it is freed, and is data of the next file.
fn tree_block_becomes_data() -> String {
    text(
        "script:create f; write f 0+4k; write f 8k+4k; write f 16k+4k; write f 24k+4k; write f 32k+4k; fsync f; unlink f; \
         sync; create g; write g 0+128k; fsync g",
    )
}

/// Names, links and modes, synced in several ways.
fn names() -> String {
    text(
        "script:mkdir a; create a/x; fsync a/x; rename a/x a/y; syncdir a; link a/y z; unlink a/y; sync; create a/q; \
         chmod a/q 600; pause 20ms; fsync a/q; chmod a/q 640; pause 20ms; fsync a/q",
    )
}

/// A file that grows, block by block, each made durable with the record of its mapping.
fn appends() -> String {
    let part = |n: u32| format!("; write f {}k+4k; fsync f; pause 2ms", n * 4);
    format!("script:create f{}", (0..6).map(part).collect::<String>())
}

/// Two tasks overwrite in place, and each fsync has something to commit.
fn overwrites() -> String {
    let round = |path: &str, modes: &[&str]| {
        let first = format!("create {path}; write {path} 0+12k; fsync {path}");
        let again = |mode| format!("; chmod {path} {mode}; write {path} 0+12k; fsync {path}");
        first + &modes.iter().map(again).collect::<String>()
    };
    let (f, g) = (round("f", &["600", "601"]), round("g", &["600", "644"]));
    format!("script:{f} | {g}")
}

/// A synced file is removed, and another one is written over its blocks before anything commits the
/// removal.
fn reuse() -> String {
    let round = "create o; write o 0+20k; fsync o; unlink o; create n; write n 0+20k; pause 3ms;";
    format!("script:{round} unlink n; {round} fsync n")
}

/// Blocks of a removed file are allocated unwritten and written to, while the fsync of another file
/// commits.
fn preallocate() -> String {
    text(
        "script:create o; write o 0+20k; fsync o; unlink o; sync; create n; falloc n 0+20k; sync; write n 0+20k; \
         pause 2ms; chmod n 600; create m; fsync m; pause 1ms; fsync n",
    )
}

/// One task leaves its files to the background, another one commits all the time.
fn laggards() -> String {
    let lazy = (0..8).map(|n| format!("create f{n}; write f{n} 0+64k; pause 900us"));
    let eager = (0..16).map(|n| format!("; chmod c {:o}; fsync c", 0o600 + n % 8));
    let lazy: Vec<String> = lazy.collect();
    format!(
        "script:{} | create c{}",
        lazy.join("; "),
        eager.collect::<String>()
    )
}

/// Data in the log goes around the ring more than once, and a small change to one inode beside each
/// part of it.
fn fill() -> String {
    let part = |i: u32| {
        let (mode, from) = (0o600 + i % 8, i % 4 * 400);
        format!("; chmod g {mode:o}; write f {from}k+400k; fsync f")
    };
    let parts: String = (0..14).map(part).collect();
    format!("script:create f; create g; fsync g{parts}")
}

/// One task makes what no fast commit can tell and syncs it, the others make files.
fn refusals() -> String {
    let dirs = |n: u32| format!("; mkdir d{n}; chmod a {:o}; fsync a", 0o600 + n % 8);
    let files = |task: char| {
        let step = move |n: u32| format!("create {task}{n}; fsync {task}{n}; ");
        (0..12).map(step).collect::<String>()
    };
    let dirs: String = (0..12).map(dirs).collect();
    format!(
        "script:create a{dirs} | {}pause 1ms | {}pause 1ms",
        files('b'),
        files('c')
    )
}

/// What most of them need.
const USUAL: Shows = Shows {
    mutant: Mutant::TailEarly,
    scheme: "emmc",
    device: "spec:emmc",
    workload: || text("mix"),
    seed: 1,
    nested: 0,
    deep_one_in: 0,
    states_max: 64,
    scheduler: None,
};

/// What the explorer catches.
const CASES: &[Shows] = &[
    Shows {
        mutant: Mutant::NormalHomeWrite,
        scheme: "coalition-paper",
        workload: || text("mix"),
        ..USUAL
    },
    Shows {
        mutant: Mutant::RefileDeltas,
        scheme: "emmc+data=journal",
        workload: fill,
        seed: 3,
        states_max: 8,
        ..USUAL
    },
    Shows {
        mutant: Mutant::TailUnflushed,
        scheme: "jbd2",
        device: "spec:nvme",
        workload: overwrites,
        ..USUAL
    },
    Shows {
        mutant: Mutant::TailEarly,
        scheme: "flush-ahead",
        workload: || text("mix"),
        ..USUAL
    },
    Shows {
        mutant: Mutant::BaseAlwaysValid,
        scheme: "emmc",
        workload: || text("mix"),
        ..USUAL
    },
    Shows {
        mutant: Mutant::UntrackedStore,
        scheme: "emmc",
        workload: names,
        ..USUAL
    },
    Shows {
        mutant: Mutant::NoRevoke,
        scheme: "emmc",
        workload: tree_block_becomes_data,
        ..USUAL
    },
    Shows {
        mutant: Mutant::CleanBeforeHome,
        scheme: "jbd2",
        workload: names,
        seed: 3,
        nested: 1,
        ..USUAL
    },
    Shows {
        mutant: Mutant::SuperblockDirect,
        scheme: "emmc",
        workload: || text("mix:tasks=3,ops=50,stress=reuse"),
        seed: 3,
        deep_one_in: 1,
        states_max: 8,
        ..USUAL
    },
    Shows {
        mutant: Mutant::FlushBeforeData,
        scheme: "emmc",
        workload: laggards,
        ..USUAL
    },
    Shows {
        mutant: Mutant::NoFullFirst,
        scheme: "coalition+home=copy",
        workload: || text("mix"),
        ..USUAL
    },
    Shows {
        mutant: Mutant::NoCoalitionChecksum,
        scheme: "emmc",
        workload: names,
        ..USUAL
    },
    Shows {
        mutant: Mutant::NoWrap,
        scheme: "emmc+data=journal",
        workload: fill,
        seed: 3,
        states_max: 8,
        ..USUAL
    },
    Shows {
        mutant: Mutant::AckAtCommit,
        scheme: "flush-ahead",
        workload: overwrites,
        ..USUAL
    },
    Shows {
        mutant: Mutant::ReuseBeforeCommit,
        scheme: "jbd2",
        workload: reuse,
        ..USUAL
    },
    Shows {
        mutant: Mutant::SkipFlush,
        scheme: "jbd2",
        workload: names,
        ..USUAL
    },
    Shows {
        mutant: Mutant::SchedulerPassesFlush,
        scheme: "jbd2",
        scheduler: Some(Scheduler::Cfq310),
        ..USUAL
    },
    Shows {
        mutant: Mutant::PackAnySubset,
        scheme: "flush-ahead",
        device: "spec:emmc-any",
        workload: names,
        ..USUAL
    },
    Shows {
        mutant: Mutant::FastWithoutData,
        scheme: "fast-commit+adaptive",
        workload: appends,
        ..USUAL
    },
    Shows {
        mutant: Mutant::FastOverwrite,
        scheme: "fast-commit",
        workload: appends,
        ..USUAL
    },
    Shows {
        mutant: Mutant::FastAfterFull,
        scheme: "fast-commit",
        workload: refusals,
        ..USUAL
    },
    Shows {
        mutant: Mutant::FastUntold,
        scheme: "fast-commit",
        workload: || text("script:mkdir d; create d/f; write d/f 0+4k; fsync d/f"),
        ..USUAL
    },
    Shows {
        mutant: Mutant::AtomicPieces,
        scheme: "jbd2+cluster=65536",
        workload: atomic_transactions,
        ..USUAL
    },
    Shows {
        mutant: Mutant::ConvertUnordered,
        scheme: "emmc",
        workload: preallocate,
        ..USUAL
    },
    Shows {
        mutant: Mutant::DataBesideRecord,
        scheme: "adaptive",
        workload: appends,
        ..USUAL
    },
];

/// What small workloads of a file system do not show, and why; each is in the catalogue of the
/// package that is named.
const ELSEWHERE: &[(Mutant, &str)] = &[
    (
        Mutant::HomeCurrent,
        "journal: reached, but a block has to change just while it goes home: tiny rings do that all the time",
    ),
    (
        Mutant::KeepFreedPending,
        "journal: reached, but a freed block has to hold data before its old image goes home: churn does that",
    ),
    (
        Mutant::ReuseTid,
        "journal: two lives of one log, the second with its transactions where the first had them",
    ),
    (
        Mutant::PackTwice,
        "journal, block: no file system puts a block twice into one pack; the plug is asked directly",
    ),
    (
        Mutant::NoEscape,
        "journal: images that begin with the magic number; no block of ext4 and no data of the workloads does",
    ),
    (
        Mutant::UnreadableIsZero,
        "journal: sectors that cannot be read",
    ),
    (
        Mutant::DropFinishes,
        "journal: an early return in the middle of an operation",
    ),
    (
        Mutant::NoSuperblockFallback,
        "crash, random cuts: the superblock is torn by the mount, before a workload begins",
    ),
    (
        Mutant::RemapMoveUnmarked,
        "journal: logs of a few blocks show it at every cut, as those that follow up to remap-error-clean",
    ),
    (Mutant::RemapZerosUnmarked, "journal: images of zeros"),
    (
        Mutant::RemapEscaped,
        "journal: images that begin with the magic number; no block of ext4 does",
    ),
    (
        Mutant::RemapInFlight,
        "journal: a device that carries out home writes late",
    ),
    (
        Mutant::RemapStaleSource,
        "journal: rings so small that a list is stale soon",
    ),
    (
        Mutant::RemapUnexpected,
        "journal: a log write of the life before lands during recovery",
    ),
    (
        Mutant::RemapFreed,
        "journal: freed blocks hold data at once: churn does that",
    ),
    (Mutant::RemapRevoked, "journal: the same, in recovery"),
    (
        Mutant::CleanRedirtied,
        "journal: blocks change again while they are remapped",
    ),
    (
        Mutant::ClusterFreedEarly,
        "ext4: clusters, of which a part is cut off while another file takes blocks",
    ),
    (
        Mutant::ClusterHoleDirect,
        "ext4: an atomic write, a hole in its place and a write there, in one cluster",
    ),
    (Mutant::DiscardLate, "ext4: mounted with discard"),
    (
        Mutant::HomeDeviceUnflushed,
        "ext4: a log on a device of its own, as the two that follow",
    ),
    (Mutant::LogDeviceUnflushed, "ext4: the same"),
    (
        Mutant::ReplayUnflushedLog,
        "ext4: a process that died, and a cut in the recovery of what it left",
    ),
    (
        Mutant::SchedulerSwaps,
        "block: no file system sends a block that is on its way",
    ),
    (
        Mutant::FastFullArea,
        "ext4: 256 fast commits of one transaction, and a recovery with the mistake of others",
    ),
    (
        Mutant::FastNoClear,
        "ext4: the area holds a fast commit when the volume is mounted; that of a fresh volume holds zeros",
    ),
    (
        Mutant::FastWithoutRoom,
        "ext4: a volume and a directory that are full to the last block and the last name",
    ),
    (
        Mutant::FastTellsOrphans,
        "ext4: an orphan that is on the medium has to end, and no operation of a script closes a file",
    ),
    (
        Mutant::RemapErrorClean,
        "journal: a device that refuses REMAP commands",
    ),
];

/// No mutant is forgotten, and none is in both lists.
#[test]
fn every_mutant_is_caught_here_or_elsewhere() {
    let here: Vec<Mutant> = CASES.iter().map(|s| s.mutant).collect();
    let all = here
        .iter()
        .chain(ELSEWHERE.iter().map(|(mutant, _)| mutant));
    let all: Vec<Mutant> = all.copied().collect();
    let set: BTreeSet<Mutant> = all.iter().copied().collect();
    assert_eq!(set.len(), all.len(), "a mutant stands twice");
    // Those of a translation layer, which no journal sees, and of F2FS, which has none, stand in
    // their own catalogues alone.
    let journaling =
        |m: &&Mutant| matches!(m.hazard(), base::Hazard::H(_)) && !m.word().starts_with("f2fs");
    let mut journaling = Mutant::ALL.iter().filter(journaling);
    assert_eq!(journaling.find(|m| !set.contains(m)), None, "forgotten");
    println!(
        "the explorer catches {} of {} mutants",
        here.len(),
        all.len()
    );
}

#[test]
fn normal_home_write() {
    caught(Mutant::NormalHomeWrite);
}

#[test]
fn refile_deltas() {
    caught(Mutant::RefileDeltas);
}

#[test]
fn tail_unflushed() {
    caught(Mutant::TailUnflushed);
}

#[test]
fn tail_early() {
    caught(Mutant::TailEarly);
}

#[test]
fn base_always_valid() {
    caught(Mutant::BaseAlwaysValid);
}

#[test]
fn untracked_store() {
    caught(Mutant::UntrackedStore);
}

#[test]
fn atomic_pieces() {
    caught(Mutant::AtomicPieces);
}

#[test]
fn no_revoke() {
    caught(Mutant::NoRevoke);
}

#[test]
fn clean_before_home() {
    caught(Mutant::CleanBeforeHome);
}

#[test]
fn flush_before_data() {
    caught(Mutant::FlushBeforeData);
}

#[test]
fn superblock_direct() {
    caught(Mutant::SuperblockDirect);
}

#[test]
fn no_full_first() {
    caught(Mutant::NoFullFirst);
}

#[test]
fn no_coalition_checksum() {
    caught(Mutant::NoCoalitionChecksum);
}

#[test]
fn no_wrap() {
    caught(Mutant::NoWrap);
}

#[test]
fn ack_at_commit() {
    caught(Mutant::AckAtCommit);
}

#[test]
fn reuse_before_commit() {
    caught(Mutant::ReuseBeforeCommit);
}

#[test]
fn skip_flush() {
    caught(Mutant::SkipFlush);
}

#[test]
fn scheduler_passes_flush() {
    caught(Mutant::SchedulerPassesFlush);
}

#[test]
fn pack_any_subset() {
    caught(Mutant::PackAnySubset);
}

#[test]
fn fast_without_data() {
    caught(Mutant::FastWithoutData);
}

#[test]
fn fast_overwrite() {
    caught(Mutant::FastOverwrite);
}

#[test]
fn fast_after_full() {
    caught(Mutant::FastAfterFull);
}

#[test]
fn fast_untold() {
    caught(Mutant::FastUntold);
}

#[test]
fn convert_unordered() {
    caught(Mutant::ConvertUnordered);
}

#[test]
fn data_beside_record() {
    caught(Mutant::DataBesideRecord);
}
