//! A mounted file system behind paths: opening files, attributes, sync and unmount.

use crate::file::{File, Node};
use crate::flags::OpenFlags;
use crate::lockset::LockSet;
use crate::path;
use crate::synclog::{SyncLog, SyncRecord};
use crate::walk::{Follow, Last, Parent, Place, Walk};
use crate::writeback::{Writeback, WritebackPolicy, WritebackStats};
use base::cost::host;
use base::{Ino, Map, Nanos};
use fscore::{
    Attr, Creds, DirEntry, Errno, ErrorSeen, FileKind, FileSystem, FsError, FsResult, FsStat,
    Grace, OpNo, SetAttr, TimeSet,
};
use rt::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Attempts of `open` and `rename` at a name that other tasks make and remove at the same time.
pub(crate) const ATTEMPTS: u32 = 64;
/// Entries that one call asks for when a whole directory is read.
const READDIR_CHUNK: usize = 256;
/// The set-user-ID bit.
const SET_UID: u16 = 0o4000;
/// The set-group-ID bit; on a directory new inodes inherit its group.
pub(crate) const SET_GID: u16 = 0o2000;
const GROUP_EXEC: u16 = 0o010;

/// A mounted file system behind paths. Paths are bytes. There is no current directory, so relative
/// paths begin at the root.
///
/// Dropping it is a crash, because nothing is written then; [`unmount`](Vfs::unmount) ends it.
pub struct Vfs {
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) creds: Creds,
    pub(crate) grace: Grace,
    /// Directories in which a name is being removed or replaced (vfs-V2).
    pub(crate) dirs: LockSet,
    /// Held by a rename from one directory to another (vfs-V3).
    pub(crate) rename: Mutex<()>,
    nodes: Mutex<Map<Ino, Weak<Node>>>,
    pub(crate) writeback: Writeback,
    pub(crate) syncs: SyncLog,
    open_files: AtomicU64,
    leaked_files: AtomicU64,
    release_errors: AtomicU64,
}

impl Vfs {
    /// Serves `fs` without a write-back task.
    pub fn new(fs: Arc<dyn FileSystem>) -> Arc<Vfs> {
        let writeback = Writeback::idle(Arc::clone(&fs), WritebackPolicy::off());
        Vfs::over(fs, writeback)
    }

    /// Serves `fs` and starts its write-back task as `policy` says. The task runs until
    /// [`unmount`](Vfs::unmount) or [`stop_writeback`](Vfs::stop_writeback).
    ///
    /// # Errors
    /// The host starts no thread for the task; `fs` has been unmounted then.
    pub fn with_policy(fs: Arc<dyn FileSystem>, policy: WritebackPolicy) -> FsResult<Arc<Vfs>> {
        match Writeback::start(Arc::clone(&fs), policy) {
            Ok(writeback) => Ok(Vfs::over(fs, writeback)),
            Err(e) => {
                // Nobody has changed anything; a failure here would be the next mount's, too.
                let _ = fs.unmount();
                Err(e)
            }
        }
    }

    fn over(fs: Arc<dyn FileSystem>, writeback: Writeback) -> Arc<Vfs> {
        Arc::new(Vfs {
            writeback,
            fs,
            creds: Creds::default(),
            grace: Grace::default(),
            dirs: LockSet::new(),
            rename: Mutex::named("vfs rename", ()),
            nodes: Mutex::named("vfs nodes", Map::default()),
            syncs: SyncLog::off(),
            open_files: AtomicU64::new(0),
            leaked_files: AtomicU64::new(0),
            release_errors: AtomicU64::new(0),
        })
    }

    /// The file system below.
    pub fn fs(&self) -> &Arc<dyn FileSystem> {
        &self.fs
    }

    /// Records every fsync and fdatasync of an open file from now on.
    pub fn record_syncs(&self) {
        self.syncs.start();
    }

    /// Stops recording and answers the records, in the order in which the syncs ended.
    pub fn take_syncs(&self) -> Vec<SyncRecord> {
        self.syncs.take()
    }

    /// Runs one operation on names that a program calls: the host takes `cost` for it, and for each
    /// component of its paths what [`Walk`] charges.
    pub(crate) fn call<R>(&self, cost: Nanos, f: impl FnOnce(OpNo) -> FsResult<R>) -> FsResult<R> {
        rt::charge(cost);
        self.operation(f)
    }

    /// Runs one operation on names; inode numbers that it sees stay valid until it ends (vfs-V1).
    pub(crate) fn operation<R>(&self, f: impl FnOnce(OpNo) -> FsResult<R>) -> FsResult<R> {
        let op = self.grace.enter();
        let result = f(op);
        for ino in self.grace.leave(op) {
            // The file system latches its own failures, and the operation that happens to end last
            // has nothing to do with this one.
            if self.fs.release(ino).is_err() {
                self.release_errors.fetch_add(1, Ordering::Relaxed);
            }
        }
        result
    }

    pub(crate) fn parent(&self, op: OpNo, path: &[u8]) -> FsResult<Parent> {
        self.walk(op, path)?.parent()
    }

    pub(crate) fn resolve(&self, op: OpNo, path: &[u8], follow: Follow) -> FsResult<Place> {
        self.walk(op, path)?.resolve(follow)
    }

    fn walk(&self, op: OpNo, path: &[u8]) -> FsResult<Walk<'_>> {
        Walk::new(&*self.fs, (&self.grace, op), path)
    }

    /// Opens a file with permission bits `perm`, which no umask changes; with [`OpenFlags::CREATE`]
    /// it is made if it does not exist. The answer must end by [`File::close`].
    ///
    /// # Errors
    /// Those of `open(2)`; ENOTSUP for device files, pipes and sockets, which have no driver here;
    /// EINVAL for `TRUNC` without `WRITE`, `APPEND` without `WRITE`, and `CREATE` with `DIRECTORY`.
    pub fn open(
        self: &Arc<Self>,
        path: impl AsRef<[u8]>,
        flags: OpenFlags,
        perm: u16,
    ) -> FsResult<File> {
        let path = path.as_ref();
        let has = |flag| flags.has(flag);
        if !has(OpenFlags::WRITE) && (has(OpenFlags::TRUNC) || has(OpenFlags::APPEND))
            || has(OpenFlags::CREATE | OpenFlags::DIRECTORY)
        {
            return Err(Errno::Inval.into());
        }
        self.operation(|op| {
            for _ in 0..ATTEMPTS {
                if let Some(file) = self.try_open(op, path, flags, perm)? {
                    return Ok(file);
                }
            }
            Err(Errno::Busy.into())
        })
    }

    /// Tries to open or make a file; `None` if another task made it in between.
    fn try_open(
        self: &Arc<Self>,
        op: OpNo,
        path: &[u8],
        flags: OpenFlags,
        perm: u16,
    ) -> FsResult<Option<File>> {
        let create = flags.has(OpenFlags::CREATE);
        let exclusive = create && flags.has(OpenFlags::EXCL);
        path::check(path)?;
        if create && path::ends_in_slash(path) {
            return Err(Errno::IsDir.into());
        }
        let follow = if exclusive || flags.has(OpenFlags::NOFOLLOW) {
            Follow::No
        } else {
            Follow::Yes
        };
        let place = self.resolve(op, path, follow)?;
        rt::charge(match create && place.attr.is_none() {
            true => host::CREATE,
            false => host::OPEN,
        });
        if let Some(attr) = place.attr {
            if exclusive {
                return Err(Errno::Exist.into());
            }
            check_kind(&attr, flags)?;
            attr.check_open(
                flags.has(OpenFlags::WRITE),
                flags.has(OpenFlags::APPEND),
                flags.has(OpenFlags::TRUNC),
            )?;
            let file = self.pin(attr.ino, flags)?;
            return if flags.has(OpenFlags::TRUNC) {
                self.truncated(file).map(Some)
            } else {
                Ok(Some(file))
            };
        }
        let Last::Name(name) = place.parent.last else {
            return Err(Errno::NoEnt.into());
        };
        if !create {
            return Err(Errno::NoEnt.into());
        }
        if place.parent.slash {
            return Err(Errno::IsDir.into());
        }
        let dir = place.parent.dir;
        let (creds, _) = self.inherit(dir)?;
        match self
            .fs
            .create(dir, &name, FileKind::File, perm & 0o7777, 0, creds)
        {
            Ok(attr) => self.pin(attr.ino, flags).map(Some),
            Err(FsError::Posix(Errno::Exist)) if !exclusive => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn truncated(&self, file: File) -> FsResult<File> {
        match file.truncate(0) {
            Ok(()) => Ok(file),
            Err(error) => {
                // The failure of the truncation is the one to report.
                let _ = file.close();
                Err(error)
            }
        }
    }

    /// Opens a pinned inode.
    fn pin(self: &Arc<Self>, ino: Ino, flags: OpenFlags) -> FsResult<File> {
        self.fs.open(ino)?;
        let node = self.node(ino);
        self.open_files.fetch_add(1, Ordering::Relaxed);
        let told = ErrorSeen::at_open(self.fs.write_errors(ino));
        Ok(File::new(Arc::clone(self), node, flags, told))
    }

    /// Calls `f`, which changes the size of an inode, while no open file of it appends (vfs-V4).
    fn resizing<R>(&self, ino: Ino, f: impl FnOnce() -> R) -> R {
        let node = self.node(ino);
        let shared = node.size.read();
        let result = f();
        drop(shared);
        self.forget(node);
        result
    }

    /// The node that all open files of an inode share.
    fn node(&self, ino: Ino) -> Arc<Node> {
        let mut nodes = self.nodes.lock();
        nodes.get(&ino).and_then(Weak::upgrade).unwrap_or_else(|| {
            let node = Arc::new(Node::new(ino));
            nodes.insert(ino, Arc::downgrade(&node));
            node
        })
    }

    /// Gives a node back, and forgets it if nobody else has it.
    fn forget(&self, node: Arc<Node>) {
        let ino = node.ino;
        let mut nodes = self.nodes.lock();
        drop(node);
        if nodes.get(&ino).is_some_and(|weak| weak.strong_count() == 0) {
            nodes.remove(&ino);
        }
    }

    /// Ends an open file: forgets the node if it was its last one, and unpins the inode.
    pub(crate) fn unpin(&self, node: Arc<Node>) -> FsResult<()> {
        let ino = node.ino;
        self.forget(node);
        self.open_files.fetch_sub(1, Ordering::Relaxed);
        self.fs.release(ino)
    }

    pub(crate) fn note_leak(&self) {
        self.leaked_files.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of files that were dropped without [`File::close`]; their inodes stay pinned. Tests
    /// of normal operation assert zero.
    pub fn leaked_files(&self) -> u64 {
        self.leaked_files.load(Ordering::Relaxed)
    }
    /// True if [`File::write_atomic`](crate::File::write_atomic) works here.
    pub fn has_atomic_writes(&self) -> bool {
        self.fs.has_atomic_writes()
    }
    /// Which single atomic writes are never too large
    /// ([`FileSystem::atomic_unit`](fscore::FileSystem::atomic_unit)).
    pub fn atomic_unit(&self) -> Option<fscore::AtomicUnit> {
        self.fs.atomic_unit()
    }
    /// True if a sync of a file makes durable every change that ended before it
    /// ([`FileSystem::sync_keeps_order`](fscore::FileSystem::sync_keeps_order)).
    pub fn sync_keeps_order(&self) -> bool {
        self.fs.sync_keeps_order()
    }
    /// Number of open files, with those that were leaked.
    pub fn open_files(&self) -> u64 {
        self.open_files.load(Ordering::Relaxed)
    }
    /// Number of failed releases of inodes that had lost their last name. The file system has
    /// latched the reason.
    pub fn release_errors(&self) -> u64 {
        self.release_errors.load(Ordering::Relaxed)
    }

    /// The owner of a new inode in `dir`, and the set-group-ID bit that a new directory inherits.
    pub(crate) fn inherit(&self, dir: Ino) -> FsResult<(Creds, u16)> {
        let attr = self.fs.getattr(dir)?;
        if attr.perm & SET_GID == 0 {
            return Ok((self.creds, 0));
        }
        let creds = Creds {
            gid: attr.gid,
            ..self.creds
        };
        Ok((creds, SET_GID))
    }

    /// Attributes of what `path` names; symbolic links are followed.
    ///
    /// # Errors
    /// Those of `stat(2)`.
    pub fn stat(&self, path: impl AsRef<[u8]>) -> FsResult<Attr> {
        self.call(host::STAT, |op| {
            self.resolve(op, path.as_ref(), Follow::Yes)?.found()
        })
    }
    /// Attributes of what `path` names; a symbolic link in the last place is not followed.
    ///
    /// # Errors
    /// Those of `lstat(2)`.
    pub fn lstat(&self, path: impl AsRef<[u8]>) -> FsResult<Attr> {
        self.call(host::STAT, |op| {
            self.resolve(op, path.as_ref(), Follow::No)?.found()
        })
    }
    /// The target of a symbolic link.
    ///
    /// # Errors
    /// EINVAL if it is no symbolic link; those of the path walk.
    pub fn readlink(&self, path: impl AsRef<[u8]>) -> FsResult<Vec<u8>> {
        self.call(host::CALL, |op| {
            let attr = self.resolve(op, path.as_ref(), Follow::No)?.found()?;
            if attr.kind != FileKind::Symlink {
                return Err(Errno::Inval.into());
            }
            self.fs.readlink(attr.ino)
        })
    }
    /// All entries of a directory, with `.` and `..`.
    ///
    /// # Errors
    /// ENOTDIR; those of the path walk.
    pub fn readdir(&self, path: impl AsRef<[u8]>) -> FsResult<Vec<DirEntry>> {
        self.operation(|op| {
            let attr = self.resolve(op, path.as_ref(), Follow::Yes)?.found()?;
            if attr.kind != FileKind::Dir {
                return Err(Errno::NotDir.into());
            }
            let mut all = Vec::new();
            let mut from = 0;
            loop {
                rt::charge(host::CALL);
                let chunk = self.fs.readdir(attr.ino, from, READDIR_CHUNK)?;
                let Some(last) = chunk.last() else {
                    return Ok(all);
                };
                from = last.next;
                all.extend(chunk);
            }
        })
    }

    /// Changes attributes; symbolic links are followed. A change of the owner takes away
    /// set-user-ID, and set-group-ID if the group may execute, except on directories (Linux
    /// `chown`).
    ///
    /// # Errors
    /// Those of `chmod`, `chown`, `truncate`, `utimensat`.
    pub fn set_attr(&self, path: impl AsRef<[u8]>, set: &SetAttr) -> FsResult<Attr> {
        self.call(host::SETATTR, |op| {
            let attr = self.resolve(op, path.as_ref(), Follow::Yes)?.found()?;
            self.set_attr_of(&attr, set)
        })
    }
    pub(crate) fn set_attr_of(&self, attr: &Attr, set: &SetAttr) -> FsResult<Attr> {
        let mut set = set.clone();
        if set.size.is_some() {
            check_truncate(attr.kind)?;
        }
        set.perm = set.perm.map(|perm| perm & 0o7777);
        if (set.uid.is_some() || set.gid.is_some()) && attr.kind != FileKind::Dir {
            let perm = set.perm.unwrap_or(attr.perm);
            let drop_gid = if perm & GROUP_EXEC == 0 { 0 } else { SET_GID };
            set.perm = Some(perm & !(SET_UID | drop_gid));
        }
        match set.size {
            Some(_) => self.resizing(attr.ino, || self.fs.setattr(attr.ino, &set)),
            None => self.fs.setattr(attr.ino, &set),
        }
    }
    /// Changes the permission bits.
    ///
    /// # Errors
    /// Those of `chmod(2)`.
    pub fn chmod(&self, path: impl AsRef<[u8]>, perm: u16) -> FsResult<()> {
        let set = SetAttr {
            perm: Some(perm),
            ..SetAttr::default()
        };
        self.set_attr(path, &set).map(drop)
    }
    /// Changes owner and group; `None` leaves one as it is.
    ///
    /// # Errors
    /// Those of `chown(2)`.
    pub fn chown(
        &self,
        path: impl AsRef<[u8]>,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> FsResult<()> {
        let set = SetAttr {
            uid,
            gid,
            ..SetAttr::default()
        };
        self.set_attr(path, &set).map(drop)
    }
    /// Sets access and modification time; `None` leaves one as it is.
    ///
    /// # Errors
    /// Those of `utimensat(2)`.
    pub fn utimes(
        &self,
        path: impl AsRef<[u8]>,
        atime: Option<TimeSet>,
        mtime: Option<TimeSet>,
    ) -> FsResult<()> {
        let set = SetAttr {
            atime,
            mtime,
            ..SetAttr::default()
        };
        self.set_attr(path, &set).map(drop)
    }
    /// Cuts or extends the file at `path`.
    ///
    /// # Errors
    /// Those of `truncate(2)`.
    pub fn truncate(self: &Arc<Self>, path: impl AsRef<[u8]>, size: u64) -> FsResult<()> {
        let file = self.open(path, OpenFlags::WRITE, 0)?;
        let result = file.truncate(size);
        file.close()?;
        result
    }

    /// Space and inodes of the file system.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn statfs(&self) -> FsResult<FsStat> {
        rt::charge(host::CALL);
        self.fs.statfs()
    }
    /// Makes everything durable (`syncfs`).
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn sync(&self) -> FsResult<()> {
        rt::charge(host::CALL);
        self.fs.sync()
    }
    /// Makes the names in a directory durable: opens it, syncs it and closes it.
    ///
    /// # Errors
    /// Those of the path walk; ENOTDIR; errors of the file system.
    pub fn sync_dir(self: &Arc<Self>, path: impl AsRef<[u8]>) -> FsResult<()> {
        let dir = self.open(path, OpenFlags::READ | OpenFlags::DIRECTORY, 0)?;
        let synced = dir.fsync();
        dir.close()?;
        synced
    }
    /// Drops clean pages from the cache of the file system, so that the next reads go to the device
    /// (as `echo 1 > /proc/sys/vm/drop_caches` in Linux). Inodes and nodes stay.
    pub fn drop_caches(&self) {
        self.fs.drop_caches();
    }
    /// What the write-back task has done.
    pub fn writeback_stats(&self) -> WritebackStats {
        self.writeback.stats()
    }
    /// Stops the write-back task and waits for its end. A second call does nothing.
    pub fn stop_writeback(&self) {
        self.writeback.stop();
    }
    /// Stops the write-back task, writes everything and marks the file system clean. Every later
    /// call answers ESHUTDOWN.
    ///
    /// EBUSY while files are open: then nothing has happened. Otherwise errors of the file system.
    pub fn unmount(&self) -> FsResult<()> {
        if self.open_files() > 0 {
            return Err(Errno::Busy.into());
        }
        self.writeback.stop();
        self.fs.unmount()
    }
}

fn check_kind(attr: &Attr, flags: OpenFlags) -> FsResult<()> {
    let writes = flags.has(OpenFlags::WRITE) || flags.has(OpenFlags::CREATE);
    let errno = match attr.kind {
        FileKind::Dir if writes => Errno::IsDir,
        FileKind::Dir => return Ok(()),
        _ if flags.has(OpenFlags::DIRECTORY) => Errno::NotDir,
        FileKind::File => return Ok(()),
        FileKind::Symlink => Errno::Loop,
        FileKind::Char | FileKind::Block | FileKind::Fifo | FileKind::Socket => Errno::NotSup,
    };
    Err(errno.into())
}

pub(crate) fn check_truncate(kind: FileKind) -> FsResult<()> {
    match kind {
        FileKind::File => Ok(()),
        FileKind::Dir => Err(Errno::IsDir.into()),
        _ => Err(Errno::Inval.into()),
    }
}
