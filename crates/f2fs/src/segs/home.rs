//! Home: which blocks the newest durable pack knows as valid, beside the live maps that operations
//! change. F2FSJ's apply writes the home maps.
//!
//! - V9 the SIT on the device says what `home` says, except for ages; home differs from live by
//!   what epochs behind the applied one did. A block that is valid at home is held: the live table
//!   does not give it out (table-V1, f2fs-journal-I6);
//! - V10 the positions of the logs go into a pack as they are in the live state: the blocks from
//!   where home's state of a log ends up to its head are not valid yet. No block behind a head is
//!   valid at home, because every block that an epoch or apply took was taken before the head was
//!   read;
//! - V11 a summary that is written may name owners that no epoch has committed yet, of blocks that
//!   are not valid at home. It never loses the owner of a valid block (segs-V6).

use super::checkpoint::{SegsToWrite, lba, put_sit, share_out, sit_block};
use super::map::BlockMap;
use super::table::Table;
use super::{Inner, Segments};
use base::Bytes;
use block::{Class, Plug};
use ondisk::f2fs::{BlockAddr, Log, SegNo, SitEntry};
use std::collections::BTreeMap;

/// What of each segment is valid at home.
pub(super) struct HomeMaps {
    valid: Vec<BlockMap>,
    /// The log that the SIT names.
    kind: Vec<Log>,
    /// Segments without a valid block.
    empty: u32,
}

impl HomeMaps {
    /// Bytes of its maps.
    pub fn memory(&self) -> u64 {
        let maps = self.valid.len() * size_of::<BlockMap>();
        (maps + self.kind.len() * size_of::<Log>()) as u64
    }
}

/// Segments that change at home, each as the next pack has it.
pub(crate) type HomeChanges = BTreeMap<SegNo, BlockMap>;

/// What a pack of apply writes down of segments.
pub(crate) struct HomeToWrite {
    pub segs: SegsToWrite,
    /// Blocks of the SIT that were put into the plug.
    pub sit_blocks: u64,
    /// Summaries that were put into the plug.
    closed: Vec<(SegNo, Bytes)>,
    kinds: Vec<(SegNo, Log)>,
}

impl HomeToWrite {
    /// Summaries that were put into the plug.
    pub fn ssa_blocks(&self) -> u64 {
        self.closed.len() as u64
    }
}

impl HomeMaps {
    fn of(table: &Table) -> HomeMaps {
        let segs = || (0..table.geo().segments_main).map(SegNo);
        let valid: Vec<BlockMap> = segs().map(|seg| table.valid_map(seg)).collect();
        let empty = valid.iter().filter(|map| is_empty(map)).count() as u32;
        HomeMaps {
            kind: segs().map(|seg| table.kind(seg)).collect(),
            valid,
            empty,
        }
    }
}

fn is_empty(map: &BlockMap) -> bool {
    *map == BlockMap::default()
}

impl Inner {
    /// A checkpoint with everything in it is durable.
    pub(super) fn all_is_home(&mut self) {
        if self.home.is_some() {
            self.home = Some(HomeMaps::of(&self.table));
        }
    }

    fn home(&self) -> &HomeMaps {
        self.home.as_ref().expect("only a journal asks for home")
    }

    /// The entry of a segment in the next pack.
    fn home_entry(&self, changes: &HomeChanges, seg: SegNo) -> SitEntry {
        let map = *changes
            .get(&seg)
            .unwrap_or(&self.home().valid[seg.0 as usize]);
        SitEntry {
            valid: map.count() as u16,
            kind: self.table.kind(seg) as u8,
            map: map.to_bytes(),
            mtime: self.table.mtime(seg),
        }
    }

    /// A SIT block as the next pack has it.
    fn home_content(&self, changes: &HomeChanges, block: u32) -> Bytes {
        sit_block(self.table.geo(), block, |seg| self.home_entry(changes, seg))
    }

    /// Segments whose entries the next pack has to change, by number. An open segment may have got
    /// another kind before it got a block.
    fn home_touched(&self, changes: &HomeChanges) -> Vec<SegNo> {
        let home = self.home();
        let opened = self.logs.iter().map(|log| log.segno);
        let opened = opened.filter(|seg| home.kind[seg.0 as usize] != self.table.kind(*seg));
        let mut touched: Vec<SegNo> = changes.keys().copied().chain(opened).collect();
        touched.sort_unstable();
        touched.dedup();
        touched
    }

    /// Segments without a valid block in the next pack that no log writes.
    fn home_free(&self, changes: &HomeChanges) -> u32 {
        let home = self.home();
        let change = |(seg, map): (&SegNo, &BlockMap)| {
            i64::from(is_empty(map)) - i64::from(is_empty(&home.valid[seg.0 as usize]))
        };
        let empty = i64::from(home.empty) + changes.iter().map(change).sum::<i64>();
        let map = |seg: SegNo| changes.get(&seg).unwrap_or(&home.valid[seg.0 as usize]);
        let open = self.logs.iter().filter(|log| is_empty(map(log.segno)));
        (empty - open.count() as i64) as u32
    }
}

impl Segments {
    /// Makes home equal to live: at a mount, before anything changes, and after the checkpoint of a
    /// recovery.
    pub fn home_is_live(&self) {
        let inner = &mut *self.inner.lock();
        inner.home = Some(HomeMaps::of(&inner.table));
    }

    /// The blocks of a segment that are valid at home.
    pub fn home_map(&self, seg: SegNo) -> BlockMap {
        self.inner.lock().home().valid[seg.0 as usize]
    }

    /// A SIT block (counted in one copy) as it would be with these changes of home.
    pub fn home_image(&self, changes: &HomeChanges, block: u32) -> Bytes {
        self.inner.lock().home_content(changes, block)
    }

    /// Puts what an apply's pack says of segments into `plug`: SIT blocks into their other copies
    /// (for entries that do not fit into the journal), and summaries of segments that were closed.
    /// To be called after the last block of the pack was allocated.
    pub fn flush_home(&self, changes: &HomeChanges, plug: &mut Plug) -> HomeToWrite {
        let inner = &mut *self.inner.lock();
        // segs-V6, V11: before the pack.
        let mut closed = Vec::with_capacity(inner.closed.len());
        for (&segno, summary) in &inner.closed {
            let bytes = Bytes::copy_from_slice(summary.bytes());
            plug.write(lba(self.geo.ssa_block(segno)), Class::Ssa, bytes.clone());
            closed.push((segno, bytes));
        }
        let touched = inner.home_touched(changes);
        let kinds = touched.iter().map(|&seg| (seg, inner.table.kind(seg)));
        let kinds = kinds.collect();
        let (journal, blocks) = share_out(&self.geo, &touched, &inner.journal);
        let sit_blocks = blocks.len() as u64;
        let mut sit_bitmap = inner.sit_bitmap.clone();
        for block in blocks {
            let bytes = inner.home_content(changes, block);
            put_sit(&self.geo, &mut sit_bitmap, block, bytes, plug);
        }
        let entry = |seg: SegNo| (seg, inner.home_entry(changes, seg));
        let sit_journal = journal.into_iter().map(entry).collect();
        HomeToWrite {
            segs: SegsToWrite {
                sit_bitmap,
                sit_journal,
                logs: inner.logs.clone(),
                free_segments: inner.home_free(changes),
            },
            sit_blocks,
            closed,
            kinds,
        }
    }

    /// The pack that `written` went into is durable: it is home.
    pub fn home_published(&self, changes: &HomeChanges, written: HomeToWrite) {
        let inner = &mut *self.inner.lock();
        inner.sit_bitmap = written.segs.sit_bitmap;
        inner.journal = written.segs.sit_journal.iter().map(|e| e.0).collect();
        inner.node_holes = true;
        let home = inner.home.as_mut().expect("it was written");
        for (seg, map) in changes {
            let valid = &mut home.valid[seg.0 as usize];
            home.empty -= u32::from(is_empty(valid));
            home.empty += u32::from(is_empty(map));
            *valid = *map;
        }
        for (seg, kind) in written.kinds {
            home.kind[seg.0 as usize] = kind;
        }
        for (seg, bytes) in written.closed {
            // The segment may have been opened and closed again since, with new owners in its
            // summary.
            if inner.closed.get(&seg).is_some_and(|s| s.bytes() == bytes) {
                inner.closed.remove(&seg);
            }
        }
        #[cfg(debug_assertions)]
        for (&seg, map) in changes {
            let loose = map.without(&inner.table.held_map(seg));
            assert!(is_empty(&loose), "V9: segment {seg}: {loose:?} is not held");
        }
    }

    /// Blocks that are valid in only one of the two views, live and home; none when everything is
    /// applied. At most `most`.
    pub fn ahead_of_home(&self, most: usize) -> Vec<BlockAddr> {
        let inner = self.inner.lock();
        let mut found = Vec::new();
        for (seg, home) in (0..).map(SegNo).zip(&inner.home().valid) {
            let live = inner.table.valid_map(seg);
            let mut differ = live.without(home);
            differ.add(&home.without(&live));
            found.extend(differ.ones().map(|i| inner.table.addr(seg, i)));
            if found.len() >= most {
                found.truncate(most);
                break;
            }
        }
        found
    }
}
