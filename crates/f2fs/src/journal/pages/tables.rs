//! Makes the images of NAT and SIT blocks as they are after an epoch (pages-J4).

use super::image::record_of;
use super::{OfTables, PagesLogged};
use crate::F2fs;
use crate::journal::{Epoch, Journal};
use crate::segs::{BlockMap, HomeChanges};
use base::BLOCK_BYTES;
use fscore::FsResult;
use ondisk::f2fs::journal::PageKind;
use ondisk::f2fs::{BlockAddr, NAT_PER_BLOCK, NatEntry, Nid, SIT_PER_BLOCK, SegNo};
use rt::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// A node number after an epoch that made or freed its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NodeAfter {
    pub version: u8,
    /// 0: free.
    pub ino: Nid,
}

/// Blocks of a segment that an epoch took and freed; none of those that it freed is taken again in
/// it.
#[derive(Clone, Copy, Default)]
pub(super) struct OfSegment {
    taken: BlockMap,
    freed: BlockMap,
}

impl OfSegment {
    /// The blocks that were taken, or those that were freed.
    pub fn part(&mut self, taken: bool) -> &mut BlockMap {
        match taken {
            true => &mut self.taken,
            false => &mut self.freed,
        }
    }
}

/// What an epoch did to NAT and SIT.
#[derive(Default)]
pub(super) struct TableChanges {
    pub nodes: BTreeMap<Nid, NodeAfter>,
    pub segs: BTreeMap<SegNo, OfSegment>,
}

type OfEpoch = (Epoch, Arc<TableChanges>);

/// What the epochs behind the applied one did to NAT and SIT.
pub(in crate::journal) struct Tables(Mutex<VecDeque<OfEpoch>>);

impl Tables {
    pub fn new() -> Tables {
        Tables(Mutex::named("f2fs tables of epochs", VecDeque::new()))
    }

    /// Epochs up to this one are home.
    pub fn applied(&self, upto: Epoch) {
        self.0.lock().retain(|(epoch, _)| *epoch > upto);
    }

    /// Adds an epoch; answers all of them, oldest first.
    fn add(&self, epoch: Epoch, changes: TableChanges) -> Vec<OfEpoch> {
        let mut all = self.0.lock();
        all.push_back((epoch, Arc::new(changes)));
        all.iter().cloned().collect()
    }
}

/// An entry of the NAT, of whose node `to` is known.
fn entry_after(was: NatEntry, to: NodeAfter) -> NatEntry {
    let NodeAfter { version, ino } = to;
    let same = was.ino == ino && was.version == version && was.addr.is_data();
    let addr = match ino {
        Nid(0) => BlockAddr::NULL,
        _ if same => was.addr,
        _ => BlockAddr::NEW,
    };
    NatEntry { version, ino, addr }
}

impl F2fs {
    /// Images of the NAT and SIT blocks that `changes` touch, after `epoch`.
    pub(super) fn table_pages(
        &self,
        journal: &Journal,
        epoch: Epoch,
        changes: TableChanges,
        mut logged: PagesLogged,
    ) -> FsResult<OfTables> {
        let nat: BTreeSet<u32> = changes
            .nodes
            .keys()
            .map(|&n| self.geo.nat_block(n).0)
            .collect();
        let sit: BTreeSet<u32> = changes.segs.keys().map(|s| sit_block(*s)).collect();
        // Before home is looked at: what an apply makes home meanwhile is in both then, not in
        // none.
        let epochs = journal.tables.add(epoch, changes);
        let mut made = OfTables::default();
        let mut put = |what, number, image: &[u8]| -> FsResult<()> {
            record_of(what, number, 0, image)?.encode(&mut made.bytes);
            made.records += 1;
            Ok(())
        };
        for block in nat {
            put(PageKind::Nat, block, &self.nat_after(&epochs, block)?)?;
            logged.nat += 1;
        }
        for block in sit {
            put(PageKind::Sit, block, &self.sit_after(&epochs, block))?;
            logged.sit += 1;
        }
        made.logged = logged;
        Ok(made)
    }

    fn nat_after(&self, epochs: &[OfEpoch], block: u32) -> FsResult<Vec<u8>> {
        let per_block = NAT_PER_BLOCK as u32;
        let first = block * per_block;
        let mut entries = self.nat.home_block(block)?;
        for (_, changes) in epochs {
            for (nid, &to) in changes.nodes.range(Nid(first)..Nid(first + per_block)) {
                let entry = &mut entries[(nid.0 - first) as usize];
                *entry = entry_after(*entry, to);
            }
        }
        let mut image = vec![0; BLOCK_BYTES];
        for (n, entry) in entries.into_iter().enumerate() {
            entry.put(&mut image, n);
        }
        Ok(image)
    }

    fn sit_after(&self, epochs: &[OfEpoch], block: u32) -> base::Bytes {
        let first = block * SIT_PER_BLOCK as u32;
        let segs = SegNo(first)..SegNo(first + SIT_PER_BLOCK as u32);
        let mut maps = HomeChanges::new();
        for (_, changes) in epochs {
            for (&seg, of) in changes.segs.range(segs.clone()) {
                let map = maps.entry(seg).or_insert_with(|| self.segs.home_map(seg));
                map.add(&of.taken);
                *map = map.without(&of.freed);
            }
        }
        self.segs.home_image(&maps, block)
    }
}

/// The SIT block that has the entry of a segment, counted in one copy.
fn sit_block(seg: SegNo) -> u32 {
    seg.0 / SIT_PER_BLOCK as u32
}
