//! The plan against mkfs.f2fs and fsck.f2fs 1.15; each test says `skipped: no ...` where the tool
//! is missing.

use super::*;
use base::BLOCK_BYTES;
use ondisk::f2fs::{Checkpoint, Features, Geometry, Superblock};
use rt::WallTime;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

const UUID: [u8; 16] = *b"\x12\x34\x56\x78\x12\x34\x12\x34\x12\x34\x12\x34\x56\x78\x9a\xbc";
const UUID_TEXT: &str = "12345678-1234-1234-1234-123456789abc";
const SECS: i64 = 1_700_000_000;
const MIB: u64 = 1 << 20;
/// The version strings and, with `sb_checksum`, the checksum over them.
const MASKED: [std::ops::Range<usize>; 2] = [1024 + 1668..1024 + 2180, 1024 + 3068..1024 + 3072];

fn options(size_bytes: u64) -> Options {
    Options::new(
        size_bytes,
        UUID,
        WallTime {
            secs: SECS,
            nanos: 0,
        },
    )
}

fn planned(options: &Options) -> Plan {
    plan(options).expect("possible options")
}

/// Runs a tool of f2fs-tools; `None` and a line on stderr if it is not installed.
fn tool(name: &str, args: &[&str], image: &Path) -> Option<Output> {
    let sbin = format!("/usr/sbin/{name}");
    let program = if Path::new(&sbin).exists() {
        sbin
    } else {
        name.to_string()
    };
    match Command::new(program).args(args).arg(image).output() {
        Ok(output) => Some(output),
        Err(_) => {
            eprintln!("skipped: no {name}");
            None
        }
    }
}

fn sparse(size: u64) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("temporary file");
    file.as_file().set_len(size).expect("sparse file");
    file
}

fn image_of(plan: &Plan, size: u64) -> tempfile::NamedTempFile {
    let file = sparse(size);
    for (block, bytes) in plan.blocks() {
        file.as_file()
            .write_all_at(bytes, block.0 * BLOCK_BYTES as u64)
            .expect("room on disk");
    }
    file
}

/// The blocks of a sparse file that are not zero.
fn blocks_of(file: &File) -> BTreeMap<u64, Vec<u8>> {
    use rustix::fs::{SeekFrom, seek};
    let mut out = BTreeMap::new();
    let mut at = 0;
    while let Ok(data) = seek(file, SeekFrom::Data(at)) {
        let hole = seek(file, SeekFrom::Hole(data)).expect("data ends somewhere");
        for block in data / BLOCK_BYTES as u64..hole.div_ceil(BLOCK_BYTES as u64) {
            let mut bytes = vec![0; BLOCK_BYTES];
            file.read_exact_at(&mut bytes, block * BLOCK_BYTES as u64)
                .expect("readable");
            if !base::bytes::is_zero(&bytes) {
                out.insert(block, bytes);
            }
        }
        at = hole;
    }
    out
}

fn version_of(theirs: &BTreeMap<u64, Vec<u8>>) -> u32 {
    let sb = Superblock::in_block(&theirs[&0]).expect("the superblock of mkfs.f2fs");
    let geo = Geometry::new(&sb, sb.block_count()).expect("its geometry");
    let at = u64::from(geo.cp_pack(false).0);
    let mut pack = theirs[&at].clone();
    pack.resize((1 + geo.cp_payload as usize) * BLOCK_BYTES, 0);
    let cp = Checkpoint::parse(&pack, geo.cp_payload).expect("its checkpoint");
    cp.check(&geo).expect("its numbers");
    cp.version() as u32
}

/// Compares a plan with the volume that mkfs.f2fs makes of the same options, byte by byte.
fn compare(options: &Options, extra: &[&str]) {
    let file = sparse(options.size_bytes);
    let time = SECS.to_string();
    let mut args = vec!["-q", "-U", UUID_TEXT, "-T", &time];
    args.extend(extra);
    let Some(output) = tool("mkfs.f2fs", &args, file.path()) else {
        return;
    };
    let size = options.size_bytes;
    assert!(
        output.status.success(),
        "{size} bytes {extra:?}: {}",
        String::from_utf8_lossy(&output.stdout)
    );
    let mut theirs = blocks_of(file.as_file());
    let options = Options {
        checkpoint_version: version_of(&theirs),
        ..options.clone()
    };
    let plan = planned(&options);
    let mut ours: BTreeMap<u64, Vec<u8>> = plan
        .blocks()
        .iter()
        .map(|(n, b)| (n.0, b.to_vec()))
        .collect();
    for blocks in [&mut ours, &mut theirs] {
        for n in 0..2 {
            let block = blocks.get_mut(&n).expect("both superblocks");
            MASKED.into_iter().for_each(|range| block[range].fill(0));
        }
    }
    let all: BTreeSet<u64> = ours.keys().chain(theirs.keys()).copied().collect();
    let zeros = vec![0; BLOCK_BYTES];
    let mut differences = Vec::new();
    for n in all {
        let (a, b) = (
            ours.get(&n).unwrap_or(&zeros),
            theirs.get(&n).unwrap_or(&zeros),
        );
        if let Some(at) = (0..BLOCK_BYTES).find(|&i| a[i] != b[i]) {
            let end = (at + 8).min(BLOCK_BYTES);
            differences.push(format!(
                "block {n}+{at:#x}: {:02x?} / {:02x?}",
                &a[at..end],
                &b[at..end]
            ));
        }
    }
    let shown = differences
        .iter()
        .take(12)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        differences.is_empty(),
        "{size} bytes {extra:?}, ours / mkfs.f2fs, of {}:\n{shown}",
        differences.len()
    );
}

fn check(options: &Options) {
    let file = image_of(&planned(options), options.size_bytes);
    let Some(output) = tool("fsck.f2fs", &["--dry-run"], file.path()) else {
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let clean =
        output.status.code() == Some(0) && !text.contains("[Fail]") && !text.contains("[ASSERT]");
    assert!(clean, "{} bytes: {text}", options.size_bytes);
}

fn featured(size: u64, names: &str) -> Options {
    let features = names
        .split(',')
        .map(|n| Features::by_name(n).expect("a feature"));
    Options {
        features: features.fold(Features::NONE, Features::with),
        ..options(size)
    }
}

/// Around every rule: smallest, either search for the part that is kept back, more than one NAT
/// segment.
const SIZES_MIB: [u64; 11] = [52, 57, 64, 100, 128, 256, 512, 525, 1024, 2500, 16384];
const FEATURES: [&str; 5] = [
    "extra_attr",
    "sb_checksum",
    "extra_attr,inode_checksum,sb_checksum,flexible_inline_xattr",
    "extra_attr,inode_checksum,inode_crtime,lost_found",
    "lost_found",
];

#[test]
fn equal_to_mkfs_f2fs() {
    for mib in SIZES_MIB {
        compare(&options(mib * MIB), &[]);
    }
    compare(&options(200 * MIB + 12345), &[]);
}

#[test]
fn equal_to_mkfs_f2fs_with_features() {
    for names in FEATURES {
        compare(&featured(64 * MIB, names), &["-O", names]);
    }
}

#[test]
fn equal_to_mkfs_f2fs_with_options() {
    let base = options(1024 * MIB);
    compare(
        &Options {
            label: "sediment \u{e9}".into(),
            ..base.clone()
        },
        &["-l", "sediment \u{e9}"],
    );
    compare(
        &Options {
            overprovision_percent: Some(12.5),
            ..base.clone()
        },
        &["-o", "12.5"],
    );
    compare(
        &Options {
            segs_per_sec: 2,
            ..base.clone()
        },
        &["-s", "2"],
    );
    // Whole zones only: mkfs.f2fs counts blocks behind the last whole zone among those that users
    // can fill, and we do not.
    compare(
        &Options {
            segs_per_sec: 2,
            secs_per_zone: 3,
            ..options(1020 * MIB)
        },
        &["-s", "2", "-z", "3"],
    );
    compare(
        &Options {
            large_nat_bitmap: true,
            ..base.clone()
        },
        &["-i"],
    );
    compare(
        &Options {
            root_owner: (1000, 100),
            ..base.clone()
        },
        &["-R", "1000:100"],
    );
    compare(
        &Options {
            trimmed: false,
            ..base.clone()
        },
        &["-t", "0"],
    );
    let extensions = Options {
        cold_extensions: vec!["raw".into(), "tiff".into()],
        hot_extensions: vec!["wal".into()],
        ..base
    };
    compare(&extensions, &["-e", "raw,tiff", "-E", "wal"]);
}

#[test]
fn fsck_f2fs_finds_nothing() {
    for mib in [52, 64, 256, 1024, 16384] {
        check(&options(mib * MIB));
    }
    for names in FEATURES {
        check(&featured(64 * MIB, names));
    }
    check(&Options {
        large_nat_bitmap: true,
        ..options(64 * MIB)
    });
    check(&Options {
        segs_per_sec: 4,
        ..options(1024 * MIB)
    });
}

/// The smallest volume is that of mkfs.f2fs: one MiB less is refused by both.
#[test]
fn too_small_and_too_large() {
    for size in [0, 4096, 20 * MIB, 51 * MIB] {
        let e = plan(&options(size)).expect_err("too small");
        assert!(matches!(e, MkfsError::TooSmall { .. }), "{size}: {e}");
    }
    let file = sparse(51 * MIB);
    if let Some(output) = tool("mkfs.f2fs", &["-q"], file.path()) {
        assert!(!output.status.success(), "mkfs.f2fs makes 51 MiB, too");
    }
    let e = plan(&options(u64::MAX)).expect_err("too large");
    assert!(e.to_string().contains("16 TiB"), "{e}");
    assert!(plan(&options((16 << 40) - 4 * MIB)).is_ok());
}

#[test]
fn impossible_options() {
    let base = options(64 * MIB);
    let refused = |options: Options| plan(&options).expect_err("refused").to_string();
    assert!(
        refused(Options {
            label: "x".repeat(513),
            ..base.clone()
        })
        .contains("512")
    );
    let text = refused(featured(64 * MIB, "extra_attr,encrypt,quota"));
    assert!(
        text.contains("encrypt quota") && text.contains("choose of extra_attr"),
        "{text}"
    );
    assert!(refused(featured(64 * MIB, "inode_crtime")).contains("add extra_attr"));
    let text = refused(Options {
        large_nat_bitmap: true,
        journal: Some(super::JournalSize::Ring(16)),
        ..base.clone()
    });
    assert!(text.contains("choose one of the two"), "{text}");
    for percent in [0.0, -1.0, 100.0, f64::NAN, f64::INFINITY] {
        let text = refused(Options {
            overprovision_percent: Some(percent),
            ..base.clone()
        });
        assert!(text.contains("more than 0"), "{text}");
    }
    for percent in [1e-300, 3.0] {
        let text = refused(Options {
            overprovision_percent: Some(percent),
            ..base.clone()
        });
        assert!(text.contains("cleaning needs"), "{text}");
    }
    assert!(
        refused(Options {
            segs_per_sec: 0,
            ..base.clone()
        })
        .contains("segments of a section: 0")
    );
    assert!(
        refused(Options {
            secs_per_zone: 0,
            ..base.clone()
        })
        .contains("sections of a zone: 0")
    );
    assert!(
        refused(Options {
            checkpoint_version: 0,
            ..base.clone()
        })
        .contains("checkpoint")
    );
    assert!(
        refused(Options {
            segs_per_sec: u32::MAX,
            secs_per_zone: u32::MAX,
            ..base.clone()
        })
        .contains("zone")
    );
    assert!(
        refused(Options {
            secs_per_zone: 8,
            ..base.clone()
        })
        .contains("smaller zones")
    );
    let many = (0..25).map(|n| format!("e{n}")).collect();
    assert!(
        refused(Options {
            cold_extensions: many,
            ..base.clone()
        })
        .contains("65 extensions")
    );
    for name in ["", "12345678", "a\0b"] {
        let text = refused(Options {
            hot_extensions: vec![name.into()],
            ..base.clone()
        });
        assert!(text.contains("1 to 7 bytes"), "{text}");
    }
}

#[test]
fn equal_options_give_equal_plans() {
    let o = options(300 * MIB);
    assert_eq!(planned(&o), planned(&o));
    assert_ne!(
        planned(&o),
        planned(&Options {
            uuid: [1; 16],
            ..o.clone()
        })
    );
    let later = Options::new(
        o.size_bytes,
        UUID,
        WallTime {
            secs: SECS + 1,
            nanos: 0,
        },
    );
    assert_ne!(later.checkpoint_version, o.checkpoint_version);
    assert_eq!(later.checkpoint_version & 1, 1);
}

#[test]
fn the_plan_adds_up() {
    let plan = planned(&featured(1024 * MIB, "sb_checksum,lost_found"));
    let numbers: Vec<u64> = plan.blocks().iter().map(|(n, _)| n.0).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b) && numbers[..2] == [0, 1]);
    let sb = Superblock::in_block(&plan.blocks()[0].1).expect("valid");
    let geo = Geometry::new(&sb, 262_144).expect("valid");
    let warm = geo.seg_start(ondisk::f2fs::SegNo(1));
    let covered = |n: u64| {
        plan.zeroed()
            .iter()
            .any(|&(start, len)| (start.0..start.0 + len).contains(&n))
    };
    let fixed = [0, 1, geo.cp.0, geo.sit.0, geo.nat.0, geo.ssa.0 - 1, warm.0];
    assert!(fixed.iter().all(|&n| covered(n.into())) && !covered(geo.ssa.into()));
    assert!(!numbers.contains(&warm.into()), "mkfs-K3");
}

/// A device that has a volatile cache, so that flushes reach it.
struct Cached(testkit::record::Record<blockdev::Ram>);

impl block::BlockDevice for Cached {
    fn caps(&self) -> block::Caps {
        block::Caps {
            volatile_cache: true,
            ..self.0.caps()
        }
    }
    fn submit(&self, request: blockdev::Request) -> blockdev::Ticket {
        self.0.submit(request)
    }
    fn wait(&self, ticket: blockdev::Ticket) -> Result<blockdev::Reply, block::DevError> {
        self.0.wait(ticket)
    }
}

/// mkfs-K2.
#[test]
fn the_superblocks_come_last() {
    let size = 64 * MIB;
    let device = Arc::new(Cached(testkit::record::Record::new(blockdev::Ram::new(
        size,
    ))));
    let queue = block::Queue::new(device.clone());
    let plan = planned(&options(size));
    plan.write(&queue, DeviceContent::Unknown)
        .expect("a RAM device does not fail");
    let word = |request: &blockdev::Request| match (&request.op, request.span()) {
        (blockdev::Op::Flush, _) => "flush",
        (blockdev::Op::Write { .. }, Some((lba, _))) if lba.0 < 16 => "superblocks",
        _ => "other",
    };
    let mut words: Vec<&str> = device.0.take().iter().map(|e| word(&e.request)).collect();
    words.dedup();
    assert_eq!(
        words,
        [
            "superblocks",
            "flush",
            "other",
            "flush",
            "superblocks",
            "flush"
        ]
    );
}

/// mkfs-K3, and everything else that must read as zeros.
#[test]
fn written_over_rubbish() {
    let size = 64 * MIB;
    let plan = planned(&options(size));
    let device = Arc::new(blockdev::Ram::from_image(&vec![0xA5; size as usize]));
    let queue = block::Queue::new(device.clone());
    plan.write(&queue, DeviceContent::Unknown)
        .expect("a RAM device does not fail");
    let image = device.image();
    let blocks: BTreeMap<u64, &[u8]> = plan.blocks().iter().map(|(n, b)| (n.0, &b[..])).collect();
    let zeros = vec![0; BLOCK_BYTES];
    for (start, len) in plan.zeroed() {
        for n in start.0..start.0 + len {
            let at = n as usize * BLOCK_BYTES;
            let expected = blocks.get(&n).copied().unwrap_or(&zeros);
            assert!(image[at..at + BLOCK_BYTES] == *expected, "block {n}");
        }
    }
    let file = sparse(size);
    file.as_file()
        .write_all_at(&image, 0)
        .expect("room on disk");
    let Some(output) = tool("fsck.f2fs", &["--dry-run"], file.path()) else {
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.code() == Some(0) && !text.contains("[Fail]"),
        "{text}"
    );
}
