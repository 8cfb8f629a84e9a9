//! Random programs cut at fault levels L2 and L3, on chips with one and with two bits per cell;
//! recovery is cut, too. Nothing flushed is lost, nothing impossible appears.
//!
//! `VARVE_FTL_CUTS=N` makes N times as many lives.
// Whether to run the long form is read from the environment.
#![allow(clippy::disallowed_methods)]

use crate::common;
use base::{Rng, Time};
use common::{
    BURST, CALM, CONFIG, FAILING, GEOMETRY, Mix, Oracle, TIMING, WIDE, WIDE_CONFIG, step_of, unit,
    with_area,
};
use varve_ftl::nand::{
    BitErrors, BlockId, Cell, Cells, Ecc, FaultLevel, Geometry, Media, Nand, PageAddr, Pairing,
};
use varve_ftl::{Config, Ftl};

/// Two bits per cell, with the page pairing of the other profile.
const fn paired(geometry: Geometry, pairing: Pairing) -> Geometry {
    Geometry {
        pairing,
        pages_per_block: geometry.pages_per_block * 2,
        blocks_per_plane: geometry.blocks_per_plane + 4,
        nop: 1,
        ..geometry
    }
}

fn power_up(media: Media, cells: Cells) -> Nand {
    let mut nand = Nand::new(media, TIMING);
    nand.set_cells(cells);
    nand
}

fn fresh(geometry: Geometry, config: Config, cells: Cells) -> Ftl {
    let mut ftl = Ftl::format(power_up(Media::blank(geometry), cells), config).unwrap();
    ftl.settle();
    ftl
}

fn mount(media: Media, config: Config, cells: Cells, what: &str) -> (Ftl, Time) {
    Ftl::mount(power_up(media, cells), config, Time(0)).unwrap_or_else(|e| panic!("{what}: {e}"))
}

/// Uses, cuts and recovers one device again and again (with cuts inside recovery), and checks it
/// each time.
fn lives(geometry: Geometry, config: Config, level: FaultLevel, mix: Mix, seed: u64, count: u64) {
    let cells = Cells {
        seed,
        ..Cells::at(level)
    };
    let mut rng = Rng::named(seed, "ftl levels");
    let mut ftl = fresh(geometry, config, cells);
    let mut oracle = Oracle::default();
    let (mut now, mut id) = (Time(0), 0);
    for life in 0..count {
        for _ in 0..20 + rng.below(300) {
            id += 1;
            now = step_of(mix, &mut ftl, &mut oracle, &mut rng, now, id);
        }
        ftl.check();
        let within = 1 + rng.below(3_000_000);
        let cut = Time(now.0 + rng.below(within));
        let what = format!("{level:?}, seed {seed}, life {life}, cut at {cut}");
        let mut media = ftl.power_off(cut, rng.next_u64());
        for nested in 0..rng.below(3) {
            let (ftl, ready) = mount(media, config, cells, &format!("{what}, nested {nested}"));
            media = ftl.power_off(Time(rng.below(ready.0 + 1)), rng.next_u64());
        }
        (ftl, now) = mount(media, config, cells, &what);
        ftl.check();
        oracle = oracle.check(&ftl, cut, &what);
        // What the host has read stays, whatever happens to the pages that it came from.
        oracle.flush(Time(0));
        if rng.one_in(3) {
            let media = ftl.power_off(now, rng.next_u64());
            (ftl, now) = mount(media, config, cells, &what);
            oracle = oracle.check(&ftl, now, &format!("{what}, and once more"));
            oracle.flush(Time(0));
        }
    }
}

fn all(geometry: Geometry, config: Config, mix: Mix, seed: u64, seeds: u64, count: u64) {
    let times = std::env::var("VARVE_FTL_CUTS").map_or(1, |n| n.parse().expect("a number"));
    for level in [FaultLevel::L2, FaultLevel::L3] {
        for seed in seed..seed + seeds * times {
            lives(geometry, config, level, mix, seed, count);
        }
    }
}

#[test]
fn one_bit_per_cell() {
    all(GEOMETRY, CONFIG, CALM, 0, 10, 10);
    all(WIDE, WIDE_CONFIG, BURST, 100, 10, 8);
}

#[test]
fn two_bits_per_cell_at_distance_three() {
    all(paired(GEOMETRY, Pairing::Dist3), CONFIG, CALM, 200, 10, 10);
    all(paired(WIDE, Pairing::Dist3), WIDE_CONFIG, BURST, 300, 10, 8);
}

#[test]
fn two_bits_per_cell_at_distance_six() {
    all(
        paired(GEOMETRY, Pairing::Shadow6),
        CONFIG,
        CALM,
        400,
        10,
        10,
    );
    all(
        paired(WIDE, Pairing::Shadow6),
        WIDE_CONFIG,
        BURST,
        500,
        10,
        8,
    );
}

#[test]
fn with_an_slc_area_and_with_failing_blocks() {
    let area = with_area(CONFIG, 4);
    let roomy = Geometry {
        blocks_per_plane: 34,
        ..paired(GEOMETRY, Pairing::Dist3)
    };
    all(roomy, area, CALM, 600, 6, 8);
    let spare = Geometry {
        blocks_per_plane: 110,
        ..paired(WIDE, Pairing::Dist3)
    };
    all(spare, WIDE_CONFIG, FAILING, 700, 8, 4);
}

/// A flushed unit on the lower page of a word line, and a cut while the upper is programmed
/// (hazards-R17).
#[test]
fn a_flushed_unit_does_not_fall_with_the_next_write() {
    let geometry = paired(GEOMETRY, Pairing::Dist3);
    let cells = Cells::at(FaultLevel::L3);
    let config = Config { lanes: 1, ..CONFIG };
    for seed in 0..40 {
        let mut ftl = fresh(geometry, config, cells);
        let mut now = Time(0);
        for lpn in 0..3 {
            ftl.write(now, lpn, unit(512, lpn, 7)).unwrap();
            now = ftl.flush(now).unwrap();
        }
        let padded = ftl.stats().padded;
        assert!(padded >= 4 * 2, "a flush fills the word line: {padded}");
        for lpn in 10..14 {
            ftl.write(now, lpn, unit(512, lpn, 8)).unwrap();
        }
        let media = ftl.power_off(Time(now.0 + 70_000), seed);
        let (back, _) = mount(media, config, cells, "hazards-R17");
        for lpn in 0..3 {
            assert_eq!(common::id_of(&back.content(lpn).unwrap()), 7, "seed {seed}");
        }
    }
}

/// The last page reads twice at the mount, and is gone soon after (hazards-R18).
#[test]
fn the_last_page_is_copied_before_it_is_trusted() {
    let cells = Cells::at(FaultLevel::L2);
    let mut ftl = fresh(GEOMETRY, CONFIG, cells);
    ftl.write(Time(0), 5, unit(512, 5, 9)).unwrap();
    let end = ftl.flush(Time(0)).unwrap();
    let mut media = ftl.power_off(end, 0);
    let holds = |media: &Media, b: u32| matches!(media.cell(PageAddr { block: BlockId(b), page: 0 }), Cell::Written(p) if p.spare().len() == 30);
    let block = (0..GEOMETRY.blocks()).find(|b| holds(&media, *b)).unwrap();
    let at = PageAddr {
        block: BlockId(block),
        page: 0,
    };
    // One read is that of the tags, two are those of the verification.
    media.make_unstable(at, 3);
    let (mut back, now) = mount(media, CONFIG, cells, "hazards-R18");
    let (read, _) = back.read(now, 5..6);
    assert_eq!(common::id_of(&read.unwrap()[0]), 9);
    for _ in 0..20 {
        let (read, _) = back.read(now, 5..6);
        assert_eq!(common::id_of(&read.unwrap()[0]), 9);
    }
    let media = back.power_off(Time(1 << 40), 0);
    let mut chips = power_up(media, cells);
    assert!(
        matches!(chips.read(Time(0), at, 512).0, Cell::Torn | Cell::Erased),
        "it was the last read"
    );
}

const ERRORS: BitErrors = BitErrors {
    floor: 1e-6,
    per_cycle: 0.0,
    cycle_exponent: 1.0,
    per_read: 1e-6,
    per_hour: 0.0,
    ecc: Ecc {
        codeword_bytes: 512,
        strength: 8,
    },
    reads_budget: 1_000_000,
};

/// Reads one unit all the time, and others now and then; with `flushed` each is read from the
/// chips.
fn only_read(errors: BitErrors, seed: u64, reads: u32, flushed: bool) {
    let cells = Cells {
        errors: Some(errors),
        seed,
        ..Cells::default()
    };
    let mut ftl = fresh(GEOMETRY, CONFIG, cells);
    let mut now = Time(0);
    for lpn in 0..32 {
        ftl.write(now, lpn, unit(512, lpn, 3)).unwrap();
        now = ftl.flush(now).unwrap();
    }
    for n in 0..reads {
        let lpn = if n % 16 == 0 { n / 16 % 32 } else { 7 };
        let (read, end) = ftl.read(now, lpn..lpn + 1);
        let read = read.unwrap_or_else(|e| panic!("seed {seed}, read {n}: {e}"));
        assert_eq!(common::id_of(&read[0]), 3);
        now = end;
        if n % 8 == 0 {
            ftl.scrub_idle(now, 1).unwrap();
            if flushed {
                now = ftl.flush(now).unwrap();
            }
            ftl.advance(now);
        }
    }
    assert!(ftl.stats().scrubbed > 0, "{:?}", ftl.stats());
    ftl.check();
}

/// One unit is read all the time: its page is written anew before the error correction gives up,
/// and its neighbours are written anew when they are read.
#[test]
fn pages_near_the_limit_of_the_error_correction_are_written_anew() {
    only_read(ERRORS, 2, 10_000, false);
}

/// Without the scrubbing the same load loses data, which shows that the test above can fail.
#[test]
fn what_is_not_written_anew_is_lost() {
    let cells = Cells {
        errors: Some(ERRORS),
        seed: 2,
        ..Cells::default()
    };
    let mut ftl = fresh(GEOMETRY, CONFIG, cells);
    ftl.write(Time(0), 7, unit(512, 7, 3)).unwrap();
    let mut now = ftl.flush(Time(0)).unwrap();
    let mut reads = 0;
    while let (Ok(_), end) = ftl.read(now, 7..8) {
        (now, reads) = (end, reads + 1);
        assert!(reads < 10_000, "never lost");
    }
    assert!(ftl.scrub_backlog() > 0, "it had been asked for");
}

/// The load of the test above for longer, with a budget that keeps neighbours from decaying unread:
/// nothing is lost, on any of these chips.
#[test]
fn a_device_that_is_only_read_keeps_its_data() {
    for seed in 0..20 {
        let errors = BitErrors {
            reads_budget: 300,
            ..ERRORS
        };
        only_read(errors, seed, 20_000, true);
    }
}

#[test]
fn chips_that_program_word_lines_whole_are_refused() {
    let geometry = Geometry {
        pages_per_block: 9,
        ..paired(GEOMETRY, Pairing::OneShotTlc)
    };
    let refused = Ftl::format(Nand::new(Media::blank(geometry), TIMING), CONFIG);
    let why = refused.err().expect("refused").to_string();
    assert!(why.contains("pairing") && why.contains("nand-N6"), "{why}");
}
