//! A medium as bytes: everything is restored, and states that chips cannot be in are refused.

use crate::TIMING;
use base::{Bytes, Nanos, Time, fill};
use varve_nand::{
    BitErrors, BlockId, Cells, Ecc, FaultLevel, Geometry, Media, Nand, Page, PageAddr,
};

const MLC: Geometry = Geometry {
    dies_per_channel: 2,
    blocks_per_plane: 64,
    ..crate::MLC
};

fn page(n: u32) -> Page {
    let first = Bytes::from_iter((0..200).map(|i| (i * n) as u8));
    let second = fill::filled(n as u8, 100);
    Page::new(vec![first, second], Bytes::from(vec![n as u8; 8]))
}

/// Chips after cuts of every kind, with factory marks, reads that count, and time without power.
fn worn(seed: u64) -> Media {
    let mut media = Media::factory(MLC, 3, 0.02).unwrap();
    let errors = BitErrors {
        floor: 1e-6,
        per_cycle: 1e-9,
        cycle_exponent: 1.0,
        per_read: 1e-9,
        per_hour: 1e-9,
        ecc: Ecc {
            codeword_bytes: 512,
            strength: 8,
        },
        reads_budget: 1000,
    };
    let cells = Cells {
        errors: Some(errors),
        ..Cells::at(FaultLevel::L3)
    };
    for life in 0..12u32 {
        let mut nand = Nand::new(media, TIMING);
        nand.set_cells(cells);
        let mut ends = Time(0);
        for n in 0..6 {
            let block = BlockId(life * 6 + n);
            if nand.erase(ends, block).is_err() {
                continue;
            }
            for page_no in 0..10 {
                let at = PageAddr {
                    block,
                    page: page_no,
                };
                let span = nand.program(ends, at, page(life * 60 + n + page_no));
                ends = span.unwrap().end;
                nand.read(ends, PageAddr { page: 0, ..at }, 512);
            }
        }
        media = nand.power_off(Time(ends.0 - 60_000), seed + u64::from(life));
        media.shelve(Nanos(1_000_000_000));
    }
    media
}

fn saved(media: &Media) -> Vec<u8> {
    let mut bytes = Vec::new();
    media.save(&mut bytes).unwrap();
    bytes
}

#[test]
fn everything_comes_back() {
    for seed in 0..20 {
        let media = worn(seed);
        let bytes = saved(&media);
        let with_more = [&bytes[..], b"more"].concat();
        let (back, rest) = Media::load(&with_more).unwrap();
        assert_eq!(rest, b"more");
        assert_eq!(back.content_hash(), media.content_hash());
        assert_eq!(back.geometry(), media.geometry());
        assert!(media.bad_blocks().0 > 0 && back.bad_blocks() == media.bad_blocks());
        assert_eq!(back.wear_range(), media.wear_range());
        assert_eq!(saved(&back), bytes);
        // After the next power-up both are equal: frail pages fail in both.
        let next = |m: Media| Nand::new(m, TIMING).power_off(Time(0), 0).content_hash();
        assert_eq!(next(back), next(media));
    }
}

#[test]
fn wear_counts_good_blocks_only() {
    let blank = Media::blank(MLC);
    assert_eq!(blank.wear_range(), (0, 0.0, 0));
    let mut nand = Nand::new(blank, TIMING);
    for block in [0, 0, 0, 1] {
        let _ = nand.erase(Time(1 << 40), BlockId(block)).unwrap();
    }
    let mut media = nand.power_off(Time(1 << 50), 0);
    assert_eq!(media.wear_range(), (0, 4.0 / 256.0, 3));
    media.mark_bad(BlockId(0));
    assert_eq!(media.wear_range(), (0, 1.0 / 255.0, 1));
}

#[test]
fn every_shorter_text_is_refused() {
    let bytes = saved(&worn(1));
    for len in (0..600).chain((600..bytes.len()).step_by(97)) {
        let Err(why) = Media::load(&bytes[..len]) else {
            panic!("{len} bytes are taken for a medium");
        };
        assert!(why.contains("cut short"), "{len}: {why}");
    }
}

#[test]
fn what_chips_cannot_be_is_refused() {
    // One touched block: its number at 45, behind geometry (37) and clock (8).
    let mut nand = Nand::new(Media::blank(MLC), TIMING);
    nand.erase(Time(0), BlockId(2)).unwrap();
    let bytes = saved(&nand.power_off(Time(1 << 40), 0));
    assert_eq!(bytes[45..49], 2u32.to_le_bytes());
    for (at, new, why) in [
        (0, &[0u8, 0, 0, 0][..], "channels = 0"),
        (12, &[0xFF; 4], "blocks_per_plane"),
        (36, &[9], "pairing 9"),
        (44, &[0xFF], "clock"),
        (45, &[0, 1, 0, 0], "block 256 where one of 0 to 255 is due"),
        (49, &[0xFF; 4], "its state"),
        (53, &[25], "its state"),
        (57, &[0xFF; 4], "its state"),
        (61, &[0xFF; 4], "its state"),
        (65, &[4], "its state"),
        (65, &[8], "its state"),
        (73, &[0xFF], "programmed at"),
        (74, &[1], "no page 4294967295"),
        (78, &[24, 0, 0, 0], "no page 24"),
    ] {
        let mut wrong = bytes.clone();
        wrong[at..at + new.len()].copy_from_slice(new);
        // Enough bytes follow, so that the error is not that of a short input.
        wrong.extend([0; 64]);
        let Err(said) = Media::load(&wrong) else {
            panic!("{why}: taken for a medium");
        };
        assert!(said.contains(why), "{why}: {said}");
    }
    let twice = [&bytes[..bytes.len() - 4], &bytes[45..]].concat();
    let said = Media::load(&twice).map(|_| ()).unwrap_err();
    assert!(said.contains("block 2 where one of 3"), "{said}");
}
