//! The plan of a new volume, and how it is written to a device.

use base::bytes::is_zero;
use base::{BLOCK_BYTES, BlockNo, Bytes};
use block::{Class, DevError, Queue};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Blocks sent before waiting for them.
const BATCH_BLOCKS: usize = 256;
/// Blocks of zeros in one write.
const ZERO_RUN_BLOCKS: u64 = 64;

/// What the device holds before the volume is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceContent {
    /// The device reads as zeros everywhere: a new file or RAM device, or one that was discarded
    /// and then reads zeros.
    Zeros,
    /// Anything: ranges that must read as zeros are written.
    Unknown,
}

/// The blocks of a new volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    blocks: Vec<(BlockNo, Bytes)>,
    zeroed: Vec<(BlockNo, u64)>,
}

/// Joins blocks of the file system, `ratio` to one, to blocks of 4 KiB.
fn joined(
    blocks: BTreeMap<u64, Vec<u8>>,
    ratio: u64,
    block_bytes: usize,
) -> BTreeMap<u64, Vec<u8>> {
    let mut out = BTreeMap::new();
    for (n, bytes) in blocks {
        let at = (n % ratio) as usize * block_bytes;
        let page = out.entry(n / ratio).or_insert_with(|| vec![0; BLOCK_BYTES]);
        page[at..at + block_bytes].copy_from_slice(&bytes);
    }
    out
}

impl Plan {
    /// A plan of `blocks` of `block_bytes` on top of `areas` of zeros (first block, blocks).
    pub(super) fn new(
        blocks: BTreeMap<u64, Vec<u8>>,
        areas: Vec<(u64, u64)>,
        block_bytes: usize,
    ) -> Plan {
        let ratio = (BLOCK_BYTES / block_bytes) as u64;
        let blocks = joined(blocks, ratio, block_bytes);
        // Areas are widened to whole 4 KiB; blocks that are written afterwards may be wiped as
        // well.
        let areas = areas.into_iter().map(|(start, len)| {
            let first = start / ratio;
            (BlockNo(first), (start + len).div_ceil(ratio) - first)
        });
        let (zeros, blocks): (Vec<_>, Vec<_>) =
            blocks.into_iter().partition(|(_, bytes)| is_zero(bytes));
        let single = zeros.into_iter().map(|(n, _)| (BlockNo(n), 1));
        Plan {
            blocks: blocks
                .into_iter()
                .map(|(n, bytes)| (BlockNo(n), bytes.into()))
                .collect(),
            zeroed: areas.chain(single).collect(),
        }
    }

    /// Blocks that are not zero, in order, 4 KiB each. The first holds the superblock.
    pub fn blocks(&self) -> &[(BlockNo, Bytes)] {
        &self.blocks
    }
    /// Ranges (first block, blocks) that must read as zeros where [`blocks`](Self::blocks) does not
    /// say otherwise: inode tables, journal, blocks of metadata without content. What lies
    /// elsewhere does not matter.
    pub fn zeroed(&self) -> &[(BlockNo, u64)] {
        &self.zeroed
    }

    /// Writes the volume. Ends with a flush; a cut before that leaves no ext4 volume (mkfs-I3),
    /// unless one was there before.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn write(&self, queue: &Arc<Queue>, before: DeviceContent) -> Result<(), DevError> {
        let (first, rest) = self.blocks.split_first().expect("a plan has a superblock");
        assert_eq!(first.0, BlockNo(0), "mkfs-I3: the superblock comes last");
        if before == DeviceContent::Unknown {
            self.wipe(queue)?;
        }
        for batch in rest.chunks(BATCH_BLOCKS) {
            let mut plug = queue.plug();
            for (block, bytes) in batch {
                plug.write(block.lba(), Class::Home, bytes.clone());
            }
            plug.submit().wait()?;
        }
        queue.flush()?;
        queue.write(first.0.lba(), Class::Home, first.1.clone())?;
        queue.flush()
    }

    /// Removes the old superblock, then writes zeros to the ranges that must read as zeros.
    fn wipe(&self, queue: &Arc<Queue>) -> Result<(), DevError> {
        let zeros = Bytes::from(vec![0; ZERO_RUN_BLOCKS as usize * BLOCK_BYTES]);
        queue.write(BlockNo(0).lba(), Class::Home, zeros.slice(..BLOCK_BYTES))?;
        queue.flush()?;
        for &(start, len) in &self.zeroed {
            for at in (0..len).step_by(ZERO_RUN_BLOCKS as usize) {
                let n = (len - at).min(ZERO_RUN_BLOCKS) as usize;
                let lba = start.plus(at).lba();
                queue.write(lba, Class::Home, zeros.slice(..n * BLOCK_BYTES))?;
            }
        }
        Ok(())
    }
}
