//! The tag of a unit, in the spare area beside it.
//!
//! Layout, little-endian: kind u8, unit number u32, birth u48, program sequence u48, erases of the
//! block u24, group u32, place in the group (or a mark that the unit has none) u16, CRC32C u32.
//! Where a unit spans several pages the bytes are spread over the spare areas of all of them, in
//! shares of one length as far as they reach, so that a unit with a page missing has no valid tag.

use base::Bytes;
use base::bytes::{get_le32, put_le32};
use base::checksum::crc32c;

/// Bytes of a tag.
pub(crate) const TAG_BYTES: usize = 30;
/// Bytes that the checksum covers.
const BODY: usize = TAG_BYTES - 4;

/// Units that a group can have.
pub(crate) const MEMBERS_MAX: u16 = 0xFFF0;
const DURING: u16 = 0xFFFE;
const AFTER: u16 = 0xFFFF;

/// The relation of a unit to the newest group (see `group`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GroupMark {
    /// The unit is in the group, at this place.
    Member(u16),
    /// The unit is not in the group, and was written while the group was open.
    During,
    /// The unit was written after the group had ended.
    After,
}

/// What a slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A unit.
    Data,
    /// A unit whose content became unreadable before it was copied here.
    Lost,
    /// Nothing: the row was programmed before it was full, or the unit was dropped.
    Pad,
}

/// A decoded tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tag {
    pub kind: Kind,
    pub lpn: u32,
    pub birth: u64,
    pub prog: u64,
    pub erases: u32,
    pub group: u32,
    pub mark: GroupMark,
}

fn put48(raw: &mut [u8], at: usize, value: u64) {
    raw[at..at + 6].copy_from_slice(&value.to_le_bytes()[..6]);
}

fn get48(raw: &[u8], at: usize) -> u64 {
    let mut wide = [0; 8];
    wide[..6].copy_from_slice(&raw[at..at + 6]);
    u64::from_le_bytes(wide)
}

impl Tag {
    pub fn encode(&self) -> [u8; TAG_BYTES] {
        let mut raw = [0; TAG_BYTES];
        raw[0] = match self.kind {
            Kind::Data => 1,
            Kind::Lost => 2,
            Kind::Pad => 3,
        };
        put_le32(&mut raw, 1, self.lpn);
        put48(&mut raw, 5, self.birth);
        put48(&mut raw, 11, self.prog);
        raw[17..20].copy_from_slice(&self.erases.to_le_bytes()[..3]);
        put_le32(&mut raw, 20, self.group);
        let place = match self.mark {
            GroupMark::Member(index) => index,
            GroupMark::During => DURING,
            GroupMark::After => AFTER,
        };
        raw[24..26].copy_from_slice(&place.to_le_bytes());
        let crc = crc32c(!0, &raw[..BODY]);
        put_le32(&mut raw, BODY, crc);
        raw
    }
    /// The tag, or `None` if these bytes are not one.
    pub fn decode(raw: &[u8]) -> Option<Tag> {
        if raw.len() != TAG_BYTES || get_le32(raw, BODY) != crc32c(!0, &raw[..BODY]) {
            return None;
        }
        let kind = match raw[0] {
            1 => Kind::Data,
            2 => Kind::Lost,
            3 => Kind::Pad,
            _ => return None,
        };
        let erases = u32::from_le_bytes([raw[17], raw[18], raw[19], 0]);
        Some(Tag {
            kind,
            lpn: get_le32(raw, 1),
            birth: get48(raw, 5),
            prog: get48(raw, 11),
            erases,
            group: get_le32(raw, 20),
            mark: match u16::from_le_bytes([raw[24], raw[25]]) {
                DURING => GroupMark::During,
                AFTER => GroupMark::After,
                index => GroupMark::Member(index),
            },
        })
    }
}

/// The spare bytes of the pages of a row that holds `tags`.
pub(crate) fn spares(tags: &[Tag], pages_per_row: u32) -> Vec<Bytes> {
    let mut all = Vec::with_capacity(tags.len() * TAG_BYTES);
    tags.iter().for_each(|t| all.extend_from_slice(&t.encode()));
    let all = Bytes::from(all);
    if pages_per_row == 1 {
        return vec![all];
    }
    let share = TAG_BYTES.div_ceil(pages_per_row as usize);
    (0..pages_per_row as usize)
        .map(|i| all.slice((i * share).min(all.len())..((i + 1) * share).min(all.len())))
        .collect()
}

/// The tag of `slot` out of the spare bytes of a row's pages.
pub(crate) fn of_row(spares: &[&[u8]], slot: u32) -> Option<Tag> {
    match spares {
        [one] => one
            .get(slot as usize * TAG_BYTES..(slot as usize + 1) * TAG_BYTES)
            .and_then(Tag::decode),
        many => Tag::decode(&many.concat()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: Tag = Tag {
        kind: Kind::Data,
        lpn: 77,
        birth: 0x1234_5678_9ABC,
        prog: 0xFFFF_FFFF_FFFF,
        erases: 0x12_3456,
        group: 0xFEDC_BA98,
        mark: GroupMark::Member(0xFFEF),
    };

    #[test]
    fn round_trip_over_one_and_many_pages() {
        let pad = Tag {
            kind: Kind::Pad,
            lpn: 0,
            birth: 0,
            prog: 5,
            erases: 0,
            group: 0,
            mark: GroupMark::After,
        };
        let one = spares(&[TAG, pad], 1);
        assert_eq!(of_row(&[&one[0]], 0), Some(TAG));
        assert_eq!(of_row(&[&one[0]], 1), Some(pad));
        assert_eq!(of_row(&[&one[0]], 2), None);
        let many = spares(&[TAG], 8);
        assert!(many.len() == 8 && many.iter().all(|s| s.len() <= 4));
        let slices: Vec<&[u8]> = many.iter().map(|s| &s[..]).collect();
        assert_eq!(of_row(&slices, 0), Some(TAG));
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let raw = TAG.encode();
        for bit in 0..TAG_BYTES * 8 {
            let mut bad = raw;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Tag::decode(&bad), None, "bit {bit}");
        }
        assert_eq!(Tag::decode(&[0xFF; TAG_BYTES]), None);
        assert_eq!(Tag::decode(&[0; 3]), None);
    }
}
