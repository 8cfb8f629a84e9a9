//! Looks ahead in the records of an epoch for the blocks that their redo will read, so that these
//! are read many at once: a device works on several commands at a time, and a redo that reads a
//! block when a record asks for it waits for each one by itself.
//!
//! What is read early decides nothing. Redo asks for a node by its number and for a directory block
//! by the address that the slot has by then, and reads what it was not given. A block that the pack
//! or the ring refers to keeps its content until recovery ends (recover-R2), so early and late
//! reads answer the same.
//!
//! - H1 memory is bounded: a window ends with the record that brings it to [`WINDOW`] blocks,
//!   and of a window directory blocks are forgotten when the next begins;
//! - H2 what a node that the epoch frees had in it is nobody's business: its end is no reason to
//!   read it (f2fs-replay-P4).

use crate::journal::capture::redo::{node_of, page_of};
use ondisk::f2fs::Nid;
use ondisk::f2fs::journal::{Groups, PageKind, Record};
use std::collections::BTreeSet;

/// Blocks that one window reads at most, but for the last record's.
const WINDOW: usize = 256;

/// What the records of a window are about.
#[derive(Default, PartialEq, Eq, Debug)]
pub(super) struct Wanted {
    pub nodes: BTreeSet<Nid>,
    /// Directories and their pages.
    pub pages: BTreeSet<(Nid, u32)>,
}

/// The records of an epoch, a window at a time.
pub(super) struct Ahead<'p> {
    records: Box<dyn Iterator<Item = (Nid, Record<'p>)> + 'p>,
    /// Records in the windows so far, and those that redo has come to.
    seen: u64,
    redone: u64,
}

impl<'p> Ahead<'p> {
    /// Of these records; what cannot be read is left out, because redo will refuse it.
    pub fn new(payload: &'p [u8]) -> Ahead<'p> {
        let groups = Groups::new(payload).flatten();
        let records = groups.flat_map(|group| {
            let records = group.iter().flatten();
            records.map(move |record| (group.ino, record))
        });
        Ahead {
            records: Box::new(records),
            seen: 0,
            redone: 0,
        }
    }

    /// Redo comes to its next record: answers the window that begins with it, if one does.
    pub fn step(&mut self) -> Option<Wanted> {
        self.redone += 1;
        if self.redone <= self.seen {
            return None;
        }
        let mut wanted = Wanted::default();
        while wanted.nodes.len() + wanted.pages.len() < WINDOW {
            let Some((ino, record)) = self.records.next() else {
                self.seen = u64::MAX;
                break;
            };
            self.seen += 1;
            wanted.add(ino, &record);
        }
        Some(wanted)
    }
}

impl Wanted {
    fn add(&mut self, ino: Nid, record: &Record<'_>) {
        match *record {
            // H2; and a node that is being made is nowhere yet.
            Record::NodeNew { .. } | Record::NodeDel { .. } | Record::InodeDel { .. } => {}
            Record::Page {
                what: PageKind::Node,
                number,
                ..
            } => drop(self.nodes.insert(Nid(number))),
            _ => {
                self.nodes.extend(node_of(record, ino));
                if let Some(page) = page_of(record) {
                    self.nodes.insert(ino);
                    self.pages.insert((ino, page));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::f2fs::journal::{Group, attr, put_group};

    /// Attributes of `inodes` inodes, a group each.
    fn payload(inodes: u32) -> Vec<u8> {
        let mut payload = Vec::new();
        for ino in 0..inodes {
            let mut bytes = Vec::new();
            let (mask, fields) = (attr::LINKS, &[1, 0, 0, 0][..]);
            Record::InodeAttr { mask, fields }.encode(&mut bytes);
            let dead = Nid(1_000_000 + ino);
            Record::NodeDel {
                nid: dead,
                version: 0,
            }
            .encode(&mut bytes);
            let group = Group {
                ino: Nid(4 + ino),
                generation: 0,
                records: 2,
                bytes: &bytes,
            };
            put_group(&mut payload, &group);
        }
        payload
    }

    /// H1, H2: each record is in one window, no window is larger than allowed, and there is one
    /// when redo comes to its first record, not before.
    #[test]
    fn windows_are_bounded_and_leave_nothing_out() {
        let inodes = 3 * WINDOW as u32 + 10;
        let payload = payload(inodes);
        let mut ahead = Ahead::new(&payload);
        let (mut all, mut sizes) = (BTreeSet::new(), Vec::new());
        for redone in 0..2 * u64::from(inodes) {
            if let Some(wanted) = ahead.step() {
                sizes.push((redone, wanted.nodes.len()));
                all.extend(wanted.nodes);
            }
        }
        let each = 2 * WINDOW as u64;
        let expected = [
            (0, WINDOW),
            (each - 1, WINDOW),
            (2 * each - 1, WINDOW),
            (3 * each - 1, 10),
        ];
        assert_eq!(sizes, expected, "H1");
        let wanted: BTreeSet<Nid> = (4..4 + inodes).map(Nid).collect();
        assert_eq!(all, wanted, "H2: the dead ones are not read");
    }
}
