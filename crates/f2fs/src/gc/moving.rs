//! Moves what is valid out of a section (gc-K1 to gc-K3; with a journal beside-K6 to beside-K8).

use crate::F2fs;
use crate::file::Why;
use crate::inode::Inode;
use crate::journal::Journal;
use crate::ops::Op;
use crate::segs::State;
use base::{BlockNo, Ino, SECTORS_PER_BLOCK};
use fscore::{FsError, FsResult, Home};
use ondisk::f2fs::{
    ADDRS_PER_BLOCK, BlockAddr, Geometry, Inline, NIDS_PER_BLOCK, Nid, NodeKind, SegNo, Summary,
    SummaryKind, footer, node_kind,
};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// What became of the valid blocks of a section.
#[derive(Default)]
pub(super) struct Moved {
    pub data: u64,
    pub nodes: u64,
    /// Stayed where they are.
    pub left: u64,
}

/// How far a section has been cleaned.
pub(super) struct Place {
    seg: u32,
    offset: u32,
    end: u32,
}

impl Place {
    pub fn start_of(section: u32, geo: &Geometry) -> Place {
        Place {
            seg: section * geo.segs_per_sec,
            offset: 0,
            end: (section + 1) * geo.segs_per_sec,
        }
    }
    pub fn is_end(&self) -> bool {
        self.seg == self.end
    }
    fn next_segment(&mut self) {
        self.seg += 1;
        self.offset = 0;
    }
}

/// A page of a file, and the block that it is to leave.
#[derive(Clone, Copy)]
pub(super) struct Page {
    pub index: u64,
    pub addr: BlockAddr,
}

/// What a node says of data blocks that name it.
#[derive(Clone)]
struct Owner {
    inode: Arc<Inode>,
    /// Page of its first slot.
    first: u64,
    slots: u32,
    version: u8,
}

/// What else may change metadata while blocks are moved.
#[derive(Clone, Copy)]
pub(super) enum Beside<'a> {
    /// Nothing: blocks are moved in the operation of a freeze.
    Nobody(&'a Op<'a>),
    /// Any operation: with a journal each move is an operation of its own (beside-K6).
    Anybody(&'a Journal),
}

impl F2fs {
    /// Moves the valid blocks of what is left of a section, at most `max` of them.
    pub(super) fn move_blocks(
        &self,
        beside: Beside<'_>,
        place: &mut Place,
        max: u32,
    ) -> FsResult<Moved> {
        let mut moved = Moved::default();
        let mut room = max as usize;
        while room > 0 && !place.is_end() {
            let seg = SegNo(place.seg);
            let (state, kind, valid) = self.segs.look(seg);
            let from = place.offset;
            let found = valid.ones().filter(|&i| i >= from).take(room);
            let found: Vec<u32> = if state == State::Used {
                found.collect()
            } else {
                Vec::new()
            };
            room -= found.len();
            match found.last() {
                Some(&last) if room == 0 => place.offset = last + 1,
                _ => place.next_segment(),
            }
            if !found.is_empty() {
                self.move_found(beside, seg, kind.is_node(), &found, &mut moved)?;
            }
        }
        Ok(moved)
    }

    fn move_found(
        &self,
        beside: Beside<'_>,
        seg: SegNo,
        nodes: bool,
        found: &[u32],
        moved: &mut Moved,
    ) -> FsResult<()> {
        let summary = self.segs.summary_of(seg)?;
        let expected = if nodes {
            SummaryKind::Node
        } else {
            SummaryKind::Data
        };
        if summary.kind() != Some(expected) {
            // The summary is of the wrong kind, so the owners are unknown: the volume is damaged,
            // or other software changed it.
            self.cp.need_fsck();
            moved.left += found.len() as u64;
            return Ok(());
        }
        let start = self.geo.seg_start(seg).0;
        let block = |&i: &u32| (BlockAddr(start + i), summary.entry(i));
        let blocks: Vec<(BlockAddr, Summary)> = found.iter().map(block).collect();
        match expected {
            SummaryKind::Node => self.move_nodes(beside, &blocks, moved),
            SummaryKind::Data => self.move_data(beside, &blocks, moved),
        }
    }

    /// Makes nodes dirty: the next writer of nodes writes them along, at the latest the next
    /// checkpoint. With a journal: beside-K7.
    fn move_nodes(
        &self,
        beside: Beside<'_>,
        blocks: &[(BlockAddr, Summary)],
        moved: &mut Moved,
    ) -> FsResult<()> {
        for (addr, owner) in blocks {
            let nid = owner.nid;
            // gc-K2.
            let is_owner = self.is_nid(nid) && self.nat.get(nid)?.addr == *addr;
            if !is_owner {
                moved.left += 1;
                continue;
            }
            match beside {
                Beside::Nobody(op) => self.edit_node(op, nid, |_| ())?,
                Beside::Anybody(journal) => journal.rewrite.node(nid),
            }
            moved.nodes += 1;
        }
        Ok(())
    }

    fn move_data(
        &self,
        beside: Beside<'_>,
        blocks: &[(BlockAddr, Summary)],
        moved: &mut Moved,
    ) -> FsResult<()> {
        let mut owners: BTreeMap<Nid, Option<Owner>> = BTreeMap::new();
        let mut files: BTreeMap<Ino, (Arc<Inode>, Vec<Page>)> = BTreeMap::new();
        for &(addr, summary) in blocks {
            let owner = match owners.entry(summary.nid) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => place.insert(self.owner_by_node(summary.nid)?),
            };
            let owner = owner.as_ref().filter(|owner| {
                owner.version == summary.version && u32::from(summary.ofs_in_node) < owner.slots
            });
            let Some(owner) = owner else {
                moved.left += 1;
                continue;
            };
            let index = owner.first + u64::from(summary.ofs_in_node);
            if !self.says(&owner.inode, index, addr)? || stays(&owner.inode) {
                moved.left += 1;
                continue;
            }
            if let Beside::Anybody(journal) = beside
                && owner.inode.is_dir()
            {
                // beside-K7.
                journal.rewrite.page(owner.inode.ino, index);
                moved.data += 1;
                continue;
            }
            let file = files.entry(owner.inode.ino);
            let (_, pages) = file.or_insert_with(|| (owner.inode.clone(), Vec::new()));
            pages.push(Page { index, addr });
        }
        for (inode, mut pages) in files.into_values() {
            pages.sort_unstable_by_key(|page| page.index);
            match beside {
                Beside::Nobody(op) => {
                    self.read_ahead(&inode, &pages);
                    for run in pages.chunk_by(|a, b| a.index + 1 == b.index) {
                        self.move_run(op, &inode, run, moved)?;
                    }
                    // gc-K3.
                    self.land(&inode)?;
                }
                Beside::Anybody(_) => self.move_pages_beside(&inode, &pages, moved)?,
            }
        }
        Ok(())
    }

    fn move_run(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        run: &[Page],
        moved: &mut Moved,
    ) -> FsResult<()> {
        for page in run {
            if !self.unsettle_page(inode, page.index)? {
                let what = format!(
                    "inode {}: page {} has a block and none",
                    inode.ino, page.index
                );
                return Err(FsError::corrupt(what));
            }
        }
        let (first, last) = (run[0].index, run[run.len() - 1].index);
        self.write_pages_within(op, inode, first..last + 1, Why::Clean, &inode.wb.lock())?;
        moved.data += run.len() as u64;
        Ok(())
    }

    /// gc-K2: the address slot of the page says `addr`.
    pub(super) fn says(&self, inode: &Inode, index: u64, addr: BlockAddr) -> FsResult<bool> {
        let mut tree = inode.tree.lock();
        match self.find_slot(inode, &mut tree, index) {
            Ok(slot) => Ok(slot.is_some_and(|slot| slot.addr == addr)),
            // Freed beside us, or damaged: it says nothing.
            Err(FsError::Corrupt { .. }) if self.journal.is_some() => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The file that a node belongs to, and which pages it leads to; `None` if it is none that
    /// leads to data.
    fn owner_by_node(&self, nid: Nid) -> FsResult<Option<Owner>> {
        if !self.is_nid(nid) {
            return Ok(None);
        }
        let entry = self.nat.get(nid)?;
        if entry.addr == BlockAddr::NULL {
            return Ok(None);
        }
        let footer = match self.with_node(nid, footer) {
            Err(FsError::Corrupt { .. }) => return Ok(None),
            other => other?,
        };
        let inode = match self.inode(Ino(footer.ino.0)) {
            Err(e @ FsError::Io { .. }) => return Err(e),
            Err(_) => return Ok(None),
            Ok(inode) => inode,
        };
        let addrs = inode.core().fields.addrs_per_inode();
        let ofs = footer.ofs_of_node();
        let Some(first) = first_page(ofs, addrs) else {
            return Ok(None);
        };
        Ok(Some(Owner {
            inode,
            first,
            slots: if ofs == 0 { addrs } else { ADDRS_PER_BLOCK },
            version: entry.version,
        }))
    }

    fn is_nid(&self, nid: Nid) -> bool {
        nid.0 != 0 && nid.0 < self.geo.max_nid
    }

    /// Reads the pages that are not cached, neighbours in one request. Errors are ignored: the code
    /// that then needs such a page gets the error.
    fn read_ahead(&self, inode: &Inode, pages: &[Page]) {
        let missing: Vec<Page> = pages
            .iter()
            .filter(|page| self.pages.state(inode.ino, page.index).is_none())
            .copied()
            .collect();
        let runs: Vec<&[Page]> = missing.chunk_by(|a, b| a.addr.0 + 1 == b.addr.0).collect();
        let place = |run: &&[Page]| {
            let at = BlockNo(run[0].addr.into());
            (at.lba(), run.len() as u64 * SECTORS_PER_BLOCK)
        };
        let places: Vec<_> = runs.iter().map(place).collect();
        for (run, answer) in runs.into_iter().zip(self.queue.read_many(&places)) {
            let Ok(bytes) = answer else { continue };
            for (page, at) in run.iter().zip((0..).step_by(base::BLOCK_BYTES)) {
                let content = bytes.slice(at..at + base::BLOCK_BYTES);
                self.pages.fill(inode.ino, page.index, content, Home::Known);
            }
        }
    }
}

/// Pinned files keep their blocks, and so does a file whose atomic write is being committed.
pub(super) fn stays(inode: &Inode) -> bool {
    let core = inode.core();
    core.atomic || core.fields.inline.has(Inline::PIN_FILE)
}

/// The page of the first slot of the node with offset `ofs` in a file whose inode has `addrs`
/// slots; `None` if such a node has none.
fn first_page(ofs: u32, addrs: u32) -> Option<u64> {
    const GROUP: u64 = NIDS_PER_BLOCK as u64 + 1;
    match node_kind(ofs) {
        NodeKind::Inode => return Some(0),
        NodeKind::Direct => {}
        _ => return None,
    }
    // How many nodes before it lead to no data: the inode, and indirect nodes at the head of their
    // groups.
    let ofs = u64::from(ofs);
    let above = match ofs {
        0..=2 => 1,
        ofs if ofs < 3 + 2 * GROUP => 1 + (ofs - 3) / GROUP + 1,
        ofs => 1 + 2 + 1 + (ofs - 4 - 2 * GROUP) / GROUP + 1,
    };
    Some(u64::from(addrs) + (ofs - above) * u64::from(ADDRS_PER_BLOCK))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::f2fs::{max_file_blocks, node_path};

    #[test]
    fn first_pages_are_those_that_paths_lead_to() {
        let edges = [0, 922, 923, 1940, 1941, 2958, 2959, 2959 + 1018 * 1018];
        let spread = (0..max_file_blocks()).step_by(77_777);
        for block in edges.into_iter().chain(spread) {
            let path = node_path(block, 923).expect("below the largest file");
            let level = usize::from(path.level);
            let first = first_page(path.noffset[level], 923).expect("leads to data");
            assert_eq!(first + u64::from(path.offsets[level]), block);
            for ofs in &path.noffset[1..level.max(1)] {
                assert_eq!(first_page(*ofs, 923), None, "an indirect node");
            }
        }
        assert_eq!(first_page(ondisk::f2fs::XATTR_NODE_OFFSET, 923), None);
    }
}
