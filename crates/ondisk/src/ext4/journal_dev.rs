//! The superblock of an external journal: a device with feature `journal_dev` that holds nothing
//! but a log.
//!
//! The superblock of the log itself lies in the next block; a block number of the log is one of the
//! device.

use super::{Incompat, RoCompat, SUPERBLOCK_BYTES, SUPERBLOCK_MAGIC};
use crate::Corrupt;
use base::BlockNo;
use base::bytes::{get_le16, get_le32, put_le16, put_le32};
use base::checksum::crc32c;

const WHAT: &str = "superblock of an external journal";
const CHECKSUM_AT: usize = 0x3FC;
/// Of a device without inodes: what mke2fs says of them all the same, and no check after so many
/// mounts.
const REVISION: u32 = 1;
const FIRST_INO: u32 = 11;
const INODE_BYTES: u16 = 256;
const STATE_VALID: u16 = 1;
const ERRORS_CONTINUE: u16 = 1;
const NO_CHECKS: u16 = 0xFFFF;

/// What is said of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalDevice {
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Blocks of the device.
    pub blocks_count: u64,
    /// The name by which a file system knows it (`s_journal_uuid` there).
    pub uuid: [u8; 16],
}

impl JournalDevice {
    /// Reads the 1024 bytes at byte 1024 of the device.
    ///
    /// # Errors
    /// Magic or checksum is wrong, or the device is none for a journal.
    pub fn parse(buf: &[u8]) -> Result<JournalDevice, Corrupt> {
        let buf = Corrupt::need(WHAT, buf, SUPERBLOCK_BYTES)?;
        let magic = get_le16(buf, 0x38);
        if magic != SUPERBLOCK_MAGIC {
            return Err(Corrupt::magic(WHAT, magic.into(), SUPERBLOCK_MAGIC.into()));
        }
        let incompat = Incompat(get_le32(buf, 0x60));
        if !incompat.has(Incompat::JOURNAL_DEV) {
            let reason = "no journal device: feature journal_dev is missing";
            return Err(Corrupt::field(
                WHAT,
                "s_feature_incompat",
                incompat.0.into(),
                reason,
            ));
        }
        if RoCompat(get_le32(buf, 0x64)).has(RoCompat::METADATA_CSUM) {
            let computed = crc32c(!0, &buf[..CHECKSUM_AT]);
            Corrupt::check(WHAT, get_le32(buf, CHECKSUM_AT), computed)?;
        }
        let log = get_le32(buf, 0x18);
        if log > 6 {
            let reason = "blocks have 1 KiB to 64 KiB";
            return Err(Corrupt::field(WHAT, "s_log_block_size", log.into(), reason));
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&buf[0x68..0x78]);
        Ok(JournalDevice {
            block_bytes: 1024 << log,
            blocks_count: get_le32(buf, 4).into(),
            uuid,
        })
    }

    /// Writes the 1024 bytes at byte 1024 of the device, as mke2fs does: no inodes, all blocks
    /// taken. `now`: seconds since 1970.
    ///
    /// # Errors
    /// There are 2^32 blocks or more.
    pub fn encode(&self, now: u32) -> Result<Vec<u8>, Corrupt> {
        let blocks = u32::try_from(self.blocks_count).map_err(|_| {
            let reason = "a journal has less than 2^32 blocks";
            Corrupt::field(WHAT, "s_blocks_count", self.blocks_count, reason)
        })?;
        let mut buf = vec![0; SUPERBLOCK_BYTES];
        let log_block_size = self.block_bytes.trailing_zeros() - 10;
        // As of any volume, though a journal has no groups.
        let group = (8 * self.block_bytes).min((1 << 16) - 8);
        for (at, value) in [
            (0x04, blocks),
            (0x14, u32::from(self.block_bytes == 1024)),
            (0x18, log_block_size),
            (0x1C, log_block_size),
            (0x20, group),
            (0x24, group),
            (0x30, now),
            (0x40, now),
            (0x4C, REVISION),
            (0x54, FIRST_INO),
            (0x60, Incompat::JOURNAL_DEV.0),
            (0x108, now),
        ] {
            put_le32(&mut buf, at, value);
        }
        put_le16(&mut buf, 0x36, NO_CHECKS);
        put_le16(&mut buf, 0x38, SUPERBLOCK_MAGIC);
        put_le16(&mut buf, 0x3A, STATE_VALID);
        put_le16(&mut buf, 0x3C, ERRORS_CONTINUE);
        put_le16(&mut buf, 0x58, INODE_BYTES);
        buf[0x68..0x78].copy_from_slice(&self.uuid);
        Ok(buf)
    }

    /// The block with the superblock of the log: behind the one at byte 1024.
    pub fn log_superblock(&self) -> BlockNo {
        BlockNo(if self.block_bytes == 1024 { 2 } else { 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn device() -> Vec<u8> {
        let mut buf = vec![0; SUPERBLOCK_BYTES];
        put_le16(&mut buf, 0x38, SUPERBLOCK_MAGIC);
        put_le32(&mut buf, 4, 1024);
        put_le32(&mut buf, 0x60, Incompat::JOURNAL_DEV.0);
        buf[0x68..0x78].fill(7);
        buf
    }

    #[test]
    fn what_is_written_reads_back() {
        for block_bytes in (0..7).map(|log| 1024 << log) {
            let device = JournalDevice {
                block_bytes,
                blocks_count: 2048,
                uuid: [9; 16],
            };
            let bytes = device.encode(1).expect("fits");
            assert_eq!(JournalDevice::parse(&bytes), Ok(device));
            let blocks_count = 1 << 32;
            let large = JournalDevice {
                blocks_count,
                ..device
            };
            assert!(large.encode(1).is_err());
        }
    }

    #[test]
    fn fields_and_what_is_none() {
        let parsed = JournalDevice::parse(&device()).expect("sound");
        assert_eq!((parsed.block_bytes, parsed.blocks_count), (1024, 1024));
        assert_eq!(
            (parsed.uuid, parsed.log_superblock()),
            ([7; 16], BlockNo(2))
        );
        let mut other = device();
        put_le32(&mut other, 0x60, 0);
        let why = JournalDevice::parse(&other)
            .expect_err("refused")
            .to_string();
        assert!(why.contains("journal_dev"), "{why}");
        let mut torn = device();
        put_le32(&mut torn, 0x64, RoCompat::METADATA_CSUM.0);
        assert!(
            JournalDevice::parse(&torn)
                .expect_err("refused")
                .is_checksum()
        );
    }
}
