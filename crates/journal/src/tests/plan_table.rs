//! Checks the table "operation -> flushes, FUA writes, log blocks" of preset jbd2, and the order of
//! its commit.

use super::disk::Event;
use super::*;
use block::Class;

/// Commands and blocks of one commit.
#[derive(Debug, PartialEq, Eq)]
struct Cost {
    flushes: u64,
    fua: u64,
    superblocks: u64,
    descriptors: u64,
    images: u64,
    revokes: u64,
    commits: u64,
}

type Operation = fn(&mut crate::Handle<'_>, &Rig);

fn cost(rig: &Rig, journal: &Journal, credits: u32, operation: Operation) -> Cost {
    let before = rig.queue.stats();
    let mut handle = journal.start(credits).expect("room");
    operation(&mut handle, rig);
    journal
        .commit(handle.finish().expect("runs"))
        .expect("commits");
    let after = rig.queue.stats();
    let blocks = |class| after.blocks_written(class) - before.blocks_written(class);
    Cost {
        flushes: after.flushes - before.flushes,
        fua: after.fua_commands - before.fua_commands,
        superblocks: blocks(Class::JournalSuperblock),
        descriptors: blocks(Class::JournalDescriptor),
        images: blocks(Class::JournalMetadata) + blocks(Class::JournalData),
        revokes: blocks(Class::JournalRevoke),
        commits: blocks(Class::JournalCommit),
    }
}

/// (operation, credits, what it does, expected: flushes, FUA, superblocks, descriptors, images,
/// revokes, commits)
const TABLE: &[(&str, u32, Operation, [u64; 7])] = &[
    (
        "first commit of a mount",
        1,
        |h, r| h.write(r.first(), 0, b"x").expect("credit"),
        [1, 2, 1, 1, 1, 0, 1],
    ),
    (
        "one block",
        1,
        |h, r| h.write(r.first(), 0, b"y").expect("credit"),
        [1, 1, 0, 1, 1, 0, 1],
    ),
    (
        "the same block twice",
        1,
        |h, r| (0..2).for_each(|n| h.write(r.first(), n, b"z").expect("credit")),
        [1, 1, 0, 1, 1, 0, 1],
    ),
    (
        "300 blocks: two descriptors",
        300,
        |h, r| many(h, r, 300),
        [1, 1, 0, 2, 300, 0, 1],
    ),
    (
        "first revoke: the superblock learns of the feature",
        1,
        |h, r| h.forget(r.first()).expect("room"),
        [1, 2, 1, 0, 0, 1, 1],
    ),
    (
        "revoke and create again",
        1,
        |h, r| again(h, r),
        [1, 1, 0, 1, 1, 0, 1],
    ),
    (
        "create and free in one transaction",
        1,
        |h, r| gone(h, r),
        [1, 1, 0, 0, 0, 1, 1],
    ),
    (
        "data=journal",
        1,
        |h, r| {
            h.write_journaled_data(r.first().plus(9), filled(7))
                .expect("credit")
        },
        [1, 1, 0, 1, 1, 0, 1],
    ),
    (
        "ordered data",
        1,
        |h, r| ordered(h, r),
        [1, 1, 0, 1, 1, 0, 1],
    ),
    ("nothing", 1, |_, _| (), [0, 0, 0, 0, 0, 0, 0]),
];

fn many(h: &mut crate::Handle<'_>, r: &Rig, n: u64) {
    (0..n).for_each(|n| h.create(r.first().plus(n), filled(1)).expect("credit"));
}
fn again(h: &mut crate::Handle<'_>, r: &Rig) {
    h.forget(r.first()).expect("room");
    h.create(r.first(), filled(2)).expect("credit");
}
fn gone(h: &mut crate::Handle<'_>, r: &Rig) {
    h.create(r.first().plus(400), filled(2)).expect("credit");
    h.forget(r.first().plus(400)).expect("room");
}
fn ordered(h: &mut crate::Handle<'_>, r: &Rig) {
    let mut plug = r.queue.plug();
    plug.write(r.first().plus(20).lba(), Class::Data, filled(8));
    h.add_ordered(plug.submit()).expect("runs");
    h.write(r.first().plus(1), 0, b"a").expect("credit");
}

#[test]
fn jbd2_costs_what_the_table_says() {
    let rig = Rig::new(4000, 2048);
    let journal = rig.start(quiet());
    for (name, credits, operation, e) in TABLE {
        let expected = Cost {
            flushes: e[0],
            fua: e[1],
            superblocks: e[2],
            descriptors: e[3],
            images: e[4],
            revokes: e[5],
            commits: e[6],
        };
        assert_eq!(
            cost(&rig, &journal, *credits, *operation),
            expected,
            "{name}"
        );
    }
    journal.stop().expect("stops");
}

#[test]
fn steps_are_in_this_order() {
    let names: Vec<&str> = crate::plan_of(&crate::Preset::Jbd2.scheme().expect("journaled"))
        .iter()
        .map(|s| s.name)
        .collect();
    assert_eq!(
        names,
        ["data", "log-start", "log", "flush", "commit-record", "tail"]
    );
}

#[test]
fn events_of_a_commit_in_order() {
    let rig = Rig::new(200, 64);
    let journal = rig.start(quiet());
    let mut handle = journal.start(2).expect("room");
    ordered(&mut handle, &rig);
    journal
        .commit(handle.finish().expect("runs"))
        .expect("commits");
    let seen: Vec<(Option<Class>, bool)> = rig
        .disk
        .events()
        .iter()
        .map(|e| match e {
            Event::Write { class, fua, .. } => (Some(*class), *fua),
            Event::Flush(_) => (None, false),
        })
        .collect();
    let expected = [
        (Some(Class::Data), false),
        (Some(Class::JournalSuperblock), true),
        (Some(Class::JournalDescriptor), false),
        (Some(Class::JournalMetadata), false),
        (None, false),
        (Some(Class::JournalCommit), true),
    ];
    assert_eq!(seen, expected);
    crash(&journal);
}

#[test]
fn flush_is_skipped_without_a_cache() {
    let image = vec![0; 200 * BLOCK_BYTES];
    let ram = blockdev::Ram::from_image(&image);
    let queue = Queue::new(Arc::new(ram));
    let place = place(200, 64);
    queue
        .write(BlockNo(1).lba(), Class::JournalSuperblock, empty_log(64))
        .expect("writes");
    let Opened::Clean(log) = open(queue.clone(), place).expect("opens") else {
        panic!("clean")
    };
    let journal = log.start(quiet()).expect("starts");
    let mut handle = journal.start(1).expect("room");
    handle.create(BlockNo(100), filled(1)).expect("credit");
    journal
        .commit(handle.finish().expect("runs"))
        .expect("commits");
    assert_eq!(journal.stats().flushes_skipped, 1);
    assert_eq!(queue.stats().flushes, 0);
    journal.stop().expect("stops");
}
