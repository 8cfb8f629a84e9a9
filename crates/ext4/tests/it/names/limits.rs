//! Full disks, too many links, set-group-id, and the errors of odd requests.

use crate::common::{Image, have_tools, mount};
use base::Ino;
use fscore::{Creds, Errno, FileKind, FileSystem, FsResult, RenameMode, SetAttr};
use testkit::{Brief, errno};

#[test]
fn a_full_disk_refuses_and_recovers() {
    if !have_tools() {
        return;
    }
    for (inodes, features) in [
        ("6000", "metadata_csum"),
        ("64", "metadata_csum"),
        ("6000", "^dir_index,^metadata_csum"),
    ] {
        let image = Image::new(12, &["-N", inodes, "-J", "size=4", "-O", features]);
        let (ram, fs) = image.mount("commit=600");
        let top = fs.dir("top");
        let target = [b't'; 200];
        let mut made = 0;
        let why = loop {
            let name = format!("{made:0100}");
            let result = match made % 3 {
                0 => fs.make_dir(top, &name).map(drop),
                1 => fs.make_link(top, name, &target).map(drop),
                _ => fs.make(top, &name).map(drop),
            };
            match result {
                Ok(()) => made += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(why.errno(), Errno::NoSpc);
        assert!(made > 20, "{made}");
        // Each name that fits succeeds; each refusal leaves everything as it was.
        let mut more = 0;
        for n in 0..60 {
            more += u32::from(fs.make(top, format!("more {n} {:0200}", 0)).is_ok());
            more += u32::from(
                fs.make_link(top, format!("fast {n} {:0200}", 0), b"x")
                    .is_ok(),
            );
        }
        let listed = fs.readdir(top, 0, 100_000).expect("readdir").len() as u32;
        assert_eq!(listed, 2 + made + more);
        for n in (0..made).step_by(2) {
            let name = format!("{n:0100}");
            let removed = if n % 3 == 0 {
                fs.rmdir(top, name.as_bytes())
            } else {
                fs.unlink(top, name.as_bytes())
            };
            removed.expect("there is always room to remove");
        }
        // Freed blocks come back, after the commit that the operation waits for.
        for n in 0..10 {
            fs.make_dir(top, format!("again {n}")).expect("room");
        }
        image.end(&fs, &ram);
    }
}

/// Blocks freed a moment ago are not usable yet (hazards-H18): the operation waits for their
/// commit.
#[test]
fn freed_blocks_are_waited_for() {
    if !have_tools() {
        return;
    }
    let image = Image::new(12, &["-N", "6000", "-J", "size=4"]);
    let fs = mount(&image.load(), "commit=600");
    let root = fs.root();
    let mut made = 0;
    while fs.make_dir(root, format!("d{made}")).is_ok() {
        made += 1;
    }
    fs.sync().expect("sync");
    for n in 0..3 {
        let name = format!("d{n}");
        fs.rmdir(root, name.as_bytes()).expect("rmdir");
        fs.make_dir(root, &name).expect("its block is free");
    }
    assert_eq!(errno(fs.make_dir(root, "one more")), Errno::NoSpc);
    fs.unmount().expect("unmount");
}

/// Sets the count of links of root's entry `name` by debugfs.
fn forge(image: &Image, name: &str, links: u32) {
    image.debugfs_write(&[&format!("set_inode_field {name} links_count {links}")]);
}

#[test]
fn too_many_links() {
    if !have_tools() {
        return;
    }
    let image = Image::new(64, &[]);
    image.debugfs_write(&[
        "write /dev/null f",
        "mkdir flat",
        "mkdir tree",
        "mkdir flat/sub",
    ]);
    let (ram, fs) = image.mount("");
    let tree = fs.find(b"tree");
    for n in 0..200 {
        fs.make(tree, format!("{n:0100}")).expect("create");
    }
    fs.unmount().expect("unmount");
    image.store(&ram);
    for name in ["f", "flat", "tree"] {
        forge(&image, name, 65_000);
    }
    let fs = mount(&image.load(), "");
    let root = fs.root();
    let links = |ino| fs.getattr(ino).expect("getattr").nlink;
    let [f, flat, tree] =
        [&b"f"[..], b"flat", b"tree"].map(|name| fs.lookup(root, name).expect("there"));
    assert_eq!(errno(fs.link(f, root, b"one more")), Errno::MLink);
    assert_eq!(errno(fs.make_dir(flat, "one more")), Errno::MLink);
    let moved = fs.rename(root, b"lost+found", flat, b"x", RenameMode::Replace);
    assert_eq!(errno(moved), Errno::MLink);
    fs.make(flat, "a file").expect("files are no links");
    // With a hash tree counting stops (feature dir_nlink) and never starts again.
    fs.make_dir(tree, "one more").expect("mkdir");
    assert_eq!(links(tree), 1);
    fs.make_dir(tree, "two more").expect("mkdir");
    assert_eq!(links(tree), 1);
    fs.rmdir(tree, b"two more").expect("rmdir");
    assert_eq!(links(tree), 1);
}

#[test]
fn directories_with_set_group_id_hand_their_group_down() {
    if !have_tools() {
        return;
    }
    let fs = mount(&Image::new(64, &[]).load(), "");
    let creds = Creds {
        uid: 5,
        gid: 6,
        umask: 0,
    };
    let dir = fs.dir("d");
    let set = SetAttr {
        perm: Some(0o2775),
        gid: Some(77),
        ..SetAttr::default()
    };
    fs.setattr(dir, &set).expect("setattr");
    let file = fs
        .create(dir, b"f", FileKind::File, 0o640, 0, creds)
        .expect("create");
    let below = fs.mkdir(dir, b"d", 0o750, creds).expect("mkdir");
    let other = fs.mkdir(fs.root(), b"e", 0o750, creds).expect("mkdir");
    assert_eq!((file.uid, file.gid, file.perm), (5, 77, 0o640));
    assert_eq!((below.uid, below.gid, below.perm), (5, 77, 0o2750));
    assert_eq!((other.uid, other.gid, other.perm), (5, 6, 0o750));
}

#[test]
fn errors_of_odd_requests() {
    if !have_tools() {
        return;
    }
    let fs = mount(&Image::new(64, &[]).load(), "");
    let root = fs.root();
    let file = fs.make(root, "f").expect("create");
    let dir = fs.make_dir(root, "d").expect("mkdir");
    let long = "n".repeat(256);
    let creds = Creds::default();
    let cases: Vec<(&str, FsResult<()>, Errno)> = vec![
        (
            "lookup in a file",
            fs.lookup(file, b"x").map(drop),
            Errno::NotDir,
        ),
        (
            "create in a file",
            fs.make(file, "x").map(drop),
            Errno::NotDir,
        ),
        (
            "create of a directory",
            fs.create(root, b"x", FileKind::Dir, 0, 0, creds).map(drop),
            Errno::Inval,
        ),
        ("create of .", fs.make(root, ".").map(drop), Errno::Exist),
        (
            "long name",
            fs.make(root, &long).map(drop),
            Errno::NameTooLong,
        ),
        (
            "lookup of a long name",
            fs.lookup(root, long.as_bytes()).map(drop),
            Errno::NameTooLong,
        ),
        (
            "long target",
            fs.symlink(root, b"s", &[b'x'; 4096], creds).map(drop),
            Errno::NameTooLong,
        ),
        (
            "no target",
            fs.symlink(root, b"s", b"", creds).map(drop),
            Errno::NoEnt,
        ),
        (
            "readlink of a file",
            fs.readlink(file).map(drop),
            Errno::Inval,
        ),
        ("unlink of a directory", fs.unlink(root, b"d"), Errno::IsDir),
        ("rmdir of a file", fs.rmdir(root, b"f"), Errno::NotDir),
        ("rmdir of .", fs.rmdir(root, b"."), Errno::Inval),
        ("rmdir of ..", fs.rmdir(dir, b".."), Errno::NotEmpty),
        (
            "rename of .",
            fs.rename(dir, b".", root, b"x", RenameMode::Replace),
            Errno::Busy,
        ),
        (
            "rename to ..",
            fs.rename(root, b"f", dir, b"..", RenameMode::Replace),
            Errno::Busy,
        ),
        (
            "into itself",
            fs.rename(root, b"d", dir, b"x", RenameMode::Replace),
            Errno::Inval,
        ),
        (
            "link of a directory",
            fs.link(dir, root, b"x").map(drop),
            Errno::Perm,
        ),
        (
            "readdir of a file",
            fs.readdir(file, 0, 10).map(drop),
            Errno::NotDir,
        ),
        (
            "inode that is not there",
            fs.getattr(Ino(999)).map(drop),
            Errno::Stale,
        ),
    ];
    for (what, result, expected) in cases {
        assert_eq!(errno(result), expected, "{what}");
    }
    // A rename onto its own parent, and the exchange with it.
    fs.make(dir, "g").expect("create");
    let below = fs.make_dir(dir, "below").expect("mkdir");
    fs.make_dir(below, "deep").expect("mkdir");
    assert_eq!(
        errno(fs.rename(dir, b"below", root, b"d", RenameMode::Replace)),
        Errno::NotEmpty
    );
    assert_eq!(
        errno(fs.rename(dir, b"below", root, b"d", RenameMode::Exchange)),
        Errno::Inval
    );
    fs.unmount().expect("unmount");
}

#[test]
fn a_read_only_mount_changes_nothing() {
    if !have_tools() {
        return;
    }
    let image = Image::new(64, &[]);
    let ram = image.load();
    let before = ram.image();
    let fs = mount(&ram, "ro");
    let root = fs.root();
    let creds = Creds::default();
    let results = [
        fs.make(root, "f").map(drop),
        fs.make_dir(root, "f").map(drop),
        fs.symlink(root, b"f", b"x", creds).map(drop),
        fs.link(Ino(11), root, b"f").map(drop),
        fs.unlink(root, b"lost+found"),
        fs.rmdir(root, b"lost+found"),
        fs.rename(root, b"lost+found", root, b"f", RenameMode::Replace),
    ];
    for result in results {
        assert_eq!(errno(result), Errno::RoFs);
    }
    assert_eq!(fs.readdir(root, 0, 10).expect("readdir").len(), 3);
    fs.unmount().expect("unmount");
    assert!(ram.image() == before, "not a byte");
}
