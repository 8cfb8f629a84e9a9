//! The records of an inode in an epoch, in which images replace the records whose effect they
//! contain (pages-J3).

use super::image::record_of;
use super::scan::Scan;
use super::touched::stays;
use super::{Images, PagesLogged};
use crate::fault;
use crate::journal::OwnedGroup;
use crate::journal::capture::redo::{node_of, page_of};
use fscore::{FsError, FsResult};
use ondisk::f2fs::Nid;
use ondisk::f2fs::journal::{PageKind, Record, Records};
use std::collections::BTreeSet;

/// A group that is being made.
pub(super) struct Paged<'a> {
    made: OwnedGroup,
    images: &'a Images,
    /// Nodes whose image is in it.
    nodes: BTreeSet<Nid>,
    logged: &'a mut PagesLogged,
}

impl<'a> Paged<'a> {
    /// The group with images; `None` if nothing of it is left.
    ///
    /// # Errors
    /// The records cannot be read; an image is missing.
    pub fn of(
        group: &OwnedGroup,
        scan: &Scan,
        images: &'a Images,
        logged: &'a mut PagesLogged,
    ) -> FsResult<Option<OwnedGroup>> {
        let ino = group.ino;
        let mut paged = Paged {
            made: OwnedGroup {
                ino,
                records: 0,
                bytes: Vec::new(),
            },
            images,
            nodes: BTreeSet::new(),
            logged,
        };
        for record in Records::new(&group.bytes) {
            paged.one(&record.map_err(fault::corrupt)?, scan)?;
        }
        // Behind the slots: a slot that became used makes zeros of its page.
        for &(_, page) in scan.pages.range((ino, 0)..=(ino, u32::MAX)) {
            if let Some(image) = images.pages.get(&(ino, page)) {
                paged.image(PageKind::Dentries, ino.0, page, image)?;
                paged.logged.dentry += 1;
            }
        }
        let made = paged.made;
        Ok((made.records > 0).then_some(made))
    }

    fn one(&mut self, record: &Record<'_>, scan: &Scan) -> FsResult<()> {
        let Some(nid) = node_of(record, self.made.ino) else {
            match page_of(record) {
                Some(_) => self.logged.left_out += 1,
                None => self.keep(record),
            }
            return Ok(());
        };
        let fate = scan.nodes[&nid];
        match fate.alive {
            // A node that is born, and then its image: what follows finds it as it is after the
            // epoch, above all where its slots are.
            true if matches!(record, Record::NodeNew { .. }) => {
                self.keep(record);
                self.node_image(nid)
            }
            true => {
                self.node_image(nid)?;
                self.keep_or_leave(record, stays(record));
                Ok(())
            }
            // What slots of a directory had is looked up at home: nothing that leads to them may be
            // missing.
            false => {
                self.keep_or_leave(record, stays(record) || fate.dir_slots);
                Ok(())
            }
        }
    }

    fn keep_or_leave(&mut self, record: &Record<'_>, keep: bool) {
        match keep {
            true => self.keep(record),
            false => self.logged.left_out += 1,
        }
    }

    fn keep(&mut self, record: &Record<'_>) {
        record.encode(&mut self.made.bytes);
        self.made.records += 1;
    }

    fn node_image(&mut self, nid: Nid) -> FsResult<()> {
        if !self.nodes.insert(nid) {
            return Ok(());
        }
        let images = self.images;
        let image = images.nodes.get(&nid).ok_or_else(|| {
            FsError::corrupt(format!("pages-J1: node {nid} is in use and has no image"))
        })?;
        self.logged.node += 1;
        self.image(PageKind::Node, nid.0, 0, image)
    }

    fn image(&mut self, what: PageKind, number: u32, page: u32, image: &[u8]) -> FsResult<()> {
        self.keep(&record_of(what, number, page, image)?);
        Ok(())
    }
}
