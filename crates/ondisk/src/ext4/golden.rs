//! Structures of volumes made by e2fsprogs 1.47, read and checked bit by bit.
//!
//! The first volume: `mke2fs -t ext4 -b 1024 -L golden -d DIR` on 32 MiB, where DIR holds a
//! directory with 200 long names and a file with six runs of data, then `e2fsck -fyD` (it builds
//! the index) and two `ea_set` of debugfs. The second:
//! `mke2fs -t ext4 -b 1024 -O ^64bit,^metadata_csum,uninit_bg` on 16 MiB. Both have UUID
//! 12345678-1234-1234-1234-123456789abc.
//!
//! A string holds the bytes that are not zero: `offset:bytes`, all in hexadecimal, `*n` (decimal)
//! for a run.

use super::*;
use base::BlockNo;

const BLOCK: usize = 1024;
const UUID: [u8; 16] = [
    0x12, 0x34, 0x56, 0x78, 0x12, 0x34, 0x12, 0x34, 0x12, 0x34, 0x12, 0x34, 0x56, 0x78, 0x9A, 0xBC,
];

/// Primary superblock.
const SUPERBLOCK: &str = "\
    0:002000000080000066060000d36400002b1f000001 21:200000002000000008 \
    30:6608026b0000ffff53ef0100010000006608026b 4c:01 54:0b \
    59:0100003c000000c20200006b04000012345678123412341234123456789abc676f6c64656e ce:ff \
    e0:08 ec:11111111222233334444 f6:55*6 fc:010140000c 108:6608026b0af3010004 \
    11d:1000000140 14e:40 15c:2000200001 174:04010000dd01 248:0c1b 3fc:0633231e";

/// The first two group descriptors.
const GROUPS: &str = "\
    0:02010000060100000a010000d6162b07030004 18:366745c02b0744b4 38:cb938124 \
    40:03010000070100000a030000ff1e0008000007 5d:0894fb";

/// Inode bitmap of group 0.
const INODE_BITMAP: &str = "\
    0:ff*26 1a:1f 100:ff*768";

/// Block bitmap of group 0.
const BLOCK_BITMAP: &str = "\
    0:ff*293 125:03";

/// Inode 2.
const INODE_ROOT: &str = "\
    0:ed410000000400006608026b6608026b6608026b 1a:040002 22:08 28:0af3010004 38:010000000a09 \
    7c:782100002000e05c 90:6608026b";

/// Inode 12.
const INODE_BIG: &str = "\
    0:ed410000002c00006508026b6508026b6508026b 1a:020016 21:1008 28:0af3020004 \
    38:090000001809000009000000020000002809 7c:107d0000200021f9 90:6608026b";

/// Inode 213.
const INODE_SPARSE: &str = "\
    0:a4810000400d03006608026b6608026b6608026b 1a:010010 22:08 28:0af30100040001 38:2609 \
    40:10000000010000002209000020000000010000002309000030000000010000002409 68:2a09 \
    7c:f01c0000200003a3 90:6608026b a2:02ea010158 ac:03 b4:6b fc:76616c";

/// Inode 8.
const INODE_JOURNAL: &str = "\
    0:8081 6:40006608026b6608026b6608026b 1a:01000020 22:08 28:0af3010004 39:1000000140 \
    7c:527b00002000321e 90:6608026b";

/// Block 2342: the extent node of inode 213.
const SPARSE_EXTENTS: &str = "\
    0:0af3060054 \
    10:01000000210900001000000001000000220900002000000001000000230900003000000001000000 \
    38:2409000040000000010000002509000050000000010000002709 3fc:69e100ce";

/// Block 2346: the attribute block of inode 213.
const SPARSE_XATTRS: &str = "\
    0:000002ea0100000001 10:f47fa2d2 20:03017002 28:9001000047850100626967 270:76*400";

/// Block 2314: the root directory.
const ROOT_LEAF: &str = "\
    0:020000000c0001022e000000020000000c0002022e2e00000b00000014000a026c6f73742b666f75 \
    28:6e6400000c0000000c00030262696700d5000000bc030601737061727365 3f8:0c0000de22f6dcff";

/// Block 2328: the index root of directory inode 12.
const BIG_INDEX: &str = "\
    0:0c0000000c0001022e00000002000000f40302022e2e \
    1c:010800007b000a00010000000ea60b13020000005630a12403000000ccf1f639040000003e2c105f \
    44:050000004a5f778406000000c631899a07000000d49913b708000000227fd5d009000000f47f3ff00a \
    3fc:ecaf0315";

/// Superblock of the volume with `uninit_bg` and short descriptors.
const OLD_SUPERBLOCK: &str = "\
    0:0010000000400000330300006b370000f50f000001 21:200000002000000008 \
    30:6608026b0000ffff53ef0100010000006608026b 4c:01 54:0b \
    59:0100003c000000420200007b00000012345678123412341234123456789abc ce:3f e0:08 \
    ec:41b8346b53ab4703a2c15a1e5f2b7d51010100000c 108:6608026b0af3010004 11d:0400004220 \
    14e:10 15c:2000200001 174:0400000054 248:8708";

/// Its first two group descriptors.
const OLD_GROUPS: &str = "\
    0:420000004400000046000000ad1bf507020004 \
    1c:f5079831430000004500000046020000be1b0008000005 3d:088656";

fn image(len: usize, text: &str) -> Vec<u8> {
    let mut out = vec![0; len];
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

/// The superblock of a volume with `metadata_csum`.
pub(super) fn superblock() -> Superblock {
    Superblock::parse(&image(SUPERBLOCK_BYTES, SUPERBLOCK)).expect("valid")
}

fn inode(text: &str, ino: u32) -> (Inode, InodeSeed) {
    let inode = Inode::parse(&image(256, text), 256).expect("valid");
    let seed = superblock().seed();
    inode
        .verify_checksum(seed, Ino(ino))
        .expect("checksum of e2fsprogs");
    let mut again = inode.clone();
    again.set_links(inode.links() + 1);
    assert!(again.verify_checksum(seed, Ino(ino)).is_err());
    again.set_links(inode.links());
    again.update_checksum(seed, Ino(ino));
    assert_eq!(again, inode);
    let seed = seed.inode(Ino(ino), inode.generation());
    (inode, seed)
}

#[test]
fn superblock_of_mke2fs() {
    let mut sb = superblock();
    assert_eq!(
        (sb.blocks_count(), sb.block_bytes(), sb.groups_count()),
        (32768, 1024, 4)
    );
    assert_eq!(
        (sb.inodes_count(), sb.inode_bytes(), sb.desc_bytes()),
        (8192, 256, 64)
    );
    assert_eq!(
        (sb.first_data_block(), sb.reserved_blocks(), sb.first_ino()),
        (1, 1638, Ino(11))
    );
    assert_eq!(
        (sb.label(), sb.uuid(), sb.journal_ino()),
        (&b"golden"[..], UUID, JOURNAL_INO)
    );
    assert_eq!(
        (sb.compat(), sb.incompat()),
        (Compat(0x3C), Incompat(0x2C2))
    );
    assert_eq!(
        (sb.ro_compat(), sb.state()),
        (RoCompat(0x46B), State::VALID)
    );
    assert_eq!(
        (sb.log_groups_per_flex(), sb.reserved_gdt_blocks()),
        (4, 255)
    );
    assert_eq!((sb.min_extra_isize(), sb.want_extra_isize()), (32, 32));
    assert_eq!(sb.default_hash(), Some(HashVersion::HalfMd4));
    assert_eq!(sb.hash_seed()[1].to_le_bytes(), [0x22, 0x22, 0x33, 0x33]);
    assert_eq!(
        (sb.flags(), sb.last_orphan()),
        (SuperblockFlags::SIGNED_HASH, Ino(0))
    );
    assert_eq!(sb.journal_backup()[0], 0x1_F30A);
    assert_eq!(sb.mkfs_time(), 0x6B02_0866);

    let mut again = vec![0; SUPERBLOCK_BYTES];
    sb.encode(&mut again);
    assert_eq!(again, image(SUPERBLOCK_BYTES, SUPERBLOCK));
    again[0x100] ^= 1;
    assert!(
        Superblock::parse(&again)
            .expect_err("damaged")
            .is_checksum()
    );
}

#[test]
fn the_user_and_the_group_of_the_reserved_blocks_have_32_bits() {
    let mut sb = superblock();
    assert_eq!((sb.reserved_uid(), sb.reserved_gid()), (0, 0));
    for (at, value) in [(0x50, 1), (0x52, 2), (0x284, 3), (0x286, 4)] {
        base::bytes::put_le16(&mut sb.raw[..], at, value);
    }
    assert_eq!((sb.reserved_uid(), sb.reserved_gid()), (0x3_0001, 0x4_0002));
}

#[test]
fn every_word_of_the_superblock_may_be_damaged() {
    // With a valid checksum, so that only the check of the geometry is left; then the whole
    // arithmetic must hold.
    for at in (0..0x3FC).step_by(4) {
        for value in [0u32, 1, 3, 0x7F, 0xFFFF, 0x8000_0000, u32::MAX] {
            let mut sb = superblock();
            base::bytes::put_le32(&mut sb.raw[..], at, value);
            let mut bytes = vec![0; SUPERBLOCK_BYTES];
            sb.encode(&mut bytes);
            let Ok(sb) = Superblock::parse(&bytes) else {
                continue;
            };
            let last = sb.groups_count() - 1;
            let _ = (
                sb.desc_place(last),
                sb.group_blocks(last),
                sb.has_superblock(last),
            );
            let _ = (
                sb.inode_place(Ino(sb.inodes_count())),
                sb.inode_table_blocks(),
            );
            let _ = (
                sb.desc_blocks(),
                sb.block_place(BlockNo(sb.blocks_count() - 1)),
            );
            assert!(!format!("{sb:?}").is_empty());
        }
    }
}

#[test]
fn groups_of_mke2fs() {
    let sb = superblock();
    let raw = image(128, GROUPS);
    for group in 0..2 {
        let mut desc = GroupDesc::parse(&raw[64 * group as usize..], 64).expect("long enough");
        desc.verify_checksum(&sb, group)
            .expect("checksum of e2fsprogs");
        let e = desc
            .verify_checksum(&sb, group + 1)
            .expect_err("another group");
        assert!(
            e.to_string()
                .starts_with(&format!("group descriptor of group {}", group + 1))
        );
        let (before, free) = (desc.clone(), desc.free_blocks());
        desc.set_free_blocks(free + 0x1_0000);
        desc.update_checksum(&sb, group);
        assert_ne!(desc, before);
        desc.set_free_blocks(free);
        desc.update_checksum(&sb, group);
        assert_eq!(desc, before);
    }
    let desc = GroupDesc::parse(&raw, 64).expect("long enough");
    assert_eq!(
        (desc.block_bitmap(), desc.inode_bitmap()),
        (BlockNo(258), BlockNo(262))
    );
    assert_eq!((desc.inode_table(), desc.used_dirs()), (BlockNo(266), 3));
    assert_eq!(desc.flags(), GroupFlags::ITABLE_ZEROED);

    for (kind, text) in [
        (BitmapChecksum::Block, BLOCK_BITMAP),
        (BitmapChecksum::Inode, INODE_BITMAP),
    ] {
        let mut bitmap = image(BLOCK, text);
        kind.verify(&sb, 0, &desc, &bitmap)
            .expect("checksum of e2fsprogs");
        let mut again = desc.clone();
        bitmap[200] ^= 0x10;
        assert!(
            kind.verify(&sb, 0, &desc, &bitmap)
                .expect_err("damaged")
                .is_checksum()
        );
        kind.update(&sb, &mut again, &bitmap);
        kind.verify(&sb, 0, &again, &bitmap).expect("updated");
    }
}

#[test]
fn groups_with_crc16() {
    let sb = Superblock::parse(&image(SUPERBLOCK_BYTES, OLD_SUPERBLOCK)).expect("valid");
    assert!(sb.ro_compat().has(RoCompat::GDT_CSUM) && sb.desc_bytes() == 32);
    let raw = image(64, OLD_GROUPS);
    let mut checksums = Vec::new();
    for group in 0..2 {
        let mut desc = GroupDesc::parse(&raw[32 * group as usize..], 32).expect("long enough");
        desc.verify_checksum(&sb, group)
            .expect("checksum of e2fsprogs");
        let before = desc.clone();
        desc.update_checksum(&sb, group);
        assert_eq!(desc, before);
        checksums.push(desc.checksum());
    }
    // As dumpe2fs prints them.
    assert_eq!(checksums, [0x3198, 0x5686]);
}

#[test]
fn root_directory() {
    let (root, seed) = inode(INODE_ROOT, 2);
    assert!(root.is_dir() && root.links() == 4 && root.size() == 1024);
    assert_eq!(
        (root.mode(), root.sectors(true, 1024)),
        (MODE_DIR | 0o755, 2)
    );
    let block = image(BLOCK, ROOT_LEAF);
    verify_dir_checksum(seed, &block).expect("checksum of e2fsprogs");
    let mut again = block.clone();
    update_dir_checksum(seed, &mut again);
    assert_eq!(again, block);
    let entries: Result<Vec<_>, _> = DirEntries::new(&block).collect();
    let used: Vec<_> = entries
        .expect("valid")
        .iter()
        .filter_map(|e| {
            Some((
                e.ino?.0,
                e.file_type,
                String::from_utf8_lossy(e.name).into_owned(),
            ))
        })
        .collect();
    let expected = [
        (2, FileType::Directory, "."),
        (2, FileType::Directory, ".."),
        (11, FileType::Directory, "lost+found"),
        (12, FileType::Directory, "big"),
        (213, FileType::Regular, "sparse"),
    ];
    assert_eq!(
        used,
        expected.map(|(ino, kind, name)| (ino, kind, name.to_string()))
    );
}

#[test]
fn indexed_directory() {
    let (dir, seed) = inode(INODE_BIG, 12);
    assert_eq!(dir.flags(), InodeFlags::EXTENTS | InodeFlags::INDEX);
    let block = image(BLOCK, BIG_INDEX);
    DxBlock::verify_checksum(seed, true, &block).expect("checksum of e2fsprogs");
    let shape = DxShape::of_root(&block, true).expect("valid");
    let dx = shape.records(&block);
    assert_eq!(
        (dx.limit, dx.entries.len(), dx.root.expect("root").levels),
        (123, 10, 0)
    );
    assert_eq!(
        dx.entries[1],
        DxEntry {
            hash: 0x130B_A60E,
            block: 2
        }
    );
    // debugfs `htree` shows this name in block 1 with this hash.
    let name = b"file-with-a-rather-long-name-143";
    let hash = dir_hash(HashVersion::HalfMd4, &superblock().hash_seed(), name);
    assert_eq!((hash.major, hash.minor), (0x0039_FC3E, 0xE9BE_CB18));
    assert_eq!(dx.entries[shape.find(&block, hash.major)].block, 1);
    let mut again = block.clone();
    dx.encode(&mut again);
    DxBlock::update_checksum(seed, true, &mut again);
    assert_eq!(again, block);
}

#[test]
fn extents_and_attributes() {
    let (file, seed) = inode(INODE_SPARSE, 213);
    assert_eq!((file.size(), file.xattr_block()), (200_000, BlockNo(2346)));
    let root = ExtentNode::parse(file.block_area()).expect("valid");
    let child = ExtentIndex {
        logical: 0,
        child: BlockNo(2342),
    };
    assert_eq!(
        (root.depth, &root.entries),
        (1, &ExtentEntries::Index(vec![child]))
    );

    let block = image(BLOCK, SPARSE_EXTENTS);
    verify_extent_checksum(seed, &block).expect("checksum of e2fsprogs");
    let node = ExtentNode::parse(&block).expect("valid");
    let ExtentEntries::Leaf(extents) = &node.entries else {
        panic!("depth 0 is a leaf")
    };
    let runs: Vec<_> = extents
        .iter()
        .map(|e| (e.logical, e.len, e.physical.0))
        .collect();
    let expected = [
        (0, 2337),
        (16, 2338),
        (32, 2339),
        (48, 2340),
        (64, 2341),
        (80, 2343),
    ];
    assert_eq!(
        runs,
        expected.map(|(logical, physical)| (logical, 1, physical))
    );
    let mut again = block.clone();
    node.encode(&mut again);
    update_extent_checksum(seed, &mut again);
    assert_eq!(again, block);

    let list = inode_xattrs(&file).expect("valid");
    assert_eq!(
        (&list[0].name[..], &list[0].value[..]),
        (&b"k"[..], &b"val"[..])
    );
    let block = image(BLOCK, SPARSE_XATTRS);
    XattrBlock::verify_checksum(superblock().seed(), BlockNo(2346), &block).expect("checksum");
    let list = XattrBlock::parse(&block).expect("valid").entries;
    assert_eq!(
        (&list[0].name[..], &list[0].value[..]),
        (&b"big"[..], &[b'v'; 400][..])
    );
    let again = XattrBlock::compose(list, 1, BLOCK);
    assert!(
        again[..12] == block[..12] && again[32..] == block[32..],
        "as libext2fs made it, which leaves the block's hash 0"
    );
}

#[test]
fn journal_inode_and_its_backup() {
    let (journal, _) = inode(INODE_JOURNAL, 8);
    let mut words = [0; 17];
    for (n, word) in words[..15].iter_mut().enumerate() {
        *word = base::bytes::get_le32(journal.block_area(), 4 * n);
    }
    words[15] = (journal.size() >> 32) as u32;
    words[16] = journal.size() as u32;
    assert_eq!(superblock().journal_backup(), words);
}
