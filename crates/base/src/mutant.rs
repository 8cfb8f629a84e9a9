//! Deliberate mistakes, one for each guard: a crash test that does not notice its mutant is blind.
//!
//! The code of a guard asks `rt::mutant(Mutant::X)` whether to leave the guard out. Without the
//! feature `mutants` of `rt` the answer is the constant false; with it, each call counts that the
//! guard was reached, and the answer is true in a simulation that runs this mutant. The numbers are
//! those of `docs/design/hazards.md`.

use crate::UnknownWord;
use std::fmt;
use std::str::FromStr;

/// A row of `docs/design/hazards.md`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Hazard {
    /// Of journaling.
    H(u32),
    /// Of a translation layer that remaps.
    R(u32),
    /// Of F2FS: checkpoints, roll-forward, cleaning.
    F(u32),
    /// Of a volume without room: they need no power cut.
    S(u32),
}
use Hazard::{F, H, R, S};

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hazard::H(n) => f.pad(&format!("H{n}")),
            Hazard::R(n) => f.pad(&format!("R{n}")),
            Hazard::F(n) => f.pad(&format!("F{n}")),
            Hazard::S(n) => f.pad(&format!("S{n}")),
        }
    }
}

macro_rules! mutants {
    ($($(#[$doc:meta])* $variant:ident = $word:literal, $hazard:expr;)+) => {
        /// A mistake that a test can ask for.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum Mutant { $($(#[$doc])* $variant,)+ }

        impl Mutant {
            /// All of them.
            pub const ALL: &'static [Mutant] = &[$(Mutant::$variant),+];
            /// Its name on the command line and in replay lines.
            pub const fn word(self) -> &'static str {
                match self { $(Mutant::$variant => $word),+ }
            }
            /// The hazard whose guard it removes.
            pub const fn hazard(self) -> Hazard {
                match self { $(Mutant::$variant => $hazard),+ }
            }
        }
    };
}

mutants! {
    /// Deltas' home writes without FUA on a device that tears other writes.
    NormalHomeWrite = "normal-home-write", H(1);
    /// A block whose older deltas are not home moves to the newest transaction's checkpoint list
    /// (JBD2's rule).
    RefileDeltas = "refile-deltas", H(2);
    /// The tail moves without a flush of the home writes behind it.
    TailUnflushed = "tail-unflushed", H(2);
    /// The tail moves past blocks that are not home.
    TailEarly = "tail-early", H(2);
    /// The first record of a block whose home was never read is a delta.
    BaseAlwaysValid = "base-always-valid", H(3);
    /// A short store is not marked as modified.
    UntrackedStore = "untracked-store", H(4);
    /// The content of the running transaction goes home.
    HomeCurrent = "home-current", H(5);
    /// Revoke records are not written.
    NoRevoke = "no-revoke", H(6);
    /// A freed block's older image still goes home.
    KeepFreedPending = "keep-freed-pending", H(6);
    /// Recovery gives the number of the torn transaction out again.
    ReuseTid = "reuse-tid", H(7);
    /// A block goes twice into one pack.
    PackTwice = "pack-twice", H(8);
    /// The superblock is written in place between commits.
    SuperblockDirect = "superblock-direct", H(9);
    /// A logged image that begins with the magic number is not escaped.
    NoEscape = "no-escape", H(10);
    /// Recovery marks the log clean before the home writes are complete and durable.
    CleanBeforeHome = "clean-before-home", H(11);
    /// Recovery takes an unreadable home for zeros.
    UnreadableIsZero = "unreadable-is-zero", H(12);
    /// Deltas without a full image first, on a device whose home writes may tear.
    NoFullFirst = "no-full-first", H(13);
    /// Checksums of coalition blocks are not checked.
    NoCoalitionChecksum = "no-coalition-checksum", H(14);
    /// Parts of a transaction are read beyond the end of the ring instead of from its beginning.
    NoWrap = "no-wrap", H(15);
    /// The early flush starts before the ordered data is complete.
    FlushBeforeData = "flush-before-data", H(16);
    /// An fsync returns with its commit, whatever that commit's flush covered.
    AckAtCommit = "ack-at-commit", H(17);
    /// Freed extents are used again at once.
    ReuseBeforeCommit = "reuse-before-commit", H(18);
    /// A cluster is freed with a block of it, while others of it are mapped.
    ClusterFreedEarly = "cluster-freed-early", H(18);
    /// A hole in a cluster of the file is written directly, while the log may hold an older image.
    ClusterHoleDirect = "cluster-hole-direct", H(6);
    /// The flush step is always skipped.
    SkipFlush = "skip-flush", H(19);
    /// Full records and their commit block share a pack on a device that keeps any subset of it.
    PackAnySubset = "pack-any-subset", H(20);
    /// A dropped handle counts as finished.
    DropFinishes = "drop-finishes", H(21);
    /// The parts of an atomic write are written as by ordinary writes.
    AtomicPieces = "atomic-pieces", H(21);
    /// A torn superblock has no other copy to fall back to.
    NoSuperblockFallback = "no-superblock-fallback", H(22);
    /// A part of an unwritten extent is marked written without waiting for its data.
    ConvertUnordered = "convert-unordered", H(23);
    /// Ordered data that rides in the pack of its record comes behind it.
    DataBesideRecord = "data-beside-record", H(24);
    /// A commit with its log on another device flushes that one only, not the ordered data.
    HomeDeviceUnflushed = "home-device-unflushed", H(25);
    /// A commit with its log on another device flushes the data only, not the log blocks before the
    /// record.
    LogDeviceUnflushed = "log-device-unflushed", H(25);
    /// Recovery writes home what may only be in the cache of the log's device.
    ReplayUnflushedLog = "replay-unflushed-log", H(26);
    /// A fast commit is sent before the data that it maps is durable.
    FastWithoutData = "fast-without-data", H(27);
    /// A fast commit is written over the one before it.
    FastOverwrite = "fast-overwrite", H(27);
    /// A fast commit of a transaction of which a change could not be told.
    FastAfterFull = "fast-after-full", H(27);
    /// A change that no fast commit can express is left out of it.
    FastUntold = "fast-untold", H(27);
    /// A fast commit may take the last block of the area, behind which others read on.
    FastFullArea = "fast-full-area", H(38);
    /// What lay in the area before stays when a log with fast commits begins.
    FastNoClear = "fast-no-clear", H(38);
    /// A fast commit tells of what an orphan was, or of a file whose truncation is half done.
    FastTellsOrphans = "fast-tells-orphans", H(38);
    /// A fast commit of whose replay the log or the volume may have no room.
    FastWithoutRoom = "fast-without-room", H(38);
    /// An I/O scheduler tells the end of a write that still waits, so a flush passes the write.
    SchedulerPassesFlush = "scheduler-passes-flush", H(28);
    /// An I/O scheduler sends a request past one that waits and shares a sector with it.
    SchedulerSwaps = "scheduler-swaps", H(29);
    /// An fsync of F2FS sends its nodes before the data they lead to has been written.
    F2fsNodeBeforeData = "f2fs-node-before-data", H(30);
    /// Nodes of an fsync have no mark for roll-forward.
    F2fsNoFsyncMark = "f2fs-no-fsync-mark", H(31);
    /// The inode block of a new file has no mark that its name is to be made.
    F2fsNoDentryMark = "f2fs-no-dentry-mark", H(31);
    /// An fsync that roll-forward cannot serve writes no checkpoint.
    F2fsIgnoreReason = "f2fs-ignore-reason", H(32);
    /// An fsync returns without a flush.
    F2fsFsyncNoFlush = "f2fs-fsync-no-flush", H(17);
    /// An fsync does not wait for the chain up to its own nodes.
    F2fsNoChainWait = "f2fs-no-chain-wait", H(33);
    /// Roll-forward takes node blocks of earlier lives of the log.
    F2fsAnyVersion = "f2fs-any-version", H(34);
    /// The first fsync of a mount goes on in a log that may hold leftovers of its version.
    F2fsReviveChain = "f2fs-revive-chain", H(34);
    /// Roll-forward writes over the chain before its checkpoint is durable.
    F2fsOverwriteChain = "f2fs-overwrite-chain", H(35);
    /// A block that roll-forward gives to a file stays with its former owner, too.
    F2fsKeepFormerOwner = "f2fs-keep-former-owner", H(36);
    /// A checkpoint does not list an inode that lost its last name while it was open.
    F2fsForgetOrphan = "f2fs-forget-orphan", H(37);
    /// A checkpoint writes its pack before node and directory blocks have landed.
    F2fsPackBeforeNodes = "f2fs-pack-before-nodes", F(21);
    /// The last block of a checkpoint pack goes out without a flush of what it vouches for.
    F2fsCommitUnflushed = "f2fs-commit-unflushed", F(22);
    /// A checkpoint pack is written over the last one.
    F2fsSamePack = "f2fs-same-pack", F(23);
    /// NAT blocks are written over the copies that the last checkpoint names.
    F2fsNatInPlace = "f2fs-nat-in-place", F(23);
    /// A freed node number is given out again before a checkpoint.
    F2fsNidAtOnce = "f2fs-nid-at-once", F(24);
    /// A checkpoint follows one whose writes failed.
    F2fsPackAfterFailure = "f2fs-pack-after-failure", F(25);
    /// A checkpoint pack counts by its first block alone.
    F2fsHalfPack = "f2fs-half-pack", F(26);
    /// With a journal a freed block is used again before its epoch is applied.
    F2fsjReuseEarly = "f2fsj-reuse-early", F(61);
    /// With a journal a freed node number is used again in the epoch that freed it.
    F2fsjNidEarly = "f2fsj-nid-early", F(62);
    /// A truncation that takes several operations leaves no mark that it has begun.
    F2fsjCutUnmarked = "f2fsj-cut-unmarked", F(63);
    /// A directory page that apply moved keeps its old place in memory.
    F2fsjKeepOldPlace = "f2fsj-keep-old-place", F(71);
    /// The pack of an apply names an epoch that is not in it.
    F2fsjPackAhead = "f2fsj-pack-ahead", F(72);
    /// The tail of the ring moves before the pack is durable.
    F2fsjTailEarly = "f2fsj-tail-early", F(73);
    /// A pair is logged before the program of its source has ended.
    PairBeforeSource = "pair-before-source", R(2);
    /// Recovery applies what it finds of a batch.
    HalfBatch = "half-batch", R(3);
    /// Garbage collection asks the tag which unit owns a slot.
    CollectByTag = "collect-by-tag", R(4);
    /// Blocks are erased while the records that name their units' other owners are in memory.
    EraseBeforeOwners = "erase-before-owners", R(5);
    /// A copy that waits in a buffer is programmed although its unit was written meanwhile, with a
    /// version of its own.
    CopyIsNewer = "copy-is-newer", R(6);
    /// A checkpoint maps one owner of each slot.
    CheckpointOneOwner = "checkpoint-one-owner", R(7);
    /// A block's valid count goes down with each owner that leaves a slot.
    CountOwners = "count-owners", R(8);
    /// The expected content of a source is not compared.
    IgnoreExpect = "ignore-expect", R(11);
    /// More slots get a second owner than there is room for.
    NoAliasCap = "no-alias-cap", R(15);
    /// A unit is aliased to the first slot of its source's page.
    AliasWholePage = "alias-whole-page", R(16);
    /// A flush leaves word lines half programmed.
    FlushHalfPairs = "flush-half-pairs", R(17);
    /// Recovery trusts the last pages that it finds.
    TrustLastPage = "trust-last-page", R(18);
    /// A home whose source was never written keeps its content.
    UnwrittenKeepsHome = "unwritten-keeps-home", R(19);
    /// A write to one owner of a slot is a write to all of them.
    WriteThroughAlias = "write-through-alias", R(20);
    /// A transparent device shares content whose hash is equal, and does not compare it.
    ShareByHash = "share-by-hash", R(21);
    /// Recovery gives versions out again.
    VersionRegresses = "version-regresses", R(22);
    /// Records that find the log full are dropped.
    LogFullDrops = "log-full-drops", R(23);
    /// A log whose blocks are moved home does not say so.
    RemapMoveUnmarked = "remap-move-unmarked", R(1);
    /// Images of zeros in a log whose blocks are moved home are not marked.
    RemapZerosUnmarked = "remap-zeros-unmarked", R(1);
    /// An escaped image is pointed at as if it were the block.
    RemapEscaped = "remap-escaped", R(9);
    /// A home is remapped while an older home write of it is on its way.
    RemapInFlight = "remap-in-flight", R(10);
    /// A list is used again when its log blocks hold something else.
    RemapStaleSource = "remap-stale-source", R(25);
    /// Recovery does not say what it expects in the log blocks that it points at.
    RemapUnexpected = "remap-unexpected", R(25);
    /// A list is used again when blocks of it were freed.
    RemapFreed = "remap-freed", R(12);
    /// Recovery remaps revoked blocks, too.
    RemapRevoked = "remap-revoked", R(12);
    /// A remapped block leaves the transaction that has changed it again.
    CleanRedirtied = "clean-redirtied", R(13);
    /// Freed blocks may be used before their discard was sent.
    DiscardLate = "discard-late", R(14);
    /// A refused REMAP passes for a done one.
    RemapErrorClean = "remap-error-clean", R(24);
    /// A freed block of F2FS may be used again at once.
    F2fsReuseBeforeCheckpoint = "f2fs-reuse-before-checkpoint", F(1);
    /// A checkpoint of F2FS does not wait for the data that it maps.
    F2fsMapBeforeData = "f2fs-map-before-data", F(11);
    /// Inline data that leaves its inode waits for write-back.
    F2fsLeaveInlineLate = "f2fs-leave-inline-late", F(12);
    /// What a truncation zeroes, and what is moved inside a file, may go in place.
    F2fsCutInPlace = "f2fs-cut-in-place", F(13);
    /// Every node of an atomic write's commit has a mark for roll-forward.
    F2fsAtomicByParts = "f2fs-atomic-by-parts", F(14);
    /// Records of one operation go to two epochs where it meets a switch.
    F2fsjHalfOperation = "f2fsj-half-operation", F(41);
    /// An epoch is collected while operations are in it.
    F2fsjNoDrain = "f2fsj-no-drain", F(42);
    /// An epoch is committed before the data that it maps has landed.
    F2fsjCommitBeforeData = "f2fsj-commit-before-data", F(43);
    /// Records of one inode stand in the order in which operations ended.
    F2fsjOrderOfEnds = "f2fsj-order-of-ends", F(44);
    /// Ends of inodes stand in front of what else their epoch says.
    F2fsjEndsFirst = "f2fsj-ends-first", F(46);
    /// A transaction of pages has the live block although an operation of the next epoch has
    /// changed it.
    F2fsjPageAhead = "f2fsj-page-ahead", F(45);
    /// No flush lies between the data that an epoch maps and its transaction.
    F2fsjDataUnflushed = "f2fsj-data-unflushed", F(51);
    /// An fsync returns when the transaction has completed, and may be in the cache.
    F2fsjAckBeforeCommit = "f2fsj-ack-before-commit", F(52);
    /// The flush of a commit in one round begins before the data has completed.
    F2fsjFlushEarly = "f2fsj-flush-early", F(53);
    /// Recovery takes the last transaction without a look at its data.
    F2fsjSumUnread = "f2fsj-sum-unread", F(57);
    /// A page is written in place over a block of which the last transaction has the checksum.
    F2fsjOverSummed = "f2fsj-over-summed", F(58);
    /// Recovery leaves out the file whose data did not survive, and redoes the rest of its epoch.
    F2fsjFileLeftOut = "f2fsj-file-left-out", F(59);
    /// Recovery compares the data of every transaction with its checksums.
    F2fsjSumOfAll = "f2fsj-sum-of-all", F(60);
    /// An fsync is content with a flush that began before its own data had landed.
    F2fsjJoinOldFlush = "f2fsj-join-old-flush", H(17);
    /// Transactions of another life of the ring are redone.
    F2fsjStaleIncarnation = "f2fsj-stale-incarnation", F(55);
    /// The ring is redone onto a pack that another program wrote.
    F2fsjStampIgnored = "f2fsj-stamp-ignored", F(56);
    /// Blocks are promised to delayed pages of ext4 that are promised already.
    PromiseTwice = "promise-twice", S(1);
    /// Delayed pages of ext4 have no blocks promised for the tree of their file.
    NoTreePromise = "no-tree-promise", S(2);
    /// The tree of a file of ext4 changes while blocks are promised for what it was.
    TreeUnsettled = "tree-unsettled", S(2);
    /// A task that finds no block of ext4 for its claim does not search alone.
    SearchBesideOthers = "search-beside-others", S(3);
    /// Windows are opened while a task searches for the last blocks.
    WindowWhileStarving = "window-while-starving", S(3);
    /// F2FS counts blocks beyond what users may have.
    F2fsClaimBeyond = "f2fs-claim-beyond", S(4);
    /// F2FS counts nodes beyond what users may have.
    F2fsNodeBeyond = "f2fs-node-beyond", S(4);
    /// Write-back of F2FS takes segments without looking how many are free.
    F2fsWriteUnbalanced = "f2fs-write-unbalanced", S(5);
    /// A refused reservation of F2FS stays in the address slot.
    F2fsSlotUncounted = "f2fs-slot-uncounted", S(6);
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Mutant {
    type Err = UnknownWord;
    fn from_str(given: &str) -> Result<Mutant, UnknownWord> {
        let found = Mutant::ALL.iter().copied().find(|m| m.word() == given);
        found.ok_or_else(|| UnknownWord {
            what: "mutant",
            given: given.into(),
            valid: Mutant::ALL.iter().map(|m| m.word()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Rows of the tables of hazards: the hazard, and the words between backticks in its column of
    /// mutants.
    fn rows() -> BTreeMap<String, BTreeSet<String>> {
        let page = include_str!("../../../docs/design/hazards.md");
        let mut rows = BTreeMap::new();
        let mut column = None;
        for line in page.lines() {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            if cells.get(1) == Some(&"no") {
                column = cells.iter().position(|&cell| cell == "mutant");
            }
            let numbered = cells
                .get(1)
                .filter(|no| no.ends_with(|c: char| c.is_ascii_digit()));
            if let (Some(&no), Some(column)) = (numbered, column) {
                let words = cells[column].split('`').skip(1).step_by(2);
                rows.insert(no.into(), words.map(String::from).collect());
            }
        }
        rows
    }

    #[test]
    fn the_table_of_hazards_names_each_mutant_in_the_row_of_its_hazard() {
        let mut expected = BTreeMap::<String, BTreeSet<String>>::new();
        for mutant in Mutant::ALL {
            let row = expected.entry(mutant.hazard().to_string()).or_default();
            row.insert(mutant.word().into());
        }
        assert_eq!(rows(), expected, "docs/design/hazards.md and Mutant");
    }

    #[test]
    fn words_read_back() {
        for mutant in Mutant::ALL {
            assert_eq!(mutant.word().parse(), Ok(*mutant));
        }
        let error = "no-such".parse::<Mutant>().unwrap_err().to_string();
        assert!(
            error.contains("mutant `no-such`") && error.contains("skip-flush"),
            "{error}"
        );
    }
}
