//! Reading a whole map: the journal inode before the mount, and the pointer blocks of an inode for
//! fsync without journal.

use super::POINTER_BYTES;
use crate::extent::Source;
use crate::inode::Inode;
use crate::{Ext4, fault};
use base::BlockNo;
use base::bytes::get_le32;
use fscore::{FsError, FsResult};
use ondisk::ext4::{BLOCK_MAP_DIRECT, BLOCK_MAP_SLOTS};
use std::collections::BTreeSet;

/// The first `blocks` blocks of a file without holes, as (first block, length).
pub(crate) fn runs_of_map(
    source: &Source<'_>,
    area: &[u8],
    blocks: u64,
) -> FsResult<Vec<(BlockNo, u32)>> {
    let mut runs: Vec<(BlockNo, u32)> = Vec::new();
    let mut left = blocks;
    for slot in 0..BLOCK_MAP_SLOTS {
        let levels = (slot + 1).saturating_sub(BLOCK_MAP_DIRECT as usize);
        collect(
            source,
            get_le32(area, slot * POINTER_BYTES),
            levels,
            &mut left,
            &mut runs,
        )?;
    }
    match left {
        0 => Ok(runs),
        _ => Err(missing(source)),
    }
}

fn missing(source: &Source<'_>) -> FsError {
    FsError::corrupt(format!(
        "inode {}: not all of its blocks are mapped",
        source.ino
    ))
}

/// The recursion ends because each pointer to data takes one off `left`, and a missing pointer is
/// an error.
fn collect(
    source: &Source<'_>,
    pointer: u32,
    levels: usize,
    left: &mut u64,
    runs: &mut Vec<(BlockNo, u32)>,
) -> FsResult<()> {
    if *left == 0 {
        return Ok(());
    }
    if pointer == 0 {
        return Err(missing(source));
    }
    let block = BlockNo(pointer.into());
    if levels == 0 {
        *left -= 1;
        match runs.last_mut() {
            Some((start, len)) if start.plus(u64::from(*len)) == block => *len += 1,
            _ => runs.push((block, 1)),
        }
        return Ok(());
    }
    let bytes = (source.read)(block)?;
    for pointer in bytes.chunks_exact(POINTER_BYTES) {
        collect(source, get_le32(pointer, 0), levels - 1, left, runs)?;
    }
    Ok(())
}

impl Ext4 {
    /// Pointer blocks of an inode. The `tree` lock is held.
    pub(crate) fn pointer_blocks_of(&self, inode: &Inode) -> FsResult<Vec<BlockNo>> {
        let area = inode.core().disk.block_area().to_vec();
        let mut seen = BTreeSet::new();
        for slot in BLOCK_MAP_DIRECT as usize..BLOCK_MAP_SLOTS {
            let mut level = vec![get_le32(&area, slot * POINTER_BYTES)];
            for depth in (0..=slot - BLOCK_MAP_DIRECT as usize).rev() {
                let mut below = Vec::new();
                for pointer in level.into_iter().filter(|&p| p != 0) {
                    let block = self.pointer_block(inode, pointer)?;
                    if !seen.insert(block) {
                        let what = format!("{}: block {block} is in it twice", self.map_of(inode));
                        return Err(FsError::corrupt(what));
                    }
                    if depth > 0 {
                        let bytes = self.journal.read(block).map_err(fault::journal)?;
                        below.extend(bytes.chunks_exact(POINTER_BYTES).map(|p| get_le32(p, 0)));
                    }
                }
                level = below;
            }
        }
        Ok(seen.into_iter().collect())
    }
}
