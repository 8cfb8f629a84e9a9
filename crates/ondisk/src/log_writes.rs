//! The log of Linux's device-mapper target `log-writes`
//! (Documentation/admin-guide/device-mapper/log-writes.rst): every request that a device got.
//!
//! All numbers are little endian. Sector 0 holds the [`Head`]. From sector 1 on each entry has one
//! sector for its [`Entry`], and behind it the data of the request, unless the request is a discard
//! or the entry a mark. A sector has the size that the head names.

use crate::Corrupt;
use base::bytes::{get_le32, get_le64, put_le32, put_le64};

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
const HEAD: &str = "head of a log of dm-log-writes";
const ENTRY: &str = "entry of a log of dm-log-writes";
/// Bytes of an entry before the text of a mark.
const ENTRY_BYTES: usize = 32;
const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARK: u64 = 8;
const METADATA: u64 = 16;

/// The beginning of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// How many entries follow.
    pub entries: u64,
    /// The unit of places and lengths: 512 or 4096 bytes.
    pub sector_bytes: u32,
}

/// What an entry says of its request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    /// First sector of the request on the device.
    pub sector: u64,
    /// Length of the request in sectors.
    pub sectors: u64,
    /// The cache of the device was flushed before the request.
    pub flush: bool,
    /// The request was durable at its completion.
    pub fua: bool,
    /// The request discards; it has no data.
    pub discard: bool,
    /// The file system called the request metadata.
    pub metadata: bool,
    /// The entry is a mark that a user has set, with this text, and no request.
    pub mark: Option<String>,
}

impl Head {
    /// Bytes of a head.
    pub const BYTES: usize = 28;

    /// Reads the head.
    ///
    /// # Errors
    /// The bytes are too few, or another thing, or of another version.
    pub fn parse(raw: &[u8]) -> Result<Head, Corrupt> {
        let raw = Corrupt::need(HEAD, raw, Self::BYTES)?;
        let head = Head {
            entries: get_le64(raw, 16),
            sector_bytes: get_le32(raw, 24),
        };
        let (magic, version) = (get_le64(raw, 0), get_le64(raw, 8));
        if magic != MAGIC {
            return Err(Corrupt::field(HEAD, "magic", magic, "not that of a log"));
        }
        if version != VERSION {
            return Err(Corrupt::field(HEAD, "version", version, "not 1"));
        }
        if !matches!(head.sector_bytes, 512 | 4096) {
            let bytes = u64::from(head.sector_bytes);
            return Err(Corrupt::field(HEAD, "sectorsize", bytes, "not 512 or 4096"));
        }
        Ok(head)
    }

    /// The first sector of a log.
    pub fn encode(&self) -> Vec<u8> {
        let mut raw = vec![0; self.sector_bytes as usize];
        put_le64(&mut raw, 0, MAGIC);
        put_le64(&mut raw, 8, VERSION);
        put_le64(&mut raw, 16, self.entries);
        put_le32(&mut raw, 24, self.sector_bytes);
        raw
    }
}

impl Entry {
    /// Reads an entry out of its sector.
    ///
    /// # Errors
    /// The sector is too short, or a mark is longer than its sector.
    pub fn parse(raw: &[u8]) -> Result<Entry, Corrupt> {
        Corrupt::need(ENTRY, raw, ENTRY_BYTES)?;
        let flags = get_le64(raw, 16);
        let has = |bit: u64| flags & bit != 0;
        let len = get_le64(raw, 24);
        let mark = match has(MARK) {
            false => None,
            true => {
                let text = usize::try_from(len).ok().and_then(|len| {
                    let end = ENTRY_BYTES.checked_add(len)?;
                    raw.get(ENTRY_BYTES..end)
                });
                let long = "a mark beyond its sector";
                let text = text.ok_or(Corrupt::field(ENTRY, "data_len", len, long))?;
                let text = String::from_utf8_lossy(text);
                Some(text.trim_end_matches('\0').to_string())
            }
        };
        Ok(Entry {
            sector: get_le64(raw, 0),
            sectors: get_le64(raw, 8),
            flush: has(FLUSH),
            fua: has(FUA),
            discard: has(DISCARD),
            metadata: has(METADATA),
            mark,
        })
    }

    /// The sector of the entry, of `sector_bytes` bytes; a mark is cut where the sector ends.
    pub fn encode(&self, sector_bytes: u32) -> Vec<u8> {
        let mut raw = vec![0; sector_bytes as usize];
        let flags = [
            (self.flush, FLUSH),
            (self.fua, FUA),
            (self.discard, DISCARD),
            (self.mark.is_some(), MARK),
            (self.metadata, METADATA),
        ];
        let flags = flags.iter().filter(|(set, _)| *set);
        put_le64(&mut raw, 0, self.sector);
        put_le64(&mut raw, 8, self.sectors);
        put_le64(&mut raw, 16, flags.map(|(_, bit)| bit).sum());
        if let Some(mark) = &self.mark {
            let len = mark.len().min(raw.len() - ENTRY_BYTES);
            put_le64(&mut raw, 24, len as u64);
            raw[ENTRY_BYTES..ENTRY_BYTES + len].copy_from_slice(&mark.as_bytes()[..len]);
        }
        raw
    }

    /// Sectors of data that follow the entry in the log.
    pub fn data_sectors(&self) -> u64 {
        match self.discard || self.mark.is_some() {
            true => 0,
            false => self.sectors,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encoded_is_parsed() {
        for sector_bytes in [512, 4096] {
            let head = Head {
                entries: 7,
                sector_bytes,
            };
            assert_eq!(Head::parse(&head.encode()), Ok(head));
            for flags in 0..16 {
                let mark = (flags == 15).then(|| "saved row 7".to_string());
                let entry = Entry {
                    sector: 5,
                    sectors: 8,
                    flush: flags & 1 != 0,
                    fua: flags & 2 != 0,
                    discard: flags & 4 != 0,
                    metadata: flags & 8 != 0,
                    mark,
                };
                let raw = entry.encode(sector_bytes);
                assert_eq!(raw.len(), sector_bytes as usize);
                assert_eq!(Entry::parse(&raw), Ok(entry));
            }
        }
    }

    #[test]
    fn other_things_and_marks_beyond_their_sector_are_refused() {
        let head = Head {
            entries: 1,
            sector_bytes: 512,
        };
        for (at, what) in [(0, "magic"), (8, "version"), (24, "sectorsize")] {
            let mut raw = head.encode();
            raw[at] ^= 1;
            let why = Head::parse(&raw).unwrap_err().to_string();
            assert!(why.contains(what), "{why}");
        }
        assert!(Head::parse(&head.encode()[..27]).is_err());
        let entry = Entry {
            mark: Some("x".into()),
            ..Entry::default()
        };
        let mut raw = entry.encode(512);
        for len in [481, u64::MAX] {
            put_le64(&mut raw, 24, len);
            let why = Entry::parse(&raw).unwrap_err().to_string();
            assert!(why.contains("data_len"), "{why}");
        }
        assert!(Entry::parse(&raw[..31]).is_err());
    }

    #[test]
    fn data_follow_writes_only() {
        let write = Entry {
            sectors: 8,
            ..Entry::default()
        };
        let discard = Entry {
            discard: true,
            ..write.clone()
        };
        let mark = Entry {
            mark: Some(String::new()),
            ..write.clone()
        };
        let all = [write, discard, mark];
        assert_eq!(all.map(|e| e.data_sectors()), [8, 0, 0]);
    }
}
