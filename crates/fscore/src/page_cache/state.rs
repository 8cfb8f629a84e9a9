//! Pages and counters under the lock of the page cache.

use super::Home;
use base::{Bytes, Ino, Map, Time};
use bytes::BytesMut;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

pub(super) struct Page {
    pub(super) data: Bytes,
    pub(super) home: Home,
    /// When it became dirty.
    pub(super) dirty: Option<Time>,
    pub(super) writeback: bool,
    /// Place in the order of use; a key of `State::clean` while the page may be evicted.
    pub(super) stamp: u64,
}

impl Page {
    pub(super) fn evictable(&self) -> bool {
        self.dirty.is_none() && !self.writeback
    }
}

#[derive(Default)]
pub(super) struct File {
    pub(super) pages: BTreeMap<u64, Page>,
    pub(super) dirty: BTreeSet<u64>,
    pub(super) delayed: u64,
    /// Of a directory: the file system, not write-back, decides when its pages are written.
    pub(super) meta: bool,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) files: Map<Ino, File>,
    /// Pages that may be evicted, least recently used first.
    pub(super) clean: BTreeMap<u64, (Ino, u64)>,
    pub(super) clock: u64,
    pub(super) total: usize,
    pub(super) dirty: u64,
    /// Of `dirty`, pages of files that are `meta`.
    pub(super) dirty_meta: u64,
    /// Pages under write-back.
    pub(super) busy: u64,
    /// Files with dirty pages.
    pub(super) dirty_files: BTreeSet<Ino>,
}

/// Whole pages with this content.
pub(super) fn copies(data: &[u8], page_bytes: usize) -> Vec<Bytes> {
    let contents = data.chunks(page_bytes);
    if page_bytes != rt::Page::BYTES {
        return contents.map(Bytes::copy_from_slice).collect();
    }
    let pages = rt::Page::many(contents.len()).into_iter();
    let filled = pages.zip(contents).map(|(mut page, content)| {
        page.copy_from_slice(content);
        page.into_bytes()
    });
    filled.collect()
}

/// A whole page with this content.
fn copy(content: &[u8]) -> Bytes {
    match content.len() {
        rt::Page::BYTES => rt::Page::copy_of(content).into_bytes(),
        _ => Bytes::copy_from_slice(content),
    }
}

/// Overwrites part of a page; copies it if there is another holder of its bytes (page_cache-P1).
pub(super) fn modify(page: &mut Bytes, at: usize, data: &[u8]) {
    if data.len() == page.len() {
        *page = copy(data);
        return;
    }
    change_bytes(page, |bytes| {
        bytes[at..at + data.len()].copy_from_slice(data);
    });
}

/// Changes a page; copies it if there is another holder of its bytes (page_cache-P1).
pub(super) fn change_bytes<R>(page: &mut Bytes, change: impl FnOnce(&mut [u8]) -> R) -> R {
    let mut bytes = match std::mem::take(page).try_into_mut() {
        Ok(own) => own,
        Err(shared) => BytesMut::from(&shared[..]),
    };
    let answer = change(&mut bytes);
    *page = bytes.freeze();
    answer
}

impl State {
    pub(super) fn page(&mut self, ino: Ino, index: u64) -> Option<&mut Page> {
        self.files.get_mut(&ino)?.pages.get_mut(&index)
    }

    pub(super) fn insert(&mut self, ino: Ino, index: u64, data: Bytes, home: Home) {
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

    /// Adds pages that are dirty from the start.
    pub(super) fn insert_dirty(&mut self, ino: Ino, first: u64, pages: Vec<Bytes>, home: Home) {
        let now = rt::now();
        let count = pages.len() as u64;
        let file = self.files.entry(ino).or_default();
        for (index, data) in (first..).zip(pages) {
            self.clock += 1;
            let page = Page {
                data,
                home,
                dirty: Some(now),
                writeback: false,
                stamp: self.clock,
            };
            let before = file.pages.insert(index, page);
            assert!(before.is_none(), "page {index} of inode {ino} is cached");
        }
        file.dirty.extend(first..first + count);
        file.delayed += if home == Home::Delayed { count } else { 0 };
        let meta = file.meta;
        self.total += count as usize;
        self.dirty += count;
        self.dirty_meta += if meta { count } else { 0 };
        self.settle(ino);
    }

    /// The contents of cached pages from the front of `range` on, which count as used.
    pub(super) fn use_front(&mut self, ino: Ino, range: Range<u64>) -> Vec<Bytes> {
        let Some(file) = self.files.get_mut(&ino) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        let pages = (range.start..).zip(file.pages.range_mut(range));
        for (next, (&index, page)) in pages {
            if index != next {
                break;
            }
            self.clock += 1;
            let old = std::mem::replace(&mut page.stamp, self.clock);
            if self.clean.remove(&old).is_some() {
                self.clean.insert(self.clock, (ino, index));
            }
            found.push(page.data.clone());
        }
        found
    }

    /// Makes a cached page dirty.
    pub(super) fn soil(&mut self, ino: Ino, index: u64) {
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

    pub(super) fn make_meta(&mut self, ino: Ino) {
        let file = self.files.entry(ino).or_default();
        if !std::mem::replace(&mut file.meta, true) {
            self.dirty_meta += file.dirty.len() as u64;
        }
    }

    pub(super) fn touch(&mut self, ino: Ino, index: u64) {
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

    pub(super) fn remove(&mut self, ino: Ino, index: u64) {
        let Some(file) = self.files.get_mut(&ino) else {
            return;
        };
        let Some(page) = file.pages.remove(&index) else {
            return;
        };
        assert!(
            !page.writeback,
            "page_cache-P1: page {index} of inode {ino} is dropped under write-back"
        );
        file.delayed -= u64::from(page.home == Home::Delayed);
        let was_dirty = u64::from(file.dirty.remove(&index));
        self.dirty -= was_dirty;
        self.dirty_meta -= if file.meta { was_dirty } else { 0 };
        self.clean.remove(&page.stamp);
        self.total -= 1;
    }

    /// Puts the file on or off the list of dirty files.
    pub(super) fn settle(&mut self, ino: Ino) {
        if self.files.get(&ino).is_some_and(|f| !f.dirty.is_empty()) {
            self.dirty_files.insert(ino);
        } else {
            self.dirty_files.remove(&ino);
        }
    }

    pub(super) fn forget_if_empty(&mut self, ino: Ino) {
        if self.files.get(&ino).is_some_and(|f| f.pages.is_empty()) {
            self.files.remove(&ino);
        }
    }

    pub(super) fn evict(&mut self, limit: usize) {
        while self.total > limit {
            let Some((_, (ino, index))) = self.clean.pop_first() else {
                return;
            };
            self.remove(ino, index);
            self.forget_if_empty(ino);
        }
    }
}
