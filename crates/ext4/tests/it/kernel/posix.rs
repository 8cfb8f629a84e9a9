//! Features beyond files and names, compared with the running kernel: flags, ACLs, files without
//! names, whiteouts, projects, trim.

use crate::common::mounted::Mounted;
use crate::common::{Image, have_tools, mount, tool};
use base::Ino;
use fscore::acl::Acl;
use fscore::{
    Creds, Errno, FallocateMode, FileFlags, FileKind, FileSystem, RenameMode, SetAttr, TimeSet,
    XattrMode,
};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use testkit::Brief;
use testkit::errno;
use testkit::posix::{ACCESS, DEFAULT, NOBODY, ROOT, acl, chmod, file, named_acl};
use varve_ext4::Ext4;

fn perm(fs: &Ext4, ino: Ino) -> u16 {
    fs.getattr(ino).expect("stat").perm
}

fn default_acl() -> Vec<u8> {
    named_acl(7, 7)
}

/// What `stat` and `getfacl` would print, read by system calls.
fn kernel_acl(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut buf = vec![0; 4096];
    let len = rustix::fs::getxattr(path, name, &mut buf).ok()?;
    buf.truncate(len);
    Some(buf)
}

#[test]
fn acls_are_inherited_as_by_the_kernel() {
    if !have_tools() {
        return;
    }
    let image = Image::new(32, &[]);
    let (ram, fs) = image.mount("");
    let root = fs.root();
    let top = fs.mkdir(root, b"top", 0o777, ROOT).expect("mkdir").ino;
    assert_eq!(perm(&fs, top), 0o755, "the umask counts");
    fs.setxattr(top, DEFAULT, &default_acl(), XattrMode::Any)
        .expect("a default ACL");
    fs.setxattr(
        top,
        ACCESS,
        &acl(&[(1, 7, NOBODY), (4, 6, NOBODY), (0x20, 0, NOBODY)]),
        XattrMode::Any,
    )
    .expect("no more than a mode");
    assert_eq!(perm(&fs, top), 0o760, "the mode follows");
    assert_eq!(errno(fs.getxattr(top, ACCESS)), Errno::NoData);
    fs.removexattr(top, ACCESS).expect("there is none");
    assert_eq!(
        errno(fs.removexattr(top, b"user.none")),
        Errno::NoData,
        "others have to be there"
    );
    let ours = fs.mkdir(root, b"ours", 0o755, ROOT).expect("mkdir").ino;
    fs.setxattr(ours, DEFAULT, &default_acl(), XattrMode::Any)
        .expect("a default ACL");
    for mode in [0o666, 0o777, 0o640, 0o1755] {
        file(&*fs, ours, &format!("f{mode:o}"), mode);
        let name = format!("d{mode:o}");
        let dir = fs.mkdir(ours, name.as_bytes(), mode, ROOT).expect("mkdir");
        file(&*fs, dir.ino, "below", 0o644);
    }
    let changed = file(&*fs, ours, "changed", 0o666);
    chmod(&*fs, changed, 0o604).expect("chmod");
    let bad = acl(&[
        (1, 7, NOBODY),
        (2, 7, 1000),
        (4, 5, NOBODY),
        (0x20, 1, NOBODY),
    ]);
    assert_eq!(
        errno(fs.setxattr(changed, ACCESS, &bad, XattrMode::Any)),
        Errno::Inval,
        "names without a mask"
    );
    image.end(&fs, &ram);

    let Some(mounted) = Mounted::new(&image) else {
        return;
    };
    // The kernel does the same steps in a directory of its own.
    let theirs = mounted.point.join("theirs");
    std::fs::create_dir(&theirs).expect("mkdir");
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&theirs, "system.posix_acl_default", &default_acl(), flags)
        .expect("a default ACL");
    for mode in [0o666u32, 0o777, 0o640, 0o1755] {
        use rustix::fs::{Mode, OFlags, mkdir, open};
        let bits = Mode::from_raw_mode(mode);
        let create = |path: &Path, bits| {
            drop(open(path, OFlags::CREATE | OFlags::WRONLY, bits).expect("create"));
        };
        create(&theirs.join(format!("f{mode:o}")), bits);
        let dir = theirs.join(format!("d{mode:o}"));
        mkdir(&dir, bits).expect("mkdir");
        create(&dir.join("below"), Mode::from_raw_mode(0o644));
    }
    let path = theirs.join("changed");
    drop(
        rustix::fs::open(
            &path,
            rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY,
            rustix::fs::Mode::from_raw_mode(0o666),
        )
        .expect("create"),
    );
    rustix::fs::chmod(&path, rustix::fs::Mode::from_raw_mode(0o604)).expect("chmod");
    let mut seen = 0;
    for mode in ["666", "777", "640", "1755"] {
        for name in [
            format!("f{mode}"),
            format!("d{mode}"),
            format!("d{mode}/below"),
        ] {
            same_permissions(&mounted.point, &name);
            seen += 1;
        }
    }
    same_permissions(&mounted.point, "changed");
    assert_eq!(seen, 12);
    mounted.unmount();
}

fn same_permissions(point: &Path, name: &str) {
    let (ours, theirs) = (
        point.join("ours").join(name),
        point.join("theirs").join(name),
    );
    let mode = |path: &Path| path.symlink_metadata().expect("stat").mode();
    assert_eq!(
        format!("{:o}", mode(&ours)),
        format!("{:o}", mode(&theirs)),
        "{name}"
    );
    for which in ["system.posix_acl_access", "system.posix_acl_default"] {
        assert_eq!(
            kernel_acl(&ours, which),
            kernel_acl(&theirs, which),
            "{name}: {which}"
        );
    }
}

#[test]
fn flags_are_obeyed_and_the_kernel_sees_them() {
    if !have_tools() {
        return;
    }
    let image = Image::new(32, &[]);
    let (ram, fs) = image.mount("");
    let root = fs.root();
    let dir = fs.mkdir(root, b"dir", 0o755, ROOT).expect("mkdir").ino;
    let still = file(&*fs, dir, "still", 0o644);
    let log = file(&*fs, dir, "log", 0o644);
    fs.write(still, 0, b"content").expect("write");
    fs.write(log, 0, b"line").expect("write");
    let set = |ino, flags: FileFlags| {
        let old = fs.file_flags(ino).expect("flags");
        fs.set_file_flags(ino, old | flags)
    };
    set(still, FileFlags::IMMUTABLE | FileFlags::NO_DUMP).expect("chattr +id");
    set(log, FileFlags::APPEND | FileFlags::NO_ATIME).expect("chattr +aA");
    assert_eq!(
        errno(set(still, FileFlags::NO_ATIME)),
        Errno::Perm,
        "immutable"
    );
    assert_eq!(errno(set(log, FileFlags::DIR_SYNC)), Errno::NotSup);
    assert_eq!(errno(set(log, FileFlags(1 << 31))), Errno::NotSup);
    let cut = SetAttr {
        size: Some(1),
        ..SetAttr::default()
    };
    let now = SetAttr {
        mtime: Some(TimeSet::Now),
        ..SetAttr::default()
    };
    for ino in [still, log] {
        assert_eq!(errno(fs.setattr(ino, &cut)), Errno::Perm);
        assert_eq!(errno(chmod(&*fs, ino, 0o600)), Errno::Perm);
        assert_eq!(
            errno(fs.setxattr(ino, b"user.a", b"1", XattrMode::Any)),
            Errno::Perm
        );
        assert_eq!(errno(fs.link(ino, root, b"again")), Errno::Perm);
        let punch = fs.fallocate(ino, FallocateMode::PunchHole, 0, 1);
        assert_eq!(errno(punch), Errno::Perm);
    }
    assert_eq!(errno(fs.unlink(dir, b"still")), Errno::Perm);
    assert_eq!(
        errno(fs.rename(dir, b"log", dir, b"gol", RenameMode::Replace)),
        Errno::Perm
    );
    assert_eq!(errno(fs.write(still, 0, b"x")), Errno::Perm);
    assert_eq!(errno(fs.setattr(still, &now)), Errno::Perm);
    fs.setattr(log, &now).expect("a touch");
    fs.write(log, 4, b"more").expect("appended");
    let attr = fs.getattr(log).expect("stat");
    assert_eq!(attr.check_open(true, false, false), Err(Errno::Perm));
    assert_eq!(attr.check_open(true, true, false), Ok(()));
    assert_eq!(attr.flags.statx() & 0x20, 0x20);
    set(dir, FileFlags::APPEND | FileFlags::TOP_DIR).expect("chattr +aT");
    let new = file(&*fs, dir, "new", 0o644);
    assert_eq!(errno(fs.unlink(dir, b"new")), Errno::Perm);
    set(dir, FileFlags::IMMUTABLE).expect("chattr +i");
    let more = fs.create(dir, b"more", FileKind::File, 0o644, 0, ROOT);
    assert_eq!(errno(more), Errno::Perm);
    assert_eq!(errno(fs.mkdir(dir, b"more", 0o755, ROOT)), Errno::Perm);
    assert_eq!(errno(fs.link(new, dir, b"more")), Errno::Perm);
    image.end(&fs, &ram);
    let Some(mounted) = Mounted::new(&image) else {
        return;
    };
    let shown = |name: &str| {
        let out = tool("lsattr")
            .arg("-d")
            .arg(mounted.point.join(name))
            .output();
        let text = String::from_utf8_lossy(&out.expect("lsattr").stdout).into_owned();
        let word = text.split_whitespace().next().unwrap_or_default();
        word.replace('-', "")
    };
    assert_eq!(shown("dir/still"), "ide");
    assert_eq!(shown("dir/log"), "aAe");
    assert_eq!(shown("dir"), "iaTe");
    for name in ["dir", "dir/still", "dir/log"] {
        let done = tool("chattr")
            .args(["-i", "-a"])
            .arg(mounted.point.join(name))
            .status();
        assert!(done.expect("chattr").success());
    }
    mounted.unmount();
}

#[test]
fn content_changes_between_log_and_place() {
    if !have_tools() {
        return;
    }
    let image = Image::new(32, &[]);
    let (ram, fs) = image.mount("");
    let ino = file(&*fs, fs.root(), "f", 0o644);
    let journaled = |on| {
        let old = fs.file_flags(ino).expect("flags");
        let flags = match on {
            true => old | FileFlags::JOURNAL_DATA,
            false => old.without(FileFlags::JOURNAL_DATA),
        };
        fs.set_file_flags(ino, flags).expect("chattr j");
    };
    let mut wanted = vec![0; 40_000];
    for round in 0..8u8 {
        journaled(round % 2 == 0);
        let at = usize::from(round) * 4000;
        wanted[at..at + 8000].fill(round + 1);
        fs.write(ino, at as u64, &vec![round + 1; 8000])
            .expect("write");
        if round % 3 == 0 {
            fs.fsync(ino, false).expect("fsync");
        }
    }
    fs.sync().expect("sync");
    // What the log still holds must not be replayed over what was written in place.
    let cut = crate::common::fork(&ram);
    let len = fs.getattr(ino).expect("stat").size as usize;
    assert!(fs.content(ino) == wanted[..len]);
    fs.unmount().expect("unmount");
    let again = mount(&cut, "");
    let found = again.find(b"f");
    assert!(again.content(found) == wanted[..len]);
    image.end(&again, &cut);
}

#[test]
fn files_without_names_and_whiteouts() {
    if !have_tools() {
        return;
    }
    let image = Image::new(32, &[]);
    let (ram, fs) = image.mount("");
    let root = fs.root();
    let before = fs.statfs().expect("statfs");
    let gone = fs.tmpfile(root, 0o666, ROOT).expect("tmpfile");
    assert_eq!((gone.nlink, gone.perm), (0, 0o644));
    fs.write(gone.ino, 0, &[7; 100_000]).expect("write");
    fs.fsync(gone.ino, false).expect("fsync");
    fs.release(gone.ino).expect("release");
    assert_eq!(errno(fs.getattr(gone.ino)), Errno::Stale);
    fs.sync().expect("sync");
    let after = fs.statfs().expect("statfs");
    assert_eq!(
        (after.blocks_free, after.inodes_free),
        (before.blocks_free, before.inodes_free)
    );

    let kept = fs.tmpfile(root, 0o600, ROOT).expect("tmpfile");
    fs.write(kept.ino, 0, b"kept").expect("write");
    assert_eq!(
        fs.link(kept.ino, root, b"kept")
            .expect("its first name")
            .nlink,
        1
    );
    fs.release(kept.ino).expect("release");
    fs.open(kept.ino).expect("open");
    fs.unlink(root, b"kept").expect("unlink");
    assert_eq!(
        errno(fs.link(kept.ino, root, b"kept")),
        Errno::NoEnt,
        "once"
    );
    fs.release(kept.ino).expect("release");

    let owner = Creds {
        uid: 5,
        gid: 6,
        umask: 0,
    };
    for name in ["a", "b", "c"] {
        file(&*fs, root, name, 0o644);
    }
    fs.rename(root, b"a", root, b"moved", RenameMode::Whiteout(owner))
        .expect("renamed");
    let kept = RenameMode::WhiteoutNoReplace(owner);
    assert_eq!(errno(fs.rename(root, b"b", root, b"c", kept)), Errno::Exist);
    fs.rename(root, b"b", root, b"c", RenameMode::Whiteout(owner))
        .expect("replaced");
    for name in [b"a", b"b"] {
        let attr = fs
            .getattr(fs.lookup(root, name).expect("there"))
            .expect("stat");
        assert_eq!((attr.kind, attr.rdev, attr.perm), (FileKind::Char, 0, 0));
        assert_eq!((attr.uid, attr.gid), (5, 6));
    }
    // A cut with a file without a name open: it is freed at the next mount.
    let lost = fs.tmpfile(root, 0o600, ROOT).expect("tmpfile");
    fs.write(lost.ino, 0, &[1; 50_000]).expect("write");
    fs.sync().expect("sync");
    let cut = crate::common::fork(&ram);
    drop(fs);
    let fs = mount(&cut, "");
    image.end(&fs, &cut);
}

#[test]
fn groups_and_projects_are_inherited() {
    if !have_tools() {
        return;
    }
    let image = Image::new(32, &["-O", "project"]);
    let (ram, fs) = image.mount("");
    let root = fs.root();
    let dir = fs.mkdir(root, b"dir", 0o2775, ROOT).expect("mkdir").ino;
    let set = SetAttr {
        gid: Some(77),
        ..SetAttr::default()
    };
    fs.setattr(dir, &set).expect("chgrp");
    fs.set_project(dir, 42).expect("a project");
    let flags = fs.file_flags(dir).expect("flags") | FileFlags::PROJECT_INHERIT;
    fs.set_file_flags(dir, flags).expect("chattr +P");
    let inside = fs.mkdir(dir, b"inside", 0o755, ROOT).expect("mkdir");
    assert_eq!((inside.gid, inside.perm), (77, 0o2755));
    let f = file(&*fs, inside.ino, "f", 0o644);
    assert_eq!(fs.getattr(f).expect("stat").gid, 77);
    assert_eq!(
        (
            fs.project(f).expect("a project"),
            fs.project(root).expect("none")
        ),
        (42, 0)
    );
    let other = file(&*fs, root, "other", 0o644);
    assert_eq!(errno(fs.link(other, dir, b"other")), Errno::XDev);
    let moved = fs.rename(root, b"other", dir, b"other", RenameMode::Replace);
    assert_eq!(errno(moved), Errno::XDev);
    image.end(&fs, &ram);
    let shown = image.debugfs("stat /dir/inside/f");
    assert!(shown.contains("Project:    42"), "{shown}");
}

#[test]
fn times_devices_and_free_space() {
    if !have_tools() {
        return;
    }
    let image = Image::new(32, &[]);
    let (ram, fs) = image.mount("");
    let root = fs.root();
    let other = file(&*fs, root, "other", 0o644);
    // Old and far times.
    let times = [(-2_000_000_000i64, 5), (9_000_000_000, 7)]
        .map(|(secs, nanos)| rt::WallTime { secs, nanos });
    let set = SetAttr {
        atime: Some(TimeSet::To(times[0])),
        mtime: Some(TimeSet::To(times[1])),
        ..SetAttr::default()
    };
    fs.setattr(other, &set).expect("utimes");
    for (name, kind, rdev) in [
        ("char", FileKind::Char, 0x0103),
        ("block", FileKind::Block, (8 << 8) | 1),
        ("wide", FileKind::Block, (259 << 8) | 0x1230_0045),
        ("fifo", FileKind::Fifo, 0),
        ("socket", FileKind::Socket, 0),
    ] {
        fs.create(root, name.as_bytes(), kind, 0o600, rdev, ROOT)
            .expect("mknod");
    }
    let rdev = |name: &str| {
        let ino = fs.lookup(root, name.as_bytes()).expect("there");
        fs.getattr(ino).expect("stat").rdev
    };
    let numbers = ["char", "block", "wide"].map(rdev);
    fs.sync().expect("sync");
    let free = fs.statfs().expect("statfs").blocks_free * 4096;
    let trimmed = fs.trim(0..u64::MAX, 0).expect("trimmed");
    assert_eq!(trimmed, free, "nothing is kept or pending");
    assert_eq!(errno(fs.trim(0..10, 0)), Errno::Inval);
    image.end(&fs, &ram);
    let Some(mounted) = Mounted::new(&image) else {
        return;
    };
    let meta = mounted.point.join("other").metadata().expect("stat");
    assert_eq!(
        (meta.atime(), meta.mtime(), meta.mtime_nsec()),
        (-2_000_000_000, 9_000_000_000, 7)
    );
    for (name, number) in ["char", "block", "wide"].into_iter().zip(numbers) {
        let meta = mounted.point.join(name).symlink_metadata().expect("stat");
        assert_eq!(meta.rdev(), u64::from(number), "{name}");
    }
    let vfs = rustix::fs::statvfs(&mounted.point).expect("statvfs");
    mounted.unmount();
    let fs = mount(&image.load(), "");
    let ours = fs.statfs().expect("statfs");
    assert_eq!((vfs.f_blocks, vfs.f_bfree), (ours.blocks, ours.blocks_free));
    // The kernel keeps back, in addition, what write-back over unwritten blocks may need.
    let kept = (32 << 20) / 4096 / 50;
    assert_eq!(vfs.f_bavail + kept, ours.blocks_available);
    assert_eq!((vfs.f_files, vfs.f_ffree), (ours.inodes, ours.inodes_free));
    fs.unmount().expect("unmount");
    let acl = acl(&[(1, 7, NOBODY), (4, 5, NOBODY), (0x20, 1, NOBODY)]);
    assert!(Acl::parse(&acl).expect("valid").is_mode());
}
