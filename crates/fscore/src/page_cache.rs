//! The page cache: pages of files (4 KiB, or as small as the blocks of the volume), their dirty and
//! write-back state, and a bound on clean pages.
//!
//! The cache never reads, never writes, never waits: it hands dirty runs to the file system and is
//! told how their writes ended.
//!
//! Pages of 4 KiB that are written whole lie in [`rt::Page`]s, which direct I/O uses in place. When
//! a part of a page is changed and the page lies in an [`rt::Page`] or is also held by another
//! holder, it is first copied to memory of its own, and from then on changed in place.
//!
//! Invariants:
//! - P1 a page under write-back is neither evicted nor handed out a second time; it may become
//!   dirty again, and then its content is copied, so the device keeps the bytes it was given;
//! - P2 a page whose home is [`Home::Delayed`] is dirty, or under write-back by the task that is
//!   finding it a home;
//! - P3 the counters `dirty`, `dirty_meta`, `busy` and `delayed` equal what a walk over all pages
//!   would count.

mod state;
mod writeback;

pub use writeback::{DirtyRun, Take};

use base::{BLOCK_BYTES, Bytes, Ino};
use rt::Mutex;
use state::{Page, State, change_bytes, copies, modify};
use std::collections::BTreeSet;
use std::ops::Range;

/// What the file system knows of the place of a page on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Home {
    /// Nothing is known: look it up before writing.
    Unknown,
    /// A block is mapped and written.
    Known,
    /// No block yet, but space for one is reserved.
    Delayed,
}

/// One page as the cache sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageState {
    /// Its place.
    pub home: Home,
    /// Changed since it was last handed out.
    pub dirty: bool,
    /// On its way to the device.
    pub writeback: bool,
}

/// The page cache of one mounted file system.
pub struct PageCache {
    state: Mutex<State>,
    limit: usize,
    page_bytes: usize,
}

impl PageCache {
    /// A cache that evicts clean pages beyond `limit_bytes` (at least 16 pages).
    pub fn new(limit_bytes: usize) -> PageCache {
        PageCache::with_page_bytes(limit_bytes, BLOCK_BYTES)
    }

    /// A cache with pages of another size, a power of two.
    pub fn with_page_bytes(limit_bytes: usize, page_bytes: usize) -> PageCache {
        PageCache {
            state: Mutex::named("page cache", State::default()),
            limit: (limit_bytes / page_bytes).max(16),
            page_bytes,
        }
    }
    /// Bytes of a page, which is a block of the volume.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Most pages before clean ones are evicted.
    pub fn limit_pages(&self) -> u64 {
        self.limit as u64
    }

    /// Pages in memory.
    pub fn cached_pages(&self) -> u64 {
        self.state.lock().total as u64
    }

    /// The content of a page, if it is cached.
    pub fn get(&self, ino: Ino, index: u64) -> Option<Bytes> {
        let mut state = self.state.lock();
        let data = state.page(ino, index)?.data.clone();
        state.touch(ino, index);
        Some(data)
    }

    /// The content of a page, if it is cached and `wanted` says so. `wanted` is called under the
    /// lock under which the page changes, so it must not call the cache.
    pub fn get_if(&self, ino: Ino, index: u64, wanted: impl FnOnce() -> bool) -> Option<Bytes> {
        let mut state = self.state.lock();
        let page = state.page(ino, index)?;
        wanted().then(|| page.data.clone())
    }

    /// Marks dirty pages of directories clean that `wanted` names: their content is on the device,
    /// where a reader finds it. `wanted` is called under the lock under which pages change, so it
    /// must not call the cache.
    pub fn settle_meta(&self, mut wanted: impl FnMut(Ino, u64) -> bool) {
        let mut state = self.state.lock();
        let dirs = state.dirty_files.iter().copied();
        let dirs: Vec<Ino> = dirs.filter(|ino| state.files[ino].meta).collect();
        for ino in dirs {
            let file = state.files.get_mut(&ino).expect("it has dirty pages");
            let clean: Vec<u64> = file
                .dirty
                .iter()
                .copied()
                .filter(|&i| wanted(ino, i))
                .collect();
            let mut evictable = Vec::new();
            for index in &clean {
                file.dirty.remove(index);
                let page = file.pages.get_mut(index).expect("P3: dirty pages exist");
                page.dirty = None;
                if page.evictable() {
                    evictable.push((page.stamp, (ino, *index)));
                }
            }
            state.clean.extend(evictable);
            state.dirty -= clean.len() as u64;
            state.dirty_meta -= clean.len() as u64;
            state.settle(ino);
        }
        state.evict(self.limit);
    }

    /// The state of a page, if it is cached.
    pub fn state(&self, ino: Ino, index: u64) -> Option<PageState> {
        let mut state = self.state.lock();
        let page = state.page(ino, index)?;
        Some(PageState {
            home: page.home,
            dirty: page.dirty.is_some(),
            writeback: page.writeback,
        })
    }

    /// Looks at a page without another reference to it (then [`edit`](Self::edit) would have to
    /// copy it); `None` if it is not cached. `look` must not call the cache.
    pub fn look<R>(&self, ino: Ino, index: u64, look: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let state = self.state.lock();
        Some(look(&state.files.get(&ino)?.pages.get(&index)?.data))
    }

    /// Adds what was read from the device; a page that is cached already stays as it is.
    pub fn fill(&self, ino: Ino, index: u64, data: Bytes, home: Home) {
        debug_assert_eq!(data.len(), self.page_bytes, "pages are whole");
        let mut state = self.state.lock();
        if state.page(ino, index).is_none() {
            state.insert(ino, index, data, home);
            state.evict(self.limit);
        }
    }

    /// Changes part of a page and makes it dirty. `base` is its content if it is not cached; `home`
    /// counts if the cache knew none so far (write-back may have found one since the caller
    /// looked).
    ///
    /// # Panics
    /// If `at + data.len()` exceeds the page.
    pub fn write(&self, ino: Ino, index: u64, at: usize, data: &[u8], base: &Bytes, home: Home) {
        let mut state = self.state.lock();
        if state.page(ino, index).is_none() {
            state.insert(ino, index, base.clone(), home);
        }
        state.touch(ino, index);
        let file = state.files.entry(ino).or_default();
        let page = file.pages.get_mut(&index).expect("inserted above");
        modify(&mut page.data, at, data);
        if page.home == Home::Unknown {
            page.home = home;
            file.delayed += u64::from(home == Home::Delayed);
        }
        state.soil(ino, index);
        state.evict(self.limit);
    }

    /// Whole pages that are not cached, dirty from now on: as many as `data` has. `home` counts for
    /// all of them.
    ///
    /// # Panics
    /// If `data` is no number of whole pages, or if one of them is cached.
    pub fn write_new(&self, ino: Ino, first: u64, data: &[u8], home: Home) {
        assert!(
            data.len().is_multiple_of(self.page_bytes),
            "pages are whole"
        );
        // Copied before anything is locked: others shall not wait for that.
        let pages = copies(data, self.page_bytes);
        let mut state = self.state.lock();
        state.insert_dirty(ino, first, pages, home);
        state.evict(self.limit);
    }

    /// The first page of `range` that is cached.
    pub fn next_cached(&self, ino: Ino, range: Range<u64>) -> Option<u64> {
        let state = self.state.lock();
        let mut pages = state.files.get(&ino)?.pages.range(range);
        pages.next().map(|(&index, _)| index)
    }

    /// The contents of the pages from the front of `range` on that are cached, up to the first that
    /// is not.
    pub fn get_front(&self, ino: Ino, range: Range<u64>) -> Vec<Bytes> {
        let mut state = self.state.lock();
        state.use_front(ino, range)
    }

    /// Adds what was read from the device, page by page from `first` on; pages that are cached
    /// already stay as they are.
    pub fn fill_run(&self, ino: Ino, first: u64, pages: Vec<Bytes>, home: Home) {
        let mut state = self.state.lock();
        for (index, data) in (first..).zip(pages) {
            debug_assert_eq!(data.len(), self.page_bytes, "pages are whole");
            if state.page(ino, index).is_none() {
                state.insert(ino, index, data, home);
            }
        }
        state.evict(self.limit);
    }

    /// Changes a page of a directory where it lies, and makes it dirty; its home is known. `base`
    /// is its content if it is not cached; answers `None` if that is needed and missing. `change`
    /// must not call the cache.
    ///
    /// Pages of such files count in [`dirty_meta_pages`](Self::dirty_meta_pages).
    pub fn edit<R>(
        &self,
        ino: Ino,
        index: u64,
        base: Option<&Bytes>,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> Option<R> {
        let mut state = self.state.lock();
        if state.page(ino, index).is_none() {
            state.insert(ino, index, base?.clone(), Home::Known);
        }
        state.make_meta(ino);
        let page = state.page(ino, index).expect("inserted above");
        let answer = change_bytes(&mut page.data, change);
        if page.dirty.is_none() {
            state.touch(ino, index);
            state.soil(ino, index);
            state.evict(self.limit);
        }
        Some(answer)
    }

    /// Makes a cached page dirty that did not change: it has to move. `meta`: it is a directory's.
    /// False if it is not cached.
    pub fn make_dirty(&self, ino: Ino, index: u64, meta: bool) -> bool {
        let mut state = self.state.lock();
        if state.page(ino, index).is_none() {
            return false;
        }
        if meta {
            state.make_meta(ino);
        }
        state.soil(ino, index);
        true
    }

    /// Drops the pages of `range`; answers how many delayed ones were among them.
    ///
    /// # Panics
    /// If one of them is under write-back.
    pub fn drop_range(&self, ino: Ino, range: Range<u64>) -> u64 {
        let mut state = self.state.lock();
        let Some(file) = state.files.get_mut(&ino) else {
            return 0;
        };
        let indexes: Vec<u64> = file.pages.range(range).map(|(&i, _)| i).collect();
        let delayed_before = file.delayed;
        for index in indexes {
            state.remove(ino, index);
        }
        let delayed_after = state.files.get(&ino).map_or(0, |f| f.delayed);
        state.settle(ino);
        state.forget_if_empty(ino);
        delayed_before - delayed_after
    }

    /// Drops all clean pages (Linux: `echo 1 > /proc/sys/vm/drop_caches`); answers how many.
    pub fn drop_clean(&self) -> u64 {
        let mut state = self.state.lock();
        let before = state.total;
        state.evict(0);
        (before - state.total) as u64
    }

    /// True if a page of `range` is under write-back.
    pub fn is_busy(&self, ino: Ino, range: Range<u64>) -> bool {
        let state = self.state.lock();
        let file = state.files.get(&ino);
        file.is_some_and(|f| f.pages.range(range).any(|(_, p)| p.writeback))
    }

    /// Checks P3 and that every clean page can be found for eviction.
    ///
    /// # Panics
    /// If not.
    pub fn check(&self) {
        let state = self.state.lock();
        let (mut total, mut dirty, mut meta, mut clean) = (0, 0, 0, 0);
        let mut busy = 0;
        for ino in state.files.keys().copied().collect::<BTreeSet<Ino>>() {
            let file = &state.files[&ino];
            let count = |f: fn(&Page) -> bool| file.pages.values().filter(|p| f(p)).count();
            total += file.pages.len();
            dirty += file.dirty.len() as u64;
            meta += if file.meta {
                file.dirty.len() as u64
            } else {
                0
            };
            clean += count(Page::evictable);
            busy += count(|p| p.writeback) as u64;
            assert_eq!(count(|p| p.dirty.is_some()), file.dirty.len(), "P3: dirty");
            let delayed = count(|p| p.home == Home::Delayed) as u64;
            assert_eq!(delayed, file.delayed, "P3: delayed");
            let homeless = count(|p| p.home == Home::Delayed && p.evictable());
            assert_eq!(homeless, 0, "P2: a delayed page is clean");
        }
        assert_eq!(
            (
                state.total,
                state.dirty,
                state.dirty_meta,
                state.busy,
                state.clean.len()
            ),
            (total, dirty, meta, busy, clean),
            "P3: totals"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Time;

    const F: Ino = Ino(12);

    fn zeros() -> Bytes {
        Bytes::from(vec![0; BLOCK_BYTES])
    }
    fn run(cache: &PageCache, range: Range<u64>) -> DirtyRun {
        match cache.take_dirty(F, range, 64) {
            Take::Run(run) => run,
            other => panic!("expected a run, got {other:?}"),
        }
    }

    #[test]
    fn a_run_stops_at_a_gap() {
        let cache = PageCache::new(1 << 20);
        for i in [1, 2, 4] {
            cache.write(F, i, 0, b"x", &zeros(), Home::Delayed);
        }
        let first = run(&cache, 0..u64::MAX);
        assert_eq!(first.range(), 1..3);
        assert_eq!(first.delayed, [true, true]);
        assert_eq!(cache.mapped(F, 1..3), 2);
        assert_eq!(run(&cache, 0..u64::MAX).range(), 4..5);
        assert!(matches!(cache.take_dirty(F, 0..9, 9), Take::Nothing));
        assert!(!cache.is_dirty(F) && cache.is_busy(F, 0..9));
        cache.written(F, 1..5);
        cache.mapped(F, 4..5);
        cache.check();
    }

    #[test]
    fn pages_of_directories_settle_when_somebody_else_wrote_them() {
        let cache = PageCache::new(1 << 20);
        for i in 0..4 {
            cache.edit(F, i, Some(&zeros()), |page| page[0] = i as u8 + 1);
        }
        cache.write(Ino(9), 0, 0, b"x", &zeros(), Home::Known);
        assert!(cache.get_if(F, 2, || false).is_none());
        assert_eq!(cache.get_if(F, 2, || true).expect("cached")[0], 3);
        cache.settle_meta(|ino, index| {
            assert_eq!(ino, F, "a file is none of its business");
            index != 1
        });
        cache.check();
        assert_eq!((cache.dirty_meta_pages(), cache.dirty_pages()), (1, 2));
        cache.settle_meta(|_, _| true);
        cache.check();
        assert!(!cache.is_dirty(F) && cache.is_dirty(Ino(9)));
        assert_eq!(cache.get(F, 1).expect("still cached")[0], 2);
    }

    #[test]
    fn p1_a_page_under_write_back_is_not_taken_twice_and_keeps_its_bytes() {
        let cache = PageCache::new(1 << 20);
        cache.write(F, 0, 0, b"old", &zeros(), Home::Known);
        let out = run(&cache, 0..1);
        cache.write(F, 0, 0, b"new", &zeros(), Home::Known);
        assert_eq!(&out.pages[0][..3], b"old");
        assert_eq!(&cache.get(F, 0).expect("cached")[..3], b"new");
        assert!(matches!(cache.take_dirty(F, 0..1, 1), Take::Busy(0)));
        cache.written(F, 0..1);
        assert_eq!(&run(&cache, 0..1).pages[0][..3], b"new");
    }

    #[test]
    fn the_front_of_a_file_is_as_many_dirty_pages_as_asked_for() {
        let cache = PageCache::new(1 << 20);
        assert_eq!(cache.dirty_front(F, 1), None);
        for i in [3, 5, 9] {
            cache.write(F, i, 0, b"x", &zeros(), Home::Known);
        }
        assert_eq!(cache.dirty_front(F, 2), Some(3..6));
        assert_eq!(cache.dirty_front(F, 3), Some(3..10));
        assert_eq!(
            (cache.dirty_front(F, 4), cache.dirty_front(F, 0)),
            (None, None)
        );
        assert!(cache.has_dirty_file_of(3) && !cache.has_dirty_file_of(4));
        let taken = run(&cache, 0..6);
        assert_eq!(taken.range(), 3..4);
        assert!(!cache.has_dirty_file_of(3));
        assert_eq!(cache.dirty_front(F, 2), Some(5..10));
        cache.written(F, taken.range());
    }

    #[test]
    fn new_pages_are_dirty_at_once_and_found_from_the_front() {
        let cache = PageCache::new(16 * BLOCK_BYTES);
        let data: Vec<u8> = (0..20u8).flat_map(|n| [n; BLOCK_BYTES]).collect();
        cache.write_new(F, 3, &data, Home::Delayed);
        assert_eq!((cache.dirty_pages(), cache.delayed(F)), (20, 20));
        assert_eq!(cache.cached_pages(), 20, "dirty pages stay");
        assert_eq!(cache.next_cached(F, 0..2), None);
        assert_eq!(cache.next_cached(F, 0..9), Some(3));
        assert!(cache.get_front(F, 2..9).is_empty());
        let found = cache.get_front(F, 21..30);
        assert_eq!(found.iter().map(|p| p[0]).collect::<Vec<_>>(), [18, 19]);
        let out = run(&cache, 0..99);
        assert_eq!((cache.busy_pages(), out.pages.len()), (20, 20));
        cache.mapped(F, out.range());
        cache.written(F, out.range());
        assert_eq!((cache.busy_pages(), cache.cached_pages()), (0, 16));
        let pages = vec![zeros(), zeros()];
        cache.fill_run(F, 22, pages, Home::Known);
        assert_eq!(cache.get(F, 22).expect("cached")[0], 19, "stays as it is");
        assert_eq!(cache.get(F, 23).expect("new")[0], 0);
        cache.check();
    }

    #[test]
    fn pages_written_whole_suit_direct_io_and_one_that_changes_often_is_copied_once() {
        let cache = PageCache::new(1 << 20);
        cache.write_new(F, 0, &[1; 3 * BLOCK_BYTES], Home::Known);
        cache.write(F, 3, 0, &[2; BLOCK_BYTES], &zeros(), Home::Known);
        let address = |index| cache.look(F, index, |p| p.as_ptr().addr()).expect("cached");
        assert!((0..4).all(|i| address(i).is_multiple_of(rt::Page::BYTES)));
        cache.write(F, 1, 7, b"a", &zeros(), Home::Known);
        let own = address(1);
        for n in 0..100 {
            cache.write(F, 1, 8 + n, b"b", &zeros(), Home::Known);
        }
        assert_eq!(address(1), own, "copied again");
        let held = cache.get(F, 1).expect("cached");
        cache.write(F, 1, 7, b"c", &zeros(), Home::Known);
        assert_eq!((held[6], held[7], held[8]), (1, b'a', b'b'), "P1");
        assert_eq!(cache.look(F, 1, |p| (p[7], p[107])), Some((b'c', b'b')));
    }

    #[test]
    fn p1_a_page_under_write_back_is_copied_even_if_all_of_it_changes() {
        let cache = PageCache::new(1 << 20);
        cache.write_new(F, 0, &[1; 2 * BLOCK_BYTES], Home::Known);
        let out = run(&cache, 0..9);
        cache.write(F, 0, 0, &[2; BLOCK_BYTES], &zeros(), Home::Known);
        cache.write(F, 1, 1, &[2], &zeros(), Home::Known);
        assert_eq!((out.pages[0][0], out.pages[1][1]), (1, 1));
        cache.written(F, out.range());
        cache.drop_range(F, 0..9);
        let new = rt::Page::copy_of(&[3; BLOCK_BYTES]);
        assert_eq!((out.pages[0][0], out.pages[1][1], new[0]), (1, 1, 3));
    }

    #[test]
    #[should_panic(expected = "is cached")]
    fn a_cached_page_is_not_new() {
        let cache = PageCache::new(1 << 20);
        cache.write(F, 1, 0, b"d", &zeros(), Home::Known);
        cache.write_new(F, 0, &[0; 2 * BLOCK_BYTES], Home::Known);
    }

    #[test]
    fn only_clean_pages_are_evicted() {
        let cache = PageCache::new(16 * BLOCK_BYTES);
        for i in 0..16 {
            cache.write(F, i, 0, b"d", &zeros(), Home::Known);
        }
        for i in 16..40 {
            cache.fill(F, i, zeros(), Home::Known);
        }
        assert_eq!(cache.dirty_pages(), 16);
        assert!((0..16).all(|i| cache.get(F, i).is_some()));
        assert!((16..40).all(|i| cache.get(F, i).is_none()));
        let taken = run(&cache, 0..99);
        cache.written(F, taken.range());
        cache.fill(F, 99, zeros(), Home::Known);
        assert!(cache.get(F, 0).is_none(), "the oldest clean page goes");
        cache.check();
    }

    #[test]
    fn all_clean_pages_go_at_once_and_dirty_ones_stay() {
        let cache = PageCache::new(1 << 20);
        for index in 0..5 {
            cache.fill(F, index, zeros(), Home::Known);
        }
        cache.write(F, 2, 0, b"new", &zeros(), Home::Known);
        assert_eq!(cache.drop_clean(), 4);
        let kept = (0..5).filter(|&i| cache.state(F, i).is_some());
        assert_eq!(kept.collect::<Vec<_>>(), [2]);
        cache.check();
    }

    #[test]
    fn give_back_and_drop_count_right() {
        let cache = PageCache::new(1 << 20);
        for i in 0..4 {
            cache.write(F, i, 0, b"d", &zeros(), Home::Delayed);
        }
        let taken = run(&cache, 0..9);
        cache.mapped(F, 0..2);
        cache.written(F, 0..2);
        cache.give_back(F, &taken, 2);
        assert_eq!((cache.dirty_pages(), cache.delayed(F)), (2, 2));
        assert_eq!(cache.drop_range(F, 1..3), 1);
        assert_eq!((cache.dirty_pages(), cache.delayed(F)), (1, 1));
        cache.check();
    }

    #[test]
    fn pages_of_directories_are_edited_in_place_and_counted_apart() {
        let cache = PageCache::new(1 << 20);
        assert_eq!(cache.edit(F, 3, None, |_| ()), None);
        cache.write(Ino(13), 0, 0, b"d", &zeros(), Home::Known);
        let base = zeros();
        assert_eq!(cache.edit(F, 3, Some(&base), |p| p[7] = 1), Some(()));
        let at = cache.look(F, 3, |p| p.as_ptr() as usize);
        cache.edit(F, 3, None, |p| p[8] = 2);
        assert_eq!(cache.look(F, 3, |p| p.as_ptr() as usize), at, "copied");
        assert_eq!((cache.dirty_pages(), cache.dirty_meta_pages()), (2, 1));
        assert_eq!(cache.dirty_meta_files(), [F]);
        assert_eq!(base[7], 0, "the base is the caller's");
        let out = run(&cache, 0..9);
        assert_eq!(cache.dirty_meta_pages(), 0);
        cache.edit(F, 3, None, |p| p[7] = 9);
        assert_eq!((out.pages[0][7], out.pages[0][8]), (1, 2), "P1");
        cache.written(F, out.range());
        cache.check();
        cache.drop_range(F, 0..9);
        assert_eq!((cache.dirty_pages(), cache.dirty_meta_pages()), (1, 0));
        cache.check();
    }

    #[test]
    fn what_could_not_be_written_is_dirty_again() {
        let cache = PageCache::new(1 << 20);
        for i in 0..3 {
            cache.write(F, i, 0, b"d", &zeros(), Home::Known);
        }
        let out = run(&cache, 0..2);
        cache.unwritten(F, out.range());
        assert!(!cache.is_busy(F, 0..9));
        assert_eq!(cache.dirty_runs(F), (3, 1));
        cache.check();
        let out = run(&cache, 0..3);
        cache.written(F, out.range());
        assert!(cache.make_dirty(F, 1, false) && !cache.make_dirty(F, 7, false));
        assert_eq!(cache.dirty_runs(F), (1, 1));
        cache.check();
    }

    #[test]
    #[should_panic(expected = "P1")]
    fn p1_dropping_under_write_back_is_a_bug() {
        let cache = PageCache::new(1 << 20);
        cache.write(F, 0, 0, b"d", &zeros(), Home::Known);
        let _ = run(&cache, 0..1);
        cache.drop_range(F, 0..1);
    }

    #[test]
    fn old_files_are_found_by_age() {
        let cache = PageCache::new(1 << 20);
        cache.write(F, 0, 0, b"d", &zeros(), Home::Known);
        assert_eq!(cache.dirty_files(Some(Time(0))), []);
        assert_eq!(cache.dirty_files(None), [F]);
    }
}
