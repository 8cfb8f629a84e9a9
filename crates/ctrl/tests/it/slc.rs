//! The pseudo-SLC area of an eMMC, as the host sees it.

use crate::host::{emmc_profile, stamp};
use base::{Lba, Nanos, Rng, Time};
use blockdev::{Adversary, Class, FlashStats, Model, Op, Request};
use std::collections::BTreeMap;
use varve_ctrl::{AnyModel, Profile};

const KIB_512: u64 = 1024;

fn device(changes: &str, mib: u64) -> AnyModel {
    let profile = emmc_profile(changes);
    profile.build(Some(mib << 20), None).unwrap()
}

fn flash(m: &AnyModel) -> FlashStats {
    m.flash_stats().unwrap()
}

/// Writes of 512 KiB one behind the other: the time that each took.
fn stream(m: &mut AnyModel, now: &mut Time, from: u64, count: u64) -> Vec<u64> {
    let write = |i: u64| {
        let lba = Lba((from + i) * KIB_512);
        let done = m.execute(
            *now,
            Request::write(lba, Class::Data, stamp(i as u32 + 1, KIB_512)),
        );
        done.result.unwrap();
        let took = (done.at - *now).0;
        *now = done.at;
        took
    };
    (0..count).map(write).collect()
}

fn flushed(m: &mut AnyModel, now: Time) -> Time {
    let done = m.execute(now, Request::flush());
    done.result.unwrap();
    done.at
}

/// A card whose path to the chips costs little, so that the chips show: in the profile itself the
/// path costs more than they do.
fn bare(slc: &str) -> AnyModel {
    let path = ",timing.fig8.program_us_per_kib=0,timing.fig8.bus_us_per_kib=1";
    device(&format!("{path}{slc}"), 128)
}

#[test]
fn a_burst_is_faster_and_a_long_write_shows_the_cliff() {
    let (mut with, mut without) = (bare(",slc.on=true,slc.mib=16"), bare(""));
    let (mut a, mut b) = (Time(0), Time(0));
    let fast = stream(&mut with, &mut a, 0, 24);
    a = flushed(&mut with, a);
    stream(&mut without, &mut b, 0, 24);
    b = flushed(&mut without, b);
    assert!(a.0 * 5 < b.0 * 4, "12 MiB: {a} with the area, {b} without");
    assert_eq!(flash(&with).slc_folds, 0, "all of it fits");
    let slow = stream(&mut with, &mut a, 24, 120);
    let mean = |all: &[u64]| all.iter().sum::<u64>() / all.len() as u64;
    let (before, behind) = (mean(&fast), mean(&slow[24..]));
    assert!(
        behind > 2 * before,
        "cliff: {behind} ns, before {before} ns"
    );
    let pause = slow.iter().max().unwrap();
    assert!(*pause > 3 * before, "longest write {pause} ns");
    let stats = flash(&with);
    assert!(stats.slc_folds >= 120 * 128 - 16 * 256, "{stats:?}");
    assert_eq!(stats.gc_copies, 0);
    // Each unit is programmed in the area, and again when it is folded.
    assert!(stats.programs >= (stats.host_pages + stats.slc_folds) / 4);
}

#[test]
fn an_idle_card_makes_room_and_the_next_burst_is_fast_again() {
    let mut m = bare(",slc.on=true,slc.mib=16");
    let mut now = Time(0);
    let first: u64 = stream(&mut m, &mut now, 0, 32).iter().sum();
    m.advance(now);
    let folded = flash(&m).slc_folds;
    // 16 MiB in four dies at 800 us a row of 16 KiB: 0.2 s, and an erase each 2 MiB.
    now += Nanos(2_000_000_000);
    m.advance(now);
    let after = flash(&m).slc_folds;
    assert!(after - folded > 2048, "{folded} before, {after} after");
    let second: u64 = stream(&mut m, &mut now, 64, 24).iter().sum();
    assert_eq!(flash(&m).slc_folds, after, "nothing is folded in the burst");
    assert!(second < first, "{first} {second}");
}

#[test]
fn a_command_that_comes_while_the_card_folds_waits_for_a_stripe_only() {
    let mut m = bare(",slc.on=true,slc.mib=16");
    let mut now = Time(0);
    stream(&mut m, &mut now, 0, 32);
    now = flushed(&mut m, now) + Nanos(20_000_000);
    let done = m.execute(now, Request::read(Lba(0), 8));
    let bytes = done.result.unwrap().into_bytes();
    assert_eq!(bytes, stamp(1, 8));
    // A program of 800 us, a read before it, an erase of 3 ms at most.
    assert!((done.at - now).0 < 5_000_000, "{}", done.at - now);
}

#[test]
fn an_image_that_is_loaded_leaves_the_area_empty() {
    let mut m = device(",slc.on=true,slc.mib=16", 128);
    for block in 0..6000 {
        m.load_logical(Lba(block * 8), stamp(block as u32 + 1, 8))
            .unwrap();
    }
    let mut now = Time(0);
    stream(&mut m, &mut now, 100, 22);
    assert_eq!(flash(&m).slc_folds, 0, "the area was free");
    let read = m.execute(now, Request::read(Lba(5999 * 8), 8));
    assert_eq!(read.result.unwrap().into_bytes(), stamp(6000, 8));
}

/// Random requests on a small device, on a naive map, over power cycles behind a flush.
#[test]
fn reads_equal_a_naive_map_after_any_mix() {
    for (seed, bkops) in [(1, "off"), (2, "auto"), (3, "manual")] {
        let changes = format!(",slc.on=true,slc.mib=1,nand.pages_per_block=8,card.bkops={bkops}");
        let profile = Profile::parse(&format!("emmc-odroid-xu4{changes}")).unwrap();
        let mut m = profile.build(Some(8 << 20), None).unwrap();
        m.set_adversary(Adversary::Own);
        let mut rng = Rng::named(seed, "slc emmc");
        let mut model = BTreeMap::new();
        let (mut now, mut folds) = (Time(0), 0);
        for id in 1..6000 {
            let n = 1 + rng.below(24);
            let lba = rng.below((8 << 11) - n);
            let request = match rng.below(24) {
                0 => Request::flush(),
                1 => Request::discard(Lba(lba / 8 * 8), n.div_ceil(8) * 8),
                2 | 3 => Request::write_fua(Lba(lba), Class::Data, stamp(id, n)),
                _ => Request::write(Lba(lba), Class::Data, stamp(id, n)),
            };
            match &request.op {
                Op::Write { .. } => model.extend((lba..lba + n).map(|s| (s, id))),
                Op::Discard { .. } => {
                    let from = lba / 8 * 8;
                    let gone = from..from + n.div_ceil(8) * 8;
                    model.retain(|s, _| !gone.contains(s));
                }
                _ => {}
            }
            let done = m.execute(now, request);
            done.result.unwrap();
            let pause = if rng.one_in(20) { 20_000_000 } else { 200_000 };
            now = done.at + Nanos(rng.below(pause));
            if rng.one_in(500) {
                now = flushed(&mut m, now);
                folds += flash(&m).slc_folds;
                let media = m.power_off(now, rng.next_u64());
                m = profile.build(None, Some(media)).unwrap();
                m.set_adversary(Adversary::Own);
                now = Time(0);
            }
        }
        folds += flash(&m).slc_folds;
        assert!(folds > 1000, "only {folds} units were folded");
        for lba in 0..8 << 11 {
            let done = m.execute(now, Request::read(Lba(lba), 1));
            let want = model.get(&lba).copied().unwrap_or(0);
            assert_eq!(done.result.unwrap().into_bytes(), stamp(want, 1), "{lba}");
            now = done.at;
        }
    }
}
