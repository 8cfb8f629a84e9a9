//! Flags of `chattr`, and projects.

use super::{BLOCK, KINDS, after_power_cut, volume};
use crate::common::{MIB, Volume, end, fresh, mount};
use crate::common::{made, options_of};
use base::BlockNo;
use block::Class;
use blockdev::{Ram, write_block};
use fscore::{
    Errno, FallocateMode, FileFlags, FileKind, FileSystem, RenameMode, SetAttr, TimeSet, XattrMode,
};
use ondisk::f2fs::{Features, Superblock};
use std::sync::Arc;
use testkit::Brief;
use testkit::errno;
use testkit::posix::{ROOT, chmod, file};
use testkit::volume::the_sync_flag_holds;
use varve_f2fs::mkfs::Options;

#[test]
fn flags_are_obeyed_and_kept() {
    for options in KINDS {
        let ram = volume(options);
        let fs = mount(&ram, options);
        let root = fs.root();
        let dir = fs.mkdir(root, b"dir", 0o755, ROOT).expect("mkdir").ino;
        let (still, log) = (
            file(&*fs, dir, "still", 0o644),
            file(&*fs, dir, "log", 0o644),
        );
        fs.write(still, 0, b"content").expect("write");
        fs.write(log, 0, b"line").expect("write");
        let set = |ino, flags: FileFlags| {
            let old = fs.file_flags(ino).expect("flags");
            fs.set_file_flags(ino, old | flags)
        };
        set(still, FileFlags::IMMUTABLE | FileFlags::NO_DUMP).expect("chattr +id");
        set(log, FileFlags::APPEND | FileFlags::NO_ATIME).expect("chattr +aA");
        assert_eq!(errno(set(still, FileFlags::NO_ATIME)), Errno::Perm);
        for bad in [FileFlags::DIR_SYNC, FileFlags::DAX, FileFlags(0x80_0000)] {
            assert_eq!(errno(set(log, bad)), Errno::NotSup, "{bad:?}");
        }
        assert_eq!(errno(set(dir, FileFlags::CASEFOLD)), Errno::NotSup);
        let cut = SetAttr {
            size: Some(1),
            ..SetAttr::default()
        };
        let touch = SetAttr {
            mtime: Some(TimeSet::Now),
            ..SetAttr::default()
        };
        let attr = |ino, name: &[u8]| fs.setxattr(ino, name, b"1", XattrMode::Any);
        for ino in [still, log] {
            let punch = fs.fallocate(ino, FallocateMode::PunchHole, 0, 1);
            for refused in [
                fs.setattr(ino, &cut).map(drop),
                chmod(&*fs, ino, 0o600),
                attr(ino, b"user.a"),
                fs.link(ino, root, b"again").map(drop),
                fs.fallocate(ino, FallocateMode::CollapseRange, 0, BLOCK),
                punch,
            ] {
                assert_eq!(errno(refused), Errno::Perm);
            }
        }
        assert_eq!(errno(fs.unlink(dir, b"still")), Errno::Perm);
        let moved = fs.rename(dir, b"log", dir, b"gol", RenameMode::Replace);
        assert_eq!(errno(moved), Errno::Perm);
        assert_eq!(errno(fs.write(still, 0, b"x")), Errno::Perm);
        let kept = fs.fallocate(still, FallocateMode::KeepSize, 0, 1);
        assert_eq!(errno(kept), Errno::Perm);
        assert_eq!(errno(fs.setattr(still, &touch)), Errno::Perm);
        fs.setattr(log, &touch).expect("a touch");
        fs.write(log, 4, b"more").expect("appended");
        set(dir, FileFlags::APPEND | FileFlags::DIR_SYNC).expect("chattr +aD");
        let new = file(&*fs, dir, "new", 0o644);
        assert_eq!(errno(fs.unlink(dir, b"new")), Errno::Perm);
        set(dir, FileFlags::IMMUTABLE).expect("chattr +i");
        let more = fs.create(dir, b"more", FileKind::File, 0o644, 0, ROOT);
        assert_eq!(errno(more), Errno::Perm);
        assert_eq!(errno(fs.mkdir(dir, b"more", 0o755, ROOT)), Errno::Perm);
        assert_eq!(errno(fs.link(new, dir, b"more")), Errno::Perm);
        let inos = [still, log, dir];
        let shown = inos.map(|ino| fs.file_flags(ino).expect("flags"));
        fs.unmount().expect("unmount");
        let fs = mount(&ram, options);
        assert_eq!(inos.map(|ino| fs.file_flags(ino).expect("flags")), shown);
        let still_set = FileFlags::IMMUTABLE | FileFlags::NO_DUMP;
        assert_eq!(shown[0], still_set);
        assert_eq!(shown[1], FileFlags::APPEND | FileFlags::NO_ATIME);
        for ino in inos {
            fs.set_file_flags(ino, FileFlags::default())
                .expect("chattr =");
        }
        fs.unlink(dir, b"still").expect("unlink");
        end(&fs, &ram);
    }
}

/// What was written to a file with `sync`, or made in a directory with `dirsync`, is there after a
/// cut without an fsync.
#[test]
fn synchronous_files_and_directories() {
    for options in KINDS {
        let start = volume(options).blocks().into_iter().collect();
        let left = after_power_cut(start, options, 3, |fs| {
            let dir = fs.mkdir(fs.root(), b"dir", 0o755, ROOT).expect("mkdir").ino;
            fs.set_file_flags(dir, FileFlags::DIR_SYNC)
                .expect("chattr +D");
            let f = file(fs, dir, "f", 0o644);
            fs.set_file_flags(f, FileFlags::SYNC).expect("chattr +S");
            fs.write(f, 0, &[7; 10_000]).expect("write");
        });
        let fs = mount(&left, options);
        let dir = fs.find(b"dir");
        let f = fs.lookup(dir, b"f").expect("there");
        assert_eq!(fs.content(f), [7; 10_000], "{options}");
        fs.unmount().expect("unmount");
    }
}

#[test]
fn every_change_of_a_synchronous_file_is_durable() {
    for options in KINDS {
        the_sync_flag_holds(&Volume::new(volume(options), options));
    }
}

/// A volume whose inodes have projects, without the hidden files in which they are counted:
/// `mkfs.f2fs` makes those always, and then it is mounted read-only.
fn with_projects() -> Arc<Ram> {
    let options = Options {
        features: Features::EXTRA_ATTR,
        ..options_of(64 * MIB)
    };
    let ram = made(&options);
    for (n, block) in ram.blocks().into_iter().filter(|(n, _)| *n < 2) {
        let mut block = block.to_vec();
        let mut sb = Superblock::in_block(&block).expect("a copy");
        sb.set_features(Features::EXTRA_ATTR | Features::PRJQUOTA);
        sb.encode(&mut block);
        write_block(&ram, BlockNo(n).lba(), Class::Home, block.into()).expect("in range");
    }
    ram
}

#[test]
fn projects_are_kept_and_inherited() {
    let ram = with_projects();
    let fs = mount(&ram, "");
    let root = fs.root();
    let dir = fs.mkdir(root, b"dir", 0o755, ROOT).expect("mkdir").ino;
    fs.set_project(dir, 42).expect("a project");
    let flags = FileFlags::PROJECT_INHERIT;
    fs.set_file_flags(dir, flags).expect("chattr +P");
    let inside = fs.mkdir(dir, b"inside", 0o755, ROOT).expect("mkdir").ino;
    let f = file(&*fs, inside, "f", 0o644);
    let project = |ino| fs.project(ino).expect("a project");
    assert_eq!((project(f), project(root)), (42, 0));
    let other = file(&*fs, root, "other", 0o644);
    assert_eq!(errno(fs.link(other, dir, b"other")), Errno::XDev);
    let moved = fs.rename(root, b"other", dir, b"other", RenameMode::Replace);
    assert_eq!(errno(moved), Errno::XDev);
    fs.unmount().expect("unmount");
    let fs = mount(&ram, "");
    assert_eq!(fs.project(f).expect("a project"), 42);
    assert_eq!(fs.file_flags(inside).expect("flags"), flags);
    end(&fs, &ram);
    let plain = mount(&fresh(64), "");
    let root = plain.root();
    assert_eq!(errno(plain.set_project(root, 1)), Errno::NotSup);
    plain.set_project(root, 0).expect("as it is");
}
