//! The catalogue of `cargo xtask mutants` for guards of F2FS that this crate's own tests reach.
//! docs/design/testing.md says what a line means.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

use crate::sync_cuts::{Setting, VOLUME_MIB};
use crate::{common, crowd, packs, pressure, sync_cuts};
use base::Mutant;
use fscore::FileSystem;
use rt::{Sim, SimConfig};
use std::sync::Arc;
use testkit::Brief;
use testkit::mutants::{caught, cuts_of, missed, prove, say};
use varve_f2fs::journal_explore;

/// Lives within which a mutant has to be noticed.
const LIVES: u64 = 6;
const CUTS: usize = 30;

fn noticed(mutant: Mutant, options: &'static str) {
    caught(mutant, &format!("f2fs, {options}"), |mutant| {
        let life = |seed| pressure::live(seed, options, 300, CUTS, mutant);
        let judge = |cut: &pressure::Cut| pressure::judge(cut, options).map(drop);
        cuts_of(mutant, (10..10 + LIVES, u64::MAX), life, judge)
    });
}

/// hazards-F1: what is freed is written again before the next checkpoint.
#[test]
fn f2fs_reuse_before_checkpoint() {
    noticed(Mutant::F2fsReuseBeforeCheckpoint, "cache=2,ipu_policy=0");
}

/// sync-Y1: nodes are sent before their data: what sync-Y5 excuses does not hide it.
#[test]
fn f2fs_node_before_data_in_cleaning() {
    let options = "cache=2,ipu_policy=0,mode=lfs";
    noticed(Mutant::F2fsNodeBeforeData, options);
}

/// Blocks that are lost when the power fails while a file without names is open: 0, unless the list
/// of orphans is not kept.
fn lost_blocks(mutant: Option<Mutant>) -> (u64, u64) {
    let config = SimConfig {
        mutant,
        quiet: mutant.is_some(),
        ..SimConfig::seeded(1)
    };
    let outcome = Sim::new(config).run(|| {
        let ram = common::fresh(64);
        let fs = common::mount(&ram, "");
        let before = fs.statfs().expect("statfs").blocks_free;
        let file = fs.file("open");
        fs.write(file, 0, &[7; 100_000]).expect("write");
        fs.open(file).expect("open");
        fs.unlink(fs.root(), b"open").expect("unlink");
        fs.sync().expect("sync");
        let after = common::mount(&common::fork(&ram), "");
        before - after.statfs().expect("statfs").blocks_free
    });
    let asked = mutant.and_then(|m| outcome.reached.get(&m).copied());
    (outcome.value.expect("a mount"), asked.unwrap_or(0))
}

/// hazards-H37: what was open without a name when the power failed is never freed.
#[test]
fn f2fs_forget_orphan() {
    let mutant = Mutant::F2fsForgetOrphan;
    assert_eq!(lost_blocks(None).0, 0, "the code with its guard");
    let (lost, reached) = lost_blocks(Some(mutant));
    assert!(lost > 0, "{mutant}: not noticed");
    let found = format!("{lost} blocks belong to nobody");
    let proof = ("file system", 1, 1);
    say(mutant, "f2fs, open and unlink", proof, reached, &found);
}

/// Cuts of fsync and roll-forward within which a mutant of theirs has to be noticed; the rarest is
/// met in a third of all runs of 60.
const SYNC_CUTS: u64 = 300;

fn notice_sync(mutant: Mutant, options: &'static str, first: u64) {
    let start = common::fresh(VOLUME_MIB).blocks().into_iter().collect();
    let explore = |mutant, cuts| {
        let setting = Setting {
            options,
            steps: 60,
            mutant,
        };
        sync_cuts::explore(first, cuts, &start, setting, &mut Vec::new()).seen
    };
    let broken = explore(Some(mutant), SYNC_CUTS);
    let clean = explore(None, broken.cuts);
    prove(mutant, &format!("f2fs, {options}"), broken, &clean);
}

fn notice_history(mutant: Mutant, history: fn() -> Result<(), String>) {
    let run = |mutant: Option<Mutant>| {
        let cfg = SimConfig {
            mutant,
            quiet: mutant.is_some(),
            ..SimConfig::seeded(5)
        };
        Sim::new(cfg).run(history)
    };
    assert_eq!(run(None).unwrap(), Ok(()), "the code with its guard");
    let broken = run(Some(mutant));
    let reached = broken.reached.get(&mutant).copied().unwrap_or(0);
    let failure = broken.first_failure.map(|f| f.to_string());
    let found = failure.or_else(|| broken.value.and_then(Result::err));
    let found = found.unwrap_or_else(|| panic!("{mutant}: not noticed"));
    let proof = ("file system", 1, 1);
    say(mutant, "f2fs, a history of its own", proof, reached, &found);
}

/// hazards-H30.
#[test]
fn f2fs_node_before_data() {
    notice_sync(
        Mutant::F2fsNodeBeforeData,
        "fsync_mode=strict,mode=lfs",
        500,
    );
}

/// hazards-H31.
#[test]
fn f2fs_no_fsync_mark() {
    notice_sync(Mutant::F2fsNoFsyncMark, "fsync_mode=posix", 510);
}

/// hazards-H31.
#[test]
fn f2fs_no_dentry_mark() {
    notice_sync(Mutant::F2fsNoDentryMark, "fsync_mode=posix", 520);
}

/// hazards-H32.
#[test]
fn f2fs_ignore_reason() {
    notice_sync(Mutant::F2fsIgnoreReason, "fsync_mode=posix", 530);
}

/// hazards-H17.
#[test]
fn f2fs_fsync_no_flush() {
    notice_sync(Mutant::F2fsFsyncNoFlush, "fsync_mode=posix", 540);
}

/// hazards-H33.
#[test]
fn f2fs_no_chain_wait() {
    notice_sync(Mutant::F2fsNoChainWait, "fsync_mode=posix", 550);
}

/// hazards-H34.
#[test]
fn f2fs_any_version() {
    notice_sync(Mutant::F2fsAnyVersion, "fsync_mode=posix", 560);
}

/// hazards-H34.
#[test]
fn f2fs_revive_chain() {
    notice_history(Mutant::F2fsReviveChain, sync_cuts::lives::revived);
}

/// hazards-H35.
#[test]
fn f2fs_overwrite_chain() {
    notice_sync(Mutant::F2fsOverwriteChain, "fsync_mode=posix,mode=lfs", 500);
}

/// hazards-H36.
#[test]
fn f2fs_keep_former_owner() {
    notice_history(Mutant::F2fsKeepFormerOwner, sync_cuts::lives::shared);
}

/// The guards of a checkpoint, by cuts of one.
fn notice(mutant: Mutant) {
    let (mut reached, mut judged, mut clean) = (0, 0, 0);
    let mut found = None;
    'lives: for seed in 0..8 {
        for run in [packs::cuts, packs::failure] {
            for cut in run(seed, None).value.expect("the code with its guard") {
                clean += 1;
                let ram = Arc::new(cut.image.to_ram(packs::MIB << 20));
                packs::check(&ram, &cut).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            }
            let outcome = run(seed, Some(mutant));
            reached += outcome.reached.get(&mutant).copied().unwrap_or(0);
            if let Some(failure) = outcome.first_failure {
                found = Some(format!("seed {seed}: {failure}"));
                break 'lives;
            }
            for (n, cut) in outcome.value.expect("cuts").into_iter().enumerate() {
                judged += 1;
                let config = rt::SimConfig {
                    mutant: Some(mutant),
                    ..rt::SimConfig::seeded(seed)
                };
                let judge = rt::Sim::new(config).run(move || {
                    let ram = Arc::new(cut.image.to_ram(packs::MIB << 20));
                    packs::check(&ram, &cut).err()
                });
                let broken = judge.first_failure.map(|f| f.to_string());
                reached += judge.reached.get(&mutant).copied().unwrap_or(0);
                if let Some(why) = broken.or(judge.value.flatten()) {
                    found = Some(format!("seed {seed}, cut {n}: {why}"));
                    break 'lives;
                }
            }
        }
    }
    let found = found.unwrap_or_else(|| panic!("{mutant}: not noticed in {judged} cuts"));
    let proof = ("file system", judged, clean);
    say(mutant, "f2fs checkpoint", proof, reached, &found);
}

#[test]
fn f2fs_pack_before_nodes() {
    notice(Mutant::F2fsPackBeforeNodes);
}

#[test]
fn f2fs_commit_unflushed() {
    notice(Mutant::F2fsCommitUnflushed);
}

#[test]
fn f2fs_same_pack() {
    notice(Mutant::F2fsSamePack);
}

#[test]
fn f2fs_nat_in_place() {
    notice(Mutant::F2fsNatInPlace);
}

#[test]
fn f2fs_nid_at_once() {
    notice(Mutant::F2fsNidAtOnce);
}

#[test]
fn f2fs_pack_after_failure() {
    notice(Mutant::F2fsPackAfterFailure);
}

#[test]
fn f2fs_half_pack() {
    notice(Mutant::F2fsHalfPack);
}

/// The planes of F2FSJ under random schedules until one is found wrong; how many lives that took.
fn explored_planes(mutant: Option<Mutant>) -> (u64, u64, Option<String>) {
    let life = journal_explore::Life {
        tasks: 4,
        ops: 12,
        inodes: 4,
        switches: 14,
        fsync_each: 3,
    };
    let mut reached = 0;
    for seed in 0..PLANE_LIVES {
        let config = SimConfig {
            mutant,
            // Schedules decide here, not which task is faster.
            cpu_percent: 0,
            quiet: true,
            ..SimConfig::random(seed)
        };
        let outcome = journal_explore::explore(life, config);
        reached += mutant.map_or(0, |m| outcome.reached.get(&m).copied().unwrap_or(0));
        if let Some(failure) = outcome.first_failure {
            return (seed + 1, reached, Some(failure.to_string()));
        }
    }
    (PLANE_LIVES, reached, None)
}

/// Lives of the planes within which a mutant of theirs has to be noticed.
const PLANE_LIVES: u64 = 60;

fn notice_planes(mutant: Mutant) {
    let (lives, reached, found) = explored_planes(Some(mutant));
    let found = found.unwrap_or_else(|| panic!("{mutant}: not noticed in {lives} lives"));
    assert!(
        ["f2fs-journal-I4", "f2fs-journal-I7"]
            .iter()
            .any(|i| found.contains(i)),
        "{mutant}: {found}"
    );
    assert_eq!(explored_planes(None).2, None, "the code with its guard");
    let proof = ("atomicity", lives, PLANE_LIVES);
    say(mutant, "f2fsj, epochs", proof, reached, &found);
}

/// hazards-F41: records of an operation that meets a switch go to two epochs.
#[test]
fn f2fsj_half_operation() {
    notice_planes(Mutant::F2fsjHalfOperation);
}

/// hazards-F42: an epoch is collected while operations are in it.
#[test]
fn f2fsj_no_drain() {
    notice_planes(Mutant::F2fsjNoDrain);
}

/// hazards-F44: records stand in the order in which operations ended.
#[test]
fn f2fsj_order_of_ends() {
    notice_planes(Mutant::F2fsjOrderOfEnds);
}

/// Seeds of a crowd within which a mutant has to be noticed. No power goes: what is lost here is
/// lost without a cut.
const CROWDS: u64 = 12;

fn missed_by_a_crowd(mutant: Mutant, mode: (u32, &'static str)) {
    missed(mutant, "f2fs, a crowd on a full volume", CROWDS, |seed| {
        crowd::together(mode, seed, 300);
    });
}

/// hazards-S4: what users may have is given away, and cleaning has no room.
#[test]
fn f2fs_claim_beyond() {
    missed_by_a_crowd(Mutant::F2fsClaimBeyond, (0, ""));
}

/// hazards-S4: the same by nodes.
#[test]
fn f2fs_node_beyond() {
    missed_by_a_crowd(Mutant::F2fsNodeBeyond, (0, ""));
}

/// hazards-S6: pages that were not counted are dirty.
#[test]
fn f2fs_slot_uncounted() {
    missed_by_a_crowd(Mutant::F2fsSlotUncounted, (0, ""));
}

/// hazards-S5: a volume with few segments to spare is written over in the cache, and all of it goes
/// out at once.
#[test]
fn f2fs_write_unbalanced() {
    missed(
        Mutant::F2fsWriteUnbalanced,
        "f2fs, overwritten whole",
        CROWDS,
        |_| {
            crowd::overwritten();
        },
    );
}
