//! Reads one coalition block.
//!
//! Every length, count, offset and alignment is checked before it is used; the memory taken is
//! bounded by the block.

use super::*;
use crate::Corrupt;
use crate::jbd2::{BlockKind, Header};
use base::bytes::{get_be16, get_be32, get_be64, is_zero};

/// A coalition block, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoalitionPart {
    /// The transaction.
    pub tid: Tid,
    /// Number of this part, from 0.
    pub part: u16,
    /// Number of parts.
    pub parts: u16,
    /// What stands in the last part only.
    pub last: Option<CoalitionEnd>,
    /// The records, in order.
    pub records: Vec<CoalitionRecord>,
}

/// The facts about the whole transaction in its last part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoalitionEnd {
    /// No commit block follows.
    pub self_commit: bool,
    /// Commit time, seconds since 1970.
    pub secs: u64,
    /// Nanoseconds below one second.
    pub nanos: u32,
    /// Full images that follow in the log.
    pub images: u32,
    /// [`transaction_checksum`] as stored.
    pub transaction_crc: u32,
}

impl CoalitionPart {
    /// Reads a part. Its block checksum is not looked at; see [`verify`](Self::verify).
    ///
    /// # Errors
    /// Too few bytes, no coalition header, an unknown version, flags that contradict the part's
    /// number or records, or a record that is not possible in a block of this size.
    pub fn parse(format: &Format, block: &[u8]) -> Result<CoalitionPart, Corrupt> {
        let block = Corrupt::need(WHAT, block, format.block_bytes)?;
        let tid = Header::expect(block, BlockKind::Coalition, WHAT)?.tid;
        let at_tid = |e: Corrupt| e.at_tid(tid);
        let (part, parts) = part_number(block).map_err(at_tid)?;
        let last = end_of(block, part + 1 == parts).map_err(at_tid)?;
        let records = records(format, block).map_err(at_tid)?;
        Ok(CoalitionPart {
            tid,
            part,
            parts,
            last,
            records,
        })
    }

    /// Checks the block checksum.
    ///
    /// # Errors
    /// Too few bytes, or the stored checksum is another one.
    pub fn verify(format: &Format, block: &[u8]) -> Result<(), Corrupt> {
        let block = Corrupt::need(WHAT, block, format.block_bytes)?;
        let computed = format.crc_without(block, BLOCK_CHECKSUM_AT);
        Corrupt::check(WHAT, get_be32(block, BLOCK_CHECKSUM_AT), computed)
            .map_err(|e| e.at_tid(Tid(get_be32(block, 8))))
    }

    /// Full records of this part.
    pub fn images(&self) -> usize {
        let full = |r: &&CoalitionRecord| matches!(r, CoalitionRecord::Full { .. });
        self.records.iter().filter(full).count()
    }
}

fn bad<T>(field: &'static str, value: u64, reason: &'static str) -> Result<T, Corrupt> {
    Err(Corrupt::field(WHAT, field, value, reason))
}

fn part_number(block: &[u8]) -> Result<(u16, u16), Corrupt> {
    let (version, flags) = (block[0x0C], block[0x0D]);
    if version != VERSION {
        return bad("version", version.into(), "only version 1 is known");
    }
    let (part, parts) = (get_be16(block, 0x0E), get_be16(block, 0x10));
    if part >= parts {
        return bad("part", part.into(), "must be below the number of parts");
    }
    let all = FLAG_FIRST | FLAG_LAST | FLAG_SELF_COMMIT | FLAG_HAS_FULL | FLAG_HAS_REVOKE;
    if flags & !all != 0 {
        return bad("flags", flags.into(), "unknown bits");
    }
    let first = flags & FLAG_FIRST != 0;
    let last = flags & FLAG_LAST != 0;
    if first != (part == 0) || last != (part + 1 == parts) {
        let reason = "FIRST and LAST contradict the number of the part";
        return bad("flags", flags.into(), reason);
    }
    if !last && flags & FLAG_SELF_COMMIT != 0 {
        return bad(
            "flags",
            flags.into(),
            "SELF_COMMIT stands in the last part only",
        );
    }
    Ok((part, parts))
}

fn end_of(block: &[u8], last: bool) -> Result<Option<CoalitionEnd>, Corrupt> {
    if !last {
        return match is_zero(&block[0x18..BLOCK_CHECKSUM_AT]) {
            true => Ok(None),
            false => bad(
                "part",
                get_be16(block, 0x0E).into(),
                "only the last part has a commit time, images and a transaction checksum",
            ),
        };
    }
    Ok(Some(CoalitionEnd {
        self_commit: block[0x0D] & FLAG_SELF_COMMIT != 0,
        secs: get_be64(block, 0x18),
        nanos: get_be32(block, 0x20),
        images: get_be32(block, 0x24),
        transaction_crc: get_be32(block, TRANSACTION_CHECKSUM_AT),
    }))
}

fn records(format: &Format, block: &[u8]) -> Result<Vec<CoalitionRecord>, Corrupt> {
    let used = get_be32(block, 0x14) as usize;
    if !(COALITION_HEADER_BYTES..=format.block_bytes).contains(&used) || !used.is_multiple_of(4) {
        let reason = "must be a multiple of 4 from 48 to the block size";
        return bad("used", used as u64, reason);
    }
    let count = usize::from(get_be16(block, 0x12));
    if count > (used - COALITION_HEADER_BYTES) / FULL_BYTES {
        return bad("records", count as u64, "more than fit the bytes in use");
    }
    let bytes = Bytes::copy_from_slice(&block[COALITION_HEADER_BYTES..used]);
    let mut records = Vec::with_capacity(count);
    let mut rest = bytes;
    for _ in 0..count {
        let length = record_length(&rest)?;
        let raw = rest.split_to(length);
        records.push(record(format, &raw)?);
    }
    if !rest.is_empty() {
        return bad("records", count as u64, "fewer than the bytes in use hold");
    }
    check_flags(block[0x0D], &records)?;
    Ok(records)
}

fn check_flags(flags: u8, records: &[CoalitionRecord]) -> Result<(), Corrupt> {
    let full = records
        .iter()
        .any(|r| matches!(r, CoalitionRecord::Full { .. }));
    let revoke = records
        .iter()
        .any(|r| matches!(r, CoalitionRecord::Revoke { .. }));
    if full != (flags & FLAG_HAS_FULL != 0) || revoke != (flags & FLAG_HAS_REVOKE != 0) {
        let reason = "HAS_FULL and HAS_REVOKE contradict the records";
        return bad("flags", flags.into(), reason);
    }
    Ok(())
}

/// Length of the record at the front, inside `rest`.
fn record_length(rest: &[u8]) -> Result<usize, Corrupt> {
    if rest.len() < FULL_BYTES {
        let reason = "too few to begin another record";
        return bad("bytes left", rest.len() as u64, reason);
    }
    let length = usize::from(get_be16(rest, 2));
    if length < FULL_BYTES || length > rest.len() || !length.is_multiple_of(4) {
        let reason = "must be a multiple of 4, at least 16, and end inside the bytes in use";
        return bad("record length", length as u64, reason);
    }
    Ok(length)
}

fn record(format: &Format, raw: &Bytes) -> Result<CoalitionRecord, Corrupt> {
    let (kind, flags, home) = (raw[0], raw[1], get_be64(raw, 4));
    let known = if kind == KIND_REVOKE { 0 } else { RECORD_FLAG };
    if flags & !known != 0 {
        return bad("record flags", flags.into(), "unknown bits");
    }
    match kind {
        KIND_DELTA => delta(format, raw),
        KIND_FULL if raw.len() == FULL_BYTES => Ok(CoalitionRecord::Full {
            block: BlockNo(home),
            escaped: flags == RECORD_FLAG,
            crc: get_be32(raw, PREFIX_BYTES),
        }),
        KIND_FULL => bad(
            "record length",
            raw.len() as u64,
            "a full record has 16 bytes",
        ),
        KIND_REVOKE => revoke(raw, home),
        _ => bad("record kind", kind.into(), "unknown kind of record"),
    }
}

fn revoke(raw: &[u8], count: u64) -> Result<CoalitionRecord, Corrupt> {
    let list = &raw[PREFIX_BYTES..];
    if count != (list.len() / 8) as u64 || !list.len().is_multiple_of(8) {
        return bad(
            "revoked blocks",
            count,
            "contradicts the length of the record",
        );
    }
    let blocks = list
        .chunks_exact(8)
        .map(|b| BlockNo(get_be64(b, 0)))
        .collect();
    Ok(CoalitionRecord::Revoke { blocks })
}

fn delta(format: &Format, raw: &Bytes) -> Result<CoalitionRecord, Corrupt> {
    let home = get_be64(raw, 4);
    let count = raw
        .len()
        .checked_sub(DELTA_BYTES)
        .map(|room| room / (SEGMENT_BYTES + 1));
    let segments = usize::from(get_be16(raw, PREFIX_BYTES));
    if segments == 0 || count.is_none_or(|most| segments > most) {
        let reason = "must be at least 1 and fit the record";
        return bad("segments", segments as u64, reason);
    }
    if get_be16(raw, PREFIX_BYTES + 2) != 0 {
        let value = get_be16(raw, PREFIX_BYTES + 2).into();
        return bad("delta reserved", value, "must be 0");
    }
    let mut list = Vec::with_capacity(segments);
    let mut end = 0;
    let mut from = DELTA_BYTES + SEGMENT_BYTES * segments;
    for n in 0..segments {
        let entry = DELTA_BYTES + SEGMENT_BYTES * n;
        let offset = get_be16(raw, entry);
        let length = usize::from(get_be16(raw, entry + 2));
        check_segment(format, (offset, length), end, raw.len() - from)?;
        end = usize::from(offset) + length;
        let bytes = raw.slice(from..from + length);
        from += length;
        list.push(Segment { offset, bytes });
    }
    if from.next_multiple_of(4) != raw.len() || !is_zero(&raw[from..]) {
        let reason = "contradicts the segments of the delta, or its padding is not zero";
        return bad("record length", raw.len() as u64, reason);
    }
    Ok(CoalitionRecord::Delta {
        block: BlockNo(home),
        cumulative: raw[1] == RECORD_FLAG,
        post_crc: get_be32(raw, PREFIX_BYTES + 4),
        segments: list,
    })
}

/// A segment begins at or behind the end of the one before it, is not empty, ends inside the block,
/// and its bytes are there.
fn check_segment(
    format: &Format,
    (offset, length): (u16, usize),
    end: usize,
    left: usize,
) -> Result<(), Corrupt> {
    if usize::from(offset) < end {
        return bad(
            "segment offset",
            offset.into(),
            "overlaps the segment before it, or is out of order",
        );
    }
    if length == 0 || usize::from(offset) + length > format.block_bytes {
        return bad(
            "segment length",
            length as u64,
            "is zero or ends beyond the block",
        );
    }
    if length > left {
        return bad(
            "segment length",
            length as u64,
            "more bytes than the record has",
        );
    }
    Ok(())
}
