//! `varve fsck` as a user runs it, on images of mke2fs.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::program::{command, on_image as run, told, tool, words as said};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn varve(args: &[&str], image: &Path) -> Output {
    let mut command = command();
    let out = command.arg("fsck").args(args).arg(image).output();
    out.expect("the program starts")
}

/// Exit code and words.
fn fsck(args: &[&str], image: &Path) -> (i32, String) {
    run(&[&["fsck"], args].concat(), image)
}

/// Last words of the lines: the names of a listing.
fn names(listing: &str) -> Vec<&str> {
    listing
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .collect()
}

/// What debugfs answers to a question.
fn debugfs(question: &str, image: &Path) -> Output {
    let mut command = tool("debugfs");
    command.args(["-R", question]).arg(image).output().unwrap()
}

struct Folder(tempfile::TempDir);

impl Folder {
    /// A fresh image; `None`, said aloud, without e2fsprogs.
    fn image(&self) -> Option<PathBuf> {
        self.image_of(&[])
    }

    /// The same with more options of mke2fs.
    fn image_of(&self, options: &[&str]) -> Option<PathBuf> {
        let path = self.0.path().join("image");
        File::create(&path).unwrap().set_len(32 << 20).unwrap();
        let made = tool("mke2fs")
            .args(["-q", "-F", "-t", "ext4", "-b", "4096"])
            .args(options)
            .arg(&path)
            .status();
        match made {
            Ok(status) => {
                assert!(status.success());
                Some(path)
            }
            Err(e) => {
                eprintln!("skipped: no mke2fs: {e}");
                None
            }
        }
    }

    /// Runs commands of debugfs.
    fn debugfs(&self, image: &Path, commands: &str) {
        let script = self.0.path().join("script");
        fs::write(&script, commands).unwrap();
        let out = tool("debugfs")
            .arg("-w")
            .arg("-f")
            .arg(&script)
            .arg(image)
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", said(&out));
    }

    /// A log with one transaction, which holds the group descriptors as they are.
    fn dirty(&self, image: &Path) {
        let mut block = vec![0; 4096];
        let file = File::open(image).unwrap();
        file.read_exact_at(&mut block, 4096).unwrap();
        self.log(image, 1, &block);
    }

    /// A log with one transaction, which puts these bytes over a block.
    fn log(&self, image: &Path, home: u64, bytes: &[u8]) {
        let copy = self.0.path().join("block");
        fs::write(&copy, bytes).unwrap();
        self.debugfs(image, &format!("jo\njw -b {home} {}\njc\n", copy.display()));
    }

    /// The block where the inodes of group 0 begin, the root's among them.
    fn first_inodes(&self, image: &Path) -> u64 {
        let out = tool("dumpe2fs").arg(image).output().unwrap();
        let text = said(&out);
        let (_, from) = text.split_once("Inode table at ").expect("a group");
        let digits = from.split(|c: char| !c.is_ascii_digit()).next();
        digits.and_then(|n| n.parse().ok()).expect("a number")
    }
}

fn folder() -> Folder {
    Folder(tempfile::tempdir().unwrap())
}

#[test]
fn clean_and_damaged_images() {
    let folder = folder();
    let Some(image) = folder.image() else { return };
    assert_eq!(fsck(&[], &image).0, 0);
    // The link count of the root.
    folder.debugfs(&image, "sif <2> links_count 7\n");
    for args in [&[][..], &["-n"], &["-p"], &["-y"]] {
        let before = fs::read(&image).unwrap();
        let (code, text) = fsck(args, &image);
        assert_eq!(code, 4, "{text}");
        assert!(
            text.contains("E308 link-count (inode 2): 7 links noted, 3 found"),
            "{text}"
        );
        assert!(text.contains("1 finding"), "{text}");
        assert!(
            before == fs::read(&image).unwrap(),
            "nothing to recover, nothing written"
        );
    }
    let out = varve(&["--json"], &image);
    let json: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(
        (&json["exit_code"], &json["findings"][0]["number"]),
        (&4.into(), &308.into())
    );
    assert_eq!(json["findings"][0]["inode"], 2);
}

#[test]
fn a_log_is_replayed_in_memory_or_on_the_file() {
    let folder = folder();
    let Some(image) = folder.image() else { return };
    folder.dirty(&image);
    let before = fs::read(&image).unwrap();
    let (code, text) = fsck(&["-n"], &image);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("in memory only"), "{text}");
    assert!(before == fs::read(&image).unwrap(), "-n writes nothing");
    let (code, text) = fsck(&["-p"], &image);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("on the file"), "{text}");
    let (code, text) = fsck(&["-n"], &image);
    assert!(code == 0 && !text.contains("replayed"), "{text}");
    let judge = tool("e2fsck").arg("-fn").arg(&image).output().unwrap();
    assert_eq!(judge.status.code(), Some(0), "{}", said(&judge));
}

/// A log that puts zeros over the root directory: no mount takes the volume, and e2fsck carries
/// such a log home before it repairs.
#[test]
fn a_log_over_the_root_goes_home_as_with_e2fsck() {
    let folder = folder();
    let Some(image) = folder.image() else { return };
    let theirs = folder.0.path().join("theirs");
    let home = folder.first_inodes(&image);
    folder.log(&image, home, &[0; 4096]);
    fs::copy(&image, &theirs).unwrap();
    let repaired = tool("e2fsck").arg("-fy").arg(&theirs).output().unwrap();
    assert_eq!(repaired.status.code(), Some(1), "{}", said(&repaired));

    let before = fs::read(&image).unwrap();
    for args in [&["recover", "--dry-run"][..], &["fsck", "-n"]] {
        let text = told(run(args, &image), 4, "in memory only");
        assert!(text.contains("cannot be mounted behind its log"), "{text}");
        assert!(
            before == fs::read(&image).unwrap(),
            "{args:?} writes nothing"
        );
    }
    for args in [&["recover"][..], &["fsck", "-p"]] {
        let image = folder.0.path().join(args[0]);
        fs::write(&image, &before).unwrap();
        let (code, text) = run(args, &image);
        assert!(code == 4 && text.contains("on the file"), "{text}");
        assert!(
            text.contains("1 transactions") || args[0] == "fsck",
            "{text}"
        );
        // Without -f: the superblock says itself that it is to be looked at, and no log is left.
        let out = tool("e2fsck").arg("-y").arg(&image).output().unwrap();
        let repaired = said(&out);
        assert_eq!(out.status.code(), Some(1), "{repaired}");
        assert!(!repaired.contains("recovering journal"), "{repaired}");
        let trees = [&image, &theirs].map(|image| said(&debugfs("ls -l /", image)));
        assert!(trees[0].contains("lost+found"), "{}", trees[0]);
        assert_eq!(names(&trees[0]), names(&trees[1]));
    }
}

/// Quotas are not written: such a volume is mounted for reading, and its log goes home all the
/// same.
#[test]
fn a_volume_that_may_only_be_read_is_recovered_without_its_orphans() {
    let folder = folder();
    let Some(image) = folder.image_of(&["-O", "quota"]) else {
        return;
    };
    told(run(&["recover"], &image), 0, "nothing to recover");
    folder.dirty(&image);
    let (code, text) = run(&["recover"], &image);
    assert!(code == 0 && text.contains("on the file"), "{text}");
    assert!(text.contains("are left: "), "{text}");
    assert!(text.contains("quota"), "{text}");
    let judge = tool("e2fsck").arg("-fn").arg(&image).output().unwrap();
    assert_eq!(judge.status.code(), Some(0), "{}", said(&judge));
}

#[test]
fn orphans_are_processed() {
    let folder = folder();
    let Some(image) = folder.image() else { return };
    let block = folder.0.path().join("content");
    fs::write(&block, [1; 5000]).unwrap();
    let make = format!(
        "write {} f\nsif f links_count 0\nunlink f\nssv last_orphan 12\n",
        block.display()
    );
    folder.debugfs(&image, &make);
    let (code, text) = fsck(&["-y"], &image);
    assert!(
        code == 0 && text.contains("orphans processed, on the file"),
        "{text}"
    );
    assert!(text.contains("3 inodes"), "{text}");
    let judge = tool("e2fsck").arg("-fn").arg(&image).output().unwrap();
    assert_eq!(judge.status.code(), Some(0), "{}", said(&judge));
}

#[test]
fn what_cannot_be_checked_is_named() {
    let folder = folder();
    let path = folder.0.path();
    let short = path.join("short");
    fs::write(&short, "x").unwrap();
    let noise = path.join("noise");
    fs::write(&noise, vec![0xA5; 1 << 20]).unwrap();
    for (image, words) in [
        (path.join("missing"), "No such file"),
        (path.to_path_buf(), "is a directory"),
        (short, "too short"),
        (noise, "magic number"),
        (
            "/dev/null".into(),
            "neither a regular file nor a block device",
        ),
    ] {
        let (code, text) = fsck(&[], &image);
        assert!(
            code == 8 && text.contains(words),
            "{}: {code}: {text}",
            image.display()
        );
    }
    assert_eq!(fsck(&["-n", "-p"], path).0, 16);
    assert_eq!(fsck(&["--colour"], path).0, 16);
    let Some(image) = folder.image() else { return };
    folder.debugfs(&image, "feature dirdata\n");
    let (code, text) = fsck(&[], &image);
    assert!(code == 8 && text.contains("dirdata"), "{code}: {text}");
}

/// Zeros are no volume of ext4 that e2fsck could repair.
#[test]
fn advice_for_a_file_of_zeros_is_to_look_at_the_right_place() {
    let folder = folder();
    let zeros = folder.0.path().join("zeros");
    File::create(&zeros).unwrap().set_len(64 << 20).unwrap();
    let text = told(fsck(&["-n"], &zeros), 8, "no-file-system");
    assert!(text.contains("right file or device"), "{text}");
    assert!(!text.contains("e2fsck"), "{text}");
}

/// Blocks may be shorter than 4 KiB, and so may be what the file holds behind the last 4 KiB.
#[test]
fn the_last_blocks_of_a_file_count() {
    let folder = folder();
    let Some(image) = folder.image_of(&["-b", "1024"]) else {
        return;
    };
    let len = (30 << 20) + 3072;
    File::options()
        .write(true)
        .open(&image)
        .unwrap()
        .set_len(len)
        .unwrap();
    let blocks = (len / 1024).to_string();
    let make = tool("mke2fs")
        .args(["-q", "-F", "-t", "ext4", "-b", "1024"])
        .arg(&image)
        .arg(&blocks)
        .output()
        .unwrap();
    assert!(make.status.success(), "{}", said(&make));
    let (code, text) = fsck(&["-n"], &image);
    assert_eq!(code, 0, "{text}");
    let file = File::options().write(true).open(&image).unwrap();
    file.set_len(len - 1024).unwrap();
    told(fsck(&["-n"], &image), 4, "E105 cut-off");
}

/// A damaged primary superblock is damage, whatever a mount can make of it from a backup.
#[test]
fn a_damaged_superblock_is_a_finding_and_recovery_says_what_it_does() {
    const LABEL: u64 = 1024 + 0x78;
    const MAGIC: u64 = 1024 + 0x38;
    let folder = folder();
    let Some(image) = folder.image_of(&["-b", "1024"]) else {
        return;
    };
    let damage = |at: u64| {
        let file = File::options().write(true).open(&image).unwrap();
        file.write_all_at(&[0x5A, 0], at).unwrap();
    };
    let is_clean = || {
        assert_eq!(fsck(&["-n"], &image).0, 0);
        let judge = tool("e2fsck").arg("-fn").arg(&image).output().unwrap();
        assert_eq!(judge.status.code(), Some(0), "{}", said(&judge));
    };
    damage(LABEL);
    let before = fs::read(&image).unwrap();
    let text = told(fsck(&["-n"], &image), 4, "E101 superblock");
    assert!(text.contains("the backup in block 8193"), "{text}");
    told(
        run(&["recover", "--dry-run"], &image),
        0,
        "superblock: it was damaged",
    );
    assert!(before == fs::read(&image).unwrap(), "nothing was written");
    let text = told(run(&["recover"], &image), 0, "superblock: it was damaged");
    assert!(!text.contains("nothing to recover"), "{text}");
    is_clean();
    damage(LABEL);
    told(fsck(&["-p"], &image), 1, "damaged superblock written anew");
    is_clean();
    damage(MAGIC);
    let text = told(fsck(&["-n"], &image), 4, "the backup in block 8193");
    assert!(text.contains("E101 superblock (block 0)"), "{text}");
}

/// The size of a block decides where everything else lies. With a wrong checksum of the superblock
/// it is mended from a backup; with a right one every command gets the right result or says what is
/// wrong.
#[test]
fn a_flipped_block_size_is_mended_or_named() {
    const BLOCK_SIZE: std::ops::Range<usize> = 0x18..0x1C;
    const CHECKSUM: usize = 0x3FC;
    let folder = folder();
    let Some(image) = folder.image_of(&["-b", "1024"]) else {
        return;
    };
    let before = fs::read(&image).unwrap();
    let listing = run(&["ls"], &image);
    let mut mended = 0;
    for bit in [0, 1, 2, 3, 4, 5, 7, 8, 16, 31] {
        for fixed in [false, true] {
            let mut sb = before[1024..2048].to_vec();
            let size = u32::from_le_bytes(sb[BLOCK_SIZE].try_into().unwrap());
            sb[BLOCK_SIZE].copy_from_slice(&(size ^ 1 << bit).to_le_bytes());
            if fixed {
                let sum = base::checksum::crc32c(!0, &sb[..CHECKSUM]);
                sb[CHECKSUM..].copy_from_slice(&sum.to_le_bytes());
            }
            fs::write(&image, &before).unwrap();
            let file = File::options().write(true).open(&image).unwrap();
            file.write_all_at(&sb, 1024).unwrap();
            let what = format!("bit {bit}, fixed {fixed}");
            let (code, judged) = fsck(&["-n"], &image);
            // A right checksum beside a wrong size: the volume is longer than its device, or its
            // structures are not where they have to be.
            let finding = if fixed { ": " } else { "E101 superblock" };
            assert!(
                code == 4 && judged.contains(finding),
                "{what}: {code}, {judged}"
            );
            for command in [
                &["ls"][..],
                &["info"],
                &["dump", "journal"],
                &["dump", "inode", "2"],
                &["recover", "--dry-run"],
            ] {
                let (what_of, rest) = command.split_at(command.len().min(2));
                let mut program = crate::program::command();
                let program = program.args(what_of).arg(&image).args(rest);
                let out = program.output().unwrap();
                let (code, words) = (out.status.code().unwrap_or(-1), said(&out));
                // `recover` says 4 of a log that it refuses.
                let whose = image.to_str().unwrap();
                let named = matches!(code, 1 | 4) && words.contains(whose);
                assert!(code == 0 || named, "{what}, {command:?}: {code}, {words}");
            }
            if !fixed {
                let (code, words) = fsck(&["-p"], &image);
                if code == 4 {
                    // No size that a volume can have: e2fsck is told which backup to take.
                    assert!(words.contains("the backup in block 8193"), "{words}");
                    continue;
                }
                told((code, words), 1, "damaged superblock written anew");
                assert_eq!(fsck(&["-n"], &image).0, 0, "{what}");
                assert_eq!(run(&["ls"], &image), listing, "{what}");
                mended += 1;
            }
        }
    }
    assert!(mended >= 3, "8, 4 and 2 KiB: {mended}");
}

/// Fields that e2fsck recounts do not make a volume one that cannot be judged.
#[test]
fn wrong_totals_of_the_superblock_are_damage() {
    let folder = folder();
    let Some(image) = folder.image() else { return };
    folder.debugfs(
        &image,
        "ssv free_blocks_count 99999999\nssv want_extra_isize 1001\n",
    );
    let text = told(fsck(&["-n"], &image), 4, "E102 superblock-field");
    assert!(text.contains("s_want_extra_isize"), "{text}");
}

#[test]
fn an_image_behind_a_loop_device_is_refused() {
    let folder = folder();
    let Some(image) = folder.image() else { return };
    let out = tool("losetup")
        .args(["--find", "--show"])
        .arg(&image)
        .output();
    let Some(device) = out.ok().filter(|out| out.status.success()) else {
        return eprintln!("skipped: no loop device");
    };
    let device = String::from_utf8(device.stdout).unwrap().trim().to_string();
    let (code, text) = fsck(&["-p"], &image);
    let detached = tool("losetup")
        .args(["--detach", &device])
        .status()
        .unwrap();
    assert!(detached.success());
    assert!(code == 8 && text.contains(&device), "{code}: {text}");
}

/// What fsck(8) and systemd-fsck run: `fsck.TYPE` with their options, on an image and on a device.
#[test]
fn at_boot_it_is_called_by_another_name() {
    let folder = folder();
    let Some(image) = folder.image() else { return };
    let boot = folder.0.path().join("fsck.varve");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_varve"), &boot).unwrap();
    let call = |args: &[&str], image: &Path| {
        let out = Command::new(&boot).args(args).arg(image).output().unwrap();
        (out.status.code(), said(&out))
    };
    let pipe = folder.0.path().join("progress");
    let progress = File::create(&pipe).unwrap();
    let out = Command::new(&boot)
        .args(["-a", "-C2", image.to_str().unwrap()])
        .stderr(progress)
        .status();
    assert_eq!(out.unwrap().code(), Some(0));
    let lines = fs::read_to_string(&pipe).unwrap();
    assert!(
        lines.starts_with("1 0 1 ") && lines.contains("\n5 1 1 "),
        "{lines}"
    );
    for args in [
        &["-a"][..],
        &["-p"],
        &["-y"],
        &["-n"],
        &["-f", "-a"],
        &["-C0", "-a", "-v"],
        &[],
    ] {
        assert_eq!(call(args, &image).0, Some(0), "{args:?}");
    }
    folder.dirty(&image);
    let (code, text) = call(&["-n"], &image);
    assert!(
        code == Some(0) && text.contains("in memory only"),
        "{code:?} {text}"
    );
    let (code, text) = call(&["-a", "-C0"], &image);
    assert!(
        code == Some(0) && text.contains("on the file"),
        "{code:?} {text}"
    );
    // Damage that the superblock does not know of: only a look finds it.
    folder.debugfs(&image, "sif <2> links_count 7\n");
    assert_eq!(call(&["-a"], &image).0, Some(0));
    assert_eq!(call(&["-a", "-f"], &image).0, Some(4));
    folder.debugfs(&image, "ssv state 2\n");
    assert_eq!(call(&["-a"], &image).0, Some(4));
    assert_eq!(call(&["-a"], &folder.0.path().join("none")).0, Some(8));
    assert_eq!(call(&["-a", "-y"], &image).0, Some(16));
    assert_eq!(call(&["--colour"], &image).0, Some(16));
}

/// The same codes on a device as on an image, with e2fsck beside.
#[test]
fn a_block_device_is_checked_as_an_image_is() {
    let folder = folder();
    let Some(image) = folder.image() else { return };
    folder.dirty(&image);
    let out = tool("losetup")
        .args(["--find", "--show"])
        .arg(&image)
        .output();
    let Some(device) = out.ok().filter(|out| out.status.success()) else {
        return eprintln!("skipped: no loop device");
    };
    let device = String::from_utf8(device.stdout).unwrap().trim().to_string();
    let at = Path::new(&device);
    let codes = [&["-n"][..], &["-p"], &["-n"]].map(|args| fsck(args, at));
    let judge = tool("e2fsck").args(["-fn", &device]).status().unwrap();
    let detached = tool("losetup")
        .args(["--detach", &device])
        .status()
        .unwrap();
    assert!(detached.success());
    assert_eq!(judge.code(), Some(0));
    assert!(codes[0].1.contains("in memory only") && codes[1].1.contains("on the file"));
    assert!(!codes[2].1.contains("replayed"), "{}", codes[2].1);
    assert_eq!(codes.map(|c| c.0), [0, 0, 0]);
}
