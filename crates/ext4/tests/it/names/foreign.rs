//! Directories that the kernel made, and those that e2fsck rebuilt.

use super::walk::{compare_with_debugfs, walk};
use crate::common::mounted::Mounted;
use crate::common::{Image, have_tools, mount};
use base::Ino;
use fscore::{FileSystem, RenameMode};
use std::collections::BTreeSet;
use std::fs::File;
use testkit::Brief;
use testkit::shadow::read_tree;
use varve_ext4::Ext4;

fn name(n: u32) -> String {
    format!("{n:06}{}", "abcdefgh".repeat((n % 24) as usize))
}

fn names(fs: &Ext4, dir: Ino) -> BTreeSet<Vec<u8>> {
    let (mut all, mut cookie) = (BTreeSet::new(), 0);
    loop {
        let entries = fs.readdir(dir, cookie, 1000).expect("readdir");
        let Some(last) = entries.last() else { break };
        cookie = last.next;
        for entry in entries {
            assert!(all.insert(entry.name), "once");
        }
    }
    all.remove(&b"."[..]);
    all.remove(&b".."[..]);
    all
}

/// Removes, renames and adds names of a directory with `count` files, and checks that the right
/// ones are left.
fn change(fs: &Ext4, dir: Ino, count: u32) -> BTreeSet<Vec<u8>> {
    let mut expected: BTreeSet<Vec<u8>> = (0..count).map(|n| name(n).into_bytes()).collect();
    assert_eq!(names(fs, dir), expected);
    for n in (0..count).step_by((count / 1000) as usize) {
        let old = name(n).into_bytes();
        if n % 2 == 0 {
            fs.unlink(dir, &old).expect("unlink");
        } else {
            let new = [&old[..], b" renamed"].concat();
            fs.rename(dir, &old, dir, &new, RenameMode::NoReplace)
                .expect("rename");
            expected.insert(new);
        }
        expected.remove(&old);
    }
    for n in count..count + 2000 {
        let new = name(n).into_bytes();
        fs.make(dir, &new).expect("create");
        expected.insert(new);
    }
    assert_eq!(names(fs, dir), expected);
    expected
}

#[test]
fn a_directory_that_e2fsck_has_rebuilt() {
    if !have_tools() {
        return;
    }
    let image = Image::new(64, &[]);
    let mut commands = vec!["mkdir d".to_string(), "cd d".to_string()];
    commands.extend((0..3000).map(|n| format!("write /dev/null {}", name(n))));
    image.debugfs_write(&commands.iter().map(String::as_str).collect::<Vec<_>>());
    let out = crate::common::tool("e2fsck")
        .args(["-fyD"])
        .arg(&image.path)
        .output()
        .expect("starts");
    assert!(
        matches!(out.status.code(), Some(0 | 1)),
        "{}",
        String::from_utf8_lossy(&out.stdout)
    );
    assert!(
        image.debugfs("htree_dump d").contains("Root node dump"),
        "e2fsck made a hash tree"
    );
    let (ram, fs) = image.mount("");
    let dir = fs.find(b"d");
    change(&fs, dir, 3000);
    let tree = read_tree(&*fs, 500);
    image.end(&fs, &ram);
    compare_with_debugfs(&image, &tree);
}

#[test]
fn a_directory_of_the_kernel_with_two_levels_of_index() {
    if !have_tools() {
        return;
    }
    const COUNT: u32 = 20_000;
    let image = Image::new(128, &["-N", "30000"]);
    let Some(mounted) = Mounted::with(&image, "noatime") else {
        return;
    };
    let folder = mounted.point.join("d");
    std::fs::create_dir(&folder).expect("mkdir");
    for n in 0..COUNT {
        File::create(folder.join(name(n))).expect("create");
    }
    mounted.unmount();
    assert!(
        image.debugfs("htree_dump d").contains("Indirect levels: 1"),
        "the kernel made two levels"
    );
    let (ram, fs) = image.mount("");
    let dir = fs.find(b"d");
    let expected = change(&fs, dir, COUNT);
    let root = fs.root();
    image.end(&fs, &ram);
    let mounted = Mounted::with(&image, "noatime").expect("it could before");
    let tree = walk(&mounted);
    // And the kernel goes on where we stopped.
    for n in 0..500 {
        File::create(mounted.point.join("d").join(format!("kernel {n}"))).expect("create");
    }
    mounted.unmount();
    image.fsck();
    assert_eq!(tree[&b"/"[..]].ino, root);
    let listed = tree
        .keys()
        .filter_map(|path| path.strip_prefix(b"/d/")?.strip_suffix(b"/"));
    assert!(
        listed.eq(expected.iter().map(|name| &name[..])),
        "the kernel reads the same names"
    );
    let fs = mount(&image.load(), "ro");
    let dir = fs.find(b"d");
    assert_eq!(names(&fs, dir).len(), expected.len() + 500);
}
