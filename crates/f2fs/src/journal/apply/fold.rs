//! Folds the records of several epochs into what they mean for home: which nodes and directory
//! pages they touch, which blocks become valid or free, and which orphans there are.
//!
//! Nothing is read or written here. Epochs are folded in order. Within an epoch the records of two
//! inodes have no order and need none: a number or block that is freed in an epoch is not given out
//! again before that epoch is committed, or applied (f2fs-journal-I6). The ends of inodes stand
//! together and come last (tx-O1, trim-T6).

use crate::fault;
use crate::journal::capture::redo::page_of;
use crate::journal::{Epoch, OwnedGroup};
use crate::segs::{BlockMap, HomeChanges};
use base::Ino;
use fscore::{FsError, FsResult};
use ondisk::f2fs::journal::{PageKind, Record, Records};
use ondisk::f2fs::{BLOCKS_PER_SEG, BlockAddr, Geometry, Nid, SegNo};
use std::collections::BTreeMap;

/// What becomes of a node.
pub(in crate::journal) struct NodeFold<'a> {
    /// The inode that it belongs to, if a record said so.
    pub ino: Nid,
    /// In use after the last epoch.
    pub alive: bool,
    /// Its image begins with the block at home; else with zeros.
    pub from_home: bool,
    /// Version in the NAT, if it changed.
    pub version: Option<u8>,
    /// Its records, since it was born.
    pub records: Vec<Record<'a>>,
}

/// A record about a directory page, and its place in the order of all.
pub(in crate::journal) type PageRecord<'a> = (u64, Record<'a>);

/// Slots of a directory's node said NULL or NEW from then on.
#[derive(Clone, Copy, Debug)]
pub(in crate::journal) struct SlotEvent {
    /// Place in the order of all records.
    pub order: u64,
    slot: u16,
    count: u16,
}

impl SlotEvent {
    pub fn has(&self, slot: u16) -> bool {
        slot >= self.slot && slot - self.slot < self.count
    }
}

/// Slots whose directory blocks, if home has any there, are gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::journal) struct GoneSlots {
    pub nid: Nid,
    pub slot: u16,
    pub count: u16,
}

/// Blocks of a segment that one epoch took and freed.
#[derive(Default)]
struct OfEpoch {
    taken: BlockMap,
    freed: BlockMap,
}

/// What some epochs did.
pub(crate) struct Fold<'a> {
    geo: Geometry,
    order: u64,
    pub(in crate::journal) nodes: BTreeMap<Nid, NodeFold<'a>>,
    /// Records of directory pages.
    pub(in crate::journal) pages: BTreeMap<(Nid, u32), Vec<PageRecord<'a>>>,
    /// Directory slots by node, since that node was born.
    pub(in crate::journal) slots: BTreeMap<Nid, Vec<SlotEvent>>,
    /// Of nodes that home has.
    pub(in crate::journal) gone: Vec<GoneSlots>,
    /// True: an orphan now; false: none any more.
    pub(in crate::journal) orphans: BTreeMap<Ino, bool>,
    /// Segments as home' has them.
    pub(in crate::journal) segs: HomeChanges,
    /// Blocks to release when the pack is durable (apply-A6).
    pub(in crate::journal) freed: Vec<BlockAddr>,
    /// Number of records, without those about owners of blocks.
    pub(in crate::journal) records: u64,
}

impl<'a> Fold<'a> {
    /// Nothing yet.
    pub fn new(geo: Geometry) -> Fold<'a> {
        Fold {
            geo,
            order: 0,
            nodes: BTreeMap::new(),
            pages: BTreeMap::new(),
            slots: BTreeMap::new(),
            gone: Vec::new(),
            orphans: BTreeMap::new(),
            segs: BTreeMap::new(),
            freed: Vec::new(),
            records: 0,
        }
    }

    /// Adds the next epoch. `home` answers what is valid at home in a segment.
    ///
    /// # Errors
    /// f2fs-journal-I3: a record contradicts what home or an earlier one says.
    pub fn add(
        &mut self,
        epoch: Epoch,
        groups: &'a [OwnedGroup],
        home: impl Fn(SegNo) -> BlockMap,
    ) -> FsResult<()> {
        let mut blocks: BTreeMap<SegNo, OfEpoch> = BTreeMap::new();
        for group in groups {
            for record in Records::new(&group.bytes) {
                let record = record.map_err(fault::corrupt)?;
                self.order += 1;
                self.one(group.ino, record, &mut blocks).map_err(|why| {
                    let (ino, epoch) = (group.ino, epoch.0);
                    FsError::corrupt(format!(
                        "f2fs-journal-I3: epoch {epoch}, inode {ino}: {record:?}: {why}"
                    ))
                })?;
            }
        }
        self.settle_blocks(epoch, blocks, home)
    }

    /// A node that is to be written although no record touches it.
    pub fn touch(&mut self, nid: Nid) {
        self.node(nid, Nid(0));
    }

    /// A page of a directory that is to be written although no record touches it.
    pub fn touch_page(&mut self, dir: Ino, page: u32) {
        self.pages.entry((Nid(dir.0), page)).or_default();
    }

    fn node(&mut self, nid: Nid, ino: Nid) -> &mut NodeFold<'a> {
        let node = self.nodes.entry(nid).or_insert(NodeFold {
            ino,
            alive: true,
            from_home: true,
            version: None,
            records: Vec::new(),
        });
        if ino != Nid(0) {
            node.ino = ino;
        }
        node
    }

    fn one(
        &mut self,
        ino: Nid,
        record: Record<'a>,
        blocks: &mut BTreeMap<SegNo, OfEpoch>,
    ) -> Result<(), &'static str> {
        self.records += 1;
        match record {
            Record::NodeNew { nid, version, .. } => self.born(nid, ino, version, record),
            Record::NodeDel { nid, version } => self.died(nid, ino, version),
            Record::InodeDel { .. } => self.ends(record),
            Record::BlockRun {
                addr, count, alloc, ..
            } => self.run(addr, count, alloc, blocks),
            Record::BlockMask {
                seg, alloc, mask, ..
            } => {
                if seg.0 >= self.geo.segments_main {
                    return Err("there is no such segment");
                }
                let of = blocks.entry(seg).or_default();
                let map = if alloc { &mut of.taken } else { &mut of.freed };
                map.add(&BlockMap::from_bytes(mask));
                Ok(())
            }
            Record::OrphanAdd => {
                self.orphans.insert(Ino(ino.0), true);
                Ok(())
            }
            Record::OrphanDel => {
                self.orphans.insert(Ino(ino.0), false);
                Ok(())
            }
            Record::SumRun { .. }
            | Record::Trunc { .. }
            | Record::Quota { .. }
            | Record::Head { .. }
            | Record::DataSum { .. } => {
                self.records -= 1;
                Ok(())
            }
            Record::InodeNew { .. } | Record::InodeAttr { .. } => self.on_node(ino, ino, record),
            Record::DentSet { .. } | Record::DentClear { .. } | Record::DentIno { .. } => {
                match page_of(&record) {
                    Some(page) => self.on_page(ino, page, record),
                    None => self.on_node(ino, ino, record),
                }
            }
            Record::MapRun {
                nid,
                slot,
                count,
                addr,
                dir,
            } => {
                if dir {
                    self.dir_slots(nid, slot, count, addr);
                }
                self.on_node(nid, ino, record)
            }
            Record::NodePtr { parent, .. } => self.on_node(parent, ino, record),
            Record::Bytes { nid, .. } => match page_of(&record) {
                Some(page) => self.on_page(ino, page, record),
                None => self.on_node(nid, ino, record),
            },
            Record::Page {
                what, number, page, ..
            } => match what {
                PageKind::Node => self.on_node(Nid(number), ino, record),
                PageKind::Dentries => self.on_page(ino, page, record),
                PageKind::Nat | PageKind::Sit => {
                    self.records -= 1;
                    Ok(())
                }
            },
        }
    }

    fn on_node(&mut self, nid: Nid, ino: Nid, record: Record<'a>) -> Result<(), &'static str> {
        let node = self.node(nid, ino);
        if !node.alive {
            return Err("the node is free");
        }
        node.records.push(record);
        Ok(())
    }

    fn on_page(&mut self, dir: Nid, page: u32, record: Record<'a>) -> Result<(), &'static str> {
        let records = self.pages.entry((dir, page)).or_default();
        records.push((self.order, record));
        Ok(())
    }

    fn born(
        &mut self,
        nid: Nid,
        ino: Nid,
        version: u8,
        record: Record<'a>,
    ) -> Result<(), &'static str> {
        self.slots.remove(&nid);
        let node = self.node(nid, ino);
        if !node.records.is_empty() {
            return Err("the node is in use");
        }
        node.alive = true;
        node.from_home = false;
        node.version = Some(version);
        node.records.push(record);
        Ok(())
    }

    fn died(&mut self, nid: Nid, ino: Nid, version: u8) -> Result<(), &'static str> {
        self.slots.remove(&nid);
        let node = self.node(nid, ino);
        if !node.alive {
            return Err("the node is free");
        }
        node.alive = false;
        node.from_home = false;
        node.version = Some(version);
        node.records.clear();
        Ok(())
    }

    /// Inodes that are freed together.
    fn ends(&mut self, record: Record<'a>) -> Result<(), &'static str> {
        let Record::InodeDel {
            first,
            count,
            version,
        } = record
        else {
            return Ok(());
        };
        let mut nids = (first.0..first.0 + u32::from(count)).map(Nid);
        nids.try_for_each(|nid| self.died(nid, nid, version))
    }

    fn dir_slots(&mut self, nid: Nid, slot: u16, count: u16, addr: BlockAddr) {
        let order = self.order;
        let event = SlotEvent { order, slot, count };
        self.slots.entry(nid).or_default().push(event);
        let at_home = self.nodes.get(&nid).is_none_or(|node| node.from_home);
        // A slot that gets a block had none before: blocks go when a slot becomes NULL.
        if at_home && addr == BlockAddr::NULL {
            self.gone.push(GoneSlots { nid, slot, count });
        }
    }

    fn run(
        &self,
        addr: BlockAddr,
        count: u16,
        alloc: bool,
        blocks: &mut BTreeMap<SegNo, OfEpoch>,
    ) -> Result<(), &'static str> {
        for addr in addr.0..addr.0.saturating_add(count.into()) {
            let addr = BlockAddr(addr);
            let seg = self.geo.segno(addr).ok_or("outside the main area")?;
            let of = blocks.entry(seg).or_default();
            let map = if alloc { &mut of.taken } else { &mut of.freed };
            map.set(self.geo.offset_in_seg(addr));
        }
        Ok(())
    }

    /// An epoch has taken blocks and freed some: none of those that it freed is taken again in it.
    fn settle_blocks(
        &mut self,
        epoch: Epoch,
        blocks: BTreeMap<SegNo, OfEpoch>,
        home: impl Fn(SegNo) -> BlockMap,
    ) -> FsResult<()> {
        for (seg, of) in blocks {
            let valid = self.segs.entry(seg).or_insert_with(|| home(seg));
            let odd = |what: &str, map: BlockMap| {
                let first = map.ones().next().unwrap_or(BLOCKS_PER_SEG);
                let epoch = epoch.0;
                FsError::corrupt(format!(
                    "f2fs-journal-I3: epoch {epoch} {what} block {first} of segment {seg}"
                ))
            };
            let twice = both(&of.taken, valid);
            if twice != BlockMap::default() {
                return Err(odd("takes, although it is in use,", twice));
            }
            valid.add(&of.taken);
            let never = of.freed.without(valid);
            if never != BlockMap::default() {
                return Err(odd("frees, although it is not in use,", never));
            }
            *valid = valid.without(&of.freed);
            let start = self.geo.seg_start(seg).0;
            let freed = of.freed.ones().map(|i| BlockAddr(start + i));
            self.freed.extend(freed);
        }
        Ok(())
    }

    /// Home' has this block: apply has written it.
    pub(in crate::journal) fn take(&mut self, addr: BlockAddr, home: impl Fn(SegNo) -> BlockMap) {
        if let Some(seg) = self.geo.segno(addr) {
            let valid = self.segs.entry(seg).or_insert_with(|| home(seg));
            let was = valid.set(self.geo.offset_in_seg(addr));
            assert!(
                !was,
                "f2fs-journal-I6: apply wrote over block {addr}, which is in use"
            );
        }
    }

    /// Home had this block, and home' has not. False if it had it not either, or it is gone
    /// already.
    pub(in crate::journal) fn give_up(
        &mut self,
        addr: BlockAddr,
        home: impl Fn(SegNo) -> BlockMap,
    ) -> bool {
        let Some(seg) = self.geo.segno(addr) else {
            return false;
        };
        let valid = self.segs.entry(seg).or_insert_with(|| home(seg));
        let was = valid.clear(self.geo.offset_in_seg(addr));
        if was {
            self.freed.push(addr);
        }
        was
    }
}

fn both(a: &BlockMap, b: &BlockMap) -> BlockMap {
    a.without(&a.without(b))
}
