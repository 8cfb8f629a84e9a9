//! The catalogue of `cargo xtask mutants` for guards of the content of F2FS's files.
//! docs/design/testing.md says what a line means.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

use crate::{common, content};
use base::Mutant;

struct Seen {
    cuts: usize,
    reached: u64,
    found: Option<String>,
}

fn explore_content(mutant: Option<Mutant>, options: &'static str) -> Seen {
    let start = common::fresh(content::VOLUME_MIB);
    let start = start.blocks().into_iter().collect();
    let mut seen = Seen {
        cuts: 0,
        reached: 0,
        found: None,
    };
    for seed in 0..16 {
        let outcome = content::live(seed, &start, options, 8, mutant);
        let reached = mutant.and_then(|m| outcome.reached.get(&m).copied());
        seen.reached += reached.unwrap_or(0);
        if let Some(failure) = outcome.first_failure {
            seen.found = Some(format!("seed {seed}: {failure}"));
            return seen;
        }
        for (n, cut) in outcome.value.expect("cuts").iter().enumerate() {
            seen.cuts += 1;
            if let Err(why) = content::judge(cut, options) {
                seen.found = Some(format!("seed {seed}, cut {n}: {why}"));
                return seen;
            }
        }
    }
    seen
}

fn notices_content(mutant: Mutant, options: &'static str) {
    let clean = explore_content(None, options);
    assert_eq!(clean.found, None, "the code with its guard");
    let broken = explore_content(Some(mutant), options);
    assert!(broken.reached > 0, "{mutant}: no one asked for its guard");
    let found = broken.found;
    let found = found.unwrap_or_else(|| panic!("{mutant}: not noticed in {} cuts", broken.cuts));
    println!("{mutant}: {found}");
    println!(
        "mutant|{mutant}|f2fs, {options}|{}|file system|{}|{}",
        broken.reached, broken.cuts, clean.cuts
    );
}

/// hazards-F11: a checkpoint maps data that is still on its way.
#[test]
fn f2fs_map_before_data() {
    notices_content(Mutant::F2fsMapBeforeData, "ipu_policy=0");
}

/// hazards-F12: inline data has left its inode, and its block waits for write-back.
#[test]
fn f2fs_leave_inline_late() {
    notices_content(Mutant::F2fsLeaveInlineLate, "ipu_policy=1");
}

/// hazards-F13: a page that was cut, or moved, goes over what the last checkpoint knows.
#[test]
fn f2fs_cut_in_place() {
    notices_content(Mutant::F2fsCutInPlace, "ipu_policy=1");
}

/// hazards-F14: the commit of an atomic write comes back in part.
#[test]
fn f2fs_atomic_by_parts() {
    notices_content(Mutant::F2fsAtomicByParts, "ipu_policy=0");
}
