//! Rings made by hand, for tests.

use super::records::Check;
use super::scan::{Known, Scanned, scan};
use super::supers::choose;
use crate::journal::Epoch;
use base::{BLOCK_BYTES, BlockNo};
use block::{Class, Queue};
use blockdev::{Ram, write_block};
use ondisk::f2fs::journal::{
    Commit, Descriptor, Group, JournalArea, JournalSuper, JournalVersion, Record, Sums,
    Transaction, count_records, put_group,
};
use ondisk::f2fs::{BLOCKS_PER_SEG, BlockAddr, Geometry, Log, Nid};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const RING: u32 = 62;
pub(super) const UUID: [u8; 16] = *b"journal under te";
pub(super) const LIFE: u64 = 77;
pub(super) const AREA: JournalArea = JournalArea {
    start: 16,
    blocks: RING + 2,
    uuid: UUID,
};

pub(super) fn geometry() -> Geometry {
    let seg = |n: u32| BlockAddr(512 + n * BLOCKS_PER_SEG);
    Geometry {
        block_count: 512 + 43 * 512,
        segment0: seg(0),
        cp: seg(0),
        sit: seg(2),
        nat: seg(4),
        ssa: seg(6),
        main: seg(7),
        segments_cp: 2,
        segments_sit: 2,
        segments_nat: 2,
        segments_ssa: 1,
        segments_main: 36,
        segments: 43,
        sections: 36,
        segs_per_sec: 1,
        secs_per_zone: 1,
        cp_payload: 0,
        root: Nid(3),
        node_ino: Nid(1),
        meta_ino: Nid(2),
        max_nid: 512 * 455,
        nat_blocks: 512,
        sit_blocks: 512,
    }
}

/// The owners of nodes before the chain: inodes 3 to 9.
pub(super) fn owner(nid: Nid) -> fscore::FsResult<Option<Nid>> {
    Ok((3..10).contains(&nid.0).then_some(nid))
}

/// A ring that is being made.
#[derive(Clone)]
pub(super) struct Forge {
    pub blocks: Vec<Vec<u8>>,
    pub supers: [Option<JournalSuper>; 2],
    /// Where each transaction lies: epoch, ring index, blocks.
    pub placed: Vec<(u64, u32, u32)>,
    pub head: u32,
    pub applied: Option<u64>,
    pub barrier: bool,
    /// Blocks of the main area.
    pub data: BTreeMap<u32, Vec<u8>>,
}

pub(super) fn sb(tail: u32, tail_epoch: u64) -> JournalSuper {
    JournalSuper {
        version: JournalVersion::default(),
        clean: false,
        generation: 8,
        uuid: UUID,
        ring_blocks: RING,
        tail,
        tail_epoch,
        checkpoint_version: 5,
        incarnation: LIFE,
        head_epoch: tail_epoch,
        transaction_max: 0,
    }
}

impl Forge {
    /// An empty ring behind epoch `applied`; the next transaction begins at `head`.
    pub fn new(applied: u64, head: u32) -> Forge {
        let first = sb(head, applied + 1);
        let second = JournalSuper {
            generation: 7,
            ..first
        };
        Forge {
            blocks: vec![vec![0; BLOCK_BYTES]; RING as usize],
            supers: [Some(first), Some(second)],
            placed: Vec::new(),
            head,
            applied: Some(applied),
            barrier: true,
            data: BTreeMap::new(),
        }
    }

    pub fn put(&mut self, at: u32, bytes: &[u8]) {
        for (n, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
            self.blocks[(at as usize + n) % RING as usize] = block.to_vec();
        }
    }

    /// A transaction at the head.
    pub fn add(&mut self, epoch: u64, life: u64, records: &[Record<'_>], fat: bool) {
        let made = transaction(epoch, life, records, fat);
        let bytes = made.encode();
        let blocks = made.blocks();
        self.put(self.head, &bytes);
        self.placed.push((epoch, self.head, blocks));
        self.head = (self.head + blocks) % RING;
    }

    /// A transaction at the head, with records of the volume itself.
    pub fn add_with_tables(
        &mut self,
        epoch: u64,
        life: u64,
        records: &[Record<'_>],
        tables: &[Record<'_>],
    ) {
        let made = transaction(epoch, life, records, false);
        self.add_behind(made, Nid(0), tables);
    }

    /// A transaction at the head that has a group behind those that were `made`.
    pub fn add_behind(&mut self, mut made: Transaction, ino: Nid, records: &[Record<'_>]) {
        let mut bytes = Vec::new();
        records.iter().for_each(|r| r.encode(&mut bytes));
        let group = Group {
            ino,
            generation: 0,
            records: records.len() as u32,
            bytes: &bytes,
        };
        made.descriptor.groups += put_group(&mut made.payload, &group);
        made.descriptor.records += group.records;
        let blocks = made.blocks();
        self.put(self.head, &made.encode());
        self.placed.push((made.epoch, self.head, blocks));
        self.head = (self.head + blocks) % RING;
    }

    /// Good transactions of these epochs, small and large ones.
    pub fn chain(&mut self, epochs: std::ops::RangeInclusive<u64>) -> &mut Forge {
        for epoch in epochs {
            self.add(epoch, LIFE, &[good()], epoch % 2 == 1);
        }
        self
    }

    /// Block `n` of the transaction of `epoch`, counted from its end if negative.
    pub fn of(&mut self, epoch: u64, n: i32) -> &mut Vec<u8> {
        let placed = self.placed.iter().find(|p| p.0 == epoch);
        let &(_, at, blocks) = placed.expect("it was added");
        let n = if n < 0 { blocks as i32 + n } else { n } as u32;
        &mut self.blocks[((at + n) % RING) as usize]
    }

    pub fn erase(&mut self, epoch: u64, n: i32) -> &mut Forge {
        self.of(epoch, n).fill(0);
        self
    }

    pub fn flip(&mut self, epoch: u64, n: i32, at: usize) -> &mut Forge {
        self.of(epoch, n)[at] ^= 0x10;
        self
    }

    pub fn device(&self) -> Arc<Queue> {
        Queue::new(Arc::new(self.ram()))
    }

    pub fn ram(&self) -> Ram {
        let ram = Ram::new(geometry().block_count * BLOCK_BYTES as u64);
        let write = |at: u64, bytes: Vec<u8>| {
            write_block(
                &ram,
                BlockNo(at).lba(),
                Class::JournalMetadata,
                bytes.into(),
            )
            .expect("room");
        };
        for (copy, sb) in self.supers.iter().enumerate() {
            if let Some(sb) = sb {
                write(AREA.super_block(copy), sb.encode());
            }
        }
        for (n, block) in self.blocks.iter().enumerate() {
            write(AREA.start + 2 + n as u64, block.clone());
        }
        for (&addr, block) in &self.data {
            write(addr.into(), block.clone());
        }
        ram
    }

    pub fn scan(&self) -> Scanned {
        self.scan_on(&self.device())
    }

    pub fn scan_on(&self, queue: &Queue) -> Scanned {
        let ring = AREA.ring().expect("large enough");
        let chosen = choose(queue, &AREA, &ring).expect("no I/O fails");
        let known = Known {
            ring,
            supers: chosen.supers,
            sb: chosen.sb,
            applied: self.applied.map(Epoch),
            barrier: self.barrier,
        };
        let geo = geometry();
        let version = known.sb.map_or(JournalVersion::default(), |sb| sb.version);
        let mut check = Check::new(&geo, &owner, version);
        scan(queue, &known, &mut check).expect("no I/O fails")
    }
}

pub(super) fn good() -> Record<'static> {
    Record::MapRun {
        nid: Nid(5),
        slot: 3,
        count: 2,
        addr: BlockAddr(512 + 8 * 512),
        dir: false,
    }
}

/// `fat`: of several blocks.
pub(super) fn transaction(epoch: u64, life: u64, records: &[Record<'_>], fat: bool) -> Transaction {
    transaction_of(Nid(5), epoch, life, records, fat)
}

/// The same, of this inode.
pub(super) fn transaction_of(
    ino: Nid,
    epoch: u64,
    life: u64,
    records: &[Record<'_>],
    fat: bool,
) -> Transaction {
    let mut bytes = Vec::new();
    for record in records {
        record.encode(&mut bytes);
    }
    if fat {
        let at = |n: u16| Record::BlockRun {
            addr: BlockAddr(512 + 9 * 512 + u32::from(n)),
            count: 1,
            alloc: true,
            log: Log::WarmData,
        };
        (0..700).for_each(|n| at(n % 500).encode(&mut bytes));
    }
    let records = count_records(&bytes).expect("just encoded");
    let group = Group {
        ino,
        generation: 1,
        records,
        bytes: &bytes,
    };
    let mut payload = Vec::new();
    let groups = put_group(&mut payload, &group);
    Transaction {
        incarnation: life,
        epoch,
        descriptor: Descriptor {
            groups,
            records,
            ..Descriptor::default()
        },
        commit: Commit {
            valid_blocks: 1000 + epoch,
            ..Commit::default()
        },
        payload,
    }
}

/// Makes the checksum right, as if the block had been written with this content.
pub(super) fn seal(block: &mut [u8]) {
    block[28..32].fill(0);
    let crc = base::checksum::crc32c(!0, block);
    block[28..32].copy_from_slice(&crc.to_le_bytes());
}

/// Epochs 21 to 23 follow the pack's epoch 20.
pub(super) fn crash() -> Forge {
    let mut f = Forge::new(20, 55);
    f.chain(21..=23);
    f
}

/// Data of epoch `n` lies in the two blocks from here on.
pub(super) fn place(epoch: u64) -> BlockAddr {
    BlockAddr(512 + 10 * 512 + 2 * epoch as u32)
}

pub(super) fn bytes_of(epoch: u64, block: u32) -> Vec<u8> {
    vec![(epoch as u8) ^ block as u8; BLOCK_BYTES]
}

impl Forge {
    /// A transaction with the checksums of two blocks, and these blocks.
    pub fn add_summed(&mut self, epoch: u64) -> &mut Forge {
        let addr = place(epoch);
        let (mut records, mut sums) = (Vec::new(), Vec::new());
        for n in 0..2 {
            let bytes = bytes_of(epoch, n);
            sums.extend(Sums::of(&bytes).to_le_bytes());
            self.data.insert(addr.0 + n, bytes);
        }
        let taken = Record::BlockRun {
            addr,
            count: 2,
            alloc: true,
            log: Log::WarmData,
        };
        records.extend([good(), taken]);
        let sums = Sums::from_bytes(&sums);
        let sum = Record::DataSum { addr, sums };
        self.add_with_tables(epoch, LIFE, &records, &[sum]);
        self
    }

    /// A block of this epoch's data holds something else.
    pub fn lose(&mut self, epoch: u64, block: u32) -> &mut Forge {
        let at = place(epoch).0 + block;
        self.data.get_mut(&at).expect("it was added")[4095] ^= 1;
        self
    }
}

impl Forge {
    /// A sound block of a later epoch is still there.
    pub fn later_than(&self, epoch: u64) -> bool {
        let sound = |block: &Vec<u8>| ondisk::f2fs::journal::BlockHeader::parse(block).ok();
        let mut heads = self.blocks.iter().filter_map(sound);
        heads.any(|head| head.incarnation == LIFE && head.epoch > epoch)
    }
}
