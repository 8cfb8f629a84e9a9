//! An open file of SQLite: reading, writing, syncing, locking. The border to C is in `io`.

use crate::batch::{self, Batch};
use crate::calls::Calls;
use crate::control;
use crate::cost;
use crate::error::During;
use crate::ffi;
use crate::locks::Level;
use crate::mount::{Mount, Node};
use crate::options::SyncCall;
use crate::shm::{Held, Shm};
use rt::Payload;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{FsError, FsResult, OpenFlags};

/// The number of that error on Linux.
const ENOMEM: c_int = 12;

/// State of one `sqlite3_file`; [`install`](crate::install) puts it behind the pointer.
pub struct SqliteFile {
    pub(crate) mount: Arc<Mount>,
    pub(crate) file: vfs::File,
    pub(crate) path: Vec<u8>,
    /// Locks and WAL index; main databases only.
    pub(crate) node: Option<Arc<Node>>,
    pub(crate) level: Level,
    pub(crate) shm: Option<Held>,
    /// The next sync is followed by one of the directory: the name is new (sqlite-S6).
    pub(crate) sync_dir: bool,
    pub(crate) powersafe_overwrite: bool,
    pub(crate) persist_wal: bool,
    /// `SQLITE_FCNTL_CHUNK_SIZE`, bytes; 0: none.
    pub(crate) chunk: u64,
    pub(crate) last_errno: i32,
    /// Writes that SQLite wants whole, while it makes them.
    pub(crate) batch: Option<Batch>,
    /// The last batch was refused, and nothing was written since.
    pub(crate) batch_refused: bool,
    /// This is a rollback journal, and this is its database.
    pub(crate) journal_of: Option<Arc<Node>>,
    /// This is a write-ahead log whose file is longer, and this is its node.
    pub(crate) log: Option<Arc<Node>>,
    /// The number of the held journal that this file began, which may have ended since.
    pub(crate) holds: Option<u64>,
    /// Writes of a database whose journal is held.
    pub(crate) pending: Batch,
}

impl SqliteFile {
    pub(crate) fn fail(&mut self, during: During, error: &FsError) -> c_int {
        self.last_errno = error.errno().code();
        self.mount.fail(during, &self.path, error)
    }
    /// SQLITE_OK, or the code of the error.
    pub(crate) fn outcome(&mut self, during: During, result: FsResult<()>) -> c_int {
        match result {
            Ok(()) => ffi::SQLITE_OK,
            Err(error) => self.fail(during, &error),
        }
    }

    /// Writes to the file itself.
    pub(crate) fn write_file(&mut self, mut offset: u64, mut data: &[u8]) -> c_int {
        match batch::before_write(self) {
            ffi::SQLITE_OK => {}
            failed => return failed,
        }
        while !data.is_empty() {
            match self.file.write_at(offset, data) {
                Ok(0) => return ffi::SQLITE_FULL,
                Ok(n) => {
                    offset += n as u64;
                    data = &data[n..];
                }
                Err(error) => return self.fail(During::Write, &error),
            }
        }
        ffi::SQLITE_OK
    }

    fn read_file(&mut self, offset: u64, buf: &mut [u8]) -> c_int {
        let read = match self.read_held(offset, buf) {
            Some(n) => Ok(n),
            None => self.file.read_at(offset, buf),
        };
        let log_end = self.log_size().unwrap_or(u64::MAX);
        let read = read.map(|n| n.min(log_end.saturating_sub(offset) as usize));
        match read {
            Ok(n) if n == buf.len() => ffi::SQLITE_OK,
            Ok(n) => {
                buf[n..].fill(0);
                ffi::SQLITE_IOERR_SHORT_READ
            }
            Err(error) => self.fail(During::Read, &error),
        }
    }

    /// Maps the WAL index if this connection has not yet, and calls `f` with it.
    pub(crate) fn with_shm<R>(&mut self, f: impl FnOnce(&mut Shm, &mut Held) -> R) -> Option<R> {
        let node = self.node.as_ref()?;
        if self.shm.is_none() {
            // The index ends with the last that has it; who has ended has it no more.
            self.mount.waited_for_gone();
        }
        let mut shm = node.shm.lock();
        let held = self.shm.get_or_insert_with(|| shm.attach());
        Some(f(&mut shm, held))
    }

    /// The memory of all regions of the WAL index, for another process to map; `None` if `region`
    /// does not exist and `extend` is false. The mount was made with
    /// [`Options::shared_index`](crate::Options::shared_index).
    ///
    /// # Errors
    /// SQLite's code.
    pub fn shared_region(
        &mut self,
        region: usize,
        bytes: usize,
        extend: bool,
    ) -> Result<Option<OwnedFd>, c_int> {
        if self.shm_map(region, bytes, extend)?.is_null() {
            return Ok(None);
        }
        let memory = self.with_shm(|shm, _| shm.memory());
        match memory.flatten() {
            Some(memory) => Ok(Some(memory)),
            None => Err(ffi::SQLITE_IOERR_SHMMAP),
        }
    }

    /// Whether it is a main database, which has locks.
    pub fn is_database(&self) -> bool {
        self.node.is_some()
    }

    /// Whether transactions need no journal file; main databases only.
    pub(crate) fn takes_batches(&self) -> bool {
        let mount = &self.mount;
        self.node.is_some() && mount.options.batch_atomic && mount.vfs.has_atomic_writes()
    }
}

impl Calls for SqliteFile {
    /// Fills `buf`, with zeros beyond the end of the file.
    fn read(&mut self, offset: u64, buf: &mut [u8]) -> c_int {
        cost::read(self, buf.len());
        let code = self.read_file(offset, buf);
        let batch = match &self.batch {
            None if self.pending.is_empty() => return code,
            None => &self.pending,
            Some(batch) => batch,
        };
        match code {
            ffi::SQLITE_OK | ffi::SQLITE_IOERR_SHORT_READ => batch.read_over(offset, buf),
            failed => return failed,
        }
        match offset + buf.len() as u64 <= batch.end() {
            true => ffi::SQLITE_OK,
            false => code,
        }
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> c_int {
        cost::write(self, data.len());
        if let Some(batch) = &mut self.batch {
            return match batch.has_room(data.len()) {
                true => {
                    batch.write(offset, data);
                    ffi::SQLITE_OK
                }
                // SQLite makes the transaction again, with a journal.
                false => ffi::SQLITE_IOERR_WRITE,
            };
        }
        if let Some(code) = self.write_held(offset, data) {
            return code;
        }
        if let Some(code) = self.keep_write(offset, data) {
            return code;
        }
        if let Some(code) = self.write_log(offset, data) {
            return code;
        }
        self.write_file(offset, data)
    }

    /// Rounded up to whole chunks, as the unix VFS does.
    fn truncate(&mut self, size: u64) -> c_int {
        if self.batch.is_some() {
            // SQLite truncates after the batch.
            return ffi::SQLITE_IOERR_TRUNCATE;
        }
        if let Some(code) = self.truncate_held(size) {
            return code;
        }
        if !self.pending.is_empty() {
            match self.settle() {
                ffi::SQLITE_OK => {}
                failed => return failed,
            }
        }
        let size = match self.chunk {
            0 => size,
            chunk => match size.checked_next_multiple_of(chunk) {
                Some(size) => size,
                None => return ffi::SQLITE_IOERR_TRUNCATE,
            },
        };
        let result = self.file.truncate(size);
        self.log_truncated();
        if self.node.is_none() {
            self.mount.journal_ended();
        }
        self.outcome(During::Truncate, result)
    }

    /// sqlite-S6. `flags` are ignored: fdatasync writes what SQLite needs, the size included, and
    /// Linux has no stronger sync.
    fn sync(&mut self) -> c_int {
        if let Some(code) = self.sync_held() {
            return code;
        }
        match self.commit_kept(false) {
            ffi::SQLITE_OK => {}
            failed => return failed,
        }
        let result = sync(&self.mount, &self.file);
        let code = self.outcome(During::Sync, result);
        if code != ffi::SQLITE_OK || !self.sync_dir {
            return code;
        }
        let result = sync_parent(&self.mount, &self.path);
        let code = self.outcome(During::DirSync, result);
        self.sync_dir = code != ffi::SQLITE_OK;
        code
    }

    fn size(&mut self) -> Result<u64, c_int> {
        if let Some(size) = self.size_held() {
            return Ok(size);
        }
        if let Some(size) = self.log_size() {
            return Ok(size);
        }
        let attr = self.file.stat();
        let written = self.batch.as_ref().unwrap_or(&self.pending).end();
        attr.map(|a| a.size.max(written))
            .map_err(|e| self.fail(During::Stat, &e))
    }

    fn lock(&mut self, want: c_int) -> c_int {
        let (Some(want), Some(node)) = (Level::from_code(want), &self.node) else {
            return ffi::SQLITE_OK;
        };
        let from = self.level;
        let mut locked = node.locks.lock().lock(&mut self.level, want);
        if locked.is_err() && self.mount.waited_for_gone() {
            locked = node.locks.lock().lock(&mut self.level, want);
        }
        cost::lock(self, from, self.level);
        match locked {
            Ok(()) => ffi::SQLITE_OK,
            Err(crate::locks::Busy) => ffi::SQLITE_BUSY,
        }
    }

    fn unlock(&mut self, to: c_int) -> c_int {
        if let (Some(to), Some(node)) = (Level::from_code(to), &self.node) {
            if to <= Level::Shared {
                // held-H3.
                self.pending = Batch::default();
                if self.level >= Level::Reserved {
                    node.journal.lock().drop_content();
                }
            }
            let from = self.level;
            node.locks.lock().unlock(&mut self.level, to);
            cost::lock(self, from, self.level);
        }
        ffi::SQLITE_OK
    }

    fn is_reserved(&mut self) -> Result<bool, c_int> {
        let reserved = |node: &Arc<Node>| node.locks.lock().is_reserved();
        let node = self.node.as_ref();
        let is = node.is_some_and(reserved);
        Ok(is && (!self.mount.waited_for_gone() || node.is_some_and(reserved)))
    }

    fn control(&mut self, op: c_int, value: i64) -> (c_int, i64) {
        control::number(self, op, value)
    }

    fn temp_name(&mut self) -> Option<Vec<u8>> {
        Some(self.mount.free_temp_name())
    }

    fn sector_bytes(&mut self) -> c_int {
        self.mount.options.sector_bytes
    }

    fn device_characteristics(&mut self) -> c_int {
        let powersafe = if self.powersafe_overwrite {
            ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
        } else {
            0
        };
        let batch = if self.takes_batches() {
            ffi::SQLITE_IOCAP_BATCH_ATOMIC
        } else {
            0
        };
        powersafe | batch | ffi::SQLITE_IOCAP_SUBPAGE_READ
    }

    fn shm_map(&mut self, region: usize, bytes: usize, extend: bool) -> Result<*mut c_void, c_int> {
        let found = self.with_shm(|shm, _| shm.region(region, bytes, extend));
        match found {
            Some(Ok(start)) => Ok(start.cast()),
            Some(Err(why)) => {
                let text = format!(
                    "WAL index of {}: {why}",
                    String::from_utf8_lossy(&self.path)
                );
                self.mount.tell(ffi::SQLITE_IOERR_SHMMAP, ENOMEM, &text);
                Err(ffi::SQLITE_IOERR_SHMMAP)
            }
            None => Err(ffi::SQLITE_IOERR_SHMMAP),
        }
    }

    fn shm_lock(&mut self, slots: Range<usize>, flags: c_int) -> c_int {
        if self.shm.is_none() {
            return ffi::SQLITE_IOERR_SHMLOCK;
        }
        let exclusive = flags & ffi::SQLITE_SHM_EXCLUSIVE != 0;
        let mount = Arc::clone(&self.mount);
        let mut lock = || {
            self.with_shm(|shm, held| {
                if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
                    shm.unlock(held, slots.clone());
                    return Ok(());
                }
                shm.lock(held, slots.clone(), exclusive)
            })
        };
        let mut done = lock();
        if matches!(done, Some(Err(crate::shm::Busy))) && mount.waited_for_gone() {
            done = lock();
        }
        match done {
            Some(Ok(())) => ffi::SQLITE_OK,
            Some(Err(crate::shm::Busy)) => ffi::SQLITE_BUSY,
            None => ffi::SQLITE_IOERR_SHMLOCK,
        }
    }

    fn shm_unmap(&mut self) {
        if let (Some(held), Some(node)) = (self.shm.take(), &self.node) {
            node.shm.lock().detach(held);
        }
    }

    fn idle(&mut self) {
        self.mount.idle_calls.fetch_add(1, Ordering::Relaxed);
    }

    fn close(mut self: Box<Self>) -> c_int {
        self.shm_unmap();
        self.drop_held();
        self.unlock(Level::None as c_int);
        for node in [self.node.take(), self.journal_of.take(), self.log.take()] {
            node.into_iter().for_each(|node| self.mount.put(node));
        }
        self.mount.files.fetch_sub(1, Ordering::Relaxed);
        match self.file.close() {
            Ok(()) => ffi::SQLITE_OK,
            Err(error) => self.mount.fail(During::Close, &self.path, &error),
        }
    }

    fn is_of_another_process(&self) -> bool {
        self.mount.is_of_another_process()
    }

    fn keep_panic(&self, payload: Payload) {
        self.mount.keep_panic(payload);
    }
}

fn sync(mount: &Mount, file: &vfs::File) -> FsResult<()> {
    match mount.options.sync_call {
        SyncCall::Fdatasync => file.fdatasync(),
        SyncCall::Fsync => file.fsync(),
    }
}

/// Makes the names in the directory of `path` durable.
pub(crate) fn sync_parent(mount: &Mount, path: &[u8]) -> FsResult<()> {
    let parent = match path.iter().rposition(|&b| b == b'/') {
        None | Some(0) => &b"/"[..],
        Some(end) => &path[..end],
    };
    let flags = OpenFlags::READ | OpenFlags::DIRECTORY;
    let dir = mount.vfs.open(parent, flags, 0)?;
    let result = sync(mount, &dir);
    dir.close()?;
    result
}
