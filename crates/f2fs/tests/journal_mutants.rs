//! The catalogue of `cargo xtask mutants` for guards of the journal of F2FS. docs/measuring.md says what a line means.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

#[path = "journal/common.rs"]
mod common;
#[path = "journal/cuts.rs"]
mod cuts;
#[path = "common/mod.rs"]
mod images;

use base::Mutant;
use cuts::{each_cut, recorded, written_over};

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
