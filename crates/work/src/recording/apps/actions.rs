//! What an application does: an action is a series of calls that a library of the phone makes.
//!
//! The calls of a SQLite transaction with a rollback journal are those in Mobibench's recording of
//! Facebook. The journal is opened, filled (a header with the first page's number and content, then
//! number, page and checksum of each) and synced, and its folder is synced, because the file was
//! opened anew. Then the pages of the database are written and synced. At the end the journal is
//! truncated, which the recording does not show, and closed ([`Kind::Rollback`]), or closed and
//! removed ([`Kind::Delete`]).

use super::parameters::Parameters;
use super::phone::{Phone, Thread};
use crate::recording::{Handle, Op};
use base::Nanos;
use std::collections::VecDeque;

/// Bytes of a database page.
pub const PAGE: u32 = 4096;
/// Pages of a database that is there before the first call.
const DATABASE_PAGES: u64 = 512;
/// Header of a rollback journal: one sector.
const JOURNAL_HEADER: u32 = 512;
/// Bytes of the header of a write-ahead log, and of the header of each frame.
const WAL_HEADER: (u32, u32) = (32, 24);
/// Frames after which a write-ahead log starts again (SQLite's `wal_autocheckpoint` is 1000;
/// Android sets 100).
const WAL_FRAMES: u64 = 100;
/// Files of the cache before the first call.
const CACHED: u32 = 40;
/// Number of preference files.
const PREFERENCES: u64 = 8;

/// Number of files of other applications and the system, and how many of them are in use. With this
/// distance the inodes of those in use lie in different blocks.
const STATES: (u32, u32) = (192, 16);
/// Number of the first thread that does not sync.
const OTHERS: u32 = 20;
/// Number of threads that do not sync.
const OTHER_COUNT: usize = 4;

/// The actions that sync.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A SQLite transaction whose rollback journal is truncated.
    Rollback,
    /// A SQLite transaction whose rollback journal is removed.
    Delete,
    /// A SQLite transaction in a write-ahead log.
    Wal,
    /// A page of a file is written again.
    Overwrite,
    /// A new cache file is made and the oldest is removed.
    Cache,
    /// A preference file is replaced.
    Prefs,
}

impl Kind {
    /// Number of fsyncs of the action.
    pub const fn fsyncs(self) -> u32 {
        match self {
            Kind::Rollback | Kind::Delete => 3,
            Kind::Wal | Kind::Overwrite | Kind::Cache | Kind::Prefs => 1,
        }
    }

    /// Number of commits of the action: the folder of a journal is committed with the journal.
    pub const fn commits(self) -> usize {
        match self {
            Kind::Rollback | Kind::Delete => 2,
            Kind::Wal | Kind::Overwrite | Kind::Cache | Kind::Prefs => 1,
        }
    }
}

/// What a thread that does not sync does beside an action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Other {
    /// Makes a file and removes an old one.
    Made,
    /// Writes a page of a file that is there.
    Written,
}

/// One action to be recorded.
pub struct Action {
    /// Its kind.
    pub kind: Kind,
    /// Pages of its transaction or file.
    pub pages: u32,
    /// What other threads do before each of its commits.
    pub others: VecDeque<Vec<Other>>,
}

/// What other threads do beside an action, and when they begin.
struct Beside {
    start: Nanos,
    others: Vec<Other>,
}

/// The database of one worker.
struct Database {
    path: String,
    file: Handle,
    log: Option<Handle>,
    frames: u64,
}

/// The files of an application while calls are recorded.
pub struct Files {
    root: String,
    databases: Vec<Database>,
    caches: VecDeque<u32>,
    next_cache: u32,
    others: VecDeque<(u64, u32)>,
    next_other: u32,
    shards: u64,
    states: Vec<Handle>,
}

impl Files {
    /// Puts in place what is there before the first call, and opens the databases.
    pub fn prepare(phone: &mut Phone<'_>, app: &Parameters, thread: &mut Thread) -> Files {
        let root = format!("/data/data/{}", app.package);
        for folder in ["cache", "databases", "shared_prefs"] {
            phone.folder(&format!("{root}/{folder}"));
        }
        let mut files = Files {
            root,
            databases: Vec::new(),
            caches: VecDeque::new(),
            next_cache: 0,
            others: VecDeque::new(),
            next_other: 0,
            shards: app.shards.into(),
            states: Vec::new(),
        };
        for shard in 0..files.shards {
            phone.folder(&files.shard(shard));
        }
        for n in 0..app.kept {
            let shard = phone.between(0, files.shards);
            phone.file(files.other(shard, n), PAGE.into());
            files.others.push_back((shard, n));
        }
        files.next_other = app.kept;
        for n in 0..CACHED {
            phone.file(files.cache(n), u64::from(PAGE));
            files.caches.push_back(n);
        }
        files.next_cache = CACHED;
        for n in 0..PREFERENCES {
            phone.file(files.prefs(n), u64::from(PAGE));
        }
        files.open_states(phone, thread);
        files.open_databases(phone, app, thread);
        files
    }

    fn open_states(&mut self, phone: &mut Phone<'_>, thread: &mut Thread) {
        let path = |n| format!("/data/system/{n:03}.state");
        phone.folder("/data/system");
        (0..STATES.0).for_each(|n| phone.file(path(n), PAGE.into()));
        let used = (0..STATES.0).step_by(STATES.1 as usize);
        self.states = used.map(|n| phone.open(thread, &path(n))).collect();
    }

    fn open_databases(&mut self, phone: &mut Phone<'_>, app: &Parameters, thread: &mut Thread) {
        for n in 0..app.workers {
            let path = format!("{}/databases/{n}.db", self.root);
            phone.file(path.clone(), DATABASE_PAGES * u64::from(PAGE));
            let file = phone.open(thread, &path);
            phone.read(thread, file, 0, 100);
            let log = (app.mix.wal > 0.0).then(|| {
                // The log was full once. From then on its frames are written over, as on a phone
                // that is in use.
                let bytes = u64::from(WAL_HEADER.0) + WAL_FRAMES * u64::from(WAL_HEADER.1 + PAGE);
                phone.file(format!("{path}-wal"), bytes);
                phone.open(thread, &format!("{path}-wal"))
            });
            self.databases.push(Database {
                path,
                file,
                log,
                frames: 0,
            });
        }
    }

    /// Closes all that is open.
    pub fn close(self, phone: &mut Phone<'_>, thread: &mut Thread) {
        for database in self.databases {
            if let Some(log) = database.log {
                phone.close(thread, log);
            }
            phone.close(thread, database.file);
        }
        for state in self.states {
            phone.close(thread, state);
        }
    }

    fn shard(&self, n: u64) -> String {
        format!("{}/cache/images/{n:02x}", self.root)
    }

    fn other(&self, shard: u64, n: u32) -> String {
        format!("{}/{n:08x}.jpg", self.shard(shard))
    }

    fn cache(&self, n: u32) -> String {
        format!("{}/cache/f_{n:06x}", self.root)
    }

    fn prefs(&self, n: u64) -> String {
        format!("{}/shared_prefs/{n}.xml", self.root)
    }

    /// Records one action of a worker.
    pub fn act(
        &mut self,
        phone: &mut Phone<'_>,
        thread: &mut Thread,
        worker: usize,
        mut action: Action,
    ) {
        let begun = Beside {
            start: thread.now,
            others: action.others.pop_front().unwrap_or_default(),
        };
        let (pages, kind) = (action.pages, action.kind);
        match kind {
            Kind::Rollback | Kind::Delete => {
                let second = action.others.pop_front().unwrap_or_default();
                self.rollback(phone, thread, worker, (begun, second), action);
            }
            Kind::Wal => self.append_log(phone, thread, worker, begun, pages),
            Kind::Overwrite => self.overwrite(phone, thread, worker, begun, pages),
            Kind::Cache => self.new_cache_file(phone, thread, begun, pages),
            Kind::Prefs => self.replace_prefs(phone, thread, begun, pages),
        }
    }

    fn rollback(
        &mut self,
        phone: &mut Phone<'_>,
        thread: &mut Thread,
        worker: usize,
        others: (Beside, Vec<Other>),
        action: Action,
    ) {
        let (pages, remove) = (action.pages, action.kind == Kind::Delete);
        let file = self.databases[worker].file;
        let name = format!("{}-journal", self.databases[worker].path);
        phone.read(thread, file, 24, 16);
        let journal = phone.open(thread, &name);
        let folder = phone.open_folder(thread, &format!("{}/databases", self.root));
        phone.write(thread, journal, 0, JOURNAL_HEADER + PAGE + 8);
        let mut at = u64::from(JOURNAL_HEADER + PAGE + 8);
        for _ in 1..pages {
            phone.write(thread, journal, at, 4);
            phone.write(thread, journal, at + 4, PAGE);
            phone.write(thread, journal, at + 4 + u64::from(PAGE), 4);
            at += u64::from(PAGE) + 8;
        }
        self.sync(phone, thread, journal, others.0);
        phone.sync(thread, folder);
        let begun = Beside {
            start: thread.now,
            others: others.1,
        };
        phone.close(thread, folder);
        write_pages(phone, thread, file, pages);
        self.sync(phone, thread, file, begun);
        if remove {
            phone.close(thread, journal);
            phone.unlink(thread, name);
        } else {
            phone.call(
                thread,
                Op::Truncate {
                    handle: journal,
                    size: 0,
                },
            );
            phone.close(thread, journal);
        }
    }

    fn append_log(
        &mut self,
        phone: &mut Phone<'_>,
        thread: &mut Thread,
        worker: usize,
        others: Beside,
        pages: u32,
    ) {
        let database = &mut self.databases[worker];
        let log = database.log.expect("an app with a share of it has a log");
        if database.frames + u64::from(pages) > WAL_FRAMES {
            // The pages go to the database without a sync of their own before the log starts again,
            // as in a checkpoint by a reader.
            write_pages(phone, thread, database.file, pages);
            database.frames = 0;
            phone.write(thread, log, 0, WAL_HEADER.0);
        }
        for _ in 0..pages {
            let at = u64::from(WAL_HEADER.0) + database.frames * u64::from(PAGE + WAL_HEADER.1);
            phone.write(thread, log, at, WAL_HEADER.1);
            phone.write(thread, log, at + u64::from(WAL_HEADER.1), PAGE);
            database.frames += 1;
        }
        self.sync(phone, thread, log, others);
    }

    fn overwrite(
        &mut self,
        phone: &mut Phone<'_>,
        thread: &mut Thread,
        worker: usize,
        others: Beside,
        pages: u32,
    ) {
        let file = self.databases[worker].file;
        write_pages(phone, thread, file, pages);
        self.sync(phone, thread, file, others);
    }

    fn new_cache_file(
        &mut self,
        phone: &mut Phone<'_>,
        thread: &mut Thread,
        others: Beside,
        pages: u32,
    ) {
        let n = self.next_cache;
        self.next_cache += 1;
        let file = phone.open(thread, &self.cache(n));
        write_file(phone, thread, file, pages);
        self.sync(phone, thread, file, others);
        phone.close(thread, file);
        self.caches.push_back(n);
        if let Some(old) = self.caches.pop_front() {
            phone.unlink(thread, self.cache(old));
        }
    }

    fn replace_prefs(
        &mut self,
        phone: &mut Phone<'_>,
        thread: &mut Thread,
        others: Beside,
        pages: u32,
    ) {
        let to = self.prefs(phone.rng.below(PREFERENCES));
        let backup = format!("{to}.bak");
        let rename = Op::Rename {
            from: to.clone(),
            to: backup.clone(),
        };
        phone.call(thread, rename);
        let file = phone.open(thread, &to);
        write_file(phone, thread, file, pages);
        self.sync(phone, thread, file, others);
        phone.close(thread, file);
        phone.unlink(thread, backup);
    }

    /// Syncs after the last call of the other threads. They began beside the action's first call
    /// and not earlier: the time between a sync and the next call of its thread is the recording
    /// device's and must not become theirs.
    fn sync(&mut self, phone: &mut Phone<'_>, thread: &mut Thread, file: Handle, beside: Beside) {
        let end = self.others_do(phone, beside.start, beside.others);
        thread.now = thread.now.max(end);
        phone.sync(thread, file);
    }

    /// Records what other threads do from `start` on; returns when the last of them is done.
    fn others_do(&mut self, phone: &mut Phone<'_>, start: Nanos, others: Vec<Other>) -> Nanos {
        let mut threads: Vec<Thread> = (OTHERS..)
            .take(OTHER_COUNT)
            .map(|number| Thread { number, now: start })
            .collect();
        for (n, other) in others.into_iter().enumerate() {
            let thread = &mut threads[n % OTHER_COUNT];
            match other {
                Other::Made => self.turn_over(phone, thread),
                Other::Written => {
                    let state = self.states[phone.rng.below(self.states.len() as u64) as usize];
                    phone.write(thread, state, 0, PAGE);
                }
            }
        }
        let ends = threads.into_iter().map(|thread| thread.now);
        ends.max().unwrap_or(start)
    }

    fn turn_over(&mut self, phone: &mut Phone<'_>, thread: &mut Thread) {
        let (shard, n) = (phone.between(0, self.shards), self.next_other);
        self.next_other += 1;
        let file = phone.open(thread, &self.other(shard, n));
        let bytes = phone.between(u64::from(PAGE) / 4, u64::from(PAGE));
        phone.write(thread, file, 0, bytes as u32);
        phone.close(thread, file);
        self.others.push_back((shard, n));
        if let Some((shard, old)) = self.others.pop_front() {
            phone.unlink(thread, self.other(shard, old));
        }
    }
}

/// Writes a new file of `pages` pages, the last one not full.
fn write_file(phone: &mut Phone<'_>, thread: &mut Thread, file: Handle, pages: u32) {
    let rest = phone.between(u64::from(PAGE) / 8, u64::from(PAGE)) as u32;
    for page in 0..pages {
        let bytes = if page + 1 == pages { rest } else { PAGE };
        phone.write(thread, file, u64::from(page) * u64::from(PAGE), bytes);
    }
}

/// Writes the first page of a database, which counts its changes, and others.
fn write_pages(phone: &mut Phone<'_>, thread: &mut Thread, file: Handle, pages: u32) {
    phone.write(thread, file, 0, PAGE);
    let first = phone.between(1, DATABASE_PAGES);
    for n in 1..u64::from(pages) {
        // The first 73 are distinct: beside the first page the database has 7 * 73.
        let page = 1 + (first + n * 7) % (DATABASE_PAGES - 1);
        phone.write(thread, file, page * u64::from(PAGE), PAGE);
    }
}
