//! Logs with coalition transactions, alone and among stock ones, written by hand: the result of
//! recovery, case by case.

use super::hostile::{FS, Forge, LOG, V3};
use super::*;
use crate::LogBlock;
use base::Tid;
use base::bytes::{get_be32, put_be32};
use ondisk::jbd2::{
    CoalitionRecord, CoalitionWriter, JournalIncompat, MAGIC, Segment, escape, full_image_checksum,
    needs_escape, post_image_checksum,
};

const COALITION: u32 = JournalIncompat::COALITION.0;

/// What a hand-written transaction does.
pub(super) enum Do {
    /// Bytes of a block: home, offset, bytes.
    Delta(u64, usize, Vec<u8>),
    /// All of a block.
    Full(u64, Vec<u8>),
    Revoke(Vec<u64>),
}

/// A log by hand, with the content that each block has after the transactions so far.
pub(super) struct Author {
    pub forge: Forge,
    pub now: BTreeMap<u64, Vec<u8>>,
}

impl Author {
    pub fn new(incompat: u32) -> Author {
        let mut author = Author {
            forge: Forge::new(0, incompat | COALITION),
            now: BTreeMap::new(),
        };
        for home in 40..96u64 {
            author.home(home, vec![0xE0 ^ home as u8; BLOCK_BYTES]);
        }
        author
    }
    /// What home holds before recovery.
    fn home(&mut self, home: u64, content: Vec<u8>) {
        self.forge.content.insert(home, content.clone().into());
        self.now.insert(home, content);
    }
    /// The blocks of a transaction, without writing them to the log.
    pub fn blocks(
        &mut self,
        tid: u32,
        secs: u64,
        commit_block: bool,
        what: Vec<Do>,
    ) -> Vec<Vec<u8>> {
        let f = self.forge.format();
        let mut w = CoalitionWriter::new(&f, Tid(tid));
        let mut images: Vec<Bytes> = Vec::new();
        for one in what {
            w.push(match one {
                Do::Delta(home, at, bytes) => {
                    let now = self.now.get_mut(&home).expect("a block with content");
                    now[at..at + bytes.len()].copy_from_slice(&bytes);
                    CoalitionRecord::Delta {
                        block: BlockNo(home),
                        cumulative: false,
                        post_crc: post_image_checksum(&f, now),
                        segments: vec![Segment {
                            offset: at as u16,
                            bytes: bytes.into(),
                        }],
                    }
                }
                Do::Full(home, mut image) => {
                    self.now.insert(home, image.clone());
                    let escaped = needs_escape(&image);
                    if escaped {
                        escape(&mut image);
                    }
                    let crc = full_image_checksum(&f, Tid(tid), &image);
                    images.push(image.into());
                    CoalitionRecord::Full {
                        block: BlockNo(home),
                        escaped,
                        crc,
                    }
                }
                Do::Revoke(homes) => CoalitionRecord::Revoke {
                    blocks: homes.into_iter().map(BlockNo).collect(),
                },
            });
        }
        let mut out = w.finish((secs, 7), !commit_block, &images);
        out.extend(images.iter().map(|i| i.to_vec()));
        out
    }
    pub fn transaction(&mut self, tid: u32, secs: u64, what: Vec<Do>) -> &mut Author {
        for block in self.blocks(tid, secs, false, what) {
            self.forge.put(block);
        }
        self
    }
    /// With a commit block of its own.
    pub fn committed(&mut self, tid: u32, secs: u64, what: Vec<Do>) -> &mut Author {
        for block in self.blocks(tid, secs, true, what) {
            self.forge.put(block);
        }
        self.forge.commit(tid, secs);
        self
    }
    pub fn stock(&mut self, tid: u32, secs: u64, homes: &[u64]) -> &mut Author {
        self.forge.descriptor(tid, homes).commit(tid, secs);
        for home in homes {
            self.now.insert(*home, vec![*home as u8; BLOCK_BYTES]);
        }
        self
    }
    fn expect(&self, rig: &Rig) {
        for (home, content) in &self.now {
            assert!(rig.disk.content(*home) == content[..], "block {home}");
        }
    }
    /// Recovers to exactly the content of all transactions.
    fn recovers(&self) -> RecoveryReport {
        let (report, rig) = self.forge.recover().expect("recovers");
        self.expect(&rig);
        assert_eq!(rig.clean().next_tid(), report.end.next());
        let sb = Superblock::parse(&rig.disk.content(1)).expect("valid");
        assert!(!sb.incompat().has(JournalIncompat::COALITION) && sb.is_clean());
        report
    }
    fn refused(&self) -> String {
        let e = self.forge.recover().err().expect("refused");
        assert!(
            e.contains("nothing was written") && e.contains("tune2fs"),
            "{e}"
        );
        e
    }
}

fn bytes(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

fn magic_block() -> Vec<u8> {
    let mut image = vec![0x42; BLOCK_BYTES];
    put_be32(&mut image, 0, MAGIC);
    image
}

/// Stock and coalition transactions of every form, in every checksum format.
#[test]
fn mixed_logs_are_replayed() {
    for incompat in [0, 2, 9, 0xB, 0x11, V3] {
        let mut a = Author::new(incompat);
        a.stock(1, 10, &[40, 41]);
        let what = vec![
            Do::Delta(40, 0, bytes("over an image of the log")),
            Do::Delta(50, 4090, bytes("tail56")),
            Do::Delta(51, 9, bytes("alone")),
            Do::Full(42, magic_block()),
            Do::Revoke(vec![41, 60]),
        ];
        a.transaction(2, 11, what);
        a.now.insert(41, vec![0xE0 ^ 41; BLOCK_BYTES]);
        let what = vec![
            Do::Delta(42, 100, bytes("over a full image")),
            Do::Delta(40, 4, bytes("again")),
        ];
        a.committed(3, 11, what);
        a.stock(4, 12, &[50]);
        a.transaction(5, 12, vec![Do::Delta(50, 5, bytes("over a stock image"))]);
        let report = a.recovers();
        assert_eq!((report.transactions, report.coalitions), (5, 3));
        assert_eq!((report.coalition_parts, report.end), (3, Tid(6)));
        assert_eq!((report.images_revoked, report.revoke_records), (1, 2));
        // 40, 42, 50 have images; only 51 is made from home.
        assert_eq!((report.blocks_replayed, report.home_reads), (4, 1));
        assert_eq!((report.failed_commit, report.blocks_insured), (None, 0));
    }
}

/// hazards-H10: the image begins with the magic number at home, and with zeros in the log.
#[test]
fn escaped_images_come_home_whole() {
    let mut a = Author::new(V3);
    a.transaction(1, 10, vec![Do::Full(42, magic_block())]);
    let logged = a.forge.place.block(LogBlock(2)).0;
    assert_eq!(get_be32(&a.forge.content[&logged], 0), 0);
    a.recovers();
}

/// hazards-H6: a revoke voids what its own and older transactions say, not what newer ones do.
#[test]
fn revokes_in_coalition_blocks_are_obeyed() {
    let mut a = Author::new(V3);
    let before = a.now[&40].clone();
    a.transaction(
        1,
        10,
        vec![
            Do::Delta(40, 0, bytes("old")),
            Do::Full(41, vec![1; BLOCK_BYTES]),
        ],
    );
    a.transaction(2, 10, vec![Do::Revoke(vec![40, 41])]);
    a.now.insert(40, before);
    a.now.insert(41, vec![0xE0 ^ 41; BLOCK_BYTES]);
    a.transaction(3, 10, vec![Do::Full(41, vec![3; BLOCK_BYTES])]);
    a.transaction(4, 10, vec![Do::Delta(41, 1, bytes("new"))]);
    let report = a.recovers();
    assert_eq!(
        (
            report.images_revoked,
            report.blocks_replayed,
            report.home_reads
        ),
        (2, 1, 0)
    );
}

/// hazards-H15: parts and images beyond the end of the ring stand at its beginning. Every start
/// position is tried.
#[test]
fn parts_and_images_wrap_around_the_ring() {
    for commit_block in [false, true] {
        for start in 1..LOG {
            let mut a = Author::new(V3);
            a.forge.at = start;
            a.forge.sb.set_start(start);
            let what = vec![
                Do::Delta(40, 0, vec![7; 4000]),
                Do::Delta(41, 3, vec![8; 3000]),
                Do::Full(42, vec![9; BLOCK_BYTES]),
                Do::Full(43, vec![10; BLOCK_BYTES]),
            ];
            if commit_block {
                a.committed(1, 10, what);
            } else {
                a.transaction(1, 10, what);
            }
            a.transaction(2, 10, vec![Do::Delta(40, 2, bytes("last"))]);
            let report = a.recovers();
            assert_eq!(
                (report.transactions, report.coalition_parts),
                (2, 3),
                "start {start}"
            );
        }
    }
}

/// Near neighbours come with one read, over a gap of at most four blocks; each home is read once.
#[test]
fn homes_are_read_once_in_runs() {
    let mut a = Author::new(V3);
    for tid in 1..5 {
        let homes = [40, 42, 41, 50, 52, 57, 63];
        let what = homes.map(|home| Do::Delta(home, tid as usize, vec![tid as u8]));
        a.transaction(tid, 10, what.into());
    }
    let report = a.recovers();
    // 40 to 42, 50 to 57, 63.
    assert_eq!((report.home_reads, report.home_read_commands), (7, 3));
}

/// What the scan has read is not read again for the images, and of the rest only what is wanted.
#[test]
fn a_log_block_crosses_the_bus_once() {
    let mut a = Author::new(V3);
    for tid in 1..4 {
        a.stock(tid, 10, &[40, 41, 42, 43, 44]);
    }
    let (_, rig) = a.forge.recover().expect("recovers");
    a.expect(&rig);
    // The superblock twice at most, every block of the log once.
    let read = rig.queue.stats().sectors_read / base::SECTORS_PER_BLOCK;
    assert!(
        read <= u64::from(LOG) + 2,
        "{read} blocks of a log of {LOG}"
    );
}

/// Three transactions; the second one, at log blocks 2 to 5, has two parts and two images (and a
/// commit block at 6).
fn three(commit_block: bool, third: bool) -> Author {
    let mut a = Author::new(V3);
    a.transaction(1, 10, vec![Do::Delta(40, 0, bytes("one"))]);
    let mut before = a.now.clone();
    let what = vec![
        Do::Delta(41, 0, vec![7; 4000]),
        Do::Delta(42, 3, vec![8; 3000]),
        Do::Full(43, vec![9; BLOCK_BYTES]),
        Do::Full(44, vec![10; BLOCK_BYTES]),
    ];
    if commit_block {
        a.committed(2, 11, what);
    } else {
        a.transaction(2, 11, what);
    }
    if third {
        a.transaction(3, 12, vec![Do::Delta(40, 2, bytes("three"))]);
    } else {
        std::mem::swap(&mut a.now, &mut before);
    }
    a
}

fn erase(a: &mut Author, log_block: u32) {
    let home = a.forge.place.block(LogBlock(log_block)).0;
    a.forge.content.insert(home, disk::zeros());
}

/// R, T, M: what a cut leaves of a transaction that was being written. The ones before it are
/// replayed.
#[test]
fn a_torn_last_transaction_ends_the_log() {
    for (block, byte, letter) in [(2, 900, 'T'), (3, 900, 'T'), (4, 5, 'R'), (5, 4000, 'R')] {
        let mut a = three(false, false);
        a.forge.damage(block, byte);
        let report = a.recovers();
        assert_eq!((report.end, report.failed_commit), (Tid(2), Some(Tid(2))));
        assert!(report.cases.contains(letter), "{letter}: {}", report.cases);
        let mut a = three(false, false);
        erase(&mut a, block);
        let report = a.recovers();
        let letter = match block {
            2 => 'A',
            3 => 'M',
            _ => 'R',
        };
        assert!(report.cases.contains(letter), "{letter}: {}", report.cases);
    }
    // With a commit block that is not there yet, or is torn.
    for (block, letter) in [(3, 'M'), (5, 'R'), (6, 'M')] {
        let mut a = three(true, false);
        erase(&mut a, 6);
        erase(&mut a, block);
        let report = a.recovers();
        assert!(report.cases.contains(letter), "{letter}: {}", report.cases);
        assert_eq!(report.end, Tid(2));
    }
    let mut a = three(true, false);
    a.forge.damage(6, 0x20);
    let report = a.recovers();
    assert_eq!(
        (report.failed_commit, report.cases.as_str()),
        (Some(Tid(2)), "POYK")
    );
}

/// hazards-H14: sectors of a part from the last round of the ring: nothing of it is believed.
#[test]
fn a_part_of_old_and_new_sectors_is_torn() {
    for sector in 1..8usize {
        let mut a = Author::new(V3);
        let long = |n: u8| vec![Do::Delta(41, 0, vec![n; 4000])];
        let old = a.blocks(1, 9, false, long(1)).remove(0);
        a.home(41, vec![0xE0 ^ 41; BLOCK_BYTES]);
        let mut part = a.blocks(1, 10, false, long(2)).remove(0);
        a.home(41, vec![0xE0 ^ 41; BLOCK_BYTES]);
        part[sector * 512..].copy_from_slice(&old[sector * 512..]);
        a.forge.put(part);
        let report = a.recovers();
        assert_eq!(
            (report.transactions, report.failed_commit),
            (0, Some(Tid(1)))
        );
    }
}

/// U, S, N: the same damage in front of a transaction that could only be written after this one was
/// durable; or of its commit block.
#[test]
fn damage_in_the_middle_is_refused() {
    for (block, byte, words) in [
        (2, 900, "log block 2: coalition block"),
        (3, 900, "log block 3: coalition block"),
        (4, 5, "image of block 43 at log block 4"),
        (5, 4000, "image of block 44 at log block 5"),
    ] {
        for (commit_block, third) in [(false, true), (true, true), (true, false)] {
            let mut a = three(commit_block, third);
            a.forge.damage(block, byte);
            let e = a.refused();
            assert!(e.contains("transaction 2") && e.contains(words), "{e}");
            assert!(
                e.contains("log block 6 shows that it had been durable"),
                "{e}"
            );
        }
    }
    let mut a = three(false, true);
    erase(&mut a, 3);
    let e = a.refused();
    assert!(e.contains("part 1 of 2 is missing at log block 3"), "{e}");
    let mut a = three(true, true);
    erase(&mut a, 6);
    let e = a.refused();
    assert!(
        e.contains("its commit block is missing at log block 6"),
        "{e}"
    );
    // The transaction checksum alone: a part with a right checksum of its own, of another writing
    // of the same transaction.
    let mut a = three(false, true);
    let mut other = three(false, true);
    let again = vec![
        Do::Delta(41, 0, vec![6; 4000]),
        Do::Delta(42, 3, vec![8; 3000]),
    ];
    let part = other.blocks(2, 11, false, again).remove(0);
    let home = a.forge.place.block(LogBlock(2)).0;
    a.forge.content.insert(home, part.into());
    let e = a.refused();
    assert!(
        e.contains("transaction 2") && e.contains("its checksum is wrong"),
        "{e}"
    );
}

/// Q, hazards-H7: whole, of the right number, but older than the transaction before it.
#[test]
fn a_transaction_of_an_older_life_ends_the_log() {
    for commit_block in [false, true] {
        let mut a = Author::new(V3);
        a.transaction(1, 10, vec![Do::Delta(40, 0, bytes("one"))]);
        let now = a.now.clone();
        let what = vec![Do::Delta(41, 0, bytes("stale"))];
        if commit_block {
            a.committed(2, 9, what);
        } else {
            a.transaction(2, 9, what);
        }
        a.now = now;
        let report = a.recovers();
        assert_eq!(
            (report.stale_end, report.end, report.cases.as_str()),
            (true, Tid(2), "PQ")
        );
    }
}

/// V, W, X: no cut leaves these, whatever follows.
#[test]
fn what_no_commit_writes_is_refused() {
    let put = |blocks: Vec<Vec<u8>>| {
        let mut a = Author::new(V3);
        blocks.into_iter().for_each(|b| {
            a.forge.put(b);
        });
        a.refused()
    };
    let mut a = Author::new(V3);
    let long = || {
        vec![
            Do::Delta(41, 0, vec![7; 4000]),
            Do::Delta(42, 3, vec![8; 3000]),
        ]
    };
    let parts = a.blocks(1, 10, false, long());
    let e = put(vec![parts[1].clone(), parts[0].clone()]);
    assert!(
        e.contains("part 1 of 2 stands where part 0 of 2 belongs"),
        "{e}"
    );
    let e = put(vec![parts[0].clone(), parts[0].clone()]);
    assert!(
        e.contains("part 0 of 2 stands where part 1 of 2 belongs"),
        "{e}"
    );
    let other = a.blocks(
        1,
        10,
        false,
        vec![
            Do::Delta(41, 0, vec![1; 4000]),
            Do::Delta(42, 0, vec![1; 4000]),
            Do::Delta(43, 0, vec![1; 4000]),
        ],
    );
    let e = put(vec![parts[0].clone(), other[1].clone()]);
    assert!(
        e.contains("part 1 of 3 stands where part 1 of 2 belongs"),
        "{e}"
    );
    let with_commit = a
        .blocks(1, 10, true, vec![Do::Delta(41, 0, bytes("x"))])
        .remove(0);
    let e = put(vec![with_commit.clone(), with_commit.clone()]);
    assert!(e.contains("where its commit block belongs"), "{e}");

    // Blocks that no file system has, or that are the journal's own.
    for (home, words) in [
        (FS, "ends at block 100"),
        (u64::MAX, "ends at"),
        (2, "journal itself"),
        (98, "journal itself"),
    ] {
        for full in [false, true] {
            let mut a = Author::new(V3);
            a.now.insert(home, vec![0; BLOCK_BYTES]);
            let what = match full {
                true => Do::Full(home, vec![1; BLOCK_BYTES]),
                false => Do::Delta(home, 0, bytes("x")),
            };
            let blocks = a.blocks(1, 10, false, vec![what]);
            let e = put(blocks);
            assert!(
                e.contains(&format!("it logs block {home}, but")) && e.contains(words),
                "{e}"
            );
        }
    }

    // More than the ring has; images without a record; a segment outside of its block; another
    // version.
    let f = a.forge.format();
    let sealed = |edit: &dyn Fn(&mut [u8])| {
        let mut block = with_commit.clone();
        edit(&mut block);
        put_be32(&mut block, 0x2C, 0);
        let crc = base::checksum::crc32c(f.seed, &block);
        put_be32(&mut block, 0x2C, crc);
        put(vec![block])
    };
    let e = sealed(&|b| put_be32(b, 0x24, 31));
    assert!(
        e.contains("31 more blocks are announced, the ring has 30"),
        "{e}"
    );
    let e = sealed(&|b| put_be32(b, 0x24, u32::MAX));
    assert!(e.contains("more blocks are announced"), "{e}");
    let e = sealed(&|b| put_be32(b, 0x24, 1));
    assert!(e.contains("1 images are announced, 0 are recorded"), "{e}");
    let e = sealed(&|b| b[0x46] = 0x20);
    assert!(e.contains("segment length"), "{e}");
    let e = sealed(&|b| b[0x0C] = 2);
    assert!(e.contains("version = 2"), "{e}");

    // Among stock blocks, and stock blocks among parts.
    let mut a = Author::new(V3);
    a.forge.descriptor(1, &[40]).put(parts[0].clone());
    let e = a.refused();
    assert!(e.contains("stands among stock blocks"), "{e}");
    let mut a = Author::new(V3);
    a.forge.put(parts[0].clone()).descriptor(1, &[40]);
    let e = a.refused();
    assert!(
        e.contains("log block 2 holds a descriptor where part 1 of 2 belongs"),
        "{e}"
    );
    let mut a = Author::new(V3);
    a.forge.put(parts[0].clone()).commit(1, 10);
    let e = a.refused();
    assert!(
        e.contains("holds a commit block where part 1 of 2 belongs"),
        "{e}"
    );
    let mut a = Author::new(V3);
    a.forge.put(with_commit.clone()).revoke(1, &[40]);
    let e = a.refused();
    assert!(
        e.contains("holds a revoke block where its commit block belongs"),
        "{e}"
    );

    // Without the feature.
    let mut a = Author::new(V3);
    a.forge.sb.set_incompat(JournalIncompat(V3));
    a.forge.put(with_commit);
    let e = a.refused();
    assert!(e.contains("lacks the feature journal_coalition"), "{e}");
}

/// journal-replay-P2: home is not what the deltas were made against.
#[test]
fn a_foreign_home_is_refused() {
    let mut a = Author::new(V3);
    for home in 40..60 {
        a.transaction(home as u32 - 39, 10, vec![Do::Delta(home, 0, bytes("x"))]);
    }
    for home in 40..58u64 {
        a.forge.content.insert(home, filled(0x77));
    }
    let e = a.refused();
    assert!(
        e.contains("at blocks 40, 41,") && e.contains("and 2 more: home was changed"),
        "{e}"
    );
    // Not so if the log has an image: the home is never read.
    let mut a = Author::new(V3);
    a.transaction(1, 10, vec![Do::Full(40, vec![1; BLOCK_BYTES])]);
    a.transaction(2, 10, vec![Do::Delta(40, 0, bytes("x"))]);
    a.forge.content.insert(40, filled(0x77));
    assert_eq!(a.recovers().home_reads, 0);
}
