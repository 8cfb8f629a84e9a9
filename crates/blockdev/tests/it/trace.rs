//! Recorded runs: their cuts equal those of the disk, their states have texts, and the states that
//! are left out are counted.

use base::{Bytes, Lba, Nanos, Rng, SECTORS_PER_BLOCK, Time, fill};
use rt::{Sim, SimConfig};
use std::collections::BTreeSet;
use varve_blockdev::spec::{Bound, Choice, Mode, WriteFate};
use varve_blockdev::trace::Cursor;
use varve_blockdev::{
    BlockDevice, Caps, Class, Image, PackOrder, Packed, PackedWrite, Piece, Remap, RemapCaps,
    RemapMode, RemapPair, Request, SpecDisk, Trace,
};

fn caps() -> Caps {
    Caps {
        reliable_granule: Some(512),
        tear_granule: None,
        no_collateral: false,
        packed: Some(Packed {
            order: PackOrder::Prefix,
            writes_max: 8,
        }),
        barrier: true,
        remap: Some(RemapCaps {
            granule: 512,
            pairs_max: 8,
        }),
        max_transfer_sectors: 1024,
        ..testkit::device::caps(1 << 20)
    }
}

fn in_sim<T: 'static>(work: impl FnOnce() -> T + 'static) -> T {
    Sim::new(SimConfig::seeded(1)).run(work).unwrap()
}

fn lba(block: u64) -> Lba {
    Lba(block * SECTORS_PER_BLOCK)
}

/// Different, non-uniform content for each number.
fn block(n: u64) -> Bytes {
    let mut bytes = vec![0; 4096];
    Rng::named(n, "block").fill(&mut bytes);
    bytes.into()
}

fn some_request(rng: &mut Rng) -> Request {
    let (n, sectors) = (rng.below(24), 1 + rng.below(20));
    let at = Lba(n * 8 + if rng.one_in(2) { 0 } else { rng.below(8) });
    let bytes = |rng: &mut Rng| fill::filled(1 + rng.below(200) as u8, 512 * sectors as usize);
    match rng.below(12) {
        10 | 11 => {
            let (home, src) = (rng.below(90), 100 + rng.below(90));
            let sectors = 1 + rng.below(12);
            let pair = |i: u64| RemapPair {
                home: Lba(home + i * 12),
                src: Lba(src),
                sectors,
                expect: None,
            };
            Request::remap(Remap {
                pairs: (0..1 + rng.below(3)).map(pair).collect(),
                mode: [RemapMode::Share, RemapMode::Move][rng.below(2) as usize],
                fua: rng.one_in(4),
                require_all: false,
            })
        }
        0 => Request::flush(),
        1 => Request::barrier(),
        2 => Request::discard(at, sectors),
        3 => {
            let entry = |i: u64, rng: &mut Rng| PackedWrite {
                lba: lba(3 * i + rng.below(3)),
                pieces: vec![Piece {
                    class: Class::Data,
                    bytes: fill::filled(rng.below(255) as u8, 4096),
                }],
                fua: rng.one_in(2),
            };
            Request::pack((0..3).map(|i| entry(i, rng)).collect())
        }
        4 | 5 => Request::write_fua(at, Class::Data, bytes(rng)),
        _ => Request::write(at, Class::Data, bytes(rng)),
    }
}

/// What the disk itself leaves at a moment: by three seeds, with all lost, with nothing lost.
type Left = (Time, [Image; 3], Image, Image);

#[test]
fn a_cut_of_a_recording_leaves_what_the_disk_would_have_left() {
    let kinds = [
        caps(),
        Caps {
            cache_fifo: true,
            tear_granule: Some(1024),
            ..caps()
        },
        Caps {
            volatile_cache: false,
            ..caps()
        },
        Caps {
            no_collateral: true,
            packed: Some(Packed {
                order: PackOrder::AnySubset,
                writes_max: 8,
            }),
            ..caps()
        },
    ];
    for (kind, caps) in kinds.into_iter().enumerate() {
        in_sim(move || {
            let mut rng = Rng::named(kind as u64, "recording");
            let disk = SpecDisk::new(caps, 1);
            let first = disk.submit(Request::write_fua(lba(9), Class::Data, block(1)));
            disk.wait(first).expect("a legal request");
            rt::sleep(Nanos(1_000_000));
            disk.record();
            let mut left: Vec<Left> = Vec::new();
            let mut tickets = Vec::new();
            for _ in 0..120 {
                tickets.push(disk.submit(some_request(&mut rng)));
                if rng.one_in(3) {
                    rt::sleep(Nanos(rng.below(400_000)));
                }
                let seeds = [1, 2, 3].map(|seed| disk.snapshot(seed));
                left.push((rt::now(), seeds, disk.snapshot_lost(), disk.visible()));
                if tickets.len() > 6 {
                    let _ = disk.wait(tickets.remove(0));
                }
            }
            let trace = disk.take_trace().expect("it was recording");
            let mut cursor = trace.cursor();
            for (at, seeds, oldest, newest) in left {
                cursor.seek(at);
                for (seed, image) in [1, 2, 3].into_iter().zip(seeds) {
                    assert_eq!(
                        cursor.image(&Choice::Seed(seed)),
                        image,
                        "trace-T1: at {at:?}"
                    );
                }
                assert_eq!(cursor.image(&Choice::Oldest), oldest, "trace-T1: at {at:?}");
                // A command submitted at the very moment of the cut is visible to reads and lost to
                // the cut.
                let begun = trace.steps.iter().any(|s| s.start == at);
                assert!(
                    begun || cursor.image(&Choice::Newest) == newest,
                    "trace-T1: at {at:?}"
                );
            }
        });
    }
}

/// A run of these requests, one after the other, recorded.
fn recorded(caps: Caps, requests: Vec<Request>) -> Trace {
    in_sim(move || {
        let disk = SpecDisk::new(caps, 1);
        disk.record();
        for request in requests {
            disk.wait(disk.submit(request)).expect("a legal request");
        }
        disk.take_trace().expect("it was recording")
    })
}

fn at_end(trace: &Trace) -> Cursor<'_> {
    let mut cursor = trace.cursor();
    cursor.seek(trace.steps.iter().map(|s| s.end).max().unwrap_or(Time(0)));
    cursor
}

fn bound(mode: Mode, prune: bool) -> Bound {
    Bound {
        mode,
        subset_max: 2,
        torn_max: 2,
        states_max: 1 << 20,
        prune,
    }
}

fn write(n: u64, class: Class) -> Request {
    Request::write(lba(n), class, block(n))
}

#[test]
fn a_text_says_what_becomes_of_each_sector() {
    let trace = recorded(caps(), vec![write(2, Class::Data), write(7, Class::Data)]);
    let cursor = at_end(&trace);
    let shown = |text: &str| {
        let image = cursor.image(&text.parse().expect(text));
        [2, 7].map(|n| {
            let (found, new) = (image.block(n), block(n));
            let sectors = found.chunks(512).zip(new.chunks(512));
            let sector = |(found, new): (&[u8], &[u8])| match found {
                _ if found == new => '1',
                _ if base::bytes::is_zero(found) => '0',
                _ => '?',
            };
            sectors.map(sector).collect::<String>()
        })
    };
    let (old, new) = ("00000000", "11111111");
    for (text, first, second) in [
        ("oldest", old, old),
        ("newest", new, new),
        ("k1", old, new),
        ("l1", new, old),
        ("k0-1", new, new),
        ("l0h2", "11000000", new),
        ("k0t6", "00000011", old),
        ("k0o3", "00010000", old),
        ("k0x3+1", "11101111", new),
        ("l0g2", "11?00000", new),
        ("l1g", new, "????????"),
    ] {
        assert_eq!(shown(text), [first, second], "{text}");
    }
    // Around write 0: the rest of its 16 KiB, and nothing of the next.
    let image = cursor.image(&"l,c0".parse().unwrap());
    let damaged: Vec<u64> = image.blocks().map(|(n, _)| n).collect();
    assert_eq!(damaged, [0, 1, 2, 3, 7]);
    assert_eq!((image.block(2), image.block(7)), (block(2), block(7)));
    let torn = cursor.describe(&"l0g2".parse().unwrap()).unwrap();
    let first = WriteFate::Torn {
        kept: std::iter::once(16..18).collect(),
        garbage: std::iter::once(18..19).collect(),
    };
    assert_eq!(torn, [(0, first), (1, WriteFate::Kept)]);
    let lost = cursor.describe(&Choice::Oldest).unwrap();
    assert!(lost.iter().all(|f| f.1 == WriteFate::Lost));
}

#[test]
fn a_text_of_another_cut_is_refused_with_the_reason() {
    let mut requests = vec![write(0, Class::Data), Request::flush()];
    requests.extend((1..4).map(|n| write(n, Class::Data)));
    requests.push(Request::write_fua(lba(8), Class::Data, block(8)));
    let safe = Caps {
        tear_granule: Some(4096),
        no_collateral: true,
        ..caps()
    };
    let trace = recorded(safe, requests);
    let cursor = at_end(&trace);
    for (text, why) in [
        ("k0", "write 0 is durable"),
        ("k4", "write 4 is durable"),
        ("k9", "write 9 has not begun"),
        ("k2-9", "write 9 has not begun"),
        ("k18446744073709551615", "has not begun"),
        ("k1h2", "1 granules, none at 2"),
        ("k1o1", "1 granules, none at 1"),
        ("k1g", "old or new"),
        ("k1,p1x1", "no pack"),
        ("k1,b1", "open barriers is 0"),
        ("k1,f1", "no FIFO"),
        ("k1,c1", "damages no other"),
    ] {
        let choice: Choice = text.parse().expect(text);
        let error = cursor.state(&choice).expect_err(text);
        assert!(error.why.contains(why), "{text}: {error}");
        assert_eq!(cursor.content_hash(&choice), Err(error.clone()));
        assert_eq!(cursor.describe(&choice), Err(error));
    }
    assert!(cursor.state(&"k1-3".parse().unwrap()).is_ok());
}

#[test]
fn a_pack_in_flight_and_a_barrier_say_how_far_they_are() {
    let entry = |n: u64| PackedWrite {
        lba: lba(n),
        pieces: vec![Piece {
            class: Class::Data,
            bytes: block(n),
        }],
        fua: true,
    };
    let mut requests: Vec<Request> = vec![write(20, Class::Data), Request::barrier()];
    requests.push(Request::pack((0..4).map(entry).collect()));
    let trace = recorded(caps(), requests);
    let mut cursor = trace.cursor();
    cursor.seek(Time(trace.steps[2].end.0 - 1));
    let kept = |text: &str| {
        let image = cursor.state(&text.parse().expect(text));
        image.map(|i| i.blocks().map(|(n, _)| n).collect::<Vec<u64>>())
    };
    assert_eq!(kept("k,p1x2"), Ok(vec![0, 1]));
    assert_eq!(kept("k3,p1x2"), Ok(vec![0, 1, 2]));
    assert_eq!(kept("l,p1x0"), Ok(vec![0, 20]));
    assert_eq!(kept("k,b1"), Ok(vec![20]));
    for (text, why) in [
        ("k4,p1x2", "lost for sure"),
        ("k1,p1x2", "on the medium for sure"),
        ("k,p1x5", "4 entries"),
        ("k,p0x1", "no pack"),
        ("k,b2", "open barriers is 1"),
    ] {
        let error = kept(text).expect_err(text);
        assert!(error.why.contains(why), "{text}: {error}");
    }
}

#[test]
fn a_remap_is_named_by_its_first_part() {
    let pair = |home, src| RemapPair::new(lba(home), lba(src), 4096);
    let remap = Remap {
        pairs: vec![pair(0, 8), pair(1, 9)],
        mode: RemapMode::Move,
        ..Remap::default()
    };
    let log = [8, 9].map(|n| Request::write_fua(lba(n), Class::JournalMetadata, block(n)));
    let mut requests = log.to_vec();
    requests.extend([
        write(4, Class::Data),
        Request::remap(remap),
        write(0, Class::Data),
    ]);
    // Writes 0 and 1 are the log, 2 is data, 3 to 5 the REMAP (the sources are one run), 6 the
    // write to a home of it.
    let safe = Caps {
        tear_granule: Some(4096),
        no_collateral: true,
        ..caps()
    };
    let trace = recorded(safe, requests);
    let cursor = at_end(&trace);
    let blocks = |text: &str| {
        let image = cursor.image(&text.parse().expect(text));
        [0, 1, 4, 8, 9].map(|n| (0..10).find(|of| image.block(n) == block(*of)))
    };
    let gone = None;
    assert_eq!(blocks("k3"), [Some(8), Some(9), gone, gone, gone]);
    assert_eq!(blocks("l3"), [Some(0), gone, Some(4), Some(8), Some(9)]);
    assert_eq!(blocks("k2-3"), [Some(8), Some(9), Some(4), gone, gone]);
    assert_eq!(blocks("k6"), [Some(0), gone, gone, Some(8), Some(9)]);
    for (text, why) in [
        ("k4", "write 4 is a part of the REMAP at write 3"),
        ("k2-5", "write 5 is a part of the REMAP at write 3"),
        ("k3h2", "1 granules, none at 2"),
        ("k3g", "old or new"),
    ] {
        let error = cursor.state(&text.parse().expect(text)).expect_err(text);
        assert!(error.why.contains(why), "{text}: {error}");
    }
    // Three things to choose about: eight states, and no torn ones.
    let all = cursor.choices(&bound(Mode::Exhaustive, false));
    let hashes: BTreeSet<u64> = all
        .iter()
        .map(|c| cursor.content_hash(c).expect("it was named"))
        .collect();
    assert_eq!((all.len(), hashes.len()), (8, 8), "{all:?}");
    let fates = cursor.describe(&"k3".parse().unwrap()).unwrap();
    let fates: Vec<_> = fates.into_iter().filter(|f| f.0 == 3).collect();
    assert_eq!(fates, vec![(3, WriteFate::Kept); 3]);
}

#[test]
fn what_lies_beyond_the_bound_is_counted() {
    let trace = recorded(caps(), (0..9).map(|n| write(n, Class::Data)).collect());
    let cursor = at_end(&trace);
    for mode in [
        Mode::Linear,
        Mode::Random(40),
        Mode::Bounded,
        Mode::Exhaustive,
    ] {
        let all = bound(mode, false);
        let names = cursor.choices(&all);
        let distinct: BTreeSet<&Choice> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "enumerate-C2: {mode:?}");
        let hashes: BTreeSet<u64> = names
            .iter()
            .map(|c| cursor.content_hash(c).expect("it was named"))
            .collect();
        if !matches!(mode, Mode::Random(_)) {
            assert_eq!(hashes.len(), names.len(), "enumerate-C2: {mode:?}");
        }
        for states_max in [1, 2, 5, 20, 30, 100, 1 << 20] {
            let less = Bound { states_max, ..all };
            let counted = cursor.counted(&less);
            let sum = counted.enumerated + counted.pruned + counted.beyond;
            assert_eq!(
                sum,
                names.len() as u64,
                "enumerate-C3: {mode:?}, {states_max}"
            );
            let some = cursor.choices(&less);
            assert_eq!(some[..], names[..some.len()], "enumerate-C4: {mode:?}");
            assert_eq!(some.len(), names.len().min(states_max as usize));
        }
    }
    // 9 writes: all subsets, and one torn in some way with all subsets of the others.
    let all = Bound {
        subset_max: 9,
        ..bound(Mode::Exhaustive, false)
    };
    let forms = 10;
    let collateral = 9;
    let sum = (1 << 9) + 9 * forms * (1 << 8) + collateral;
    assert_eq!(cursor.counted(&all).enumerated, sum);
}

/// The states that pruning leaves out of all pairs of open writes, at the end of a run.
fn pruned(requests: Vec<Request>) -> u64 {
    let trace = recorded(caps(), requests);
    let cursor = at_end(&trace);
    let (with, without) = (
        cursor.counted(&bound(Mode::Bounded, true)),
        cursor.counted(&bound(Mode::Bounded, false)),
    );
    assert_eq!(
        with.enumerated + with.pruned,
        without.enumerated,
        "enumerate-C3: {with:?} {without:?}"
    );
    assert_eq!((with.beyond, without.pruned), (0, 0));
    with.pruned
}

fn log(n: u64) -> Vec<Request> {
    let class = |i| match i {
        0 => Class::JournalDescriptor,
        _ => Class::JournalMetadata,
    };
    (0..n).map(|i| write(100 + i, class(i))).collect()
}

/// The blocks of the log at home.
fn home(n: u64) -> Vec<Request> {
    (1..n)
        .map(|i| Request::write(lba(i), Class::Home, block(100 + i)))
        .collect()
}

fn commit(class: Class) -> Request {
    Request::write_fua(lba(120), class, block(120))
}

#[test]
fn the_log_is_pruned_only_where_no_promise_stands_behind_it() {
    assert!(pruned(log(6)) > 30, "prune-P1");
    for class in [
        Class::JournalCommit,
        Class::Coalition,
        Class::JournalSuperblock,
    ] {
        // Without the flush, the commit is durable before the log blocks that it vouches for.
        assert_eq!(
            pruned([log(6), vec![commit(class)]].concat()),
            0,
            "prune-P1"
        );
    }
    let data = (0..6).map(|n| write(n, Class::Data)).collect();
    assert_eq!(pruned(data), 0, "prune-P6");
    let mixed = |n: u64| Request {
        op: varve_blockdev::Op::Write {
            lba: lba(3 * n),
            pieces: [Class::JournalMetadata, Class::Data]
                .map(|class| Piece {
                    class,
                    bytes: block(n),
                })
                .to_vec(),
            fua: false,
        },
    };
    assert_eq!(pruned((0..6).map(mixed).collect()), 0, "prune-P6");
}

#[test]
fn home_is_pruned_only_where_the_durable_log_holds_it() {
    let committed = |flush: bool| {
        let flush = flush.then(Request::flush).into_iter().collect();
        [log(6), flush, vec![commit(Class::JournalCommit)]].concat()
    };
    assert!(pruned([committed(true), home(6)].concat()) > 10, "prune-P2");
    let early = [committed(false), home(6)].concat();
    assert_eq!(pruned(early), 0, "prune-P2: log blocks are open");
    let uncommitted = [log(6), vec![Request::flush()], home(6)].concat();
    assert_eq!(pruned(uncommitted), 0, "prune-P2: no commit");
    let superblock = Request::write_fua(lba(99), Class::JournalSuperblock, block(99));
    let freed = [committed(true), vec![superblock], home(6)].concat();
    assert_eq!(
        pruned(freed),
        0,
        "prune-P2: the place in the log may be free"
    );
    let other = (1..6).map(|n| write(n, Class::Home)).collect();
    assert_eq!(
        pruned([committed(true), other].concat()),
        0,
        "prune-P2: other content"
    );
}

#[test]
fn pruning_keeps_singles_prefixes_and_groups() {
    let requests = [log(12), vec![write(1, Class::Data), write(2, Class::Data)]].concat();
    let trace = recorded(caps(), requests);
    let cursor = at_end(&trace);
    let kept = |choice: &Choice| -> Vec<bool> {
        let image = cursor.image(choice);
        let blocks = (100..112).chain(1..3);
        blocks.map(|n| image.block(n) == block(n)).collect()
    };
    // 2^14 subsets, of which 4 for data times all, none, 12 lost, 12 kept, half.
    let all = Bound {
        subset_max: 14,
        torn_max: 0,
        ..bound(Mode::Exhaustive, true)
    };
    let counted = cursor.counted(&all);
    let sum = counted.enumerated + counted.pruned;
    assert_eq!(sum, (1 << 14) + 14, "enumerate-C3: {counted:?}");
    let states: BTreeSet<Vec<bool>> = cursor.choices(&all).iter().map(kept).collect();
    for data in 0..4 {
        for i in 0..12 {
            let with = |log: &dyn Fn(usize) -> bool| -> Vec<bool> {
                let log = (0..12).map(log);
                log.chain([data & 1 == 1, data & 2 == 2]).collect()
            };
            for state in [
                with(&|_| true),
                with(&|_| false),
                with(&|n| n == i),
                with(&|n| n != i),
                with(&|n| n < 6),
            ] {
                assert!(states.contains(&state), "prune-P3: {state:?}");
            }
        }
    }
    for i in 0..14 {
        let prefix: Vec<bool> = (0..14).map(|n| n < i).collect();
        assert!(states.contains(&prefix), "prune-P4: {i}");
    }
    assert!(counted.enumerated < 150, "{counted:?}");
}

/// In every mode, however many of the open writes are in the group.
#[test]
fn no_bound_leaves_a_prefix_out() {
    for (group, data) in (3..=9).flat_map(|n| (0..4).map(move |data| (n, data))) {
        let data = (1..=data).map(|n| write(n, Class::Data));
        let requests: Vec<Request> = log(group).into_iter().chain(data).collect();
        let n = requests.len();
        let trace = recorded(caps(), requests.clone());
        let cursor = at_end(&trace);
        let places: Vec<u64> = requests.iter().map(|r| r.spans()[0].0.0 / 8).collect();
        let oldest = cursor.image(&Choice::Oldest);
        let kept = |choice: &Choice| -> Vec<bool> {
            let image = cursor.image(choice);
            let places = places.iter();
            places
                .map(|b| image.block(*b) != oldest.block(*b))
                .collect()
        };
        for mode in [Mode::Linear, Mode::Bounded, Mode::Exhaustive] {
            let what = format!("{mode:?}, {group} of {n}");
            let pruned = Bound {
                torn_max: 0,
                ..bound(mode, true)
            };
            let names = cursor.choices(&pruned);
            let states: BTreeSet<Vec<bool>> = names.iter().map(kept).collect();
            for i in 0..=n {
                let prefix: Vec<bool> = (0..n).map(|k| k < i).collect();
                assert!(states.contains(&prefix), "prune-P4: {i}, {what}");
            }
            let distinct: BTreeSet<&Choice> = names.iter().collect();
            assert_eq!(distinct.len(), names.len(), "enumerate-C2: {what}");
            let all = Bound {
                prune: false,
                ..pruned
            };
            // Of few open writes, "all subsets" without pruning is more than the bound of pairs.
            if mode == Mode::Exhaustive {
                continue;
            }
            let want = cursor.counted(&all).enumerated;
            for states_max in [1, 5, 9, 14, 20, 30, 60, 1 << 20] {
                let some = cursor.counted(&Bound {
                    states_max,
                    ..pruned
                });
                let sum = some.enumerated + some.pruned + some.beyond;
                assert_eq!(sum, want, "enumerate-C3: {what}, {states_max}");
            }
        }
    }
}
