//! What a file may hold after a cut: the states of each sector since the last sync, and the sizes.
//!
//! The page cache changes a sector as a whole and the device leaves it old or new. So what recovery
//! finds in a sector must be, byte for byte, what the sector held at that sync or after some later
//! operation. Where the terms of the promise allow more (garbage, zeros, former content), the
//! oracle asks by which way it could have come: [`Content::rewritten`], [`Content::placed_since`],
//! [`Content::moved_since`]. Operations are numbered from 1, in the order of the log of their task.

use super::stamp::{self, FileId, Stamp};
use base::{BLOCK_BYTES, SECTOR_BYTES};
use std::collections::BTreeMap;

const SECTOR: u64 = SECTOR_BYTES as u64;
const BLOCK: u64 = BLOCK_BYTES as u64;

/// The bytes of a sector; `None` stands for zeros.
type Bytes = Option<Box<[u8]>>;

/// What a file may hold.
#[derive(Clone, Debug, Default)]
pub struct Content {
    /// What it holds now.
    now: Vec<u8>,
    /// Sectors that may differ from zeros, each with its states since the last completed sync and
    /// the operation that made each state. The first state is the synced one.
    states: BTreeMap<u64, Vec<(usize, Bytes)>>,
    /// Sizes since the last completed sync, the synced one first; not empty once the file is made.
    sizes: Vec<Step>,
    /// The last operation that a completed sync covers; 0: no sync has completed.
    acked: usize,
    /// The last operation on the file.
    newest: usize,
    /// Bytes of a page: a block of the volume, if that is larger than 4 KiB.
    page: u64,
    pages: BTreeMap<u64, Page>,
}

/// A size that the file had.
#[derive(Clone, Copy, Debug)]
struct Step {
    op: usize,
    /// Operations on names before it; `usize::MAX`: the size has no place among them.
    names: usize,
    size: u64,
    how: How,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// The size at the last sync, or at the making of the file.
    Start,
    /// Written from this many bytes on. The size on the device follows page by page, as pages get
    /// their blocks, so a cut may leave a size in between.
    Written(u64),
    /// Set by an operation of the journal. The journal keeps order, so once a later operation on
    /// names is there no earlier size can come back.
    Set,
}

/// What happened to a page of a file.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// It had a block at the last completed sync.
    placed: bool,
    /// It may have got a block since.
    moved: bool,
    /// It was written, and not cut off since.
    written: bool,
    /// It was changed since the last completed sync.
    changed: bool,
    /// How often it was changed in its life.
    changes: u32,
}

/// What was found in a sector and is none of its states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strange {
    /// Bytes of another file, or of another sector of the file.
    Foreign(Stamp),
    /// Bytes of this sector, of an operation that is not allowed here.
    Own(Stamp),
    /// Zeros.
    Zeros,
    /// Nothing that a task has written.
    Garbage,
}

/// How what was found in a sector compares with its states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// It is the newest state.
    Newest,
    /// It is an earlier state that is allowed, of this operation; 0: from before all operations.
    Earlier(usize),
    /// It is none of its states.
    Strange(Strange),
}

impl Content {
    /// An empty file that operation `op` makes, after `names` operations on names.
    pub fn new(op: usize, names: usize) -> Content {
        let start = Step {
            op,
            names,
            size: 0,
            how: How::Start,
        };
        Content {
            sizes: vec![start],
            newest: op,
            page: BLOCK,
            ..Content::default()
        }
    }

    /// This file, in pages of so many bytes if these are more than 4 KiB: the cache writes a page
    /// as a whole.
    #[must_use]
    pub fn in_pages_of(mut self, bytes: u64) -> Content {
        self.page = bytes.max(BLOCK);
        self
    }

    /// The size now, bytes.
    pub fn size(&self) -> u64 {
        self.now.len() as u64
    }

    /// The bytes that it holds now.
    pub fn bytes(&self) -> &[u8] {
        &self.now
    }

    /// Operation `op` writes `len` bytes from `offset` on: stamps with its number.
    pub fn write(&mut self, file: FileId, op: usize, offset: u64, len: u64) {
        self.newest = op;
        let (old, end) = (self.size(), offset + len);
        if end > old {
            self.now.resize(end as usize, 0);
            self.step(op, end, How::Written(old));
            // The page in which the file ended is written with the new ones.
            self.touch_page_of(old);
        }
        for sector in offset / SECTOR..end.div_ceil(SECTOR) {
            self.note_before(sector);
            let stamp = Stamp {
                file,
                sector,
                version: op as u64,
            };
            let at = sector * SECTOR;
            let (from, to) = (offset.max(at), end.min(at + SECTOR));
            stamp::fill(
                stamp,
                (from - at) as usize,
                &mut self.now[from as usize..to as usize],
            );
            self.note_after(sector, op);
        }
        self.change(offset / self.page..end.div_ceil(self.page));
    }

    /// Operation `op` cuts or extends the file to `size` bytes, after `names` operations on names.
    pub fn resize(&mut self, op: usize, names: usize, size: u64) {
        self.newest = op;
        let old = self.size();
        let (low, high) = (old.min(size), old.max(size));
        let sectors = low / SECTOR..high.div_ceil(SECTOR);
        let touched: Vec<u64> = self.states.range(sectors).map(|(s, _)| *s).collect();
        for sector in &touched {
            self.note_before(*sector);
        }
        // Bytes behind the new end read as zeros if the file grows again.
        self.now.resize(size as usize, 0);
        for sector in touched {
            self.note_after(sector, op);
        }
        for (_, page) in self.pages.range_mut(size.div_ceil(self.page)..) {
            (page.placed, page.written, page.moved) = (false, false, true);
        }
        self.touch_page_of(low);
        self.touch_page_of(high);
        if size == old {
            // The journal sets no size here. The size on the device may still be less, and grows as
            // pages get their blocks.
            self.step(op, size, How::Written(old));
            return;
        }
        self.step(op, size, How::Set);
        self.order(names);
    }

    /// Operation `op` allocates up to byte `end`, and extends the file unless `keep_size` is set.
    /// With `pieces` the size follows the blocks, and a cut may leave it after any of them.
    pub fn allocate(
        &mut self,
        op: usize,
        names: usize,
        end: u64,
        (keep_size, pieces): (bool, bool),
    ) {
        self.newest = op;
        let old = self.size();
        if keep_size {
            return;
        }
        if end <= old {
            // The size on the device may still be less, and grows as pages get their blocks. It
            // cannot be less than the last size that did not come by writing.
            let mut steps = self.sizes.iter().rev();
            let sure = steps.find(|s| !matches!(s.how, How::Written(_)));
            if sure.is_none_or(|s| s.size < end) {
                self.step(op, end, How::Written(end));
            }
            self.step(op, old, How::Written(old));
            return;
        }
        self.now.resize(end as usize, 0);
        self.touch_page_of(old);
        if pieces {
            self.step(op, end, How::Written(old));
        }
        self.step(op, end, How::Set);
        self.order(names);
    }

    fn step(&mut self, op: usize, size: u64, how: How) {
        let step = Step {
            op,
            names: usize::MAX,
            size,
            how,
        };
        self.sizes.push(step);
    }

    /// Gives the last step its place among the operations on names.
    fn order(&mut self, names: usize) {
        if let Some(step) = self.sizes.last_mut() {
            step.names = names;
        }
    }

    /// Notes that a sector held zeros before its first change.
    fn note_before(&mut self, sector: u64) {
        self.states.entry(sector).or_insert_with(|| vec![(0, None)]);
    }

    fn note_after(&mut self, sector: u64, op: usize) {
        let at = self.now.len().min((sector * SECTOR) as usize);
        let end = self.now.len().min(at + SECTOR_BYTES);
        let bytes = &self.now[at..end];
        let state = (!base::bytes::is_zero(bytes)).then(|| {
            let mut whole = bytes.to_vec();
            whole.resize(SECTOR_BYTES, 0);
            whole.into_boxed_slice()
        });
        let states = self.states.entry(sector).or_default();
        if states.last().is_none_or(|(_, last)| *last != state) {
            states.push((op, state));
        }
    }

    fn change(&mut self, pages: std::ops::Range<u64>) {
        for page in pages {
            let page = self.pages.entry(page).or_default();
            page.changes = page.changes.saturating_add(1);
            page.changed = true;
            page.moved |= !page.placed;
            page.written = true;
        }
    }

    /// Notes a change of the page in which the file ends, or ended: its end is written with it.
    fn touch_page_of(&mut self, size: u64) {
        let page = size / self.page;
        if !size.is_multiple_of(self.page) && self.pages.get(&page).is_some_and(|p| p.written) {
            self.change(page..page + 1);
        }
    }

    /// A sync has completed that covers the operations up to number `op`.
    pub fn acknowledge(&mut self, op: usize) {
        let Some(last) = self.sizes.iter().rposition(|step| step.op <= op) else {
            return;
        };
        self.acked = self.acked.max(op.min(self.newest));
        self.sizes.drain(..last);
        (self.sizes[0].how, self.sizes[0].names) = (How::Start, 0);
        self.states.retain(|_, states| {
            let last = states.iter().rposition(|(n, _)| *n <= op);
            states.drain(..last.unwrap_or(0));
            states.len() > 1 || states[0].1.is_some()
        });
        if self.newest > op {
            return;
        }
        let (size, bytes) = (self.size(), self.page);
        self.pages.retain(|page, _| page * bytes < size);
        for page in self.pages.values_mut() {
            page.placed = page.written;
            (page.moved, page.changed) = (false, false);
        }
    }

    /// The first operation after which the file may have `found` bytes (O4), if `names` operations
    /// on names are there. A cut may leave a part of a write, in pages of `page` bytes.
    ///
    /// # Errors
    /// The file has not had this size since the last sync; the text lists those that it had.
    pub fn judge_size(&self, found: u64, names: usize, page: u64) -> Result<usize, String> {
        let settled = self.sizes.iter().rposition(|s| s.names < names);
        let steps = &self.sizes[settled.unwrap_or(0)..];
        let fits = |step: &&Step| match step.how {
            How::Start | How::Set => found == step.size,
            How::Written(from) => {
                let paged = found.is_multiple_of(page) && from < found && found < step.size;
                found == step.size || paged
            }
        };
        steps.iter().find(fits).map(|step| step.op).ok_or_else(|| {
            let sizes = steps.iter().map(|s| s.size.to_string());
            let sizes: Vec<String> = sizes.collect();
            let synced = if self.acked > 0 {
                "synced"
            } else {
                "made with"
            };
            format!(
                "O4: size {found}; {synced} and set since: {}",
                sizes.join(", ")
            )
        })
    }

    /// Compares the bytes `found` in a sector, which end where the file ends, with its states. The
    /// size found says that operation `since` is there, so what that operation and earlier ones
    /// have cut off is no longer allowed.
    pub fn see(&self, file: FileId, sector: u64, found: &[u8], since: usize) -> Seen {
        let at = (sector * SECTOR) as usize;
        let newest = self.now.get(at..).unwrap_or_default();
        let n = found.len().min(newest.len());
        let zero = base::bytes::is_zero;
        if found[..n] == newest[..n] && zero(&found[n..]) {
            return Seen::Newest;
        }
        let empty = [(0, None)];
        let states = self.states.get(&sector).map_or(&empty[..], Vec::as_slice);
        let fits = |state: &Bytes| match state {
            None => zero(found),
            Some(bytes) => found == &bytes[..found.len()],
        };
        let live = states
            .iter()
            .rposition(|(op, _)| *op <= since && self.cuts(*op, sector));
        let (before, live) = states.split_at(live.unwrap_or(0));
        // Data that is cut off before it has a block leaves a hole, which also covers the part of
        // the sector in front of the cut.
        let hole = || before.iter().rev().find(|(_, s)| s.is_none() && fits(s));
        let live = live.iter().rev().find(|(_, state)| fits(state));
        match live.or_else(hole) {
            Some((op, _)) => Seen::Earlier(*op),
            None => Seen::Strange(strange(file, sector, found)),
        }
    }

    /// Whether operation `op` cut off part of this sector.
    fn cuts(&self, op: usize, sector: u64) -> bool {
        let cut = |s: &Step| s.op == op && s.how == How::Set && s.size < (sector + 1) * SECTOR;
        self.sizes.iter().any(cut)
    }

    fn page_of(&self, sector: u64) -> u64 {
        sector * SECTOR / self.page
    }

    /// Whether the page of a sector was overwritten in place since the last completed sync. A
    /// device that promises nothing of a sector it was writing may leave garbage in all of that
    /// page.
    pub fn rewritten(&self, sector: u64) -> bool {
        let page = self.pages.get(&self.page_of(sector));
        page.is_some_and(|p| p.changed && p.changes > 1)
    }

    /// Whether the page of a sector may have got a block since the last completed sync. Where data
    /// is not ordered before the commit that maps it, the former content of that block may show.
    pub fn placed_since(&self, sector: u64) -> bool {
        let page = self.pages.get(&self.page_of(sector));
        page.is_some_and(|p| p.moved && p.changed)
    }

    /// Whether the page of a sector may have got another block since the last completed sync, in a
    /// file system that writes out of place: every page that was changed has.
    pub fn moved_since(&self, sector: u64) -> bool {
        let page = self.page_of(sector);
        let changed = self.pages.get(&page).is_some_and(|p| p.changed);
        let ends_in =
            |s: &&Step| s.op > self.acked && s.how == How::Set && s.size / self.page == page;
        changed || self.sizes.iter().any(|s| ends_in(&s))
    }

    /// Bytes of this sector that a completed sync covers: what is lost if the sector is gone.
    pub fn acked_bytes(&self, sector: u64) -> u64 {
        let Some(synced) = self.sizes.first().filter(|_| self.acked > 0) else {
            return 0;
        };
        synced.size.saturating_sub(sector * SECTOR).min(SECTOR)
    }

    /// Bytes that a completed sync covers.
    pub fn acked_size(&self) -> u64 {
        let synced = self.sizes.first().filter(|_| self.acked > 0);
        synced.map_or(0, |step| step.size)
    }

    /// The number of the newest operation on the content.
    pub fn newest_op(&self) -> usize {
        self.newest
    }

    /// The number of the last operation that a completed sync covers; 0: none.
    pub fn acked_op(&self) -> usize {
        self.acked
    }

    /// The number of the newest operation that changed the sector; that of the last completed
    /// sync's state if none has since, and 0 if it was never written.
    pub fn op_of(&self, sector: u64) -> usize {
        let states = self.states.get(&sector);
        states.and_then(|s| s.last()).map_or(0, |(op, _)| *op)
    }
}

fn strange(file: FileId, sector: u64, found: &[u8]) -> Strange {
    if base::bytes::is_zero(found) {
        return Strange::Zeros;
    }
    let stamps = stamp::stamps(found);
    let foreign = |s: &&Stamp| s.file != file || s.sector != sector;
    if let Some(stamp) = stamps.iter().find(foreign) {
        return Strange::Foreign(*stamp);
    }
    stamps
        .first()
        .map_or(Strange::Garbage, |s| Strange::Own(*s))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that tears what it writes may damage all of a page, which a larger block makes
    /// larger, and nothing beyond that.
    #[test]
    fn a_page_is_as_large_as_a_block() {
        let torn = |page| {
            let mut content = Content::new(1, 1).in_pages_of(page);
            content.write(1, 2, 0, 32 << 10);
            content.acknowledge(2);
            content.write(1, 3, 0, 512);
            let torn = (0..64).filter(|sector| content.rewritten(*sector));
            torn.count()
        };
        assert_eq!(
            [1024, 4096, 8192, 16_384, 65_536].map(torn),
            [8, 8, 16, 32, 64]
        );
    }

    /// Zeros in front of the cut of a file that was written and cut in the middle of a sector.
    fn cut(synced: bool) -> Seen {
        let (file, size) = (7, 34_892);
        let mut content = Content::new(1, 1);
        content.write(file, 2, 20_480, 20_480);
        if synced {
            content.acknowledge(2);
        }
        content.resize(3, 1, size);
        content.see(file, size / SECTOR, &[0; 76], 3)
    }

    #[test]
    fn truncating_to_the_present_size_promises_nothing_of_what_has_no_block() {
        let mut content = Content::new(1, 1);
        content.write(7, 2, 0, 10_000);
        let mut shorter = content.clone();
        content.resize(3, 1, 10_000);
        shorter.resize(3, 1, 9_000);
        // A later operation on names is there.
        assert!(content.judge_size(0, 2, BLOCK).is_ok());
        assert!(shorter.judge_size(0, 2, BLOCK).is_err());
    }

    #[test]
    fn a_write_comes_by_blocks_of_the_volume() {
        let mut content = Content::new(1, 1);
        content.write(7, 2, 0, 10_000);
        assert!(content.judge_size(5120, 1, 1024).is_ok());
        assert!(content.judge_size(5120, 1, BLOCK).is_err());
        assert!(content.judge_size(5121, 1, 1024).is_err());
    }

    #[test]
    fn allocating_inside_of_a_synced_file_does_not_excuse_a_smaller_one() {
        let mut content = Content::new(1, 1);
        content.write(7, 2, 0, 8192);
        let unsynced = content.clone();
        content.acknowledge(2);
        for (mut content, legal) in [(unsynced, true), (content, false)] {
            content.allocate(3, 1, 100, (false, false));
            assert_eq!(content.judge_size(100, 1, BLOCK).is_ok(), legal);
        }
    }

    #[test]
    fn a_cut_leaves_a_hole_of_what_never_had_a_block_and_only_of_that() {
        assert!(matches!(cut(false), Seen::Earlier(_)));
        assert!(matches!(cut(true), Seen::Strange(Strange::Zeros)));
    }

    #[test]
    fn an_allocation_comes_as_a_whole_or_in_pieces() {
        for pieces in [false, true] {
            let mut content = Content::new(1, 0).in_pages_of(4096);
            content.write(7, 2, 0, 5000);
            content.acknowledge(2);
            content.allocate(3, 1, 100_000, (false, pieces));
            let judged = |found| content.judge_size(found, 1, 4096);
            assert_eq!((judged(5000), judged(100_000)), (Ok(2), Ok(3)));
            assert_eq!(judged(8192).is_ok(), pieces);
            assert!(judged(6000).is_err());
        }
    }
}
