//! ext3, and blocks of 1 KiB: against `mke2fs -t ext3`, dumpe2fs and e2fsck.

use super::*;

fn ext3(size_bytes: u64, block_bytes: u32) -> MkfsOptions {
    MkfsOptions {
        kind: Kind::Ext3,
        block_bytes,
        ..options(size_bytes)
    }
}

/// Sizes that give one group and several, a journal in one run and one across the metadata of other
/// groups, and a left-out last group.
const SIZES_MIB: [u64; 11] = [8, 16, 64, 127, 128, 129, 257, 640, 2048, 2305, 8192];
/// Such sizes for groups of 8 MiB.
const SMALL_BLOCKS_MIB: [u64; 9] = [4, 8, 9, 16, 64, 128, 257, 600, 3000];

#[test]
fn equal_to_mke2fs() {
    for mib in SIZES_MIB {
        compare(&ext3(mib * MIB, 4096), &[]);
    }
    compare(&ext3(200 * MIB + 12345, 4096), &[]);
}

#[test]
fn equal_to_mke2fs_with_small_blocks() {
    for mib in SMALL_BLOCKS_MIB {
        compare(&ext3(mib * MIB, 1024), &[]);
    }
    compare(&ext3(100 * MIB, 2048), &[]);
    for (mib, block_bytes) in [(16, 1024), (64, 1024), (300, 1024), (64, 2048), (300, 2048)] {
        let small = MkfsOptions {
            block_bytes,
            ..options(mib * MIB)
        };
        compare(&small, &[]);
    }
}

#[test]
fn equal_to_mke2fs_with_options() {
    let journal = |mib: u32, block_bytes: u32, size: u64| MkfsOptions {
        journal: JournalSize::Blocks(mib * (1 << 20) / block_bytes),
        ..ext3(size * MIB, block_bytes)
    };
    // A journal that needs all three trees of the block map.
    compare(&journal(100, 1024, 1024), &["-J", "size=100"]);
    compare(&journal(100, 4096, 1024), &["-J", "size=100"]);
    let none = MkfsOptions {
        journal: JournalSize::None,
        ..ext3(64 * MIB, 4096)
    };
    compare(&none, &["-O", "^has_journal"]);
    let dense = MkfsOptions {
        inode_ratio: Some(1024),
        ..ext3(100 * MIB, 1024)
    };
    compare(&dense, &["-i", "1024"]);
}

#[test]
fn dumpe2fs_prints_the_same() {
    let features = "has_journal ext_attr resize_inode dir_index filetype sparse_super large_file";
    compare_dumps(&ext3(1024 * MIB, 4096), features);
    compare_dumps(&ext3(100 * MIB, 1024), features);
}

#[test]
fn e2fsck_finds_nothing() {
    for mib in [8, 128, 640] {
        check(&ext3(mib * MIB, 4096));
        check(&ext3(mib * MIB, 1024));
    }
    check(&MkfsOptions {
        journal: JournalSize::None,
        ..ext3(2 * MIB, 1024)
    });
}

#[test]
fn block_sizes_and_limits_are_explained() {
    let say = |o: MkfsOptions| plan(&o).expect_err("impossible").to_string();
    for bytes in [0, 512, 3000, 131_072] {
        let words = format!("blocks of {bytes} bytes: choose a power of two from 1024 to 65536");
        assert!(say(ext3(64 * MIB, bytes)).contains(&words));
    }
    assert!(say(ext3(64 * MIB, 65_536)).contains("a journal wants 134217728 bytes"));
    assert!(say(ext3(1 << 42, 1024)).contains("below 4 TiB"));
    assert!(say(ext3(MIB, 1024)).contains("a journal wants 2097152 bytes"));
    assert!(say(ext3(0, 1024)).contains("too small"));
    let sparse = MkfsOptions {
        inode_ratio: Some(1 << 20),
        ..ext3(64 * MIB, 1024)
    };
    assert!(say(sparse).contains("leaves 8 inodes in the first group"));
}

#[test]
fn any_size_is_planned_or_refused() {
    let mut rng = base::Rng::named(2, "mkfs sizes");
    for n in 0..200 {
        let mut o = ext3(rng.below(1 << (20 + n % 12)), 1024 << (n % 7));
        o.journal = [JournalSize::Default, JournalSize::None][n / 2 % 2];
        o.inode_ratio = [None, Some(4096), Some(1 << 20)][n / 4 % 3];
        let Ok(plan) = plan(&o) else { continue };
        let (first, bytes) = &plan.blocks()[0];
        assert_eq!(*first, BlockNo(0));
        let sb = Superblock::parse(&bytes[SUPERBLOCK_AT as usize..]).expect("valid");
        assert!(sb.blocks_count() * u64::from(o.block_bytes) <= o.size_bytes);
        let last = plan.blocks().last().expect("not empty").0;
        assert!(last.0 * 4096 < sb.blocks_count() * u64::from(o.block_bytes));
    }
}
