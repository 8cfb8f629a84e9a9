//! NAT bits: two bitmaps at the end of each pack's segment that say which NAT blocks are full and
//! which empty, so that a mount need not read them all to find free nids. Valid under
//! [`CpFlags::NAT_BITS`](super::CpFlags::NAT_BITS).
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | le64 | version of the checkpoint, its checksum in the upper half |
//! | 8 | `nat_blocks / 8` | blocks without a free nid, lowest bit of a byte first |
//! | behind | `nat_blocks / 8` | blocks without a used nid |

use super::{BLOCK_BYTES, BLOCKS_PER_SEG, Checkpoint, Geometry};
use crate::Corrupt;
use base::bytes::{get_le64, put_le64};

const WHAT: &str = "f2fs NAT bits";
const KEY_BYTES: usize = 8;

/// NAT bits; bits as [`bits::test_bit_le`](super::bits::test_bit_le).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatBits {
    /// NAT blocks without a free nid.
    pub full: Vec<u8>,
    /// NAT blocks without a used nid.
    pub empty: Vec<u8>,
}

impl NatBits {
    /// Blocks that NAT bits of a volume fill.
    pub fn blocks(geo: &Geometry) -> u32 {
        let bytes = KEY_BYTES + 2 * geo.nat_bitmap_bytes() as usize;
        bytes.div_ceil(BLOCK_BYTES) as u32
    }
    /// Offset of their first block from the start of the pack; `None` if they do not fit behind a
    /// pack of so many blocks.
    pub fn offset(geo: &Geometry, pack_blocks: u32) -> Option<u32> {
        let at = BLOCKS_PER_SEG.checked_sub(NatBits::blocks(geo))?;
        (at >= pack_blocks).then_some(at)
    }
    /// What the bits of a checkpoint begin with.
    pub fn key(cp: &Checkpoint) -> u64 {
        cp.version() | u64::from(cp.crc()) << 32
    }
    /// Reads the bits from their blocks.
    ///
    /// # Errors
    /// Too short, or they belong to another checkpoint.
    pub fn parse(blocks: &[u8], geo: &Geometry, cp: &Checkpoint) -> Result<NatBits, Corrupt> {
        let bytes = geo.nat_bitmap_bytes() as usize;
        let blocks = Corrupt::need(WHAT, blocks, KEY_BYTES + 2 * bytes)?;
        let key = get_le64(blocks, 0);
        if key != NatBits::key(cp) {
            return Err(Corrupt::field(
                WHAT,
                "cp_ver",
                key,
                "belongs to another checkpoint",
            ));
        }
        let (full, empty) = blocks[KEY_BYTES..].split_at(bytes);
        Ok(NatBits {
            full: full.to_vec(),
            empty: empty.to_vec(),
        })
    }
    /// The blocks of the NAT bits under a checkpoint whose checksum is final.
    pub fn encode(&self, cp: &Checkpoint) -> Vec<u8> {
        let bytes = KEY_BYTES + self.full.len() + self.empty.len();
        let mut blocks = vec![0; bytes.next_multiple_of(BLOCK_BYTES)];
        put_le64(&mut blocks, 0, NatBits::key(cp));
        blocks[KEY_BYTES..KEY_BYTES + self.full.len()].copy_from_slice(&self.full);
        blocks[KEY_BYTES + self.full.len()..bytes].copy_from_slice(&self.empty);
        blocks
    }
}
