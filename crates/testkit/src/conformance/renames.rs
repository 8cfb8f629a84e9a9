//! Renames over every kind of target, with replacing, without, and as an exchange. Renames that
//! leave a whiteout are not among them.

use super::{Case, content, fails, names, ok, open, read_file, write_file};
use std::sync::Arc;
use vfs::{Errno, FileKind, RenameMode, Vfs};

use RenameMode::{Exchange, NoReplace, Replace};

pub(super) const CASES: &[Case] = &[
    ("rename: plain", plain),
    ("rename: over a file", over_a_file),
    ("rename: kinds", kinds),
    ("rename: over a directory", over_a_directory),
    ("rename: directory to another parent", reparent),
    ("rename: into itself", into_itself),
    ("rename: hard links of one file", same_inode),
    ("rename: dots and slashes", dots_and_slashes),
    ("rename: no replace", no_replace),
    ("rename: exchange", exchange),
    ("rename: in a large directory", large),
];

fn tree(vfs: &Arc<Vfs>) {
    for dir in ["/a", "/a/b", "/a/b/c", "/d", "/d/empty"] {
        ok(vfs.mkdir(dir, 0o755), dir);
    }
    write_file(vfs, "/a/f", b"a/f");
    write_file(vfs, "/d/g", b"d/g");
}

fn plain(vfs: &Arc<Vfs>) {
    tree(vfs);
    let ino = ok(vfs.stat("/a/f"), "stat").ino;
    ok(vfs.rename("/a/f", "/a/f2", Replace), "same directory");
    fails(vfs.stat("/a/f"), Errno::NoEnt, "old name");
    ok(vfs.rename("/a/f2", "/d/f3", Replace), "other directory");
    assert_eq!(ok(vfs.stat("/d/f3"), "stat").ino, ino);
    assert_eq!(read_file(vfs, "/d/f3"), b"a/f");
    assert_eq!(
        (names(vfs, "/a"), names(vfs, "/d").len()),
        (vec!["b".to_string()], 3)
    );
    fails(
        vfs.rename("/none", "/x", Replace),
        Errno::NoEnt,
        "nothing to move",
    );
    fails(
        vfs.rename("/d/f3", "/none/x", Replace),
        Errno::NoEnt,
        "nowhere to go",
    );
    fails(
        vfs.rename("/d/f3", "/d/g/x", Replace),
        Errno::NotDir,
        "below a file",
    );
    ok(vfs.rename("/d/f3", "/d/f3", Replace), "onto itself");
    let long = "n".repeat(256);
    fails(
        vfs.rename("/d/f3", &long, Replace),
        Errno::NameTooLong,
        "long name",
    );
}

fn over_a_file(vfs: &Arc<Vfs>) {
    tree(vfs);
    let victim = open(vfs, "/d/g");
    let ino = victim.ino();
    ok(vfs.rename("/a/f", "/d/g", Replace), "replace");
    assert_eq!(read_file(vfs, "/d/g"), b"a/f");
    assert_eq!(content(&victim), b"d/g", "the open victim lives");
    assert_eq!(ok(victim.stat(), "stat").nlink, 0);
    ok(victim.close(), "close");
    fails(vfs.fs().getattr(ino), Errno::Stale, "the victim is free");
    assert_eq!(names(vfs, "/a"), ["b"]);
    write_file(vfs, "/d/h", b"h");
    ok(vfs.link("/d/h", "/d/h2"), "link");
    ok(
        vfs.rename("/d/g", "/d/h", Replace),
        "replace one of two names",
    );
    assert_eq!(ok(vfs.stat("/d/h2"), "stat").nlink, 1);
    assert_eq!(read_file(vfs, "/d/h2"), b"h");
}

fn kinds(vfs: &Arc<Vfs>) {
    tree(vfs);
    fails(
        vfs.rename("/a", "/d/g", Replace),
        Errno::NotDir,
        "directory over a file",
    );
    fails(
        vfs.rename("/a/f", "/d/empty", Replace),
        Errno::IsDir,
        "file over a directory",
    );
    ok(vfs.symlink("d", "/link"), "symlink");
    fails(
        vfs.rename("/a", "/link", Replace),
        Errno::NotDir,
        "directory over a symlink",
    );
    ok(vfs.rename("/link", "/a/f", Replace), "symlink over a file");
    assert_eq!(ok(vfs.lstat("/a/f"), "lstat").kind, FileKind::Symlink);
}

fn over_a_directory(vfs: &Arc<Vfs>) {
    tree(vfs);
    fails(
        vfs.rename("/a", "/d", Replace),
        Errno::NotEmpty,
        "over a full directory",
    );
    let before = ok(vfs.stat("/d"), "stat").nlink;
    ok(
        vfs.rename("/a/b", "/d/empty", Replace),
        "over an empty directory",
    );
    assert_eq!(
        ok(vfs.stat("/d"), "stat").nlink,
        before,
        "one came, one went"
    );
    assert_eq!(ok(vfs.stat("/a"), "stat").nlink, 2);
    assert_eq!(names(vfs, "/d/empty"), ["c"]);
    let up = ok(vfs.stat("/d/empty/.."), "stat").ino;
    assert_eq!(up, ok(vfs.stat("/d"), "stat").ino);
}

fn reparent(vfs: &Arc<Vfs>) {
    tree(vfs);
    let (a, d) = (ok(vfs.stat("/a"), "stat"), ok(vfs.stat("/d"), "stat"));
    ok(vfs.rename("/a/b", "/d/moved", Replace), "rename");
    assert_eq!(ok(vfs.stat("/a"), "stat").nlink, a.nlink - 1);
    assert_eq!(ok(vfs.stat("/d"), "stat").nlink, d.nlink + 1);
    assert_eq!(ok(vfs.stat("/d/moved/.."), "stat").ino, d.ino);
    assert_eq!(ok(vfs.stat("/d/moved"), "stat").nlink, 3);
    let entries = ok(vfs.readdir("/d/moved"), "readdir");
    let up = entries.iter().find(|e| e.name == b"..").expect("dotdot");
    assert_eq!(up.ino, d.ino);
}

fn into_itself(vfs: &Arc<Vfs>) {
    tree(vfs);
    fails(
        vfs.rename("/a", "/a/x", Replace),
        Errno::Inval,
        "into itself",
    );
    fails(
        vfs.rename("/a", "/a/b/c/x", Replace),
        Errno::Inval,
        "into its grandchild",
    );
    fails(
        vfs.rename("/a", "/a/b", Replace),
        Errno::Inval,
        "over its child",
    );
    fails(
        vfs.rename("/a/b/c", "/a", Replace),
        Errno::NotEmpty,
        "over its grandparent",
    );
    fails(
        vfs.rename("/a/f", "/a", Replace),
        Errno::NotEmpty,
        "file over its parent",
    );
    fails(
        vfs.rename("/a", "/a/b/c", Exchange),
        Errno::Inval,
        "exchange with a grandchild",
    );
    fails(
        vfs.rename("/a/b/c", "/a", Exchange),
        Errno::Inval,
        "exchange with a grandparent",
    );
    ok(vfs.stat("/a/b/c"), "nothing happened");
}

fn same_inode(vfs: &Arc<Vfs>) {
    tree(vfs);
    ok(vfs.link("/a/f", "/d/f"), "link");
    ok(
        vfs.rename("/a/f", "/d/f", Replace),
        "between two names of one file",
    );
    ok(vfs.stat("/a/f"), "both names stay");
    assert_eq!(ok(vfs.stat("/d/f"), "stat").nlink, 2);
}

fn dots_and_slashes(vfs: &Arc<Vfs>) {
    tree(vfs);
    for (from, to) in [
        ("/a/.", "/x"),
        ("/a/..", "/x"),
        ("/a/f", "/d/."),
        ("/", "/x"),
        ("/a/f", "/"),
    ] {
        fails(vfs.rename(from, to, Replace), Errno::Busy, from);
    }
    fails(
        vfs.rename("/a/f/", "/x", Replace),
        Errno::NotDir,
        "file with a slash",
    );
    fails(
        vfs.rename("/a/f", "/x/", Replace),
        Errno::NotDir,
        "file to a slash",
    );
    ok(vfs.rename("/a/", "/x/", Replace), "directory with slashes");
    assert_eq!(names(vfs, "/x"), ["b", "f"]);
}

fn no_replace(vfs: &Arc<Vfs>) {
    tree(vfs);
    fails(vfs.rename("/a/f", "/d/g", NoReplace), Errno::Exist, "taken");
    fails(
        vfs.rename("/a/f", "/a/f", NoReplace),
        Errno::Exist,
        "onto itself",
    );
    assert_eq!(read_file(vfs, "/d/g"), b"d/g");
    ok(vfs.rename("/a/f", "/d/h", NoReplace), "free");
    assert_eq!(read_file(vfs, "/d/h"), b"a/f");
}

fn exchange(vfs: &Arc<Vfs>) {
    tree(vfs);
    fails(
        vfs.rename("/a/f", "/none", Exchange),
        Errno::NoEnt,
        "nothing to exchange with",
    );
    ok(vfs.rename("/a/f", "/d/g", Exchange), "two files");
    assert_eq!(
        (read_file(vfs, "/a/f"), read_file(vfs, "/d/g")),
        (b"d/g".to_vec(), b"a/f".to_vec())
    );
    let links = |path: &str| ok(vfs.stat(path), path).nlink;
    assert_eq!((links("/a"), links("/d")), (3, 3));
    ok(
        vfs.rename("/a/b", "/d/g", Exchange),
        "a directory and a file",
    );
    assert_eq!(names(vfs, "/d/g"), ["c"]);
    assert_eq!(read_file(vfs, "/a/b"), b"a/f");
    assert_eq!((links("/a"), links("/d")), (2, 4));
    assert_eq!(
        ok(vfs.stat("/d/g/.."), "stat").ino,
        ok(vfs.stat("/d"), "stat").ino
    );
    ok(
        vfs.rename("/a", "/d/g/c", Exchange),
        "two directories at different depths",
    );
    assert_eq!(names(vfs, "/d/g/c"), ["b", "f"]);
    assert!(names(vfs, "/a").is_empty());
    assert_eq!(ok(vfs.stat("/a/.."), "stat").ino, vfs.fs().root());
}

fn large(vfs: &Arc<Vfs>) {
    ok(vfs.mkdir("/d", 0o755), "mkdir");
    let long = "y".repeat(60);
    for i in 0..150 {
        write_file(vfs, &format!("/d/{i}-{long}"), format!("{i}").as_bytes());
    }
    for i in 0..150 {
        let to = format!("/d/{long}-{i}");
        ok(vfs.rename(format!("/d/{i}-{long}"), &to, Replace), "rename");
        assert_eq!(read_file(vfs, &to), format!("{i}").as_bytes());
    }
    assert_eq!(names(vfs, "/d").len(), 150);
    let other = format!("/d/{long}-149");
    ok(
        vfs.rename(format!("/d/{long}-0"), &other, Replace),
        "replace",
    );
    assert_eq!(read_file(vfs, &other), b"0");
    assert_eq!(names(vfs, "/d").len(), 149);
}
