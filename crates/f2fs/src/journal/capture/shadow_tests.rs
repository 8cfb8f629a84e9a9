//! A volume as its records make it: what tests compare the live volume with.

use super::redo;
use crate::F2fs;
use crate::file::Why;
use crate::journal::OwnedGroup;
use crate::space::Usage;
use base::{BLOCK_BYTES, Ino};
use ondisk::f2fs::journal::{Group, PageKind, Record, Records};
use ondisk::f2fs::{
    ADDRS_PER_BLOCK, BLOCKS_PER_SEG, BlockAddr, FOOTER_AT, Inline, InodeFields, Nid, NodeKind,
    addr_slot0, footer,
};
use std::collections::{BTreeMap, BTreeSet};

/// A volume as its records make it.
#[derive(Clone)]
pub(super) struct Shadow {
    nodes: BTreeMap<Nid, (Nid, Vec<u8>)>,
    pages: BTreeMap<(Nid, u32), Vec<u8>>,
    valid: BTreeSet<u32>,
    orphans: BTreeSet<Nid>,
    /// Kinds of records, in their order.
    pub kinds: Vec<(Nid, String)>,
    epochs: u64,
}

impl Shadow {
    /// A fresh volume: the root, and its page if it has one.
    pub fn new(fs: &F2fs) -> Shadow {
        let root = fs.geo.root;
        let block = fs.node(root).expect("the root");
        let mut pages = BTreeMap::new();
        let dir = fs.inode(Ino(root.0)).expect("the root");
        if !dir.core().fields.inline.has(Inline::DENTRY) {
            pages.insert((root, 0), fs.dir_page(&dir, 0).expect("page").to_vec());
        }
        Shadow {
            nodes: BTreeMap::from([(root, (root, block.to_vec()))]),
            pages,
            valid: BTreeSet::new(),
            orphans: BTreeSet::new(),
            kinds: Vec::new(),
            epochs: 0,
        }
    }

    /// Redoes all epochs that are committed and were not redone before. Answers what is in use
    /// then.
    pub fn redo(&mut self, fs: &F2fs) -> Usage {
        let journal = fs.journal.as_ref().expect("a journal");
        let all: Vec<_> = journal.committed.lock().iter().cloned().collect();
        let usage = all.last().map_or(Usage::default(), |last| last.usage);
        for epoch in all.iter().skip(self.epochs as usize) {
            self.redo_epoch(fs, &epoch.groups);
        }
        usage
    }

    pub fn redo_epoch(&mut self, fs: &F2fs, groups: &[OwnedGroup]) {
        // Validity of an epoch: all that came, then all that went.
        let mut freed = Vec::new();
        for group in groups {
            let of = Group {
                ino: group.ino,
                generation: 0,
                records: group.records,
                bytes: &group.bytes,
            };
            for record in of.iter() {
                self.record(fs, group.ino, &record.expect("encoded"), &mut freed);
            }
        }
        for block in freed {
            assert!(self.valid.remove(&block), "block {block} was not valid");
        }
        self.epochs += 1;
    }

    /// Both are in the same state, whatever records brought them there.
    pub fn assert_same(&self, other: &Shadow, features: ondisk::f2fs::Features) {
        let epoch = self.epochs;
        let nids = |of: &Shadow| of.nodes.keys().copied().collect::<Vec<_>>();
        assert_eq!(
            nids(self),
            nids(other),
            "pages-J3: nodes after {epoch} epochs"
        );
        for (nid, (ino, block)) in &self.nodes {
            let (other_ino, there) = &other.nodes[nid];
            assert_eq!(ino, other_ino, "pages-J3: node {nid} after {epoch} epochs");
            let plain = |block| crate::journal::pages::image::of_node(block, features);
            let (a, b) = (plain(block), plain(there));
            let at = a.iter().zip(&b).position(|(a, b)| a != b);
            assert_eq!(
                at, None,
                "pages-J3: node {nid} after {epoch} epochs: that byte"
            );
        }
        assert_eq!(
            self.pages, other.pages,
            "pages-J3: pages after {epoch} epochs"
        );
        assert_eq!(
            self.valid, other.valid,
            "pages-J3: blocks after {epoch} epochs"
        );
        assert_eq!(
            self.orphans, other.orphans,
            "pages-J3: orphans after {epoch} epochs"
        );
    }

    /// Images alone, of nodes and pages that are there.
    pub fn redo_images(&mut self, fs: &F2fs, groups: &[OwnedGroup]) {
        for group in groups {
            for record in Records::new(&group.bytes) {
                let record = record.expect("encoded");
                if matches!(record, Record::Page { .. }) {
                    self.blocks(fs, group.ino, &record);
                }
            }
        }
    }

    fn record(&mut self, fs: &F2fs, ino: Nid, record: &Record<'_>, freed: &mut Vec<u32>) {
        let name = format!("{record:?}");
        let kind = name.split([' ', '{']).next().expect("a name");
        self.kinds.push((ino, kind.to_string()));
        match *record {
            Record::NodeNew { nid, .. } => {
                let block = vec![0xEE; BLOCK_BYTES];
                let old = self.nodes.insert(nid, (ino, block));
                assert!(old.is_none(), "node {nid} comes twice");
            }
            Record::NodeDel { nid, .. } => {
                let old = self.nodes.remove(&nid).expect("a node that goes was there");
                assert_eq!(old.0, ino, "node {nid}");
                self.pages.retain(|(dir, _), _| *dir != nid);
            }
            Record::InodeDel { first, count, .. } => {
                for nid in (first.0..first.0 + u32::from(count)).map(Nid) {
                    let old = self
                        .nodes
                        .remove(&nid)
                        .expect("an inode that goes was there");
                    assert_eq!(old.0, nid, "inode {nid}");
                    self.pages.retain(|(dir, _), _| *dir != nid);
                }
            }
            Record::BlockRun {
                addr, count, alloc, ..
            } => {
                for at in addr.0..addr.0 + u32::from(count) {
                    match alloc {
                        true => assert!(self.valid.insert(at), "block {at} is taken twice"),
                        false => freed.push(at),
                    }
                }
            }
            Record::BlockMask {
                seg, alloc, mask, ..
            } => {
                assert!(!alloc, "masks are of blocks that go");
                let start = fs.geo.seg_start(seg).0;
                let has = |n: &u32| ondisk::f2fs::bits::test_bit(mask, *n as usize);
                freed.extend((0..BLOCKS_PER_SEG).filter(has).map(|n| start + n));
            }
            Record::OrphanAdd => assert!(self.orphans.insert(ino)),
            Record::OrphanDel => assert!(self.orphans.remove(&ino)),
            Record::MapRun {
                nid,
                slot,
                count,
                addr,
                dir: true,
            } => self.dir_slots(fs, nid, slot, count, addr),
            _ => {}
        }
        self.blocks(fs, ino, record);
    }

    /// Pages of a directory come as zeros.
    fn dir_slots(&mut self, fs: &F2fs, nid: Nid, slot: u16, count: u16, addr: BlockAddr) {
        assert!(
            !addr.is_data(),
            "a record has the address of a directory's block"
        );
        let (dir, block) = &self.nodes[&nid];
        let (inode, node) = (&self.nodes[dir].1, footer(block));
        let addrs = InodeFields::parse(inode, fs.features).expect("an inode");
        let first = match node.ofs_of_node() {
            0 => 0,
            ofs => addrs.addrs_per_inode() + (ofs - 1) * ADDRS_PER_BLOCK,
        };
        for page in first + u32::from(slot)..first + u32::from(slot + count) {
            match addr == BlockAddr::NEW {
                true => drop(self.pages.insert((*dir, page), vec![0; BLOCK_BYTES])),
                false => drop(self.pages.remove(&(*dir, page))),
            }
        }
    }

    fn blocks(&mut self, fs: &F2fs, ino: Nid, record: &Record<'_>) {
        if let Some(page) = redo::page_of(record) {
            let block = self
                .pages
                .get_mut(&(ino, page))
                .expect("a page with its slot");
            let done = redo::dir_block(block, ino, page, record);
            return assert!(done.expect("it fits"));
        }
        let mut concerned = 0;
        for (nid, (owner, block)) in &mut self.nodes {
            if *owner == ino {
                let done = redo::node(block, *nid, ino, fs.features, record);
                concerned += u32::from(done.expect("it fits"));
            }
        }
        let about_node = redo::concerns_node(ino, ino, record)
            || matches!(
                record,
                Record::NodeNew { .. }
                    | Record::MapRun { .. }
                    | Record::NodePtr { .. }
                    | Record::Bytes { .. }
                    | Record::Page {
                        what: PageKind::Node,
                        ..
                    }
            );
        assert_eq!(concerned, u32::from(about_node), "{record:?}");
    }

    /// The live volume is this one.
    fn compare(&self, fs: &F2fs, usage: Usage) {
        for (nid, entry) in fs.nat.ahead_of_home() {
            let here = self.nodes.contains_key(&nid);
            assert_eq!(here, entry.addr != BlockAddr::NULL, "node {nid}: {entry:?}");
        }
        for (&nid, (ino, block)) in &self.nodes {
            let live = fs.node(nid).expect("a live node");
            let mut redone = block.clone();
            redone[FOOTER_AT..].copy_from_slice(&live[FOOTER_AT..]);
            if footer(&live).kind() == NodeKind::Inode && 4 * addr_slot0(&live) >= 0x174 {
                redone[0x170..0x174].copy_from_slice(&live[0x170..0x174]);
            }
            assert_eq!(footer(&live).ino, *ino);
            let at = redone.iter().zip(&live).position(|(a, b)| a != b);
            assert_eq!(at, None, "node {nid} of inode {ino} differs at that byte");
        }
        for ((dir, page), block) in &self.pages {
            let live = fs.pages.get(Ino(dir.0), u64::from(*page));
            let live = live.expect("f2fs-journal-I9: a page that is not at home is in memory");
            assert!(block[..] == live[..], "page {page} of directory {dir}");
        }
        for &block in &self.valid {
            let valid = fs
                .segs
                .is_valid(BlockAddr(block))
                .expect("in the main area");
            assert!(valid, "block {block}");
        }
        let orphans: Vec<Nid> = fs.orphans.all().iter().map(|ino| Nid(ino.0)).collect();
        assert_eq!(orphans, self.orphans.iter().copied().collect::<Vec<_>>());
        assert_eq!(usage, fs.space.usage(), "counts of the last epoch");
    }
}

/// Commits all, redoes all, compares. What is written back is: the sizes are those of the files.
pub(super) fn check(fs: &F2fs, shadow: &mut Shadow, valid_before: u64) {
    fs.write_files(None, Why::Flush).expect("written");
    let _ = fs.land_files();
    fs.commit_all(crate::journal::CommitReason::Sync)
        .expect("committed");
    let usage = shadow.redo(fs);
    shadow.compare(fs, usage);
    let data = shadow.valid.len() as u64;
    assert_eq!(fs.segs.valid_blocks(), valid_before + data, "valid blocks");
    for (&nid, (_, block)) in &shadow.nodes {
        if footer(block).is_inode() {
            let inode = fs.inode(Ino(nid.0));
            let Ok(inode) = inode else { continue };
            let core = inode.core();
            let node = InodeFields::parse(block, fs.features).expect("an inode");
            assert_eq!(node.size, core.fields.size, "size of inode {nid}");
            assert_eq!(node.ext.len, 0, "no run is kept");
        }
    }
}
