//! What a volume lies on: a file or block device of the host, memory, or a device of the caller's.

use crate::device::{self, Adapter};
use crate::{Device, Error, Result};
use base::{BLOCK_BYTES, SECTOR_BYTES};
use blockdev::{BlockDevice, HostFile, HostOptions, Ram};
use rig::Fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes at the start of a disk whose content shows that it is in use.
const HEAD_BYTES: u64 = 128 << 10;

/// A disk that can hold a volume. Clones are the same disk.
///
/// An image file stays locked until the last clone is dropped, so that no second process changes
/// it.
#[derive(Clone)]
pub struct Disk {
    inner: Arc<Inner>,
}

struct Inner {
    device: Arc<dyn BlockDevice>,
    bytes: u64,
    writable: bool,
    /// Nothing has been written since it was made of zeros.
    zeros: AtomicBool,
    mounted: AtomicBool,
}

impl Disk {
    /// Makes an image file of `bytes` zeros, or uses an empty one. `bytes` is a multiple of 4096.
    ///
    /// # Errors
    /// [`Error::Host`]: the file has content, or the host refuses. [`Error::Options`]: the size.
    pub fn create(path: impl AsRef<Path>, bytes: u64) -> Result<Disk> {
        check_bytes(bytes)?;
        let file = HostFile::create(path, bytes, &HostOptions::write())
            .map_err(|e| Error::host_file(&e))?;
        Ok(Disk::over(Arc::new(file), true, true))
    }

    /// Opens an image file or a block device of the host to read and write. Nobody else may use it
    /// until it is dropped.
    ///
    /// # Errors
    /// [`Error::Host`].
    pub fn open(path: impl AsRef<Path>) -> Result<Disk> {
        let file = HostFile::open(path, &HostOptions::write()).map_err(|e| Error::host_file(&e))?;
        Ok(Disk::over(Arc::new(file), true, false))
    }

    /// Opens an image file or a block device of the host; nothing is ever written to it.
    ///
    /// # Errors
    /// [`Error::Host`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Disk> {
        let file = HostFile::open(path, &HostOptions::read()).map_err(|e| Error::host_file(&e))?;
        Ok(Disk::over(Arc::new(file), false, false))
    }

    /// A disk in memory, which takes as much of it as was written. `bytes` is a multiple of 4096.
    ///
    /// # Errors
    /// [`Error::Options`]: the size.
    pub fn ram(bytes: u64) -> Result<Disk> {
        check_bytes(bytes)?;
        Ok(Disk::over(Arc::new(Ram::new(bytes)), true, true))
    }

    /// A device of the caller's. Its first and its last 4 KiB are read, so that one that lies about
    /// its size is found here and not when a volume is full.
    ///
    /// # Errors
    /// [`Error::Device`]: it fails, it is shorter than 8 KiB, or its sectors have neither 512 nor
    /// 4096 bytes.
    pub fn device(device: impl Device) -> Result<Disk> {
        let adapter = Adapter::new(device).map_err(Error::Device)?;
        let disk = Disk::over(Arc::new(adapter), true, false);
        let block = BLOCK_BYTES as u64;
        if disk.bytes() < 2 * block {
            let what = format!("{} bytes are too short for a file system", disk.bytes());
            return Err(Error::Device(what));
        }
        device::read(&*disk.inner.device, 0, block).map_err(|e| Error::Device(e.why))?;
        let last = disk.bytes() - block;
        device::read(&*disk.inner.device, last, block).map_err(|e| {
            Error::Device(format!(
                "it says that it has {} bytes, but the last 4096 of them cannot be read: {}",
                disk.bytes(),
                e.why
            ))
        })?;
        Ok(disk)
    }

    fn over(device: Arc<dyn BlockDevice>, writable: bool, zeros: bool) -> Disk {
        let bytes = device.caps().sectors * SECTOR_BYTES as u64;
        Disk {
            inner: Arc::new(Inner {
                device,
                bytes,
                writable,
                zeros: AtomicBool::new(zeros),
                mounted: AtomicBool::new(false),
            }),
        }
    }

    /// The size, bytes.
    pub fn bytes(&self) -> u64 {
        self.inner.bytes
    }

    /// True while a volume on it is mounted, and after one was dropped without an unmount: its
    /// tasks may still write.
    pub fn is_mounted(&self) -> bool {
        self.inner.mounted.load(Ordering::Acquire)
    }

    /// Reads whole blocks of the disk, past any file system: `offset` and the length of `buf` are
    /// multiples of 4096.
    ///
    /// # Errors
    /// [`Error::Options`]: offset or length. [`Error::Device`]: the device fails.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_span(self.bytes(), offset, buf.len())?;
        for (n, part) in buf.chunks_mut(1 << 20).enumerate() {
            let at = offset + ((n as u64) << 20);
            let read = device::read(&*self.inner.device, at, part.len() as u64);
            part.copy_from_slice(&read.map_err(|e| Error::Device(e.to_string()))?);
        }
        Ok(())
    }

    /// Writes whole blocks of the disk, past any file system: `offset` and the length of `data` are
    /// multiples of 4096.
    ///
    /// # Errors
    /// As [`read_at`](Disk::read_at); [`Error::Mounted`], [`Error::ReadOnlyDisk`].
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        check_span(self.bytes(), offset, data.len())?;
        self.check_free(true)?;
        self.inner.zeros.store(false, Ordering::Relaxed);
        for (n, part) in data.chunks(1 << 20).enumerate() {
            let at = offset + ((n as u64) << 20);
            let written = device::write(&*self.inner.device, at, part);
            written.map_err(|e| Error::Device(e.to_string()))?;
        }
        Ok(())
    }

    pub(crate) fn below(&self) -> &Arc<dyn BlockDevice> {
        &self.inner.device
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.inner.writable
    }

    /// True until something is written, of a disk that was made of zeros.
    pub(crate) fn take_zeros(&self) -> bool {
        self.inner.zeros.swap(false, Ordering::Relaxed)
    }

    /// Whether its first 128 KiB hold anything.
    pub(crate) fn holds_data(&self) -> Result<bool> {
        let mut head = vec![0; self.bytes().min(HEAD_BYTES) as usize];
        self.read_at(0, &mut head)?;
        Ok(head.iter().any(|&byte| byte != 0))
    }

    /// The kind of file system on it.
    pub(crate) fn fs(&self) -> Result<Fs> {
        let mut head = vec![0; 2 * BLOCK_BYTES];
        self.read_at(0, &mut head)?;
        rig::kind_of_head(&head).ok_or(Error::NotFormatted)
    }

    pub(crate) fn check_free(&self, write: bool) -> Result<()> {
        match (self.is_mounted(), write && !self.inner.writable) {
            (true, _) => Err(Error::Mounted),
            (false, true) => Err(Error::ReadOnlyDisk),
            (false, false) => Ok(()),
        }
    }

    /// Marks it as mounted; fails if it is.
    pub(crate) fn claim(&self) -> Result<()> {
        match self.inner.mounted.swap(true, Ordering::AcqRel) {
            true => Err(Error::Mounted),
            false => Ok(()),
        }
    }

    pub(crate) fn unclaim(&self) {
        self.inner.mounted.store(false, Ordering::Release);
    }
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk")
            .field("bytes", &self.bytes())
            .field("mounted", &self.is_mounted())
            .finish_non_exhaustive()
    }
}

fn check_bytes(bytes: u64) -> Result<()> {
    match bytes > 0 && bytes.is_multiple_of(BLOCK_BYTES as u64) {
        true => Ok(()),
        false => Err(Error::Options(format!(
            "a disk of {bytes} bytes: say a positive multiple of {BLOCK_BYTES}"
        ))),
    }
}

fn check_span(bytes: u64, offset: u64, len: usize) -> Result<()> {
    let block = BLOCK_BYTES as u64;
    let end = offset.checked_add(len as u64);
    if !offset.is_multiple_of(block) || !(len as u64).is_multiple_of(block) {
        let what = format!("{len} bytes at {offset}: both have to be multiples of {block}");
        return Err(Error::Options(what));
    }
    match end.is_some_and(|end| end <= bytes) {
        true => Ok(()),
        false => Err(Error::Options(format!(
            "{len} bytes at {offset} end beyond the disk of {bytes} bytes"
        ))),
    }
}
