//! Directories: how they are made, removed, read, and how their links are counted.

use super::{Case, fails, names, ok, open, write_file};
use std::collections::BTreeSet;
use std::sync::Arc;
use vfs::{Errno, FileKind, OpenFlags, Vfs};

pub(super) const CASES: &[Case] = &[
    ("dir: mkdir and rmdir", make_and_remove),
    ("dir: link counts", link_counts),
    ("dir: dot entries", dot_entries),
    ("dir: reading in pieces", pieces),
    ("dir: deletion while reading", deletion_while_reading),
    ("dir: growth and emptying", growth),
    ("dir: removed while open", removed_while_open),
    ("dir: deep nesting", deep),
];

fn make_and_remove(vfs: &Arc<Vfs>) {
    let attr = ok(vfs.mkdir("/d", 0o750), "mkdir");
    assert_eq!((attr.kind, attr.perm), (FileKind::Dir, 0o750));
    fails(vfs.mkdir("/d", 0o755), Errno::Exist, "mkdir of what exists");
    write_file(vfs, "/d/f", b"x");
    fails(vfs.mkdir("/d/f", 0o755), Errno::Exist, "mkdir at a file");
    fails(
        vfs.rmdir("/d"),
        Errno::NotEmpty,
        "rmdir of a full directory",
    );
    fails(vfs.rmdir("/d/f"), Errno::NotDir, "rmdir of a file");
    fails(vfs.unlink("/d"), Errno::IsDir, "unlink of a directory");
    fails(vfs.rmdir("/none"), Errno::NoEnt, "rmdir of nothing");
    fails(vfs.unlink("/none"), Errno::NoEnt, "unlink of nothing");
    ok(vfs.unlink("/d/f"), "unlink");
    ok(vfs.rmdir("/d"), "rmdir");
    fails(vfs.stat("/d"), Errno::NoEnt, "gone");
}

fn link_counts(vfs: &Arc<Vfs>) {
    let root = ok(vfs.stat("/"), "stat").nlink;
    assert_eq!(ok(vfs.mkdir("/d", 0o755), "mkdir").nlink, 2);
    assert_eq!(ok(vfs.stat("/"), "stat").nlink, root + 1);
    for i in 0..5 {
        ok(vfs.mkdir(format!("/d/s{i}"), 0o755), "mkdir");
    }
    write_file(vfs, "/d/f", b"x");
    assert_eq!(ok(vfs.stat("/d"), "stat").nlink, 7, "files do not count");
    ok(vfs.rmdir("/d/s3"), "rmdir");
    assert_eq!(ok(vfs.stat("/d"), "stat").nlink, 6);
}

fn dot_entries(vfs: &Arc<Vfs>) {
    ok(vfs.mkdir("/d", 0o755), "mkdir");
    ok(vfs.mkdir("/d/e", 0o755), "mkdir");
    let ino = |path: &str| ok(vfs.stat(path), path).ino;
    let entries = ok(vfs.readdir("/d/e"), "readdir");
    let dots: Vec<_> = entries.iter().map(|e| (&e.name[..], e.ino)).collect();
    assert_eq!(dots, [(&b"."[..], ino("/d/e")), (&b".."[..], ino("/d"))]);
    assert!(entries.iter().all(|e| e.kind == FileKind::Dir));
    let root = ok(vfs.readdir("/"), "readdir");
    for name in [&b"."[..], b".."] {
        let dot = root.iter().find(|e| e.name == name);
        assert_eq!(dot.expect("dots in the root").ino, vfs.fs().root());
    }
}

fn fill(vfs: &Arc<Vfs>, dir: &str, count: usize) -> BTreeSet<Vec<u8>> {
    ok(vfs.mkdir(dir, 0o755), "mkdir");
    for i in 0..count {
        let path = format!("{dir}/entry-{i:05}");
        match i % 3 {
            0 => ok(open(vfs, &path).close(), "close"),
            1 => drop(ok(vfs.mkdir(&path, 0o755), "mkdir")),
            _ => drop(ok(vfs.symlink("x", &path), "symlink")),
        }
    }
    let names = (0..count).map(|i| format!("entry-{i:05}").into_bytes());
    names.chain([b".".to_vec(), b"..".to_vec()]).collect()
}

fn pieces(vfs: &Arc<Vfs>) {
    let expected = fill(vfs, "/d", 90);
    let dir = ok(vfs.open("/d", OpenFlags::READ, 0), "open");
    for max in [1, 7, 64, 1000] {
        let (mut from, mut seen) = (0, BTreeSet::new());
        loop {
            let chunk = ok(dir.read_dir(from, max), "readdir");
            assert!(chunk.len() <= max, "at most {max}");
            let Some(last) = chunk.last() else { break };
            from = last.next;
            for entry in chunk {
                let path = [b"/d/", &entry.name[..]].concat();
                let attr = ok(vfs.lstat(path), "lstat");
                assert_eq!((attr.ino, attr.kind), (entry.ino, entry.kind));
                assert!(seen.insert(entry.name), "an entry came twice");
            }
        }
        assert_eq!(seen, expected, "in pieces of {max}");
    }
    ok(dir.close(), "close");
}

fn deletion_while_reading(vfs: &Arc<Vfs>) {
    let expected = fill(vfs, "/d", 60);
    let dir = ok(vfs.open("/d", OpenFlags::READ, 0), "open");
    let (mut from, mut seen) = (0, BTreeSet::new());
    loop {
        let chunk = ok(dir.read_dir(from, 5), "readdir");
        let Some(last) = chunk.last() else { break };
        from = last.next;
        for entry in chunk {
            let path = [b"/d/", &entry.name[..]].concat();
            match entry.kind {
                FileKind::Dir if entry.name.starts_with(b".") => {}
                FileKind::Dir => ok(vfs.rmdir(path), "rmdir"),
                _ => ok(vfs.unlink(path), "unlink"),
            }
            assert!(seen.insert(entry.name), "an entry came twice");
        }
    }
    assert_eq!(seen, expected, "every entry came once");
    ok(dir.close(), "close");
    assert!(names(vfs, "/d").is_empty());
    ok(vfs.rmdir("/d"), "rmdir of the emptied directory");
}

fn growth(vfs: &Arc<Vfs>) {
    ok(vfs.mkdir("/d", 0o755), "mkdir");
    let long = "x".repeat(100);
    let path = |i| format!("/d/{i:04}-{long}");
    for i in 0..400 {
        ok(open(vfs, &path(i)).close(), "close");
    }
    assert_eq!(names(vfs, "/d").len(), 400);
    for i in (0..400).rev() {
        ok(vfs.stat(path(i)), "stat");
        ok(vfs.unlink(path(i)), "unlink");
        fails(vfs.stat(path(i)), Errno::NoEnt, "unlinked");
    }
    ok(open(vfs, "/d/again").close(), "close");
    assert_eq!(names(vfs, "/d"), ["again"]);
}

fn removed_while_open(vfs: &Arc<Vfs>) {
    ok(vfs.mkdir("/d", 0o755), "mkdir");
    let dir = ok(vfs.open("/d", OpenFlags::READ, 0), "open");
    ok(vfs.rmdir("/d"), "rmdir");
    assert_eq!(ok(dir.stat(), "stat").nlink, 0);
    assert!(ok(dir.read_dir(0, 10), "readdir").is_empty());
    let (fs, creds) = (vfs.fs(), vfs::Creds::default());
    let made = fs.create(dir.ino(), b"f", FileKind::File, 0o644, 0, creds);
    fails(made, Errno::NoEnt, "create in a removed directory");
    fails(
        fs.mkdir(dir.ino(), b"e", 0o755, creds),
        Errno::NoEnt,
        "mkdir in a removed directory",
    );
    fails(
        fs.symlink(dir.ino(), b"l", b"x", creds),
        Errno::NoEnt,
        "symlink in a removed directory",
    );
    ok(vfs.mkdir("/d", 0o755), "the name is free");
    assert_ne!(ok(vfs.stat("/d"), "stat").ino, dir.ino());
    ok(dir.close(), "close");
}

fn deep(vfs: &Arc<Vfs>) {
    let mut path = String::new();
    for i in 0..60 {
        path.push_str(&format!("/d{i}"));
        ok(vfs.mkdir(&path, 0o755), "mkdir");
    }
    write_file(vfs, &format!("{path}/f"), b"deep");
    let up = "/..".repeat(60);
    assert_eq!(
        ok(vfs.stat(format!("{path}{up}")), "up").ino,
        vfs.fs().root()
    );
    ok(vfs.unlink(format!("{path}/f")), "unlink");
    while !path.is_empty() {
        ok(vfs.rmdir(&path), "rmdir");
        path.truncate(path.rfind('/').expect("absolute path"));
    }
}
