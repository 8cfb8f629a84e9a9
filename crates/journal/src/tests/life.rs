//! A running journal without cuts: handles, waiting, failures, timers.

use super::*;
use base::{Nanos, Tid};
use block::Class;
use std::sync::atomic::{AtomicU32, Ordering};

fn commit_one(rig: &Rig, journal: &Journal, block: u64, byte: u8) -> Tid {
    let mut handle = journal.start(1).expect("room");
    handle
        .create(rig.first().plus(block), filled(byte))
        .expect("credit");
    let tid = handle.finish().expect("runs");
    journal.commit(tid).expect("commits");
    tid
}

#[test]
fn stop_leaves_a_clean_log_with_everything_home() {
    let rig = Rig::new(60, 16);
    let journal = rig.start(quiet());
    for n in 0..10 {
        commit_one(&rig, &journal, n, n as u8 + 1);
    }
    journal.stop().expect("stops");
    journal.stop().expect("may be called again");
    for n in 0..10 {
        assert_eq!(rig.disk.content(rig.first().0 + n), filled(n as u8 + 1));
    }
    let log = rig.clean();
    assert_eq!((log.next_tid(), log.errno()), (Tid(11), 0));
}

#[test]
fn numbers_wrap() {
    let mut block = empty_log(16).to_vec();
    let mut sb = Superblock::parse(&block).expect("valid");
    sb.set_sequence(Tid(u32::MAX - 3));
    sb.encode(&mut block);
    let content = BTreeMap::from([(1, Bytes::from(block))]);
    let rig = Rig::on(CrashDisk::new(60, content), place(60, 16));
    let journal = rig.start(quiet());
    for n in 0..12 {
        commit_one(&rig, &journal, n % 5, n as u8);
    }
    crash(&journal);
    let (log, report) = rig.recover().expect("recovers");
    assert_eq!(report.end, Tid(8));
    assert_eq!(log.next_tid(), Tid(9), "one number is skipped");
    assert_eq!(rig.disk.content(rig.first().0 + 1), filled(11));
}

#[test]
fn credits_are_kept() {
    let rig = Rig::new(60, 16);
    let journal = rig.start(quiet());
    let mut handle = journal.start(1).expect("room");
    handle.create(rig.first(), filled(1)).expect("first");
    let refused = handle
        .create(rig.first().plus(1), filled(1))
        .expect_err("no credit");
    assert!(refused.to_string().contains("credit"), "{refused}");
    handle
        .write(rig.first(), 4090, b"1234567")
        .expect_err("leaves the block");
    handle
        .create(rig.first(), filled(1).slice(1..))
        .expect_err("part of a block");
    handle.forget(rig.first()).expect("gives the credit back");
    handle
        .create(rig.first().plus(1), filled(1))
        .expect("with that credit");
    assert!(!handle.extend(100).expect("runs"), "does not fit this log");
    handle.finish().expect("runs");
    let too_many = journal.credits_max() + 1;
    assert!(matches!(
        journal.start(too_many),
        Err(JournalError::Misuse(_))
    ));
    journal.stop().expect("stops");
    assert!(
        matches!(journal.start(1), Err(JournalError::Misuse(_))),
        "no handle after the end"
    );
}

#[test]
fn restart_may_go_on_in_a_later_transaction() {
    let rig = Rig::new(60, 16);
    let journal = rig.start(quiet());
    let most = journal.credits_max();
    let mut handle = journal.start(most).expect("room");
    let first = handle.tid();
    for n in 0..u64::from(most) {
        handle
            .create(rig.first().plus(n), filled(1))
            .expect("credit");
    }
    assert!(!handle.extend(1).expect("runs"));
    let handle = handle.restart(most).expect("waits for the commit");
    assert!(handle.tid().gt(first));
    handle.finish().expect("runs");
    journal.stop().expect("stops");
}

#[test]
fn first_failure_is_latched_and_recorded() {
    let rig = Rig::new(60, 16);
    let journal = rig.start(quiet());
    commit_one(&rig, &journal, 0, 1);
    rig.disk.break_class(Some(Class::JournalDescriptor));
    let mut handle = journal.start(1).expect("room");
    handle.create(rig.first(), filled(2)).expect("credit");
    let tid = handle.finish().expect("runs");
    let error = journal.commit(tid).expect_err("the log cannot be written");
    assert!(error.to_string().contains("worn out"), "{error}");
    assert!(matches!(
        journal.start(1),
        Err(JournalError::Aborted { .. })
    ));
    let read = journal.read(rig.first()).expect("reading goes on");
    assert_eq!(read, filled(2));
    journal.abort("later");
    assert!(journal.aborted().expect("latched").contains("worn out"));
    journal.stop().expect_err("aborted");
    let Opened::NeedsRecovery(log) = rig.open().expect("opens") else {
        panic!("dirty")
    };
    assert_eq!(log.errno(), -5);
    log.recover().expect("recovers");
    assert_eq!(rig.disk.content(rig.first().0), filled(1));
}

#[test]
fn failed_ordered_data_is_not_vouched_for() {
    let rig = Rig::new(60, 16);
    let journal = rig.start(quiet());
    rig.disk.break_class(Some(Class::Data));
    let mut handle = journal.start(1).expect("room");
    let mut plug = rig.queue.plug();
    plug.write(rig.first().plus(5).lba(), Class::Data, filled(1));
    handle.add_ordered(plug.submit()).expect("runs");
    handle.create(rig.first(), filled(2)).expect("credit");
    let tid = handle.finish().expect("runs");
    journal.commit(tid).expect_err("its data is lost");
    journal.stop().expect_err("aborted");
    assert!(rig.clean().next_tid() == tid, "nothing was logged");
}

#[test]
fn power_loss_ends_everything() {
    for at in 0..12 {
        let rig = Rig::new(60, 16);
        let journal = rig.start(Options::default());
        rig.disk.cut_power_at(at);
        let mut lost = false;
        for n in 0..8 {
            let result = journal.start(1).and_then(|mut h| {
                h.write(rig.first().plus(n), 0, b"x")?;
                journal.commit(h.finish()?)
            });
            lost |= result.is_err_and(|e| e.is_power_lost());
        }
        assert!(lost, "power fails after {at} events");
        assert!(journal.stop().expect_err("no power").is_power_lost());
    }
}

/// Many tasks that each change two blocks and wait for their commit.
fn group_commit(tasks: u32, rounds: u32) {
    let rig = Rig::new(400, 256);
    let journal = rig.start(quiet());
    let done = Arc::new(AtomicU32::new(0));
    let workers: Vec<_> = (0..tasks)
        .map(|task| {
            let (journal, done, first) = (journal.clone(), done.clone(), rig.first());
            rt::spawn("worker", move || {
                for round in 0..rounds {
                    let mut handle = journal.start(2).expect("room");
                    for half in 0..2 {
                        let block = first.plus(u64::from(2 * task + half));
                        handle
                            .write(block, 0, &round.to_be_bytes())
                            .expect("credit");
                        rt::yield_now();
                    }
                    let tid = handle.finish().expect("runs");
                    journal.commit(tid).expect("commits");
                    assert!(journal.committed().geq(tid));
                    done.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    workers
        .into_iter()
        .for_each(|w| w.join().expect("no panic"));
    assert_eq!(done.load(Ordering::SeqCst), tasks * rounds);
    let stats = journal.stats();
    assert_eq!(stats.handles, u64::from(tasks * rounds));
    assert!(stats.transactions <= u64::from(tasks * rounds));
    crash(&journal);
    rig.recover().expect("recovers");
    for task in 0..2 * tasks {
        let content = rig.disk.content(rig.first().0 + u64::from(task));
        assert_eq!(content[..4], (rounds - 1).to_be_bytes());
    }
}

#[test]
fn group_commit_of_os_threads() {
    group_commit(8, 60);
}

#[test]
fn group_commit_of_simulated_tasks() {
    for seed in 0..12 {
        rt::Sim::new(rt::SimConfig::random(seed))
            .run(|| group_commit(6, 10))
            .unwrap();
    }
}

#[test]
fn power_cut_wakes_who_waits() {
    let outcome = rt::Sim::new(rt::SimConfig::seeded(3)).run(|| {
        let rig = Rig::new(60, 16);
        let journal = rig.start(Options::default());
        commit_one(&rig, &journal, 0, 1);
        let mut held = journal.start(1).expect("room");
        held.create(rig.first(), filled(2)).expect("credit");
        let waiter = journal.clone();
        let tid = held.tid();
        let waiter = rt::spawn("fsync", move || waiter.commit(tid));
        rt::sleep(Nanos::from_millis(50));
        rig.disk.cut_power_at(0);
        rt::power_cut();
        assert!(
            waiter
                .join()
                .unwrap()
                .expect_err("no power")
                .is_power_lost()
        );
        assert!(held.finish().expect_err("no power").is_power_lost());
        assert!(journal.stop().expect_err("no power").is_power_lost());
    });
    outcome.unwrap();
}

#[test]
fn commit_timer_and_write_back() {
    let rig = Rig::new(60, 16);
    let journal = rig.start(Options {
        commit_interval: Some(Nanos::from_millis(20)),
        writeback_expire: Some(Nanos::from_millis(30)),
        ..Options::default()
    });
    let mut handle = journal.start(1).expect("room");
    handle.create(rig.first(), filled(9)).expect("credit");
    let tid = handle.finish().expect("runs");
    let start = rt::now();
    while rig.disk.content(rig.first().0) != filled(9) {
        assert!(
            rt::now() - start < Nanos::from_secs(20),
            "neither committed nor written home"
        );
        rt::sleep(Nanos::from_millis(5));
    }
    assert!(
        journal.committed().geq(tid),
        "only committed blocks go home"
    );
    assert_eq!(
        journal.stats().tail_updates,
        0,
        "write-back alone moves no tail"
    );
    journal.stop().expect("stops");
}

#[test]
fn write_back_looks_only_at_its_interval() {
    let home_at = |interval: Option<Nanos>| {
        let outcome = rt::Sim::new(rt::SimConfig::default()).run(move || {
            let rig = Rig::new(60, 16);
            let journal = rig.start(Options {
                commit_interval: None,
                writeback_expire: Some(Nanos::from_secs(2)),
                writeback_interval: interval,
                ..Options::default()
            });
            rt::sleep(Nanos::from_secs(4));
            commit_one(&rig, &journal, 0, 1);
            while journal.stats().blocks_home == 0 {
                rt::sleep(Nanos::from_millis(100));
            }
            let at = rt::now();
            journal.stop().expect("stops");
            at.0 / 1_000_000_000
        });
        outcome.unwrap()
    };
    assert_eq!(home_at(None), 6, "as soon as it is 2 s old");
    assert_eq!(home_at(Some(Nanos::from_secs(5))), 10, "the next look");
}

#[test]
fn tail_rides_on_a_commit_when_blocks_are_home() {
    let rig = Rig::new(120, 64);
    let journal = rig.start(quiet());
    for n in 0..6 {
        commit_one(&rig, &journal, n, 1);
    }
    journal.write_back().expect("writes");
    let before = rig.queue.stats().flushes;
    commit_one(&rig, &journal, 20, 1);
    assert_eq!(journal.stats().tail_updates, 1);
    assert_eq!(
        rig.queue.stats().flushes - before,
        1,
        "the flush of the commit serves both"
    );
    crash(&journal);
    let (_, report) = rig.recover().expect("recovers");
    assert_eq!(report.transactions, 1);
}

#[test]
fn reads_come_from_one_cache() {
    let rig = Rig::new(60, 16);
    let journal = rig.start(quiet());
    let blocks: Vec<BlockNo> = (0..6).map(|n| rig.first().plus(n)).collect();
    journal.read_ahead(&blocks).expect("reads");
    let reads = rig.queue.stats().sectors_read;
    let mut handle = journal.start(1).expect("room");
    handle.write(blocks[2], 10, b"abc").expect("credit");
    assert_eq!(
        &journal.read(blocks[2]).expect("cached")[8..14],
        b"\0\0abc\0"
    );
    assert_eq!(rig.queue.stats().sectors_read, reads);
    handle.finish().expect("runs");
    rig.disk.break_reads(true);
    let failed = journal.read(rig.first().plus(9)).expect_err("not cached");
    assert!(matches!(failed, JournalError::Device(_)));
    rig.disk.break_reads(false);
    journal
        .read(rig.first().plus(9))
        .expect("a failed read is tried again");
    journal.stop().expect("a failed read aborts nothing");
}

#[test]
fn without_a_log() {
    let rig = Rig::new(60, 16);
    let journal = Journal::without_log(rig.queue.clone(), quiet()).expect("starts");
    let mut handle = journal.start(99).expect("no limit");
    for n in 0..3 {
        handle
            .write(rig.first().plus(n), 0, b"abc")
            .expect("no credits needed");
    }
    let tid = handle.finish().expect("ends");
    assert!(
        journal.committed().geq(tid),
        "freed extents may be used at once"
    );
    assert_eq!(rig.disk.len(), 0);
    journal
        .sync_home(&[rig.first().plus(1), rig.first().plus(1)])
        .expect("writes");
    assert_eq!(rig.disk.len(), 1);
    let mut handle = journal.start(1).expect("no limit");
    handle.forget(rig.first()).expect("dropped");
    handle.finish().expect("ends");
    journal.stop().expect("stops");
    let homes: Vec<u8> = (0..3)
        .map(|n| rig.disk.content(rig.first().0 + n)[0])
        .collect();
    assert_eq!(homes, [0, b'a', b'a']);
    assert_eq!(rig.queue.stats().blocks_written(Class::Home), 2);
}

/// turn-T1, turn-T2: the tasks that wait for a commit run it by turns, and the commit task runs the
/// commits that no task waits for.
#[test]
fn callers_commit_by_turns() {
    for seed in 0..20 {
        let outcome = rt::Sim::new(rt::SimConfig::random(seed)).run(|| {
            let rig = Rig::new(120, 40);
            let journal = rig.start(Options {
                commit_by_caller: true,
                commit_interval: Some(Nanos::from_millis(3)),
                ..quiet()
            });
            let rig = Arc::new(rig);
            let tasks: Vec<_> = (0..4)
                .map(|t| {
                    let (rig, journal) = (rig.clone(), journal.clone());
                    rt::spawn("caller", move || {
                        for n in 0..8 {
                            let tid = commit_one(&rig, &journal, t * 8 + n, 1);
                            assert!(journal.committed().geq(tid));
                            rt::sleep(Nanos::from_micros(300 * t));
                        }
                    })
                })
                .collect();
            tasks.into_iter().for_each(|t| t.join().expect("no panic"));
            let mut handle = journal.start(1).expect("room");
            handle.create(rig.first(), filled(9)).expect("credit");
            let tid = handle.finish().expect("runs");
            rt::sleep(Nanos::from_millis(20));
            assert!(journal.committed().geq(tid), "the timer");
            journal.stop().expect("stops");
            assert_eq!(rig.disk.content(rig.first().0), filled(9));
        });
        let failed = outcome.first_failure;
        assert!(failed.is_none(), "seed {seed}: {failed:?}");
    }
}

/// turn-T3: a commit that fails in its caller ends the journal, and the reason is in the
/// superblock.
#[test]
fn a_callers_failed_commit_ends_the_journal() {
    let rig = Rig::new(60, 16);
    let journal = rig.start(Options {
        commit_by_caller: true,
        ..quiet()
    });
    commit_one(&rig, &journal, 0, 1);
    rig.disk.break_class(Some(Class::JournalDescriptor));
    let mut handle = journal.start(1).expect("room");
    handle.create(rig.first(), filled(2)).expect("credit");
    let tid = handle.finish().expect("runs");
    journal.commit(tid).expect_err("no record");
    journal.commit(tid).expect_err("latched");
    assert!(journal.aborted().is_some());
    journal.stop().expect_err("aborted");
    let Opened::NeedsRecovery(log) = rig.open().expect("opens") else {
        panic!("dirty")
    };
    assert_eq!(log.errno(), -5);
}
