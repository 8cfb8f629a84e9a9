//! Long transfers bypass the page cache of the host, where all other requests go through it: writes
//! of whole pages, and reads of which the page cache holds little.

use super::buffer::Block;
use super::options::HostOptions;
use super::place::{direct, is_invalid, read_some};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;

/// Transfers from this size on bypass the host's page cache, which is of no use for them; shorter
/// ones may soon be overwritten or read again.
pub(super) const LONG_BYTES: u64 = 256 << 10;

/// A file opened a second time, for direct I/O. The kernel keeps both ways coherent: before a
/// direct transfer it writes out what its page cache has of the range, and it drops those pages
/// after a write.
pub(super) struct Past {
    pub file: File,
    /// Addresses of buffers are multiples of this, bytes.
    align: usize,
    /// Places and lengths are multiples of this, bytes.
    sector: usize,
}

impl Past {
    /// Opens the file for direct I/O; `None`: the host has no direct I/O for this file.
    pub fn open(file: &File, meta: &fs::Metadata, options: &HostOptions) -> Option<Past> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut open = File::options();
        let file = open.read(true).write(options.write).open(path).ok()?;
        let (align, sector) = direct(&file, meta, options.offset)?;
        Some(Past {
            file,
            align,
            sector,
        })
    }

    /// Whether these bytes are written past the page cache: only whole pages of it are. On a block
    /// device, a write through the page cache may read a page for its other part while this write
    /// is on its way; it would then write the old content back.
    pub fn takes(&self, at: u64, pieces: &[&[u8]]) -> bool {
        let bytes = pieces.iter().map(|p| p.len() as u64).sum::<u64>();
        let page = page_bytes();
        bytes >= LONG_BYTES
            && at.is_multiple_of(page)
            && bytes.is_multiple_of(page)
            && self.suits(at, pieces.iter().copied())
    }

    /// Fills buffers, of which `done` bytes are filled already, if the transfer is long and most of
    /// it is not in the page cache of file `cached`. Answers how far it came; the rest must be read
    /// through the page cache.
    pub fn read_into(
        &self,
        cached: &File,
        at: u64,
        into: &mut [Block],
        mut done: usize,
    ) -> io::Result<usize> {
        let total: usize = into.iter().map(|b| b.len()).sum();
        let left = (total - done) as u64;
        let suits = done == 0 && self.suits(at, into.iter().map(|b| &b[..]));
        if left < LONG_BYTES || !suits || !is_cold(cached, at, left) {
            return Ok(done);
        }
        while done < total && done.is_multiple_of(self.sector) {
            match read_some(&self.file, at, into, done) {
                Ok(0) => break,
                Ok(n) => done += n,
                // The kernel takes less than it announces.
                Err(e) if is_invalid(&e) => break,
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    fn suits<'a>(&self, at: u64, mut pieces: impl Iterator<Item = &'a [u8]>) -> bool {
        at.is_multiple_of(self.sector as u64)
            && pieces.all(|p| {
                p.len().is_multiple_of(self.sector) && p.as_ptr().addr().is_multiple_of(self.align)
            })
    }
}

/// Whether the page cache has less than half of the range; a kernel before 6.5 cannot tell (no
/// `cachestat`), and then the answer is no.
fn is_cold(file: &File, at: u64, len: u64) -> bool {
    const CACHESTAT: libc::c_long = 451;
    let range = [at, len];
    // Pages that are there, dirty, being written, evicted, evicted recently.
    let mut pages = [0_u64; 5];
    // SAFETY: the call reads two u64, stores five (linux/mman.h: `cachestat_range`, `cachestat`),
    // and both outlive it. Its number is the same everywhere.
    let answer = unsafe {
        libc::syscall(
            CACHESTAT,
            file.as_raw_fd(),
            &raw const range,
            &raw mut pages,
            0,
        )
    };
    answer == 0 && pages[0] * page_bytes() < len / 2
}

/// The unit in which the page cache reads and writes, bytes. The C library is asked, because rustix
/// reads the auxiliary vector for it, which leads nowhere under valgrind.
fn page_bytes() -> u64 {
    // SAFETY: the call takes a number.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::super::buffer::Aligned;
    use super::super::place::Place;
    use super::*;
    use base::{BLOCK_BYTES, SECTOR_BYTES};
    use rustix::fs::OFlags;
    use rustix::io::ReadWriteFlags;
    use std::io::{IoSliceMut, Write};
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    const LEN: usize = 1 << 20;

    /// A place whose file lies on a disk; `None`, with a message, if that disk has no direct I/O.
    fn place() -> Option<Place> {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).expect("a file");
        file.write_all(&vec![1; 2 * LEN]).expect("room");
        file.sync_all().expect("room");
        let open = |options| {
            let file = file.try_clone().expect("a descriptor");
            Place::new(Path::new("a file"), file, &options).expect("a place")
        };
        let place = open(HostOptions::write());
        let mut options = HostOptions::write();
        options.direct = true;
        let direct = open(options);
        assert!(direct.past.is_none(), "all goes past the page cache");
        assert_eq!(place.past.is_some(), direct.align > 1);
        if place.past.is_none() {
            eprintln!("skipped: no direct I/O here");
            return None;
        }
        drop(direct);
        let flags = rustix::fs::fcntl_getfl(&place.file).expect("flags");
        rustix::fs::fcntl_setfl(&place.file, flags - OFlags::DIRECT).expect("as before");
        Some(place)
    }

    /// Bytes at an aligned address, or at one that is not.
    fn bytes(n: u8, suits: bool) -> (Aligned, usize) {
        let mut bytes = Aligned::new(LEN + BLOCK_BYTES, BLOCK_BYTES);
        bytes.fill(n);
        (bytes, usize::from(!suits))
    }

    fn write(place: &Place, at: u64, (bytes, skip): &(Aligned, usize), len: usize) {
        place
            .write(at, &[&bytes[*skip..skip + len]], false)
            .expect("written");
    }

    fn read(file: &File, at: u64) -> u8 {
        let mut block = Aligned::new(BLOCK_BYTES, BLOCK_BYTES);
        file.read_exact_at(&mut block, at).expect("read");
        block[0]
    }

    /// True if the page cache has the block (`RWF_NOWAIT`).
    fn is_cached(place: &Place, at: u64) -> bool {
        let mut byte = [0];
        let mut into = [IoSliceMut::new(&mut byte)];
        rustix::io::preadv2(&place.file, &mut into, at, ReadWriteFlags::NOWAIT).is_ok()
    }

    /// Reads `LEN` bytes.
    fn read_long(place: &Place, at: u64, align: usize) -> Vec<Block> {
        let mut into = Block::many(LEN, align);
        place.read_into(at, &mut into, 0).expect("read");
        into
    }

    fn is(n: u8, blocks: &[Block]) -> bool {
        blocks.iter().all(|b| b.iter().all(|&byte| byte == n))
    }

    fn forget(place: &Place) {
        let all = rustix::fs::Advice::DontNeed;
        rustix::fs::fadvise(&place.file, 0, None, all).expect("a file");
    }

    #[test]
    fn long_writes_pass_the_page_cache_and_short_ones_do_not() {
        let Some(place) = place() else { return };
        forget(&place);
        write(&place, 0, &bytes(2, true), LEN);
        assert!(!is_cached(&place, 0));
        write(&place, LEN as u64, &bytes(3, true), BLOCK_BYTES);
        assert!(is_cached(&place, LEN as u64));
        assert_eq!(
            (read(&place.file, 0), read(&place.file, LEN as u64)),
            (2, 3)
        );
    }

    #[test]
    fn both_ways_see_what_the_other_has_written() {
        let Some(place) = place() else { return };
        let past = place.past.as_ref().expect("there");
        for (n, at) in [(2, 0), (4, 8192), (6, 4096)] {
            // The range is made dirty in the page cache, then overwritten past it, and then once
            // more.
            write(&place, at, &bytes(n, true), BLOCK_BYTES);
            write(&place, 0, &bytes(n + 1, true), LEN);
            assert_eq!(read(&place.file, at), n + 1);
            write(&place, at, &bytes(n, true), BLOCK_BYTES);
            assert_eq!((read(&place.file, at), read(&past.file, at)), (n, n));
            place.file.sync_data().expect("synced");
            assert_eq!(read(&past.file, at), n);
        }
    }

    #[test]
    fn what_direct_io_does_not_take_goes_through_the_page_cache() {
        let Some(mut place) = place() else { return };
        write(&place, 0, &bytes(2, false), LEN);
        assert_eq!(read(&place.file, LEN as u64 - 1), 2);
        write(&place, 512, &bytes(3, true), LEN - 512);
        assert_eq!(read(&place.file, 512), 3);
        // The kernel takes less than it announces.
        let past = place.past.as_mut().expect("there");
        (past.align, past.sector) = (1, 1);
        let odd = bytes(4, false);
        assert!(goes_past(&place, 0, &odd.0[1..=LEN]));
        write(&place, 0, &odd, LEN);
        assert_eq!(read(&place.file, 4096), 4);
    }

    #[test]
    fn no_page_of_the_page_cache_is_shared_with_a_long_write() {
        let Some(place) = place() else { return };
        let (bytes, _) = bytes(2, true);
        let (page, sector) = (page_bytes(), SECTOR_BYTES);
        assert!(goes_past(&place, page, &bytes[..LEN]));
        for (at, len) in [
            (page + sector as u64, LEN),
            (page, LEN - sector),
            (sector as u64, LEN - sector),
        ] {
            assert!(!goes_past(&place, at, &bytes[..len]), "{len} at {at}");
        }
    }

    fn goes_past(place: &Place, at: u64, bytes: &[u8]) -> bool {
        !std::ptr::eq(place.writer(at, &[bytes]), &place.file)
    }

    #[test]
    fn long_reads_take_what_the_page_cache_has_and_pass_it_otherwise() {
        let Some(place) = place() else { return };
        forget(&place);
        if !is_cold(&place.file, 0, LEN as u64) {
            return eprintln!("skipped: the kernel does not say what it has in its page cache");
        }
        assert!(is(1, &read_long(&place, 0, BLOCK_BYTES)));
        assert!(!is_cached(&place, 0), "it came past");
        // When more than half of the range is cached, nothing bypasses the page cache; else the
        // other half would not be cached afterwards.
        let mut most = vec![0; LEN * 3 / 4];
        place.file.read_exact_at(&mut most, 0).expect("read");
        assert!(!is_cold(&place.file, 0, LEN as u64));
        assert!(is(1, &read_long(&place, 0, BLOCK_BYTES)));
        assert!(is_cached(&place, LEN as u64 - 1));
        // Short transfers do not bypass the page cache.
        forget(&place);
        let mut short = Block::many(BLOCK_BYTES, BLOCK_BYTES);
        place.read_into(0, &mut short, 0).expect("read");
        assert!(is_cached(&place, 0));
    }

    #[test]
    fn a_long_read_sees_what_is_dirty_in_the_page_cache() {
        let Some(place) = place() else { return };
        forget(&place);
        let at = 3 * BLOCK_BYTES as u64;
        write(&place, at, &bytes(9, true), BLOCK_BYTES);
        let blocks = read_long(&place, 0, BLOCK_BYTES);
        assert!(is(9, &blocks[3..4]) && is(1, &blocks[..3]) && is(1, &blocks[4..]));
    }

    #[test]
    fn a_long_read_that_direct_io_does_not_take_comes_through_the_page_cache() {
        let Some(mut place) = place() else { return };
        for at in [0, 3] {
            forget(&place);
            // The kernel takes less than it announces.
            let past = place.past.as_mut().expect("there");
            (past.align, past.sector) = (1, 1);
            let mut into = Block::many(LEN - 1, 1);
            place.read_into(at, &mut into, 0).expect("read");
            assert!(is(1, &into));
        }
    }

    #[test]
    fn the_end_of_the_file_is_an_error_both_ways() {
        let Some(place) = place() else { return };
        forget(&place);
        let mut into = Block::many(LEN, BLOCK_BYTES);
        let e = place.read_into(LEN as u64 + 8192, &mut into, 0);
        assert_eq!(e.map_err(|e| e.kind()), Err(io::ErrorKind::UnexpectedEof));
    }
}
