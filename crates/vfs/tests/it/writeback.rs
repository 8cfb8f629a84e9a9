//! The write-back policy in virtual time.

use base::{Nanos, Time};
use rt::{Sim, SimConfig};
use std::sync::Arc;
use testkit::model::ModelFs;
use testkit::spy::{Call, SpyFs};
use varve_vfs::{File, OpenFlags, Vfs, WritebackPolicy};

const SECOND: u64 = 1_000_000_000;

/// Runs `body` with a spied mount and an open file, then unmounts. The host takes no time for
/// calls, so that all time is that of the policy.
fn mounted(policy: WritebackPolicy, body: impl Fn(&SpyFs, &Arc<Vfs>, &File)) -> Time {
    let config = SimConfig {
        cpu_percent: 0,
        ..SimConfig::default()
    };
    let outcome = Sim::new(config).run(|| {
        let spy = SpyFs::new(ModelFs::new());
        let vfs = Vfs::with_policy(spy.clone(), policy).expect("a flusher");
        let flags = OpenFlags::READ_WRITE | OpenFlags::CREATE;
        let file = vfs.open("/f", flags, 0o644).unwrap();
        spy.take();
        body(&spy, &vfs, &file);
        spy.set_stuck(false);
        file.close().unwrap();
        vfs.unmount().unwrap();
    });
    let end = outcome.end;
    outcome.unwrap();
    end
}

fn writebacks(spy: &SpyFs) -> Vec<Time> {
    let older_than = |call| match call {
        Call::Writeback { older_than } => Some(older_than),
        _ => None,
    };
    spy.take().into_iter().filter_map(older_than).collect()
}

#[test]
fn flusher_writes_old_pages_every_five_seconds() {
    let end = mounted(WritebackPolicy::default(), |spy, vfs, file| {
        file.write_at(0, &[1; 4096]).unwrap();
        rt::sleep(Nanos::from_secs(29));
        assert!(writebacks(spy).is_empty(), "nothing is 30 s old yet");
        rt::sleep(Nanos::from_secs(12));
        let expected = [0, 5, 10].map(|s| Time(s * SECOND));
        assert_eq!(writebacks(spy), expected, "at 30, 35 and 40 s");
        assert_eq!(vfs.writeback_stats().ticks, 8);
    });
    assert_eq!(end, Time(41 * SECOND), "unmount does not wait for a tick");
}

#[test]
fn background_limit_wakes_the_flusher() {
    let policy = WritebackPolicy {
        background_pages: Some(10),
        ..WritebackPolicy::default()
    };
    mounted(policy, |spy, vfs, file| {
        file.write_at(0, &[1; 40_960]).unwrap();
        rt::sleep(Nanos::from_millis(1));
        assert!(writebacks(spy).is_empty(), "10 pages are allowed");
        file.write_at(0, &[1; 100]).unwrap();
        rt::sleep(Nanos::from_millis(1));
        assert_eq!(writebacks(spy), [Time(1_000_000)], "everything, at once");
        assert_eq!(vfs.writeback_stats().background_rounds, 1);
        assert_eq!(vfs.writeback_stats().throttled, 0);
    });
}

#[test]
fn writer_above_the_limit_writes_back_itself() {
    let policy = WritebackPolicy {
        interval: None,
        limit_pages: Some(4),
        ..WritebackPolicy::off()
    };
    mounted(policy, |spy, vfs, file| {
        for _ in 0..4 {
            file.write_at(0, &[1; 4096]).unwrap();
        }
        assert!(writebacks(spy).is_empty());
        file.write_at(0, &[1; 4096]).unwrap();
        assert_eq!(writebacks(spy).len(), 1);
        spy.set_stuck(true);
        for _ in 0..5 {
            file.write_at(0, &[1; 4096]).unwrap();
        }
        assert_eq!(rt::now(), Time(200_000_000), "20 pauses of 10 ms, then on");
        assert_eq!(vfs.writeback_stats().pauses, 20);
    });
}

/// writeback-D1, writeback-D2: the flusher writes, and what is above the middle makes writers
/// pause, more and more.
#[test]
fn writers_pause_the_longer_the_nearer_the_limit_is() {
    let policy = WritebackPolicy {
        background_pages: Some(100),
        limit_pages: Some(200),
        ..WritebackPolicy::default()
    };
    mounted(policy, |spy, vfs, file| {
        // What the flusher writes stays dirty: a device that hangs.
        spy.set_stuck(true);
        let pauses: Vec<u64> = (0..210)
            .map(|_| {
                let before = rt::now();
                file.write_at(0, &[1; 4096]).unwrap();
                (rt::now() - before).0
            })
            .collect();
        assert!(
            pauses[..150].iter().all(|&p| p == 0),
            "writeback-D1: {pauses:?}"
        );
        assert!(pauses[..200].is_sorted(), "writeback-D2: {pauses:?}");
        assert!(
            pauses[150] > 0 && pauses[150] < 10_000,
            "writeback-D2: {pauses:?}"
        );
        assert_eq!(pauses[199], 10_000_000, "writeback-D2: at the limit");
        // 20 pauses of 10 ms.
        assert!(
            pauses[200..].iter().all(|&p| p == 200_000_000),
            "writeback-D3"
        );
        let stats = vfs.writeback_stats();
        assert_eq!((stats.throttled, stats.pauses), (60, 50 + 10 * 20));
        assert!(!writebacks(spy).is_empty(), "the flusher is at it");
    });
}

/// writeback-D2: a larger call pauses for all of its pages, and not longer than the bound.
#[test]
fn a_pause_is_for_the_pages_of_the_call() {
    let policy = WritebackPolicy {
        background_pages: Some(1_000),
        limit_pages: Some(2_000),
        ..WritebackPolicy::default()
    };
    let pause = |pages: usize| {
        let took = std::cell::Cell::new(0);
        mounted(policy, |spy, _, file| {
            spy.set_stuck(true);
            file.write_at(0, &vec![1; (1_600 - pages) * 4096]).unwrap();
            let before = rt::now();
            file.write_at(0, &vec![1; pages * 4096]).unwrap();
            took.set((rt::now() - before).0);
        });
        took.get()
    };
    let one = pause(1);
    assert!(one > 0 && one < 1_000_000, "{one}");
    assert_eq!((pause(8), pause(999)), (8 * one, 200_000_000));
}

/// writeback-D3: what is above the limit is brought down by the flusher, whatever the background
/// limit is, and the writer does not write.
#[test]
fn the_flusher_writes_for_writers_above_the_limit() {
    let policy = WritebackPolicy {
        background_pages: None,
        limit_pages: Some(4),
        ..WritebackPolicy::default()
    };
    mounted(policy, |spy, vfs, file| {
        file.write_at(0, &[1; 5 * 4096]).unwrap();
        let end = rt::now();
        assert!(end < Time(30_000_000), "{end:?}");
        assert_eq!(writebacks(spy).len(), 1);
        let stats = vfs.writeback_stats();
        assert_eq!((stats.background_rounds, stats.throttled), (1, 1));
    });
}

#[test]
fn off_means_off() {
    let end = mounted(WritebackPolicy::off(), |spy, _, file| {
        for _ in 0..1000 {
            file.write_at(0, &[1; 4096]).unwrap();
        }
        rt::sleep(Nanos::from_secs(1000));
        assert!(writebacks(spy).is_empty());
    });
    assert_eq!(end, Time(1000 * SECOND));
}

#[test]
fn a_power_cut_ends_the_flusher() {
    let outcome = Sim::new(SimConfig::default()).run(|| {
        let spy = SpyFs::new(ModelFs::new());
        let vfs = Vfs::with_policy(spy, WritebackPolicy::default()).expect("a flusher");
        rt::sleep(Nanos::from_secs(7));
        rt::power_cut();
        drop(vfs);
    });
    assert_eq!(outcome.end, Time(7 * SECOND));
    outcome.unwrap();
}
