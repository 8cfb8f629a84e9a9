//! The device is stopped at seeded moments over the SQLite workload.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use rig::{Config, Data, Fs, Preset};
use varve_crash::cuts::{CutConfig, Judgement, judge, record};
use work::RunConfig;

fn config(scheme: Preset, workload: &str, cuts: usize) -> CutConfig {
    seeded(11, scheme, workload, cuts)
}

fn seeded(seed: u64, scheme: Preset, workload: &str, cuts: usize) -> CutConfig {
    let mut stack = Config::new(scheme, "emmc-odroid-xu4", seed);
    stack.bytes = 64 << 20;
    let run = RunConfig {
        stack,
        workload: workload.into(),
        seed,
        recording: None,
    };
    CutConfig {
        run,
        cuts,
        warm_up: 1,
    }
}

/// All judgements; says on standard error when the outside checker is missing.
fn judge_all(config: &CutConfig) -> Vec<(String, Judgement)> {
    let recording = record(config).unwrap();
    assert_eq!(recording.cuts.len(), config.cuts);
    let folder = tempfile::tempdir().unwrap();
    let judgements: Vec<_> = recording
        .cuts
        .iter()
        .map(|cut| {
            let name = format!(
                "seed {} cut {} at {} ns",
                config.run.seed, cut.number, cut.at
            );
            (
                name,
                judge(config, &recording.transactions, cut, folder.path()).unwrap(),
            )
        })
        .collect();
    if judgements.iter().any(|(_, j)| j.unchecked) {
        eprintln!("skipped: R3 and R2, e2fsck is not installed");
    }
    judgements
}

fn assert_all_well(config: &CutConfig) {
    let bad: Vec<String> = judge_all(config)
        .iter()
        .filter(|(_, j)| !j.violations.is_empty())
        .map(|(name, j)| format!("{name}: {}", j.violations.join("\n    ")))
        .collect();
    assert!(
        bad.is_empty(),
        "{} bad cuts of {:?}\n{}",
        bad.len(),
        config.run,
        bad.join("\n")
    );
}

#[test]
fn jbd2_survives_80_cuts() {
    let workload = "sqlite:insert=40,update=30,delete=20";
    assert_all_well(&config(Preset::Jbd2, workload, 80));
}

#[test]
#[ignore = "long: cargo xtask test --long"]
fn jbd2_survives_200_cuts() {
    let workload = "sqlite:insert=40,update=30,delete=20";
    assert_all_well(&config(Preset::Jbd2, workload, 200));
}

#[test]
fn jbd2_survives_cuts_in_every_mode_that_promises_to() {
    for mode in ["delete,synchronous=extra", "persist", "wal,psow=off"] {
        let workload = format!("sqlite:insert=20,update=10,delete=10,journal={mode}");
        assert_all_well(&config(Preset::Jbd2, &workload, 20));
    }
}

#[test]
fn every_other_journaled_scheme_survives_cuts() {
    let workload = "sqlite:insert=20,update=10,delete=10";
    for preset in Preset::ALL {
        if !matches!(preset, Preset::Jbd2 | Preset::None) && !preset.remaps() {
            assert_all_well(&config(preset, workload, 24));
        }
    }
}

/// Transactions as atomic writes: many of them, so that checkpoints and the end of the log lie
/// between. Without a journal file nothing is lost in the mode `delete` with `full` either.
#[test]
fn atomic_writes_of_sqlite_survive_cuts_in_every_scheme() {
    atomic_writes_survive(16);
}

#[test]
#[ignore = "long: cargo xtask test --long"]
fn atomic_writes_of_sqlite_survive_more_cuts_in_every_scheme() {
    atomic_writes_survive(40);
}

/// So many cuts in each scheme.
fn atomic_writes_survive(cuts: usize) {
    let workload = "sqlite:insert=40,update=30,delete=20,value=1500,journal=delete,batch=on";
    for preset in Preset::ALL {
        if preset != Preset::None && !preset.remaps() {
            assert_all_well(&config(preset, workload, cuts));
        }
    }
}

/// Block maps, and a log whose end only transaction numbers tell. Two groups: without checksums a
/// garbled superblock is mended from its backup alone.
#[test]
fn journaled_schemes_survive_cuts_on_ext3() {
    for (preset, data, cuts) in [
        (Preset::Jbd2, Data::Ordered, 8),
        (Preset::Jbd2, Data::Journal, 5),
        (Preset::Emmc, Data::Ordered, 5),
    ] {
        let mut config = config(preset, "sqlite:insert=16,update=8,delete=8", cuts);
        let stack = &mut config.run.stack;
        (stack.fs, stack.bytes, stack.data) = (Fs::Ext3, 144 << 20, data);
        assert_all_well(&config);
    }
}

/// SQLite does not sync the directory after deleting its rollback journal at level FULL: a cut
/// right after the commit brings the journal back, and with it the state before the last
/// transaction. Linux does the same.
#[test]
fn delete_mode_with_full_loses_at_most_the_last_transaction_and_nothing_else() {
    let workload = "sqlite:insert=20,update=10,delete=10,journal=delete,synchronous=full";
    let judgements = judge_all(&config(Preset::Jbd2, workload, 40));
    let lost: Vec<usize> = judgements
        .iter()
        .map(|(_, j)| j.lost.expect("readable"))
        .collect();
    assert!(lost.iter().all(|&n| n <= 1), "{lost:?}");
    assert!(
        lost.contains(&1),
        "no cut fell between the commit and the next sync: {lost:?}"
    );
    let other =
        |j: &&(String, Judgement)| j.1.violations.iter().any(|v| !v.starts_with("S2: 1 of"));
    let others: Vec<_> = judgements.iter().filter(other).collect();
    assert!(others.is_empty(), "{others:?}");
}

/// At level NORMAL a commit to the WAL is not synced, so the last ones may go. What is left is
/// whole, and the table of some prefix.
#[test]
fn wal_with_normal_may_lose_acknowledged_transactions_and_nothing_else() {
    let workload = "sqlite:insert=20,update=10,delete=10,journal=wal,synchronous=normal,psow=off";
    let config = config(Preset::Jbd2, workload, 20);
    let judgements = judge_all(&config);
    let lost = judgements.iter().filter_map(|(_, j)| j.lost);
    assert!(lost.sum::<usize>() > 0, "no cut fell before a checkpoint");
    let bad: Vec<_> = judgements.iter().map(|(_, j)| &j.violations).collect();
    assert!(bad.iter().all(|v| v.is_empty()), "{bad:?}");
}

/// SQLite assumes that a write changes nothing beside it ("powersafe overwrite"). An eMMC write
/// without the reliable-write bit promises no such thing: the sector that holds the end of one
/// frame of the log and the start of the next may be garbage after a cut, and with it the
/// acknowledged transaction. Where SQLite pads its log to sectors nothing is lost.
#[test]
fn wal_on_a_device_that_garbles_sectors_needs_powersafe_overwrite_off() {
    let workload =
        |psow| format!("sqlite:insert=40,update=20,delete=20,journal=wal,psow={psow},value=300");
    let judgements = judge_all(&config(Preset::Jbd2, &workload("on"), 150));
    let lost = judgements.iter().filter(|(_, j)| j.lost != Some(0)).count();
    assert!(lost > 0, "the adversary never garbled a shared sector");
    assert_all_well(&config(Preset::Jbd2, &workload("off"), 30));
}

/// The positive control: were this test to see no damage, the others would be blind.
#[test]
fn without_a_journal_some_cut_shows_damage() {
    let judgements = judge_all(&config(
        Preset::None,
        "sqlite:insert=40,update=30,delete=20",
        60,
    ));
    let damaged = judgements
        .iter()
        .filter(|(_, j)| !j.violations.is_empty())
        .count();
    assert!(
        damaged > 0,
        "60 cuts without a journal and no damage: the judge is blind"
    );
}

/// Thousands of cuts: every mode that promises to lose nothing, every data mode, both kinds of
/// device, many seeds.
#[test]
#[ignore = "long: cargo xtask test --long"]
fn campaign() {
    let modes = ["delete,synchronous=extra", "truncate", "persist", "wal"];
    let devices = [("emmc-odroid-xu4", "psow=off"), ("loop-like", "psow=on")];
    for seed in 100..108 {
        for mode in modes {
            for data in [Data::Ordered, Data::Writeback, Data::Journal] {
                for (device, psow) in devices {
                    let workload =
                        format!("sqlite:insert=20,update=10,delete=10,{psow},journal={mode}");
                    let mut config = seeded(seed, Preset::Jbd2, &workload, 25);
                    config.run.stack.data = data;
                    config.run.stack.device = device.into();
                    assert_all_well(&config);
                }
            }
        }
    }
}
