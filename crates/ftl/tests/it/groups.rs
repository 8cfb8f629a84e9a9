//! Ordered groups: every cut leaves a prefix, whatever dies, garbage collection, TRIMs and
//! checkpoints do meanwhile.

use crate::common;
use base::{Bytes, Rng, Time};
use common::{
    BIG_UNITS, CONFIG, GEOMETRY, SMALL_PAGES, TIMING, WIDE, WIDE_CONFIG, fresh, id_of, unit,
};
use std::collections::BTreeMap;
use varve_ftl::nand::{Geometry, Nand};
use varve_ftl::{Config, Ftl};

/// Units the tests write to.
const SPAN: u32 = 48;

/// What must be readable: the content before the last group, and the group.
struct Life {
    ftl: Ftl,
    config: Config,
    durable: BTreeMap<u32, u32>,
    id: u32,
}

impl Life {
    fn new(geometry: Geometry, config: Config) -> Life {
        Life {
            ftl: fresh(geometry, config),
            config,
            durable: BTreeMap::new(),
            id: 0,
        }
    }
    fn data(&mut self, lpn: u32) -> (u32, Bytes) {
        self.id += 1;
        (self.id, unit(self.config.unit_bytes, lpn, self.id))
    }
    /// Writes outside groups, a flush, sometimes a TRIM.
    fn noise(&mut self, rng: &mut Rng, mut now: Time) -> Time {
        for _ in 0..rng.below(12) {
            let lpn = rng.below(SPAN.into()) as u32;
            if rng.one_in(6) {
                self.ftl.trim(now, lpn..lpn + 1).unwrap();
                self.durable.insert(lpn, 0);
            } else {
                let (id, data) = self.data(lpn);
                self.ftl.write(now, lpn, data).unwrap();
                self.durable.insert(lpn, id);
            }
        }
        now = self.ftl.flush(now).unwrap();
        now
    }
}

/// Units of the group that the medium holds: 0 to all; `None` if they are no prefix, or something
/// else is wrong.
fn prefix(ftl: &Ftl, durable: &BTreeMap<u32, u32>, group: &[(u32, u32)]) -> Option<usize> {
    prefix_within(SPAN, ftl, durable, group)
}

/// As [`prefix`], of the units below `span`.
fn prefix_within(
    span: u32,
    ftl: &Ftl,
    durable: &BTreeMap<u32, u32>,
    group: &[(u32, u32)],
) -> Option<usize> {
    let read = |lpn: u32| id_of(&ftl.content(lpn).unwrap());
    'tries: for n in 0..=group.len() {
        let mut want = durable.clone();
        group[..n].iter().for_each(|(lpn, id)| {
            want.insert(*lpn, *id);
        });
        for lpn in 0..span {
            if read(lpn) != want.get(&lpn).copied().unwrap_or(0) {
                continue 'tries;
            }
        }
        return Some(n);
    }
    None
}

/// Groups with cuts in them, on one device again and again. Answers how many cuts left part of a
/// group, and how many left no prefix.
fn lives(geometry: Geometry, config: Config, seed: u64, ordered: bool, twice: bool) -> (u32, u32) {
    let mut rng = Rng::named(seed, "groups");
    let mut life = Life::new(geometry, config);
    let mut now = Time(0);
    let (mut partly, mut mixed) = (0, 0);
    for round in 0..60 {
        now = life.noise(&mut rng, now);
        let begin = now;
        if ordered {
            now = life.ftl.begin_group(now).unwrap();
        }
        let mut group: Vec<(u32, u32)> = Vec::new();
        for _ in 0..1 + rng.below(30) {
            let lpn = rng.below(SPAN.into()) as u32;
            if !twice && group.iter().any(|(l, _)| *l == lpn) {
                continue;
            }
            let (id, data) = life.data(lpn);
            life.ftl.write(now, lpn, data).unwrap();
            group.push((lpn, id));
        }
        let end = life.ftl.flush(now).unwrap();
        for _ in 0..4 {
            let cut = Time(begin.0 + rng.below((end - begin).0 + 2));
            let media = life.ftl.clone().power_off(cut, rng.next_u64());
            let mount = |media| Ftl::mount(Nand::new(media, TIMING), config, Time(0)).unwrap();
            let (mut next, mut ready) = mount(media);
            let what = format!("seed {seed}, round {round}, cut at {cut}");
            let left = prefix(&next, &life.durable, &group);
            if cut >= end {
                assert_eq!(left, Some(group.len()), "{what}: the group had ended");
            }
            match left {
                None => mixed += 1,
                Some(n) => partly += u32::from(n > 0 && n < group.len()),
            }
            assert!(left.is_some() || !ordered, "{what}: no prefix");
            // Units that recovery dropped stay dropped, after another recovery and after the next
            // group.
            if let Some(n) = left.filter(|_| rng.one_in(4)) {
                next.check();
                let more = unit(config.unit_bytes, 0, u32::MAX);
                ready = next.begin_group(ready).unwrap();
                next.write(ready, 0, more).unwrap();
                let done = next.flush(ready).unwrap();
                next.end_group(done);
                let mut kept = life.durable.clone();
                kept.extend(group[..n].iter().copied());
                kept.insert(0, u32::MAX);
                let (again, _) = mount(next.power_off(done, 1));
                assert_eq!(prefix(&again, &kept, &[]), Some(0), "{what}: later");
            }
        }
        now = end;
        if ordered {
            life.ftl.end_group(end);
        }
        life.durable.extend(group);
        life.ftl.advance(now);
        life.ftl.check();
    }
    (partly, mixed)
}

#[test]
fn a_cut_leaves_a_prefix_of_a_group() {
    let mut partly = 0;
    for seed in 0..4 {
        partly += lives(WIDE, WIDE_CONFIG, seed, true, false).0;
        partly += lives(GEOMETRY, CONFIG, seed, true, true).0;
    }
    let big = Config {
        checkpoint_blocks: 3,
        ..BIG_UNITS
    };
    (0..2).for_each(|seed| partly += lives(SMALL_PAGES, big, seed, true, seed % 2 == 0).0);
    assert!(partly > 30, "cuts must fall into groups: {partly}");
}

/// Without a group the dies run apart, which is why there are groups; it also shows that the test
/// above can fail.
#[test]
fn without_a_group_a_cut_leaves_mixtures() {
    let mixed: u32 = (0..3)
        .map(|seed| lives(WIDE, WIDE_CONFIG, seed, false, false).1)
        .sum();
    assert!(mixed > 10, "{mixed}");
}

/// A group that never ends, as a card with a first-in-first-out cache writes: a cut leaves a prefix
/// of everything.
#[test]
fn an_endless_group_leaves_a_prefix_of_all_units() {
    for seed in 0..3 {
        let mut rng = Rng::named(seed, "endless group");
        let mut life = Life::new(WIDE, WIDE_CONFIG);
        let mut now = life.ftl.begin_group(Time(0)).unwrap();
        let mut all: Vec<(u32, u32)> = Vec::new();
        for _ in 0..400 {
            let lpn = rng.below(SPAN.into()) as u32;
            let (id, data) = life.data(lpn);
            life.ftl.write(now, lpn, data).unwrap();
            all.push((lpn, id));
            now.0 += rng.below(200_000);
            life.ftl.advance(now);
            if rng.one_in(8) {
                let media = life.ftl.clone().power_off(now, rng.next_u64());
                let (next, _) = Ftl::mount(Nand::new(media, TIMING), WIDE_CONFIG, Time(0)).unwrap();
                let left = prefix(&next, &BTreeMap::new(), &all);
                assert!(left.is_some(), "seed {seed}, cut at {now}");
            }
        }
        life.ftl.check();
    }
}

/// Collection copies units that are in no group while a group begins before the one before it has
/// ended: a copy that ended first would be taken as proof that the older group is complete.
#[test]
fn copies_wait_for_the_group_before() {
    let mut copied = 0;
    for seed in 0..6 {
        let mut rng = Rng::named(seed, "copies beside groups");
        let mut life = Life::new(WIDE, WIDE_CONFIG);
        let units = WIDE_CONFIG.units as u32;
        // Every block holds cold units among hot ones, so that collection has to copy.
        for i in 0..3 * units {
            let lpn = match i < units {
                true => i,
                false => rng.below(units.into()) as u32,
            };
            let (id, data) = life.data(lpn);
            life.ftl.write(Time(0), lpn, data).unwrap();
            life.durable.insert(lpn, id);
        }
        life.ftl.flush(Time(0)).unwrap();
        life.ftl.settle();
        copied -= life.ftl.stats().gc_units as i64;
        life.ftl.keep_operations(true);
        let mut now = life.ftl.begin_group(Time(0)).unwrap();
        let mut all: Vec<(u32, u32)> = Vec::new();
        for step in 0..400 {
            let lpn = rng.below(SPAN.into()) as u32;
            let (id, data) = life.data(lpn);
            life.ftl.write(now, lpn, data).unwrap();
            all.push((lpn, id));
            now.0 += rng.below(40_000);
            if step % 8 < 7 {
                continue;
            }
            for operation in life.ftl.take_operations() {
                let cut = operation.span.end;
                let media = life.ftl.clone().power_off(cut, rng.next_u64());
                let (next, _) = Ftl::mount(Nand::new(media, TIMING), WIDE_CONFIG, Time(0)).unwrap();
                let left = prefix_within(units, &next, &life.durable, &all);
                assert!(left.is_some(), "group-I10: seed {seed}, cut at {cut}");
            }
            life.ftl.settle();
            now = Time(0);
        }
        copied += life.ftl.stats().gc_units as i64;
        life.ftl.check();
    }
    assert!(copied > 1000, "collection must copy: {copied}");
}
