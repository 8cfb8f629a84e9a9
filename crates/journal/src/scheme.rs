//! A journaling scheme is three choices: record, order, home (ARCHITECTURE.md, "A journaling
//! scheme").

use block::{Caps, RemapMode};

/// What a commit writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// Full block images behind descriptors, and a commit block (JBD2).
    Full,
    /// As `Full`, and between two such commits fast commits: changes of inodes, names and ranges
    /// of blocks, in an area of their own behind the ring (ext4 of Linux since 5.10;
    /// `fast/mod.rs`).
    Fast,
    /// The modified bytes of all metadata in coalition blocks (eMMC paper, IV.A).
    Coalition {
        /// Which transactions a commit block of its own ends. In the others the checksums in the
        /// coalition blocks say that the transaction is complete.
        commit_block: CommitBlock,
    },
}

impl Record {
    /// Which transactions end with a commit block of their own, for a coalition.
    pub const fn commit_block(self) -> Option<CommitBlock> {
        match self {
            Record::Full | Record::Fast => None,
            Record::Coalition { commit_block } => Some(commit_block),
        }
    }
}

/// Which transactions of a coalition journal end with a commit block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommitBlock {
    /// None.
    Never,
    /// Those that are more than one coalition block, because they hold full images or because their
    /// records fill several blocks (eMMC paper, IV.A).
    IfMore,
    /// All.
    Always,
}

impl CommitBlock {
    /// Whether a transaction of so many log blocks, apart from the commit block, ends with one.
    pub fn ends(self, blocks: usize) -> bool {
        match self {
            CommitBlock::Never => false,
            CommitBlock::IfMore => blocks > 1,
            CommitBlock::Always => true,
        }
    }
}

/// How a commit becomes durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Flush when everything but the commit record is written, then the record with FUA (JBD2).
    FlushEnd,
    /// Flush first, while the log blocks are composed; then all of them with FUA (eMMC paper,
    /// IV.B).
    FlushAhead,
    /// Chosen anew for each commit by a cost model: flush-end, flush-ahead, or no flush at all
    /// because the data went out with FUA.
    Adaptive,
}

/// How committed blocks reach their home.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Home {
    /// Ordinary writes.
    Copy,
    /// FUA writes, which an eMMC turns into reliable writes: every byte is old or new whenever the
    /// power goes. Ordinary writes on a device whose FUA writes promise no such thing.
    CopyReliable,
    /// The device points home at the page of the journal (JFTL, 3.1); blocks that cannot or must
    /// not be remapped are copied (`home_remap.rs`).
    Remap {
        /// What becomes of the journal's address: [`RemapMode::Share`] keeps the log readable for
        /// any program, [`RemapMode::Move`] clears it, as published.
        mode: RemapMode,
    },
}

/// When the first record of a block after each durable home write is a full image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FullFirst {
    /// Where home writes may tear, or a cut may damage what is not being written.
    #[default]
    Auto,
    /// On every device: the log can then heal any home block that it still covers.
    On,
    /// Never; refused where `Auto` would need it.
    Off,
}

base::words! {
    /// A mistake that fast commits of others make, for experiments on simulated devices
    /// (docs/results/fast-commit.md, "What it risks").
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
    pub enum FastBug: "bug" {
        /// The last block of the area is used, and recovery then reads the one behind the log
        /// (Linux, e2fsck; fast-W9).
        FullArea => "full-area",
        /// The record of a new inode has its fields alone, and recovery leaves what lies behind
        /// them: attributes of an older inode with its number (Linux, e2fsck).
        OldAttributes => "xattr",
        /// New directories are told, and recovery does not count them as links of the one above
        /// (Linux, e2fsck).
        NewDirectory => "new-directory",
        /// Inodes with a block of attributes are told, and recovery does not count that block
        /// (Linux; fast_record-B2).
        AttributeBlock => "xattr-block",
        /// Recovery ends where the directory of a name has no room for it (e2fsck).
        FullDirectory => "full-directory",
        /// Recovery counts no block that a directory gets for its new names (Linux).
        DirectoryBlocks => "directory-blocks",
        /// What lay in the area before is not cleared (fast-W11).
        NoClear => "no-clear",
        /// Recovery replays fast commits without a look at the full commit before them, which it
        /// has not brought home (e2fsck).
        UnseenCommit => "unseen-commit",
        /// The end of a full commit clears what had been told for a fast commit, and with it what
        /// the next transaction had told by then (Linux before 5.17).
        MissedActions => "missed-actions",
    }
}

base::words! {
    /// Who makes the mistake.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
    pub enum BugIn: "bug-in" {
        /// Whoever writes fast commits, and whoever recovers them.
        Both => "both",
        /// Whoever writes them; recovery is that of Varve.
        Writer => "writer",
        /// Whoever recovers them; they are written as by Varve.
        Recovery => "recovery",
    }
}

/// A journaling scheme: record, order, home, and the guard of home writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheme {
    /// What a commit writes.
    pub record: Record,
    /// How it becomes durable.
    pub order: Order,
    /// How it reaches home.
    pub home: Home,
    /// The guard of deltas against torn home writes.
    pub full_first: FullFirst,
    /// A mistake of others that is made on purpose; only in simulations.
    pub bug: Option<(FastBug, BugIn)>,
}

impl Scheme {
    /// True if transactions are recorded as deltas.
    pub fn is_coalition(&self) -> bool {
        matches!(self.record, Record::Coalition { .. })
    }

    /// True if an fsync may be answered by a fast commit.
    pub fn is_fast(&self) -> bool {
        self.record == Record::Fast
    }

    /// True if fast commits are written with this mistake.
    pub fn writes_with(&self, bug: FastBug) -> bool {
        matches!(self.bug, Some((b, BugIn::Both | BugIn::Writer)) if b == bug)
    }

    /// True if fast commits are recovered with this mistake.
    pub fn recovers_with(&self, bug: FastBug) -> bool {
        matches!(self.bug, Some((b, BugIn::Both | BugIn::Recovery)) if b == bug)
    }

    /// True if every home write of this scheme on such a device leaves each byte old or new, and
    /// nothing else damages a home.
    fn home_is_safe(&self, caps: &Caps) -> bool {
        self.home == Home::CopyReliable && caps.writes_old_or_new() && caps.no_collateral
    }

    /// Whether the guard full-first applies on this device (hazards-H1, hazards-H13).
    pub fn full_first_applies(&self, caps: &Caps) -> bool {
        self.is_coalition()
            && match self.full_first {
                FullFirst::Auto => !self.home_is_safe(caps),
                FullFirst::On => true,
                FullFirst::Off => false,
            }
    }

    /// Checks whether the log of this scheme may lie on a device of its own, apart from the homes.
    ///
    /// # Errors
    /// The reason, and what to choose instead.
    pub fn check_apart(&self) -> Result<(), String> {
        crate::devices::refusal(self).map_or(Ok(()), Err)
    }

    /// Checks that no mistake is made on purpose on a device that is none of ours.
    ///
    /// # Errors
    /// The reason, and what to choose instead.
    pub fn check_bug(&self) -> Result<(), String> {
        match self.bug {
            Some(_) if !rt::in_simulation() => Err(BUG_IS_FOR_SIMULATIONS.into()),
            _ => Ok(()),
        }
    }

    /// Checks whether this scheme is safe on a device.
    ///
    /// # Errors
    /// The reason, and what to choose instead.
    pub fn check(&self, caps: &Caps) -> Result<(), String> {
        if let Home::Remap { .. } = self.home {
            if self.is_coalition() {
                return Err(REMAP_NEEDS_BLOCKS.into());
            }
            if self.is_fast() {
                return Err(FAST_HAS_NO_BLOCKS.into());
            }
            if caps.remap.is_none() {
                return Err(
                    "home=remap needs a device with REMAP, which can point a home address at a page of the journal (nandsim-2007 and \
                     the raw-* profiles), and this one has none; choose home=copy or home=copy-reliable"
                        .into(),
                );
            }
        }
        if self.is_coalition() && self.full_first == FullFirst::Off && !self.home_is_safe(caps) {
            return Err(
                "full-first=off with record=coalition needs home=copy-reliable on a device with reliable writes that \
                 protects stored data (EN_REL_WR or REL_WR_SEC_C, and WR_REL_SET): a torn home write could not be repaired from deltas; use \
                 full-first=auto"
                    .into(),
            );
        }
        Ok(())
    }
}

/// The message that refuses a mistake on a device that is none of ours.
pub(crate) const BUG_IS_FOR_SIMULATIONS: &str = "bug= makes a mistake of other programs on purpose and loses data: it runs on simulated devices only \
     (varve crash --schemes, varve compare --schemes); leave it out";

/// The message that refuses REMAP for a coalition.
pub(crate) const REMAP_NEEDS_BLOCKS: &str = "home=remap with record=coalition: a remapped page of the journal must be a whole block, and \
                                             a coalition holds only modified bytes; choose record=full or home=copy-reliable";

/// The message that refuses REMAP for fast commits.
pub(crate) const FAST_HAS_NO_BLOCKS: &str = "home=remap with record=fast: a fast commit holds no block that a home could be pointed at; choose record=full, \
                                             home=copy or home=copy-reliable";

base::words! {
    /// A named scheme.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
    pub enum Preset: "scheme" {
        /// Full block images, flush, FUA commit record, copy home: what Linux does.
        #[default]
        Jbd2 => "jbd2",
        /// Coalition, flush at the end, reliable home writes.
        Coalition => "coalition",
        /// As `Coalition`, with a commit block behind a transaction of more than one block, as
        /// published.
        CoalitionPaper => "coalition-paper",
        /// Full images as with `Jbd2`, but flush-ahead.
        FlushAhead => "flush-ahead",
        /// Coalition with flush-ahead: both ideas of the eMMC paper, without any commit block.
        Emmc => "emmc",
        /// As `CoalitionPaper`, with flush-ahead: both ideas of the eMMC paper, as published.
        EmmcPaper => "emmc-paper",
        /// Coalition, with the order chosen per commit.
        Adaptive => "adaptive",
        /// The records of `jbd2`; homes are pointed at the log blocks, which stay in the log.
        Jftl => "jftl",
        /// As `Jftl`, with the journal's addresses cleared, as published: other programs refuse
        /// such a log.
        JftlPaper => "jftl-paper",
        /// The records of `jbd2`, with fast commits in between, as ext4 of Linux with the feature
        /// `fast_commit`.
        FastCommit => "fast-commit",
        /// As `FastCommit`, with the order chosen per commit. An fsync of a directory is a fast
        /// commit, too.
        FastCommitAdaptive => "fast-commit+adaptive",
        /// No journal: metadata is written home directly.
        None => "none",
    }
}

impl Preset {
    /// True if it needs a device with REMAP.
    pub const fn remaps(self) -> bool {
        matches!(self, Preset::Jftl | Preset::JftlPaper)
    }

    /// The scheme that the preset stands for; `None` for no journal.
    pub const fn scheme(self) -> Option<Scheme> {
        const DELTAS: Record = Record::Coalition {
            commit_block: CommitBlock::Never,
        };
        const PUBLISHED: Record = Record::Coalition {
            commit_block: CommitBlock::IfMore,
        };
        const SHARED: Home = Home::Remap {
            mode: RemapMode::Share,
        };
        const MOVED: Home = Home::Remap {
            mode: RemapMode::Move,
        };
        let (record, order, home) = match self {
            Preset::Jbd2 => (Record::Full, Order::FlushEnd, Home::Copy),
            Preset::FlushAhead => (Record::Full, Order::FlushAhead, Home::Copy),
            Preset::Coalition => (DELTAS, Order::FlushEnd, Home::CopyReliable),
            Preset::CoalitionPaper => (PUBLISHED, Order::FlushEnd, Home::CopyReliable),
            Preset::Emmc => (DELTAS, Order::FlushAhead, Home::CopyReliable),
            Preset::EmmcPaper => (PUBLISHED, Order::FlushAhead, Home::CopyReliable),
            Preset::Adaptive => (DELTAS, Order::Adaptive, Home::CopyReliable),
            Preset::Jftl => (Record::Full, Order::FlushEnd, SHARED),
            Preset::JftlPaper => (Record::Full, Order::FlushEnd, MOVED),
            Preset::FastCommit => (Record::Fast, Order::FlushEnd, Home::Copy),
            Preset::FastCommitAdaptive => (Record::Fast, Order::Adaptive, Home::Copy),
            Preset::None => return None,
        };
        Some(Scheme {
            record,
            order,
            home,
            full_first: FullFirst::Auto,
            bug: None,
        })
    }
}
