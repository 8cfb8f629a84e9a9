//! The superblock of a mounted file system.
//!
//! While the journal runs, changes go through it (H22). In place it is written at three moments only, when the log is
//! empty: at mount and at unmount (mount state, needs_recovery), and after a failure (error state).

use crate::Ext4;
use crate::fault;
use crate::tx::Tx;
use base::{BLOCK_BYTES, BlockNo, Bytes, Mutant};
use block::{Class, Queue};
use fscore::FsResult;
use ondisk::ext4::{SUPERBLOCK_BYTES, Superblock};
use std::sync::Arc;

/// Where the superblock lies.
pub(crate) const SUPERBLOCK_HOME: BlockNo = BlockNo(0);

/// Where it lies in its block.
pub(crate) const SUPERBLOCK_AT: usize = ondisk::ext4::SUPERBLOCK_AT as usize;

/// Reads 4 KiB straight from the device.
pub(crate) fn read_block(queue: &Queue, block: BlockNo) -> FsResult<Bytes> {
    queue
        .read(block.lba(), base::SECTORS_PER_BLOCK)
        .map_err(fault::device(&format!("reading block {block}")))
}

/// Writes the superblock in place, non-volatile on return.
pub(crate) fn write_in_place(queue: &Arc<Queue>, sb: &mut Superblock) -> FsResult<()> {
    let mut block = read_block(queue, SUPERBLOCK_HOME)?.to_vec();
    sb.encode(&mut block[SUPERBLOCK_AT..]);
    debug_assert_eq!(block.len(), BLOCK_BYTES, "a whole block");
    queue
        .write_fua(SUPERBLOCK_HOME.lba(), Class::Home, block.into())
        .map_err(fault::device("writing the superblock"))
}

impl Ext4 {
    /// Changes the superblock inside a handle.
    pub(crate) fn update_superblock(
        &self,
        tx: &mut Tx<'_>,
        change: impl FnOnce(&mut Superblock),
    ) -> FsResult<()> {
        let mut sb = self.sb.lock();
        let old = *sb.bytes();
        change(&mut sb);
        if rt::mutant(Mutant::SuperblockDirect) {
            // H9: without its transaction, and under the deltas of the next one.
            return write_in_place(&self.queue, &mut sb);
        }
        let mut new = vec![0; SUPERBLOCK_BYTES];
        sb.encode(&mut new);
        tx.update(SUPERBLOCK_HOME, SUPERBLOCK_AT, &old, &new)
    }

    /// Brings the lazy counters up to date.
    pub(crate) fn count_into(&self, sb: &mut Superblock) {
        let (blocks, inodes) = self.groups.free_counts();
        sb.set_free_blocks(blocks);
        sb.set_free_inodes(inodes as u32);
        sb.set_write_time(rt::wall().secs.max(0) as u64);
    }
}
