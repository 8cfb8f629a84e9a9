//! Attributes, which operation moves which time stamp, and the counts of statfs.

use super::{Case, done, ok, open, tick, write_file};
use rt::WallTime;
use std::sync::Arc;
use vfs::{Attr, RenameMode, TimeSet, Vfs};

pub(super) const CASES: &[Case] = &[
    ("attr: chmod", chmod),
    ("attr: chown", chown),
    ("attr: set-group-id directories", set_gid_directory),
    ("attr: utimes", utimes),
    ("times: new inodes", times_of_new),
    ("times: content", times_of_content),
    ("times: names", times_of_names),
    ("statfs", statfs),
];

fn chmod(vfs: &Arc<Vfs>) {
    write_file(vfs, "/f", b"x");
    for perm in [0, 0o777, 0o7777, 0o640] {
        ok(vfs.chmod("/f", perm), "chmod");
        assert_eq!(ok(vfs.stat("/f"), "stat").perm, perm);
    }
    ok(vfs.chmod("/f", 0o170_644), "chmod with bits of the kind");
    assert_eq!(ok(vfs.stat("/f"), "stat").perm, 0o644);
}

fn chown(vfs: &Arc<Vfs>) {
    write_file(vfs, "/f", b"x");
    ok(vfs.chmod("/f", 0o6755), "chmod");
    ok(vfs.chown("/f", Some(100_000), None), "chown");
    let attr = ok(vfs.stat("/f"), "stat");
    assert_eq!((attr.uid, attr.gid), (100_000, 0), "32-bit ids");
    assert_eq!(attr.perm, 0o755, "set-id bits are gone");
    ok(vfs.chmod("/f", 0o2644), "chmod");
    ok(vfs.chown("/f", None, Some(70_000)), "chgrp");
    let attr = ok(vfs.stat("/f"), "stat");
    assert_eq!((attr.uid, attr.gid), (100_000, 70_000));
    assert_eq!(attr.perm, 0o2644, "mandatory locking mark stays");
    ok(vfs.mkdir("/d", 0o755), "mkdir");
    ok(vfs.chmod("/d", 0o6755), "chmod");
    ok(vfs.chown("/d", Some(1), Some(1)), "chown");
    assert_eq!(
        ok(vfs.stat("/d"), "stat").perm,
        0o6755,
        "directories keep them"
    );
}

fn set_gid_directory(vfs: &Arc<Vfs>) {
    ok(vfs.mkdir("/d", 0o755), "mkdir");
    ok(vfs.chown("/d", None, Some(50)), "chown");
    ok(vfs.chmod("/d", 0o2755), "chmod");
    write_file(vfs, "/d/f", b"x");
    assert_eq!(ok(vfs.stat("/d/f"), "stat").gid, 50);
    let sub = ok(vfs.mkdir("/d/e", 0o700), "mkdir");
    assert_eq!((sub.gid, sub.perm), (50, 0o2700));
}

fn utimes(vfs: &Arc<Vfs>) {
    write_file(vfs, "/f", b"x");
    let before = ok(vfs.stat("/f"), "stat");
    tick();
    let old = WallTime {
        secs: 1_000_000_000,
        nanos: 123_456_789,
    };
    ok(vfs.utimes("/f", Some(TimeSet::To(old)), None), "utimes");
    let attr = ok(vfs.stat("/f"), "stat");
    assert_eq!((attr.atime, attr.mtime), (old, before.mtime));
    assert!(attr.ctime > before.ctime);
    let ancient = WallTime {
        secs: -1000,
        nanos: 1,
    };
    let beyond_2038 = WallTime {
        secs: 1 << 32,
        nanos: 999_999_999,
    };
    for time in [ancient, beyond_2038] {
        ok(vfs.utimes("/f", None, Some(TimeSet::To(time))), "utimes");
        assert_eq!(ok(vfs.stat("/f"), "stat").mtime, time);
    }
    ok(
        vfs.utimes("/f", Some(TimeSet::Now), Some(TimeSet::Now)),
        "utimes",
    );
    let attr = ok(vfs.stat("/f"), "stat");
    assert!(attr.mtime > before.mtime && attr.atime > before.atime);
}

/// Which of (mtime, ctime) moved.
fn moved(before: &Attr, after: &Attr) -> (bool, bool) {
    assert_eq!(before.crtime, after.crtime, "crtime never moves");
    assert!(after.mtime >= before.mtime && after.ctime >= before.ctime);
    (after.mtime > before.mtime, after.ctime > before.ctime)
}

/// Runs `f` and tells which times of `path` it moved.
pub(super) fn moves(vfs: &Arc<Vfs>, path: &str, f: impl FnOnce()) -> (bool, bool) {
    let before = ok(vfs.lstat(path), path);
    tick();
    f();
    moved(&before, &ok(vfs.lstat(path), path))
}

pub(super) const BOTH: (bool, bool) = (true, true);
pub(super) const CTIME: (bool, bool) = (false, true);
const NONE: (bool, bool) = (false, false);

fn times_of_new(vfs: &Arc<Vfs>) {
    let start = rt::wall();
    tick();
    let root = moves(vfs, "/", || write_file(vfs, "/f", b""));
    assert_eq!(root, BOTH, "create changes the directory");
    let attr = ok(vfs.stat("/f"), "stat");
    assert!(attr.mtime > start && attr.mtime == attr.ctime && attr.atime == attr.mtime);
    assert_eq!(attr.crtime, attr.mtime);
    assert_eq!(
        moves(vfs, "/", || done(vfs.mkdir("/d", 0o755), "mkdir")),
        BOTH
    );
    assert_eq!(
        moves(vfs, "/", || done(vfs.symlink("x", "/l"), "symlink")),
        BOTH
    );
    assert_eq!(
        moves(vfs, "/", || assert!(vfs.mkdir("/d", 0o755).is_err())),
        NONE,
        "a failed mkdir"
    );
    assert_eq!(
        moves(vfs, "/", || done(vfs.mkdir("/d/e", 0o755), "mkdir")),
        NONE
    );
}

fn times_of_content(vfs: &Arc<Vfs>) {
    let file = open(vfs, "/f");
    let f = "/f";
    let write = |data: &[u8]| assert_eq!(ok(file.write_at(0, data), "write"), data.len());
    assert_eq!(moves(vfs, f, || write(b"abc")), BOTH);
    assert_eq!(moves(vfs, f, || write(b"")), NONE, "empty write");
    assert_eq!(moves(vfs, f, || ok(file.truncate(1), "truncate")), BOTH);
    assert_eq!(moves(vfs, f, || ok(file.truncate(9), "extend")), BOTH);
    assert_eq!(moves(vfs, f, || ok(file.fsync(), "fsync")), NONE);
    assert_eq!(moves(vfs, f, || ok(vfs.chmod(f, 0o600), "chmod")), CTIME);
    assert_eq!(
        moves(vfs, f, || ok(vfs.chown(f, Some(3), None), "chown")),
        CTIME
    );
    ok(file.close(), "close");
}

fn times_of_names(vfs: &Arc<Vfs>) {
    ok(vfs.mkdir("/d", 0o755), "mkdir");
    ok(vfs.mkdir("/e", 0o755), "mkdir");
    write_file(vfs, "/d/f", b"x");
    let link = || done(vfs.link("/d/f", "/e/g"), "link");
    assert_eq!(moves(vfs, "/d/f", link), CTIME, "link");
    ok(vfs.unlink("/e/g"), "unlink");
    assert_eq!(moves(vfs, "/e", link), BOTH, "link changes the directory");
    assert_eq!(
        moves(vfs, "/d/f", || ok(vfs.unlink("/e/g"), "unlink")),
        CTIME
    );
    link();
    assert_eq!(moves(vfs, "/e", || ok(vfs.unlink("/e/g"), "unlink")), BOTH);
    let there = || ok(vfs.rename("/d/f", "/e/f", RenameMode::Replace), "rename");
    let back = || ok(vfs.rename("/e/f", "/d/f", RenameMode::Replace), "rename");
    assert_eq!(moves(vfs, "/d", there), BOTH, "rename, from");
    assert_eq!(moves(vfs, "/d", back), BOTH, "rename, to");
    let file = ok(vfs.stat("/d/f"), "stat");
    tick();
    there();
    assert_eq!(
        moved(&file, &ok(vfs.stat("/e/f"), "stat")),
        CTIME,
        "rename, the file"
    );
    ok(vfs.mkdir("/e/s", 0o755), "mkdir");
    assert_eq!(moves(vfs, "/e", || ok(vfs.rmdir("/e/s"), "rmdir")), BOTH);
}

fn statfs(vfs: &Arc<Vfs>) {
    let before = ok(vfs.statfs(), "statfs");
    assert_eq!((before.block_bytes, before.name_bytes_max), (4096, 255));
    assert!(before.blocks_free <= before.blocks && before.blocks_available <= before.blocks_free);
    write_file(vfs, "/f", &[1; 100_000]);
    ok(vfs.sync(), "sync");
    let after = ok(vfs.statfs(), "statfs");
    assert!(
        before.blocks_free - after.blocks_free >= 25,
        "100 000 bytes take 25 blocks"
    );
    assert_eq!(before.inodes_free - after.inodes_free, 1);
    ok(vfs.unlink("/f"), "unlink");
    ok(vfs.sync(), "sync");
    assert_eq!(ok(vfs.statfs(), "statfs").inodes_free, before.inodes_free);
}
