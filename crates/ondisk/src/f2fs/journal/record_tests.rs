//! Records, groups and attributes: what is encoded decodes to the same, and nothing that decodes
//! has another form.

use super::*;
use crate::f2fs::{
    AllocType, BLOCK_BYTES, BlockAddr, FileType, Inline, Log, Nid, SegNo, VALID_MAP_BYTES,
};
use base::bytes::{put_le16, put_le32};
use proptest::collection::vec;
use proptest::prelude::*;

/// A record that owns its bytes.
#[derive(Clone, Debug)]
pub(super) struct Owned {
    make: Kind,
    name: Vec<u8>,
    bytes: Vec<u8>,
    mask: u32,
    bits: Box<[u8; VALID_MAP_BYTES]>,
    block: Box<[u8; BLOCK_BYTES]>,
    numbers: [u32; 4],
    flag: bool,
}

type Kind = u8;

impl Owned {
    pub(super) fn record(&self) -> Record<'_> {
        let [a, b, c, d] = self.numbers;
        let (nid, small) = (Nid(a), b as u8);
        let count = (c % 1018) as u16 + 1;
        let slot = (d % (1019 - u32::from(count))) as u16;
        let run = BlockAddr(1 + b % (u32::MAX - 3000));
        let log = Log::ALL[c as usize % 6];
        let kind = FileType::from_code((c % 8) as u8);
        match self.make % 21 + 1 {
            1 => Record::InodeNew {
                mask: self.mask & !attr::NAME,
                fields: &self.bytes,
                name: &self.name,
            },
            2 => Record::InodeAttr {
                mask: self.mask,
                fields: &self.bytes,
            },
            3 => Record::DentSet {
                block: a,
                slot,
                hash: b,
                ino: nid,
                kind,
                name: &self.name,
            },
            4 => Record::DentClear {
                block: a,
                slot,
                slots: small,
            },
            5 => Record::DentIno {
                block: a,
                slot,
                kind,
                ino: nid,
            },
            6 => Record::MapRun {
                nid,
                slot,
                count,
                addr: if self.flag { BlockAddr::NEW } else { run },
                dir: self.flag,
            },
            20 => {
                let sums = 4 * (self.bytes.len() / 4).min(1 + d as usize % 256);
                let sums = Sums::from_bytes(&self.bytes[..sums]);
                Record::DataSum { addr: run, sums }
            }
            _ => self.other_record(slot, count, run, log),
        }
    }

    fn other_record(&self, slot: u16, count: u16, run: BlockAddr, log: Log) -> Record<'_> {
        let [a, b, c, d] = self.numbers;
        let (nid, small) = (Nid(a), b as u8);
        let (alloc, cold) = (self.flag, self.flag);
        match self.make % 21 + 1 {
            7 => Record::NodeNew {
                nid,
                ofs: b,
                cold,
                version: c as u8,
            },
            8 => Record::NodePtr {
                parent: nid,
                slot: (b % 1018) as u16,
                child: Nid(c),
            },
            9 => Record::NodeDel {
                nid,
                version: small,
            },
            10 => Record::BlockRun {
                addr: run,
                count,
                alloc,
                log,
            },
            11 => Record::BlockMask {
                seg: SegNo(a),
                alloc,
                log,
                mask: &self.bits,
            },
            12 => Record::SumRun {
                addr: run,
                count,
                version: small,
                nid,
                slot,
            },
            13 => Record::Bytes {
                content: Content::ALL[c as usize % 6],
                nid,
                at: (b % 1024) as u16,
                bytes: &self.bytes,
            },
            14 => Record::OrphanAdd,
            15 => Record::OrphanDel,
            16 => Record::Trunc {
                from: u64::from(a) << 32 | u64::from(b),
            },
            17 => Record::Quota {
                kind: (c % 3) as u8,
                id: a,
                space: -i64::from(b),
                inodes: i64::from(d) << 20,
            },
            21 => Record::InodeDel {
                first: Nid(a.min(u32::MAX - 2000)),
                count,
                version: small,
            },
            18 => Record::Head {
                log,
                alloc: [AllocType::Lfs, AllocType::Ssr][usize::from(alloc)],
                seg: SegNo(a),
                next: (b % 513) as u16,
            },
            _ => {
                let what = PageKind::ALL[c as usize % 4];
                Record::Page {
                    what,
                    number: a,
                    page: if what == PageKind::Dentries { b } else { 0 },
                    block: Block(&self.block),
                }
            }
        }
    }
}

prop_compose! {
    pub(super) fn records()(make in 0u8..21, name in vec(any::<u8>(), 1..256), some in vec(any::<u8>(), 5..3000), inode in vec(any::<u8>(), 512),
        mask in any::<u32>(), bits in any::<[u8; 32]>(), numbers in any::<[u32; 4]>(), flag in any::<bool>()) -> Owned
    {
        let mut block = vec![0; BLOCK_BYTES];
        block[..512].copy_from_slice(&inode);
        let mut mask = mask & attr::ALL;
        let bytes = match make {
            0 => { mask &= !attr::NAME; attr::pack(&block, mask) }
            1 => attr::pack(&block, mask),
            _ => some,
        };
        let mut map = Box::new([0; VALID_MAP_BYTES]);
        map[..32].copy_from_slice(&bits);
        let mut block = Box::new([0; BLOCK_BYTES]);
        block[..512].copy_from_slice(&inode);
        block[4000..4032].copy_from_slice(&bits);
        Owned { make, name, bytes, mask, bits: map, block, numbers, flag }
    }
}

fn encoded(record: &Record<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    record.encode(&mut out);
    out
}

proptest! {
    #[test]
    fn records_and_groups_round_trip(all in vec(vec(records(), 0..12), 0..6), generation in any::<u32>()) {
        let mut payload = Vec::new();
        for (n, group) in all.iter().enumerate() {
            let mut bytes = Vec::new();
            for record in group {
                let before = bytes.len();
                record.record().encode(&mut bytes);
                prop_assert_eq!(bytes.len() - before, record.record().encoded_bytes());
            }
            let group = Group { ino: Nid(n as u32), generation, records: group.len() as u32, bytes: &bytes };
            let before = payload.len();
            prop_assert_eq!(put_group(&mut payload, &group), 1);
            prop_assert_eq!(payload.len() - before, group.encoded_bytes());
        }
        let found: Vec<Group<'_>> = Groups::new(&payload).collect::<Result<_, _>>().expect("sound");
        prop_assert_eq!(found.len(), all.len());
        for (n, (group, made)) in found.iter().zip(&all).enumerate() {
            prop_assert_eq!((group.ino, group.generation), (Nid(n as u32), generation));
            let records: Vec<Record<'_>> = group.iter().collect::<Result<_, _>>().expect("sound");
            prop_assert_eq!(records, made.iter().map(Owned::record).collect::<Vec<_>>());
            prop_assert_eq!(count_records(group.bytes), Ok(group.records));
        }
    }

    #[test]
    fn a_record_has_one_form(record in records(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut bytes = encoded(&record.record());
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        // Another record, or none; never the same one, and never one that is written in another
        // way.
        if let Ok(all) = Records::new(&bytes).collect::<Result<Vec<_>, _>>() {
            let mut again = Vec::new();
            all.iter().for_each(|r| r.encode(&mut again));
            prop_assert_eq!(&again, &bytes);
            prop_assert!(all != [record.record()] || at > 3, "{}", at);
        }
    }

    #[test]
    fn garbage_is_refused(mut bytes in vec(any::<u8>(), 0..300), code in 0u8..22, len in 0u16..80) {
        for tame in [false, true] {
            if tame && bytes.len() >= 4 {
                bytes[0] = code;
                bytes[1] &= 3;
                put_le16(&mut bytes, 2, 4 * len);
            }
            for record in Records::new(&bytes).flatten() {
                prop_assert!(record.encoded_bytes() <= RECORD_BYTES_MAX);
            }
            for group in Groups::new(&bytes).flatten() {
                prop_assert!(group.iter().count() <= 1 + usize::from(u16::MAX));
            }
            let _ = count_records(&bytes);
        }
    }

    #[test]
    fn attributes_by_difference(before in vec(any::<u8>(), 512), after in vec(any::<u8>(), 512), same in vec(any::<bool>(), 25), extra in 0usize..10) {
        let mut a = vec![0; BLOCK_BYTES];
        let mut b = a.clone();
        b[..512].copy_from_slice(&before);
        a[..512].copy_from_slice(&after);
        let flag = Inline::EXTRA_ATTR.0;
        a[3] = if extra == 0 { a[3] & !flag } else { a[3] | flag };
        if extra > 0 {
            put_le16(&mut a, 0x168, 4 * extra as u16);
        }
        for (field, same) in attr::FIELDS.iter().zip(same) {
            for (at, len) in field.pieces.into_iter().filter(|_| same && field.bit & (attr::INLINE | attr::EXTRA_ISIZE) == 0) {
                let from = a[at..at + len].to_vec();
                b[at..at + len].copy_from_slice(&from);
            }
        }
        let mask = attr::changed(&b, &a);
        prop_assert_eq!(mask & !attr::present(&a), 0);
        let packed = attr::pack(&a, mask);
        prop_assert_eq!(attr::packed_bytes(mask, &packed), Some(packed.len()));
        let mut redone = b.clone();
        attr::unpack(&mut redone, mask, &packed).expect("what was packed");
        prop_assert_eq!(attr::changed(&redone, &a), 0);
        // Behind the attributes nothing moved.
        let end = if extra == 0 { 0x168 } else { 0x168 + 4 * extra };
        prop_assert_eq!(&redone[end..], &b[end..]);
        prop_assert!(attr::unpack(&mut redone, mask, &[&packed[..], &[0]].concat()).is_err());
        prop_assert!(mask == 0 || attr::unpack(&mut redone, mask, &packed[..packed.len() - 1]).is_err());
    }
}

#[test]
fn the_table_of_attributes_covers_the_inode() {
    let mut owner = [0u32; 0x18C];
    for field in &attr::FIELDS {
        for (at, len) in field.pieces {
            owner[at..at + len].iter_mut().for_each(|o| {
                assert_eq!(*o, 0, "{} overlaps", field.name);
                *o = field.bit;
            });
        }
    }
    let bare: Vec<usize> = (0..owner.len()).filter(|&at| owner[at] == 0).collect();
    assert_eq!(bare, [0x170, 0x171, 0x172, 0x173], "the checksum alone");
    assert_eq!(attr::FIELDS.iter().fold(0, |all, f| all | f.bit), attr::ALL);
    for (n, field) in attr::FIELDS.iter().enumerate() {
        assert_eq!(
            (field.bit, field.extra),
            (1 << n, n >= 19),
            "{}",
            field.name
        );
    }
}

#[test]
fn the_table_agrees_with_the_inode() {
    use crate::f2fs::{Extent, Features, InodeFields, InodeName, Timestamp};
    let all = Features::EXTRA_ATTR
        | Features::FLEXIBLE_INLINE_XATTR
        | Features::PRJQUOTA
        | Features::INODE_CRTIME
        | Features::COMPRESSION;
    let base = InodeFields {
        mode: 0x8000,
        inline: Inline::EXTRA_ATTR,
        extra_isize: 36,
        ..InodeFields::default()
    };
    let time = Timestamp { secs: 1, nanos: 2 };
    type Change = fn(&mut InodeFields, Timestamp);
    let changes: [(u32, Change); 22] = [
        (attr::MODE, |f, _| f.mode = 0x81ff),
        (attr::ADVISE, |f, _| f.advise.0 = 1),
        (attr::INLINE, |f, _| f.inline.0 |= 1),
        (attr::UID, |f, _| f.uid = 1),
        (attr::GID, |f, _| f.gid = 1),
        (attr::LINKS, |f, _| f.links = 1),
        (attr::SIZE, |f, _| f.size = 1 << 40),
        (attr::BLOCKS, |f, _| f.blocks = 1 << 40),
        (attr::ATIME, |f, t| f.atime = t),
        (attr::CTIME, |f, t| f.ctime = t),
        (attr::MTIME, |f, t| f.mtime = t),
        (attr::GENERATION, |f, _| f.generation = 1),
        (attr::DEPTH, |f, _| f.current_depth = 1),
        (attr::XATTR_NID, |f, _| f.xattr_nid = Nid(1)),
        (attr::FLAGS, |f, _| f.flags.0 = 1),
        (attr::PINO, |f, _| f.pino = Nid(1)),
        (attr::NAME, |f, _| {
            f.name = InodeName::new(&[b'n'; 255]).expect("fits")
        }),
        (attr::DIR_LEVEL, |f, _| f.dir_level = 1),
        (attr::EXTENT, |f, _| {
            f.ext = Extent {
                fofs: 1,
                addr: BlockAddr(2),
                len: 3,
            }
        }),
        (attr::INLINE_XATTR_SIZE, |f, _| f.inline_xattr_size = 1),
        (attr::PROJID, |f, _| f.projid = 1),
        (attr::CRTIME, |f, t| f.crtime = t),
    ];
    let block = |f: &InodeFields| {
        let mut block = vec![0; BLOCK_BYTES];
        f.encode_into(&mut block, all);
        block
    };
    for (bit, change) in changes {
        let mut fields = base.clone();
        change(&mut fields, time);
        assert_eq!(attr::changed(&block(&base), &block(&fields)), bit);
    }
    let mut fields = base.clone();
    fields.compr_blocks = 1;
    fields.compress_flag = 0x100;
    let mask = attr::changed(&block(&base), &block(&fields));
    assert_eq!(mask, attr::COMPR_BLOCKS | attr::COMPRESS);
    let mut shorter = base.clone();
    shorter.extra_isize = 12;
    let mask = attr::changed(&block(&base), &block(&shorter));
    assert_eq!(mask, attr::EXTRA_ISIZE);
    assert_eq!(attr::present(&block(&shorter)) & attr::CRTIME, 0);
}

#[test]
fn extra_attributes_only_where_there_are_any() {
    let mut plain = vec![0; BLOCK_BYTES];
    let mut other = plain.clone();
    put_le32(&mut other, 0x174, 0x1234_5678);
    assert_eq!(attr::changed(&plain, &other), 0, "that is an address");
    let time = attr::pack(&other, attr::CRTIME);
    assert!(attr::unpack(&mut plain, attr::CRTIME, &time).is_err());
    plain[3] = Inline::EXTRA_ATTR.0;
    put_le16(&mut plain, 0x168, 12);
    assert!(attr::unpack(&mut plain, attr::CRTIME, &time).is_err());
    put_le16(&mut plain, 0x168, 36);
    attr::unpack(&mut plain, attr::CRTIME, &time).expect("it has one");
    for size in [40u16, 3, 0xFFFF] {
        let size = size.to_le_bytes();
        assert!(attr::unpack(&mut plain, attr::EXTRA_ISIZE, &size).is_err());
    }
}

#[test]
fn names_grow_and_shrink() {
    let mut block = vec![0; BLOCK_BYTES];
    for len in [0, 1, 255, 254, 7, 255] {
        let mut after = block.clone();
        attr::set_name(&mut after, &vec![b'x'; len]);
        let mask = attr::changed(&block, &after);
        let packed = attr::pack(&after, mask);
        assert!(packed.len() <= 5 + len);
        attr::unpack(&mut block, mask, &packed).expect("packed");
        assert_eq!((attr::name(&block).len(), block == after), (len, true));
    }
    // Bytes behind the name, as a kernel leaves them, survive.
    let mut after = block.clone();
    put_le32(&mut after, 0x58, 3);
    let packed = attr::pack(&after, attr::changed(&block, &after));
    attr::unpack(&mut block, attr::NAME, &packed).expect("packed");
    assert!(block == after && packed.len() == 5 + 255);
}

#[test]
fn groups_of_more_records_than_fit() {
    for count in [65_535u32, 65_536, 131_070, 131_071] {
        let mut bytes = Vec::new();
        for n in 0..count {
            Record::Trunc { from: n.into() }.encode(&mut bytes);
        }
        let group = Group {
            ino: Nid(9),
            generation: 4,
            records: count,
            bytes: &bytes,
        };
        let mut payload = Vec::new();
        let parts = put_group(&mut payload, &group);
        assert_eq!(parts, count.div_ceil(GROUP_RECORDS_MAX));
        let found = Groups::new(&payload).map(|g| g.expect("sound"));
        let all: Vec<Record<'_>> = found
            .flat_map(|g| g.iter())
            .map(|r| r.expect("sound"))
            .collect();
        assert_eq!(all.len(), count as usize);
        for (n, record) in all.iter().enumerate() {
            assert_eq!(*record, Record::Trunc { from: n as u64 });
        }
        // A part that goes on with nothing, or with another inode, is none.
        let second = GROUP_HEADER_BYTES + 12 * GROUP_RECORDS_MAX as usize;
        if parts > 1 {
            assert!(
                Groups::new(&payload[second..])
                    .next()
                    .expect("one")
                    .is_err()
            );
            payload[second] ^= 1;
            assert!(Groups::new(&payload).nth(1).expect("one").is_err());
        }
    }
}

#[test]
fn a_group_has_as_many_records_as_it_says() {
    let mut bytes = Vec::new();
    Record::OrphanAdd.encode(&mut bytes);
    Record::OrphanDel.encode(&mut bytes);
    for (records, ok) in [(1, false), (2, true), (3, false)] {
        let group = Group {
            ino: Nid(3),
            generation: 0,
            records,
            bytes: &bytes,
        };
        assert_eq!(group.iter().all(|r| r.is_ok()), ok);
        assert!(group.iter().count() <= 3);
    }
}

#[test]
fn bounds_of_each_record() {
    let good = |r: Record<'_>| encoded(&r);
    let refused = |mut bytes: Vec<u8>, at: usize, value: u8| {
        assert!(Records::new(&bytes).all(|r| r.is_ok()), "sound at first");
        bytes[at] = value;
        let last = Records::new(&bytes).last().expect("something");
        assert!(last.is_err(), "{value} at {at}: {last:?}");
    };
    let map = |slot, count| Record::MapRun {
        nid: Nid(1),
        slot,
        count,
        addr: BlockAddr::NEW,
        dir: true,
    };
    refused(good(map(1017, 1)), 8, 0xFA);
    refused(good(map(0, 1)), 10, 0);
    refused(good(map(0, 1)), 12, 0xFD);
    refused(
        good(Record::NodePtr {
            parent: Nid(1),
            slot: 1017,
            child: Nid(2),
        }),
        8,
        0xFA,
    );
    let head = Record::Head {
        log: Log::HotData,
        alloc: AllocType::Lfs,
        seg: SegNo(1),
        next: 512,
    };
    refused(good(head), 8, 1);
    refused(good(head), 10, 6);
    refused(good(head), 11, 2);
    let dent = Record::DentSet {
        block: 0,
        slot: 0,
        hash: 0,
        ino: Nid(4),
        kind: FileType::Regular,
        name: b"a",
    };
    refused(good(dent), 11, 0);
    refused(good(dent), 11, 5);
    refused(good(dent), 10, 8);
    refused(good(dent), 23, 1);
    let bytes = Record::Bytes {
        content: Content::Node,
        nid: Nid(4),
        at: 4094,
        bytes: b"ab",
    };
    refused(good(bytes), 8, 0xFF);
    refused(good(bytes), 1, 6);
    refused(good(bytes), 1, Content::Dentries as u8);
    let run = Record::BlockRun {
        addr: BlockAddr(u32::MAX - 3),
        count: 2,
        alloc: true,
        log: Log::HotData,
    };
    refused(good(run), 8, 3);
    refused(good(run), 1, 2);
    let attr = Record::InodeAttr {
        mask: attr::ADVISE,
        fields: &[1],
    };
    refused(good(attr), 4, 0x40);
    refused(good(attr), 7, 2);
    let new = Record::InodeNew {
        mask: attr::ADVISE,
        fields: &[1],
        name: b"xy",
    };
    refused(good(new), 6, 1);
    refused(good(new), 8, 9);
    let sums = [9; 8];
    let sums = Record::DataSum {
        addr: BlockAddr(u32::MAX - 20),
        sums: Sums::from_bytes(&sums),
    };
    // Of none, of more than there are, of what is no block; 257 of them; padding.
    for (at, value) in [(8, 0), (8, 1), (8, 3), (4, 0xFE), (9, 1), (10, 1), (1, 1)] {
        refused(good(sums), at, value);
    }
    let ends = Record::InodeDel {
        first: Nid(u32::MAX - 300),
        count: 300,
        version: 1,
    };
    // Of none, of one without a number behind it; padding.
    for (at, value) in [(9, 2), (8, 45), (11, 1), (1, 1), (2, 16)] {
        refused(good(ends), at, value);
    }

    let block = [7; BLOCK_BYTES];
    for what in PageKind::ALL {
        let page = Record::Page {
            what,
            number: 5,
            page: 0,
            block: Block(&block),
        };
        refused(good(page), 1, 4);
        // Shorter than a block.
        refused(good(page), 2, 8);
        if what != PageKind::Dentries {
            refused(good(page), 8, 1);
        }
    }
}
