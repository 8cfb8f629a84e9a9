//! A directory whose only file is a device, for a front door like FUSE: a loop device on this file
//! makes a disk for the kernel that runs.
//!
//! A sync of the file is a flush of the device. Nothing else in the directory can be changed.

use crate::{Command, Served};
use base::{BLOCK_BYTES, Bytes, Ino, Lba, SECTOR_BYTES, SECTORS_PER_BLOCK, Time};
use blockdev::DevError;
use std::ops::Deref;
use std::sync::Arc;
use vfs::{
    Attr, Creds, DirEntry, Errno, FallocateMode, FileFlags, FileKind, FileSystem, FsError,
    FsResult, FsStat, RenameMode, SetAttr, Vfs,
};

/// Name of the file.
pub const NAME: &str = "device";
/// Its inode.
pub const DEVICE: Ino = Ino(2);

const ROOT: Ino = Ino(1);
const SECTOR: u64 = SECTOR_BYTES as u64;

/// What the file holds. Places are inside of it.
pub trait Content: Send + Sync {
    /// How much that is.
    fn bytes(&self) -> u64;
    /// Fills `buf`.
    ///
    /// # Errors
    /// What the device says.
    fn read(&self, offset: u64, buf: &mut [u8]) -> FsResult<()>;
    /// Writes `data`, which may begin and end within sectors.
    ///
    /// # Errors
    /// What the device says.
    fn write(&self, offset: u64, data: &[u8]) -> FsResult<()>;
    /// Discards sectors, which then read as zeros.
    ///
    /// # Errors
    /// What the device says.
    fn clear(&self, lba: Lba, sectors: u64) -> FsResult<()>;
    /// Makes durable what was written.
    ///
    /// # Errors
    /// What the device says.
    fn flush(&self) -> FsResult<()>;
}

/// The directory. With `true` the file cannot be changed.
pub struct OneFile<C>(Arc<C>, bool);

impl<C: Content + 'static> OneFile<C> {
    /// A directory with `content` as its file.
    pub fn new(content: Arc<C>) -> OneFile<C> {
        OneFile(content, false)
    }

    /// The same, and the file can only be read.
    #[must_use]
    pub fn read_only(self) -> OneFile<C> {
        OneFile(self.0, true)
    }

    /// Refuses a change of a file that can only be read.
    fn may_change(&self) -> FsResult<()> {
        match self.1 {
            true => Err(Errno::RoFs.into()),
            false => Ok(()),
        }
    }

    /// The directory with paths and open files, for a front door.
    pub fn mounted(self) -> Arc<Vfs> {
        Vfs::new(Arc::new(self))
    }
    fn attr(&self, ino: Ino) -> FsResult<Attr> {
        let (kind, perm, nlink, size) = match ino {
            ROOT => (FileKind::Dir, 0o755, 2, 0),
            DEVICE => {
                let perm = if self.1 { 0o444 } else { 0o666 };
                (FileKind::File, perm, 1, self.bytes())
            }
            _ => return Err(Errno::Stale.into()),
        };
        let then = rt::WallTime { secs: 0, nanos: 0 };
        Ok(Attr {
            ino,
            kind,
            perm,
            nlink,
            uid: 0,
            gid: 0,
            rdev: 0,
            size,
            sectors: size / SECTOR,
            atime: then,
            mtime: then,
            ctime: then,
            crtime: then,
            generation: 0,
            flags: FileFlags::default(),
        })
    }

    fn file(&self, ino: Ino) -> FsResult<()> {
        match ino {
            DEVICE => Ok(()),
            ROOT => Err(Errno::IsDir.into()),
            _ => Err(Errno::Stale.into()),
        }
    }
}

impl<C> Deref for OneFile<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.0
    }
}

impl<C: Content + 'static> FileSystem for OneFile<C> {
    fn root(&self) -> Ino {
        ROOT
    }
    fn lookup(&self, dir: Ino, name: &[u8]) -> FsResult<Ino> {
        match (dir, name) {
            (ROOT, b"." | b"..") => Ok(ROOT),
            (ROOT, _) if name == NAME.as_bytes() => Ok(DEVICE),
            (ROOT, _) => Err(Errno::NoEnt.into()),
            _ => Err(Errno::NotDir.into()),
        }
    }
    fn getattr(&self, ino: Ino) -> FsResult<Attr> {
        self.attr(ino)
    }
    fn setattr(&self, ino: Ino, set: &SetAttr) -> FsResult<Attr> {
        match set.size {
            Some(size) if size != self.bytes() => Err(Errno::Perm.into()),
            _ => self.attr(ino),
        }
    }
    fn create(&self, _: Ino, _: &[u8], _: FileKind, _: u16, _: u32, _: Creds) -> FsResult<Attr> {
        Err(Errno::Perm.into())
    }
    fn mkdir(&self, _: Ino, _: &[u8], _: u16, _: Creds) -> FsResult<Attr> {
        Err(Errno::Perm.into())
    }
    fn symlink(&self, _: Ino, _: &[u8], _: &[u8], _: Creds) -> FsResult<Attr> {
        Err(Errno::Perm.into())
    }
    fn readlink(&self, _: Ino) -> FsResult<Vec<u8>> {
        Err(Errno::Inval.into())
    }
    fn link(&self, _: Ino, _: Ino, _: &[u8]) -> FsResult<Attr> {
        Err(Errno::Perm.into())
    }
    fn unlink(&self, _: Ino, _: &[u8]) -> FsResult<()> {
        Err(Errno::Perm.into())
    }
    fn rmdir(&self, _: Ino, _: &[u8]) -> FsResult<()> {
        Err(Errno::Perm.into())
    }
    fn rename(&self, _: Ino, _: &[u8], _: Ino, _: &[u8], _: RenameMode) -> FsResult<()> {
        Err(Errno::Perm.into())
    }
    fn readdir(&self, dir: Ino, from: u64, max: usize) -> FsResult<Vec<DirEntry>> {
        if dir != ROOT {
            return Err(Errno::NotDir.into());
        }
        let all = [
            (ROOT, FileKind::Dir, "."),
            (ROOT, FileKind::Dir, ".."),
            (DEVICE, FileKind::File, NAME),
        ];
        let entries = (1..).zip(all).map(|(next, (ino, kind, name))| DirEntry {
            ino,
            kind,
            name: name.into(),
            next,
        });
        Ok(entries.skip(from as usize).take(max).collect())
    }
    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> FsResult<usize> {
        self.file(ino)?;
        let n = (buf.len() as u64).min(self.bytes().saturating_sub(offset)) as usize;
        self.0.read(offset, &mut buf[..n])?;
        Ok(n)
    }
    fn write(&self, ino: Ino, offset: u64, data: &[u8]) -> FsResult<usize> {
        self.file(ino)?;
        self.may_change()?;
        let n = (data.len() as u64).min(self.bytes().saturating_sub(offset)) as usize;
        if n == 0 {
            return match data.len() {
                0 => Ok(0),
                _ => Err(Errno::NoSpc.into()),
            };
        }
        self.0.write(offset, &data[..n])?;
        Ok(n)
    }
    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64) -> FsResult<()> {
        self.file(ino)?;
        self.may_change()?;
        let end = offset.saturating_add(len).min(self.bytes());
        match mode {
            FallocateMode::Allocate | FallocateMode::KeepSize if end == offset + len => Ok(()),
            FallocateMode::PunchHole | FallocateMode::ZeroRangeKeepSize => {
                let (first, last) = (offset.div_ceil(SECTOR), end / SECTOR);
                if first * SECTOR != offset || last * SECTOR != end {
                    return Err(Errno::NotSup.into());
                }
                let sectors = last.saturating_sub(first);
                match sectors {
                    0 => Ok(()),
                    _ => self.0.clear(Lba(first), sectors),
                }
            }
            _ => Err(Errno::NotSup.into()),
        }
    }
    fn open(&self, ino: Ino) -> FsResult<()> {
        self.attr(ino).map(drop)
    }
    fn release(&self, ino: Ino) -> FsResult<()> {
        self.attr(ino).map(drop)
    }
    fn fsync(&self, ino: Ino, _data_only: bool) -> FsResult<()> {
        match ino {
            DEVICE => self.0.flush(),
            _ => Ok(()),
        }
    }
    fn sync(&self) -> FsResult<()> {
        self.0.flush()
    }
    fn writeback(&self, _older_than: Time) -> FsResult<()> {
        Ok(())
    }
    fn dirty_pages(&self) -> u64 {
        0
    }
    fn statfs(&self) -> FsResult<FsStat> {
        Ok(FsStat {
            block_bytes: BLOCK_BYTES as u32,
            blocks: self.bytes() / BLOCK_BYTES as u64,
            blocks_free: 0,
            blocks_available: 0,
            inodes: 2,
            inodes_free: 0,
            name_bytes_max: 255,
        })
    }
    fn unmount(&self) -> FsResult<()> {
        // What was not synced stays in the device: nobody asked for more.
        Ok(())
    }
}

fn failed(_: DevError) -> FsError {
    Errno::Io.into()
}

/// A device that is served. One call at a time: a write of a part of a sector reads the rest.
impl Content for Served {
    fn bytes(&self) -> u64 {
        Served::bytes(self)
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> FsResult<()> {
        let whole = self.around(offset, buf.len())?;
        let from = (offset % u64::from(self.caps().sector_bytes)) as usize;
        buf.copy_from_slice(&whole[from..from + buf.len()]);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> FsResult<()> {
        let unit = u64::from(self.caps().sector_bytes);
        let from = offset % unit;
        let is_whole = from == 0 && (data.len() as u64).is_multiple_of(unit);
        let bytes = match is_whole {
            true => Bytes::copy_from_slice(data),
            false => {
                let mut whole = self.around(offset, data.len())?;
                whole[from as usize..from as usize + data.len()].copy_from_slice(data);
                whole.into()
            }
        };
        let write = Command::Write {
            lba: Lba((offset - from) / SECTOR),
            bytes,
            fua: false,
        };
        self.run(write).map(|_| ()).map_err(failed)
    }

    fn clear(&self, lba: Lba, sectors: u64) -> FsResult<()> {
        if self.caps().discard {
            let discard = Command::Discard { lba, sectors };
            self.run(discard).map_err(failed)?;
        }
        // A discard promises no zeros.
        let end = lba.0 + sectors;
        let mut block = lba.0 / SECTORS_PER_BLOCK;
        while block * SECTORS_PER_BLOCK < end {
            let first = block;
            while block * SECTORS_PER_BLOCK < end && !self.is_zero(block) {
                block += 1;
            }
            if block > first {
                let from = lba.0.max(first * SECTORS_PER_BLOCK);
                let zeros = Command::WriteZeroes {
                    lba: Lba(from),
                    sectors: end.min(block * SECTORS_PER_BLOCK) - from,
                    fua: false,
                };
                self.run(zeros).map_err(failed)?;
            }
            block += 1;
        }
        Ok(())
    }

    fn flush(&self) -> FsResult<()> {
        self.run(Command::Flush).map(|_| ()).map_err(failed)
    }
}

impl Served {
    /// The whole sectors that hold so many bytes.
    fn around(&self, offset: u64, len: usize) -> FsResult<Vec<u8>> {
        let unit = u64::from(self.caps().sector_bytes);
        let first = offset / unit * unit;
        let end = (offset + len as u64).next_multiple_of(unit);
        let read = Command::Read {
            lba: Lba(first / SECTOR),
            sectors: (end - first) / SECTOR,
        };
        match end == first {
            true => Ok(Vec::new()),
            false => Ok(self.run(read).map_err(failed)?.concat()),
        }
    }
}
