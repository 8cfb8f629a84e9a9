//! The plan against mke2fs, dumpe2fs and e2fsck; each test says `skipped: no ...` where the tool is
//! missing.

mod ext3;
mod fast_commit;

use super::*;
use base::bytes::get_le64;
use base::{BLOCK_BYTES, BlockNo};
use ondisk::ext4::{SUPERBLOCK_AT, Superblock};
use rt::WallTime;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

const UUID: [u8; 16] = *b"\x12\x34\x56\x78\x12\x34\x12\x34\x12\x34\x12\x34\x56\x78\x9a\xbc";
const HASH_SEED: [u8; 16] = [0x5A; 16];
const UUID_TEXT: &str = "12345678-1234-1234-1234-123456789abc";
const HASH_SEED_TEXT: &str = "5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a5a";
const SECS: i64 = 1_700_000_000;
const MIB: u64 = 1 << 20;

fn options(size_bytes: u64) -> MkfsOptions {
    MkfsOptions::new(
        size_bytes,
        UUID,
        HASH_SEED,
        WallTime {
            secs: SECS,
            nanos: 0,
        },
    )
}

fn planned(options: &MkfsOptions) -> Plan {
    plan(options).expect("possible options")
}

/// Runs a tool of e2fsprogs; `None` and a line on stderr if it is not installed.
fn tool(name: &str, args: &[&str], image: &Path) -> Option<Output> {
    let sbin = format!("/usr/sbin/{name}");
    let program = if Path::new(&sbin).exists() {
        sbin
    } else {
        name.to_string()
    };
    let mut command = Command::new(program);
    command
        .args(args)
        .arg(image)
        .env("E2FSPROGS_FAKE_TIME", SECS.to_string());
    match command.env("MKE2FS_CONFIG", "/dev/null").output() {
        Ok(output) => Some(output),
        Err(_) => {
            eprintln!("skipped: no {name}");
            None
        }
    }
}

/// Runs mke2fs with the defaults that mke2fs.conf of e2fsprogs 1.47 holds, so that the host's copy
/// does not matter.
fn mke2fs(image: &Path, options: &MkfsOptions, extra: &[&str]) -> Option<()> {
    let features = match options.kind {
        Kind::Ext4 => {
            "none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,64bit,\
             flex_bg,sparse_super,large_file,huge_file,dir_nlink,extra_isize,metadata_csum"
        }
        Kind::Ext3 => {
            "none,has_journal,ext_attr,resize_inode,dir_index,filetype,sparse_super,large_file"
        }
    };
    let hash = format!("hash_seed={HASH_SEED_TEXT}");
    let small = options.size_bytes < 512 * MIB;
    let ratio = if small { 4096 } else { 16384 };
    let ratio = ratio.max(options.block_bytes).to_string();
    let block = options.block_bytes.to_string();
    let mut args = vec!["-q", "-F", "-t", options.kind.word(), "-b", &block];
    let inode = options.inode_bytes.to_string();
    args.extend(["-I", &inode, "-i", &ratio]);
    args.extend(["-O", features, "-U", UUID_TEXT, "-E", &hash]);
    args.extend(extra);
    let output = tool("mke2fs", &args, image)?;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(())
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

/// Masks the bytes that may differ: the count of KiB written and the checksum over it.
fn mask_superblocks(blocks: &mut BTreeMap<u64, Vec<u8>>) {
    for block in blocks.values_mut() {
        for at in (0..BLOCK_BYTES).step_by(1024) {
            if Superblock::parse(&block[at..]).is_ok() {
                block[at + 0x178..at + 0x180].fill(0);
                block[at + 0x3FC..at + 0x400].fill(0);
            }
        }
    }
}

/// Compares a plan with the volume that mke2fs makes of the same options, byte by byte.
fn compare(options: &MkfsOptions, extra: &[&str]) {
    let plan = planned(options);
    let mut ours: BTreeMap<u64, Vec<u8>> = plan
        .blocks()
        .iter()
        .map(|(n, b)| (n.0, b.to_vec()))
        .collect();
    let file = sparse(options.size_bytes);
    if mke2fs(file.path(), options, extra).is_none() {
        return;
    }
    let mut theirs = blocks_of(file.as_file());
    mask_superblocks(&mut ours);
    mask_superblocks(&mut theirs);
    let all: std::collections::BTreeSet<u64> = ours.keys().chain(theirs.keys()).copied().collect();
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
                "4 KiB block {n}+{at:#x}: {:02x?} / {:02x?}",
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
    let size = options.size_bytes;
    assert!(
        differences.is_empty(),
        "{} of {} byte blocks, {size} bytes {extra:?}, ours / mke2fs, of {}:\n{shown}",
        options.kind.word(),
        options.block_bytes,
        differences.len()
    );
}

fn check(options: &MkfsOptions) {
    let file = image_of(&planned(options), options.size_bytes);
    let Some(output) = tool("e2fsck", &["-f", "-n"], file.path()) else {
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{} bytes: {text}",
        options.size_bytes
    );
}

/// Sizes around every rule: one group, two, flexible groups with one and some members, journal
/// steps, left-out last group.
const SIZES_MIB: [u64; 17] = [
    8, 16, 64, 127, 128, 129, 160, 256, 257, 512, 640, 1024, 2048, 2176, 2305, 8192, 131_072,
];

#[test]
fn equal_to_mke2fs() {
    for mib in SIZES_MIB {
        compare(&options(mib * MIB), &[]);
    }
    compare(&options(200 * MIB + 12345), &[]);
}

#[test]
fn equal_to_mke2fs_with_options() {
    let label = MkfsOptions {
        label: "sediment".into(),
        ..options(64 * MIB)
    };
    compare(&label, &["-L", "sediment"]);
    let reserved = MkfsOptions {
        reserved_percent: 0,
        ..options(64 * MIB)
    };
    compare(&reserved, &["-m", "0"]);
    let journal = MkfsOptions {
        journal: JournalSize::Blocks(25600),
        ..options(1024 * MIB)
    };
    compare(&journal, &["-J", "size=100"]);
    let ratio = MkfsOptions {
        inode_ratio: Some(65536),
        ..options(1024 * MIB)
    };
    compare(&ratio, &["-i", "65536"]);
    let none = MkfsOptions {
        journal: JournalSize::None,
        ..options(64 * MIB)
    };
    compare(&none, &["-O", "^has_journal"]);
    let owner = MkfsOptions {
        root_owner: (1000, 100),
        ..options(64 * MIB)
    };
    let both = format!("hash_seed={HASH_SEED_TEXT},root_owner=1000:100");
    compare(&owner, &["-E", &both]);
    let dense = MkfsOptions {
        inode_ratio: Some(4096),
        ..options(3000 * MIB)
    };
    compare(&dense, &["-i", "4096"]);
    // Seven extents: the journal needs an extent node.
    let journal = MkfsOptions {
        journal: JournalSize::Blocks(199_680),
        ..options(3000 * MIB)
    };
    compare(&journal, &["-J", "size=780"]);
}

#[test]
fn equal_to_mke2fs_with_each_size_of_an_inode() {
    for (kind, block_bytes) in [(Kind::Ext4, 4096), (Kind::Ext3, 4096), (Kind::Ext3, 1024)] {
        for inode_bytes in [128, 512, 1024] {
            let options = MkfsOptions {
                kind,
                block_bytes,
                inode_bytes,
                ..options(200 * MIB)
            };
            compare(&options, &[]);
            check(&options);
        }
    }
}

/// Blocks of more than 4 KiB: groups end before their bitmaps do. Sizes of one group, of two, with
/// a last group that is left out, and of more than a flexible group.
#[test]
fn equal_to_mke2fs_with_large_blocks() {
    for block_bytes in [8192, 16_384, 32_768, 65_536] {
        for blocks in [2048, 5000, 65_528, 65_528 + 40, 65_528 + 4000, 1_200_000] {
            for kind in [Kind::Ext4, Kind::Ext3] {
                let options = MkfsOptions {
                    kind,
                    block_bytes,
                    ..options(blocks * u64::from(block_bytes) + 5000)
                };
                compare(&options, &[]);
                check(&options);
            }
        }
        // Groups that are smaller than they could be.
        let small = MkfsOptions {
            block_bytes,
            blocks_per_group: Some(2048),
            ..options(5000 * u64::from(block_bytes))
        };
        compare(&small, &["-g", "2048"]);
        check(&small);
        // As many inodes as groups hold.
        let dense = MkfsOptions {
            block_bytes,
            inode_ratio: Some(block_bytes),
            ..options(140_000 * u64::from(block_bytes))
        };
        compare(&dense, &["-i", &block_bytes.to_string()]);
        check(&dense);
    }
}

#[test]
fn sizes_of_an_inode_that_no_volume_has_are_refused() {
    for bytes in [0, 64, 127, 192, 8192, u32::MAX] {
        let options = MkfsOptions {
            inode_bytes: bytes,
            ..options(64 * MIB)
        };
        let refused = plan(&options).expect_err("no such size");
        assert_eq!(refused, MkfsError::InodeBytes { bytes, most: 4096 });
    }
}

#[test]
fn e2fsck_finds_nothing() {
    for mib in SIZES_MIB {
        check(&options(mib * MIB));
    }
    check(&MkfsOptions {
        journal: JournalSize::Blocks(199_680),
        ..options(3000 * MIB)
    });
    check(&MkfsOptions {
        journal: JournalSize::None,
        ..options(2 * MIB)
    });
    check(&MkfsOptions {
        inode_ratio: Some(4096),
        ..options(3000 * MIB)
    });
}

/// Checks that dumpe2fs reports the same of this volume as of the one that mke2fs makes.
fn compare_dumps(options: &MkfsOptions, features: &str) {
    let ours = image_of(&planned(options), options.size_bytes);
    let theirs = sparse(options.size_bytes);
    if mke2fs(theirs.path(), options, &[]).is_none() {
        return;
    }
    let dump = |path: &Path| {
        let output = tool("dumpe2fs", &[], path)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let differs = |line: &&str| line.starts_with("Lifetime") || line.starts_with("Checksum: ");
        Some(
            text.lines()
                .filter(|l| !differs(l))
                .map(String::from)
                .collect::<Vec<_>>(),
        )
    };
    let (Some(ours), Some(theirs)) = (dump(ours.path()), dump(theirs.path())) else {
        return;
    };
    assert!(ours.iter().any(|l| l.contains(features)));
    assert_eq!(ours, theirs);
}

#[test]
fn dumpe2fs_prints_the_same() {
    compare_dumps(&options(1024 * MIB), "has_journal ext_attr resize_inode");
}

/// The feature and its encoding are those of mke2fs.
#[test]
fn names_without_regard_to_case_are_those_of_mke2fs() {
    let o = MkfsOptions {
        casefold: true,
        ..options(64 * MIB)
    };
    check(&o);
    let theirs = sparse(o.size_bytes);
    if mke2fs(theirs.path(), &o, &["-O", "casefold"]).is_none() {
        return;
    }
    let read = |file: &tempfile::NamedTempFile| {
        let mut raw = vec![0; 1024];
        file.as_file().read_exact_at(&mut raw, 1024).expect("read");
        let sb = ondisk::ext4::Superblock::parse(&raw).expect("a volume");
        (sb.incompat(), sb.name_encoding())
    };
    assert_eq!(read(&image_of(&planned(&o), o.size_bytes)), read(&theirs));
}

#[test]
fn equal_options_give_equal_plans() {
    let o = options(300 * MIB);
    assert_eq!(planned(&o), planned(&o));
    let other = MkfsOptions {
        hash_seed: [1; 16],
        ..o.clone()
    };
    assert_ne!(planned(&o), planned(&other));
}

#[test]
fn the_plan_adds_up() {
    let plan = planned(&options(1024 * MIB));
    let numbers: Vec<u64> = plan.blocks().iter().map(|(n, _)| n.0).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b) && numbers[0] == 0);
    let block = &plan.blocks()[0].1;
    let sb = Superblock::parse(&block[SUPERBLOCK_AT as usize..]).expect("valid");
    assert_eq!(
        get_le64(&block[..], SUPERBLOCK_AT as usize + 0x178),
        4 * numbers.len() as u64
    );
    assert_eq!(plan.zeroed().len(), sb.groups_count() as usize + 1);
    assert_eq!(sb.label(), b"");
}

#[test]
fn impossible_options_are_explained() {
    let say = |o: MkfsOptions| plan(&o).expect_err("impossible").to_string();
    assert!(say(options(0)).contains("0 bytes are too small"));
    assert!(say(options(4 * MIB)).contains("a journal wants 8388608 bytes"));
    let bare = |n| MkfsOptions {
        journal: JournalSize::None,
        ..options(n)
    };
    assert!(say(bare(40 * 4096)).contains("at least"));
    assert!(say(options(1 << 44)).contains("below 16 TiB"));
    assert!(
        say(MkfsOptions {
            inode_ratio: Some(1024),
            ..options(64 * MIB)
        })
        .contains("4096")
    );
    let journal = |n| MkfsOptions {
        journal: JournalSize::Blocks(n),
        ..options(64 * MIB)
    };
    assert!(say(journal(1023)).contains("choose 1024 to 7"));
    assert!(say(journal(9000)).contains("choose 1024 to 7"));
    for blocks in [0, 255, 260, 4096 * 8 + 8] {
        let why = say(MkfsOptions {
            blocks_per_group: Some(blocks),
            ..options(64 * MIB)
        });
        assert!(
            why.contains("choose a multiple of 8 from 256 to 32768"),
            "{why}"
        );
    }
    let label = "seventeen letters".to_string();
    assert!(
        say(MkfsOptions {
            label,
            ..options(64 * MIB)
        })
        .contains("has 17 bytes")
    );
    assert!(
        say(MkfsOptions {
            reserved_percent: 51,
            ..options(64 * MIB)
        })
        .contains("51 percent")
    );
}

#[test]
fn any_size_is_planned_or_refused() {
    let mut rng = base::Rng::named(1, "mkfs sizes");
    for n in 0..300 {
        let size = rng.below(1 << (20 + n % 14));
        let mut o = options(size);
        o.journal = [
            JournalSize::Default,
            JournalSize::None,
            JournalSize::Blocks(3000),
        ][n % 3];
        o.inode_ratio = [None, Some(4096), Some(1 << 20)][n / 3 % 3];
        let Ok(plan) = plan(&o) else { continue };
        let (first, bytes) = &plan.blocks()[0];
        assert_eq!(*first, BlockNo(0));
        let sb = Superblock::parse(&bytes[SUPERBLOCK_AT as usize..]).expect("valid");
        assert!(sb.blocks_count() * BLOCK_BYTES as u64 <= size);
        let last = plan.blocks().last().expect("not empty").0;
        assert!(last.0 < sb.blocks_count());
    }
}

#[test]
fn written_over_rubbish() {
    let size = 64 * MIB;
    let plan = planned(&options(size));
    let rubbish = vec![0xA5; size as usize];
    let device = Arc::new(blockdev::Ram::from_image(&rubbish));
    let queue = block::Queue::new(device.clone());
    plan.write(&queue, DeviceContent::Unknown)
        .expect("a RAM device does not fail");
    let image = device.image();
    let zeros = vec![0; BLOCK_BYTES];
    let planned: BTreeMap<u64, &[u8]> = plan.blocks().iter().map(|(n, b)| (n.0, &b[..])).collect();
    for (start, len) in plan.zeroed() {
        for n in start.0..start.0 + len {
            let at = n as usize * BLOCK_BYTES;
            let expected = planned.get(&n).copied().unwrap_or(&zeros);
            assert!(
                &image[at..at + BLOCK_BYTES] == expected,
                "block {n} must be zero"
            );
        }
    }
    let file = sparse(size);
    file.as_file()
        .write_all_at(&image, 0)
        .expect("room on disk");
    let Some(output) = tool("e2fsck", &["-f", "-n"], file.path()) else {
        return;
    };
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

/// A RAM device that says it has a volatile cache, so that flushes reach it; records what comes.
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

#[test]
fn the_superblock_comes_last() {
    let size = 16 * MIB;
    let device = Arc::new(Cached(testkit::record::Record::new(blockdev::Ram::new(
        size,
    ))));
    let queue = block::Queue::new(device.clone());
    let plan = planned(&options(size));
    plan.write(&queue, DeviceContent::Unknown)
        .expect("a RAM device does not fail");
    let word = |request: &blockdev::Request| match (&request.op, request.span()) {
        (blockdev::Op::Read { .. }, _) => None,
        (blockdev::Op::Flush, _) => Some("flush"),
        (blockdev::Op::Write { .. }, Some((base::Lba(0), _))) => Some("superblock"),
        _ => Some("other"),
    };
    let requests = device.0.take();
    let mut words: Vec<&str> = requests.iter().filter_map(|e| word(&e.request)).collect();
    words.dedup();
    let expected = [
        "superblock",
        "flush",
        "other",
        "flush",
        "superblock",
        "flush",
    ];
    assert_eq!(words, expected);
}

/// What a mount finds on a device: the content of the file `old`, if it is there; `None` if it is
/// refused. Checks that a volume that is mounted is whole but for its superblocks.
fn found(device: &Arc<blockdev::Ram>) -> Option<Option<u8>> {
    use crate::check::{Kind, Options, check};
    use fscore::FileSystem;
    let options = crate::MountOptions::parse("ro").expect("options");
    let fs = crate::Ext4::mount(block::Queue::new(device.clone()), options).ok()?;
    let file = fs.lookup(fs.root(), b"old").ok().map(|file| {
        let mut byte = [0; 1];
        fs.read(file, 0, &mut byte).expect("readable");
        byte[0]
    });
    fs.unmount().expect("unmounts");
    let blocks: BTreeMap<u64, base::Bytes> = device.blocks().into_iter().collect();
    let zeros = base::Bytes::from(vec![0; BLOCK_BYTES]);
    let read = |at: BlockNo| Ok::<_, String>(blocks.get(&at.0).unwrap_or(&zeros).clone());
    let sectors = block::BlockDevice::caps(&**device).sectors;
    let mut found = check(&read, &Options::new(sectors / base::SECTORS_PER_BLOCK)).findings;
    found.retain(|f| !matches!(f.kind, Kind::Superblock | Kind::BackupSuperblock));
    assert!(found.is_empty(), "mkfs-I3: {file:?}, {found:?}");
    Some(file)
}

/// mkfs-I3, where an older volume with backups of its superblock lay on the device: of the writes
/// behind the last flush a cut leaves any.
#[test]
fn a_cut_leaves_the_old_volume_or_the_new_one() {
    use fscore::{Creds, FileKind, FileSystem};
    let size = 300 * MIB;
    let fork = |from: &blockdev::Ram| {
        let copy = blockdev::Ram::new(size);
        for (n, bytes) in from.blocks() {
            put(&copy, BlockNo(n).lba(), bytes);
        }
        Arc::new(copy)
    };
    let start = Arc::new(blockdev::Ram::new(size));
    let queue = block::Queue::new(start.clone());
    let old = MkfsOptions {
        uuid: [9; 16],
        ..options(size)
    };
    (planned(&old).write(&queue, DeviceContent::Zeros)).expect("a RAM device does not fail");
    let fs = crate::Ext4::mount(queue, crate::MountOptions::default()).expect("mounts");
    let made = fs.create(
        fs.root(),
        b"old",
        FileKind::File,
        0o600,
        0,
        Creds::default(),
    );
    fs.write(made.expect("room").ino, 0, &[7; 1]).expect("room");
    fs.unmount().expect("unmounts");

    let device = Arc::new(Cached(testkit::record::Record::new(
        Arc::into_inner(fork(&start)).expect("not shared"),
    )));
    let plan = planned(&options(size));
    (plan.write(&block::Queue::new(device.clone()), DeviceContent::Unknown))
        .expect("a RAM device does not fail");
    let requests: Vec<_> = device.0.take().into_iter().map(|e| e.request).collect();
    let durable = start;
    let mut rng = base::Rng::named(1, "mkfs cuts");
    let mut seen = std::collections::BTreeMap::new();
    for group in requests.split(|r| matches!(r.op, blockdev::Op::Flush)) {
        let mut writes: Vec<(base::Lba, base::Bytes)> = Vec::new();
        for request in group {
            let blockdev::Op::Write { lba, pieces, .. } = &request.op else {
                continue;
            };
            let bytes: Vec<u8> = pieces.iter().flat_map(|p| p.bytes.to_vec()).collect();
            let blocks = bytes.chunks(BLOCK_BYTES).enumerate();
            writes.extend(blocks.map(|(n, block)| {
                let at = base::Lba(lba.0 + n as u64 * base::SECTORS_PER_BLOCK);
                (at, base::Bytes::copy_from_slice(block))
            }));
        }
        for _ in 0..20 {
            let cut = fork(&durable);
            for (lba, bytes) in &writes {
                if rng.below(2) == 0 {
                    put(&cut, *lba, bytes.clone());
                }
            }
            *seen.entry(found(&cut)).or_insert(0) += 1;
        }
        for (lba, bytes) in writes {
            put(&durable, lba, bytes);
        }
    }
    assert_eq!(found(&durable), Some(None), "the new volume");
    let kinds: Vec<_> = seen.keys().copied().collect();
    assert_eq!(
        kinds,
        [None, Some(None), Some(Some(7))],
        "mkfs-I3: {seen:?}"
    );
}

fn put(ram: &blockdev::Ram, lba: base::Lba, bytes: base::Bytes) {
    blockdev::write_block(ram, lba, block::Class::Home, bytes).expect("in range");
}
