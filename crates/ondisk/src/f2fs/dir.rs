//! Where the entries of a directory lie: levels of hash buckets.
//!
//! Level `n` has 2^n buckets (more with `i_dir_level`, but at most 2^30), each of 2 blocks below
//! level 31 and of 4 from there on; the levels follow each other in the file. A name lies at some
//! level in the bucket `hash % buckets`. A directory uses the levels below its `i_current_depth`.

/// Levels a directory can have.
pub const MAX_DIR_HASH_DEPTH: u32 = 63;

/// From this level on the number of buckets stays the same.
const HALF_DEPTH: u32 = MAX_DIR_HASH_DEPTH / 2;

/// Buckets of a level.
pub const fn dir_buckets(level: u32, dir_level: u8) -> u32 {
    let n = level.saturating_add(dir_level as u32);
    1 << if n < HALF_DEPTH { n } else { HALF_DEPTH - 1 }
}

/// Blocks of each bucket of a level.
pub const fn bucket_blocks(level: u32) -> u32 {
    if level < HALF_DEPTH { 2 } else { 4 }
}

/// Blocks of a level.
pub const fn level_blocks(level: u32, dir_level: u8) -> u64 {
    dir_buckets(level, dir_level) as u64 * bucket_blocks(level) as u64
}

/// First block (of the directory's file) of a bucket of a level.
pub fn first_block(level: u32, dir_level: u8, bucket: u32) -> u64 {
    let below: u64 = (0..level.min(MAX_DIR_HASH_DEPTH))
        .map(|l| level_blocks(l, dir_level))
        .sum();
    below + u64::from(bucket) * u64::from(bucket_blocks(level))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_follow_each_other() {
        assert_eq!(
            (dir_buckets(0, 0), dir_buckets(3, 0), dir_buckets(3, 2)),
            (1, 8, 32)
        );
        assert_eq!(
            (dir_buckets(30, 0), dir_buckets(31, 0), dir_buckets(62, 255)),
            (1 << 30, 1 << 30, 1 << 30)
        );
        assert_eq!((bucket_blocks(30), bucket_blocks(31)), (2, 4));
        assert_eq!(
            (
                first_block(0, 0, 0),
                first_block(1, 0, 0),
                first_block(1, 0, 1)
            ),
            (0, 2, 4)
        );
        assert_eq!((first_block(2, 0, 0), first_block(2, 0, 3)), (6, 12));
        for level in 0..MAX_DIR_HASH_DEPTH - 1 {
            for dir_level in [0, 1, 7, 255] {
                let next = first_block(level, dir_level, dir_buckets(level, dir_level));
                assert_eq!(next, first_block(level + 1, dir_level, 0));
            }
        }
    }
}
