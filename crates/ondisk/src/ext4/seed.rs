//! Seeds of checksums: one for the file system and one for each inode, kept apart by type.

use base::Ino;
use base::checksum::crc32c;

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
        let crc = crc32c(self.0, &ino.0.to_le_bytes());
        InodeSeed(crc32c(crc, &generation.to_le_bytes()))
    }
}

impl InodeSeed {
    /// CRC32C of `data` under this inode.
    pub(super) fn crc(self, data: &[u8]) -> u32 {
        crc32c(self.0, data)
    }
}
