//! Power cuts on volumes with large blocks. A device writes 4 KiB or a sector at once, so a cut
//! leaves blocks of the volume that are old in some places and new in others, in the log and at
//! home (place-B1 to place-B7).

use super::SIZES;
use crate::common::{made, options_of};
use crate::data_path::{MIB, Tear, explore_from, judge};
use blockdev::Image;
use varve_ext4::mkfs::{FastCommitArea, JournalSize, MkfsOptions};

/// MiB of these volumes.
const MIB_EACH: u64 = 144;

/// A volume whose first group has as many bytes as one with blocks of 4 KiB, so that a second one
/// has the backup of the superblock.
fn volume(block_bytes: u32, options: &str) -> Image {
    let options = MkfsOptions {
        block_bytes,
        blocks_per_group: Some((128 << 20) / block_bytes),
        journal: JournalSize::Blocks(1024),
        fast_commits: match options.contains("fast-commit") {
            true => FastCommitArea::Room,
            false => FastCommitArea::None,
        },
        ..options_of(MIB_EACH)
    };
    made(&options).blocks().into_iter().collect()
}

fn explore(block_bytes: u32, seeds: std::ops::Range<u64>, tear: Tear, options: &str) {
    let start = volume(block_bytes, options);
    let what = (MIB_EACH, tear, options);
    let judged = explore_from(&start, seeds, what, |cut, seed, n| {
        if let Err(why) = judge(cut, MIB_EACH * MIB, tear, options) {
            panic!("blocks of {block_bytes}, seed {seed}, cut {n}, {tear:?}, {options:?}: {why}");
        }
    });
    assert!(judged > 10, "only {judged} cuts");
}

/// Each scheme that needs no REMAP, in each size, by turns.
const OPTIONS: [&str; 9] = [
    "",
    "scheme=flush-ahead",
    "scheme=coalition",
    "scheme=emmc",
    "scheme=emmc,full-first=on",
    "scheme=adaptive",
    "scheme=fast-commit",
    "data=journal",
    "scheme=emmc,small=64,commit-by=caller",
];

#[test]
fn pages_of_4_kib_are_old_or_new() {
    for (n, options) in (0..).zip(OPTIONS) {
        explore(SIZES[n % 4], 0..2, Tear::Blocks, options);
        explore(SIZES[(n + 2) % 4], 2..4, Tear::Blocks, options);
    }
}

#[test]
fn sectors_are_old_new_or_garbage() {
    // The superblock is written in place, so what a cut leaves of its sectors must be old or new.
    for (n, options) in (0..).zip(["scheme=emmc", "", "scheme=coalition", "scheme=adaptive"]) {
        explore(SIZES[n % 4], 10..12, Tear::Sectors, options);
        explore(SIZES[(n + 1) % 4], 12..14, Tear::Sectors, options);
    }
}

/// An image comes home by one REMAP of whole blocks, or, where pages of the device are larger than
/// blocks, as a copy.
#[test]
fn homes_are_remapped() {
    for (n, options) in (0..).zip(["scheme=jftl", "scheme=jftl-paper"]) {
        explore(SIZES[n], 20..23, Tear::Blocks, options);
        explore(SIZES[3 - n], 23..26, Tear::Blocks, options);
    }
}

#[test]
#[ignore = "minutes: 20 seeds of each scheme and size"]
fn for_long() {
    for block_bytes in SIZES {
        for options in OPTIONS
            .into_iter()
            .chain(["scheme=jftl", "scheme=jftl-paper"])
        {
            explore(block_bytes, 100..120, Tear::Blocks, options);
        }
    }
}
