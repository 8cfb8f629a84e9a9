//! The plan of a new volume, and how it is written to a device.

use crate::check::backup_places;
use base::bytes::is_zero;
use base::{BLOCK_BYTES, BlockNo, Bytes, SECTORS_PER_BLOCK};
use block::{Class, DevError, Queue};
use ondisk::ext4::{SUPERBLOCK_BYTES, Superblock};
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

/// Blocks of the file system, joined to blocks of 4 KiB or cut into them.
fn in_4_kib(blocks: BTreeMap<u64, Vec<u8>>, block_bytes: usize) -> BTreeMap<u64, Vec<u8>> {
    let piece = block_bytes.min(BLOCK_BYTES);
    let mut out = BTreeMap::new();
    for (n, bytes) in blocks {
        let start = n * block_bytes as u64;
        for (at, bytes) in (start..).step_by(piece).zip(bytes.chunks(piece)) {
            let page = at / BLOCK_BYTES as u64;
            let page = out.entry(page).or_insert_with(|| vec![0; BLOCK_BYTES]);
            let at = (at % BLOCK_BYTES as u64) as usize;
            page[at..at + piece].copy_from_slice(bytes);
        }
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
        let blocks = in_4_kib(blocks, block_bytes);
        // Areas are widened to whole 4 KiB; blocks that are written afterwards may be wiped as
        // well.
        let (block, page) = (block_bytes as u64, BLOCK_BYTES as u64);
        let areas = areas.into_iter().map(|(start, len)| {
            let first = start * block / page;
            let end = ((start + len) * block).div_ceil(page);
            (BlockNo(first), end - first)
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

    /// Writes the volume. Ends with a flush; a cut before that leaves this volume or one that was
    /// there before, either of them whole, or none (mkfs-I3).
    ///
    /// # Errors
    /// Errors of the device.
    pub fn write(&self, queue: &Arc<Queue>, before: DeviceContent) -> Result<(), DevError> {
        let (first, rest) = self.blocks.split_at(1);
        assert_eq!(first[0].0, BlockNo(0), "mkfs-I3: the superblock comes last");
        let (backups, rest): (Vec<_>, Vec<_>) = rest
            .iter()
            .cloned()
            .partition(|(_, bytes)| has_backup(bytes));
        if before == DeviceContent::Unknown {
            self.wipe(queue)?;
        }
        for step in [&rest, &backups, first] {
            for batch in step.chunks(BATCH_BLOCKS) {
                let mut plug = queue.plug();
                for (block, bytes) in batch {
                    plug.write(block.lba(), Class::Home, bytes.clone());
                }
                plug.submit().wait()?;
            }
            if !step.is_empty() {
                queue.flush()?;
            }
        }
        Ok(())
    }

    /// Removes the superblocks of an old volume, then writes zeros to the ranges that must read as
    /// zeros.
    fn wipe(&self, queue: &Arc<Queue>) -> Result<(), DevError> {
        let zeros = Bytes::from(vec![0; ZERO_RUN_BLOCKS as usize * BLOCK_BYTES]);
        queue.write(BlockNo(0).lba(), Class::Home, zeros.slice(..BLOCK_BYTES))?;
        remove_backups(queue)?;
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

/// Removes the backups of an old superblock, wherever one is looked for, and nothing beside them.
fn remove_backups(queue: &Arc<Queue>) -> Result<(), DevError> {
    let end = queue.caps().sectors / SECTORS_PER_BLOCK * BLOCK_BYTES as u64;
    for byte in backup_places().filter(|&byte| byte < end) {
        let block = BlockNo(byte / BLOCK_BYTES as u64);
        let at = (byte % BLOCK_BYTES as u64) as usize;
        let mut bytes = queue.read(block.lba(), SECTORS_PER_BLOCK)?.to_vec();
        let backup = &mut bytes[at..at + SUPERBLOCK_BYTES];
        if Superblock::parse(backup).is_ok() {
            backup.fill(0);
            queue.write(block.lba(), Class::Home, bytes.into())?;
        }
    }
    Ok(())
}

/// True if a backup of the superblock lies at the start of one of the file system's blocks in these
/// 4 KiB.
fn has_backup(bytes: &[u8]) -> bool {
    let starts = (0..BLOCK_BYTES).step_by(SUPERBLOCK_BYTES);
    starts
        .into_iter()
        .any(|at| Superblock::parse(&bytes[at..]).is_ok())
}
