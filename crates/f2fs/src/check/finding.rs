//! The kinds of what a check finds, whose numbers and names never change.

fscore::kinds! {
    /// Kinds of findings. Numbers and names never change; when a kind is removed, its number
    /// stays unused.
    ///
    /// 1xx superblocks, 2xx checkpoint, 3xx nodes and NAT, 4xx inodes, 5xx blocks of files, 6xx
    /// directories, 7xx attributes, 8xx segments and counts, 9xx reasons why the check ended
    /// early.
    letter 'F';

    /// Neither superblock is sound.
    Superblock = 101, "superblock", "the volume cannot be mounted; restore the first two blocks from a copy";
    /// One of the two superblocks is damaged.
    SuperblockCopy = 102, "superblock-copy", "`varve fsck -y` or a mount for writing writes it anew from the other one";
    /// Both superblocks are sound, and differ in what a mount changes in one after the other.
    SuperblockDiffers = 103, "superblock-differs", "the first one counts; the next mount with a journal makes them equal";
    /// Both superblocks are sound, and describe different volumes.
    SuperblockOther = 104, "superblock-other", "a mount takes the first one; if that is right, copy it over the second";
    /// What the superblock says of the journal behind the volume (F2FSJ) is damaged.
    JournalArea = 105, "journal-area", "no mount accepts it; if the volume has a journal, copy the other superblock over this one";

    /// Neither pack holds a sound checkpoint.
    Checkpoint = 201, "checkpoint", "the volume cannot be mounted; copy what can be read";
    /// A number of the checkpoint that counts is impossible.
    CheckpointField = 202, "checkpoint-field", "no mount accepts it, and an older checkpoint is not taken instead; copy what can be read";
    /// The summaries of the checkpoint cannot be read.
    PackSummary = 203, "pack-summary", "let fsck.f2fs rebuild them";
    /// The list of orphans is damaged.
    Orphans = 204, "orphans", "let fsck.f2fs clear the list";
    /// A journal of the checkpoint is damaged.
    Journal = 205, "journal", "let fsck.f2fs clear it";
    /// The NAT bits contradict the NAT.
    NatBits = 206, "nat-bits", "let fsck.f2fs write them anew";
    /// The checkpoint notes that damage was seen.
    NeedsFsck = 207, "needs-fsck", "let fsck.f2fs check all of it: fsck.f2fs -f";
    /// The volume was not unmounted: the next mount has to recover it.
    NotUnmounted = 208, "not-unmounted", "a mount recovers it, or `varve recover`";

    /// An entry of the NAT is impossible.
    NatEntry = 301, "nat-entry", "let fsck.f2fs clear it";
    /// A node is named and the NAT knows none.
    NodeMissing = 302, "node-missing", "the file is damaged from there on; fsck.f2fs removes what names it";
    /// The NAT says that a node belongs to another inode.
    NatOwner = 303, "nat-owner", "let fsck.f2fs correct the NAT";
    /// The block of a node holds another node.
    NodeFooter = 304, "node-footer", "the file is damaged from there on; fsck.f2fs removes what names it";
    /// A node is named twice.
    NodeShared = 305, "node-shared", "at least one of the two files has wrong content; fsck.f2fs removes one of the names";
    /// A node says another place in the tree of its inode.
    NodePlace = 306, "node-place", "the file is damaged there; copy what can be read";
    /// A node in use is reached from nowhere.
    NodeLost = 307, "node-lost", "let fsck.f2fs free it, or put the inode into lost+found";

    /// The checksum of an inode is wrong.
    InodeChecksum = 401, "inode-checksum", "look at the file; fsck.f2fs recomputes the checksum";
    /// A field of an inode is impossible.
    InodeField = 402, "inode-field", "let fsck.f2fs correct it";
    /// The count of blocks of an inode is wrong.
    InodeBlocks = 403, "inode-blocks", "let fsck.f2fs correct the count";
    /// An inode has more or fewer names than it says.
    LinkCount = 404, "link-count", "let fsck.f2fs correct the count";
    /// The size of an inode contradicts its blocks or its type.
    InodeSize = 405, "inode-size", "let fsck.f2fs correct the size";
    /// The largest run of blocks that an inode notes is not so.
    Extent = 406, "extent", "do not mount it: reads would give blocks of others; let fsck.f2fs clear the extent";
    /// What lies inside the inode is damaged.
    Inline = 407, "inline", "let fsck.f2fs correct the flags";

    /// A file has blocks outside of the main area.
    AddressOutside = 501, "address-outside", "the file is damaged; fsck.f2fs removes the address";
    /// A block has two owners.
    SharedBlock = 502, "shared-block", "at least one of the two has wrong content; copy both";
    /// The summary of a segment says another owner of a block.
    SummaryOwner = 503, "summary-owner", "cleaning would move the block for another; let fsck.f2fs correct the summary";
    /// The summary of a segment is one of the other kind.
    SummaryKind = 504, "summary-kind", "let fsck.f2fs correct the summary";

    /// A directory block is not filled with entries.
    DirBlock = 601, "dir-block", "names are lost; fsck.f2fs removes the rest";
    /// '.' or '..' is missing, misplaced or wrong.
    DirDots = 602, "dir-dots", "let fsck.f2fs correct the entry";
    /// A name that no file may have.
    DirName = 603, "dir-name", "let fsck.f2fs rename the entry";
    /// Two entries of one name.
    DirDuplicate = 604, "dir-duplicate", "rename one of them";
    /// An entry has a hash that is not its name's.
    DirHash = 605, "dir-hash", "the name cannot be looked up; let fsck.f2fs correct the hash";
    /// An entry lies where its hash does not lead.
    DirPlace = 606, "dir-place", "the name cannot be looked up; let fsck.f2fs correct the depth or the entry";
    /// An entry leads to no inode.
    DirTarget = 607, "dir-target", "the name leads nowhere; fsck.f2fs removes it";
    /// An entry notes another type than the inode has.
    DirType = 608, "dir-type", "let fsck.f2fs correct the entry";
    /// A directory has two parents.
    DirParents = 609, "dir-parents", "let fsck.f2fs remove one of the entries";
    /// There is no root directory.
    Root = 610, "root", "let fsck.f2fs make a new one";

    /// Extended attributes are damaged.
    Xattr = 701, "xattr", "the attributes are lost; fsck.f2fs clears them";

    /// An entry of the SIT is impossible.
    SitEntry = 801, "sit-entry", "let fsck.f2fs rebuild the SIT";
    /// Blocks are in use and marked free: they will be overwritten.
    UsedMarkedFree = 802, "used-marked-free", "do not mount it; let fsck.f2fs rebuild the SIT";
    /// Blocks are marked valid and belong to nothing.
    LostBlocks = 803, "lost-blocks", "let fsck.f2fs free them";
    /// A segment of data holds nodes or the other way round.
    SegmentKind = 804, "segment-kind", "let fsck.f2fs correct the SIT";
    /// A log would write over valid blocks, or its segment is of another kind.
    LogPosition = 805, "log-position", "do not mount it; let fsck.f2fs move the log";
    /// The count of valid blocks is wrong.
    ValidBlocks = 806, "valid-blocks", "let fsck.f2fs correct the count";
    /// The count of nodes is wrong.
    ValidNodes = 807, "valid-nodes", "let fsck.f2fs correct the count";
    /// The count of inodes is wrong.
    ValidInodes = 808, "valid-inodes", "let fsck.f2fs correct the count";
    /// The count of free segments is wrong.
    FreeSegments = 809, "free-segments", "let fsck.f2fs correct the count";

    /// A block cannot be read.
    Unreadable = 901, "unreadable", "copy what can be read to another device and check the copy";
    /// The volume uses what this checker does not know.
    Unsupported = 902, "unsupported", "check it with fsck.f2fs";
    /// Nothing was found, and a mount for reading refuses the volume all the same.
    Refused = 903, "mount-refused", "it cannot be used; let fsck.f2fs look at it, and report that this check found nothing";
}

/// How much a finding matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Nothing is lost, and the next checkpoint or mount mends it.
    Notice,
    /// Something is lost or will be.
    Damage,
}

impl Kind {
    /// How much it matters.
    pub const fn severity(self) -> Severity {
        match self {
            Kind::SuperblockDiffers | Kind::NeedsFsck | Kind::NotUnmounted => Severity::Notice,
            _ => Severity::Damage,
        }
    }
}

/// One finding of this checker.
pub type Finding = fscore::check::Finding<Kind>;
/// The findings of a check.
pub(super) type Findings = fscore::check::Findings<Kind>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_has_its_letter_and_its_severity() {
        let finding = Finding::new(Kind::LostBlocks, "3 of them").segment(4u32);
        assert_eq!(
            finding.to_string(),
            "F803 lost-blocks (segment 4): 3 of them"
        );
        assert_eq!(
            (finding.kind.severity(), Kind::NeedsFsck.severity()),
            (Severity::Damage, Severity::Notice)
        );
    }
}
