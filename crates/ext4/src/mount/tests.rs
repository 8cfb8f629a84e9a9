//! ext4-mount-M4: a mount that is refused, for whatever reason, has sent no writing command to the
//! device. ext4-mount-M5: the log of a volume that cannot be mounted can be carried home.
//! ext4-mount-M2, ext4-mount-M3: what replaces a torn superblock (`torn.rs`).

mod torn;

use super::*;
use crate::mkfs::{self, DeviceContent, JournalSize, MkfsOptions};
use crate::tx::Tx;
use base::bytes::{put_le16, put_le32};
use base::checksum::crc32c;
use base::{BLOCK_BYTES, Ino};
use block::{BlockDevice, Class};
use blockdev::{Count, Ram, write_block};
use fscore::{Creds, FileKind, FileSystem};
use journal::RecoveryReport;
use ondisk::jbd2;

const BYTES: u64 = 16 << 20;
const LOG_BLOCKS: u32 = 1024;
const OPTIONS: &str = "commit=600";

/// A volume whose log has `log_blocks` blocks.
fn volume(log_blocks: u32) -> Arc<Ram> {
    let ram = Arc::new(Ram::new(BYTES));
    make_volume(&ram, BYTES, [3; 16], log_blocks);
    ram
}

/// Makes a volume of `bytes` on a device that is at least as large.
fn make_volume(ram: &Arc<Ram>, bytes: u64, uuid: [u8; 16], log_blocks: u32) {
    let time = rt::WallTime { secs: 1, nanos: 0 };
    let mut options = MkfsOptions::new(bytes, uuid, [5; 16], time);
    options.journal = JournalSize::Blocks(log_blocks);
    let plan = mkfs::plan(&options).expect("a volume");
    plan.write(&Queue::new(ram.clone()), DeviceContent::Zeros)
        .expect("written");
}

fn mounted(ram: &Arc<Ram>, options: &str) -> Arc<Ext4> {
    let options = MountOptions::parse(options).expect("options");
    Ext4::mount(Queue::new(ram.clone()), options).expect("mounts")
}

fn fork(ram: &Ram) -> Arc<Ram> {
    let copy = Ram::new(ram.caps().sectors * 512);
    for (n, block) in ram.blocks() {
        write_block(&copy, BlockNo(n).lba(), Class::Data, block).expect("in range");
    }
    Arc::new(copy)
}

fn put(ram: &Ram, block: BlockNo, bytes: Vec<u8>) {
    write_block(ram, block.lba(), Class::Home, bytes.into()).expect("in range");
}

fn block_of(ram: &Ram, block: BlockNo) -> Vec<u8> {
    let read = ram.submit(blockdev::Request::read(block.lba(), SECTORS_PER_BLOCK));
    ram.wait(read).expect("in range").into_bytes().to_vec()
}

fn change_superblock(ram: &Ram, change: impl FnOnce(&mut Superblock)) {
    let mut block = block_of(ram, BlockNo(0));
    let mut sb = Superblock::parse(&block[SUPERBLOCK_AT..]).expect("a superblock");
    change(&mut sb);
    sb.encode(&mut block[SUPERBLOCK_AT..SUPERBLOCK_AT + 1024]);
    put(ram, BlockNo(0), block);
}

fn log_place(ram: &Arc<Ram>) -> journal::LogPlace {
    let sb = Superblock::parse(&block_of(ram, BlockNo(0))[SUPERBLOCK_AT..]);
    journal_place(&Queue::new(ram.clone()), &sb.expect("a superblock")).expect("a log")
}

fn log_superblock(ram: &Arc<Ram>) -> (BlockNo, Vec<u8>, jbd2::Superblock) {
    let home = log_place(ram).block(LogBlock(0));
    let block = block_of(ram, home);
    let sb = jbd2::Superblock::parse(&block).expect("a log");
    (home, block, sb)
}

fn change_log(ram: &Arc<Ram>, change: impl FnOnce(&mut jbd2::Superblock)) {
    let (home, mut block, mut sb) = log_superblock(ram);
    change(&mut sb);
    sb.encode(&mut block[..1024]);
    put(ram, home, block);
}

/// Checks that the mount is refused with these words, and that the device was asked for nothing but
/// reads.
fn refused(ram: &Arc<Ram>, options: &str, words: &str) {
    let disk = Arc::new(Count::new(ram.clone()));
    let before = ram.image();
    let parsed = MountOptions::parse(options).expect("options");
    let error = match Ext4::mount(Queue::new(disk.clone()), parsed) {
        Ok(_) => panic!("`{options}`: mounted, not refused with \"{words}\""),
        Err(e) => e.to_string(),
    };
    assert!(error.contains(words), "`{options}`: {error}, not {words}");
    let commands = disk.counts().commands;
    let changing = [
        commands.writes,
        commands.remaps,
        commands.discards,
        commands.flushes,
    ];
    assert_eq!(changing, [0; 4], "ext4-mount-M4: `{options}`, {words}");
    assert!(ram.image() == before, "ext4-mount-M4: `{options}`, {words}");
}

/// What a transaction writes into a volume.
type Plant = fn(&Ext4, &mut Tx<'_>) -> FsResult<()>;

/// Changes a byte of a metadata block.
fn flip(fs: &Ext4, tx: &mut Tx<'_>, block: BlockNo, at: usize) -> FsResult<()> {
    let old = fs.read_meta(block)?;
    let mut new = old.to_vec();
    new[at] ^= 0xFF;
    tx.update(block, 0, &old, &new)
}

/// Faults of a volume: the name, the change that makes it, and whether a read-only mount is refused
/// as well.
const PLANTS: [(&str, Plant, bool); 10] = [
    (
        "revision 2",
        |fs, tx| fs.update_superblock(tx, |sb| sb.set_revision(2)),
        false,
    ),
    (
        "feature",
        |fs, tx| {
            fs.update_superblock(tx, |sb| {
                sb.set_incompat(sb.incompat() | Incompat(1 << 30));
            })
        },
        true,
    ),
    (
        "cannot be written",
        |fs, tx| {
            fs.update_superblock(tx, |sb| {
                sb.set_ro_compat(sb.ro_compat() | RoCompat(1 << 30));
            })
        },
        false,
    ),
    (
        "the image is cut off",
        |fs, tx| fs.update_superblock(tx, |sb| sb.set_blocks_count(BYTES / 4096 + 1)),
        true,
    ),
    (
        "group",
        |fs, tx| flip(fs, tx, fs.geo.desc_place(0).0, 0x0C),
        true,
    ),
    (
        "inode 2",
        |fs, tx| {
            let (block, offset) = fs.inode_home(disk::ROOT_INO)?;
            flip(fs, tx, block, offset)
        },
        true,
    ),
    (
        "the root, is not a directory",
        |fs, tx| {
            let root = fs.inode(disk::ROOT_INO)?;
            root.core().disk.set_mode(0o100_644);
            fs.put_inode(tx, &root)
        },
        true,
    ),
    (
        "list of orphans: inode 99999 is none of a file",
        |fs, tx| fs.update_superblock(tx, |sb| sb.set_last_orphan(Ino(99_999))),
        false,
    ),
    (
        "list of orphans: inode 600 is not in use",
        |fs, tx| fs.update_superblock(tx, |sb| sb.set_last_orphan(Ino(600))),
        false,
    ),
    (
        "orphan file",
        |fs, tx| {
            fs.update_superblock(tx, |sb| {
                sb.set_compat(sb.compat() | Compat::ORPHAN_FILE);
                sb.set_orphan_file_ino(disk::ROOT_INO);
            })
        },
        false,
    ),
];

/// Tests each fault once with the change only in the log, and once with it at home behind an empty
/// log.
#[test]
fn m4_a_volume_that_cannot_be_mounted_stays_as_it_is() {
    let start = volume(LOG_BLOCKS);
    for (words, plant, reading) in PLANTS {
        for home in [false, true] {
            let [dirty, ram] = planted(&start, plant);
            let ram = match home {
                true => {
                    change_log(&ram, |sb| sb.set_start(0));
                    ram
                }
                false => dirty,
            };
            assert_eq!(log_superblock(&ram).2.is_clean(), home);
            refused(&ram, OPTIONS, words);
            if reading {
                refused(&ram, "ro", words);
            } else {
                mounted(&ram, "ro").unmount().expect("reading goes");
            }
        }
    }
}

/// A volume with the change only in its log, and one with everything at home.
fn planted(start: &Ram, plant: Plant) -> [Arc<Ram>; 2] {
    let ram = fork(start);
    let fs = mounted(&ram, OPTIONS);
    fs.transact(2, |tx| plant(&fs, tx)).expect("planted");
    fs.journal().commit_all().expect("commits");
    let dirty = fork(&ram);
    fs.journal().checkpoint_all().expect("goes home");
    [dirty, ram]
}

fn recover_log(ram: &Arc<Ram>) -> FsResult<Option<RecoveryReport>> {
    Ext4::recover_log(Queue::new(ram.clone()), None, MountOptions::default())
}

/// For each volume that cannot be mounted, the log goes home once, and the superblock tells e2fsck
/// so.
#[test]
fn m5_the_log_goes_home_whatever_lies_behind_it() {
    let start = volume(LOG_BLOCKS);
    for (words, plant, reading) in PLANTS {
        let [ram, home] = planted(&start, plant);
        let report = recover_log(&ram).expect(words).expect("it waits");
        assert!(report.blocks_replayed > 0, "{words}");
        let (_, _, log) = log_superblock(&ram);
        assert!(log.is_clean(), "{words}");
        let sb = Superblock::parse(&block_of(&ram, BlockNo(0))[SUPERBLOCK_AT..]).expect(words);
        let known = words != "feature";
        assert_eq!(sb.incompat().has(Incompat::RECOVER), !known, "{words}");
        assert_eq!(sb.state().has(State::ERRORS), known, "{words}");
        same_but_for_the_log(&ram, &home, words);
        let once = ram.image();
        let again = recover_log(&ram).ok().flatten();
        assert!(again.is_none() && ram.image() == once, "{words}");
        if reading {
            refused(&ram, "ro", words);
        }
    }
}

/// Checks that the volumes differ only in what superblock and log say of the recovery; everything
/// else is what a checkpoint leaves.
fn same_but_for_the_log(a: &Arc<Ram>, b: &Arc<Ram>, words: &str) {
    let place = log_place(a);
    let log: Vec<u64> = (0..LOG_BLOCKS)
        .map(|n| place.block(LogBlock(n)).0)
        .collect();
    let (a, b) = (a.image(), b.image());
    let blocks = a.chunks(BLOCK_BYTES).zip(b.chunks(BLOCK_BYTES)).enumerate();
    for (n, (a, b)) in blocks.skip(1) {
        assert!(a == b || log.contains(&(n as u64)), "{words}: block {n}");
    }
}

/// ext4-mount-M5: nothing of a damaged log goes home, and nothing of the log of a volume that
/// cannot be read at all.
#[test]
fn m5_a_log_that_is_damaged_stays() {
    let [ram, clean] = dirty_and_clean();
    assert!(recover_log(&clean).expect("mounts").is_none());
    let start = log_superblock(&ram).2.start();
    let image = log_place(&ram).block(LogBlock(start + 1));
    let mut block = block_of(&ram, image);
    block[9] ^= 1;
    put(&ram, image, block);
    let unknown = dirty_and_clean()[0].clone();
    change_superblock(&unknown, |sb| {
        sb.set_incompat(sb.incompat() | Incompat(1 << 30));
    });
    for (ram, words) in [(ram, "journal is damaged"), (unknown, "feature")] {
        let before = ram.image();
        let error = recover_log(&ram).expect_err("refused").to_string();
        assert!(error.contains(words), "{error}");
        assert!(ram.image() == before, "{words}");
    }
}

/// A volume whose log holds a file, and that volume after an unmount.
fn dirty_and_clean() -> [Arc<Ram>; 2] {
    let ram = volume(LOG_BLOCKS);
    let fs = mounted(&ram, OPTIONS);
    let (root, creds) = (fs.root(), Creds::default());
    fs.create(root, b"f", FileKind::File, 0o600, 0, creds)
        .expect("room");
    fs.sync().expect("syncs");
    let dirty = fork(&ram);
    fs.unmount().expect("unmounts");
    [dirty, ram]
}

#[test]
fn m4_options_and_places_are_judged_first() {
    let both = dirty_and_clean();
    for ram in &both {
        refused(ram, "home=remap", "needs a device with REMAP");
        refused(ram, "scheme=none,data=journal", "needs a journal");
        let ram = fork(ram);
        change_superblock(&ram, |sb| sb.set_journal_ino(Ino(0)));
        refused(&ram, OPTIONS, "lies on the device with the UUID");
    }
    let [dirty, clean] = &both;
    refused(dirty, "scheme=none", "must be recovered first");
    refused(dirty, "scheme=none,ro", "must be recovered first");
    let ram = fork(dirty);
    change_superblock(&ram, |sb| sb.set_journal_ino(Ino(0)));
    refused(&ram, "ro", "must be recovered first");
    let ram = fork(clean);
    change_superblock(&ram, |sb| {
        sb.set_compat(sb.compat().without(Compat::HAS_JOURNAL));
    });
    refused(&ram, OPTIONS, "has no journal");
}

#[test]
fn m4_a_log_is_judged_before_it_is_replayed() {
    for start in dirty_and_clean() {
        let unknown = fork(&start);
        change_log(&unknown, |sb| {
            sb.set_incompat(sb.incompat() | jbd2::JournalIncompat(1 << 20));
        });
        refused(&unknown, OPTIONS, "unknown features");
        let torn = fork(&start);
        let (home, mut block, _) = log_superblock(&torn);
        block[0x100] ^= 1;
        put(&torn, home, block);
        refused(&torn, OPTIONS, "checksum");
    }
    let [damaged, _] = dirty_and_clean();
    let start = log_superblock(&damaged).2.start();
    // The block behind the descriptor is an image.
    let image = log_place(&damaged).block(LogBlock(start + 1));
    let mut block = block_of(&damaged, image);
    block[9] ^= 1;
    put(&damaged, image, block);
    refused(&damaged, OPTIONS, "journal is damaged");
}

/// The log is large enough for what it holds, but not for what the options may ask of it.
#[test]
fn m4_a_log_that_is_too_small_is_not_replayed() {
    let start = volume(LOG_BLOCKS);
    let small = (64..LOG_BLOCKS).step_by(8).find_map(|blocks| {
        let ram = fork(&start);
        change_log(&ram, |sb| sb.set_blocks_count(blocks));
        let fits = |options: &str| {
            let options = MountOptions::parse(options).expect("options");
            let fs = Ext4::mount(Queue::new(fork(&ram)), options);
            fs.map(|fs| fs.unmount().expect("unmounts")).is_ok()
        };
        (fits(OPTIONS) && !fits("data=journal")).then_some(ram)
    });
    let ram = small.expect("some size is between");
    refused(&ram, "data=journal", "make a journal of at least");
    let fs = mounted(&ram, OPTIONS);
    let (root, creds) = (fs.root(), Creds::default());
    fs.mkdir(root, b"d", 0o700, creds).expect("room");
    fs.sync().expect("syncs");
    let dirty = fork(&ram);
    assert!(!log_superblock(&dirty).2.is_clean());
    refused(&dirty, "data=journal", "make a journal of at least");
    mounted(&dirty, OPTIONS).unmount().expect("it was whole");
}

/// A cut without a log may leave anything, which only a check finds: until then no unmount says
/// that the volume is clean.
#[test]
fn a_volume_that_was_not_clean_is_not_clean_after_an_unmount() {
    let ram = volume(LOG_BLOCKS);
    let is_valid = || {
        let sb = Superblock::parse(&block_of(&ram, BlockNo(0))[SUPERBLOCK_AT..]);
        sb.expect("whole").state().has(State::VALID)
    };
    for options in ["scheme=none", OPTIONS] {
        mounted(&ram, options).unmount().expect("unmounts");
        assert!(is_valid(), "{options}");
    }
    drop(mounted(&ram, "scheme=none"));
    for options in ["scheme=none", OPTIONS] {
        mounted(&ram, options).unmount().expect("unmounts");
        assert!(!is_valid(), "{options}");
    }
}

/// Tags of a fast commit that follows transaction `tid`, in whole blocks.
fn fast_commit(tid: u32, tags: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut area = Vec::new();
    let mut tag = |kind: u16, value: &[u8]| {
        let mut head = [0; 4];
        put_le16(&mut head, 0, kind);
        put_le16(&mut head, 2, value.len() as u16);
        area.extend_from_slice(&head);
        area.extend_from_slice(value);
    };
    let mut head = [0; 8];
    put_le32(&mut head, 4, tid);
    tag(9, &head);
    for (kind, value) in tags {
        tag(*kind, value);
    }
    let mut tail = [0; 8];
    put_le32(&mut tail, 0, tid);
    tag(8, &tail);
    let at = area.len() - 4;
    let crc = crc32c(0, &area[..at]);
    put_le32(&mut area, at, crc);
    area.resize(area.len().next_multiple_of(BLOCK_BYTES), 0);
    area
}

/// A fast commit that contradicts the volume lies behind a full one: neither is replayed.
#[test]
fn m4_fast_commits_are_judged_before_the_full_ones_are_replayed() {
    const AREA: u32 = 8;
    let [dirty, _] = dirty_and_clean();
    let queue = Queue::new(dirty.clone());
    let Ok(Opened::NeedsRecovery(log)) = journal::open(queue, log_place(&dirty)) else {
        panic!("the log is dirty");
    };
    let end = log.foresee(None).expect("a whole log");
    assert!(end.fast_commits().is_none());
    let (_, report) = end.carry_out().expect("recovers");
    let [dirty, _] = dirty_and_clean();
    change_log(&dirty, |sb| {
        sb.set_incompat(sb.incompat() | jbd2::JournalIncompat::FAST_COMMIT);
        sb.set_fast_commit_blocks(AREA);
    });
    let place = log_place(&dirty);
    let first = log_superblock(&dirty).2.fast_commit_first();
    let at = place.block(LogBlock(first));
    let unlink = |name: &[u8], ino: u32| {
        let mut value = vec![0; 8];
        put_le32(&mut value, 0, disk::ROOT_INO.0);
        put_le32(&mut value, 4, ino);
        value.extend_from_slice(name);
        (5, value)
    };
    put(
        &dirty,
        at,
        fast_commit(report.end.0, &[unlink(b"f", 99_999)]),
    );
    refused(&dirty, OPTIONS, "fast commit");
    refused(&dirty, "ro", "fast commit");
    // With the right inode number both are replayed.
    let mounted_once = mounted(&fork_without_area(&dirty, at), OPTIONS);
    let ino = mounted_once.lookup(mounted_once.root(), b"f");
    drop(mounted_once);
    let ino = ino.expect("of the full commit");
    put(
        &dirty,
        at,
        fast_commit(report.end.0, &[unlink(b"f", ino.0)]),
    );
    let fs = mounted(&dirty, OPTIONS);
    assert_eq!(fs.recovery().expect("recovered").fast_commits, 1);
    assert!(fs.lookup(fs.root(), b"f").is_err());
    fs.unmount().expect("unmounts");
}

fn fork_without_area(ram: &Ram, at: BlockNo) -> Arc<Ram> {
    let copy = fork(ram);
    put(&copy, at, vec![0; BLOCK_BYTES]);
    copy
}

/// latch-P1: a panic outside of a handle ends the journal, too, so that its task commits nothing.
#[test]
fn a_panic_ends_the_journal() {
    let fs = mounted(&volume(LOG_BLOCKS), OPTIONS);
    assert_eq!(fs.journal.aborted(), None);
    let ended = rt::foreign(|| fs.guarded::<()>(|| panic!("planted")));
    assert!(ended.is_err() && fs.journal.aborted().is_some());
    let end = fs.unmount().map_err(|e| e.errno());
    assert_eq!(end, Err(fscore::Errno::Io));
}
