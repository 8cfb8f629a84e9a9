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
//! - T3 an inode that comes on the list of orphans and leaves it in one epoch was never there;
//! - T4 clearing entries of a block only takes away bits, so the clears of a block behind the last
//!   other record about it may stand together, where the last of them was. A directory that is
//!   emptied has a record for each block then, and not for each name;
//! - T5 what an epoch frees is not valid when all of its records are redone, wherever they stand.
//!   So the blocks that all inodes free stand together, in a group of the volume;
//! - T6 an inode that an epoch frees is gone when all of its records are redone, and no other inode
//!   gets its number in that epoch (tx-O1). So inodes with neighbouring numbers that are freed
//!   stand together, behind everything else;
//! - T7 an inode whose own group changes its node all the same, because T2 leaves its birth or the
//!   slots of a directory there, has its end in that group, behind the rest of it. Redo has a node
//!   in memory, and dirty, from the first record of it to its end, and an epoch may make and remove
//!   more files than memory, and then the volume, has room for (f2fs-replay-P1).
//!
//! A journal of pages does this by its images (pages-J3).

use crate::journal::capture::redo::{node_of, page_of};
use crate::journal::{Closed, Journal, OfVolume, OwnedGroup};
use crate::segs::{BlockMap, freed_records};
use base::{BLOCK_BYTES, Map, Mutant, Set};
use ondisk::f2fs::journal::{Record, Records, attr};
use ondisk::f2fs::{BlockAddr, DENTRIES_PER_BLOCK, Geometry, Log, Nid, SegNo};
use std::collections::BTreeMap;

/// Attributes that change with every name and write, and on which nothing else depends (T1).
const PLAIN: u32 = attr::LINKS | attr::SIZE | attr::BLOCKS | attr::TIMES | attr::DEPTH;

/// Trims all groups of an epoch. Answers how many bytes of records there were.
pub(super) fn trim(journal: &Journal, geo: &Geometry, closed: &mut Closed) -> u64 {
    let before = closed.bytes;
    let mut dead: Map<Nid, u8> = closed.own.ends.iter().copied().collect();
    for group in &mut closed.groups {
        if of_group(group, dead.get(&group.ino).copied()) {
            dead.remove(&group.ino);
        }
    }
    closed.own.ends.retain(|(ino, _)| dead.contains_key(ino));
    let own = of_volume(geo, &mut closed.own);
    match rt::mutant(Mutant::F2fsjEndsFirst) {
        true => closed.groups.insert(0, own),
        false => closed.groups.push(own),
    }
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
    /// The inode is made.
    born: bool,
    clears: BTreeMap<u32, Clears>,
}

impl Look {
    fn at(&mut self, record: &Record<'_>, ino: Nid) {
        self.note_clear(record);
        match *record {
            Record::InodeAttr { mask, .. } if is_plain(mask) => {
                self.plain += 1;
                self.mask |= mask;
            }
            Record::NodeDel { nid, .. } => {
                self.dead.insert(nid);
            }
            Record::NodeNew { nid, ofs: 0, .. } if nid == ino => self.born = true,
            Record::OrphanAdd => self.orphan_came = true,
            Record::OrphanDel => self.orphan_passed |= self.orphan_came,
            Record::MapRun { dir: true, .. } => self.slots = true,
            _ => self.slots |= page_of(record).is_some(),
        }
    }

    /// T4.
    fn note_clear(&mut self, record: &Record<'_>) {
        match *record {
            Record::DentClear { block, slot, slots } => {
                let clears = self.clears.entry(block);
                clears.or_insert_with(Clears::new).add(slot, slots);
            }
            // Its blocks come and go.
            Record::MapRun { dir: true, .. } => self.clears.values_mut().for_each(Clears::stop),
            Record::InodeAttr { mask, .. } if is_plain(mask) => {}
            _ => {
                // What is about no page may be about the entries in the inode.
                let block = page_of(record).unwrap_or(Record::INLINE);
                if let Some(clears) = self.clears.get_mut(&block) {
                    clears.stop();
                }
            }
        }
    }

    /// Nothing can be left out.
    fn is_all_needed(&self) -> bool {
        let clears = self.clears.values().all(|clears| clears.late < 2);
        self.plain < 2 && self.dead.is_empty() && !self.orphan_passed && clears
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

/// The clears of a block of a directory (T4).
struct Clears {
    /// Records in front of the last other one about the block.
    early: u32,
    /// Records behind it, and their slots.
    late: u32,
    slots: [bool; DENTRIES_PER_BLOCK],
}

impl Clears {
    fn new() -> Clears {
        Clears {
            early: 0,
            late: 0,
            slots: [false; DENTRIES_PER_BLOCK],
        }
    }

    fn add(&mut self, slot: u16, slots: u8) {
        self.late += 1;
        self.slots[usize::from(slot)..][..usize::from(slots)].fill(true);
    }

    /// Another record is about the block.
    fn stop(&mut self) {
        self.early += std::mem::take(&mut self.late);
        self.slots.fill(false);
    }

    /// Writes what stands for `record`, the next one of the clears of `block`; answers how many
    /// records that are.
    fn write(&mut self, block: u32, record: &Record<'_>, out: &mut Vec<u8>) -> u32 {
        if self.early > 0 {
            self.early -= 1;
            record.encode(out);
            return 1;
        }
        self.late -= 1;
        if self.late > 0 {
            return 0;
        }
        let (mut from, mut records) = (0, 0);
        for run in self.slots.chunk_by(|a, b| a == b) {
            if run[0] {
                let (slot, slots) = (from as u16, run.len() as u8);
                Record::DentClear { block, slot, slots }.encode(out);
                records += 1;
            }
            from += run.len();
        }
        records
    }
}

fn is_plain(mask: u32) -> bool {
    mask & !PLAIN == 0
}

fn records(bytes: &[u8]) -> impl Iterator<Item = Record<'_>> {
    Records::new(bytes).map(|record| record.expect("the group was encoded here"))
}

/// `end`: the inode is freed, and that is its version. True if the group has that now (T7).
fn of_group(group: &mut OwnedGroup, end: Option<u8>) -> bool {
    let ino = group.ino;
    let mut look = Look::default();
    look.dead.extend(end.map(|_| ino));
    records(&group.bytes).for_each(|record| look.at(&record, ino));
    if look.is_all_needed() {
        return false;
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
        if let Record::DentClear { block, .. } = record
            && let Some(clears) = look.clears.get_mut(&block)
        {
            count += clears.write(block, &record, &mut bytes);
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
        "T1: what stays is no longer than what it stands for"
    );
    let keeps = (look.born || look.slots) && !rt::mutant(Mutant::F2fsjEndsFirst);
    let own = end.filter(|_| keeps);
    if let Some(version) = own {
        Record::NodeDel { nid: ino, version }.encode(&mut bytes);
        count += 1;
    }
    (group.bytes, group.records) = (bytes, count);
    own.is_some()
}

/// T5, T6: what the epoch says of no inode, in a group of the volume behind all others.
fn of_volume(geo: &Geometry, own: &mut OfVolume) -> OwnedGroup {
    let mut all = OwnedGroup {
        ino: Nid(0),
        records: 0,
        bytes: Vec::new(),
    };
    let mut freed: BTreeMap<SegNo, (Log, BlockMap)> = BTreeMap::new();
    records(&own.frees).for_each(|record| note_freed(geo, &record, &mut freed));
    for (seg, (log, map)) in freed {
        freed_records(geo, seg, log, &map, |record| {
            record.encode(&mut all.bytes);
            all.records += 1;
        });
    }
    own.ends.sort_unstable();
    let goes_on = |a: &(Nid, u8), b: &(Nid, u8)| b.0.0 == a.0.0 + 1 && b.1 == a.1;
    for run in own.ends.chunk_by(goes_on) {
        for run in run.chunks(u16::MAX.into()) {
            let ((first, version), count) = (run[0], run.len() as u16);
            Record::InodeDel {
                first,
                count,
                version,
            }
            .encode(&mut all.bytes);
            all.records += 1;
        }
    }
    debug_assert!(
        all.bytes.len() <= own.bytes(),
        "T5, T6: what stands together is no longer than apart"
    );
    *own = OfVolume::default();
    all
}

fn note_freed(geo: &Geometry, record: &Record<'_>, freed: &mut BTreeMap<SegNo, (Log, BlockMap)>) {
    match *record {
        Record::BlockRun {
            addr, count, log, ..
        } => {
            for addr in (addr.0..).take(count.into()).map(BlockAddr) {
                let seg = geo.segno(addr).expect("T5: the block was valid");
                let (_, map) = freed.entry(seg).or_insert((log, BlockMap::default()));
                map.set(geo.offset_in_seg(addr));
            }
        }
        Record::BlockMask { seg, log, mask, .. } => {
            let (_, map) = freed.entry(seg).or_insert((log, BlockMap::default()));
            map.add(&BlockMap::from_bytes(mask));
        }
        _ => {}
    }
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
    use crate::segs::test_geometry;
    use ondisk::f2fs::journal::Content;
    use ondisk::f2fs::{AllocType, FileType};

    const INO: Nid = Nid(9);

    fn trimmed(records: &[Record<'_>]) -> OwnedGroup {
        let mut bytes = Vec::new();
        records.iter().for_each(|r| r.encode(&mut bytes));
        let mut group = OwnedGroup {
            ino: INO,
            records: records.len() as u32,
            bytes,
        };
        of_group(&mut group, None);
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
    const OTHER: Record<'static> = Record::DentClear {
        block: 1,
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
            OTHER,
        ]);
        let mask = attr::LINKS | attr::SIZE | attr::CTIME | attr::MTIME;
        let fields = [&links[..], &size, &both].concat();
        is(&group, &[CLEAR, attrs(mask, &fields), OTHER]);
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

    fn clear(block: u32, slot: u16, slots: u8) -> Record<'static> {
        Record::DentClear { block, slot, slots }
    }

    /// T4.
    #[test]
    fn clears_of_a_block_stand_together() {
        let links = attrs(attr::LINKS, &[3; 4]);
        let records = [
            clear(7, 4, 2),
            clear(8, 0, 1),
            links,
            clear(7, 213, 1),
            clear(8, 3, 1),
            clear(7, 6, 3),
        ];
        let expected = [
            links,
            clear(8, 0, 1),
            clear(8, 3, 1),
            clear(7, 4, 5),
            clear(7, 213, 1),
        ];
        is(&trimmed(&records), &expected);
        let all = (0..214).map(|slot| clear(7, slot, 1)).collect::<Vec<_>>();
        is(&trimmed(&all), &[clear(7, 0, 214)]);
    }

    /// T4: what else is about a block keeps its place among the clears.
    #[test]
    fn clears_stay_in_front_of_another_record_about_their_block() {
        let set = |block| Record::DentSet {
            block,
            slot: 4,
            hash: 1,
            ino: Nid(11),
            kind: FileType::Regular,
            name: b"a",
        };
        let target = |block| Record::DentIno {
            block,
            slot: 4,
            kind: FileType::Regular,
            ino: Nid(12),
        };
        let bytes = Record::Bytes {
            content: Content::Dentries,
            nid: INO,
            at: 4,
            bytes: &[7, 0, 0, 0, 1, 2, 3, 4],
        };
        let pages = Record::MapRun {
            nid: Nid(30),
            slot: 0,
            count: 1,
            addr: BlockAddr::NEW,
            dir: true,
        };
        let inline = Record::INLINE;
        let node = Record::Bytes {
            content: Content::Node,
            nid: INO,
            at: 0x200,
            bytes: &[1; 4],
        };
        let cases = [
            (7, set(7)),
            (7, target(7)),
            (7, bytes),
            (7, pages),
            (inline, set(inline)),
            (inline, target(inline)),
            (inline, node),
            (inline, pages),
            (inline, attrs(attr::INLINE, &[4])),
        ];
        for (block, between) in cases {
            let first = [clear(block, 4, 1), clear(block, 6, 1)];
            let behind = [clear(block, 4, 1), clear(block, 5, 1)];
            let records = [first[0], first[1], between, behind[0], behind[1]];
            let expected = [first[0], first[1], between, clear(block, 4, 2)];
            is(&trimmed(&records), &expected);
        }
        // About another block.
        let records = [clear(7, 4, 1), set(8), clear(7, 5, 1)];
        is(&trimmed(&records), &[set(8), clear(7, 4, 2)]);
    }

    /// T5.
    #[test]
    fn blocks_of_several_files_are_freed_together() {
        let geo = test_geometry(1);
        let run = |at: u32, count| Record::BlockRun {
            addr: BlockAddr(geo.main.0 + at),
            count,
            alloc: false,
            log: Log::WarmData,
        };
        let together = |records: &[Record<'_>]| {
            let mut own = OfVolume::default();
            records.iter().for_each(|r| r.encode(&mut own.frees));
            let group = of_volume(&geo, &mut own);
            assert_eq!((group.ino, own.is_empty()), (Nid(0), true));
            group
        };
        let mut every_second = [0; ondisk::f2fs::VALID_MAP_BYTES];
        every_second[1..4].fill(0b1010_1010);
        let mask = Record::BlockMask {
            seg: SegNo(0),
            alloc: false,
            log: Log::WarmData,
            mask: &every_second,
        };
        let parts = [(40, 3), (43, 2), (1024, 1), (45, 1)].map(|(at, count)| run(at, count));
        is(&together(&parts), &[run(40, 6), run(1024, 1)]);
        // The map of a segment, where that is shorter, and what the map of another file adds.
        let masks = together(&[mask, mask, run(9, 1)]);
        every_second[1] |= 0b0100_0000;
        let mask = Record::BlockMask {
            seg: SegNo(0),
            alloc: false,
            log: Log::WarmData,
            mask: &every_second,
        };
        is(&masks, &[mask]);
        is(&together(&[]), &[]);
    }

    /// T6.
    #[test]
    fn inodes_that_are_freed_stand_together() {
        let together = |ends: &[(u32, u8)]| {
            let ends = ends.iter().map(|&(nid, version)| (Nid(nid), version));
            let mut own = OfVolume {
                ends: ends.collect(),
                ..OfVolume::default()
            };
            of_volume(&test_geometry(1), &mut own)
        };
        let run = |first, count, version| Record::InodeDel {
            first: Nid(first),
            count,
            version,
        };
        let ends = [(9, 1), (12, 1), (10, 1), (11, 2), (30, 0)];
        let expected = [run(9, 2, 1), run(11, 1, 2), run(12, 1, 1), run(30, 1, 0)];
        is(&together(&ends), &expected);
        let many: Vec<_> = (100..100 + 65_537).map(|nid| (nid, 3)).collect();
        is(&together(&many), &[run(100, 65_535, 3), run(65_635, 2, 3)]);
    }

    /// T2, T7: of an inode that ends its birth stays, and what slots of a directory need; then the
    /// end does, too.
    #[test]
    fn of_an_inode_that_ends_its_birth_stays() {
        let new = Record::NodeNew {
            nid: INO,
            ofs: 0,
            cold: true,
            version: 1,
        };
        let ended = |records: &[Record<'_>]| {
            let mut bytes = Vec::new();
            records.iter().for_each(|r| r.encode(&mut bytes));
            let records = records.len() as u32;
            let ino = INO;
            let mut group = OwnedGroup {
                ino,
                records,
                bytes,
            };
            let kept = of_group(&mut group, Some(1));
            assert_eq!(kept, group.records > 0, "T7");
            group
        };
        let mode = attrs(attr::MODE, &[0; 2]);
        let links = attrs(attr::LINKS, &[0; 4]);
        is(&ended(&[new, mode, links]), &[new, DEL]);
        is(&ended(&[mode]), &[]);
        let gone = Record::MapRun {
            nid: INO,
            slot: 0,
            count: 1,
            addr: BlockAddr::NULL,
            dir: true,
        };
        is(&ended(&[new, mode, gone]), &[new, mode, gone, DEL]);
        is(&ended(&[gone]), &[gone, DEL]);
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
