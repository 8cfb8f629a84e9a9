//! nand-N5: for random traces, the cut at every boundary equals an event-driven reference model.

use base::{Bytes, Rng, Time, fill};
use std::collections::{BTreeMap, BTreeSet};
use varve_nand::{BlockId, Cell, Geometry, Media, Nand, Page, PageAddr, Pairing, Span, Timing};

const GEOMETRY: Geometry = Geometry {
    channels: 2,
    dies_per_channel: 2,
    planes: 1,
    blocks_per_plane: 2,
    pages_per_block: 4,
    page_bytes: 512,
    spare_bytes: 16,
    nop: 1,
    endurance: 1000,
    pairing: Pairing::None,
};
const TIMING: Timing = Timing {
    read_us: 5.0,
    program_us: 80.0,
    erase_us: 300.0,
    bus_ns_per_byte: 10.0,
    program_bus_ns_per_byte: None,
    spare_on_bus: true,
    cache_program: true,
    bus_gaps: false,
};

#[derive(Clone, Copy)]
enum Act {
    Program(PageAddr, u8),
    Erase(BlockId),
}

/// The reference: queues of events, applied when they end. It shares only the spans with the model.
fn reference(
    trace: &[(Span, Act)],
    at: Time,
) -> (BTreeMap<PageAddr, u8>, Vec<Act>, BTreeMap<BlockId, u32>) {
    let mut done: Vec<_> = trace.iter().filter(|(s, _)| s.end <= at).collect();
    done.sort_by_key(|(s, _)| s.end);
    let (mut pages, mut wear) = (BTreeMap::new(), BTreeMap::new());
    for (_, act) in done {
        match *act {
            Act::Program(p, byte) => drop(pages.insert(p, byte)),
            Act::Erase(b) => {
                pages.retain(|p, _| p.block != b);
                *wear.entry(b).or_insert(0) += 1;
            }
        }
    }
    let torn = trace
        .iter()
        .filter(|(s, _)| s.start < at && s.end > at)
        .map(|(_, a)| *a)
        .collect();
    (pages, torn, wear)
}

fn run(seed: u64, steps: usize) -> (Nand, Vec<(Span, Act)>) {
    let mut rng = Rng::named(seed, "trace");
    let mut nand = Nand::new(Media::blank(GEOMETRY), TIMING);
    let mut next = [0; 8];
    let mut trace = Vec::new();
    let mut now = 0;
    for i in 0..steps {
        now += rng.below(40_000);
        let block = rng.below(8) as u32;
        let free = next[block as usize];
        if free == GEOMETRY.pages_per_block || free > 0 && rng.one_in(6) {
            trace.push((
                nand.erase(Time(now), BlockId(block)).unwrap(),
                Act::Erase(BlockId(block)),
            ));
            next[block as usize] = 0;
        } else {
            let at = PageAddr {
                block: BlockId(block),
                page: free,
            };
            let byte = (i % 250) as u8;
            let page = Page::new(vec![fill::filled(byte, 512)], Bytes::from(vec![byte; 4]));
            trace.push((
                nand.program(Time(now), at, page).unwrap(),
                Act::Program(at, byte),
            ));
            next[block as usize] += 1;
        }
    }
    (nand, trace)
}

fn check(media: &Media, trace: &[(Span, Act)], at: Time, what: &str) {
    let (pages, torn, wear) = reference(trace, at);
    let half: BTreeSet<BlockId> = torn
        .iter()
        .filter_map(|a| {
            if let Act::Erase(b) = a {
                Some(*b)
            } else {
                None
            }
        })
        .collect();
    let torn: BTreeMap<PageAddr, u8> = torn
        .iter()
        .filter_map(|a| {
            if let Act::Program(p, b) = a {
                Some((*p, *b))
            } else {
                None
            }
        })
        .collect();
    for block in (0..GEOMETRY.blocks()).map(BlockId) {
        for page in 0..GEOMETRY.pages_per_block {
            let addr = PageAddr { block, page };
            let want = pages.get(&addr);
            match (media.cell(addr), want) {
                (Cell::Written(p), _) => {
                    let byte = p.slice(0, 1)[0];
                    let legal = want == Some(&byte) || torn.get(&addr) == Some(&byte);
                    assert!(
                        legal && p.spare()[0] == byte,
                        "{what}: {addr:?} holds {byte}, want {want:?}"
                    );
                }
                (Cell::Erased, None) => {}
                (Cell::Erased | Cell::Torn, Some(_)) => {
                    assert!(half.contains(&block), "{what}: {addr:?} lost")
                }
                (Cell::SpareOnly(_), _) => panic!("{what}: a fault of L2 at L1"),
                (Cell::Torn, None) => assert!(torn.contains_key(&addr), "{what}: {addr:?} torn"),
            }
        }
        let wear = wear.get(&block).copied().unwrap_or(0);
        let extra = u32::from(half.contains(&block));
        assert!(
            (wear..=wear + extra).contains(&media.wear(block)),
            "{what}: wear of {block:?}"
        );
    }
}

#[test]
fn every_boundary_equals_the_reference() {
    for seed in 0..6 {
        let (nand, trace) = run(seed, 120);
        let bounds: BTreeSet<u64> = trace
            .iter()
            .flat_map(|(s, _)| [s.start.0, s.start.0 + 1, s.end.0 - 1, s.end.0])
            .collect();
        for at in bounds {
            let media = nand.clone().power_off(Time(at), seed);
            check(
                &media,
                &trace,
                Time(at),
                &format!("seed {seed}, cut at {at}"),
            );
        }
    }
}

#[test]
fn trimming_keeps_what_a_later_cut_needs_and_bounds_the_log() {
    for seed in 10..14 {
        let (mut nand, trace) = run(seed, 200);
        let horizon = trace[150].0.start;
        nand.advance(horizon);
        assert!(nand.undo_len() < trace.len());
        for (span, _) in trace.iter().filter(|(s, _)| s.end >= horizon) {
            for at in [span.start.max(horizon), span.end] {
                check(
                    &nand.clone().power_off(at, seed),
                    &trace,
                    at,
                    "after trimming",
                );
            }
        }
        nand.advance(Time(u64::MAX));
        assert_eq!(nand.undo_len(), 0);
    }
}

#[test]
fn all_faults_of_the_table_occur() {
    let mut seen = BTreeSet::new();
    for seed in 0..60 {
        let mut nand = Nand::new(Media::blank(GEOMETRY), TIMING);
        let addr = PageAddr {
            block: BlockId(0),
            page: 0,
        };
        let page = || Page::new(vec![fill::filled(1, 512)], Bytes::new());
        let span = nand.program(Time(0), addr, page()).unwrap();
        for (f, at) in [
            ("early", span.start.0 + 1),
            ("mid", (span.start.0 + span.end.0) / 2),
            ("late", span.end.0 - 1),
        ] {
            let cell = match nand.clone().power_off(Time(at), seed).cell(addr) {
                Cell::Erased => "erased",
                Cell::Written(_) => "written",
                Cell::Torn => "torn",
                Cell::SpareOnly(_) => "spare only",
            };
            seen.insert((f, cell));
        }
        let erase = nand.erase(Time(0), BlockId(0)).unwrap();
        let media = nand.power_off(Time((erase.start.0 + erase.end.0) / 2), seed);
        let mut weak = Nand::new(media, TIMING);
        let later = PageAddr {
            block: BlockId(0),
            page: 1,
        };
        weak.program(Time(0), later, page()).unwrap();
        assert!(
            matches!(weak.peek(later), Cell::Torn),
            "a weak block must not be trusted"
        );
        weak.erase(Time(0), BlockId(0)).unwrap();
        weak.program(Time(0), later, page()).unwrap();
        assert!(matches!(weak.peek(later), Cell::Written(_)));
    }
    let want = [
        ("early", "erased"),
        ("early", "torn"),
        ("late", "torn"),
        ("late", "written"),
        ("mid", "torn"),
    ];
    assert_eq!(seen, BTreeSet::from(want));
}

#[test]
fn what_never_happened_leaves_no_trace() {
    let blank = Media::blank(GEOMETRY).content_hash();
    let (nand, trace) = run(3, 40);
    let first = trace.iter().map(|(s, _)| s.start).min().unwrap();
    assert_eq!(nand.power_off(first, 1).content_hash(), blank);
}

#[test]
fn the_draw_does_not_depend_on_how_far_the_log_was_trimmed() {
    let mut torn = 0;
    for seed in 20..24 {
        let (nand, trace) = run(seed, 120);
        for (span, _) in &trace[60..] {
            let at = Time((span.start.0 + span.end.0) / 2);
            let whole = nand.clone().power_off(at, seed);
            let mut trimmed = nand.clone();
            trimmed.advance(at);
            let same = trimmed.power_off(at, seed).content_hash();
            assert_eq!(whole.content_hash(), same, "seed {seed}, cut at {at}");
            torn += 1;
        }
    }
    assert!(torn > 100);
}

#[test]
fn an_early_cut_of_a_partial_program_keeps_what_was_there() {
    let geometry = Geometry { nop: 4, ..GEOMETRY };
    let at = PageAddr {
        block: BlockId(0),
        page: 0,
    };
    let page = |byte| Page::new(vec![fill::filled(byte, 512)], Bytes::new());
    let mut kept = 0;
    for seed in 0..40 {
        let mut nand = Nand::new(Media::blank(geometry), TIMING);
        let first = nand.program(Time(0), at, page(0xF0)).unwrap();
        let second = nand.program(first.end, at, page(0xFE)).unwrap();
        let media = nand.power_off(Time(second.start.0 + 1), seed);
        match media.cell(at) {
            Cell::Written(p) => kept += usize::from(p.slice(0, 1)[0] == 0xF0),
            Cell::Torn | Cell::SpareOnly(_) => {}
            Cell::Erased => panic!("seed {seed}: a programmed page became erased"),
        }
    }
    assert!(kept > 5, "{kept} of 40");
}
