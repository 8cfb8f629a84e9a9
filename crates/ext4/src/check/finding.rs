//! The kinds of what a check finds, whose numbers and names never change.

fscore::kinds! {
    /// Kinds of findings. Numbers and names never change; a kind that goes leaves a gap.
    ///
    /// 1xx superblock, 2xx groups, 3xx inodes, 4xx mappings, 5xx directories, 6xx attributes,
    /// 7xx journal and orphans, 8xx bitmaps and counts, 9xx what kept the check from going on.
    letter 'E';

    /// Neither magic number, checksum nor geometry make a superblock of these bytes.
    Superblock = 101, "superblock", "let e2fsck restore it from a backup: e2fsck -b BLOCK -B SIZE";
    /// A field of the superblock contradicts the volume.
    SuperblockField = 102, "superblock-field", "let e2fsck recompute it";
    /// A backup of the superblock is damaged or of another volume.
    BackupSuperblock = 103, "backup-superblock", "write the backups anew: e2fsck -f";
    /// A backup of the group descriptors is damaged or of another volume.
    BackupDescriptor = 104, "backup-descriptor", "write the backups anew: e2fsck -f";
    /// The volume is larger than its device.
    CutOff = 105, "cut-off", "its end is missing: copy the image anew, in full; what is here alone cannot be trusted";
    /// Nothing says that this is a volume of ext4, and no backup is where one would be.
    NoFileSystem = 106, "no-file-system", "check that this is the right file or device, and that the volume begins at its start: not in a partition of it, not compressed";
    /// The MMP block, which says which machine uses the volume, is damaged or says that one does.
    Mmp = 107, "mmp", "make sure that no other machine uses the volume, then tune2fs -f -E clear_mmp";

    /// The checksum of a group descriptor is wrong.
    GroupChecksum = 201, "group-checksum", "let e2fsck verify the group and recompute it";
    /// A group descriptor leads out of the volume or onto other metadata.
    GroupPlace = 202, "group-place", "let e2fsck restore the descriptors from a backup: e2fsck -b BLOCK -B SIZE";
    /// A field of a group descriptor is impossible.
    GroupField = 203, "group-field", "let e2fsck recompute it";

    /// The checksum of an inode is wrong.
    InodeChecksum = 301, "inode-checksum", "look at the file; e2fsck clears it or recomputes the checksum";
    /// The mode of an inode is of no type, or of a type that it must not have.
    InodeMode = 302, "inode-mode", "look at the inode with debugfs; e2fsck clears it";
    /// An inode is in use and has a time of deletion, or is deleted and has none.
    InodeDeletion = 303, "inode-deletion", "let e2fsck settle it";
    /// The size of an inode contradicts its blocks or its type.
    InodeSize = 304, "inode-size", "let e2fsck correct the size";
    /// The count of sectors of an inode is wrong.
    InodeSectors = 305, "inode-sectors", "let e2fsck correct the count";
    /// A field or flag of an inode is impossible.
    InodeField = 306, "inode-field", "let e2fsck clear it";
    /// A symbolic link without a possible target.
    Symlink = 307, "symlink", "remove the link";
    /// An inode has more or fewer names than it says.
    LinkCount = 308, "link-count", "let e2fsck correct the count";
    /// An inode in use has no name.
    Unattached = 309, "unattached", "let e2fsck put it into lost+found";
    /// Content in the inode without its attribute, or of another length, or where there can be
    /// none.
    InlineData = 310, "inline-data", "let e2fsck clear the flag, correct the size, or remove the inode";
    /// A time whose year was stored in a form that only old kernels read as it was meant.
    InodeTime = 311, "inode-time", "let e2fsck correct the time";

    /// A node of an extent tree is no such node.
    ExtentNode = 401, "extent-node", "the file is damaged from there on; e2fsck cuts the tree";
    /// The checksum of a node of an extent tree is wrong.
    ExtentChecksum = 402, "extent-checksum", "look at the file; e2fsck clears the node or recomputes the checksum";
    /// Nodes or records of an extent tree contradict each other.
    ExtentOrder = 403, "extent-order", "let e2fsck rebuild the tree";
    /// A file maps blocks outside the volume.
    MapOutside = 404, "map-outside", "the file is damaged; e2fsck removes the mapping";
    /// A block has two owners.
    SharedBlock = 405, "shared-block", "at least one of the two has wrong content; e2fsck clones or deletes";
    /// The inode of the reserved descriptor blocks is damaged.
    ResizeInode = 406, "resize-inode", "let e2fsck rebuild it";
    /// Data lies at another place of its cluster than in the file.
    ClusterPlace = 407, "cluster-place", "let e2fsck copy the data to a place of its own";

    /// A directory block is not filled with entries.
    DirBlock = 501, "dir-block", "names are lost; e2fsck salvages the rest";
    /// The checksum of a directory block is wrong.
    DirChecksum = 502, "dir-checksum", "let e2fsck rebuild the directory";
    /// A directory lacks one of its blocks.
    DirHole = 503, "dir-hole", "let e2fsck fill it";
    /// '.' or '..' is missing, misplaced or wrong.
    DirDots = 504, "dir-dots", "let e2fsck correct the entry";
    /// A name that no file may have.
    DirName = 505, "dir-name", "let e2fsck rename the entry";
    /// Two entries of one name.
    DirDuplicate = 506, "dir-duplicate", "let e2fsck rename one of them";
    /// An entry leads to no inode that may have a name.
    DirTarget = 507, "dir-target", "the name leads nowhere; e2fsck removes it";
    /// An entry notes another type than the inode has.
    DirType = 508, "dir-type", "let e2fsck correct the entry";
    /// A directory has two parents.
    DirParents = 509, "dir-parents", "let e2fsck remove one of the entries";
    /// A directory cannot be reached from the root.
    DirUnreachable = 510, "dir-unreachable", "let e2fsck put it into lost+found";
    /// The hash index of a directory is damaged.
    Htree = 511, "htree", "let e2fsck rebuild the index: e2fsck -D";
    /// There is no root directory.
    Root = 512, "root", "let e2fsck make a new one";
    /// An encrypted directory names a file that is not encrypted like it.
    DirPolicy = 513, "dir-policy", "the file cannot be read under this name; e2fsck removes the entry";

    /// Extended attributes are damaged.
    Xattr = 601, "xattr", "the attributes are lost; e2fsck clears them";
    /// The checksum of a block of attributes is wrong.
    XattrChecksum = 602, "xattr-checksum", "let e2fsck clear the block or recompute the checksum";
    /// A block of attributes has more or fewer owners than it says.
    XattrReferences = 603, "xattr-references", "let e2fsck correct the count";

    /// The inode of the journal is damaged.
    JournalInode = 701, "journal-inode", "remove the journal and make it anew: tune2fs -O ^has_journal, then -j";
    /// The superblock of the journal is damaged.
    JournalSuperblock = 702, "journal-superblock", "remove the journal and make it anew: tune2fs -O ^has_journal, then -j";
    /// The journal holds transactions that are not replayed.
    LogNotEmpty = 703, "log-not-empty", "replay it first: varve fsck -p, or mount the volume";
    /// The journal noted an error of its file system.
    JournalError = 704, "journal-error", "check all of the volume with e2fsck -f";
    /// The list of orphans is damaged.
    Orphans = 705, "orphans", "let e2fsck clear the list";
    /// The orphan file is damaged.
    OrphanFile = 706, "orphan-file", "let e2fsck make it anew";

    /// The checksum of a block bitmap is wrong.
    BlockBitmapChecksum = 801, "block-bitmap-checksum", "let e2fsck rebuild the bitmap";
    /// The checksum of an inode bitmap is wrong.
    InodeBitmapChecksum = 802, "inode-bitmap-checksum", "let e2fsck rebuild the bitmap";
    /// Blocks are in use and marked free: they will be overwritten.
    UsedMarkedFree = 803, "used-marked-free", "do not mount it; let e2fsck rebuild the bitmap";
    /// Blocks are marked used and belong to nothing.
    LostBlocks = 804, "lost-blocks", "let e2fsck free them";
    /// An inode is in use and marked free: it will be overwritten.
    InodeMarkedFree = 805, "inode-marked-free", "do not mount it; let e2fsck rebuild the bitmap";
    /// An inode is marked used and is not.
    LostInode = 806, "lost-inode", "let e2fsck free it";
    /// The free blocks of a group, or of the volume, are another number.
    FreeBlocks = 807, "free-blocks", "let e2fsck correct the count";
    /// The free inodes of a group, or of the volume, are another number.
    FreeInodes = 808, "free-inodes", "let e2fsck correct the count";
    /// The directories of a group are another number.
    DirCount = 809, "dir-count", "let e2fsck correct the count";
    /// Bits behind the end of a bitmap are clear.
    BitmapPadding = 810, "bitmap-padding", "let e2fsck set them";
    /// The file of a quota notes other sums than those of the files, or cannot be read.
    Quota = 811, "quota", "let e2fsck count anew";

    /// A block cannot be read.
    Unreadable = 901, "unreadable", "copy what can be read to another device and check the copy";
    /// The volume uses what this checker does not know.
    Unsupported = 902, "unsupported", "check it with e2fsck";
}

/// One finding of this checker.
pub type Finding = fscore::check::Finding<Kind>;
/// The findings of a check.
pub(super) type Findings = fscore::check::Findings<Kind>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_has_its_letter() {
        let finding = Finding::new(Kind::LinkCount, "2 names, 3 links").ino(12u32);
        assert_eq!(
            finding.to_string(),
            "E308 link-count (inode 12): 2 names, 3 links"
        );
    }
}
