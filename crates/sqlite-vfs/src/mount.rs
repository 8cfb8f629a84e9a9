//! State that the connections on one mounted volume share.

use crate::ahead::Length;
use crate::error::{self, During};
use crate::held::Journal;
use crate::locks::FileLocks;
use crate::options::Options;
use crate::shm::Shm;
use base::{Ino, Map};
use rt::{Mutex, Payload};
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use vfs::{Errno, FsError, FsResult, Vfs};

/// Locks, WAL index and held journal of one database file, or the length of one log, shared by all
/// its open files.
pub(crate) struct Node {
    pub(crate) ino: Ino,
    pub(crate) locks: Mutex<FileLocks>,
    pub(crate) shm: Mutex<Shm>,
    /// Its rollback journal.
    pub(crate) journal: Mutex<Journal>,
    /// Of a write-ahead log: how long it is; `None`: as its file.
    pub(crate) log: Mutex<Option<Length>>,
}

/// A [`Vfs`] as SQLite sees it.
pub struct Mount {
    pub(crate) vfs: Arc<Vfs>,
    pub(crate) options: Options,
    nodes: Mutex<Map<Ino, Weak<Node>>>,
    /// Open files of SQLite.
    pub(crate) files: AtomicUsize,
    temp_names: AtomicU64,
    /// Calls that had nothing to do, which are points of a schedule all the same.
    pub(crate) idle_calls: rt::atomic::AtomicU64,
    /// A journal was removed or emptied, and nothing has made that durable. Locked while that is
    /// done: until then no other connection may take it for done.
    ended_journal: Mutex<bool>,
    last_errno: AtomicI32,
    first_error: Mutex<Option<String>>,
    panic: Mutex<Option<Payload>>,
    listener: Option<Listener>,
    gone: Option<Gone>,
    /// The process whose threads do the work of the mount; `None`: not checked.
    process: Option<u32>,
}

/// Waits for the locks of users that have ended to be free.
pub type Gone = Box<dyn Fn() + Send + Sync>;

/// Hears of each error of the file system: SQLite's code, the number of the error, the text. It
/// must not wait.
pub type Listener = Box<dyn Fn(c_int, c_int, &str) + Send + Sync>;

impl Mount {
    /// A mount on which nothing is open.
    pub fn new(vfs: Arc<Vfs>, options: Options) -> Mount {
        Mount::made(vfs, options, None, None)
    }

    /// A mount in the real world that refuses all calls in processes that fork from this one: a
    /// fork copies its state, but not the threads that do its work, so a call could wait for ever
    /// (sqlite-ext-E5).
    /// `listener` hears of errors.
    pub fn of_this_process(vfs: Arc<Vfs>, options: Options, listener: Listener) -> Mount {
        Mount::made(vfs, options, Some(listener), Some(this_process()))
    }

    /// The same mount; a lock that is taken is tried again after `gone` has waited.
    pub fn waiting(mut self, gone: Gone) -> Mount {
        self.gone = Some(gone);
        self
    }

    /// Whether a lock that was found taken may be free now: where others are served, one of them
    /// may have ended between the look at the lock and the look for those that have.
    pub(crate) fn waited_for_gone(&self) -> bool {
        self.gone.as_ref().is_some_and(|gone| {
            gone();
            true
        })
    }

    /// Whether this process forked from the one that mounted.
    pub fn is_of_another_process(&self) -> bool {
        self.process
            .is_some_and(|process| process != this_process())
    }

    fn made(
        vfs: Arc<Vfs>,
        options: Options,
        listener: Option<Listener>,
        process: Option<u32>,
    ) -> Mount {
        Mount {
            vfs,
            options,
            nodes: Mutex::named("sqlite nodes", Map::default()),
            files: AtomicUsize::new(0),
            temp_names: AtomicU64::new(0),
            idle_calls: rt::atomic::AtomicU64::new(0),
            ended_journal: Mutex::named("sqlite ended journal", false),
            last_errno: AtomicI32::new(0),
            first_error: Mutex::named("sqlite first error", None),
            panic: Mutex::named("sqlite panic", None),
            listener,
            gone: None,
            process,
        }
    }

    /// The mount's files.
    pub fn vfs(&self) -> &Arc<Vfs> {
        &self.vfs
    }
    /// What SQLite is told.
    pub fn options(&self) -> Options {
        self.options
    }
    /// Files that SQLite has open.
    pub fn open_files(&self) -> usize {
        self.files.load(Ordering::Relaxed)
    }

    /// A file that may be a journal was removed or emptied, and was not synced.
    pub(crate) fn journal_ended(&self) {
        *self.ended_journal.lock() = true;
    }

    /// Makes the ends of journals durable where the sync of a database would not (batch-T1).
    pub(crate) fn sync_ended_journals(&self) -> FsResult<()> {
        if self.vfs.sync_keeps_order() {
            return Ok(());
        }
        let mut ended = self.ended_journal.lock();
        if *ended {
            self.vfs.sync()?;
            *ended = false;
        }
        Ok(())
    }

    /// Whether rollback journals are held in memory here.
    pub(crate) fn holds_journals(&self) -> bool {
        self.options.hold_journals && self.vfs.has_atomic_writes()
    }

    /// The node of an inode that the caller holds open.
    pub(crate) fn node(&self, ino: Ino) -> Arc<Node> {
        let mut nodes = self.nodes.lock();
        if let Some(node) = nodes.get(&ino).and_then(Weak::upgrade) {
            return node;
        }
        let node = Arc::new(Node {
            ino,
            locks: Mutex::named("sqlite file lock", FileLocks::default()),
            shm: Mutex::named("sqlite wal index", Shm::new(self.options.shared_index)),
            journal: Mutex::named("sqlite held journal", Journal::default()),
            log: Mutex::named("sqlite log length", None),
        });
        nodes.insert(ino, Arc::downgrade(&node));
        node
    }

    /// Gives a node back, before the inode is closed: its number may be used again after that.
    pub(crate) fn put(&self, node: Arc<Node>) {
        let mut nodes = self.nodes.lock();
        let ino = node.ino;
        drop(node);
        if nodes.get(&ino).is_some_and(|weak| weak.strong_count() == 0) {
            nodes.remove(&ino);
        }
    }

    /// A name for a temporary file that no other one of this registration has. Something else on
    /// the volume may have it.
    pub(crate) fn temp_name(&self) -> Vec<u8> {
        let n = self.temp_names.fetch_add(1, Ordering::Relaxed);
        format!("/.varve-sqlite-temp-{n}").into_bytes()
    }

    /// A name for a temporary file that nothing on the volume has now.
    pub(crate) fn free_temp_name(&self) -> Vec<u8> {
        loop {
            let name = self.temp_name();
            if self.vfs.lstat(&name).is_err() {
                return name;
            }
        }
    }

    /// Notes an error of the file system and answers SQLite's code for it.
    pub fn fail(&self, during: During, path: &[u8], error: &FsError) -> c_int {
        let code = error::code(during, error);
        self.last_errno
            .store(error.errno().code(), Ordering::Relaxed);
        let is_missing = matches!(error, FsError::Posix(Errno::NoEnt));
        let text = format!("{during:?} of {}: {error}", String::from_utf8_lossy(path));
        // Whether a journal is there is asked by deleting it; only what was to be opened is missed.
        if !is_missing || during == During::Open {
            self.tell(code, error.errno().code(), &text);
        }
        if !is_missing {
            self.first_error.lock().get_or_insert(text);
        }
        code
    }

    /// Tells the listener: SQLite's code, the number of the error, the text.
    pub(crate) fn tell(&self, code: c_int, errno: c_int, text: &str) {
        if let Some(listener) = &self.listener {
            listener(code, errno, text);
        }
    }

    /// The number of the last error of the file system, for xGetLastError; 0: none.
    pub fn last_errno(&self) -> i32 {
        self.last_errno.load(Ordering::Relaxed)
    }
    /// The error of the file system that first failed a call.
    pub fn first_error(&self) -> Option<String> {
        self.first_error.lock().clone()
    }
    /// Keeps the first panic (sqlite-S3).
    pub fn keep_panic(&self, payload: Payload) {
        self.panic.lock().get_or_insert(payload);
    }
    /// The payload of the first panic in a callback, for `std::panic::resume_unwind`.
    pub fn take_panic(&self) -> Option<Payload> {
        self.panic.lock().take()
    }
}

/// The number of the process. It is compared and nothing else, so it changes no run.
#[allow(clippy::disallowed_methods)]
pub fn this_process() -> u32 {
    std::process::id()
}
