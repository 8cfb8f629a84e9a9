//! Directories, attributes and symbolic links in large blocks: a block of 64 KiB is longer than the
//! length of an entry can say.

use super::{SIZES, mib_of, random};
use crate::common::{Image, fresh_of, have_tools};
use base::Ino;
use fscore::{FileSystem, XattrMode};
use testkit::Brief;
use varve_ext4::Ext4;
use varve_ext4::mkfs::Kind;

/// Names in a directory.
fn count(fs: &Ext4, dir: Ino) -> usize {
    let (mut from, mut names) = (0, 0);
    loop {
        let entries = fs.readdir(dir, from, 1000).expect("readdir");
        let Some(last) = entries.last() else {
            return names;
        };
        from = last.next;
        let own = |name: &[u8]| name == b"." || name == b"..";
        names += entries.iter().filter(|e| !own(&e.name)).count();
    }
}

/// A directory gets and loses many names, in one leaf and in an index; each state is judged.
fn grow_and_shrink(kind: Kind, block_bytes: u32, names: usize) {
    // There is an inode for each block.
    let mib = mib_of(block_bytes) * names.div_ceil(1800) as u64;
    let image = Image::of(&fresh_of(kind, mib, block_bytes));
    let (ram, fs) = image.mount("");
    let dir = fs.dir("d");
    let name = |n: usize| format!("{n:06}-{}", "x".repeat(190 + n % 40));
    // An empty leaf of 64 KiB has one entry, whose length does not fit its field.
    let first = fs.make(dir, name(0)).expect("room");
    fs.unlink(dir, name(0).as_bytes()).expect("there");
    fs.sync().expect("synced");
    fs.unmount().expect("unmounts");
    image.judge(&ram);
    let fs = crate::common::mount(&ram, "");
    let dir = fs.find("d");
    assert!(fs.getattr(first).is_err());
    for n in 0..names {
        fs.make(dir, name(n)).expect("room");
    }
    assert_eq!(count(&fs, dir), names);
    fs.unmount().expect("unmounts");
    image.judge(&ram);
    let listed = image.debugfs("ls -p /d");
    assert_eq!(listed.lines().filter(|l| l.contains("-xxx")).count(), names);
    let fs = crate::common::mount(&ram, "");
    for n in (0..names).filter(|n| n % 5 != 0) {
        fs.unlink(dir, name(n).as_bytes()).expect("there");
    }
    assert_eq!(count(&fs, dir), names.div_ceil(5));
    fs.unmount().expect("unmounts");
    image.judge(&ram);
    let fs = crate::common::mount(&ram, "");
    for n in (0..names).step_by(5) {
        fs.unlink(dir, name(n).as_bytes()).expect("there");
    }
    fs.rmdir(fs.root(), b"d").expect("empty");
    image.end(&fs, &ram);
}

#[test]
fn directories_grow_and_shrink() {
    if !have_tools() {
        return;
    }
    for block_bytes in SIZES {
        grow_and_shrink(Kind::Ext4, block_bytes, 1800);
    }
    grow_and_shrink(Kind::Ext3, 65_536, 1800);
    // More leaves than a root has records: one of 8 KiB has 1019.
    grow_and_shrink(Kind::Ext4, 8192, 24_000);
}

/// Attributes as large as a block allows, shared by several files.
#[test]
fn attributes_fill_a_block() {
    if !have_tools() {
        return;
    }
    for block_bytes in SIZES {
        let image = Image::of(&fresh_of(Kind::Ext4, mib_of(block_bytes), block_bytes));
        let (ram, fs) = image.mount("");
        let most = block_bytes as usize - 32 - 4 - 20;
        let value = random(1, most);
        for n in 0..3 {
            let file = fs.file(format!("f{n}"));
            let set = |value: &[u8]| fs.setxattr(file, b"user.big", value, XattrMode::Any);
            assert!(
                set(&random(2, most + 4)).is_err(),
                "{block_bytes}: too large"
            );
            set(&value).expect("fits");
            assert_eq!(fs.getxattr(file, b"user.big").expect("there"), value);
        }
        let small = fs.file("small");
        for n in 0..40 {
            let name = format!("user.{n}-{}", "n".repeat(100));
            fs.setxattr(small, name.as_bytes(), &random(n, 60), XattrMode::Any)
                .expect("fits");
        }
        fs.removexattr(fs.find("f1"), b"user.big").expect("there");
        image.end(&fs, &ram);
        let fs = crate::common::mount(&ram, "");
        assert_eq!(
            fs.getxattr(fs.find("f2"), b"user.big").expect("there"),
            value
        );
        assert_eq!(fs.listxattr(fs.find("small")).expect("there").len(), 40);
        fs.unmount().expect("unmounts");
        let theirs = tempfile::NamedTempFile::new().expect("a file");
        image.debugfs(&format!(
            "ea_get -f {} f2 user.big",
            theirs.path().display()
        ));
        assert_eq!(
            std::fs::read(theirs.path()).expect("read"),
            value,
            "{block_bytes}"
        );
    }
}

/// Linux takes no longer path than 4095 bytes, however large blocks are.
#[test]
fn targets_of_links_end_where_paths_do() {
    let fs = crate::common::mount(&fresh_of(Kind::Ext4, mib_of(65_536), 65_536), "");
    let long = fs
        .make_link(fs.root(), "long", &[b'a'; 4095])
        .expect("fits");
    assert_eq!(fs.readlink(long).expect("a link").len(), 4095);
    let refused = fs
        .make_link(fs.root(), "longer", &[b'a'; 4096])
        .expect_err("too long");
    assert_eq!(refused.errno(), fscore::Errno::NameTooLong);
    fs.unmount().expect("unmounts");
}
