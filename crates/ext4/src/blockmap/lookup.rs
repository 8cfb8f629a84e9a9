//! Looking up blocks in a block map.

use super::POINTER_BYTES;
use crate::Ext4;
use crate::inode::Inode;
use crate::map::Span;
use base::BlockNo;
use base::bytes::get_le32;
use fscore::FsResult;
use ondisk::ext4::BlockPath;

impl Ext4 {
    /// What the blocks from `lblk` on are mapped to; at most `want`, and not beyond the pointers of
    /// one block.
    pub(crate) fn lookup_block_map(&self, inode: &Inode, lblk: u32, want: u32) -> FsResult<Span> {
        let Some(path) = BlockPath::to(lblk, self.geo.block_bytes()) else {
            return Ok(Span::Hole { len: want });
        };
        let Some((pointers, at)) = self.last_pointers(inode, &path)? else {
            return Ok(Span::Hole { len: 1 });
        };
        let pointer = |i: usize| get_le32(&pointers, i * POINTER_BYTES);
        let first = pointer(at);
        let end = pointers.len() / POINTER_BYTES;
        let rest = (at + 1..end).take(want as usize - 1);
        let same = rest.zip(1u32..).take_while(|&(i, n)| match first {
            0 => pointer(i) == 0,
            _ => pointer(i) == first.wrapping_add(n),
        });
        let len = 1 + same.count() as u32;
        if first == 0 {
            return Ok(Span::Hole { len });
        }
        let start = BlockNo(first.into());
        self.check_range(start, len, self.map_of(inode))?;
        Ok(Span::Data { start, len })
    }

    /// The array of pointers at the end of a path, and the place in it; `None` if a block on the
    /// way is missing. The slots of trees do not belong to the array of direct pointers.
    pub(super) fn last_pointers(
        &self,
        inode: &Inode,
        path: &BlockPath,
    ) -> FsResult<Option<(Vec<u8>, usize)>> {
        let area = inode.core().disk.block_area().to_vec();
        let Some((&last, inner)) = path.indexes().split_last() else {
            let direct = ondisk::ext4::BLOCK_MAP_DIRECT as usize * POINTER_BYTES;
            return Ok(Some((area[..direct].to_vec(), path.slot)));
        };
        let mut pointer = get_le32(&area, path.slot * POINTER_BYTES);
        for &index in inner {
            if pointer == 0 {
                return Ok(None);
            }
            let block = self.pointer_block(inode, pointer)?;
            pointer = get_le32(&self.read_meta(block)?, index as usize * POINTER_BYTES);
        }
        if pointer == 0 {
            return Ok(None);
        }
        let block = self.pointer_block(inode, pointer)?;
        Ok(Some((self.read_meta(block)?.to_vec(), last as usize)))
    }

    /// A pointer to a pointer block, checked.
    pub(super) fn pointer_block(&self, inode: &Inode, pointer: u32) -> FsResult<BlockNo> {
        let block = BlockNo(pointer.into());
        self.check_range(block, 1, self.map_of(inode))?;
        Ok(block)
    }

    pub(super) fn map_of(&self, inode: &Inode) -> String {
        format!("block map of inode {}", inode.ino)
    }
}
