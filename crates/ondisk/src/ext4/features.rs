//! The three feature words of the superblock, with the names that mke2fs and dumpe2fs use.

use crate::field::bit_set;

bit_set! {
    /// Features that an implementation may ignore.
    Compat: u32, "FEATURE_C" {
        /// Directories get blocks ahead of need.
        DIR_PREALLOC = 0x1, "dir_prealloc";
        /// AFS inodes.
        IMAGIC_INODES = 0x2, "imagic_inodes";
        /// There is a journal.
        HAS_JOURNAL = 0x4, "has_journal";
        /// Extended attributes.
        EXT_ATTR = 0x8, "ext_attr";
        /// Blocks are reserved for more group descriptors.
        RESIZE_INODE = 0x10, "resize_inode";
        /// Directories may have a hash index.
        DIR_INDEX = 0x20, "dir_index";
        /// At most two backup superblocks, listed in the superblock.
        SPARSE_SUPER2 = 0x200, "sparse_super2";
        /// The journal may hold fast commits.
        FAST_COMMIT = 0x400, "fast_commit";
        /// Inode numbers never change.
        STABLE_INODES = 0x800, "stable_inodes";
        /// Orphans are listed in a file.
        ORPHAN_FILE = 0x1000, "orphan_file";
    }
}

bit_set! {
    /// Features that an implementation must know to touch the volume at all.
    Incompat: u32, "FEATURE_I" {
        /// Compressed files; never implemented.
        COMPRESSION = 0x1, "compression";
        /// Directory entries hold the file type.
        FILETYPE = 0x2, "filetype";
        /// The journal must be replayed.
        RECOVER = 0x4, "needs_recovery";
        /// This device is a journal.
        JOURNAL_DEV = 0x8, "journal_dev";
        /// Group descriptors lie in the groups they describe.
        META_BG = 0x10, "meta_bg";
        /// Files may use extents.
        EXTENTS = 0x40, "extent";
        /// More than 2^32 blocks, long group descriptors.
        WIDE_BLOCKS = 0x80, "64bit";
        /// Guard against mounting twice.
        MMP = 0x100, "mmp";
        /// Bitmaps and inode tables of several groups lie together.
        FLEX_BG = 0x200, "flex_bg";
        /// Large attributes live in inodes of their own.
        EA_INODE = 0x400, "ea_inode";
        /// Data in directory entries.
        DIRDATA = 0x1000, "dirdata";
        /// The checksum seed is stored, not derived from the UUID.
        CSUM_SEED = 0x2000, "metadata_csum_seed";
        /// Directories above 2 GiB or with three index levels.
        LARGE_DIR = 0x4000, "large_dir";
        /// Small files live in their inode.
        INLINE_DATA = 0x8000, "inline_data";
        /// Encrypted files.
        ENCRYPT = 0x1_0000, "encrypt";
        /// Names without regard to case.
        CASEFOLD = 0x2_0000, "casefold";
    }
}

bit_set! {
    /// Features that an implementation must know to write.
    RoCompat: u32, "FEATURE_R" {
        /// Backup superblocks only in groups 0, 1 and powers of 3, 5 and 7.
        SPARSE_SUPER = 0x1, "sparse_super";
        /// There is a file above 2 GiB.
        LARGE_FILE = 0x2, "large_file";
        /// Never used.
        BTREE_DIR = 0x4, "btree_dir";
        /// Sizes of files count in blocks, not sectors.
        HUGE_FILE = 0x8, "huge_file";
        /// Group descriptors carry a CRC-16, groups may be uninitialised.
        GDT_CSUM = 0x10, "uninit_bg";
        /// More than 65000 subdirectories.
        DIR_NLINK = 0x20, "dir_nlink";
        /// Inodes guarantee space for their extra fields.
        EXTRA_ISIZE = 0x40, "extra_isize";
        /// Quotas are kept in hidden files.
        QUOTA = 0x100, "quota";
        /// Allocation in clusters of blocks.
        BIGALLOC = 0x200, "bigalloc";
        /// Every metadata structure carries a CRC32C.
        METADATA_CSUM = 0x400, "metadata_csum";
        /// Replicas; never implemented.
        REPLICA = 0x800, "replica";
        /// The volume must not be written.
        READONLY = 0x1000, "read-only";
        /// Project quotas.
        PROJECT = 0x2000, "project";
        /// Blocks may be shared (Android read-only images).
        SHARED_BLOCKS = 0x4000, "shared_blocks";
        /// fs-verity files.
        VERITY = 0x8000, "verity";
        /// The orphan file is not empty.
        ORPHAN_PRESENT = 0x1_0000, "orphan_file_present";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_words_of_mke2fs() {
        // The words and the line of `dumpe2fs` for `mke2fs -t ext4` 1.47.
        let line = format!("{} {} {}", Compat(0x3C), Incompat(0x2C2), RoCompat(0x46B));
        assert_eq!(
            line,
            "has_journal ext_attr resize_inode dir_index filetype extent 64bit flex_bg \
             sparse_super large_file huge_file dir_nlink extra_isize metadata_csum"
        );
    }

    #[test]
    fn unknown_bits_get_a_number() {
        assert_eq!(Incompat(0x8000_0002).to_string(), "filetype FEATURE_I31");
        assert!(Incompat(0x8000_0002).without(Incompat::KNOWN) == Incompat(0x8000_0000));
    }
}
