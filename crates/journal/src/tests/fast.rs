//! Fast commits as the journal sees them: place, order and exclusion. What their blocks say is the
//! file system's.

use super::disk::Event;
use super::*;
use crate::{FastStart, LogBlock, Preset};
use base::Tid;
use block::{Class, WriteMark};
use ondisk::jbd2::JournalIncompat;
use std::sync::atomic::{AtomicBool, Ordering};

const FS_BLOCKS: u64 = 200;
const LOG_BLOCKS: u32 = 128;
const META: BlockNo = BlockNo(150);

fn fast() -> Options {
    Options {
        scheme: Preset::FastCommit.scheme(),
        ..quiet()
    }
}

fn change(journal: &Journal, stamp: u8) -> Tid {
    let mut handle = journal.start(1).expect("room");
    handle.write(META, 8, &[stamp]).expect("credit");
    handle.finish().expect("runs")
}

/// A fast commit of `count` blocks of `stamp`; answers what it was told, if it was asked.
fn commit(journal: &Journal, tid: Tid, stamp: u8, count: usize) -> (bool, Option<FastStart>) {
    let mut told = None;
    let compose = |start: FastStart| {
        told = Some(start);
        Some(vec![filled(stamp); count])
    };
    let done = journal.fast_commit(tid, WriteMark::NONE, compose);
    (done.expect("runs"), told)
}

/// Log blocks of fast commits that were written, with the content of each.
fn written(rig: &Rig) -> Vec<(u32, u8, bool)> {
    let events = rig.disk.events();
    let of_area = events.iter().filter_map(|event| match event {
        Event::Write {
            block,
            bytes,
            fua,
            class: Class::FastCommit,
        } => {
            let log = (0..LOG_BLOCKS).find(|n| rig.place.block(LogBlock(*n)).0 == *block);
            Some((log.expect("in the log"), bytes[0], *fua))
        }
        _ => None,
    });
    of_area.collect()
}

fn superblock(rig: &Rig) -> Superblock {
    Superblock::parse(&rig.disk.content(rig.place.block(LogBlock(0)).0)).expect("whole")
}

#[test]
fn they_follow_each_other_and_begin_anew_behind_a_full_commit() {
    let rig = Rig::new(FS_BLOCKS, LOG_BLOCKS);
    let journal = rig.start(fast());
    let tid = change(&journal, 1);
    let (done, start) = commit(&journal, tid, 1, 2);
    let start = start.expect("asked");
    assert!(done && start.head && start.tid == tid);
    // fast-W5.
    let sb = superblock(&rig);
    assert!(!sb.is_clean() && sb.sequence() == tid);
    assert!(sb.incompat().has(JournalIncompat::FAST_COMMIT));
    let first = sb.fast_commit_first();
    // All but the last block of the area (fast-W9).
    assert_eq!(start.room, (LOG_BLOCKS - 1 - first) as usize);
    change(&journal, 2);
    let (_, start) = commit(&journal, tid, 2, 1);
    assert_eq!(
        start.map(|s| (s.head, s.room)),
        Some((false, (LOG_BLOCKS - first - 3) as usize))
    );
    // The last block of each is the one that commits.
    let behind = [
        (first, 1, false),
        (first + 1, 1, true),
        (first + 2, 2, true),
    ];
    assert_eq!(written(&rig), behind);
    assert!(!journal.committed().geq(tid), "fast-W7");
    journal.commit(tid).expect("commits");
    let next = change(&journal, 3);
    let (_, start) = commit(&journal, next, 3, 1);
    assert!(start.is_some_and(|s| s.head && s.tid == next));
    assert_eq!(written(&rig).last(), Some(&(first, 3, true)));
    // What is durable in full needs none.
    assert_eq!(commit(&journal, tid, 4, 1), (true, None));
    assert_eq!(journal.stats().fast_commits, 3);
    journal.stop().expect("stops");
    assert!(
        !superblock(&rig)
            .incompat()
            .has(JournalIncompat::FAST_COMMIT)
    );
}

#[test]
fn one_that_cannot_be_told_is_the_last_of_its_transaction() {
    let rig = Rig::new(FS_BLOCKS, LOG_BLOCKS);
    let journal = rig.start(fast());
    let tid = change(&journal, 1);
    let room = commit(&journal, tid, 1, 0).1.expect("asked").room;
    assert!(written(&rig).is_empty(), "nothing to say, nothing to write");
    assert!(!commit(&journal, tid, 1, room + 1).0, "no room");
    // fast-W6: not even one that would fit.
    assert_eq!(commit(&journal, tid, 1, 1), (false, None));
    journal.commit(tid).expect("commits");
    let next = change(&journal, 2);
    let refused = journal.fast_commit(next, WriteMark::NONE, |_| None);
    assert!(!refused.expect("runs"));
    assert_eq!(commit(&journal, next, 1, 1), (false, None));
    journal.commit(next).expect("commits");
    let last = change(&journal, 3);
    assert!(commit(&journal, last, 3, room).0, "as many as fit");
    assert_eq!(journal.stats().fast_refused, 2);
    journal.stop().expect("stops");
}

/// fast-W10: recovery has the whole ring for a replay, however much of it older transactions hold.
#[test]
fn room_for_a_replay_does_not_hang_on_what_the_ring_holds() {
    let rig = Rig::new(FS_BLOCKS, LOG_BLOCKS);
    let journal = rig.start(fast());
    let told = |stamp: u8| {
        let tid = change(&journal, stamp);
        let spare = commit(&journal, tid, stamp, 1).1.expect("asked").spare;
        journal.commit(tid).expect("commits");
        spare
    };
    let first = told(1);
    let ring = superblock(&rig).fast_commit_first() - 1;
    // One image is the transaction's own; with all come two descriptors and a commit block.
    assert_eq!(first, ring - 4, "a ring of {ring} blocks");
    // Nothing is brought home yet, so each transaction takes room.
    for stamp in 2..12 {
        assert_eq!(told(stamp), first, "transaction {stamp}");
    }
    journal.stop().expect("stops");
}

/// fast-W1.
#[test]
fn none_is_composed_while_a_handle_is_open() {
    let rig = Rig::new(FS_BLOCKS, LOG_BLOCKS);
    let journal = rig.start(fast());
    let tid = change(&journal, 1);
    let open = AtomicBool::new(true);
    let mut handle = journal.start(1).expect("room");
    rt::scope(|scope| {
        let sync = scope.spawn("sync", || {
            let compose = |_| {
                assert!(!open.load(Ordering::SeqCst), "half an operation");
                Some(vec![filled(1)])
            };
            journal.fast_commit(tid, WriteMark::NONE, compose)
        });
        rt::sleep(base::Nanos::from_millis(20));
        handle.write(META, 9, &[2]).expect("credit");
        open.store(false, Ordering::SeqCst);
        handle.finish().expect("runs");
        assert!(sync.join().expect("no panic").expect("runs"));
    });
    // Handles go on in the same transaction.
    assert_eq!(change(&journal, 3), tid);
    journal.stop().expect("stops");
}

/// fast-W3.
#[test]
fn data_is_durable_before_the_last_block() {
    let rig = Rig::new(FS_BLOCKS, LOG_BLOCKS);
    let journal = rig.start(fast());
    let mut handle = journal.start(1).expect("room");
    let mut plug = rig.queue.plug();
    plug.write(BlockNo(160).lba(), Class::Data, filled(7));
    handle.add_ordered(plug.submit()).expect("runs");
    handle.write(META, 8, &[1]).expect("credit");
    let tid = handle.finish().expect("runs");
    assert!(commit(&journal, tid, 1, 1).0);
    let events = rig.disk.events();
    let at = |wanted: &dyn Fn(&Event) -> bool| events.iter().position(wanted).expect("there");
    let class =
        |wanted| move |e: &Event| matches!(e, Event::Write { class, .. } if *class == wanted);
    let data = at(&class(Class::Data));
    let flush = data
        + events[data..]
            .iter()
            .position(|e| matches!(e, Event::Flush(_)))
            .expect("one");
    assert!(flush < at(&class(Class::FastCommit)));
    journal.stop().expect("stops");
}

#[test]
fn a_failed_one_ends_the_journal() {
    let rig = Rig::new(FS_BLOCKS, LOG_BLOCKS);
    let journal = rig.start(fast());
    let tid = change(&journal, 1);
    rig.disk.break_class(Some(Class::FastCommit));
    let done = journal.fast_commit(tid, WriteMark::NONE, |_| Some(vec![filled(1)]));
    let why = done.expect_err("fails").to_string();
    assert!(
        why.contains("fast commit") || journal.aborted().is_some(),
        "{why}"
    );
    assert!(journal.start(1).is_err());
    rig.disk.break_class(None);
    journal.stop().expect_err("aborted");
}

/// A log that names more blocks for fast commits than would leave a ring, or one of which none
/// could be used, gets as many as its size allows.
#[test]
fn the_ring_stays_the_larger_part() {
    for (named, blocks) in [(0, 8), (2, 8), (LOG_BLOCKS - 4, 8), (u32::MAX, 8), (40, 40)] {
        let rig = Rig::new(FS_BLOCKS, LOG_BLOCKS);
        let mut sb = superblock(&rig);
        sb.set_fast_commit_blocks(named);
        let mut block = vec![0; BLOCK_BYTES];
        sb.encode(&mut block);
        let content = BTreeMap::from([(1, Bytes::from(block))]);
        let rig = Rig::on(CrashDisk::new(FS_BLOCKS, content), rig.place.clone());
        let journal = rig.start(fast());
        let tid = change(&journal, 1);
        let room = commit(&journal, tid, 1, 1).1.expect("asked").room;
        assert_eq!(room, blocks as usize - 2, "{named}");
        journal.stop().expect("stops");
    }
}

/// fast-W11: also the block that stays free, because recovery reads it.
#[test]
fn an_area_that_held_something_else_is_durably_empty_before_the_log_begins() {
    let rig = Rig::new(FS_BLOCKS, LOG_BLOCKS);
    let first = LOG_BLOCKS - 7;
    let mut content = BTreeMap::from([(1, rig.disk.content(1))]);
    let blocks = [first, first + 3, LOG_BLOCKS - 1].map(|n| rig.place.block(LogBlock(n)).0);
    content.extend(blocks.map(|block| (block, filled(9))));
    let rig = Rig::on(CrashDisk::new(FS_BLOCKS, content), rig.place.clone());
    let journal = rig.start(fast());
    journal.commit(change(&journal, 1)).expect("commits");
    assert_eq!(superblock(&rig).fast_commit_first(), first);
    let events = rig.disk.events();
    let cleared: Vec<_> = written(&rig).iter().map(|w| (w.0, w.1)).collect();
    assert_eq!(cleared, [(first, 0), (first + 3, 0), (LOG_BLOCKS - 1, 0)]);
    let at = |wanted: &dyn Fn(&Event) -> bool| events.iter().position(wanted).expect("there");
    let of = |wanted| move |e: &Event| matches!(e, Event::Write { class, .. } if *class == wanted);
    let flush = at(&|e| matches!(e, Event::Flush(_)));
    assert!(at(&of(Class::FastCommit)) < flush);
    assert!(flush < at(&of(Class::JournalSuperblock)));
    // Once for a mount, not for each transaction.
    journal.commit(change(&journal, 2)).expect("commits");
    assert_eq!(written(&rig).len(), 3);
    journal.stop().expect("stops");
}
