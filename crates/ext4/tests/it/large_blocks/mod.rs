//! Volumes with blocks of 8, 16, 32 and 64 KiB: those of mke2fs and our own, read and written,
//! judged by e2fsck and read back by debugfs. Linux mounts blocks that are larger than its pages
//! since 6.19 only, so it is no judge here.
#![allow(clippy::disallowed_methods)]

mod crowds;
mod cuts;
mod names;

use crate::common::trees::{Tree, kernel_tree, our_tree, same_trees};
use crate::common::{Image, check_ram, have_tools, made, options_of, said, tool, try_mount};
use base::{BlockNo, Rng};
use block::{Class, Queue};
use blockdev::{Op, Piece, Request, Tap, write_block};
use fscore::{FallocateMode, FileSystem};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use testkit::Brief;
use testkit::image::done;
use varve_ext4::mkfs::{self, DeviceContent, JournalSize, MkfsOptions};
use varve_ext4::{Ext4, MountOptions};

/// The sizes of this module.
pub const SIZES: [u32; 4] = [8192, 16_384, 32_768, 65_536];

/// MiB of the smallest volume with a journal, and some room.
pub fn mib_of(block_bytes: u32) -> u64 {
    let blocks = 2400 * u64::from(block_bytes);
    blocks.div_ceil(1 << 20)
}

/// Random bytes of one seed.
fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Rng::named(seed, "large blocks").fill(&mut bytes);
    bytes
}

/// A tree on the host: files of lengths around those of blocks, holes, links, names that fill
/// leaves.
fn host_tree(root: &Path) {
    let deep = root.join("a/b/c/d");
    fs::create_dir_all(&deep).expect("folders");
    for (n, len) in [0, 1, 4095, 8192, 65_535, 65_536, 65_537, 300_000]
        .into_iter()
        .enumerate()
    {
        fs::write(root.join(format!("file-{n}")), random(n as u64, len)).expect("a file");
        fs::write(deep.join(format!("deep-{n}")), random(100 + n as u64, len)).expect("a file");
    }
    let mut sparse = vec![0; 500_000];
    sparse[400_000..400_010].fill(9);
    fs::write(root.join("sparse"), sparse).expect("a file");
    let many = root.join("many");
    fs::create_dir(&many).expect("a folder");
    for n in 0..1500 {
        fs::write(many.join(format!("{n:05}-{}", "n".repeat(n % 200))), b"").expect("a file");
    }
    fs::hard_link(root.join("file-3"), root.join("again")).expect("a link");
    std::os::unix::fs::symlink("a/b/c", root.join("short")).expect("a link");
    std::os::unix::fs::symlink("x/".repeat(900), root.join("long")).expect("a link");
}

/// The tree of a volume as debugfs reads it.
fn debugfs_tree(image: &Image) -> Tree {
    let out = tempfile::tempdir().expect("a folder");
    let request = format!("rdump / {}", out.path().display());
    done(tool("debugfs").arg("-R").arg(&request).arg(&image.path));
    let mut tree = kernel_tree(out.path());
    // debugfs makes a file for each name, owned by whom it runs as, and lost+found is not copied
    // with its mode.
    tree.remove("/lost+found");
    make_plain(&mut tree);
    tree
}

/// Takes away what a copy by debugfs does not tell.
fn make_plain(tree: &mut Tree) {
    for (_, _, nlink, owner, content) in tree.values_mut() {
        (*nlink, *owner) = (0, (0, 0));
        // Of a file whose content is inline it copies all of the area in the inode.
        while content.len() <= 60 && content.last() == Some(&0) {
            content.pop();
        }
    }
}

/// Our tree, as far as debugfs can tell.
fn our_plain_tree(fs: &Ext4) -> Tree {
    let mut tree = our_tree(fs);
    tree.remove("/lost+found");
    make_plain(&mut tree);
    tree
}

/// Changes some of everything.
fn change(fs: &Ext4) {
    let at = |name: &str| fs.find(name);
    fs.write(at("file-0"), 0, &random(200, 200_000))
        .expect("room");
    fs.write(at("file-7"), 65_500, &random(201, 100))
        .expect("room");
    fs.write(at("sparse"), 100_001, &random(202, 70_000))
        .expect("room");
    fs.resize(at("file-6"), 65_530).expect("cut");
    fs.resize(at("file-1"), 1 << 33).expect("grown");
    fs.resize(at("file-1"), 5000).expect("cut");
    let punched = at("file-4");
    fs.fallocate(punched, FallocateMode::PunchHole, 100, 60_000)
        .expect("a hole");
    let room = fs.fallocate(at("file-5"), FallocateMode::Allocate, 1 << 20, 3 << 20);
    // A block map has no unwritten blocks.
    assert!(room.is_ok() || room.is_err_and(|e| e.errno() == fscore::Errno::NotSup));
    let many = fs.find("many");
    for n in (0..1500).step_by(2) {
        fs.unlink(many, format!("{n:05}-{}", "n".repeat(n % 200)).as_bytes())
            .expect("there");
    }
    for n in 0..700 {
        fs.make(many, format!("new-{n}-{}", "m".repeat(n % 180)))
            .expect("room");
    }
    let dir = fs.make_dir(many, "dir").expect("room");
    let file = fs.make(dir, "file").expect("room");
    fs.write(file, 0, &random(203, 1 << 20)).expect("room");
    fs.rename(
        dir,
        b"file",
        fs.root(),
        b"moved",
        fscore::RenameMode::Replace,
    )
    .expect("moved");
    fs.make_link(dir, "target", &[b'y'; 4000]).expect("room");
    fs.sync().expect("synced");
}

fn through_mke2fs(block_bytes: u32, features: &[&str], options: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    host_tree(folder.path());
    let (block, from) = (block_bytes.to_string(), folder.path().display().to_string());
    let mut args = vec!["-b", &block, "-d", &from, "-E", "root_owner=0:0"];
    args.extend(features);
    let image = Image::new(mib_of(block_bytes), &args);
    let what = format!("blocks of {block_bytes}, {features:?}, {options}");
    let (ram, fs) = image.mount(options);
    same_trees(&debugfs_tree(&image), &our_plain_tree(&fs));
    change(&fs);
    let after = our_plain_tree(&fs);
    image.end(&fs, &ram);
    same_trees(&debugfs_tree(&image), &after);
    let again = try_mount(&ram, options).unwrap_or_else(|e| panic!("{what}: {e}"));
    same_trees(&our_plain_tree(&again), &after);
    image.end(&again, &ram);
}

/// Of a superblock only 4 KiB are written in place, because a device that may tear a larger write
/// anywhere has no second copy of it (log_super-J1).
#[test]
fn superblocks_are_written_in_pieces_of_4_kib() {
    for block_bytes in SIZES {
        let ram = made(&MkfsOptions {
            block_bytes,
            ..options_of(mib_of(block_bytes))
        });
        let sizes = |request: &Request| match &request.op {
            Op::Write {
                lba,
                pieces,
                fua: true,
            } => {
                let of_log = |piece: &Piece| piece.class == Class::JournalSuperblock;
                let own = lba.0 < 8 || pieces.iter().any(of_log);
                own.then(|| pieces.iter().map(|piece| piece.bytes.len()).sum::<usize>())
            }
            _ => None,
        };
        let tap = Arc::new(Tap::new(ram, sizes));
        for n in 0..3 {
            let queue = Queue::new(tap.clone());
            let fs = Ext4::mount(queue, MountOptions::default()).expect("a volume");
            fs.make(fs.root(), format!("file-{n}")).expect("room");
            fs.unmount().expect("unmount");
        }
        let sizes: Vec<usize> = tap.take().into_iter().map(|passed| passed.note).collect();
        assert!(sizes.len() >= 9, "of the volume and of the log: {sizes:?}");
        assert!(sizes.iter().all(|&bytes| bytes == 4096), "{sizes:?}");
    }
}

/// A volume with large blocks has one group and no backup of its superblock. Where it was made over
/// an older one, that one's backup and descriptors may still be there, and are none of its own.
#[test]
fn the_backup_of_an_older_shape_is_not_followed() {
    let older = options_of(200);
    for uuid in [older.uuid, [9; 16]] {
        let newer = MkfsOptions {
            block_bytes: 65_536,
            journal: JournalSize::None,
            uuid,
            ..options_of(200)
        };
        let ram = made(&older);
        let plan = mkfs::plan(&newer).expect("a volume");
        // As a tool makes it that leaves what it does not need: ours wipes what lies there.
        let queue = Queue::new(ram.clone());
        plan.write(&queue, DeviceContent::Zeros).expect("written");
        let image = ram.image();
        let backup = &image[32_768 * 4096..][..1024];
        assert_eq!(backup[56..58], [0x53, 0xEF], "the older backup is there");
        let mut head = image[..4096].to_vec();
        // The last byte of the checksum of the superblock.
        head[1024 + 1023] ^= 1;
        write_block(&*ram, BlockNo(0).lba(), Class::Home, head.into()).expect("in range");
        let refused = try_mount(&ram, "").err();
        let e = refused.expect("nothing tells what the volume is");
        assert!(e.to_string().contains("superblock"), "{e}");
        let words = said(&check_ram(&ram));
        assert!(words.contains("no backup is left"), "{words}");
    }
}

#[test]
fn volumes_of_mke2fs_are_read_and_written() {
    if !have_tools() {
        return;
    }
    for block_bytes in SIZES {
        through_mke2fs(block_bytes, &[], "");
    }
    for features in [
        &["-t", "ext3"][..],
        &["-O", "^metadata_csum,^64bit"],
        &["-O", "inline_data,orphan_file", "-I", "1024"],
        &[
            "-O",
            "^has_journal,uninit_bg,^metadata_csum,meta_bg,^resize_inode",
        ],
    ] {
        let scheme = match features.concat().contains("^has_journal") {
            true => "scheme=none",
            false => "",
        };
        through_mke2fs(65_536, features, scheme);
        through_mke2fs(16_384, features, scheme);
    }
}

/// Each scheme, with data of each mode.
#[test]
fn every_scheme_writes_large_blocks() {
    if !have_tools() {
        return;
    }
    for (n, options) in [
        "scheme=flush-ahead",
        "scheme=coalition",
        "scheme=emmc",
        "scheme=adaptive",
        "scheme=emmc,full-first=on",
        "scheme=fast-commit",
        "data=journal",
        "scheme=emmc,data=journal",
    ]
    .into_iter()
    .enumerate()
    {
        through_mke2fs(SIZES[(n + 1) % 4], &[], options);
    }
}

/// A log that a cut has left is replayed by ours and by e2fsck, to one and the same volume.
#[test]
fn e2fsck_replays_our_log() {
    if !have_tools() {
        return;
    }
    for block_bytes in SIZES {
        let options = MkfsOptions {
            block_bytes,
            journal: JournalSize::Blocks(1024),
            ..options_of(mib_of(block_bytes))
        };
        let ram = made(&options);
        let fs = try_mount(&ram, "commit=600").expect("mounts");
        for n in 0..60 {
            let file = fs.file(format!("file-{n}"));
            fs.write(file, 0, &random(n, 3000 * n as usize))
                .expect("room");
            fs.fsync(file, false).expect("synced");
            if n % 3 == 0 {
                fs.unlink(fs.root(), format!("file-{n}").as_bytes())
                    .expect("there");
            }
        }
        fs.sync().expect("synced");
        let image = Image::of(&crate::common::fork(&ram));
        let (code, said_by_it) = image.fsck_repair();
        assert!(said_by_it.contains("recovering journal"), "{said_by_it}");
        assert!(matches!(code, Some(0 | 1)), "{said_by_it}");
        image.fsck();
        let (_, theirs) = image.mount("");
        let ours = crate::common::fork(&ram);
        let mine = try_mount(&ours, "").expect("recovers");
        same_trees(&our_plain_tree(&mine), &our_plain_tree(&theirs));
        mine.unmount().expect("unmounts");
        let report = check_ram(&ours);
        assert!(report.is_clean(), "{block_bytes}: {}", said(&report));
    }
}

/// A superblock that is torn or gone is mended from its backup, which lies at block 65528 and not
/// behind as many blocks as a bitmap has bits, or where smaller groups end.
#[test]
fn a_lost_superblock_is_mended_from_its_backup() {
    for (mib, block_bytes, group, at) in [
        (600, 8192, None, 65_528),
        (300, 65_536, Some(2048), 2048),
        (300, 32_768, Some(4000), 4000),
    ] {
        let ram = made(&MkfsOptions {
            block_bytes,
            blocks_per_group: group,
            journal: JournalSize::Blocks(1024),
            ..options_of(mib)
        });
        // Nothing tells where groups of an odd size end but what is left of the superblock.
        let damages = [1024 + 0x3FC..1024 + 0x400, 1024..1536];
        for damage in damages
            .into_iter()
            .take(if group == Some(4000) { 1 } else { 2 })
        {
            let lost = crate::common::fork(&ram);
            let mut head = lost.image()[..4096].to_vec();
            head[damage.clone()].fill(0xA5);
            write_block(&*lost, BlockNo(0).lba(), Class::Home, head.into()).expect("in range");
            let report = check_ram(&lost);
            let (what, words) = (said(&report), format!("backup in block {at} "));
            assert!(what.contains(&words), "{block_bytes} {damage:?}: {what}");
            let fs =
                try_mount(&lost, "").unwrap_or_else(|e| panic!("{block_bytes} {damage:?}: {e}"));
            fs.file("a");
            fs.unmount().expect("unmounts");
            let report = check_ram(&lost);
            assert!(
                report.is_clean(),
                "{block_bytes} {damage:?}: {}",
                said(&report)
            );
        }
    }
}
