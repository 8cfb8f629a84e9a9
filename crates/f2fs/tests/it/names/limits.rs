//! Full disks, large directories, positions, orphans, attributes, and the errors of odd requests.

use crate::common::{end, featured, fork, fresh, mount};
use base::{Ino, Rng};
use fscore::{Creds, Errno, FileKind, FileSystem, FsResult, RenameMode, SetAttr, XattrMode};
use std::collections::BTreeSet;
use testkit::{Brief, errno};
use varve_f2fs::F2fs;

fn create(fs: &F2fs, dir: Ino, name: &str) -> FsResult<Ino> {
    let creds = Creds::default();
    let made = fs.create(dir, name.as_bytes(), FileKind::File, 0o644, 0, creds);
    made.map(|attr| attr.ino)
}

fn list(fs: &F2fs, dir: Ino, batch: usize) -> Vec<Vec<u8>> {
    let (mut all, mut cookie) = (Vec::new(), 0);
    loop {
        let some = fs.readdir(dir, cookie, batch).expect("readdir");
        let Some(last) = some.last() else { return all };
        cookie = last.next;
        all.extend(some.into_iter().map(|e| e.name));
    }
}

#[test]
fn a_full_disk_refuses_and_recovers() {
    let ram = featured(52, "");
    let fs = mount(&ram, "");
    let before = fs.statfs().expect("statfs");
    let top = fs.dir("top");
    let target = [b't'; 4000];
    let mut made = 0;
    let why = loop {
        let name = format!("{made:0100}");
        let result = match made % 3 {
            0 => fs.make_dir(top, &name).map(drop),
            1 => fs.make_link(top, name, &target).map(drop),
            _ => create(&fs, top, &name).map(drop),
        };
        match result {
            Ok(()) => made += 1,
            Err(error) => break error,
        }
        assert!(made < 20_000, "the volume is small");
    };
    assert_eq!(why.errno(), Errno::NoSpc);
    assert!(made > 100, "{made}");
    // Whatever fits, fits; each refusal leaves everything as it was.
    let mut more = 0;
    for n in 0..60 {
        more += usize::from(create(&fs, top, &format!("more {n} {:0200}", 0)).is_ok());
    }
    assert_eq!(list(&fs, top, 1000).len(), 2 + made + more);
    for n in (0..made).step_by(2) {
        let name = format!("{n:0100}");
        let removed = match n % 3 {
            0 => fs.rmdir(top, name.as_bytes()),
            _ => fs.unlink(top, name.as_bytes()),
        };
        removed.expect("there is always room to remove");
    }
    fs.sync().expect("sync");
    for n in 0..10 {
        fs.make_dir(top, format!("again {n}")).expect("room");
    }
    for name in list(&fs, top, 1000) {
        if !matches!(&name[..], b"." | b"..") && fs.rmdir(top, &name).is_err() {
            fs.unlink(top, &name).expect("unlink");
        }
    }
    fs.rmdir(fs.root(), b"top").expect("empty");
    let after = fs.statfs().expect("statfs");
    assert_eq!(
        (after.blocks_free, after.inodes_free),
        (before.blocks_free, before.inodes_free)
    );
    end(&fs, &ram);
}

#[test]
fn a_hundred_thousand_names() {
    const NAMES: usize = 100_000;
    let ram = featured(64, "");
    let fs = mount(&ram, "");
    let dir = fs.dir("large");
    let file = create(&fs, dir, "n0").expect("create");
    for n in 1..NAMES {
        fs.link(file, dir, format!("n{n}").as_bytes())
            .expect("link");
    }
    assert_eq!(errno(fs.link(file, dir, b"n77777")), Errno::Exist);
    end(&fs, &ram);
    // From here on nothing is known of the directory but what its blocks say.
    let fs = mount(&ram, "");
    assert_eq!(fs.getattr(file).expect("getattr").nlink as usize, NAMES);
    let listed: BTreeSet<_> = list(&fs, dir, 4096).into_iter().collect();
    assert_eq!(listed.len(), NAMES + 2);
    for n in (0..NAMES).step_by(997) {
        let name = format!("n{n}");
        assert_eq!(fs.lookup(dir, name.as_bytes()).expect("there"), file);
        assert_eq!(
            errno(fs.lookup(dir, format!("m{n}").as_bytes())),
            Errno::NoEnt
        );
    }
    for n in 0..NAMES {
        if n % 50 != 0 {
            fs.unlink(dir, format!("n{n}").as_bytes()).expect("unlink");
        }
    }
    assert_eq!(list(&fs, dir, 100).len(), NAMES / 50 + 2);
    end(&fs, &ram);
}

#[test]
fn positions_stay_while_names_come_and_go() {
    for (options, names) in [("", 60), ("", 3000), ("noinline_dentry", 60)] {
        let ram = fresh(64);
        let fs = mount(&ram, options);
        let dir = fs.dir("d");
        let file = create(&fs, dir, "anchor").expect("create");
        for n in 0..names {
            fs.link(file, dir, format!("stays-{n}").as_bytes())
                .expect("link");
            fs.link(file, dir, format!("goes-{n}").as_bytes())
                .expect("link");
        }
        let mut rng = Rng::named(names, "positions");
        let (mut seen, mut cookie, mut new) = (Vec::new(), 0, 0);
        loop {
            let some = fs.readdir(dir, cookie, 5).expect("readdir");
            let Some(last) = some.last() else { break };
            cookie = last.next;
            seen.extend(some.iter().map(|e| e.name.clone()));
            // Long and short names take the places of others, before and behind the position.
            for _ in 0..3 {
                let n = rng.below(names);
                let _ = fs.unlink(dir, format!("goes-{n}").as_bytes());
            }
            new += 1;
            let name = format!("new-{new}-{}", "x".repeat(rng.below(150) as usize));
            fs.link(file, dir, name.as_bytes()).expect("link");
            assert!(new < 100_000, "the end comes");
        }
        for n in 0..names {
            let name = format!("stays-{n}").into_bytes();
            let times = seen.iter().filter(|&s| *s == name).count();
            assert_eq!(times, 1, "{}", name.escape_ascii());
        }
        fs.unmount().expect("unmount");
    }
}

#[test]
fn names_of_every_length() {
    let ram = featured(64, "");
    for options in ["", "noinline_dentry"] {
        let fs = mount(&ram, options);
        let dir = fs.dir(format!("dir {options}"));
        for len in 1..=255 {
            let name = "n".repeat(len);
            let ino = create(&fs, dir, &name).expect("create");
            assert_eq!(fs.lookup(dir, name.as_bytes()).expect("there"), ino);
        }
        let long = "n".repeat(256);
        assert_eq!(errno(create(&fs, dir, &long)), Errno::NameTooLong);
        assert_eq!(errno(fs.lookup(dir, long.as_bytes())), Errno::NoEnt);
        let to = fs.rename(dir, b"n", dir, long.as_bytes(), RenameMode::Replace);
        assert_eq!(errno(to), Errno::NameTooLong);
        let mut names = list(&fs, dir, 13);
        names.sort_by_key(Vec::len);
        assert_eq!(names.len(), 257);
        assert_eq!(names[256].len(), 255);
        end(&fs, &ram);
    }
}

/// An inode that lost its last name while it was open is freed by the next mount if there was no
/// time before.
#[test]
fn orphans_are_freed_by_the_next_mount() {
    let ram = featured(64, "");
    let fs = mount(&ram, "");
    let root = fs.root();
    let before = fs.statfs().expect("statfs");
    let file = create(&fs, root, "file").expect("create");
    fs.write(file, 0, &[5; 100_000]).expect("write");
    fs.setxattr(file, b"user.k", &[6; 1000], XattrMode::Any)
        .expect("setxattr");
    let dir = fs.make_dir(root, "dir").expect("mkdir");
    for ino in [file, dir] {
        fs.open(ino).expect("open");
    }
    fs.unlink(root, b"file").expect("unlink");
    fs.rmdir(root, b"dir").expect("rmdir");
    fs.sync().expect("sync");
    // The cut.
    let cut = fork(&ram);
    let again = mount(&cut, "");
    let after = again.statfs().expect("statfs");
    assert_eq!(
        (after.blocks_free, after.inodes_free),
        (before.blocks_free, before.inodes_free)
    );
    assert_eq!(errno(again.getattr(file)), Errno::Stale);
    end(&again, &cut);
    // Open files stay usable.
    let mut buf = [0; 10];
    assert_eq!(fs.read(file, 50_000, &mut buf).expect("read"), 10);
    assert!(fs.readdir(dir, 0, 10).expect("readdir").is_empty());
    assert_eq!(errno(create(&fs, dir, "x")), Errno::NoEnt);
    for ino in [file, dir] {
        fs.release(ino).expect("release");
        assert_eq!(errno(fs.getattr(ino)), Errno::Stale);
    }
    let after = fs.statfs().expect("statfs");
    assert_eq!(
        (after.blocks_free, after.inodes_free),
        (before.blocks_free, before.inodes_free)
    );
    end(&fs, &ram);
}

#[test]
fn attributes_go_to_a_node_of_their_own_and_come_back() {
    for (feature, options) in [
        ("", ""),
        ("", "noinline_xattr"),
        ("extra_attr,flexible_inline_xattr,inode_checksum", ""),
    ] {
        let ram = featured(64, feature);
        let fs = mount(&ram, options);
        let root = fs.root();
        let file = create(&fs, root, "file").expect("create");
        let free = || fs.statfs().expect("statfs").blocks_free;
        let start = free();
        let set =
            |name: &[u8], len: usize| fs.setxattr(file, name, &vec![b'v'; len], XattrMode::Any);
        set(b"user.small", 10).expect("fits");
        assert_eq!(start - free(), u64::from(options == "noinline_xattr"));
        set(b"trusted.big", 3000).expect("fits");
        assert_eq!(start - free(), 1, "a node");
        assert_eq!(errno(set(b"user.huge", 4000)), Errno::NoSpc);
        assert_eq!(
            fs.getxattr(file, b"trusted.big").expect("there"),
            vec![b'v'; 3000]
        );
        end(&fs, &ram);

        let fs = mount(&ram, options);
        let mut names = fs.listxattr(file).expect("list");
        names.sort();
        assert_eq!(names, [&b"trusted.big"[..], b"user.small"]);
        fs.removexattr(file, b"trusted.big").expect("there");
        assert_eq!(
            fs.getxattr(file, b"user.small").expect("there"),
            vec![b'v'; 10]
        );
        fs.removexattr(file, b"user.small").expect("there");
        assert_eq!(fs.statfs().expect("statfs").blocks_free, start);
        assert_eq!(errno(fs.getxattr(file, b"user.small")), Errno::NoData);
        fs.unlink(root, b"file").expect("unlink");
        end(&fs, &ram);
    }
}

#[test]
fn groups_and_flags_are_inherited() {
    let ram = fresh(64);
    let fs = mount(&ram, "");
    let dir = fs.dir("d");
    let set = SetAttr {
        perm: Some(0o2775),
        gid: Some(77),
        ..SetAttr::default()
    };
    fs.setattr(dir, &set).expect("setattr");
    let creds = Creds {
        uid: 5,
        gid: 6,
        umask: 0,
    };
    let file = fs
        .create(dir, b"f", FileKind::File, 0o644, 0, creds)
        .expect("create");
    assert_eq!((file.uid, file.gid, file.perm), (5, 77, 0o644));
    let sub = fs.mkdir(dir, b"s", 0o755, creds).expect("mkdir");
    assert_eq!((sub.gid, sub.perm), (77, 0o2755));
    fs.unmount().expect("unmount");
}
