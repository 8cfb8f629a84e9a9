//! Tests the planes: every short schedule, many random ones, real threads, and the cases that broke
//! the prototype.

use super::explore::{Covered, Life, explore, explore_with, stress};
use super::{Closed, EPOCHS, Ideas, Load, Plane, Tx};
use crate::journal::{Epoch, UsageDelta};
use base::Rng;
use ondisk::f2fs::journal::{Record, Records, attr};
use ondisk::f2fs::{BlockAddr, Nid};
use rt::{Policy, Sim, SimConfig, each_schedule};
use std::sync::Arc;

const SMALL: Life = Life {
    tasks: 2,
    ops: 1,
    inodes: 2,
    switches: 2,
    fsync_each: 1,
};
const LARGE: Life = Life {
    tasks: 4,
    ops: 12,
    inodes: 4,
    switches: 14,
    fsync_each: 3,
};

fn add(sum: &mut Covered, one: Covered) {
    sum.epochs += one.epochs;
    sum.drain_waits += one.drain_waits;
    sum.postponed += one.postponed;
    sum.straddled += one.straddled;
}

/// All schedules of two operations, a switcher and a committer with up to two delays.
#[test]
fn small_lives_in_every_schedule() {
    let mut sum = Covered::default();
    let runs = each_schedule(2, |policy| {
        let config = SimConfig {
            policy,
            ..SimConfig::default()
        };
        let outcome = explore(SMALL, config);
        let points = outcome.points;
        add(&mut sum, outcome.unwrap());
        points
    });
    assert!(
        runs > 1000 && sum.drain_waits > 0 && sum.straddled > 0,
        "{runs} {sum:?}"
    );
}

#[test]
fn large_lives_in_random_schedules() {
    let mut sum = Covered::default();
    for seed in 0..150 {
        add(&mut sum, explore(LARGE, SimConfig::random(seed)).unwrap());
        let pct = SimConfig {
            policy: Policy::Pct {
                depth: 4,
                points: 3000,
            },
            ..SimConfig::seeded(seed)
        };
        add(&mut sum, explore(LARGE, pct).unwrap());
    }
    assert!(
        sum.drain_waits > 50 && sum.straddled > 50 && sum.epochs > 2000,
        "{sum:?}"
    );
}

/// The same with one list for all inodes.
#[test]
fn lives_with_a_global_list() {
    let ideas = Ideas {
        inode_lists: false,
        ..Ideas::ALL
    };
    let mut sum = Covered::default();
    for seed in 0..60 {
        let random = SimConfig::random(seed);
        add(&mut sum, explore_with(LARGE, ideas, random).unwrap());
        let pct = SimConfig {
            policy: Policy::Pct {
                depth: 4,
                points: 3000,
            },
            cores: 3,
            ..SimConfig::seeded(seed)
        };
        add(&mut sum, explore_with(LARGE, ideas, pct).unwrap());
    }
    assert!(
        sum.drain_waits > 20 && sum.straddled > 20 && sum.epochs > 800,
        "{sum:?}"
    );
}

/// lists-D1 to lists-D3: the same operations leave the same groups, byte for byte, with lists of
/// inodes and with one list.
#[test]
fn both_kinds_of_lists_make_the_same_groups() {
    let mut compared = 0;
    for seed in 0..200 {
        let mut one = Script::new(seed, true);
        let mut other = Script::new(seed, false);
        for _ in 0..150 {
            one.step();
            other.step();
            assert_eq!(one.closed, other.closed, "seed {seed}");
            compared += one.closed.take().map_or(0, |c| c.groups.len());
            other.closed = None;
        }
        let left = one.open.drain(..).chain(other.open.drain(..));
        left.for_each(Tx::end);
    }
    assert!(compared > 3000, "{compared}");
}

/// Operations side by side, by a seed.
struct Script {
    plane: &'static Plane,
    rng: Rng,
    open: Vec<Tx<'static>>,
    /// What the last step collected, sorted by inode.
    closed: Option<Closed>,
    value: u32,
}

impl Script {
    fn new(seed: u64, inode_lists: bool) -> Script {
        let ideas = Ideas {
            inode_lists,
            ..Ideas::ALL
        };
        Script {
            plane: Box::leak(Box::new(Plane::new(Epoch(0), 1024, ideas))),
            rng: Rng::named(seed, "script"),
            open: Vec::new(),
            closed: None,
            value: 0,
        }
    }

    fn step(&mut self) {
        match self.rng.below(10) {
            0 | 1 if self.open.len() < 5 => self.open.push(self.plane.enter()),
            2 | 3 if !self.open.is_empty() => {
                let n = self.rng.below(self.open.len() as u64) as usize;
                self.open.swap_remove(n).end();
            }
            4 => self.commit(),
            _ if !self.open.is_empty() => {
                let n = self.rng.below(self.open.len() as u64) as usize;
                let ino = Nid(7 + self.rng.below(4) as u32);
                self.value += 1;
                let mut fields = [0; 12];
                fields[..4].copy_from_slice(&self.value.to_le_bytes());
                let mask = attr::CTIME;
                let fields = &fields;
                self.open[n].log(ino, &Record::InodeAttr { mask, fields });
            }
            _ => {}
        }
    }

    fn commit(&mut self) {
        let epoch = self.plane.switch();
        if epoch == Epoch(self.plane.stats().collected) {
            return;
        }
        // The operations in it end, because the drain would wait for them.
        let (inside, outside) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|tx| tx.bytes() > 0 && tx.epoch() <= epoch);
        self.open = outside;
        for tx in inside as Vec<Tx<'static>> {
            tx.end();
        }
        self.plane.drain(epoch).expect("those inside have ended");
        let mut closed = self.plane.collect(epoch);
        closed.groups.sort_by_key(|group| group.ino);
        self.plane.committed(epoch);
        let last = self.plane.last_logged(Nid(7)).0;
        assert!(last == Epoch(0) || last > epoch, "lists-D3");
        self.closed = Some(closed);
    }
}

#[test]
fn real_threads() {
    for inode_lists in [true, false] {
        let ideas = Ideas {
            inode_lists,
            ..Ideas::ALL
        };
        real_threads_with(ideas);
    }
}

fn real_threads_with(ideas: Ideas) {
    let life = Life {
        tasks: 4,
        ops: 4000,
        inodes: 5,
        switches: 3000,
        fsync_each: 9,
    };
    let covered = stress(life, ideas);
    assert!(covered.epochs > 100, "{covered:?}");
}

fn times(n: u8) -> Vec<u8> {
    attr_record(attr::CTIME, &[n; 12])
}

fn attr_record(mask: u32, fields: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Record::InodeAttr { mask, fields }.encode(&mut bytes);
    bytes
}

fn log_size(plane: &Plane, ino: u32, size: u8) -> Epoch {
    let tx = plane.enter();
    let fields = &[size, 0, 0, 0, 0, 0, 0, 0];
    let mask = attr::SIZE;
    tx.log(Nid(ino), &Record::InodeAttr { mask, fields });
    let epoch = tx.epoch();
    tx.end();
    epoch
}

fn log_times(plane: &Plane, ino: u32, n: u8) -> Epoch {
    let tx = plane.enter();
    let (mask, fields) = (attr::CTIME, &[n; 12]);
    tx.log(Nid(ino), &Record::InodeAttr { mask, fields });
    let epoch = tx.epoch();
    tx.end();
    epoch
}

/// Appendix C: more than eight epochs on one inode, and two closed ones that wait for the
/// committer: in order, whole, none reused.
#[test]
fn more_than_eight_epochs_of_one_inode() {
    let plane = Plane::new(Epoch(41), 1024, Ideas::ALL);
    for n in 0..8 {
        assert_eq!(log_size(&plane, 7, n), Epoch(42 + u64::from(n)));
        let closed = plane.switch();
        let last = 41 + u64::from(n) + 1;
        // Eight epochs are on their way: the ninth stays open.
        assert_eq!(closed, Epoch(last.min(48)), "plane-P1");
    }
    assert_eq!(plane.stats().postponed, 1);
    // It goes on running, and grows.
    assert_eq!(log_size(&plane, 7, 8), Epoch(49));
    for n in 0..8 {
        let epoch = Epoch(42 + n);
        if epoch == Epoch(49) {
            assert_eq!(plane.switch(), epoch, "a slot is free again");
        }
        plane.drain(epoch).unwrap();
        let closed = plane.collect(epoch);
        assert_eq!(closed.groups.len(), 1);
        let records = Records::new(&closed.groups[0].bytes).count();
        assert_eq!(records, if n == 7 { 2 } else { 1 });
        plane.committed(epoch);
    }
    for n in 0..20 {
        let epoch = log_size(&plane, 7, n);
        assert_eq!(epoch, Epoch(50 + u64::from(n)));
        assert_eq!(plane.switch(), epoch);
        plane.drain(epoch).unwrap();
        assert_eq!(plane.collect(epoch).groups.len(), 1);
        plane.committed(epoch);
    }
    assert_eq!(plane.stats().inodes_known, 0);
}

/// reserve-V2: an operation that comes to a full epoch closes it and goes to the next one, without
/// a wait. Bytes count at once where the ring is small.
#[test]
fn a_full_epoch_is_closed_by_who_comes() {
    let plane = Plane::new(Epoch(0), 4, Ideas::ALL);
    let mut last = Epoch(1);
    for n in 0..2400_u32 {
        let epoch = log_size(&plane, 7, n as u8);
        assert!(epoch.0 - last.0 <= 1);
        last = epoch;
    }
    assert!(plane.is_crowded() && plane.is_full(), "{last:?}");
    assert_eq!(last, Epoch(8), "plane-P1");
    let mut records = 0;
    while plane.switch() > Epoch(0) && plane.stats().collected < 8 {
        let epoch = Epoch(plane.stats().collected + 1);
        plane.drain(epoch).unwrap();
        let closed = plane.collect(epoch);
        records += closed.groups[0].records;
        assert!(
            epoch == Epoch(8) || closed.bytes < 4096 + 64,
            "{}",
            closed.bytes
        );
        assert!(closed.bytes >= 4096 || epoch == Epoch(8));
        plane.committed(epoch);
    }
    assert_eq!(records, 2400);
    assert!(!plane.is_crowded() && !plane.is_full());
}

/// A look without the lock may meet commits between its two loads. It counts at least the running
/// epoch, whatever comes between them, so no difference is below zero.
#[test]
fn a_look_beside_commits_counts_the_running_epoch() {
    let runs = each_schedule(1, |policy| {
        let config = SimConfig {
            policy,
            ..SimConfig::default()
        };
        let outcome = Sim::new(config).run(|| {
            let plane = Arc::new(Plane::new(Epoch(0), 1024, Ideas::ALL));
            let beside = plane.clone();
            let committer = rt::spawn("committer", move || commit_twice(&beside));
            let (_, crowded, load) = (plane.is_behind(), plane.is_crowded(), plane.load());
            committer.join().unwrap();
            // At most two epochs are closed and not committed, and nothing is in the third.
            assert!(
                !crowded && load <= Load::of(2, EPOCHS as u64 - 2),
                "{load:?}"
            );
            assert!(!plane.is_behind());
        });
        let points = outcome.points;
        outcome.unwrap();
        points
    });
    assert!(runs > 100, "{runs}");
}

fn commit_twice(plane: &Plane) {
    for n in 1..=2 {
        let epoch = log_size(plane, 7, n);
        assert_eq!(plane.switch(), epoch);
        plane.drain(epoch).unwrap();
        plane.collect(epoch);
        plane.committed(epoch);
    }
}

/// An inode logs in the next epoch while the last one is being committed: each has its own list.
#[test]
fn an_inode_logs_on_while_it_is_committed() {
    let plane = Plane::new(Epoch(0), 1024, Ideas::ALL);
    log_size(&plane, 5, 1);
    plane.switch();
    log_size(&plane, 5, 2);
    plane.drain(Epoch(1)).unwrap();
    let first = plane.collect(Epoch(1));
    log_size(&plane, 5, 3);
    plane.committed(Epoch(1));
    assert_eq!(plane.last_logged(Nid(5)), (Epoch(2), Epoch(2)), "lists-D3");
    assert_eq!(first.groups[0].records, 1);
    plane.switch();
    plane.drain(Epoch(2)).unwrap();
    assert_eq!(plane.collect(Epoch(2)).groups[0].records, 2);
    plane.committed(Epoch(2));
    assert_eq!(plane.last_logged(Nid(5)), (Epoch(0), Epoch(0)));
}

/// fdatasync does not wait for times.
#[test]
fn times_alone_are_no_data() {
    let plane = Plane::new(Epoch(0), 1024, Ideas::ALL);
    log_size(&plane, 5, 1);
    plane.switch();
    log_times(&plane, 5, 9);
    assert_eq!(plane.last_logged(Nid(5)), (Epoch(2), Epoch(1)));
    assert_eq!(plane.last_logged(Nid(6)), (Epoch(0), Epoch(0)));
    plane.switch();
    plane.drain(Epoch(1)).unwrap();
    plane.collect(Epoch(1));
    plane.drain(Epoch(2)).unwrap();
    let closed = plane.collect(Epoch(2));
    assert_eq!(closed.groups[0].bytes, times(9));
}

/// lists-D2: an operation that has logged and not ended counts; lists-D1: records stand in the
/// order in which they were logged.
#[test]
fn the_order_of_logging_counts_not_that_of_ends() {
    let plane = Plane::new(Epoch(0), 1024, Ideas::ALL);
    let (first, second) = (plane.enter(), plane.enter());
    let record = |tx: &Tx<'_>, n: u8| {
        let (mask, fields) = (attr::CTIME, &[n; 12]);
        tx.log(Nid(5), &Record::InodeAttr { mask, fields });
    };
    record(&first, 1);
    assert_eq!(plane.last_logged(Nid(5)).0, Epoch(1), "lists-D2");
    record(&second, 2);
    record(&first, 3);
    record(&first, 4);
    record(&second, 5);
    second.end();
    first.end();
    plane.switch();
    plane.drain(Epoch(1)).unwrap();
    let closed = plane.collect(Epoch(1));
    let expected: Vec<u8> = (1..=5).flat_map(times).collect();
    assert_eq!(closed.groups[0].bytes, expected, "lists-D1");
    assert_eq!(closed.groups[0].records, 5);
}

/// A failing operation that changed nothing leaves no trace; an epoch with nothing in it is not
/// closed.
#[test]
fn nothing_logged_is_nothing() {
    let plane = Plane::new(Epoch(0), 1024, Ideas::ALL);
    plane.enter().end();
    let tx = plane.enter();
    tx.epoch();
    assert_eq!(plane.switch(), Epoch(1), "somebody is in it");
    tx.end();
    plane.drain(Epoch(1)).unwrap();
    let closed = plane.collect(Epoch(1));
    plane.committed(Epoch(1));
    assert_eq!(
        (closed.groups.len(), closed.usage),
        (0, UsageDelta::default())
    );
    assert_eq!(plane.switch(), Epoch(1), "nothing is in epoch 2");
    assert_eq!(plane.running(), Epoch(2));
}

/// An operation without records still brings its counts and what it freed.
#[test]
fn sums_need_no_records() {
    let plane = Plane::new(Epoch(0), 1024, Ideas::ALL);
    let tx = plane.enter();
    let usage = UsageDelta {
        blocks: -3,
        nodes: 1,
        inodes: 0,
    };
    tx.count(usage);
    tx.freed_block(BlockAddr(77));
    tx.freed_nid(Nid(9));
    tx.end();
    assert_eq!(plane.switch(), Epoch(1));
    plane.drain(Epoch(1)).unwrap();
    let closed = plane.collect(Epoch(1));
    assert_eq!(closed.usage, usage);
    assert_eq!(closed.freed_blocks, [BlockAddr(77)]);
    assert_eq!(closed.freed_nids, [Nid(9)]);
}

/// fsync-Z1: a sync waits for an operation that concerns the inode and logs nothing of it. Once the
/// epoch is committed nothing is kept of the inode.
#[test]
fn an_inode_that_is_touched_is_known_until_the_commit() {
    for inode_lists in [true, false] {
        let ideas = Ideas {
            inode_lists,
            ..Ideas::ALL
        };
        let plane = Plane::new(Epoch(0), 1024, ideas);
        let tx = plane.enter();
        tx.touch(Nid(7));
        tx.end();
        assert_eq!(plane.last_logged(Nid(7)), (Epoch(1), Epoch(1)));
        assert_eq!(plane.switch(), Epoch(1));
        plane.drain(Epoch(1)).unwrap();
        assert!(plane.collect(Epoch(1)).groups.is_empty());
        assert_eq!(plane.stats().inodes_known, 1);
        plane.committed(Epoch(1));
        assert_eq!(plane.stats().inodes_known, 0);
        assert_eq!(plane.last_logged(Nid(7)), (Epoch(0), Epoch(0)));
    }
}

#[test]
#[should_panic(expected = "f2fs-journal-I4: ")]
fn an_operation_behind_its_collect_is_refused() {
    let plane = Plane::new(Epoch(0), 1024, Ideas::ALL);
    log_size(&plane, 5, 1);
    let late = plane.enter();
    late.epoch();
    plane.switch();
    // No drain.
    plane.collect(Epoch(1));
    late.log(Nid(5), &Record::OrphanAdd);
    late.end();
}

#[test]
#[should_panic(expected = "f2fs-journal-I8: ")]
fn epochs_are_collected_in_order() {
    let plane = Plane::new(Epoch(0), 1024, Ideas::ALL);
    for n in 0..2 {
        log_size(&plane, 5, n);
        plane.switch();
    }
    plane.collect(Epoch(2));
}

#[test]
#[should_panic(expected = "dropped instead of ended")]
#[cfg(debug_assertions)]
fn an_operation_is_ended_not_dropped() {
    let plane = Plane::new(Epoch(0), 1024, Ideas::ALL);
    let tx = plane.enter();
    tx.epoch();
    drop(tx);
}

/// On real threads an operation that panics breaks the journal off instead of hanging it.
#[test]
fn a_panic_inside_an_operation_breaks_off() {
    let plane = Plane::new(Epoch(0), 1024, Ideas::ALL);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let tx = plane.enter();
        tx.log(Nid(5), &Record::OrphanAdd);
        panic!("on purpose");
    }));
    assert!(caught.is_err());
    assert_eq!(plane.switch(), Epoch(1));
    let error = plane.drain(Epoch(1)).unwrap_err().to_string();
    assert!(error.contains("did not end"), "{error}");
}
