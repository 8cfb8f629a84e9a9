//! Tests the table of features in `docs/use/ext4.md`, line by line: volumes of mke2fs with each
//! feature, filled by the running kernel where it knows the feature, then opened here. After writes
//! here `e2fsck -fn` finds no fault, and the kernel finds the tree.

use super::{change, fill_by_kernel};
use crate::common::mounted::Mounted;
use crate::common::trees::{Tree, kernel_tree, our_tree, same_trees};
use crate::common::{Image, have_tools, mount, pattern, tool, try_mount};
use fscore::{Errno, FileSystem, FsError};
use std::fs;
use std::path::Path;
use std::process::Command;
use testkit::Brief;
use varve_ext4::Ext4;

/// How a volume can be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    /// Read and written.
    Full,
    /// Read; a mount for writing is refused with these words.
    Read(&'static str),
    /// Refused with these words.
    Not(&'static str),
}
use Use::{Full, Not, Read};

/// A line of the table: name, options of `mke2fs`, options of the mount, what it can be used for.
type Line = (&'static str, &'static [&'static str], &'static str, Use);

const TABLE: [Line; 41] = [
    ("default of Debian 12", &[], "", Full),
    (
        "default of Debian 13",
        &["-O", "orphan_file,metadata_csum_seed"],
        "",
        Full,
    ),
    ("^64bit", &["-O", "^64bit"], "", Full),
    ("^metadata_csum", &["-O", "^metadata_csum"], "", Full),
    ("uninit_bg", &["-O", "^metadata_csum,uninit_bg"], "", Full),
    ("^flex_bg", &["-O", "^flex_bg"], "", Full),
    ("flex_bg of 4", &["-G", "4"], "", Full),
    ("^dir_index", &["-O", "^dir_index"], "", Full),
    ("^extent", &["-O", "^extent,^64bit"], "", Full),
    ("ext3", &["-t", "ext3"], "", Full),
    ("ext2", &["-t", "ext2"], "scheme=none", Full),
    ("^has_journal", &["-O", "^has_journal"], "scheme=none", Full),
    ("^resize_inode", &["-O", "^resize_inode"], "", Full),
    (
        "meta_bg",
        &["-O", "meta_bg,^resize_inode", "-g", "1024", "-N", "4096"],
        "",
        Full,
    ),
    ("small groups", &["-g", "1024", "-N", "4096"], "", Full),
    ("sparse_super2", &["-O", "sparse_super2"], "", Full),
    (
        "^sparse_super",
        &["-O", "^sparse_super,^resize_inode"],
        "",
        Full,
    ),
    ("stable_inodes", &["-O", "stable_inodes"], "", Full),
    ("^huge_file", &["-O", "^huge_file"], "", Full),
    ("^large_file", &["-O", "^large_file,^huge_file"], "", Full),
    ("^dir_nlink", &["-O", "^dir_nlink"], "", Full),
    ("^extra_isize", &["-O", "^extra_isize"], "", Full),
    ("^ext_attr", &["-O", "^ext_attr"], "", Full),
    ("^filetype", &["-O", "^filetype"], "", Full),
    (
        "inodes of 128 bytes",
        &["-I", "128", "-O", "^metadata_csum,^extra_isize"],
        "",
        Full,
    ),
    (
        "inodes of 128 bytes with checksums",
        &["-I", "128"],
        "",
        Full,
    ),
    ("inodes of 512 bytes", &["-I", "512"], "", Full),
    ("inodes of 1024 bytes", &["-I", "1024"], "", Full),
    ("journal of 4 MiB", &["-J", "size=4"], "", Full),
    ("journal of 24 MiB", &["-J", "size=24"], "", Full),
    ("fast_commit", &["-O", "fast_commit"], "", Full),
    ("project", &["-O", "project"], "", Full),
    ("large_dir", &["-O", "large_dir"], "", Full),
    ("encrypt", &["-O", "encrypt"], "", Full),
    ("casefold", &["-O", "casefold"], "", Full),
    ("verity", &["-O", "verity"], "", Read("feature verity")),
    ("quota", &["-O", "quota"], "", Read("feature quota")),
    ("bigalloc", &["-O", "bigalloc", "-C", "8192"], "", Full),
    ("inline_data", &["-O", "inline_data"], "", Full),
    (
        "inline_data in inodes of 1024 bytes",
        &["-O", "inline_data", "-I", "1024"],
        "",
        Full,
    ),
    (
        "ea_inode",
        &["-O", "ea_inode"],
        "",
        Read("attribute values in inodes"),
    ),
];

fn refused(image: &Image, options: &str) -> String {
    match try_mount(&image.load(), options) {
        Err(e @ FsError::Incompatible { .. }) => e.to_string(),
        Err(other) => panic!("refused, but not as incompatible: {other}"),
        Ok(_) => panic!("mounted with `{options}`"),
    }
}

/// Runs only `e2fsck -fn`, because Varve's checker does not know everything that can be mounted.
fn e2fsck(image: &Image, name: &str) {
    let out = tool("e2fsck").arg("-fn").arg(&image.path).output();
    let out = out.expect("e2fsck");
    let text = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{name}: e2fsck -fn:\n{text}");
}

/// Mounts by the kernel; `None` where this kernel does not know the feature.
fn by_kernel(image: &Image) -> Option<Mounted> {
    let point = image.dir.path().join("probe");
    fs::create_dir_all(&point).expect("a mount point");
    let mut command: Command = tool("mount");
    let out = command
        .args(["-o", "loop"])
        .arg(&image.path)
        .arg(&point)
        .output()
        .expect("mount");
    if !out.status.success() {
        return None;
    }
    let gone = tool("umount").arg(&point).status().expect("umount");
    assert!(gone.success());
    Mounted::new(image)
}

/// Makes files that need inline data, and values in inodes of their own.
fn fill_special(root: &Path) {
    let dir = root.join("tiny");
    fs::create_dir(&dir).expect("mkdir");
    for n in 0..6u64 {
        let len = [0, 1, 59, 60, 61, 150][n as usize];
        fs::write(dir.join(format!("t{n}")), pattern(n, len)).expect("write");
    }
    let flags = rustix::fs::XattrFlags::empty();
    // Where there is no room for the attribute, there is none.
    let _ = rustix::fs::setxattr(root.join("large"), "user.big", &[0x5A; 20_000], flags);
}

fn read_only(line: &Line, image: &Image, kernel: Option<&Tree>, why: &str) {
    let (name, _, options, _) = line;
    let said = refused(image, options);
    assert!(
        said.contains(why) && said.contains("read-only"),
        "{name}: {said}"
    );
    let ro = format!("ro,{options}");
    let fs = mount(&image.load(), ro.trim_end_matches(','));
    if let Some(kernel) = kernel {
        same_trees(kernel, &our_tree(&fs));
        big_attribute(name, &fs);
    }
    let made = fs.mkdir(fs.root(), b"no", 0o755, fscore::Creds::default());
    assert_eq!(made.expect_err("read-only").errno(), Errno::RoFs, "{name}");
    fs.unmount().expect("unmount");
}

fn big_attribute(name: &str, fs: &Ext4) {
    if name == "ea_inode" {
        let large = fs.find(b"large");
        let value = fs.getxattr(large, b"user.big").expect("its value");
        assert!(value == [0x5A; 20_000], "{name}");
    }
}

fn both_ways(line: &Line) -> bool {
    let (name, mkfs, options, uses) = line;
    let image = Image::new(96, mkfs);
    let mut before = None;
    if let Some(mounted) = by_kernel(&image) {
        fill_by_kernel(&mounted.point);
        fill_special(&mounted.point);
        before = Some(kernel_tree(&mounted.point));
        mounted.unmount();
    }
    match uses {
        Not(why) => {
            let said = refused(&image, options);
            assert!(said.contains(why), "{name}: {said}");
            let ro = format!("ro,{options}");
            assert!(refused(&image, ro.trim_end_matches(',')).contains(why));
        }
        Read(why) => read_only(line, &image, before.as_ref(), why),
        Full => {
            let (ram, fs) = image.mount(options);
            if let Some(before) = &before {
                same_trees(before, &our_tree(&fs));
                change(&fs);
            }
            let changed = our_tree(&fs);
            fs.unmount().expect("unmount");
            image.store(&ram);
            e2fsck(&image, name);
            if before.is_some() {
                let mounted = Mounted::new(&image).expect("it went before");
                same_trees(&changed, &kernel_tree(&mounted.point));
                mounted.unmount();
                e2fsck(&image, name);
            }
        }
    }
    before.is_some()
}

fn lines(of: impl Fn(usize) -> bool) {
    if !have_tools() {
        return;
    }
    let mut alone = Vec::new();
    for (n, line) in TABLE.iter().enumerate().filter(|(n, _)| of(*n)) {
        if !both_ways(line) {
            alone.push(format!("{n}: {}", line.0));
        }
    }
    if !alone.is_empty() {
        eprintln!("the kernel does not mount: {alone:?}; opened here without its files");
    }
}

/// A selection of the lines, for every run of the tests.
#[test]
fn features_in_short() {
    lines(|n| ["meta_bg", "quota", "inline_data", "ea_inode"].contains(&TABLE[n].0));
}

#[test]
#[ignore = "long: the whole table, a minute"]
fn every_line_of_the_table() {
    lines(|_| true);
}

/// Volumes of these kinds are refused with any options, and the message names the kind.
#[test]
fn what_cannot_be_opened_is_named() {
    if !have_tools() {
        return;
    }
    let mmp = Image::new(32, &["-O", "mmp"]);
    assert!(refused(&mmp, "").contains("mmp"));
    let fs = mount(&mmp.load(), "ro");
    fs.unmount().expect("unmount");
    let line: Line = (
        "journal device",
        &["-O", "journal_dev"],
        "",
        Not("journal_dev"),
    );
    let image = Image::new(32, line.1);
    let said = match try_mount(&image.load(), line.2) {
        Err(e) => e.to_string(),
        Ok(_) => panic!("a journal is no file system"),
    };
    assert!(!said.is_empty(), "{said}");
}

/// Splits and growth of a hash tree by 100,000 names, all of which the kernel finds; and the other
/// way round.
#[test]
#[ignore = "long: 100,000 names"]
fn hundred_thousand_names() {
    if !have_tools() {
        return;
    }
    let image = Image::new(192, &["-N", "150000"]);
    let (ram, fs) = image.mount("");
    let dir = fs
        .mkdir(fs.root(), b"ours", 0o755, fscore::Creds::default())
        .expect("mkdir");
    let name = |n: u32| format!("name {n} of a hundred thousand");
    for n in 0..100_000 {
        let kind = fscore::FileKind::File;
        fs.create(
            dir.ino,
            name(n).as_bytes(),
            kind,
            0o644,
            0,
            fscore::Creds::default(),
        )
        .expect("create");
    }
    for n in (0..100_000).step_by(3) {
        fs.unlink(dir.ino, name(n).as_bytes()).expect("unlink");
    }
    fs.unmount().expect("unmount");
    image.store(&ram);
    e2fsck(&image, "100,000 names");
    let Some(mounted) = Mounted::new(&image) else {
        return;
    };
    let ours = mounted.point.join("ours");
    for n in 0..100_000 {
        assert_eq!(ours.join(name(n)).exists(), n % 3 != 0, "{n}");
    }
    assert_eq!(fs::read_dir(&ours).expect("read").count(), 66_666);
    mounted.unmount();
}

/// With `large_dir` a tree grows by a third level, which the kernel reads and extends; without the
/// feature the second level is the last, as in Linux. All names are links of one file.
#[test]
fn a_third_level_of_a_hash_tree() {
    if !have_tools() {
        return;
    }
    const NAMES: u32 = 40_000;
    let name = |n: u32| format!("{n:0250}");
    for (feature, levels) in [("large_dir", 2), ("^large_dir", 1)] {
        let image = Image::new(96, &["-b", "1024", "-O", feature]);
        let (ram, fs) = image.mount("");
        let creds = fscore::Creds::default();
        let dir = fs.dir(b"d");
        let kind = fscore::FileKind::File;
        let file = fs.create(dir, b"file", kind, 0o644, 0, creds);
        let file = file.expect("room").ino;
        let mut made = 0;
        let refused = (0..NAMES).find_map(|n| {
            let linked = fs.link(file, dir, name(n).as_bytes());
            made += u32::from(linked.is_ok());
            linked.err()
        });
        match levels {
            2 => assert!(refused.is_none(), "{refused:?} after {made}"),
            _ => assert_eq!(refused.expect("full").errno(), Errno::NoSpc),
        }
        for n in (0..made).step_by(5) {
            fs.unlink(dir, name(n).as_bytes()).expect("there");
        }
        let left = (0..made).filter(|n| n % 5 != 0).count();
        assert_eq!(fs.readdir(dir, 0, 1 << 20).expect("names").len(), left + 3);
        image.end(&fs, &ram);
        let dump = image.debugfs("htree_dump d");
        assert!(
            dump.contains(&format!("Indirect levels: {levels}")),
            "{feature}, {made} names: {}",
            &dump[..dump.len().min(300)]
        );
        let Some(mounted) = by_kernel(&image) else {
            return;
        };
        let root = mounted.point.join("d");
        for n in 0..made {
            assert_eq!(root.join(name(n)).exists(), n % 5 != 0, "{n}");
        }
        for n in (0..made).step_by(5) {
            fs::hard_link(root.join("file"), root.join(name(n))).expect("the kernel goes on");
        }
        mounted.unmount();
        image.fsck();
        let fs = mount(&image.load(), "ro");
        let all = fs.readdir(dir, 0, 1 << 20).expect("names");
        assert_eq!(all.len(), made as usize + 3);
    }
}
