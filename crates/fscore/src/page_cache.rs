//! The page cache: pages of files (4 KiB, or as small as the blocks of the volume), their dirty and write-back state, and a bound on clean pages.
//!
//! The cache never reads, never writes, never waits: it hands dirty runs to the file system and is told what became of them.
//!
//! Invariants:
//! - P1 a page under write-back is neither evicted nor handed out a second time; it may become dirty again, and then its
//!   content is copied, so the device keeps the bytes it was given;
//! - P2 a page whose home is [`Home::Delayed`] is dirty, or under write-back by the task that is finding it a home;
//! - P3 the counters `dirty`, `dirty_meta` and `delayed` equal what a walk over all pages would count.

use base::{BLOCK_BYTES, Bytes, Ino, Map, Time};
use bytes::BytesMut;
use rt::Mutex;
use std::collections::{BTreeMap, BTreeSet};
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

/// Neighbouring dirty pages, now under write-back.
#[derive(Clone, Debug)]
pub struct DirtyRun {
    /// Index of the first page.
    pub first: u64,
    /// Contents, in order.
    pub pages: Vec<Bytes>,
    /// Whether space is reserved for the page of the same position.
    pub delayed: Vec<bool>,
    since: Vec<Time>,
}

impl DirtyRun {
    /// Page indexes of the run.
    pub fn range(&self) -> Range<u64> {
        self.first..self.first + self.pages.len() as u64
    }
}

/// What [`PageCache::take_dirty`] found.
#[derive(Debug)]
pub enum Take {
    /// Nothing dirty in the range.
    Nothing,
    /// The first dirty page of the range is still under its previous write-back; wait for that first.
    Busy(u64),
    /// A run.
    Run(DirtyRun),
}

struct Page {
    data: Bytes,
    home: Home,
    /// When it became dirty.
    dirty: Option<Time>,
    writeback: bool,
    /// Place in the order of use; a key of `State::clean` while the page may be evicted.
    stamp: u64,
}

impl Page {
    fn evictable(&self) -> bool {
        self.dirty.is_none() && !self.writeback
    }
}

#[derive(Default)]
struct File {
    pages: BTreeMap<u64, Page>,
    dirty: BTreeSet<u64>,
    delayed: u64,
    /// Of a directory: somebody else than write-back decides when its pages are written.
    meta: bool,
}

#[derive(Default)]
struct State {
    files: Map<Ino, File>,
    /// Pages that may be evicted, least recently used first.
    clean: BTreeMap<u64, (Ino, u64)>,
    clock: u64,
    total: usize,
    dirty: u64,
    /// Of `dirty`, pages of files that are `meta`.
    dirty_meta: u64,
    /// Files with dirty pages.
    dirty_files: BTreeSet<Ino>,
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

    /// The same with pages of another size, a power of two.
    pub fn with_page_bytes(limit_bytes: usize, page_bytes: usize) -> PageCache {
        PageCache {
            state: Mutex::named("page cache", State::default()),
            limit: (limit_bytes / page_bytes).max(16),
            page_bytes,
        }
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

    /// The content of a page, if it is cached and `wanted` says so; that is asked under the lock under which the page changes, so it must not
    /// call the cache.
    pub fn get_if(&self, ino: Ino, index: u64, wanted: impl FnOnce() -> bool) -> Option<Bytes> {
        let mut state = self.state.lock();
        let page = state.page(ino, index)?;
        wanted().then(|| page.data.clone())
    }

    /// Dirty pages of directories whose content is on the device, where whoever reads it finds it, are clean: those that `wanted` names. It is
    /// asked under the lock under which pages change, so it must not call the cache.
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

    /// Looks at a page without another reference to it (then [`edit`](Self::edit) would have to copy it); `None` if it is not cached.
    /// `look` must not call the cache.
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

    /// Changes part of a page and makes it dirty. `base` is its content if it is not cached; `home` counts if the cache knew
    /// none so far (write-back may have found one since the caller looked).
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

    /// Changes a page of a directory where it lies, and makes it dirty; its home is known. `base` is its content if it is not cached;
    /// answers `None` if that is needed and missing. `change` must not call the cache.
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

    /// Makes a cached page dirty that did not change: it has to move. `meta`: it is a directory's. False if it is not cached.
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

    /// The first run of dirty pages in `range`, at most `max` long, and marks it as under write-back.
    pub fn take_dirty(&self, ino: Ino, range: Range<u64>, max: usize) -> Take {
        let mut state = self.state.lock();
        let Some(file) = state.files.get_mut(&ino) else {
            return Take::Nothing;
        };
        let indexes: Vec<u64> = (file.dirty.range(range).copied())
            .scan(None, |last: &mut Option<u64>, i| {
                let joined = last.is_none_or(|l| l + 1 == i);
                *last = Some(i);
                joined.then_some(i)
            })
            .take(max)
            .collect();
        let mut run: Option<DirtyRun> = None;
        for index in indexes {
            let page = file.pages.get_mut(&index).expect("P3: dirty pages exist");
            if page.writeback {
                if run.is_none() {
                    return Take::Busy(index);
                }
                break;
            }
            let since = page.dirty.take().expect("P3: listed as dirty");
            page.writeback = true;
            file.dirty.remove(&index);
            let run = run.get_or_insert_with(|| DirtyRun {
                first: index,
                pages: Vec::new(),
                delayed: Vec::new(),
                since: Vec::new(),
            });
            run.pages.push(page.data.clone());
            run.delayed.push(page.home == Home::Delayed);
            run.since.push(since);
        }
        let Some(run) = run else {
            return Take::Nothing;
        };
        let taken = run.pages.len() as u64;
        let meta = file.meta;
        state.dirty -= taken;
        state.dirty_meta -= if meta { taken } else { 0 };
        state.settle(ino);
        Take::Run(run)
    }

    /// These pages of a run have a written home now; answers how many of them were delayed.
    pub fn mapped(&self, ino: Ino, range: Range<u64>) -> u64 {
        let mut state = self.state.lock();
        let Some(file) = state.files.get_mut(&ino) else {
            return 0;
        };
        let mut were = 0;
        for (_, page) in file.pages.range_mut(range) {
            were += u64::from(page.home == Home::Delayed);
            page.home = Home::Known;
        }
        file.delayed -= were;
        were
    }

    /// The write-back of these pages is over.
    pub fn written(&self, ino: Ino, range: Range<u64>) {
        let mut state = self.state.lock();
        let Some(file) = state.files.get_mut(&ino) else {
            return;
        };
        let mut clean = Vec::new();
        for (&index, page) in file.pages.range_mut(range) {
            page.writeback = false;
            if page.evictable() {
                clean.push((page.stamp, index));
            }
        }
        for (stamp, index) in clean {
            state.clean.insert(stamp, (ino, index));
        }
        state.forget_if_empty(ino);
        state.evict(self.limit);
    }

    /// The pages of `run` from position `from` on could not be written: dirty as before.
    pub fn give_back(&self, ino: Ino, run: &DirtyRun, from: usize) {
        let mut state = self.state.lock();
        let (mut again, mut meta) = (0, false);
        if let Some(file) = state.files.get_mut(&ino) {
            meta = file.meta;
            for (i, &since) in run.since.iter().enumerate().skip(from) {
                let index = run.first + i as u64;
                let Some(page) = file.pages.get_mut(&index) else {
                    continue;
                };
                page.writeback = false;
                if page.dirty.replace(since).is_none() {
                    again += 1;
                    file.dirty.insert(index);
                }
            }
        }
        state.dirty += again;
        state.dirty_meta += if meta { again } else { 0 };
        state.settle(ino);
    }

    /// The write-back of these pages failed: dirty again, from now on.
    pub fn unwritten(&self, ino: Ino, range: Range<u64>) {
        let mut state = self.state.lock();
        let Some(file) = state.files.get_mut(&ino) else {
            return;
        };
        let mut failed = Vec::new();
        for (&index, page) in file.pages.range_mut(range) {
            if std::mem::take(&mut page.writeback) {
                failed.push(index);
            }
        }
        for index in failed {
            state.soil(ino, index);
        }
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

    /// The first dirty page of a file in `range`.
    pub fn next_dirty(&self, ino: Ino, range: Range<u64>) -> Option<u64> {
        let state = self.state.lock();
        state.files.get(&ino)?.dirty.range(range).next().copied()
    }

    /// True if the file has dirty pages.
    pub fn is_dirty(&self, ino: Ino) -> bool {
        self.state.lock().dirty_files.contains(&ino)
    }

    /// Dirty pages of a file, and the runs of neighbours that they form.
    pub fn dirty_runs(&self, ino: Ino) -> (u64, u64) {
        let state = self.state.lock();
        let Some(file) = state.files.get(&ino) else {
            return (0, 0);
        };
        let (mut runs, mut next) = (0, None);
        for &index in &file.dirty {
            runs += u64::from(next != Some(index));
            next = Some(index + 1);
        }
        (file.dirty.len() as u64, runs)
    }

    /// Where the first `max` dirty pages of a file lie; `None` if it has not as many.
    pub fn dirty_front(&self, ino: Ino, max: usize) -> Option<Range<u64>> {
        let state = self.state.lock();
        let dirty = &state.files.get(&ino)?.dirty;
        let last = dirty.iter().nth(max.checked_sub(1)?)?;
        Some(*dirty.first()?..last + 1)
    }

    /// True if some file has at least so many dirty pages.
    pub fn has_dirty_file_of(&self, pages: usize) -> bool {
        let state = self.state.lock();
        let mut files = state.dirty_files.iter();
        files.any(|ino| state.files[ino].dirty.len() >= pages)
    }

    /// Delayed pages of a file.
    pub fn delayed(&self, ino: Ino) -> u64 {
        self.state.lock().files.get(&ino).map_or(0, |f| f.delayed)
    }

    /// Dirty pages of all files.
    pub fn dirty_pages(&self) -> u64 {
        self.state.lock().dirty
    }

    /// Of those, pages of directories (see [`edit`](Self::edit)).
    pub fn dirty_meta_pages(&self) -> u64 {
        self.state.lock().dirty_meta
    }

    /// Directories with dirty pages, by number.
    pub fn dirty_meta_files(&self) -> Vec<Ino> {
        let state = self.state.lock();
        let files = state.dirty_files.iter().copied();
        files.filter(|ino| state.files[ino].meta).collect()
    }

    /// Files with a page that became dirty before `older_than`, by number.
    pub fn dirty_files(&self, older_than: Option<Time>) -> Vec<Ino> {
        let state = self.state.lock();
        let old = |ino: &Ino| {
            let file = &state.files[ino];
            let mut since = file.dirty.iter().filter_map(|i| file.pages[i].dirty);
            older_than.is_none_or(|limit| since.any(|t| t < limit))
        };
        state.dirty_files.iter().copied().filter(old).collect()
    }

    /// Checks P3 and that every clean page can be found for eviction.
    ///
    /// # Panics
    /// If not.
    pub fn check(&self) {
        let state = self.state.lock();
        let (mut total, mut dirty, mut meta, mut clean) = (0, 0, 0, 0);
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
                state.clean.len()
            ),
            (total, dirty, meta, clean),
            "P3: totals"
        );
    }
}

/// Overwrites part of a page; copies it if somebody else holds its bytes (P1).
fn modify(page: &mut Bytes, at: usize, data: &[u8]) {
    if data.len() == page.len() {
        *page = Bytes::copy_from_slice(data);
        return;
    }
    change_bytes(page, |bytes| {
        bytes[at..at + data.len()].copy_from_slice(data);
    });
}

/// Changes a page; copies it if somebody else holds its bytes (P1).
fn change_bytes<R>(page: &mut Bytes, change: impl FnOnce(&mut [u8]) -> R) -> R {
    let mut bytes = match std::mem::take(page).try_into_mut() {
        Ok(own) => own,
        Err(shared) => BytesMut::from(&shared[..]),
    };
    let answer = change(&mut bytes);
    *page = bytes.freeze();
    answer
}

impl State {
    fn page(&mut self, ino: Ino, index: u64) -> Option<&mut Page> {
        self.files.get_mut(&ino)?.pages.get_mut(&index)
    }

    fn insert(&mut self, ino: Ino, index: u64, data: Bytes, home: Home) {
        self.clock += 1;
        let page = Page {
            data,
            home,
            dirty: None,
            writeback: false,
            stamp: self.clock,
        };
        let file = self.files.entry(ino).or_default();
        file.delayed += u64::from(home == Home::Delayed);
        file.pages.insert(index, page);
        self.clean.insert(self.clock, (ino, index));
        self.total += 1;
    }

    /// Makes a cached page dirty.
    fn soil(&mut self, ino: Ino, index: u64) {
        let file = self.files.get_mut(&ino).expect("the page is cached");
        let page = file.pages.get_mut(&index).expect("the page is cached");
        if page.dirty.is_some() {
            return;
        }
        page.dirty = Some(rt::now());
        self.clean.remove(&page.stamp);
        self.dirty += 1;
        self.dirty_meta += u64::from(file.meta);
        if file.dirty.is_empty() {
            self.dirty_files.insert(ino);
        }
        file.dirty.insert(index);
    }

    fn make_meta(&mut self, ino: Ino) {
        let file = self.files.entry(ino).or_default();
        if !std::mem::replace(&mut file.meta, true) {
            self.dirty_meta += file.dirty.len() as u64;
        }
    }

    fn touch(&mut self, ino: Ino, index: u64) {
        self.clock += 1;
        let stamp = self.clock;
        let Some(page) = self.page(ino, index) else {
            return;
        };
        let old = std::mem::replace(&mut page.stamp, stamp);
        if self.clean.remove(&old).is_some() {
            self.clean.insert(stamp, (ino, index));
        }
    }

    fn remove(&mut self, ino: Ino, index: u64) {
        let Some(file) = self.files.get_mut(&ino) else {
            return;
        };
        let Some(page) = file.pages.remove(&index) else {
            return;
        };
        assert!(
            !page.writeback,
            "P1: page {index} of inode {ino} is dropped under write-back"
        );
        file.delayed -= u64::from(page.home == Home::Delayed);
        let was_dirty = u64::from(file.dirty.remove(&index));
        self.dirty -= was_dirty;
        self.dirty_meta -= if file.meta { was_dirty } else { 0 };
        self.clean.remove(&page.stamp);
        self.total -= 1;
    }

    /// Puts the file on or off the list of dirty files.
    fn settle(&mut self, ino: Ino) {
        if self.files.get(&ino).is_some_and(|f| !f.dirty.is_empty()) {
            self.dirty_files.insert(ino);
        } else {
            self.dirty_files.remove(&ino);
        }
    }

    fn forget_if_empty(&mut self, ino: Ino) {
        if self.files.get(&ino).is_some_and(|f| f.pages.is_empty()) {
            self.files.remove(&ino);
        }
    }

    fn evict(&mut self, limit: usize) {
        while self.total > limit {
            let Some((_, (ino, index))) = self.clean.pop_first() else {
                return;
            };
            self.remove(ino, index);
            self.forget_if_empty(ino);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
