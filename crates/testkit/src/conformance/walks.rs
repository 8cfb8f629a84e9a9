//! The path walk: how names lead to inodes, and which errors a path gives; and the flags of an
//! open, with what its handle then may do.

use super::{Case, fails, names, ok, open, read_file, write_file};
use std::sync::Arc;
use vfs::{Errno, OpenFlags, SetAttr, Vfs};

pub(super) const CASES: &[Case] = &[
    ("walk: plain paths", plain),
    ("walk: through a file", through_a_file),
    ("walk: trailing slashes", trailing_slashes),
    ("walk: dots in last place", dots),
    ("walk: length limits", lengths),
    ("walk: symlinks", symlinks),
    ("walk: symlink loops", loops),
    ("open: flags", open_flags),
    ("open: handle modes", handle_modes),
];

fn plain(vfs: &Arc<Vfs>) {
    ok(vfs.mkdir("/a", 0o755), "mkdir");
    ok(vfs.mkdir("a/b", 0o755), "relative paths start at the root");
    write_file(vfs, "/a/b/f", b"x");
    let ino = ok(vfs.stat("/a/b/f"), "stat").ino;
    for path in ["a/b/f", "//a//b//f", "/a/./b/../b/f", "/../a/b/f"] {
        assert_eq!(ok(vfs.stat(path), path).ino, ino, "{path}");
    }
    assert_eq!(ok(vfs.stat("/"), "root").ino, vfs.fs().root());
    fails(vfs.stat(""), Errno::NoEnt, "empty path");
    fails(vfs.stat("/a/x"), Errno::NoEnt, "missing name");
    fails(vfs.stat("/x/y"), Errno::NoEnt, "missing directory");
    fails(vfs.stat(b"/a\0b"), Errno::Inval, "NUL in a path");
}

fn through_a_file(vfs: &Arc<Vfs>) {
    write_file(vfs, "/f", b"x");
    fails(vfs.stat("/f/g"), Errno::NotDir, "name below a file");
    fails(vfs.stat("/f/."), Errno::NotDir, "dot below a file");
    fails(vfs.stat("/f/.."), Errno::NotDir, "dotdot below a file");
    fails(
        vfs.mkdir("/f/d", 0o755),
        Errno::NotDir,
        "mkdir below a file",
    );
    let inside = vfs.fs().lookup(ok(vfs.stat("/f"), "stat").ino, b"g");
    fails(inside, Errno::NotDir, "lookup in a file");
    fails(vfs.readdir("/f"), Errno::NotDir, "readdir of a file");
}

fn trailing_slashes(vfs: &Arc<Vfs>) {
    ok(vfs.mkdir("/d/", 0o755), "mkdir with a slash");
    write_file(vfs, "/f", b"x");
    ok(vfs.symlink("d", "/to_d"), "symlink");
    ok(vfs.symlink("f", "/to_f"), "symlink");
    ok(vfs.stat("/d/"), "directory with a slash");
    fails(vfs.stat("/f/"), Errno::NotDir, "file with a slash");
    assert_eq!(
        ok(vfs.lstat("/to_d/"), "lstat follows before a slash").ino,
        ok(vfs.stat("/d"), "stat").ino
    );
    fails(vfs.lstat("/to_f/"), Errno::NotDir, "link to a file, slash");
    let flags = OpenFlags::READ_WRITE | OpenFlags::CREATE;
    fails(
        vfs.open("/n/", flags, 0o644).map(drop),
        Errno::IsDir,
        "open(O_CREAT) with a slash",
    );
    fails(vfs.unlink("/f/"), Errno::NotDir, "unlink of a file, slash");
    fails(
        vfs.unlink("/d/"),
        Errno::IsDir,
        "unlink of a directory, slash",
    );
    fails(
        vfs.unlink("/to_d/"),
        Errno::NotDir,
        "unlink of a link, slash",
    );
    fails(vfs.rmdir("/to_d/"), Errno::NotDir, "rmdir of a link, slash");
    fails(
        vfs.symlink("x", "/new/"),
        Errno::NoEnt,
        "symlink with a slash",
    );
    fails(
        vfs.symlink("x", "/f/"),
        Errno::Exist,
        "symlink at a file, slash",
    );
    fails(vfs.link("/f", "/new/"), Errno::NoEnt, "link with a slash");
    ok(vfs.rmdir("/d/"), "rmdir with a slash");
    assert_eq!(names(vfs, "/"), expected(vfs, &["f", "to_d", "to_f"]));
}

/// `names`, and `lost+found` where the file system has that directory.
fn expected(vfs: &Vfs, names: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = names.iter().map(ToString::to_string).collect();
    if vfs.stat("/lost+found").is_ok() {
        all.push("lost+found".into());
    }
    all.sort();
    all
}

fn dots(vfs: &Arc<Vfs>) {
    ok(vfs.mkdir("/d", 0o755), "mkdir");
    ok(vfs.mkdir("/d/e", 0o755), "mkdir");
    fails(vfs.mkdir("/d/.", 0o755), Errno::Exist, "mkdir of dot");
    fails(vfs.mkdir("/d/..", 0o755), Errno::Exist, "mkdir of dotdot");
    fails(vfs.mkdir("/", 0o755), Errno::Exist, "mkdir of the root");
    fails(vfs.rmdir("/d/."), Errno::Inval, "rmdir of dot");
    fails(vfs.rmdir("/d/e/.."), Errno::NotEmpty, "rmdir of dotdot");
    fails(vfs.rmdir("/"), Errno::Busy, "rmdir of the root");
    fails(vfs.unlink("/d/."), Errno::IsDir, "unlink of dot");
    fails(vfs.unlink("/d/.."), Errno::IsDir, "unlink of dotdot");
}

fn lengths(vfs: &Arc<Vfs>) {
    let name = "n".repeat(255);
    write_file(vfs, &name, b"long");
    assert_eq!(read_file(vfs, &name), b"long");
    let longer = "n".repeat(256);
    let create = OpenFlags::WRITE | OpenFlags::CREATE;
    fails(vfs.stat(&longer), Errno::NameTooLong, "name of 256 bytes");
    fails(
        vfs.open(&longer, create, 0o644).map(drop),
        Errno::NameTooLong,
        "create, 256 bytes",
    );
    fails(
        vfs.mkdir(&longer, 0o755),
        Errno::NameTooLong,
        "mkdir, 256 bytes",
    );
    fails(
        vfs.stat(format!("/{longer}/x")),
        Errno::NameTooLong,
        "256 bytes in the middle",
    );
    let dots = "./".repeat(2047);
    ok(vfs.stat(format!("{dots}.")), "path of 4095 bytes");
    fails(
        vfs.stat(format!("{dots}./")),
        Errno::NameTooLong,
        "path of 4096 bytes",
    );
    ok(vfs.unlink(&name), "unlink of a long name");
}

fn symlinks(vfs: &Arc<Vfs>) {
    ok(vfs.mkdir("/d", 0o755), "mkdir");
    write_file(vfs, "/d/f", b"target");
    ok(vfs.symlink("../d/f", "/d/relative"), "symlink");
    ok(vfs.symlink("/d", "/absolute"), "symlink");
    assert_eq!(read_file(vfs, "/d/relative"), b"target");
    assert_eq!(read_file(vfs, "/absolute/f"), b"target");
    assert_eq!(read_file(vfs, "/absolute/../d/relative"), b"target");
    ok(vfs.symlink("/d/new", "/dangling"), "dangling symlink");
    fails(vfs.stat("/dangling"), Errno::NoEnt, "dangling symlink");
    write_file(vfs, "/dangling", b"made");
    assert_eq!(
        read_file(vfs, "/d/new"),
        b"made",
        "open(O_CREAT) makes the target"
    );
    fails(
        vfs.mkdir("/absolute", 0o755),
        Errno::Exist,
        "mkdir at a symlink",
    );
    fails(vfs.readlink("/d"), Errno::Inval, "readlink of a directory");
    fails(vfs.symlink("", "/empty"), Errno::NoEnt, "empty target");
    let set = SetAttr {
        perm: Some(0o600),
        ..SetAttr::default()
    };
    ok(vfs.set_attr("/d/relative", &set), "chmod through a symlink");
    assert_eq!(ok(vfs.stat("/d/f"), "stat").perm, 0o600);
    assert_eq!(ok(vfs.lstat("/d/relative"), "lstat").perm, 0o777);
}

fn loops(vfs: &Arc<Vfs>) {
    ok(vfs.symlink("/b", "/a"), "symlink");
    ok(vfs.symlink("/a", "/b"), "symlink");
    fails(vfs.stat("/a"), Errno::Loop, "loop of two");
    fails(vfs.stat("/a/x"), Errno::Loop, "loop in the middle");
    ok(vfs.symlink("self/x", "/self"), "symlink");
    fails(vfs.stat("/self"), Errno::Loop, "loop that grows");
    write_file(vfs, "/l0", b"end");
    for i in 1..=41 {
        ok(
            vfs.symlink(format!("l{}", i - 1), format!("/l{i}")),
            "chain",
        );
    }
    assert_eq!(read_file(vfs, "/l40"), b"end", "40 links are followed");
    fails(vfs.stat("/l41"), Errno::Loop, "41 links are not");
}

fn open_flags(vfs: &Arc<Vfs>) {
    let create = OpenFlags::READ_WRITE | OpenFlags::CREATE;
    let try_open = |path: &str, flags| vfs.open(path, flags, 0o644).and_then(|f| f.close());
    fails(try_open("/f", OpenFlags::READ), Errno::NoEnt, "no file");
    ok(try_open("/f", create | OpenFlags::EXCL), "exclusive create");
    fails(
        try_open("/f", create | OpenFlags::EXCL),
        Errno::Exist,
        "exclusive, exists",
    );
    ok(try_open("/f", create), "create of what exists");
    ok(vfs.symlink("nowhere", "/link"), "symlink");
    fails(
        try_open("/link", create | OpenFlags::EXCL),
        Errno::Exist,
        "exclusive, dangling link",
    );
    fails(vfs.stat("/nowhere"), Errno::NoEnt, "nothing was made");
    fails(
        try_open("/link", OpenFlags::READ | OpenFlags::NOFOLLOW),
        Errno::Loop,
        "O_NOFOLLOW",
    );
    ok(vfs.mkdir("/d", 0o755), "mkdir");
    fails(
        try_open("/d", OpenFlags::WRITE),
        Errno::IsDir,
        "directory for writing",
    );
    fails(
        try_open("/d", create),
        Errno::IsDir,
        "create of a directory",
    );
    fails(
        try_open("/f", OpenFlags::READ | OpenFlags::DIRECTORY),
        Errno::NotDir,
        "O_DIRECTORY",
    );
    ok(
        try_open("/d", OpenFlags::READ | OpenFlags::DIRECTORY),
        "directory",
    );
    write_file(vfs, "/f", b"content");
    ok(
        try_open("/f", OpenFlags::WRITE | OpenFlags::TRUNC),
        "truncate",
    );
    assert_eq!(read_file(vfs, "/f"), b"");
}

fn handle_modes(vfs: &Arc<Vfs>) {
    write_file(vfs, "/f", b"abc");
    let reader = ok(vfs.open("/f", OpenFlags::READ, 0), "open");
    fails(reader.write_at(0, b"x"), Errno::BadF, "write without WRITE");
    fails(reader.truncate(0), Errno::BadF, "truncate without WRITE");
    let writer = ok(vfs.open("/f", OpenFlags::WRITE, 0), "open");
    fails(
        writer.read_at(0, &mut [0]),
        Errno::BadF,
        "read without READ",
    );
    let dir = ok(vfs.open("/", OpenFlags::READ, 0), "open");
    fails(
        dir.read_at(0, &mut [0]),
        Errno::IsDir,
        "read of a directory",
    );
    ok(dir.fsync(), "fsync of a directory");
    fails(reader.read_dir(0, 8), Errno::NotDir, "entries of a file");
    fails(vfs.unmount(), Errno::Busy, "unmount with open files");
    for file in [reader, writer, dir, open(vfs, "/g")] {
        ok(file.close(), "close");
    }
}
