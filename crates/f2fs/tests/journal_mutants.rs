//! The catalogue of `cargo xtask mutants` for guards of the journal of F2FS. docs/measuring.md says what a line means.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

#[path = "journal/common.rs"]
mod common;
#[path = "journal/cuts.rs"]
mod cuts;
#[path = "common/mod.rs"]
mod images;
#[path = "journal/world.rs"]
mod world;

use base::Mutant;
use cuts::{each_cut, recorded, written_over};
use fscore::FileSystem;
use rt::{Sim, SimConfig};
use std::cell::Cell;

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
            println!("{mutant}: {found}");
            println!("mutant|{mutant}|f2fsj, {options}|{reached}|file system|{after}|{clean}");
            return;
        }
    }
    panic!("{mutant} survives {LIVES} lives; its guard was reached {reached} times");
}

/// F51.
#[test]
fn f2fsj_data_unflushed() {
    notice(Mutant::F2fsjDataUnflushed, "mode=lfs");
}

/// F43.
#[test]
fn f2fsj_commit_before_data() {
    notice(Mutant::F2fsjCommitBeforeData, "mode=lfs");
}

/// F52.
#[test]
fn f2fsj_ack_before_commit() {
    notice(Mutant::F2fsjAckBeforeCommit, "mode=lfs");
}

/// H17.
#[test]
fn f2fsj_join_old_flush() {
    let mutant = Mutant::F2fsjJoinOldFlush;
    assert_eq!(written_over(0, None).0, Ok(()), "the code with its guard");
    for seed in 0..LIVES {
        let (found, reached) = written_over(seed, Some(mutant));
        if let Err(found) = found {
            println!("{mutant}: {found}");
            println!("mutant|{mutant}|f2fsj, written in place|{reached}|file system|1|1");
            return;
        }
    }
    panic!("{mutant} survives {LIVES} lives");
}

/// Lives on a volume that is nearly full, with cuts; a mutant may fail in life, too. What was found, and how often its guard was reached.
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
    assert!(reached > 0, "{mutant}: no one asked for its guard");
    let found = found.unwrap_or_else(|| panic!("{mutant}: not noticed in {LIVES} lives"));
    println!("{mutant}: {found}");
    println!("mutant|{mutant}|f2fsj, nearly full|{reached}|file system|1|{LIVES}");
}

/// F61.
#[test]
fn f2fsj_reuse_early() {
    notice_crowded(Mutant::F2fsjReuseEarly);
}

/// F62.
#[test]
fn f2fsj_nid_early() {
    notice_crowded(Mutant::F2fsjNidEarly);
}

/// A large file is cut off in several operations, and so is the power; then the file grows again. True if old content is back.
fn is_back(mutant: Option<Mutant>) -> (bool, u64) {
    let config = SimConfig {
        mutant,
        quiet: mutant.is_some(),
        ..SimConfig::seeded(4)
    };
    let outcome = Sim::new(config).run(|| {
        let disk = common::disk(16, common::volume(16), 4);
        let fs = common::try_mount_alone(&disk, world::PLAIN).expect("mount");
        let files = ["a", "b"].map(|name| images::create(&fs, name).expect("create"));
        for index in 0..1400 {
            for ino in files {
                fs.write(ino, index * 4096, &[7; 4096]).expect("room");
            }
            if index % 100 == 99 {
                fs.sync().expect("sync");
            }
        }
        let over = rt::Mutex::named("over", false);
        let cuts = rt::scope(|s| {
            let watcher = s.spawn("cuts", || {
                let mut seen = Vec::new();
                while !*over.lock() {
                    rt::sleep(base::Nanos(100_000));
                    seen.push(disk.snapshot(1));
                }
                seen
            });
            images::truncate(&fs, files[0], 4096).expect("cut off");
            *over.lock() = true;
            watcher.join().expect("cuts")
        });
        cuts.into_iter().any(|image| {
            let disk = common::disk(16, image, 1);
            let fs = common::try_mount_alone(&disk, world::PLAIN).expect("mount");
            let ino = fs.lookup(fs.root(), b"a").expect("there");
            if fs.getattr(ino).expect("getattr").size != 4096 {
                return false;
            }
            images::truncate(&fs, ino, 1400 * 4096).expect("grown");
            !base::bytes::is_zero(&images::read_all(&fs, ino)[4096..])
        })
    });
    let asked = mutant.and_then(|m| outcome.reached.get(&m).copied());
    (outcome.value.expect("a verdict"), asked.unwrap_or(0))
}

/// F63.
#[test]
fn f2fsj_cut_unmarked() {
    let mutant = Mutant::F2fsjCutUnmarked;
    assert!(!is_back(None).0, "the code with its guard");
    let (back, reached) = is_back(Some(mutant));
    assert!(reached > 0, "{mutant}: no one asked for its guard");
    assert!(back, "{mutant}: not noticed");
    println!("{mutant}: what was cut off is back");
    println!("mutant|{mutant}|f2fsj, truncated|{reached}|file system|1|1");
}
