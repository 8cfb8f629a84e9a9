//! Leaves out of an epoch's records what makes no difference to the state behind the epoch.
//!
//! An operation cannot know what later ones of its epoch will do, and lists are shared, so it
//! appends; the commit sees the whole epoch, of which a cut leaves all or nothing
//! (f2fs-journal-I7). Redo of what stays gives the same nodes, pages, blocks and orphans as redo of
//! all, because:
//! - T1 of the attributes in [`PLAIN`] only the latest value counts: no redo of another record asks
//!   for them. They stay as one record, where the last one of them stood. Records that hold other
//!   attributes as well stay as they are, and newer values in them count;
//! - T2 of a node that the epoch frees nothing counts but its birth and its end: what records do to
//!   its block goes with the block. Blocks of files are freed by records of their own. Blocks of
//!   directories are not, and their pages are found through the inode, so a group that has any
//!   record about slots or pages of a directory keeps all of them;
//! - T3 an inode that comes on the list of orphans and leaves it in one epoch was never there.
//!
//! A journal of pages does this by its images (pages-J3).

use crate::journal::capture::redo::{node_of, page_of};
use crate::journal::{Closed, Journal, OwnedGroup};
use base::{BLOCK_BYTES, Set};
use ondisk::f2fs::Nid;
use ondisk::f2fs::journal::{Record, Records, attr};

/// Attributes that change with every name and write, and on which nothing else depends (T1).
const PLAIN: u32 = attr::LINKS | attr::SIZE | attr::BLOCKS | attr::TIMES | attr::DEPTH;

/// Trims all groups of an epoch. Answers how many bytes of records there were.
pub(super) fn trim(journal: &Journal, closed: &mut Closed) -> u64 {
    let before = closed.bytes;
    closed.groups.iter_mut().for_each(of_group);
    closed.groups.retain(|group| group.records > 0);
    closed.bytes = closed.groups.iter().map(|g| g.bytes.len() as u64).sum();
    journal.plane.kept_instead(before, closed.bytes);
    before
}

/// What a look at a group's records tells of them.
#[derive(Default)]
struct Look {
    /// Records of plain attributes alone, and the attributes that they hold.
    plain: u32,
    mask: u32,
    /// Nodes that are freed.
    dead: Set<Nid>,
    /// The inode comes on the list of orphans, and leaves it behind that.
    orphan_came: bool,
    orphan_passed: bool,
    /// T2 does not apply.
    slots: bool,
}

impl Look {
    fn at(&mut self, record: &Record<'_>) {
        match *record {
            Record::InodeAttr { mask, .. } if is_plain(mask) => {
                self.plain += 1;
                self.mask |= mask;
            }
            Record::NodeDel { nid, .. } => {
                self.dead.insert(nid);
            }
            Record::OrphanAdd => self.orphan_came = true,
            Record::OrphanDel => self.orphan_passed |= self.orphan_came,
            Record::MapRun { dir: true, .. } => self.slots = true,
            _ => self.slots |= page_of(record).is_some(),
        }
    }

    /// T2, T3.
    fn is_void(&self, record: &Record<'_>, ino: Nid) -> bool {
        match record {
            Record::NodeNew { .. } | Record::NodeDel { .. } => false,
            Record::OrphanAdd | Record::OrphanDel => self.orphan_passed,
            _ => {
                let of_dead = node_of(record, ino).is_some_and(|nid| self.dead.contains(&nid));
                of_dead && !self.slots
            }
        }
    }
}

fn is_plain(mask: u32) -> bool {
    mask & !PLAIN == 0
}

fn records(bytes: &[u8]) -> impl Iterator<Item = Record<'_>> {
    Records::new(bytes).map(|record| record.expect("the group was encoded here"))
}

fn of_group(group: &mut OwnedGroup) {
    let mut look = Look::default();
    records(&group.bytes).for_each(|record| look.at(&record));
    if look.plain < 2 && look.dead.is_empty() && !look.orphan_passed {
        return;
    }
    let mut latest = Latest::new(look.mask);
    let mut plain = look.plain;
    let mut bytes = Vec::with_capacity(group.bytes.len());
    let mut count = 0;
    for record in records(&group.bytes) {
        let is_last = match record {
            Record::InodeAttr { mask, fields } => {
                latest.take(mask, fields);
                plain -= u32::from(is_plain(mask));
                is_plain(mask).then_some(plain == 0)
            }
            _ => None,
        };
        if look.is_void(&record, group.ino) || is_last == Some(false) {
            continue;
        }
        count += 1;
        match is_last {
            Some(_) => latest.encode(&mut bytes),
            None => record.encode(&mut bytes),
        }
    }
    assert!(
        bytes.len() <= group.bytes.len(),
        "T1: one record is no longer than those it stands for"
    );
    (group.bytes, group.records) = (bytes, count);
}

/// The latest values of some attributes (T1), at their places in an inode.
struct Latest {
    mask: u32,
    block: Vec<u8>,
}

impl Latest {
    fn new(mask: u32) -> Latest {
        let block = vec![0; if mask == 0 { 0 } else { BLOCK_BYTES }];
        Latest { mask, block }
    }

    fn take(&mut self, mask: u32, fields: &[u8]) {
        let split = attr::split(mask, fields).expect("the record was encoded here");
        for (field, mut value) in split {
            if field.bit & self.mask == 0 {
                continue;
            }
            for (at, len) in field.pieces {
                let (piece, rest) = value.split_at(len);
                self.block[at..at + len].copy_from_slice(piece);
                value = rest;
            }
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let fields = &attr::packed(&self.block, self.mask)[..];
        let mask = self.mask;
        Record::InodeAttr { mask, fields }.encode(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::f2fs::journal::Content;
    use ondisk::f2fs::{AllocType, BlockAddr, FileType, Log};

    const INO: Nid = Nid(9);

    fn trimmed(records: &[Record<'_>]) -> OwnedGroup {
        let mut bytes = Vec::new();
        records.iter().for_each(|r| r.encode(&mut bytes));
        let mut group = OwnedGroup {
            ino: INO,
            records: records.len() as u32,
            bytes,
        };
        of_group(&mut group);
        group
    }

    fn is(group: &OwnedGroup, expected: &[Record<'_>]) {
        let found: Vec<_> = Records::new(&group.bytes)
            .map(|r| r.expect("encoded"))
            .collect();
        assert_eq!(found, expected);
        assert_eq!(group.records as usize, expected.len());
    }

    fn attrs(mask: u32, fields: &[u8]) -> Record<'_> {
        Record::InodeAttr { mask, fields }
    }

    const CLEAR: Record<'static> = Record::DentClear {
        block: 0,
        slot: 2,
        slots: 1,
    };
    const DEL: Record<'static> = Record::NodeDel {
        nid: INO,
        version: 1,
    };

    /// T1.
    #[test]
    fn the_latest_attributes_stay() {
        let (size, links) = ([7; 8], [3; 4]);
        let both = [[8_u8; 12], [9; 12]].concat();
        let group = trimmed(&[
            attrs(attr::SIZE, &size),
            CLEAR,
            attrs(attr::CTIME | attr::MTIME, &[1; 24]),
            attrs(attr::LINKS, &[2; 4]),
            attrs(attr::CTIME | attr::MTIME, &both),
            attrs(attr::LINKS, &links),
            CLEAR,
        ]);
        let mask = attr::LINKS | attr::SIZE | attr::CTIME | attr::MTIME;
        let fields = [&links[..], &size, &both].concat();
        is(&group, &[CLEAR, attrs(mask, &fields), CLEAR]);
    }

    /// T1: what other redo depends on stays in its place, and newer values beside it count.
    #[test]
    fn other_attributes_keep_their_place() {
        let mode = [[1_u8; 2].as_slice(), &[5; 12]].concat();
        let records = [
            attrs(attr::CTIME, &[4; 12]),
            attrs(attr::MODE | attr::CTIME, &mode),
            attrs(attr::LINKS, &[6; 4]),
        ];
        let latest = [[6_u8; 4].as_slice(), &[5; 12]].concat();
        let expected = [records[1], attrs(attr::LINKS | attr::CTIME, &latest)];
        is(&trimmed(&records), &expected);

        let inline = [attrs(attr::INLINE, &[4]), CLEAR, attrs(attr::INLINE, &[0])];
        is(&trimmed(&inline), &inline);
        let behind = [records[0], records[2], records[1]];
        let first = [[6_u8; 4].as_slice(), &[4; 12]].concat();
        let expected = [attrs(attr::LINKS | attr::CTIME, &first), records[1]];
        is(&trimmed(&behind), &expected);
    }

    /// T2, T3.
    #[test]
    fn of_a_dead_file_its_end_stays() {
        let map = |nid| Record::MapRun {
            nid,
            slot: 0,
            count: 1,
            addr: BlockAddr::NULL,
            dir: false,
        };
        let freed = Record::BlockRun {
            addr: BlockAddr(5000),
            count: 1,
            alloc: false,
            log: Log::WarmData,
        };
        // The transaction may have a checksum of this block (records-U1).
        let taken = Record::BlockRun {
            addr: BlockAddr(5000),
            count: 1,
            alloc: true,
            log: Log::WarmData,
        };
        let other = Nid(30);
        let records = [
            attrs(attr::MODE, &[0; 2]),
            attrs(attr::LINKS, &[0; 4]),
            Record::OrphanAdd,
            taken,
            map(INO),
            freed,
            map(other),
            DEL,
            Record::OrphanDel,
        ];
        is(&trimmed(&records), &[taken, freed, map(other), DEL]);
        // It was an orphan before.
        is(&trimmed(&records[7..]), &records[7..]);
        // It has no name, and is open.
        is(&trimmed(&records[1..3]), &records[1..3]);
    }

    /// T2.
    #[test]
    fn slots_of_directories_free_blocks() {
        let gone = Record::MapRun {
            nid: INO,
            slot: 0,
            count: 1,
            addr: BlockAddr::NULL,
            dir: true,
        };
        let entry = Record::DentSet {
            block: 0,
            slot: 0,
            hash: 1,
            ino: Nid(11),
            kind: FileType::Regular,
            name: b"a",
        };
        let page = Record::Bytes {
            content: Content::Dentries,
            nid: INO,
            at: 4,
            bytes: &[0; 8],
        };
        for record in [gone, entry, page] {
            let records = [attrs(attr::MODE, &[0; 2]), record, DEL];
            is(&trimmed(&records), &records);
        }
        let head = Record::Head {
            log: Log::HotData,
            alloc: AllocType::Lfs,
            seg: ondisk::f2fs::SegNo(1),
            next: 0,
        };
        is(&trimmed(&[head, DEL]), &[head, DEL]);
    }
}
