//! The feature word of the superblock, with the names that mkfs.f2fs uses.

use crate::field::bit_set;

bit_set! {
    /// Features of a volume (`feature`). F2FS has no division into what must be known and what may
    /// be ignored: an implementation refuses what it does not know.
    Features: u32, "FEATURE_" {
        /// Encrypted files.
        ENCRYPT = 0x1, "encrypt";
        /// Zoned device.
        BLKZONED = 0x2, "blkzoned";
        /// Atomic writes; never used.
        ATOMIC_WRITE = 0x4, "atomic_write";
        /// Inodes have extra attributes behind their fixed fields.
        EXTRA_ATTR = 0x8, "extra_attr";
        /// Project quotas.
        PRJQUOTA = 0x10, "project_quota";
        /// Inodes carry a checksum.
        INODE_CHKSUM = 0x20, "inode_checksum";
        /// The size of the inline attributes is a field of the inode.
        FLEXIBLE_INLINE_XATTR = 0x40, "flexible_inline_xattr";
        /// Quotas are kept in hidden files.
        QUOTA_INO = 0x80, "quota";
        /// Inodes have a time of creation.
        INODE_CRTIME = 0x100, "inode_crtime";
        /// There is a directory `lost+found`.
        LOST_FOUND = 0x200, "lost_found";
        /// fs-verity files.
        VERITY = 0x400, "verity";
        /// The superblock carries a checksum.
        SB_CHKSUM = 0x800, "sb_checksum";
        /// Names without regard to case.
        CASEFOLD = 0x1000, "casefold";
        /// Compressed files.
        COMPRESSION = 0x2000, "compression";
        /// The volume must not be written.
        RO = 0x4000, "ro";
        /// Files stand for devices of the volume (Linux 6.13).
        DEVICE_ALIAS = 0x8000, "device_alias";
        /// Several summaries lie in one block where blocks are larger than 4 KiB (Linux 6.19); in
        /// blocks of 4 KiB it changes nothing.
        PACKED_SSA = 0x1_0000, "packed_ssa";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_mkfs() {
        assert_eq!(
            Features(0x828).to_string(),
            "extra_attr inode_checksum sb_checksum"
        );
        assert_eq!(Features::by_name("lost_found"), Some(Features::LOST_FOUND));
        assert_eq!(Features(1 << 20).names(), ["FEATURE_20"]);
    }
}
