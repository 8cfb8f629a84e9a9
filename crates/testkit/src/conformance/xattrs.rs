//! Extended attributes: values, modes, names, kinds of inodes, time stamps, and that attributes
//! stay with their inode and go with it.

use super::attributes::{CTIME, moves};
use super::{Case, done, fails, ok, open, write_file};
use std::sync::Arc;
use vfs::{Errno, RenameMode, Vfs, XattrMode};

pub(super) const CASES: &[Case] = &[
    ("xattr: set, get, list, remove", basics),
    ("xattr: sizes of values", sizes),
    ("xattr: create and replace", modes),
    ("xattr: names", names),
    ("xattr: symlinks and special files", kinds),
    ("xattr: belong to the inode", inode),
    ("xattr: times", times),
];

use XattrMode::{Any, Create, Replace};

fn list(vfs: &Arc<Vfs>, path: &str) -> Vec<String> {
    let names = ok(vfs.listxattr(path), "listxattr").into_iter();
    let mut names: Vec<String> = names
        .map(|name| String::from_utf8(name).expect("the suite uses ASCII names"))
        .collect();
    names.sort();
    names
}

fn basics(vfs: &Arc<Vfs>) {
    ok(vfs.mkdir("/d", 0o755), "mkdir");
    write_file(vfs, "/f", b"x");
    for path in ["/f", "/d", "/"] {
        assert_eq!(list(vfs, path), Vec::<String>::new());
        fails(vfs.getxattr(path, "user.a"), Errno::NoData, "get");
        fails(vfs.removexattr(path, "user.a"), Errno::NoData, "remove");
        for name in ["user.a", "trusted.a", "security.a"] {
            ok(vfs.setxattr(path, name, name.as_bytes(), Any), "set");
        }
        assert_eq!(list(vfs, path), ["security.a", "trusted.a", "user.a"]);
        ok(vfs.setxattr(path, "user.a", b"other", Any), "set again");
        assert_eq!(ok(vfs.getxattr(path, "user.a"), "get"), b"other");
        assert_eq!(ok(vfs.getxattr(path, "trusted.a"), "get"), b"trusted.a");
        ok(vfs.removexattr(path, "trusted.a"), "remove");
        fails(vfs.getxattr(path, "trusted.a"), Errno::NoData, "get");
        assert_eq!(list(vfs, path), ["security.a", "user.a"]);
    }
    fails(
        vfs.getxattr("/none", "user.a"),
        Errno::NoEnt,
        "no such file",
    );
}

fn sizes(vfs: &Arc<Vfs>) {
    write_file(vfs, "/f", b"x");
    ok(vfs.setxattr("/f", "user.stays", b"here", Any), "set");
    for len in [0, 1, 3, 4, 5, 60, 61, 100, 3000, 7, 2000, 0, 3500, 64] {
        let value: Vec<u8> = (0..len).map(|i| (i * 3 + len) as u8).collect();
        ok(vfs.setxattr("/f", "user.v", &value, Any), "set");
        assert_eq!(
            ok(vfs.getxattr("/f", "user.v"), "get"),
            value,
            "{len} bytes"
        );
        assert_eq!(ok(vfs.getxattr("/f", "user.stays"), "get"), b"here");
    }
    let huge = vec![1; 65_537];
    fails(
        vfs.setxattr("/f", "user.v", &huge, Any),
        Errno::TooBig,
        "64 KiB and more",
    );
    for n in 0..40 {
        let name = format!("user.number{n}");
        ok(vfs.setxattr("/f", &name, &[n; 10], Any), "one of many");
    }
    for n in (0..40).step_by(2) {
        ok(vfs.removexattr("/f", format!("user.number{n}")), "remove");
    }
    assert_eq!(list(vfs, "/f").len(), 22);
    for n in (1..40).step_by(2) {
        let name = format!("user.number{n}");
        assert_eq!(ok(vfs.getxattr("/f", &name), "get"), [n; 10]);
    }
}

fn modes(vfs: &Arc<Vfs>) {
    write_file(vfs, "/f", b"x");
    fails(
        vfs.setxattr("/f", "user.a", b"1", Replace),
        Errno::NoData,
        "replace",
    );
    ok(vfs.setxattr("/f", "user.a", b"1", Create), "create");
    fails(
        vfs.setxattr("/f", "user.a", b"2", Create),
        Errno::Exist,
        "create",
    );
    ok(vfs.setxattr("/f", "user.a", b"3", Replace), "replace");
    assert_eq!(ok(vfs.getxattr("/f", "user.a"), "get"), b"3");
}

fn names(vfs: &Arc<Vfs>) {
    write_file(vfs, "/f", b"x");
    let long = format!("user.{}", "n".repeat(250));
    ok(vfs.setxattr("/f", &long, b"v", Any), "255 bytes");
    assert_eq!(ok(vfs.getxattr("/f", &long), "get"), b"v");
    assert_eq!(list(vfs, "/f"), std::slice::from_ref(&long));
    for (name, errno) in [
        (format!("{long}n"), Errno::Range),
        (String::new(), Errno::Range),
        ("user.".into(), Errno::Inval),
        ("user".into(), Errno::NotSup),
        ("other.a".into(), Errno::NotSup),
        ("system.a".into(), Errno::NotSup),
    ] {
        fails(vfs.setxattr("/f", &name, b"v", Any), errno, &name);
        fails(vfs.getxattr("/f", &name), errno, &name);
        fails(vfs.removexattr("/f", &name), errno, &name);
    }
    ok(vfs.setxattr("/f", "user.A", b"1", Any), "set");
    fails(vfs.getxattr("/f", "user.a"), Errno::NoData, "case counts");
    fails(
        vfs.getxattr("/f", "trusted.A"),
        Errno::NoData,
        "so does the prefix",
    );
}

fn kinds(vfs: &Arc<Vfs>) {
    write_file(vfs, "/f", b"x");
    done(vfs.symlink("/f", "/l"), "symlink");
    ok(vfs.setxattr("/l", "user.a", b"1", Any), "followed");
    assert_eq!(ok(vfs.getxattr("/f", "user.a"), "get"), b"1");
    fails(
        vfs.lsetxattr("/l", "user.a", b"1", Any),
        Errno::Perm,
        "user. of a symlink",
    );
    fails(
        vfs.lgetxattr("/l", "user.a"),
        Errno::NoData,
        "user. of a symlink",
    );
    fails(
        vfs.lremovexattr("/l", "user.a"),
        Errno::Perm,
        "user. of a symlink",
    );
    ok(
        vfs.lsetxattr("/l", "trusted.a", b"2", Any),
        "of the symlink",
    );
    assert_eq!(ok(vfs.lgetxattr("/l", "trusted.a"), "get"), b"2");
    assert_eq!(ok(vfs.llistxattr("/l"), "list"), [b"trusted.a".to_vec()]);
    fails(
        vfs.getxattr("/l", "trusted.a"),
        Errno::NoData,
        "not of the file",
    );
    ok(vfs.lremovexattr("/l", "trusted.a"), "remove");
    assert_eq!(ok(vfs.readlink("/l"), "readlink"), b"/f");
    done(vfs.mknod("/p", vfs::FileKind::Fifo, 0o600, 0), "mknod");
    fails(
        vfs.setxattr("/p", "user.a", b"1", Any),
        Errno::Perm,
        "user. of a pipe",
    );
    ok(vfs.setxattr("/p", "security.a", b"1", Any), "of a pipe");
}

fn inode(vfs: &Arc<Vfs>) {
    let big = [5; 1000];
    write_file(vfs, "/f", b"x");
    ok(vfs.setxattr("/f", "user.a", &big, Any), "set");
    done(vfs.link("/f", "/g"), "link");
    assert_eq!(ok(vfs.getxattr("/g", "user.a"), "by the other name"), big);
    ok(vfs.rename("/f", "/h", RenameMode::Replace), "rename");
    ok(vfs.unlink("/g"), "unlink");
    assert_eq!(ok(vfs.getxattr("/h", "user.a"), "under the new name"), big);
    let file = open(vfs, "/h");
    ok(vfs.unlink("/h"), "unlink");
    assert_eq!(ok(file.getxattr("user.a"), "without a name"), big);
    ok(file.setxattr("user.b", b"late", Any), "without a name");
    assert_eq!(ok(file.listxattr(), "list").len(), 2);
    ok(file.removexattr("user.a"), "without a name");
    ok(file.fsync(), "fsync");
    ok(file.close(), "close");
    for n in 0..20 {
        let path = format!("/new{n}");
        write_file(vfs, &path, b"");
        assert_eq!(list(vfs, &path), Vec::<String>::new(), "of another inode");
    }
}

fn times(vfs: &Arc<Vfs>) {
    write_file(vfs, "/f", b"x");
    let set = || ok(vfs.setxattr("/f", "user.a", b"1", Any), "set");
    assert_eq!(moves(vfs, "/f", set), CTIME);
    let remove = || ok(vfs.removexattr("/f", "user.a"), "remove");
    assert_eq!(moves(vfs, "/f", remove), CTIME);
    let get = || drop(vfs.getxattr("/f", "user.a"));
    assert_eq!(moves(vfs, "/f", get), (false, false));
}
