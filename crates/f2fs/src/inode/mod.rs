//! Inodes in memory. The order of their locks is at the head of the crate.
//!
//! Invariants:
//! - N1 outside an `Op`, the inode's node block in `nodes` holds what `core.fields` says
//!   ([`put_inode`](crate::F2fs::put_inode)), except for access times ([`access`](mod@access)) and,
//!   with a journal, the size of a regular file (N2);
//! - N2 an inode stays in memory while it is pinned, is an orphan, has no links, has dirty pages or
//!   pages whose writes are under way, while an atomic write of it is open or being committed,
//!   while its next fsync needs a checkpoint or has a failed write to report, and while its access
//!   time waits to be put. With a journal the node block of a regular file has the size up to which
//!   its pages are mapped (`node_size`), and the inode stays while that differs from its size;
//! - N3 `gone` inodes are freed: their number may already belong to another inode;
//! - N4 of the copies of an inode that tasks read at the same time one comes into the cache, and it
//!   is what `nodes` has: an inode is changed and freed only while it is in the cache, so it is as
//!   it was read if it was in the cache neither before nor after the reading, and no inode has left
//!   the cache in between. Otherwise it is read again.

mod access;
mod attr;
mod cache;
mod extensions;
mod flags;
mod life;
mod orphans;
mod refuse;
mod table;

pub(crate) use orphans::Orphans;
pub(crate) use refuse::Use;
pub(crate) use table::Inodes;

use crate::dir::NameIndex;
use crate::flights::Flights;
use crate::map::Tree;
use base::Ino;
use block::WriteMark;
use fscore::{FileKind, FsError, FsResult, WriteErrors};
use ondisk::f2fs::{InodeFields, Nid};
use rt::atomic::AtomicBool;
use rt::{Mutex, MutexGuard, RwLock};

/// An inode in memory.
pub(crate) struct Inode {
    /// Its number.
    pub ino: Ino,
    /// The gate: see the table of locks at the head of the crate.
    pub gate: RwLock<()>,
    pub wb: Mutex<()>,
    pub tree: Mutex<Tree>,
    /// Writes of data under way.
    pub flights: Flights,
    /// Of a directory: what is known of the names in it. Innermost lock.
    pub(crate) names: Mutex<Option<Box<NameIndex>>>,
    /// Looked up since the cache last thought of dropping it.
    recent: AtomicBool,
    core: Mutex<Core>,
}

/// What has changed in an inode since its node block last went out: what fsync and fdatasync have
/// to write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Change {
    /// Nothing.
    #[default]
    None,
    /// Times only: fdatasync leaves them out.
    Times,
    /// Something that is needed to read the data back.
    Data,
}

/// The fields of an inode in memory.
pub(crate) struct Core {
    /// The fields of the inode as its node block has them (N1), without addresses.
    pub fields: InodeFields,
    /// The size in the inode block. With a journal the size of a regular file there grows only when
    /// pages are mapped: after a cut no size shows that comes from a write whose pages were not
    /// written.
    pub node_size: u64,
    /// With a journal: the inode block names a largest run, which is not kept up to date. It is
    /// cleared with the next change.
    pub stale_extent: bool,
    /// How many times it is open.
    pub pins: u32,
    /// Freed (N3).
    pub gone: bool,
    /// It is being freed with its last name, and takes no pins (last_name-L2).
    pub leaving: bool,
    /// Links are 0 and it is in the list of orphans.
    pub orphan: bool,
    /// Change since its node block was last written.
    pub change: Change,
    /// Data went to new addresses since the last fsync or checkpoint (Linux `FI_APPEND_WRITE`).
    pub appended: bool,
    /// Data was overwritten in place since the last fsync (Linux `FI_UPDATE_WRITE`).
    pub updated: bool,
    /// A link was added or the name changed since the last checkpoint: fsync needs a checkpoint.
    pub needs_checkpoint: bool,
    /// An atomic write is being committed: fsync marks only the last of its node blocks, and sends
    /// that one behind a flush.
    pub atomic: bool,
    /// An atomic write is open: the size that its writes gave the file.
    pub atomic_size: Option<u64>,
    /// Failures of write-back.
    pub write_errors: WriteErrors,
    /// The access time is newer than what the inode block says.
    pub access_waits: bool,
    /// Where the last read ended, to notice sequential reading.
    pub read_end: u64,
}

impl Core {
    pub fn new(fields: InodeFields) -> Core {
        Core {
            node_size: fields.size,
            stale_extent: fields.ext.len > 0,
            fields,
            pins: 0,
            gone: false,
            leaving: false,
            orphan: false,
            change: Change::None,
            appended: false,
            updated: false,
            needs_checkpoint: false,
            atomic: false,
            atomic_size: None,
            write_errors: WriteErrors::default(),
            access_waits: false,
            read_end: 0,
        }
    }

    /// Something beyond times changed.
    pub fn changed(&mut self) {
        self.change = Change::Data;
    }

    /// Sets change time, and with `modify` the modification time, to now. Does not put the inode.
    pub fn touch(&mut self, modify: bool) {
        life::touch(&mut self.fields, modify);
        self.change = self.change.max(Change::Times);
    }
}

impl Inode {
    pub fn new(ino: Ino, core: Core, tree: Tree, mark: WriteMark) -> Inode {
        Inode {
            ino,
            gate: RwLock::named("f2fs inode gate", ()),
            wb: Mutex::named("f2fs inode write-back", ()),
            tree: Mutex::named("f2fs inode tree", tree),
            flights: Flights::new(mark),
            names: Mutex::named("f2fs names of a directory", None),
            recent: AtomicBool::new(false),
            core: Mutex::named("f2fs inode core", core),
        }
    }

    /// The fields. Never held over another call of the file system.
    pub fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }

    /// Its node number: that of its inode block.
    pub fn nid(&self) -> Nid {
        Nid(self.ino.0)
    }

    /// Its kind.
    /// # Errors
    /// The mode has no valid file type.
    pub fn kind(&self) -> FsResult<FileKind> {
        let mode = self.core().fields.mode;
        FileKind::from_mode(mode).ok_or_else(|| self.no_kind(mode))
    }

    fn no_kind(&self, mode: u16) -> FsError {
        FsError::corrupt(format!(
            "inode {}: mode {mode:#o} has no file type",
            self.ino
        ))
    }

    /// True for a directory.
    pub fn is_dir(&self) -> bool {
        self.core().fields.mode & 0o170_000 == FileKind::Dir.mode_bits()
    }
}
