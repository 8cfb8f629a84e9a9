//! Content of files and directories: read, write, write-back, truncate, fallocate, inline data, atomic writes.

use crate::F2fs;
use crate::inode::Inode;
use crate::ops::Op;
use base::{Bytes, Ino};
use fscore::{FallocateMode, FsResult};
use std::ops::Range;

/// Where write-back puts pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// As the policies say: in place, or in the log of the file's temperature.
    Policy,
    /// Out of place into the cold data log: cleaning.
    Cold,
}

impl F2fs {
    /// Reads (`FileSystem::read`). Takes the gate shared.
    pub(crate) fn read_file(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> FsResult<usize> {
        let _ = (ino, offset, buf);
        todo!("data")
    }

    /// Writes (`FileSystem::write`). Takes the gate.
    pub(crate) fn write_file(&self, ino: Ino, offset: u64, data: &[u8]) -> FsResult<usize> {
        let _ = (ino, offset, data);
        todo!("data")
    }

    /// Sets the size (`setattr`): the gate is held by the caller, no `Op`.
    pub(crate) fn set_size(&self, inode: &Inode, size: u64) -> FsResult<()> {
        let _ = (inode, size);
        todo!("data")
    }

    /// `FileSystem::fallocate`. Takes the gate.
    pub(crate) fn fallocate_file(
        &self,
        ino: Ino,
        mode: FallocateMode,
        offset: u64,
        len: u64,
    ) -> FsResult<()> {
        let _ = (ino, mode, offset, len);
        todo!("data")
    }

    /// Frees all content of an inode that is being freed (no gate, nobody else has it), inside the `Op` of its eviction.
    pub(crate) fn drop_content(&self, op: &Op<'_>, inode: &Inode) -> FsResult<()> {
        let _ = (op, inode);
        todo!("data")
    }

    /// Submits the dirty pages of `range`, taking an `Op` for each batch. Waits for none.
    pub(crate) fn write_pages(&self, inode: &Inode, range: Range<u64>) -> FsResult<()> {
        let _ = (inode, range);
        todo!("data")
    }

    /// The same inside the caller's `Op` (checkpoint: directories; cleaning).
    pub(crate) fn write_pages_in(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        range: Range<u64>,
        place: Place,
    ) -> FsResult<()> {
        let _ = (op, inode, range, place);
        todo!("data")
    }

    /// Waits for the data of an inode that is on its way, and settles its pages. A failure is kept for the next fsync as well.
    pub(crate) fn land(&self, inode: &Inode) -> FsResult<()> {
        let _ = inode;
        todo!("data")
    }

    /// The content of page `index` of a directory, from the cache or the device; zeros for a hole.
    pub(crate) fn dir_page(&self, dir: &Inode, index: u64) -> FsResult<Bytes> {
        let _ = (dir, index);
        todo!("data")
    }

    /// Changes a page of a directory and makes it dirty; reserves its block if it has none (counts it; ENOSPC).
    pub(crate) fn edit_dir_page<R>(
        &self,
        op: &Op<'_>,
        dir: &Inode,
        index: u64,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> FsResult<R> {
        let _ = (op, dir, index, change);
        todo!("data")
    }

    /// Frees a page of a directory that holds no entry any more.
    pub(crate) fn drop_dir_page(&self, op: &Op<'_>, dir: &Inode, index: u64) -> FsResult<()> {
        let _ = (op, dir, index);
        todo!("data")
    }

    /// Moves inline data to a block of its own. The gate is held.
    pub(crate) fn leave_inline(&self, op: &Op<'_>, inode: &Inode) -> FsResult<()> {
        let _ = (op, inode);
        todo!("data")
    }
}
