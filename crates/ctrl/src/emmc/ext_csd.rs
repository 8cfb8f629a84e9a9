//! The EXT_CSD register: 512 bytes, of which the modes (below 192) can be written with CMD6.

use super::CardConfig;
use base::bytes::put_le32;

/// Byte offsets (JESD84-B51 7.4).
pub mod field {
    /// W: bit 0 starts a flush of the cache.
    pub const FLUSH_CACHE: usize = 32;
    /// Bit 0: cache on.
    pub const CACHE_CTRL: usize = 33;
    /// Power-off notification.
    pub const POWER_OFF_NOTIFICATION: usize = 34;
    /// Entry of the last packed command that failed, from 1 on.
    pub const PACKED_FAILURE_INDEX: usize = 35;
    /// Bit 0: the last packed command failed; bit 1: byte 35 says where.
    pub const PACKED_COMMAND_STATUS: usize = 36;
    /// Exception events that are the case, two bytes: bit 0 urgent background work, bit 3 packed command failed.
    pub const EXCEPTION_EVENTS_STATUS: usize = 54;
    /// Exception events the host asks for, two bytes.
    pub const EXCEPTION_EVENTS_CTRL: usize = 56;
    /// Sector size in use: 0 = 512 bytes.
    pub const DATA_SECTOR_SIZE: usize = 61;
    /// Write once: use 4 KiB sectors.
    pub const USE_NATIVE_SECTOR: usize = 62;
    /// Sector size the card would like: 0 = 512 bytes.
    pub const NATIVE_SECTOR_SIZE: usize = 63;
    /// Bit 0: high-priority interrupt enabled.
    pub const HPI_MGMT: usize = 161;
    /// Bit 0: 167 may be written once; bit 2: EN_REL_WR.
    pub const WR_REL_PARAM: usize = 166;
    /// Bit 0: stored data of the user area is safe at a power cut.
    pub const WR_REL_SET: usize = 167;
    /// Bit 0: erase groups and timeouts of high-capacity cards.
    pub const ERASE_GROUP_DEF: usize = 175;
    /// Bits 2..0: partition that commands go to.
    pub const PARTITION_CONFIG: usize = 179;
    /// Data lines in use.
    pub const BUS_WIDTH: usize = 183;
    /// 3: HS400.
    pub const HS_TIMING: usize = 185;
    /// 8: version 5.1.
    pub const EXT_CSD_REV: usize = 192;
    /// Capacity in 512-byte sectors, four bytes.
    pub const SEC_COUNT: usize = 212;
    /// Sectors of a legacy reliable write.
    pub const REL_WR_SEC_C: usize = 222;
    /// Erase group, in 512 KiB.
    pub const HC_ERASE_GRP_SIZE: usize = 224;
    /// Bit 0: secure erase, 4: trim, 6: sanitize.
    pub const SEC_FEATURE_SUPPORT: usize = 231;
    /// Bit 0: first in, first out.
    pub const CACHE_FLUSH_POLICY: usize = 240;
    /// Generic CMD6 timeout, 10 ms.
    pub const GENERIC_CMD6_TIME: usize = 248;
    /// Cache size in KiB, four bytes.
    pub const CACHE_SIZE: usize = 249;
    /// Entries of a packed write; 0: none.
    pub const MAX_PACKED_WRITES: usize = 500;
    /// Entries of a packed read; 0: none.
    pub const MAX_PACKED_READS: usize = 501;
}

/// Exception events: bits of bytes 54 and 56.
pub mod event {
    /// The last packed command failed.
    pub const PACKED_FAILURE: u8 = 1 << 3;
}

/// Modes that CMD6 may write.
const WRITABLE: [usize; 10] = [
    field::FLUSH_CACHE,
    field::CACHE_CTRL,
    field::POWER_OFF_NOTIFICATION,
    field::EXCEPTION_EVENTS_CTRL,
    field::EXCEPTION_EVENTS_CTRL + 1,
    field::HPI_MGMT,
    field::ERASE_GROUP_DEF,
    field::PARTITION_CONFIG,
    field::BUS_WIDTH,
    field::HS_TIMING,
];

/// The register.
#[derive(Clone, Debug)]
pub struct ExtCsd {
    raw: Vec<u8>,
}

impl ExtCsd {
    /// The register of a card after power-up.
    pub fn new(config: &CardConfig, sectors: u64) -> ExtCsd {
        let mut raw = vec![0; 512];
        raw[field::WR_REL_PARAM] = 1 | u8::from(config.en_rel_wr) << 2;
        raw[field::WR_REL_SET] = if config.wr_rel_set { 0x1F } else { 0 };
        raw[field::EXT_CSD_REV] = 8;
        put_le32(
            &mut raw,
            field::SEC_COUNT,
            u32::try_from(sectors).unwrap_or(u32::MAX),
        );
        raw[field::REL_WR_SEC_C] = 1;
        raw[field::HC_ERASE_GRP_SIZE] = 1;
        raw[field::SEC_FEATURE_SUPPORT] = 1 << 4;
        raw[field::CACHE_FLUSH_POLICY] = u8::from(config.cache_fifo);
        raw[field::GENERIC_CMD6_TIME] = 10;
        put_le32(&mut raw, field::CACHE_SIZE, config.cache_kib);
        raw[field::MAX_PACKED_WRITES] = config.max_packed_writes.min(255) as u8;
        ExtCsd { raw }
    }
    /// The byte at `at`.
    pub fn get(&self, at: usize) -> u8 {
        self.raw[at]
    }
    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.raw
    }
    /// True if the cache is on.
    pub fn cache_on(&self) -> bool {
        self.raw[field::CACHE_CTRL] & 1 != 0
    }
    /// True if reliable writes may have any length.
    pub fn en_rel_wr(&self) -> bool {
        self.raw[field::WR_REL_PARAM] & 4 != 0
    }
    /// Entries of a packed write, if the host has asked for its failure event; else 0.
    pub fn packed_writes_max(&self) -> usize {
        match self.raw[field::EXCEPTION_EVENTS_CTRL] & event::PACKED_FAILURE {
            0 => 0,
            _ => usize::from(self.raw[field::MAX_PACKED_WRITES]),
        }
    }
    /// Bytes of the header of a packed command.
    pub fn packed_header_bytes(&self) -> usize {
        if self.raw[field::DATA_SECTOR_SIZE] == 0 {
            512
        } else {
            4096
        }
    }
    /// True if an event that the host asked for is the case: bit EXCEPTION_EVENT of R1.
    pub fn exception(&self) -> bool {
        let both = |i| {
            self.raw[field::EXCEPTION_EVENTS_STATUS + i]
                & self.raw[field::EXCEPTION_EVENTS_CTRL + i]
        };
        both(0) | both(1) != 0
    }
    /// Notes how a packed command ended: `None` well; else the entry that failed, from 1 on, if it was one.
    pub(crate) fn packed_ended(&mut self, failed: Option<Option<usize>>) {
        let (status, index) = match failed {
            None => (0, 0),
            Some(None) => (1, 0),
            Some(Some(index)) => (3, index as u8),
        };
        self.raw[field::PACKED_COMMAND_STATUS] = status;
        self.raw[field::PACKED_FAILURE_INDEX] = index;
        self.set_event(event::PACKED_FAILURE, status != 0);
    }
    fn set_event(&mut self, event: u8, is: bool) {
        let status = &mut self.raw[field::EXCEPTION_EVENTS_STATUS];
        *status = if is {
            *status | event
        } else {
            *status & !event
        };
    }
    /// Writes a byte as CMD6 does. Answers with the new value, or `None` if the byte is not writable or the card lacks what the
    /// value asks for: a cache, another partition (SWITCH_ERROR).
    pub fn switch(&mut self, at: usize, value: u8) -> Option<u8> {
        let lacks = match at {
            field::CACHE_CTRL => value & 1 != 0 && self.raw[field::CACHE_SIZE..][..4] == [0; 4],
            field::PARTITION_CONFIG => value & 7 != 0,
            _ => false,
        };
        if lacks || !WRITABLE.contains(&at) {
            return None;
        }
        // A command byte keeps no value.
        if at != field::FLUSH_CACHE {
            self.raw[at] = value;
        }
        Some(value)
    }
    /// Modes back to their values after power-up.
    pub fn reset(&mut self) {
        WRITABLE.iter().for_each(|at| self.raw[*at] = 0);
    }
}
