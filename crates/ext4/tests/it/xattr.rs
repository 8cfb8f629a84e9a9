//! Extended attributes, compared with the running kernel and e2fsck: what one side writes the other
//! reads, changes and reads again.
#![allow(clippy::disallowed_methods)]

use crate::common::mounted::Mounted;
use crate::common::{Image, have_tools, pattern};
use base::Ino;
use fscore::{FileSystem, XattrMode};
use rustix::fs::XattrFlags;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use testkit::Brief;
use testkit::posix::acl;
use varve_ext4::Ext4;

type Attrs = BTreeMap<Vec<u8>, Vec<u8>>;

fn kernel_attrs(path: &Path) -> Attrs {
    let mut names = vec![0; 65536];
    let n = rustix::fs::llistxattr(path, &mut names[..]).expect("llistxattr");
    let names = names[..n].split(|&c| c == 0).filter(|n| !n.is_empty());
    let get = |name: &[u8]| {
        let mut value = vec![0; 65536];
        let n = rustix::fs::lgetxattr(path, OsStr::from_bytes(name), &mut value[..]);
        value.truncate(n.expect("lgetxattr"));
        (name.to_vec(), value)
    };
    names.map(get).collect()
}

fn our_attrs(fs: &Ext4, ino: Ino) -> Attrs {
    let names = fs.listxattr(ino).expect("listxattr");
    let get = |name: Vec<u8>| {
        let value = fs.getxattr(ino, &name).expect("getxattr");
        (name, value)
    };
    names.into_iter().map(get).collect()
}

/// An ACL with a named user and a mask, in the form of system calls.
fn acl_of(uid: u32) -> Vec<u8> {
    let none = u32::MAX;
    acl(&[
        (1, 6, none),
        (2, 5, uid),
        (4, 4, none),
        (8, 6, 20),
        (16, 5, none),
        (32, 0, none),
    ])
}

/// The attributes that each name of the root directory must have.
fn wanted() -> BTreeMap<&'static str, Attrs> {
    let long = [b"user.".to_vec(), vec![b'n'; 250]].concat();
    let list = |entries: &[(&[u8], usize)]| {
        let entry = |&(name, len): &(&[u8], usize)| (name.to_vec(), pattern(len as u64, len));
        entries.iter().map(entry).collect::<Attrs>()
    };
    let mut all = BTreeMap::new();
    all.insert("small", list(&[(b"user.a", 3), (b"trusted.b", 0)]));
    all.insert("large", list(&[(b"user.big", 3000)]));
    all.insert(
        "both",
        list(&[
            (b"user.in", 30),
            (b"user.z", 700),
            (b"user.yy", 61),
            (b"security.vendor", 1000),
            (b"user.empty", 0),
        ]),
    );
    all.insert("long", list(&[(&long, 255), (b"user.x", 1)]));
    all.insert("none", Attrs::new());
    all.insert("link", list(&[(b"trusted.of.link", 200)]));
    let mut dir = list(&[(b"user.dir", 5), (b"trusted.dir", 300)]);
    dir.insert(b"system.posix_acl_access".to_vec(), acl_of(1000));
    dir.insert(b"system.posix_acl_default".to_vec(), acl_of(70_000));
    all.insert("dir", dir);
    // Equal attributes: the kernel lets them share a block.
    for name in ["twin1", "twin2", "twin3"] {
        all.insert(name, list(&[(b"user.same", 1234), (b"trusted.same", 800)]));
    }
    all
}

fn make_ours(fs: &Ext4) {
    for (name, attrs) in wanted() {
        let (root, bytes) = (fs.root(), name.as_bytes());
        let ino = match name {
            "link" => fs.make_link(root, bytes, b"nowhere").expect("symlink"),
            "dir" => fs.make_dir(root, bytes).expect("mkdir"),
            _ => fs.make(root, bytes).expect("create"),
        };
        for (key, value) in &attrs {
            fs.setxattr(ino, key, value, XattrMode::Create)
                .expect("setxattr");
        }
    }
}

fn make_by_kernel(root: &Path) {
    for (name, attrs) in wanted() {
        let path = root.join(name);
        match name {
            "link" => std::os::unix::fs::symlink("nowhere", &path).expect("symlink"),
            "dir" => fs::create_dir(&path).expect("mkdir"),
            _ => fs::write(&path, b"").expect("create"),
        }
        for (key, value) in &attrs {
            let key = OsStr::from_bytes(key);
            rustix::fs::lsetxattr(&path, key, value, XattrFlags::CREATE).expect("lsetxattr");
        }
    }
}

fn compare_ours(fs: &Ext4, all: &BTreeMap<&str, Attrs>) {
    for (name, attrs) in all {
        assert!(
            our_attrs(fs, fs.find(name)) == *attrs,
            "{name}, as we read it"
        );
    }
}

fn compare_kernel(root: &Path, all: &BTreeMap<&str, Attrs>) {
    for (name, attrs) in all {
        assert!(
            kernel_attrs(&root.join(name)) == *attrs,
            "{name}, as the kernel reads it"
        );
    }
}

/// Replaces, adds and removes, so that attributes move between inode and block.
fn change(fs: &Ext4, all: &mut BTreeMap<&str, Attrs>) {
    let mut set = |name: &'static str, key: &[u8], len: usize| {
        let value = pattern(99, len);
        fs.setxattr(fs.find(name), key, &value, XattrMode::Any)
            .expect("setxattr");
        all.get_mut(name)
            .expect("known")
            .insert(key.to_vec(), value);
    };
    set("small", b"user.a", 2000);
    set("small", b"user.c", 9);
    set("large", b"user.big", 10);
    set("both", b"user.z", 2500);
    set("none", b"security.first", 77);
    set("twin1", b"user.same", 1235);
    set("link", b"security.more", 1000);
    let mut remove = |name: &'static str, key: &[u8]| {
        fs.removexattr(fs.find(name), key).expect("removexattr");
        all.get_mut(name).expect("known").remove(key);
    };
    remove("both", b"user.empty");
    remove("both", b"security.vendor");
    remove("dir", b"system.posix_acl_default");
    remove("twin2", b"user.same");
    remove("twin2", b"trusted.same");
}

fn with_kernel(mkfs: &[&str], options: &str) {
    if !have_tools() {
        return;
    }
    // Written by Varve, read by the kernel.
    let image = Image::new(32, mkfs);
    let (ram, fs) = image.mount(options);
    make_ours(&fs);
    let mut all = wanted();
    compare_ours(&fs, &all);
    change(&fs, &mut all);
    compare_ours(&fs, &all);
    image.end(&fs, &ram);
    let Some(mounted) = Mounted::new(&image) else {
        return;
    };
    compare_kernel(&mounted.point, &all);
    mounted.unmount();

    // Written by the kernel, read and changed by Varve, read by the kernel again.
    let image = Image::new(32, mkfs);
    let mounted = Mounted::new(&image).expect("it went before");
    make_by_kernel(&mounted.point);
    let mut all = wanted();
    compare_kernel(&mounted.point, &all);
    mounted.unmount();
    let block_of = |name: &str| {
        let stat = image.debugfs(&format!("stat {name}"));
        let (_, after) = stat.split_once("File ACL: ").expect("a line of debugfs");
        after
            .split_whitespace()
            .next()
            .expect("a number")
            .to_string()
    };
    assert_eq!(
        block_of("twin1"),
        block_of("twin3"),
        "the kernel shares blocks"
    );
    let (ram, fs) = image.mount(options);
    compare_ours(&fs, &all);
    change(&fs, &mut all);
    fs.unlink(fs.root(), b"twin3").expect("unlink");
    all.remove("twin3");
    compare_ours(&fs, &all);
    image.end(&fs, &ram);
    let mounted = Mounted::new(&image).expect("it went before");
    compare_kernel(&mounted.point, &all);
    for (name, attrs) in &all {
        for key in attrs.keys() {
            let key = OsStr::from_bytes(key);
            rustix::fs::lremovexattr(mounted.point.join(name), key).expect("lremovexattr");
        }
    }
    mounted.unmount();
    image.fsck();
}

#[test]
fn default_features() {
    with_kernel(&[], "");
}

#[test]
fn small_inodes_without_checksums() {
    with_kernel(
        &["-I", "128", "-O", "^metadata_csum,^64bit"],
        "data=journal",
    );
}

#[test]
fn large_inodes_and_coalition() {
    with_kernel(&["-I", "1024"], "scheme=coalition");
}

#[test]
fn block_maps() {
    with_kernel(&["-t", "ext3"], "");
}

#[test]
fn without_journal() {
    with_kernel(&["-O", "^has_journal"], "scheme=none");
}

/// The hash over a block, which only the kernel uses: by it the kernel finds a block that Varve
/// wrote, and shares it.
#[test]
fn the_kernel_shares_a_block_that_we_wrote() {
    if !have_tools() {
        return;
    }
    let image = Image::new(16, &[]);
    let (ram, fs) = image.mount("");
    let ino = fs.file(b"ours");
    let attrs = [("user.one", 400), ("user.two", 555), ("trusted.b", 33)];
    for (key, len) in attrs {
        let value = pattern(len as u64, len);
        fs.setxattr(ino, key.as_bytes(), &value, XattrMode::Any)
            .expect("setxattr");
    }
    fs.unmount().expect("unmount");
    image.store(&ram);
    let Some(mounted) = Mounted::new(&image) else {
        return;
    };
    // Reading puts the block into the kernel's cache of blocks that can be shared.
    assert_eq!(kernel_attrs(&mounted.point.join("ours")).len(), 3);
    let theirs = mounted.point.join("theirs");
    fs::write(&theirs, b"").expect("create");
    for (key, len) in attrs {
        let value = pattern(len as u64, len);
        rustix::fs::setxattr(&theirs, key, &value, XattrFlags::empty()).expect("setxattr");
    }
    mounted.unmount();
    image.fsck();
    let acl_of = |name| {
        let stat = image.debugfs(&format!("stat {name}"));
        let line = stat
            .lines()
            .find(|l| l.contains("File ACL"))
            .map(str::to_string);
        line.expect("a line")
            .split("File ACL: ")
            .nth(1)
            .map(str::to_string)
    };
    assert_eq!(acl_of("ours"), acl_of("theirs"));
}
