//! Tests of the worst-case adversary.

use super::*;
use std::collections::BTreeSet;

const OLD: u8 = 1;

fn caps() -> Caps {
    Caps {
        sectors: 1 << 16,
        sector_bytes: 512,
        volatile_cache: true,
        fua: true,
        reliable_granule: Some(512),
        tear_granule: None,
        atomic_write_bytes: 0,
        no_collateral: true,
        packed: None,
        discard: true,
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

/// Per sector of block 0: every first byte that 1500 seeds draw; 256 stands for garbage.
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

#[test]
fn collateral_damage_only_where_the_caps_allow_it() {
    let mut ledger = Ledger::new(1 << 20);
    ledger.write(write(Kind::Normal, 10, 20, 8, &[2; 8], OLD));
    let damaged = |caps: &Caps| {
        (0..200)
            .flat_map(|s| ledger.draw(Time(15), s, caps, |_| fill::filled(OLD, 4096)))
            .any(|(b, _)| b != 1)
    };
    assert!(!damaged(&caps()));
    assert!(damaged(&Caps {
        no_collateral: false,
        ..caps()
    }));
}

#[test]
fn the_limit_bounds_memory() {
    let mut ledger = Ledger::new(64 * 4096);
    for i in 0..1000 {
        ledger.advance(Time(i));
        ledger.write(write(Kind::Normal, i, i + 1, 0, &[2; 8], OLD));
    }
    assert!(ledger.open_writes() <= 66, "{}", ledger.open_writes());
}
