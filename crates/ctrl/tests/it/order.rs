//! What a cut leaves of packs, of a first-in-first-out cache, and of barriers, compared with the
//! sequence of writes alone.

use crate::host::{device, emmc_profile, id_of, ok, stamp};
use base::{Lba, Rng, Time};
use blockdev::{Adversary, Class, Model, PackedWrite, Piece, Request};
use std::collections::BTreeSet;
use varve_ctrl::{Media, Profile};

/// 4 KiB blocks the tests write to.
const SPAN: u64 = 40;

/// The number in each sector of the first `SPAN` blocks; `None`: garbage.
fn left(profile: &Profile, media: Media) -> Vec<Option<u32>> {
    let mut m = profile.build(None, Some(media)).unwrap();
    let bytes = ok(&mut m, &mut Time(0), Request::read(Lba(0), SPAN * 8));
    bytes.chunks(512).map(id_of).collect()
}

/// A write of a test: first sector, sectors, number, FUA.
#[derive(Clone, Copy, Debug)]
struct W {
    lba: u64,
    n: u64,
    id: u32,
    fua: bool,
}

impl W {
    fn packed(self) -> PackedWrite {
        let bytes = stamp(self.id, self.n);
        let pieces = vec![Piece {
            class: Class::Data,
            bytes,
        }];
        PackedWrite {
            lba: Lba(self.lba),
            pieces,
            fua: self.fua,
        }
    }
    fn sectors(&self) -> std::ops::Range<usize> {
        self.lba as usize..(self.lba + self.n) as usize
    }
}

/// Non-overlapping writes, FUA, of up to two blocks, not aligned.
fn pack(rng: &mut Rng, id: &mut u32) -> Vec<W> {
    let mut out: Vec<W> = Vec::new();
    for _ in 0..2 + rng.below(12) {
        let n = 1 + rng.below(16);
        let lba = rng.below(SPAN * 8 - n);
        *id += 1;
        let w = W {
            lba,
            n,
            id: *id,
            fua: true,
        };
        let apart =
            |o: &W| o.sectors().end <= w.sectors().start || w.sectors().end <= o.sectors().start;
        if out.iter().all(apart) {
            out.push(w);
        }
    }
    out
}

/// True if `got` is `old` with all entries before some entry, that entry in any mixture of old and
/// new, and none behind it.
fn is_prefix(got: &[Option<u32>], old: &[u32], pack: &[W]) -> bool {
    let state = |w: &W| {
        let new = w.sectors().filter(|s| got[*s] == Some(w.id)).count();
        (new, new == w.n as usize)
    };
    let mut ended = false;
    for w in pack {
        let (new, whole) = state(w);
        if ended && new > 0 {
            return false;
        }
        ended |= !whole;
    }
    old_or_new(got, old, pack)
}

fn old_or_new(got: &[Option<u32>], old: &[u32], pack: &[W]) -> bool {
    got.iter().enumerate().all(|(s, got)| {
        let new = pack.iter().find(|w| w.sectors().contains(&s)).map(|w| w.id);
        *got == Some(old[s]) || new.is_some() && *got == new
    })
}

/// Cuts in packs. Answers how many left a part of a pack, and how many left no prefix.
fn pack_cuts(changes: &str, adversary: Adversary, seed: u64) -> (u32, u32) {
    let profile = emmc_profile(changes);
    let mut rng = Rng::named(seed, "pack cuts");
    let mut m = device(&profile, adversary, None);
    let (mut now, mut id) = (Time(0), 0);
    let mut old = vec![0; SPAN as usize * 8];
    let (mut partly, mut mixed) = (0, 0);
    for round in 0..9 {
        // Cached lines beside and below the pack, some of them on their way: made durable, so that
        // the reference is simple.
        for _ in 0..rng.below(6) {
            id += 1;
            let block = rng.below(SPAN);
            ok(
                &mut m,
                &mut now,
                Request::write(Lba(block * 8), Class::Data, stamp(id, 8)),
            );
            old[block as usize * 8..block as usize * 8 + 8].fill(id);
        }
        ok(&mut m, &mut now, Request::flush());
        let writes = pack(&mut rng, &mut id);
        let start = now;
        let request = Request::pack(writes.iter().map(|w| w.packed()).collect());
        ok(&mut m, &mut now, request);
        let inside = (0..6).map(|_| start.0 + rng.below((now - start).0));
        let cuts: BTreeSet<u64> = inside.chain([start.0, now.0 - 1, now.0]).collect();
        for at in cuts.into_iter().map(Time) {
            let got = left(&profile, m.clone().power_off(at, rng.next_u64()));
            let what = format!("seed {seed}, round {round}, cut at {at}: {writes:?}");
            assert!(old_or_new(&got, &old, &writes), "{what}");
            let count = writes
                .iter()
                .filter(|w| got[w.lba as usize] == Some(w.id))
                .count();
            if at == now {
                assert_eq!(count, writes.len(), "{what}: complete");
            }
            if at == start {
                assert_eq!(count, 0, "{what}: not begun");
            }
            partly += u32::from(count > 0 && count < writes.len());
            mixed += u32::from(!is_prefix(&got, &old, &writes));
        }
        for w in &writes {
            old[w.sectors()].fill(w.id);
        }
    }
    (partly, mixed)
}

#[test]
fn a_cut_in_a_pack_leaves_a_prefix_where_the_card_promises_it() {
    for adversary in [Adversary::Own, Adversary::Spec] {
        let runs = (0..3).map(|seed| pack_cuts(",card.wr_rel_set=true", adversary, seed));
        let (partly, mixed) = runs.fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        assert!(partly > 5 && mixed == 0, "{adversary:?}: {partly}, {mixed}");
    }
    pack_cuts(",card.cache_fifo=true", Adversary::Own, 9);
    pack_cuts(
        ",card.native_sector=512,card.cache_kib=32",
        Adversary::Own,
        10,
    );
}

#[test]
fn a_cut_in_a_pack_leaves_any_subset_where_it_does_not() {
    for adversary in [Adversary::Own, Adversary::Spec] {
        let runs = (0..3).map(|seed| pack_cuts(",card.pack_order=any-subset", adversary, seed));
        let mixed: u32 = runs.map(|r| r.1).sum();
        assert!(mixed > 3, "{adversary:?}: {mixed}");
    }
}

/// Judges what a cut left of cached writes of whole blocks: `None` if no prefix of `epochs`
/// explains it. An epoch is a list of writes that have no order among each other.
fn explained(got: &[Option<u32>], epochs: &[Vec<(u64, u32)>]) -> bool {
    (0..=epochs.len()).any(|whole| {
        (0..SPAN).all(|block| {
            let found = got[block as usize * 8];
            let same = got[block as usize * 8..][..8].iter().all(|s| *s == found);
            let mut before = epochs[..whole].iter().flatten().filter(|w| w.0 == block);
            let floor = before.next_back().map_or(0, |w| w.1);
            let inside = epochs.get(whole).into_iter().flatten();
            let mut allowed = inside.filter(|w| w.0 == block).map(|w| w.1).chain([floor]);
            same && allowed.any(|id| Some(id) == found)
        })
    })
}

/// Cached 4 KiB writes with pauses; each is followed by a barrier with chance one in `barrier` (0:
/// none). Answers the number of cuts that left anything.
fn cached_cuts(changes: &str, seed: u64, barrier: u64) -> u32 {
    let profile = emmc_profile(changes);
    let mut rng = Rng::named(seed, "cached cuts");
    let mut m = device(&profile, Adversary::Own, None);
    let (mut now, mut id) = (Time(0), 0);
    let mut epochs: Vec<Vec<(u64, u32)>> = vec![Vec::new()];
    let mut some = 0;
    for step in 0..160 {
        id += 1;
        let block = rng.below(SPAN);
        let request = Request::write(Lba(block * 8), Class::Data, stamp(id, 8));
        ok(&mut m, &mut now, request);
        epochs.last_mut().unwrap().push((block, id));
        if barrier == 0 {
            epochs.push(Vec::new());
        } else if rng.one_in(barrier) {
            ok(&mut m, &mut now, Request::barrier());
            epochs.push(Vec::new());
        }
        now.0 += rng.below(400_000);
        if rng.one_in(40) {
            ok(&mut m, &mut now, Request::flush());
        }
        if rng.one_in(4) {
            m.advance(now);
            let got = left(&profile, m.clone().power_off(now, rng.next_u64()));
            assert!(
                explained(&got, &epochs),
                "{changes}, seed {seed}, step {step}"
            );
            some += u32::from(got.iter().any(|g| *g != Some(0)));
        }
    }
    some
}

#[test]
fn a_fifo_cache_loses_the_newest_writes() {
    for seed in 0..3 {
        let some = cached_cuts(",card.cache_fifo=true,card.cache_kib=64", seed, 0);
        assert!(some > 12, "{some}");
    }
}

#[test]
fn a_barrier_keeps_the_epochs_in_order() {
    for seed in 0..3 {
        let some = cached_cuts(",card.barrier=true,card.cache_kib=64", seed, 9);
        assert!(some > 12, "{some}");
    }
    cached_cuts(
        ",card.barrier=true,card.cache_fifo=true,card.cache_kib=64",
        3,
        9,
    );
}

/// Without FIFO and barrier the card chooses the order, which shows that the two tests above can
/// fail.
#[test]
#[should_panic(expected = "step")]
fn a_plain_cache_keeps_no_order() {
    for seed in 0..3 {
        cached_cuts(",card.cache_kib=64", seed, 0);
    }
}

#[test]
fn barriers_and_order_are_in_the_caps_only_where_they_hold() {
    let caps = |changes: &str| {
        device(&emmc_profile(changes), Adversary::Own, None)
            .caps()
            .clone()
    };
    assert!(!caps("").barrier && !caps("").cache_fifo);
    assert!(caps(",card.barrier=true").barrier);
    assert!(caps(",card.cache_fifo=true").cache_fifo);
    assert!(!caps(",card.barrier=true,card.cache_on=false").barrier);
    assert!(!caps(",card.cache_fifo=true,card.cache_on=false").cache_fifo);
    let large = caps(",card.native_sector=4096");
    assert_eq!(
        (large.sector_bytes, large.reliable_granule),
        (4096, Some(4096))
    );
}
