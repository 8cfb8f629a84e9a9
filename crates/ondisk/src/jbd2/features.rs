//! Feature words of the journal superblock.

use crate::field::bit_set;

bit_set! {
    /// Features that a reader may ignore.
    JournalCompat: u32, "FEATURE_C" {
        /// Commit blocks carry a CRC-32 over the transaction (v1).
        CHECKSUM = 0x1, "journal_checksum";
    }
}

bit_set! {
    /// Features that a reader must know.
    JournalIncompat: u32, "FEATURE_I" {
        /// There may be revoke blocks.
        REVOKE = 0x1, "journal_incompat_revoke";
        /// Block numbers have 64 bits.
        WIDE_BLOCKS = 0x2, "journal_64bit";
        /// The commit block may be written without waiting for the blocks before it.
        ASYNC_COMMIT = 0x4, "journal_async_commit";
        /// Checksums v2: 16 bits per tag.
        CHECKSUM_V2 = 0x8, "journal_checksum_v2";
        /// Checksums v3: 32 bits per tag.
        CHECKSUM_V3 = 0x10, "journal_checksum_v3";
        /// The last blocks of the log are a fast-commit area.
        FAST_COMMIT = 0x20, "fast_commit";
        /// There may be coalition blocks (ours): set while the log is not empty, so that no other
        /// program takes such a log for one that ends before them. The bit keeps far from those
        /// that Linux gives out.
        COALITION = 0x1000, "journal_coalition";
        /// Log blocks of images may have been moved home, and read as zeros since (ours, JFTL as
        /// published): set while the log is not empty, so that no other program writes these zeros
        /// home. See [`Tag::zeros`](super::Tag::zeros).
        REMAP_MOVE = 0x2000, "journal_remap_move";
    }
}

bit_set! {
    /// Features that a writer must know; none exists.
    JournalRoCompat: u32, "FEATURE_R" {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_dumpe2fs_prints_them() {
        let all = JournalIncompat(0x13);
        assert_eq!(
            all.to_string(),
            "journal_incompat_revoke journal_64bit journal_checksum_v3"
        );
        assert_eq!(JournalIncompat(0x40).to_string(), "FEATURE_I6");
        assert_eq!(JournalRoCompat(1).to_string(), "FEATURE_R0");
        assert_eq!(
            JournalIncompat::by_name("journal_64bit"),
            Some(JournalIncompat::WIDE_BLOCKS)
        );
    }
}
