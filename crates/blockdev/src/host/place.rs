//! The open file or device below: its window, its alignment, its promises, and single transfers.

use super::buffer::{Aligned, Block};
use super::busy::{self, is_device, numbers};
use super::fill::Fill;
use super::options::{HostError, HostIo, HostOptions};
use super::past::{LONG_BYTES, Past};
use crate::{Caps, DevError};
use base::{BLOCK_BYTES, Lba, SECTOR_BYTES, SECTORS_PER_BLOCK};
use rustix::fs::{AtFlags, FallocateFlags, OFlags, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::{self, File};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Longest list of pieces that one call takes (`UIO_MAXIOV`).
pub(super) const PIECES_MAX: usize = 1024;
/// Where a hole is punched as a test whether the file system can do that: far behind any end of a
/// file.
const PROBE_AT: u64 = 1 << 42;

/// An open file or block device, and the window in it that is the volume.
pub(super) struct Place {
    pub path: PathBuf,
    pub file: File,
    /// Other files whose locks are held: the file of a loop device.
    pub beside: Vec<File>,
    /// Where the window begins, bytes.
    pub start: u64,
    /// Its length, bytes.
    pub bytes: u64,
    pub caps: Caps,
    /// Addresses of buffers are multiples of this; 1: transfers go through the page cache.
    pub align: usize,
    /// The file for long transfers past the page cache, where all other transfers go through it.
    pub past: Option<Past>,
    /// Fills holes of a file that nobody else writes; a ring's writes do not ask it.
    pub fill: Option<Fill>,
    pub is_device: bool,
    /// The process that holds the locks of the files; `None`: they are not locked.
    pub locked_by: Option<u32>,
}

/// Gives the locks back at once. A lock lives as long as any descriptor of the open file, and a
/// process that was forked meanwhile has copies of them all.
impl Drop for Place {
    fn drop(&mut self) {
        if self.locked_by == Some(busy::this_process()) {
            self.beside
                .iter()
                .chain([&self.file])
                .for_each(busy::unlock);
        }
    }
}

impl Place {
    /// Determines the properties of an open file.
    pub fn new(path: &Path, file: File, options: &HostOptions) -> Result<Place, HostError> {
        let host = |doing| HostError::host(path, doing);
        let meta = file.metadata().map_err(host("its status"))?;
        let is_device = is_device(&meta);
        let all = match is_device {
            true => device_bytes(&file).map_err(host("its size"))?,
            false => meta.len(),
        };
        let bytes = window(path, all, options)?;
        let direct = match options.direct {
            true => direct(&file, &meta, options.offset),
            false => None,
        };
        let past = match direct {
            None => Past::open(&file, &meta, options),
            Some(_) => None,
        };
        let fills = options.write && !is_device && direct.is_none() && options.io != HostIo::Uring;
        // The kernel hands FUA on only if nothing is in its cache.
        let takes_fua = is_device && direct.is_some() && queue_value(meta.rdev(), "fua") == Some(1);
        let (align, sector) = direct.unwrap_or((1, SECTOR_BYTES));
        let caps = Caps {
            sectors: bytes / BLOCK_BYTES as u64 * SECTORS_PER_BLOCK,
            sector_bytes: sector as u32,
            volatile_cache: true,
            fua: options.write,
            fua_flushes: !takes_fua,
            reliable_granule: None,
            tear_granule: Some(512),
            atomic_write_bytes: 0,
            no_collateral: true,
            packed: None,
            cache_fifo: false,
            barrier: false,
            discard: options.write && discards(&file, &meta),
            remap: None,
            max_transfer_sectors: 2048,
        };
        Ok(Place {
            path: path.to_path_buf(),
            file,
            beside: Vec::new(),
            start: options.offset,
            bytes,
            caps,
            align,
            past,
            fill: fills.then(Fill::new),
            is_device,
            locked_by: None,
        })
    }

    /// Changes the length of the window.
    pub fn set_bytes(&mut self, bytes: u64) {
        self.bytes = bytes;
        self.caps.sectors = bytes / BLOCK_BYTES as u64 * SECTORS_PER_BLOCK;
    }

    /// Byte `lba` of the volume in the file.
    pub fn at(&self, lba: Lba) -> u64 {
        self.start + lba.0 * SECTOR_BYTES as u64
    }

    /// An error at byte `at` of the file.
    pub fn failed(&self, at: u64, doing: &str, e: &io::Error) -> DevError {
        let lba = Lba(at.saturating_sub(self.start) / SECTOR_BYTES as u64);
        DevError::io(lba, format!("{doing} {}: {e}", self.path.display()))
    }

    /// Fills `buf`, whose address, place and length are aligned.
    pub fn read(&self, at: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buf, at)
    }

    /// Fills buffers one after the other, of which `done` bytes are filled already.
    pub fn read_into(&self, at: u64, into: &mut [Block], mut done: usize) -> io::Result<()> {
        if let Some(past) = &self.past {
            done = past.read_into(&self.file, at, into, done)?;
        }
        let total: usize = into.iter().map(|b| b.len()).sum();
        while done < total {
            match read_some(&self.file, at, into, done)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => done += n,
            }
        }
        Ok(())
    }

    /// The file through which these bytes are written.
    pub fn writer(&self, at: u64, pieces: &[&[u8]]) -> &File {
        match self.past.as_ref().filter(|past| past.takes(at, pieces)) {
            Some(past) => &past.file,
            None => &self.file,
        }
    }

    /// Writes all pieces one after the other; with `dsync` they are durable then. A long write is
    /// on its way to the disk when this returns.
    pub fn write(&self, at: u64, pieces: &[&[u8]], dsync: bool) -> io::Result<()> {
        let len = pieces.iter().map(|p| p.len() as u64).sum();
        let _turn = self.fill.as_ref().and_then(|fill| fill.write(at, len));
        let file = self.writer(at, pieces);
        match write_all(file, at, pieces, dsync) {
            // The kernel takes less than it announces, or has written a part that does not end at a
            // sector.
            Err(e) if !std::ptr::eq(file, &self.file) && is_invalid(&e) => {
                write_all(&self.file, at, pieces, dsync)?;
            }
            other => other?,
        }
        if !dsync && std::ptr::eq(file, &self.file) {
            self.begin_writing(at, len);
        }
        Ok(())
    }

    /// Asks the host to begin writing a long range that lies in its page cache. Only a flush makes
    /// the range durable; but the flush then finds little left to do, and the disk works while the
    /// next bytes are copied.
    fn begin_writing(&self, at: u64, len: u64) {
        if self.align == 1 && len >= LONG_BYTES {
            // SAFETY: the call takes an open descriptor and numbers.
            let _ = unsafe {
                libc::sync_file_range(
                    std::os::fd::AsRawFd::as_raw_fd(&self.file),
                    at as libc::off64_t,
                    len as libc::off64_t,
                    libc::SYNC_FILE_RANGE_WRITE,
                )
            };
        }
    }

    /// Makes all durable that was written.
    pub fn flush(&self) -> io::Result<()> {
        if let Some(fill) = &self.fill {
            fill.before_flush(&self.file, self.start..self.start + self.bytes);
        }
        self.file.sync_data()
    }

    /// Discards the blocks of a range.
    pub fn discard(&self, at: u64, len: u64) -> io::Result<()> {
        if self.is_device {
            return discard_device(&self.file, at, len);
        }
        let _turn = self.fill.as_ref().and_then(|fill| fill.discard(at, len));
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.file, how, at, len)?)
    }

    /// Reads bytes at any place of the window, whatever alignment direct I/O demands.
    pub fn read_any(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let beyond = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let end = offset.checked_add(buf.len() as u64).ok_or_else(beyond)?;
        if end > self.bytes {
            return Err(beyond());
        }
        let at = self.start + offset;
        if self.align == 1 {
            return self.read(at, buf);
        }
        let unit = u64::from(self.caps.sector_bytes);
        let from = at / unit * unit;
        let len = ((self.start + end).next_multiple_of(unit) - from) as usize;
        let mut bounce = Aligned::new(len, self.align);
        // The last sector may lie behind the end of the file.
        let mut done = 0;
        while done < len {
            match self.file.read_at(&mut bounce[done..], from + done as u64)? {
                0 => break,
                n => done += n,
            }
            if !(done as u64).is_multiple_of(unit) {
                break;
            }
        }
        let skip = (at - from) as usize;
        if done < skip + buf.len() {
            return Err(beyond());
        }
        buf.copy_from_slice(&bounce[skip..skip + buf.len()]);
        Ok(())
    }
}

pub(super) fn is_invalid(e: &io::Error) -> bool {
    e.raw_os_error() == Some(Errno::INVAL.raw_os_error())
}

/// Reads as much of what is missing after `done` bytes as one call takes; answers how much that
/// was.
pub(super) fn read_some(
    file: &File,
    at: u64,
    into: &mut [Block],
    done: usize,
) -> io::Result<usize> {
    let (mut skip, mut slices) = (done, Vec::with_capacity(into.len().min(PIECES_MAX)));
    for buffer in into.iter_mut() {
        if skip >= buffer.len() {
            skip -= buffer.len();
            continue;
        }
        slices.push(IoSliceMut::new(&mut buffer[skip..]));
        skip = 0;
        if slices.len() == PIECES_MAX {
            break;
        }
    }
    loop {
        match rustix::io::preadv(file, &mut slices, at + done as u64) {
            Err(Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

fn write_all(file: &File, at: u64, pieces: &[&[u8]], dsync: bool) -> io::Result<()> {
    let total: usize = pieces.iter().map(|p| p.len()).sum();
    let flags = match dsync {
        true => ReadWriteFlags::DSYNC,
        false => ReadWriteFlags::empty(),
    };
    let mut done = 0;
    while done < total {
        let slices = rest(pieces, done);
        match rustix::io::pwritev2(file, &slices, at + done as u64, flags) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => done += n,
            Err(Errno::INTR) => {}
            // The kernel does not know this flag here.
            Err(Errno::OPNOTSUPP) if dsync => {
                write_all(file, at, pieces, false)?;
                return file.sync_data();
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// What is left of the pieces after `done` bytes, as much as one call takes.
fn rest<'a>(pieces: &[&'a [u8]], mut done: usize) -> Vec<IoSlice<'a>> {
    let mut slices = Vec::with_capacity(pieces.len().min(PIECES_MAX));
    for piece in pieces {
        if done >= piece.len() {
            done -= piece.len();
            continue;
        }
        slices.push(IoSlice::new(&piece[done..]));
        done = 0;
        if slices.len() == PIECES_MAX {
            break;
        }
    }
    slices
}

fn window(path: &Path, all: u64, options: &HostOptions) -> Result<u64, HostError> {
    let offset = options.offset;
    if !offset.is_multiple_of(SECTOR_BYTES as u64) {
        let what = format!("offset={offset} is not a multiple of {SECTOR_BYTES}");
        return Err(HostError::unfit(path, what));
    }
    let behind = all.checked_sub(offset).ok_or_else(|| {
        HostError::unfit(path, format!("offset={offset} is beyond its {all} bytes"))
    })?;
    match options.size {
        Some(size) if size > behind => {
            let what = format!("{size} bytes from offset {offset} on: it has {behind}");
            Err(HostError::unfit(path, what))
        }
        size => Ok(size.unwrap_or(behind)),
    }
}

/// Switches direct I/O on; answers the alignment of addresses and the sector in bytes. `None`: it
/// goes through the page cache.
pub(super) fn direct(file: &File, meta: &fs::Metadata, offset: u64) -> Option<(usize, usize)> {
    let (align, sector) = alignment(file, meta)?;
    let fits = sector <= BLOCK_BYTES && offset.is_multiple_of(sector as u64);
    if !fits || !sector.is_power_of_two() || !align.is_power_of_two() {
        return None;
    }
    let flags = rustix::fs::fcntl_getfl(file).ok()?;
    rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT).ok()?;
    // Some file systems accept the flag and then refuse the transfer.
    let mut probe = Aligned::new(sector.max(SECTOR_BYTES), align);
    if let Err(e) = file.read_at(&mut probe, offset)
        && is_invalid(&e)
    {
        let _ = rustix::fs::fcntl_setfl(file, flags);
        return None;
    }
    Some((align, sector.max(SECTOR_BYTES)))
}

/// The alignments that direct I/O on the file demands: of addresses, and of places and lengths, in
/// bytes. `None`: there is no direct I/O.
fn alignment(file: &File, meta: &fs::Metadata) -> Option<(usize, usize)> {
    let known = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    if let Ok(known) = known
        && known.stx_mask & StatxFlags::DIOALIGN.bits() != 0
    {
        let (memory, place) = (known.stx_dio_mem_align, known.stx_dio_offset_align);
        return (place != 0).then(|| (memory.max(1) as usize, place as usize));
    }
    // A kernel before 6.1: the sector of the device serves for both.
    let sector = match is_device(meta) {
        true => rustix::fs::ioctl_blksszget(file).ok()? as usize,
        false => queue_value(meta.dev(), "logical_block_size")? as usize,
    };
    Some((sector, sector))
}

/// A number from the queue of a device in sysfs; a partition has that of its disk.
fn queue_value(device: u64, name: &str) -> Option<u64> {
    let (major, minor) = numbers(device);
    let at = format!("/sys/dev/block/{major}:{minor}");
    let read = |path: String| fs::read_to_string(path).ok()?.trim().parse().ok();
    read(format!("{at}/queue/{name}")).or_else(|| read(format!("{at}/../queue/{name}")))
}

fn discards(file: &File, meta: &fs::Metadata) -> bool {
    if is_device(meta) {
        return queue_value(meta.rdev(), "discard_max_bytes").is_some_and(|n| n > 0);
    }
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    // Behind the end there is nothing to lose; a file system that cannot punch holes refuses it
    // there as well.
    let at = PROBE_AT.max(meta.len().next_multiple_of(BLOCK_BYTES as u64));
    rustix::fs::fallocate(file, how, at, BLOCK_BYTES as u64).is_ok()
}

/// `BLKGETSIZE64`.
fn device_bytes(file: &File) -> io::Result<u64> {
    let mut bytes = 0_u64;
    // SAFETY: the request stores one u64 (linux/fs.h: `_IOR(0x12, 114, size_t)`), and `bytes`
    // outlives the call.
    unsafe { ioctl(file, request(true, 114), (&raw mut bytes).cast()) }?;
    Ok(bytes)
}

/// `BLKDISCARD`.
fn discard_device(file: &File, at: u64, len: u64) -> io::Result<()> {
    let mut range = [at, len];
    // SAFETY: the request reads two u64 (linux/fs.h: `_IO(0x12, 119)`), and `range` outlives the
    // call.
    unsafe { ioctl(file, request(false, 119), (&raw mut range).cast()) }
}

/// The number of a request of block devices: `_IOR(0x12, n, size_t)` or `_IO(0x12, n)`.
fn request(reads: bool, n: u8) -> rustix::ioctl::Opcode {
    match reads {
        true => rustix::ioctl::opcode::read::<usize>(0x12, n),
        false => rustix::ioctl::opcode::none(0x12, n),
    }
}

/// # Safety
/// `data` is what the request demands, and outlives the call.
unsafe fn ioctl(
    file: &File,
    request: rustix::ioctl::Opcode,
    data: *mut std::ffi::c_void,
) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: the caller answers for `data`; the descriptor is open as long as `file` is borrowed.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), request as libc::Ioctl, data) };
    match answer {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
