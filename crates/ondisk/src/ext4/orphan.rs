//! A block of the orphan file (feature `orphan_file`): inode numbers, then a tail.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | le32 each | | inode numbers; 0 = free slot |
//! | end - 8 | le32 | `ob_magic` | 0x0B10CA04 |
//! | end - 4 | le32 | `ob_checksum` | CRC32C over inode seed, block number (le64) and the slots |

use super::InodeSeed;
use crate::Corrupt;
use base::bytes::{get_le32, put_le32};
use base::checksum::crc32c;
use base::{BlockNo, Ino};

const WHAT: &str = "orphan file block";
const MAGIC: u32 = 0x0B10_CA04;
const TAIL_BYTES: usize = 8;

/// Read access to a block of the orphan file.
#[derive(Debug)]
pub struct OrphanBlock<'a> {
    slots: &'a [u8],
}

impl<'a> OrphanBlock<'a> {
    /// Looks at a block. Checksum: [`verify_orphan_checksum`].
    ///
    /// # Errors
    /// Too short, or no magic number.
    pub fn parse(block: &'a [u8]) -> Result<OrphanBlock<'a>, Corrupt> {
        Corrupt::need(WHAT, block, TAIL_BYTES)?;
        let at = block.len() - TAIL_BYTES;
        let magic = get_le32(block, at);
        if magic != MAGIC {
            return Err(Corrupt::magic(WHAT, magic, MAGIC));
        }
        Ok(OrphanBlock {
            slots: &block[..at],
        })
    }
    /// Slots of the block.
    pub fn slots(&self) -> usize {
        self.slots.len() / 4
    }
    /// The orphans, with the number of their slot.
    pub fn orphans(&self) -> impl Iterator<Item = (usize, Ino)> + 'a {
        let slots = self.slots.chunks_exact(4).enumerate();
        slots
            .map(|(n, raw)| (n, Ino(get_le32(raw, 0))))
            .filter(|(_, ino)| ino.0 != 0)
    }
}

fn computed(seed: InodeSeed, at: BlockNo, block: &[u8]) -> u32 {
    crc32c(
        seed.crc(&at.0.to_le_bytes()),
        &block[..block.len() - TAIL_BYTES],
    )
}

/// Writes magic number and checksum of the block that lies at `at` on the device.
pub fn update_orphan_checksum(seed: InodeSeed, at: BlockNo, block: &mut [u8]) {
    let tail = block.len() - TAIL_BYTES;
    let crc = computed(seed, at, block);
    put_le32(block, tail, MAGIC);
    put_le32(block, tail + 4, crc);
}

/// Checks the checksum of the block that lies at `at` on the device.
///
/// # Errors
/// The stored checksum is another one, or the block is too short.
pub fn verify_orphan_checksum(seed: InodeSeed, at: BlockNo, block: &[u8]) -> Result<(), Corrupt> {
    Corrupt::need(WHAT, block, TAIL_BYTES)?;
    let stored = get_le32(block, block.len() - 4);
    Corrupt::check(WHAT, stored, computed(seed, at, block)).map_err(|e| e.at_block(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let mut block = vec![0; 64];
        put_le32(&mut block, 8, 77);
        update_orphan_checksum(InodeSeed(3), BlockNo(9), &mut block);
        let orphans: Vec<_> = OrphanBlock::parse(&block)
            .expect("magic")
            .orphans()
            .collect();
        assert_eq!(orphans, [(2, Ino(77))]);
        verify_orphan_checksum(InodeSeed(3), BlockNo(9), &block).expect("fits");
        assert!(verify_orphan_checksum(InodeSeed(3), BlockNo(10), &block).is_err());
        assert!(OrphanBlock::parse(&[0; 64]).is_err() && OrphanBlock::parse(&[0; 3]).is_err());
    }
}
