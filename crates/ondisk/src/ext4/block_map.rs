//! The block map of ext2 and ext3: 12 direct blocks, then one tree each of depth 1, 2 and 3.
//!
//! | words of `i_block` | maps |
//! |---|---|
//! | 0..12 | file blocks 0..12 |
//! | 12 | block of `p` pointers |
//! | 13 | block of `p` blocks of pointers |
//! | 14 | one level more |
//!
//! `p` is the block size divided by 4. A pointer of zero is a hole.

/// Direct pointers.
pub const BLOCK_MAP_DIRECT: u32 = 12;
/// Words of the block area.
pub const BLOCK_MAP_SLOTS: usize = 15;

/// The way to one block of a file: word of the block area, then indexes into pointer blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPath {
    /// Word of the block area to start from.
    pub slot: usize,
    levels: usize,
    index: [u32; 3],
}

impl BlockPath {
    /// The way to file block `logical`; `None` if the map cannot reach it.
    pub fn to(logical: u32, block_bytes: u32) -> Option<BlockPath> {
        let pointers = u64::from(block_bytes / 4);
        let mut left = u64::from(logical);
        if left < u64::from(BLOCK_MAP_DIRECT) {
            return Some(BlockPath {
                slot: left as usize,
                levels: 0,
                index: [0; 3],
            });
        }
        left -= u64::from(BLOCK_MAP_DIRECT);
        for levels in 1..=3usize {
            let reach = pointers.pow(levels as u32);
            if left >= reach {
                left -= reach;
                continue;
            }
            let mut index = [0; 3];
            for (n, slot) in index.iter_mut().take(levels).enumerate() {
                let below = pointers.pow((levels - 1 - n) as u32);
                *slot = (left / below % pointers) as u32;
            }
            return Some(BlockPath {
                slot: 11 + levels,
                levels,
                index,
            });
        }
        None
    }

    /// Index into the pointer block of each level, from the top; empty for a direct block.
    pub fn indexes(&self) -> &[u32] {
        &self.index[..self.levels]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(logical: u32) -> (usize, Vec<u32>) {
        let p = BlockPath::to(logical, 4096).expect("reachable");
        (p.slot, p.indexes().to_vec())
    }

    #[test]
    fn edges_of_the_four_ranges() {
        assert_eq!(path(0), (0, vec![]));
        assert_eq!(path(11), (11, vec![]));
        assert_eq!(path(12), (12, vec![0]));
        assert_eq!(path(12 + 1023), (12, vec![1023]));
        assert_eq!(path(12 + 1024), (13, vec![0, 0]));
        assert_eq!(path(12 + 1024 + 1024 * 1024 - 1), (13, vec![1023, 1023]));
        assert_eq!(path(12 + 1024 + 1024 * 1024), (14, vec![0, 0, 0]));
        assert_eq!(
            path(12 + 1024 + 1024 * 1024 + 1024 + 7),
            (14, vec![0, 1, 7])
        );
        assert_eq!(BlockPath::to(u32::MAX, 4096), None);
        assert_eq!(BlockPath::to(12 + 256 + 65536 + 256 * 65536, 1024), None);
    }
}
