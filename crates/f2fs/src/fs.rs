//! Implements the interface that `vfs` expects of a file system.

use crate::F2fs;
use crate::inode::{Inode, Use};
use crate::ops::Cause;
use base::cost::f2fs as cost;
use base::{Ino, Time};
use fscore::{
    Attr, Creds, DirEntry, Errno, FallocateMode, FileFlags, FileKind, FileSystem, FsResult, FsStat,
    RenameMode, SeekMode, SetAttr, WriteErrorCounts, XattrMode,
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
        match inode.kind()? {
            FileKind::File => {}
            FileKind::Dir => return Err(Errno::IsDir.into()),
            _ => return Err(Errno::Inval.into()),
        }
        inode.check_use(what)?;
        Ok(inode)
    }

    /// Writes back the data of all files, and waits for it.
    fn write_all_files(&self) -> FsResult<()> {
        self.write_files(None)?;
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
    fn root(&self) -> Ino {
        Ino(self.geo.root.0)
    }
    fn lookup(&self, dir: Ino, name: &[u8]) -> FsResult<Ino> {
        self.guarded(|| self.op_lookup(dir, name))
    }
    fn getattr(&self, ino: Ino) -> FsResult<Attr> {
        self.guarded(|| {
            rt::charge(cost::GETATTR);
            self.attr_of(&*self.inode(ino)?)
        })
    }
    fn setattr(&self, ino: Ino, set: &SetAttr) -> FsResult<Attr> {
        self.guarded(|| {
            self.check_writable()?;
            let inode = self.inode(ino)?;
            if set.size.is_some() {
                inode.check_use(Use::Change)?;
            }
            self.change_attr(&inode, set)
        })
    }
    fn create(
        &self,
        dir: Ino,
        name: &[u8],
        kind: FileKind,
        perm: u16,
        rdev: u32,
        creds: Creds,
    ) -> FsResult<Attr> {
        self.guarded(|| {
            let made = self.op_create(dir, name, kind, perm, rdev, creds)?;
            self.settle_names(dir).map(|()| made)
        })
    }
    fn mkdir(&self, dir: Ino, name: &[u8], perm: u16, creds: Creds) -> FsResult<Attr> {
        self.guarded(|| {
            let made = self.op_mkdir(dir, name, perm, creds)?;
            self.settle_names(dir).map(|()| made)
        })
    }
    fn symlink(&self, dir: Ino, name: &[u8], target: &[u8], creds: Creds) -> FsResult<Attr> {
        self.guarded(|| {
            let made = self.op_symlink(dir, name, target, creds)?;
            self.settle_names(dir).map(|()| made)
        })
    }
    fn readlink(&self, ino: Ino) -> FsResult<Vec<u8>> {
        self.guarded(|| self.op_readlink(ino))
    }
    fn link(&self, ino: Ino, dir: Ino, name: &[u8]) -> FsResult<Attr> {
        self.guarded(|| {
            let linked = self.op_link(ino, dir, name)?;
            self.settle_names(dir).map(|()| linked)
        })
    }
    fn unlink(&self, dir: Ino, name: &[u8]) -> FsResult<()> {
        self.guarded(|| {
            self.op_unlink(dir, name)?;
            self.settle_names(dir)
        })
    }
    fn rmdir(&self, dir: Ino, name: &[u8]) -> FsResult<()> {
        self.guarded(|| {
            self.op_rmdir(dir, name)?;
            self.settle_names(dir)
        })
    }
    fn rename(
        &self,
        from_dir: Ino,
        from: &[u8],
        to_dir: Ino,
        to: &[u8],
        mode: RenameMode,
    ) -> FsResult<()> {
        self.guarded(|| {
            self.op_rename(from_dir, from, to_dir, to, mode)?;
            self.settle_names(from_dir)?;
            self.settle_names(to_dir)
        })
    }
    fn readdir(&self, dir: Ino, from: u64, max: usize) -> FsResult<Vec<DirEntry>> {
        self.guarded(|| self.op_readdir(dir, from, max))
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
    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> FsResult<()> {
        self.guarded(|| self.op_setxattr(ino, name, value, mode))
    }
    fn getxattr(&self, ino: Ino, name: &[u8]) -> FsResult<Vec<u8>> {
        self.guarded(|| self.op_getxattr(ino, name))
    }
    fn listxattr(&self, ino: Ino) -> FsResult<Vec<Vec<u8>>> {
        self.guarded(|| self.op_listxattr(ino))
    }
    fn obeys_acls(&self) -> bool {
        true
    }
    fn removexattr(&self, ino: Ino, name: &[u8]) -> FsResult<()> {
        self.guarded(|| self.op_removexattr(ino, name))
    }
    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64) -> FsResult<()> {
        self.guarded(|| {
            self.check_writable()?;
            self.file(ino, Use::Change)?;
            match mode {
                FallocateMode::CollapseRange => self.collapse_range(ino, offset, len),
                FallocateMode::InsertRange => self.insert_range(ino, offset, len),
                _ => self.fallocate_file(ino, mode, offset, len),
            }
        })
    }
    fn seek(&self, ino: Ino, offset: u64, mode: SeekMode) -> FsResult<u64> {
        self.guarded(|| self.seek_file(&*self.file(ino, Use::Read)?, offset, mode))
    }
    fn set_file_flags(&self, ino: Ino, flags: FileFlags) -> FsResult<()> {
        self.guarded(|| self.change_flags(&*self.inode(ino)?, flags))
    }
    fn project(&self, ino: Ino) -> FsResult<u32> {
        self.guarded(|| Ok(self.project_of(&*self.inode(ino)?)))
    }
    fn set_project(&self, ino: Ino, project: u32) -> FsResult<()> {
        self.guarded(|| self.change_project(&*self.inode(ino)?, project))
    }
    fn open(&self, ino: Ino) -> FsResult<()> {
        self.guarded(|| self.pin(&*self.inode(ino)?))
    }
    fn release(&self, ino: Ino) -> FsResult<()> {
        self.guarded(|| {
            let inode = self.inodes.get(ino).ok_or(Errno::BadF)?;
            self.unpin(&inode)
        })
    }
    fn fsync(&self, ino: Ino, data_only: bool) -> FsResult<()> {
        self.guarded(|| {
            if self.options.read_only {
                return Ok(());
            }
            self.check_writable()?;
            self.sync_inode(&*self.inode(ino)?, data_only)
        })
    }
    fn write_errors(&self, ino: Ino) -> WriteErrorCounts {
        let inode = self.inodes.get(ino);
        inode.map_or_else(WriteErrorCounts::default, |inode| {
            inode.core().write_errors.counts()
        })
    }
    fn sync(&self) -> FsResult<()> {
        self.guarded(|| {
            if self.options.read_only {
                return Ok(());
            }
            self.check_writable()?;
            self.store_accesses()?;
            self.write_all_files()?;
            match self.journal {
                Some(_) => self.sync_all_by_journal(),
                None => self.checkpoint(Cause::Sync),
            }
        })
    }
    fn writeback(&self, older_than: Time) -> FsResult<()> {
        self.guarded(|| match self.check_writable() {
            Ok(()) => {
                self.store_old_accesses()?;
                self.write_files(Some(older_than))
            }
            Err(_) => Ok(()),
        })
    }
    fn dirty_pages(&self) -> u64 {
        self.dirty_file_pages()
    }
    fn drop_caches(&self) {
        self.pages.drop_clean();
    }
    fn trim(&self, range: Range<u64>, min_bytes: u64) -> FsResult<u64> {
        let len = range.end.saturating_sub(range.start);
        self.guarded(|| F2fs::trim(self, range.start, len, min_bytes))
    }
    fn statfs(&self) -> FsResult<FsStat> {
        self.guarded(|| Ok(self.stat_fs()))
    }
    fn go_down(&self) -> FsResult<()> {
        self.guarded(|| self.cut_off())
    }
    fn unmount(&self) -> FsResult<()> {
        self.check_alive()?;
        let settled = self.settle_files();
        self.unmount_volume()?;
        settled
    }
}
