//! Removing the end of a file, or a range of it, in steps that each leave a whole map.

use super::{POINTER_BYTES, pointers, slot_range};
use crate::Ext4;
use crate::extent::Step;
use crate::inode::Inode;
use crate::tx::Tx;
use base::BlockNo;
use base::bytes::{get_le32, is_zero, put_le32};
use fscore::FsResult;
use ondisk::ext4::{BLOCK_MAP_DIRECT, BLOCK_MAP_SLOTS};
use std::ops::Range;

/// Runs of data that one step frees: each costs up to two bitmaps and descriptors.
const RUNS_MAX: u32 = 5;

/// One step of a removal.
struct Trim {
    /// File blocks that go.
    blocks: Range<u64>,
    /// Runs that may still be freed.
    budget: u32,
}

impl Ext4 {
    /// Removes some of what is mapped in a range of file blocks, the last first. The inode is put
    /// by the caller.
    pub(crate) fn trim_block_map(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        blocks: Range<u64>,
    ) -> FsResult<Step> {
        let _tree = inode.tree.write();
        let mut trim = Trim {
            blocks,
            budget: RUNS_MAX,
        };
        for slot in (0..BLOCK_MAP_SLOTS).rev() {
            let (first, count) = slot_range(self.block_size, slot);
            if first + count <= trim.blocks.start {
                return Ok(Step::Done);
            }
            if first >= trim.blocks.end {
                continue;
            }
            let at = slot * POINTER_BYTES;
            let pointer = get_le32(inode.core().disk.block_area(), at);
            if pointer == 0 {
                continue;
            }
            self.check_no_pointers(inode)?;
            if trim.budget == 0 {
                return Ok(Step::More);
            }
            let levels = (slot + 1).saturating_sub(BLOCK_MAP_DIRECT as usize);
            let emptied = if levels == 0 {
                self.free_run(tx, inode, pointer, 1, &mut trim)?;
                true
            } else {
                self.trim_block(tx, inode, pointer, levels, first, &mut trim)?
            };
            if emptied {
                put_le32(inode.core().disk.block_area_mut(), at, 0);
            }
            if trim.budget == 0 {
                return Ok(Step::More);
            }
        }
        Ok(Step::Done)
    }

    fn free_run(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        start: u32,
        len: u32,
        trim: &mut Trim,
    ) -> FsResult<()> {
        trim.budget -= 1;
        self.free_data(tx, inode, BlockNo(start.into()), len)?;
        self.add_clusters(inode, -i64::from(len))
    }

    /// Trims below one pointer block, which begins with file block `first`; true if it was emptied,
    /// and then freed.
    fn trim_block(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        pointer: u32,
        levels: usize,
        first: u64,
        trim: &mut Trim,
    ) -> FsResult<bool> {
        let block = self.pointer_block(inode, pointer)?;
        let old = self.read_meta(block)?;
        let mut new = old.to_vec();
        if levels == 1 {
            self.trim_leaf(tx, inode, &mut new, first, trim)?;
        } else {
            let count = pointers(self.block_size);
            let span = count.pow(levels as u32 - 1);
            for i in (0..count).rev() {
                let child = get_le32(&new, i as usize * POINTER_BYTES);
                if child == 0 {
                    continue;
                }
                let child_first = first + i * span;
                if child_first + span <= trim.blocks.start || trim.budget == 0 {
                    break;
                }
                if child_first >= trim.blocks.end {
                    continue;
                }
                if self.trim_block(tx, inode, child, levels - 1, child_first, trim)? {
                    put_le32(&mut new, i as usize * POINTER_BYTES, 0);
                }
            }
        }
        if is_zero(&new) {
            tx.forget(block)?;
            self.free_clusters(tx, block, 1)?;
            self.add_clusters(inode, -1)?;
            return Ok(true);
        }
        tx.update(block, 0, &old, &new)?;
        Ok(false)
    }

    /// Frees runs of a block of pointers to data, the last first.
    fn trim_leaf(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        pointers: &mut [u8],
        first: u64,
        trim: &mut Trim,
    ) -> FsResult<()> {
        let get = |pointers: &[u8], i: u64| get_le32(pointers, i as usize * POINTER_BYTES);
        let count = (pointers.len() / POINTER_BYTES) as u64;
        let keep = trim.blocks.start.saturating_sub(first).min(count);
        let mut end = trim.blocks.end.saturating_sub(first).min(count);
        while end > keep && trim.budget > 0 {
            let last = get(pointers, end - 1);
            if last == 0 {
                end -= 1;
                continue;
            }
            let mut start = end - 1;
            while start > keep
                && get(pointers, start - 1) != 0
                && u64::from(get(pointers, start - 1)) + (end - start) == u64::from(last)
            {
                start -= 1;
            }
            let run = get(pointers, start);
            self.free_run(tx, inode, run, (end - start) as u32, trim)?;
            pointers[start as usize * POINTER_BYTES..end as usize * POINTER_BYTES].fill(0);
            end = start;
        }
        Ok(())
    }
}
