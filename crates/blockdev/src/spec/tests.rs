//! Tests of the worst-case adversary.

use super::*;
use base::fill;
use std::collections::BTreeSet;

const OLD: u8 = 1;

fn caps() -> Caps {
    Caps {
        sectors: 1 << 16,
        sector_bytes: 512,
        volatile_cache: true,
        fua: true,
        fua_flushes: false,
        reliable_granule: Some(512),
        tear_granule: None,
        atomic_write_bytes: 0,
        no_collateral: true,
        packed: None,
        cache_fifo: false,
        barrier: false,
        discard: true,
        remap: None,
        max_transfer_sectors: 1024,
    }
}

fn write(kind: Kind, start: u64, end: u64, lba: u64, fills: &[u8], prev: u8) -> Write {
    let sectors = fills.len() as u64;
    let blocks = lba / 8..(lba + sectors).div_ceil(8);
    Write {
        start: Time(start),
        end: Time(end),
        kind,
        lba: Lba(lba),
        sectors,
        new: match kind {
            Kind::Discard => Vec::new(),
            _ => fills.iter().map(|b| fill::filled(*b, 512)).collect(),
        },
        prev: blocks.map(|b| (b, fill::filled(prev, 4096))).collect(),
    }
}

/// For each sector of block 0: every first byte that 1500 seeds draw; 256 stands for garbage.
fn outcomes(ledger: &Ledger, at: u64, caps: &Caps, legal: &[u8]) -> Vec<BTreeSet<u16>> {
    let mut seen = vec![BTreeSet::new(); 8];
    for seed in 0..1500 {
        for (block, content) in ledger.draw(Time(at), seed, caps, |_| fill::filled(OLD, 4096)) {
            assert_eq!(block, 0);
            for (s, sector) in content.chunks(512).enumerate() {
                let known = fill::uniform(sector).filter(|b| legal.contains(b));
                seen[s].insert(known.map_or(256, u16::from));
            }
        }
    }
    seen
}

fn set(values: &[u16]) -> BTreeSet<u16> {
    values.iter().copied().collect()
}

#[test]
fn a_normal_write_is_open_until_a_flush_that_started_after_it_completes() {
    let mut ledger = Ledger::new(1 << 20);
    ledger.write(write(Kind::Normal, 10, 20, 0, &[2; 8], OLD));
    let seen = outcomes(&ledger, 15, &caps(), &[1, 2]);
    assert!(
        seen.iter().all(|s| *s == set(&[1, 2, 256])),
        "in flight: {seen:?}"
    );
    let seen = outcomes(&ledger, 30, &caps(), &[1, 2]);
    assert!(
        seen.iter().all(|s| *s == set(&[1, 2, 256])),
        "cached: {seen:?}"
    );
    assert!(
        outcomes(&ledger, 10, &caps(), &[1, 2])
            .iter()
            .all(|s| *s == set(&[1])),
        "never started"
    );
    ledger.flush(Time(40), Time(50));
    assert!(
        outcomes(&ledger, 49, &caps(), &[1, 2])
            .iter()
            .all(|s| s.len() == 3),
        "flush in flight"
    );
    assert!(
        outcomes(&ledger, 50, &caps(), &[1, 2])
            .iter()
            .all(|s| *s == set(&[2])),
        "flushed"
    );
    let mut early = Ledger::new(1 << 20);
    early.write(write(Kind::Normal, 10, 20, 0, &[2; 8], OLD));
    early.flush(Time(19), Time(50));
    assert!(
        outcomes(&early, 60, &caps(), &[1, 2])
            .iter()
            .all(|s| s.len() == 3),
        "flush began before its completion"
    );
    early.advance(Time(60));
    assert_eq!(early.open_writes(), 1);
    ledger.advance(Time(49));
    assert_eq!(ledger.open_writes(), 1);
    ledger.advance(Time(50));
    assert_eq!(ledger.open_writes(), 0);
}

#[test]
fn reliable_writes_are_old_or_new_and_durable_at_completion() {
    let mut ledger = Ledger::new(1 << 20);
    ledger.write(write(Kind::Normal, 1, 5, 0, &[2; 4], OLD));
    ledger.write(write(Kind::Fua, 10, 20, 0, &[3; 2], 2));
    let seen = outcomes(&ledger, 15, &caps(), &[1, 2, 3]);
    assert_eq!(
        seen[0],
        set(&[1, 2, 3]),
        "no garbage under a reliable write"
    );
    assert_eq!(seen[3], set(&[1, 2, 256]), "the rest of the cached write");
    assert_eq!(seen[7], set(&[1]), "untouched sectors of the block");
    let seen = outcomes(&ledger, 20, &caps(), &[1, 2, 3]);
    assert_eq!(seen[0], set(&[3]), "supersedes the cached copy");
    let weak = Caps {
        reliable_granule: None,
        ..caps()
    };
    assert_eq!(
        outcomes(&ledger, 15, &weak, &[1, 2, 3])[0],
        set(&[1, 2, 3, 256])
    );
}

/// The parts of a REMAP that puts 7 into these sectors.
fn remapped(start: u64, end: u64, homes: &[u64]) -> Vec<Write> {
    let kind = Kind::Remap { durable: false };
    let part = |lba: &u64| write(kind, start, end, *lba, &[7], OLD);
    homes.iter().map(part).collect()
}

#[test]
fn i5_a_remap_is_forgotten_in_whole_where_memory_ends() {
    let mut ledger = Ledger::new(1000);
    ledger.remap(remapped(1, 2, &[0, 2, 4]));
    ledger.write(write(Kind::Normal, 3, 4, 7, &[8], OLD));
    ledger.advance(Time(9));
    // Each part weighs 512 of new and 4096 of old content; to forget one of them would be enough
    // for the limit but one.
    assert_eq!(ledger.open_writes(), 0, "1000 bytes hold none of them");
    let mut ledger = Ledger::new(11_000);
    ledger.remap(remapped(1, 2, &[0, 2, 4]));
    ledger.advance(Time(9));
    assert_eq!(ledger.open_writes(), 0, "a part is not forgotten alone");
    let mut ledger = Ledger::new(15_000);
    ledger.remap(remapped(1, 2, &[0, 2, 4]));
    ledger.advance(Time(9));
    assert_eq!(ledger.open_writes(), 3);
}

#[test]
#[should_panic(expected = "the parts of a REMAP are entered together")]
fn i5_the_parts_of_a_remap_have_one_span() {
    let mut parts = remapped(1, 2, &[0, 2]);
    parts[1].end = Time(3);
    Ledger::new(1 << 20).remap(parts);
}

#[test]
fn i5_every_seed_keeps_all_of_a_remap_or_nothing() {
    for cache_fifo in [false, true] {
        let caps = Caps {
            cache_fifo,
            tear_granule: Some(512),
            ..caps()
        };
        let mut ledger = Ledger::new(1 << 20);
        ledger.write(write(Kind::Normal, 1, 2, 1, &[5], OLD));
        ledger.remap(remapped(3, 6, &[0, 2, 3, 6]));
        ledger.write(write(Kind::Normal, 7, 8, 2, &[9], 7));
        let mut seen = BTreeSet::new();
        for seed in 0..3000 {
            let drawn = ledger.draw(Time(9), seed, &caps, |_| fill::filled(7, 4096));
            let sectors: Vec<u8> = drawn[0].1.chunks(512).map(|s| s[0]).collect();
            let batch = [sectors[0], sectors[3], sectors[6]];
            assert!(
                batch == [7; 3] || batch == [OLD; 3],
                "remap-S4: seed {seed}: {sectors:?}"
            );
            let legal = if batch[0] == 7 { [7, 9] } else { [OLD, 9] };
            assert!(legal.contains(&sectors[2]), "seed {seed}: {sectors:?}");
            seen.insert((batch[0], sectors[2]));
        }
        assert_eq!(seen.len(), if cache_fifo { 3 } else { 4 }, "{seen:?}");
    }
}

#[test]
fn granules_tear_as_one() {
    let mut ledger = Ledger::new(1 << 20);
    ledger.write(write(Kind::Fua, 10, 20, 0, &[2; 8], OLD));
    let big = Caps {
        reliable_granule: Some(4096),
        ..caps()
    };
    let torn = |caps: &Caps| {
        (0..200).any(|seed| {
            fill::uniform(&ledger.draw(Time(15), seed, caps, |_| fill::zeros(4096))[0].1).is_none()
        })
    };
    assert!(torn(&caps()));
    assert!(!torn(&big));
    let mut atomic = Ledger::new(1 << 20);
    atomic.write(write(Kind::Normal, 10, 20, 0, &[2; 8], OLD));
    let promise = Caps {
        atomic_write_bytes: 4096,
        ..caps()
    };
    assert!((0..200).all(|seed| {
        fill::uniform(&atomic.draw(Time(15), seed, &promise, |_| fill::zeros(4096))[0].1).is_some()
    }));
}

#[test]
fn a_tear_granule_forbids_garbage_under_normal_writes_only_where_it_is_promised() {
    let mut ledger = Ledger::new(1 << 20);
    ledger.write(write(Kind::Normal, 1, 5, 0, &[2; 4], OLD));
    ledger.write(write(Kind::Normal, 10, 20, 0, &[3; 2], 2));
    let whole = Caps {
        tear_granule: Some(512),
        ..caps()
    };
    let seen = outcomes(&ledger, 15, &whole, &[1, 2, 3]);
    assert_eq!((&seen[0], &seen[3]), (&set(&[1, 2, 3]), &set(&[1, 2])));
    let seen = outcomes(&ledger, 15, &caps(), &[1, 2, 3]);
    assert_eq!(
        (&seen[0], &seen[3]),
        (&set(&[1, 2, 3, 256]), &set(&[1, 2, 256]))
    );
}

#[test]
fn discards_are_zeros_or_old() {
    let mut ledger = Ledger::new(1 << 20);
    ledger.write(write(Kind::Discard, 10, 20, 0, &[0; 8], OLD));
    assert!(
        outcomes(&ledger, 30, &caps(), &[0, 1])
            .iter()
            .all(|s| *s == set(&[0, 1]))
    );
}

/// Sectors outside of 8..12 that differ from `OLD` in some draw.
fn damaged(ledger: &Ledger, at: u64, caps: &Caps) -> BTreeSet<u64> {
    let mut hit = BTreeSet::new();
    for seed in 0..1500 {
        for (block, content) in ledger.draw(Time(at), seed, caps, |_| fill::filled(OLD, 4096)) {
            let sectors = (block * 8..).zip(content.chunks(512));
            let other = sectors.filter(|(lba, s)| fill::uniform(s) != Some(OLD) && *lba / 4 != 2);
            hit.extend(other.map(|(lba, _)| lba));
        }
    }
    hit
}

#[test]
fn collateral_damage_only_where_the_caps_allow_it() {
    // Half of block 1: its other half and the rest of the 16 KiB may suffer, and nothing else.
    let all: BTreeSet<u64> = (0..8).chain(12..32).collect();
    let mut ledger = Ledger::new(1 << 20);
    ledger.write(write(Kind::Normal, 10, 20, 8, &[2; 4], OLD));
    let risky = Caps {
        no_collateral: false,
        ..caps()
    };
    for (what, at) in [("in flight", 15), ("being written back", 30)] {
        assert_eq!(damaged(&ledger, at, &caps()), BTreeSet::new(), "{what}");
        assert_eq!(damaged(&ledger, at, &risky), all, "{what}");
    }
    ledger.flush(Time(40), Time(50));
    assert_eq!(damaged(&ledger, 50, &risky), BTreeSet::new(), "flushed");
    let mut reliable = Ledger::new(1 << 20);
    reliable.write(write(Kind::Fua, 10, 20, 8, &[2; 4], OLD));
    assert_eq!(damaged(&reliable, 15, &risky), BTreeSet::new(), "reliable");
}

/// Which of `n` writes to blocks of their own are there at the cut, in whole, for each of 1500
/// seeds.
fn subsets(ledger: &Ledger, at: u64, n: u64) -> BTreeSet<Vec<bool>> {
    let whole = |seed| {
        let drawn = ledger.draw(Time(at), seed, &caps(), |b| {
            fill::filled(b as u8 + 10, 4096)
        });
        let fills: Vec<Option<u8>> = drawn.iter().map(|(_, c)| fill::uniform(c)).collect();
        let old_or_new = (0..n)
            .all(|b| matches!(fills[b as usize], Some(f) if f == OLD || u64::from(f) == b + 10));
        old_or_new.then(|| fills.iter().map(|f| *f != Some(OLD)).collect())
    };
    (0..1500).filter_map(whole).collect()
}

#[test]
fn any_subset_of_cached_writes_survives_in_any_order_also_under_a_flush_in_flight() {
    let mut ledger = Ledger::new(1 << 20);
    for b in 0..4 {
        ledger.write(write(
            Kind::Normal,
            10 * b,
            10 * b + 5,
            8 * b,
            &[b as u8 + 10; 8],
            OLD,
        ));
    }
    assert_eq!(subsets(&ledger, 50, 4).len(), 16);
    ledger.flush(Time(50), Time(60));
    assert_eq!(subsets(&ledger, 55, 4).len(), 16, "a flush in flight");
    assert_eq!(
        subsets(&ledger, 60, 4),
        BTreeSet::from([vec![true; 4]]),
        "flushed"
    );
}

#[test]
fn large_granules_tear_as_one() {
    let caps = Caps {
        reliable_granule: Some(16384),
        tear_granule: Some(16384),
        ..caps()
    };
    for kind in [Kind::Fua, Kind::Normal] {
        let mut ledger = Ledger::new(1 << 20);
        ledger.write(write(kind, 10, 20, 0, &[2; 64], OLD));
        let mut seen = BTreeSet::new();
        for seed in 0..300 {
            let drawn = ledger.draw(Time(15), seed, &caps, |_| fill::filled(2, 4096));
            let halves = drawn.chunks(4).map(|granule| {
                let all: Vec<u8> = granule.iter().flat_map(|(_, c)| c.to_vec()).collect();
                fill::uniform(&all).expect("a granule of 16 KiB is torn")
            });
            seen.insert(halves.collect::<Vec<u8>>());
        }
        assert_eq!(seen.len(), 4, "{kind:?}");
    }
}

#[test]
fn a_discard_of_the_whole_device_does_not_make_other_writes_durable() {
    let mut ledger = Ledger::new(1 << 20);
    ledger.write(write(Kind::Normal, 10, 20, 0, &[2; 8], OLD));
    ledger.write(Write {
        sectors: 1 << 30,
        prev: vec![(9, fill::filled(OLD, 4096))],
        ..write(Kind::Discard, 20, 30, 64, &[0; 8], OLD)
    });
    ledger.advance(Time(40));
    assert_eq!(ledger.open_writes(), 2);
    let drawn = |seed| ledger.draw(Time(40), seed, &caps(), |_| fill::zeros(4096));
    assert!((0..50).any(|seed| fill::uniform(&drawn(seed)[0].1) == Some(OLD)));
    assert!((0..50).any(|seed| fill::uniform(&drawn(seed)[1].1) == Some(OLD)));
}

#[test]
fn the_limit_bounds_memory() {
    let mut ledger = Ledger::new(64 * 8192);
    for i in 0..1000 {
        ledger.advance(Time(i));
        ledger.write(write(Kind::Normal, i, i + 1, 0, &[2; 8], OLD));
    }
    assert!(ledger.open_writes() <= 66, "{}", ledger.open_writes());
    // One sector keeps the whole block that it replaced a part of.
    let mut small = Ledger::new(64 * 8192);
    for i in 0..1000 {
        small.advance(Time(i));
        small.write(write(Kind::Normal, i, i + 1, 0, &[2], OLD));
    }
    assert!(small.open_writes() <= 116, "{}", small.open_writes());
}

/// The states of `n` writes of 4 blocks each that `seeds` draws, as kept sectors of each write.
fn kept_sectors(ledger: &Ledger, n: u64, caps: &Caps, seeds: u64) -> Vec<Vec<usize>> {
    let state = |seed| {
        let drawn = ledger.draw(Time(5000), seed, caps, |_| {
            unreachable!("all sectors are open")
        });
        let kept = |w: u64| {
            let blocks = drawn.iter().filter(|(b, _)| b / 4 == w);
            let sectors = blocks.flat_map(|(_, c)| c.chunks(512).map(fill::uniform));
            sectors.filter(|s| *s == Some(w as u8 + 10)).count()
        };
        (0..n).map(kept).collect()
    };
    (0..seeds).map(state).collect()
}

#[test]
fn rare_orders_are_drawn_often() {
    let n = 20;
    let mut ledger = Ledger::new(1 << 30);
    for w in 0..n {
        let fills = [w as u8 + 10; 32];
        ledger.write(write(Kind::Normal, 10 * w, 10 * w + 5, 32 * w, &fills, OLD));
    }
    let whole = Caps {
        tear_granule: Some(512),
        ..caps()
    };
    let states = kept_sectors(&ledger, n, &whole, 3000);
    let count = |is: &dyn Fn(&[usize]) -> bool| states.iter().filter(|s| is(s)).count();
    // One write, block or sector against all others, either way.
    for (some, others) in [(0, 32), (24, 32), (31, 32), (32, 0), (8, 0), (1, 0)] {
        let sparse = |s: &[usize]| {
            s.iter().filter(|k| **k == some).count() == 1
                && s.iter().filter(|k| **k == others).count() == n as usize - 1
        };
        assert!(
            count(&sparse) > 60,
            "{some} and {others}: {}",
            count(&sparse)
        );
    }
    // A write that breaks off inside a block; all others whole.
    let torn = |s: &[usize]| {
        let parts = s.iter().filter(|k| **k % 8 != 0).count();
        parts == 1 && s.iter().filter(|k| **k == 32).count() == n as usize - 1
    };
    assert!(count(&torn) > 60, "{}", count(&torn));
    assert!(count(&|s| s.iter().all(|k| *k == 0)) > 60);
    assert!(count(&|s| s.iter().all(|k| *k == 32)) > 60);
}

#[test]
fn a_torn_tail_is_a_prefix_of_the_block_and_of_the_write() {
    let mut ledger = Ledger::new(1 << 30);
    ledger.write(write(Kind::Fua, 10, 9000, 0, &[2; 24], OLD));
    let (mut inside, mut of_all) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..4000 {
        let drawn = ledger.draw(Time(15), seed, &caps(), |_| unreachable!("all are open"));
        let new: Vec<bool> = drawn
            .iter()
            .flat_map(|(_, c)| c.chunks(512).map(|s| s[0] == 2).collect::<Vec<_>>())
            .collect();
        // The first k sectors of the middle block, the others new; or the first k of the write.
        let middle = new[8..16].iter().filter(|n| **n).count();
        let is_prefix = |s: &[bool]| s.windows(2).all(|w| w[0] || !w[1]);
        if is_prefix(&new[8..16]) && new[..8] == [true; 8] && new[16..] == [true; 8] {
            inside.insert(middle);
        }
        if is_prefix(&new) {
            of_all.insert(new.iter().filter(|n| **n).count());
        }
    }
    assert!((1..8).all(|k| inside.contains(&k)), "{inside:?}");
    assert!((0..24).all(|k| of_all.contains(&k)), "{of_all:?}");
}

#[test]
fn a_pack_of_prefix_order_breaks_off_at_any_entry_and_inside_it() {
    let order = |order| Caps {
        packed: Some(crate::Packed {
            order,
            writes_max: 63,
        }),
        ..caps()
    };
    let mut ledger = Ledger::new(1 << 30);
    let entry = |w: u64| write(Kind::Fua, 10, 20, 8 * w, &[w as u8 + 10; 8], OLD);
    ledger.pack((0..60).map(entry).collect());
    let kept = |seed, caps: &Caps| -> Vec<usize> {
        let drawn = ledger.draw(Time(15), seed, caps, |_| unreachable!("all are open"));
        let new = |(b, c): &(u64, Bytes)| c.chunks(512).filter(|s| s[0] == *b as u8 + 10).count();
        drawn.iter().map(new).collect()
    };
    let prefix = order(crate::PackOrder::Prefix);
    let mut ends = BTreeSet::new();
    let mut torn = 0;
    for seed in 0..3000 {
        let kept = kept(seed, &prefix);
        let whole = kept.iter().take_while(|k| **k == 8).count();
        ends.insert(whole);
        torn += u32::from(kept.get(whole).is_some_and(|k| *k > 0));
        let behind = kept.get(whole + 1..).unwrap_or_default();
        assert!(behind.iter().all(|k| *k == 0), "seed {seed}: {kept:?}");
    }
    assert!(
        ends.len() == 61 && torn > 500,
        "{} ends, {torn} torn",
        ends.len()
    );
    let any = order(crate::PackOrder::AnySubset);
    let last_alone =
        |seed| kept(seed, &any)[..59].iter().all(|k| *k == 0) && kept(seed, &any)[59] > 0;
    assert!((0..3000).any(last_alone));
    // Complete: all of it, on both.
    for caps in [prefix, any] {
        let drawn = ledger.draw(Time(20), 1, &caps, |_| unreachable!("all are written"));
        assert!(
            drawn
                .iter()
                .all(|(b, c)| fill::uniform(c) == Some(*b as u8 + 10))
        );
    }
}

#[test]
fn reliable_granules_of_4096_sectors_tear_as_one() {
    let caps = Caps {
        reliable_granule: Some(4096 * 512),
        ..caps()
    };
    let mut ledger = Ledger::new(1 << 30);
    // Half of one granule, and a part of the next.
    ledger.write(write(Kind::Fua, 10, 20, 2048, &[2; 2048 + 64], OLD));
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let drawn = ledger.draw(Time(15), seed, &caps, |_| fill::zeros(4096));
        let new = |range: std::ops::Range<u64>| {
            let of: Vec<bool> = drawn
                .iter()
                .filter(|(b, _)| range.contains(b))
                .flat_map(|(_, c)| c.chunks(512).map(|s| s[0] == 2).collect::<Vec<_>>())
                .collect();
            assert!(of.iter().all(|s| *s == of[0]), "a granule is torn");
            of[0]
        };
        seen.insert((new(256..512), new(512..520)));
    }
    assert_eq!(seen.len(), 4);
}
