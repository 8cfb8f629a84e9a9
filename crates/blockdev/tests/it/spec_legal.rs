//! Compares the `spec` adversary with its own table, on small histories whose legal states are
//! enumerated from the rules by brute force. Every draw is in that set (soundness), and every
//! member of the set is drawn (spec-I4).

#![allow(clippy::disallowed_methods)]

mod reference;

use base::Rng;
use reference::{Event, GARBAGE, History, OLD, State, state_of};
use std::collections::BTreeSet;
use varve_blockdev::spec::{Bound, Choice, Kind, Mode, WriteFate};
use varve_blockdev::{Caps, PackOrder, Packed, RemapCaps};

fn caps() -> Caps {
    Caps {
        reliable_granule: Some(512),
        tear_granule: None,
        packed: Some(Packed {
            order: PackOrder::AnySubset,
            writes_max: 8,
        }),
        barrier: true,
        max_transfer_sectors: 1024,
        ..testkit::device::caps(1 << 20)
    }
}

fn some_caps(rng: &mut Rng) -> Caps {
    let granule = |rng: &mut Rng| [None, Some(512), Some(1024)][rng.below(3) as usize];
    Caps {
        volatile_cache: !rng.one_in(6),
        reliable_granule: granule(rng),
        tear_granule: granule(rng),
        atomic_write_bytes: [0, 0, 1024][rng.below(3) as usize],
        packed: Some(Packed {
            order: [PackOrder::Prefix, PackOrder::AnySubset][rng.below(2) as usize],
            writes_max: 8,
        }),
        cache_fifo: rng.one_in(3),
        ..caps()
    }
}

/// Sectors in use: the last of block 0 and the first of block 1.
const SECTORS: std::ops::Range<u64> = 5..11;

fn some_history(rng: &mut Rng) -> History {
    let caps = some_caps(rng);
    history(rng, caps, 2)
}

/// Histories with REMAP.
fn some_remaps(rng: &mut Rng) -> History {
    let caps = remapping(some_caps(rng));
    history(rng, caps, 2)
}

fn remapping(caps: Caps) -> Caps {
    Caps {
        remap: Some(RemapCaps {
            granule: 512,
            pairs_max: 4,
        }),
        ..caps
    }
}

/// Histories without REMAP, then those with it.
fn histories(n: u64) -> impl Iterator<Item = (String, History)> {
    let plain = (0..n).map(|n| {
        let history = some_history(&mut Rng::named(n, "history"));
        (format!("history {n}"), history)
    });
    plain.chain((0..n).map(|n| {
        let history = some_remaps(&mut Rng::named(n, "remaps"));
        (format!("remaps {n}"), history)
    }))
}

/// A REMAP of one to three pairs; homes are distinct, and none of them is a source.
fn some_remap(rng: &mut Rng, caps: &Caps, (start, end): (u64, u64), longest: u64) -> Event {
    let mut free: Vec<u64> = SECTORS.collect();
    let mut pairs: Vec<(u64, u64, u64)> = Vec::new();
    let mut kept: Vec<u64> = Vec::new();
    for _ in 0..1 + rng.below(3) {
        let n = 1 + rng.below(longest);
        let mut place = || SECTORS.start + rng.below(SECTORS.end - SECTORS.start + 1 - n);
        let (home, src) = (place(), place());
        let homes = home..home + n;
        let fits = homes.clone().all(|lba| free.contains(&lba))
            && (src..src + n)
                .all(|lba| (free.contains(&lba) || kept.contains(&lba)) && !homes.contains(&lba));
        if fits {
            kept.extend(src..src + n);
            free.retain(|lba| !homes.contains(lba) && !kept.contains(lba));
            pairs.push((home, src, n));
        }
    }
    if pairs.is_empty() {
        pairs.push((SECTORS.start, SECTORS.start + 3, 1));
    }
    Event::Remap {
        start,
        end,
        fua: !caps.volatile_cache || rng.one_in(4),
        moves: rng.one_in(3),
        pairs,
    }
}

/// A history of writes of at most so many sectors.
fn history(rng: &mut Rng, caps: Caps, longest: u64) -> History {
    let overlap = rng.one_in(3);
    let mut history = History::new(caps.clone());
    let mut t = 10;
    let mut writes = 0;
    let wanted = 2 + rng.below(3);
    while writes < wanted {
        let end = t + 1 + rng.below(20);
        let kind = |rng: &mut Rng| match (rng.below(8), caps.volatile_cache) {
            (0..3, _) => Kind::Fua,
            (3, _) => Kind::Discard,
            (_, true) => Kind::Normal,
            (_, false) => Kind::Through,
        };
        let place = |rng: &mut Rng| {
            let lba = SECTORS.start + rng.below(SECTORS.end - SECTORS.start);
            (lba, (1 + rng.below(longest)).min(SECTORS.end - lba))
        };
        if caps.remap.is_some() && rng.one_in(3) {
            writes += 1;
            history.push(some_remap(rng, &caps, (t, end), longest));
            t = if overlap { t + rng.below(12) } else { end };
            continue;
        }
        match rng.below(10) {
            0 => history.push(Event::Flush { start: t, end }),
            1 | 2 => history.push(Event::Barrier { start: t, end }),
            3..=5 => {
                let mut entries: Vec<(Kind, u64, u64)> = Vec::new();
                for _ in 0..2 + rng.below(2) {
                    let (kind, (lba, n)) = (kind(rng), place(rng));
                    let apart = |e: &(Kind, u64, u64)| e.1 + e.2 <= lba || lba + n <= e.1;
                    if kind != Kind::Discard && entries.iter().all(apart) {
                        entries.push((kind, lba, n));
                    }
                }
                writes += entries.len() as u64;
                history.push(Event::Pack {
                    start: t,
                    end,
                    entries,
                });
            }
            _ => {
                let (lba, sectors) = place(rng);
                writes += 1;
                history.push(Event::Write {
                    start: t,
                    end,
                    kind: kind(rng),
                    lba,
                    sectors,
                });
            }
        }
        t = if overlap { t + rng.below(12) } else { end };
    }
    history.cut = 10 + rng.below(t + 25 - 10);
    history
}

/// Draws until every legal state was seen, or all seeds are used up; answers the legal states that
/// were not drawn.
fn check(history: &History, seeds: u64, name: &str) -> Vec<State> {
    let legal = history.legal_states();
    let (told, long) = (history.told(true), history.told(false));
    let mut seen = BTreeSet::new();
    for seed in 0..seeds {
        let state = told.draw(seed);
        if seed < 20 {
            assert_eq!(
                state,
                long.draw(seed),
                "{name}: spec-I3: forgetting changes seed {seed} of {history:?}"
            );
        }
        assert!(
            legal.contains(&state),
            "{name}: spec-I2: seed {seed} draws {state:?}, which is not among {legal:?} of {history:?}"
        );
        seen.insert(state);
        if seed >= 200 && seen.len() == legal.len() {
            break;
        }
    }
    legal.difference(&seen).cloned().collect()
}

/// Sets of at most this many states have to be drawn completely.
const SMALL: usize = 60;

#[test]
fn draws_are_the_legal_states() {
    let mut sizes = Vec::new();
    for (name, history) in histories(400) {
        let size = history.legal_states().len();
        let seeds = if size > SMALL { 300 } else { 60_000 };
        let missing = check(&history, seeds, &name);
        assert!(
            missing.is_empty() || size > SMALL,
            "{name}: spec-I4: never drawn of {size}: {missing:?} of {history:?}"
        );
        sizes.push(size);
    }
    let interesting = sizes.iter().filter(|n| (3..=SMALL).contains(*n)).count();
    assert!(interesting > 300, "{interesting} of {}", sizes.len());
}

/// By hand: `FROM=1000 SEEDS=5000`.
#[test]
#[ignore = "as many seeds as asked for"]
fn many() {
    let number = |key| std::env::var(key).ok().and_then(|s| s.parse().ok());
    let from = number("FROM").unwrap_or(0);
    let (mut states, mut rare) = (0, 0);
    for n in from..from + number("SEEDS").unwrap_or(2000) {
        let history = some_history(&mut Rng::named(n, "history"));
        let size = history.legal_states().len();
        let seeds = if size > SMALL { 300 } else { 20_000 };
        let missing = check(&history, seeds, &format!("history {n}"));
        if size <= SMALL {
            states += size;
            rare += missing.len();
        }
    }
    // Commands that overlap in an unlikely way, several sectors of garbage at once.
    assert!(
        rare * 200 < states,
        "{rare} of {states} states were not drawn"
    );
}

fn write(start: u64, kind: Kind, lba: u64, sectors: u64) -> Event {
    Event::Write {
        start,
        end: start + 5,
        kind,
        lba,
        sectors,
    }
}

/// The rules of the table, each with the states that it allows.
#[test]
fn the_reference_says_what_the_table_says() {
    let states = |caps: Caps, events: Vec<Event>, cut: u64| {
        let mut history = History::new(caps);
        events.into_iter().for_each(|e| history.push(e));
        history.cut = cut;
        history
            .legal_states()
            .into_iter()
            .map(|state| state[..3].to_vec())
            .collect::<BTreeSet<_>>()
    };
    let whole = Caps {
        tear_granule: Some(512),
        ..caps()
    };
    let fifo = Caps {
        cache_fifo: true,
        ..whole.clone()
    };
    let set = |states: &[[u8; 3]]| states.iter().map(|s| s.to_vec()).collect::<BTreeSet<_>>();
    let o = OLD;
    let three = || {
        (0..3)
            .map(|i| write(10 * i, Kind::Normal, 5 + i, 1))
            .collect()
    };
    assert_eq!(states(whole.clone(), three(), 100).len(), 8);
    assert_eq!(
        states(fifo.clone(), three(), 100),
        set(&[[o, o, o], [1, o, o], [1, 2, o], [1, 2, 3]])
    );
    // The first write is replaced in the cache, so it may never be written back.
    let replaced = || {
        vec![
            write(0, Kind::Normal, 5, 1),
            write(10, Kind::Normal, 6, 1),
            write(20, Kind::Normal, 5, 1),
        ]
    };
    assert_eq!(
        states(fifo.clone(), replaced(), 100),
        set(&[[o, o, o], [1, o, o], [1, 2, o], [o, 2, o], [3, 2, o]])
    );
    let barrier = |start| Event::Barrier {
        start,
        end: start + 5,
    };
    let mut behind: Vec<Event> = three();
    behind.insert(2, barrier(15));
    assert_eq!(
        states(whole.clone(), behind, 100),
        set(&[[o, o, o], [1, o, o], [o, 2, o], [1, 2, o], [1, 2, 3]])
    );
    let pack = || {
        vec![Event::Pack {
            start: 0,
            end: 50,
            entries: (5..8).map(|lba| (Kind::Fua, lba, 1)).collect(),
        }]
    };
    assert_eq!(states(whole.clone(), pack(), 20).len(), 8);
    let prefix = Caps {
        packed: Some(Packed {
            order: PackOrder::Prefix,
            writes_max: 8,
        }),
        ..whole
    };
    assert_eq!(
        states(prefix.clone(), pack(), 20),
        set(&[[o, o, o], [1, o, o], [1, 2, o], [1, 2, 3]])
    );
    assert_eq!(states(prefix, pack(), 50), set(&[[1, 2, 3]]));
}

/// The rules of REMAP, each with the states that they allow.
#[test]
fn a_remap_is_there_in_whole_or_not_at_all() {
    let o = OLD;
    let whole = Caps {
        tear_granule: Some(512),
        ..caps()
    };
    let states = |caps: &Caps, events: &[Event], cut: u64| {
        let mut history = History::new(remapping(caps.clone()));
        events.iter().for_each(|e| history.push(e.clone()));
        history.cut = cut;
        let missing = check(&history, 20_000, "in words");
        assert!(missing.is_empty(), "spec-I4: {missing:?}");
        let states = history.legal_states().into_iter();
        states.map(|s| s[..4].to_vec()).collect::<BTreeSet<_>>()
    };
    let set = |states: &[[u8; 4]]| states.iter().map(|s| s.to_vec()).collect::<BTreeSet<_>>();
    // Sector 8 holds 1 for good; it is the source of homes 5 and 6.
    let logged = write(0, Kind::Fua, 8, 1);
    let remap = |moves, fua| Event::Remap {
        start: 10,
        end: 15,
        fua,
        moves,
        pairs: vec![(5, 8, 1), (6, 8, 1)],
    };
    let share = [logged.clone(), remap(false, false)];
    let both = set(&[[o, o, o, 1], [1, 1, o, 1]]);
    assert_eq!(states(&whole, &share, 12), both, "in flight");
    assert_eq!(states(&whole, &share, 99), both, "in the cache");
    let moved = [logged.clone(), remap(true, false)];
    assert_eq!(
        states(&whole, &moved, 99),
        set(&[[o, o, o, 1], [1, 1, o, 0]])
    );
    let fua = [logged.clone(), remap(true, true)];
    assert_eq!(states(&whole, &fua, 14).len(), 2);
    assert_eq!(states(&whole, &fua, 15), set(&[[1, 1, o, 0]]));
    let flushed = |start| {
        let flush = Event::Flush { start, end: 40 };
        [logged.clone(), remap(false, false), flush]
    };
    assert_eq!(states(&whole, &flushed(14), 40), both, "began too early");
    assert_eq!(states(&whole, &flushed(15), 40), set(&[[1, 1, o, 1]]));
    // A later write to one home (the third write: 3): with the batch and without it.
    let later = [
        logged.clone(),
        remap(false, false),
        write(20, Kind::Normal, 5, 1),
    ];
    let four = set(&[[o, o, o, 1], [3, o, o, 1], [1, 1, o, 1], [3, 1, o, 1]]);
    assert_eq!(states(&whole, &later, 99), four);
    let fifo = Caps {
        cache_fifo: true,
        ..whole.clone()
    };
    // A part of the batch is replaced in the cache: the batch keeps its turn.
    let ordered = set(&[[o, o, o, 1], [1, 1, o, 1], [3, 1, o, 1]]);
    assert_eq!(states(&fifo, &later, 99), ordered);
    // All of it is replaced: it may be dropped.
    let all = [
        logged.clone(),
        remap(false, false),
        write(20, Kind::Normal, 7, 1),
        write(30, Kind::Normal, 5, 2),
    ];
    let dropped = states(&fifo, &all, 99);
    assert!(dropped.contains(&vec![o, o, 3, 1]), "{dropped:?}");
    assert!(dropped.contains(&vec![4, 4, 3, 1]), "{dropped:?}");
    assert!(!dropped.contains(&vec![1, o, 3, 1]), "{dropped:?}");
    // A barrier behind the batch: nothing later without it, but for what the later write replaces.
    let barrier = Event::Barrier { start: 16, end: 18 };
    let behind = [
        logged.clone(),
        remap(false, false),
        barrier,
        write(20, Kind::Normal, 7, 1),
    ];
    let after = set(&[[o, o, o, 1], [1, 1, o, 1], [1, 1, 3, 1]]);
    assert_eq!(states(&whole, &behind, 99), after);
}

fn all_of(mode: Mode) -> Bound {
    Bound {
        mode,
        subset_max: 20,
        torn_max: 64,
        states_max: u32::MAX,
        prune: false,
    }
}

/// The states that the bound names at the cut of this history, each of which is legal.
fn named(history: &History, bound: &Bound, name: &str) -> BTreeSet<State> {
    let legal = history.legal_states();
    let trace = history.trace();
    let mut cursor = trace.cursor();
    cursor.seek(base::Time(history.cut));
    let mut out = BTreeSet::new();
    let counted = cursor.each_choice(bound, &mut |choice| {
        let text = choice.to_string();
        assert_eq!(text.parse(), Ok(choice.clone()), "{name}: {text}");
        let image = cursor.image(&choice);
        assert_eq!(cursor.content_hash(&choice), Ok(image.content_hash()));
        let state = state_of(&image);
        assert!(
            legal.contains(&state),
            "{name}: enumerate-C1: {text} is {state:?}, which is not among {legal:?} of {history:?}"
        );
        let fates = cursor.describe(&choice).expect("it was named");
        let whole = |f: &(usize, WriteFate)| matches!(f.1, WriteFate::Durable | WriteFate::Kept);
        assert!(
            !fates.iter().all(whole) || state == state_of(&cursor.image(&Choice::Newest)),
            "{name}: {text}: {fates:?}"
        );
        out.insert(state);
        true
    });
    assert_eq!((counted.pruned, counted.beyond), (0, 0), "{name}");
    out
}

#[test]
fn every_named_state_is_legal() {
    for (name, history) in histories(300) {
        for mode in [
            Mode::Linear,
            Mode::Random(9),
            Mode::Bounded,
            Mode::Exhaustive,
        ] {
            named(&history, &all_of(mode), &format!("{name}, {mode:?}"));
        }
    }
}

/// The grain of exhaustive mode: whole writes, of one granule here, at most one of them garbage;
/// commands arrive in the order of their beginnings.
#[test]
fn exhaustive_names_every_legal_state_of_its_grain() {
    let (mut sizes, mut fifo_missing, mut fifo_all) = (0, 0, 0);
    for n in 0..800 {
        let mut rng = Rng::named(n, "grain");
        let caps = match some_caps(&mut rng) {
            caps if n < 400 => caps,
            caps => remapping(caps),
        };
        let fifo = caps.cache_fifo;
        let history = history(&mut rng, caps, 1);
        let name = format!("history {n}");
        let named = named(&history, &all_of(Mode::Exhaustive), &name);
        let mut legal = history.legal_states();
        legal.retain(|state| state.iter().filter(|s| **s == GARBAGE).count() <= 1);
        let missing: Vec<&State> = legal.difference(&named).collect();
        match fifo {
            false => assert!(missing.is_empty(), "{name}: {missing:?} of {history:?}"),
            true => fifo_missing += missing.len(),
        }
        fifo_all += if fifo { legal.len() } else { 0 };
        sizes += legal.len();
    }
    assert!(sizes > 2400, "{sizes}");
    // Overlapping commands and entries of an unordered pack that come in another order.
    assert!(fifo_missing * 10 < fifo_all, "{fifo_missing} of {fifo_all}");
}

/// trace-T3: the states of a cut that is left out are among those of the next one that is not.
#[test]
fn the_last_cut_of_a_window_has_the_states_of_all() {
    let mut left_out = 0;
    for (name, mut history) in histories(120) {
        let trace = history.trace();
        let maximal = trace.maximal_cut_points(&[]);
        for at in trace.cut_points() {
            let next = maximal
                .iter()
                .find(|t| **t >= at)
                .expect("the last one stands");
            history.cut = at.0;
            let states = history.legal_states();
            history.cut = next.0;
            assert!(
                states.is_subset(&history.legal_states()),
                "trace-T3: {name}: {at:?} before {next:?} of {history:?}"
            );
            left_out += usize::from(*next != at);
        }
    }
    assert!(left_out > 400, "{left_out}");
}

#[test]
fn a_change_of_what_is_promised_ends_a_window() {
    let mut history = History::new(caps());
    (0..3).for_each(|i| history.push(write(10 * i, Kind::Normal, 5 + i, 1)));
    let trace = history.trace();
    let at = |times: &[u64]| times.iter().map(|t| base::Time(*t)).collect::<Vec<_>>();
    assert_eq!(trace.cut_points(), at(&[1, 5, 11, 15, 21, 25]));
    assert_eq!(trace.maximal_cut_points(&[]), at(&[25]));
    assert_eq!(trace.maximal_cut_points(&at(&[5])), at(&[1, 25]));
    assert_eq!(trace.maximal_cut_points(&at(&[6, 12])), at(&[5, 11, 25]));
    history.push(Event::Flush { start: 26, end: 30 });
    let trace = history.trace();
    assert_eq!(trace.maximal_cut_points(&[]), at(&[27, 30]));
}
