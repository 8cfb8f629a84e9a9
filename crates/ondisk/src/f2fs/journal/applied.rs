//! The field of a checkpoint that names the last epoch of the journal whose changes the checkpoint
//! contains. It is committed with the pack, so that the applied changes and this number cannot
//! differ.
//!
//! 24 bytes in front of the checksum, where a pack without a journal has zeros:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 4068 | 4 | crc32c (from all ones, not inverted at the end) over the journal's UUID and the block up to the checksum, without these four |
//! | 4072 | 4 | magic: `F2JA` |
//! | 4076 | 8 | the epoch |
//! | 4084 | 8 | version of this checkpoint |
//!
//! A program that does not know the journal either carries these bytes from pack to pack, or
//! rewrites the pack in place as fsck does. In both cases the version, or the checksum over all
//! other fields, no longer fits, and the pack says nothing of the journal any more. Then its ring
//! belongs to a state that was overwritten, and must not be replayed.

use super::EPOCH_MAX;
use crate::f2fs::{BLOCK_BYTES, CP_CHECKSUM_AT, Checkpoint};
use base::bytes::{get_le32, get_le64, put_le32, put_le64};
use base::checksum::crc32c;

/// Offset of the field in the checkpoint.
pub const APPLIED_AT: usize = CP_CHECKSUM_AT - 24;

/// `F2JA`.
const MAGIC: u32 = u32::from_le_bytes(*b"F2JA");

impl Checkpoint {
    /// True if the block has room for the field: the checksum is at its usual place, and no version
    /// bitmap reaches so far. A large NAT bitmap, on volumes of many TiB, does.
    pub fn has_room_for_applied(&self) -> bool {
        let (nat, sit) = self.bitmap_places();
        let clear = |range: &std::ops::Range<usize>| {
            range.is_empty() || range.start >= BLOCK_BYTES || range.end <= APPLIED_AT
        };
        self.checksum_offset() as usize == CP_CHECKSUM_AT && clear(&nat) && clear(&sit)
    }

    /// The last epoch of the journal with this UUID that the pack contains; `None` if the pack does
    /// not say, or was changed since by a program that does not know the journal.
    pub fn applied(&self, uuid: &[u8; 16]) -> Option<u64> {
        let ours = self.has_room_for_applied()
            && get_le32(&self.raw, APPLIED_AT + 4) == MAGIC
            && get_le32(&self.raw, APPLIED_AT) == self.applied_checksum(uuid)
            && get_le64(&self.raw, APPLIED_AT + 16) == self.version();
        ours.then(|| get_le64(&self.raw, APPLIED_AT + 8))
            .filter(|&epoch| epoch <= EPOCH_MAX)
    }

    /// Writes that the pack contains all epochs up to `epoch`. To be called when all other fields
    /// are set, before the checksum of the checkpoint. False, with nothing changed, if there is no
    /// room.
    pub fn set_applied(&mut self, uuid: &[u8; 16], epoch: u64) -> bool {
        if !self.has_room_for_applied() {
            return false;
        }
        let version = self.version();
        put_le32(&mut self.raw, APPLIED_AT + 4, MAGIC);
        put_le64(&mut self.raw, APPLIED_AT + 8, epoch);
        put_le64(&mut self.raw, APPLIED_AT + 16, version);
        let crc = self.applied_checksum(uuid);
        put_le32(&mut self.raw, APPLIED_AT, crc);
        true
    }

    /// Clears the field, for a volume that gives its journal up.
    pub fn clear_applied(&mut self) {
        if self.has_room_for_applied() {
            self.raw[APPLIED_AT..CP_CHECKSUM_AT].fill(0);
        }
    }

    fn applied_checksum(&self, uuid: &[u8; 16]) -> u32 {
        let before = crc32c(crc32c(!0, uuid), &self.raw[..APPLIED_AT]);
        crc32c(before, &self.raw[APPLIED_AT + 4..CP_CHECKSUM_AT])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::f2fs::{CP_BITMAP_AT, CpFlags};

    const UUID: [u8; 16] = [7; 16];

    fn pack() -> Checkpoint {
        let mut cp = Checkpoint::blank(0);
        cp.set_version(41);
        cp.set_nat_bitmap_bytes(200);
        cp.set_sit_bitmap_bytes(100);
        cp
    }

    #[test]
    fn it_is_said_and_read() {
        let mut cp = pack();
        assert_eq!(cp.applied(&UUID), None, "zeros say nothing");
        assert!(cp.set_applied(&UUID, 9));
        cp.update_checksum();
        let again = Checkpoint::parse(cp.bytes(), 0).expect("sound");
        assert_eq!(
            (again.applied(&UUID), again.applied(&[8; 16])),
            (Some(9), None)
        );
        cp.clear_applied();
        assert_eq!(cp.applied(&UUID), None);
        assert!(cp.set_applied(&UUID, EPOCH_MAX + 1));
        assert_eq!(cp.applied(&UUID), None, "no epoch could follow");
    }

    #[test]
    fn whoever_changes_the_pack_takes_it_away() {
        let mut cp = pack();
        assert!(cp.set_applied(&UUID, 9));
        let mut next = cp.clone();
        next.set_version(42);
        assert_eq!(next.applied(&UUID), None, "carried to the next pack");
        let mut mended = cp.clone();
        mended.set_flags(CpFlags::UMOUNT);
        assert_eq!(mended.applied(&UUID), None, "rewritten in place");
        for bit in 0..8 * CP_CHECKSUM_AT {
            let mut cp = cp.clone();
            cp.raw[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(cp.applied(&UUID), None, "bit {bit}");
        }
        // The checksum of the checkpoint itself may be any.
        cp.update_checksum();
        assert_eq!(cp.applied(&UUID), Some(9));
    }

    #[test]
    fn no_room_no_mark() {
        let room = APPLIED_AT - CP_BITMAP_AT;
        let sized = |nat: usize, sit: usize, payload| {
            let mut cp = Checkpoint::blank(payload);
            cp.set_nat_bitmap_bytes(nat as u32);
            cp.set_sit_bitmap_bytes(sit as u32);
            cp
        };
        assert!(sized(room - 64, 64, 0).has_room_for_applied());
        let mut tight = sized(room - 64, 65, 0);
        assert!(
            !tight.set_applied(&UUID, 1)
                && tight.bytes()[APPLIED_AT..CP_CHECKSUM_AT]
                    .iter()
                    .all(|&b| b == 0)
        );
        // With a payload the SIT's bitmap stands behind the block.
        assert!(sized(room, 4000, 1).has_room_for_applied());
        assert!(!sized(room + 1, 4000, 1).has_room_for_applied());
        let mut large = sized(8, 8, 1);
        large.set_flags(CpFlags::LARGE_NAT_BITMAP);
        large.set_checksum_offset(CP_BITMAP_AT as u32);
        assert!(!large.set_applied(&UUID, 1));
        assert_eq!(large.applied(&UUID), None);
        assert!(!sized(usize::MAX, 8, 0).has_room_for_applied());
    }
}
