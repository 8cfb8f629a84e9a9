//! Damaged and hostile logs: a clear error or a clean end, never a panic, and nothing written after
//! an error.

use super::*;
use base::Tid;
use base::bytes::put_be32;
use ondisk::jbd2::{
    BlockKind, ChecksumMode, Commit, DescriptorWriter, Format, Header, JournalCompat,
    JournalIncompat, MAGIC, Revoke, Tag, crc32_be,
};
use proptest::prelude::*;

pub(super) const LOG: u32 = 32;
pub(super) const FS: u64 = 100;
pub(super) const V3: u32 = 0x13;

/// A log written by hand.
pub(super) struct Forge {
    pub(super) sb: Superblock,
    pub(super) content: BTreeMap<u64, Bytes>,
    pub(super) place: LogPlace,
    pub(super) at: u32,
    pub(super) crc: u32,
}

impl Forge {
    pub(super) fn new(compat: u32, incompat: u32) -> Forge {
        let mut sb = Superblock::new(BLOCK_BYTES as u32, LOG, *b"a journal's UUID");
        sb.set_compat(JournalCompat(compat));
        sb.set_incompat(JournalIncompat(incompat));
        sb.set_checksum_type(4);
        sb.set_start(1);
        Forge {
            sb,
            content: BTreeMap::new(),
            place: place(FS, LOG),
            at: 1,
            crc: !0,
        }
    }
    pub(super) fn format(&self) -> Format {
        self.sb.format()
    }
    pub(super) fn put(&mut self, block: Vec<u8>) -> &mut Forge {
        let home = self.place.block(crate::LogBlock(self.at));
        self.content.insert(home.0, block.into());
        self.at = if self.at + 1 == self.sb.log_end() {
            1
        } else {
            self.at + 1
        };
        self
    }
    pub(super) fn block(&self) -> Vec<u8> {
        vec![0; BLOCK_BYTES]
    }
    pub(super) fn descriptor(&mut self, tid: u32, homes: &[u64]) -> &mut Forge {
        let f = self.format();
        let mut writer = DescriptorWriter::new(f, Tid(tid));
        let images: Vec<Vec<u8>> = homes.iter().map(|h| vec![*h as u8; BLOCK_BYTES]).collect();
        for (home, image) in homes.iter().zip(&images) {
            writer.push(Tag::of(&f, Tid(tid), BlockNo(*home), image, false));
        }
        let mut block = self.block();
        writer.encode(&mut block);
        self.crc = crc32_be(self.crc, &block);
        self.put(block);
        for image in images {
            self.crc = crc32_be(self.crc, &image);
            self.put(image);
        }
        self
    }
    pub(super) fn revoke(&mut self, tid: u32, homes: &[u64]) -> &mut Forge {
        let blocks = homes.iter().map(|h| BlockNo(*h)).collect();
        let mut block = self.block();
        Revoke {
            tid: Tid(tid),
            blocks,
        }
        .encode(&self.format(), &mut block);
        self.put(block)
    }
    pub(super) fn commit(&mut self, tid: u32, secs: u64) -> &mut Forge {
        let mut block = self.block();
        let crc = self.format().checksum == ChecksumMode::V1;
        let transaction_crc = crc.then_some(self.crc);
        Commit {
            tid: Tid(tid),
            secs,
            nanos: 0,
            transaction_crc,
        }
        .encode(&self.format(), &mut block);
        self.crc = !0;
        self.put(block)
    }
    /// Flips a bit of log block `n` (1 = first of the ring).
    pub(super) fn damage(&mut self, n: u32, byte: usize) -> &mut Forge {
        let home = self.place.block(crate::LogBlock(n)).0;
        let mut block = self.content[&home].to_vec();
        block[byte] ^= 1;
        self.content.insert(home, block.into());
        self
    }
    pub(super) fn rig(&self) -> Rig {
        let mut content = self.content.clone();
        let mut block = self.block();
        self.sb.encode(&mut block);
        content.insert(1, block.into());
        Rig::on(CrashDisk::new(FS, content), self.place.clone())
    }
    /// Recovers; after an error nothing has been written.
    pub(super) fn recover(&self) -> Result<(RecoveryReport, Rig), String> {
        let rig = self.rig();
        match rig.recover() {
            Ok((_, report)) => Ok((report, rig)),
            Err(e) => {
                assert_eq!(
                    rig.disk.len(),
                    0,
                    "an error comes before the first write: {e}"
                );
                Err(e.to_string())
            }
        }
    }
}

#[test]
fn every_format_is_replayed() {
    for (compat, incompat) in [
        (0, 0),
        (1, 0),
        (0, 2),
        (1, 3),
        (0, 9),
        (0, 0xB),
        (0, 0x11),
        (0, V3),
    ] {
        let mut f = Forge::new(compat, incompat);
        f.descriptor(1, &[40, 41]).commit(1, 10);
        f.revoke(2, &[41, 60]).descriptor(2, &[42]).commit(2, 11);
        f.descriptor(3, &[40]).commit(3, 12);
        let (report, rig) = f.recover().expect("recovers");
        assert_eq!(
            (report.transactions, report.end),
            (3, Tid(4)),
            "{compat} {incompat:#x}"
        );
        assert_eq!((report.images_revoked, report.blocks_replayed), (1, 2));
        assert_eq!(report.revoke_records, 2);
        let homes: Vec<u8> = (40..43).map(|b| rig.disk.content(b)[9]).collect();
        assert_eq!(homes, [40, 0, 42]);
        assert_eq!(rig.clean().next_tid(), Tid(5));
    }
}

#[test]
fn checksums_decide_as_the_case_table_says() {
    let two = |incompat| {
        let mut f = Forge::new(0, incompat);
        f.descriptor(1, &[40]).commit(1, 10).descriptor(2, &[41]);
        f
    };
    // D, H: committed and damaged.
    let e = two(V3)
        .commit(2, 11)
        .damage(4, 2000)
        .recover()
        .err()
        .expect("refused");
    assert!(e.contains("transaction 2") && e.contains("e2fsck"), "{e}");
    // D, G: the "commit" is older than the one before.
    let (report, _) = two(V3)
        .commit(2, 9)
        .damage(4, 2000)
        .recover()
        .expect("ends");
    assert!(report.stale_end && report.end == Tid(2), "{report:?}");
    // K: the commit block itself.
    let (report, _) = two(V3)
        .commit(2, 11)
        .damage(6, 300)
        .recover()
        .expect("ends");
    assert_eq!((report.failed_commit, report.end), (Some(Tid(2)), Tid(2)));
    // L.
    let (report, _) = two(V3 | 4)
        .commit(2, 11)
        .damage(6, 300)
        .recover()
        .expect("ends");
    assert_eq!((report.failed_commit, report.end), (None, Tid(2)));
    // J.
    let (report, _) = two(V3).commit(2, 9).damage(6, 300).recover().expect("ends");
    assert!(report.stale_end && report.failed_commit.is_none());
    // An image: refused before anything is written (v2 and v3 alike).
    for incompat in [V3, 0xB] {
        let e = two(incompat)
            .commit(2, 11)
            .damage(5, 77)
            .recover()
            .err()
            .expect("refused");
        assert!(e.contains("block 41") && e.contains("transaction 2"), "{e}");
    }
    // v1: the transaction counts as torn.
    let mut f = Forge::new(1, 0);
    f.descriptor(1, &[40])
        .commit(1, 10)
        .descriptor(2, &[41])
        .commit(2, 11)
        .damage(5, 77);
    let (report, rig) = f.recover().expect("ends");
    assert_eq!(
        (report.failed_commit, report.transactions),
        (Some(Tid(2)), 1)
    );
    assert_eq!(rig.disk.content(41), disk::zeros());
    // A superblock inside the log, and a log without any commit.
    let mut f = Forge::new(0, V3);
    let mut odd = f.block();
    Header {
        kind: BlockKind::SuperblockV2,
        tid: Tid(1),
    }
    .encode(&mut odd);
    let (report, _) = f.put(odd).recover().expect("ends");
    assert_eq!((report.transactions, report.cases.as_str()), (0, "B"));
    assert_eq!(two(V3).recover().expect("ends").0.transactions, 1);
}

#[test]
fn impossible_homes_are_refused() {
    for (home, word) in [
        (FS, "ends at block"),
        (u64::from(u32::MAX), "ends at"),
        (1, "journal"),
        (99, "journal"),
    ] {
        let mut f = Forge::new(0, V3);
        let e = f
            .descriptor(1, &[40, home])
            .commit(1, 1)
            .recover()
            .err()
            .expect("refused");
        assert!(
            e.contains(&format!("block {home} ")) && e.contains(word),
            "{e}"
        );
        // Not committed: of no interest.
        let mut f = Forge::new(0, V3);
        assert_eq!(
            f.descriptor(1, &[home])
                .recover()
                .expect("ends")
                .0
                .transactions,
            0
        );
    }
}

#[test]
fn descriptor_longer_than_the_ring_ends() {
    let mut f = Forge::new(0, V3);
    let mut writer = DescriptorWriter::new(f.format(), Tid(1));
    for n in 0..200 {
        writer.push(Tag {
            block: BlockNo(n),
            escaped: false,
            zeros: false,
            checksum: 0,
        });
    }
    let mut block = f.block();
    writer.encode(&mut block);
    assert_eq!(f.put(block).recover().expect("ends").0.transactions, 0);
}

#[test]
fn hostile_superblocks_are_refused() {
    type Edit = fn(&mut Superblock);
    let edits: [(Edit, &str); 7] = [
        (|s| s.set_block_bytes(1024), "1024 bytes"),
        (|s| s.set_blocks_count(LOG + 1), "claims 33"),
        (|s| (s.set_first(LOG - 4), s.set_start(0)).1, "ring"),
        (|s| s.set_start(LOG), "s_start"),
        (
            |s| s.set_incompat(JournalIncompat(0x8000_0002)),
            "FEATURE_I31",
        ),
        (|s| s.set_incompat(JournalIncompat(0x18)), "exclude"),
        (|s| s.set_first(0), "s_first"),
    ];
    for (edit, word) in edits {
        let mut f = Forge::new(0, V3);
        edit(&mut f.sb);
        let e = f.rig().open().err().expect("refused").to_string();
        assert!(e.contains(word), "{word}: {e}");
    }
    let mut f = Forge::new(0, V3);
    f.place = LogPlace::new(&[(BlockNo(1), LOG)], FS + 1).expect("fits");
    assert!(
        f.rig()
            .open()
            .err()
            .expect("refused")
            .to_string()
            .contains("the device has 100")
    );
}

/// One transaction, and an area of fast commits whose head names transaction `head_tid`.
fn with_fast_commits(head_tid: u32) -> Forge {
    let mut f = Forge::new(0, 0x20 | V3);
    f.sb.set_fast_commit_blocks(4);
    f.descriptor(1, &[40]).commit(1, 1);
    let mut head = f.block();
    head[..4].copy_from_slice(&[9, 0, 8, 0]);
    head[8..12].copy_from_slice(&head_tid.to_le_bytes());
    f.content.insert(
        f.place.block(crate::LogBlock(f.sb.fast_commit_first())).0,
        head.into(),
    );
    f
}

/// foresee-B1, foresee-B3: recovery refuses, before anything is written, fast commits that the
/// caller has not replayed, and fast commits whose images have no room in the log.
#[test]
fn b3_the_room_for_fast_commits_is_known_before_the_first_write() {
    let foreseen = |rig: &Rig| match rig.open().expect("opens") {
        Opened::NeedsRecovery(log) => log.foresee(None).expect("a whole log"),
        Opened::Clean(_) => panic!("the log is dirty"),
    };
    let images = |n: u64| (0..n).map(|n| (BlockNo(40 + n), filled(9))).collect();
    let rig = with_fast_commits(2).rig();
    let mut ahead = foreseen(&rig);
    assert_eq!(ahead.fast_commits().expect("an area").tid, Tid(2));
    let why = ahead.add(images(40), 1).expect_err("refused").to_string();
    assert!(why.contains("has room for"), "{why}");
    let why = foreseen(&rig).carry_out().err().expect("refused");
    assert!(why.to_string().contains("has to replay"), "{why}");
    assert_eq!(rig.disk.len(), 0, "nothing was written");
    let mut ahead = foreseen(&rig);
    ahead.add(images(3), 1).expect("room");
    let seen = ahead.queue().read(BlockNo(40).lba(), 8).expect("reads");
    assert_eq!((rig.disk.len(), &seen), (0, &filled(9)));
    let (log, report) = ahead.carry_out().expect("recovers");
    assert_eq!((report.fast_commits, log.next_tid()), (1, Tid(4)));
    assert_eq!(rig.disk.content(42), filled(9));
}

/// fast-Z3: the images fit the ring, but not behind the full commit. Whatever a cut leaves, the
/// next recovery has the full commit home, and finds either the area or what it led to.
#[test]
fn z3_images_without_room_behind_full_commits_begin_the_log_anew() {
    let mut forge = Forge::new(0, 0x20 | V3);
    forge.sb.set_fast_commit_blocks(4);
    let full: Vec<u64> = (40..56).collect();
    forge.descriptor(1, &full).commit(1, 1);
    let mut head = forge.block();
    head[..4].copy_from_slice(&[9, 0, 8, 0]);
    head[8..12].copy_from_slice(&2u32.to_le_bytes());
    let at = forge
        .place
        .block(crate::LogBlock(forge.sb.fast_commit_first()));
    forge.content.insert(at.0, head.into());
    let recover = |rig: &Rig| {
        let Opened::NeedsRecovery(log) = rig.open().expect("opens") else {
            return None;
        };
        let mut ahead = log.foresee(None).expect("a whole log");
        let asked = ahead.fast_commits().is_some();
        if asked {
            let images = (50..65).map(|n| (BlockNo(n), filled(9))).collect();
            ahead.add(images, 1).expect("room in an empty log");
        }
        ahead.carry_out().expect("recovers");
        Some(asked)
    };
    let holds =
        |rig: &Rig| (40..65).all(|n| rig.disk.content(n)[0] == if n < 50 { n as u8 } else { 9 });
    let whole = forge.rig();
    assert_eq!(recover(&whole), Some(true));
    assert!(holds(&whole));
    let mut kinds = [0; 3];
    for cut in 0..=whole.disk.len() {
        for seed in 0..4 {
            let rig = whole.after_cut(cut, seed);
            match recover(&rig) {
                Some(true) => kinds[0] += 1,
                Some(false) => kinds[1] += 1,
                None => kinds[2] += 1,
            }
            assert!(holds(&rig), "cut {cut}, seed {seed}");
        }
    }
    assert!(kinds.iter().all(|&n| n > 0), "{kinds:?}");
}

#[test]
fn fast_commits_are_refused_unless_stale() {
    let forge = with_fast_commits;
    let e = forge(2).recover().err().expect("refused");
    assert!(e.contains("fast commits after transaction 1"), "{e}");
    let (report, rig) = forge(1).recover().expect("of an older time");
    assert_eq!(report.transactions, 1);
    // Where there are fast commits the area is emptied (fast-W11), and is no part of the ring.
    let journal = rig.start(Options {
        scheme: crate::Preset::FastCommit.scheme(),
        ..quiet()
    });
    for n in 0..30 {
        let mut handle = journal.start(1).expect("room");
        handle.create(BlockNo(40), filled(n)).expect("credit");
        journal
            .commit(handle.finish().expect("runs"))
            .expect("commits");
    }
    journal.stop().expect("stops");
    let area = rig.place.block(crate::LogBlock(LOG - 3));
    assert_eq!(rig.disk.content(area.0)[..4], [0; 4]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// Control blocks in any order, with any bit flipped: recovery ends with an answer, and leaves
    /// the rest of the device alone.
    #[test]
    fn random_logs_never_panic(
        incompat in 0u32..0x40,
        compat in 0u32..2,
        start in 1u32..LOG,
        blocks in proptest::collection::vec((0u32..5, 1u32..4, 0u64..110, any::<u16>()), 0..40),
        flips in proptest::collection::vec((1u32..LOG, 0usize..BLOCK_BYTES), 0..6),
    ) {
        let mut f = Forge::new(compat, incompat);
        f.sb.set_fast_commit_blocks(2);
        f.sb.set_start(start);
        f.at = start.min(f.sb.log_end() - 1);
        for (what, tid, home, junk) in blocks {
            match what {
                0 => f.descriptor(tid, &[home]),
                1 => f.revoke(tid, &[home, home + 1]),
                2 => f.commit(tid, junk.into()),
                3 => f.descriptor(tid, &[home, 50, 51]),
                _ => {
                    let mut block = vec![junk as u8; BLOCK_BYTES];
                    put_be32(&mut block, 0, MAGIC);
                    put_be32(&mut block, 4, u32::from(junk % 7));
                    put_be32(&mut block, 8, tid);
                    f.put(block)
                }
            };
        }
        for (n, byte) in flips {
            let home = f.place.block(crate::LogBlock(n)).0;
            if f.content.contains_key(&home) {
                f.damage(n, byte);
            }
        }
        let rig = f.rig();
        if let Ok(Opened::NeedsRecovery(log)) = rig.open()
            && log.recover().is_ok()
        {
            prop_assert!(matches!(rig.open(), Ok(Opened::Clean(_))));
        }
    }
}
