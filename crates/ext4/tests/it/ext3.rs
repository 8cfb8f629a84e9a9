//! ext3 as Varve's mkfs makes it: every scheme, the format of its log, recovery by e2fsck and the
//! kernel, a lost superblock.
#![allow(clippy::disallowed_methods)]

use crate::common::trees::{our_tree, same_trees};
use crate::common::{
    Image, check_ram, fork, fresh, fresh_of, have_tools, load, mount, pattern, said, try_mount,
    zeros,
};
use base::{BlockNo, Bytes, Ino};
use block::Class;
use blockdev::{Ram, write_block};
use fscore::{Creds, Errno, FallocateMode, FileKind, FileSystem, SetAttr};
use journal::Preset;
use ondisk::ext4::{GroupDesc, Superblock};
use ondisk::jbd2::{self, BlockKind, DescriptorReader, Header};
use std::sync::Arc;
use testkit::Brief;
use varve_ext4::Ext4;
use varve_ext4::mkfs::Kind;

const BLOCK: u64 = 4096;

fn create(fs: &Ext4, dir: Ino, name: &str) -> Ino {
    let made = fs.create(
        dir,
        name.as_bytes(),
        FileKind::File,
        0o644,
        0,
        Creds::default(),
    );
    made.unwrap_or_else(|e| panic!("{name}: {e}")).ino
}

/// Files in every tree of the block map, holes, truncation, names, links, an fsync each.
fn use_it(fs: &Ext4) {
    let root = fs.root();
    let dir = fs
        .mkdir(root, b"dir", 0o755, Creds::default())
        .expect("mkdir");
    for n in 0..400u64 {
        let file = create(fs, dir.ino, &format!("a name that fills the directory {n}"));
        fs.write(file, 0, &pattern(n, (n * 37 % 9000) as usize))
            .expect("write");
    }
    // Direct, indirect, double and triple indirect blocks; the last one beyond 4 GiB.
    let sparse = create(fs, root, "sparse");
    for lblk in [
        0,
        11,
        12,
        1035,
        1036,
        1036 + 1024 * 1024 - 1,
        1036 + 1024 * 1024,
        3_000_000,
    ] {
        fs.write(sparse, lblk * BLOCK + 100, &pattern(lblk, 5000))
            .expect("write");
    }
    fs.fsync(sparse, false).expect("fsync");
    let size = Some(1035 * BLOCK + 77);
    let shrink = SetAttr {
        size,
        ..SetAttr::default()
    };
    fs.setattr(sparse, &shrink).expect("truncate");
    let grown = create(fs, root, "grown");
    for n in 0..40 {
        fs.write(grown, n * 70_000, &pattern(n, 70_000))
            .expect("write");
        fs.fsync(grown, n % 2 == 0).expect("fsync");
    }
    fs.link(grown, dir.ino, b"again").expect("link");
    fs.make_link(root, b"long", &[b'x'; 300]).expect("symlink");
    for n in (0..400).step_by(3) {
        let name = format!("a name that fills the directory {n}");
        fs.unlink(dir.ino, name.as_bytes()).expect("unlink");
    }
    let e = fs
        .fallocate(grown, FallocateMode::Allocate, 0, 1 << 22)
        .expect_err("no such thing");
    assert_eq!(
        e.errno(),
        Errno::NotSup,
        "block maps know no unwritten blocks"
    );
    fs.sync().expect("sync");
}

fn schemes() -> Vec<String> {
    let presets = Preset::ALL.iter().filter(|p| p.scheme().is_some());
    let mut all: Vec<String> = presets.map(|p| format!("scheme={p}")).collect();
    all.extend(["data=journal".into(), "data=writeback,scheme=emmc".into()]);
    all
}

#[test]
fn every_scheme_leaves_what_e2fsck_accepts() {
    for options in schemes() {
        let ram = fresh(Kind::Ext3, 48);
        let Ok(fs) = try_mount(&ram, &options) else {
            // This home mode needs a device that can move pages.
            assert!(options.contains("jftl"), "{options}");
            continue;
        };
        use_it(&fs);
        let tree = our_tree(&fs);
        fs.check();
        let cut = fork(&ram);
        fs.unmount().expect("unmount");
        let report = check_ram(&ram);
        assert!(report.is_clean(), "{options}: {}", said(&report));
        // What was synced is there after a cut.
        let fs = mount(&cut, &options);
        assert!(fs.recovery().is_some(), "{options}");
        same_trees(&tree, &our_tree(&fs));
        fs.unmount().expect("unmount");
        let report = check_ram(&cut);
        assert!(
            report.is_clean(),
            "{options} after a cut: {}",
            said(&report)
        );
        if have_tools() {
            let image = Image::ours(Kind::Ext3, 8);
            for ram in [&ram, &cut] {
                image.store(ram);
                image.fsck();
            }
        }
    }
}

/// `e2fsck -fy` makes the same tree of a log as Varve's own recovery.
#[test]
fn e2fsck_replays_to_the_same_tree() {
    if !have_tools() {
        return;
    }
    for options in ["", "data=journal", "order=flush-ahead,data=writeback"] {
        let ram = fresh(Kind::Ext3, 48);
        let fs = mount(&ram, options);
        use_it(&fs);
        let cut = fork(&ram);
        fs.unmount().expect("unmount");
        let image = Image::ours(Kind::Ext3, 8);
        image.store(&cut);
        let (code, text) = image.fsck_repair();
        // Nothing but the log had to be mended.
        assert!(code == Some(0) || code == Some(1), "{text}");
        assert!(text.contains("recovering journal"), "{text}");
        let fs = mount(&cut, options);
        let theirs = load(&image.path);
        let other = mount(&theirs, options);
        same_trees(&our_tree(&fs), &our_tree(&other));
        fs.unmount().expect("unmount");
        other.unmount().expect("unmount");
    }
}

/// Superblock of the log and its control blocks, by what they look like.
fn log_of(ram: &Ram) -> (jbd2::Superblock, Vec<Bytes>) {
    let mut sb = None;
    let mut descriptors = Vec::new();
    for (_, bytes) in ram.blocks() {
        match Header::parse(&bytes).map(|h| h.kind) {
            Ok(BlockKind::SuperblockV2) => sb = jbd2::Superblock::parse(&bytes).ok(),
            Ok(BlockKind::Descriptor) => descriptors.push(bytes),
            _ => {}
        }
    }
    (sb.expect("a log"), descriptors)
}

fn block_of(ram: &Ram, n: u64) -> Bytes {
    let blocks = ram.blocks();
    let at = blocks.into_iter().find(|(at, _)| *at == n);
    at.expect("not blank").1
}

#[test]
fn the_log_is_that_of_jbd() {
    let ram = fresh(Kind::Ext3, 128);
    let (log, _) = log_of(&ram);
    assert!(log.incompat().is_empty() && log.compat().is_empty() && log.is_v2());
    let fs = mount(&ram, "data=journal,commit=600");
    let file = create(&fs, fs.root(), "file");
    fs.write(file, 0, &pattern(1, 700 * BLOCK as usize))
        .expect("write");
    fs.fsync(file, false).expect("fsync");
    let (log, descriptors) = log_of(&ram);
    assert!(
        log.incompat().is_empty(),
        "no revoke yet: {}",
        log.incompat()
    );
    let tags = |bytes: &Bytes| {
        let reader = DescriptorReader::parse(log.format(), bytes).expect("a descriptor");
        reader.count()
    };
    let most = descriptors.iter().map(tags).max();
    assert_eq!(most, Some(506), "tags of 8 bytes, no tail");
    fs.unlink(fs.root(), b"file").expect("unlink");
    fs.sync().expect("sync");
    let (log, _) = log_of(&ram);
    assert_eq!(log.incompat(), jbd2::JournalIncompat::REVOKE);
    fs.unmount().expect("unmount");
}

/// Without checksums a damaged primary superblock is taken for this volume's because of the
/// descriptors behind it (ext4-mount-M2).
#[test]
fn a_lost_superblock_is_replaced_by_its_backup() {
    let lose = |ram: &Arc<Ram>, n: u64| {
        let ram = fork(ram);
        write_block(&*ram, BlockNo(n).lba(), Class::Data, zeros()).expect("in range");
        ram
    };
    let ram = fresh(Kind::Ext3, 160);
    let fs = mount(&ram, "");
    create(&fs, fs.root(), "file");
    fs.sync().expect("sync");
    let cut = fork(&ram);
    fs.unmount().expect("unmount");
    for before in [&ram, &cut] {
        let lost = lose(before, 0);
        let fs = mount(&lost, "");
        fs.find(b"file");
        fs.unmount().expect("unmount");
        let report = check_ram(&lost);
        assert!(report.is_clean(), "{}", said(&report));
    }
    // Descriptors, or the inode of the journal, are lost too: their images are in the log, and the
    // copy of the journal's block map leads there (ext4-mount-M3).
    let sb = Superblock::parse(&block_of(&cut, 0)[1024..]).expect("a volume");
    let desc = GroupDesc::parse(&block_of(&cut, 1), sb.desc_bytes()).expect("a group");
    for torn in [1, desc.inode_table().0] {
        let lost = lose(&lose(&cut, 0), torn);
        let fs = mount(&lost, "");
        assert!(fs.recovery().is_some());
        fs.find(b"file");
        fs.unmount().expect("unmount");
        let report = check_ram(&lost);
        assert!(report.is_clean(), "block {torn}: {}", said(&report));
    }
    // Where the descriptors were lie blocks of another file system: this is not the volume any
    // more.
    let other = lose(&lose(&ram, 0), 1);
    assert!(try_mount(&other, "").is_err());
    // A volume of one group has no backup.
    assert!(try_mount(&lose(&fresh(Kind::Ext3, 64), 0), "").is_err());
}

/// The superblock is lost; its first backup lies elsewhere in each size of blocks.
#[test]
fn backups_of_small_blocks_are_found() {
    for block_bytes in [1024, 2048] {
        let ram = fresh_of(Kind::Ext4, 64, block_bytes);
        let mut head = block_of(&ram, 0).to_vec();
        head[1024 + 0x70] ^= 1;
        write_block(&ram, BlockNo(0).lba(), Class::Data, head.into()).expect("in range");
        let fs = mount(&ram, "");
        fs.unmount().expect("unmount");
        let report = check_ram(&ram);
        assert!(report.is_clean(), "{block_bytes}: {}", said(&report));
    }
}

/// A block size that ext4 does not have is refused, and the message names it.
#[test]
fn blocks_above_64_kib_are_refused_by_name() {
    let ram = fresh_of(Kind::Ext3, 64, 4096);
    let mut head = ram.image()[..BLOCK as usize].to_vec();
    head[1024 + 0x18] = 7;
    write_block(&*ram, BlockNo(0).lba(), Class::Home, head.into()).expect("in range");
    let e = try_mount(&ram, "").map(drop).expect_err("refused");
    assert!(e.to_string().contains("s_log_block_size"), "{e}");
}
