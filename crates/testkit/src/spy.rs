//! A file system that passes everything to another one and records the calls that changed or synced
//! something, for tests of what a front door asks for, and of the write-back policy. Tests can
//! plant faults in it ([`Fault`]).

use base::{Bytes, Ino, Map, Time};
use fscore::{
    AtomicUnit, Attr, Creds, DirEntry, Errno, FallocateMode, FileFlags, FileKind, FileSystem,
    FsError, FsResult, FsStat, RenameMode, SeekMode, SetAttr, WriteErrorCounts, WriteErrors,
    XattrMode,
};
use rt::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// One call that changes or syncs something.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Call {
    Create {
        ino: Ino,
        name: Vec<u8>,
    },
    Link {
        ino: Ino,
        name: Vec<u8>,
    },
    Unlink {
        name: Vec<u8>,
    },
    Rmdir {
        name: Vec<u8>,
    },
    Rename {
        from: Vec<u8>,
        to: Vec<u8>,
    },
    Truncate {
        ino: Ino,
        size: u64,
    },
    SetAttr {
        ino: Ino,
    },
    Write {
        ino: Ino,
        offset: u64,
        len: usize,
    },
    WriteAtomic {
        ino: Ino,
        bytes: usize,
    },
    SetXattr {
        ino: Ino,
        name: Vec<u8>,
    },
    RemoveXattr {
        ino: Ino,
        name: Vec<u8>,
    },
    Fallocate {
        ino: Ino,
        mode: FallocateMode,
        offset: u64,
        len: u64,
    },
    Fsync {
        ino: Ino,
        data_only: bool,
    },
    Sync,
    Writeback {
        older_than: Time,
    },
    Unmount,
}

/// A fault that tests switch on ([`SpyFs::plant`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// An fsync panics.
    PanicInSync,
    /// The device fails in an fsync.
    IoInSync,
    /// Changes are refused as by a read-only mount.
    ReadOnly,
    /// A read finds damage.
    CorruptInRead,
    /// So many bytes can still be written.
    Room(usize),
    /// So many times a name that no lookup finds is there when it is to be made, as in a damaged
    /// directory, or beside a task that makes and removes it.
    ComesAndGoes(u32),
}

/// Passes everything to another file system and records the calls that succeeded.
pub struct SpyFs {
    below: Arc<dyn FileSystem>,
    calls: Mutex<Vec<Call>>,
    /// Pages written since the last write-back, for [`FileSystem::dirty_pages`].
    dirty: AtomicU64,
    /// True if write-back leaves the pages dirty, as on a device that does not keep up.
    stuck: AtomicBool,
    /// Planted failures of write-back, by inode.
    failures: Mutex<Map<Ino, WriteErrors>>,
    /// Pages of any file for which there is no room.
    without_room: Mutex<Range<u64>>,
    /// What a file has keeps its room.
    keeps_room: AtomicBool,
    fault: Mutex<Option<Fault>>,
    /// Most bytes of an atomic write; 0: there are none.
    atomic_max: AtomicUsize,
    /// Names that were looked for.
    lookups: AtomicUsize,
}

impl SpyFs {
    /// Records what reaches `below`.
    pub fn new(below: Arc<dyn FileSystem>) -> Arc<SpyFs> {
        Arc::new(SpyFs {
            below,
            calls: Mutex::named("spy", Vec::new()),
            dirty: AtomicU64::new(0),
            stuck: AtomicBool::new(false),
            failures: Mutex::named("spy failures", Map::default()),
            without_room: Mutex::named("spy room", 0..0),
            keeps_room: AtomicBool::new(false),
            fault: Mutex::named("spy fault", None),
            atomic_max: AtomicUsize::new(0),
            lookups: AtomicUsize::new(0),
        })
    }
    /// How many names were looked for since the last call.
    pub fn take_lookups(&self) -> usize {
        self.lookups.swap(0, Ordering::Relaxed)
    }
    /// Takes atomic writes of up to so many bytes from now on, and answers EFBIG to larger ones.
    /// They are atomic in the record of calls alone.
    pub fn set_atomic_max(&self, bytes: usize) {
        self.atomic_max.store(bytes, Ordering::Relaxed);
    }
    /// The calls since the last `take`.
    pub fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.calls.lock())
    }
    /// Lets write-back clean no page from now on, or clean pages again.
    pub fn set_stuck(&self, stuck: bool) {
        self.stuck.store(stuck, Ordering::Relaxed);
    }
    /// Plants a failure to write data of `ino`, which the next fsync reports.
    pub fn fail_write(&self, ino: Ino, why: FsError) {
        self.failures.lock().entry(ino).or_default().note(why);
    }
    /// Lets these pages of any file find no room from now on, so that a write ends before them.
    pub fn set_without_room(&self, pages: Range<u64>) {
        *self.without_room.lock() = pages;
    }
    /// Lets each write that makes no file longer find room.
    pub fn keep_room(&self) {
        self.keeps_room.store(true, Ordering::Relaxed);
    }
    /// Switches a fault on, and the one before off.
    pub fn plant(&self, fault: Option<Fault>) {
        *self.fault.lock() = fault;
    }
    fn has(&self, fault: Fault) -> bool {
        *self.fault.lock() == Some(fault)
    }
    fn writable(&self) -> FsResult<()> {
        match self.has(Fault::ReadOnly) {
            true => Err(Errno::RoFs.into()),
            false => Ok(()),
        }
    }
    /// Number of the `len` bytes at `offset` that are before the first page without room.
    fn room(&self, offset: u64, len: usize) -> usize {
        const PAGE: u64 = base::BLOCK_BYTES as u64;
        let without = self.without_room.lock();
        let (start, end) = (without.start * PAGE, without.end * PAGE);
        match (start.max(offset), offset + len as u64) {
            (first, last) if first < end.min(last) => (first - offset) as usize,
            _ => match &mut *self.fault.lock() {
                Some(Fault::Room(left)) => {
                    let fits = len.min(*left);
                    *left -= fits;
                    fits
                }
                _ => len,
            },
        }
    }
    /// A new name is about to be made.
    fn come(&self) -> FsResult<()> {
        match &mut *self.fault.lock() {
            Some(Fault::ComesAndGoes(left)) if *left > 0 => {
                *left -= 1;
                Err(Errno::Exist.into())
            }
            _ => Ok(()),
        }
    }
    fn note(&self, call: Call) {
        self.calls.lock().push(call);
    }
    fn noted<R>(&self, result: FsResult<R>, call: impl FnOnce(&R) -> Call) -> FsResult<R> {
        result.inspect(|answer| self.note(call(answer)))
    }
    fn clean(&self) {
        if !self.stuck.load(Ordering::Relaxed) {
            self.dirty.store(0, Ordering::Relaxed);
        }
    }
}

impl FileSystem for SpyFs {
    fn root(&self) -> Ino {
        self.below.root()
    }
    fn obeys_acls(&self) -> bool {
        self.below.obeys_acls()
    }
    fn ignores_case(&self, dir: Ino) -> Option<bool> {
        self.below.ignores_case(dir)
    }
    fn lookup(&self, dir: Ino, name: &[u8]) -> FsResult<Ino> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        self.below.lookup(dir, name)
    }
    fn getattr(&self, ino: Ino) -> FsResult<Attr> {
        self.below.getattr(ino)
    }
    fn setattr(&self, ino: Ino, set: &SetAttr) -> FsResult<Attr> {
        self.writable()?;
        self.noted(self.below.setattr(ino, set), |_| match set.size {
            Some(size) => Call::Truncate { ino, size },
            None => Call::SetAttr { ino },
        })
    }
    fn create(
        &self,
        dir: Ino,
        name: &[u8],
        kind: FileKind,
        perm: u16,
        rdev: u32,
        creds: Creds,
    ) -> FsResult<Attr> {
        self.writable()?;
        self.come()?;
        let result = self.below.create(dir, name, kind, perm, rdev, creds);
        self.noted(result, |attr| created(attr, name))
    }
    fn mkdir(&self, dir: Ino, name: &[u8], perm: u16, creds: Creds) -> FsResult<Attr> {
        self.writable()?;
        let result = self.below.mkdir(dir, name, perm, creds);
        self.noted(result, |attr| created(attr, name))
    }
    fn symlink(&self, dir: Ino, name: &[u8], target: &[u8], creds: Creds) -> FsResult<Attr> {
        self.writable()?;
        let result = self.below.symlink(dir, name, target, creds);
        self.noted(result, |attr| created(attr, name))
    }
    fn readlink(&self, ino: Ino) -> FsResult<Vec<u8>> {
        self.below.readlink(ino)
    }
    fn link(&self, ino: Ino, dir: Ino, name: &[u8]) -> FsResult<Attr> {
        self.writable()?;
        let name_of = name.to_vec();
        self.noted(self.below.link(ino, dir, name), |_| Call::Link {
            ino,
            name: name_of,
        })
    }
    fn unlink(&self, dir: Ino, name: &[u8]) -> FsResult<()> {
        self.writable()?;
        let gone = name.to_vec();
        self.noted(self.below.unlink(dir, name), |()| Call::Unlink {
            name: gone,
        })
    }
    fn rmdir(&self, dir: Ino, name: &[u8]) -> FsResult<()> {
        self.writable()?;
        let gone = name.to_vec();
        self.noted(self.below.rmdir(dir, name), |()| Call::Rmdir { name: gone })
    }
    fn rename(
        &self,
        from_dir: Ino,
        from: &[u8],
        to_dir: Ino,
        to: &[u8],
        mode: RenameMode,
    ) -> FsResult<()> {
        self.writable()?;
        if mode.keeps_target() {
            self.come()?;
        }
        let result = self.below.rename(from_dir, from, to_dir, to, mode);
        self.noted(result, |()| Call::Rename {
            from: from.to_vec(),
            to: to.to_vec(),
        })
    }
    fn readdir(&self, dir: Ino, from: u64, max: usize) -> FsResult<Vec<DirEntry>> {
        self.below.readdir(dir, from, max)
    }
    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> FsResult<usize> {
        if self.has(Fault::CorruptInRead) {
            return Err(FsError::corrupt("inode 12: extent beyond the device"));
        }
        self.below.read(ino, offset, buf)
    }
    fn write(&self, ino: Ino, offset: u64, data: &[u8]) -> FsResult<usize> {
        self.writable()?;
        let end = offset + data.len() as u64;
        let grows = !self.keeps_room.load(Ordering::Relaxed) || self.below.getattr(ino)?.size < end;
        let room = match grows {
            true => self.room(offset, data.len()),
            false => data.len(),
        };
        let data = match room {
            0 if !data.is_empty() => return Err(Errno::NoSpc.into()),
            room => &data[..room],
        };
        let pages = data.len().div_ceil(base::BLOCK_BYTES) as u64;
        self.dirty.fetch_add(pages, Ordering::Relaxed);
        self.noted(self.below.write(ino, offset, data), |&len| Call::Write {
            ino,
            offset,
            len,
        })
    }
    fn has_atomic_writes(&self) -> bool {
        self.atomic_max.load(Ordering::Relaxed) > 0
    }
    fn atomic_unit(&self) -> Option<AtomicUnit> {
        self.below.atomic_unit()
    }
    fn write_atomic(&self, ino: Ino, parts: &[(u64, Bytes)]) -> FsResult<()> {
        let bytes = parts.iter().map(|(_, data)| data.len()).sum();
        match self.atomic_max.load(Ordering::Relaxed) {
            0 => return Err(Errno::NotSup.into()),
            max if bytes > max => return Err(Errno::FBig.into()),
            _ => {}
        }
        for (offset, data) in parts {
            self.below.write(ino, *offset, data)?;
        }
        self.note(Call::WriteAtomic { ino, bytes });
        Ok(())
    }
    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> FsResult<()> {
        self.writable()?;
        let noted = name.to_vec();
        self.noted(self.below.setxattr(ino, name, value, mode), |()| {
            Call::SetXattr { ino, name: noted }
        })
    }
    fn getxattr(&self, ino: Ino, name: &[u8]) -> FsResult<Vec<u8>> {
        self.below.getxattr(ino, name)
    }
    fn listxattr(&self, ino: Ino) -> FsResult<Vec<Vec<u8>>> {
        self.below.listxattr(ino)
    }
    fn removexattr(&self, ino: Ino, name: &[u8]) -> FsResult<()> {
        self.writable()?;
        let noted = name.to_vec();
        self.noted(self.below.removexattr(ino, name), |()| Call::RemoveXattr {
            ino,
            name: noted,
        })
    }
    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64) -> FsResult<()> {
        self.writable()?;
        self.noted(self.below.fallocate(ino, mode, offset, len), |()| {
            Call::Fallocate {
                ino,
                mode,
                offset,
                len,
            }
        })
    }
    fn tmpfile(&self, dir: Ino, perm: u16, creds: Creds) -> FsResult<Attr> {
        self.writable()?;
        let result = self.below.tmpfile(dir, perm, creds);
        self.noted(result, |attr| created(attr, b""))
    }
    fn seek(&self, ino: Ino, offset: u64, mode: SeekMode) -> FsResult<u64> {
        self.below.seek(ino, offset, mode)
    }
    fn trim(&self, range: Range<u64>, min_bytes: u64) -> FsResult<u64> {
        self.writable()?;
        self.below.trim(range, min_bytes)
    }
    fn set_file_flags(&self, ino: Ino, flags: FileFlags) -> FsResult<()> {
        self.writable()?;
        let result = self.below.set_file_flags(ino, flags);
        self.noted(result, |()| Call::SetAttr { ino })
    }
    fn project(&self, ino: Ino) -> FsResult<u32> {
        self.below.project(ino)
    }
    fn set_project(&self, ino: Ino, project: u32) -> FsResult<()> {
        self.writable()?;
        let result = self.below.set_project(ino, project);
        self.noted(result, |()| Call::SetAttr { ino })
    }
    fn open(&self, ino: Ino) -> FsResult<()> {
        self.below.open(ino)
    }
    fn release(&self, ino: Ino) -> FsResult<()> {
        self.below.release(ino)
    }
    fn fsync(&self, ino: Ino, data_only: bool) -> FsResult<()> {
        assert!(!self.has(Fault::PanicInSync), "the planted panic");
        if self.has(Fault::IoInSync) {
            return Err(FsError::Io {
                what: "write of block 4711: medium error".into(),
                power_lost: false,
            });
        }
        if let Some(failed) = self.failures.lock().get_mut(&ino) {
            let begin = failed.count();
            failed.report(begin).map_or(Ok(()), Err)?;
        }
        self.noted(self.below.fsync(ino, data_only), |()| Call::Fsync {
            ino,
            data_only,
        })
    }
    fn write_errors(&self, ino: Ino) -> WriteErrorCounts {
        match self.failures.lock().get(&ino) {
            Some(failed) => failed.counts(),
            None => self.below.write_errors(ino),
        }
    }
    fn sync(&self) -> FsResult<()> {
        self.clean();
        self.noted(self.below.sync(), |()| Call::Sync)
    }
    fn writeback(&self, older_than: Time) -> FsResult<()> {
        self.clean();
        self.noted(self.below.writeback(older_than), |()| Call::Writeback {
            older_than,
        })
    }
    fn dirty_pages(&self) -> u64 {
        self.dirty.load(Ordering::Relaxed)
    }
    fn drop_caches(&self) {
        self.below.drop_caches();
    }
    fn statfs(&self) -> FsResult<FsStat> {
        self.below.statfs()
    }
    fn unmount(&self) -> FsResult<()> {
        self.noted(self.below.unmount(), |()| Call::Unmount)
    }
}

fn created(attr: &Attr, name: &[u8]) -> Call {
    Call::Create {
        ino: attr.ino,
        name: name.to_vec(),
    }
}
