//! The block map of ext2 and ext3: 12 direct pointers, then trees of pointer blocks of depth 1, 2
//! and 3.
//!
//! The `tree` lock is held as for extents.
//!
//! - B1 a pointer block in use has at least one pointer that is not zero; pointer blocks are
//!   allocated before any pointer changes, so that a full disk changes nothing.

mod insert;
mod lookup;
mod trim;
mod walk;

pub(crate) use walk::runs_of_map;

use base::BlockSize;
use ondisk::ext4::BLOCK_MAP_DIRECT;

/// Bytes of a pointer.
const POINTER_BYTES: usize = 4;

/// Pointers in a block.
const fn pointers(size: BlockSize) -> u64 {
    (size.bytes() / POINTER_BYTES) as u64
}

/// First file block under slot `slot`, and how many there are.
fn slot_range(size: BlockSize, slot: usize) -> (u64, u64) {
    let pointers = pointers(size);
    let direct = u64::from(BLOCK_MAP_DIRECT);
    match slot as u64 {
        slot if slot < direct => (slot, 1),
        12 => (direct, pointers),
        13 => (direct + pointers, pointers.pow(2)),
        _ => (direct + pointers + pointers.pow(2), pointers.pow(3)),
    }
}

/// Largest file of a block map, bytes. In blocks above 4 KiB the map reaches farther than the
/// number of a file block, which has 32 bits.
pub(crate) fn size_max(size: BlockSize) -> u64 {
    let (first, count) = slot_range(size, 14);
    (first + count).min(u32::MAX.into()) * size.bytes() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::ext4::BlockPath;

    #[test]
    fn slots_follow_each_other() {
        BlockSize::ALL.into_iter().for_each(check_slots);
    }

    fn check_slots(size: BlockSize) {
        let bytes = size.bytes() as u32;
        let mut next = 0;
        for slot in 0..15 {
            let (first, count) = slot_range(size, slot);
            assert_eq!(first, next);
            let path = BlockPath::to(first as u32, bytes).expect("reachable");
            assert_eq!(path.slot, slot);
            next = first + count;
        }
        let most = size_max(size) / u64::from(bytes);
        assert_eq!(most, next.min(u32::MAX.into()));
        let beyond = u32::try_from(next).ok();
        assert!(beyond.is_none_or(|n| BlockPath::to(n, bytes).is_none()));
    }
}
