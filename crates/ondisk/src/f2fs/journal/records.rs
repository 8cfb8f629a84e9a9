//! The records of a payload, one behind the other.

use super::Record;
use super::codec::{Body, RECORD_BYTES_MAX, RECORD_HEADER_BYTES, WHAT};
use crate::Corrupt;
use base::bytes::get_le16;

/// The records of a payload, one after the other; ends behind the first error.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    /// The number of records that there must be, if a header gave one.
    promised: Option<u32>,
}

impl<'a> Records<'a> {
    /// The records in `bytes`, which hold nothing else.
    pub fn new(bytes: &'a [u8]) -> Records<'a> {
        Records {
            rest: bytes,
            promised: None,
        }
    }
    /// The records in `bytes`, of which there must be `count`.
    pub(super) fn counted(bytes: &'a [u8], count: u32) -> Records<'a> {
        Records {
            rest: bytes,
            promised: Some(count),
        }
    }
    fn one(&mut self) -> Result<Record<'a>, Corrupt> {
        let (head, rest) = split(self.rest)?;
        self.rest = rest;
        if let Some(left) = &mut self.promised {
            *left = left.checked_sub(1).ok_or_else(too_many)?;
        }
        Body::new(head).record()
    }
}

fn too_many() -> Corrupt {
    Corrupt::field(WHAT, "n_records", 0, "the group says there are fewer")
}

/// The bytes of the first record, and the bytes after it.
pub(super) fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), Corrupt> {
    let len = usize::from(get_le16(
        Corrupt::need(WHAT, bytes, RECORD_HEADER_BYTES)?,
        2,
    ));
    if !(RECORD_HEADER_BYTES..=RECORD_BYTES_MAX).contains(&len) || !len.is_multiple_of(4) {
        let reason = "is a multiple of 4, at least 4, at most that of a block";
        return Err(Corrupt::field(WHAT, "length", len as u64, reason));
    }
    Corrupt::need(WHAT, bytes, len)?;
    Ok(bytes.split_at(len))
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Corrupt>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            let missing = self.promised.take().filter(|&left| left > 0)?;
            let reason = "of the records that the group promises are missing";
            return Some(Err(Corrupt::field(
                WHAT,
                "n_records",
                missing.into(),
                reason,
            )));
        }
        let record = self.one();
        if record.is_err() {
            (self.rest, self.promised) = (&[], None);
        }
        Some(record)
    }
}

impl std::iter::FusedIterator for Records<'_> {}
