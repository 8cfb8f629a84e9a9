//! Finds which blocks an epoch touches: one scan over its records, before its images are made.

use super::tables::{NodeAfter, TableChanges};
use crate::fault;
use crate::journal::OwnedGroup;
use crate::journal::capture::redo::{node_of, page_of};
use crate::segs::BlockMap;
use fscore::{FsError, FsResult};
use ondisk::f2fs::journal::{Record, Records};
use ondisk::f2fs::{BlockAddr, Geometry, Nid};
use std::collections::{BTreeMap, BTreeSet};

/// What becomes of a node in the epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fate {
    /// The node exists after the epoch.
    pub alive: bool,
    /// Slots of a directory in it became free or used.
    pub dir_slots: bool,
}

/// What an epoch touches.
#[derive(Default)]
pub(super) struct Scan {
    pub nodes: BTreeMap<Nid, Fate>,
    /// Directory pages.
    pub pages: BTreeSet<(Nid, u32)>,
    pub changes: TableChanges,
}

impl Scan {
    pub fn of(groups: &[OwnedGroup], geo: &Geometry) -> FsResult<Scan> {
        let mut scan = Scan::default();
        for group in groups {
            for record in Records::new(&group.bytes) {
                let record = record.map_err(fault::corrupt)?;
                scan.see(group.ino, &record, geo)?;
            }
        }
        Ok(scan)
    }

    fn see(&mut self, ino: Nid, record: &Record<'_>, geo: &Geometry) -> FsResult<()> {
        if let Some(page) = page_of(record) {
            self.pages.insert((ino, page));
        }
        if let Some(nid) = node_of(record, ino) {
            let fate = self.nodes.entry(nid).or_insert(Fate {
                alive: true,
                dir_slots: false,
            });
            fate.dir_slots |= matches!(record, Record::MapRun { dir: true, .. });
            fate.alive = !matches!(record, Record::NodeDel { .. });
        }
        let nodes = &mut self.changes.nodes;
        match *record {
            Record::NodeNew { nid, version, .. } => {
                nodes.insert(nid, NodeAfter { version, ino });
            }
            Record::NodeDel { nid, version } => {
                let ino = Nid(0);
                nodes.insert(nid, NodeAfter { version, ino });
            }
            Record::BlockRun {
                addr, count, alloc, ..
            } => {
                for addr in (addr.0..).take(count.into()).map(BlockAddr) {
                    let seg = geo.segno(addr).ok_or_else(|| {
                        FsError::corrupt(format!("pages-J4: block {addr} is outside the main area"))
                    })?;
                    let of = self.changes.segs.entry(seg).or_default();
                    of.part(alloc).set(geo.offset_in_seg(addr));
                }
            }
            Record::BlockMask {
                seg, alloc, mask, ..
            } => {
                let of = self.changes.segs.entry(seg).or_default();
                of.part(alloc).add(&BlockMap::from_bytes(mask));
            }
            _ => {}
        }
        Ok(())
    }
}
