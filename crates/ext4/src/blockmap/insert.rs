//! Mapping holes by pointer blocks.

use super::POINTER_BYTES;
use crate::Ext4;
use crate::balloc::Got;
use crate::inode::Inode;
use crate::map::Span;
use crate::tx::Tx;
use base::BlockNo;
use base::bytes::{get_le32, put_le32};
use fscore::{Errno, FsResult};
use ondisk::ext4::BlockPath;

impl Ext4 {
    /// Allocates blocks for the front of a hole of `len` blocks at `lblk`. The inode is put by the
    /// caller; its block count grows by the pointer blocks used, not by the data.
    ///
    /// # Errors
    /// ENOSPC, with nothing changed.
    pub(crate) fn map_hole_by_pointers(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        lblk: u32,
        len: u32,
    ) -> FsResult<Got> {
        let path = BlockPath::to(lblk, self.geo.block_bytes()).ok_or(Errno::FBig)?;
        let room = match self.lookup_block_map(inode, lblk, len)? {
            Span::Hole { len } => len,
            _ => 1,
        };
        let goal = self.goal_by_pointers(inode, lblk)?;
        let fresh = self.alloc_pointer_blocks(tx, inode, &path, goal.0)?;
        let got = match self.alloc_data(tx, inode, lblk, room, goal) {
            Ok(got) => got,
            Err(e) => {
                for &block in &fresh {
                    self.free_clusters(tx, block, 1)?;
                }
                return Err(e);
            }
        };
        self.add_clusters(inode, fresh.len() as i64)?;
        self.set_pointers(tx, inode, &path, got, fresh)?;
        Ok(got)
    }

    /// The goal is the block behind that of the file block before, if it is mapped.
    fn goal_by_pointers(&self, inode: &Inode, lblk: u32) -> FsResult<(BlockNo, bool)> {
        if let Some(before) = lblk.checked_sub(1)
            && let Span::Data { start, .. } = self.lookup_block_map(inode, before, 1)?
        {
            return Ok((start.plus(1), true));
        }
        Ok((self.inode_goal(inode), false))
    }

    /// Allocates the pointer blocks of a path that are missing (blockmap-B1), the topmost first.
    fn alloc_pointer_blocks(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        path: &BlockPath,
        goal: BlockNo,
    ) -> FsResult<Vec<BlockNo>> {
        let mut fresh = Vec::new();
        for _ in 0..self.missing_levels(inode, path)? {
            match self.alloc_clusters(tx, goal, 1, false) {
                Ok(got) => fresh.push(got.start),
                Err(e) => {
                    for block in fresh {
                        self.free_clusters(tx, block, 1)?;
                    }
                    return Err(e);
                }
            }
        }
        Ok(fresh)
    }

    fn missing_levels(&self, inode: &Inode, path: &BlockPath) -> FsResult<usize> {
        let indexes = path.indexes();
        let mut pointer = get_le32(inode.core().disk.block_area(), path.slot * POINTER_BYTES);
        for (level, &index) in indexes.iter().enumerate() {
            if pointer == 0 {
                return Ok(indexes.len() - level);
            }
            let block = self.pointer_block(inode, pointer)?;
            pointer = get_le32(&self.read_meta(block)?, index as usize * POINTER_BYTES);
        }
        Ok(0)
    }

    /// Writes the pointers to `got`, through `fresh` pointer blocks where the path ends early.
    fn set_pointers(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        path: &BlockPath,
        got: Got,
        fresh: Vec<BlockNo>,
    ) -> FsResult<()> {
        let Some((&last, inner)) = path.indexes().split_last() else {
            let mut core = inode.core();
            let area = core.disk.block_area_mut();
            for n in 0..got.len {
                let at = (path.slot + n as usize) * POINTER_BYTES;
                put_le32(area, at, got.start.plus(n.into()).0 as u32);
            }
            return Ok(());
        };
        // From the topmost level down: where the pointer to each pointer block is stored, and the
        // block itself.
        let mut fresh = fresh.into_iter();
        let slot = path.slot * POINTER_BYTES;
        let mut pointer = get_le32(inode.core().disk.block_area(), slot);
        if pointer == 0 {
            pointer = self.new_pointer_block(tx, &mut fresh)?;
            put_le32(inode.core().disk.block_area_mut(), slot, pointer);
        }
        for &index in inner {
            let block = self.pointer_block(inode, pointer)?;
            let at = index as usize * POINTER_BYTES;
            pointer = get_le32(&self.read_meta(block)?, at);
            if pointer == 0 {
                pointer = self.new_pointer_block(tx, &mut fresh)?;
                tx.write(block, at, &pointer.to_le_bytes())?;
            }
        }
        let leaf = self.pointer_block(inode, pointer)?;
        let pointers = (0..got.len).flat_map(|n| (got.start.plus(n.into()).0 as u32).to_le_bytes());
        let pointers: Vec<u8> = pointers.collect();
        tx.write(leaf, last as usize * POINTER_BYTES, &pointers)
    }

    fn new_pointer_block(
        &self,
        tx: &mut Tx<'_>,
        fresh: &mut impl Iterator<Item = BlockNo>,
    ) -> FsResult<u32> {
        let block = fresh
            .next()
            .expect("blockmap-B1: pointer blocks are allocated first");
        tx.create(block, vec![0; self.block_size.bytes()].into())?;
        Ok(block.0 as u32)
    }
}
