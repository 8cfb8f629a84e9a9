//! Round trips of the volume structures, and their parsing of hostile bytes.

use super::volume_golden::{geometry, superblock};
use super::*;
use crate::Corrupt;
use proptest::prelude::*;

fn entry() -> impl Strategy<Value = NatEntry> {
    any::<(u8, u32, u32)>().prop_map(|(version, ino, addr)| NatEntry {
        version,
        ino: Nid(ino),
        addr: BlockAddr(addr),
    })
}

fn owner() -> impl Strategy<Value = Summary> {
    any::<(u32, u8, u16)>().prop_map(|(nid, version, ofs_in_node)| Summary {
        nid: Nid(nid),
        version,
        ofs_in_node,
    })
}

fn owners() -> impl Strategy<Value = Vec<Summary>> {
    proptest::collection::vec(owner(), 0..=512)
}

fn segment() -> impl Strategy<Value = SitEntry> {
    let map = proptest::collection::vec(any::<u8>(), VALID_MAP_BYTES);
    (0..1024u16, 0..64u8, map, any::<u64>()).prop_map(|(valid, kind, bytes, mtime)| {
        let mut map = [0; VALID_MAP_BYTES];
        map.copy_from_slice(&bytes);
        SitEntry {
            valid,
            kind,
            map,
            mtime,
        }
    })
}

/// A sound checkpoint of the golden volume, from scratch, with so many blocks of payload.
fn checkpoint(payload: u32, flags: CpFlags) -> Checkpoint {
    let mut cp = Checkpoint::blank(payload);
    cp.set_flags(flags);
    if flags.has(CpFlags::LARGE_NAT_BITMAP) {
        cp.set_checksum_offset(CP_BITMAP_AT as u32);
    }
    cp.set_user_block_count(4096);
    cp.set_pack_start_sum(1 + payload);
    cp.set_pack_blocks(payload + 8);
    cp.set_sit_bitmap_bytes(64);
    cp.set_nat_bitmap_bytes(64);
    for log in Log::ALL {
        cp.set_cur_segno(log, SegNo(log.index() as u32));
    }
    cp
}

#[test]
fn bitmaps_in_every_place() {
    let cases = [
        (0, CpFlags::NONE, 256, 192),
        (2, CpFlags::NONE, 192, 4096),
        (1, CpFlags::LARGE_NAT_BITMAP, 196, 260),
    ];
    for (payload, flags, nat_at, sit_at) in cases {
        let mut cp = checkpoint(payload, flags);
        bits::set_bit(cp.nat_bitmap_mut(), 0);
        bits::set_bit(cp.sit_bitmap_mut(), 511);
        cp.update_checksum();
        assert_eq!((cp.bytes()[nat_at], cp.bytes()[sit_at + 63]), (0x80, 1));
        let again = Checkpoint::parse(cp.bytes(), payload).expect("sound");
        assert!(bits::test_bit(again.nat_bitmap(), 0) && bits::test_bit(again.sit_bitmap(), 511));
        assert!(
            Checkpoint::parse(&cp.bytes()[1..], payload).is_err(),
            "too short"
        );
        let mut broken = cp.bytes().to_vec();
        broken[300] ^= 4;
        assert!(Checkpoint::parse(&broken, payload).is_err_and(|e| e.is_checksum()));
    }
}

#[test]
fn bitmaps_that_do_not_fit() {
    for (payload, nat, sit) in [(0, 3900, 64), (0, 64, u32::MAX), (1, 3901, 0), (1, 0, 4097)] {
        let mut cp = checkpoint(payload, CpFlags::NONE);
        cp.set_nat_bitmap_bytes(nat);
        cp.set_sit_bitmap_bytes(sit);
        cp.update_checksum();
        // It is the newest one all the same, and says what cannot be.
        let cp = Checkpoint::parse(cp.bytes(), payload).expect("whole");
        let why = cp.check(&geometry()).expect_err("does not fit").to_string();
        assert!(why.contains("ver_bitmap_bytesize"), "{nat} {sit}: {why}");
    }
}

/// Each change of one number makes the check fail, and it names the field.
#[test]
fn numbers_of_a_checkpoint_are_checked() {
    let geo = geometry();
    let sound = checkpoint(0, CpFlags::NONE);
    sound.check(&geo).expect("sound");
    type Change = fn(&mut Checkpoint);
    let changes: [(Change, &str); 19] = [
        (|cp| cp.set_pack_blocks(0), "cp_pack_total_block_count"),
        (|cp| cp.set_pack_blocks(513), "cp_pack_total_block_count"),
        (|cp| cp.set_pack_start_sum(0), "cp_pack_start_sum"),
        (|cp| cp.set_pack_start_sum(5), "cp_pack_start_sum"),
        (|cp| cp.set_pack_start_sum(u32::MAX), "cp_pack_start_sum"),
        (|cp| cp.set_nat_bitmap_bytes(32), "nat_ver_bitmap_bytesize"),
        (|cp| cp.set_sit_bitmap_bytes(65), "sit_ver_bitmap_bytesize"),
        (|cp| cp.set_overprov_segments(24), "overprov_segment_count"),
        (
            |cp| cp.set_reserved_segments(u32::MAX),
            "rsvd_segment_count",
        ),
        (|cp| cp.set_user_block_count(0), "user_block_count"),
        (|cp| cp.set_user_block_count(24 * 512), "user_block_count"),
        (|cp| cp.set_valid_block_count(4097), "valid_block_count"),
        (|cp| cp.set_free_segments(25), "free_segment_count"),
        (|cp| cp.set_valid_node_count(1), "valid_node_count"),
        (|cp| cp.set_valid_inode_count(1), "valid_inode_count"),
        (|cp| cp.set_next_free_nid(Nid(455 * 512)), "next_free_nid"),
        (
            |cp| cp.set_cur_segno(Log::WarmNode, SegNo(24)),
            "cur_node_segno",
        ),
        (
            |cp| cp.set_cur_segno(Log::ColdData, SegNo(0)),
            "cur_data_segno",
        ),
        (|cp| cp.set_cur_blkoff(Log::HotData, 512), "cur_data_blkoff"),
    ];
    for (n, (change, field)) in changes.into_iter().enumerate() {
        let mut cp = sound.clone();
        change(&mut cp);
        let text = cp.check(&geo).expect_err("must be refused").to_string();
        assert!(text.contains(field), "change {n}: {text}");
    }
    let mut large = checkpoint(0, CpFlags::LARGE_NAT_BITMAP);
    large.set_checksum_offset(4092);
    assert!(
        large
            .check(&geo)
            .is_err_and(|e| e.to_string().contains("checksum_offset"))
    );
}

/// Each change of one number of the superblock makes the geometry fail, and it names the field.
#[test]
fn numbers_of_a_superblock_are_checked() {
    type Change = fn(&mut Superblock);
    let changes: [(Change, &str); 28] = [
        (|sb| sb.set_log_block_bytes(13), "log_blocksize"),
        (|sb| sb.set_log_blocks_per_seg(10), "log_blocks_per_seg"),
        (|sb| sb.set_log_sector_bytes(8), "log_sectorsize"),
        (
            |sb| sb.set_log_sectors_per_block(0),
            "log_sectors_per_block",
        ),
        (|sb| sb.set_cp_payload(505), "cp_payload"),
        (|sb| sb.set_segment_count(8), "segment_count"),
        (|sb| sb.set_segment_count(u32::MAX), "segment_count"),
        (|sb| sb.set_segment_count(30), "segment_count"),
        (|sb| sb.set_segment_count(32), "block_count"),
        (|sb| sb.set_segment_count_main(0), "segment_count_main"),
        (|sb| sb.set_segs_per_sec(0), "segs_per_sec"),
        (|sb| sb.set_section_count(25), "section_count"),
        (|sb| sb.set_section_count(0), "section_count"),
        (|sb| sb.set_secs_per_zone(0), "secs_per_zone"),
        (|sb| sb.set_segment_count_cp(1), "segment_count_ckpt"),
        (|sb| sb.set_segment_count_sit(3), "segment_count_sit"),
        (|sb| sb.set_segment_count_nat(0), "segment_count_nat"),
        (|sb| sb.set_segment_count_ssa(0), "segment_count_ssa"),
        (|sb| sb.set_segment0_addr(1), "segment0_blkaddr"),
        (|sb| sb.set_cp_addr(513), "cp_blkaddr"),
        (|sb| sb.set_sit_addr(0), "sit_blkaddr"),
        (|sb| sb.set_nat_addr(u32::MAX), "nat_blkaddr"),
        (|sb| sb.set_ssa_addr(3583), "ssa_blkaddr"),
        (|sb| sb.set_main_addr(4608), "main_blkaddr"),
        (|sb| sb.set_block_count(16383), "block_count"),
        (|sb| sb.set_block_count(16385), "block_count"),
        (|sb| sb.set_root_ino(Nid(4)), "root_ino"),
        (|sb| sb.set_node_ino(Nid(0)), "node_ino"),
    ];
    for (n, (change, field)) in changes.into_iter().enumerate() {
        let mut sb = superblock();
        change(&mut sb);
        let text = Geometry::new(&sb, 16384)
            .expect_err("must be refused")
            .to_string();
        assert!(text.contains(field), "change {n}: {text}");
    }
    let text = Geometry::new(&superblock(), 16383)
        .expect_err("too short")
        .to_string();
    assert!(text.contains("device is shorter"), "{text}");
}

/// A main area that the SIT or the summary area cannot describe.
#[test]
fn areas_that_are_too_small() {
    let refused = |main: u32, ssa: u32| {
        let mut sb = superblock();
        sb.set_segment_count_ssa(ssa);
        sb.set_segment_count_main(main);
        sb.set_section_count(main);
        sb.set_segment_count(6 + ssa + main);
        sb.set_main_addr(sb.ssa_addr() + ssa * BLOCKS_PER_SEG);
        sb.set_block_count(1 << 30);
        Geometry::new(&sb, 1 << 30).err().map(|e| e.to_string())
    };
    assert_eq!(refused(512, 1), None);
    assert!(refused(513, 1).is_some_and(|e| e.contains("segment_count_ssa")));
    assert_eq!(refused(512 * 55, 55), None);
    assert!(refused(512 * 55 + 1, 56).is_some_and(|e| e.contains("segment_count_sit")));
}

#[test]
fn superblock_checksum() {
    let mut sb = superblock();
    sb.set_features(Features::SB_CHKSUM);
    let mut block = vec![0; BLOCK_BYTES];
    sb.encode(&mut block);
    assert_eq!(
        Superblock::in_block(&block).map(|sb| sb.checksum_offset()),
        Ok(3068)
    );
    let broken = |at: usize| {
        let mut block = block.clone();
        block[SUPERBLOCK_AT + at] ^= 1;
        Superblock::in_block(&block)
    };
    assert!(broken(200).is_err_and(|e| e.is_checksum()));
    assert!(broken(3068).is_err_and(|e| e.is_checksum()));
    assert!(broken(32).is_err_and(|e| e.to_string().contains("checksum_offset")));
    assert!(broken(0).is_err_and(|e| e.to_string().contains("magic")));
}

#[test]
fn lists_of_the_superblock() {
    let mut sb = superblock();
    let many = vec![&b"x"[..]; 60];
    assert!(!sb.set_extensions(&many, &[&b"y"[..]; 5]) && !sb.set_extensions(&[b"12345678"], &[]));
    assert_eq!(sb, superblock());
    assert!(sb.set_extensions(&many, &[&b"y"[..]; 4]));
    assert_eq!(
        (sb.cold_extensions().count(), sb.hot_extensions().count()),
        (60, 4)
    );
    sb.set_hot_extension_count(5);
    assert!(
        Superblock::parse(sb.bytes()).is_err_and(|e| e.to_string().contains("extension_count"))
    );
    assert!(!sb.set_label(&"x".repeat(513)) && sb.set_label(&"\u{1F4BE}".repeat(256)));
    assert_eq!(sb.label().chars().count(), 256);
    assert!(sb.record_error(3) && !sb.record_error(3) && !sb.record_error(128));
    sb.record_stop(1);
    sb.record_stop(32);
    assert_eq!((sb.errors()[0], sb.stop_reasons()[1]), (8, 1));
    sb.set_version(&[b'v'; 300]);
    assert_eq!((sb.version().len(), sb.init_version()), (255, &b""[..]));
}

#[test]
fn journals_that_lie() {
    let mut block = SummaryBlock::blank(SummaryKind::Data);
    block.journal_mut().fill(0xFF);
    assert_eq!(
        (block.nat_journal().count(), block.sit_journal().count()),
        (38, 6)
    );
    assert_eq!(journal_count(block.journal()), u16::MAX);
    assert_eq!(
        (nat_journal(&[38, 0, 1]).count(), sit_journal(&[1]).count()),
        (0, 0)
    );
    let mut raw = block.bytes().to_vec();
    raw[4091] = 2;
    assert_eq!(SummaryBlock::parse(&raw).map(|b| b.kind()), Ok(None));
    assert_eq!(
        (summary_kind(&raw[..4000]), summary_entry(&raw, 512)),
        (None, Summary::default())
    );
}

#[test]
fn compact_needs_its_blocks() {
    let decode =
        |blocks: usize, counts| CompactSummaries::decode(&vec![0; blocks * BLOCK_BYTES], counts);
    assert!(decode(1, [439, 0, 0]).is_ok() && decode(1, [439, 1, 0]).is_err());
    assert!(decode(2, [512, 511, 0]).is_ok() && decode(2, [512, 512, 0]).is_err());
    assert!(decode(3, [512, 512, 512]).is_ok() && decode(4, [513, 0, 0]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn compact_there_and_back(hot in owners(), warm in owners(), cold in owners()) {
        let counts = [&hot, &warm, &cold].map(|o| o.len() as u32);
        let compact = CompactSummaries { nat: vec![1; JOURNAL_BYTES], sit: vec![2; JOURNAL_BYTES], owners: [hot, warm, cold] };
        let blocks = compact.encode();
        prop_assert_eq!(CompactSummaries::decode(&blocks, counts), Ok(compact));
    }

    #[test]
    fn journals_there_and_back(
        nat in proptest::collection::vec((any::<u32>(), entry()), 0..=NAT_JOURNAL_MAX),
        sit in proptest::collection::vec((any::<u32>(), segment()), 0..=SIT_JOURNAL_MAX),
        at in 0..BLOCKS_PER_SEG, owner in owner(),
    ) {
        let nat: Vec<_> = nat.into_iter().map(|(nid, e)| (Nid(nid), e)).collect();
        let sit: Vec<_> = sit.into_iter().map(|(seg, e)| (SegNo(seg), e)).collect();
        let mut block = SummaryBlock::blank(SummaryKind::Data);
        block.set_entry(at, owner);
        block.set_nat_journal(&nat);
        prop_assert_eq!(block.nat_journal().collect::<Vec<_>>(), nat);
        block.set_sit_journal(&sit);
        prop_assert_eq!(block.sit_journal().collect::<Vec<_>>(), sit);
        prop_assert_eq!((block.kind(), block.entry(at)), (Some(SummaryKind::Data), owner));
    }

    /// geometry-G3 for whatever geometry is accepted; no change of the bytes makes anything panic.
    #[test]
    fn hostile_superblock(changes in proptest::collection::vec((0..108usize, any::<u8>()), 1..4), device in any::<u64>()) {
        let mut raw = superblock().bytes().to_vec();
        for (at, byte) in changes {
            raw[at] = byte;
        }
        if let Ok(geo) = Superblock::parse(&raw).and_then(|sb| Geometry::new(&sb, device)) {
            let last = SegNo(geo.segments_main - 1);
            let ends = [geo.main_end().0 - 1, geo.ssa_block(last).0, geo.nat_addr(geo.nat_blocks - 1, true).0,
                geo.sit_addr(geo.sit_blocks - 1, true).0, geo.cp_pack(true).0 + 511];
            let (nat, index) = geo.nat_block(Nid(geo.max_nid - 1));
            prop_assert!(nat < geo.nat_blocks && index < NAT_PER_BLOCK);
            prop_assert!(geo.sit_block(last).0 < geo.sit_blocks);
            prop_assert!(ends.iter().all(|&end| u64::from(end) < geo.block_count && geo.block_count <= device));
        }
    }

    #[test]
    fn hostile_checkpoint(raw in proptest::collection::vec(any::<u8>(), 192), payload in 0..3u32) {
        let mut bytes = vec![0; 4096 * 3];
        bytes[..192].copy_from_slice(&raw);
        bytes[164..168].copy_from_slice(&4092u32.to_le_bytes());
        let crc = crc_f2fs(&bytes[..4092]);
        bytes[4092..4096].copy_from_slice(&crc.to_le_bytes());
        let parsed: Result<Checkpoint, Corrupt> = Checkpoint::parse(&bytes, payload);
        if let Ok(mut cp) = parsed {
            // What does not fit is not there, and `check` refuses it.
            let (nat, sit) = (cp.nat_bitmap_bytes(), cp.sit_bitmap_bytes());
            prop_assert!([0, nat].contains(&(cp.nat_bitmap().len() as u32)));
            prop_assert!([0, sit].contains(&(cp.sit_bitmap_mut().len() as u32)));
            for log in Log::ALL {
                let _ = (cp.summary_offset(log), cp.compact_entries(log), cp.alloc_type(log));
            }
            let _ = (cp.orphan_blocks(), CompactSummaries::blocks_of(&cp), cp.check(&geometry()));
        }
    }
}
