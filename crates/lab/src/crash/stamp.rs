//! What the sectors of crash-test files hold: who wrote them, where, and which version.
//!
//! Every sector repeats one 32-byte unit: mark, file, sector, version. Half of the files carry the journal's magic number as
//! mark, so that their blocks look like log blocks (H10).

use base::SECTOR_BYTES;

/// Names a file for life; never zero.
pub type FileId = u64;

/// The file that owns all blocks before the first write: what is found under a block that was mapped and never written.
pub const NOBODY: FileId = u64::MAX;

const UNIT_BYTES: usize = 32;
const MARK: u64 = 0x7661_7276_6531_3031;
/// JBD2 header: magic number and block types 1 to 6, as the little-endian word that begins with those bytes.
const MAGIC: [u8; 4] = [0xC0, 0x3B, 0x39, 0x98];

/// What a sector says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Who wrote it.
    pub file: FileId,
    /// Where in the file.
    pub sector: u64,
    /// Which version of that sector, from 1.
    pub version: u64,
}

/// A sector as found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// All zero.
    Zeros,
    /// A whole stamp.
    Stamp(Stamp),
    /// Neither.
    Garbage,
}

fn mark_of(file: FileId) -> u64 {
    if file.is_multiple_of(2) {
        return MARK;
    }
    let kind = 1 + (file / 2 % 6) as u8;
    let [a, b, c, d] = MAGIC;
    u64::from_le_bytes([a, b, c, d, 0, 0, 0, kind])
}

/// The bytes of a sector.
pub fn sector(stamp: Stamp) -> Vec<u8> {
    let words = [mark_of(stamp.file), stamp.file, stamp.sector, stamp.version];
    let mut unit = [0; UNIT_BYTES];
    for (place, word) in unit.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    unit.repeat(SECTOR_BYTES / UNIT_BYTES)
}

/// Reads a sector (or the shorter end of a file) back.
pub fn read(bytes: &[u8]) -> Found {
    if base::bytes::is_zero(bytes) {
        return Found::Zeros;
    }
    let repeats =
        bytes.len() > UNIT_BYTES && bytes[UNIT_BYTES..] == bytes[..bytes.len() - UNIT_BYTES];
    let word = |n: usize| {
        let word = bytes.get(n * 8..n * 8 + 8)?;
        Some(u64::from_le_bytes(word.try_into().ok()?))
    };
    match (word(0), word(1), word(2), word(3)) {
        (Some(mark), Some(file), Some(sector), Some(version))
            if repeats && mark == mark_of(file) =>
        {
            Found::Stamp(Stamp {
                file,
                sector,
                version,
            })
        }
        _ => Found::Garbage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_reads_back_and_half_a_stamp_is_garbage() {
        for file in [2, 3, 15, NOBODY] {
            let stamp = Stamp {
                file,
                sector: 5,
                version: 9,
            };
            let mut bytes = sector(stamp);
            assert_eq!(read(&bytes), Found::Stamp(stamp));
            bytes[300] ^= 1;
            assert_eq!(read(&bytes), Found::Garbage);
        }
        assert_eq!(read(&[0; SECTOR_BYTES]), Found::Zeros);
        assert!(
            sector(Stamp {
                file: 3,
                sector: 0,
                version: 1
            })
            .starts_with(&MAGIC)
        );
    }
}
