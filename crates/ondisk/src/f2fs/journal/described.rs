//! The description of the journal in the superblock of the volume: it says where the region of the
//! journal lies. This file also hides a volume whose journal is not empty from programs that do not
//! know the journal.
//!
//! The description is the last 64 bytes of what is reserved in `struct f2fs_super_block`. Fields
//! were added to that struct at the front of the reserved part, up to byte 2810 (Linux 6.1);
//! neither Linux nor f2fs-tools 1.15 reads or writes what follows; f2fs-tools carry it along when
//! they rewrite a superblock.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 3004 | 4 | magic: `F2JD` |
//! | 3008 | 2 | version: 1 |
//! | 3010 | 2 | 0 |
//! | 3012 | 4 | blocks of the region |
//! | 3016 | 8 | its first block, behind the last block of the volume |
//! | 3024 | 16 | UUID of the journal |
//! | 3040 | 24 | 0 |
//! | 3064 | 4 | crc32c (from all ones, not inverted at the end) over the bytes before, from 3004 on |
//!
//! The checksum of the superblock, if it has one, covers them too.

use super::JournalArea;
use crate::Corrupt;
use crate::f2fs::{SUPERBLOCK_CHECKSUM_AT, SUPERBLOCK_HIDDEN, SUPERBLOCK_MAGIC, Superblock};
use base::bytes::{get_le16, get_le32, get_le64, put_le16, put_le32, put_le64};
use base::checksum::crc32c;

/// Offset in the superblock.
pub const JOURNAL_AT: usize = SUPERBLOCK_CHECKSUM_AT as usize - 64;

/// `F2JD`.
const MAGIC: u32 = u32::from_le_bytes(*b"F2JD");
const VERSION: u16 = 1;
const BYTES: usize = 64;
const WHAT: &str = "journal in the f2fs superblock";

impl Superblock {
    /// The region of the journal; `None` if the volume has none.
    ///
    /// # Errors
    /// The field holds no description of this version: damage, or a later version.
    pub fn journal(&self) -> Result<Option<JournalArea>, Corrupt> {
        let b = &self.raw[JOURNAL_AT..JOURNAL_AT + BYTES];
        if get_le32(b, 0) == 0 {
            return Ok(None);
        }
        if get_le32(b, 0) != MAGIC {
            return Err(Corrupt::magic(WHAT, get_le32(b, 0), MAGIC));
        }
        Corrupt::check(WHAT, get_le32(b, BYTES - 4), crc32c(!0, &b[..BYTES - 4]))?;
        if get_le16(b, 4) != VERSION {
            let reason = "is a version that is not known here";
            return Err(Corrupt::field(
                WHAT,
                "version",
                get_le16(b, 4).into(),
                reason,
            ));
        }
        let area = JournalArea {
            start: get_le64(b, 12),
            blocks: get_le32(b, 8),
            uuid: std::array::from_fn(|n| b[20 + n]),
        };
        if area.ring().is_none() {
            let reason = "are too few for a ring, or end nowhere";
            return Err(Corrupt::field(WHAT, "blocks", area.blocks.into(), reason));
        }
        if area.start < self.block_count() {
            let reason = "lies inside of the volume";
            return Err(Corrupt::field(WHAT, "start", area.start, reason));
        }
        Ok(Some(area))
    }

    /// Describes the region of the journal.
    pub fn set_journal(&mut self, area: &JournalArea) {
        self.clear_journal();
        let b = &mut self.raw[JOURNAL_AT..JOURNAL_AT + BYTES];
        put_le32(b, 0, MAGIC);
        put_le16(b, 4, VERSION);
        put_le32(b, 8, area.blocks);
        put_le64(b, 12, area.start);
        b[20..36].copy_from_slice(&area.uuid);
        let crc = crc32c(!0, &b[..BYTES - 4]);
        put_le32(b, BYTES - 4, crc);
    }
    /// Removes the description: the volume has no journal.
    pub fn clear_journal(&mut self) {
        self.raw[JOURNAL_AT..JOURNAL_AT + BYTES].fill(0);
    }

    /// True if the superblock has the magic number of hidden volumes.
    pub fn is_hidden(&self) -> bool {
        get_le32(&self.raw[..], 0) == SUPERBLOCK_HIDDEN
    }
    /// Hides the volume from other implementations while its journal may not be empty, or shows it
    /// again. Only a volume with a journal can be hidden, because a hidden volume is recognised by
    /// its journal.
    pub fn hide(&mut self, yes: bool) {
        let magic = match yes {
            true => SUPERBLOCK_HIDDEN,
            false => SUPERBLOCK_MAGIC,
        };
        put_le32(&mut self.raw[..], 0, magic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::f2fs::{BLOCK_BYTES, Features, SUPERBLOCK_AT};

    const AREA: JournalArea = JournalArea {
        start: 51_200,
        blocks: 512,
        uuid: [9; 16],
    };

    fn volume(features: Features) -> Superblock {
        let mut sb = Superblock::blank();
        sb.set_features(features);
        sb.set_block_count(51_200);
        sb
    }

    fn through_the_device(sb: &mut Superblock) -> Result<Superblock, Corrupt> {
        let mut block = vec![0; BLOCK_BYTES];
        sb.encode(&mut block);
        Superblock::in_block(&block)
    }

    #[test]
    fn described_and_found() {
        for features in [Features::NONE, Features::SB_CHKSUM] {
            let mut sb = volume(features);
            assert_eq!(sb.journal(), Ok(None));
            let plain = sb.clone();
            sb.set_journal(&AREA);
            let found = through_the_device(&mut sb).expect("sound");
            assert_eq!(found.journal(), Ok(Some(AREA)));
            // Nothing else moved but the checksum.
            let differ = (0..3068).filter(|&n| sb.bytes()[n] != plain.bytes()[n]);
            assert!(
                differ
                    .into_iter()
                    .all(|n| n >= JOURNAL_AT || (32..36).contains(&n))
            );
            sb.clear_journal();
            assert_eq!(
                through_the_device(&mut sb).expect("sound").journal(),
                Ok(None)
            );
        }
        const { assert!(JOURNAL_AT >= 2810 && JOURNAL_AT + BYTES == 3068) };
    }

    #[test]
    fn every_flip_is_found() {
        let mut sb = volume(Features::NONE);
        sb.set_journal(&AREA);
        for bit in 0..8 * BYTES {
            let mut sb = sb.clone();
            sb.raw[JOURNAL_AT + bit / 8] ^= 1 << (bit % 8);
            assert!(sb.journal().is_err(), "bit {bit}");
        }
    }

    #[test]
    fn regions_that_cannot_be() {
        let bad = [
            JournalArea { blocks: 15, ..AREA },
            JournalArea {
                start: 51_199,
                ..AREA
            },
            JournalArea {
                start: u64::MAX - 1,
                ..AREA
            },
        ];
        for area in bad {
            let mut sb = volume(Features::NONE);
            sb.set_journal(&area);
            assert!(sb.journal().is_err(), "{area:?}");
        }
    }

    #[test]
    fn hidden_from_others() {
        for features in [Features::NONE, Features::SB_CHKSUM] {
            let mut sb = volume(features);
            assert!(!sb.is_hidden());
            sb.hide(true);
            assert!(through_the_device(&mut sb).is_err(), "of somebody else");
            sb.set_journal(&AREA);
            let mut found = through_the_device(&mut sb).expect("we see it");
            assert!(found.is_hidden());
            let mut block = vec![0; BLOCK_BYTES];
            sb.encode(&mut block);
            assert_ne!(get_le32(&block, SUPERBLOCK_AT), SUPERBLOCK_MAGIC);
            found.hide(false);
            let shown = through_the_device(&mut found).expect("sound");
            assert!(!shown.is_hidden() && get_le32(&shown.bytes()[..], 0) == SUPERBLOCK_MAGIC);
        }
    }
}
