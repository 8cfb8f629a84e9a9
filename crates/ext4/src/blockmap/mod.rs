//! The block map of ext2 and ext3: 12 direct pointers, then trees of pointer blocks of depth 1, 2 and 3.
//!
//! The `tree` lock is held as for extents. Invariant B1: a pointer block in use has at least one pointer that is not zero;
//! pointer blocks are allocated before any pointer changes, so that a full disk changes nothing.

mod insert;
mod lookup;
mod trim;
mod walk;

pub(crate) use walk::runs_of_map;

use base::BLOCK_BYTES;
use ondisk::ext4::BLOCK_MAP_DIRECT;

/// Pointers in a block.
const POINTERS: u64 = BLOCK_BYTES as u64 / 4;
/// Bytes of a pointer.
const POINTER_BYTES: usize = 4;

/// First file block under slot `slot`, and how many there are.
fn slot_range(slot: usize) -> (u64, u64) {
    let direct = u64::from(BLOCK_MAP_DIRECT);
    match slot as u64 {
        slot if slot < direct => (slot, 1),
        12 => (direct, POINTERS),
        13 => (direct + POINTERS, POINTERS.pow(2)),
        _ => (direct + POINTERS + POINTERS.pow(2), POINTERS.pow(3)),
    }
}

/// Largest file that a block map reaches, bytes.
pub(crate) fn size_max() -> u64 {
    let (first, count) = slot_range(14);
    (first + count) * BLOCK_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::ext4::BlockPath;

    #[test]
    fn slots_follow_each_other() {
        let mut next = 0;
        for slot in 0..15 {
            let (first, count) = slot_range(slot);
            assert_eq!(first, next);
            let path = BlockPath::to(first as u32, BLOCK_BYTES as u32).expect("reachable");
            assert_eq!(path.slot, slot);
            next = first + count;
        }
        assert_eq!(size_max() / BLOCK_BYTES as u64, next);
        assert!(BlockPath::to(next as u32, BLOCK_BYTES as u32).is_none());
    }
}
