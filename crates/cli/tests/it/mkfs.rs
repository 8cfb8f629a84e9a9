//! `varve mkfs` as a user runs it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::program::{on_image as varve, told, tool};
use std::fs;
use std::path::Path;

/// Clean by `e2fsck -fn`, where it is installed.
fn e2fsck(image: &Path) {
    match tool("e2fsck").arg("-fn").arg(image).output() {
        Ok(out) => assert_eq!(out.status.code(), Some(0), "{out:?}"),
        Err(e) => eprintln!("skipped: no e2fsck: {e}"),
    }
}

#[test]
fn each_kind_in_each_block_size_is_clean_and_comes_again() {
    let folder = tempfile::tempdir().unwrap();
    for fs in ["ext3", "ext4"] {
        for block in ["1024", "2048", "4096"] {
            let options = [
                "mkfs", "--fs", fs, "-b", block, "--seed", "7", "--size", "40",
            ];
            let (one, two) = (folder.path().join("one"), folder.path().join("two"));
            let (code, said) = varve(&options, &one);
            assert_eq!(code, 0, "{said}");
            assert!(said.contains(fs) && said.contains(block), "{said}");
            e2fsck(&one);
            let (code, said) = varve(&["fsck"], &one);
            assert_eq!(code, 0, "{said}");
            varve(&options, &two);
            assert!(fs::read(&one).unwrap() == fs::read(&two).unwrap());
            for image in [one, two] {
                fs::remove_file(image).unwrap();
            }
        }
    }
}

/// `-O` as of mke2fs: one feature or several, each on the file systems that have it.
#[test]
fn features_are_named_as_of_mke2fs() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let make = |more: &[&str]| {
        let words = ["mkfs", "--force", "--size", "64"];
        varve(&[&words[..], more].concat(), &image)
    };
    told(
        make(&["-O", "fast_commit"]),
        0,
        "16 of them for fast commits",
    );
    e2fsck(&image);
    match tool("dumpe2fs").arg("-h").arg(&image).output() {
        Ok(out) => {
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            let area = text.lines().find(|l| l.starts_with("Fast commit length:"));
            assert!(area.is_some_and(|l| l.ends_with(" 16")), "{text}");
        }
        Err(e) => eprintln!("skipped: no dumpe2fs: {e}"),
    }
    let (code, said) = make(&["-O", "fast_commit,casefold", "--json"]);
    let made: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &made["fast_commit_blocks"]), (0, &16.into()));
    e2fsck(&image);
    told(varve(&["info"], &image), 0, "casefold");
    told(
        make(&["--fs", "ext3", "-O", "fast_commit"]),
        0,
        "fast commits",
    );
    told(make(&["--fs", "f2fs", "-O", "casefold"]), 0, "f2fs");
    for (more, why) in [
        (
            &["-O", "fast_commit", "--no-journal"][..],
            "wants a journal",
        ),
        (
            &["-O", "fast_commit", "--journal-device", "/nowhere/log"],
            "inside of the volume",
        ),
        (&["--fs", "f2fs", "-O", "fast_commit"], "ext4 and ext3"),
        (&["--fs", "f2fs", "-O", "bigalloc"], "are for ext4"),
        (&["--fs", "ext3", "-O", "casefold"], "ext4 and F2FS"),
        (&["-O", "quota"], "bigalloc, fast_commit, casefold"),
    ] {
        told(make(more), 2, why);
    }
}

/// A volume with its journal on a device of its own, both made by one command, and used.
#[test]
fn a_journal_device() {
    let folder = tempfile::tempdir().unwrap();
    for block in ["1024", "4096"] {
        let (image, log) = (folder.path().join("image"), folder.path().join("log"));
        let log_name = log.to_str().unwrap();
        let make = |more: &[&str]| {
            let words = ["mkfs", "-b", block, "--journal-device", log_name];
            varve(&[&words[..], more].concat(), &image)
        };
        told(make(&["--size", "40"]), 2, "--journal");
        let (code, said) = make(&["--size", "40", "--journal", "1"]);
        assert!(code != 0 && said.contains("blocks at least"), "{said}");
        assert!(!image.exists() && !log.exists(), "nothing is made");
        told(make(&["--size", "40", "--journal", "8"]), 0, log_name);
        told(make(&[]), 1, "--force");
        let (code, said) = make(&["--force"]);
        assert_eq!(code, 0, "{said}");
        told(varve(&["fsck", "--journal", log_name], &image), 0, "clean");
        let (code, said) = varve(&["recover", "--journal", log_name], &image);
        assert!(code == 0 && said.contains("nothing to recover"), "{said}");
        let mut e2fsck = tool("e2fsck");
        match e2fsck.args(["-fn", "-j", log_name]).arg(&image).output() {
            Ok(out) => assert_eq!(out.status.code(), Some(0), "{out:?}"),
            Err(e) => eprintln!("skipped: no e2fsck: {e}"),
        }
        for image in [image, log] {
            fs::remove_file(image).unwrap();
        }
    }
}

#[test]
fn what_holds_data_is_written_over_on_demand_only() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    fs::write(&image, vec![0xA5; 16 << 20]).unwrap();
    told(varve(&["mkfs", "--fs", "ext3"], &image), 1, "--force");
    let options = [
        "mkfs",
        "--fs",
        "ext3",
        "--force",
        "--label",
        "layer",
        "--no-journal",
    ];
    told(varve(&options, &image), 0, "no journal");
    e2fsck(&image);
    assert_eq!(varve(&["fsck"], &image).0, 0);
}

#[test]
fn what_makes_no_sense_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    for (options, words) in [
        (&["mkfs"][..], "--size"),
        (
            &["mkfs", "--size", "40", "-b", "12288"],
            "choose a power of two from 1024 to 65536",
        ),
        (
            &["mkfs", "--size", "40", "-b", "8192", "-g", "100"],
            "choose a multiple of 8 from 256 to 65528",
        ),
        (
            &["mkfs", "--size", "40", "-b", "65536"],
            "a journal wants 134217728 bytes",
        ),
        (
            &["mkfs", "--size", "40", "-I", "96"],
            "choose a power of two from 128 to 4096",
        ),
        (
            &["mkfs", "--size", "40", "-I", "128", "--fs", "f2fs"],
            "an inode of F2FS is a block",
        ),
        (&["mkfs", "--size", "40", "--fs", "ext2"], "ext4, ext3"),
        (&["mkfs", "--size", "4"], "a journal wants"),
        (
            &["mkfs", "--size", "40", "--journal", "1"],
            "choose 1024 to",
        ),
    ] {
        let (code, said) = varve(options, &image);
        assert!(
            code == 2 && said.contains(words),
            "{options:?}: {code} {said}"
        );
        assert!(!image.exists());
    }
}

/// Content to `fsck.f2fs --dry-run`, where it is installed.
fn fsck_f2fs(image: &Path) {
    match tool("fsck.f2fs").arg("--dry-run").arg(image).output() {
        Ok(out) => {
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            let bad = ["[Fail]", "[ASSERT]", "[FIX]"];
            let content = !bad.iter().any(|word| text.contains(word));
            assert!(out.status.success() && content, "{text}");
        }
        Err(e) => eprintln!("skipped: no fsck.f2fs: {e}"),
    }
}

#[test]
fn an_f2fs_has_room_for_a_journal_on_demand() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let make = |more: &[&str]| {
        let fixed = [
            "mkfs", "--fs", "f2fs", "--seed", "7", "--size", "128", "--force",
        ];
        varve(&[&fixed, more].concat(), &image)
    };
    for (more, blocks, journal) in [
        (&[][..], 32768, ""),
        (&["-J", "size=16"], 28672, "a journal of 4096 blocks"),
        (&["-J", "size=72k"], 32256, "a journal of 18 blocks"),
        (&["-J", "default"], 24576, "a journal of 8192 blocks"),
        (&["--journal", "1"], 32256, "a journal of 256 blocks"),
    ] {
        let (code, said) = make(more);
        assert_eq!(code, 0, "{said}");
        assert!(
            said.contains(&format!("{blocks} blocks")) && said.contains(journal),
            "{more:?}: {said}"
        );
        fsck_f2fs(&image);
        assert_eq!(varve(&["fsck"], &image).0, 0);
        let (code, said) = varve(&["info"], &image);
        assert_eq!(code, 0, "{said}");
        assert_eq!(said.contains("tail: epoch"), !journal.is_empty(), "{said}");
    }
    for (more, words) in [
        (&["-J", "size=71k"][..], "from 73728 bytes"),
        (&["-J", "size=much"], "-J size=much"),
        (&["-J", "size=120"], "too small for an F2FS"),
        (&["--fs", "ext4", "-J", "default"], "--journal SIZE"),
    ] {
        let (code, said) = match more[0] {
            "--fs" => varve(&[&["mkfs"], more].concat(), &image),
            _ => make(more),
        };
        assert!(code == 2 && said.contains(words), "{more:?}: {said}");
    }
}

/// Recovery is that of the mount, whatever the size of the blocks.
#[test]
fn a_log_in_blocks_of_1_kib_is_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let options = ["mkfs", "--fs", "ext3", "-b", "1024", "--size", "16"];
    assert_eq!(varve(&options, &image).0, 0);
    let mut bytes = fs::read(&image).unwrap();
    // s_feature_incompat: needs_recovery.
    bytes[1024 + 0x60] |= 4;
    fs::write(&image, &bytes).unwrap();
    let (code, said) = varve(&["fsck", "-y"], &image);
    assert_eq!(code, 0, "{said}");
    let after = fs::read(&image).unwrap();
    assert_eq!(after[1024 + 0x60] & 4, 0, "needs_recovery is off");
    e2fsck(&image);
}
