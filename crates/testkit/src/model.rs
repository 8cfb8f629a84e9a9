//! A file system in memory: the reference for what operations answer. Optional ones that it does
//! not have (punching holes, zeroing, shifting, whiteouts, flags, TRIM, files without a name, going
//! down) answer EOPNOTSUPP.
//!
//! It has one lock around everything and ordered maps, so that it is easy to check by reading.
//! There is no device: nothing is lost, and sync calls do nothing. Reading does not change access
//! times (as on a `noatime` mount).

mod inode;
mod names;
mod xattrs;

use base::{Ino, Time};
use fscore::{
    Attr, Creds, DirEntry, Errno, FallocateMode, FileKind, FileSystem, FsResult, FsStat, Onlookers,
    RenameMode, SetAttr, Taking, TimeSet, XattrMode,
};
use inode::{Body, Inode};
use rt::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Number of the root directory, as in ext4.
const ROOT: Ino = Ino(2);
/// Number of the first ordinary inode, as in ext4.
const FIRST_INO: u32 = 11;
/// Bytes of the largest file: 2^32-1 blocks of 4 KiB, the limit of ext4 with extents.
pub const FILE_BYTES_MAX: u64 = 0xFFFF_FFFF * 4096;
/// Most hard links of one file, as in ext4.
pub const LINKS_MAX: u32 = 65_000;
/// Longest symlink target, bytes, as in ext4 with 4 KiB blocks.
const SYMLINK_BYTES_MAX: usize = 4095;
/// Size of the volume that `statfs` reports, in 4 KiB blocks: 4 TiB.
const STATFS_BLOCKS: u64 = 1 << 30;

/// The model file system.
pub struct ModelFs {
    state: Mutex<State>,
    /// Asks itself who may know an inode that loses a name ([`FileSystem::take_name`]).
    asks: bool,
}

struct State {
    inodes: BTreeMap<Ino, Inode>,
    /// Numbers below `next` that are free again. The lowest is used first, as in ext4.
    free: BTreeSet<Ino>,
    next: u32,
    generations: u32,
    unmounted: bool,
}

impl ModelFs {
    /// An empty file system, whose callers pin what loses a name.
    #[allow(clippy::new_ret_no_self)]
    pub fn new() -> Arc<dyn FileSystem> {
        ModelFs::empty(false)
    }

    /// An empty file system that pins what loses a name itself, where an operation may know it.
    pub fn that_asks() -> Arc<dyn FileSystem> {
        ModelFs::empty(true)
    }

    fn empty(asks: bool) -> Arc<dyn FileSystem> {
        let mut state = State {
            inodes: BTreeMap::new(),
            free: BTreeSet::new(),
            next: FIRST_INO,
            generations: 0,
            unmounted: false,
        };
        let body = Body::Dir(inode::Dir::new(ROOT));
        let mut root = Inode::new(body, 0o755, Creds::default(), 0);
        root.nlink = 2;
        state.inodes.insert(ROOT, root);
        let state = Mutex::named("model fs", state);
        Arc::new(ModelFs { state, asks })
    }

    fn with<R>(&self, f: impl FnOnce(&mut State) -> FsResult<R>) -> FsResult<R> {
        let mut state = self.state.lock();
        if state.unmounted {
            return Err(Errno::Shutdown.into());
        }
        f(&mut state)
    }
}

impl State {
    /// Looks up an inode.
    ///
    /// # Errors
    /// ESTALE for a number that is not in use.
    fn inode(&mut self, ino: Ino) -> FsResult<&mut Inode> {
        self.inodes.get_mut(&ino).ok_or(Errno::Stale.into())
    }
    fn attr(&mut self, ino: Ino) -> FsResult<Attr> {
        self.inode(ino).map(|inode| inode.attr(ino))
    }
    fn insert(&mut self, body: Body, perm: u16, creds: Creds) -> Ino {
        let ino = self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            Ino(self.next - 1)
        });
        self.generations += 1;
        let perm = match body {
            Body::Symlink(_) => perm,
            _ => creds.masked(perm),
        };
        let inode = Inode::new(body, perm, creds, self.generations);
        self.inodes.insert(ino, inode);
        ino
    }
    /// Frees an inode that has neither links nor pins.
    fn free_if_unused(&mut self, ino: Ino) {
        let unused = |inode: &Inode| inode.nlink == 0 && inode.pins == 0;
        if self.inodes.get(&ino).is_some_and(unused) {
            self.inodes.remove(&ino);
            self.free.insert(ino);
        }
    }
}

impl FileSystem for ModelFs {
    fn root(&self) -> Ino {
        ROOT
    }
    fn lookup(&self, dir: Ino, name: &[u8]) -> FsResult<Ino> {
        self.with(|s| s.lookup(dir, name))
    }
    fn getattr(&self, ino: Ino) -> FsResult<Attr> {
        self.with(|s| s.attr(ino))
    }
    fn setattr(&self, ino: Ino, set: &SetAttr) -> FsResult<Attr> {
        self.with(|s| {
            let inode = s.inode(ino)?;
            if let Some(size) = set.size {
                inode.file()?.truncate(size)?;
                inode.touch_content();
            }
            inode.perm = set.perm.unwrap_or(inode.perm);
            inode.uid = set.uid.unwrap_or(inode.uid);
            inode.gid = set.gid.unwrap_or(inode.gid);
            let now = rt::wall();
            let time = |set| match set {
                TimeSet::Now => now,
                TimeSet::To(time) => time,
            };
            inode.atime = set.atime.map_or(inode.atime, time);
            inode.mtime = set.mtime.map_or(inode.mtime, time);
            if *set != SetAttr::default() {
                inode.ctime = now;
            }
            Ok(inode.attr(ino))
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
        let body = match kind {
            FileKind::File => Body::File(inode::File::default()),
            FileKind::Dir | FileKind::Symlink => return Err(Errno::Inval.into()),
            FileKind::Char | FileKind::Block => Body::Special(kind, rdev),
            FileKind::Fifo | FileKind::Socket => Body::Special(kind, 0),
        };
        self.with(|s| s.make(dir, name, body, perm, creds))
    }
    fn mkdir(&self, dir: Ino, name: &[u8], perm: u16, creds: Creds) -> FsResult<Attr> {
        self.with(|s| s.make(dir, name, Body::Dir(inode::Dir::new(dir)), perm, creds))
    }
    fn symlink(&self, dir: Ino, name: &[u8], target: &[u8], creds: Creds) -> FsResult<Attr> {
        if target.len() > SYMLINK_BYTES_MAX {
            return Err(Errno::NameTooLong.into());
        }
        self.with(|s| s.make(dir, name, Body::Symlink(target.to_vec()), 0o777, creds))
    }
    fn readlink(&self, ino: Ino) -> FsResult<Vec<u8>> {
        self.with(|s| match &s.inode(ino)?.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(Errno::Inval.into()),
        })
    }
    fn link(&self, ino: Ino, dir: Ino, name: &[u8]) -> FsResult<Attr> {
        self.with(|s| s.link(ino, dir, name))
    }
    fn unlink(&self, dir: Ino, name: &[u8]) -> FsResult<()> {
        self.with(|s| s.unlink(dir, name))
    }
    fn rmdir(&self, dir: Ino, name: &[u8]) -> FsResult<()> {
        self.with(|s| s.rmdir(dir, name))
    }
    fn rename(
        &self,
        from_dir: Ino,
        from: &[u8],
        to_dir: Ino,
        to: &[u8],
        mode: RenameMode,
    ) -> FsResult<()> {
        self.with(|s| s.rename((from_dir, from), (to_dir, to), mode))
    }
    fn take_name(
        &self,
        what: Taking<'_>,
        onlookers: Onlookers<'_>,
    ) -> Option<FsResult<Option<Ino>>> {
        let take = |s: &mut State| {
            let (Taking::Unlink(dir, name)
            | Taking::Rmdir(dir, name)
            | Taking::Rename(_, (dir, name), _)) = what;
            let found = s.find(dir, name)?;
            if let Some(ino) = found.filter(|_| onlookers.may_know(name)) {
                s.inode(ino)?.pins += 1;
                onlookers.retire(ino);
            }
            match what {
                Taking::Unlink(dir, name) => s.unlink(dir, name)?,
                Taking::Rmdir(dir, name) => s.rmdir(dir, name)?,
                Taking::Rename(from, to, mode) => s.rename(from, to, mode)?,
            }
            Ok(found)
        };
        self.asks.then(|| self.with(take))
    }
    fn readdir(&self, dir: Ino, from: u64, max: usize) -> FsResult<Vec<DirEntry>> {
        self.with(|s| s.readdir(dir, from, max))
    }
    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> FsResult<usize> {
        self.with(|s| Ok(s.inode(ino)?.file()?.read(offset, buf)))
    }
    fn write(&self, ino: Ino, offset: u64, data: &[u8]) -> FsResult<usize> {
        self.with(|s| {
            let inode = s.inode(ino)?;
            let n = inode.file()?.write(offset, data)?;
            inode.touch_content();
            Ok(n)
        })
    }
    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> FsResult<()> {
        self.with(|s| s.inode(ino)?.set_xattr(name, value, mode))
    }
    fn getxattr(&self, ino: Ino, name: &[u8]) -> FsResult<Vec<u8>> {
        self.with(|s| s.inode(ino)?.xattr(name))
    }
    fn listxattr(&self, ino: Ino) -> FsResult<Vec<Vec<u8>>> {
        self.with(|s| Ok(s.inode(ino)?.xattrs.keys().cloned().collect()))
    }
    fn removexattr(&self, ino: Ino, name: &[u8]) -> FsResult<()> {
        self.with(|s| s.inode(ino)?.remove_xattr(name))
    }
    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64) -> FsResult<()> {
        let grow = match mode {
            FallocateMode::Allocate => true,
            FallocateMode::KeepSize => false,
            _ => return Err(Errno::NotSup.into()),
        };
        let end = offset.checked_add(len).ok_or(Errno::FBig)?;
        self.with(|s| {
            let inode = s.inode(ino)?;
            inode.file()?.reserve(offset, end, grow)?;
            inode.touch_content();
            Ok(())
        })
    }
    fn open(&self, ino: Ino) -> FsResult<()> {
        self.with(|s| {
            s.inode(ino)?.pins += 1;
            Ok(())
        })
    }
    fn release(&self, ino: Ino) -> FsResult<()> {
        self.with(|s| {
            let inode = s.inode(ino)?;
            inode.pins = inode
                .pins
                .checked_sub(1)
                .ok_or(fscore::FsError::Posix(Errno::BadF))?;
            s.free_if_unused(ino);
            Ok(())
        })
    }
    fn fsync(&self, ino: Ino, _data_only: bool) -> FsResult<()> {
        self.with(|s| s.inode(ino).map(drop))
    }
    fn sync(&self) -> FsResult<()> {
        self.with(|_| Ok(()))
    }
    fn writeback(&self, _older_than: Time) -> FsResult<()> {
        self.with(|_| Ok(()))
    }
    fn dirty_pages(&self) -> u64 {
        0
    }
    fn statfs(&self) -> FsResult<FsStat> {
        self.with(|s| {
            let used: u64 = s.inodes.values().map(|i| i.sectors() / 8).sum();
            let free = STATFS_BLOCKS.saturating_sub(used);
            let inodes = u64::from(u32::MAX);
            Ok(FsStat {
                block_bytes: 4096,
                blocks: STATFS_BLOCKS,
                blocks_free: free,
                blocks_available: free,
                inodes,
                inodes_free: inodes - s.inodes.len() as u64,
                name_bytes_max: 255,
            })
        })
    }
    fn unmount(&self) -> FsResult<()> {
        self.with(|s| {
            s.unmounted = true;
            Ok(())
        })
    }
}
