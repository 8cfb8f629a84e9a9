//! Makes the images of nodes and directory pages as they are after epoch T (apply-A1).

use super::Fold;
use crate::F2fs;
use crate::fault;
use crate::journal::Epoch;
use crate::journal::capture::redo;
use crate::journal::pages::image::{dir_slots, is_whole};
use base::{BLOCK_BYTES, BlockNo, Bytes, Ino, Map, SECTORS_PER_BLOCK};
use fscore::{FsError, FsResult};
use ondisk::f2fs::{
    BlockAddr, FOOTER_AT, INODE_NID_SLOT0, Inline, InodeFields, NatEntry, Nid, addr, addr_slot0,
    footer, nid_slot, node_path,
};
use std::collections::BTreeMap;

/// Blocks read at once.
const READ_BATCH: usize = 64;

/// Where the address of a directory page stands after epoch T.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::journal) struct PageSlot {
    /// The node.
    pub nid: Nid,
    /// The slot, counted from the first one of the node.
    pub slot: u16,
    /// Where home has the page; `None` if it was born since.
    pub home: Option<BlockAddr>,
    /// Order of the record that made it: of records about the page those behind count.
    since: u64,
}

/// How images came about.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(in crate::journal) struct Modes {
    pub fast_forward: u64,
    pub patched: u64,
    /// Records that did not have to be redone.
    pub saved: u64,
}

/// The state after epoch T, made when it is asked for.
pub(in crate::journal) struct Images<'f, 'a> {
    fs: &'f F2fs,
    target: Epoch,
    pub fold: Fold<'a>,
    fast_forward: bool,
    /// NAT entries at home.
    homes: BTreeMap<Nid, NatEntry>,
    /// Blocks at home.
    blocks: Map<BlockAddr, Bytes>,
    /// Nodes on the ways to directory pages.
    ways: Map<Nid, Bytes>,
    pub modes: Modes,
}

impl<'f, 'a> Images<'f, 'a> {
    pub fn new(fs: &'f F2fs, target: Epoch, fold: Fold<'a>, fast_forward: bool) -> Self {
        Images {
            fs,
            target,
            fold,
            fast_forward,
            homes: BTreeMap::new(),
            blocks: Map::default(),
            ways: Map::default(),
            modes: Modes::default(),
        }
    }

    /// Looks up all touched nodes at home, and reads what will have to be patched.
    pub fn read_ahead(&mut self) -> FsResult<()> {
        let nids: Vec<Nid> = self.fold.nodes.keys().copied().collect();
        let homes = self.fs.nat.home(&nids)?;
        self.homes.extend(nids.iter().copied().zip(homes));
        let gone = self.fold.gone.iter().map(|gone| gone.nid);
        let mut wanted: Vec<BlockAddr> = Vec::new();
        for nid in nids.iter().copied().chain(gone) {
            let node = &self.fold.nodes[&nid];
            let of_slots = self.fold.slots.contains_key(&nid);
            let patched = node.alive
                && node.from_home
                && !node.records.iter().any(|r| is_whole(r, self.fs.features))
                && (!self.fast_forward || self.live_node(nid).is_none());
            let at = self.homes[&nid].addr;
            if at.is_data() && (patched || of_slots && node.from_home) {
                wanted.push(at);
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        self.read(&wanted)
    }

    fn read(&mut self, wanted: &[BlockAddr]) -> FsResult<()> {
        for batch in wanted.chunks(READ_BATCH) {
            let place = |&addr: &BlockAddr| (BlockNo(addr.into()).lba(), SECTORS_PER_BLOCK);
            let runs: Vec<_> = batch.iter().map(place).collect();
            for (&addr, block) in batch.iter().zip(self.fs.queue.read_many(&runs)) {
                let block = block.map_err(fault::device("reading what is to be patched"))?;
                debug_assert_eq!(block.len(), BLOCK_BYTES, "a block was asked for");
                self.blocks.insert(addr, block);
            }
        }
        Ok(())
    }

    fn block(&mut self, at: BlockAddr) -> FsResult<Bytes> {
        if !self.fs.geo.is_main(at) {
            return Err(FsError::corrupt(format!(
                "block {at} is outside the main area, and home has something there"
            )));
        }
        if !self.blocks.contains_key(&at) {
            self.read(&[at])?;
        }
        Ok(self.blocks[&at].clone())
    }

    /// The entry of a node at home.
    pub fn home_entry(&mut self, nid: Nid) -> FsResult<NatEntry> {
        if let Some(entry) = self.homes.get(&nid) {
            return Ok(*entry);
        }
        let entry = self.fs.nat.home(&[nid])?[0];
        self.homes.insert(nid, entry);
        Ok(entry)
    }

    /// A node as home has it.
    pub fn home_node(&mut self, nid: Nid) -> FsResult<Bytes> {
        let entry = self.home_entry(nid)?;
        if !entry.addr.is_data() {
            return Err(FsError::corrupt(format!(
                "f2fs-journal-I3: node {nid} is changed, and was never made"
            )));
        }
        let block = self.block(entry.addr)?;
        self.fs
            .check_node(nid, entry.ino, &block)
            .map_err(|why| FsError::corrupt(format!("node {nid} at {}: {why}", entry.addr)))?;
        Ok(block)
    }

    /// Live, if no epoch behind T has touched it.
    fn live_node(&self, nid: Nid) -> Option<Bytes> {
        self.fs.nodes.unchanged_since(nid, self.target)
    }

    /// A node that is in use after T. Addresses of directory pages that this apply moves are still
    /// the old ones, or NEW.
    pub fn node(&mut self, nid: Nid) -> FsResult<Bytes> {
        let records = self.fold.nodes.get(&nid).map_or(0, |n| n.records.len()) as u64;
        let live = match self.fast_forward || records == 0 {
            true => self.live_node(nid),
            false => None,
        };
        match live {
            Some(live) => {
                self.modes.fast_forward += u64::from(records > 0);
                self.modes.saved += records;
                if cfg!(debug_assertions) {
                    let redone = self.redone(nid)?;
                    self.assert_same(nid, &redone, &live);
                }
                Ok(live)
            }
            None => {
                self.modes.patched += 1;
                let redone = self.redone(nid)?;
                if cfg!(debug_assertions)
                    && let Some(live) = self.live_node(nid)
                {
                    self.assert_same(nid, &redone, &live);
                }
                Ok(redone)
            }
        }
    }

    /// The block at home, or zeros, with the records; what lies before an image of all of it does
    /// not count.
    fn redone(&mut self, nid: Nid) -> FsResult<Bytes> {
        let features = self.fs.features;
        let folded = self.fold.nodes.get(&nid);
        let from_home = folded.is_none_or(|node| node.from_home);
        let image = folded.and_then(|n| n.records.iter().rposition(|r| is_whole(r, features)));
        let base = match from_home && image.is_none() {
            true => self.home_node(nid)?,
            false => crate::journal::zero_block(),
        };
        let Some(node) = self.fold.nodes.get(&nid).filter(|n| !n.records.is_empty()) else {
            return Ok(base);
        };
        let mut block = base.to_vec();
        for record in &node.records[image.unwrap_or(0)..] {
            let done = redo::node(&mut block, nid, node.ino, features, record)?;
            debug_assert!(done, "f2fs-journal-I3: {record:?} stands with node {nid}");
        }
        Ok(block.into())
    }

    /// f2fs-journal-I3. Live may name places of directory pages already that home does not have
    /// yet.
    fn assert_same(&self, nid: Nid, redone: &[u8], live: &[u8]) {
        let (a, b) = (self.plain(redone), self.plain(live));
        if a == b {
            return;
        }
        let at = a.iter().zip(&b).position(|(a, b)| a != b).unwrap_or(0);
        panic!(
            "f2fs-journal-I3: node {nid} ({:?}) after epoch {}: byte {at} is {} by records and {} live; records: {:?}",
            footer(live),
            self.target.0,
            a[at],
            b[at],
            self.fold.nodes.get(&nid).map(|n| &n.records),
        );
    }

    /// A node without what is not a matter of records: checksum, version and marks in the footer,
    /// places of directory pages.
    fn plain(&self, block: &[u8]) -> Vec<u8> {
        let mut plain = block.to_vec();
        plain[FOOTER_AT + 8..].fill(0);
        if footer(block).is_inode()
            && let Ok(fields) = InodeFields::parse(block, self.fs.features)
            && fields.inline.has(Inline::EXTRA_ATTR)
        {
            plain[0x170..0x174].fill(0);
        }
        for slot in dir_slots(block, self.fs.features) {
            let word = &mut plain[4 * slot..4 * slot + 4];
            let used = word.iter().any(|&b| b != 0);
            word.fill(u8::from(used));
        }
        plain
    }

    fn way_node(&mut self, nid: Nid) -> FsResult<Option<Bytes>> {
        if let Some(block) = self.ways.get(&nid) {
            return Ok(Some(block.clone()));
        }
        if self.fold.nodes.get(&nid).is_some_and(|node| !node.alive) {
            return Ok(None);
        }
        if !self.fold.nodes.contains_key(&nid) && !self.home_entry(nid)?.addr.is_data() {
            return Ok(None);
        }
        let modes = self.modes;
        let block = self.node(nid)?;
        self.modes = modes;
        self.ways.insert(nid, block.clone());
        Ok(Some(block))
    }

    /// Where page `page` of `dir` is after T; `None` if there is none.
    pub fn locate(&mut self, dir: Nid, page: u32) -> FsResult<Option<PageSlot>> {
        let Some(inode) = self.way_node(dir)? else {
            return Ok(None);
        };
        let fields = InodeFields::parse(&inode, self.fs.features)
            .map_err(|e| fault::corrupt(e.at_inode(Ino(dir.0))))?;
        if !fields.is_dir() || fields.inline.has(Inline::DENTRY) {
            return Ok(None);
        }
        let Some(path) = node_path(page.into(), fields.addrs_per_inode()) else {
            return Ok(None);
        };
        let level = usize::from(path.level);
        let (mut nid, mut block) = (dir, inode);
        for step in 0..level {
            let offset = usize::from(path.offsets[step]);
            let at = if step == 0 {
                INODE_NID_SLOT0 + offset
            } else {
                offset
            };
            nid = nid_slot(&block, at);
            if nid == Nid(0) {
                return Ok(None);
            }
            let Some(child) = self.way_node(nid)? else {
                return Err(FsError::corrupt(format!(
                    "f2fs-journal-I3: directory {dir} leads to node {nid}, which is free"
                )));
            };
            let foot = footer(&child);
            if foot.ino != dir || foot.ofs_of_node() != path.noffset[step + 1] {
                return Err(FsError::corrupt(format!(
                    "directory {dir}: node {nid} is another one's: {foot:?}"
                )));
            }
            block = child;
        }
        let slot = path.offsets[level];
        let says = addr(&block, addr_slot0(&block) + usize::from(slot));
        if says == BlockAddr::NULL {
            return Ok(None);
        }
        let mut events = self.fold.slots.get(&nid).into_iter().flatten();
        let last = events.rfind(|event| event.has(slot));
        let since = last.map_or(0, |event| event.order);
        let home = match last {
            Some(_) => None,
            None if says.is_data() => Some(says),
            None => {
                return Err(FsError::corrupt(format!(
                    "f2fs-journal-I3: page {page} of directory {dir} says NEW at home"
                )));
            }
        };
        Ok(Some(PageSlot {
            nid,
            slot,
            home,
            since,
        }))
    }

    /// A directory page after T.
    pub fn page(&mut self, dir: Nid, page: u32, slot: &PageSlot) -> FsResult<Bytes> {
        let live = match self.fast_forward {
            true => self.live_page(Ino(dir.0), page.into()),
            false => None,
        };
        match live {
            Some(live) => {
                self.modes.fast_forward += 1;
                self.modes.saved += self.fold.pages[&(dir, page)].len() as u64;
                if cfg!(debug_assertions) {
                    let redone = self.redone_page(dir, page, slot)?;
                    assert!(
                        redone == live,
                        "f2fs-journal-I3: page {page} of directory {dir} after epoch {} differs from its records",
                        self.target.0
                    );
                }
                Ok(live)
            }
            None => {
                self.modes.patched += 1;
                let redone = self.redone_page(dir, page, slot)?;
                if cfg!(debug_assertions)
                    && let Some(live) = self.live_page(Ino(dir.0), page.into())
                {
                    assert!(
                        redone == live,
                        "f2fs-journal-I3: page {page} of directory {dir} after epoch {} is another one by its records",
                        self.target.0
                    );
                }
                Ok(redone)
            }
        }
    }

    fn live_page(&self, dir: Ino, page: u64) -> Option<Bytes> {
        let journal = self.fs.journal.as_ref()?;
        let unchanged = || journal.stamps.last(dir, page) <= self.target;
        self.fs.pages.get_if(dir, page, unchanged)
    }

    fn redone_page(&mut self, dir: Nid, page: u32, slot: &PageSlot) -> FsResult<Bytes> {
        let features = self.fs.features;
        let records = &self.fold.pages[&(dir, page)];
        let first = records.partition_point(|(order, _)| *order <= slot.since);
        let image = records[first..]
            .iter()
            .rposition(|(_, r)| is_whole(r, features));
        let base = match (slot.home, image) {
            (Some(at), None) => self.block(at)?,
            _ => crate::journal::zero_block(),
        };
        let mut block = base.to_vec();
        for (_, record) in &self.fold.pages[&(dir, page)][first + image.unwrap_or(0)..] {
            redo::dir_block(&mut block, dir, page, record)?;
        }
        Ok(block.into())
    }
}
