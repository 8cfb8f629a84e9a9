//! Lists where the content of a file lies on the device, for FIEMAP.

use super::BLOCK;
use super::inline::is_inline;
use crate::F2fs;
use base::Ino;
use fscore::FsResult;
use ondisk::f2fs::BlockAddr;

/// A part of a file that is no hole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileExtent {
    /// First byte in the file.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// First block on the device. `None`: the extent is inline, or reserved and never written (it
    /// reads as zeros, or its data waits in the cache).
    pub block: Option<BlockAddr>,
    /// The content lies in the inode block.
    pub inline: bool,
}

impl F2fs {
    /// The first `max` extents of a file from byte `from` on.
    ///
    /// # Errors
    /// ESTALE; I/O; damage.
    pub fn file_extents(&self, ino: Ino, from: u64, max: usize) -> FsResult<Vec<FileExtent>> {
        self.guarded(|| {
            let inode = self.inode(ino)?;
            let _gate = inode.gate.read();
            let (size, inline) = {
                let core = inode.core();
                (core.fields.size, is_inline(&core))
            };
            let mut found: Vec<FileExtent> = Vec::new();
            if inline {
                found.push(FileExtent {
                    offset: 0,
                    len: size,
                    block: None,
                    inline: true,
                });
                return Ok(found);
            }
            let (mut index, end) = (from / BLOCK, size.div_ceil(BLOCK));
            while index < end {
                let run = self.lookup(&inode, &mut inode.tree.lock(), index, end - index)?;
                let block = run.addr.is_data().then_some(run.addr);
                if run.addr != BlockAddr::NULL && !extend(&mut found, index, run.len, block) {
                    if found.len() == max {
                        break;
                    }
                    found.push(FileExtent {
                        offset: index * BLOCK,
                        len: run.len * BLOCK,
                        block,
                        inline: false,
                    });
                }
                index += run.len;
            }
            Ok(found)
        })
    }
}

/// Joins a run to the last extent if it continues that.
fn extend(found: &mut [FileExtent], index: u64, len: u64, block: Option<BlockAddr>) -> bool {
    let Some(last) = found.last_mut() else {
        return false;
    };
    let behind = last.offset + last.len == index * BLOCK;
    let blocks = (last.len / BLOCK) as u32;
    let next = match (last.block, block) {
        (Some(a), Some(b)) => a.checked_add(blocks) == Some(b),
        (None, None) => true,
        _ => false,
    };
    if behind && next {
        last.len += len * BLOCK;
    }
    behind && next
}
