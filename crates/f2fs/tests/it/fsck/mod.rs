//! Compares the checker with fsck.f2fs 1.15 and with mounts, on images with one or several fields
//! of metadata changed.
//!
//! - I1 nothing panics: check, mount, walk, recovery;
//! - I2 what a mount refuses as damaged is not clean;
//! - I3 what the checker finds clean mounts, for reading and for writing, and everything in it can
//!   be read;
//! - I4 the verdict is that of fsck.f2fs, but for the classes of [`excuses`].
//!
//! Says `skipped: no ...` where f2fs-tools are missing.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

mod corpus;
mod excuses;
mod judge;
mod targets;
mod volumes;

use crate::common::have_tools;
use testkit::corpus::by_hand;

/// Volumes, by their name: options of mkfs.f2fs.
const VOLUMES: [(&str, &[&str]); 4] = [
    ("plain", &[]),
    (
        "checksums",
        &[
            "-O",
            "extra_attr,inode_checksum,inode_crtime,sb_checksum,flexible_inline_xattr",
        ],
    ),
    ("android", &["-g", "android"]),
    ("ro", &["-O", "ro"]),
];

/// Runs mutations of one volume, and prints what came of it.
fn agree(name: &str, options: &[&str], seeds: std::ops::Range<u64>, fields: usize) {
    let image = volumes::filled(options);
    let tally = corpus::run(&image, seeds, fields);
    tally.agreed(&format!("{name}, {fields} fields"), 4);
}

#[test]
fn volumes_of_all_kinds_are_clean() {
    if have_tools() {
        for (name, options) in VOLUMES {
            let image = volumes::filled(options);
            image.fsck();
            let judged = judge::judge(&image.load());
            assert!(judged.is_clean(), "{name}: {judged:#?}");
            judge::read_all(&image.load()).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
}

#[test]
fn mutations_are_judged_as_by_fsck_f2fs() {
    if have_tools() {
        for (name, options) in VOLUMES {
            agree(name, options, 0..25, 1);
        }
    }
}

#[test]
fn several_wrong_fields_are_answered() {
    if have_tools() {
        for (name, options) in VOLUMES {
            agree(name, options, 100_000..100_005, 3);
        }
    }
}

#[test]
#[ignore = "long: 2,000 mutations, and 1,000 of several fields, of each volume"]
fn many_mutations_are_judged_as_by_fsck_f2fs() {
    if have_tools() {
        for (name, options) in VOLUMES {
            agree(name, options, 0..2000, 1);
            agree(name, options, 100_000..101_000, 3);
        }
    }
}

/// By hand: `VOLUME=0 FROM=1000 SEEDS=5000 FIELDS=1`.
#[test]
#[ignore = "as many seeds as asked for"]
fn many() {
    by_hand(VOLUMES.len(), 0, |n, seeds, fields| {
        let (name, options) = VOLUMES[n];
        agree(name, options, seeds, fields);
    });
}
