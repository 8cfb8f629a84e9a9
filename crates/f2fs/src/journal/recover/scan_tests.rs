//! Tests with rings made by hand, one for each case of the table, and with random damage to good
//! rings.

use super::cases::{CASES, Decision, Supers};
use super::forge::{
    AREA, Forge, LIFE, RING, crash, geometry, good, place, sb, seal, transaction, transaction_of,
};
use super::scan::Reader;
use super::supers::choose;
use base::{BLOCK_BYTES, BlockNo, Rng};
use block::Queue;
use blockdev::{Fault, FaultOn, FaultRule};
use ondisk::f2fs::journal::{Block, JournalVersion, PageKind, Record, Sums};
use ondisk::f2fs::{BlockAddr, Log, NatEntry, Nid, SitEntry};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A ring for each letter, with the last epoch of its chain and words of its message.
#[derive(Default)]
struct Examples(Vec<(char, Forge, u64, &'static str)>);

impl Examples {
    fn add(&mut self, letter: char, forge: &Forge, end: u64, words: &'static str) {
        self.0.push((letter, forge.clone(), end, words));
    }
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
    data_that_did_not_survive(&mut all);
    wrong_sums(&mut all);
    freed_together(&mut all);
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

/// T to V, and the neighbours in which the data does not decide.
fn data_that_did_not_survive(all: &mut Examples) {
    let summed = |epochs: std::ops::RangeInclusive<u64>| {
        let mut f = Forge::new(20, 55);
        for epoch in epochs {
            f.add_summed(epoch);
        }
        f
    };
    all.add('I', &summed(21..=23), 23, "epochs 21 to 23 are whole");
    for block in [0, 1] {
        all.add(
            'T',
            summed(21..=21).lose(21, block),
            20,
            "data of the first",
        );
        let mut f = summed(21..=23);
        f.lose(23, block);
        all.add('U', &f, 22, "epoch 23 maps block");
        // What earlier ones map may have been written over in place.
        all.add('I', summed(21..=23).lose(22, block), 23, "");
        // The data of the one that is left out says nothing of the one before.
        let mut f = summed(21..=23);
        f.lose(23, block).lose(22, block);
        all.add('U', &f, 22, "never acknowledged");
    }
    // An empty one behind it seals it.
    let mut f = summed(21..=23);
    f.lose(23, 0).add(24, LIFE, &[], false);
    all.add('I', &f, 24, "");
    // So does a block of the next one, torn as that may be.
    let mut f = summed(21..=23);
    f.lose(23, 0).add(24, LIFE, &[good()], true);
    all.add('V', f.erase(24, -1), 23, "restore the file");
    let mut f = summed(21..=23);
    f.lose(23, 0).add(24, LIFE, &[good()], true);
    all.add('V', f.erase(24, 0), 23, "damaged, though it was durable");
    // One of another life does not.
    let mut f = summed(21..=23);
    f.lose(23, 0).add(24, LIFE - 1, &[good()], true);
    all.add('U', &f, 22, "");
    // A hole is a hole.
    let mut f = summed(21..=25);
    f.lose(23, 0).erase(24, 0);
    all.add('O', &f, 23, "has a hole");
}

/// R: checksums that no implementation writes.
fn wrong_sums(all: &mut Examples) {
    let sum = [7; 4 * 256];
    let of = |addr: BlockAddr, count: usize| Record::DataSum {
        addr,
        sums: Sums::from_bytes(&sum[..4 * count]),
    };
    let taken = |count| Record::BlockRun {
        addr: place(24),
        count,
        alloc: true,
        log: Log::WarmData,
    };
    let main = geometry().main;
    let (two, many) = (place(24), BlockAddr(place(24).0 + 200));
    for (sums, words) in [
        (vec![of(two, 1), of(two, 1)], "two checksums of block"),
        (
            vec![of(two, 2), of(BlockAddr(two.0 + 1), 1)],
            "two checksums",
        ),
        (vec![of(BlockAddr(main.0 - 1), 2)], "leave the main area"),
        (vec![of(BlockAddr(22528 - 1), 2)], "leave the main area"),
        (vec![of(two, 3)], "which the transaction does not take"),
        (
            vec![of(place(23), 1)],
            "which the transaction does not take",
        ),
        (vec![of(two, 200), of(many, 57)], "more than 256 checksums"),
    ] {
        let mut f = crash();
        f.add_with_tables(24, LIFE, &[taken(2)], &sums);
        all.add('R', &f, 23, words);
    }
    let mut f = crash();
    f.add(24, LIFE, &[taken(2), of(two, 1)], false);
    all.add('R', &f, 23, "are of no inode");
    // The volume itself frees blocks, and takes none.
    let mut f = crash();
    f.add_with_tables(24, LIFE, &[good()], &[taken(2)]);
    all.add('R', &f, 23, "it belongs to no inode");
    // Rings of version 1 have none, and are recovered all the same.
    let mut f = crash();
    let old = |f: &mut Forge| {
        let supers = f.supers.iter_mut().flatten();
        supers.for_each(|sb| sb.version = JournalVersion::Ordered);
    };
    old(&mut f);
    all.add('I', &f, 23, "epochs 21 to 23 are whole");
    f.add_with_tables(24, LIFE, &[taken(2)], &[of(two, 2)]);
    all.add('R', &f, 23, "in a ring of version 1");
}

/// records-U2.
fn freed_together(all: &mut Examples) {
    let gone = |first, count| Record::InodeDel {
        first: Nid(first),
        count,
        version: 7,
    };
    let mut f = crash();
    f.add_with_tables(24, LIFE, &[good()], &[gone(5, 2)]);
    all.add('I', &f, 24, "epochs 21 to 24 are whole");
    // The next epoch may make an inode with one of the numbers.
    let anew = Record::NodeNew {
        nid: Nid(5),
        ofs: 0,
        cold: false,
        version: 8,
    };
    f.add(25, LIFE, &[anew, good()], false);
    all.add('I', &f, 25, "epochs 21 to 25 are whole");
    // In the same epoch nobody gets it, and nothing else is said of an inode behind its end.
    for (ino, behind) in [(5, anew), (5, good()), (6, good()), (7, Record::OrphanAdd)] {
        let mut f = crash();
        let made = transaction_of(Nid(0), 24, LIFE, &[gone(5, 1)], false);
        f.add_behind(made, Nid(ino), &[behind]);
        all.add(
            'R',
            &f,
            23,
            "it stands behind inodes that are freed together",
        );
    }
    for (records, words) in [
        (vec![gone(8, 3)], "node 10 is free"),
        (vec![gone(5, 1), gone(4, 2)], "node 5 is free"),
        (vec![gone(77, 1)], "node 77 is free"),
        (vec![gone(0, 1)], "node number 0"),
        (vec![gone(5, u16::MAX)], "node 10 is free"),
        (vec![gone(geometry().max_nid - 1, 1)], "is free"),
        (vec![gone(geometry().max_nid, 1)], "there are numbers up to"),
    ] {
        let mut f = crash();
        f.add_with_tables(24, LIFE, &[good()], &records);
        all.add('R', &f, 23, words);
    }
    // A node of another inode, and an inode that ends in its own group as well.
    let below = Record::NodeNew {
        nid: Nid(20),
        ofs: 1,
        cold: false,
        version: 1,
    };
    let end = Record::NodeDel {
        nid: Nid(5),
        version: 7,
    };
    for (record, first, words) in [(below, 20, "node 20 is of inode 5"), (end, 5, "is free")] {
        let mut f = crash();
        f.add_with_tables(24, LIFE, &[record], &[gone(first, 1)]);
        all.add('R', &f, 23, words);
    }
    let mut f = crash();
    f.add(24, LIFE, &[gone(5, 1)], false);
    all.add('R', &f, 23, "are of no inode");
    // What follows in the next epoch.
    let mut f = crash();
    f.add_with_tables(24, LIFE, &[], &[gone(5, 1)]);
    f.add(25, LIFE, &[good()], false);
    all.add('R', &f, 24, "node 5 is free");
    // Rings of older versions have none, and are recovered all the same.
    for (version, words) in [
        (JournalVersion::Summed, "in a ring of version 2"),
        (JournalVersion::Ordered, "in a ring of version 1"),
    ] {
        let mut f = crash();
        let supers = f.supers.iter_mut().flatten();
        supers.for_each(|sb| sb.version = version);
        all.add('I', &f, 23, "epochs 21 to 23 are whole");
        f.add_with_tables(24, LIFE, &[good()], &[gone(5, 1)]);
        all.add('R', &f, 23, words);
    }
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

/// scan-S6: damage of a transaction is told from a cut by the next one, which lies no farther away
/// than the superblock says that a transaction reaches.
#[test]
fn a_hole_is_seen_as_far_as_transactions_reach() {
    let hole = |most: u32| {
        let mut f = Forge::new(20, 30);
        f.chain(21..=21).add(22, LIFE, &[good()], true);
        let blocks = f.placed[1].2;
        f.add(23, LIFE, &[good()], false);
        for n in 0..blocks as i32 {
            f.erase(22, n);
        }
        for sb in f.supers.iter_mut().flatten() {
            sb.transaction_max = most;
        }
        (f.scan().case.letter, blocks)
    };
    let (letter, blocks) = hole(0);
    assert_eq!(
        letter, 'O',
        "where nothing is said a part of the ring is read"
    );
    assert!(blocks > 2, "a transaction of {blocks} blocks");
    assert_eq!(hole(blocks).0, 'O', "scan-S6");
    // A superblock that lies: no more is read than it says.
    assert_eq!(hole(blocks / 2).0, 'I');
}

/// The device answers each block by itself: one bad one is no reason to refuse both.
#[test]
fn a_superblock_that_cannot_be_read_is_as_good_as_damaged() {
    let made = crash();
    let read = |bad: &[usize]| {
        let disk = Fault::new(made.ram());
        for &copy in bad {
            let first = BlockNo(AREA.super_block(copy)).lba().0;
            disk.rule(FaultRule::always(FaultOn::Read).at(first..first + 1));
        }
        choose(
            &Queue::new(Arc::new(disk)),
            &AREA,
            &AREA.ring().expect("large enough"),
        )
    };
    for copy in [0, 1] {
        let chosen = read(&[copy]).expect("the other one is enough");
        assert_eq!(chosen.supers, Supers::Fit);
        assert_eq!(chosen.sb, made.supers[1 - copy]);
        let note = format!("superblock {copy} of the journal cannot be read");
        assert!(chosen.notes[0].starts_with(&note), "{:?}", chosen.notes);
    }
    let failed = read(&[0, 1]).expect_err("nothing is known of the ring");
    assert!(matches!(failed, fscore::FsError::Io { .. }), "{failed}");
}

/// A block of data that cannot be read did not survive.
#[test]
fn data_that_cannot_be_read_is_torn() {
    let mut f = Forge::new(20, 55);
    f.add_summed(21).add_summed(22);
    for block in 0..2 {
        let disk = Fault::new(f.ram());
        let first = BlockNo(u64::from(place(22).0 + block)).lba().0;
        disk.rule(FaultRule::always(FaultOn::Read).at(first..first + 1));
        let found = f.scan_on(&Queue::new(Arc::new(disk)));
        assert_eq!((found.case.letter, found.end.0), ('U', 21));
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
