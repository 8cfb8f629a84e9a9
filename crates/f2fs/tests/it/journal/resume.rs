//! A mount behind a cut lets the ring go on, and brings home later what was redone.

use super::SCHEME;
use super::common::{device_bytes, disk, fsck, mount, sim, volume};
use base::{BLOCK_BYTES, BlockNo, Bytes, Ino};
use block::Queue;
use blockdev::{Image, Op, SpecDisk};
use fscore::FileSystem;
use ondisk::f2fs::BLOCKS_PER_SEG;
use ondisk::f2fs::journal::{BlockHeader, BlockKind};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use testkit::Brief;
use testkit::record::{Event, Record};
use varve_f2fs::check::{Options, check};
use varve_f2fs::{F2fs, MountOptions};

const RING: u32 = 256;
/// A page is written in place, where it may be.
const IN_PLACE: &str = "ipu_policy=1";

fn page(fs: &F2fs, ino: Ino) -> u8 {
    let mut page = [0; BLOCK_BYTES];
    let read = fs.read(ino, 0, &mut page).expect("read");
    assert_eq!(read, BLOCK_BYTES);
    page[0]
}

fn put(fs: &F2fs, ino: Ino, byte: u8) {
    fs.write(ino, 0, &[byte; BLOCK_BYTES]).expect("written");
    fs.fsync(ino, false).expect("durable");
}

fn find(fs: &F2fs, name: &str) -> Ino {
    fs.lookup(fs.root(), name.as_bytes()).expect("it is there")
}

/// A file of one block, synced; the power is cut.
fn cut_behind_a_sync(seed: u64) -> Image {
    let disk = disk(RING, volume(RING), seed);
    let fs = mount(&disk, IN_PLACE);
    put(&fs, fs.file("a"), 1);
    put(&fs, fs.file("b"), 1);
    cut(&disk, &fs)
}

/// What a cut leaves that loses all that was not durable.
fn cut(disk: &SpecDisk, fs: &F2fs) -> Image {
    let left = disk.snapshot_lost();
    fs.unmount().expect("unmounted");
    left
}

fn written(events: &[Event]) -> usize {
    let writes = |event: &&Event| !event.request.written().is_empty();
    events.iter().filter(writes).count()
}

/// resume-G3, resume-G6: a mount flushes, and writes nothing; so the next one finds the same.
#[test]
fn a_mount_behind_a_cut_flushes_and_writes_nothing() {
    sim(1, || {
        let content = cut_behind_a_sync(1);
        let spec = disk(RING, content.clone(), 2);
        let recorded = Arc::new(Record::new(spec.clone()));
        let options = MountOptions::parse(SCHEME).expect("valid");
        let fs = F2fs::mount(Queue::new(recorded.clone()), options).expect("mounted");
        let events = recorded.take();
        assert_eq!(written(&events), 0, "resume-G6: {events:?}");
        let flushes = events
            .iter()
            .filter(|e| matches!(e.request.op, Op::Flush))
            .count();
        assert_eq!(flushes, 1, "resume-G3");
        assert!(spec.visible() == content, "resume-G6");
        let found = fs.journal_recovery().expect("a journal").clone();
        assert!(found.kept > 0 && found.kept == found.epochs, "{found:?}");
        put(&fs, fs.file("c"), 3);
        let next = disk(RING, cut(&spec, &fs), 3);
        let fs = mount(&next, "");
        let again = fs.journal_recovery().expect("a journal").clone();
        assert_eq!(again.applied, found.applied, "resume-G6");
        assert!(again.kept > found.kept, "{again:?} behind {found:?}");
        let pages = ["a", "b", "c"].map(|name| page(&fs, find(&fs, name)));
        assert_eq!(pages, [1, 1, 3]);
        fs.check();
        fs.unmount().expect("unmounted");
    });
}

/// resume-G5: recovery may still compare the last block that was committed.
#[test]
fn a_block_that_recovery_may_compare_is_not_written_in_place() {
    sim(2, || {
        let content = cut_behind_a_sync(4);
        let spec = disk(RING, content, 4);
        let fs = mount(&spec, IN_PLACE);
        assert!(fs.journal_recovery().is_some_and(|found| found.kept > 0));
        // Only its times change beside: that commits nothing.
        let b = find(&fs, "b");
        fs.write(b, 0, &[7; BLOCK_BYTES]).expect("written");
        fs.fsync(b, true).expect("durable");
        let next = disk(RING, cut(&spec, &fs), 5);
        let fs = mount(&next, IN_PLACE);
        assert_eq!(page(&fs, find(&fs, "b")), 7, "resume-G5");
        fs.unmount().expect("unmounted");
        fsck(RING, &next.visible());
    });
}

/// Number of the block that is the first of each transaction, by epoch.
fn descriptors(blocks: &BTreeMap<u64, Bytes>) -> BTreeMap<u64, u64> {
    let head = |(&at, block): (&u64, &Bytes)| {
        let head = BlockHeader::parse(block).ok()?;
        let first = matches!(head.kind, BlockKind::Descriptor | BlockKind::Compact);
        (first && head.index == 0).then_some((head.epoch, at))
    };
    blocks.iter().filter_map(head).collect()
}

/// resume-G4.
#[test]
fn what_a_cut_left_of_the_next_transaction_is_overwritten_first() {
    sim(3, || {
        let disk_before = disk(RING, volume(RING), 6);
        let fs = mount(&disk_before, "");
        put(&fs, fs.file("a"), 1);
        // Several blocks of records.
        for n in 0..200 {
            fs.file(format!("a rather long name of file {n}"));
        }
        fs.sync().expect("committed");
        let content = cut(&disk_before, &fs);
        let ram = content.to_ram(device_bytes(RING));
        let mut blocks: BTreeMap<u64, Bytes> = ram.blocks().into_iter().collect();
        let (last, at) = descriptors(&blocks).pop_last().expect("there are some");
        blocks.insert(at, Bytes::from_static(&[0; BLOCK_BYTES]));
        let torn: Image = blocks.into_iter().collect();
        let spec = disk(RING, torn, 7);
        let fs = mount(&spec, "");
        let found = fs.journal_recovery().expect("a journal").clone();
        assert_eq!(
            (found.case, found.end),
            ('K', last - 1),
            "{}",
            found.message
        );
        assert!(found.kept > 0);
        let next = disk(RING, cut(&spec, &fs), 8);
        let fs = mount(&next, "");
        let found = fs.journal_recovery().expect("a journal").clone();
        assert_eq!((found.case, found.end), ('I', last), "resume-G4");
        assert_eq!(page(&fs, find(&fs, "a")), 1);
        fs.unmount().expect("unmounted");
        fsck(RING, &next.visible());
    });
}

/// resume-G1: where the last commit left a log at the beginning of a segment, an apply has to write
/// the kind of that segment, although nothing else of it changes.
#[test]
fn a_log_that_stands_in_a_fresh_segment_has_its_kind() {
    // All of it stays in the ring.
    const WIDE: u32 = 4096;
    let cuts = sim(5, || {
        let disk = disk(WIDE, volume(WIDE), 9);
        let fs = mount(&disk, "mode=lfs,jlow=5");
        // Its data is cold, by its name: that of a segment that nobody has used is hot.
        let ino = fs.file("a.mp4");
        let mut cuts = Vec::new();
        for page in 0..=u64::from(BLOCKS_PER_SEG) {
            let at = page * BLOCK_BYTES as u64;
            fs.write(ino, at, &[1; BLOCK_BYTES]).expect("written");
            fs.fsync(ino, false).expect("durable");
            cuts.push(disk.snapshot_lost());
        }
        fs.unmount().expect("unmounted");
        cuts
    });
    let mut went_on = 0;
    for (n, cut) in cuts.into_iter().enumerate() {
        let left = sim(n as u64, || {
            let disk = disk(WIDE, cut, 10);
            let fs = mount(&disk, "mode=lfs,jlow=5");
            let found = fs.journal_recovery().expect("a journal");
            went_on += u64::from(found.kept > 0);
            fs.unmount().expect("unmounted");
            disk.visible()
        });
        let blocks: BTreeMap<u64, Bytes> = left.blocks().collect();
        let zeros = Bytes::from_static(&[0; BLOCK_BYTES]);
        let read = |block: BlockNo| {
            let found = blocks.get(&block.0).unwrap_or(&zeros);
            Ok::<_, Infallible>(found.clone())
        };
        let report = check(
            &read,
            &Options::new(device_bytes(WIDE) / BLOCK_BYTES as u64),
        );
        assert!(report.findings.is_empty(), "cut {n}: {:?}", report.findings);
    }
    assert!(
        went_on > u64::from(BLOCKS_PER_SEG),
        "{went_on} rings went on"
    );
}

/// resume-G1: a directory of the chain is removed while the first apply is under way, and its
/// number goes to another directory, whose page is not the one that the apply writes.
#[test]
fn a_directory_made_while_an_apply_runs_has_a_page_of_its_own() {
    const DIRS: u64 = 12;
    for seed in 0..24 {
        let cut = sim(seed, || {
            let disk = disk(RING, volume(RING), seed);
            let fs = mount(&disk, "noinline_dentry");
            for n in 0..DIRS {
                fs.dir(format!("d{n}"));
            }
            fs.sync().expect("committed");
            cut(&disk, &fs)
        });
        let left = sim(seed, || {
            let disk = disk(RING, cut, seed);
            let fs = mount(&disk, "noinline_dentry");
            assert!(fs.journal_recovery().is_some_and(|found| found.kept > 0));
            rt::scope(|s| {
                s.spawn("apply", || fs.write_home_now().expect("applied"));
                s.spawn("names", || {
                    for n in (0..DIRS).rev() {
                        fs.rmdir(fs.root(), format!("d{n}").as_bytes())
                            .expect("gone");
                        fs.sync().expect("committed");
                        let dir = fs.dir(format!("e{n}"));
                        fs.make(dir, "inside").expect("a file");
                    }
                });
            });
            fs.write_home_now().expect("applied");
            fs.check();
            fs.check_home();
            for n in 0..DIRS {
                let dir = find(&fs, &format!("e{n}"));
                fs.lookup(dir, b"inside").expect("it is there");
            }
            fs.unmount().expect("unmounted");
            disk.visible()
        });
        fsck(RING, &left);
    }
}
