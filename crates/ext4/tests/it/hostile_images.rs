//! Damaged volumes: bytes of metadata blocks are garbled, half of the time with checksums corrected
//! afterwards; then mount, walk, a few changes, unmount. Each case gets an answer, without a panic
//! or an endless loop.
#![allow(clippy::disallowed_methods)]

use crate::common::{made, options_of};
use base::bytes::{get_le32, put_le32};
use base::checksum::crc32c;
use base::{Ino, Rng};
use block::Queue;
use blockdev::Image;
use fscore::{FileKind, FileSystem, SetAttr};
use ondisk::ext4::{GroupDesc, Incompat, Inode, Superblock};
use rt::{Sim, SimConfig};
use std::sync::Arc;
use testkit::Brief;
use testkit::brief::ROOT;
use varve_ext4::mkfs::{JournalSize, Kind, MkfsOptions};
use varve_ext4::{Ext4, MountOptions};

const BYTES: u64 = 16 << 20;
/// The maximum of entries read in the root directory.
const NAMES_MAX: usize = 64;

fn volume(kind: Kind) -> Image {
    let options = MkfsOptions {
        kind,
        journal: JournalSize::Blocks(1024),
        ..options_of(BYTES >> 20)
    };
    let filled = Sim::new(SimConfig::seeded(1)).run(|| {
        let device = made(&options);
        let queue = Queue::new(device.clone());
        let fs = Ext4::mount(queue, MountOptions::default()).expect("mounts");
        for n in 0..12 {
            let name = format!("file {n}");
            let file = fs.file(&name);
            // Every second block, so that the larger trees get a level.
            for page in 0..n * 2 {
                fs.write(file, page * 8192, &[n as u8; 4096]).expect("room");
            }
            fs.fsync(file, false).expect("durable");
        }
        let dir = fs.dir("dir");
        fs.make_link(dir, b"link", &[b'x'; 200]).expect("room");
        fs.unmount().expect("unmounts");
        // Blocks of the device, kept for all cases.
        device.blocks().into_iter().collect::<Image>()
    });
    filled.unwrap()
}

/// Changes one to four fields somewhere in `bytes`.
fn garble(rng: &mut Rng, bytes: &mut [u8]) {
    for _ in 0..1 + rng.below(4) {
        let width = 1 << rng.below(3);
        let at = rng.below((bytes.len() / width) as u64) as usize * width;
        let values = [
            0,
            1,
            0x7FFF_FFFF,
            u64::MAX,
            u64::MAX - 1,
            0x8000_8000,
            rng.next_u64(),
        ];
        let value = values[rng.below(values.len() as u64) as usize];
        bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }
}

struct Places {
    sb: Superblock,
    table: u64,
    bitmaps: [u64; 2],
}

fn places(content: &Image) -> Places {
    let sb = Superblock::parse(&content.block(0)[1024..]).expect("a volume");
    let desc = GroupDesc::parse(&content.block(1), sb.desc_bytes()).expect("a descriptor");
    Places {
        table: desc.inode_table().0,
        bitmaps: [desc.block_bitmap().0, desc.inode_bitmap().0],
        sb,
    }
}

fn damage(rng: &mut Rng, content: &mut Image, at: &Places) {
    let fix = rng.below(4) > 0;
    match rng.below(8) {
        0 | 1 => content.edit_block(0, |b| {
            garble(rng, &mut b[1024..1024 + 0x180]);
            if fix {
                b[1024 + 0x38..1024 + 0x3A].copy_from_slice(&[0x53, 0xEF]);
                let crc = crc32c(!0, &b[1024..2044]);
                put_le32(b, 2044, crc);
            }
        }),
        2 => content.edit_block(1, |b| {
            let bytes = at.sb.desc_bytes();
            garble(rng, &mut b[..bytes]);
            if fix {
                let mut desc = GroupDesc::parse(b, bytes).expect("a descriptor");
                desc.update_checksum(&at.sb, 0);
                desc.encode(b);
            }
        }),
        3..=5 => {
            let index = rng.below(26) as usize;
            let (block, offset) = (at.table + index as u64 / 16, index % 16 * 256);
            content.edit_block(block, |b| {
                // The block area most of all.
                let part = if rng.below(2) == 0 {
                    0x28..0x64
                } else {
                    0..0x9C
                };
                garble(rng, &mut b[offset..][part]);
                if let (true, Ok(mut inode)) = (fix, Inode::parse(&b[offset..], 256)) {
                    inode.update_checksum(at.sb.seed(), Ino(index as u32 + 1));
                    b[offset..offset + 256].copy_from_slice(inode.bytes());
                }
            });
        }
        6 => {
            let block = at.bitmaps[rng.below(2) as usize];
            content.edit_block(block, |b| garble(rng, &mut b[..512]));
        }
        _ => {
            // Any block in use: directories, extent nodes, the log's superblock.
            let used: Vec<u64> = content.blocks().map(|(n, _)| n).collect();
            let block = used[rng.below(used.len() as u64) as usize];
            content.edit_block(block, |b| garble(rng, b));
        }
    }
}

/// A log in which the largest operation would not fit is refused at mount, for every scheme, and
/// the message names the size that would suffice. That size depends on whether hash trees may have
/// a third level.
#[test]
fn log_that_is_too_small_is_refused_at_mount() {
    let plain = volume(Kind::Ext4);
    let mut large_dir = plain.clone();
    large_dir.edit_block(0, |b| {
        let mut sb = Superblock::parse(&b[1024..]).expect("a volume");
        sb.set_incompat(sb.incompat() | Incompat::LARGE_DIR);
        sb.encode(&mut b[1024..]);
    });
    for (volume, blocks, options, fits) in [
        (&plain, 288, "", false),
        (&plain, 289, "", true),
        (&plain, 100, "scheme=coalition", false),
        (&plain, 289, "scheme=emmc", true),
        (&plain, 380, "data=journal", false),
        (&plain, 381, "data=journal", true),
        (&plain, 100, "scheme=none", true),
        (&plain, 100, "ro", true),
        (&large_dir, 384, "", false),
        (&large_dir, 385, "", true),
        (&large_dir, 384, "data=journal", false),
        (&large_dir, 385, "scheme=emmc", true),
        (&large_dir, 100, "scheme=none", true),
    ] {
        let result = mount_with_log(volume, blocks, options);
        match fits {
            true => assert_eq!(result, Ok(()), "{blocks} blocks, {options}"),
            false => {
                let why = result.expect_err("too small");
                assert!(
                    why.contains("at least"),
                    "{blocks} blocks, {options}: {why}"
                );
            }
        }
    }
}

/// Mounts and unmounts a volume whose log has `blocks` blocks.
fn mount_with_log(volume: &Image, blocks: u32, options: &str) -> Result<(), String> {
    let is_log = |b: &[u8]| ondisk::jbd2::Superblock::parse(b).is_ok();
    let (at, _) = volume.blocks().find(|(_, b)| is_log(b)).expect("a log");
    let mut content = volume.clone();
    content.edit_block(at, |b| {
        ondisk::jbd2::Superblock::new(4096, blocks, [7; 16]).encode(&mut b[..1024]);
    });
    let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
        let queue = Queue::new(Arc::new(content.to_ram(BYTES)));
        let options = MountOptions::parse(options).expect("options");
        let fs = Ext4::mount(queue, options).map_err(|e| e.to_string())?;
        fs.unmount().map_err(|e| e.to_string())
    });
    outcome.unwrap()
}

/// Reads everything and changes a little; errors are valid answers.
fn use_it(fs: &Ext4) {
    let names = fs.readdir(fs.root(), 0, NAMES_MAX).unwrap_or_default();
    let mut buf = vec![0; 65536];
    for entry in &names {
        let _ = fs.getattr(entry.ino);
        let _ = fs.lookup(fs.root(), &entry.name);
        let _ = fs.readlink(entry.ino);
        let _ = fs.readdir(entry.ino, 0, NAMES_MAX);
        let _ = fs.read(entry.ino, 0, &mut buf);
    }
    for (n, entry) in names.iter().enumerate() {
        let _ = match n % 4 {
            0 => fs.write(entry.ino, 4096, &buf[..10_000]).map(drop),
            1 => fs.unlink(fs.root(), &entry.name),
            2 => {
                let size = Some(5000);
                fs.setattr(
                    entry.ino,
                    &SetAttr {
                        size,
                        ..SetAttr::default()
                    },
                )
                .map(drop)
            }
            _ => fs.fsync(entry.ino, false),
        };
    }
    let _ = fs.make_dir(fs.root(), b"new");
    if let Ok(new) = fs.create(fs.root(), b"new file", FileKind::File, 0o644, 0, ROOT) {
        let _ = fs.write(new.ino, 0, &buf);
        let _ = fs.fsync(new.ino, false);
    }
    let _ = fs.statfs();
    let _ = fs.sync();
}

fn cases(kind: Kind, seeds: std::ops::Range<u64>) {
    let good = volume(kind);
    let at = places(&good);
    let mut mounted = 0;
    for seed in seeds.clone() {
        let mut content = good.clone();
        let mut rng = Rng::named(seed, "hostile");
        for _ in 0..1 + rng.below(2) {
            damage(&mut rng, &mut content, &at);
        }
        let options = ["", "scheme=none", "data=journal", "ro"][rng.below(4) as usize];
        let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
            let queue = Queue::new(Arc::new(content.to_ram(BYTES)));
            let fs = Ext4::mount(queue, MountOptions::parse(options).expect("options"))?;
            use_it(&fs);
            // A failed volume reports an error; its tasks end all the same.
            let _ = fs.unmount();
            Ok::<(), fscore::FsError>(())
        });
        assert!(
            outcome.first_failure.is_none(),
            "seed {seed} {options}: {:?}",
            outcome.first_failure
        );
        mounted += u32::from(matches!(outcome.value, Some(Ok(()))));
    }
    let all = (seeds.end - seeds.start) as u32;
    assert!(
        mounted > all / 10 && mounted < all,
        "{mounted} of {all} mounted"
    );
    assert_eq!(get_le32(&good.block(0), 1024 + 0x18), 2, "4 KiB blocks");
}

#[test]
fn garbled_metadata_is_answered() {
    cases(Kind::Ext4, 0..400);
}

/// Block maps, and nothing that a checksum could notice.
#[test]
fn garbled_metadata_of_ext3_is_answered() {
    cases(Kind::Ext3, 0..300);
}

/// Run by hand: `FROM=1000 SEEDS=5000`.
#[test]
#[ignore = "as many seeds as asked for"]
fn many() {
    let number = |key| std::env::var(key).ok().and_then(|s| s.parse().ok());
    let from = number("FROM").unwrap_or(0);
    let seeds = from..from + number("SEEDS").unwrap_or(1000);
    cases(Kind::Ext4, seeds.clone());
    cases(Kind::Ext3, seeds);
}
