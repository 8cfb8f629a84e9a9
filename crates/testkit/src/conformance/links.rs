//! Hard links, symbolic links, special files.

use super::{Case, fails, ok, open, read_file, write_file};
use std::sync::Arc;
use vfs::{Errno, FileKind, Vfs};

pub(super) const CASES: &[Case] = &[
    ("link: names of one inode", hard_links),
    ("link: refusals", refusals),
    ("symlink: targets of every length", targets),
    ("mknod: special files", special_files),
];

fn hard_links(vfs: &Arc<Vfs>) {
    write_file(vfs, "/a", b"shared");
    ok(vfs.mkdir("/d", 0o755), "mkdir");
    let attr = ok(vfs.link("/a", "/d/b"), "link");
    assert_eq!(attr.nlink, 2);
    assert_eq!(attr.ino, ok(vfs.stat("/a"), "stat").ino);
    ok(vfs.link("/d/b", "/c"), "link of a link");
    let file = open(vfs, "/c");
    ok(file.write_at(0, b"SHARED"), "write");
    ok(file.close(), "close");
    assert_eq!(read_file(vfs, "/a"), b"SHARED");
    ok(vfs.unlink("/a"), "unlink");
    assert_eq!(ok(vfs.stat("/c"), "stat").nlink, 2);
    ok(vfs.unlink("/c"), "unlink");
    assert_eq!(read_file(vfs, "/d/b"), b"SHARED");
    assert_eq!(ok(vfs.stat("/d/b"), "stat").nlink, 1);
    let ino = ok(vfs.stat("/d/b"), "stat").ino;
    ok(vfs.unlink("/d/b"), "unlink of the last name");
    fails(vfs.fs().getattr(ino), Errno::Stale, "the inode is free");
}

fn refusals(vfs: &Arc<Vfs>) {
    write_file(vfs, "/f", b"x");
    ok(vfs.mkdir("/d", 0o755), "mkdir");
    fails(vfs.link("/d", "/e"), Errno::Perm, "link of a directory");
    fails(
        vfs.link("/d", "/f"),
        Errno::Exist,
        "link of a directory to a taken name",
    );
    fails(vfs.link("/f", "/d"), Errno::Exist, "link to a taken name");
    fails(vfs.link("/none", "/g"), Errno::NoEnt, "link of nothing");
    fails(vfs.link("/f", "/none/g"), Errno::NoEnt, "link into nothing");
    ok(vfs.symlink("/f", "/s"), "symlink");
    assert_eq!(
        ok(vfs.link("/s", "/t"), "link of a symlink").kind,
        FileKind::Symlink
    );
    assert_eq!(
        ok(vfs.stat("/f"), "stat").nlink,
        1,
        "the target is not linked"
    );
    let file = open(vfs, "/f");
    ok(vfs.unlink("/f"), "unlink");
    let revived = vfs.fs().link(file.ino(), vfs.fs().root(), b"g");
    fails(revived, Errno::NoEnt, "link of an inode without names");
    ok(file.close(), "close");
}

fn targets(vfs: &Arc<Vfs>) {
    // ext4 keeps up to 59 bytes in the inode.
    for len in [1, 58, 59, 60, 61, 255, 1000, 4094] {
        let target = "t/".repeat(len)[..len].to_string();
        let path = format!("/l{len}");
        let attr = ok(vfs.symlink(&target, &path), &path);
        assert_eq!((attr.kind, attr.size), (FileKind::Symlink, len as u64));
        assert_eq!(attr.perm, 0o777);
        assert_eq!(ok(vfs.readlink(&path), &path), target.as_bytes());
        ok(vfs.sync(), "sync");
        assert_eq!(ok(vfs.readlink(&path), &path), target.as_bytes());
        ok(vfs.unlink(&path), &path);
    }
    fails(
        vfs.symlink("t".repeat(4096), "/l"),
        Errno::NameTooLong,
        "target of 4096 bytes",
    );
    fails(vfs.symlink("x", "/"), Errno::Exist, "symlink at the root");
}

fn special_files(vfs: &Arc<Vfs>) {
    let kinds = [
        (FileKind::Char, 0x0103, 0x0103),
        (FileKind::Block, 0x0007_1234, 0x0007_1234),
        (FileKind::Fifo, 5, 0),
        (FileKind::Socket, 0, 0),
        (FileKind::File, 0, 0),
    ];
    for (i, (kind, rdev, expected)) in kinds.into_iter().enumerate() {
        let path = format!("/s{i}");
        ok(vfs.mknod(&path, kind, 0o640, rdev), &path);
        let attr = ok(vfs.stat(&path), &path);
        assert_eq!((attr.kind, attr.rdev, attr.perm), (kind, expected, 0o640));
        fails(
            vfs.mknod(&path, kind, 0o640, rdev),
            Errno::Exist,
            "mknod of what exists",
        );
        let entries = ok(vfs.readdir("/"), "readdir");
        assert!(entries.iter().any(|e| e.ino == attr.ino && e.kind == kind));
        if kind != FileKind::File {
            let opened = vfs.open(&path, vfs::OpenFlags::READ, 0).map(drop);
            fails(opened, Errno::NotSup, "open of a special file");
        }
        ok(vfs.unlink(&path), &path);
    }
    fails(
        vfs.mknod("/d", FileKind::Dir, 0o755, 0),
        Errno::Inval,
        "mknod of a directory",
    );
}
