//! An open file: reading and writing at offsets, sync, and the failures of write-back that its user
//! has not been told of yet.

use crate::flags::OpenFlags;
use crate::mount::{Vfs, check_truncate};
use base::cost::host;
use base::{Bytes, Ino};
use fscore::{
    Attr, DirEntry, Errno, ErrorSeen, FallocateMode, FileKind, FsResult, SeekMode, SetAttr,
};
use rt::RwLock;
use std::sync::Arc;

/// Largest file offset (`loff_t`).
const OFFSET_MAX: u64 = i64::MAX as u64;

/// What all open files of one inode share.
pub(crate) struct Node {
    pub(crate) ino: Ino,
    /// Shared by writes at a given place and truncation, exclusive for appending writes (vfs-V4).
    pub(crate) size: RwLock<()>,
}

impl Node {
    pub(crate) fn new(ino: Ino) -> Node {
        Node {
            ino,
            size: RwLock::named("vfs append", ()),
        }
    }
}

/// An open file or directory, without a seek position.
///
/// [`close`](File::close) ends it. A dropped one does no I/O: its inode stays pinned, and
/// [`Vfs::leaked_files`] counts it.
pub struct File {
    vfs: Arc<Vfs>,
    /// `None` only while the file is being closed.
    node: Option<Arc<Node>>,
    flags: OpenFlags,
    /// The failures of write-back that its user has been told of.
    told: ErrorSeen,
}

impl File {
    pub(crate) fn new(vfs: Arc<Vfs>, node: Arc<Node>, flags: OpenFlags, told: ErrorSeen) -> File {
        File {
            vfs,
            node: Some(node),
            flags,
            told,
        }
    }
    fn node(&self) -> &Arc<Node> {
        self.node
            .as_ref()
            .expect("the node is taken only by close, which consumes the file")
    }
    /// The inode number; not reused while the file is open.
    pub fn ino(&self) -> Ino {
        self.node().ino
    }
    /// The flags that it was opened with.
    pub fn flags(&self) -> OpenFlags {
        self.flags
    }
    /// The mount that it belongs to.
    pub fn vfs(&self) -> &Arc<Vfs> {
        &self.vfs
    }

    fn need(&self, flag: OpenFlags) -> FsResult<()> {
        if self.flags.has(flag) {
            Ok(())
        } else {
            Err(Errno::BadF.into())
        }
    }

    /// Reads up to `buf.len()` bytes at `offset`; fewer only at the end of the file.
    ///
    /// # Errors
    /// EBADF without `READ`, EISDIR, EINVAL for an offset above 2^63-1; errors of the file system.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> FsResult<usize> {
        rt::charge(host::READ);
        self.need(OpenFlags::READ)?;
        check_range(offset, buf.len())?;
        self.vfs.fs.read(self.ino(), offset, buf)
    }

    /// Writes `data` at `offset`, or at the end of a file opened with `APPEND`. A short count says
    /// how much fitted before an error (no space, largest file size). The call waits while the
    /// cache holds too many dirty pages.
    ///
    /// # Errors
    /// EBADF without `WRITE`, EINVAL for a range that ends above 2^63-1, EFBIG, ENOSPC; errors of
    /// the file system.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> FsResult<usize> {
        if self.flags.has(OpenFlags::APPEND) {
            return self.append(data).map(|(_, n)| n);
        }
        rt::charge(host::WRITE);
        self.need(OpenFlags::WRITE)?;
        check_range(offset, data.len())?;
        if data.is_empty() {
            return Ok(0);
        }
        let n = {
            let _shared = self.node().size.read();
            self.vfs.fs.write(self.ino(), offset, data)?
        };
        self.after_write(n)?;
        Ok(n)
    }

    /// Writes `data` at the end of the file; answers the offset and the count.
    ///
    /// # Errors
    /// As [`write_at`](File::write_at).
    pub fn append(&self, data: &[u8]) -> FsResult<(u64, usize)> {
        rt::charge(host::WRITE);
        self.need(OpenFlags::WRITE)?;
        let (offset, n) = {
            let _exclusive = self.node().size.write();
            let offset = self.vfs.fs.getattr(self.ino())?.size;
            if data.is_empty() {
                return Ok((offset, 0));
            }
            check_range(offset, data.len())?;
            (offset, self.vfs.fs.write(self.ino(), offset, data)?)
        };
        self.after_write(n)?;
        Ok((offset, n))
    }

    /// To be called after `bytes` were written: syncs if the flags say so, otherwise throttles.
    fn after_write(&self, bytes: usize) -> FsResult<()> {
        if self.flags.has(OpenFlags::SYNC) {
            return self.synced(false);
        }
        if self.flags.has(OpenFlags::DSYNC) {
            return self.synced(true);
        }
        self.vfs.writeback.throttle(bytes)
    }

    /// Cuts the file to `size` bytes, or extends it with zeros.
    ///
    /// # Errors
    /// EBADF without `WRITE`, EISDIR, EFBIG; errors of the file system.
    pub fn truncate(&self, size: u64) -> FsResult<()> {
        rt::charge(host::SETATTR);
        self.need(OpenFlags::WRITE)?;
        if size > OFFSET_MAX {
            return Err(Errno::Inval.into());
        }
        let set = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        let _shared = self.node().size.read();
        check_truncate(self.attr()?.kind)?;
        self.vfs.fs.setattr(self.ino(), &set).map(drop)
    }

    /// Allocates the blocks of `offset..offset + len`, or gives them back, as `mode` says.
    ///
    /// # Errors
    /// Those of `fallocate(2)`: EBADF without `WRITE`, EINVAL for a length of 0, EFBIG for a range
    /// that ends above 2^63-1 or beyond the largest file, EISDIR, EOPNOTSUPP, ENOSPC; errors of the
    /// file system.
    pub fn fallocate(&self, mode: FallocateMode, offset: u64, len: u64) -> FsResult<()> {
        rt::charge(host::CALL);
        self.need(OpenFlags::WRITE)?;
        if len == 0 || offset > OFFSET_MAX || len > OFFSET_MAX {
            return Err(Errno::Inval.into());
        }
        if offset + len > OFFSET_MAX {
            return Err(Errno::FBig.into());
        }
        {
            let _shared = self.node().size.read();
            self.vfs.fs.fallocate(self.ino(), mode, offset, len)?;
        }
        if self.flags.has(OpenFlags::SYNC) || self.flags.has(OpenFlags::DSYNC) {
            return self.synced(false);
        }
        Ok(())
    }

    /// Writes all parts, each with its offset, so that after a cut of power either all of them are
    /// there or none is. It is durable after [`fdatasync`](Self::fdatasync), if not before.
    ///
    /// # Errors
    /// EBADF without `WRITE`; EINVAL, EOPNOTSUPP, EFBIG and ENOSPC, with nothing changed; errors of
    /// the file system.
    pub fn write_atomic(&self, parts: &[(u64, Bytes)]) -> FsResult<()> {
        rt::charge(host::CALL);
        self.need(OpenFlags::WRITE)?;
        for (offset, data) in parts {
            check_range(*offset, data.len())?;
        }
        let _shared = self.node().size.read();
        self.vfs.fs.write_atomic(self.ino(), parts)
    }

    /// The offset at or behind `offset` at which data, or a hole, begins (`lseek` with `SEEK_DATA`,
    /// `SEEK_HOLE`).
    ///
    /// # Errors
    /// ENXIO at or behind the end of the file, and if there is no data behind `offset`; errors of
    /// the file system.
    pub fn seek(&self, offset: u64, mode: SeekMode) -> FsResult<u64> {
        rt::charge(host::CALL);
        self.vfs.fs.seek(self.ino(), offset, mode)
    }

    /// Makes data and metadata of the file durable.
    ///
    /// # Errors
    /// EIO if this or an earlier write-back of the file failed, once for each open file; errors of
    /// the file system.
    pub fn fsync(&self) -> FsResult<()> {
        rt::charge(host::FSYNC);
        self.synced(false)
    }
    /// Makes the data durable, and of the metadata what is needed to read it.
    ///
    /// # Errors
    /// As [`fsync`](File::fsync).
    pub fn fdatasync(&self) -> FsResult<()> {
        rt::charge(host::FSYNC);
        self.synced(true)
    }
    fn synced(&self, data_only: bool) -> FsResult<()> {
        let sync = || {
            let result = self.vfs.fs.fsync(self.ino(), data_only);
            self.told
                .after(result, self.vfs.fs.write_errors(self.ino()))
        };
        self.vfs.syncs.timed(data_only, sync)
    }
    /// Attributes of the inode.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn stat(&self) -> FsResult<Attr> {
        rt::charge(host::STAT);
        self.attr()
    }
    fn attr(&self) -> FsResult<Attr> {
        self.vfs.fs.getattr(self.ino())
    }
    /// Changes attributes as [`Vfs::set_attr`] does.
    ///
    /// # Errors
    /// As [`Vfs::set_attr`].
    pub fn set_attr(&self, set: &SetAttr) -> FsResult<Attr> {
        rt::charge(host::SETATTR);
        let _shared = self.node().size.read();
        self.vfs.set_attr_of(&self.attr()?, set)
    }
    /// At most `max` entries of a directory from cookie `from` on, which is 0 for the start and
    /// then [`DirEntry::next`] of the last entry; none at the end.
    ///
    /// # Errors
    /// ENOTDIR; errors of the file system.
    pub fn read_dir(&self, from: u64, max: usize) -> FsResult<Vec<DirEntry>> {
        rt::charge(host::CALL);
        if self.attr()?.kind != FileKind::Dir {
            return Err(Errno::NotDir.into());
        }
        self.vfs.fs.readdir(self.ino(), from, max)
    }

    /// Ends the open file. The last one of an inode without names frees the inode. Nothing is made
    /// durable by it.
    ///
    /// # Errors
    /// EIO if a write-back failed of which this open file, which may write, was not told; errors of
    /// the file system. The open file has ended in any case.
    pub fn close(mut self) -> FsResult<()> {
        rt::charge(host::CLOSE);
        let node = self
            .node
            .take()
            .expect("the node is taken only by close, which consumes the file");
        let told = match self.flags.has(OpenFlags::WRITE) {
            true => self.told.after(Ok(()), self.vfs.fs.write_errors(node.ino)),
            false => Ok(()),
        };
        self.vfs.unpin(node).and(told)
    }
}

impl Drop for File {
    /// Counts a file that nobody closed; a drop may do no I/O and take no lock (rule 11).
    fn drop(&mut self) {
        if self.node.is_some() {
            self.vfs.note_leak();
        }
    }
}

fn check_range(offset: u64, len: usize) -> FsResult<()> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= OFFSET_MAX => Ok(()),
        _ => Err(Errno::Inval.into()),
    }
}
