//! Structures of a volume made by mkfs.f2fs 1.15 (64 MiB, label `golden`, with nothing on it but
//! the root directory), read and written again byte by byte.
//!
//! A string holds the bytes that are not zero: `offset:bytes`, all in hexadecimal, `*n` (decimal)
//! for a run.

use super::*;

/// The superblock, without the two version strings.
const SUPERBLOCK: &str = "\
    0:1020f5f201000f0009000000030000000c000000090000000100000001 25:40 \
    2c:180000001f0000000200000002000000020000000100000018 \
    49:0200000002000000060000000a0000000e000000100000030000000100000002 \
    6c:12345678123412341234123456789abc67006f006c00640065006e 47c:240000006d70 488:776d 490:6f67 498:6a70 \
    4a0:617669 4a8:6d3476 4b0:6d3470 4b8:6d6b76 4c0:6d6f76 4c8:7765626d 4d0:776176 4d8:6d3461 4e0:336770 \
    4e8:6f707573 4f0:666c6163 4f8:676966 500:706e67 508:737667 510:77656270 518:6a6172 520:646562 528:69736f \
    530:677a 538:787a 540:7a7374 548:706466 550:707963 558:747463 560:747466 568:657865 570:61706b 578:636e74 \
    580:65786f 588:6f646578 590:76646578 598:736f 5a0:6462 5a8:766d646b 5b0:766469 5b8:71636f7732 ac5:04";

/// First and last block of the first pack.
const CHECKPOINT: &str = "\
    0:d10d7216 9:10 10:02 18:0d0000001000000012 28:0100000002 30:ff*20 44:01 54:030000000b00000005 60:ff*20 \
    74:01 84:8501000006000000010000000100000001000000040000004000000040000000fc0f ffc:2a10499f";

/// Compact summaries.
const COMPACT: &str = "\
    0:010003 7:03 c:10 1fb:06 201:010c80 24b:01 250:10 299:02 29e:14 2e7:03000000010080 335:0b 33a:04 383:05 \
    388:08 3f6:03";

/// Summaries of the hot node log.
const HOT_NODES: &str = "\
    0:03 ffb:01";

/// First and last block of the second pack.
const SECOND: &str = "\
    9:10 10:02 18:0d0000001000000012 28:0100000002 30:ff*20 44:01 54:030000000b00000005 60:ff*20 74:01 \
    84:8501000006000000010000000100000001000000040000004000000040000000fc0f ffc:d9a1f350";

/// NAT bits of the first pack.
const NAT_BITS: &str = "\
    0:d10d72162a10499f 48:fe 49:ff*63";

/// First block of the NAT.
const NAT: &str = "\
    a:0100000001 13:0200000001 1c:03 21:10";

fn image(text: &str) -> Vec<u8> {
    let mut out = vec![0; BLOCK_BYTES];
    for token in text.split_whitespace() {
        let (at, bytes) = token.split_once(':').expect("offset:bytes");
        let at = usize::from_str_radix(at, 16).expect("hexadecimal offset");
        let (hex, times) = bytes.split_once('*').unwrap_or((bytes, "1"));
        let byte = |n: usize| u8::from_str_radix(&hex[n..n + 2], 16).expect("hexadecimal byte");
        let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        let bytes = bytes.repeat(times.parse().expect("decimal count"));
        out[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    out
}

pub(super) fn superblock() -> Superblock {
    Superblock::parse(&image(SUPERBLOCK)).expect("sound")
}
pub(super) fn geometry() -> Geometry {
    Geometry::new(&superblock(), 16384).expect("sound")
}
fn checkpoint() -> Checkpoint {
    let cp = Checkpoint::parse(&image(CHECKPOINT), 0).expect("sound");
    cp.check(&geometry()).expect("fits the geometry");
    cp
}

#[test]
fn superblock_of_mkfs() {
    let sb = superblock();
    assert_eq!((sb.major_version(), sb.minor_version()), (1, 15));
    assert_eq!(
        (sb.block_count(), sb.section_count(), sb.segment_count()),
        (16384, 24, 31)
    );
    assert_eq!(
        (sb.label().as_str(), sb.features()),
        ("golden", Features::NONE)
    );
    assert_eq!(sb.uuid()[..4], [0x12, 0x34, 0x56, 0x78]);
    assert_eq!(
        (sb.cold_extensions().count(), sb.hot_extensions().count()),
        (36, 4)
    );
    assert_eq!(sb.cold_extensions().nth(4), Some(&b"avi"[..]));
    let hot: Vec<_> = sb.hot_extensions().collect();
    assert_eq!(hot, [&b"db"[..], b"vmdk", b"vdi", b"qcow2"]);
    assert_eq!((sb.quota_inos(), sb.version()), ([Nid(0); 3], &b""[..]));

    let mut again = Superblock::blank();
    again.set_major_version(1);
    again.set_minor_version(15);
    assert!(again.set_label("golden") && again.label() == "golden");
    let cold: Vec<_> = sb.cold_extensions().collect();
    assert!(again.set_extensions(&cold, &hot));
    let (old, new) = (sb.bytes(), again.bytes());
    assert_eq!(old[124..1664], new[124..1664]);
    let mut block = vec![0; BLOCK_BYTES];
    sb.clone().encode(&mut block);
    assert_eq!(Superblock::in_block(&block), Ok(sb.clone()));
    assert_eq!(
        block[SUPERBLOCK_AT..],
        image(SUPERBLOCK)[..SUPERBLOCK_BYTES]
    );
}

#[test]
fn places_of_a_small_volume() {
    let geo = geometry();
    assert_eq!(
        (geo.cp, geo.sit, geo.nat),
        (BlockAddr(512), BlockAddr(1536), BlockAddr(2560))
    );
    assert_eq!(
        (geo.ssa, geo.main, geo.main_end()),
        (BlockAddr(3584), BlockAddr(4096), BlockAddr(16384))
    );
    assert_eq!(
        (geo.max_nid, geo.nat_blocks, geo.sit_blocks),
        (455 * 512, 512, 512)
    );
    assert_eq!(
        (geo.nat_addr(3, false), geo.nat_addr(3, true)),
        (BlockAddr(2563), BlockAddr(3075))
    );
    assert_eq!(
        (geo.sit_addr(0, true), geo.cp_pack(true)),
        (BlockAddr(2048), BlockAddr(1024))
    );
    assert_eq!(
        (geo.nat_block(Nid(456)), geo.sit_block(SegNo(23))),
        ((1, 1), (0, 23))
    );
    assert_eq!(
        (geo.segno(BlockAddr(4095)), geo.segno(BlockAddr(4608 + 7))),
        (None, Some(SegNo(1)))
    );
    assert_eq!(
        (
            geo.offset_in_seg(BlockAddr(4608 + 7)),
            geo.seg_start(SegNo(1))
        ),
        (7, BlockAddr(4608))
    );
    assert_eq!(
        (geo.segno(BlockAddr(16384)), geo.ssa_block(SegNo(23))),
        (None, BlockAddr(3607))
    );
    assert_eq!((geo.sit_blocks_used(), geo.section(SegNo(9))), (1, 9));
}

#[test]
fn checkpoint_of_mkfs() {
    let cp = checkpoint();
    assert_eq!(
        (cp.version(), cp.user_block_count(), cp.valid_block_count()),
        (0x1672_0DD1, 4096, 2)
    );
    assert_eq!(
        (
            cp.reserved_segments(),
            cp.overprov_segments(),
            cp.free_segments()
        ),
        (13, 16, 18)
    );
    assert_eq!(
        cp.flags().to_string(),
        "unmount compacted_summary nat_bits trimmed"
    );
    assert_eq!(
        (cp.pack_blocks(), cp.pack_start_sum(), cp.next_free_nid()),
        (6, 1, Nid(4))
    );
    assert_eq!(
        (
            cp.valid_node_count(),
            cp.valid_inode_count(),
            cp.orphan_blocks()
        ),
        (1, 1, 0)
    );
    let logs = Log::ALL.map(|log| (cp.cur_segno(log).0, cp.cur_blkoff(log)));
    assert_eq!(logs, [(3, 1), (11, 0), (5, 0), (0, 1), (1, 0), (2, 0)]);
    assert_eq!(
        (cp.sit_bitmap(), cp.nat_bitmap()),
        (&[0; 64][..], &[0; 64][..])
    );
    assert_eq!(
        Log::NODE.map(|log| cp.summary_offset(log)),
        [Some(2), Some(3), Some(4)]
    );
    assert_eq!((cp.crc(), cp.node_version()), (0x9F49_102A, 0x1672_0DD1));
    let second = Checkpoint::parse(&image(SECOND), 0).expect("sound");
    assert_eq!(second.version(), 0);

    let mut again = cp.clone();
    again.set_version(cp.version() + 1);
    assert!(again.verify_checksum().is_err());
    again.set_version(cp.version());
    again.update_checksum();
    assert_eq!(again, cp);
}

#[test]
fn summaries_of_mkfs() {
    let cp = checkpoint();
    let counts = Log::DATA.map(|log| cp.compact_entries(log));
    let compact = CompactSummaries::decode(&image(COMPACT), counts).expect("sound");
    let nat: Vec<_> = nat_journal(&compact.nat).collect();
    let root = NatEntry {
        version: 0,
        ino: Nid(3),
        addr: BlockAddr(4096),
    };
    assert_eq!(nat, [(Nid(3), root)]);
    let sit: Vec<_> = sit_journal(&compact.sit).collect();
    let said: Vec<_> = sit
        .iter()
        .map(|(seg, e)| (seg.0, e.valid, e.kind, e.count()))
        .collect();
    assert_eq!(
        said,
        [
            (0, 1, 3, 1),
            (1, 0, 4, 0),
            (2, 0, 5, 0),
            (3, 1, 0, 1),
            (11, 0, 1, 0),
            (5, 0, 2, 0)
        ]
    );
    assert_eq!(compact.owners.each_ref().map(Vec::len), [1, 0, 0]);
    assert_eq!(
        compact.owners[0][0],
        Summary {
            nid: Nid(3),
            version: 0,
            ofs_in_node: 0
        }
    );
    assert_eq!(compact.encode(), image(COMPACT));

    let nodes = SummaryBlock::parse(&image(HOT_NODES)).expect("a block");
    assert_eq!(
        (nodes.kind(), nodes.entry(0).nid, nodes.entry(1)),
        (Some(SummaryKind::Node), Nid(3), Summary::default())
    );
    let mut again = SummaryBlock::blank(SummaryKind::Node);
    again.set_entry(
        0,
        Summary {
            nid: Nid(3),
            ..Summary::default()
        },
    );
    assert_eq!(again.bytes(), image(HOT_NODES));
}

#[test]
fn nat_of_mkfs() {
    let nat = image(NAT);
    let own = |n| NatEntry {
        version: 0,
        ino: Nid(n),
        addr: BlockAddr(1),
    };
    assert_eq!(
        (NatEntry::get(&nat, 1), NatEntry::get(&nat, 2)),
        (own(1), own(2))
    );
    assert_eq!(NatEntry::get(&nat, 4), NatEntry::default());

    let (cp, geo) = (checkpoint(), geometry());
    assert_eq!(NatBits::offset(&geo, cp.pack_blocks()), Some(511));
    let bits = NatBits::parse(&image(NAT_BITS), &geo, &cp).expect("of this checkpoint");
    assert_eq!(
        (bits::count_bits(&bits.full), bits::count_bits(&bits.empty)),
        (0, 511)
    );
    assert!(!bits::test_bit_le(&bits.empty, 0) && bits::test_bit_le(&bits.empty, 1));
    assert_eq!(bits.encode(&cp), image(NAT_BITS));
    let second = Checkpoint::parse(&image(SECOND), 0).expect("sound");
    assert!(NatBits::parse(&image(NAT_BITS), &geo, &second).is_err());
}
