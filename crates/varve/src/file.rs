//! An open file, as `std::fs::File` has it.

use crate::volume::Mount;
use crate::{Error, Metadata, Result};
use base::Bytes;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;
use vfs::{FsError, FsResult, OpenFlags};

/// An open file of a [`Volume`](crate::Volume).
///
/// A dropped file is ended by the next call that opens one, or by the unmount, which answers its
/// error; [`close`](File::close) ends it at once. Neither makes anything durable:
/// [`sync_all`](File::sync_all) does.
pub struct File {
    mount: Arc<Mount>,
    file: Arc<vfs::File>,
    path: PathBuf,
    at: u64,
}

impl File {
    pub(crate) fn new(mount: Arc<Mount>, file: Arc<vfs::File>, path: PathBuf) -> File {
        File {
            mount,
            file,
            path,
            at: 0,
        }
    }

    fn told<T>(&self, doing: &'static str, result: FsResult<T>) -> Result<T> {
        result.map_err(Error::file(doing, &self.path))
    }

    /// Reads at `offset`; fewer bytes than `buf` has are the end of the file.
    ///
    /// # Errors
    /// The file is not open for reading, or the device fails.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.told("reading", self.file.read_at(offset, buf))
    }

    /// Writes at `offset`; answers how many bytes, which may be fewer.
    ///
    /// # Errors
    /// The file is not open for writing, there is no space, or the device fails.
    pub fn write_at(&self, data: &[u8], offset: u64) -> Result<usize> {
        self.told("writing", self.file.write_at(offset, data))
    }

    /// Writes all of `data` at `offset`.
    ///
    /// # Errors
    /// As [`write_at`](File::write_at).
    pub fn write_all_at(&self, mut data: &[u8], mut offset: u64) -> Result<()> {
        while !data.is_empty() {
            let n = self.write_at(data, offset)?;
            if n == 0 {
                return Err(io::Error::from(io::ErrorKind::WriteZero).into());
            }
            data = &data[n..];
            offset += n as u64;
        }
        Ok(())
    }

    /// Writes all parts, each with its offset: after a cut of power either all of them are there or
    /// none is, and no reader sees one alone. Durable behind a sync; where parts overlap, the later
    /// one counts. [`Volume::has_atomic_writes`](crate::Volume::has_atomic_writes) tells whether a
    /// mount can do it.
    ///
    /// # Errors
    /// The file is not open for writing, the mount has no atomic writes (`EOPNOTSUPP`), the parts
    /// are more than one transaction holds (`EFBIG`), or there is no space: nothing has changed
    /// then. Or the device fails.
    pub fn write_atomic(&self, parts: &[(u64, &[u8])]) -> Result<()> {
        let parts = parts.iter();
        let parts: Vec<_> = parts
            .map(|(at, data)| (*at, Bytes::copy_from_slice(data)))
            .collect();
        self.told("writing", self.file.write_atomic(&parts))
    }

    /// Makes content and metadata durable (`fsync`).
    ///
    /// # Errors
    /// This or an earlier write of the file failed, which is told once.
    pub fn sync_all(&self) -> Result<()> {
        self.told("syncing", self.file.fsync())
    }

    /// Makes the content durable, and of the metadata what is needed to read it (`fdatasync`).
    ///
    /// # Errors
    /// As [`sync_all`](File::sync_all).
    pub fn sync_data(&self) -> Result<()> {
        self.told("syncing", self.file.fdatasync())
    }

    /// Cuts the file, or extends it with zeros.
    ///
    /// # Errors
    /// The file is not open for writing, or the size is not possible.
    pub fn set_len(&self, bytes: u64) -> Result<()> {
        self.told("truncating", self.file.truncate(bytes))
    }

    /// What `fstat` tells.
    ///
    /// # Errors
    /// The device fails.
    pub fn metadata(&self) -> Result<Metadata> {
        self.told("looking at", self.file.stat()).map(Metadata)
    }

    /// Ends the open file.
    ///
    /// # Errors
    /// A write failed of which nobody was told. The file has ended in any case.
    pub fn close(self) -> Result<()> {
        let closed = self.mount.files.close(self.file);
        closed.map_err(Error::file("closing", &self.path))
    }
}

fn io_error(doing: &'static str, path: &std::path::Path) -> impl FnOnce(FsError) -> io::Error {
    move |e| Error::file(doing, path)(e).into()
}

impl Read for File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(self.at, buf);
        let n = read.map_err(io_error("reading", &self.path))?;
        self.at += n as u64;
        Ok(n)
    }
}

impl Write for File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let failed = io_error("writing", &self.path);
        let (at, n) = match self.file.flags().has(OpenFlags::APPEND) {
            true => self.file.append(data).map_err(failed)?,
            false => (self.at, self.file.write_at(self.at, data).map_err(failed)?),
        };
        self.at = at + n as u64;
        Ok(n)
    }

    /// Does nothing: a write is in the file system when it returns, and durable after a sync.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (base, by) = match to {
            SeekFrom::Start(at) => (at, 0),
            SeekFrom::Current(by) => (self.at, by),
            SeekFrom::End(by) => (self.metadata()?.len(), by),
        };
        let at = base.checked_add_signed(by);
        self.at = at.ok_or_else(|| {
            let what = format!("seeking {}: before byte 0", self.path.display());
            io::Error::new(io::ErrorKind::InvalidInput, what)
        })?;
        Ok(self.at)
    }
}
