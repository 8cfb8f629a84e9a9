//! Hands dirty pages out for write-back, and takes back how their writes ended.

use super::{Home, PageCache};
use base::{Bytes, Ino, Time};
use std::ops::Range;

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
    /// The first dirty page of the range is still under its previous write-back; wait for that
    /// first.
    Busy(u64),
    /// A run.
    Run(DirtyRun),
}

impl PageCache {
    /// The first run of dirty pages in `range`, at most `max` long, and marks it as under
    /// write-back.
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
        let mut busy = 0;
        for index in indexes {
            let page = file
                .pages
                .get_mut(&index)
                .expect("page_cache-P3: dirty pages exist");
            if page.writeback {
                if run.is_none() {
                    return Take::Busy(index);
                }
                break;
            }
            let since = page.dirty.take().expect("page_cache-P3: listed as dirty");
            page.writeback = true;
            busy += 1;
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
        state.busy += busy;
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
        let (mut clean, mut ended) = (Vec::new(), 0);
        for (&index, page) in file.pages.range_mut(range) {
            ended += u64::from(std::mem::take(&mut page.writeback));
            if page.evictable() {
                clean.push((page.stamp, index));
            }
        }
        state.busy -= ended;
        for (stamp, index) in clean {
            state.clean.insert(stamp, (ino, index));
        }
        state.forget_if_empty(ino);
        state.evict(self.limit);
    }

    /// The pages of `run` from position `from` on could not be written: dirty as before.
    pub fn give_back(&self, ino: Ino, run: &DirtyRun, from: usize) {
        let mut state = self.state.lock();
        let (mut again, mut ended, mut meta) = (0, 0, false);
        if let Some(file) = state.files.get_mut(&ino) {
            meta = file.meta;
            for (i, &since) in run.since.iter().enumerate().skip(from) {
                let index = run.first + i as u64;
                let Some(page) = file.pages.get_mut(&index) else {
                    continue;
                };
                ended += u64::from(std::mem::take(&mut page.writeback));
                if page.dirty.replace(since).is_none() {
                    again += 1;
                    file.dirty.insert(index);
                }
            }
        }
        state.busy -= ended;
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
        state.busy -= failed.len() as u64;
        for index in failed {
            state.soil(ino, index);
        }
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

    /// Pages of all files on their way to the device. Together with the dirty ones these are the
    /// pages that cannot be evicted.
    pub fn busy_pages(&self) -> u64 {
        self.state.lock().busy
    }

    /// Of the dirty pages, those of directories (see [`edit`](Self::edit)).
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
}
