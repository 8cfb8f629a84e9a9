//! Implements the interface that `vfs` expects of a file system.

use crate::F2fs;
use crate::file::Why;
use crate::inode::{Inode, Use};
use crate::ops::Cause;
use base::{Bytes, Ino, Time};
use fscore::{
    Attr, Errno, FallocateMode, FileSystem, FsResult, FsStat, Onlookers, SeekMode, SetAttr, Taking,
};
use ondisk::f2fs::BLOCK_BYTES;
use std::ops::Range;
use std::sync::Arc;

/// Node numbers that no file can have: 0, and the two inodes that stand for the areas of nodes and
/// metadata.
const RESERVED_NODES: u64 = 3;

impl F2fs {
    /// A regular file whose content may be used so.
    fn file(&self, ino: Ino, what: Use) -> FsResult<Arc<Inode>> {
        let inode = self.inode(ino)?;
        inode.kind()?.check_file()?;
        inode.check_use(what)?;
        Ok(inode)
    }

    /// Writes back the data of all files, and waits for it.
    fn write_all_files(&self) -> FsResult<()> {
        self.write_files(None, Why::Flush)?;
        self.land_files()
    }

    fn stat_fs(&self) -> FsStat {
        let usage = self.space.usage();
        let free = self.space.blocks_free();
        let nodes = u64::from(self.geo.max_nid).saturating_sub(RESERVED_NODES);
        // Each needs a block as well, so there may be fewer (Linux says the lesser of the two).
        let nodes_free = nodes.saturating_sub(usage.nodes.into());
        FsStat {
            block_bytes: BLOCK_BYTES as u32,
            blocks: self
                .geo
                .block_count
                .saturating_sub(self.geo.segment0.0.into()),
            blocks_free: free,
            blocks_available: self.space.blocks_available(),
            inodes: nodes,
            inodes_free: nodes_free,
            name_bytes_max: ondisk::f2fs::NAME_BYTES_MAX as u32,
        }
    }

    fn sync_all(&self) -> FsResult<()> {
        self.store_accesses()?;
        self.write_all_files()?;
        match self.journal {
            Some(_) => self.sync_all_by_journal(),
            None => {
                self.checkpoint(Cause::Sync)?;
                // Data that was written in place needs no checkpoint, but its way out of the
                // device's cache.
                let flushed = self.queue.ensure_flushed(self.queue.mark());
                flushed.map_err(|e| self.flush_failed("sync", e))
            }
        }
    }

    /// Writes all data of files, so that the last checkpoint can be the last.
    fn settle_files(&self) -> FsResult<()> {
        if self.check_writable().is_err() {
            return Ok(());
        }
        self.store_accesses()?;
        self.write_all_files()
    }
}

impl FileSystem for F2fs {
    fscore::operations!();

    fn root(&self) -> Ino {
        Ino(self.geo.root.0)
    }
    fn ignores_case(&self, dir: Ino) -> Option<bool> {
        self.folding.as_ref()?;
        // What cannot be asked may be so.
        Some(self.inode(dir).map_or(true, |dir| dir.ignores_case()))
    }
    fn take_name(
        &self,
        what: Taking<'_>,
        onlookers: Onlookers<'_>,
    ) -> Option<FsResult<Option<Ino>>> {
        // Onlookers know a name as they spelt it. Where a directory may ignore case, callers pin
        // instead what loses a name.
        if self.folding.is_some() {
            return None;
        }
        Some(self.guarded(|| match what {
            Taking::Unlink(dir, name) => {
                let ino = self.unlink_beside(dir, name, onlookers)?;
                self.settle_names(dir).map(|()| Some(ino))
            }
            Taking::Rmdir(dir, name) => {
                let ino = self.rmdir_beside(dir, name, onlookers)?;
                self.settle_names(dir).map(|()| Some(ino))
            }
            Taking::Rename(from, to, mode) => {
                self.rename_beside(from, to, mode, onlookers)?;
                self.settle_names(from.0)?;
                self.settle_names(to.0).map(|()| None)
            }
        }))
    }
    fn getattr(&self, ino: Ino) -> FsResult<Attr> {
        self.guarded(|| self.attr_of(&*self.inode(ino)?))
    }
    fn setattr(&self, ino: Ino, set: &SetAttr) -> FsResult<Attr> {
        self.guarded(|| {
            self.check_writable()?;
            let inode = self.inode(ino)?;
            if set.size.is_some() {
                inode.check_use(Use::Change)?;
            }
            let changed = self.change_attr(&inode, set)?;
            if set.size.is_some() {
                self.settle_content(ino)?;
            }
            Ok(changed)
        })
    }
    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> FsResult<usize> {
        self.guarded(|| {
            self.file(ino, Use::Read)?;
            self.read_file(ino, offset, buf)
        })
    }
    fn write(&self, ino: Ino, offset: u64, data: &[u8]) -> FsResult<usize> {
        self.guarded(|| {
            self.check_writable()?;
            self.file(ino, Use::Change)?;
            let done = self.write_file(ino, offset, data)?;
            self.settle_content(ino).map(|()| done)
        })
    }
    fn has_atomic_writes(&self) -> bool {
        !self.options.read_only
    }
    fn sync_keeps_order(&self) -> bool {
        self.journal.is_some()
    }
    fn write_atomic(&self, ino: Ino, parts: &[(u64, Bytes)]) -> FsResult<()> {
        self.atomic_begin(ino)?;
        let mut written = parts
            .iter()
            .map(|(offset, data)| self.write(ino, *offset, data));
        let written = written.find_map(Result::err).map_or(Ok(()), Err);
        let committed = written.and_then(|()| self.atomic_commit(ino));
        if committed.is_err() {
            self.atomic_abort(ino)?;
        }
        committed
    }
    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64) -> FsResult<()> {
        self.guarded(|| {
            self.check_writable()?;
            self.file(ino, Use::Change)?;
            match mode {
                FallocateMode::CollapseRange => self.collapse_range(ino, offset, len),
                FallocateMode::InsertRange => self.insert_range(ino, offset, len),
                _ => self.fallocate_file(ino, mode, offset, len),
            }?;
            self.settle_content(ino)
        })
    }
    fn seek(&self, ino: Ino, offset: u64, mode: SeekMode) -> FsResult<u64> {
        self.guarded(|| self.seek_file(&*self.file(ino, Use::Read)?, offset, mode))
    }
    fn release(&self, ino: Ino) -> FsResult<()> {
        self.guarded(|| {
            let inode = self.inodes.get(ino).ok_or(Errno::BadF)?;
            self.unpin(&inode)
        })
    }
    fn writeback(&self, older_than: Time) -> FsResult<()> {
        self.guarded(|| match self.check_writable() {
            Ok(()) => {
                self.store_old_accesses()?;
                self.write_files(Some(older_than), Why::Background)
            }
            Err(_) => Ok(()),
        })
    }
    fn dirty_pages(&self) -> u64 {
        self.dirty_file_pages()
    }
    fn trim(&self, range: Range<u64>, min_bytes: u64) -> FsResult<u64> {
        let len = range.end.saturating_sub(range.start);
        self.guarded(|| F2fs::trim(self, range.start, len, min_bytes))
    }
    fn unmount(&self) -> FsResult<()> {
        if self.latch.check_open().is_err() {
            // Nothing may be written any more; the tasks end.
            self.stop_tasks();
            return self.latch.close();
        }
        self.watched(|| {
            let settled = self.settle_files();
            self.unmount_volume()?;
            settled
        })
    }
}
