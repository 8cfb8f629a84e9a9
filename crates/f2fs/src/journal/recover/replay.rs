//! Redo at mount: applies the records of each epoch, in their order, to the live structures of a
//! mount that no operation uses yet.
//!
//! - P1 all changes made here lie in memory, or in blocks that neither the pack nor the ring refers
//!   to: nodes that leave memory while the ring is redone go to places that were free, and no pack
//!   names them before the one that ends recovery. So after a cut at any moment a mount finds the
//!   same pack and the same ring;
//! - P2 records are absolute, and what is derived from them (counts, blocks of directories that are
//!   freed) follows from the state before and after a group of records, not from how often they are
//!   redone;
//! - P3 all blocks of files that an epoch takes become valid before any that it frees is freed: no
//!   block is freed and taken in the epochs of one ring (f2fs-journal-I6), so the order of an
//!   epoch's groups does not matter;
//! - P4 a node that is freed and is not in memory is not read: data blocks of files have records of
//!   their own, and the blocks of a directory have records of its slots, which are redone before
//!   (truncate-C1). What is not known then is how many blocks the node named, reserved ones among
//!   them. So the count of blocks is the one that the last transaction says, if it lies below the
//!   one counted here by no more than all such nodes have room for; otherwise it is the one counted
//!   here, and the volume is marked for fsck.

use super::ahead::{Ahead, Wanted};
use super::redo;
use crate::F2fs;
use crate::journal::pages::image::is_whole;
use crate::map::nid_word;
use crate::ops::Freeze;
use crate::recover::first_page;
use crate::space::Usage;
use base::cost::f2fs as cost;
use base::{BLOCK_BYTES, BlockNo, Bytes, Ino, Map, Mutant, SECTORS_PER_BLOCK};
use fscore::{FsError, FsResult};
use ondisk::f2fs::journal::{Group, Groups, PageKind, Record};
use ondisk::f2fs::{
    ADDRS_PER_BLOCK, BLOCKS_PER_SEG, BlockAddr, Inline, InodeFields, Log, Nid, NodeKind, Summary,
    addr, addr_slot0, bits, footer, nid_slot, node_path,
};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Dirty nodes beyond which they leave memory (P1), as a part of the cache.
const SPILL_PART: u64 = 2;
/// Least of them, blocks.
const SPILL_MIN: u64 = 4096;

/// What a redo did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Done {
    pub epochs: u64,
    pub groups: u64,
    pub records: u64,
    /// Records that changed a node.
    pub node_changes: u64,
    /// Nodes that came, and that went.
    pub nodes_new: u64,
    pub nodes_freed: u64,
    /// Records that changed a directory page.
    pub dir_changes: u64,
    /// Blocks whose validity changed.
    pub blocks: u64,
    /// Nodes that went without a look at them (P4).
    pub nodes_unread: u64,
    /// Nodes that left memory meanwhile.
    pub spilled: u64,
    /// Images of whole blocks.
    pub images: u64,
}

/// The redo of a ring.
pub(super) struct Redo<'a> {
    fs: &'a F2fs,
    freeze: &'a Freeze<'a>,
    /// How the counts differ from those of the pack.
    blocks: i64,
    nodes: i64,
    inodes: i64,
    /// Truncations under way: from which page on.
    pub truncs: BTreeMap<Ino, u64>,
    /// Node numbers that became free.
    pub freed_nids: Vec<Nid>,
    /// Frees of the epoch (P3).
    frees: Vec<(BlockAddr, u32, Log)>,
    /// A block of the last epoch whose data did not survive: only a mutant redoes that epoch.
    pub torn: Option<BlockAddr>,
    /// Records less that ends of inodes are, because they stand together: each costs as much.
    joint: u64,
    /// Directory blocks that were read ahead.
    blocks_ahead: Map<BlockAddr, Bytes>,
    pub done: Done,
}

/// What a node held before a group.
#[derive(Default)]
struct Held {
    /// Address slots that are not NULL.
    slots: u64,
    /// Of a directory: the blocks that they name.
    blocks: Vec<BlockAddr>,
}

impl<'a> Redo<'a> {
    pub fn new(fs: &'a F2fs, freeze: &'a Freeze<'a>) -> Redo<'a> {
        Redo {
            fs,
            freeze,
            blocks: 0,
            nodes: 0,
            inodes: 0,
            truncs: BTreeMap::new(),
            freed_nids: Vec::new(),
            frees: Vec::new(),
            torn: None,
            joint: 0,
            blocks_ahead: Map::default(),
            done: Done::default(),
        }
    }

    /// The counts as they are now, from those of the pack; `said`: by the last transaction (P4).
    pub fn usage(&self, pack: Usage, said: Usage) -> Usage {
        let part = |n: u32, by: i64| (i64::from(n) + by).max(0) as u32;
        let counted = pack.blocks.saturating_add_signed(self.blocks);
        Usage {
            blocks: believed(counted, said.blocks, self.done.nodes_unread),
            nodes: part(pack.nodes, self.nodes),
            inodes: part(pack.inodes, self.inodes),
        }
    }

    /// One epoch.
    ///
    /// # Errors
    /// A record does not fit what it is about; I/O.
    pub fn epoch(&mut self, payload: &[u8]) -> FsResult<()> {
        let before = self.done.records + self.joint;
        let mut ahead = Ahead::new(payload);
        for group in Groups::new(payload) {
            let group = group.map_err(crate::fault::corrupt)?;
            let lacks = self.torn.is_some_and(|torn| takes(&group, torn));
            if lacks && rt::mutant(Mutant::F2fsjFileLeftOut) {
                continue;
            }
            self.group(&group, &mut ahead)?;
            self.spill()?;
        }
        for (first, count, log) in std::mem::take(&mut self.frees) {
            self.set_blocks(first, count, false, log)?;
        }
        self.done.epochs += 1;
        let redone = self.done.records + self.joint - before;
        rt::charge_each(cost::REDO_RECORD, redone);
        Ok(())
    }

    fn group(&mut self, group: &Group<'_>, ahead: &mut Ahead<'_>) -> FsResult<()> {
        let mut before: Map<Nid, Held> = Map::default();
        self.done.groups += 1;
        for record in group.iter() {
            let record = record.map_err(crate::fault::corrupt)?;
            if let Some(wanted) = ahead.step() {
                self.read_ahead(&wanted)?;
            }
            self.done.records += 1;
            self.record(group.ino, &record, &mut before)?;
        }
        // P2.
        let mut touched: Vec<(Nid, Held)> = before.into_iter().collect();
        touched.sort_unstable_by_key(|(nid, _)| *nid);
        for (nid, was) in touched {
            let is = self.held(nid)?;
            self.blocks += is.slots as i64 - was.slots as i64;
            for &gone in was.blocks.iter().filter(|b| !is.blocks.contains(b)) {
                self.set_blocks(gone, 1, false, Log::HotData)?;
            }
        }
        Ok(())
    }

    fn record(
        &mut self,
        ino: Nid,
        record: &Record<'_>,
        before: &mut Map<Nid, Held>,
    ) -> FsResult<()> {
        self.done.images += u64::from(matches!(record, Record::Page { .. }));
        match *record {
            Record::NodeNew {
                nid,
                ofs,
                cold,
                version,
            } => {
                self.touch(nid, before)?;
                self.new_node(ino, nid, (ofs, cold), version)
            }
            Record::NodeDel { nid, version } => self.end_of_node((ino, nid), version, before),
            Record::InodeDel {
                first,
                count,
                version,
            } => {
                self.joint += u64::from(count) - 1;
                (first.0..first.0 + u32::from(count))
                    .map(Nid)
                    .try_for_each(|nid| self.end_of_node((nid, nid), version, before))
            }
            Record::MapRun { nid, dir, .. } => {
                self.touch(nid, before)?;
                self.edit_node(nid, ino, record)?;
                match dir {
                    true => self.forget_pages(ino, record),
                    false => self.own_blocks(record),
                }
            }
            Record::InodeNew { .. } | Record::InodeAttr { .. } => {
                self.touch(ino, before)?;
                self.edit_node(ino, ino, record)
            }
            Record::DentSet { block, .. }
            | Record::DentClear { block, .. }
            | Record::DentIno { block, .. } => match block {
                Record::INLINE => self.edit_node(ino, ino, record),
                page => self.edit_page(ino, page, record),
            },
            Record::NodePtr { parent, .. } => self.edit_node(parent, ino, record),
            Record::Bytes { nid, .. } => match redo::page_of(record) {
                Some(page) => self.edit_page(ino, page, record),
                None => {
                    self.touch(nid, before)?;
                    self.edit_node(nid, ino, record)
                }
            },
            Record::Page {
                what, number, page, ..
            } => match what {
                PageKind::Node => {
                    self.touch(Nid(number), before)?;
                    self.node_image(Nid(number), ino, record)
                }
                PageKind::Dentries => {
                    // pages-J8.
                    if self.page_slot(ino, page.into())? == BlockAddr::NULL {
                        return Err(FsError::corrupt(format!(
                            "journal: an image of page {page} of directory {ino}, which no slot names"
                        )));
                    }
                    self.edit_page(ino, page, record)
                }
                // What they say the records beside them say, too.
                PageKind::Nat | PageKind::Sit => Ok(()),
            },
            _ => self.table_record(ino, record),
        }
    }

    /// A node is freed, of an inode.
    fn end_of_node(
        &mut self,
        (ino, nid): (Nid, Nid),
        version: u8,
        before: &mut Map<Nid, Held>,
    ) -> FsResult<()> {
        match self.fs.nodes.has(nid) {
            true => self.touch(nid, before)?,
            // P4.
            false => self.done.nodes_unread += 1,
        }
        self.free_node(ino, nid, version)
    }

    /// Reads what the next records are about and is not in memory.
    fn read_ahead(&mut self, wanted: &Wanted) -> FsResult<()> {
        let fs = self.fs;
        fs.redo_nodes_ahead(self.freeze, &wanted.nodes)?;
        let cached = |&&(dir, page): &&(Nid, u32)| {
            let page = fs.pages.get_if(Ino(dir.0), page.into(), || true);
            page.is_none()
        };
        let missing = wanted.pages.iter().filter(cached);
        // What is no page of a directory yet is refused when its record is redone, or is one then.
        let places = missing.filter_map(|&(dir, page)| self.page_slot(dir, page.into()).ok());
        let places = places.filter(|&at| fs.geo.is_main(at));
        let places: BTreeSet<BlockAddr> = places.collect();
        let lba = |at: &BlockAddr| (BlockNo(at.0.into()).lba(), SECTORS_PER_BLOCK);
        let runs: Vec<_> = places.iter().map(lba).collect();
        let read = places.into_iter().zip(fs.queue.read_many(&runs));
        self.blocks_ahead = read.filter_map(|(at, b)| Some((at, b.ok()?))).collect();
        Ok(())
    }

    /// A whole node; data blocks that it did not name before are its.
    fn node_image(&mut self, nid: Nid, ino: Nid, record: &Record<'_>) -> FsResult<()> {
        let was = self.data_of(nid)?;
        self.edit_node(nid, ino, record)?;
        let is = self.data_of(nid)?;
        let version = self.fs.nat.get(nid)?.version;
        let same = was.len() == is.len();
        for (slot, &addr) in is.iter().enumerate() {
            if addr.is_data() && !(same && was[slot] == addr) {
                let owner = Summary {
                    nid,
                    version,
                    ofs_in_node: slot as u16,
                };
                self.fs.segs.redo_owner(self.freeze, addr, owner)?;
            }
        }
        Ok(())
    }

    /// What the address slots of a node say, if it is none of a directory.
    fn data_of(&self, nid: Nid) -> FsResult<Vec<BlockAddr>> {
        let features = self.fs.features;
        self.fs.with_node(nid, |block| {
            let (slots, dir) = address_words(block, features);
            match dir {
                true => Vec::new(),
                false => slots.map(|at| addr(block, at)).collect(),
            }
        })
    }

    /// Records about no block of metadata.
    fn table_record(&mut self, ino: Nid, record: &Record<'_>) -> FsResult<()> {
        let fs = self.fs;
        match *record {
            Record::BlockRun {
                addr,
                count,
                alloc,
                log,
            } => match alloc {
                true => self.set_blocks(addr, count.into(), true, log)?,
                false => self.frees.push((addr, count.into(), log)),
            },
            Record::BlockMask {
                seg,
                alloc,
                log,
                mask,
            } => {
                let start = fs.geo.seg_start(seg);
                for n in (0..BLOCKS_PER_SEG).filter(|&n| bits::test_bit(mask, n as usize)) {
                    let addr = BlockAddr(start.0 + n);
                    match alloc {
                        true => self.set_blocks(addr, 1, true, log)?,
                        false => self.frees.push((addr, 1, log)),
                    }
                }
            }
            Record::SumRun {
                addr,
                count,
                version,
                nid,
                slot,
            } => {
                for n in 0..count {
                    let owner = Summary {
                        nid,
                        version,
                        ofs_in_node: slot + n,
                    };
                    fs.segs
                        .redo_owner(self.freeze, BlockAddr(addr.0 + u32::from(n)), owner)?;
                }
            }
            Record::OrphanAdd => fs.orphans.add(Ino(ino.0)),
            Record::OrphanDel => {
                fs.orphans.remove(Ino(ino.0));
            }
            Record::Trunc { from: u64::MAX } => drop(self.truncs.remove(&Ino(ino.0))),
            Record::Trunc { from } => drop(self.truncs.insert(Ino(ino.0), from)),
            // Logs stand where the last record of them says before anything is redone.
            _ => {}
        }
        Ok(())
    }

    fn set_blocks(&mut self, first: BlockAddr, count: u32, valid: bool, log: Log) -> FsResult<()> {
        for n in 0..count {
            let addr = BlockAddr(first.0 + n);
            let changed = self.fs.segs.redo_block(self.freeze, addr, valid, log)?;
            self.done.blocks += u64::from(changed);
        }
        Ok(())
    }

    fn new_node(&mut self, ino: Nid, nid: Nid, kind: (u32, bool), version: u8) -> FsResult<()> {
        let new = self
            .fs
            .redo_new_node(self.freeze, nid, ino, kind, version)?;
        if new {
            self.done.nodes_new += 1;
            self.nodes += 1;
            self.blocks += 1;
            self.inodes += i64::from(nid == ino);
        }
        Ok(())
    }

    fn free_node(&mut self, ino: Nid, nid: Nid, version: u8) -> FsResult<()> {
        if self.fs.redo_free_node(self.freeze, nid, version)? {
            self.freed_nids.push(nid);
            self.done.nodes_freed += 1;
            self.nodes -= 1;
            self.blocks -= 1;
            self.inodes -= i64::from(nid == ino);
        }
        if nid == ino {
            self.fs.pages.drop_range(Ino(ino.0), 0..u64::MAX);
            self.truncs.remove(&Ino(ino.0));
        }
        Ok(())
    }

    fn edit_node(&mut self, nid: Nid, ino: Nid, record: &Record<'_>) -> FsResult<()> {
        let features = self.fs.features;
        self.done.node_changes += 1;
        let op = self.freeze.op();
        let redone = self.fs.rewrite_node(op, nid, |block| {
            redo::node(block, nid, ino, features, record)
        })?;
        match redone? {
            true => Ok(()),
            false => Err(FsError::corrupt(format!(
                "journal: {record:?} in the group of inode {ino} is about no node of it"
            ))),
        }
    }

    fn edit_page(&mut self, dir: Nid, page: u32, record: &Record<'_>) -> FsResult<()> {
        self.done.dir_changes += 1;
        let (pages, ino, index) = (&self.fs.pages, Ino(dir.0), u64::from(page));
        let change = |block: &mut [u8]| redo::dir_block(block, dir, page, record);
        let done = match pages.edit(ino, index, None, change) {
            Some(done) => done,
            None => {
                let base = match is_whole(record, self.fs.features) {
                    true => Bytes::from(vec![0; BLOCK_BYTES]),
                    false => self.page_base(dir, index)?,
                };
                let done = pages.edit(ino, index, Some(&base), change);
                done.expect("a base was given")
            }
        };
        done.map(|_| ())
    }

    /// A page of a directory as it is at home; zeros if it is not.
    fn page_base(&mut self, dir: Nid, index: u64) -> FsResult<Bytes> {
        let at = self.page_slot(dir, index)?;
        if let Some(block) = self.blocks_ahead.remove(&at) {
            return Ok(block);
        }
        match at.is_data() {
            true => self.fs.read_node_block(at),
            false => Ok(Bytes::from(vec![0; BLOCK_BYTES])),
        }
    }

    /// What the slot of a page says; NULL if no node leads there.
    fn page_slot(&self, dir: Nid, index: u64) -> FsResult<BlockAddr> {
        let fs = self.fs;
        let addrs = self.addrs_of(dir)?;
        let Some(path) = node_path(index, addrs) else {
            return Err(FsError::corrupt(format!(
                "journal: directory {dir} has no page {index}"
            )));
        };
        let level = usize::from(path.level);
        let mut nid = dir;
        for step in 0..level {
            let at = nid_word(step, path.offsets[step]);
            nid = fs.with_node(nid, |block| nid_slot(block, at))?;
            if nid == Nid(0) {
                return Ok(BlockAddr::NULL);
            }
        }
        fs.with_node(nid, |block| {
            addr(block, addr_slot0(block) + usize::from(path.offsets[level]))
        })
    }

    /// Addresses in an inode.
    fn addrs_of(&self, ino: Nid) -> FsResult<u32> {
        let features = self.fs.features;
        let parsed = self
            .fs
            .with_node(ino, |block| InodeFields::parse(block, features))?;
        let fields = parsed.map_err(|e| crate::fault::corrupt(e.at_inode(Ino(ino.0))))?;
        Ok(fields.addrs_per_inode())
    }

    /// Pages of a directory whose slots were set are empty, whatever was there.
    fn forget_pages(&self, ino: Nid, record: &Record<'_>) -> FsResult<()> {
        let Record::MapRun {
            nid, slot, count, ..
        } = *record
        else {
            return Ok(());
        };
        let ofs = self
            .fs
            .with_node(nid, |block| footer(block).ofs_of_node())?;
        let first = first_page(ofs, self.addrs_of(ino)?);
        let first = first.ok_or_else(|| {
            FsError::corrupt(format!(
                "journal: node {nid} of directory {ino} has no pages"
            ))
        })?;
        let from = first + u64::from(slot);
        self.fs
            .pages
            .drop_range(Ino(ino.0), from..from + u64::from(count));
        Ok(())
    }

    /// Blocks that slots of a file name are its.
    fn own_blocks(&self, record: &Record<'_>) -> FsResult<()> {
        let Record::MapRun {
            nid,
            slot,
            count,
            addr,
            ..
        } = *record
        else {
            return Ok(());
        };
        if !addr.is_data() {
            return Ok(());
        }
        let version = self.fs.nat.get(nid)?.version;
        for n in 0..count {
            let owner = Summary {
                nid,
                version,
                ofs_in_node: slot + n,
            };
            self.fs
                .segs
                .redo_owner(self.freeze, BlockAddr(addr.0 + u32::from(n)), owner)?;
        }
        Ok(())
    }

    /// Notes what a node holds before the group changes it.
    fn touch(&self, nid: Nid, before: &mut Map<Nid, Held>) -> FsResult<()> {
        if let Entry::Vacant(place) = before.entry(nid) {
            place.insert(self.held(nid)?);
        }
        Ok(())
    }

    /// What a node holds; nothing if it is free.
    fn held(&self, nid: Nid) -> FsResult<Held> {
        let fs = self.fs;
        if fs.nat.get(nid)?.addr == BlockAddr::NULL {
            return Ok(Held::default());
        }
        fs.with_node(nid, |block| {
            let (slots, dir) = address_words(block, fs.features);
            let all = slots.map(|at| addr(block, at));
            let mut held = Held::default();
            for at in all.filter(|&at| at != BlockAddr::NULL) {
                held.slots += 1;
                if dir && at.is_data() {
                    held.blocks.push(at);
                }
            }
            held
        })
    }

    /// P1: nodes leave memory when there are too many dirty ones.
    fn spill(&mut self) -> FsResult<()> {
        let fs = self.fs;
        let limit = (fs.options.cache_bytes / BLOCK_BYTES) as u64 / SPILL_PART;
        if fs.options.read_only || fs.nodes.dirty() <= limit.max(SPILL_MIN) {
            return Ok(());
        }
        self.done.spilled += fs.write_nodes(self.freeze.op())?;
        fs.land_nodes()?;
        Ok(())
    }
}

/// The number of blocks in use: as `counted`, or less if the transaction says less and nodes that
/// went `unread` explain it (P4).
fn believed(counted: u64, said: u64, unread: u64) -> u64 {
    let least = counted.saturating_sub(unread.saturating_mul(ADDRS_PER_BLOCK.into()));
    match (least..=counted).contains(&said) {
        true => said,
        false => counted,
    }
}

/// True if the group gives the block to its inode.
fn takes(group: &Group<'_>, block: BlockAddr) -> bool {
    let run = |record: Record<'_>| match record {
        Record::BlockRun {
            addr,
            count,
            alloc: true,
            ..
        } => Some((addr, count)),
        _ => None,
    };
    let mut runs = group.iter().filter_map(|record| run(record.ok()?));
    runs.any(|(first, count)| (first.0..first.0 + u32::from(count)).contains(&block.0))
}

/// Words of a node block that are addresses of data, and whether it is a directory's.
fn address_words(block: &[u8], features: ondisk::f2fs::Features) -> (Range<usize>, bool) {
    let footer = footer(block);
    match footer.kind() {
        NodeKind::Direct => (0..ADDRS_PER_BLOCK as usize, !footer.is_cold()),
        NodeKind::Inode => match InodeFields::parse(block, features) {
            Ok(fields)
                if !fields.inline.has(Inline::DATA)
                    && !fields.inline.has(Inline::DENTRY)
                    && (fields.is_regular() || fields.is_dir() || fields.is_symlink()) =>
            {
                let first = fields.addr_slot0();
                let slots = first..first + fields.addrs_per_inode() as usize;
                (slots, fields.is_dir())
            }
            _ => (0..0, false),
        },
        _ => (0..0, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P4.
    #[test]
    fn a_count_of_blocks_is_believed_as_far_as_unread_nodes_explain_it() {
        let slots = u64::from(ADDRS_PER_BLOCK);
        for (said, unread, expected) in [
            (5000, 0, 5000),
            (4999, 0, 5000),
            (4999, 1, 4999),
            (5000 - slots, 1, 5000 - slots),
            (5000 - slots - 1, 1, 5000),
            (5001, 1, 5000),
            (0, 100, 0),
        ] {
            let found = believed(5000, said, unread);
            assert_eq!(found, expected, "P4: {said} with {unread} nodes");
        }
    }
}
