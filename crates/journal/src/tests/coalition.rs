//! Checks block by block what a coalition journal logs.

use super::disk::Event;
use super::*;
use crate::{Preset, Stats};
use base::Tid;
use block::Class;
use ondisk::jbd2::{CoalitionPart, CoalitionRecord, Format};

fn options(preset: Preset) -> Options {
    Options {
        scheme: preset.scheme(),
        ..quiet()
    }
}

/// One operation, committed.
fn commit(journal: &Journal, credits: u32, operation: impl FnOnce(&mut crate::Handle<'_>)) -> Tid {
    let mut handle = journal.start(credits).expect("room");
    operation(&mut handle);
    let tid = handle.finish().expect("runs");
    journal.commit(tid).expect("commits");
    tid
}

fn format(rig: &Rig) -> Format {
    Format::of(&Superblock::parse(&rig.disk.content(1)).expect("valid"))
}

/// The records of all transactions so far, as text.
fn records(rig: &Rig) -> Vec<String> {
    let format = format(rig);
    let mut out = Vec::new();
    for event in rig.disk.events() {
        let Event::Write {
            bytes,
            class: Class::Coalition,
            ..
        } = event
        else {
            continue;
        };
        CoalitionPart::verify(&format, &bytes).expect("sealed");
        let part = CoalitionPart::parse(&format, &bytes).expect("valid");
        let at = |b: BlockNo| b.0 - rig.first().0;
        let mut text: Vec<String> = Vec::new();
        for record in &part.records {
            text.push(match record {
                CoalitionRecord::Full { block, escaped, .. } => {
                    let mark = if *escaped { " escaped" } else { "" };
                    format!("{} full{mark}", at(*block))
                }
                CoalitionRecord::Revoke { blocks } => {
                    let list: Vec<u64> = blocks.iter().map(|b| at(*b)).collect();
                    format!("revoke {list:?}")
                }
                CoalitionRecord::Delta {
                    block,
                    cumulative,
                    segments,
                    ..
                } => {
                    let list = segments.iter().map(|s| (s.offset, s.bytes.len()));
                    let mark = if *cumulative { "cumulative" } else { "delta" };
                    format!("{} {mark} {:?}", at(*block), list.collect::<Vec<_>>())
                }
            });
        }
        out.push(format!("{}: {}", part.tid, text.join(", ")));
    }
    out
}

#[test]
fn each_kind_of_record() {
    let rig = Rig::new(200, 64);
    let journal = rig.start(options(Preset::Coalition));
    let b = |n| rig.first().plus(n);
    let mut magic = filled(3).to_vec();
    base::bytes::put_be32(&mut magic, 0, ondisk::jbd2::MAGIC);
    commit(&journal, 9, |h| {
        h.write(b(0), 10, b"abc").expect("credit");
        h.write(b(0), 16, b"d").expect("credit");
        h.write(b(0), 40, b"e").expect("credit");
        h.create(b(1), magic.into()).expect("credit");
        h.write(b(2), 100, &[7; 1500]).expect("credit");
        h.write(b(3), 8, &[0; 8]).expect("stores what is there");
        h.write_journaled_data(b(4), filled(1)).expect("credit");
    });
    commit(&journal, 9, |h| {
        h.write(b(0), 80, b"f").expect("credit");
        h.write(b(1), 5, b"g").expect("credit");
        h.forget(b(4)).expect("room");
        h.forget(b(2)).expect("room");
        h.create(b(2), filled(9)).expect("credit");
    });
    assert_eq!(
        records(&rig),
        [
            "1: 0 delta [(10, 7), (40, 1)], 1 full escaped, 2 full, 4 full",
            "2: revoke [4], 0 cumulative [(8, 16), (40, 8), (80, 8)], 1 delta [(5, 1)], 2 full",
        ]
    );
    let stats = journal.stats();
    let expected = Stats {
        blocks_logged: 7,
        fulls_logged: 4,
        deltas_logged: 2,
        cumulatives_logged: 1,
        blocks_unchanged: 1,
        parts_logged: 2,
        coalitions_long: 2,
        ..stats.clone()
    };
    assert_eq!(stats, expected);
    assert!(stats.record_bytes > 0);
    journal.stop().expect("stops");
    assert_eq!(rig.disk.content(b(0).0)[80], b'f');
    assert!(rig.clean().next_tid() == Tid(3));
}

#[test]
fn commands_of_a_commit() {
    // Flushes, FUA commands, coalition blocks, full images, commit blocks: of a transaction of
    // deltas alone, and of one with a new block.
    for (scheme, deltas, with_new) in [
        ("coalition", [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]),
        ("emmc", [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]),
        ("coalition-paper", [1, 1, 1, 0, 0], [1, 1, 1, 1, 1]),
        ("emmc-paper", [1, 1, 1, 0, 0], [1, 2, 1, 1, 1]),
        (
            "coalition+commit-block=on",
            [1, 1, 1, 0, 1],
            [1, 1, 1, 1, 1],
        ),
        ("emmc+commit-block=on", [1, 2, 1, 0, 1], [1, 2, 1, 1, 1]),
    ] {
        let rig = Rig::new(200, 64);
        let choices: crate::Choices = scheme.parse().expect(scheme);
        let journal = rig.start(Options {
            scheme: choices.scheme().expect(scheme),
            ..quiet()
        });
        commit(&journal, 1, |h| {
            h.write(rig.first(), 0, b"x").expect("credit")
        });
        for (expected, new) in [(deltas, false), (with_new, true)] {
            let before = rig.queue.stats();
            commit(&journal, 3, |h| {
                let mut plug = rig.queue.plug();
                plug.write(rig.first().plus(20).lba(), Class::Data, filled(8));
                h.add_ordered(plug.submit()).expect("runs");
                h.write(rig.first(), 9, b"y").expect("credit");
                h.write(rig.first().plus(1), 9, b"y").expect("credit");
                if new {
                    h.create(rig.first().plus(2), filled(3)).expect("credit");
                }
            });
            let after = rig.queue.stats();
            let blocks = |class| after.blocks_written(class) - before.blocks_written(class);
            let cost = [
                after.flushes - before.flushes,
                after.fua_commands - before.fua_commands,
                blocks(Class::Coalition),
                blocks(Class::JournalMetadata),
                blocks(Class::JournalCommit),
            ];
            assert_eq!(cost, expected, "{scheme}, new block: {new}");
        }
        journal.stop().expect("stops");
    }
}

#[test]
fn home_writes_are_reliable_and_need_no_flush() {
    let rig = Rig::new(200, 64);
    let journal = rig.start(options(Preset::Coalition));
    commit(&journal, 1, |h| {
        h.write(rig.first(), 0, b"x").expect("credit")
    });
    let before = rig.queue.stats().flushes;
    journal.checkpoint_all().expect("home");
    assert_eq!(rig.queue.stats().flushes, before);
    let home = rig.disk.events().into_iter().find_map(|e| match e {
        Event::Write {
            block,
            fua,
            class: Class::Home,
            ..
        } => Some((block, fua)),
        _ => None,
    });
    assert_eq!(home, Some((rig.first().0, true)), "hazards-H1");
    journal.stop().expect("stops");
}

/// A hot block in a small log: it never keeps the tail from moving.
#[test]
fn hot_block_does_not_pin_the_tail() {
    for preset in [
        Preset::Coalition,
        Preset::CoalitionPaper,
        Preset::Emmc,
        Preset::EmmcPaper,
    ] {
        for full_first in [crate::FullFirst::Off, crate::FullFirst::On] {
            let rig = Rig::new(60, 16);
            let mut options = options(preset);
            options.scheme.as_mut().expect("journaled").full_first = full_first;
            let journal = rig.start(options);
            for n in 0..100u32 {
                commit(&journal, 3, |h| {
                    h.write(rig.first(), 0, &n.to_be_bytes()).expect("credit");
                    let other = rig.first().plus(u64::from(n % 9) + 1);
                    h.write(other, 300, &n.to_be_bytes()).expect("credit");
                });
            }
            assert!(journal.stats().tail_updates > 0);
            journal.stop().expect("stops");
            assert_eq!(rig.disk.content(rig.first().0)[..4], 99u32.to_be_bytes());
        }
    }
}
