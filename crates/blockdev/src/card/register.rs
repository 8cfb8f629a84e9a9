//! What a card says of itself in EXT_CSD (JESD84-B51 7.4), as far as a host needs it.

use super::command::Addresses;
use base::bytes::get_le32;

/// Bytes that a host writes.
pub(super) mod byte {
    /// Bit 0: flush the cache.
    pub const FLUSH_CACHE: u8 = 32;
    /// Exception events that the host asks for: bit 3, a packed command failed.
    pub const EXCEPTION_EVENTS_CTRL: u8 = 56;
}

const CACHE_CTRL: usize = 33;
const PACKED_FAILURE_INDEX: usize = 35;
const PACKED_COMMAND_STATUS: usize = 36;
const DATA_SECTOR_SIZE: usize = 61;
const WR_REL_PARAM: usize = 166;
const WR_REL_SET: usize = 167;
const SEC_COUNT: usize = 212;
const REL_WR_SEC_C: usize = 222;
const CACHE_FLUSH_POLICY: usize = 240;
const CMDQ_SUPPORT: usize = 308;
const MAX_PACKED_WRITES: usize = 500;

/// Sectors of a card with addresses in bytes, at most: 2 GiB.
const BYTE_ADDRESSES: u64 = 1 << 22;

/// Facts of a card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Facts {
    pub sectors: u64,
    /// The cache is on: writes are volatile until a flush.
    pub cache_on: bool,
    pub cache_fifo: bool,
    /// Reliable writes of any length (EN_REL_WR).
    pub en_rel_wr: bool,
    /// Sectors of a reliable write without it; 0: there are none.
    pub rel_wr_sectors: u64,
    /// A cut does not damage what is not being written.
    pub wr_rel_set: bool,
    /// Writes in a packed command; 0: none.
    pub packed_writes: u16,
    /// Sectors have 4 KiB, and so has the header of a packed command.
    pub large_sectors: bool,
    /// The card can queue commands.
    pub queues: bool,
}

impl Facts {
    /// Of the register's 512 bytes.
    pub fn of(raw: &[u8]) -> Facts {
        Facts {
            sectors: u64::from(get_le32(raw, SEC_COUNT)),
            cache_on: raw[CACHE_CTRL] & 1 == 1,
            cache_fifo: raw[CACHE_FLUSH_POLICY] & 1 == 1,
            en_rel_wr: raw[WR_REL_PARAM] & 4 != 0,
            rel_wr_sectors: raw[REL_WR_SEC_C].into(),
            wr_rel_set: raw[WR_REL_SET] & 1 == 1,
            packed_writes: raw[MAX_PACKED_WRITES].into(),
            large_sectors: raw[DATA_SECTOR_SIZE] != 0,
            queues: raw[CMDQ_SUPPORT] & 1 == 1,
        }
    }
    /// Whether the card has reliable writes. Those of a fixed length are of sectors of 512 bytes.
    pub fn has_reliable_writes(&self) -> bool {
        self.en_rel_wr || self.rel_wr_sectors > 0 && !self.large_sectors
    }
    pub fn addresses(&self) -> Addresses {
        match self.sectors > BYTE_ADDRESSES {
            true => Addresses::Sectors,
            false => Addresses::Bytes,
        }
    }
}

/// The entry of the last packed command that failed, from 1 on; 0: the command as a whole. `None`:
/// it did not fail.
pub(super) fn packed_failure(raw: &[u8]) -> Option<u8> {
    match raw[PACKED_COMMAND_STATUS] {
        status if status & 1 == 0 => None,
        status if status & 2 != 0 => Some(raw[PACKED_FAILURE_INDEX]),
        _ => Some(0),
    }
}
