//! `varve ls`, `cat`, `cp`, `extract`, `info`, `dump`, and `varve fsck` of F2FS, as a user runs
//! them.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::program::{folder, good, run, text, tool, words};
use rustix::fs::{XattrFlags, getxattr, setxattr};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const BLOCK: u64 = 4096;
const KINDS: [&str; 3] = ["ext4", "ext3", "f2fs"];

/// A command that has to fail with this code and one line with these words.
fn bad(dir: &TempDir, line: &str, code: i32, words: &[&str]) {
    let out = run(dir, line);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(code), "{line}: {said}");
    for word in words {
        assert!(said.contains(word), "{line}: `{word}` not in: {said}");
    }
    assert!(
        said.starts_with("varve: ") && said.lines().count() == 1,
        "{line}: {said}"
    );
}

fn fsck(dir: &TempDir, options: &str) -> (i32, String) {
    let out = run(dir, &format!("fsck {options}"));
    (out.status.code().unwrap_or(-1), words(&out))
}

/// A fresh image `kind`.img.
fn fresh(dir: &TempDir, kind: &str) -> String {
    let mib = if kind == "f2fs" { 64 } else { 24 };
    let image = format!("{kind}.img");
    good(
        dir,
        &format!("mkfs --fs {kind} --seed 3 --size {mib} {image}"),
    );
    image
}

/// A tree with one of everything; whether its file system has attributes of users.
fn tree(dir: &TempDir) -> bool {
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("dir/sub")).unwrap();
    fs::create_dir(tree.join("empty")).unwrap();
    fs::write(tree.join("file"), "some text\n").unwrap();
    fs::write(tree.join("dir/sub/large"), vec![0x5A; 1_300_001]).unwrap();
    fs::hard_link(tree.join("file"), tree.join("dir/other-name")).unwrap();
    symlink("../file", tree.join("dir/link")).unwrap();
    symlink("nowhere", tree.join("dangling")).unwrap();
    let holes = File::create(tree.join("holes")).unwrap();
    holes.set_len(6 << 20).unwrap();
    holes.write_all_at(b"middle", 3 << 20).unwrap();
    for (name, mode) in [
        ("file", 0o4751),
        ("dir/sub/large", 0o400),
        ("dir", 0o2770),
        ("empty", 0o1777),
    ] {
        fs::set_permissions(tree.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    setxattr(
        tree.join("file"),
        "user.colour",
        b"green",
        XattrFlags::empty(),
    )
    .is_ok()
}

/// Every name below, in order.
fn names(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    let mut todo = vec![root.to_path_buf()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            found.push(path.strip_prefix(root).unwrap().to_path_buf());
            if fs::symlink_metadata(&path).unwrap().is_dir() {
                todo.push(path);
            }
        }
    }
    found.sort();
    found
}

fn assert_same(a: &Path, b: &Path) {
    assert_eq!(names(a), names(b));
    for name in names(a) {
        let (a, b) = (a.join(&name), b.join(&name));
        let (x, y) = (
            fs::symlink_metadata(&a).unwrap(),
            fs::symlink_metadata(&b).unwrap(),
        );
        let facts = |m: &fs::Metadata| (m.mode(), m.uid(), m.gid());
        assert_eq!(facts(&x), facts(&y), "{}", name.display());
        if x.is_symlink() {
            assert_eq!(fs::read_link(a).unwrap(), fs::read_link(b).unwrap());
            continue;
        }
        let time = (x.mtime(), x.mtime_nsec()) == (y.mtime(), y.mtime_nsec());
        assert!(time, "{}: time of modification", name.display());
        if x.is_file() {
            assert_eq!(x.nlink(), y.nlink(), "{}", name.display());
            assert!(fs::read(&a).unwrap() == fs::read(&b).unwrap());
        }
    }
}

#[test]
fn a_tree_goes_into_an_image_and_comes_out_the_same() {
    let dir = folder();
    let attributes = tree(&dir);
    for kind in KINDS {
        let image = fresh(&dir, kind);
        good(&dir, &format!("cp -r tree {image}:/"));
        let (code, said) = fsck(&dir, &image);
        assert_eq!(code, 0, "{said}");
        let before = fs::read(dir.path().join(&image)).unwrap();
        let said = good(&dir, &format!("extract {image}:/tree out-{kind}"));
        assert!(
            said.contains("3 files, 3 directories, 2 others, 7591"),
            "{said}"
        );
        let out = dir.path().join(format!("out-{kind}"));
        assert_same(&dir.path().join("tree"), &out);
        let ino = |name| fs::metadata(out.join(name)).unwrap().ino();
        assert_eq!(ino("file"), ino("dir/other-name"), "a hard link");
        let holes = fs::metadata(out.join("holes")).unwrap();
        assert!(holes.blocks() * 512 < 1 << 20, "holes of the host");
        let inside = good(&dir, &format!("dump inode {image} /tree/holes --json"));
        let inside: Value = serde_json::from_str(&inside).unwrap();
        if kind == "f2fs" {
            // The inode, perhaps a node, and one block.
            let blocks = inside["inode"]["blocks"].as_u64().unwrap();
            assert!(blocks < 8, "holes of the image: {blocks}");
        }
        if attributes {
            let mut value = [0; 16];
            let len = getxattr(out.join("file"), "user.colour", &mut value[..]).unwrap();
            assert_eq!(&value[..len], b"green");
        } else {
            eprintln!("skipped: no attributes of users here");
        }
        // Again, over what is there.
        let said = good(&dir, &format!("extract --json {image}:/tree out-{kind}"));
        let said: Value = serde_json::from_str(&said).unwrap();
        let counts = [
            "files",
            "directories",
            "others",
            "devices_left_out",
            "failures",
        ];
        assert_eq!(
            counts.map(|name| said[name].as_u64()),
            [3, 3, 2, 0, 0].map(Some),
            "{said}"
        );
        assert_same(&dir.path().join("tree"), &out);
        // `cp` out of the image: a directory into a directory, a file under another name.
        good(&dir, &format!("cp -r {image}:/tree/dir out-{kind}/empty"));
        good(&dir, &format!("cp {image}:/tree/file {kind}.txt"));
        let copied = fs::read(out.join("empty/dir/other-name")).unwrap();
        assert_eq!(copied, b"some text\n");
        assert!(fs::read(dir.path().join(format!("{kind}.txt"))).unwrap() == copied);
        assert!(before == fs::read(dir.path().join(&image)).unwrap());
    }
}

#[test]
fn files_of_an_image_are_replaced() {
    let dir = folder();
    tree(&dir);
    for kind in KINDS {
        let image = fresh(&dir, kind);
        good(&dir, &format!("cp -r tree {image}:/"));
        good(&dir, &format!("cp -r tree {image}:/"));
        fs::write(dir.path().join("short"), "x").unwrap();
        good(&dir, &format!("cp short tree/file {image}:/tree/dir"));
        good(&dir, &format!("cp short {image}:/tree/dir/sub/large"));
        assert_eq!(good(&dir, &format!("cat {image}:/tree/dir/sub/large")), "x");
        let list = good(&dir, &format!("ls {image}:/tree/dir"));
        assert_eq!(list, "file\nlink\nother-name\nshort\nsub\n");
        let (code, said) = fsck(&dir, &image);
        assert_eq!(code, 0, "{said}");
    }
}

#[test]
fn looking_shows_what_is_there_and_changes_nothing() {
    let dir = folder();
    tree(&dir);
    for kind in KINDS {
        let image = fresh(&dir, kind);
        good(&dir, &format!("cp -r tree {image}:/"));
        let before = fs::read(dir.path().join(&image)).unwrap();
        let list = good(&dir, &format!("ls -l -R {image}"));
        let line = |name: &str| {
            let line = list.lines().find(|l| l.contains(name)).unwrap_or("");
            let words: Vec<_> = line.split_whitespace().map(String::from).collect();
            assert!(words.len() > 7, "{name} in: {list}");
            words
        };
        let large = line("/tree/dir/sub/large");
        assert_eq!(
            (&large[1][..], &large[2][..], &large[5][..]),
            ("-r--------", "1", "1300001")
        );
        assert_eq!(line(" /tree/file")[1..3], ["-rwsr-x--x", "2"]);
        assert_eq!(line("/tree/empty")[1], "drwxrwxrwt");
        assert_eq!(
            line("/tree/dir/link")[7..],
            ["/tree/dir/link", "->", "../file"]
        );
        assert_eq!(
            good(&dir, &format!("ls {image}:/tree/dir")),
            "link\nother-name\nsub\n"
        );
        let both = good(
            &dir,
            &format!("cat {image}:/tree/file {image}:/tree/dir/link"),
        );
        assert_eq!(both, "some text\nsome text\n");

        let info = good(&dir, &format!("info {image}"));
        assert!(info.starts_with(&format!("{kind} superblock")), "{info}");
        let json = good(&dir, &format!("info --json {image}"));
        let json: Value = serde_json::from_str(&json).unwrap();
        let json = json.as_object().unwrap();
        let uuid = json.values().find_map(|s| s["uuid"].as_str()).unwrap();
        assert!(uuid.len() == 36 && info.contains(uuid), "{info}");
        let ino = &large[0];
        let by_path = good(&dir, &format!("dump inode {image} /tree/dir/sub/large"));
        assert_eq!(by_path, good(&dir, &format!("dump inode {image} {ino}")));
        assert!(
            by_path.contains("0o100400") && by_path.contains("1300001"),
            "{by_path}"
        );
        if kind == "f2fs" {
            let packs = good(&dir, &format!("dump checkpoint {image}"));
            assert!(
                packs.contains("first pack") && packs.contains("second pack"),
                "{packs}"
            );
            assert!(packs.contains("log HotNode"), "{packs}");
            bad(
                &dir,
                &format!("dump journal {image}"),
                1,
                &["dump checkpoint"],
            );
        } else {
            let log = good(&dir, &format!("dump journal {image}"));
            assert!(log.contains("ring 1.."), "{log}");
            bad(
                &dir,
                &format!("dump checkpoint {image}"),
                1,
                &["dump journal"],
            );
            bad(
                &dir,
                &format!("dump journal --json {image}"),
                2,
                &["--json"],
            );
        }
        assert!(before == fs::read(dir.path().join(&image)).unwrap());
    }
}

/// The ring of a journal behind an F2FS, as mkfs leaves it and with a block of noise in it.
#[test]
fn the_ring_of_an_f2fs() {
    let dir = folder();
    good(&dir, "mkfs --fs f2fs --seed 3 --size 64 -J size=72k ring");
    let list = good(&dir, "dump journal ring");
    assert!(
        list.contains("\nsuperblock 1: generation 1, left empty; "),
        "{list}"
    );
    assert!(
        list.contains("16 blocks from 0 on: never written"),
        "{list}"
    );
    let place = list.split_once("from block ").unwrap().1;
    let start: u64 = place.split_once(' ').unwrap().0.parse().unwrap();
    let info = good(&dir, "info ring");
    assert!(
        info.contains(&format!("blocks from block {start} on")),
        "{info}"
    );
    let file = File::options()
        .write(true)
        .open(dir.path().join("ring"))
        .unwrap();
    file.write_all_at(&[0xA5; 4096], (start + 2 + 5) * BLOCK)
        .unwrap();
    let list = good(&dir, "dump journal ring");
    assert!(
        list.contains("block 5: has magic number 0xa5a5a5a5"),
        "{list}"
    );
    assert!(
        list.contains("10 blocks from 6 on: never written"),
        "{list}"
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    let dir = folder();
    tree(&dir);
    fs::write(dir.path().join("noise"), vec![0xA5; 1 << 20]).unwrap();
    let nothing = ["ls", "info", "dump checkpoint", "dump journal"];
    for command in nothing {
        let line = |image: &str| format!("{command} {image}");
        bad(&dir, &line("missing"), 1, &["missing: ", "No such file"]);
        bad(&dir, &line("tree"), 1, &["is a directory"]);
        bad(
            &dir,
            &line("/dev/null"),
            1,
            &["neither a regular file nor a block device"],
        );
        bad(&dir, &line("noise"), 1, &["noise"]);
    }
    bad(&dir, "ls noise", 1, &["no ext4, ext3 or F2FS"]);
    for kind in KINDS {
        let image = fresh(&dir, kind);
        good(&dir, &format!("cp -r tree {image}:/"));
        let before = fs::read(dir.path().join(&image)).unwrap();
        for (line, code, words) in [
            ("ls @:/none", 1, &["@:/none", "no such file"][..]),
            ("cat @:/none", 1, &["@:/none", "no such file"]),
            ("cat @", 2, &["IMAGE:/PATH"]),
            ("cat @:/tree", 1, &["@:/tree", "directory"]),
            ("cp @:/none here", 1, &["@:/none", "no such file"]),
            ("cp @:/tree here", 2, &["@:/tree", "say -r"]),
            ("cp tree @:/", 2, &["tree", "say -r"]),
            ("cp none @:/", 1, &["none: No such file"]),
            ("cp @:/tree/file @:/copy", 2, &["host first"]),
            ("cp noise tree/file @:/new", 2, &["@:/new", "directory"]),
            (
                "cp @:/tree/file @:/tree/holes noise",
                2,
                &["noise", "directory"],
            ),
            ("cp noise @:/none/new", 1, &["@:/none/new", "no such file"]),
            ("extract @:/none here", 1, &["@:/none", "no such file"]),
            ("dump inode @", 2, &["number", "/PATH"]),
            ("dump inode @ /none", 1, &["@:/none"]),
            ("dump inode @ word", 2, &["`word`"]),
            ("dump inode @ 0", 1, &["no inode 0", "from 1 to"]),
            ("dump inode @ 4000000000", 1, &["no inode 4000000000"]),
            ("dump checkpoint @ 3", 2, &["`3`", "dump inode"]),
        ] {
            let words: Vec<_> = words.iter().map(|w| w.replace('@', &image)).collect();
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            bad(&dir, &line.replace('@', &image), code, &words);
        }
        assert!(!dir.path().join("here").exists());
        let listed = good(&dir, &format!("ls {image}"));
        assert!(
            listed.contains("tree") && !listed.contains("new"),
            "{listed}"
        );
        assert!(before.len() == fs::read(dir.path().join(&image)).unwrap().len());
    }
}

/// Nothing is written outside of the target: not through links that lie there, nor by names that
/// lead out.
#[test]
fn nothing_escapes_the_target() {
    let dir = folder();
    tree(&dir);
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "mine").unwrap();
    let image = fresh(&dir, "ext3");
    good(&dir, &format!("cp -r tree {image}:/"));

    let target = dir.path().join("target");
    fs::create_dir(&target).unwrap();
    symlink(outside.join("file"), target.join("file")).unwrap();
    symlink(&outside, target.join("dir")).unwrap();
    bad(
        &dir,
        &format!("extract {image}:/tree target"),
        1,
        &["target/dir", "File exists"],
    );
    fs::remove_file(target.join("dir")).unwrap();
    good(&dir, &format!("extract {image}:/tree target"));
    assert!(fs::symlink_metadata(target.join("file")).unwrap().is_file());

    // Neither has checksums here: a name changed in the image is all there is to it.
    for (kind, why) in [("ext3", "a slash"), ("f2fs", "/../../bad")] {
        let image = if kind == "ext3" {
            image.clone()
        } else {
            fresh(&dir, kind)
        };
        good(&dir, &format!("cp -r tree {image}:/"));
        let path = dir.path().join(&image);
        let mut bytes = fs::read(&path).unwrap();
        let honest = b"other-name";
        // In the directory, and in the log, which was left behind.
        let places: Vec<_> = (0..bytes.len() - honest.len())
            .filter(|&at| bytes[at..].starts_with(honest))
            .collect();
        assert!(!places.is_empty());
        for at in places {
            bytes[at..at + honest.len()].copy_from_slice(b"/../../bad");
        }
        fs::write(&path, &bytes).unwrap();
        let words = [&image[..], "corrupt", why];
        bad(&dir, &format!("extract {image}:/tree target2"), 1, &words);
        bad(&dir, &format!("ls -R {image}"), 1, &words);
    }
    assert!(!dir.path().join("bad").exists());
    assert_eq!(names(&outside), [PathBuf::from("file")]);
    assert_eq!(fs::read(outside.join("file")).unwrap(), b"mine");
}

#[test]
fn an_image_that_was_cut_off_is_named() {
    let dir = folder();
    for kind in KINDS {
        let image = fresh(&dir, kind);
        let file = File::options().write(true).open(dir.path().join(&image));
        file.unwrap().set_len(9 << 20).unwrap();
        for line in ["ls @", "cat @:/f", "extract @ here", "cp noise @:/"] {
            fs::write(dir.path().join("noise"), "x").unwrap();
            bad(&dir, &line.replace('@', &image), 1, &[&image, "device"]);
        }
        let (code, said) = fsck(&dir, &image);
        // Of ext4 that is E105, which e2fsck answers with 4, too.
        assert!(
            matches!(code, 4 | 8) && said.contains("device"),
            "{code}: {said}"
        );
    }
    assert!(!dir.path().join("here").exists());
}

/// A number of `info` or `dump`.
fn number(dir: &TempDir, line: &str, section: &str, row: &str) -> u64 {
    let json: Value = serde_json::from_str(&good(dir, line)).unwrap();
    let number = json[section][row].as_u64();
    number.unwrap_or_else(|| panic!("{section}, {row}: {json}"))
}

/// What is a number, a truth or a list is one for a program, too, under keys that do not depend on
/// the image; what is a text stays one, whatever it looks like.
#[test]
fn info_has_its_kinds_in_json() {
    let dir = folder();
    let json = |line: &str| -> Value { serde_json::from_str(&good(&dir, line)).unwrap() };
    good(&dir, "mkfs --size 64M --label 7 --seed 1 e");
    let sb = &json("info --json e")["superblock"];
    assert_eq!(sb["block_bytes"], 4096);
    assert_eq!(sb["blocks"], 16384);
    assert_eq!(sb["label"], "7");
    assert_eq!(sb["kind"], "ext4");
    assert_eq!(sb["state"], serde_json::json!(["clean"]));
    assert!(
        sb["compatible_features"]
            .as_array()
            .unwrap()
            .contains(&"has_journal".into())
    );
    assert_eq!(sb["made"], "2024-01-01T00:00:00Z");
    assert!(sb["mounted"].is_null(), "it never was");
    let inode = &json("dump inode --json e 2")["inode"];
    assert_eq!((&inode["number"], &inode["links"]), (&2.into(), &3.into()));
    assert!(
        inode["size_bytes"].is_u64() && inode["mode"] == "0o40755",
        "{inode}"
    );
    good(&dir, "mkfs --fs f2fs --size 128M -J default --seed 1 f");
    let all = json("info --json f");
    assert_eq!(
        (&all["superblock"]["kind"], &all["superblock"]["copy"]),
        (&"f2fs".into(), &0.into())
    );
    assert_eq!(all["superblock"]["root"], 3);
    assert_eq!(all["journal"]["unmounted_nothing_to_redo"], true);
    let log = &all["checkpoint_first_pack"]["log_cold_data"];
    assert!(log["segment"].is_u64() && log["block"] == 0, "{all}");
    let packs = json("dump checkpoint --json f");
    for pack in ["checkpoint_first_pack", "checkpoint_second_pack"] {
        assert!(packs[pack]["version"].is_u64(), "{packs}");
    }
}

#[test]
fn a_damaged_f2fs_is_judged_with_the_codes_of_fsck() {
    let dir = folder();
    let image = fresh(&dir, "f2fs");
    assert_eq!(fsck(&dir, &image).0, 0);
    // Links of the root: bytes 12 to 15 of its inode.
    let addr = number(
        &dir,
        &format!("dump inode --json {image} 3"),
        "node",
        "addr",
    );
    let path = dir.path().join(&image);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    file.write_all_at(&[9, 0, 0, 0], addr * BLOCK + 12).unwrap();
    let before = fs::read(&path).unwrap();
    let (code, said) = fsck(&dir, &format!("-n {image}"));
    assert!(
        code == 4 && said.contains("(inode 3)") && said.contains(" 9 "),
        "{code}: {said}"
    );
    let (_, json) = fsck(&dir, &format!("--json {image}"));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["exit_code"], 4);
    assert_eq!(json["findings"][0]["inode"], 3);
    assert!(before == fs::read(&path).unwrap());
    assert_eq!(fsck(&dir, "missing").0, 8);

    // Both checkpoint packs: the second lies one segment of 512 blocks further on.
    let first = number(&dir, &format!("info --json {image}"), "superblock", "cp");
    for at in [first, first + 512] {
        file.write_all_at(&[0; 4096], at * BLOCK).unwrap();
    }
    let (code, said) = fsck(&dir, &image);
    assert!(code == 8 && said.contains("checkpoint"), "{code}: {said}");
    for line in ["ls @", "cat @:/f", "dump inode @ 3"] {
        bad(&dir, &line.replace('@', &image), 1, &[&image, "checkpoint"]);
    }
    for line in ["info", "dump checkpoint"] {
        let said = good(&dir, &format!("{line} {image}"));
        assert_eq!(said.matches("unusable").count(), 2, "{said}");
    }
}

/// What mkfs.f2fs and sload.f2fs make, and e2fsprogs: listed and read as they wrote it.
#[test]
fn images_of_others_are_read() {
    let dir = folder();
    tree(&dir);
    let host = |line: &str| {
        let mut words = line.split_whitespace();
        let mut command = tool(words.next().unwrap());
        let out = command.args(words).current_dir(dir.path()).output();
        let done = out.as_ref().is_ok_and(|out| out.status.success());
        assert!(done || out.is_err(), "{line}: {out:?}");
        if !done {
            eprintln!("skipped: {line}");
        }
        done
    };
    for (image, mib, made) in [
        ("a", 128, &["mkfs.f2fs -q a", "sload.f2fs -f tree a"][..]),
        ("b", 24, &["mke2fs -q -F -t ext4 -b 4096 -d tree b"]),
        ("c", 24, &["mke2fs -q -F -t ext3 -b 4096 -d tree c"]),
    ] {
        let file = File::create(dir.path().join(image)).unwrap();
        file.set_len(mib << 20).unwrap();
        if !made.iter().all(|line| host(line)) {
            continue;
        }
        // Without root the host refuses owners, and is not the point here.
        let done = run(&dir, &format!("extract {image} out-{image}"));
        assert!(done.status.success(), "{}", text(&done.stderr));
        let out = dir.path().join(format!("out-{image}"));
        let _ = fs::remove_dir(out.join("lost+found"));
        assert_eq!(names(&dir.path().join("tree")), names(&out));
        for name in ["file", "dir/other-name", "dir/sub/large", "holes"] {
            let ours = fs::read(out.join(name)).unwrap();
            assert!(ours == fs::read(dir.path().join("tree").join(name)).unwrap());
        }
        assert_eq!(good(&dir, &format!("cat {image}:/dir/link")), "some text\n");
        assert_eq!(fsck(&dir, image).0, 0);
    }
}
