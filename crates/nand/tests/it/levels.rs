//! The rows of the fault table at levels L2 and L3; bit errors; wear; planes and word lines.

use crate::{MLC, TIMING, at};
use base::{Bytes, Nanos, Time, fill};
use std::collections::{BTreeMap, BTreeSet};
use varve_nand::{
    BitErrors, BlockId, Cell, Cells, Ecc, FaultLevel, Geometry, Media, Nand, NandError, Page,
    PageAddr, PageOrder, Pairing, Wear,
};

fn page(byte: u8) -> Page {
    Page::new(vec![fill::filled(byte, 512)], Bytes::from(vec![byte; 8]))
}

fn chips(geometry: Geometry, cells: Cells) -> Nand {
    let mut nand = Nand::new(Media::blank(geometry), TIMING);
    nand.set_cells(cells);
    nand
}

fn again(media: Media, cells: Cells) -> Nand {
    let mut nand = Nand::new(media, TIMING);
    nand.set_cells(cells);
    nand
}

fn rule(result: Result<impl std::fmt::Debug, NandError>) -> &'static str {
    match result {
        Err(NandError::Rule { rule, .. }) => rule
            .split(':')
            .next()
            .expect("a rule begins with its label"),
        other => panic!("expected a broken rule, got {other:?}"),
    }
}

/// How often a page reads well while the power stays on, and what it is afterwards.
fn reads_well(nand: &mut Nand, at: PageAddr) -> (u32, &'static str) {
    for n in 0..200 {
        match nand.read(nand.all_free(), at, 512).0 {
            Cell::Written(_) => {}
            Cell::Erased => return (n, "erased"),
            Cell::SpareOnly(_) => return (n, "spare only"),
            Cell::Torn => return (n, "torn"),
        }
    }
    (200, "stable")
}

/// Programs pages 0 to `last` of block 0 and cuts inside the last; answers what each read shows.
fn torn(
    geometry: Geometry,
    level: FaultLevel,
    last: u32,
    part: u64,
    seed: u64,
) -> (Nand, PageAddr) {
    let cells = Cells::at(level);
    let mut nand = chips(geometry, cells);
    let mut span = nand.program(Time(0), at(0, 0), page(1)).unwrap();
    for p in 1..=last {
        span = nand.program(Time(0), at(0, p), page(1 + p as u8)).unwrap();
    }
    let cut = Time(span.start.0 + (span.end.0 - span.start.0) * part / 100);
    (again(nand.power_off(cut, seed), cells), at(0, last))
}

#[test]
fn a_torn_page_may_look_good_at_l2_and_above() {
    let mut seen: BTreeMap<(FaultLevel, &str), u32> = BTreeMap::new();
    for level in FaultLevel::ALL {
        for seed in 0..400 {
            let (mut nand, last) = torn(MLC, level, 1, 50, seed);
            let spare_torn = matches!(nand.peek(last), Cell::Written(p) if p.spare()[..] != [2; 8]);
            let what = match reads_well(&mut nand, last) {
                (0, what) => what,
                _ if spare_torn => "spare torn",
                (1..=4, _) => "unstable",
                (16..=63, _) => "clean-looking",
                other => panic!("{other:?}"),
            };
            *seen.entry((level, what)).or_default() += 1;
        }
    }
    let got = |level, what| seen.get(&(level, what)).copied().unwrap_or(0);
    assert_eq!(got(FaultLevel::L1, "torn"), 400, "L1 is clean");
    for level in [FaultLevel::L2, FaultLevel::L3] {
        assert!((90..200).contains(&got(level, "torn")), "{seen:?}");
        assert!((70..200).contains(&got(level, "spare only")), "{seen:?}");
        assert!((60..140).contains(&got(level, "unstable")), "{seen:?}");
        assert!((5..45).contains(&got(level, "clean-looking")), "{seen:?}");
    }
    assert_eq!(got(FaultLevel::L2, "spare torn"), 0);
    assert!(got(FaultLevel::L3, "spare torn") > 10, "{seen:?}");
}

#[test]
fn an_unstable_page_is_gone_at_the_mount_after_the_next() {
    let mut unstable = 0;
    for seed in 0..200 {
        let (nand, last) = torn(MLC, FaultLevel::L2, 1, 50, seed);
        if !matches!(nand.peek(last), Cell::Written(_)) {
            continue;
        }
        let media = nand.power_off(Time(0), 1);
        assert!(
            matches!(media.cell(last), Cell::Written(_)),
            "reads do the harm"
        );
        let nand = again(media, Cells::at(FaultLevel::L2));
        assert!(matches!(nand.peek(last), Cell::Torn));
        unstable += 1;
    }
    assert!(unstable > 40);
}

#[test]
fn the_earlier_page_of_the_word_line_falls_with_the_later_at_l3_only() {
    for (table, lower, upper) in [(Pairing::Dist3, 1, 4), (Pairing::Shadow6, 2, 8)] {
        let geometry = Geometry {
            pairing: table,
            ..MLC
        };
        for level in FaultLevel::ALL {
            let (mut lost, mut unstable, mut fine) = (0, 0, 0);
            for seed in 0..200 {
                let (mut nand, _) = torn(geometry, level, upper, 50, seed);
                for page in (0..upper).filter(|p| *p != lower) {
                    // A brown-out leaves at least that many.
                    let reads = reads_well(&mut nand, at(0, page)).0;
                    assert!(reads >= 24, "page {page} after {reads}");
                }
                match reads_well(&mut nand, at(0, lower)) {
                    (0, _) => lost += 1,
                    (1..=8, _) => unstable += 1,
                    _ => fine += 1,
                }
            }
            if level < FaultLevel::L3 {
                assert_eq!((lost, unstable, fine), (0, 0, 200), "{table:?} {level:?}");
            } else {
                assert!(
                    lost > 30 && unstable > 30 && fine > 70,
                    "{lost} {unstable} {fine}"
                );
            }
        }
    }
}

#[test]
fn a_block_in_slc_mode_has_no_pairs() {
    for seed in 0..100 {
        let cells = Cells::at(FaultLevel::L3);
        let mut nand = chips(MLC, cells);
        nand.set_slc(varve_nand::SlcMode {
            first: BlockId(0),
            blocks: 1,
            pages: 12,
            read_us: 5.0,
            program_us: 100.0,
            erase_us: 300.0,
            endurance: 100,
        });
        let spans: Vec<_> = (0..5)
            .map(|p| nand.program(Time(0), at(0, p), page(p as u8)).unwrap())
            .collect();
        let mut next = again(nand.power_off(Time(spans[4].end.0 - 50_000), seed), cells);
        assert!((0..3).all(|p| reads_well(&mut next, at(0, p)).0 >= 24));
    }
}

#[test]
fn complete_pages_are_marginal_at_l3() {
    let well = |level, part| {
        let lives = (0..400).map(|seed| {
            let (mut nand, last) = torn(MLC, level, 1, part, seed);
            reads_well(&mut nand, last).0
        });
        lives.filter(|n| (1..=8).contains(n)).count()
    };
    assert_eq!(well(FaultLevel::L1, 97), 0);
    let marginal = well(FaultLevel::L3, 97);
    assert!(
        (20..70).contains(&marginal),
        "{marginal} of 400, one in ten"
    );
}

#[test]
fn a_brown_out_weakens_the_last_programs_that_had_ended() {
    let mut weak = [0; 3];
    for seed in 0..400 {
        let cells = Cells::at(FaultLevel::L3);
        let mut nand = chips(MLC, cells);
        let spans: Vec<_> = (0..5)
            .map(|p| nand.program(Time(0), at(0, p), page(p as u8)).unwrap())
            .collect();
        let cut = Time(spans[4].end.0 + 7);
        // The result must not depend on how far the log was trimmed.
        let other = nand.clone().power_off(cut, seed).content_hash();
        nand.advance(spans[3].end);
        let media = nand.power_off(cut, seed);
        assert_eq!(media.content_hash(), other);
        let mut next = again(media, cells);
        for p in 0..3 {
            assert_eq!(reads_well(&mut next, at(0, p)).1, "stable");
        }
        for (n, p) in [(1, 4), (2, 3)] {
            match reads_well(&mut next, at(0, p)) {
                (24..=63, _) => weak[n] += 1,
                (reads, what) => assert_eq!(what, "stable", "after {reads}"),
            }
        }
    }
    assert!(weak[1] > 20 && weak[2] > 5 && weak[1] > weak[2], "{weak:?}");
    // Only reads wear it off.
    let mut media = Media::blank(MLC);
    let mut nand = Nand::new(media.clone(), TIMING);
    nand.program(Time(0), at(0, 0), page(1)).unwrap();
    media = nand.power_off(Time(1 << 40), 0);
    media.make_unstable(at(0, 0), 3);
    for _ in 0..5 {
        media = Nand::new(media, TIMING).power_off(Time(0), 0);
    }
    let mut nand = Nand::new(media, TIMING);
    let (_, _, said) = nand.sense(Time(0), at(0, 0), 512);
    assert!(said.refresh, "a marginal page says so while it can be read");
    assert_eq!(reads_well(&mut nand, at(0, 0)), (2, "torn"));
}

#[test]
fn a_cut_erase_may_look_complete_and_leaves_a_weak_block() {
    let mut seen = BTreeSet::new();
    let mut good = 0;
    for seed in 0..200 {
        let cells = Cells {
            seed,
            ..Cells::at(FaultLevel::L2)
        };
        let mut nand = chips(MLC, cells);
        for p in 0..4 {
            nand.program(Time(0), at(0, p), page(p as u8)).unwrap();
        }
        let span = nand.erase(Time(0), BlockId(0)).unwrap();
        let mut next = again(nand.power_off(Time(span.end.0 - 100_000), seed), cells);
        let looks = (0..4).map(|p| reads_well(&mut next, at(0, p)));
        let looks: Vec<_> = looks.collect();
        if looks.iter().all(|l| *l == (0, "erased")) {
            seen.insert("complete");
        }
        for look in looks {
            seen.insert(match look {
                (1..=4, _) => "unstable",
                (0, what) => what,
                _ => "old",
            });
        }
        next.program(next.all_free(), at(0, 9), page(9)).unwrap();
        match reads_well(&mut next, at(0, 9)) {
            (200, _) => panic!("a weak block must not be trusted"),
            (n, _) => good += u32::from(n > 0),
        }
    }
    let want = [
        "complete",
        "erased",
        "old",
        "spare only",
        "torn",
        "unstable",
    ];
    assert_eq!(seen, BTreeSet::from(want));
    assert!((10..80).contains(&good), "{good} of 200 programs look good");
}

#[test]
fn a_word_line_of_three_bits_is_one_operation() {
    let tlc = Geometry {
        pairing: Pairing::OneShotTlc,
        ..MLC
    };
    let line = || vec![page(1), page(2), page(3)];
    let mut nand = chips(tlc, Cells::default());
    assert_eq!(rule(nand.program(Time(0), at(0, 0), page(1))), "nand-N6");
    assert_eq!(
        rule(nand.program_word_line(Time(0), at(0, 1), line())),
        "nand-N6"
    );
    let short = vec![page(1)];
    assert_eq!(
        rule(nand.program_word_line(Time(0), at(0, 0), short)),
        "nand-N6"
    );
    let span = nand.program_word_line(Time(0), at(0, 0), line()).unwrap();
    assert_eq!(span.end.0 - span.start.0, 100_000, "one tPROG");
    assert_eq!(span.start.0, 3 * 520, "three transfers");
    assert_eq!(
        rule(nand.program_word_line(Time(0), at(0, 0), line())),
        "nand-N2"
    );
    for level in FaultLevel::ALL {
        for seed in 0..100 {
            let mut nand = chips(tlc, Cells::at(level));
            nand.program_word_line(Time(0), at(0, 0), line()).unwrap();
            let span = nand.program_word_line(Time(0), at(0, 3), line()).unwrap();
            let mut next = again(
                nand.power_off(Time(span.end.0 - 50_000), seed),
                Cells::at(level),
            );
            assert!((0..3).all(|p| reads_well(&mut next, at(0, p)).0 >= 24));
            let looks: BTreeSet<_> = (3..6).map(|p| reads_well(&mut next, at(0, p))).collect();
            assert_eq!(looks.len(), 1, "torn as a whole: {looks:?}");
        }
    }
    let mut bad = Geometry {
        pages_per_block: 25,
        ..tlc
    };
    let why = bad.check().unwrap_err();
    assert!(
        why.contains("pages_per_block = 25") && why.contains("nand-N6"),
        "{why}"
    );
    bad = Geometry { nop: 2, ..tlc };
    assert!(bad.check().unwrap_err().contains("nop = 2"));
    bad = Geometry { planes: 3, ..MLC };
    assert!(bad.check().unwrap_err().contains("planes = 3"));
}

#[test]
fn planes_work_together_at_the_same_page() {
    let mut nand = chips(MLC, Cells::default());
    // Blocks 0 and 1 lie on different planes of the only die, 2 on the plane of 0.
    let both = |p| vec![(at(0, p), page(1)), (at(1, p), page(2))];
    let span = nand.program_planes(Time(0), both(0)).unwrap();
    assert_eq!(
        (span.start.0, span.end.0),
        (1040, 101_040),
        "the time of one program"
    );
    assert_eq!(nand.stats().programs, 2);
    let uneven = vec![(at(0, 1), page(1)), (at(1, 2), page(2))];
    assert_eq!(rule(nand.program_planes(Time(0), uneven)), "nand-N7");
    let same = vec![(at(0, 1), page(1)), (at(2, 1), page(2))];
    assert_eq!(rule(nand.program_planes(Time(0), same)), "nand-N7");
    assert_eq!(rule(nand.program_planes(Time(0), Vec::new())), "nand-N7");
    assert_eq!(rule(nand.program_planes(Time(0), both(0))), "nand-N1");
    assert!(
        matches!(nand.peek(at(1, 1)), Cell::Erased),
        "nothing happened"
    );
    let two_dies = Geometry {
        dies_per_channel: 2,
        ..MLC
    };
    let mut wide = chips(two_dies, Cells::default());
    assert_eq!(rule(wide.program_planes(Time(0), both(0))), "nand-N7");
    let start = nand.all_free();
    let span = nand.erase_planes(start, &[BlockId(0), BlockId(1)]).unwrap();
    assert_eq!(span.end.0 - start.0, 300_000);
    assert!(matches!(nand.peek(at(0, 0)), Cell::Erased) && nand.wear_of(BlockId(1)) == 1);
    assert_eq!(
        rule(nand.erase_planes(start, &[BlockId(0), BlockId(2)])),
        "nand-N7"
    );
    nand.fail_next_program(BlockId(1));
    let failed = nand.program_planes(nand.all_free(), both(0));
    assert!(matches!(failed, Err(NandError::Failed { block: 1, .. })));
    assert!(
        matches!(nand.peek(at(0, 0)), Cell::Written(_)),
        "the other plane is well"
    );
}

#[test]
fn going_back_is_counted_where_it_is_only_advised_against() {
    let mut nand = chips(
        Geometry {
            pairing: Pairing::None,
            nop: 2,
            ..MLC
        },
        Cells {
            order: PageOrder::Warn,
            ..Cells::default()
        },
    );
    nand.program(Time(0), at(0, 3), page(1)).unwrap();
    nand.program(Time(0), at(0, 1), page(1)).unwrap();
    assert_eq!(nand.stats().backward, 1);
    assert_eq!(rule(nand.program(Time(0), at(0, 1), page(1))), "nand-N1");
    nand.program(Time(0), at(0, 4), page(1)).unwrap();
    assert_eq!(nand.stats().backward, 1);
}

const ERRORS: BitErrors = BitErrors {
    floor: 1e-5,
    per_cycle: 1e-8,
    cycle_exponent: 1.3,
    per_read: 1e-7,
    per_hour: 1e-6,
    ecc: Ecc {
        codeword_bytes: 512,
        strength: 8,
    },
    reads_budget: 100_000,
};

fn with_errors(errors: BitErrors) -> Nand {
    let mut nand = chips(
        MLC,
        Cells {
            errors: Some(errors),
            seed: 5,
            ..Cells::default()
        },
    );
    nand.program(Time(0), at(0, 0), page(1)).unwrap();
    nand
}

#[test]
fn bits_flip_more_with_reads_and_age_and_the_correction_says_how_many() {
    let mut nand = with_errors(ERRORS);
    let (cell, _, said) = nand.sense(Time(0), at(0, 0), 512);
    assert!(matches!(cell, Cell::Written(_)) && said.max_bitflips < 3 && !said.refresh);
    let mut refresh = None;
    for n in 0..100_000 {
        let (cell, _, said) = nand.sense(Time(0), at(0, 0), 512);
        if said.refresh && refresh.is_none() {
            assert!(said.max_bitflips >= 6, "three quarters of 8");
            refresh = Some(n);
        }
        if matches!(cell, Cell::Torn) {
            assert!(
                refresh.is_some_and(|r| r + 500 < n),
                "told long before: {refresh:?}, {n}"
            );
            break;
        }
    }
    assert!(
        matches!(nand.peek(at(0, 0)), Cell::Torn),
        "read disturb ends it"
    );

    let nand = with_errors(ERRORS);
    let mut media = nand.power_off(Time(1 << 30), 0);
    media.shelve(Nanos(3_600_000_000_000 * 5000));
    let mut nand = again(
        media,
        Cells {
            errors: Some(ERRORS),
            ..Cells::default()
        },
    );
    let (cell, _, said) = nand.sense(Time(0), at(0, 0), 512);
    assert!(
        matches!(cell, Cell::Torn),
        "5000 hours at this rate are too many: {said:?}"
    );
    assert!(
        ERRORS.rate(3000, 0, 0.0) > 20.0 * ERRORS.rate(0, 0, 0.0),
        "cycles count"
    );

    let often = BitErrors {
        reads_budget: 10,
        per_read: 0.0,
        ..ERRORS
    };
    let mut nand = with_errors(often);
    let asked = |nand: &mut Nand| nand.sense(Time(0), at(0, 0), 512).2.refresh;
    assert!(
        (0..10).all(|_| !asked(&mut nand)) && asked(&mut nand),
        "the budget of reads"
    );
}

#[test]
fn errors_are_replayable_and_a_cut_takes_reads_back() {
    let run = |reads: u32| {
        let mut nand = with_errors(BitErrors {
            floor: 1e-3,
            ..ERRORS
        });
        let said: Vec<_> = (0..reads)
            .map(|_| nand.sense(Time(0), at(0, 0), 512).2)
            .collect();
        (nand, said)
    };
    let (_, said) = run(20);
    assert_eq!(said, run(20).1);
    assert!(said.iter().any(|s| *s != said[0]), "each read draws anew");
    // Ten reads have ended, one is under way.
    let left = |reads| run(reads).0.power_off(Time(160_000), 0).content_hash();
    assert_eq!(
        left(20),
        left(12),
        "what comes after the cut leaves no trace"
    );
    assert_ne!(left(12), left(3));
}

#[test]
fn worn_blocks_fail_in_an_erase_or_in_a_program() {
    let cells = Cells {
        wear: Some(Wear { shape: 8.0 }),
        seed: 1,
        ..Cells::default()
    };
    let small = Geometry {
        endurance: 20,
        blocks_per_plane: 16,
        ..MLC
    };
    let (mut erases, mut programs) = (0, 0);
    for block in 0..small.blocks() {
        let mut nand = chips(small, cells);
        for _ in 0..200 {
            if let Err(e) = nand.erase(Time(0), BlockId(block)) {
                assert!(matches!(e, NandError::Failed { .. }));
                erases += 1;
                break;
            }
            let wear = nand.wear_of(BlockId(block));
            if nand.program(Time(0), at(block, 0), page(1)).is_err() {
                assert!(matches!(nand.peek(at(block, 0)), Cell::Torn));
                assert!(wear > 10, "far too young at {wear}");
                programs += 1;
                break;
            }
        }
    }
    assert_eq!(erases + programs, small.blocks(), "all of them, sometime");
    assert!(erases > 5 && programs > 5, "{erases}, {programs}");
}

#[test]
fn the_factory_marks_at_most_two_percent_and_the_mark_holds() {
    let big = Geometry {
        blocks_per_plane: 1000,
        ..MLC
    };
    let mut most = 0;
    for seed in 0..20 {
        let media = Media::factory(big, seed, 0.02).unwrap();
        let (factory, grown) = media.bad_blocks();
        assert!(factory <= 40 && grown == 0);
        assert!(!media.is_bad(BlockId(0)));
        most = most.max(factory);
        let same = Media::factory(big, seed, 0.02).unwrap();
        assert_eq!(media.content_hash(), same.content_hash());
        let Some(bad) = (0..big.blocks())
            .map(BlockId)
            .find(|b| media.is_factory_bad(*b))
        else {
            continue;
        };
        let mut nand = Nand::new(media, TIMING);
        assert_eq!(rule(nand.erase(Time(0), bad)), "nand-N3");
        nand.mark_bad(BlockId(0));
        assert_eq!(nand.power_off(Time(0), 0).bad_blocks(), (factory, 1));
    }
    assert!(most > 20, "{most}");
    assert_eq!(Media::factory(big, 1, 0.0).unwrap().bad_blocks(), (0, 0));
    assert!(
        Media::factory(big, 1, 0.03)
            .err()
            .unwrap()
            .contains("factory_bad = 0.03")
    );
    assert_eq!(
        (
            MLC.mark_at(),
            Geometry {
                page_bytes: 2048,
                ..MLC
            }
            .mark_at()
        ),
        (5..6, 0..2)
    );
}

#[test]
fn values_that_make_no_cells_are_named() {
    assert!(Cells::default().check().is_ok() && with_errors(ERRORS).cells().check().is_ok());
    let bad = Cells {
        errors: Some(BitErrors {
            floor: 0.5,
            ..ERRORS
        }),
        ..Cells::default()
    };
    assert!(bad.check().unwrap_err().starts_with("errors.floor = 0.5"));
    let bad = Cells {
        wear: Some(Wear { shape: f64::NAN }),
        ..Cells::default()
    };
    assert!(bad.check().unwrap_err().starts_with("wear.shape"));
    assert_eq!("l2".parse(), Ok(FaultLevel::L2));
    assert!("l4".parse::<FaultLevel>().is_err());
}
