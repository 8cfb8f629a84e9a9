//! Hand-written sequences of operations that random schedules do not produce.

use super::VOLUME_MIB;
use crate::common::{MIB, caps, fresh};
use base::{BLOCK_BYTES, BlockNo};
use block::{Class, Queue};
use blockdev::{Image, SpecDisk, write_block};
use fscore::{FileSystem, RenameMode};
use ondisk::f2fs::{Geometry, Nid, SUPERBLOCK_AT, Superblock, addr, addr_slot0, footer, set_addr};
use std::sync::Arc;
use testkit::Brief;
use varve_f2fs::{F2fs, MountOptions, Reason};

const PAGES: u64 = 12;

fn mounted(content: Image, seed: u64) -> Result<(Arc<SpecDisk>, Arc<F2fs>), String> {
    let disk = SpecDisk::from_image(caps(VOLUME_MIB * MIB), content, seed);
    let fs = F2fs::mount(Queue::new(disk.clone()), MountOptions::default());
    Ok((disk, fs.map_err(|e| format!("mount: {e}"))?))
}

fn start() -> Image {
    fresh(VOLUME_MIB).blocks().into_iter().collect()
}

fn pages(first: u8, count: u64) -> Vec<u8> {
    let page = |n: u64| vec![first + n as u8; BLOCK_BYTES];
    (0..count).flat_map(page).collect()
}

fn compare(fs: &F2fs, name: &str, expected: &[u8]) -> Result<(), String> {
    let ino = fs.lookup(fs.root(), name.as_bytes());
    let ino = ino.map_err(|e| format!("{name}: {e}"))?;
    match fs.content(ino) == expected {
        true => Ok(()),
        false => Err(format!("{name}: other content than was synced")),
    }
}

/// A range of a file is cut out: its later blocks belong to earlier pages.
pub fn collapsed() -> Result<(), String> {
    let (disk, fs) = mounted(start(), 1)?;
    let ino = fs.file("f");
    fs.write(ino, 0, &pages(1, PAGES)).expect("writes");
    fs.sync().expect("checkpoint");
    let block = BLOCK_BYTES as u64;
    fs.collapse_range(ino, 2 * block, 3 * block)
        .expect("collapses");
    fs.fsync(ino, false).expect("syncs");
    let mut expected = pages(1, PAGES);
    expected.drain(2 * BLOCK_BYTES..5 * BLOCK_BYTES);
    let left = disk.snapshot_lost();
    fs.unmount().expect("unmounts");
    let (disk, fs) = mounted(left, 2)?;
    assert!(fs.recovery().is_some_and(|r| r.blocks > 0), "roll-forward");
    let same = compare(&fs, "f", &expected);
    fs.unmount().map_err(|e| e.to_string())?;
    let ram = Arc::new(disk.visible().to_ram(VOLUME_MIB * MIB));
    crate::common::judge(&ram);
    same
}

/// A file goes to another directory, and a new file that takes its old name is synced (sync-Y7).
pub fn renamed_away() -> Result<(), String> {
    let disk = SpecDisk::from_image(caps(VOLUME_MIB * MIB), start(), 1);
    let strict = MountOptions::parse("fsync_mode=strict").expect("options");
    let fs = F2fs::mount(Queue::new(disk.clone()), strict).expect("mounts");
    let root = fs.root();
    let old = fs.file("a");
    fs.write(old, 0, &pages(1, PAGES)).expect("writes");
    let dir = fs.mkdir(root, b"d", 0o755, Default::default());
    let dir = dir.expect("a directory").ino;
    fs.sync().expect("checkpoint");
    fs.rename(root, b"a", dir, b"e", RenameMode::Replace)
        .expect("renames");
    let new = fs.file("a");
    fs.write(new, 0, &pages(50, PAGES)).expect("writes");
    fs.fsync(new, true).expect("syncs");
    let checkpoints = fs.fsync_checkpoints();
    let left = disk.snapshot_lost();
    fs.unmount().expect("unmounts");
    let (disk, fs) = mounted(left, 2)?;
    let same = compare(&fs, "a", &pages(50, PAGES));
    let found = fs.lookup(fs.find(b"d"), b"e");
    let found = found.map_err(|e| format!("the renamed file: {e}"))?;
    assert_eq!(fs.content(found), pages(1, PAGES));
    assert_eq!(checkpoints.get(&Reason::MovedNames), Some(&1));
    fs.unmount().map_err(|e| e.to_string())?;
    crate::common::judge(&Arc::new(disk.visible().to_ram(VOLUME_MIB * MIB)));
    same
}

/// The first block of a chain is lost, the second is not. A life that begins there syncs a file of
/// its own.
pub fn revived() -> Result<(), String> {
    let (disk, fs) = mounted(start(), 1)?;
    fs.mkdir(fs.root(), b"d", 0o755, Default::default())
        .expect("a directory");
    fs.sync().expect("checkpoint");
    let mut made = Vec::new();
    for (n, name) in ["a", "b"].into_iter().enumerate() {
        let ino = fs.file(name);
        made.push(ino);
        fs.write(ino, 0, &pages(10 * n as u8 + 1, PAGES))
            .expect("writes");
        fs.fsync(ino, false).expect("syncs");
    }
    let left = disk.snapshot_lost();
    fs.unmount().expect("unmounts");
    let ram = left.to_ram(VOLUME_MIB * MIB);
    let first = ram.blocks().into_iter().find(|(n, bytes)| {
        is_main(&left, *n) && footer(bytes).nid == Nid(made[0].0) && footer(bytes).is_fsync()
    });
    let (at, _) = first.expect("the node of a");
    write_block(
        &ram,
        BlockNo(at).lba(),
        Class::Data,
        vec![0; BLOCK_BYTES].into(),
    )
    .expect("writes");
    let (disk, fs) = mounted(ram.blocks().into_iter().collect(), 2)?;
    assert!(fs.recovery().is_none(), "the chain is empty");
    let ino = fs.file("c");
    fs.write(ino, 0, &pages(100, PAGES)).expect("writes");
    fs.fsync(ino, false).expect("syncs");
    let left = disk.snapshot_lost();
    fs.unmount().map_err(|e| e.to_string())?;
    let (_, fs) = mounted(left, 3)?;
    let same = compare(&fs, "c", &pages(100, PAGES));
    let back = fs.lookup(fs.root(), b"b");
    fs.unmount().map_err(|e| e.to_string())?;
    same?;
    match back {
        Ok(_) => Err("b came back from an earlier life".into()),
        Err(_) => Ok(()),
    }
}

/// A forged chain: a synced file names a block that belongs to another one at the checkpoint.
pub fn shared() -> Result<(), String> {
    let (disk, fs) = mounted(start(), 1)?;
    let mut inos = Vec::new();
    for (n, name) in ["a", "b"].into_iter().enumerate() {
        let ino = fs.file(name);
        let content = pages(10 * n as u8 + 1, PAGES);
        fs.write(ino, 0, &content).expect("writes");
        match n {
            0 => fs.sync().expect("checkpoint"),
            _ => fs.fsync(ino, false).expect("syncs"),
        }
        inos.push(ino);
    }
    let left = disk.snapshot_lost();
    fs.unmount().expect("unmounts");
    let ram = left.to_ram(VOLUME_MIB * MIB);
    let node = |n: usize| {
        let found = ram.blocks().into_iter().find(|(at, bytes)| {
            let f = footer(bytes);
            is_main(&left, *at) && f.nid == Nid(inos[n].0) && f.is_inode()
        });
        found.expect("its node")
    };
    let first = addr_slot0(&node(0).1);
    let (at, mut bytes) = (node(1).0, node(1).1.to_vec());
    set_addr(&mut bytes, first, addr(&node(0).1, first));
    write_block(&ram, BlockNo(at).lba(), Class::Data, bytes.into()).expect("writes");
    let (disk, fs) = mounted(ram.blocks().into_iter().collect(), 2)?;
    let mut mixed = pages(11, PAGES);
    mixed[..BLOCK_BYTES].fill(1);
    let mut holed = pages(1, PAGES);
    holed[..BLOCK_BYTES].fill(0);
    let same = compare(&fs, "b", &mixed).and_then(|()| compare(&fs, "a", &holed));
    fs.unmount().map_err(|e| e.to_string())?;
    let ram = Arc::new(disk.visible().to_ram(VOLUME_MIB * MIB));
    crate::common::judge(&ram);
    same
}

fn is_main(image: &Image, block: u64) -> bool {
    let raw = image.block(0);
    let sb = Superblock::parse(&raw[SUPERBLOCK_AT..]).expect("a superblock");
    let geo = Geometry::new(&sb, VOLUME_MIB * MIB / BLOCK_BYTES as u64).expect("a volume");
    geo.is_main(ondisk::f2fs::BlockAddr(block as u32))
}
