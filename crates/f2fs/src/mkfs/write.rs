//! The plan of a new volume, and how it is written to a device.

use base::{BLOCK_BYTES, BlockNo, Bytes};
use block::{Class, DevError, Queue};
use std::sync::Arc;

/// Blocks sent before waiting for them.
const BATCH_BLOCKS: usize = 256;
/// Blocks of zeros in one write.
const ZERO_RUN_BLOCKS: u64 = 64;
/// The two superblocks.
const SUPERBLOCKS: usize = 2;

/// What the device holds before mkfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceContent {
    /// It reads as zeros everywhere: a new file or RAM device, or a discarded device that then
    /// reads as zeros.
    Zeros,
    /// Unknown content: blocks that must read as zeros are written.
    Unknown,
}

/// The blocks of a new volume.
#[derive(Clone, PartialEq, Eq)]
pub struct Plan {
    blocks: Vec<(BlockNo, Bytes)>,
    zeroed: Vec<(BlockNo, u64)>,
}

impl Plan {
    pub(super) fn new(blocks: Vec<(BlockNo, Bytes)>, zeroed: Vec<(BlockNo, u64)>) -> Plan {
        Plan { blocks, zeroed }
    }

    /// Blocks that are not zero, in order, 4 KiB each. The first two hold the superblocks.
    pub fn blocks(&self) -> &[(BlockNo, Bytes)] {
        &self.blocks
    }
    /// Ranges (first block, number of blocks) that must read as zeros except where
    /// [`blocks`](Self::blocks) has content: checkpoint area, SIT, NAT, first block of the warm
    /// node log. The content of all other blocks does not matter.
    pub fn zeroed(&self) -> &[(BlockNo, u64)] {
        &self.zeroed
    }

    /// Writes the volume. Ends with a flush; a cut before that leaves no F2FS volume (mkfs-K2),
    /// unless one was there before.
    ///
    /// # Errors
    /// What the device says.
    pub fn write(&self, queue: &Arc<Queue>, before: DeviceContent) -> Result<(), DevError> {
        let (superblocks, rest) = self.blocks.split_at(SUPERBLOCKS);
        assert_eq!(
            superblocks[1].0,
            BlockNo(1),
            "mkfs-K2: the superblocks come last"
        );
        if before == DeviceContent::Unknown {
            self.wipe(queue)?;
        }
        for batch in rest.chunks(BATCH_BLOCKS) {
            send(queue, batch)?;
        }
        queue.flush()?;
        send(queue, superblocks)?;
        queue.flush()
    }

    /// Removes the old superblocks, then zeroes what must read as zeros.
    fn wipe(&self, queue: &Arc<Queue>) -> Result<(), DevError> {
        let zeros = Bytes::from(vec![0; ZERO_RUN_BLOCKS as usize * BLOCK_BYTES]);
        let (superblocks, areas) = self
            .zeroed
            .split_first()
            .expect("the superblocks' range comes first");
        let wipe = |&(start, len): &(BlockNo, u64)| -> Result<(), DevError> {
            for at in (0..len).step_by(ZERO_RUN_BLOCKS as usize) {
                let n = (len - at).min(ZERO_RUN_BLOCKS) as usize;
                queue.write(
                    start.plus(at).lba(),
                    Class::Home,
                    zeros.slice(..n * BLOCK_BYTES),
                )?;
            }
            Ok(())
        };
        wipe(superblocks)?;
        queue.flush()?;
        areas.iter().try_for_each(wipe)
    }
}

fn send(queue: &Arc<Queue>, blocks: &[(BlockNo, Bytes)]) -> Result<(), DevError> {
    let mut plug = queue.plug();
    for (block, bytes) in blocks {
        plug.write(block.lba(), Class::Home, bytes.clone());
    }
    plug.submit().wait()
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let numbers: Vec<u64> = self.blocks.iter().map(|(n, _)| n.0).collect();
        f.debug_struct("Plan")
            .field("blocks", &numbers)
            .field("zeroed", &self.zeroed)
            .finish()
    }
}
