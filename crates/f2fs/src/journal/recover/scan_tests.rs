//! Tests with rings made by hand, one for each case of the table, and with random damage to good
//! rings.

use super::cases::{CASES, Decision, Supers};
use super::records::Check;
use super::scan::{Known, Reader, Scanned, scan};
use super::supers::choose;
use crate::journal::Epoch;
use base::{BLOCK_BYTES, BlockNo, Rng};
use block::{Class, Queue};
use blockdev::{Ram, write_block};
use ondisk::f2fs::journal::{
    Block, Commit, Descriptor, Group, JournalArea, JournalSuper, PageKind, Record, Transaction,
    count_records, put_group,
};
use ondisk::f2fs::{BLOCKS_PER_SEG, BlockAddr, Geometry, Log, NatEntry, Nid, SitEntry};
use std::collections::BTreeSet;
use std::sync::Arc;

const RING: u32 = 62;
const UUID: [u8; 16] = *b"journal under te";
const LIFE: u64 = 77;
const AREA: JournalArea = JournalArea {
    start: 16,
    blocks: RING + 2,
    uuid: UUID,
};

fn geometry() -> Geometry {
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
fn owner(nid: Nid) -> fscore::FsResult<Option<Nid>> {
    Ok((3..10).contains(&nid.0).then_some(nid))
}

/// A ring that is being made.
#[derive(Clone)]
struct Forge {
    blocks: Vec<Vec<u8>>,
    supers: [Option<JournalSuper>; 2],
    /// Where each transaction lies: epoch, ring index, blocks.
    placed: Vec<(u64, u32, u32)>,
    head: u32,
    applied: Option<u64>,
    barrier: bool,
}

fn sb(tail: u32, tail_epoch: u64) -> JournalSuper {
    JournalSuper {
        clean: false,
        generation: 8,
        uuid: UUID,
        ring_blocks: RING,
        tail,
        tail_epoch,
        checkpoint_version: 5,
        incarnation: LIFE,
        head_epoch: tail_epoch,
    }
}

impl Forge {
    /// An empty ring behind epoch `applied`; the next transaction begins at `head`.
    fn new(applied: u64, head: u32) -> Forge {
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
        }
    }

    fn put(&mut self, at: u32, bytes: &[u8]) {
        for (n, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
            self.blocks[(at as usize + n) % RING as usize] = block.to_vec();
        }
    }

    /// A transaction at the head.
    fn add(&mut self, epoch: u64, life: u64, records: &[Record<'_>], fat: bool) {
        let made = transaction(epoch, life, records, fat);
        let bytes = made.encode();
        let blocks = made.blocks();
        self.put(self.head, &bytes);
        self.placed.push((epoch, self.head, blocks));
        self.head = (self.head + blocks) % RING;
    }

    /// A transaction at the head, with records of the volume itself.
    fn add_with_tables(
        &mut self,
        epoch: u64,
        life: u64,
        records: &[Record<'_>],
        tables: &[Record<'_>],
    ) {
        let mut made = transaction(epoch, life, records, false);
        let mut bytes = Vec::new();
        tables.iter().for_each(|r| r.encode(&mut bytes));
        let group = Group {
            ino: Nid(0),
            generation: 0,
            records: tables.len() as u32,
            bytes: &bytes,
        };
        made.descriptor.groups += put_group(&mut made.payload, &group);
        made.descriptor.records += group.records;
        let blocks = made.blocks();
        self.put(self.head, &made.encode());
        self.placed.push((epoch, self.head, blocks));
        self.head = (self.head + blocks) % RING;
    }

    /// Good transactions of these epochs, small and large ones.
    fn chain(&mut self, epochs: std::ops::RangeInclusive<u64>) -> &mut Forge {
        for epoch in epochs {
            self.add(epoch, LIFE, &[good()], epoch % 2 == 1);
        }
        self
    }

    /// Block `n` of the transaction of `epoch`, counted from its end if negative.
    fn of(&mut self, epoch: u64, n: i32) -> &mut Vec<u8> {
        let placed = self.placed.iter().find(|p| p.0 == epoch);
        let &(_, at, blocks) = placed.expect("it was added");
        let n = if n < 0 { blocks as i32 + n } else { n } as u32;
        &mut self.blocks[((at + n) % RING) as usize]
    }

    fn erase(&mut self, epoch: u64, n: i32) -> &mut Forge {
        self.of(epoch, n).fill(0);
        self
    }

    fn flip(&mut self, epoch: u64, n: i32, at: usize) -> &mut Forge {
        self.of(epoch, n)[at] ^= 0x10;
        self
    }

    fn device(&self) -> Arc<Queue> {
        let ram = Ram::new((AREA.start + u64::from(AREA.blocks)) * BLOCK_BYTES as u64);
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
        Queue::new(Arc::new(ram))
    }

    fn scan(&self) -> Scanned {
        let queue = self.device();
        let ring = AREA.ring().expect("large enough");
        let chosen = choose(&queue, &AREA, &ring).expect("no I/O fails");
        let known = Known {
            ring,
            supers: chosen.supers,
            sb: chosen.sb,
            applied: self.applied.map(Epoch),
            barrier: self.barrier,
        };
        let geo = geometry();
        let mut check = Check::new(&geo, &owner);
        scan(&queue, &known, &mut check).expect("no I/O fails")
    }
}

fn good() -> Record<'static> {
    Record::MapRun {
        nid: Nid(5),
        slot: 3,
        count: 2,
        addr: BlockAddr(512 + 8 * 512),
        dir: false,
    }
}

/// `fat`: of several blocks.
fn transaction(epoch: u64, life: u64, records: &[Record<'_>], fat: bool) -> Transaction {
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
        ino: Nid(5),
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
fn seal(block: &mut [u8]) {
    block[28..32].fill(0);
    let crc = base::checksum::crc32c(!0, block);
    block[28..32].copy_from_slice(&crc.to_le_bytes());
}

/// A ring for each letter, with the last epoch of its chain and words of its message.
#[derive(Default)]
struct Examples(Vec<(char, Forge, u64, &'static str)>);

impl Examples {
    fn add(&mut self, letter: char, forge: &Forge, end: u64, words: &'static str) {
        self.0.push((letter, forge.clone(), end, words));
    }
}

/// Epochs 21 to 23 follow the pack's epoch 20.
fn crash() -> Forge {
    let mut f = Forge::new(20, 55);
    f.chain(21..=23);
    f
}

fn examples() -> Vec<(char, Forge, u64, &'static str)> {
    let mut all = Examples::default();
    no_chain(&mut all);
    first_links(&mut all);
    whole_chains(&mut all);
    torn_ends(&mut all);
    wrong_blocks(&mut all);
    holes(&mut all);
    wrong_records(&mut all);
    all.0
}

/// A to E: the copies of the superblock, or the pack, rule a chain out.
fn no_chain(all: &mut Examples) {
    let mut f = crash();
    f.supers = [None, None];
    all.add('A', &f, 20, "both copies");
    let mut f = crash();
    for sb in f.supers.iter_mut().flatten() {
        sb.uuid[3] ^= 1;
    }
    all.add('B', &f, 20, "another volume");
    let mut f = crash();
    for sb in f.supers.iter_mut().flatten() {
        sb.ring_blocks += 1;
    }
    all.add('C', &f, 20, "F2FS superblock describes");
    let mut f = Forge::new(20, 55);
    f.applied = None;
    for sb in f.supers.iter_mut().flatten() {
        sb.clean = true;
    }
    all.add('D', &f, 0, "left empty");
    let mut f = crash();
    f.applied = None;
    all.add('E', &f, 0, "epochs up to 23 were in it");
}

/// F to H: no epoch follows the pack's.
fn first_links(all: &mut Examples) {
    all.add('F', &Forge::new(20, 55), 20, "nothing was committed");
    // What was applied before the crash, from a tail that was not moved.
    let mut f = Forge::new(18, 55);
    f.chain(19..=21).applied = Some(21);
    all.add('F', &f, 21, "the pack has epoch 21");
    let mut f = Forge::new(20, 55);
    f.add(21, LIFE - 1, &[good()], false);
    all.add('G', &f, 20, "of an older life");
    let mut f = Forge::new(20, 55);
    f.chain(21..=21).flip(21, 0, 100);
    all.add('H', &f, 20, "first transaction is torn");
    let mut f = Forge::new(20, 55);
    f.chain(21..=21).erase(21, 0);
    all.add(
        'H',
        &f,
        20,
        "is of epoch 21, whose first block is not there",
    );
}

/// I and J: the whole chain counts.
fn whole_chains(all: &mut Examples) {
    all.add('I', &crash(), 23, "epochs 21 to 23 are whole");
    // One copy of the superblock is enough, and a stale hint costs time only.
    let mut f = crash();
    f.supers[0] = None;
    all.add('I', &f, 23, "epochs 21 to 23 are whole");
    let mut f = crash();
    let hint = sb(3, 20);
    f.supers = [Some(hint), None];
    all.add('I', &f, 23, "epochs 21 to 23 are whole");
    let mut f = Forge::new(18, 40);
    f.chain(19..=23).applied = Some(20);
    all.add('I', &f, 23, "epochs 21 to 23 are whole");
    let mut f = crash();
    f.add(24, LIFE - 1, &[good()], true);
    all.add('J', &f, 23, "an older life");
}

/// K to M: the last transaction was being written.
fn torn_ends(all: &mut Examples) {
    let mut f = crash();
    f.chain(24..=25).flip(24, 0, 40);
    let torn = f.placed[4];
    (0..torn.2).for_each(|n| f.blocks[((torn.1 + n) % RING) as usize].fill(0));
    all.add('K', &f, 23, "descriptor of the last transaction is torn");
    let mut f = crash();
    f.chain(24..=24).add(25, LIFE, &[good()], true);
    f.flip(25, 1, 2000);
    all.add('L', &f, 24, "records of the last transaction");
    let mut f = crash();
    f.chain(24..=24).add(25, LIFE, &[good()], true);
    f.erase(25, 1);
    all.add('L', &f, 24, "block of records");
    let mut f = crash();
    f.chain(24..=24).add(25, LIFE, &[good()], true);
    f.erase(25, -1);
    all.add('M', &f, 24, "no commit block");
    // A commit block of another attempt.
    let mut f = crash();
    f.chain(24..=24).add(25, LIFE, &[good()], true);
    let block = f.of(25, 1);
    block[300] ^= 1;
    seal(block);
    all.add('M', &f, 24, "no commit block");
}

/// N: blocks with content that no implementation writes.
fn wrong_blocks(all: &mut Examples) {
    let mut f = crash();
    f.chain(24..=24);
    let block = f.of(24, 0);
    block[40] = 0xFF;
    seal(block);
    all.add('N', &f, 23, "says what cannot be");
    let mut f = Forge::new(20, 55);
    f.chain(21..=21);
    let block = f.of(21, 0);
    block[24] = 3;
    seal(block);
    all.add('N', &f, 20, "says what cannot be");
}

/// O to Q: a transaction before the last is not whole.
fn holes(all: &mut Examples) {
    let hole = |epochs: u64, at: u64| {
        let mut f = Forge::new(20, 55);
        f.chain(21..=epochs).flip(at, 0, 1000);
        f
    };
    all.add('O', &hole(24, 21), 20, "block");
    all.add('O', &hole(24, 22), 21, "has a hole");
    all.add('O', &hole(25, 23), 22, "is of epoch 2");
    let mut f = hole(25, 23);
    f.erase(23, -1).erase(23, 0);
    all.add('O', &f, 22, "read-only");
    let mut f = hole(24, 21);
    f.barrier = false;
    all.add('P', &f, 20, "without barriers");
    let mut f = hole(24, 22);
    f.barrier = false;
    all.add('Q', &f, 21, "without barriers");
}

/// R and S: records that do not fit the volume.
fn wrong_records(all: &mut Examples) {
    for (record, words) in [
        (
            Record::MapRun {
                nid: Nid(9_000_000),
                slot: 0,
                count: 1,
                addr: BlockAddr::NULL,
                dir: false,
            },
            "node number 9000000",
        ),
        (
            Record::MapRun {
                nid: Nid(6),
                slot: 0,
                count: 1,
                addr: BlockAddr::NULL,
                dir: false,
            },
            "node 6 is of inode 6",
        ),
        (
            Record::BlockRun {
                addr: BlockAddr(700),
                count: 1,
                alloc: true,
                log: Log::HotData,
            },
            "leave the main area",
        ),
        (
            Record::NodePtr {
                parent: Nid(77),
                slot: 1013,
                child: Nid(0),
            },
            "node 77 is free",
        ),
        (
            Record::NodeNew {
                nid: Nid(7),
                ofs: 1,
                cold: true,
                version: 0,
            },
            "inode 7 has it",
        ),
    ] {
        let mut f = crash();
        f.add(24, LIFE, &[good(), record], false);
        all.add('R', &f, 23, words);
    }
    wrong_pages(all);
    let mut f = crash();
    let record = Record::Quota {
        kind: 0,
        id: 1,
        space: 2,
        inodes: 3,
    };
    f.add(24, LIFE, &[record], false);
    all.add('S', &f, 23, "quota 0 of id 1");
}

/// R: whole blocks that are no blocks of the volume, or that say something else than the records
/// beside them.
fn wrong_pages(all: &mut Examples) {
    let blank = [0; BLOCK_BYTES];
    let born = Record::NodeNew {
        nid: Nid(400),
        ofs: 1,
        cold: true,
        version: 7,
    };
    let taken = Record::BlockRun {
        addr: BlockAddr(512 + 8 * 512),
        count: 3,
        alloc: true,
        log: Log::WarmData,
    };
    let nat = |version, addr| {
        let ino = Nid(5);
        let mut block = [0; BLOCK_BYTES];
        NatEntry { version, ino, addr }.put(&mut block, 400);
        block
    };
    let sit = |valid, byte| {
        let mut entry = SitEntry {
            valid,
            ..SitEntry::default()
        };
        entry.map[0] = byte;
        let mut block = [0; BLOCK_BYTES];
        entry.encode(&mut block, 1);
        block
    };
    let (right_nat, right_sit) = (nat(7, BlockAddr::NEW), sit(4, 0xF0));
    let tables = [
        page(PageKind::Nat, 0, &right_nat),
        page(PageKind::Sit, 0, &right_sit),
    ];
    let mut f = crash();
    f.add_with_tables(24, LIFE, &[born, taken], &tables);
    all.add('I', &f, 24, "");
    let (odd_nat, free_nat) = (nat(6, BlockAddr::NEW), nat(7, BlockAddr::NULL));
    let (odd_sit, uncounted) = (sit(2, 0xA0), sit(5, 0xF0));
    for (block, words) in [
        (&odd_nat, "node 400: its block of the NAT"),
        (&free_nat, "node 400: its block of the NAT"),
    ] {
        let mut f = crash();
        f.add_with_tables(24, LIFE, &[born], &[page(PageKind::Nat, 0, block)]);
        all.add('R', &f, 23, words);
    }
    for (block, words) in [
        (&odd_sit, "block 1 of segment 1"),
        (&uncounted, "counts 5 valid blocks of 4"),
    ] {
        let mut f = crash();
        f.add_with_tables(24, LIFE, &[taken], &[page(PageKind::Sit, 0, block)]);
        all.add('R', &f, 23, words);
    }
    pages_of_nothing(all, &right_nat, &blank);
}

fn page<'a>(what: PageKind, number: u32, block: &'a [u8; BLOCK_BYTES]) -> Record<'a> {
    Record::Page {
        what,
        number,
        page: 0,
        block: Block(block),
    }
}

/// The second half of it: pages of what is free, or of another owner.
fn pages_of_nothing(all: &mut Examples, right_nat: &[u8; BLOCK_BYTES], blank: &[u8; BLOCK_BYTES]) {
    let mut f = crash();
    let freed = Record::NodeDel {
        nid: Nid(5),
        version: 7,
    };
    f.add_with_tables(24, LIFE, &[freed], &[page(PageKind::Nat, 0, right_nat)]);
    all.add('R', &f, 23, "node 5: its block of the NAT");
    let mut f = crash();
    f.add_with_tables(24, LIFE, &[], &[page(PageKind::Sit, 1, blank)]);
    all.add('R', &f, 23, "SIT block 1; the volume has 1");
    for (record, words) in [
        (page(PageKind::Node, 6, blank), "node 6 is of inode 6"),
        (page(PageKind::Node, 77, blank), "node 77 is free"),
        (page(PageKind::Dentries, 6, blank), "a page of directory 6"),
        (page(PageKind::Nat, 0, blank), "they are of inode 0"),
    ] {
        let mut f = crash();
        f.add(24, LIFE, &[good(), record], false);
        all.add('R', &f, 23, words);
    }
}

#[test]
fn every_case_on_a_ring_made_by_hand() {
    let mut seen = BTreeSet::new();
    for (letter, forge, end, words) in examples() {
        let found = forge.scan();
        let text = found.case.message(&found.place);
        assert_eq!(found.case.letter, letter, "{text}\n{:?}", found.facts);
        assert_eq!(found.end.0, end, "{letter}: {text}");
        assert!(text.contains(words), "{letter}: `{words}` in: {text}");
        assert!(text.contains("ring of 62 blocks from block 18"), "{text}");
        let chain = found
            .run
            .as_ref()
            .map_or(0, |run| found.end.0 + 1 - run.first.0);
        assert_eq!(chain, end - forge.applied.unwrap_or(0), "{letter}: {text}");
        if let Some(run) = &found.run {
            assert_eq!(run.commit.valid_blocks, 1000 + end, "{letter}");
        }
        seen.insert(letter);
    }
    let all: BTreeSet<char> = CASES.iter().map(|case| case.letter).collect();
    assert_eq!(seen, all, "an example of each case");
}

/// The same facts always mean the same case, and two examples of different letters differ in a
/// fact.
#[test]
fn no_two_cases_are_confused() {
    let all: Vec<_> = examples()
        .into_iter()
        .map(|(letter, forge, ..)| (letter, forge.scan().facts))
        .collect();
    for (a, facts) in &all {
        for (b, others) in &all {
            assert!(facts != others || a == b, "{a} and {b}: {facts:?}");
        }
    }
}

#[test]
fn a_chain_is_found_at_every_offset_of_the_ring() {
    for head in 0..RING {
        let mut f = Forge::new(20, head);
        f.chain(21..=26);
        let found = f.scan();
        assert_eq!((found.case.letter, found.end.0), ('I', 26), "{head}");
        assert_eq!(found.head, f.head);
        assert!(!found.searched);
        let run = found.run.expect("a chain");
        let ring = AREA.ring().expect("large enough");
        let queue = f.device();
        let mut reader = Reader::new(&queue, ring);
        let (mut at, mut epoch) = (run.at, run.first);
        while epoch <= found.end {
            let read = reader.transaction(at, LIFE, epoch).expect("no I/O fails");
            let (made, blocks) = read.expect("whole");
            let fat = epoch.0 % 2 == 1;
            assert_eq!(
                made.payload,
                transaction(epoch.0, LIFE, &[good()], fat).payload
            );
            at = ring.step(at, blocks.into());
            epoch.0 += 1;
        }
        assert_eq!(at, found.head);
        // The same with a hint that leads nowhere.
        f.supers = [Some(sb((head + 31) % RING, 19)), None];
        let found = f.scan();
        assert_eq!((found.case.letter, found.end.0), ('I', 26), "{head}");
        assert!(found.searched);
    }
}

/// A ring that is full to its last block ends.
#[test]
fn a_full_ring() {
    let mut f = Forge::new(20, 9);
    (21..=20 + u64::from(RING)).for_each(|e| f.add(e, LIFE, &[good()], false));
    let found = f.scan();
    assert_eq!(found.end.0, 20 + u64::from(RING));
    assert_eq!((found.case.letter, found.head), ('I', 9));
}

/// Whatever is damaged: the chain is a prefix of what was written, nothing panics, and what is
/// judged whole is whole.
#[test]
fn random_damage_leaves_a_prefix_or_a_refusal() {
    let mut letters = BTreeSet::new();
    for seed in 0..3000 {
        let mut rng = Rng::named(seed, "ring damage");
        let mut f = Forge::new(20, rng.below(RING.into()) as u32);
        let last = 20 + rng.below(9);
        f.chain(21..=last);
        for _ in 0..1 + rng.below(4) {
            let (at, from) = (rng.below(RING.into()) as usize, rng.below(RING.into()));
            match rng.below(4) {
                0 => f.blocks[at][rng.below(4096) as usize] ^= 1 << rng.below(8),
                1 => f.blocks[at] = f.blocks[from as usize].clone(),
                2 => f.blocks[at].fill(rng.below(256) as u8),
                _ => {
                    let from = f.blocks[from as usize].clone();
                    let sector = 512 * rng.below(8) as usize;
                    f.blocks[at][sector..sector + 512].copy_from_slice(&from[sector..sector + 512]);
                }
            }
        }
        let found = f.scan();
        assert!(
            found.end.0 <= last,
            "{seed}: epoch {} of {last}",
            found.end.0
        );
        assert_eq!(found.facts.supers, Supers::Fit);
        // Every transaction of the chain is one that was written.
        if let Some(run) = &found.run {
            assert_eq!(run.commit.valid_blocks, 1000 + found.end.0);
        }
        let lost = found.end.0 < last;
        let acts = matches!(found.case.decision, Decision::Replay | Decision::Nothing);
        // Losing more than the last transaction is a hole, and a mount does not write over a hole.
        let hole = found.end.0 + 1 < last && f.later_than(found.end.0 + 1);
        assert!(!(lost && acts && hole), "{seed}: {}", found.place);
        letters.insert(found.case.letter);
    }
    assert!(letters.len() >= 7, "{letters:?}");
}

impl Forge {
    /// A sound block of a later epoch is still there.
    fn later_than(&self, epoch: u64) -> bool {
        let sound = |block: &Vec<u8>| ondisk::f2fs::journal::BlockHeader::parse(block).ok();
        let mut heads = self.blocks.iter().filter_map(sound);
        heads.any(|head| head.incarnation == LIFE && head.epoch > epoch)
    }
}
