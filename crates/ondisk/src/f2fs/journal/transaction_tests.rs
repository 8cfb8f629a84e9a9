//! Transactions of every length, with every bit flipped, and among blocks that an earlier lap or
//! life of the ring left.

use super::record_tests::{Owned, records};
use super::*;
use crate::f2fs::{BLOCK_BYTES, Nid};
use base::Rng;
use base::bytes::{get_le32, put_le32, put_le64};
use base::checksum::crc32c;
use proptest::collection::vec;
use proptest::prelude::*;

const INCARNATION: u64 = 0x1234_5678_9ABC_DEF0;

/// A transaction with `bytes` bytes of groups: 0, or 16 and more; a multiple of 4.
fn filled(epoch: u64, bytes: usize, seed: u64) -> Transaction {
    let mut rng = Rng::named(seed, "transaction");
    let content: Vec<u8> = (0..4096).map(|_| rng.next_u64() as u8).collect();
    let (mut payload, mut groups, mut total) = (Vec::new(), 0, 0);
    while payload.len() < bytes {
        let room = bytes - payload.len();
        let size = match room {
            60_001..60_016 => 30_000,
            _ => room.min(60_000),
        };
        let mut own = Vec::new();
        let mut records = 0;
        while own.len() < size - GROUP_HEADER_BYTES {
            let nid = Nid(rng.next_u64() as u32);
            let record = match size - GROUP_HEADER_BYTES - own.len() {
                4..12 => Record::OrphanAdd,
                12..4108 => Record::Trunc {
                    from: rng.next_u64(),
                },
                _ => Record::Bytes {
                    content: Content::Node,
                    nid,
                    at: 0,
                    bytes: &content,
                },
            };
            record.encode(&mut own);
            records += 1;
        }
        let ino = Nid(3 + groups);
        groups += put_group(
            &mut payload,
            &Group {
                ino,
                generation: 1,
                records,
                bytes: &own,
            },
        );
        total += records;
    }
    assert_eq!(payload.len(), bytes);
    Transaction {
        incarnation: INCARNATION,
        epoch,
        descriptor: Descriptor {
            flags: TransactionFlags::FLUSHED,
            groups,
            records: total,
            previous: 5,
            opened: seed,
        },
        commit: Commit {
            time: 1,
            valid_blocks: 2,
            valid_nodes: 3,
            valid_inodes: 4,
            next_free_nid: Nid(5),
        },
        payload,
    }
}

/// Bytes of groups that make a transaction of so many blocks; `full`: as many as possible.
fn payload_of(blocks: u32, full: bool) -> usize {
    match (blocks, full) {
        (1, true) => COMPACT_BYTES,
        (1, false) => 0,
        (3, false) => COMPACT_BYTES + 4,
        (n, true) => (n as usize - 2) * RECORDS_PER_BLOCK_BYTES,
        (n, false) => (n as usize - 3) * RECORDS_PER_BLOCK_BYTES + 4,
    }
}

fn parse(blocks: &[u8], t: &Transaction) -> Result<Transaction, Fault> {
    Transaction::parse(blocks, t.incarnation, t.epoch)
}

#[test]
fn commits_of_all_sizes() {
    for blocks in [1, 3, 4, 255, 256, 257, 511, 512, 513, 514, 22_000] {
        for full in [false, true] {
            let bytes = payload_of(blocks, full);
            let t = filled(
                9,
                if bytes % 16 == 4 { bytes + 16 } else { bytes },
                blocks.into(),
            );
            let encoded = t.encode();
            assert_eq!(encoded.len(), blocks as usize * BLOCK_BYTES, "{blocks}");
            assert_eq!((t.blocks(), transaction_blocks(bytes)), (blocks, blocks));
            assert_eq!(
                Transaction::peek(&encoded[..BLOCK_BYTES], INCARNATION, 9),
                Ok(blocks.into())
            );
            let found = parse(&encoded, &t).expect("whole");
            assert!(found == t, "{blocks}");
            // One block less is none; more behind do not matter.
            if blocks > 1 {
                let short = parse(&encoded[..encoded.len() - BLOCK_BYTES], &t);
                let need = blocks.into();
                assert_eq!(short.expect_err("short").kind, FaultKind::Short { need });
            }
            let more = [&encoded[..], &[7; BLOCK_BYTES]].concat();
            assert!(parse(&more, &t).expect("whole") == t);
        }
    }
    // There is no transaction of two blocks: one that needs more than a compact block has three.
    assert_eq!(transaction_blocks(COMPACT_BYTES + 1), 3);
}

#[test]
fn every_flipped_bit_is_found() {
    for blocks in [1, 3, 4] {
        let t = filled(9, payload_of(blocks, true), 1);
        let mut bytes = t.encode();
        for bit in 0..8 * bytes.len() {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let fault = parse(&bytes, &t).expect_err("a flipped bit");
            assert_eq!(fault.index as usize, bit / 8 / BLOCK_BYTES, "{fault}");
            let header = matches!(
                fault.kind,
                FaultKind::Header(HeaderFault::Magic(_) | HeaderFault::Checksum { .. })
            );
            assert!(header && !fault.is_impossible(), "{fault}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// In place of each block: what an earlier lap, an earlier life, another attempt, or another block
/// of the same transaction left.
#[test]
fn blocks_of_something_else_are_refused() {
    let t = filled(9, payload_of(5, true), 1);
    let good = t.encode();
    let others = [
        (filled(5, payload_of(5, true), 2), FaultKind::Epoch(5)),
        (filled(12, payload_of(5, true), 2), FaultKind::Epoch(12)),
        (
            Transaction {
                incarnation: 3,
                ..filled(9, payload_of(5, true), 2)
            },
            FaultKind::Incarnation(3),
        ),
    ];
    for (other, kind) in others {
        let other = other.encode();
        for n in 0..5 {
            let mut mixed = good.clone();
            let at = n * BLOCK_BYTES..(n + 1) * BLOCK_BYTES;
            mixed[at.clone()].copy_from_slice(&other[at]);
            let fault = parse(&mixed, &t).expect_err("another block");
            assert_eq!((fault.index as usize, &fault.kind), (n, &kind));
            let part = [
                Part::Descriptor,
                Part::Records,
                Part::Records,
                Part::Records,
                Part::Commit,
            ][n];
            assert!(fault.part == part && !fault.is_impossible());
        }
    }
    // Another attempt at the same epoch in the same life: each block is sound, and transaction-T3
    // tells.
    let again = filled(9, payload_of(5, true), 3).encode();
    for n in 0..5 {
        let mut mixed = good.clone();
        let at = n * BLOCK_BYTES..(n + 1) * BLOCK_BYTES;
        mixed[at.clone()].copy_from_slice(&again[at]);
        let fault = parse(&mixed, &t).expect_err("a mixture");
        let FaultKind::Checksum { .. } = fault.kind else {
            panic!("{fault}");
        };
        assert_eq!((fault.part, fault.index), (Part::Commit, 4));
    }
    for (a, b) in [(1, 2), (0, 1), (4, 1), (0, 4)] {
        let mut mixed = good.clone();
        let from = good[a * BLOCK_BYTES..(a + 1) * BLOCK_BYTES].to_vec();
        mixed[b * BLOCK_BYTES..(b + 1) * BLOCK_BYTES].copy_from_slice(&from);
        let fault = parse(&mixed, &t).expect_err("swapped");
        assert_eq!(fault.kind, FaultKind::Index(a as u32));
        assert!(fault.is_impossible() && fault.index as usize == b);
    }
}

/// Changes 4 bytes of a block and makes its checksum right.
fn forge(bytes: &mut [u8], block: usize, at: usize, value: u32) {
    let b = &mut bytes[block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES];
    put_le32(b, at, value);
    put_le32(b, 28, 0);
    let crc = crc32c(!0, b);
    put_le32(b, 28, crc);
}

/// Makes the checksum of the transaction right.
fn forge_commit(bytes: &mut [u8]) {
    let last = bytes.len() / BLOCK_BYTES - 1;
    let crc = crc32c(!0, &bytes[..last * BLOCK_BYTES]);
    forge(bytes, last, 36, crc);
}

#[test]
fn sound_checksums_and_impossible_numbers() {
    let t = filled(9, payload_of(4, true), 1);
    let field = |fault: &Fault| match fault.kind {
        FaultKind::Field { field, .. } | FaultKind::Header(HeaderFault::Field { field, .. }) => {
            field
        }
        _ => "",
    };
    // Block, offset, value, field that is blamed, block that is blamed.
    let cases = [
        (0, 4, 0x0048_0005, "kind", 0),
        (0, 4, 0x0048_0101, "flags", 0),
        (0, 4, 0x0020_0001, "hdr_len", 0),
        (0, 32, u32::MAX, "payload_bytes", 0),
        (0, 32, 1, "payload_bytes", 0),
        (0, 36, 8, "flags", 0),
        (0, 40, 4, "payload_bytes", 0),
        (0, 44, 1, "payload_bytes", 0),
        (0, 48, 0, "n_groups", 0),
        (0, 52, u32::MAX, "n_records", 0),
        (0, 60, 1, "flags", 0),
        (1, 32 + 4, 2, "n_records", 0),
        (3, 32, 5, "n_blocks", 3),
    ];
    for (block, at, value, name, index) in cases {
        let mut bytes = t.encode();
        forge(&mut bytes, block, at, value);
        if block < 3 {
            forge_commit(&mut bytes);
        }
        let fault = parse(&bytes, &t).expect_err(name);
        assert_eq!((field(&fault), fault.index), (name, index), "{fault}");
        assert!(fault.is_impossible());
    }
    let mut bytes = t.encode();
    forge(&mut bytes, 1, 32 + 8, !3);
    forge_commit(&mut bytes);
    let fault = parse(&bytes, &t).expect_err("a group that does not fit");
    assert!(
        matches!(fault.kind, FaultKind::Payload(_)) && fault.is_impossible(),
        "{fault}"
    );
    // A commit block where records belong, and the other way round.
    for (block, kind, head) in [
        (1, BlockKind::Commit, 0x0048_0003),
        (3, BlockKind::Records, 0x0020_0002),
    ] {
        let mut bytes = t.encode();
        forge(&mut bytes, block, 4, head);
        assert_eq!(
            parse(&bytes, &t).expect_err("kind").kind,
            FaultKind::Kind(kind)
        );
    }
    let mut bytes = t.encode();
    forge(&mut bytes, 0, 4, 0x0020_0002);
    assert_eq!(
        parse(&bytes, &t).expect_err("kind").kind,
        FaultKind::Kind(BlockKind::Records)
    );
    // Compact: no blocks of records, no more bytes than fit, no checksum of others.
    let small = filled(9, 800, 1);
    for (at, value) in [
        (32, 1),
        (40, COMPACT_BYTES as u32 + 1),
        (72, 2),
        (76, 1),
        (108, 1),
    ] {
        let mut bytes = small.encode();
        forge(&mut bytes, 0, at, value);
        assert!(parse(&bytes, &small).is_err(), "{value} at {at}");
    }
}

#[test]
fn the_largest_promise_needs_no_memory() {
    let mut bytes = filled(9, payload_of(4, true), 1).encode();
    forge(&mut bytes, 0, 32, u32::MAX);
    let payload = u64::from(u32::MAX) * RECORDS_PER_BLOCK_BYTES as u64;
    let mut eight = [0; 8];
    put_le64(&mut eight, 0, payload);
    forge(&mut bytes, 0, 40, get_le32(&eight, 0));
    forge(&mut bytes, 0, 44, get_le32(&eight, 4));
    let need = u64::from(u32::MAX) + 2;
    assert_eq!(Transaction::peek(&bytes, INCARNATION, 9), Ok(need));
    let one = Transaction::parse(&bytes[..BLOCK_BYTES], INCARNATION, 9);
    assert_eq!(one.expect_err("short").kind, FaultKind::Short { need });
    // What is there is looked at first.
    let all = Transaction::parse(&bytes, INCARNATION, 9).expect_err("no such commit block");
    assert_eq!(
        (all.index, all.kind),
        (3, FaultKind::Kind(BlockKind::Commit))
    );
    let mut assembly = Assembly::begin(&bytes, INCARNATION, 9).expect("a first block");
    assert_eq!((assembly.blocks(), assembly.missing()), (need, need - 1));
    let next = assembly.push(&bytes[BLOCK_BYTES..]);
    assert_eq!((next, assembly.missing()), (Ok(()), need - 2));
}

#[test]
fn epochs_have_an_end() {
    for (epoch, ok) in [
        (0, false),
        (1, true),
        (EPOCH_MAX, true),
        (EPOCH_MAX + 1, false),
    ] {
        for bytes in [0, 5000 / 4 * 4] {
            let t = filled(epoch, bytes, 1);
            assert_eq!(parse(&t.encode(), &t).is_ok(), ok, "{epoch}");
        }
    }
}

/// A transaction anywhere in a small ring, over what an earlier lap left; then cut off at each
/// block.
#[test]
fn it_wraps_at_every_offset() {
    let ring = RingArea {
        first: 0,
        blocks: 14,
    };
    let take = |image: &[u8], index: u32, n: u32| -> Vec<u8> {
        let runs = ring.runs(index, n);
        runs.flat_map(|r| &image[r.start as usize * BLOCK_BYTES..r.end as usize * BLOCK_BYTES])
            .copied()
            .collect()
    };
    let put = |image: &mut [u8], index: u32, blocks: &[u8]| {
        for (n, block) in blocks.chunks_exact(BLOCK_BYTES).enumerate() {
            let at = ring.block(ring.step(index, n as u64)) as usize * BLOCK_BYTES;
            image[at..at + BLOCK_BYTES].copy_from_slice(block);
        }
    };
    let old = filled(1, payload_of(14, true), 7).encode();
    for index in 0..14 {
        for blocks in [1, 3, 4, 13, 14] {
            let t = filled(2, payload_of(blocks, true), index.into());
            let encoded = t.encode();
            let mut image = vec![0; 14 * BLOCK_BYTES];
            for written in 0..=blocks {
                put(&mut image, 0, &old);
                put(
                    &mut image,
                    index,
                    &encoded[..written as usize * BLOCK_BYTES],
                );
                let n = Transaction::peek(&take(&image, index, 1), INCARNATION, 2);
                assert_eq!(n.is_ok(), written > 0);
                let found = parse(&take(&image, index, blocks), &t);
                match found {
                    Ok(found) => assert!(written == blocks && found == t),
                    Err(fault) => {
                        assert_eq!((fault.index, fault.kind), (written, FaultKind::Epoch(1)))
                    }
                }
            }
        }
    }
}

proptest! {
    /// ondisk-I2.
    #[test]
    fn transactions_round_trip(all in vec(vec(records(), 0..8), 0..8), numbers in any::<[u64; 4]>(), small in any::<[u32; 5]>(), flags in 0u32..8,
        at in any::<prop::sample::Index>(), bit in 0u8..8)
    {
        let (mut payload, mut count) = (Vec::new(), 0);
        for (n, group) in all.iter().enumerate() {
            let mut bytes = Vec::new();
            group.iter().map(Owned::record).for_each(|r| r.encode(&mut bytes));
            count += group.len() as u32;
            put_group(&mut payload, &Group { ino: Nid(n as u32), generation: 0, records: group.len() as u32, bytes: &bytes });
        }
        let t = Transaction {
            incarnation: numbers[0],
            epoch: numbers[1] % EPOCH_MAX + 1,
            descriptor: Descriptor { flags: TransactionFlags(flags), groups: all.len() as u32, records: count, previous: small[0], opened: numbers[2] },
            commit: Commit { time: numbers[3], valid_blocks: numbers[2] ^ 1, valid_nodes: small[1], valid_inodes: small[2], next_free_nid: Nid(small[3]) },
            payload,
        };
        let mut bytes = t.encode();
        let found = parse(&bytes, &t);
        prop_assert_eq!(found.as_ref(), Ok(&t));
        let groups: Vec<Group<'_>> = Groups::new(&t.payload).map(|g| g.expect("sound")).collect();
        let made: usize = groups.iter().map(|g| g.iter().filter(|r| r.is_ok()).count()).sum();
        prop_assert_eq!(made, count as usize);
        prop_assert!(Transaction::parse(&bytes, t.incarnation ^ 1, t.epoch).is_err());
        prop_assert!(Transaction::parse(&bytes, t.incarnation, t.epoch ^ 1).is_err());
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(parse(&bytes, &t).is_err());
    }

    /// Random content whose checksums are right.
    #[test]
    fn sound_garbage(payload in vec(any::<u8>(), 0..9000), groups in any::<u32>(), records in any::<u32>(), at in any::<prop::sample::Index>(), value in any::<u32>(),
        block in any::<prop::sample::Index>())
    {
        let descriptor = Descriptor { groups, records, ..Descriptor::default() };
        let t = Transaction { incarnation: 1, epoch: 1, descriptor, payload, ..Transaction::default() };
        let mut bytes = t.encode();
        let _ = parse(&bytes, &t);
        let block = block.index(bytes.len() / BLOCK_BYTES);
        forge(&mut bytes, block, at.index(BLOCK_BYTES / 4) * 4, value);
        let _ = parse(&bytes, &t);
        forge_commit(&mut bytes);
        let _ = (parse(&bytes, &t), Transaction::peek(&bytes[block * BLOCK_BYTES..], 1, 1));
    }

    #[test]
    fn garbage(bytes in vec(any::<u8>(), 0..5000), tame in any::<bool>()) {
        let mut bytes = bytes;
        if tame && bytes.len() >= 4 {
            bytes[..4].copy_from_slice(b"F2JB");
        }
        prop_assert!(BlockHeader::parse(&bytes).is_err());
        prop_assert!(Transaction::parse(&bytes, 0, 0).is_err() && Transaction::peek(&bytes, 0, 0).is_err());
    }
}
