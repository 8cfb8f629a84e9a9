//! Rules nand-N1 to nand-N3, wear, timing and forks.

use crate::at;
use base::{Bytes, Time, fill};
use varve_nand::{BlockId, Cell, Geometry, Media, Nand, NandError, Page, Pairing, SlcMode, Timing};

const GEOMETRY: Geometry = Geometry {
    channels: 1,
    dies_per_channel: 2,
    planes: 1,
    blocks_per_plane: 4,
    pages_per_block: 4,
    page_bytes: 4096,
    spare_bytes: 32,
    nop: 1,
    endurance: 8,
    pairing: Pairing::None,
};
const TIMING: Timing = Timing {
    read_us: 50.0,
    program_us: 800.0,
    erase_us: 3000.0,
    bus_ns_per_byte: 5.0,
    program_bus_ns_per_byte: None,
    spare_on_bus: true,
    cache_program: true,
    bus_gaps: false,
};

fn page(byte: u8) -> Page {
    Page::new(vec![fill::filled(byte, 4096)], Bytes::new())
}

fn rule(result: Result<varve_nand::Span, NandError>) -> &'static str {
    match result {
        Err(NandError::Rule { rule, .. }) => rule
            .split(':')
            .next()
            .expect("a rule begins with its label"),
        other => panic!("expected a broken rule, got {other:?}"),
    }
}

#[test]
fn rules_are_enforced() {
    let mut n = Nand::new(Media::blank(GEOMETRY), TIMING);
    n.program(Time(0), at(0, 1), page(1)).unwrap();
    assert_eq!(rule(n.program(Time(0), at(0, 1), page(1))), "nand-N1");
    assert_eq!(rule(n.program(Time(0), at(0, 0), page(1))), "nand-N2");
    n.program(Time(0), at(0, 3), page(1)).unwrap();
    n.erase(Time(0), BlockId(0)).unwrap();
    n.program(Time(0), at(0, 0), page(2)).unwrap();
    n.mark_bad(BlockId(1));
    assert_eq!(rule(n.program(Time(0), at(1, 0), page(1))), "nand-N3");
    assert_eq!(rule(n.erase(Time(0), BlockId(1))), "nand-N3");
    assert_eq!(rule(n.program(Time(0), at(99, 0), page(1))), "nand-N0");
    let big = Page::new(vec![fill::zeros(4096), fill::zeros(1)], Bytes::new());
    assert_eq!(rule(n.program(Time(0), at(2, 0), big)), "nand-N0");
}

#[test]
fn single_bit_parts_allow_partial_programs_that_only_clear_bits() {
    let mut n = Nand::new(Media::blank(Geometry { nop: 2, ..GEOMETRY }), TIMING);
    n.program(
        Time(0),
        at(0, 0),
        Page::new(vec![fill::filled(0x0F, 512)], Bytes::new()),
    )
    .unwrap();
    n.program(Time(0), at(0, 0), page(0xFC)).unwrap();
    let Cell::Written(got) = n.peek(at(0, 0)) else {
        panic!("not written")
    };
    assert_eq!((got.slice(0, 1)[0], got.slice(512, 1)[0]), (0x0C, 0xFC));
    assert_eq!(rule(n.program(Time(0), at(0, 0), page(0))), "nand-N1");
}

/// A cut tore the page, or lost its data; what was left cannot be told from what is programmed over
/// it.
#[test]
fn a_second_program_mends_no_page() {
    let geometry = Geometry { nop: 2, ..GEOMETRY };
    for data_only in [false, true] {
        let mut n = Nand::new(Media::blank(geometry), TIMING);
        let span = n.program(Time(0), at(0, 0), page(0xFF)).unwrap();
        let mut media = n.power_off(span.end, 1);
        match data_only {
            true => media.lose_data(at(0, 0)),
            false => media.damage(at(0, 0)),
        }
        let mut n = Nand::new(media, TIMING);
        n.program(Time(0), at(0, 0), page(0x0F)).unwrap();
        let cell = n.peek(at(0, 0));
        match data_only {
            true => assert!(matches!(cell, Cell::SpareOnly(_)), "nand-N1: {cell:?}"),
            false => assert!(matches!(cell, Cell::Torn), "nand-N1: {cell:?}"),
        }
    }
}

/// A second program that a cut undoes does not make a page last longer.
#[test]
fn an_undone_program_leaves_a_marginal_page_marginal() {
    let geometry = Geometry { nop: 2, ..GEOMETRY };
    let mut n = Nand::new(Media::blank(geometry), TIMING);
    let span = n.program(Time(0), at(0, 0), page(0xFF)).unwrap();
    let mut media = n.power_off(span.end, 1);
    media.make_unstable(at(0, 0), 1);
    let mut n = Nand::new(media, TIMING);
    let span = n.program(Time(0), at(0, 0), page(0x0F)).unwrap();
    let mut n = Nand::new(n.power_off(Time(span.start.0 - 1), 1), TIMING);
    let mut reads = || n.read(Time(0), at(0, 0), 1).0;
    assert!(matches!(reads(), Cell::Written(_)));
    assert!(matches!(reads(), Cell::Torn), "nand-N5");
}

/// Of a block that the erase before was the first to touch, too.
#[test]
fn a_mark_survives_every_cut() {
    for touched in [false, true] {
        for share in [0, 1, 2, 3] {
            let mut n = Nand::new(Media::blank(GEOMETRY), TIMING);
            if touched {
                n.program(Time(0), at(1, 0), page(1)).unwrap();
                n.settle();
            }
            let erase = n.erase(Time(100), BlockId(1)).unwrap();
            n.fail_next_program(BlockId(1));
            let failed = n.program(Time(100), at(1, 0), page(2));
            assert!(matches!(failed, Err(NandError::Failed { .. })));
            n.mark_bad(BlockId(1));
            // Before the erase, at its begin, in it and at its end.
            let cut = [0, erase.start.0 + 1, erase.start.0 + 900_000, erase.end.0][share];
            let media = n.power_off(Time(cut), 7);
            assert!(media.is_bad(BlockId(1)), "touched: {touched}, cut at {cut}");
        }
    }
}

#[test]
fn blocks_wear_out_near_their_rating() {
    let mut n = Nand::new(Media::blank(GEOMETRY), TIMING);
    let erased = (0..100)
        .take_while(|_| n.erase(Time(0), BlockId(3)).is_ok())
        .count();
    assert!((8..=10).contains(&erased), "{erased}");
}

#[test]
fn injected_failures_come_once() {
    let mut n = Nand::new(Media::blank(GEOMETRY), TIMING);
    n.fail_next_program(BlockId(0));
    assert!(matches!(
        n.program(Time(0), at(0, 0), page(1)),
        Err(NandError::Failed { .. })
    ));
    assert!(matches!(n.peek(at(0, 0)), Cell::Torn));
    n.program(Time(0), at(0, 1), page(1)).unwrap();
    n.fail_next_erase(BlockId(0));
    assert!(matches!(
        n.erase(Time(0), BlockId(0)),
        Err(NandError::Failed { .. })
    ));
    assert!(
        matches!(n.peek(at(0, 1)), Cell::Written(_)),
        "a failed erase keeps the content"
    );
}

#[test]
fn dies_work_side_by_side_and_share_the_bus() {
    let mut n = Nand::new(Media::blank(GEOMETRY), TIMING);
    let a = n.program(Time(0), at(0, 0), page(1)).unwrap();
    let b = n.program(Time(0), at(1, 0), page(1)).unwrap();
    let c = n.program(Time(0), at(0, 1), page(1)).unwrap();
    let bus = 4096 * 5;
    assert_eq!((a.start.0, a.end.0), (bus, bus + 800_000));
    assert_eq!(b.start.0, 2 * bus, "the bus is busy, the die is not");
    assert_eq!(c.start, a.end, "nand-N4: the die is busy");
    let (_, end) = n.read(Time(10_000_000), at(1, 0), 4096);
    assert_eq!(end.0, 10_000_000 + 50_000 + bus);
}

#[test]
fn without_a_second_page_register_a_program_waits_for_the_one_before_it() {
    for (cache_program, end) in [(true, 20 + 3 * 100), (false, 3 * 120)] {
        let timing = Timing {
            program_us: 100.0,
            bus_ns_per_byte: 20_000.0 / 512.0,
            spare_on_bus: false,
            cache_program,
            ..TIMING
        };
        let mut n = Nand::new(Media::blank(GEOMETRY), timing);
        let page = || Page::new(vec![fill::filled(1, 512)], Bytes::new());
        let spans = (0..3).map(|i| n.program(Time(0), at(0, i), page()).unwrap());
        assert_eq!(spans.last().unwrap().end, Time(end * 1000));
    }
}

#[test]
fn reads_and_programs_may_differ_on_the_bus() {
    let nandsim = Timing {
        read_us: 25.0,
        program_us: 100.0,
        erase_us: 2000.0,
        bus_ns_per_byte: 25_000.0 / 512.0,
        program_bus_ns_per_byte: Some(20_000.0 / 512.0),
        spare_on_bus: false,
        cache_program: true,
        bus_gaps: false,
    };
    let page = || Page::new(vec![fill::filled(1, 512)], Bytes::from(vec![7; 8]));
    let mut n = Nand::new(Media::blank(GEOMETRY), nandsim);
    let span = n.program(Time(0), at(0, 0), page()).unwrap();
    assert_eq!((span.start.0, span.end.0), (20_000, 120_000));
    let (_, end) = n.read(span.end, at(0, 0), 512);
    assert_eq!(end.0 - span.end.0, 50_000);
    let spare = Timing {
        spare_on_bus: true,
        ..nandsim
    };
    let mut n = Nand::new(Media::blank(GEOMETRY), spare);
    let span = n.program(Time(0), at(0, 0), page()).unwrap();
    assert_eq!(span.start.0, 520 * 20_000 / 512);
    let bad = Timing {
        program_bus_ns_per_byte: Some(-1.0),
        ..nandsim
    };
    let why = bad.check().unwrap_err();
    assert!(why.contains("program_bus_ns_per_byte"), "{why}");
}

#[test]
fn a_fork_is_cheap_and_apart_and_hashes_follow_content() {
    let mut n = Nand::new(Media::blank(GEOMETRY), TIMING);
    n.program(Time(0), at(0, 0), page(1)).unwrap();
    let media = n.clone().power_off(Time(1 << 40), 0);
    n.program(Time(0), at(0, 1), page(2)).unwrap();
    let later = n.power_off(Time(1 << 40), 0);
    assert!(matches!(media.cell(at(0, 1)), Cell::Erased));
    assert!(matches!(later.cell(at(0, 1)), Cell::Written(_)));
    assert_ne!(media.content_hash(), later.content_hash());
    let mut again = Nand::new(media, TIMING);
    again.program(Time(0), at(0, 1), page(2)).unwrap();
    assert_eq!(
        again.power_off(Time(1 << 40), 0).content_hash(),
        later.content_hash()
    );
}

#[test]
fn bad_geometry_is_named() {
    assert!(GEOMETRY.check().is_ok() && TIMING.check().is_ok());
    assert!(
        Geometry {
            pages_per_block: 0,
            ..GEOMETRY
        }
        .check()
        .unwrap_err()
        .contains("pages_per_block")
    );
    assert!(
        Geometry {
            page_bytes: 3000,
            ..GEOMETRY
        }
        .check()
        .is_err()
    );
    assert!(
        Timing {
            read_us: f64::NAN,
            ..TIMING
        }
        .check()
        .unwrap_err()
        .contains("read_us")
    );
}

#[test]
fn blocks_in_slc_mode_are_faster_live_longer_and_have_fewer_pages() {
    let mut nand = Nand::new(Media::blank(GEOMETRY), TIMING);
    nand.set_slc(SlcMode {
        first: BlockId(2),
        blocks: 2,
        pages: 2,
        read_us: 25.0,
        program_us: 250.0,
        erase_us: 1500.0,
        endurance: 100,
    });
    // 4096 bytes cross the bus in 20.48 us in either mode.
    for (block, read, program, erase) in [(0, 50, 800, 3000), (2, 25, 250, 1500)] {
        let start = nand.all_free();
        let span = nand.program(start, at(block, 0), page(1)).unwrap();
        assert_eq!(span.end.0 - start.0, 20_480 + program * 1000, "tPROG");
        let (_, end) = nand.read(span.end, at(block, 0), 4096);
        assert_eq!(end.0 - span.end.0, 20_480 + read * 1000, "tR");
        let span = nand.erase(end, BlockId(block)).unwrap();
        assert_eq!(span.end.0 - end.0, erase * 1000, "tBERS");
    }
    let now = nand.all_free();
    for block in [1, 4] {
        nand.program(now, at(block, 2), page(1)).unwrap();
    }
    assert_eq!(rule(nand.program(now, at(2, 2), page(1))), "nand-N0");
    let erases = |nand: &mut Nand, block| {
        let done = (0..200).take_while(|_| nand.erase(now, BlockId(block)).is_ok());
        done.count()
    };
    assert!(erases(&mut nand, 0) < 11, "8 to 10 by the rating of 8");
    assert!((99..=125).contains(&erases(&mut nand, 2)), "100 and more");
}
