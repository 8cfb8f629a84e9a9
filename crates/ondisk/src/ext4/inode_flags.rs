//! The flags of an inode (`i_flags`), with the names that `lsattr -l` prints.

use crate::field::bit_set;

bit_set! {
    /// Flags of an inode (`i_flags`).
    InodeFlags: u32, "FLAG_" {
        /// Delete securely; never implemented.
        SECURE_DELETE = 0x1, "Secure_Deletion";
        /// Keep for undelete; never implemented.
        UNDELETE = 0x2, "Undelete";
        /// Compress; never implemented.
        COMPRESS = 0x4, "Compression_Requested";
        /// All writes are synchronous.
        SYNC = 0x8, "Synchronous_Updates";
        /// Must not change.
        IMMUTABLE = 0x10, "Immutable";
        /// Only appends.
        APPEND = 0x20, "Append_Only";
        /// Not in dumps.
        NO_DUMP = 0x40, "No_Dump";
        /// Access times stay.
        NO_ATIME = 0x80, "No_Atime";
        /// Encrypted.
        ENCRYPT = 0x800, "Encrypted";
        /// Directory with a hash index.
        INDEX = 0x1000, "Indexed_directory";
        /// AFS directory.
        IMAGIC = 0x2000, "Imagic";
        /// Data goes through the journal.
        JOURNAL_DATA = 0x4000, "Journaled_Data";
        /// Directory whose changes are synchronous.
        DIR_SYNC = 0x1_0000, "Synchronous_Directory_Updates";
        /// Top of a directory hierarchy.
        TOP_DIR = 0x2_0000, "Top_of_Directory_Hierarchies";
        /// The block count is in blocks, not sectors.
        HUGE_FILE = 0x4_0000, "Huge_file";
        /// Data is mapped by extents.
        EXTENTS = 0x8_0000, "Extents";
        /// fs-verity file.
        VERITY = 0x10_0000, "Verity";
        /// Holds the value of a large extended attribute.
        EA_INODE = 0x20_0000, "Inode_Extended_Attribute";
        /// Blocks beyond the end of the file; no longer used.
        EOF_BLOCKS = 0x40_0000, "EOF_Blocks";
        /// Direct access.
        DAX = 0x200_0000, "DAX";
        /// Data lies in the inode.
        INLINE_DATA = 0x1000_0000, "Inline_Data";
        /// Children inherit the project.
        PROJECT_INHERIT = 0x2000_0000, "Project_Hierarchy";
        /// Directory whose names ignore case.
        CASEFOLD = 0x4000_0000, "Casefold";
    }
}
