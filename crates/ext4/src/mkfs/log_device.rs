//! An external journal: a device that holds nothing but a log, as `mke2fs -O journal_dev` makes it.

use super::{MkfsError, Plan};
use base::{BLOCK_BYTES, BlockSize};
use ondisk::ext4::{JournalDevice, SUPERBLOCK_AT};
use ondisk::jbd2;
use rt::WallTime;
use std::collections::BTreeMap;

/// Smallest ring that Linux takes, blocks but one, and largest journal.
const RING_MIN: u64 = 1023;
const BLOCKS_MAX: u64 = 10_240_000;

/// What the device is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogDevice {
    /// Size of the device; what lies beyond the last whole 4 KiB, or beyond the largest journal,
    /// stays unused.
    pub size_bytes: u64,
    /// Bytes of a block: the same as those of the volume.
    pub block_bytes: u32,
    /// UUID of the device, by which the volume names it.
    pub uuid: [u8; 16],
    /// UUID of the volume.
    pub user: [u8; 16],
    /// Time of creation.
    pub time: WallTime,
}

impl LogDevice {
    /// Blocks of the log, including its superblock and the blocks before it.
    pub fn blocks(&self) -> u64 {
        let bytes = self.size_bytes / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
        (bytes / u64::from(self.block_bytes.max(1))).min(BLOCKS_MAX)
    }

    /// Plans an empty log of one user. The whole device must read as zeros, because an old log
    /// could look like the continuation of the new one.
    ///
    /// # Errors
    /// The device is too small, or the block size is not supported.
    pub fn plan(&self) -> Result<Plan, MkfsError> {
        let bytes = self.block_bytes;
        if BlockSize::new(bytes).is_none() {
            return Err(MkfsError::BlockBytes { bytes });
        }
        let blocks = self.blocks();
        let device = JournalDevice {
            block_bytes: bytes,
            blocks_count: blocks,
            uuid: self.uuid,
        };
        let superblock = device.log_superblock().0;
        let least = superblock + 1 + RING_MIN;
        if blocks < least {
            return Err(MkfsError::TooSmall {
                size_bytes: self.size_bytes,
                need: format!("an external journal has {least} blocks at least"),
            });
        }
        let size = bytes as usize;
        let mut content = BTreeMap::from([(0, vec![0; size])]);
        let now = u32::try_from(self.time.secs).unwrap_or(0);
        let head = device.encode(now).expect("invariant: below BLOCKS_MAX");
        let at = SUPERBLOCK_AT as usize;
        let home = content
            .entry((at / size) as u64)
            .or_insert_with(|| vec![0; size]);
        home[at % size..][..head.len()].copy_from_slice(&head);

        let count = u32::try_from(blocks).expect("invariant: below BLOCKS_MAX");
        let mut log = jbd2::Superblock::new(bytes, count, self.uuid);
        log.set_first(superblock as u32 + 1);
        log.set_user(self.user);
        let mut block = vec![0; size];
        log.encode(&mut block);
        content.insert(superblock, block);
        Ok(Plan::new(content, vec![(0, blocks)], size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_small_and_odd_sizes_are_refused() {
        let device = LogDevice {
            size_bytes: (4 << 20) + 4096,
            block_bytes: 4096,
            uuid: [1; 16],
            user: [2; 16],
            time: WallTime { secs: 1, nanos: 0 },
        };
        let plan = device.plan().expect("1025 blocks");
        assert_eq!(plan.blocks().len(), 2);
        let small = LogDevice {
            size_bytes: 4 << 20,
            ..device
        };
        assert!(matches!(small.plan(), Err(MkfsError::TooSmall { .. })));
        let odd = LogDevice {
            block_bytes: 3000,
            ..device
        };
        assert!(matches!(odd.plan(), Err(MkfsError::BlockBytes { .. })));
    }
}
