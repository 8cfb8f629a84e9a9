//! Tests of coalition blocks: a part put together by hand, round trips, and damage.

use super::*;
use crate::jbd2::{BlockKind, Header, JournalCompat, JournalIncompat};
use base::bytes::{get_be16, get_be32, put_be16};
use proptest::prelude::*;

fn format(block_bytes: usize) -> Format {
    Format::new(
        block_bytes,
        JournalCompat::NONE,
        JournalIncompat::COALITION,
        &[7; 16],
    )
}

fn segment(offset: u16, bytes: &[u8]) -> Segment {
    Segment {
        offset,
        bytes: Bytes::copy_from_slice(bytes),
    }
}

fn finish(writer: CoalitionWriter, images: &[Bytes]) -> Vec<Vec<u8>> {
    writer.finish((0x65, 9), true, images)
}

/// CRC32C bit by bit, so that the golden bytes do not lean on the code under test.
fn slow_crc(mut crc: u32, data: &[u8]) -> u32 {
    for byte in data {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0x82F6_3B78 } else { 0 };
        }
    }
    crc
}

/// Bytes from hexadecimal words.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |p: &[u8]| {
        let text = std::str::from_utf8(p).expect("ASCII");
        u8::from_str_radix(text, 16).expect("hex")
    };
    digits.chunks(2).map(byte).collect()
}

#[test]
fn golden_transaction_by_hand() {
    // One delta of two segments, one full image, one revoke of two blocks; transaction 0x0102, UUID
    // of sevens.
    let f = format(4096);
    let image = Bytes::from(vec![0xAB; 4096]);
    let mut w = CoalitionWriter::new(&f, Tid(0x0102));
    w.push(CoalitionRecord::Delta {
        block: BlockNo(0x0A_1122_3344),
        cumulative: true,
        post_crc: 0xCAFE_F00D,
        segments: vec![segment(0x10, b"ab"), segment(0xFFF, b"z")],
    });
    w.push(CoalitionRecord::Full {
        block: BlockNo(77),
        escaped: true,
        crc: full_image_checksum(&f, Tid(0x0102), &image),
    });
    w.push(CoalitionRecord::Revoke {
        blocks: vec![BlockNo(5), BlockNo(6)],
    });
    let parts = finish(w, std::slice::from_ref(&image));
    assert_eq!(parts.len(), 1);

    let seed = slow_crc(!0, &[7; 16]);
    let with_tid = slow_crc(seed, &[0, 0, 1, 2]);
    let mut bytes = hex("c03b3998 00000006 00000102  01 1f 0000 0001 0003 00000080
         0000000000000065 00000009 00000001 00000000 00000000
         01 01 0020 0000000a11223344  0002 0000 cafef00d  0010 0002  0fff 0001  61627a 00
         02 01 0010 000000000000004d  00000000
         03 00 001c 0000000000000002  0000000000000005 0000000000000006");
    bytes.resize(4096, 0);
    bytes[0x5C..0x60].copy_from_slice(&slow_crc(with_tid, &image).to_be_bytes());
    // 32 bytes of delta, 16 of full, 28 of revoke.
    bytes[0x14..0x18].copy_from_slice(&(0x30u32 + 32 + 16 + 28).to_be_bytes());
    let bare = slow_crc(seed, &bytes).to_be_bytes();
    let transaction = slow_crc(slow_crc(with_tid, &bare), &image);
    bytes[0x28..0x2C].copy_from_slice(&transaction.to_be_bytes());
    let block = slow_crc(seed, &bytes);
    bytes[0x2C..0x30].copy_from_slice(&block.to_be_bytes());
    for at in (0..4096).step_by(16) {
        assert_eq!(
            parts[0][at..at + 16],
            bytes[at..at + 16],
            "bytes at {at:#x}"
        );
    }
}

#[test]
fn an_empty_transaction_is_one_part() {
    let f = format(4096);
    let parts = finish(CoalitionWriter::new(&f, Tid(3)), &[]);
    let part = CoalitionPart::parse(&f, &parts[0]).expect("valid");
    assert!(part.records.is_empty() && part.last.is_some_and(|l| l.self_commit && l.images == 0));
    CoalitionPart::verify(&f, &parts[0]).expect("checksum");
}

#[test]
fn a_whole_block_as_delta_needs_two_parts() {
    let f = format(4096);
    let mut w = CoalitionWriter::new(&f, Tid(3));
    let all: Vec<u8> = (0..4096u32).map(|n| (n * 7) as u8).collect();
    w.push(CoalitionRecord::Delta {
        block: BlockNo(1),
        cumulative: false,
        post_crc: 1,
        segments: vec![segment(0, &all)],
    });
    let parts = finish(w, &[]);
    assert_eq!(parts.len(), 2);
    let (merged, ..) = read_back(&f, &parts);
    assert_eq!(merged[&1], all.into_iter().enumerate().collect::<Vec<_>>());
}

#[test]
fn record_bytes_says_what_a_record_takes() {
    let f = format(4096);
    for segments in [
        vec![segment(0, b"x")],
        vec![segment(1, b"abcd"), segment(5, b"efg")],
    ] {
        let mut w = CoalitionWriter::new(&f, Tid(1));
        let before = w.room();
        let bytes = record_bytes(&segments);
        w.push(CoalitionRecord::Delta {
            block: BlockNo(1),
            cumulative: false,
            post_crc: 0,
            segments,
        });
        assert_eq!(before - w.room(), bytes);
    }
}

#[test]
#[should_panic(expected = "sorted")]
fn overlapping_segments_are_misuse() {
    CoalitionWriter::new(&format(4096), Tid(1)).push(CoalitionRecord::Delta {
        block: BlockNo(1),
        cumulative: false,
        post_crc: 0,
        segments: vec![segment(4, b"abcd"), segment(6, b"x")],
    });
}

/// Each fault in a sound part, with the words that must name it.
#[test]
fn faults_are_named() {
    let f = format(1024);
    let mut w = CoalitionWriter::new(&f, Tid(9));
    w.push(CoalitionRecord::Delta {
        block: BlockNo(1),
        cumulative: false,
        post_crc: 0,
        segments: vec![segment(4, b"abcd"), segment(9, b"xyz")],
    });
    w.push(CoalitionRecord::Revoke {
        blocks: vec![BlockNo(5)],
    });
    let sound = finish(w, &[]).remove(0);
    // Delta record at 0x30 with its segments at 0x44 and 0x48 and 36 bytes, revoke at 0x54.
    let faults: &[(usize, u8, &str)] = &[
        (0x0C, 2, "version = 2"),
        (0x0D, 0x3F, "flags = 63"),
        (0x0D, 0x07, "HAS_FULL and HAS_REVOKE"),
        (0x0D, 0x12, "FIRST and LAST"),
        (0x0F, 1, "part = 1"),
        (0x11, 2, "FIRST and LAST"),
        (0x13, 1, "records = 1"),
        (0x13, 3, "bytes left = 0"),
        (0x13, 255, "records = 255"),
        (0x16, 9, "used ="),
        (0x17, 0x6A, "used ="),
        (0x17, 0x20, "used ="),
        (0x30, 9, "record kind = 9"),
        (0x31, 2, "record flags = 2"),
        (0x33, 3, "record length = 3"),
        (0x33, 0x20, "more bytes than the record has"),
        (0x32, 0xFF, "record length"),
        (0x3D, 0, "segments = 0"),
        (0x3D, 200, "segments = 200"),
        (0x3F, 1, "delta reserved = 1"),
        (0x44, 4, "segment length"),
        (0x47, 0, "segment length = 0"),
        (0x47, 6, "segment offset = 9"),
        (0x49, 7, "segment offset = 7"),
        (0x4B, 200, "more bytes than the record has"),
        (0x53, 1, "padding is not zero"),
        (0x55, 1, "record flags = 1"),
        (0x5F, 2, "revoked blocks = 2"),
    ];
    CoalitionPart::parse(&f, &sound).expect("sound");
    for &(at, value, words) in faults {
        let mut block = sound.clone();
        block[at] = value;
        let e = CoalitionPart::parse(&f, &block)
            .expect_err(words)
            .to_string();
        assert!(e.contains(words), "{at:#x}: {e}");
        assert!(e.starts_with("coalition block in transaction 9: "), "{e}");
        assert!(CoalitionPart::verify(&f, &block).is_err(), "{at:#x}");
    }
    assert!(CoalitionPart::parse(&f, &sound[..1023]).is_err());
    assert!(CoalitionPart::verify(&f, &sound[..1023]).is_err());
}

#[test]
fn only_the_last_part_may_speak_of_the_transaction() {
    let f = format(1024);
    let mut w = CoalitionWriter::new(&f, Tid(9));
    w.push(CoalitionRecord::Revoke {
        blocks: (0..200).map(BlockNo).collect(),
    });
    let mut first = finish(w, &[]).remove(0);
    CoalitionPart::parse(&f, &first).expect("sound");
    first[0x24] = 1;
    let e = CoalitionPart::parse(&f, &first).expect_err("images in part 0");
    assert!(e.to_string().contains("only the last part"), "{e}");
    first[0x24] = 0;
    first[0x0D] |= FLAG_SELF_COMMIT;
    let e = CoalitionPart::parse(&f, &first).expect_err("SELF_COMMIT in part 0");
    assert!(e.to_string().contains("SELF_COMMIT"), "{e}");
}

/// Modified bytes by block, full records, revoked blocks.
type Content = (
    std::collections::BTreeMap<u64, Vec<(usize, u8)>>,
    Vec<(BlockNo, bool, u32)>,
    Vec<BlockNo>,
);

fn add(content: &mut Content, record: &CoalitionRecord) {
    match record {
        CoalitionRecord::Delta {
            block, segments, ..
        } => {
            for s in segments {
                let at = usize::from(s.offset);
                let bytes = s.bytes.iter().enumerate().map(|(n, b)| (at + n, *b));
                content.0.entry(block.0).or_default().extend(bytes);
            }
        }
        CoalitionRecord::Full {
            block,
            escaped,
            crc,
        } => content.1.push((*block, *escaped, *crc)),
        CoalitionRecord::Revoke { blocks } => content.2.extend(blocks),
    }
}

fn read_back(f: &Format, parts: &[Vec<u8>]) -> Content {
    let mut content = Content::default();
    for (n, bytes) in parts.iter().enumerate() {
        CoalitionPart::verify(f, bytes).expect("checksum");
        let part = CoalitionPart::parse(f, bytes).expect("valid");
        assert_eq!(
            (usize::from(part.part), usize::from(part.parts)),
            (n, parts.len())
        );
        part.records.iter().for_each(|r| add(&mut content, r));
    }
    content
}

fn segments(block_bytes: usize) -> impl Strategy<Value = Vec<Segment>> {
    let run = (0..200usize, prop::collection::vec(any::<u8>(), 1..300));
    prop::collection::vec(run, 1..20).prop_map(move |runs| {
        let mut at = 0;
        let mut out = Vec::new();
        for (gap, bytes) in runs {
            at += gap;
            if at >= block_bytes {
                break;
            }
            let fits = bytes.len().min(block_bytes - at);
            out.push(segment(at as u16, &bytes[..fits]));
            at += fits;
        }
        out
    })
}

fn record(block_bytes: usize) -> impl Strategy<Value = CoalitionRecord> {
    let delta = (0..50u64, any::<bool>(), any::<u32>(), segments(block_bytes));
    prop_oneof![
        delta.prop_map(
            |(block, cumulative, post_crc, segments)| CoalitionRecord::Delta {
                block: BlockNo(block),
                cumulative,
                post_crc,
                segments,
            }
        ),
        (any::<u64>(), any::<bool>(), any::<u32>()).prop_map(|(block, escaped, crc)| {
            CoalitionRecord::Full {
                block: BlockNo(block),
                escaped,
                crc,
            }
        }),
        prop::collection::vec(any::<u64>(), 1..200).prop_map(|b| CoalitionRecord::Revoke {
            blocks: b.into_iter().map(BlockNo).collect(),
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn records_survive_spill(
        big: bool,
        records in prop::collection::vec(record(1024), 0..30),
        time: (u64, u32),
        self_commit: bool,
        tid: u32,
    ) {
        let f = format(if big { 4096 } else { 1024 });
        let mut w = CoalitionWriter::new(&f, Tid(tid));
        let mut expected = Content::default();
        for r in &records {
            add(&mut expected, r);
            w.push(r.clone());
        }
        let images: Vec<Bytes> = (0..expected.1.len())
            .map(|n| Bytes::from(vec![n as u8; f.block_bytes]))
            .collect();
        let counted = w.parts();
        let parts = w.finish(time, self_commit, &images);
        prop_assert_eq!(parts.len(), counted);
        prop_assert_eq!(read_back(&f, &parts), expected);
        let last = CoalitionPart::parse(&f, parts.last().expect("one part")).expect("valid");
        let crc = transaction_checksum(&f, Tid(tid), parts.iter().map(|p| &p[..]), images.iter().map(|i| &i[..]));
        let end = CoalitionEnd {
            self_commit,
            secs: time.0,
            nanos: time.1,
            images: images.len() as u32,
            transaction_crc: crc,
        };
        prop_assert_eq!(last.last, Some(end));
    }

    #[test]
    fn the_transaction_checksum_sees_every_byte(
        part in 0..3usize, byte in 0x30..1024usize, bit in 0..8u32, image: bool,
    ) {
        let f = format(1024);
        let mut w = CoalitionWriter::new(&f, Tid(1));
        w.push(CoalitionRecord::Revoke { blocks: (0..300).map(BlockNo).collect() });
        w.push(CoalitionRecord::Full { block: BlockNo(1), escaped: false, crc: 0 });
        let images = vec![Bytes::from(vec![3; 1024])];
        let mut parts = w.finish((1, 2), true, &images);
        prop_assert_eq!(parts.len(), 3);
        let sum = |parts: &[Vec<u8>], images: &[Bytes]| {
            transaction_checksum(&f, Tid(1), parts.iter().map(|p| &p[..]), images.iter().map(|i| &i[..]))
        };
        let stored = get_be32(&parts[2], 0x28);
        prop_assert_eq!(sum(&parts, &images), stored);
        let mut images = images;
        if image {
            let mut bytes = images[0].to_vec();
            bytes[byte] ^= 1 << bit;
            images[0] = bytes.into();
        } else {
            parts[part][byte] ^= 1 << bit;
        }
        prop_assert_ne!(sum(&parts, &images), stored);
        prop_assert_ne!(transaction_checksum(&f, Tid(2), parts.iter().map(|p| &p[..]), []), stored);
    }

    /// What parses is possible: bounded, in order, inside its block. Mutated sound parts get deep
    /// into the parser.
    #[test]
    fn damage_never_panics(
        records in prop::collection::vec(record(1024), 0..6),
        damage in prop::collection::vec((0..1024usize, any::<u8>()), 0..4),
        short in 0..1100usize,
    ) {
        let f = format(1024);
        let mut w = CoalitionWriter::new(&f, Tid(1));
        let mut images = 0;
        for r in records {
            images += usize::from(matches!(r, CoalitionRecord::Full { .. }));
            w.push(r);
        }
        let images = vec![Bytes::from(vec![0; 1024]); images];
        for mut part in w.finish((1, 2), true, &images) {
            for &(at, value) in &damage {
                part[at] = value;
            }
            if let Ok(p) = CoalitionPart::parse(&f, &part) {
                prop_assert!(p.part < p.parts && p.records.len() <= 1024 / 16);
                check_possible(&p);
            }
            let cut = &part[..short.min(1024)];
            prop_assert!(short >= 1024 || CoalitionPart::parse(&f, cut).is_err());
        }
    }

    #[test]
    fn random_bytes_never_panic(mut block in prop::collection::vec(any::<u8>(), 1024), small: bool) {
        Header { kind: BlockKind::Coalition, tid: Tid(1) }.encode(&mut block);
        block[0x0C] = 1;
        put_be16(&mut block, 0x0E, 0);
        put_be16(&mut block, 0x10, 1);
        block[0x0D] = (block[0x0D] & 0x1C) | 3;
        if small {
            block[0x12] = 0;
            block[0x14..0x17].fill(0);
            block[0x17] &= 0xFC;
        }
        prop_assert!(get_be16(&block, 0x10) == 1);
        if let Ok(p) = CoalitionPart::parse(&format(1024), &block) {
            check_possible(&p);
        }
        let _ = CoalitionPart::verify(&format(1024), &block);
    }
}

fn check_possible(part: &CoalitionPart) {
    for r in &part.records {
        let CoalitionRecord::Delta { segments, .. } = r else {
            continue;
        };
        let mut end = 0;
        for s in segments {
            assert!(usize::from(s.offset) >= end && !s.bytes.is_empty());
            end = usize::from(s.offset) + s.bytes.len();
        }
        assert!(end <= 1024);
    }
}
