//! Seeds of checksums: one for the file system and one for each inode, kept apart by type.

use base::Ino;
use base::checksum::{crc32c, crc32c_sparse};

/// CRC32C register that volume-wide checksums start from: `crc32c(!0, uuid)`, or `s_checksum_seed`
/// with feature `metadata_csum_seed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsSeed(pub u32);

/// CRC32C register for what belongs to one inode: [`FsSeed`] continued over inode number and
/// generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeSeed(pub u32);

impl FsSeed {
    /// The seed of a volume without `metadata_csum_seed`.
    pub fn of_uuid(uuid: &[u8; 16]) -> FsSeed {
        FsSeed(crc32c(!0, uuid))
    }
    /// The seed of an inode.
    pub fn inode(self, ino: Ino, generation: u32) -> InodeSeed {
        let both = u64::from(generation) << 32 | u64::from(ino.0);
        InodeSeed(crc32c(self.0, &both.to_le_bytes()))
    }
}

impl InodeSeed {
    /// CRC32C of `data` under this inode, where `data` probably ends in many zeros.
    pub(super) fn crc_sparse(self, data: &[u8]) -> u32 {
        crc32c_sparse(self.0, data)
    }
    /// CRC32C of `data` under this inode.
    pub(super) fn crc(self, data: &[u8]) -> u32 {
        crc32c(self.0, data)
    }
}
