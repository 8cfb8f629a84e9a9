//! Images with forged names and directories: each access ends in an error that names the place,
//! without a panic or an endless loop.

use crate::common::{fork, fresh, mount, try_mount};
use base::{BLOCK_BYTES, BlockNo, Ino, Rng};
use block::Class;
use blockdev::{Ram, write_block};
use fscore::{Creds, FileKind, FileSystem, FsError, FsResult};
use ondisk::f2fs as disk;
use ondisk::f2fs::{DentryLayout, dentry_hash, footer};
use std::sync::Arc;
use testkit::Brief;
use varve_f2fs::F2fs;

fn refused<T: std::fmt::Debug>(result: FsResult<T>, words: &[&str]) {
    let error = result.expect_err("refused");
    assert!(matches!(error, FsError::Corrupt { .. }), "{error}");
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

/// Changes every block that `change` says yes to.
fn patch(ram: &Ram, mut change: impl FnMut(&mut [u8]) -> bool) -> usize {
    let mut changed = 0;
    for (n, block) in ram.blocks().into_iter().collect::<Vec<_>>() {
        let mut bytes = block.to_vec();
        if bytes.len() == BLOCK_BYTES && change(&mut bytes) {
            write_block(ram, BlockNo(n).lba(), Class::Data, bytes.into()).expect("in range");
            changed += 1;
        }
    }
    changed
}

/// Changes the blocks of an inode, newer and older ones.
pub fn patch_inode(ram: &Ram, ino: Ino, change: impl Fn(&mut [u8])) {
    let changed = patch(ram, |block| {
        let f = footer(block);
        let here = f.nid.0 == ino.0 && f.ino.0 == ino.0 && block[1] != 0;
        if here {
            change(block);
        }
        here
    });
    assert!(changed > 0, "the inode is there");
}

/// Changes the dentry blocks that hold a name.
fn patch_name(ram: &Ram, name: &[u8], change: impl Fn(&mut [u8], usize)) {
    let changed = patch(ram, |block| {
        let found = disk::find(block, &DentryLayout::BLOCK, dentry_hash(name), |n| {
            n == name
        });
        let slot = found.map(|(slot, _)| slot);
        slot.inspect(|&slot| change(block, slot)).is_some()
    });
    assert!(changed > 0, "the name is there");
}

/// A volume with a file `x`, a directory `d` of blocks with 300 names, an inline directory `i` with
/// one, a link `l`.
fn volume() -> (Arc<Ram>, [Ino; 4]) {
    let ram = fresh(64);
    let fs = mount(&ram, "");
    let root = fs.root();
    let x = fs.make(root, b"x").expect("create");
    let d = fs.make_dir(root, b"d").expect("mkdir");
    let i = fs.make_dir(root, b"i").expect("mkdir");
    let l = fs.make_link(root, b"l", b"target").expect("symlink");
    for n in 0..300 {
        fs.link(x, d, format!("name-{n}").as_bytes()).expect("link");
    }
    fs.link(x, i, b"inside").expect("link");
    fs.unmount().expect("unmount");
    (ram, [x, d, i, l])
}

#[test]
fn entries_that_point_astray() {
    let (good, [x, d, ..]) = volume();
    let cases: [(u32, &str); 4] = [
        (0, "not in use"),
        (1, "not in use"),
        (5000, "not in use"),
        (u32::MAX, "not in use"),
    ];
    for (ino, words) in cases {
        let ram = fork(&good);
        patch_name(&ram, b"x", |block, slot| {
            disk::set_target(
                block,
                &DentryLayout::BLOCK,
                slot,
                disk::Nid(ino),
                disk::FileType::Regular,
            );
        });
        let fs = mount(&ram, "");
        refused(fs.lookup(fs.root(), b"x"), &["\"x\"", words]);
        assert_eq!(fs.find(b"d"), d);
    }
    let _ = x;
}

#[test]
fn inodes_that_contradict_themselves() {
    let (good, [x, d, i, l]) = volume();
    type Case<'a> = (Ino, &'a dyn Fn(&mut [u8]), &'a [&'a str]);
    let cases: [Case<'_>; 7] = [
        (x, &|b| b[..2].fill(0), &["file type"]),
        (x, &|b| b[0x10..0x18].fill(0x7F), &["size"]),
        (x, &|b| b[0x58..0x5C].fill(1), &["i_namelen"]),
        (x, &|b| b[0x18..0x20].fill(0), &["no block"]),
        (d, &|b| b[0x48..0x4C].fill(1), &["levels"]),
        (d, &|b| b[0x10] = 7, &["a directory of"]),
        (i, &|b| b[3] |= 2, &["i_inline"]),
    ];
    for (ino, change, words) in cases {
        let ram = fork(&good);
        patch_inode(&ram, ino, change);
        let fs = mount(&ram, "");
        refused(fs.getattr(ino), words);
    }
    let ram = fork(&good);
    patch_inode(&ram, l, |b| b[0x10] = 40);
    let fs = mount(&ram, "");
    refused(fs.readlink(l), &["NUL"]);
}

#[test]
fn directories_of_endless_size() {
    let (good, [_, d, ..]) = volume();
    let ram = fork(&good);
    // As large as a directory can say to be, and as deep.
    patch_inode(&ram, d, |b| {
        let size = (disk::max_file_blocks() - 1) * BLOCK_BYTES as u64;
        b[0x10..0x18].copy_from_slice(&size.to_le_bytes());
        b[0x48..0x4C].copy_from_slice(&63u32.to_le_bytes());
    });
    let fs = mount(&ram, "");
    let all = fs.readdir(d, 0, 1000).expect("holes are passed over");
    assert_eq!(all.len(), 302);
    assert!(fs.lookup(d, b"nobody").is_err());
    fs.lookup(d, b"name-200").expect("there");
    assert!(
        fs.readdir(d, u64::MAX, 10)
            .expect("beyond the end")
            .is_empty()
    );
}

#[test]
fn names_that_are_none() {
    let (good, [_, d, i, _]) = volume();
    for (len, words) in [(0u16, "name_len"), (300, "name_len"), (256, "name_len")] {
        let ram = fork(&good);
        patch_name(&ram, b"name-7", |block, slot| {
            let at = DentryLayout::BLOCK.entries.start + 11 * slot + 8;
            block[at..at + 2].copy_from_slice(&len.to_le_bytes());
        });
        let fs = mount(&ram, "");
        refused(fs.readdir(d, 0, 1000), &["directory", words]);
        assert!(fs.lookup(d, b"name-7").is_err());
    }
    for byte in [0, b'/'] {
        let ram = fork(&good);
        patch_inode(&ram, i, |block| {
            let at = block
                .windows(6)
                .position(|w| w == b"inside")
                .expect("there");
            block[at] = byte;
        });
        let fs = mount(&ram, "");
        refused(fs.readdir(i, 0, 10), &["nside"]);
    }
}

/// Everything that looks at names, whatever it answers.
fn explore(fs: &F2fs, dir: Ino, depth: u32) {
    let creds = Creds::default();
    let entries = fs.readdir(dir, 0, 2000).unwrap_or_default();
    for e in entries.iter().take(20) {
        let _ = fs.lookup(dir, &e.name);
        let _ = fs.readlink(e.ino);
        let _ = fs.listxattr(e.ino);
        if depth > 0 && !matches!(&e.name[..], b"." | b"..") {
            explore(fs, e.ino, depth - 1);
        }
    }
    let made = fs.create(dir, b"new", FileKind::File, 0o600, 0, creds);
    let _ = fs.make_dir(dir, b"new dir");
    if made.is_ok() {
        let _ = fs.rename(dir, b"new", dir, b"newer", fscore::RenameMode::Replace);
        let _ = fs.unlink(dir, b"newer");
    }
    let _ = fs.rmdir(dir, b"i");
    let _ = fs.unlink(dir, b"name-3");
}

#[test]
fn damage_anywhere_in_names_and_inodes() {
    let (good, inos) = volume();
    let mut rng = Rng::named(1, "damage of names");
    for _ in 0..150 {
        let ram = fork(&good);
        let ino = inos[rng.below(4) as usize];
        let (at, bytes) = (rng.below(4096) as usize, 1 + rng.below(30) as usize);
        let mut noise = vec![0; bytes];
        rng.fill(&mut noise);
        let damage = |block: &mut [u8]| {
            for (n, byte) in noise.iter().enumerate() {
                block[(at + n) % 4072] ^= byte;
            }
        };
        if rng.one_in(2) {
            patch_inode(&ram, ino, damage);
        } else {
            patch_name(&ram, b"name-9", |block, _| damage(block));
        }
        let Ok(fs) = try_mount(&ram, "") else {
            continue;
        };
        explore(&fs, fs.root(), 1);
        let _ = fs.sync();
        let _ = fs.unmount();
    }
}
