//! The catalogue of `cargo xtask mutants` for guards of the journal of F2FS. docs/design/testing.md
//! says what a line means.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

use crate::journal::common::Mistake;
use crate::journal::cuts::{each_cut, recorded, written_over};
use crate::journal::lives::{Device, GROUPING};
use crate::journal::{ahead, applied, common, ends, foreign, lives, world};
use base::Mutant;
use blockdev::PackOrder;
use fscore::FileSystem;
use rt::{Policy, SimConfig};
use std::cell::Cell;
use testkit::Brief;
use testkit::mutants::say;

/// Lives within which a mutant has to be noticed.
const LIVES: u64 = 6;

/// Every cut of lives that write and sync files.
fn notice(mutant: Mutant, options: &'static str) {
    let mut clean = 0;
    for seed in 0..2 {
        let life = recorded(seed, options, None);
        let (states, wrong) = each_cut(&life.trace, &life.synced);
        assert_eq!(wrong, None, "{options}: the code with its guard");
        clean += states;
    }
    let (mut reached, mut after) = (0, 0);
    for seed in 0..LIVES {
        let life = recorded(seed, options, Some(mutant));
        reached += life.reached;
        let (states, wrong) = each_cut(&life.trace, &life.synced);
        after += states;
        if let Some(found) = wrong {
            let proof = ("file system", after, clean);
            return say(mutant, &format!("f2fsj, {options}"), proof, reached, &found);
        }
    }
    panic!("{mutant} survives {LIVES} lives; its guard was reached {reached} times");
}

/// hazards-F51.
#[test]
fn f2fsj_data_unflushed() {
    notice(Mutant::F2fsjDataUnflushed, "mode=lfs,rounds=2");
}

/// hazards-F43.
#[test]
fn f2fsj_commit_before_data() {
    notice(Mutant::F2fsjCommitBeforeData, "mode=lfs,rounds=2");
}

/// hazards-F52.
#[test]
fn f2fsj_ack_before_commit() {
    notice(Mutant::F2fsjAckBeforeCommit, "mode=lfs,rounds=2");
}

/// Devices on which a cut may leave a transaction without the data of its group. A prefix of a pack
/// does not: its writes are in the order of addresses, and the ring lies behind all files.
fn transaction_alone() -> Vec<Device> {
    let prefix = Device::Packs(PackOrder::Prefix);
    GROUPING.into_iter().filter(|&d| d != prefix).collect()
}

/// Devices whose lives write pages in place.
const IN_PLACE: [Device; 2] = [Device::Blocks, Device::Flushes];

/// Cuts of lives whose files are written over, mounted, on each of these devices.
fn notice_mounted(mutant: Mutant, in_recovery: bool, devices: &[Device]) {
    for &device in devices {
        let found = lives::noticed(mutant, in_recovery, device, LIVES);
        let (lived, reached, found) =
            found.unwrap_or_else(|| panic!("{mutant} survives {LIVES} lives on {device:?}"));
        let proof = ("file system", lived, 1);
        let what = format!("f2fsj, every cut mounted, {device:?}");
        say(mutant, &what, proof, reached, &found);
    }
}

/// hazards-F53.
#[test]
fn f2fsj_flush_early() {
    notice_mounted(Mutant::F2fsjFlushEarly, false, &[Device::Flushes]);
}

/// hazards-F57.
#[test]
fn f2fsj_sum_unread() {
    notice_mounted(Mutant::F2fsjSumUnread, true, &transaction_alone());
}

/// hazards-F58.
#[test]
fn f2fsj_over_summed() {
    notice_mounted(Mutant::F2fsjOverSummed, false, &IN_PLACE);
}

/// hazards-F59.
#[test]
fn f2fsj_file_left_out() {
    notice_mounted(Mutant::F2fsjFileLeftOut, true, &transaction_alone());
}

/// hazards-F60.
#[test]
fn f2fsj_sum_of_all() {
    notice_mounted(Mutant::F2fsjSumOfAll, true, &IN_PLACE);
}

/// hazards-H17.
#[test]
fn f2fsj_join_old_flush() {
    let mutant = Mutant::F2fsjJoinOldFlush;
    assert_eq!(written_over(0, None).0, Ok(()), "the code with its guard");
    for seed in 0..LIVES {
        let (found, reached) = written_over(seed, Some(mutant));
        if let Err(found) = found {
            let proof = ("file system", 1, 1);
            return say(mutant, "f2fsj, written in place", proof, reached, &found);
        }
    }
    panic!("{mutant} survives {LIVES} lives");
}

/// Lives on a volume that is nearly full, with cuts; a mutant may fail in life, too. What was
/// found, and how often its guard was reached.
fn crowded(mutant: Option<Mutant>, reached: &Cell<u64>) -> Option<String> {
    for seed in 20..20 + LIVES {
        let config = SimConfig {
            mutant,
            quiet: mutant.is_some(),
            ..SimConfig::random(seed)
        };
        let life = world::live(config, seed, (64, 85), 120, 8);
        let asked = mutant.and_then(|m| life.reached.get(&m).copied());
        reached.set(reached.get() + asked.unwrap_or(0));
        if let Some(failure) = life.first_failure {
            return Some(format!("seed {seed}: {failure}"));
        }
        for (n, cut) in life.value.expect("cuts").iter().enumerate() {
            if let Err(why) = cut.judge(64, world::PLAIN) {
                return Some(format!("seed {seed}, cut {n}: {why}"));
            }
        }
    }
    None
}

fn notice_crowded(mutant: Mutant) {
    let reached = Cell::new(0);
    assert_eq!(crowded(None, &reached), None, "the code with its guard");
    let found = crowded(Some(mutant), &reached);
    let reached = reached.get();
    let found = found.unwrap_or_else(|| panic!("{mutant}: not noticed in {LIVES} lives"));
    let proof = ("file system", 1, LIVES);
    say(mutant, "f2fsj, nearly full", proof, reached, &found);
}

/// hazards-F61.
#[test]
fn f2fsj_reuse_early() {
    notice_crowded(Mutant::F2fsjReuseEarly);
}

/// One file gives its node back, another one takes one in the same epoch; what a cut behind the
/// commit leaves.
fn a_node_changes_hands(seed: u64, mistake: &Mistake) -> Result<(), String> {
    const FAR: u64 = 1000 * 4096;
    let life = mistake.within(SimConfig::random(seed)).run(|| {
        let disk = common::disk(64, common::volume(64), seed);
        let fs = common::try_mount_alone(&disk, world::PLAIN).expect("mount");
        let files = ["a", "b"].map(|name| fs.file(name));
        let [taker, giver] = [0, 1].map(|n| files[(seed as usize + n) % 2]);
        for ino in files {
            fs.write(ino, 0, &[1; 5000]).expect("room");
        }
        fs.write(giver, FAR, &[2; 4096]).expect("room");
        fs.sync().expect("sync");
        // The taker's records stand first.
        fs.resize(taker, 6000).expect("truncate");
        fs.resize(giver, 4096).expect("truncate");
        fs.write(taker, FAR, &[3; 4096]).expect("room");
        fs.sync().expect("sync");
        (disk.snapshot_lost(), taker)
    });
    mistake.asked(&life);
    if let Some(failure) = life.first_failure {
        return Err(format!("seed {seed}: {failure}"));
    }
    let (image, taker) = life.value.expect("a picture");
    let next = mistake.within(SimConfig::seeded(1)).run(|| {
        let disk = common::disk(64, image, 1);
        let fs = common::try_mount_alone(&disk, world::PLAIN).map_err(|e| e.to_string())?;
        let mut page = vec![0; 4096];
        let read = fs.read(taker, FAR, &mut page);
        fs.check();
        match read {
            Ok(4096) if page == [3; 4096] => Ok(()),
            other => Err(format!("nat-T2: what was synced is lost: {other:?}")),
        }
    });
    match next.first_failure {
        Some(failure) => Err(format!("seed {seed}: {failure}")),
        None => next.value.expect("a verdict"),
    }
}

/// hazards-F62.
#[test]
fn f2fsj_nid_early() {
    notice_life(
        Mutant::F2fsjNidEarly,
        "a node changes hands",
        a_node_changes_hands,
    );
}

/// A large file is cut off in several operations while others commit, and the power is cut there;
/// then the file grows again. How many pictures lie behind the beginning, and whether old content
/// is back in one.
fn is_back(seed: u64, mistake: &Mistake) -> Result<usize, String> {
    // Each page has a node of its own: more records than the ring holds.
    const PAGES: u64 = 1400;
    const STRIDE: u64 = 1018 * 4096;
    let config = SimConfig {
        policy: Policy::Random { yield_one_in: 20 },
        ..SimConfig::random(seed)
    };
    let life = mistake.within(config).run(|| {
        let disk = common::disk(16, common::volume(16), seed);
        let fs = common::try_mount_alone(&disk, world::PLAIN).expect("mount");
        let [large, other] = ["large", "other"].map(|n| fs.file(n));
        for index in 0..PAGES {
            fs.write(large, index * STRIDE, &[7; 4096]).expect("room");
        }
        fs.sync().expect("sync");
        let over = rt::Mutex::named("over", false);
        rt::scope(|s| {
            let watcher = s.spawn("cuts", || {
                let mut seen = Vec::new();
                while !*over.lock() {
                    fs.write(other, 0, &[1; 100]).expect("room");
                    fs.fsync(other, false).expect("a commit");
                    seen.push(disk.snapshot_lost());
                }
                seen
            });
            fs.resize(large, 4096).expect("cut off");
            *over.lock() = true;
            watcher.join().expect("cuts")
        })
    });
    mistake.asked(&life);
    if let Some(failure) = life.first_failure {
        return Err(format!("seed {seed}: {failure}"));
    }
    let mut begun = 0;
    for (n, image) in life.value.expect("cuts").into_iter().enumerate() {
        // The recovery runs with the same mistake.
        let next = mistake.within(SimConfig::seeded(1)).run(|| {
            let disk = common::disk(16, image, 1);
            let fs = common::try_mount_alone(&disk, world::PLAIN).expect("mount");
            let ino = fs.find(b"large");
            if fs.getattr(ino).expect("getattr").size != 4096 {
                return None;
            }
            fs.resize(ino, PAGES * STRIDE).expect("grown");
            let mut page = vec![0; 4096];
            let zeros = (1..PAGES).all(|index| {
                fs.read(ino, index * STRIDE, &mut page).expect("read");
                base::bytes::is_zero(&page)
            });
            Some(zeros)
        });
        if let Some(failure) = next.first_failure {
            return Err(format!("seed {seed}, cut {n}: {failure}"));
        }
        match next.value.expect("a verdict") {
            Some(false) => {
                return Err(format!(
                    "seed {seed}, cut {n}: truncate-Z2: what was cut off is back"
                ));
            }
            Some(true) => begun += 1,
            None => {}
        }
    }
    Ok(begun)
}

/// hazards-F63.
#[test]
fn f2fsj_cut_unmarked() {
    let seen = is_back(1, &Mistake::default());
    assert!(
        seen.as_ref().is_ok_and(|&begun| begun > 1),
        "the code with its guard: {seen:?}"
    );
    notice_life(Mutant::F2fsjCutUnmarked, "truncated", is_back);
}

/// What the first life with the mutant shows that is wrong; the code with its guard passes the
/// first of them.
fn notice_life<T>(
    mutant: Mutant,
    workload: &str,
    life: impl Fn(u64, &Mistake) -> Result<T, String>,
) {
    if let Err(why) = life(1, &Mistake::default()) {
        panic!("{workload}: the code with its guard: {why}");
    }
    let mistake = Mistake::of(mutant);
    for seed in 1..=LIVES {
        let found = life(seed, &mistake);
        let reached = mistake.reached();
        if let Err(found) = found {
            let proof = ("file system", seed, 1);
            return say(
                mutant,
                &format!("f2fsj, {workload}"),
                proof,
                reached,
                &found,
            );
        }
    }
    panic!(
        "{mutant} survives {LIVES} lives; its guard was reached {} times",
        mistake.reached()
    );
}

/// hazards-F45.
#[test]
fn f2fsj_page_ahead() {
    notice_life(
        Mutant::F2fsjPageAhead,
        "records=pages, several tasks in one directory",
        |seed, mistake| ahead::cuts_between_tasks(seed, "records=pages", mistake),
    );
}

/// hazards-F46.
#[test]
fn f2fsj_ends_first() {
    notice_life(
        Mutant::F2fsjEndsFirst,
        "inodes that are made and removed in one epoch",
        |_, mistake| ends::each(mistake),
    );
}

/// hazards-F71.
#[test]
fn f2fsj_keep_old_place() {
    notice_life(
        Mutant::F2fsjKeepOldPlace,
        "cuts of applies",
        |seed, mistake| applied::cuts_of_an_apply(seed, 1024, mistake),
    );
}

/// hazards-F72.
#[test]
fn f2fsj_pack_ahead() {
    notice_life(
        Mutant::F2fsjPackAhead,
        "cuts of applies",
        |seed, mistake| applied::cuts_of_an_apply(seed, 1024, mistake),
    );
}

/// hazards-F73.
#[test]
fn f2fsj_tail_early() {
    notice_life(
        Mutant::F2fsjTailEarly,
        "cuts of applies",
        |seed, mistake| applied::cuts_of_an_apply(seed, 1024, mistake),
    );
}

/// hazards-F55.
#[test]
fn f2fsj_stale_incarnation() {
    notice_life(
        Mutant::F2fsjStaleIncarnation,
        "a volume made over",
        |_, mistake| foreign::made_over(mistake),
    );
}

/// hazards-F56.
#[test]
fn f2fsj_stamp_ignored() {
    notice_life(
        Mutant::F2fsjStampIgnored,
        "written by another",
        |_, mistake| foreign::written_by_another(mistake),
    );
}
