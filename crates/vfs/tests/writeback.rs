//! The write-back policy in virtual time.

use base::{Nanos, Time};
use rt::{Sim, SimConfig};
use std::sync::Arc;
use varve_vfs::model::ModelFs;
use varve_vfs::spy::{Call, SpyFs};
use varve_vfs::{File, OpenFlags, Vfs, WritebackPolicy};

const SECOND: u64 = 1_000_000_000;

/// Runs `body` with a spied mount and an open file, then unmounts.
fn mounted(policy: WritebackPolicy, body: impl Fn(&SpyFs, &Arc<Vfs>, &File)) -> Time {
    let outcome = Sim::new(SimConfig::default()).run(|| {
        let spy = SpyFs::new(ModelFs::new());
        let vfs = Vfs::with_policy(spy.clone(), policy);
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
        let vfs = Vfs::with_policy(spy, WritebackPolicy::default());
        rt::sleep(Nanos::from_secs(7));
        rt::power_cut();
        drop(vfs);
    });
    assert_eq!(outcome.end, Time(7 * SECOND));
    outcome.unwrap();
}
