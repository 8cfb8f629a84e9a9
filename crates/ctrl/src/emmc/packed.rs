//! The header of a packed write (JESD84-B51 6.6.29; the Linux driver of 3.9 to 4.9).
//!
//! Little-endian. One block of 512 bytes, or 4 KiB when the native sector has 4 KiB:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 1 | version, 1 |
//! | 1 | 1 | 1 read, 2 write |
//! | 2 | 1 | number of entries n |
//! | 3 | 5 | zero |
//! | 8 + 8 i | 4 | argument of the CMD23 that entry i would have had; bit 30 must be 0 |
//! | 12 + 8 i | 4 | address: argument of its CMD25 |
//! | rest | | zero, not looked at |

use base::Bytes;
use base::bytes::{get_le32, put_le32};
use thiserror::Error;

/// CMD23 argument: reliable write.
pub const RELIABLE: u32 = 1 << 31;
/// CMD23 argument: packed command; the count is that of all blocks, the header included.
pub const PACKED: u32 = 1 << 30;
/// CMD23 argument: data tag, a hint that this card accepts and ignores.
pub const TAG: u32 = 1 << 29;
/// CMD23 argument: forced programming.
pub const FORCED: u32 = 1 << 24;
/// CMD23 argument: number of 512-byte blocks.
pub const COUNT: u32 = 0xFFFF;

const VERSION: u8 = 1;
const WRITE: u8 = 2;
/// Bytes before the first entry, and of an entry.
const HEAD: usize = 8;
const ENTRY: usize = 8;

/// Entries that a header of this many bytes holds: 63 in one block; the count is one byte.
pub const fn entries_max(header_bytes: usize) -> usize {
    let room = (header_bytes - HEAD) / ENTRY;
    if room < 255 { room } else { 255 }
}

/// One write of a packed command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// CMD23 argument: flags and number of blocks.
    pub sbc: u32,
    /// CMD25 argument.
    pub address: u32,
}

impl Entry {
    /// 512-byte blocks.
    pub fn blocks(&self) -> u64 {
        u64::from(self.sbc & COUNT)
    }
}

/// Why a header is refused. If an entry is at fault, its 1-based number goes into
/// PACKED_FAILURE_INDEX.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum HeaderError {
    /// Shorter than a header.
    #[error("the packed header has {0} bytes")]
    Short(usize),
    /// Not version 1.
    #[error("packed header of version {0}; it must be 1")]
    Version(u8),
    /// A read, or nothing.
    #[error("packed header of direction {0}; it must be 2, write")]
    Direction(u8),
    /// No entry, or more than fit or the card takes.
    #[error("{count} packed entries; it may be 1 to {max}")]
    Count {
        /// Number of entries in the header.
        count: usize,
        /// The maximum that is allowed.
        max: usize,
    },
    /// An entry with bit 30, or without blocks.
    #[error("packed entry {index}: argument {sbc:#010x} is no write of one or more blocks")]
    Argument {
        /// 1-based number.
        index: usize,
        /// Its CMD23 argument.
        sbc: u32,
    },
    /// The entries do not add up to what CMD23 announced.
    #[error("the packed entries have {entries} blocks, CMD23 announced {announced}")]
    Total {
        /// Sum over the entries.
        entries: u64,
        /// CMD23's count less the header.
        announced: u64,
    },
}

impl HeaderError {
    /// The entry at fault, 1-based.
    pub fn index(&self) -> Option<usize> {
        match self {
            HeaderError::Argument { index, .. } => Some(*index),
            _ => None,
        }
    }
}

/// The header of a packed write.
pub fn encode(entries: &[Entry], header_bytes: usize) -> Bytes {
    let mut raw = vec![0; header_bytes];
    (raw[0], raw[1], raw[2]) = (VERSION, WRITE, entries.len() as u8);
    for (i, e) in entries.iter().enumerate() {
        put_le32(&mut raw, HEAD + ENTRY * i, e.sbc);
        put_le32(&mut raw, HEAD + ENTRY * i + 4, e.address);
    }
    raw.into()
}

/// The entries of a header that came with a payload of `announced` blocks, on a card that takes
/// `max` entries. For any bytes, the answer is a list of at most `max` entries with at least one
/// block each, or an error.
///
/// # Errors
/// The first field that is wrong.
pub fn decode(raw: &[u8], announced: u64, max: usize) -> Result<Vec<Entry>, HeaderError> {
    if raw.len() < 512 {
        return Err(HeaderError::Short(raw.len()));
    }
    if raw[0] != VERSION {
        return Err(HeaderError::Version(raw[0]));
    }
    if raw[1] != WRITE {
        return Err(HeaderError::Direction(raw[1]));
    }
    let (count, max) = (usize::from(raw[2]), max.min(entries_max(raw.len())));
    if count == 0 || count > max {
        return Err(HeaderError::Count { count, max });
    }
    let mut entries = Vec::with_capacity(count);
    for i in 0..count {
        let at = HEAD + ENTRY * i;
        let entry = Entry {
            sbc: get_le32(raw, at),
            address: get_le32(raw, at + 4),
        };
        if entry.sbc & PACKED != 0 || entry.blocks() == 0 {
            return Err(HeaderError::Argument {
                index: i + 1,
                sbc: entry.sbc,
            });
        }
        entries.push(entry);
    }
    let total = entries.iter().map(Entry::blocks).sum();
    if total != announced {
        return Err(HeaderError::Total {
            entries: total,
            announced,
        });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    fn entries(n: usize) -> Vec<Entry> {
        (0..n as u32)
            .map(|i| Entry {
                sbc: RELIABLE | (i + 1),
                address: i * 64,
            })
            .collect()
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for (bytes, n) in [(512, 1), (512, 63), (4096, 200), (4096, 255)] {
            let list = entries(n);
            let total = list.iter().map(Entry::blocks).sum();
            assert_eq!(decode(&encode(&list, bytes), total, 255), Ok(list));
        }
        assert_eq!((entries_max(512), entries_max(4096)), (63, 255));
    }

    /// Bytes as a kernel of 3.10 sends them for two writes: 8 blocks at 0x1000, reliable 8 blocks
    /// at 0x2000.
    #[test]
    fn the_layout_is_that_of_the_table() {
        let mut raw = vec![0; 512];
        raw[..24].copy_from_slice(&[
            1, 2, 2, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0x10, 0, 0, 8, 0, 0, 0x80, 0, 0x20, 0, 0,
        ]);
        let want = [
            Entry {
                sbc: 8,
                address: 0x1000,
            },
            Entry {
                sbc: RELIABLE | 8,
                address: 0x2000,
            },
        ];
        assert_eq!(encode(&want, 512), raw);
        assert_eq!(decode(&raw, 16, 63).unwrap(), want);
    }

    #[test]
    fn every_malformation_has_its_name() {
        let good = encode(&entries(3), 512).to_vec();
        let with = |at: usize, byte: u8| {
            let mut raw = good.clone();
            raw[at] = byte;
            decode(&raw, 6, 60)
        };
        assert!(decode(&good, 6, 60).is_ok());
        assert_eq!(with(0, 2), Err(HeaderError::Version(2)));
        assert_eq!(with(1, 1), Err(HeaderError::Direction(1)));
        assert_eq!(with(2, 0), Err(HeaderError::Count { count: 0, max: 60 }));
        assert_eq!(with(2, 61), Err(HeaderError::Count { count: 61, max: 60 }));
        assert_eq!(
            with(2, 255),
            Err(HeaderError::Count {
                count: 255,
                max: 60
            })
        );
        // An entry behind the last one has no blocks.
        assert_eq!(with(2, 4).unwrap_err().index(), Some(4));
        assert_eq!(with(19, 0xC0).unwrap_err().index(), Some(2), "bit 30");
        assert_eq!(with(16, 0).unwrap_err().index(), Some(2), "no blocks");
        let total = HeaderError::Total {
            entries: 7,
            announced: 6,
        };
        assert_eq!(with(16, 3), Err(total));
        assert_eq!(with(2, 2).unwrap_err().index(), None);
        assert_eq!(decode(&good[..100], 6, 60), Err(HeaderError::Short(100)));
        assert_eq!(decode(&[], 6, 60), Err(HeaderError::Short(0)));
    }

    #[test]
    fn random_bytes_never_panic_and_never_give_more_than_was_announced() {
        let mut rng = Rng::named(1, "packed header fuzz");
        let mut accepted = 0;
        for _ in 0..20_000 {
            let mut raw = vec![0; [0, 8, 511, 512, 4096][rng.below(5) as usize]];
            rng.fill(&mut raw);
            if raw.len() >= 512 && rng.one_in(2) {
                (raw[0], raw[1], raw[2]) = (1, 2, rng.below(5) as u8);
                for i in 0..4 {
                    raw[8 + 8 * i..12 + 8 * i]
                        .copy_from_slice(&(rng.below(4) as u32).to_le_bytes());
                }
            }
            let announced = rng.below(8);
            if let Ok(list) = decode(&raw, announced, 63) {
                accepted += 1;
                assert!(list.len() <= 63 && list.iter().all(|e| e.blocks() > 0));
                assert_eq!(list.iter().map(Entry::blocks).sum::<u64>(), announced);
            }
        }
        assert!(accepted > 50, "the fuzz must reach the inside: {accepted}");
    }
}
