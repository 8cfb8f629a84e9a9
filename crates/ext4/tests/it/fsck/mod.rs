//! Compares Varve's checker with e2fsck (ext4-check-C3): on clean images of many makers, and on
//! single mutations of all metadata.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

mod corpus;
mod excuses;
mod flips;
mod targets;
mod volumes;

use crate::common::{Image, check_ram, have_tools, said};
use testkit::corpus::{Tally, by_hand};

#[test]
fn fresh_images_of_mke2fs_are_clean() {
    if !have_tools() {
        return;
    }
    let all: [(u64, &[&str]); 37] = [
        (16, &[]),
        (16, &["-O", "inline_data"]),
        (144, &[]),
        (700, &[]),
        (16, &["-t", "ext3"]),
        (16, &["-t", "ext2"]),
        (300, &["-O", "^metadata_csum,^64bit"]),
        (300, &["-O", "^metadata_csum,uninit_bg"]),
        (300, &["-O", "^sparse_super,^resize_inode"]),
        (300, &["-O", "^resize_inode"]),
        (300, &["-O", "orphan_file,metadata_csum_seed"]),
        (300, &["-I", "128", "-O", "^flex_bg"]),
        (300, &["-O", "meta_bg,^resize_inode"]),
        (
            300,
            &["-O", "meta_bg,^resize_inode", "-g", "256", "-N", "4800"],
        ),
        (
            70,
            &["-O", "meta_bg,^resize_inode", "-b", "1024", "-g", "1024"],
        ),
        (16, &["-O", "large_dir"]),
        (16, &["-O", "casefold,encrypt"]),
        (16, &["-b", "1024"]),
        (70, &["-b", "1024"]),
        (70, &["-b", "1024", "-t", "ext3"]),
        (16, &["-b", "1024", "-t", "ext2"]),
        (
            300,
            &["-b", "1024", "-O", "^sparse_super,^resize_inode,^flex_bg"],
        ),
        (
            1000,
            &[
                "-O",
                "^has_journal,sparse_super2",
                "-E",
                "lazy_itable_init=0",
            ],
        ),
        // The reserved inodes lie in two groups, or in the one that is behind the first.
        (8, &["-b", "1024", "-g", "512", "-N", "32"]),
        (8, &["-b", "1024", "-g", "1024", "-N", "64", "-I", "128"]),
        (64, &["-b", "1024", "-O", "bigalloc", "-C", "16384"]),
        (300, &["-b", "1024", "-O", "bigalloc", "-C", "16384"]),
        (64, &["-O", "bigalloc", "-C", "65536"]),
        (64, &["-O", "bigalloc,^resize_inode", "-C", "8192"]),
        (1000, &["-O", "bigalloc,meta_bg,^resize_inode"]),
        (
            16,
            &[
                "-O",
                "quota,project",
                "-E",
                "quotatype=usrquota:grpquota:prjquota",
            ],
        ),
        (16, &["-b", "1024", "-O", "quota"]),
        (16, &["-O", "ea_inode,verity"]),
        (16, &["-O", "mmp"]),
        (64, &["-b", "8192"]),
        (160, &["-b", "65536"]),
        (64, &["-b", "16384", "-O", "quota,orphan_file"]),
    ];
    for (mib, options) in all {
        let image = Image::new(mib, options);
        let report = check_ram(&image.load());
        assert!(report.is_clean(), "{mib} {options:?}\n{}", said(&report));
    }
}

/// Runs mutations of one volume.
fn judged(options: &[&str], seeds: std::ops::Range<u64>, fields: usize) -> Tally {
    let read_only = ["quota", "ea_inode"];
    let foreign = read_only
        .iter()
        .any(|f| options.iter().any(|o| o.contains(f)));
    let image = match foreign {
        true => volumes::foreign(options),
        false => volumes::filled(options),
    };
    corpus::run(&image, seeds, fields)
}

/// Runs mutations of one volume, and prints what came of it.
fn agree(name: &str, options: &[&str], seeds: std::ops::Range<u64>, fields: usize) {
    if !have_tools() {
        return;
    }
    judged(options, seeds, fields).agreed(name, 3);
}

const VOLUMES: [(&str, &[&str]); 8] = [
    ("ext4", &[]),
    (
        "ext4 with orphan file, old inodes",
        &["-O", "orphan_file,^flex_bg"],
    ),
    ("ext3", &["-t", "ext3"]),
    (
        "meta_bg, large_dir",
        &["-O", "meta_bg,large_dir,casefold,^resize_inode"],
    ),
    ("inline_data", &["-O", "inline_data"]),
    (
        "inline_data in large inodes",
        &["-O", "inline_data,orphan_file", "-I", "1024"],
    ),
    (
        "quotas, values in inodes",
        &["-O", "quota,project,ea_inode,mmp", "-g", "2048"],
    ),
    ("clusters", &["-O", "bigalloc,quota", "-C", "16384"]),
];

#[test]
fn mutations_are_judged_as_by_e2fsck() {
    for (name, options) in VOLUMES {
        agree(name, options, 0..100, 1);
    }
}

/// A journal whose last block is not mapped as a whole; the first block of a log; a quota's inode,
/// which no name leads to.
#[test]
fn mutations_that_were_once_judged_otherwise() {
    if !have_tools() {
        return;
    }
    for (volume, seed) in [(0, 5143), (3, 5235), (6, 1154)] {
        let (name, options) = VOLUMES[volume];
        let tally = judged(options, seed..seed + 1, 1);
        assert!(tally.disputed.is_empty(), "{name}: {:?}", tally.disputed);
    }
}

/// Damage is rarely one field; what two say together must not cancel out.
#[test]
#[ignore = "long: 1,000 structures of each volume, with two and with three fields changed"]
fn mutations_of_several_fields_are_judged_as_by_e2fsck() {
    for (name, options) in VOLUMES {
        agree(name, options, 0..500, 2);
        agree(name, options, 500..1000, 3);
    }
}

/// Volumes whose bytes are flipped.
const FLIPPED: [&[&str]; 2] = [&[], &["-O", "inline_data"]];

#[test]
#[ignore = "with the long form: every 1009th byte of metadata"]
fn a_sample_of_flipped_bytes_is_answered() {
    if have_tools() {
        for options in FLIPPED {
            flips::run(options, 7, 1009);
        }
    }
}

#[test]
#[ignore = "long: every byte of metadata, half of them"]
fn every_flipped_byte_with_an_even_number_is_answered() {
    if have_tools() {
        for options in FLIPPED {
            flips::run(options, 0, 2);
        }
    }
}

#[test]
#[ignore = "long: every byte of metadata, the other half"]
fn every_flipped_byte_with_an_odd_number_is_answered() {
    if have_tools() {
        for options in FLIPPED {
            flips::run(options, 1, 2);
        }
    }
}

#[test]
fn structures_with_several_wrong_fields_are_answered() {
    if have_tools() {
        for options in FLIPPED {
            flips::several(options, 0..150);
        }
    }
}

#[test]
#[ignore = "long: 10,000 of each volume"]
fn many_structures_with_several_wrong_fields_are_answered() {
    if have_tools() {
        for options in FLIPPED {
            flips::several(options, 0..10_000);
        }
    }
}

/// Run by hand: `VOLUME=0 FROM=1000 SEEDS=5000 FIELDS=1`.
#[test]
#[ignore = "as many seeds as asked for"]
fn many() {
    by_hand(VOLUMES.len(), 4000, |n, seeds, fields| {
        let (name, options) = VOLUMES[n];
        agree(name, options, seeds, fields);
    });
}

/// Single changes by debugfs to a fresh volume with a file: both checkers find a fault, or neither
/// does.
#[test]
fn damage_by_debugfs_is_judged_as_by_e2fsck() {
    if !have_tools() {
        return;
    }
    let damages = [
        ("ssv rev_level 2", true),
        (
            "ssv journal_uuid 0a0b0c0d-0102-0304-0506-0708090a0b0c",
            true,
        ),
        ("sif <1> mode 1", true),
        ("sif <1> uid 1", true),
        ("sif <1> links_count 1", true),
        ("sif <1> dtime 5", true),
        ("sif <1> generation 1", false),
        ("sif <3> blocks 8", true),
        ("sif <3> links_count 2", true),
        ("sif <3> blocks_hi 1", false),
        ("sif <3> mode 1", false),
        ("sif <6> mode 1", true),
        ("sif <6> blocks_hi 1", true),
        ("sif <6> links_count 2", false),
        ("sif <9> size 0xffffffff00000000", true),
        ("sif <10> flags 0x40000000", true),
        ("sif <7> size 0", true),
        ("sif <7> dtime 500000", false),
        ("sif <8> size 0x40ffff", true),
        ("sif <8> dtime 5", true),
        ("sif <8> dtime 500000", false),
        ("sif file size 0", false),
        ("sif file flags 0x40080000", true),
        ("sif large size 0", true),
        ("sif large size 8192", false),
        ("sif large size 8191", true),
    ];
    let image = Image::new(144, &["-O", "casefold"]);
    let content = image.dir.path().join("content");
    for (name, bytes) in [("file", 100), ("large", 3 * 4096)] {
        std::fs::write(&content, vec![1; bytes]).expect("room");
        image.debugfs_write(&[&format!("write {} {name}", content.display())]);
    }
    let whole = image.load();
    for (damage, harm) in damages {
        image.store(&whole);
        image.debugfs_write(&[damage]);
        let (code, text) = corpus::e2fsck(&image.path);
        let report = check_ram(&image.load());
        assert_eq!(
            (code != 0, !report.is_clean()),
            (harm, harm),
            "{damage}\n{text}\n{}",
            said(&report)
        );
    }
}

/// Such damage of features that are checked but not written, and of what the images of e2fsprogs
/// show.
#[test]
fn damage_of_other_features_is_judged_as_by_e2fsck() {
    if !have_tools() {
        return;
    }
    type Case = (&'static [&'static str], &'static [&'static str], bool);
    let cases: [Case; 15] = [
        (&["-O", "quota"], &["sif file uid 77"], true),
        (&["-O", "quota"], &["ssv usr_quota_inum 5"], true),
        (&["-O", "mmp"], &["ssv mmp_block 3"], true),
        (
            &["-O", "verity"],
            &["sif large flags 0x180000", "sif large size 100"],
            false,
        ),
        (&[], &["sif large size 100"], true),
        (
            &["-O", "ea_inode"],
            &["ea_set -f CONTENT file user.apart", "sif file blocks 16"],
            false,
        ),
        (
            &["-O", "ea_inode"],
            &[
                "ea_set -f CONTENT file user.apart",
                "sif file blocks 16",
                "sif <14> flags 0x80000",
            ],
            true,
        ),
        (
            &["-O", "ea_inode"],
            &[
                "ea_set -f CONTENT file user.apart",
                "sif file blocks 16",
                "sif <14> version 7",
            ],
            true,
        ),
        (&["-O", "encrypt"], &["sif file flags 0x80800"], true),
        (&[], &["sif file flags 0x82000"], true),
        (
            &["-t", "ext3"],
            &[
                "ea_set file user.a xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
                "feature -ext_attr",
            ],
            true,
        ),
        (
            &[],
            &["sif file ctime @-1907928000", "sif file ctime_extra 3"],
            true,
        ),
        (&[], &["ssv want_extra_isize 1001"], true),
        (
            &["-O", "meta_bg,^resize_inode"],
            &["ssv first_meta_bg 77"],
            true,
        ),
        (
            &["-O", "bigalloc,^resize_inode", "-C", "65536"],
            &["sif file flags 0"],
            true,
        ),
    ];
    for (options, commands, harm) in cases {
        let image = Image::new(16, options);
        let content = image.dir.path().join("content");
        for (name, bytes) in [("file", 100), ("large", 3 * 4096)] {
            std::fs::write(&content, vec![1; bytes]).expect("room");
            image.debugfs_write(&[&format!("write {} {name}", content.display())]);
        }
        let path = content.to_string_lossy();
        let commands: Vec<String> = commands
            .iter()
            .map(|c| c.replace("CONTENT", &path))
            .collect();
        let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
        image.debugfs_write(&commands);
        let (code, text) = corpus::e2fsck(&image.path);
        let report = check_ram(&image.load());
        assert_eq!(
            (code != 0 || text.contains("? no"), !report.is_clean()),
            (harm, harm),
            "{options:?} {commands:?}\n{text}\n{}",
            said(&report)
        );
    }
}
