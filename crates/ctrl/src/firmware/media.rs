//! The medium of a controller over an FTL: what survives a power cut.

use base::collections::mix;
use base::{BLOCK_BYTES, Bytes, Fingerprint};
use blockdev::BlocksUsed;
use ftl::nand;

/// What survives a power cut of a controller over an FTL.
#[derive(Clone)]
pub struct FlashMedia {
    pub(crate) nand: nand::Media,
    /// 4 KiB units that the host sees.
    pub(crate) units: u64,
    /// Blocks whose content the `spec` adversary decided: they replace what the FTL finds.
    pub(crate) patch: Vec<(u64, Bytes)>,
}

impl FlashMedia {
    /// A digest of the chips and of what the adversary decided.
    pub fn content_hash(&self) -> u64 {
        let patch = self
            .patch
            .iter()
            .map(|(block, bytes)| mix(*block ^ mix(bytes.fingerprint())));
        patch.fold(self.nand.content_hash(), |h, p| mix(h.rotate_left(9) ^ p))
    }
    /// Capacity in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.units * BLOCK_BYTES as u64
    }
}

impl super::Firmware {
    /// Blocks used up since the device was made.
    pub(super) fn blocks_used(&self) -> BlocksUsed {
        let used = self.ftl.used();
        BlocksUsed {
            ordinary: used.ordinary,
            slc: used.slc,
            map: used.map,
            freed: used.freed,
        }
    }
    /// Units of 4 KiB that hold something, ascending.
    pub fn mapped(&self) -> Vec<u32> {
        self.ftl.mapped().collect()
    }
    /// Erases of each block that carries data.
    pub fn block_erases(&self) -> Vec<u32> {
        self.ftl.wear()
    }
}
