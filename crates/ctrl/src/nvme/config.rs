//! The properties of a controller, apart from its chips and its timing.

use base::BLOCK_BYTES;
use serde::Deserialize;

/// The protocol in whose terms the device describes itself. Commands, promises and costs are
/// modelled alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// NVMe over PCIe.
    Nvme,
    /// UFS: one queue, SCSI commands (SYNCHRONIZE CACHE, UNMAP, WRITE with FUA).
    Ufs,
}

/// A controller.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvmeConfig {
    /// The protocol in whose terms the device describes itself.
    pub protocol: Protocol,
    /// Pairs of submission and completion queues that the host uses.
    pub queues: u32,
    /// Commands that may be under way in each queue; further commands wait at the host.
    pub queue_depth: u32,
    /// Arbitration burst: commands taken from one queue before the next has its turn, 0: no limit.
    pub arbitration_burst: u32,
    /// LBA format in use: bytes of a logical block, 512 or 4096.
    pub lba_bytes: u32,
    /// Largest data transfer of one command (MDTS), KiB.
    pub max_transfer_kib: u32,
    /// The volatile write cache is on (feature 06h, WCE).
    pub vwc: bool,
    /// Size of the write buffer, KiB.
    pub buffer_kib: u32,
    /// AWUN: logical blocks that a write changes as one for the reads of others, 0's based.
    pub awun: u32,
    /// AWUPF: logical blocks that a power failure leaves all old or all new, 0's based; aligned, as
    /// NABSPF says.
    pub awupf: u32,
    /// What a power failure leaves of a longer write: each aligned piece of this many bytes old or
    /// new. The standard promises nothing of the kind, which is 0.
    pub tear_bytes: u32,
    /// Dataset Management with Deallocate, or UNMAP.
    pub discard: bool,
    /// Processor cores of the controller: this many commands are processed at a time.
    pub cores: u32,
}

impl NvmeConfig {
    /// Checks these values.
    ///
    /// # Errors
    /// The first field with an impossible value, and the possible ones.
    pub fn check(&self) -> Result<(), String> {
        for (name, value, min, max) in [
            ("queues", self.queues, 1, 65_535),
            ("queue_depth", self.queue_depth, 1, 65_535),
            ("arbitration_burst", self.arbitration_burst, 0, 128),
            ("max_transfer_kib", self.max_transfer_kib, 4, 1 << 20),
            ("buffer_kib", self.buffer_kib, 4, 1 << 20),
            ("awun", self.awun, 0, 65_535),
            ("cores", self.cores, 1, 256),
        ] {
            if !(min..=max).contains(&value) {
                return Err(format!("{name} = {value}; it may be {min} to {max}"));
            }
        }
        if !matches!(self.lba_bytes, 512 | 4096) {
            let value = self.lba_bytes;
            return Err(format!("lba_bytes = {value}; it may be 512 or 4096"));
        }
        if !self.max_transfer_kib.is_power_of_two() {
            let value = self.max_transfer_kib;
            return Err(format!(
                "max_transfer_kib = {value}; it must be a power of two"
            ));
        }
        self.check_atomic()
    }
    /// Checks that no promise of atomicity goes beyond a unit of 4 KiB, which the translation layer
    /// programs whole or not at all.
    fn check_atomic(&self) -> Result<(), String> {
        let most = BLOCK_BYTES as u32 / self.lba_bytes - 1;
        if self.awupf > most || !(self.awupf + 1).is_power_of_two() {
            return Err(format!(
                "awupf = {}; it may be 2^n - 1 up to {most}: units of {BLOCK_BYTES} bytes are programmed whole, longer writes are not",
                self.awupf
            ));
        }
        if self.awun < self.awupf {
            return Err(format!(
                "awun = {}; it may not be less than awupf = {}",
                self.awun, self.awupf
            ));
        }
        let tear = self.tear_bytes;
        if tear != 0 && !(tear.is_power_of_two() && (self.lba_bytes..=4096).contains(&tear)) {
            return Err(format!(
                "tear_bytes = {tear}; it may be 0, or a power of two from lba_bytes = {} to 4096",
                self.lba_bytes
            ));
        }
        Ok(())
    }
    /// Bytes of [`NvmeConfig::awupf`].
    pub fn atomic_bytes(&self) -> u32 {
        (self.awupf + 1) * self.lba_bytes
    }
    /// 512-byte sectors of a logical block.
    pub(super) fn unit(&self) -> u64 {
        u64::from(self.lba_bytes) / base::SECTOR_BYTES as u64
    }
}
