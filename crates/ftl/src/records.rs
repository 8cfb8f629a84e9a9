//! The records of the map's log: TRIMs, pieces of REMAP batches, and owners of moved slots.
//!
//! Layout of a log page's content, little-endian: first the TRIMs (their number is the page's
//! `part`), 16 bytes each: first unit u32, units u32, version u64. Then sections, each a header of
//! 24 bytes and entries of its kind:
//!
//! | section | header | entries |
//! |---|---|---|
//! | batch | kind 1 u8, flags u8 (bit 0: sources are trimmed), entries u16, pairs of the batch u32, version u64, number of the first pair here u32, CRC32C of all pairs of the batch u32 | home u32, source u32, slot u32 (`NONE`: the source holds nothing) |
//! | owners | kind 2 u8, 0 u8, entries u16, 0 u32, sequence u64, 0 u64 | unit u32, slot u32, version u64 |
//!
//! Every piece of a batch describes the whole batch, so no record marks its begin or end: a batch
//! is complete when all its pieces are there (remap-I13).

use crate::config::{LOST, NONE};
use crate::pages::MetaPage;
use crate::types::FtlError;
use base::bytes::{get_le32, get_le64, put_le32, put_le64};
use base::checksum::crc32c;
use std::collections::BTreeMap;

/// Bytes of a TRIM record.
pub(crate) const TRIM_BYTES: usize = 16;
const HEADER: usize = 24;
/// Bytes of a pair.
pub(crate) const PAIR_BYTES: usize = 12;
const OWNER_BYTES: usize = 16;
const BATCH: u8 = 1;
const OWNERS: u8 = 2;

/// A record that a run of units holds nothing, with its place in the order of all writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Trim {
    pub first: u32,
    pub count: u32,
    pub version: u64,
}

/// One unit of a batch and the slot it takes over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LogPair {
    pub home: u32,
    pub src: u32,
    /// `NONE`: the source held nothing.
    pub slot: u32,
}

/// A batch on its way into the log, or out of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LogBatch {
    pub version: u64,
    /// True if the sources are trimmed.
    pub moves: bool,
    pub pairs: Vec<LogPair>,
    /// Number of the operation; what the units leave behind waits for it (ftl-I2).
    pub accept: u64,
}

/// A record that a slot holds a unit, for the owners of a moved slot that its tag does not name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OwnerRecord {
    pub lpn: u32,
    pub slot: u32,
    pub version: u64,
}

/// Fills log pages.
pub(crate) struct Writer {
    room: usize,
    /// For each page the number of its TRIMs, and its content.
    pub pages: Vec<(u32, Vec<u8>)>,
}

impl Writer {
    /// A writer of pages with `room` bytes of content.
    pub fn new(room: usize) -> Writer {
        Writer {
            room,
            pages: Vec::new(),
        }
    }
    fn left(&self) -> usize {
        self.pages.last().map_or(0, |(_, p)| self.room - p.len())
    }
    /// Adds TRIMs, which must come before everything else.
    pub fn trims(&mut self, trims: impl Iterator<Item = Trim>) {
        for trim in trims {
            if self.left() < TRIM_BYTES {
                self.pages.push((0, Vec::new()));
            }
            let (count, page) = self.pages.last_mut().expect("pushed above");
            *count += 1;
            let mut raw = [0; TRIM_BYTES];
            put_le32(&mut raw, 0, trim.first);
            put_le32(&mut raw, 4, trim.count);
            put_le64(&mut raw, 8, trim.version);
            page.extend_from_slice(&raw);
        }
    }
    /// Adds a batch.
    pub fn batch(&mut self, batch: &LogBatch) {
        let all: Vec<u8> = batch.pairs.iter().flat_map(encode_pair).collect();
        let crc = crc32c(!0, &all);
        let mut header = [0; HEADER];
        (header[0], header[1]) = (BATCH, u8::from(batch.moves));
        put_le32(&mut header, 4, batch.pairs.len() as u32);
        put_le64(&mut header, 8, batch.version);
        put_le32(&mut header, 20, crc);
        self.sections(header, &all, PAIR_BYTES, |header, first| {
            put_le32(header, 16, first);
        });
    }
    /// Adds owners, all with one place in the order of programs.
    pub fn owners(&mut self, sequence: u64, owners: &[OwnerRecord]) {
        let mut all = vec![0; owners.len() * OWNER_BYTES];
        for (raw, owner) in all.chunks_exact_mut(OWNER_BYTES).zip(owners) {
            put_le32(raw, 0, owner.lpn);
            put_le32(raw, 4, owner.slot);
            put_le64(raw, 8, owner.version);
        }
        let mut header = [0; HEADER];
        header[0] = OWNERS;
        put_le64(&mut header, 8, sequence);
        self.sections(header, &all, OWNER_BYTES, |_, _| {});
    }
    /// Cuts entries of `size` bytes into sections that fit.
    fn sections(
        &mut self,
        mut header: [u8; HEADER],
        mut all: &[u8],
        size: usize,
        mark: impl Fn(&mut [u8], u32),
    ) {
        let mut first = 0;
        while !all.is_empty() {
            if self.left() < HEADER + size {
                self.pages.push((0, Vec::new()));
            }
            let n = ((self.left() - HEADER) / size)
                .min(all.len() / size)
                .min(usize::from(u16::MAX));
            header[2..4].copy_from_slice(&(n as u16).to_le_bytes());
            mark(&mut header, first);
            let (now, later) = all.split_at(n * size);
            let page = &mut self.pages.last_mut().expect("pushed above").1;
            page.extend_from_slice(&header);
            page.extend_from_slice(now);
            (all, first) = (later, first + n as u32);
        }
    }
}

fn encode_pair(pair: &LogPair) -> [u8; PAIR_BYTES] {
    let mut raw = [0; PAIR_BYTES];
    put_le32(&mut raw, 0, pair.home);
    put_le32(&mut raw, 4, pair.src);
    put_le32(&mut raw, 8, pair.slot);
    raw
}

/// What is known of a batch while its pieces are gathered.
struct Pieces {
    moves: bool,
    count: u32,
    crc: u32,
    /// Pieces by the number of their first pair.
    parts: BTreeMap<u32, Vec<u8>>,
}

/// What the log holds.
#[derive(Default)]
pub(crate) struct Found {
    pub trims: Vec<Trim>,
    /// Batches whose pieces are all there.
    pub batches: Vec<LogBatch>,
    /// Batches with missing pieces, as far as they are there.
    pub partial: Vec<LogBatch>,
    /// Records of owners, with their place in the order of programs.
    pub owners: Vec<(u64, OwnerRecord)>,
    /// The greatest number in any record.
    pub newest: u64,
}

impl Found {
    /// Reads the log pages behind a root, of a device with so many units and slots.
    ///
    /// # Errors
    /// A record contradicts itself, or names units or slots that do not exist.
    pub fn read<'a>(
        pages: impl Iterator<Item = &'a MetaPage>,
        units: u32,
        slots: u32,
    ) -> Result<Found, FtlError> {
        let mut found = Found::default();
        let mut pieces = BTreeMap::new();
        for page in pages {
            found
                .page(page, &mut pieces, units, slots)
                .ok_or_else(|| FtlError::Corrupt(format!("page {} of the log", page.index)))?;
        }
        for (version, p) in pieces {
            found.newest = found.newest.max(version);
            let mut pairs = Vec::new();
            let mut next = 0;
            for (first, raw) in &p.parts {
                next = if *first == next {
                    next + (raw.len() / PAIR_BYTES) as u32
                } else {
                    u32::MAX
                };
                pairs.extend_from_slice(raw);
            }
            let whole = next == p.count && crc32c(!0, &pairs) == p.crc;
            let decoded = pairs.chunks_exact(PAIR_BYTES).map(|raw| LogPair {
                home: get_le32(raw, 0),
                src: get_le32(raw, 4),
                slot: get_le32(raw, 8),
            });
            let batch = LogBatch {
                version,
                moves: p.moves,
                pairs: decoded.collect(),
                accept: 0,
            };
            match whole {
                true => found.batches.push(batch),
                false => found.partial.push(batch),
            }
        }
        Ok(found)
    }
    fn page(
        &mut self,
        page: &MetaPage,
        pieces: &mut BTreeMap<u64, Pieces>,
        units: u32,
        slots: u32,
    ) -> Option<()> {
        let trims = (page.part as usize).checked_mul(TRIM_BYTES)?;
        let (trims, mut rest) = page.body.split_at_checked(trims)?;
        for raw in trims.chunks_exact(TRIM_BYTES) {
            let trim = Trim {
                first: get_le32(raw, 0),
                count: get_le32(raw, 4),
                version: get_le64(raw, 8),
            };
            trim.first.checked_add(trim.count).filter(|e| *e <= units)?;
            self.newest = self.newest.max(trim.version);
            self.trims.push(trim);
        }
        while !rest.is_empty() {
            let (header, after) = rest.split_at_checked(HEADER)?;
            let n = usize::from(u16::from_le_bytes([header[2], header[3]]));
            let size = match header[0] {
                BATCH => PAIR_BYTES,
                OWNERS => OWNER_BYTES,
                _ => return None,
            };
            let (entries, after) = after.split_at_checked(n * size)?;
            rest = after;
            let number = get_le64(header, 8);
            self.newest = self.newest.max(number);
            // The first number of an entry must be a unit; its slot must be one, or `NONE`.
            let legal = |raw: &[u8], slot: usize| {
                let slot = get_le32(raw, slot);
                get_le32(raw, 0) < units && (slot < slots.min(LOST) || slot == NONE)
            };
            if header[0] == OWNERS {
                for raw in entries.chunks_exact(OWNER_BYTES) {
                    let (slot, version) = (get_le32(raw, 4), get_le64(raw, 8));
                    if !legal(raw, 4) || slot == NONE {
                        return None;
                    }
                    let lpn = get_le32(raw, 0);
                    self.owners
                        .push((number, OwnerRecord { lpn, slot, version }));
                }
                continue;
            }
            if !entries
                .chunks_exact(PAIR_BYTES)
                .all(|raw| legal(raw, 8) && get_le32(raw, 4) < units)
            {
                return None;
            }
            let piece = pieces.entry(number).or_insert_with(|| Pieces {
                moves: header[1] & 1 != 0,
                count: get_le32(header, 4),
                crc: get_le32(header, 20),
                parts: BTreeMap::new(),
            });
            piece.parts.insert(get_le32(header, 16), entries.to_vec());
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::MetaKind;

    fn page(index: u32, (part, body): &(u32, Vec<u8>)) -> MetaPage {
        MetaPage {
            kind: MetaKind::Log,
            seq: 1,
            index,
            part: *part,
            body: body.clone().into(),
        }
    }

    fn written() -> (Writer, LogBatch) {
        let trim = |first| Trim {
            first,
            count: 2,
            version: 70,
        };
        let pair = |i| LogPair {
            home: i,
            src: 100 + i,
            slot: if i == 3 { NONE } else { 200 + i },
        };
        let batch = LogBatch {
            version: 71,
            moves: true,
            pairs: (0..40).map(pair).collect(),
            accept: 0,
        };
        let mut writer = Writer::new(200);
        writer.trims([4, 5, 6].map(trim).into_iter());
        writer.batch(&batch);
        let owner = OwnerRecord {
            lpn: 9,
            slot: 210,
            version: 33,
        };
        writer.owners(80, &[owner; 3]);
        (writer, batch)
    }

    fn read(pages: &[MetaPage]) -> Result<Found, FtlError> {
        Found::read(pages.iter(), 1000, 1000)
    }

    #[test]
    fn records_read_back_and_a_batch_needs_all_its_pages() {
        let (writer, batch) = written();
        assert!(writer.pages.len() > 3 && writer.pages.iter().all(|p| p.1.len() <= 200));
        let pages: Vec<MetaPage> = (0..).zip(&writer.pages).map(|(i, p)| page(i, p)).collect();
        let found = read(&pages).unwrap();
        assert_eq!((found.trims.len(), found.owners.len()), (3, 3));
        assert_eq!((found.batches, found.newest), (vec![batch.clone()], 80));
        for missing in 0..pages.len() {
            let mut some = pages.clone();
            some.remove(missing);
            let found = read(&some).unwrap();
            let had_a_piece = found.batches.is_empty();
            assert_eq!(had_a_piece, found.partial.len() == 1, "page {missing}");
            assert!(had_a_piece || found.batches == [batch.clone()]);
        }
    }

    #[test]
    fn a_record_that_names_what_is_not_there_is_refused() {
        let (writer, _) = written();
        let pages: Vec<MetaPage> = (0..).zip(&writer.pages).map(|(i, p)| page(i, p)).collect();
        assert!(Found::read(pages.iter(), 139, 1000).is_err(), "a source");
        assert!(Found::read(pages.iter(), 1000, 239).is_err(), "a slot");
        for (i, p) in pages.iter().enumerate() {
            for cut in [1, 13, 30] {
                let mut some = pages.clone();
                some[i].body = p.body.slice(0..p.body.len() - cut);
                assert!(
                    read(&some).is_err(),
                    "page {i} without its last {cut} bytes"
                );
            }
        }
    }
}
