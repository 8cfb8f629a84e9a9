//! The catalogue of `cargo xtask mutants` for guards of the content of F2FS's files.
//! docs/design/testing.md says what a line means.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

use crate::{common, content};
use base::Mutant;
use testkit::mutants::{caught, cuts_of};

fn notices_content(mutant: Mutant, options: &'static str) {
    let start = common::fresh(content::VOLUME_MIB);
    let start = start.blocks().into_iter().collect();
    caught(mutant, &format!("f2fs, {options}"), |mutant| {
        let life = |seed| content::live(seed, &start, options, 8, mutant);
        let judge = |cut: &content::Cut| content::judge(cut, options).map(drop);
        cuts_of(mutant, (0..16, u64::MAX), life, judge)
    });
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
