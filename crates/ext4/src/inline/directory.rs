//! Directories whose entries lie in the inode. The code of directories sees them as one block
//! without checksum:
//!
//! | bytes of the block | what |
//! |---|---|
//! | 0..12 | `.`, which is stored nowhere |
//! | 12..24 | `..`, of which the first 4 bytes of the block area have the number |
//! | 24..80 | the other 56 bytes of the block area |
//! | 80.. | the attribute's value |

use super::bad;
use crate::Ext4;
use crate::dir;
use crate::inode::Inode;
use crate::tx::Tx;
use base::{Bytes, Ino};
use fscore::FsResult;
use ondisk::ext4::{
    BLOCK_AREA_BYTES, DIR_ENTRY_MIN_BYTES, DirEntries, FileType, Incompat, put_dir_entry,
    set_dir_rec_len,
};
use std::ops::Range;

/// Bytes of the parent's number at the start of the block area.
const PARENT_BYTES: usize = 4;
/// Where the block shows the parent's number, in the entry `..`.
const PARENT: Range<usize> = DIR_ENTRY_MIN_BYTES..DIR_ENTRY_MIN_BYTES + PARENT_BYTES;
/// Where the block shows the first part; the second part follows.
const AREA: Range<usize> =
    2 * DIR_ENTRY_MIN_BYTES..2 * DIR_ENTRY_MIN_BYTES + BLOCK_AREA_BYTES - PARENT_BYTES;

/// Where the parts begin: the entry there is not joined with the one before it (inline-L6).
pub(crate) static SEAMS: [usize; 2] = [AREA.start, AREA.end];

impl Ext4 {
    /// Bytes of the block as which the directory is seen.
    pub(crate) fn inline_dir_bytes(&self, inode: &Inode) -> usize {
        // Damage is reported when the block is read.
        let rest = self.inline_parts(inode).map_or(0, |(_, rest)| rest.len());
        AREA.end + rest
    }

    /// The block as which the directory is seen. The gate is held.
    ///
    /// # Errors
    /// The entries of a part do not fill it (inline-L6).
    pub(crate) fn inline_dir_block(&self, inode: &Inode) -> FsResult<Bytes> {
        let block = self.seeming_block(inode)?;
        for part in [&block[AREA], &block[AREA.end..]] {
            if let Some(e) = DirEntries::new(part).find_map(Result::err) {
                return Err(bad(inode, e.to_string()));
            }
        }
        Ok(block.into())
    }

    fn seeming_block(&self, inode: &Inode) -> FsResult<Vec<u8>> {
        let (area, rest) = self.inline_parts(inode)?;
        let parent = Ino(base::bytes::get_le32(&area, 0));
        let mut block = vec![0; AREA.start];
        let typed = self.geo.incompat().has(Incompat::FILETYPE);
        let kind = match typed {
            true => FileType::Directory,
            false => FileType::Unknown,
        };
        let dot = DIR_ENTRY_MIN_BYTES;
        put_dir_entry(&mut block, 0, dot, Some(inode.ino), kind, b".");
        put_dir_entry(&mut block, dot, dot, Some(parent), kind, b"..");
        block.extend_from_slice(&area[PARENT_BYTES..]);
        block.extend_from_slice(&rest);
        Ok(block)
    }

    /// Overwrites bytes of that block; a change of entries may take several such calls. The gate is
    /// held exclusively.
    pub(crate) fn write_inline_dir(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        offset: usize,
        bytes: &[u8],
    ) -> FsResult<()> {
        let mut block = self.seeming_block(inode)?;
        block[offset..offset + bytes.len()].copy_from_slice(bytes);
        let size = inode.core().size;
        let area = [&block[PARENT], &block[AREA]].concat();
        self.put_inline(tx, inode, &area, &block[AREA.end..], size)
    }

    /// Gives a new directory its first content, without a block; false if the inode has no room.
    pub(crate) fn new_inline_dir(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        parent: Ino,
    ) -> FsResult<bool> {
        if !self.may_be_inline() || self.inline_room(inode)?.is_none() {
            return Ok(false);
        }
        let mut area = parent.0.to_le_bytes().to_vec();
        area.resize(BLOCK_AREA_BYTES, 0);
        set_dir_rec_len(&mut area[PARENT_BYTES..], 0, AREA.len());
        self.put_inline(tx, inode, &area, &[], BLOCK_AREA_BYTES as u64)?;
        Ok(true)
    }

    /// Makes room for names: the second part grows at once to all room left in the inode; when
    /// there is too little left, the directory gets a block. The gate is held exclusively.
    ///
    /// # Errors
    /// ENOSPC, with nothing changed (inline-L5).
    pub(crate) fn widen_inline_dir(&self, tx: &mut Tx<'_>, inode: &Inode) -> FsResult<()> {
        let (area, mut rest) = self.inline_parts(inode)?;
        let room = self.inline_room(inode)?.unwrap_or(BLOCK_AREA_BYTES) - BLOCK_AREA_BYTES;
        if room < rest.len() + DIR_ENTRY_MIN_BYTES {
            return self.give_dir_a_block(tx, inode);
        }
        let last = DirEntries::new(&rest).last();
        let last = last.map_or(0, |e| e.map_or(0, |e| e.offset));
        rest.resize(room, 0);
        set_dir_rec_len(&mut rest, last, room - last);
        self.put_inline(tx, inode, &area, &rest, (BLOCK_AREA_BYTES + room) as u64)
    }

    /// Gives the directory a block and moves its entries there (inline-L4, inline-L6).
    fn give_dir_a_block(&self, tx: &mut Tx<'_>, inode: &Inode) -> FsResult<()> {
        let content = self.inline_dir_block(inode)?;
        self.leave_inode(tx, inode, |tx| {
            inode.core().set_size(0);
            let block = dir::grown_block(&self.dir_facts(inode), &content);
            self.append_block(tx, inode, block).map(drop)
        })
    }
}
