//! Packs the records of a transaction into parts.

use super::*;
use crate::jbd2::{BlockKind, Header};
use base::bytes::{put_be16, put_be32, put_be64};

/// Smallest run of bytes for which a delta is split over two parts; below that the next part takes
/// it whole.
const SPLIT_MIN: usize = 16;

/// The coalition parts of one transaction in the making.
pub struct CoalitionWriter {
    format: Format,
    tid: Tid,
    done: Vec<Vec<u8>>,
    /// The part that is being filled; its length is what is used of it.
    part: Vec<u8>,
    records: u16,
    flags: u8,
    images: usize,
}

impl CoalitionWriter {
    /// An empty transaction: one part without records.
    pub fn new(format: &Format, tid: Tid) -> CoalitionWriter {
        let mut writer = CoalitionWriter {
            format: *format,
            tid,
            done: Vec::new(),
            part: Vec::new(),
            records: 0,
            flags: 0,
            images: 0,
        };
        writer.begin_part();
        writer
    }

    /// Parts so far, the one that is being filled included.
    pub fn parts(&self) -> usize {
        self.done.len() + 1
    }

    /// Full records so far.
    pub fn images(&self) -> usize {
        self.images
    }

    /// Bytes left in the part that is being filled.
    pub fn room(&self) -> usize {
        self.format.block_bytes - self.part.len()
    }

    /// Adds a record. A delta that does not fit the rest of the part is split by segments, a
    /// segment in two if it must be; a revoke in chunks.
    ///
    /// # Panics
    /// If segments are empty, out of order, or reach beyond the block.
    pub fn push(&mut self, record: CoalitionRecord) {
        match record {
            CoalitionRecord::Delta {
                block,
                cumulative,
                post_crc,
                segments,
            } => self.push_delta(block, cumulative, post_crc, &segments),
            CoalitionRecord::Full {
                block,
                escaped,
                crc,
            } => self.push_full(block, escaped, crc),
            CoalitionRecord::Revoke { blocks } => self.push_revokes(&blocks),
        }
    }

    fn push_delta(&mut self, block: BlockNo, cumulative: bool, crc: u32, segments: &[Segment]) {
        let mut end = 0;
        for s in segments {
            let from = usize::from(s.offset);
            assert!(
                !s.bytes.is_empty() && from >= end,
                "segments of a delta are sorted, disjoint and not empty"
            );
            end = from + s.bytes.len();
        }
        assert!(
            end <= self.format.block_bytes,
            "segments lie inside the block"
        );
        if record_bytes(segments) > self.room() && self.room() < self.least_worth_splitting() {
            self.next_part();
        }
        let mut rest: Vec<Segment> = segments.to_vec();
        while !rest.is_empty() {
            let taken = self.take_fitting(&mut rest);
            if taken.is_empty() {
                self.next_part();
                continue;
            }
            self.write_delta(block, cumulative, crc, &taken);
        }
    }

    const fn least_worth_splitting(&self) -> usize {
        DELTA_BYTES + SEGMENT_BYTES + SPLIT_MIN
    }

    /// Removes from the front what fits the rest of the part.
    fn take_fitting(&self, rest: &mut Vec<Segment>) -> Vec<Segment> {
        let mut room = self.room().saturating_sub(DELTA_BYTES);
        let mut whole = 0;
        while whole < rest.len() && SEGMENT_BYTES + rest[whole].bytes.len() <= room {
            room -= SEGMENT_BYTES + rest[whole].bytes.len();
            whole += 1;
        }
        let mut taken: Vec<Segment> = rest.drain(..whole).collect();
        if let Some(next) = rest.first_mut()
            && room >= SEGMENT_BYTES + SPLIT_MIN
        {
            let head = next.bytes.split_to(room - SEGMENT_BYTES);
            let offset = next.offset;
            next.offset += head.len() as u16;
            taken.push(Segment {
                offset,
                bytes: head,
            });
        }
        taken
    }

    fn write_delta(&mut self, block: BlockNo, cumulative: bool, crc: u32, segments: &[Segment]) {
        let at = self.begin_record(
            KIND_DELTA,
            u8::from(cumulative),
            record_bytes(segments),
            block.0,
        );
        put_be16(&mut self.part, at + PREFIX_BYTES, segments.len() as u16);
        put_be32(&mut self.part, at + PREFIX_BYTES + 4, crc);
        let mut to = at + DELTA_BYTES + SEGMENT_BYTES * segments.len();
        for (n, s) in segments.iter().enumerate() {
            let entry = at + DELTA_BYTES + SEGMENT_BYTES * n;
            put_be16(&mut self.part, entry, s.offset);
            put_be16(&mut self.part, entry + 2, s.bytes.len() as u16);
            self.part[to..to + s.bytes.len()].copy_from_slice(&s.bytes);
            to += s.bytes.len();
        }
    }

    fn push_full(&mut self, block: BlockNo, escaped: bool, crc: u32) {
        if self.room() < FULL_BYTES {
            self.next_part();
        }
        let at = self.begin_record(KIND_FULL, u8::from(escaped), FULL_BYTES, block.0);
        put_be32(&mut self.part, at + PREFIX_BYTES, crc);
        self.flags |= FLAG_HAS_FULL;
        self.images += 1;
    }

    fn push_revokes(&mut self, blocks: &[BlockNo]) {
        let mut rest = blocks;
        while !rest.is_empty() {
            let fits = self.room().saturating_sub(PREFIX_BYTES) / 8;
            if fits == 0 {
                self.next_part();
                continue;
            }
            let (now, later) = rest.split_at(rest.len().min(fits));
            let bytes = PREFIX_BYTES + 8 * now.len();
            let at = self.begin_record(KIND_REVOKE, 0, bytes, now.len() as u64);
            for (n, block) in now.iter().enumerate() {
                put_be64(&mut self.part, at + PREFIX_BYTES + 8 * n, block.0);
            }
            self.flags |= FLAG_HAS_REVOKE;
            rest = later;
        }
    }

    /// Makes room for a record of so many bytes and writes its prefix.
    fn begin_record(&mut self, kind: u8, flags: u8, bytes: usize, home: u64) -> usize {
        debug_assert!(
            bytes <= self.room() && bytes.is_multiple_of(4),
            "a record fits its part"
        );
        let at = self.part.len();
        self.part.resize(at + bytes, 0);
        self.part[at] = kind;
        self.part[at + 1] = flags;
        put_be16(&mut self.part, at + 2, bytes as u16);
        put_be64(&mut self.part, at + 4, home);
        self.records += 1;
        at
    }

    fn begin_part(&mut self) {
        self.part = Vec::with_capacity(self.format.block_bytes);
        self.part.resize(COALITION_HEADER_BYTES, 0);
        Header {
            kind: BlockKind::Coalition,
            tid: self.tid,
        }
        .encode(&mut self.part);
        self.part[0x0C] = VERSION;
        self.records = 0;
        self.flags = 0;
    }

    fn next_part(&mut self) {
        self.end_part();
        self.begin_part();
    }

    fn end_part(&mut self) {
        let mut part = std::mem::take(&mut self.part);
        part[0x0D] = self.flags;
        put_be16(&mut part, 0x12, self.records);
        let used = part.len() as u32;
        put_be32(&mut part, 0x14, used);
        part.resize(self.format.block_bytes, 0);
        self.done.push(part);
    }

    /// The parts, one block each, with all checksums. `time` is the commit time in seconds and
    /// nanoseconds since 1970; `self_commit`: no commit block follows; `images`: the full images as
    /// they go to the log, in the order of their records.
    ///
    /// # Panics
    /// If there is not one image per full record, or there are more than 65535 parts.
    pub fn finish(mut self, time: (u64, u32), self_commit: bool, images: &[Bytes]) -> Vec<Vec<u8>> {
        assert_eq!(self.images, images.len(), "one image per full record");
        self.end_part();
        let mut parts = self.done;
        let count =
            u16::try_from(parts.len()).expect("a transaction is far smaller than 65536 parts");
        for (n, part) in parts.iter_mut().enumerate() {
            put_be16(part, 0x0E, n as u16);
            put_be16(part, 0x10, count);
        }
        parts[0][0x0D] |= FLAG_FIRST;
        let last = parts.len() - 1;
        parts[last][0x0D] |= FLAG_LAST | if self_commit { FLAG_SELF_COMMIT } else { 0 };
        put_be64(&mut parts[last], 0x18, time.0);
        put_be32(&mut parts[last], 0x20, time.1);
        put_be32(&mut parts[last], 0x24, images.len() as u32);
        let all = parts.iter().map(Vec::as_slice);
        let crc = transaction_checksum(&self.format, self.tid, all, images.iter().map(|i| &i[..]));
        put_be32(&mut parts[last], TRANSACTION_CHECKSUM_AT, crc);
        parts.iter_mut().for_each(|part| seal(&self.format, part));
        parts
    }
}
