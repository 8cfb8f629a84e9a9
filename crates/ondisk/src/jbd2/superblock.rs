//! The journal superblock: first block of the log, 1024 bytes in use.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0x00 | 12 | header | type 3 (v1) or 4 (v2) |
//! | 0x0C | be32 | `s_blocksize` | bytes per block |
//! | 0x10 | be32 | `s_maxlen` | blocks of the journal |
//! | 0x14 | be32 | `s_first` | first block of the ring |
//! | 0x18 | be32 | `s_sequence` | first transaction expected in the log |
//! | 0x1C | be32 | `s_start` | block of that transaction; 0 = the log is empty |
//! | 0x20 | be32 | `s_errno` | error of an aborted journal, negative |
//! | 0x24/28/2C | be32 | `s_feature_*` | compat, incompat, ro_compat (v2, as everything below) |
//! | 0x30 | 16 | `s_uuid` | UUID of the journal |
//! | 0x40 | be32 | `s_nr_users` | file systems on this journal |
//! | 0x44 | be32 | `s_dynsuper` | unused |
//! | 0x48/4C | be32 | `s_max_transaction`, `s_max_trans_data` | unused limits |
//! | 0x50 | u8 | `s_checksum_type` | 4 = CRC32C |
//! | 0x54 | be32 | `s_num_fc_blks` | blocks of the fast-commit area; 0 means 256 if that feature is on |
//! | 0x58 | be32 | `s_head` | head of a clean log (Linux 6.7 and later) |
//! | 0xFC | be32 | `s_checksum` | CRC32C of the 1024 bytes with this field zero |
//! | 0x100 | 16 x 48 | `s_users` | UUIDs of the users |
//!
//! Everything that changes at run time lies in the first 512-byte sector.

use super::{BlockKind, Format, HEADER_BYTES, Header};
use super::{JournalCompat, JournalIncompat, JournalRoCompat};
use crate::Corrupt;
use crate::field::fields;
use base::Tid;
use base::bytes::{get_be32, put_be32};
use base::checksum::crc32c;

/// Bytes of a journal superblock.
pub const SUPERBLOCK_BYTES: usize = 1024;
/// `s_checksum_type` of v2 and v3.
pub const CHECKSUM_CRC32C: u8 = 4;

const WHAT: &str = "journal superblock";
const CHECKSUM_AT: usize = 0xFC;
const USERS_AT: usize = 0x100;
const USERS_MAX: usize = 48;
const _: () = assert!(USERS_AT + 16 * USERS_MAX == SUPERBLOCK_BYTES);
const FAST_COMMIT_BLOCKS_DEFAULT: u32 = 256;
const _: () = assert!(HEADER_BYTES == 0x0C && CHECKSUM_AT + 4 <= base::SECTOR_BYTES);

/// A journal superblock; keeps bytes it does not know.
#[derive(Clone, PartialEq, Eq)]
pub struct Superblock {
    raw: Box<[u8; SUPERBLOCK_BYTES]>,
}

impl Superblock {
    /// A new v2 superblock of an empty journal, as mke2fs writes it: no features, first transaction
    /// 1.
    pub fn new(block_bytes: u32, blocks_count: u32, uuid: [u8; 16]) -> Superblock {
        let mut sb = Superblock {
            raw: Box::new([0; SUPERBLOCK_BYTES]),
        };
        Header {
            kind: BlockKind::SuperblockV2,
            tid: Tid(0),
        }
        .encode(&mut sb.raw[..]);
        sb.set_block_bytes(block_bytes);
        sb.set_blocks_count(blocks_count);
        sb.set_first(1);
        sb.set_sequence(Tid(1));
        sb.set_users_count(1);
        sb.set_uuid(uuid);
        sb
    }

    /// Reads and checks a superblock: magic, checksum (v2/v3), geometry. Features are the caller's
    /// business.
    ///
    /// # Errors
    /// Any of these is wrong.
    pub fn parse(buf: &[u8]) -> Result<Superblock, Corrupt> {
        let buf = Corrupt::need(WHAT, buf, SUPERBLOCK_BYTES)?;
        let header = Header::parse(buf)?;
        let mut raw = Box::new([0; SUPERBLOCK_BYTES]);
        match header.kind {
            BlockKind::SuperblockV2 => raw.copy_from_slice(buf),
            // Version 1 ends at the features; what lies there is undefined.
            BlockKind::SuperblockV1 => raw[..0x24].copy_from_slice(&buf[..0x24]),
            other => {
                let code = other.code().into();
                return Err(Corrupt::field(WHAT, "h_blocktype", code, "no superblock"));
            }
        }
        let sb = Superblock { raw };
        sb.check_checksum()?;
        sb.check_geometry()?;
        Ok(sb)
    }

    fn check_checksum(&self) -> Result<(), Corrupt> {
        if !self.has_checksum() {
            return Ok(());
        }
        let both = JournalIncompat::CHECKSUM_V2 | JournalIncompat::CHECKSUM_V3;
        if self.incompat().has(both) {
            let reason = "checksums v2 and v3 exclude each other";
            let bits = self.incompat().0.into();
            return Err(Corrupt::field(WHAT, "s_feature_incompat", bits, reason));
        }
        if self.compat().has(JournalCompat::CHECKSUM) {
            let reason = "checksums of version 1 exclude those of version 2 and 3";
            let bits = self.compat().0.into();
            return Err(Corrupt::field(WHAT, "s_feature_compat", bits, reason));
        }
        if self.checksum_type() != CHECKSUM_CRC32C {
            let value = self.checksum_type().into();
            return Err(Corrupt::field(
                WHAT,
                "s_checksum_type",
                value,
                "only 4 (crc32c) is known",
            ));
        }
        Corrupt::check(
            WHAT,
            get_be32(&self.raw[..], CHECKSUM_AT),
            self.computed_checksum(),
        )
    }

    fn check_geometry(&self) -> Result<(), Corrupt> {
        let bad =
            |field, value: u32, reason| Err(Corrupt::field(WHAT, field, value.into(), reason));
        let bytes = self.block_bytes();
        if !bytes.is_power_of_two() || !(1024..=65536).contains(&bytes) {
            return bad(
                "s_blocksize",
                bytes,
                "must be a power of two from 1024 to 65536",
            );
        }
        let end = self.blocks_count();
        if end < 2 {
            return bad("s_maxlen", end, "a journal has at least two blocks");
        }
        if self.first() == 0 || self.first() >= end {
            return bad("s_first", self.first(), "must lie inside the journal");
        }
        if self.incompat().has(JournalIncompat::FAST_COMMIT) {
            let blocks = self.fast_commit_blocks();
            if blocks >= end - self.first() {
                return bad("s_num_fc_blks", blocks, "leaves no room for the log");
            }
        }
        let start = self.start();
        if start != 0 && (start < self.first() || start >= self.log_end()) {
            return bad("s_start", start, "must be 0 or inside the log");
        }
        Ok(())
    }

    fields! { be;
        block_bytes / set_block_bytes: u32, 0x0C, "s_blocksize", "Bytes per block";
        blocks_count / set_blocks_count: u32, 0x10, "s_maxlen", "Blocks of the journal, this one included";
        first / set_first: u32, 0x14, "s_first", "First block of the ring";
        start / set_start: u32, 0x1C, "s_start", "Block of the first transaction in the log; 0 if the log is empty";
        users_count / set_users_count: u32, 0x40, "s_nr_users", "File systems on this journal";
        checksum_type / set_checksum_type: u8, 0x50, "s_checksum_type", "Kind of checksum; 4 is CRC32C";
        fast_commit_blocks_raw / set_fast_commit_blocks: u32, 0x54, "s_num_fc_blks", "Blocks of the fast-commit area as stored";
        head / set_head: u32, 0x58, "s_head", "Head of a clean log; 0 if the writer did not record it";
    }

    /// True for a version-2 superblock.
    pub fn is_v2(&self) -> bool {
        get_be32(&self.raw[..], 4) == BlockKind::SuperblockV2.code()
    }
    /// First transaction expected in the log (`s_sequence`); of an empty log the number its next
    /// transaction will have.
    pub fn sequence(&self) -> Tid {
        Tid(get_be32(&self.raw[..], 0x18))
    }
    /// Sets `s_sequence`.
    pub fn set_sequence(&mut self, tid: Tid) {
        put_be32(&mut self.raw[..], 0x18, tid.0);
    }
    /// Error that aborted the journal (`s_errno`): 0 or a negative errno.
    pub fn errno(&self) -> i32 {
        get_be32(&self.raw[..], 0x20) as i32
    }
    /// Sets `s_errno`.
    pub fn set_errno(&mut self, errno: i32) {
        put_be32(&mut self.raw[..], 0x20, errno as u32);
    }
    /// Features that a reader may ignore.
    pub fn compat(&self) -> JournalCompat {
        JournalCompat(get_be32(&self.raw[..], 0x24))
    }
    /// Sets the features that a reader may ignore.
    pub fn set_compat(&mut self, features: JournalCompat) {
        put_be32(&mut self.raw[..], 0x24, features.0);
    }
    /// Features that a reader must know.
    pub fn incompat(&self) -> JournalIncompat {
        JournalIncompat(get_be32(&self.raw[..], 0x28))
    }
    /// Sets the features that a reader must know.
    pub fn set_incompat(&mut self, features: JournalIncompat) {
        put_be32(&mut self.raw[..], 0x28, features.0);
    }
    /// Features that a writer must know.
    pub fn ro_compat(&self) -> JournalRoCompat {
        JournalRoCompat(get_be32(&self.raw[..], 0x2C))
    }
    /// UUID of the journal. mke2fs gives an internal journal the UUID of its file system.
    pub fn uuid(&self) -> [u8; 16] {
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&self.raw[0x30..0x40]);
        uuid
    }
    /// Sets the UUID.
    pub fn set_uuid(&mut self, uuid: [u8; 16]) {
        self.raw[0x30..0x40].copy_from_slice(&uuid);
    }
    /// UUIDs of the file systems on this journal (`s_users`); of an internal journal none, though
    /// one is counted.
    pub fn users(&self) -> Vec<[u8; 16]> {
        let count = (self.users_count() as usize).min(USERS_MAX);
        let slots = self.raw[USERS_AT..].chunks_exact(16).take(count);
        let user = |slot: &[u8]| {
            let mut uuid = [0; 16];
            uuid.copy_from_slice(slot);
            uuid
        };
        slots.map(user).filter(|uuid| *uuid != [0; 16]).collect()
    }
    /// Makes one file system the only user.
    pub fn set_user(&mut self, uuid: [u8; 16]) {
        self.set_users_count(1);
        self.raw[USERS_AT..][..16 * USERS_MAX].fill(0);
        self.raw[USERS_AT..][..16].copy_from_slice(&uuid);
    }
    /// Blocks of the fast-commit area at the end of the journal: 0 without the feature.
    pub fn fast_commit_blocks(&self) -> u32 {
        match (
            self.incompat().has(JournalIncompat::FAST_COMMIT),
            self.fast_commit_blocks_raw(),
        ) {
            (false, _) => 0,
            (true, 0) => FAST_COMMIT_BLOCKS_DEFAULT,
            (true, n) => n,
        }
    }
    /// One past the last block of the ring `first..log_end`.
    pub fn log_end(&self) -> u32 {
        self.blocks_count() - self.fast_commit_blocks()
    }
    /// First block of the fast-commit area; the block between it and the ring is not used (as in
    /// Linux, `j_fc_first`).
    pub fn fast_commit_first(&self) -> u32 {
        self.log_end() + 1
    }
    /// True if the log holds nothing to replay.
    pub fn is_clean(&self) -> bool {
        self.start() == 0
    }
    /// What the features decide about the bytes of the log.
    pub fn format(&self) -> Format {
        Format::of(self)
    }

    fn has_checksum(&self) -> bool {
        let i = self.incompat();
        i.has(JournalIncompat::CHECKSUM_V2) || i.has(JournalIncompat::CHECKSUM_V3)
    }
    fn computed_checksum(&self) -> u32 {
        let crc = crc32c(crc32c(!0, &self.raw[..CHECKSUM_AT]), &[0; 4]);
        crc32c(crc, &self.raw[CHECKSUM_AT + 4..])
    }

    /// Writes the superblock to the first 1024 bytes, with its checksum if the features ask for
    /// one.
    pub fn encode(&self, buf: &mut [u8]) {
        buf[..SUPERBLOCK_BYTES].copy_from_slice(&self.raw[..]);
        if self.has_checksum() {
            put_be32(buf, CHECKSUM_AT, self.computed_checksum());
        }
    }
}

impl std::fmt::Debug for Superblock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JournalSuperblock")
            .field("block_bytes", &self.block_bytes())
            .field("blocks_count", &self.blocks_count())
            .field("first", &self.first())
            .field("sequence", &self.sequence())
            .field("start", &self.start())
            .field("errno", &self.errno())
            .field("incompat", &self.incompat())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(sb: &Superblock) -> Vec<u8> {
        let mut buf = vec![0; SUPERBLOCK_BYTES];
        sb.encode(&mut buf);
        buf
    }

    fn v3() -> Superblock {
        let mut sb = Superblock::new(4096, 1024, [9; 16]);
        sb.set_incompat(JournalIncompat::WIDE_BLOCKS | JournalIncompat::CHECKSUM_V3);
        sb.set_checksum_type(CHECKSUM_CRC32C);
        sb
    }

    #[test]
    fn survives_and_notices_damage() {
        let mut sb = v3();
        sb.set_start(17);
        sb.set_sequence(Tid(0xFFFF_FFFF));
        sb.set_errno(-5);
        let bytes = encoded(&sb);
        let back = Superblock::parse(&bytes).expect("valid");
        assert_eq!(
            (back.start(), back.sequence(), back.errno()),
            (17, Tid(u32::MAX), -5)
        );
        assert_eq!(encoded(&back), bytes);
        let mut bad = bytes;
        bad[0x120] ^= 1;
        assert!(Superblock::parse(&bad).expect_err("checksum").is_checksum());
    }

    #[test]
    fn users_are_counted_and_named() {
        let mut sb = v3();
        assert_eq!((sb.users_count(), sb.users()), (1, Vec::new()));
        sb.set_user([7; 16]);
        assert_eq!((sb.users_count(), sb.users()), (1, vec![[7; 16]]));
        sb.set_users_count(u32::MAX);
        assert_eq!(sb.users(), [[7; 16]], "no more than there is room for");
        sb.set_users_count(0);
        assert!(sb.users().is_empty());
    }

    #[test]
    fn unknown_bytes_survive() {
        let mut bytes = encoded(&Superblock::new(1024, 100, [1; 16]));
        bytes[0x5C..0x60].copy_from_slice(b"new!");
        let mut sb = Superblock::parse(&bytes).expect("valid");
        sb.set_start(3);
        assert_eq!(&encoded(&sb)[0x5C..0x60], b"new!");
    }

    #[test]
    fn version_1_has_no_features() {
        let mut bytes = encoded(&Superblock::new(1024, 100, [1; 16]));
        bytes[7] = 3;
        bytes[0x24..0x60].fill(0xFF);
        let sb = Superblock::parse(&bytes).expect("valid");
        assert!(!sb.is_v2() && sb.incompat().is_empty() && sb.log_end() == 100);
    }

    #[test]
    fn impossible_geometry_is_refused() {
        let edit = |f: &dyn Fn(&mut Superblock)| {
            let mut sb = v3();
            f(&mut sb);
            Superblock::parse(&encoded(&sb))
                .expect_err("refused")
                .to_string()
        };
        assert!(edit(&|s| s.set_block_bytes(0)).contains("s_blocksize"));
        assert!(edit(&|s| s.set_block_bytes(3000)).contains("s_blocksize"));
        assert!(edit(&|s| s.set_blocks_count(1)).contains("s_maxlen"));
        assert!(edit(&|s| s.set_first(0)).contains("s_first"));
        assert!(edit(&|s| s.set_first(1024)).contains("s_first"));
        assert!(edit(&|s| s.set_start(1024)).contains("s_start"));
        let fast = |s: &mut Superblock, n| {
            s.set_incompat(s.incompat() | JournalIncompat::FAST_COMMIT);
            s.set_fast_commit_blocks(n);
        };
        assert!(edit(&|s| fast(s, 1023)).contains("s_num_fc_blks"));
        assert!(
            edit(&|s| {
                fast(s, 256);
                s.set_start(1024 - 256);
            })
            .contains("s_start")
        );
        let both = JournalIncompat::CHECKSUM_V2 | JournalIncompat::CHECKSUM_V3;
        assert!(edit(&|s| s.set_incompat(both)).contains("exclude"));
        for newer in [JournalIncompat::CHECKSUM_V2, JournalIncompat::CHECKSUM_V3] {
            let all = edit(&|s| {
                s.set_incompat(newer);
                s.set_compat(JournalCompat::CHECKSUM);
            });
            assert!(all.contains("s_feature_compat"), "{all}");
        }
        assert!(edit(&|s| s.set_checksum_type(1)).contains("s_checksum_type"));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(mut buf in proptest::collection::vec(any::<u8>(), 0..1100), kind in 3u32..5) {
            if buf.len() > 12 {
                put_be32(&mut buf, 0, crate::jbd2::MAGIC);
                put_be32(&mut buf, 4, kind);
            }
            if let Ok(sb) = Superblock::parse(&buf) {
                let _ = (sb.log_end(), sb.format().tags_per_descriptor(), format!("{sb:?}"));
            }
        }
    }
}
