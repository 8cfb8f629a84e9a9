//! Cuts at every boundary of random traces, compared with a naive reference that knows only
//! requests and times.
//!
//! The reference keeps per sector every version with the span and kind of its write, and knows
//! nothing of caches, flash or ledgers. A state after a cut is legal if each sector holds a version
//! that is still open at that time, or garbage where a normal write leaves it open and the
//! adversary is `spec`.

use crate::host::{SMALL, changed, id_of, stamp};
use base::{Lba, Nanos, Rng, Time};
use blockdev::{Adversary, Class, Model, Request};
use ftl::nand::{Cell, PageAddr};
use std::collections::BTreeSet;
use varve_ctrl::{AnyModel, Profile};

/// A request that was issued at least this long ago has reached the device.
const UNDER_WAY: Nanos = Nanos(50_000);
/// Sectors that the traces write to.
const SPAN: u64 = 160;

fn plain(fua: bool) -> Profile {
    let text = include_str!("../../profiles/loop-like.toml");
    Profile::from_toml(&text.replace("fua = false", &format!("fua = {fua}"))).unwrap()
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Normal,
    Durable,
    /// Non-volatile at completion on devices without a cache, to which no flush comes.
    Discard {
        durable: bool,
    },
    Flush,
}

/// A request as the host saw it.
#[derive(Clone, Copy, Debug)]
struct Event {
    issued: Time,
    done: Time,
    kind: Kind,
    lba: u64,
    sectors: u64,
    id: u32,
}

/// What a sector may hold.
#[derive(Clone, Debug)]
struct Open {
    ids: BTreeSet<u32>,
    garbage: bool,
}

/// What a cut at `at` may leave in each sector. `first` is the content before the trace; with
/// `whole` the device promises that durable writes in flight leave old or new sectors.
fn legal(trace: &[Event], first: &[u32], whole: bool, at: Time) -> Vec<Open> {
    let only = |id| Open {
        ids: BTreeSet::from([id]),
        garbage: false,
    };
    let mut now: Vec<Open> = first.iter().map(|id| only(*id)).collect();
    let mut newest: Vec<u32> = first.to_vec();
    for e in trace.iter().filter(|e| e.issued < at) {
        let done = e.done <= at;
        if e.kind == Kind::Flush {
            if done {
                now = newest.iter().map(|id| only(*id)).collect();
            }
            continue;
        }
        for lba in e.lba as usize..(e.lba + e.sectors) as usize {
            let open = &mut now[lba];
            newest[lba] = e.id;
            match e.kind {
                Kind::Durable | Kind::Discard { durable: true } if done => *open = only(e.id),
                Kind::Durable => {
                    open.ids.insert(e.id);
                    // Old or new: while such a write runs, its sectors are not garbage.
                    open.garbage = if whole {
                        open.garbage && at < e.issued + UNDER_WAY
                    } else {
                        true
                    };
                }
                kind => {
                    open.ids.insert(e.id);
                    open.garbage |= kind == Kind::Normal;
                }
            }
        }
    }
    now
}

/// Counts that show that the cuts covered the interesting cases.
#[derive(Default, Debug)]
struct Seen {
    cuts: usize,
    old: usize,
    garbage: usize,
    /// Units that were folded out of an SLC area.
    folds: u64,
}

struct Run<'a> {
    profile: &'a Profile,
    adversary: Adversary,
    fua: bool,
    durable: bool,
}

impl Run<'_> {
    fn start(&self, media: Option<varve_ctrl::Media>) -> AnyModel {
        let mut m = self
            .profile
            .build(media.is_none().then_some(SMALL), media)
            .unwrap();
        m.set_adversary(self.adversary);
        m
    }
    fn request(&self, rng: &mut Rng, id: u32) -> (Request, Kind, u64, u64) {
        let n = 1 + rng.below(12);
        let lba = rng.below(SPAN - n);
        let write = if self.durable {
            Kind::Durable
        } else {
            Kind::Normal
        };
        match rng.below(9) {
            0 => (Request::flush(), Kind::Flush, 0, 0),
            1 => {
                let (lba, n) = (lba / 8 * 8, n.div_ceil(8) * 8);
                let kind = Kind::Discard {
                    durable: self.durable,
                };
                (Request::discard(Lba(lba), n), kind, lba, n)
            }
            2 | 3 if self.fua => (
                Request::write_fua(Lba(lba), Class::Data, stamp(id, n)),
                Kind::Durable,
                lba,
                n,
            ),
            _ => (
                Request::write(Lba(lba), Class::Data, stamp(id, n)),
                write,
                lba,
                n,
            ),
        }
    }
    fn read(m: &mut AnyModel) -> Vec<Option<u32>> {
        let done = m.execute(Time(0), Request::read(Lba(0), SPAN));
        let bytes = done.result.unwrap().into_bytes();
        bytes.chunks(512).map(id_of).collect()
    }
    fn judge(&self, got: &[Option<u32>], legal: &[Open], what: &str, seen: &mut Seen) {
        for (lba, (got, open)) in got.iter().zip(legal).enumerate() {
            let known = got.filter(|id| open.ids.contains(id));
            let junk = open.garbage && self.adversary == Adversary::Spec;
            assert!(
                known.is_some() || junk,
                "{what}: sector {lba} holds {got:?}, legal is {open:?}"
            );
            seen.old += usize::from(known.is_some_and(|id| Some(&id) != open.ids.last()));
            seen.garbage += usize::from(known.is_none());
        }
        seen.cuts += 1;
    }
    /// A trace with cuts in every request: before, at and after its start and its completion, and
    /// inside.
    fn trace(&self, seed: u64, media: Option<varve_ctrl::Media>, depth: u32, seen: &mut Seen) {
        let mut rng = Rng::named(seed, "cut trace");
        let mut m = self.start(media);
        let first: Vec<u32> = Run::read(&mut m.clone())
            .into_iter()
            .map(|id| id.unwrap_or(u32::MAX))
            .collect();
        // What an earlier cut garbled cannot be told apart, so such sectors are overwritten first.
        let mut trace = Vec::new();
        let mut now = Time(0);
        let whole = Request::write_fua(Lba(0), Class::Data, stamp(1, SPAN));
        let first = if self.fua && first.contains(&u32::MAX) {
            now = m.execute(now, whole).at;
            vec![1; SPAN as usize]
        } else if first.contains(&u32::MAX) {
            now = m
                .execute(now, Request::write(Lba(0), Class::Data, stamp(1, SPAN)))
                .at;
            now = m.execute(now, Request::flush()).at;
            vec![1; SPAN as usize]
        } else {
            first
        };
        let steps = if depth == 0 { 36 } else { 5 };
        for step in 0..steps {
            let id = (seed as u32) << 16 | depth << 12 | (step + 2);
            let (request, kind, lba, sectors) = self.request(&mut rng, id);
            let done = m.execute(now, request);
            done.result.unwrap();
            let id = match kind {
                Kind::Discard { .. } => 0,
                _ => id,
            };
            trace.push(Event {
                issued: now,
                done: done.at,
                kind,
                lba,
                sectors,
                id,
            });
            let span = (done.at - now).0;
            let inside = now.0 + rng.below(span.max(1));
            let mut cuts = BTreeSet::from([
                now.0,
                now.0 + 1,
                inside,
                done.at.0.saturating_sub(1),
                done.at.0,
            ]);
            cuts.retain(|t| *t >= now.0);
            for at in cuts.into_iter().map(Time) {
                let draw = rng.next_u64();
                let media = m.clone().power_off(at, draw);
                let what = format!("seed {seed}, depth {depth}, step {step}, cut at {at}");
                let mut next = self.start(Some(media.clone()));
                let whole = m.caps().reliable_granule.is_some();
                let legal = legal(&trace, &first, whole, at);
                self.judge(&Run::read(&mut next), &legal, &what, seen);
                if depth < 2 && rng.one_in(24) {
                    self.trace(seed ^ u64::from(step) << 8, Some(media), depth + 1, seen);
                }
            }
            now = done.at;
            if rng.one_in(3) {
                now.0 += rng.below(3_000_000);
            }
        }
        seen.folds += m.flash_stats().map_or(0, |f| f.slc_folds);
    }
}

fn survey(
    seeds: std::ops::Range<u64>,
    profile: &Profile,
    adversary: Adversary,
    fua: bool,
    durable: bool,
) -> Seen {
    let run = Run {
        profile,
        adversary,
        fua,
        durable,
    };
    let mut seen = Seen::default();
    for seed in seeds {
        run.trace(seed, None, 0, &mut seen);
    }
    seen
}

#[test]
fn every_cut_of_the_own_emmc_is_one_of_the_reference() {
    // A small cache, so that lines are written back all the time.
    let seen = survey(
        1..3,
        &changed(&[("cache_kib = 512", "cache_kib = 32")]),
        Adversary::Own,
        true,
        false,
    );
    assert!(seen.old > 0 && seen.garbage == 0, "{seen:?}");
}

#[test]
fn every_cut_of_the_spec_emmc_is_one_of_the_reference() {
    let seen = survey(1..3, &changed(&[]), Adversary::Spec, true, false);
    assert!(seen.old > 0 && seen.garbage > 0, "{seen:?}");
}

/// Blocks of two rows in the area, so that some are full, and folded in the pauses, all the time.
#[test]
fn every_cut_of_an_emmc_with_an_slc_area_is_one_of_the_reference() {
    let profile = changed(&[
        ("[slc]\non = false", "[slc]\non = true"),
        ("mib = 64", "mib = 1"),
        ("pages_per_block = 128", "pages_per_block = 4"),
        ("cache_kib = 512", "cache_kib = 32"),
    ]);
    for adversary in [Adversary::Own, Adversary::Spec] {
        let seen = survey(1..3, &profile, adversary, true, false);
        assert!(seen.old > 0 && seen.folds > 50, "{seen:?}");
    }
}

#[test]
fn every_cut_of_a_legacy_emmc_is_one_of_the_reference() {
    let profile = changed(&[("en_rel_wr = true", "en_rel_wr = false")]);
    for adversary in [Adversary::Own, Adversary::Spec] {
        survey(1..2, &profile, adversary, true, false);
    }
}

#[test]
fn without_a_cache_completed_writes_of_the_own_emmc_are_durable() {
    let profile = changed(&[("cache_on = true", "cache_on = false")]);
    survey(1..2, &profile, Adversary::Own, true, true);
}

#[test]
fn every_cut_of_a_plain_device_is_one_of_the_reference() {
    for adversary in [Adversary::Own, Adversary::Spec] {
        let seen = survey(1..2, &plain(false), adversary, false, false);
        assert!(seen.old > 0, "{seen:?}");
    }
}

#[test]
fn fua_writes_of_a_plain_device_are_durable_at_completion() {
    for adversary in [Adversary::Own, Adversary::Spec] {
        survey(1..2, &plain(true), adversary, true, false);
    }
}

#[test]
fn every_cut_of_raw_flash_is_one_of_the_reference() {
    for (device, durable) in [
        ("nandsim-2007", true),
        ("nandsim-2007,transparent=true", true),
        ("raw-slc,controller.buffer_kib=32", false),
        ("raw-slc,controller.buffer_kib=32,transparent=true", false),
    ] {
        let profile = Profile::parse(device).unwrap();
        for adversary in [Adversary::Own, Adversary::Spec] {
            let seen = survey(1..2, &profile, adversary, true, durable);
            // The unit is the granule: nothing is ever garbled.
            assert!(seen.garbage == 0 && seen.cuts > 100, "{device}: {seen:?}");
        }
    }
}

/// Commands one at a time; many under way together: `nvme_cuts`.
#[test]
fn every_cut_of_an_nvme_device_is_one_of_the_reference() {
    for (device, durable) in [
        ("nvme-980pro,buffer_kib=32", false),
        ("nvme-980pro,vwc=off", true),
    ] {
        let profile = Profile::parse(device).unwrap();
        for adversary in [Adversary::Own, Adversary::Spec] {
            let seen = survey(1..2, &profile, adversary, true, durable);
            assert!(seen.garbage == 0 && seen.cuts > 100, "{device}: {seen:?}");
        }
    }
}

/// Pages whose program the recovery of a device was cut in, and that show a good spare area beside
/// lost data, which only cells of level `l2` do.
fn half_pages(profile: &Profile) -> usize {
    let mut model = profile.build(Some(24 << 20), None).unwrap();
    let write = model.execute(Time(0), Request::write(Lba(0), Class::Data, stamp(1, 8)));
    write.result.unwrap();
    let flush = model.execute(write.at, Request::flush());
    let recovering = profile
        .recover(model.power_off(flush.at, 1))
        .unwrap()
        .unwrap();
    let mut half = 0;
    for operation in recovering.operations() {
        let Some(page) = operation.page else { continue };
        let (start, end) = (operation.span.start.0, operation.span.end.0);
        let at = PageAddr {
            block: operation.block,
            page,
        };
        for seed in 0..20 {
            let media = recovering.power_off(Time((start + end) / 2), seed);
            let cell = media.chips().expect("a device with chips").cell(at);
            half += usize::from(matches!(cell, Cell::SpareOnly(_)));
        }
    }
    half
}

/// What makes chips small enough for a device of 24 MiB.
const SMALL_CHIPS: [(&str, &str, i64); 3] = [
    ("ftl", "lanes", 4),
    ("nand", "dies_per_channel", 1),
    ("nand", "pages_per_block", 24),
];

/// A profile with other values in its tables, and with cells of a level.
fn with_cells(text: &str, changes: &[(&str, &str, i64)], level: &str) -> Profile {
    let mut profile: toml::Table = text.parse().unwrap();
    let mut set = |table: &str, key: &str, value: toml::Value| {
        let table = profile[table].as_table_mut().unwrap();
        table.insert(key.into(), value);
    };
    for &(table, key, value) in changes {
        set(table, key, value.into());
    }
    let cells = toml::Table::from_iter([("level".to_string(), level.into())]);
    set("nand", "cells", cells.into());
    Profile::from_toml(&profile.to_string()).unwrap()
}

#[test]
fn a_recovery_is_cut_at_the_level_of_the_chips() {
    for (text, changes) in [
        (include_str!("../../profiles/emmc-odroid-xu4.toml"), &[][..]),
        (include_str!("../../profiles/nandsim-2007.toml"), &[]),
        (
            include_str!("../../profiles/nvme-980pro.toml"),
            &SMALL_CHIPS,
        ),
    ] {
        let at = |level| half_pages(&with_cells(text, changes, level));
        assert_eq!(at("l1"), 0, "{}", text.lines().next().unwrap());
        assert!(at("l2") > 0, "{}", text.lines().next().unwrap());
    }
}
