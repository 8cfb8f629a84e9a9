//! Renames that leave a whiteout.

use super::{BLOCK, KINDS, after_power_cut, volume};
use crate::common::{end, fresh, judge, mount};
use base::Ino;
use fscore::{Creds, Errno, FileKind, FileSystem, FsResult, RenameMode};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::errno;
use testkit::posix::{ROOT, file};
use varve_f2fs::F2fs;

const OWNER: Creds = Creds {
    uid: 5,
    gid: 6,
    umask: 0,
};

#[track_caller]
fn is_whiteout(fs: &F2fs, dir: Ino, name: &str) -> bool {
    let Ok(ino) = fs.lookup(dir, name.as_bytes()) else {
        return false;
    };
    let attr = fs.getattr(ino).expect("stat");
    if attr.kind != FileKind::Char {
        return false;
    }
    assert_eq!((attr.rdev, attr.perm, attr.nlink), (0, 0, 1));
    assert_eq!((attr.uid, attr.gid), (5, 6));
    true
}

#[test]
fn a_rename_leaves_a_whiteout_if_asked_to() {
    for options in KINDS {
        let ram = volume(options);
        let fs = mount(&ram, options);
        let root = fs.root();
        let dir = fs.mkdir(root, b"dir", 0o755, ROOT).expect("mkdir").ino;
        let names = ["a", "b", "c", "d"];
        let inos = names.map(|name| file(&*fs, root, name, 0o644));
        let rename = |from: &str, to: (Ino, &str), mode| {
            fs.rename(root, from.as_bytes(), to.0, to.1.as_bytes(), mode)
        };
        let whiteout = RenameMode::Whiteout(OWNER);
        let kept = RenameMode::WhiteoutNoReplace(OWNER);
        rename("a", (root, "moved"), whiteout).expect("in its directory");
        assert_eq!(errno(rename("b", (root, "c"), kept)), Errno::Exist);
        assert!(!is_whiteout(&fs, root, "b"));
        rename("b", (root, "c"), whiteout).expect("replaced");
        rename("d", (dir, "d"), kept).expect("to another directory");
        let top = fs.mkdir(root, b"tree", 0o755, ROOT).expect("mkdir").ino;
        rename("tree", (dir, "tree"), whiteout).expect("a directory");
        for name in ["a", "b", "d", "tree"] {
            assert!(is_whiteout(&fs, root, name), "{name}");
        }
        let find = |dir, name: &[u8]| fs.lookup(dir, name).expect("there");
        assert_eq!(find(root, b"moved"), inos[0]);
        assert_eq!(find(root, b"c"), inos[1]);
        assert_eq!(find(dir, b"d"), inos[3]);
        assert_eq!((find(dir, b"tree"), find(top, b"..")), (top, dir));
        assert_eq!(errno(fs.getattr(inos[2])), Errno::Stale, "was replaced");
        let links = |ino| fs.getattr(ino).expect("stat").nlink;
        assert_eq!((links(root), links(dir)), (3, 3));
        // A whiteout is a file like others: it is replaced, and removed.
        rename("c", (root, "a"), RenameMode::Replace).expect("over a whiteout");
        fs.unlink(root, b"b").expect("unlink");
        // Of many entries, whose blocks split.
        for n in 0..200 {
            let name = format!("many-{n}-{}", "x".repeat(40));
            file(&*fs, dir, &name, 0o644);
            let to = format!("to-{n}-{}", "y".repeat(40));
            fs.rename(dir, name.as_bytes(), dir, to.as_bytes(), whiteout)
                .expect("renamed");
        }
        fs.unmount().expect("unmount");
        let fs = mount(&ram, options);
        let entries = fs.readdir(dir, 0, 1000).expect("readdir");
        let whiteouts = entries.iter().filter(|e| e.kind == FileKind::Char);
        assert_eq!((entries.len(), whiteouts.count()), (404, 200));
        assert!(is_whiteout(&fs, root, "tree"));
        end(&fs, &ram);
    }
}

#[test]
fn a_cut_leaves_a_whiteout_with_the_new_name_or_neither() {
    const FILES: usize = 24;
    for options in KINDS {
        for seed in 0..12u64 {
            let synced = Arc::new(AtomicUsize::new(0));
            let told = Arc::clone(&synced);
            let start = volume(options).blocks().into_iter().collect();
            let left = after_power_cut(start, options, seed, move |fs| {
                let root = fs.root();
                let dir = fs.mkdir(root, b"dir", 0o755, ROOT).expect("mkdir").ino;
                for n in 0..FILES {
                    file(fs, root, &format!("old{n}"), 0o644);
                    if n % 3 == 0 {
                        file(fs, dir, &format!("new{n}"), 0o600);
                    }
                }
                fs.sync().expect("sync");
                for n in 0..FILES {
                    let (old, new) = (format!("old{n}"), format!("new{n}"));
                    let mode = RenameMode::Whiteout(OWNER);
                    fs.rename(root, old.as_bytes(), dir, new.as_bytes(), mode)
                        .expect("renamed");
                    if (n as u64 + seed).is_multiple_of(7) {
                        fs.fsync(dir, false).expect("fsync");
                        told.store(n + 1, Ordering::Relaxed);
                    }
                }
            });
            let fs = mount(&left, options);
            let root = fs.root();
            let dir = fs.lookup(root, b"dir").expect("synced");
            for n in 0..FILES {
                let (old, new) = (format!("old{n}"), format!("new{n}"));
                let moved = is_whiteout(&fs, root, &old);
                let perm = |found: FsResult<Ino>| {
                    let ino = found.ok()?;
                    Some(fs.getattr(ino).expect("stat").perm)
                };
                let there = perm(fs.lookup(dir, new.as_bytes()));
                let wanted = match moved {
                    true => Some(0o644),
                    false => (n % 3 == 0).then_some(0o600),
                };
                assert_eq!(there, wanted, "{options}, seed {seed}, {new}");
                if !moved {
                    let perm = perm(fs.lookup(root, old.as_bytes()));
                    assert_eq!(perm, Some(0o644), "{options}, seed {seed}, {old}");
                }
                let synced = synced.load(Ordering::Relaxed);
                assert!(moved || n >= synced, "{options}, seed {seed}, {old}");
            }
            fs.unmount().expect("unmount");
            if seed == 0 {
                judge(&left);
            }
        }
    }
}

#[test]
fn a_whiteout_without_room_changes_nothing() {
    let ram = fresh(64);
    let fs = mount(&ram, "");
    let root = fs.root();
    let a = file(&*fs, root, "a", 0o644);
    let b = file(&*fs, root, "b", 0o644);
    let full = file(&*fs, root, "full", 0o644);
    let mut at = 0;
    // A node for the whiteout is one block.
    let free = || fs.statfs().expect("statfs").blocks_free;
    while free() > 0 {
        let wrote = fs.write(full, at, &[1; BLOCK as usize]).unwrap_or(0);
        at += BLOCK.max(wrote as u64);
    }
    for to in [&b"b"[..], b"new"] {
        let done = fs.rename(root, b"a", root, to, RenameMode::Whiteout(OWNER));
        assert_eq!(errno(done), Errno::NoSpc);
    }
    assert_eq!(fs.lookup(root, b"a").expect("there"), a);
    assert_eq!(fs.lookup(root, b"b").expect("there"), b);
    assert_eq!(errno(fs.lookup(root, b"new")), Errno::NoEnt);
    fs.unlink(root, b"full").expect("unlink");
    fs.rename(root, b"a", root, b"b", RenameMode::Whiteout(OWNER))
        .expect("there is room");
    end(&fs, &ram);
}
