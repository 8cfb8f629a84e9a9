//! What recovery reads: many blocks at once, nothing of what was removed, and no more of the ring
//! than a transaction may have.

use super::SCHEME;
use super::common::{disk, mount, sim, volume};
use base::Ino;
use block::{Class, Queue};
use blockdev::{Count, Counts, Image, Piece};
use fscore::{FileSystem, SetAttr, XattrMode};
use ondisk::f2fs::journal::JournalSuper;
use std::sync::Arc;
use testkit::Brief;
use testkit::record::{Event, Record};
use varve_f2fs::{F2fs, JournalRecovery, MountOptions};

/// A quarter of it, which a scan that knows no size would look at, is 4096 blocks.
const RING: u32 = 16384;
/// Enough of them for directory blocks.
const FILES: u64 = 600;

fn name(n: u64) -> String {
    format!("a rather long name of file {n}")
}

/// What a cut leaves when `change` is committed behind a checkpoint that has `FILES` files.
fn left_by(change: impl FnOnce(&F2fs, &[Ino])) -> Image {
    sim(1, || {
        let disk = disk(RING, volume(RING), 1);
        let fs = mount(&disk, "");
        let dir = fs.make_dir(fs.root(), "dir").expect("a directory");
        let files: Vec<Ino> = (0..FILES)
            .map(|n| fs.make(dir, name(n)).expect("a file"))
            .collect();
        fs.write_home_now().expect("applied");
        change(&fs, &files);
        fs.sync().expect("committed");
        let left = disk.snapshot_lost();
        fs.unmount().expect("unmounted");
        left
    })
}

/// What a mount of it reads, and how many files there are then.
fn recovered(left: Image) -> (Counts, JournalRecovery, u64) {
    sim(2, || {
        let counted = Arc::new(Count::new(disk(RING, left, 2)));
        let options = MountOptions::parse(SCHEME).expect("valid");
        let fs = F2fs::mount(Queue::new(counted.clone()), options).expect("mounted");
        let counts = counted.counts();
        let found = fs.journal_recovery().expect("a journal").clone();
        assert!(!found.miscounted, "{found:?}");
        let dir = fs.lookup(fs.root(), b"dir").expect("it is there");
        let there = |n: &u64| fs.lookup(dir, name(*n).as_bytes()).is_ok();
        let files = (0..FILES).filter(there).count() as u64;
        fs.check();
        fs.unmount().expect("unmounted");
        (counts, found, files)
    })
}

/// f2fs-replay-P4, ahead-H2.
#[test]
fn what_was_removed_is_not_read() {
    let nothing = left_by(|fs, _| drop(fs.make(fs.root(), "other")));
    let (before, _, files) = recovered(nothing);
    assert_eq!(files, FILES);
    let all_gone = left_by(|fs, _| {
        let dir = fs.lookup(fs.root(), b"dir").expect("it is there");
        for n in 0..FILES {
            fs.unlink(dir, name(n).as_bytes()).expect("unlinked");
        }
    });
    let (counts, found, files) = recovered(all_gone);
    assert_eq!((files, found.nodes_freed), (0, FILES));
    let more = (counts.sectors_read - before.sectors_read) / 8;
    assert!(
        more < FILES / 4,
        "f2fs-replay-P4: {more} blocks more than without removals"
    );
}

/// Nodes and directory blocks that the redo changes are read many at once.
#[test]
fn what_is_changed_is_read_in_few_commands() {
    let (before, ..) = recovered(left_by(|fs, _| drop(fs.make(fs.root(), "other"))));
    let changed = left_by(|fs, files| {
        let set = SetAttr {
            perm: Some(0o600),
            ..SetAttr::default()
        };
        for &ino in files {
            fs.setattr(ino, &set).expect("set");
        }
        let dir = fs.lookup(fs.root(), b"dir").expect("it is there");
        for n in (0..FILES).step_by(7) {
            fs.link(files[n as usize], dir, name(FILES + n).as_bytes())
                .expect("a link");
        }
    });
    let (counts, found, files) = recovered(changed);
    assert_eq!(files, FILES);
    assert!(found.node_changes >= FILES, "{found:?}");
    let read = (counts.sectors_read - before.sectors_read) / 8;
    assert!(read >= FILES, "{read} blocks more: the nodes are at home");
    let commands = counts.commands.reads - before.commands.reads;
    assert!(commands < FILES / 8, "{commands} commands more");
}

/// scan-S6.
#[test]
fn no_more_of_the_ring_is_read_than_transactions_have() {
    let left = left_by(|fs, files| {
        for &ino in &files[..20] {
            fs.setxattr(ino, b"user.x", &[7; 100], XattrMode::Any)
                .expect("set");
            fs.fsync(ino, false).expect("durable");
        }
    });
    let (_, found, _) = recovered(left);
    assert_eq!((found.case, found.epochs), ('I', 20));
    assert!(found.ring_read <= 1024, "{} blocks", found.ring_read);
}

/// scan-S3: nothing was committed behind the last pack, and that is known where its epochs end.
#[test]
fn where_all_is_applied_the_ring_is_not_searched() {
    let left = left_by(|fs, files| {
        for &ino in &files[..20] {
            fs.setxattr(ino, b"user.x", &[7; 100], XattrMode::Any)
                .expect("set");
            fs.fsync(ino, false).expect("durable");
        }
        fs.write_home_now().expect("applied");
    });
    let (_, found, _) = recovered(left);
    assert_eq!((found.case, found.epochs, found.searched), ('F', 0, false));
    assert!(found.ring_read <= 1024, "{} blocks", found.ring_read);
}

/// The first write of this class among `events`: its place, and the block.
fn first(events: &[Event], class: Class) -> Option<(usize, &Event, &Piece)> {
    events.iter().enumerate().find_map(|(n, event)| {
        let mut pieces = event
            .request
            .written()
            .into_iter()
            .flat_map(|(_, pieces, _)| pieces);
        let piece = pieces.find(|piece| piece.class == class)?;
        Some((n, event, piece))
    })
}

/// supers-N3: a transaction that is larger than any before is told first.
#[test]
fn a_large_transaction_is_announced() {
    sim(3, || {
        let disk = disk(RING, volume(RING), 3);
        let recorded = Arc::new(Record::new(disk));
        let options = MountOptions::parse(SCHEME).expect("valid");
        let fs = F2fs::mount(Queue::new(recorded.clone()), options).expect("mounted");
        let files: Vec<Ino> = (0..400).map(|n| fs.file(format!("f{n}"))).collect();
        fs.sync().expect("committed");
        recorded.take();
        let small = fs.journal_stats().expect("a journal").blocks;
        for &ino in &files {
            fs.setxattr(ino, b"user.x", &[7; 3000], XattrMode::Any)
                .expect("set");
        }
        fs.sync().expect("committed");
        let blocks = fs.journal_stats().expect("a journal").blocks - small;
        assert!(blocks > 256, "{blocks} blocks, in one transaction");
        let events = recorded.take();
        let (at, told, sb) =
            first(&events, Class::JournalSuperblock).expect("supers-N3: it is told");
        let (begin, sent, _) = first(&events, Class::JournalDescriptor).expect("a transaction");
        assert!(at < begin, "supers-N3: told before it is sent");
        assert!(
            told.completed <= Some(sent.submitted),
            "supers-N3: and written"
        );
        assert!(
            told.request.written().iter().all(|(.., fua)| *fua),
            "supers-N3: durable"
        );
        let sb = JournalSuper::parse(&sb.bytes).expect("sound");
        assert!(u64::from(sb.transaction_max) >= blocks, "{sb:?}");
        fs.unmount().expect("unmounted");
    });
}
