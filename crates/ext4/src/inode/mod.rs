//! Inodes in memory.
//!
//! Locks of an inode, in their order (rule 12):
//!
//! | lock | held by | guards |
//! |---|---|---|
//! | `gate` | operations, from start to end; several inodes by ascending number | content, name space (Linux `i_rwsem`) |
//! | `wb` | write-back and truncation | which pages are on their way |
//! | `filling` | a task that reads ahead | nothing: it saves reading pages twice |
//! | (a journal handle) | | |
//! | `tree` | tasks that read or change the block mapping | the extent tree (Linux `i_data_sem`) |
//! | `core` | short looks and changes | the fields |
//!
//! Invariants:
//! - N1 a change of `disk` reaches the journal (`put_inode`) in the handle in which it was made;
//! - N2 `disk.size()` (Linux `i_disksize`) never exceeds `size`; blocks below it are mapped, or
//!   holes by intent;
//! - N3 an inode stays in the cache while it has dirty pages, data on its way, promised blocks or a
//!   failed write to report, and while it is an orphan or without links;
//! - N4 a pinned inode that leaves the cache leaves its pins in the cache, and gets them back when
//!   it is read again: it keeps its number;
//! - N5 of the copies of an inode that tasks read at the same time one comes into the cache, and it
//!   is what the journal has: an inode is changed only while it is in the cache, so it is as it was
//!   read if it was in the cache neither before nor after the reading, and no inode has left its
//!   part of the cache in between. Otherwise it is read again;
//! - N6 the cache has parts with a lock each, a number always leads to the same part, and no task
//!   holds two of these locks. So what N3 to N5 say of an inode is decided under one lock: whether
//!   it is in memory and idle, its pins, and whether it has left. The maximum of idle inodes holds
//!   for all parts together. The list of all inodes is made part by part and is not of one moment;
//!   it has each inode that was in memory before it was begun and still is when it is done. That is
//!   all that who looks through it needs: dirty pages, data on its way, promises and orphans keep
//!   their inode there (N3), and a window is closed under the lock of the part when its inode
//!   leaves.

mod cache;
mod create;
mod evict;
mod table;

pub(crate) use cache::{InodeCache, Pinned};
pub(crate) use create::CREDITS_NEW_INODE;
pub(crate) use evict::CREDITS_EVICT;

use crate::group::Window;
use crate::orphan::Place;
use base::{Ino, Tid};
use block::{Watch, WriteMark};
use fscore::{FileKind, FsError, FsResult, ReadAhead, WriteErrors};
use ondisk::ext4 as disk;
use ondisk::ext4::{Extent, InodeFlags, Timestamp};
use rt::{Mutex, MutexGuard, RwLock, WallTime};
use smallvec::SmallVec;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// Granule of time stamps: Linux takes the time of the last tick (CONFIG_HZ=250).
const TICK_NANOS: u32 = 4_000_000;

/// An inode in memory.
pub(crate) struct Inode {
    /// Its number.
    pub ino: Ino,
    /// Lock of an operation on the inode; see the module.
    pub gate: RwLock<()>,
    pub(crate) tree: RwLock<()>,
    pub(crate) wb: Mutex<()>,
    /// Data on its way to the device, oldest first.
    pub(crate) flights: Mutex<VecDeque<Flight>>,
    /// Held by a task that reads ahead: another task that needs these pages waits for them instead
    /// of reading them again.
    pub(crate) filling: Mutex<()>,
    core: Mutex<Core>,
}

/// Data on its way to the device.
pub(crate) struct Flight {
    pub pages: Range<u64>,
    pub watch: Watch,
}

/// The fields of an inode. Public ones may be used by the holder of the gate.
pub(crate) struct Core {
    /// The inode as it will be on the device; its size is the size on the device.
    pub disk: disk::Inode,
    /// The bytes of `disk` as last handed to the journal.
    logged: SmallVec<[u8; disk::INODE_BYTES_COMMON]>,
    /// Bytes of the file as `stat` reports them (Linux `i_size`).
    pub size: u64,
    /// Number of opens.
    pub pins: u32,
    /// Last transaction with a change of this inode.
    pub(crate) sync_tid: Tid,
    /// Last transaction with a change needed to read the data back.
    pub(crate) datasync_tid: Tid,
    /// Number of changes handed to the journal so far.
    pub(crate) changes: Changes,
    /// The changes among them that an fsync without journal has written home.
    pub(crate) changes_home: Changes,
    /// Covers all data of this file that went through the device's cache and has landed: an fsync
    /// returns when this mark is flushed (sync-F4). For a file whose past is unknown it covers all
    /// data that was ever written.
    pub(crate) data_mark: WriteMark,
    /// Where the inode is named as an orphan, if it is one.
    pub(crate) orphan: Option<Place>,
    /// The transaction that made it an orphan; `None`: an earlier mount.
    pub(crate) orphan_since: Option<Tid>,
    /// True if the inode was made without a name, so that `link` may give it its first one.
    pub(crate) linkable: bool,
    /// True if the inode was freed; a handle to it is stale.
    pub(crate) gone: bool,
    /// Blocks promised for the delayed pages, and for the tree that will map them.
    pub(crate) promise: Promise,
    /// Failures of write-back.
    pub(crate) write_errors: WriteErrors,
    /// Notices sequential reading.
    pub(crate) read_ahead: ReadAhead,
    /// Free blocks kept for the file to grow into.
    pub(crate) window: Option<Window>,
    /// The extent found last.
    pub(crate) recent: Option<Extent>,
    /// The directory in which the inode was made since mount; an fsync without journal has to write
    /// its entry as well.
    pub(crate) born_in: Option<Ino>,
}

/// Counts of changes of an inode.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Changes {
    /// Changes of any kind.
    pub all: u64,
    /// Changes of what is needed to read the data back: size, mapping, flags.
    pub data: u64,
}

/// Promised blocks of one inode.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(crate) struct Promise {
    /// Delayed pages. Without clusters each holds a block.
    pub data: u64,
    /// Clusters of the file for which one is promised (promise-B6).
    pub clusters: BTreeSet<u64>,
    /// For extent blocks.
    pub meta: u64,
    /// Delayed pages that have a block already, which is unwritten (st_blocks counts it). After a
    /// truncation it may be too large, but never larger than `data`.
    pub owed: u64,
    /// True while write-back has taken the promise and changes the tree (promise-B4).
    pub busy: bool,
}

impl Inode {
    pub(crate) fn new(ino: Ino, core: Core) -> Inode {
        Inode {
            ino,
            gate: RwLock::named("inode gate", ()),
            tree: RwLock::named("inode tree", ()),
            wb: Mutex::named("inode write-back", ()),
            flights: Mutex::named("inode flights", VecDeque::new()),
            filling: Mutex::named("inode filling", ()),
            core: Mutex::named("inode core", core),
        }
    }

    /// The fields. Never held over an operation of the file system.
    pub fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }

    /// Its kind.
    ///
    /// # Errors
    /// The mode holds none.
    pub fn kind(&self) -> FsResult<FileKind> {
        self.core().kind(self.ino)
    }

    /// True for a directory.
    pub fn is_dir(&self) -> bool {
        self.core().disk.is_dir()
    }
}

impl Core {
    pub(crate) fn new(disk: disk::Inode, tid: Tid) -> Core {
        Core {
            logged: SmallVec::from_slice(disk.bytes()),
            size: disk.size(),
            disk,
            pins: 0,
            sync_tid: tid,
            datasync_tid: tid,
            // It is unknown whether the table block in memory holds changes that the one on the
            // device lacks.
            changes: Changes { all: 1, data: 1 },
            changes_home: Changes::default(),
            data_mark: WriteMark::NONE,
            orphan: None,
            orphan_since: None,
            linkable: false,
            gone: false,
            promise: Promise::default(),
            write_errors: WriteErrors::default(),
            read_ahead: ReadAhead::default(),
            window: None,
            recent: None,
            born_in: None,
        }
    }

    /// The inode as the journal has it.
    pub(crate) fn logged_bytes(&self) -> &[u8] {
        &self.logged
    }

    fn kind(&self, ino: Ino) -> FsResult<FileKind> {
        let mode = self.disk.mode();
        FileKind::from_mode(mode).ok_or_else(|| {
            FsError::corrupt(format!("inode {ino}: mode {mode:#o} has no file type"))
        })
    }

    /// The transaction that an fsync, or with `data_only` an fdatasync, waits for.
    pub(crate) fn tid_for(&self, data_only: bool) -> Tid {
        match data_only {
            true => self.datasync_tid,
            false => self.sync_tid,
        }
    }

    /// Sets the size in memory and on the device.
    pub fn set_size(&mut self, size: u64) {
        self.size = size;
        self.disk.set_size(size);
    }

    /// The time of the last tick, as far as the inode keeps it: one of 128 bytes has whole seconds
    /// (Linux `s_time_gran`), so that two writes within one second change no time.
    pub(crate) fn now(&self) -> Timestamp {
        let mut now = coarse_now();
        if self.disk.bytes().len() == disk::INODE_BYTES_OLD {
            now.nanos = 0;
        }
        now
    }

    /// Sets change time, and with `modify` the modification time, to now.
    pub fn touch(&mut self, modify: bool) {
        let now = self.now();
        self.disk.set_change_time(now);
        if modify {
            self.disk.set_modify_time(now);
        }
    }

    /// True if blocks are mapped by extents.
    pub(crate) fn has_extents(&self) -> bool {
        self.disk.flags().has(InodeFlags::EXTENTS)
    }

    /// True for inodes whose block area maps blocks, or would.
    pub(crate) fn maps_blocks(&self) -> bool {
        let kind = self.disk.is_regular() || self.disk.is_dir() || self.disk.is_symlink();
        kind && !self.is_inline()
    }

    /// True for a symbolic link whose target lies in the inode.
    pub(crate) fn is_fast_symlink(&self) -> bool {
        self.disk.is_symlink()
            && !self.has_extents()
            && !self.disk.flags().has(InodeFlags::INLINE_DATA)
            && self.size < disk::BLOCK_AREA_BYTES as u64
    }
}

/// The time of the last tick.
pub(crate) fn coarse_now() -> Timestamp {
    let WallTime { secs, nanos } = rt::wall();
    Timestamp {
        secs,
        nanos: nanos - nanos % TICK_NANOS,
    }
}

pub(crate) fn to_wall(t: Timestamp) -> WallTime {
    WallTime {
        secs: t.secs,
        nanos: t.nanos,
    }
}

/// A time clipped to the range that the inode can hold; at the ends of that range the nanoseconds
/// are 0 (Linux `timestamp_truncate`).
pub(crate) fn from_wall(t: WallTime) -> Timestamp {
    let between = Timestamp::MIN_SECS < t.secs && t.secs < Timestamp::MAX_SECS;
    Timestamp {
        secs: t.secs,
        nanos: if between { t.nanos } else { 0 },
    }
}
