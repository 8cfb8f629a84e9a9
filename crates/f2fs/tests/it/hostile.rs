//! Hostile volumes: every byte of the metadata of a small image is flipped, and the numbers in
//! whole packs are forged with matching checksums. A mount may refuse, an operation may fail;
//! nothing panics, hangs, or takes memory without bound.
#![allow(clippy::disallowed_methods)]

use crate::common;
use crate::common::fresh;
use base::{BLOCK_BYTES, BlockNo, Ino, Rng};
use block::{BlockDevice, Class, Queue};
use blockdev::{Ram, write_block};
use fscore::{Creds, FileKind, FileSystem};
use ondisk::f2fs::{Checkpoint, Geometry, NAT_PER_BLOCK, Nid, SIT_PER_BLOCK, Superblock};
use std::sync::Arc;
use testkit::Brief;
use varve_f2fs::{F2fs, MountOptions};

const MIB: u64 = 64;

/// A volume with files and directories, unmounted or left in the middle.
fn sample(clean: bool) -> Arc<Ram> {
    let ram = fresh(MIB);
    let fs = mount(&ram, false).expect("mounts");
    let root = fs.root();
    let dir = fs.make_dir(root, b"dir").expect("mkdir");
    for n in 0..40 {
        let name = format!("file {n}");
        let ino = fs.make(dir, name).expect("create");
        fs.write(ino, n << 12, &[n as u8; 6000]).expect("write");
    }
    fs.sync().expect("sync");
    let ino = fs.make(root, b"synced").expect("create");
    fs.write(ino, 0, &[9; 9000]).expect("write");
    fs.fsync(ino, false).expect("fsync");
    if clean {
        fs.unmount().expect("unmount");
    }
    ram
}

fn mount(ram: &Arc<Ram>, read_only: bool) -> Result<Arc<F2fs>, String> {
    let options = MountOptions {
        timers: false,
        read_only,
        ..MountOptions::default()
    };
    F2fs::mount(Queue::new(ram.clone()), options).map_err(|e| e.to_string())
}

/// Reads all there is, changes a little, unmounts. Answers how many names were seen.
fn walk(ram: &Arc<Ram>, read_only: bool) -> Result<usize, String> {
    let fs = mount(ram, read_only)?;
    let (mut names, mut open) = (0, vec![(fs.root(), 0)]);
    while let Some((dir, depth)) = open.pop() {
        for entry in fs.readdir(dir, 0, 200).unwrap_or_default() {
            names += 1;
            let dots = entry.name == b"." || entry.name == b"..";
            let Ok(attr) = fs.getattr(entry.ino) else {
                continue;
            };
            if attr.kind == FileKind::Dir && !dots && depth < 3 && names < 1000 {
                open.push((entry.ino, depth + 1));
            }
            let mut buf = vec![0; 10_000];
            let _ = fs.read(entry.ino, 0, &mut buf);
        }
    }
    if !read_only {
        change(&fs);
    }
    let _ = fs.unmount();
    Ok(names)
}

fn change(fs: &F2fs) {
    let root = fs.root();
    for n in 0..3 {
        let name = format!("new {n}");
        let made = fs.create(
            root,
            name.as_bytes(),
            FileKind::File,
            0o644,
            0,
            Creds::default(),
        );
        if let Ok(attr) = made {
            let _ = fs.write(attr.ino, 0, &[1; 5000]);
            let _ = fs.fsync(attr.ino, false);
        }
    }
    let dir = fs.lookup(root, b"dir").unwrap_or(Ino(0));
    for n in 0..10 {
        let _ = fs.unlink(dir, format!("file {n}").as_bytes());
    }
    let _ = fs.sync();
}

fn geometry(ram: &Ram) -> Geometry {
    let sb = Superblock::in_block(&block(ram, 0)).expect("superblock");
    Geometry::new(&sb, MIB << 8).expect("geometry")
}

fn block(ram: &Ram, n: u64) -> Vec<u8> {
    let found = ram.blocks().into_iter().find(|(at, _)| *at == n);
    found.map_or_else(|| vec![0; BLOCK_BYTES], |(_, bytes)| bytes.to_vec())
}

fn put(ram: &Ram, n: u64, bytes: Vec<u8>) {
    write_block(ram, BlockNo(n).lba(), Class::Data, bytes.into()).expect("in range");
}

/// A copy with one block changed.
fn with(ram: &Ram, n: u64, change: impl FnOnce(&mut [u8])) -> Arc<Ram> {
    let copy = common::fork(ram);
    let mut bytes = block(&copy, n);
    change(&mut bytes);
    put(&copy, n, bytes);
    copy
}

/// Blocks of metadata that are not all zeros: superblocks, packs, SIT, NAT, summaries; and node
/// blocks.
fn metadata(ram: &Ram) -> Vec<u64> {
    let geo = geometry(ram);
    let main = u64::from(geo.main);
    let all = ram.blocks().into_iter().map(|(n, _)| n);
    all.filter(|&n| n < main).collect()
}

#[test]
fn a_flip_anywhere_in_the_metadata_is_survived() {
    // VARVE_FLIPS=all for each byte; a sample otherwise.
    let all = std::env::var("VARVE_FLIPS").is_ok();
    let mut rng = Rng::named(1, "flips");
    for clean in [true, false] {
        let ram = sample(clean);
        let blocks = metadata(&ram);
        assert!(blocks.len() > 10, "{blocks:?}");
        let mut refused = 0;
        for n in blocks {
            let old = block(&ram, n);
            for at in 0..BLOCK_BYTES {
                let telling = old[at] != 0 && rng.one_in(24) || rng.one_in(400);
                if !all && !telling {
                    continue;
                }
                let bit = 1 << rng.below(8);
                let copy = with(&ram, n, |bytes| bytes[at] ^= bit);
                refused += u32::from(walk(&copy, rng.one_in(4)).is_err());
            }
        }
        assert!(refused > 0, "some flips are in what a mount checks");
    }
}

/// Numbers in a checkpoint that nothing but the checksum has checked.
#[test]
fn made_up_checkpoints_are_survived() {
    let mut rng = Rng::named(2, "packs");
    let odd = [0, 1, 2, 511, 512, 513, 0xFFFF, 0x7FFF_FFFF, u32::MAX];
    for clean in [true, false] {
        let ram = sample(clean);
        let geo = geometry(&ram);
        for round in 0..300 {
            let copy = common::fork(&ram);
            let at = 4 * rng.below(48) as usize;
            let value = match rng.one_in(2) {
                true => odd[rng.below(odd.len() as u64) as usize],
                false => rng.below(1 << 16) as u32,
            };
            for second in [false, true] {
                let start = u64::from(geo.cp_pack(second));
                let Ok(cp) = Checkpoint::parse(&block(&copy, start), 0) else {
                    continue;
                };
                let last = start + u64::from(cp.pack_blocks()) - 1;
                let mut bytes = block(&copy, start);
                if at != 0 && at != 164 {
                    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
                }
                let sum = ondisk::f2fs::crc_f2fs(&bytes[..4092]);
                bytes[4092..].copy_from_slice(&sum.to_le_bytes());
                put(&copy, start, bytes.clone());
                put(&copy, last, bytes);
            }
            let answer = walk(&copy, round % 3 == 0);
            if let Err(e) = answer {
                assert!(e.contains("corrupt") || e.contains("incompatible"), "{e}");
            }
        }
    }
}

/// NAT and SIT entries that point anywhere.
#[test]
fn made_up_tables_are_survived() {
    let mut rng = Rng::named(3, "tables");
    let ram = sample(true);
    let geo = geometry(&ram);
    for round in 0..200 {
        let copy = common::fork(&ram);
        for second in [false, true] {
            let nat = u64::from(geo.nat_addr(0, second));
            let mut bytes = block(&copy, nat);
            for _ in 0..3 {
                let nid = 3 + rng.below(60);
                let entry = ondisk::f2fs::NatEntry {
                    version: rng.below(256) as u8,
                    ino: Nid(rng.below(80) as u32),
                    addr: ondisk::f2fs::BlockAddr(match rng.below(3) {
                        0 => rng.below(1 << 32) as u32,
                        1 => u32::MAX - rng.below(2) as u32,
                        _ => geo.main.0 + rng.below(u64::from(geo.main_blocks())) as u32,
                    }),
                };
                entry.put(&mut bytes, nid as usize % NAT_PER_BLOCK);
            }
            put(&copy, nat, bytes);
            if rng.one_in(2) {
                let sit = u64::from(geo.sit_addr(0, second));
                let mut bytes = block(&copy, sit);
                let at = rng.below(SIT_PER_BLOCK as u64 * 74) as usize;
                bytes[at] ^= 1 << rng.below(8);
                put(&copy, sit, bytes);
            }
        }
        let _ = walk(&copy, round % 3 == 0);
    }
}

/// An image that ends early is refused, whatever its superblock says.
#[test]
fn a_short_image_is_refused() {
    let ram = sample(true);
    let image = ram.image();
    for mib in [0, 1, 32, 63] {
        let short = Arc::new(Ram::from_image(&image[..(mib << 20).max(4096)]));
        let e = walk(&short, true).expect_err("refused");
        assert!(e.contains("shorter") || e.contains("no F2FS fits"), "{e}");
    }
    assert!(ram.caps().sectors > 0 && walk(&ram, true).expect("whole") > 40);
}
