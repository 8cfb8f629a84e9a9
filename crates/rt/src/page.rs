//! Memory of pages: 4096 bytes each, at addresses that are multiples of 4096, reused after they are
//! dropped.
//!
//! Direct I/O uses pages in place only at such addresses, and a page cache keeps and drops each
//! page alone. A general allocator takes up to two pages of memory for each such request, and each
//! new one costs a page fault.
//!
//! ```text
//!  chunk (256 KiB of the kernel's)   | page | page | ... 64 |    bitmap of free pages
//!  Page::many(n): lowest chunks first            drop(page): bit set; the chunk goes back if none of it is in use, and enough such are kept
//! ```
//!
//! - M1: a page is marked free in its chunk, or one [`Page`] owns it: never both, never two.
//! - M2: a chunk goes back to the kernel when all of its pages are free, and its number is given to
//!   another only then.
//! - M3: a chunk of which the last page is dropped is kept only if fewer than [`SPARE_CHUNKS`]
//!   chunks (4 MiB) have no page in use. Chunks with a page in use are kept whole. So the memory is
//!   at most that of the most pages that ever were in use at one time, and the spare chunks.
//! - M4: nothing here can yield or wait for a task, so a page may be dropped anywhere (rule 11 of
//!   ARCHITECTURE.md): by a task of any world, by a thread that is no task, while a simulation
//!   ends. The lock is one of the operating system, held over a few lines that map and unmap
//!   nothing.
//!
//! Before its owner has written to it, a page holds what its last owner left there.

use base::{BLOCK_BYTES, Bytes};
use parking_lot::Mutex as OsMutex;
use std::alloc::{Layout, handle_alloc_error};
use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Pages of a chunk: bits of its bitmap.
const CHUNK_PAGES: usize = 64;
const CHUNK_BYTES: usize = CHUNK_PAGES * Page::BYTES;
/// Chunks without a page in use that are kept.
const SPARE_CHUNKS: usize = 16;

const _: () = assert!(CHUNK_PAGES == u64::BITS as usize && Page::BYTES == BLOCK_BYTES);

static POOL: Pool = Pool::new();

/// A page of memory: [`Page::BYTES`] bytes whose address is a multiple of as many.
pub struct Page {
    at: NonNull<u8>,
    chunk: u32,
}

// SAFETY: a page is owned memory (M1); a shared reference only reads it.
unsafe impl Send for Page {}
// SAFETY: the same.
unsafe impl Sync for Page {}

impl Page {
    /// Bytes of a page, and its alignment.
    pub const BYTES: usize = 4096;

    /// A page with arbitrary content.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Page {
        let mut one = Page::many(1);
        one.pop().expect("invariant: one page was asked for")
    }

    /// So many pages with arbitrary content.
    pub fn many(count: usize) -> Vec<Page> {
        POOL.take(count)
    }

    /// A page with this content.
    ///
    /// # Panics
    /// If it is not [`Page::BYTES`] long.
    pub fn copy_of(content: &[u8]) -> Page {
        let mut page = Page::new();
        page.copy_from_slice(content);
        page
    }

    /// Its content from now on, without a copy. The memory is free again when the last clone or
    /// slice is gone.
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl Deref for Page {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the page is mapped and initialised (the kernel gives zeros) and this owner's
        // alone (M1, M2).
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), Page::BYTES) }
    }
}

impl DerefMut for Page {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`; the exclusive reference is to the only owner.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), Page::BYTES) }
    }
}

impl AsRef<[u8]> for Page {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        POOL.give(self.at, self.chunk);
    }
}

/// Memory from the kernel. Dropping it gives it back.
struct Chunk {
    at: NonNull<u8>,
    /// Bit n: page n is free.
    free: u64,
}

// SAFETY: it owns the mapping; its pages are handed out under the lock of the pool alone.
unsafe impl Send for Chunk {}

impl Chunk {
    fn map() -> Chunk {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        // SAFETY: a fresh anonymous mapping, checked below.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                CHUNK_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            )
        };
        let refused = at == libc::MAP_FAILED;
        let at = NonNull::new(at.cast::<u8>()).filter(|_| !refused);
        let layout = Layout::from_size_align(CHUNK_BYTES, Page::BYTES)
            .expect("invariant: a power of two, and far below isize::MAX");
        Chunk {
            at: at.unwrap_or_else(|| handle_alloc_error(layout)),
            free: u64::MAX,
        }
    }

    fn page(&self, n: u32) -> NonNull<u8> {
        // SAFETY: bits of `free` number the pages of the mapping.
        unsafe { self.at.add(n as usize * Page::BYTES) }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        debug_assert_eq!(self.free, u64::MAX, "M2: a page is in use");
        // SAFETY: the mapping is this chunk's, and no page of it is in use (M2).
        unsafe { libc::munmap(self.at.as_ptr().cast(), CHUNK_BYTES) };
    }
}

/// All chunks.
struct Pool(OsMutex<Table>);

struct Table {
    /// Chunks by number; `None`: the number is free.
    chunks: Vec<Option<Chunk>>,
    numbers: Vec<u32>,
    /// Chunks with a free page.
    open: BTreeSet<u32>,
    /// Of these, how many have no page in use.
    spare: usize,
}

impl Pool {
    const fn new() -> Pool {
        Pool(OsMutex::new(Table {
            chunks: Vec::new(),
            numbers: Vec::new(),
            open: BTreeSet::new(),
            spare: 0,
        }))
    }

    fn take(&self, count: usize) -> Vec<Page> {
        let mut pages = Vec::with_capacity(count);
        loop {
            self.0.lock().take(&mut pages, count);
            if pages.len() == count {
                return pages;
            }
            let new = Chunk::map();
            self.0.lock().add(new);
        }
    }

    fn give(&self, at: NonNull<u8>, chunk: u32) {
        // Unmapped behind the lock.
        let unused = self.0.lock().give(at, chunk);
        drop(unused);
    }
}

impl Table {
    /// Adds free pages to `pages` until it has `count` or there are none.
    fn take(&mut self, pages: &mut Vec<Page>, count: usize) {
        while pages.len() < count
            && let Some(&number) = self.open.first()
        {
            let chunk = chunk(&mut self.chunks, number);
            self.spare -= usize::from(chunk.free == u64::MAX);
            while pages.len() < count && chunk.free != 0 {
                let n = chunk.free.trailing_zeros();
                chunk.free &= chunk.free - 1;
                let at = chunk.page(n);
                pages.push(Page { at, chunk: number });
            }
            if chunk.free == 0 {
                self.open.remove(&number);
            }
        }
    }

    fn add(&mut self, new: Chunk) {
        let number = self.numbers.pop().unwrap_or_else(|| {
            self.chunks.push(None);
            self.chunks.len() as u32 - 1
        });
        self.chunks[number as usize] = Some(new);
        self.open.insert(number);
        self.spare += 1;
    }

    /// Takes a page back. Answers its chunk if that is to be unmapped.
    fn give(&mut self, at: NonNull<u8>, number: u32) -> Option<Chunk> {
        let chunk = chunk(&mut self.chunks, number);
        let n = (at.as_ptr().addr() - chunk.at.as_ptr().addr()) / Page::BYTES;
        assert!(chunk.free & 1 << n == 0, "M1: page {n} was free already");
        if chunk.free == 0 {
            self.open.insert(number);
        }
        chunk.free |= 1 << n;
        if chunk.free != u64::MAX {
            return None;
        }
        if self.spare < SPARE_CHUNKS {
            self.spare += 1;
            return None;
        }
        self.open.remove(&number);
        self.numbers.push(number);
        self.chunks[number as usize].take()
    }
}

fn chunk(chunks: &mut [Option<Chunk>], number: u32) -> &mut Chunk {
    let chunk = chunks[number as usize].as_mut();
    chunk.expect("M2: a chunk with pages in use is there")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::ManuallyDrop;

    /// Pages of a pool of their own: they go back by hand.
    fn take(pool: &Pool, count: usize) -> Vec<ManuallyDrop<Page>> {
        (pool.take(count).into_iter())
            .map(ManuallyDrop::new)
            .collect()
    }
    fn give(pool: &Pool, pages: impl IntoIterator<Item = ManuallyDrop<Page>>) {
        pages.into_iter().for_each(|p| pool.give(p.at, p.chunk));
    }
    /// Chunks that are mapped, and of these how many are spare.
    fn held(pool: &Pool) -> (usize, usize) {
        let table = pool.0.lock();
        let mapped: Vec<&Chunk> = table.chunks.iter().flatten().collect();
        let spare = mapped.iter().filter(|c| c.free == u64::MAX).count();
        assert_eq!(table.spare, spare, "M3 counts");
        let open = mapped.iter().filter(|c| c.free != 0).count();
        assert_eq!(table.open.len(), open);
        (mapped.len(), spare)
    }

    #[test]
    fn pages_are_aligned_and_no_two_share_a_byte() {
        let mut pages = Page::many(3 * CHUNK_PAGES);
        for (n, page) in pages.iter_mut().enumerate() {
            assert!(page.as_ptr().addr().is_multiple_of(Page::BYTES));
            page.fill(n as u8);
        }
        let whole = |n: usize, page: &[u8]| page.iter().all(|&b| b == n as u8);
        assert!(pages.iter().enumerate().all(|(n, p)| whole(n, p)));
        assert!(Page::copy_of(&[7; 4096]).iter().all(|&b| b == 7));
    }

    #[test]
    fn m1_a_page_in_use_is_given_to_nobody_and_a_dropped_one_is_used_again() {
        let pool = Pool::new();
        let mut pages = take(&pool, CHUNK_PAGES);
        assert_eq!(held(&pool), (1, 0));
        let gone = pages.swap_remove(10);
        let place = gone.as_ptr().addr();
        give(&pool, [gone]);
        let again = take(&pool, 1);
        assert_eq!(again[0].as_ptr().addr(), place);
        let other = take(&pool, 1);
        assert_eq!(held(&pool).0, 2, "a page of a full chunk was given twice");
        give(&pool, pages.into_iter().chain(again).chain(other));
        assert_eq!(held(&pool), (2, 2));
    }

    #[test]
    fn m3_chunks_without_a_page_in_use_go_back_but_a_few() {
        let pool = Pool::new();
        let count = 2 * SPARE_CHUNKS;
        let pages = take(&pool, count * CHUNK_PAGES);
        assert_eq!(held(&pool), (count, 0));
        let (kept, gone): (Vec<_>, Vec<_>) = (pages.into_iter().enumerate())
            .partition(|(n, _)| *n == 0 || *n == count * CHUNK_PAGES - 1);
        give(&pool, gone.into_iter().map(|(_, p)| p));
        assert_eq!(held(&pool), (SPARE_CHUNKS + 2, SPARE_CHUNKS));
        let more = take(&pool, count * CHUNK_PAGES);
        assert_eq!(held(&pool).0, count + 1, "M2: numbers are used again");
        assert!(pool.0.lock().chunks.len() <= count + 1);
        give(&pool, kept.into_iter().map(|(_, p)| p).chain(more));
        assert_eq!(held(&pool), (SPARE_CHUNKS, SPARE_CHUNKS));
    }

    #[test]
    fn bytes_of_a_page_hold_it_until_the_last_slice_is_gone() {
        let bytes = Page::copy_of(&[5; 4096]).into_bytes();
        let slice = bytes.slice(100..200);
        drop(bytes);
        let other = Page::many(2 * CHUNK_PAGES);
        let inside = |p: &Page| p.as_ptr_range().contains(&slice.as_ptr());
        assert!(!other.iter().any(inside) && slice.iter().all(|&b| b == 5));
    }

    /// M4.
    #[test]
    fn m4_pages_change_hands_between_worlds_and_threads() {
        let inside = crate::Sim::new(crate::SimConfig::default());
        let pages = inside.run(|| Page::many(100)).value;
        let page = pages.expect("the simulation ended well");
        let thread = std::thread::spawn(move || drop(page));
        thread.join().expect("no panic");
    }
}
