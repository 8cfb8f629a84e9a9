//! Groups: the records of one inode in one epoch, after a header of 16 bytes.
//!
//! | offset | field |
//! |---|---|
//! | 0 | inode number, le32; 0: of the volume (log heads) |
//! | 4 | records, le16 |
//! | 6 | flags, le16: bit 0, it goes on with the inode of the group before |
//! | 8 | bytes of the records, le32, a multiple of 4 |
//! | 12 | generation of the inode, le32: an inode number that is used again stands for another file |

use super::Records;
use super::codec::WHAT as RECORD;
use super::records::split;
use crate::Corrupt;
use crate::f2fs::Nid;
use base::bytes::{get_le16, get_le32};

/// Bytes of a group's header.
pub const GROUP_HEADER_BYTES: usize = 16;
/// Most records of a group on disk; more go into several groups.
pub const GROUP_RECORDS_MAX: u32 = u16::MAX as u32;

const WHAT: &str = "record group of the journal";
const CONTINUED: u16 = 1;
/// Most bytes of a group on disk.
const GROUP_BYTES_MAX: usize = 1 << 30;

/// The records of one inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group<'a> {
    /// The inode; 0 for what belongs to none.
    pub ino: Nid,
    /// Its generation when the records were made.
    pub generation: u32,
    /// Number of records.
    pub records: u32,
    /// The records, encoded.
    pub bytes: &'a [u8],
}

impl<'a> Group<'a> {
    /// Its records; more or fewer than promised are an error at the end.
    pub fn iter(&self) -> Records<'a> {
        Records::counted(self.bytes, self.records)
    }
    /// Bytes that [`put_group`] appends, if it need not be split.
    pub fn encoded_bytes(&self) -> usize {
        GROUP_HEADER_BYTES + self.bytes.len()
    }
}

/// Appends a group, in several parts if it has more than [`GROUP_RECORDS_MAX`] records. Returns the
/// number of parts.
///
/// # Panics
/// The bytes are not `records` records.
pub fn put_group(out: &mut Vec<u8>, group: &Group<'_>) -> u32 {
    let (mut rest, mut left, mut parts) = (group.bytes, group.records, 0);
    loop {
        let (records, bytes) = first_part(rest, left);
        let (own, behind) = rest.split_at(bytes);
        let flags = if parts == 0 { 0 } else { CONTINUED };
        out.extend_from_slice(&group.ino.0.to_le_bytes());
        out.extend_from_slice(&(records as u16).to_le_bytes());
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&(bytes as u32).to_le_bytes());
        out.extend_from_slice(&group.generation.to_le_bytes());
        out.extend_from_slice(own);
        (rest, left, parts) = (behind, left - records, parts + 1);
        if rest.is_empty() {
            assert!(left == 0, "a group has as many records as it says");
            return parts;
        }
    }
}

/// How many of `records` records in `bytes` go into one group, and their bytes.
fn first_part(bytes: &[u8], records: u32) -> (u32, usize) {
    if records <= GROUP_RECORDS_MAX && bytes.len() <= GROUP_BYTES_MAX {
        return (records, bytes.len());
    }
    let (mut count, mut rest) = (0, bytes);
    while count < GROUP_RECORDS_MAX && !rest.is_empty() {
        let (record, behind) = split(rest).expect("who logs records encodes them");
        if bytes.len() - behind.len() > GROUP_BYTES_MAX {
            break;
        }
        debug_assert!(!record.is_empty());
        (count, rest) = (count + 1, behind);
    }
    (count.min(records), bytes.len() - rest.len())
}

/// The groups of a payload, one after the other; ends behind the first error.
#[derive(Clone, Debug)]
pub struct Groups<'a> {
    rest: &'a [u8],
    before: Option<(Nid, u32)>,
}

impl<'a> Groups<'a> {
    /// The groups in `payload`, which holds nothing else.
    pub fn new(payload: &'a [u8]) -> Groups<'a> {
        Groups {
            rest: payload,
            before: None,
        }
    }
    /// Where the next group stands: bytes of the payload `whole` before it.
    pub fn offset(&self, whole: &[u8]) -> usize {
        whole.len() - self.rest.len()
    }

    fn one(&mut self) -> Result<Group<'a>, Corrupt> {
        let head = Corrupt::need(WHAT, self.rest, GROUP_HEADER_BYTES)?;
        let (ino, generation) = (Nid(get_le32(head, 0)), get_le32(head, 12));
        let (records, flags, bytes) = (get_le16(head, 4), get_le16(head, 6), get_le32(head, 8));
        let bad =
            |field, value: u32, reason| Err(Corrupt::field(WHAT, field, value.into(), reason));
        if flags & !CONTINUED != 0 {
            return bad("flags", flags.into(), "an unknown flag");
        }
        if flags == CONTINUED && self.before != Some((ino, generation)) {
            return bad("flags", flags.into(), "goes on with another inode");
        }
        if !bytes.is_multiple_of(4) || bytes as usize > GROUP_BYTES_MAX {
            return bad("bytes", bytes, "is a multiple of 4, up to 2^30");
        }
        let end = GROUP_HEADER_BYTES + bytes as usize;
        let own = &Corrupt::need(WHAT, self.rest, end)?[GROUP_HEADER_BYTES..];
        self.rest = &self.rest[end..];
        self.before = Some((ino, generation));
        Ok(Group {
            ino,
            generation,
            records: records.into(),
            bytes: own,
        })
    }
}

impl<'a> Iterator for Groups<'a> {
    type Item = Result<Group<'a>, Corrupt>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let group = self.one();
        if group.is_err() {
            self.rest = &[];
        }
        Some(group)
    }
}

impl std::iter::FusedIterator for Groups<'_> {}

/// Counts the records in `bytes` by their headers alone.
///
/// # Errors
/// The lengths do not fit.
pub fn count_records(bytes: &[u8]) -> Result<u32, Corrupt> {
    let (mut rest, mut count) = (bytes, 0u32);
    while !rest.is_empty() {
        rest = split(rest)?.1;
        count = match count.checked_add(1) {
            Some(count) => count,
            None => {
                return Err(Corrupt::field(
                    RECORD,
                    "n_records",
                    count.into(),
                    "too many",
                ));
            }
        };
    }
    Ok(count)
}
