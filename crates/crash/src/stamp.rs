//! Stamps: the content of sectors in files of crash tests. A stamp says which file, sector and
//! version a sector belongs to, so any sector found after a cut can be told apart from all others.
//!
//! A sector repeats one unit of 32 bytes: mark, file, sector, version. A write of a part of a
//! sector writes the bytes that a whole stamp has at that place. In half of the files the mark
//! begins with the magic number of the journal and ends with a block type, so that their blocks
//! look like control blocks of the log (hazards-H10).

use base::SECTOR_BYTES;

/// Names a file for its whole life; never zero.
pub type FileId = u64;

/// The file that owns all blocks which were not written yet: its stamps are found in a block that a
/// file was given and that was never written.
pub const NOBODY: FileId = u64::MAX;

const UNIT_BYTES: usize = 32;
const MARK: u64 = 0x7661_7276_6531_3031;
/// The magic number of JBD2, with which the mark of half of the files begins.
const MAGIC: [u8; 4] = [0xC0, 0x3B, 0x39, 0x98];

/// What a sector says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// The file that wrote it.
    pub file: FileId,
    /// The sector in that file.
    pub sector: u64,
    /// The number of the operation that wrote it, from 1.
    pub version: u64,
}

fn mark_of(file: FileId) -> u64 {
    if file.is_multiple_of(2) {
        return MARK;
    }
    let kind = 1 + (file / 2 % 6) as u8;
    let [a, b, c, d] = MAGIC;
    u64::from_le_bytes([a, b, c, d, 0, 0, 0, kind])
}

fn unit(stamp: Stamp) -> [u8; UNIT_BYTES] {
    let words = [mark_of(stamp.file), stamp.file, stamp.sector, stamp.version];
    let mut unit = [0; UNIT_BYTES];
    for (place, word) in unit.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    unit
}

/// Fills `part`, which begins `at` bytes behind the start of the sector, with the bytes that a
/// whole stamp has there.
pub fn fill(stamp: Stamp, at: usize, part: &mut [u8]) {
    let unit = unit(stamp);
    let (mut done, mut from) = (0, at % UNIT_BYTES);
    while done < part.len() {
        let n = (UNIT_BYTES - from).min(part.len() - done);
        part[done..done + n].copy_from_slice(&unit[from..from + n]);
        (done, from) = (done + n, 0);
    }
}

/// The bytes of a whole sector.
pub fn sector(stamp: Stamp) -> Vec<u8> {
    let mut bytes = vec![0; SECTOR_BYTES];
    fill(stamp, 0, &mut bytes);
    bytes
}

/// The stamps that the whole units in `bytes` say, each one once; a file may end inside a sector.
pub fn stamps(bytes: &[u8]) -> Vec<Stamp> {
    let mut found: Vec<Stamp> = Vec::new();
    for bytes in bytes.chunks_exact(UNIT_BYTES) {
        let mut words = bytes.chunks_exact(8).map(|word| {
            let word = word.try_into().expect("a chunk of eight bytes");
            u64::from_le_bytes(word)
        });
        let (Some(mark), Some(file), Some(sector), Some(version)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        let stamp = Stamp {
            file,
            sector,
            version,
        };
        if file != 0 && mark == mark_of(file) && !found.contains(&stamp) {
            found.push(stamp);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_reads_back_and_parts_of_it_are_found() {
        for file in [2, 3, 15, NOBODY] {
            let stamp = Stamp {
                file,
                sector: 5,
                version: 9,
            };
            let newer = Stamp {
                version: 10,
                ..stamp
            };
            let mut bytes = sector(stamp);
            assert_eq!(stamps(&bytes), [stamp]);
            bytes[9 * UNIT_BYTES] ^= 1;
            assert_eq!(stamps(&bytes), [stamp], "the other units are whole");
            fill(newer, 200, &mut bytes[200..512]);
            assert_eq!(bytes[200..512], sector(newer)[200..512]);
            assert_eq!(stamps(&bytes), [stamp, newer]);
            bytes.fill(0xA5);
            assert_eq!(stamps(&bytes), []);
        }
        assert_eq!(stamps(&[0; SECTOR_BYTES]), []);
        let odd = Stamp {
            file: 3,
            sector: 0,
            version: 1,
        };
        assert!(sector(odd).starts_with(&MAGIC), "hazards-H10");
    }
}
