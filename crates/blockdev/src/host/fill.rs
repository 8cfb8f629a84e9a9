//! Holes of a sparse image are filled where flushes come often.
//!
//! The first write to a hole makes the host give it a block, and the next flush then waits for the
//! host's own journal, which costs several times as much as the data. A file system above that
//! commits a few blocks at a time meets a new hole with each commit, until its log has gone round.
//! So a flush behind which little was written fills with zeros what is left of the holes around it,
//! [`CHUNK_BYTES`] at a time, and the next commits there find blocks.
//!
//! - Z0 a file system that tells holes while data for them waits in the kernel's cache would have
//!   that data overwritten: FUSE with a cache for writes does so, and others did. So files of file
//!   systems that we know are filled alone ([`is_trusted`]), and what is told to be a hole is read
//!   before it is written, through the same cache: anything but zeros there ends it.
//! - Z1 only holes are written: zeros take the place of zeros, so neither a reader nor a cut can
//!   tell when, or whether it was done. No write of data and no discard runs meanwhile, as these
//!   hold `Fill::turn` shared and a fill holds it alone.
//! - Z2 bulk data and the format of a large volume leave their holes: they write much, or here and
//!   there, before a flush ([`TOUCHED_MAX`], [`BYTES_MAX`]).
//! - Z3 a fill that fails gives back what it filled and is the last one: room that the host lacks
//!   is for data. Its failure is no failure of the flush. None is begun where the host has not room
//!   for all of the file: zeros never take the room of data.
//! - Z4 a file that several worlds use is filled no more: a lock belongs to one of them.

use rt::{Mutex, RwLock, RwLockReadGuard};
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is filled around a write, bytes.
pub(super) const CHUNK_BYTES: u64 = 1 << 20;
/// A flush behind writes to more chunks than these that may have holes fills none.
const TOUCHED_MAX: usize = 8;
/// Nor one behind more bytes than these.
const BYTES_MAX: u64 = 1 << 20;

/// The state of a file's holes.
pub(super) struct Fill {
    /// Z4.
    is_over: AtomicBool,
    /// Z1.
    turn: RwLock<()>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Chunks without a hole.
    whole: BTreeSet<u64>,
    /// Other chunks that were written to since the last flush.
    touched: BTreeSet<u64>,
    /// Bytes written since the last flush.
    bytes: u64,
}

/// What a write or a discard holds while it runs (Z1).
pub(super) type Turn<'a> = Option<RwLockReadGuard<'a, ()>>;

impl Fill {
    pub fn new() -> Fill {
        Fill {
            is_over: AtomicBool::new(false),
            turn: RwLock::named("host holes", ()),
            seen: Mutex::named("host chunks", Seen::default()),
        }
    }

    /// Ends it, before another world uses the file (Z4).
    pub fn end(&self) {
        if !self.is_over() {
            let _alone = self.turn.write();
            self.is_over.store(true, Ordering::SeqCst);
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Notes a write, which runs while the caller holds what this answers.
    pub fn write(&self, at: u64, len: u64) -> Turn<'_> {
        if self.is_over() {
            return None;
        }
        let turn = self.turn.read();
        let mut seen = self.seen.lock();
        seen.bytes = seen.bytes.saturating_add(len);
        // Behind more, the next flush fills nothing.
        if seen.bytes <= BYTES_MAX {
            for chunk in chunks(at, len) {
                if !seen.whole.contains(&chunk) {
                    seen.touched.insert(chunk);
                }
            }
        }
        Some(turn)
    }

    /// Notes that a hole is made, while the caller holds what this answers.
    pub fn discard(&self, at: u64, len: u64) -> Turn<'_> {
        if self.is_over() {
            return None;
        }
        let turn = self.turn.read();
        let mut seen = self.seen.lock();
        let holed = chunks(at, len);
        seen.whole.retain(|chunk| !holed.contains(chunk));
        Some(turn)
    }

    /// Before a flush: fills the holes around what was written since the last one, inside of
    /// `window`.
    pub fn before_flush(&self, file: &File, window: Range<u64>) {
        if self.is_over() {
            return;
        }
        let touched = {
            let mut seen = self.seen.lock();
            let touched = std::mem::take(&mut seen.touched);
            let bytes = std::mem::take(&mut seen.bytes);
            match bytes <= BYTES_MAX && touched.len() <= TOUCHED_MAX {
                true => touched,
                // Z2.
                false => return,
            }
        };
        if touched.is_empty() {
            return;
        }
        let _alone = self.turn.write();
        if !may_be_filled(file) {
            self.is_over.store(true, Ordering::SeqCst);
            return;
        }
        for chunk in touched {
            let from = (chunk * CHUNK_BYTES).max(window.start);
            let to = ((chunk + 1) * CHUNK_BYTES).min(window.end);
            if self.is_over() || fill(file, from..to).is_err() {
                // Z3.
                self.is_over.store(true, Ordering::SeqCst);
                return;
            }
            self.seen.lock().whole.insert(chunk);
        }
    }
}

/// The chunks that a range touches.
fn chunks(at: u64, len: u64) -> Range<u64> {
    at / CHUNK_BYTES..(at + len).div_ceil(CHUNK_BYTES)
}

/// Whether the file lies where holes are told right (Z0), and the host has room for all of it (Z3).
fn may_be_filled(file: &File) -> bool {
    let told = || -> io::Result<bool> {
        let host = rustix::fs::fstatfs(file)?;
        let own = rustix::fs::fstat(file)?;
        let free = (host.f_bavail as u64).saturating_mul(host.f_bsize as u64);
        let missing = (own.st_size as u64).saturating_sub((own.st_blocks as u64) * 512);
        Ok(is_trusted(host.f_type as u64) && missing < free)
    };
    told().unwrap_or(false)
}

/// Whether a file system, by its number in `statfs`, tells no hole where data waits to be written,
/// since it looks into the kernel's cache first (Z0), and writes zeros and data to one place: ext2
/// to ext4 and XFS. Where each write goes to a new place filling gains nothing, nor in memory.
fn is_trusted(kind: u64) -> bool {
    const EXT4: u64 = 0xef53;
    const XFS: u64 = 0x5846_5342;
    matches!(kind, EXT4 | XFS)
}

/// Writes zeros into the holes of a range; after a failure they are holes again (Z3).
fn fill(file: &File, range: Range<u64>) -> io::Result<()> {
    let mut filled = Vec::new();
    let done = fill_each(file, range, &mut filled);
    if done.is_err() {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        for hole in filled {
            // The first error is the one that counts.
            let _ = rustix::fs::fallocate(file, how, hole.start, hole.end - hole.start);
        }
    }
    done
}

fn fill_each(file: &File, range: Range<u64>, filled: &mut Vec<Range<u64>>) -> io::Result<()> {
    let mut at = range.start;
    let mut zeros = Vec::new();
    while at < range.end {
        let start = rustix::fs::seek(file, SeekFrom::Hole(at))?;
        if start >= range.end {
            return Ok(());
        }
        let end = match rustix::fs::seek(file, SeekFrom::Data(start)) {
            Ok(end) => end.min(range.end),
            Err(Errno::NXIO) => range.end,
            Err(e) => return Err(e.into()),
        };
        zeros.resize((end - start) as usize, 0);
        // Z0.
        file.read_exact_at(&mut zeros, start)?;
        if zeros.iter().any(|byte| *byte != 0) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        filled.push(start..end);
        file.write_all_at(&zeros, start)?;
        at = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Nanos;
    use std::sync::Arc;

    const MIB: u64 = 1 << 20;

    /// Whether files of tests lie where holes are filled; elsewhere there is nothing to look at.
    fn fills_here() -> bool {
        let fills = may_be_filled(&sparse(MIB));
        if !fills {
            eprintln!("skipped: holes of temporary files are not filled on this host");
        }
        fills
    }

    fn sparse(bytes: u64) -> File {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(bytes).expect("a length");
        file
    }

    /// Where holes begin and data begins, from `at` on.
    fn hole(file: &File, at: u64) -> u64 {
        rustix::fs::seek(file, SeekFrom::Hole(at)).expect("holes are told")
    }

    fn written(fill: &Fill, file: &File, at: u64, data: &[u8]) {
        let _turn = fill.write(at, data.len() as u64);
        file.write_all_at(data, at).expect("it is written");
    }

    #[test]
    fn only_file_systems_that_tell_holes_right_are_filled() {
        const FUSE: u64 = 0x6573_5546;
        const OVERLAY: u64 = 0x794c_7630;
        const TMPFS: u64 = 0x0102_1994;
        assert!(is_trusted(0xef53));
        let others = [FUSE, OVERLAY, TMPFS, 0];
        assert!(!others.into_iter().any(is_trusted));
    }

    /// Zeros never take the room of data: a file that is larger than what the host has is left.
    #[test]
    fn a_file_for_which_the_host_has_no_room_is_left_alone() {
        let free = |file: &File| {
            let host = rustix::fs::fstatfs(file).expect("a host");
            host.f_bavail as u64 * host.f_bsize as u64
        };
        let (fill, file) = (Fill::new(), sparse(MIB));
        file.set_len(free(&file).saturating_add(1 << 40).min(8 << 40))
            .expect("a sparse file");
        written(&fill, &file, 8192, &[7; 4096]);
        fill.before_flush(&file, 0..8 * MIB);
        assert_eq!(hole(&file, 8192), 12288, "nothing around it was filled");
        assert!(fill.is_over());
    }

    #[test]
    fn a_small_flush_fills_the_holes_around_what_was_written_and_nothing_else() {
        if !fills_here() {
            return;
        }
        let (fill, file) = (Fill::new(), sparse(8 * MIB));
        written(&fill, &file, 3 * MIB + 8192, &[7; 4096]);
        written(&fill, &file, 3 * MIB + 65536, &[8; 4096]);
        fill.before_flush(&file, 0..8 * MIB);
        assert_eq!(hole(&file, 0), 0);
        assert_eq!(hole(&file, 3 * MIB), 4 * MIB);
        let mut expected = vec![0; MIB as usize];
        expected[8192..12288].fill(7);
        expected[65536..69632].fill(8);
        let mut found = vec![1; MIB as usize];
        file.read_exact_at(&mut found, 3 * MIB).unwrap();
        assert!(found == expected, "Z1: zeros took the place of data");
    }

    #[test]
    fn a_window_is_not_left() {
        if !fills_here() {
            return;
        }
        let (fill, file) = (Fill::new(), sparse(8 * MIB));
        written(&fill, &file, 3 * MIB + 8192, &[7; 4096]);
        fill.before_flush(&file, 3 * MIB + 4096..3 * MIB + 16384);
        assert_eq!(hole(&file, 3 * MIB), 3 * MIB);
        assert_eq!(hole(&file, 3 * MIB + 4096), 3 * MIB + 16384);
    }

    #[test]
    fn bulk_and_scattered_writes_leave_their_holes() {
        if !fills_here() {
            return;
        }
        let (fill, file) = (Fill::new(), sparse(32 * MIB));
        written(&fill, &file, 4096, &vec![1; MIB as usize + 4096]);
        fill.before_flush(&file, 0..32 * MIB);
        assert_eq!(hole(&file, 0), 0, "Z2: bulk");
        for chunk in 4..4 + TOUCHED_MAX as u64 + 1 {
            written(&fill, &file, chunk * MIB + 4096, &[1; 4096]);
        }
        fill.before_flush(&file, 0..32 * MIB);
        assert_eq!(hole(&file, 4 * MIB), 4 * MIB, "Z2: scattered");
        written(&fill, &file, 4 * MIB + 4096, &[1; 4096]);
        fill.before_flush(&file, 0..32 * MIB);
        assert_eq!(hole(&file, 4 * MIB), 5 * MIB, "few: filled");
    }

    #[test]
    fn a_chunk_with_a_new_hole_is_filled_again() {
        if !fills_here() {
            return;
        }
        let (fill, file) = (Fill::new(), sparse(4 * MIB));
        written(&fill, &file, 4096, &[1; 4096]);
        fill.before_flush(&file, 0..4 * MIB);
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let turn = fill.discard(8192, 8192);
        rustix::fs::fallocate(&file, how, 8192, 8192).unwrap();
        drop(turn);
        written(&fill, &file, 4096, &[1; 4096]);
        fill.before_flush(&file, 0..4 * MIB);
        assert_eq!(hole(&file, 0), MIB);
    }

    #[test]
    fn a_fill_that_fails_gives_back_what_it_filled_and_is_the_last() {
        let (fill, file) = (Fill::new(), sparse(4 * MIB));
        written(&fill, &file, 4096, &[1; 4096]);
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let read_only = File::open(path).unwrap();
        fill.before_flush(&read_only, 0..4 * MIB);
        assert!(fill.is_over() && fill.write(0, 1).is_none());
        assert_eq!(hole(&file, 0), 0);
    }

    /// Z3, where a part was filled: what lies behind the end of the file cannot be read.
    #[test]
    fn a_fill_that_fails_in_the_middle_leaves_the_holes_that_there_were() {
        let file = sparse(MIB);
        file.write_all_at(&[7; 4096], 8192).unwrap();
        let blocks = || rustix::fs::fstat(&file).unwrap().st_blocks;
        let before = blocks();
        assert!(fill(&file, 0..2 * MIB).is_err());
        assert_eq!((hole(&file, 0), hole(&file, 8192)), (0, 12288));
        assert_eq!(blocks(), before);
    }

    /// Z4.
    #[test]
    fn a_file_of_several_worlds_is_filled_no_more() {
        let (fill, file) = (Fill::new(), sparse(4 * MIB));
        written(&fill, &file, 4096, &[1; 4096]);
        fill.end();
        fill.before_flush(&file, 0..4 * MIB);
        assert_eq!(hole(&file, 0), 0);
        assert!(fill.write(0, 1).is_none() && fill.discard(0, 1).is_none());
    }

    /// Z1.
    #[test]
    fn a_fill_waits_for_writes_and_discards_that_run() {
        if !fills_here() {
            return;
        }
        for discards in [false, true] {
            let (fill, file) = (Arc::new(Fill::new()), Arc::new(sparse(MIB)));
            written(&fill, &file, 4096, &[1; 4096]);
            let turn = match discards {
                false => fill.write(8192, 4096),
                true => fill.discard(8192, 4096),
            };
            let (flushed, its_file) = (Arc::clone(&fill), Arc::clone(&file));
            let flush = rt::spawn("flush", move || flushed.before_flush(&its_file, 0..MIB));
            // Longer than it takes to fill a chunk.
            rt::sleep(Nanos::from_millis(100));
            assert_eq!(hole(&file, 0), 0, "filled beside a writer");
            drop(turn);
            flush.join().expect("it ends");
            assert_eq!(hole(&file, 0), MIB);
        }
    }
}
