//! Images filled by the running kernel are read and changed here, and images filled here are read by the kernel.
#![allow(clippy::disallowed_methods)]

mod common;

use base::Ino;
use common::mounted::Mounted;
use common::{Image, have_tools, mount, pattern, read_all};
use fscore::{Creds, FileKind, FileSystem, SetAttr};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use varve_ext4::Ext4;

/// What a tree looks like: path -> kind, mode, links, owner, size, content or target.
type Tree = BTreeMap<String, (char, u32, u64, (u32, u32), Vec<u8>)>;

fn kernel_tree(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut todo = vec![(root.to_path_buf(), String::new())];
    while let Some((dir, name)) = todo.pop() {
        for entry in fs::read_dir(&dir).expect("readdir") {
            let entry = entry.expect("an entry");
            let name = format!("{name}/{}", entry.file_name().to_string_lossy());
            let meta = fs::symlink_metadata(entry.path()).expect("stat");
            let (kind, content) = if meta.is_dir() {
                todo.push((entry.path(), name.clone()));
                ('d', Vec::new())
            } else if meta.is_symlink() {
                let target = fs::read_link(entry.path()).expect("readlink");
                ('l', target.to_string_lossy().into_owned().into_bytes())
            } else {
                ('f', fs::read(entry.path()).expect("read"))
            };
            let owner = (meta.uid(), meta.gid());
            tree.insert(
                name,
                (kind, meta.mode() & 0o7777, meta.nlink(), owner, content),
            );
        }
    }
    tree
}

fn our_tree(fs: &Ext4) -> Tree {
    let mut tree = Tree::new();
    let mut todo = vec![(fs.root(), String::new())];
    while let Some((dir, path)) = todo.pop() {
        let mut from = 0;
        loop {
            let entries = fs.readdir(dir, from, 100).expect("readdir");
            let Some(last) = entries.last() else { break };
            from = last.next;
            for entry in entries.iter().filter(|e| e.name != b"." && e.name != b"..") {
                let name = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
                assert_eq!(fs.lookup(dir, &entry.name).expect("lookup"), entry.ino);
                let attr = fs.getattr(entry.ino).expect("getattr");
                assert_eq!(attr.kind, entry.kind);
                let (kind, content) = match attr.kind {
                    FileKind::Dir => {
                        todo.push((entry.ino, name.clone()));
                        ('d', Vec::new())
                    }
                    FileKind::Symlink => ('l', fs.readlink(entry.ino).expect("readlink")),
                    _ => ('f', read_all(fs, entry.ino)),
                };
                let owner = (attr.uid, attr.gid);
                tree.insert(
                    name,
                    (kind, attr.perm.into(), attr.nlink.into(), owner, content),
                );
            }
        }
    }
    tree
}

fn same_trees(a: &Tree, b: &Tree) {
    let names = |t: &Tree| t.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(a), names(b));
    for (name, entry) in a {
        let other = &b[name];
        assert_eq!(
            (entry.0, entry.1, entry.2, entry.3),
            (other.0, other.1, other.2, other.3),
            "{name}"
        );
        assert!(entry.4 == other.4, "content of {name}");
    }
}

fn fill_by_kernel(root: &Path) {
    for d in 0..5 {
        let dir = root.join(format!("dir{d}"));
        fs::create_dir(&dir).expect("mkdir");
        for n in 0..40u64 {
            let len = (n * n * 97 % 50_000) as usize;
            fs::write(dir.join(format!("file{n}")), pattern(n, len)).expect("write");
        }
    }
    let many = root.join("many");
    fs::create_dir(&many).expect("mkdir");
    for n in 0..1500 {
        fs::write(
            many.join(format!("a rather long name for a file, number {n}")),
            b"x",
        )
        .expect("write");
    }
    fs::write(root.join("large"), pattern(77, 9 << 20)).expect("write");
    let sparse = fs::File::create(root.join("sparse")).expect("create");
    use std::os::unix::fs::FileExt;
    for n in 0..600u64 {
        sparse
            .write_at(&n.to_le_bytes(), n * 20_000)
            .expect("write");
    }
    let unwritten = fs::File::create(root.join("unwritten")).expect("create");
    let flags = rustix::fs::FallocateFlags::empty();
    if rustix::fs::fallocate(&unwritten, flags, 0, 300_000).is_err() {
        // Block maps know no unwritten blocks.
        unwritten.set_len(300_000).expect("truncate");
    }
    symlink("dir0/file1", root.join("short")).expect("symlink");
    symlink("x".repeat(300), root.join("long")).expect("symlink");
    fs::hard_link(root.join("large"), root.join("dir1/again")).expect("link");
    fs::set_permissions(root.join("dir2"), fs::Permissions::from_mode(0o1751)).expect("chmod");
    std::os::unix::fs::chown(root.join("short"), Some(70_000), Some(80_000)).ok();
}

/// Changes of every kind.
fn change(fs: &Ext4) {
    let root = fs.root();
    let lookup = |dir: Ino, name: &str| fs.lookup(dir, name.as_bytes()).expect(name);
    let dir0 = lookup(root, "dir0");
    for n in 0..20 {
        fs.unlink(dir0, format!("file{n}").as_bytes())
            .expect("unlink");
    }
    let many = lookup(root, "many");
    for n in (0..1500).step_by(3) {
        let name = format!("a rather long name for a file, number {n}");
        fs.unlink(many, name.as_bytes()).expect("unlink");
    }
    let made = fs
        .mkdir(root, b"made here", 0o755, Creds { uid: 5, gid: 6 })
        .expect("mkdir");
    for n in 0..300u64 {
        let name = format!("new file {n}");
        let creds = Creds {
            uid: 66_000,
            gid: 7,
        };
        let file = fs
            .create(made.ino, name.as_bytes(), FileKind::File, 0o640, 0, creds)
            .expect("create");
        fs.write(file.ino, n * 11, &pattern(n, (n * 331 % 20_000) as usize))
            .expect("write");
    }
    let sparse = lookup(root, "sparse");
    for n in 0..500u64 {
        fs.write(sparse, n * 24_000 + 4096, &pattern(n, 5000))
            .expect("write");
    }
    fs.write(lookup(root, "unwritten"), 100_000, &pattern(9, 50_000))
        .expect("write");
    let set = SetAttr {
        size: Some(5_000_001),
        ..SetAttr::default()
    };
    fs.setattr(lookup(root, "large"), &set).expect("truncate");
    fs.rename(
        root,
        b"dir3",
        made.ino,
        b"moved",
        fscore::RenameMode::Replace,
    )
    .expect("rename");
    fs.symlink(made.ino, b"link", &[b'y'; 200], Creds::default())
        .expect("symlink");
}

fn kernel_then_us(mkfs: &[&str], options: &str) {
    if !have_tools() {
        return;
    }
    let image = Image::new(96, mkfs);
    let Some(mounted) = Mounted::new(&image) else {
        return;
    };
    fill_by_kernel(&mounted.point);
    let before = kernel_tree(&mounted.point);
    mounted.unmount();

    let ram = image.load();
    let fs = mount(&ram, options);
    same_trees(&before, &our_tree(&fs));
    change(&fs);
    let changed = our_tree(&fs);
    fs.unmount().expect("unmount");
    image.store(&ram);
    image.fsck();

    let mounted = Mounted::new(&image).expect("it went before");
    same_trees(&changed, &kernel_tree(&mounted.point));
    fs::remove_dir_all(mounted.point.join("many")).expect("the kernel goes on with it");
    fs::write(mounted.point.join("made here/one more"), b"kernel").expect("write");
    mounted.unmount();
    image.fsck();
}

#[test]
fn default_features() {
    kernel_then_us(&[], "");
}

#[test]
fn without_journal() {
    kernel_then_us(&["-O", "^has_journal"], "scheme=none");
}

#[test]
fn with_orphan_file_and_checksum_seed() {
    kernel_then_us(&["-O", "orphan_file,metadata_csum_seed"], "");
}

#[test]
fn ext3() {
    kernel_then_us(&["-t", "ext3"], "");
}

#[test]
fn without_checksums() {
    kernel_then_us(&["-O", "^metadata_csum,^64bit"], "data=journal");
}
