//! Content that lies in the inode (feature `inline_data`), for reading: the first 60 bytes where others map their blocks, the rest in
//! the attribute `system.data`. A directory has the number of its parent first, then entries in both parts, each part filled up by
//! its last entry.

use crate::Ext4;
use crate::inode::Inode;
use base::{Bytes, Ino};
use fscore::{FsError, FsResult};
use ondisk::ext4::{
    BLOCK_AREA_BYTES, DIR_ENTRY_MIN_BYTES, DirEntries, FileType, InodeFlags, dir_entry_bytes,
    put_dir_entry,
};

/// Prefix `system.` of an attribute's name, and what follows it.
const DATA: (u8, &[u8]) = (7, b"data");
/// Bytes of the parent's number at the start of a directory.
const PARENT_BYTES: usize = 4;

impl Inode {
    /// True if the content lies in the inode.
    pub(crate) fn is_inline(&self) -> bool {
        self.core().disk.flags().has(InodeFlags::INLINE_DATA)
    }
}

impl Ext4 {
    /// The two parts of the content. The gate is held.
    fn inline_parts(&self, inode: &Inode) -> FsResult<(Vec<u8>, Vec<u8>)> {
        let area = inode.core().disk.block_area().to_vec();
        let rest = self.inline_rest(inode, DATA)?;
        Ok((area, rest))
    }

    /// The content, as long as the file says. The gate is held.
    pub(crate) fn inline_content(&self, inode: &Inode) -> FsResult<Vec<u8>> {
        let (mut content, rest) = self.inline_parts(inode)?;
        content.extend(rest);
        let size = inode.core().size;
        if size > content.len() as u64 {
            return Err(bad(
                inode,
                format!("{size} bytes, but there is room for {}", content.len()),
            ));
        }
        content.truncate(size as usize);
        Ok(content)
    }

    /// The directory as the one block, without checksum, that it would have. The gate is held.
    pub(crate) fn inline_dir_block(&self, inode: &Inode) -> FsResult<Bytes> {
        let (area, rest) = self.inline_parts(inode)?;
        let parent = Ino(base::bytes::get_le32(&area, 0));
        let mut block = vec![0; self.block_size.bytes()];
        let dir = FileType::Directory;
        let dot = DIR_ENTRY_MIN_BYTES;
        put_dir_entry(&mut block, 0, dot, Some(inode.ino), dir, b".");
        let mut last = (dot, dot);
        let mut at = 2 * dot;
        put_dir_entry(&mut block, dot, dot, Some(parent), dir, b"..");
        for part in [&area[PARENT_BYTES..BLOCK_AREA_BYTES], &rest[..]] {
            for entry in DirEntries::new(part) {
                let entry = entry.map_err(|e| bad(inode, e.to_string()))?;
                let Some(ino) = entry.ino else { continue };
                let len = dir_entry_bytes(entry.name.len());
                if at + len > block.len() {
                    return Err(bad(inode, "more entries than a block holds".into()));
                }
                put_dir_entry(&mut block, at, len, Some(ino), entry.file_type, entry.name);
                last = (at, len);
                at += len;
            }
        }
        // The last one reaches to the end.
        let (start, _) = last;
        let rest = block.len() - start;
        ondisk::ext4::set_dir_rec_len(&mut block, start, rest);
        Ok(block.into())
    }
}

fn bad(inode: &Inode, what: String) -> FsError {
    FsError::corrupt(format!("inode {}: content in the inode: {what}", inode.ino))
}
