//! The EXT_CSD register: 512 bytes, of which the modes (below 192) can be written with CMD6.

use super::{Bkops, CardConfig};
use base::bytes::put_le32;

/// Byte offsets (JESD84-B51 7.4).
pub mod field {
    /// Bit 0: command queue on.
    pub const CMDQ_MODE_EN: usize = 15;
    /// Bit 0: barriers on.
    pub const BARRIER_CTRL: usize = 31;
    /// W: bit 0 starts a flush of the cache, bit 1 sets a barrier.
    pub const FLUSH_CACHE: usize = 32;
    /// Bit 0: cache on.
    pub const CACHE_CTRL: usize = 33;
    /// Power-off notification.
    pub const POWER_OFF_NOTIFICATION: usize = 34;
    /// Entry of the last packed command that failed, from 1 on.
    pub const PACKED_FAILURE_INDEX: usize = 35;
    /// Bit 0: the last packed command failed; bit 1: byte 35 says where.
    pub const PACKED_COMMAND_STATUS: usize = 36;
    /// Exception events that hold at present, two bytes: bit 0 urgent background work, bit 3 packed
    /// command failed.
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
    /// Bit 0: background operations by the host, bit 1: by the card.
    pub const BKOPS_EN: usize = 163;
    /// W: starts background operations.
    pub const BKOPS_START: usize = 164;
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
    /// HPI to end of interrupt, 10 ms.
    pub const OUT_OF_INTERRUPT_TIME: usize = 198;
    /// Partition switch timeout, 10 ms.
    pub const PARTITION_SWITCH_TIME: usize = 199;
    /// Sleep and awake timeout, 100 ns times 2 to the power of this.
    pub const S_A_TIMEOUT: usize = 217;
    /// Write protect group, in erase groups.
    pub const HC_WP_GRP_SIZE: usize = 221;
    /// Erase timeout, 300 ms.
    pub const ERASE_TIMEOUT_MULT: usize = 223;
    /// Long power-off timeout, 10 ms.
    pub const POWER_OFF_LONG_TIME: usize = 247;
    /// Best write, 4 KiB times 2 to the power of this less 1.
    pub const OPTIMAL_WRITE_SIZE: usize = 265;
    /// Best read, in the unit of [`OPTIMAL_WRITE_SIZE`].
    pub const OPTIMAL_READ_SIZE: usize = 266;
    /// 1: spare blocks are normal.
    pub const PRE_EOL_INFO: usize = 267;
    /// Life time used of the main area: 1 is 0 to 10 %.
    pub const LIFE_TIME_EST_A: usize = 268;
    /// Life time used of the area with one bit per cell, in the unit of [`LIFE_TIME_EST_A`].
    pub const LIFE_TIME_EST_B: usize = 269;
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
    /// 0: no background operations needed, 1: not critical, 2: performance suffers, 3: critical.
    pub const BKOPS_STATUS: usize = 246;
    /// Generic CMD6 timeout, 10 ms.
    pub const GENERIC_CMD6_TIME: usize = 248;
    /// Cache size in KiB, four bytes.
    pub const CACHE_SIZE: usize = 249;
    /// Bit 0: barriers.
    pub const BARRIER_SUPPORT: usize = 486;
    /// Entries of a packed write; 0: none.
    pub const MAX_PACKED_WRITES: usize = 500;
    /// Entries of a packed read; 0: none.
    pub const MAX_PACKED_READS: usize = 501;
    /// Bit 0: background operations.
    pub const BKOPS_SUPPORT: usize = 502;
    /// Bit 0: high-priority interrupt.
    pub const HPI_FEATURES: usize = 503;
}

/// Exception events: bits of bytes 54 and 56.
pub mod event {
    /// Background operations are urgent: BKOPS_STATUS is 2 or 3.
    pub const URGENT_BKOPS: u8 = 1 << 0;
    /// The last packed command failed.
    pub const PACKED_FAILURE: u8 = 1 << 3;
}

/// Modes that CMD6 may write.
const WRITABLE: [usize; 12] = [
    field::BARRIER_CTRL,
    field::BKOPS_EN,
    field::BKOPS_START,
    field::FLUSH_CACHE,
    field::CACHE_CTRL,
    field::POWER_OFF_NOTIFICATION,
    field::EXCEPTION_EVENTS_CTRL,
    field::EXCEPTION_EVENTS_CTRL + 1,
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
        let large = u8::from(config.native_sector == 4096);
        let bytes = [
            (field::DATA_SECTOR_SIZE, large),
            (field::USE_NATIVE_SECTOR, large),
            (field::NATIVE_SECTOR_SIZE, large),
            (field::WR_REL_PARAM, 1 | u8::from(config.en_rel_wr) << 2),
            (field::WR_REL_SET, if config.wr_rel_set { 0x1F } else { 0 }),
            (field::EXT_CSD_REV, 8),
            (field::REL_WR_SEC_C, config.rel_wr_sec_c as u8),
            (field::HC_ERASE_GRP_SIZE, 1),
            (field::SEC_FEATURE_SUPPORT, 1 << 4),
            (field::CACHE_FLUSH_POLICY, u8::from(config.cache_fifo)),
            (field::GENERIC_CMD6_TIME, 10),
            (field::BARRIER_SUPPORT, u8::from(config.barrier)),
            (field::MAX_PACKED_WRITES, config.max_packed_writes as u8),
            (field::BKOPS_SUPPORT, u8::from(config.bkops != Bkops::Off)),
            (field::OUT_OF_INTERRUPT_TIME, 10),
            (field::PARTITION_SWITCH_TIME, 1),
            (field::S_A_TIMEOUT, 17),
            (field::HC_WP_GRP_SIZE, 16),
            (field::ERASE_TIMEOUT_MULT, 1),
            (field::POWER_OFF_LONG_TIME, 100),
            (field::OPTIMAL_WRITE_SIZE, 4),
            (field::OPTIMAL_READ_SIZE, 1),
            (field::PRE_EOL_INFO, 1),
            (field::LIFE_TIME_EST_A, 1),
        ];
        bytes.iter().for_each(|(at, value)| raw[*at] = *value);
        let sectors = u32::try_from(sectors).unwrap_or(u32::MAX);
        put_le32(&mut raw, field::SEC_COUNT, sectors);
        put_le32(&mut raw, field::CACHE_SIZE, config.cache_kib);
        ExtCsd { raw }
    }
    /// The register of a real card, as it was read.
    ///
    /// # Panics
    /// There are not 512 bytes.
    pub fn from_bytes(raw: Vec<u8>) -> ExtCsd {
        assert_eq!(raw.len(), 512, "an EXT_CSD has 512 bytes");
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
    /// True if barriers are on: supported, switched on, and there is a cache that is on.
    pub fn barrier_on(&self) -> bool {
        self.raw[field::BARRIER_CTRL] & 1 != 0 && self.cache_on()
    }
    /// Sectors of 512 bytes in the smallest transfer: 1, or 8 with 4 KiB sectors.
    pub fn unit_sectors(&self) -> u64 {
        match self.raw[field::DATA_SECTOR_SIZE] {
            0 => 1,
            _ => 8,
        }
    }
    /// Notes how urgent background operations are, 0 to 3.
    pub(crate) fn set_bkops_status(&mut self, level: u8) {
        self.raw[field::BKOPS_STATUS] = level;
        self.set_event(event::URGENT_BKOPS, level >= 2);
    }
    /// True if reliable writes may have any length.
    pub fn en_rel_wr(&self) -> bool {
        self.raw[field::WR_REL_PARAM] & 4 != 0
    }
    /// Entries of a packed write, if the host has enabled its failure event; else 0.
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
    /// True if an event that the host has enabled holds at present: bit EXCEPTION_EVENT of R1.
    pub fn exception(&self) -> bool {
        let both = |i| {
            self.raw[field::EXCEPTION_EVENTS_STATUS + i]
                & self.raw[field::EXCEPTION_EVENTS_CTRL + i]
        };
        both(0) | both(1) != 0
    }
    /// Notes how a packed command ended: `None` without error; else with the entry that failed,
    /// from 1 on, if the error was one of an entry.
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
    /// Writes a byte as CMD6 does. Answers the new value, or `None` (SWITCH_ERROR) if the byte is
    /// not writable or the card lacks what the value asks for, such as a cache or another
    /// partition.
    pub fn switch(&mut self, at: usize, value: u8) -> Option<u8> {
        let lacks = match at {
            field::CACHE_CTRL => value & 1 != 0 && self.raw[field::CACHE_SIZE..][..4] == [0; 4],
            field::PARTITION_CONFIG => value & 7 != 0,
            field::BARRIER_CTRL => value & 1 != 0 && self.raw[field::BARRIER_SUPPORT] == 0,
            field::BKOPS_EN | field::BKOPS_START => self.raw[field::BKOPS_SUPPORT] == 0,
            field::FLUSH_CACHE => value & 2 != 0 && !self.barrier_on(),
            _ => false,
        };
        if lacks || !WRITABLE.contains(&at) {
            return None;
        }
        // Command bytes keep no value.
        if !matches!(at, field::FLUSH_CACHE | field::BKOPS_START) {
            self.raw[at] = value;
        }
        Some(value)
    }
    /// Sets the modes back to their values after power-up.
    pub fn reset(&mut self) {
        WRITABLE.iter().for_each(|at| self.raw[*at] = 0);
    }
}
