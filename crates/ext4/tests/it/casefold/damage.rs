//! Damage of directories without regard to case, beside e2fsck.

use super::image;
use crate::common::{Image, check_ram, have_tools, mount, said, tool};
use blockdev::Ram;
use fscore::FileSystem;
use ondisk::ext4::{SUPERBLOCK_AT, Superblock};
use std::sync::Arc;
use testkit::Brief;
use testkit::casefold::folded_dir;

/// e2fsck's exit code for the image as it is.
fn e2fsck(image: &Image) -> (bool, String) {
    let out = tool("e2fsck")
        .arg("-fn")
        .arg(&image.path)
        .output()
        .expect("e2fsck");
    (
        out.status.success(),
        String::from_utf8_lossy(&out.stdout).into_owned(),
    )
}

/// Checks what the checkers say: whether e2fsck finds nothing, and what ours finds (nothing if this
/// word is empty).
fn judged(image: &Image, clean: bool, word: &str) {
    let (theirs, text) = e2fsck(image);
    let report = check_ram(&image.load());
    let ours = said(&report);
    let expected = (clean, word.is_empty());
    assert_eq!((theirs, report.is_clean()), expected, "{text}\n{ours}");
    assert!(ours.contains(word), "{ours}");
}

/// A directory whose flag changes while it has an index, and entries in capitals: every hash is
/// wrong.
#[test]
fn hashes_of_folded_names_are_checked() {
    if !have_tools() {
        return;
    }
    let image = image("");
    let (ram, fs) = image.mount("");
    let plain = fs.dir("plain");
    let folded = folded_dir(&*fs, "folded");
    for n in 0..400 {
        for dir in [plain, folded] {
            fs.make(dir, format!("A NAME IN CAPITALS {n:080}"))
                .expect("room");
        }
    }
    image.end(&fs, &ram);
    let whole = image.load();
    image.debugfs_write(&["sif plain flags 0x40081000"]);
    judged(&image, false, "htree");
    image.store(&whole);
    image.debugfs_write(&["sif folded flags 0x81000"]);
    judged(&image, false, "htree");
    image.store(&whole);
    judged(&image, true, "");
}

/// Two names that are the same without regard to case, and names that a strict volume does not
/// take. On a volume that is not strict e2fsck 1.47.0 does not notice the former.
#[test]
fn twins_and_names_that_are_not_utf8() {
    if !have_tools() {
        return;
    }
    type Case = (&'static str, [&'static [u8]; 2], bool, &'static str);
    let cases: [Case; 6] = [
        ("", [b"stra\xc3\x9fe", b"STRASSE"], true, "dir-duplicate"),
        ("", [b"A\xff", b"a\xff"], true, ""),
        ("strict", [b"ABC", b"abc"], false, "dir-duplicate"),
        ("strict", [b"A\xff", b"b"], false, "dir-name"),
        (
            "strict",
            [b"a\xcc\x87\xcc\xa3", b"A\xcc\xa3\xcc\x87"],
            false,
            "dir-duplicate",
        ),
        (
            "strict",
            [b"a\xcc\x87\xcc\x81", b"A\xcc\x81\xcc\x87"],
            true,
            "",
        ),
    ];
    for (flags, names, clean, word) in cases {
        let image = image(flags);
        let (ram, fs) = image.mount("");
        let dir = fs.dir("dir");
        for name in names {
            fs.make(dir, name).expect("case counts so far");
        }
        fs.unmount().expect("unmount");
        image.store(&ram);
        image.debugfs_write(&["sif dir flags 0x40080000"]);
        judged(&image, clean, word);
    }
}

/// A name that another kernel folded in another way stands in the wrong leaf. It is found by a
/// search of all leaves, unless the volume forbids that; it is listed, and the directory grows
/// around it. Both checkers call it damage.
#[test]
fn a_name_in_the_wrong_leaf_is_found_unless_only_hashes_count() {
    if !have_tools() {
        return;
    }
    let image = image("");
    let (ram, fs) = image.mount("");
    // With case, the hash of each name is that of its bytes, as of a kernel that ignores nothing.
    let dir = fs.dir("dir");
    for n in 0..300 {
        fs.make(dir, format!("name {n:0100}")).expect("room");
    }
    let odd: Vec<_> = (0..20).map(|n| format!("\u{2764}\u{fe0f} {n}")).collect();
    let inos: Vec<_> = odd
        .iter()
        .map(|name| fs.make(dir, name).expect("room"))
        .collect();
    fs.unmount().expect("unmount");
    image.store(&ram);
    image.debugfs_write(&["sif dir flags 0x40081000"]);
    judged(&image, false, "htree");
    let (_, fs) = image.mount("");
    let dir = fs.find("dir");
    for (name, ino) in odd.iter().zip(&inos) {
        assert_eq!(fs.lookup(dir, name.as_bytes()).expect("there"), *ino);
    }
    for n in 0..600 {
        fs.make(dir, format!("MORE {n:0100}")).expect("room");
    }
    let mut listed = 0;
    let mut from = 0;
    loop {
        let part = fs.readdir(dir, from, 50).expect("reads");
        let Some(last) = part.last() else { break };
        from = last.next;
        listed += part.len();
    }
    assert_eq!(listed, 2 + 300 + 20 + 600);
    for (name, ino) in odd.iter().zip(&inos) {
        assert_eq!(fs.lookup(dir, name.as_bytes()).expect("there"), *ino);
        fs.unlink(dir, name.as_bytes()).expect("goes");
    }
    fs.unmount().expect("unmount");

    let mut volume = image.load().image();
    let at = SUPERBLOCK_AT as usize;
    let mut sb = Superblock::parse(&volume[at..]).expect("a volume");
    sb.set_name_encoding([1, 0, 2, 0]);
    sb.encode(&mut volume[at..]);
    let ram = Arc::new(Ram::from_image(&volume));
    let fs = mount(&ram, "");
    let dir = fs.find("dir");
    let missed = odd
        .iter()
        .filter(|name| fs.lookup(dir, name.as_bytes()).is_err());
    let missed = missed.count();
    assert!(missed > 5, "most hashes differ, {missed} of 20 do");
    assert!(
        fs.readdir(dir, 0, 5000).is_err(),
        "a name in the wrong leaf is damage there"
    );
    fs.unmount().expect("unmount");
}
