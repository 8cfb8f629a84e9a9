//! A journal of pages (`records=pages`): the transaction of an epoch has whole blocks, as in JBD2,
//! instead of what changed in them.
//!
//! Operations log records as without this option; here the records say which blocks were touched.
//! When epoch e is committed, its transaction gets the 4 KiB of each node and directory page that
//! its records touch, as they are after e, and each block of NAT and SIT with an entry for a node
//! number or data block that was taken or freed. Beside the images only those records stay that no
//! image expresses: birth and death of nodes, blocks taken and freed, orphans, truncations under
//! way, and which slots of directories became free or used. What is committed and not applied is
//! kept in memory in the same form, so that apply writes what the log holds, as JBD2's checkpoint
//! does.
//!
//! Recovery and apply rely on this:
//! - J1 (f2fs-journal-I2, f2fs-journal-I3) the image of a node or directory page in the transaction
//!   of e is its state after e, and contains nothing later. If no epoch behind e has touched it
//!   (checked under the lock under which a change and its stamp are made, together with the copy),
//!   the image is the live block. Otherwise it is made from the image that the epochs before e have
//!   of it, else from home, by the records of e, while no apply runs (hazards-F45);
//! - J2 (f2fs-journal-I5) an image is a value: to redo it twice is to redo it once. It replaces the
//!   whole block, except for the places of directory pages, which apply alone decides: an image
//!   says of such a slot whether it is used, and the slot keeps the place that it has;
//! - J3 redo(pages of e) = redo(records of e), for every node, page, block and orphan: a record is
//!   left out only if an image in the same transaction has its effect, or if the block that it
//!   changed is gone after e;
//! - J4 an image of NAT or SIT is the block at home, changed by all epochs behind home up to e in
//!   their order. The epochs are looked at before home: an apply that ends in between adds only
//!   changes that are already in. The image agrees with the records beside it; recovery takes the
//!   values from the records, and refuses a transaction in which the two differ;
//! - J5 what is kept for apply, and for the images of later epochs, is what the transaction has,
//!   byte for byte, except for NAT and SIT;
//! - J6 (reserve-V2) the bound of an epoch is judged in pages: the first operation in an epoch that
//!   touches a block adds 4 KiB to it. An epoch that becomes larger than the whole ring
//!   nevertheless is committed by a pack (f2fs-commit-K8);
//! - J7 (f2fs-journal-I7) a cut leaves the transaction whole or not at all, by f2fs-commit-K1 to
//!   f2fs-commit-K8, which do not depend on what is in it;
//! - J8 a directory page has an image only if a slot names it after e, because recovery would write
//!   a page that no slot names, and leak its block. Recovery refuses such an image.

mod group;
pub(super) mod image;
mod scan;
mod tables;
mod touched;

pub(super) use tables::Tables;
pub(super) use touched::{Load, Touched};

use super::{Closed, Journal};
use crate::F2fs;
use base::cost::journal::BLOCK_COPY;
use base::{Bytes, Ino, Map, Mutant};
use fscore::FsResult;
use group::Paged;
use ondisk::f2fs::Nid;
use scan::Scan;

/// What a journal of pages logged instead of records.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct PagesLogged {
    /// Node blocks.
    pub node: u64,
    /// Directory blocks.
    pub dentry: u64,
    /// NAT blocks.
    pub nat: u64,
    /// SIT blocks.
    pub sit: u64,
    /// Node and directory blocks that an operation behind the epoch had touched before the commit
    /// had copied them. JBD2 copies such blocks when they are touched.
    pub late: u64,
    /// Records that are not in the log, because an image has their effect.
    pub left_out: u64,
}

impl PagesLogged {
    /// All blocks.
    pub fn blocks(&self) -> u64 {
        self.node + self.dentry + self.nat + self.sit
    }

    /// Adds what one commit logged.
    pub(super) fn add(&mut self, of: &PagesLogged) {
        self.node += of.node;
        self.dentry += of.dentry;
        self.nat += of.nat;
        self.sit += of.sit;
        self.late += of.late;
        self.left_out += of.left_out;
    }
}

/// What a transaction has beside the groups of its inodes.
#[derive(Default)]
pub(super) struct OfTables {
    /// Records of NAT and SIT blocks, encoded.
    pub bytes: Vec<u8>,
    /// Number of these records.
    pub records: u32,
    /// How many blocks of each kind were logged, and how many records they replace.
    pub logged: PagesLogged,
}

/// Blocks after an epoch.
#[derive(Default)]
struct Images {
    /// As a PAGE record has them.
    nodes: Map<Nid, Bytes>,
    /// Directory pages that exist after the epoch.
    pages: Map<(Nid, u32), Bytes>,
    /// Blocks whose live state is later than the epoch: an operation behind the epoch has touched
    /// them, they were dropped in the epoch, or they are not in memory any more.
    late_nodes: Vec<Nid>,
    late_pages: Vec<(Nid, u32)>,
}

impl F2fs {
    /// Puts images in the place of what `closed` gathered, whose operations have ended. The caller
    /// leads (f2fs-commit-K4).
    ///
    /// # Errors
    /// Damage; I/O.
    pub(super) fn make_pages(&self, journal: &Journal, closed: &mut Closed) -> FsResult<OfTables> {
        let scan = Scan::of(&closed.groups, &self.geo)?;
        let mut images = self.live_images(journal, closed, &scan);
        let late = (images.late_nodes.len() + images.late_pages.len()) as u64;
        if late > 0 {
            self.late_images(journal, closed, &mut images)?;
            rt::charge_each(BLOCK_COPY, late);
        }
        let mut logged = PagesLogged {
            late,
            ..PagesLogged::default()
        };
        let mut groups = Vec::with_capacity(closed.groups.len());
        for group in &closed.groups {
            let paged = Paged::of(group, &scan, &images, &mut logged)?;
            groups.extend(paged);
        }
        let bytes = groups.iter().map(|g| g.bytes.len() as u64).sum();
        // J5: apply gets these groups, and so does the transaction.
        journal.plane.kept_instead(closed.bytes, bytes);
        #[cfg(test)]
        {
            closed.records = std::mem::take(&mut closed.groups);
        }
        (closed.groups, closed.bytes) = (groups, bytes);
        self.table_pages(journal, closed.epoch, scan.changes, logged)
    }

    /// J1, its first half.
    fn live_images(&self, journal: &Journal, closed: &Closed, scan: &Scan) -> Images {
        let epoch = closed.epoch;
        let mut images = Images::default();
        // hazards-F45.
        let upto = match rt::mutant(Mutant::F2fsjPageAhead) {
            true => super::Epoch(u64::MAX),
            false => epoch,
        };
        for (&nid, _) in scan.nodes.iter().filter(|(_, fate)| fate.alive) {
            match self.nodes.unchanged_since(nid, upto) {
                Some(live) => {
                    let image = image::of_node(&live, self.features);
                    images.nodes.insert(nid, image);
                }
                None => images.late_nodes.push(nid),
            }
        }
        for &(dir, page) in &scan.pages {
            if scan.nodes.get(&dir).is_some_and(|fate| !fate.alive) {
                continue;
            }
            let (ino, index) = (Ino(dir.0), u64::from(page));
            // J8: if the epoch dropped the page, the slot says whether it is there again. Memory
            // may hold zeros that a lookup read.
            let stamps = &journal.stamps;
            let unchanged =
                || stamps.last(ino, index) <= upto && stamps.dropped(ino, index) < epoch;
            match self.pages.get_if(ino, index, unchanged) {
                Some(live) => drop(images.pages.insert((dir, page), live)),
                None => images.late_pages.push((dir, page)),
            }
        }
        images
    }

    /// J1, its second half.
    fn late_images(&self, journal: &Journal, closed: &Closed, images: &mut Images) -> FsResult<()> {
        self.with_state_after(journal, closed.epoch, &closed.groups, |state| {
            for &nid in &images.late_nodes {
                let image = image::of_node(&state.node(nid)?, self.features);
                images.nodes.insert(nid, image);
            }
            for &(dir, page) in &images.late_pages {
                if let Some(slot) = state.locate(dir, page)? {
                    let image = state.page(dir, page, &slot)?;
                    images.pages.insert((dir, page), image);
                }
            }
            Ok(())
        })
    }
}
