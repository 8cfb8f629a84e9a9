//! What is promised, by which call and under which terms. The oracle of files decides by the tables
//! here, and those of `docs/use/guarantees.md` are made from them
//! ([`guarantees`](super::guarantees)), so what users read there is what is tested. The texts of
//! [`RULES`] only say what a name in a violation stands for; S1 and S2 are judged where SQLite runs
//! (`subject/sqlite.rs`, `cuts`).

use super::{CrashConfig, Target};
use base::BLOCK_BYTES;
use rig::{Data, FsyncMode, Scheme};
use work::workload::{JournalMode, Synchronous};

/// A rule that a remainder must keep. The text of a violation begins with its name.
pub struct Rule {
    /// Its letter and number.
    pub name: &'static str,
    /// What it demands.
    pub demands: &'static str,
}

/// All rules, of files (O), of recovery (R) and of SQLite (S).
pub static RULES: &[Rule] = &[
    Rule {
        name: "O1",
        demands: "a task's names, links, symlink targets, permissions and extended attributes are as after some prefix of its \
                  operations; the prefix holds all that a completed sync covers and nothing that had not begun",
    },
    Rule {
        name: "O2",
        demands: "which operations a completed sync covers: see the calls",
    },
    Rule {
        name: "O3",
        demands: "each sector of a file is, byte for byte, what it held after some operation that is not older than the last \
                  completed sync of the file",
    },
    Rule {
        name: "O4",
        demands: "the size of a file is one that it had since its last completed sync; one write may come page by page",
    },
    Rule {
        name: "O5",
        demands: "no sector holds bytes of another file or place, or what lay on the device before",
    },
    Rule {
        name: "O6",
        demands: "no sector is garbage",
    },
    Rule {
        name: "O7",
        demands: "an operation on names that is there has all that had ended before it began, of all tasks",
    },
    Rule {
        name: "R1",
        demands: "the remainder mounts, can be read, written and unmounted, and the accounts in memory agree",
    },
    Rule {
        name: "R2",
        demands: "after recovery and unmount `e2fsck -fn` finds nothing",
    },
    Rule {
        name: "R3",
        demands: "`e2fsck -fy` on the remainder gives the same tree as Varve's own recovery (stock records only)",
    },
    Rule {
        name: "R4",
        demands: "`varve fsck` finds nothing in what was recovered",
    },
    Rule {
        name: "S1",
        demands: "`PRAGMA integrity_check` says ok",
    },
    Rule {
        name: "S2",
        demands: "a table is that of the acknowledged transactions, or of one more; with `synchronous=normal` that of one less at the least, and with a WAL that of the first ones, however many",
    },
];

/// How many acknowledged transactions S2 lets go, from the last one on. In `normal` a WAL is not
/// synced at commits, so any number may be lost; a rollback journal is ended without a sync, and
/// may be found hot: then one transaction is rolled back, as the next one syncs the journal anew.
/// The reasons, also why `off` is judged like `full`, stand in `subject/sqlite.rs`.
pub fn may_lose(level: Synchronous, journal: JournalMode) -> usize {
    match (level, journal) {
        (Synchronous::Normal, JournalMode::Wal) => usize::MAX,
        (Synchronous::Normal, _) => 1,
        _ => 0,
    }
}

/// What a promise depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Metadata is journaled: the scheme is any but `none`.
    pub journaled: bool,
    /// How file data is treated (`data=`).
    pub data: Data,
    /// A write through the device's cache may leave garbage at its place if the power is cut.
    pub garbles: bool,
    /// Names come back by checkpoint and roll-forward, under this mode of fsync (F2FS without a
    /// journal): the sync of a file brings back that file, and no older operation.
    pub roll_forward: Option<FsyncMode>,
    /// The sync of a directory commits what changed the directory and all that came before; what
    /// changed elsewhere since then may wait (F2FSJ).
    pub by_inode: bool,
    /// A sync of a file or directory is noted in a log beside the checkpoints, with what it
    /// promises of this inode and perhaps more: so names come back in no order (Btrfs).
    pub tree_log: bool,
    /// Bytes of a page of a file, which gets its block as a whole: the block size of the volume.
    pub page_bytes: u64,
    /// An allocation extends a file in pieces, and a cut may leave it after any of them (Linux).
    pub pieces: bool,
}

impl Terms {
    /// The terms of a run.
    pub fn of(config: &CrashConfig) -> Terms {
        let garbles = match &config.target {
            Target::Spec(caps) => caps.tear_granule.is_none(),
            Target::Profile(_) => true,
        };
        Terms {
            journaled: config.stack.scheme.is_consistent(),
            data: config.stack.data,
            garbles,
            roll_forward: match config.stack.scheme {
                // F2FSJ commits epochs: an operation comes back with all that was before it.
                Scheme::F2fs(scheme) => scheme.journal().is_none().then_some(scheme.fsync),
                Scheme::Journal(_) => None,
            },
            by_inode: matches!(config.stack.scheme, Scheme::F2fs(s) if s.journal().is_some()),
            tree_log: false,
            page_bytes: (config.stack.block_bytes).map_or(BLOCK_BYTES as u64, u64::from),
            pieces: false,
        }
    }

    /// Whether the sync of a single file promises anything.
    pub fn fsync_counts(&self) -> bool {
        self.roll_forward != Some(FsyncMode::NoBarrier)
    }

    /// Every combination that the page shows.
    pub fn all() -> Vec<Terms> {
        let modes = [
            (true, Data::Ordered, None),
            (true, Data::Writeback, None),
            (true, Data::Journal, None),
            (false, Data::Ordered, None),
            (true, Data::Ordered, Some(FsyncMode::Posix)),
            (true, Data::Ordered, Some(FsyncMode::Strict)),
            (true, Data::Ordered, Some(FsyncMode::NoBarrier)),
        ];
        let each = modes.map(|(journaled, data, roll_forward)| {
            [false, true].map(|garbles| Terms {
                journaled,
                data,
                garbles,
                roll_forward,
                by_inode: false,
                tree_log: false,
                page_bytes: BLOCK_BYTES as u64,
                pieces: false,
            })
        });
        each.into_iter().flatten().collect()
    }
}

/// A call by which an application asks for durability.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Call {
    /// `fsync` of a file.
    Fsync,
    /// `fdatasync` of a file.
    Fdatasync,
    /// `fsync` of a directory.
    SyncDir,
    /// `sync`, `syncfs`.
    Sync,
}

/// The part of a file that a promise speaks of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum What {
    /// Its names: that it was made, linked, renamed or removed; the target of a symbolic link.
    Names,
    /// Permissions and extended attributes.
    Attributes,
    /// Bytes and size.
    Content,
}

/// How much of it a call makes durable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cover {
    /// Nothing.
    Nothing,
    /// That the inode was made, and under which name.
    Making,
    /// All earlier operations that touched the inode; of a directory also those on names in it.
    Inode,
    /// All earlier operations of all tasks.
    Everything,
}

/// One line of rule O2: the three fields read as a sentence.
pub struct Covers {
    /// After this call has returned,
    pub call: Call,
    /// of this
    pub what: What,
    /// so much survives.
    pub cover: Cover,
    /// Why, or what to beware of.
    pub note: &'static str,
}

const fn covers(call: Call, what: What, cover: Cover, note: &'static str) -> Covers {
    Covers {
        call,
        what,
        cover,
        note,
    }
}

/// Rule O2 as data.
pub static COVERS: &[Covers] = &[
    covers(
        Call::Fsync,
        What::Names,
        Cover::Inode,
        "the names of the file, that of a new one too, so no fsync of the directory is needed. That an old name is gone is covered as far as it \
         is an operation on this inode",
    ),
    covers(
        Call::Fsync,
        What::Attributes,
        Cover::Inode,
        "permissions, extended attributes",
    ),
    covers(
        Call::Fsync,
        What::Content,
        Cover::Inode,
        "all bytes written before, and the size",
    ),
    covers(
        Call::Fdatasync,
        What::Names,
        Cover::Making,
        "a later rename or link may be lost",
    ),
    covers(
        Call::Fdatasync,
        What::Attributes,
        Cover::Nothing,
        "permissions, times and extended attributes may be old",
    ),
    covers(
        Call::Fdatasync,
        What::Content,
        Cover::Inode,
        "all bytes written before, and the size that is needed to read them",
    ),
    covers(
        Call::SyncDir,
        What::Names,
        Cover::Everything,
        "POSIX promises the names in this directory; the running transaction is committed whole, so names elsewhere come along",
    ),
    covers(
        Call::SyncDir,
        What::Attributes,
        Cover::Everything,
        "those in this directory, and elsewhere as with names",
    ),
    covers(
        Call::SyncDir,
        What::Content,
        Cover::Nothing,
        "a file that was made and not synced may be there and empty",
    ),
    covers(
        Call::Sync,
        What::Names,
        Cover::Everything,
        "of all programs",
    ),
    covers(
        Call::Sync,
        What::Attributes,
        Cover::Everything,
        "of all programs",
    ),
    covers(
        Call::Sync,
        What::Content,
        Cover::Everything,
        "of all programs",
    ),
];

/// How much of `what` a completed `call` makes durable in a journaled file system.
pub fn cover(call: Call, what: What) -> Cover {
    let row = COVERS.iter().find(|c| c.call == call && c.what == what);
    row.map_or(Cover::Nothing, |c| c.cover)
}

impl Terms {
    /// How much of `what` a completed `call` makes durable under these terms.
    pub fn cover(&self, call: Call, what: What) -> Cover {
        match (call, cover(call, what)) {
            (Call::SyncDir, Cover::Everything) if self.by_inode => Cover::Inode,
            (_, cover) => cover,
        }
    }
}

/// What a cut may leave of an operation that no completed sync covers.
pub struct Unsynced {
    /// The operations, in words.
    pub operation: &'static str,
    /// What a cut may leave of them.
    pub leaves: &'static str,
    /// The rules that say so.
    pub rules: &'static [&'static str],
}

/// What a cut may leave of operations without a sync, under a scheme that journals: the rules O1,
/// O3, O4 and O7 in words, by operation.
pub static UNSYNCED: &[Unsynced] = &[
    Unsynced {
        operation: "create, mkdir, link, symlink, unlink, rmdir",
        leaves: "done or not done, never half; in the order in which they were made, also across directories and tasks: a cut takes the \
                 newest first. The number of links agrees with the names",
        rules: &["O1", "O7"],
    },
    Unsynced {
        operation: "rename",
        leaves: "the old state or the new one: a file or directory has never both names and never none. A name that is replaced leads to \
                 the old file or to the new one",
        rules: &["O1", "O7"],
    },
    Unsynced {
        operation: "rename of a file that was not synced over another",
        leaves: "the name may lead to the new file and the new file be empty or in part: sync the file before renaming it",
        rules: &["O1", "O4"],
    },
    Unsynced {
        operation: "chmod, setxattr, removexattr",
        leaves: "old or new, in order with operations on names",
        rules: &["O1", "O7"],
    },
    Unsynced {
        operation: "write",
        leaves: "each sector of 512 bytes is as before or as after, independently of the others and of the order of writes; what is \
                 appended comes page by page (of 4 KiB, or as small as the blocks of the volume), and may be missing although later operations on names are there. Inside of the size that is \
                 found it may read as zeros",
        rules: &["O3", "O4"],
    },
    Unsynced {
        operation: "truncate, fallocate",
        leaves: "the size is the old or the new one, in order with operations on names. Under \
                 the old size, the page in which a truncation ends may read as zeros from there on already. What was cut off does not \
                 come back when the file grows again: it reads as zeros. An allocated range reads as zeros",
        rules: &["O3", "O4"],
    },
];

/// Something that a cut may let show in a file, though it is not what was written there last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Sight {
    /// The former content of a block that the file was given since its last sync, for example of
    /// deleted files.
    StaleBlock,
    /// Garbage in a page that was overwritten in place since the last sync, also in sectors of it
    /// that had been synced.
    TornPage,
    /// What a truncation had cut off, in the page where it ended, after the file grew again.
    CutOff,
}

impl Sight {
    /// All values, in the order of their declaration.
    pub const ALL: [Sight; 3] = [Sight::StaleBlock, Sight::TornPage, Sight::CutOff];
}

/// One line about what may show.
pub struct Shows {
    /// What may show.
    pub sight: Sight,
    /// Under which terms.
    pub fits: fn(&Terms) -> bool,
    /// Whether it may show.
    pub may: bool,
    /// The reason, for the page.
    pub why: &'static str,
}

/// The rules O3, O5 and O6 as data; the first line that fits decides.
pub static SHOWS: &[Shows] = &[
    Shows {
        sight: Sight::StaleBlock,
        fits: |t| t.journaled && t.data == Data::Writeback,
        may: true,
        why: "the commit that maps a block does not wait for its data",
    },
    Shows {
        sight: Sight::StaleBlock,
        fits: |t| t.roll_forward == Some(FsyncMode::Strict),
        may: false,
        why: "the last node block of an fsync follows a flush of its data",
    },
    Shows {
        sight: Sight::StaleBlock,
        fits: |t| t.roll_forward.is_some(),
        may: true,
        why: "the node blocks of an fsync that is under way may be durable before its data",
    },
    Shows {
        sight: Sight::StaleBlock,
        fits: |t| t.data == Data::Journal,
        may: false,
        why: "block and data are in one transaction",
    },
    Shows {
        sight: Sight::StaleBlock,
        fits: |_| true,
        may: false,
        why: "data is durable before the commit that maps its block",
    },
    Shows {
        sight: Sight::TornPage,
        fits: |t| t.data == Data::Journal,
        may: false,
        why: "data goes home from the log, which still holds it",
    },
    Shows {
        sight: Sight::TornPage,
        fits: |t| t.garbles,
        may: true,
        why: "the device promises nothing of a sector that it was writing; a page is written whole",
    },
    Shows {
        sight: Sight::TornPage,
        fits: |_| true,
        may: false,
        why: "the device leaves each sector old or new",
    },
    Shows {
        sight: Sight::CutOff,
        fits: |t| t.journaled && t.data == Data::Writeback,
        may: true,
        why: "the commit of the new size does not wait for the zeros",
    },
    Shows {
        sight: Sight::CutOff,
        fits: |_| true,
        may: false,
        why: "the zeros are data like others, and ordered before the new size",
    },
];

/// The line that decides whether `sight` may show under these terms.
pub fn shows(sight: Sight, terms: &Terms) -> &'static Shows {
    let fits = |s: &&Shows| s.sight == sight && (s.fits)(terms);
    SHOWS
        .iter()
        .find(fits)
        .expect("the last line of each sight fits all terms")
}

/// Whether `sight` may show under these terms.
pub fn may_show(sight: Sight, terms: &Terms) -> bool {
    shows(sight, terms).may
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_tables_are_whole_and_every_line_decides_something() {
        for call in [Call::Fsync, Call::Fdatasync, Call::SyncDir, Call::Sync] {
            for what in [What::Names, What::Attributes, What::Content] {
                let rows = COVERS.iter().filter(|c| c.call == call && c.what == what);
                assert_eq!(rows.count(), 1, "{call:?} {what:?}");
            }
        }
        let mut used = BTreeSet::new();
        for terms in Terms::all() {
            for sight in Sight::ALL {
                let line = shows(sight, &terms);
                used.insert(SHOWS.iter().position(|s| std::ptr::eq(s, line)));
            }
        }
        assert_eq!(used.len(), SHOWS.len());
        let names: BTreeSet<&str> = RULES.iter().map(|r| r.name).collect();
        assert_eq!(names.len(), RULES.len(), "no name twice");
        let cited = UNSYNCED.iter().flat_map(|u| u.rules);
        assert!(cited.clone().all(|r| names.contains(r)));
    }

    #[test]
    fn modes_differ_where_they_should() {
        let terms = |data, garbles| Terms {
            roll_forward: None,
            by_inode: false,
            tree_log: false,
            page_bytes: BLOCK_BYTES as u64,
            pieces: false,
            journaled: true,
            data,
            garbles,
        };
        assert!(may_show(Sight::StaleBlock, &terms(Data::Writeback, false)));
        assert!(!may_show(Sight::StaleBlock, &terms(Data::Ordered, true)));
        assert!(may_show(Sight::TornPage, &terms(Data::Ordered, true)));
        assert!(!may_show(Sight::TornPage, &terms(Data::Ordered, false)));
        assert!(!may_show(Sight::TornPage, &terms(Data::Journal, true)));
        let ordered = terms(Data::Ordered, false);
        let by_inode = Terms {
            by_inode: true,
            page_bytes: BLOCK_BYTES as u64,
            pieces: false,
            ..ordered
        };
        for (terms, names) in [(ordered, Cover::Everything), (by_inode, Cover::Inode)] {
            assert_eq!(terms.cover(Call::SyncDir, What::Names), names);
            assert_eq!(terms.cover(Call::Sync, What::Names), Cover::Everything);
        }
    }
}
