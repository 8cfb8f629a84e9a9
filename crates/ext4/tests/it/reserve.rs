//! Blocks held back: which callers may use them, in which operations, and that write-back never
//! gives them to another caller. `e2fsck` checks each volume.

use crate::common::{Image, have_tools, pattern, tool};
use base::Ino;
use fscore::{Caller, Creds, Errno, FallocateMode, FileSystem, FsResult, RenameMode, XattrMode};
use testkit::Brief;
use varve_ext4::Ext4;

const BLOCK: u64 = 4096;
/// Blocks held back by `tune2fs -r`.
const RESERVE: u64 = 1000;
/// User and group set by `tune2fs -u` and `-g`.
const RESUID: u32 = 1001;
const RESGID: u32 = 1002;
const NOBODY: u32 = 65534;

/// A volume of 32 MiB that holds blocks back, by its superblock.
fn volume(mkfs: &[&str]) -> Image {
    let image = Image::new(32, mkfs);
    let (blocks, uid, gid) = (RESERVE.to_string(), RESUID.to_string(), RESGID.to_string());
    let tuned = tool("tune2fs")
        .args(["-r", &blocks, "-u", &uid, "-g", &gid])
        .arg(&image.path)
        .output();
    assert!(tuned.expect("tune2fs").status.success());
    image
}

/// Makes a call as a user who is in these groups; the first one is the user's own.
fn by<T>(uid: u32, groups: &[u32], call: impl FnOnce() -> T) -> T {
    let (gid, rest) = groups.split_first().expect("a group");
    Caller::new(uid, *gid, rest.to_vec()).scope(call)
}

fn by_nobody<T>(call: impl FnOnce() -> T) -> T {
    by(NOBODY, &[NOBODY], call)
}

fn create(fs: &Ext4, dir: Ino, name: &str) -> FsResult<Ino> {
    fs.make(dir, name)
}

fn file(fs: &Ext4, name: &str) -> Ino {
    create(fs, fs.root(), name).expect("room for a name")
}

/// Appends until there is no space; answers what was taken.
fn fill(fs: &Ext4, ino: Ino) -> Vec<u8> {
    let mut content = Vec::new();
    // Whole chunks, then single blocks.
    for chunk in [150_000, BLOCK as usize] {
        loop {
            let data = pattern(content.len() as u64, chunk);
            match fs.write(ino, content.len() as u64, &data) {
                Ok(n) => content.extend(&data[..n]),
                Err(e) => {
                    assert_eq!(e.errno(), Errno::NoSpc, "{e}");
                    break;
                }
            }
        }
    }
    content
}

/// Takes single blocks until there is none: a file that grows may need another block for its tree.
fn drain(fs: &Ext4) {
    let one = |n: u32| {
        let ino = create(fs, fs.root(), &format!("drain{n}"))?;
        fs.write(ino, 0, &[n as u8])
    };
    assert!((0..200).any(|n| is_full(one(n))));
    fs.sync().expect("what was acknowledged fits");
}

fn free(fs: &Ext4) -> u64 {
    fs.statfs().expect("statfs").blocks_free
}

fn is_full<T>(result: FsResult<T>) -> bool {
    matches!(result, Err(e) if e.errno() == Errno::NoSpc)
}

#[test]
fn users_stop_where_the_blocks_held_back_begin_and_the_superuser_goes_on() {
    if !have_tools() {
        return;
    }
    for options in [
        "",
        "data=writeback",
        "data=journal",
        "scheme=none",
        "scheme=emmc,small=64",
        "ext3",
    ] {
        let (format, options) = match options {
            "ext3" => ("ext3", ""),
            other => ("ext4", other),
        };
        let image = volume(&["-t", format]);
        let (ram, fs) = image.mount(options);
        let stat = fs.statfs().expect("statfs");
        assert_eq!(stat.blocks_free - stat.blocks_available, RESERVE);
        let ino = file(&fs, "user");
        let users = by_nobody(|| fill(&fs, ino));
        fs.sync().expect("what was acknowledged fits");
        let left = free(&fs);
        assert!((RESERVE..RESERVE + 8).contains(&left), "{options}: {left}");
        assert!(fs.statfs().expect("statfs").blocks_available < 8);
        let ino = file(&fs, "root");
        let roots = fill(&fs, ino);
        assert!(free(&fs) <= 1, "{options}: {}", free(&fs));
        fs.sync().expect("what was acknowledged fits");
        fs.check();
        image.end(&fs, &ram);
        assert!(image.cat("user") == users && image.cat("root") == roots);
    }
}

#[test]
fn the_user_and_the_group_of_the_superblock_or_of_the_options() {
    if !have_tools() {
        return;
    }
    let image = volume(&[]);
    let members: [(u32, &[u32]); 5] = [
        (RESUID, &[7]),
        (NOBODY, &[RESGID]),
        (NOBODY, &[7, 8, RESGID]),
        (2001, &[7]),
        (NOBODY, &[7, 2002]),
    ];
    for (options, may) in [
        ("", [true, true, true, false, false]),
        ("resuid=2001", [false, true, true, true, false]),
        ("resgid=2002", [true, false, false, false, true]),
        ("resuid=0,resgid=0", [false; 5]),
    ] {
        let (ram, fs) = image.mount(options);
        let full = file(&fs, "full");
        by_nobody(|| fill(&fs, full));
        for ((uid, groups), may) in members.into_iter().zip(may) {
            let ino = file(&fs, "f");
            let got = by(uid, groups, || fill(&fs, ino)).len() as u64 / BLOCK;
            let seen = format!("`{options}`: {uid} {groups:?} got {got} blocks");
            match may {
                true => assert!((RESERVE - 8..=RESERVE + 8).contains(&got), "{seen}"),
                false => assert!(got < 8, "{seen}"),
            }
            fs.unlink(fs.root(), b"f").expect("there");
        }
        fs.unmount().expect("unmount");
        image_of(&image, &ram);
    }
}

/// Checks with `e2fsck` that the device has no fault; `image` stays as it was.
fn image_of(image: &Image, ram: &blockdev::Ram) {
    let kept = std::fs::read(&image.path).expect("there");
    image.store(ram);
    image.fsck();
    std::fs::write(&image.path, kept).expect("room");
}

/// Calls `make` with ascending numbers until there is no space; no block that is held back may be
/// used for that.
fn until_full(fs: &Ext4, what: &str, most: u32, make: impl Fn(u32) -> FsResult<()>) {
    let before = free(fs).min(RESERVE);
    let stopped = (0..most).find(|&n| is_full(by_nobody(|| make(n))));
    assert!(stopped.is_some(), "{what}");
    let left = free(fs);
    assert!(left >= before, "{what}: {left} blocks of {before} are left");
    make(most).unwrap_or_else(|e| panic!("{what} by the superuser: {e}"));
}

#[test]
fn whatever_takes_blocks_asks_for_the_right_to_them() {
    if !have_tools() {
        return;
    }
    for mkfs in [&[][..], &["-t", "ext3"], &["-O", "inline_data"]] {
        let image = volume(mkfs);
        let (ram, fs) = image.mount("");
        let (root, creds) = (fs.root(), Creds::default());
        let dir = |name: &str| fs.make_dir(root, name).expect("room");
        let [names, links, moves, targets, dirs] =
            ["names", "links", "moves", "targets", "dirs"].map(dir);
        let (plain, full) = (file(&fs, "plain"), file(&fs, "full"));
        for n in 0..=40 {
            create(&fs, root, &format!("moved{n}")).expect("room");
            create(&fs, root, &format!("x{n}")).expect("room");
        }
        fs.write(plain, 0, &pattern(1, 9000)).expect("room");
        by_nobody(|| fill(&fs, full));
        let long = |n: u32| format!("{n:0>250}").into_bytes();
        let looked = |name: String| fs.lookup(root, name.as_bytes()).expect("there");

        until_full(&fs, "write", 40, |n| {
            let at = (100 + u64::from(n)) * BLOCK;
            fs.write(plain, at, &[7; 4096]).map(drop)
        });
        until_full(&fs, "create", 40, |n| {
            create(&fs, names, std::str::from_utf8(&long(n)).expect("digits")).map(drop)
        });
        until_full(&fs, "link", 40, |n| {
            fs.link(plain, links, &long(n)).map(drop)
        });
        until_full(&fs, "rename", 40, |n| {
            let from = format!("moved{n}").into_bytes();
            fs.rename(root, &from, moves, &long(n), RenameMode::Replace)
        });
        until_full(&fs, "symlink", 40, |n| {
            fs.make_link(targets, long(n), &[b't'; 1000]).map(drop)
        });
        until_full(&fs, "mkdir", 40, |n| {
            let made = fs.mkdir(dirs, &long(n), 0o755, creds)?;
            // An inline directory takes a block as names are added.
            create(&fs, made.ino, &"n".repeat(250)).map(drop)
        });
        until_full(&fs, "setxattr", 40, |n| {
            let value = pattern(n.into(), 1000);
            fs.setxattr(looked(format!("x{n}")), b"user.a", &value, XattrMode::Any)
        });
        if mkfs != ["-t", "ext3"] {
            until_full(&fs, "fallocate", 2, |n| {
                let at = (1 << 20) + u64::from(n) * 10 * BLOCK;
                fs.fallocate(plain, FallocateMode::KeepSize, at, 10 * BLOCK)
            });
            until_full(&fs, "zero range", 2, |n| {
                let at = (2 << 20) + u64::from(n) * 10 * BLOCK;
                fs.fallocate(plain, FallocateMode::ZeroRange, at, 10 * BLOCK)
            });
        }
        // Giving blocks back needs no right to blocks held back.
        by_nobody(|| fs.unlink(root, b"full")).expect("unlink");
        by_nobody(|| fs.write(plain, 0, &[1; 8192])).expect("room again");
        fs.check();
        image.end(&fs, &ram);
    }
}

/// reserve-R3: blocks that `fallocate` gave a file can be written and freed, wherever that splits
/// the file's extents.
#[test]
fn what_a_file_has_is_its_own() {
    const PAGES: u64 = 1200;
    if !have_tools() {
        return;
    }
    for options in ["", "data=journal", "scheme=none"] {
        let image = volume(&[]);
        let (ram, fs) = image.mount(options);
        let [kept, cut, blank, full] = ["kept", "cut", "blank", "full"].map(|name| file(&fs, name));
        let reserve = |ino| fs.fallocate(ino, FallocateMode::Allocate, 0, PAGES * BLOCK);
        by_nobody(|| reserve(kept)).expect("room");
        let old = pattern(3, (PAGES * BLOCK) as usize);
        for ino in [cut, blank] {
            by_nobody(|| fs.write(ino, 0, &old)).expect("room");
        }
        by_nobody(|| fill(&fs, full));
        by_nobody(|| drain(&fs));
        let mut wanted = vec![0; old.len()];
        for page in (0..PAGES).step_by(2) {
            let data = pattern(page, BLOCK as usize);
            let at = page * BLOCK;
            let wrote = by_nobody(|| fs.write(kept, at, &data));
            assert_eq!(wrote.expect("it has the block"), data.len(), "{options}");
            wanted[at as usize..][..data.len()].copy_from_slice(&data);
        }
        // The page waits for write-back, as on a volume with room.
        assert!(fs.dirty_pages() > 0 || options == "data=journal");
        by_nobody(|| fs.fsync(kept, false)).expect("it has the blocks");
        for page in (0..PAGES).step_by(2) {
            let mode = FallocateMode::ZeroRangeKeepSize;
            by_nobody(|| fs.fallocate(blank, mode, page * BLOCK, BLOCK)).expect("it has the block");
        }
        assert!(fs.content(kept) == wanted);
        let mut punched = old;
        for page in (0..PAGES).step_by(2) {
            let at = page * BLOCK;
            by_nobody(|| fs.fallocate(cut, FallocateMode::PunchHole, at, BLOCK))
                .unwrap_or_else(|e| panic!("{options}, page {page}: {e}"));
            punched[at as usize..][..BLOCK as usize].fill(0);
        }
        by_nobody(|| fs.fallocate(cut, FallocateMode::CollapseRange, BLOCK, BLOCK))
            .expect("it gives a block back");
        punched.drain(BLOCK as usize..2 * BLOCK as usize);
        assert!(fs.content(cut) == punched);
        let tree = free(&fs);
        assert!(tree + 16 >= RESERVE, "{options}: {tree} blocks are left");
        fs.check();
        image.end(&fs, &ram);
        assert!(image.cat("kept") == wanted && image.cat("cut") == punched);
    }
}

/// reserve-R2: blocks promised to one caller are written back in calls of others.
#[test]
fn a_promise_is_kept_whoever_writes_back() {
    if !have_tools() {
        return;
    }
    let image = volume(&[]);
    let (ram, fs) = image.mount("");
    let (full, own, other) = (file(&fs, "full"), file(&fs, "own"), file(&fs, "other"));
    by_nobody(|| fill(&fs, full));
    let data = pattern(5, 300 * BLOCK as usize);
    let wrote = by(RESUID, &[RESUID], || fs.write(own, 0, &data));
    assert_eq!(wrote.expect("he may"), data.len());
    // Room is made for this caller: all pages that wait for blocks get theirs, but the caller gets
    // none.
    assert!(is_full(by_nobody(|| fs.write(other, 0, &[7; 40_960]))));
    let left = free(&fs);
    assert!((600..=RESERVE - 300).contains(&left), "{left}");
    by_nobody(|| fs.fsync(own, false)).expect("promised");
    fs.check();
    image.end(&fs, &ram);
    assert!(image.cat("own") == data);
}

#[test]
fn a_superblock_that_holds_more_back_than_there_is_leaves_users_nothing() {
    if !have_tools() {
        return;
    }
    let image = Image::new(16, &[]);
    image.debugfs_write(&["set_super_value r_blocks_count 0xFFFFFFFF"]);
    let (_, fs) = image.mount("");
    assert_eq!(fs.statfs().expect("statfs").blocks_available, 0);
    let ino = file(&fs, "f");
    assert!(is_full(by_nobody(|| fs.write(ino, 0, &[7; 100]))));
    fs.write(ino, 0, &[7; 100]).expect("the superuser may");
    fs.unmount().expect("unmount");
}
