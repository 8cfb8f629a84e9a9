//! A log made by debugfs 1.47 (`jo -c; jw -b 10000,10001`), which our encoder makes again bit by
//! bit.
//!
//! UUID 12345678-1234-1234-1234-123456789abc, 4 KiB blocks, 64bit and checksums v3, transaction 1.
//! Block 10000 is all `A`; block 10001 begins with the magic number and goes on with `B`.

use super::*;
use base::bytes::get_be32;
use base::{BlockNo, Tid};

const UUID: [u8; 16] = [
    0x12, 0x34, 0x56, 0x78, 0x12, 0x34, 0x12, 0x34, 0x12, 0x34, 0x12, 0x34, 0x56, 0x78, 0x9A, 0xBC,
];

fn format() -> Format {
    let incompat = JournalIncompat::WIDE_BLOCKS | JournalIncompat::CHECKSUM_V3;
    Format::new(4096, JournalCompat::NONE, incompat, &UUID)
}

#[test]
fn descriptor_of_debugfs() {
    let f = format();
    assert_eq!(f.seed, 0x9436_1CB2);
    let plain = vec![b'A'; 4096];
    let mut magic = vec![b'B'; 4096];
    unescape(&mut magic);
    assert!(needs_escape(&magic) && !needs_escape(&plain));
    escape(&mut magic);

    let mut w = DescriptorWriter::new(f, Tid(1));
    w.push(Tag::of(&f, Tid(1), BlockNo(10000), &plain, false));
    w.push(Tag::of(&f, Tid(1), BlockNo(10001), &magic, true));
    assert_eq!(w.tags()[0].checksum, 0x9E6E_9931);
    assert_eq!(w.tags()[1].checksum, 0x3763_4A15);

    let mut block = vec![0; 4096];
    w.encode(&mut block);
    let words: Vec<u32> = (0..16).map(|n| get_be32(&block, 4 * n)).collect();
    let expected = [
        [MAGIC, 1, 1, 10000],
        [0, 0, 0x9E6E_9931, 0],
        [0, 0, 0, 10001],
        [0xB, 0, 0x3763_4A15, 0],
    ];
    assert_eq!(words, expected.concat());
    assert!(base::bytes::is_zero(&block[60..4092]));

    // debugfs fills the descriptor in a buffer that still holds its UUID at this place, and
    // checksums what is there.
    block[204..220].copy_from_slice(&UUID);
    block[4092..].copy_from_slice(&[0x12, 0x4A, 0x8C, 0x00]);
    let reader = DescriptorReader::parse(f, &block).expect("descriptor");
    reader.verify().expect("tail checksum of debugfs");
    assert_eq!(reader.collect::<Vec<_>>(), w.tags());
}

#[test]
fn commit_of_debugfs() {
    let f = format();
    let mut block = vec![0; 4096];
    Header {
        kind: BlockKind::Commit,
        tid: Tid(1),
    }
    .encode(&mut block);
    block[0x10..0x14].copy_from_slice(&[0x50, 0x71, 0xFE, 0xCF]);
    block[0x30..0x34].copy_from_slice(&[0x6B, 0x02, 0x04, 0xAF]);
    block[0x38..0x3C].copy_from_slice(&[0x2D, 0x19, 0xDA, 0x48]);
    Commit::verify(&f, &block).expect("checksum of debugfs");
    let commit = Commit::parse(&f, &block).expect("commit block");
    // debugfs 1.47 swaps the seconds as 32 bits into the 64-bit field: 2^32 times too large.
    assert_eq!(
        (commit.secs >> 32, commit.nanos),
        (0x6B02_04AF, 0x2D19_DA48)
    );
    let mut again = vec![0xFF; 4096];
    commit.encode(&f, &mut again);
    assert_eq!(again, block);
}

#[test]
fn superblock_of_debugfs() {
    let mut sb = Superblock::new(4096, 1024, UUID);
    sb.set_incompat(JournalIncompat::WIDE_BLOCKS | JournalIncompat::CHECKSUM_V3);
    sb.set_checksum_type(CHECKSUM_CRC32C);
    sb.set_start(1);
    let mut bytes = vec![0; SUPERBLOCK_BYTES];
    sb.encode(&mut bytes);
    let words: Vec<u32> = (0..16).map(|n| get_be32(&bytes, 4 * n)).collect();
    let expected = [
        [MAGIC, 4, 0, 4096],
        [1024, 1, 1, 1],
        [0, 0, 0x12, 0],
        [0x1234_5678, 0x1234_1234, 0x1234_1234, 0x5678_9ABC],
    ];
    assert_eq!(words, expected.concat());
    assert_eq!(
        (get_be32(&bytes, 0x40), get_be32(&bytes, 0x50)),
        (1, 0x0400_0000)
    );
    assert_eq!(get_be32(&bytes, 0xFC), 0x467E_1A6A);
}
