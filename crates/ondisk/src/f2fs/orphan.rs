//! Orphan blocks of a checkpoint pack: inodes without a name that are to be deleted at the next
//! mount.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | le32 x 1020 | `ino` | the inodes |
//! | 4080 | le32 | `reserved` | 0 |
//! | 4084 | le16 | `blk_addr` | number of this block, from 1 |
//! | 4086 | le16 | `blk_count` | orphan blocks of the pack |
//! | 4088 | le32 | `entry_count` | inodes in this block |
//! | 4092 | le32 | `check_sum` | 0: no version of the format fills it |

use super::{BLOCK_BYTES, Nid};
use crate::Corrupt;
use base::bytes::{get_le16, get_le32, put_le16, put_le32};

/// Inodes of a block.
pub const ORPHANS_PER_BLOCK: usize = 1020;

const WHAT: &str = "f2fs orphan block";

/// A block of orphans.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct OrphanBlock {
    /// The inodes, at most 1020.
    pub inos: Vec<Nid>,
    /// Number of this block, from 1.
    pub index: u16,
    /// Orphan blocks of the pack.
    pub count: u16,
}

impl OrphanBlock {
    /// Reads a block.
    ///
    /// # Errors
    /// Too short, or more entries than there is room for.
    pub fn parse(block: &[u8]) -> Result<OrphanBlock, Corrupt> {
        let block = Corrupt::need(WHAT, block, BLOCK_BYTES)?;
        let entries = get_le32(block, 4088);
        if entries as usize > ORPHANS_PER_BLOCK {
            return Err(Corrupt::field(
                WHAT,
                "entry_count",
                entries.into(),
                "a block has room for 1020",
            ));
        }
        let inos = (0..entries as usize)
            .map(|n| Nid(get_le32(block, 4 * n)))
            .collect();
        Ok(OrphanBlock {
            inos,
            index: get_le16(block, 4084),
            count: get_le16(block, 4086),
        })
    }
    /// Writes a block.
    ///
    /// # Panics
    /// More than 1020 inodes, or `block` is shorter than a block.
    pub fn encode(&self, block: &mut [u8]) {
        assert!(
            self.inos.len() <= ORPHANS_PER_BLOCK,
            "an orphan block has room for 1020 inodes"
        );
        let block = &mut block[..BLOCK_BYTES];
        block.fill(0);
        for (n, ino) in self.inos.iter().enumerate() {
            put_le32(block, 4 * n, ino.0);
        }
        put_le16(block, 4084, self.index);
        put_le16(block, 4086, self.count);
        put_le32(block, 4088, self.inos.len() as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let orphans = OrphanBlock {
            inos: (1..=1020).map(Nid).collect(),
            index: 2,
            count: 3,
        };
        let mut block = vec![0xAA; BLOCK_BYTES];
        orphans.encode(&mut block);
        assert_eq!(OrphanBlock::parse(&block), Ok(orphans));
        put_le32(&mut block, 4088, 1021);
        assert!(OrphanBlock::parse(&block).is_err() && OrphanBlock::parse(&block[..4095]).is_err());
    }
}
