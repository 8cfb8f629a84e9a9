//! Receives the requests of crate `fuser` and hands them to a [`Server`].
//!
//! - A1 a request that may take blocks of the volume runs as its caller, because only some callers
//!   have a right to the blocks held back. Requests that only give blocks back (unlink, forget,
//!   release) need no right;
//! - A2 a write from the kernel's cache has no caller. The program that wrote the data has been
//!   told that the data is written, or has written to mapped memory, so the write is not refused as
//!   long as there are blocks, those held back included.
// Times of this protocol library are those of std; no clock is read here.
#![allow(clippy::disallowed_types)]

mod answers;
mod handshake;

use crate::convert::{fallocate_mode, file_type, open_mode, rename_mode, time_set, unknown};
use crate::groups::groups_of;
use crate::notices::Notices;
use crate::options::Options;
use crate::ring::desk::ENTRIES;
use crate::server::{Caller, Change, OpenMode, Server};
use crate::source::Source;
use handshake::agree;

use answers::{empty, number, space, written, xattr};
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
pub(crate) use handshake::Agreed;
use rt::{Asked, Leaders, Sender};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};
use vfs::{Creds, Errno, NoAccessTime, Requester, SeekMode, XattrMode};

/// Bytes from which on copying them takes longer than to call another thread.
const LONG_BYTES: usize = 64 << 10;

/// The receiver of requests: `fuser` calls its methods.
pub(crate) struct Adapter {
    server: Arc<Server>,
    options: Options,
    agreed: Agreed,
    /// The threads that read requests.
    leaders: Arc<Leaders>,
    source: Arc<Source>,
    notices: Arc<Notices>,
    /// Goes with this one, which is how its end is seen.
    _until: Sender<()>,
}

impl Adapter {
    pub fn new(
        server: Arc<Server>,
        options: Options,
        source: Arc<Source>,
        notices: Arc<Notices>,
        agreed: Agreed,
        until: Sender<()>,
    ) -> Adapter {
        server.room_waiters(options.threads - 1);
        Adapter {
            server,
            options,
            agreed,
            leaders: Leaders::new(),
            source,
            notices,
            _until: until,
        }
    }

    /// Answers a request in this thread, which works for the thread that made the request; `long`:
    /// another one reads beside it from the start.
    fn turn(&self, request: &Request, long: bool, answer: impl FnOnce()) {
        let asked = Asked {
            client: request.pid(),
            queued: self.source.has_more(),
            long,
        };
        let requester = Requester(request.pid());
        self.leaders.turn(&asked, || requester.scope(answer));
    }

    /// The creator of a new inode, with this umask.
    fn maker(&self, request: &Request, umask: u32) -> Caller {
        let unmasked = self.agreed.unmasked.load(Ordering::Relaxed);
        Caller {
            umask: if unmasked { umask as u16 } else { 0 },
            ..caller(request)
        }
    }
}

fn caller(request: &Request) -> Caller {
    Caller {
        uid: request.uid(),
        gid: request.gid(),
        umask: 0,
    }
}

/// Runs a request as its caller: whether it may take held back blocks of the volume is decided by
/// the caller's right (A1).
fn as_caller<T>(request: &Request, work: impl FnOnce() -> T) -> T {
    vfs::Caller::of_process(request.uid(), request.gid(), request.pid(), groups_of).scope(work)
}

impl Filesystem for Adapter {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        agree(config, &self.options, &self.server, &self.agreed)
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.turn(request, false, || {
            match self.server.lookup(parent.0, name.as_bytes()) {
                Err(Errno::NoEnt) => self.no_entry(parent, reply),
                found => self.entry(parent, found, reply),
            }
        });
    }

    fn forget(&self, request: &Request, ino: INodeNo, lookups: u64) {
        // Up to a million forgets come in one request; all of them have its number.
        let batch = request.unique().0;
        self.leaders
            .aside(batch, || self.server.forget(ino.0, lookups));
    }

    fn getattr(&self, request: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.turn(request, false, || {
            self.attr(self.server.getattr(ino.0), reply);
        });
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.turn(request, false, || {
            let change = Change {
                perm: mode.map(|mode| mode as u16 & 0o7777),
                uid,
                gid,
                size,
                atime: atime.map(time_set),
                mtime: mtime.map(time_set),
                of_writes: ctime.is_some() && handle.is_some(),
            };
            let set = || self.server.setattr(caller(request), ino.0, &change);
            let changed = as_caller(request, set);
            self.attr(changed, reply);
        });
    }

    fn readlink(&self, request: &Request, ino: INodeNo, reply: ReplyData) {
        self.turn(request, false, || match self.server.readlink(ino.0) {
            Ok(target) => reply.data(&target),
            Err(errno) => reply.error(number(errno)),
        });
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        self.turn(request, false, || {
            let name = name.as_bytes();
            let maker = self.maker(request, umask);
            let make = || (self.server).mknod(maker, parent.0, name, mode as u16, rdev);
            self.entry(parent, as_caller(request, make), reply);
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        self.turn(request, false, || {
            let name = name.as_bytes();
            let maker = self.maker(request, umask);
            let make = || (self.server).mkdir(maker, parent.0, name, mode as u16);
            self.entry(parent, as_caller(request, make), reply);
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.turn(request, false, || {
            empty(self.server.unlink(parent.0, name.as_bytes()), reply);
        });
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.turn(request, false, || {
            empty(self.server.rmdir(parent.0, name.as_bytes()), reply);
        });
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        link_name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        self.turn(request, false, || {
            let target = target.as_os_str().as_bytes();
            let name = link_name.as_bytes();
            let make = || (self.server).symlink(caller(request), parent.0, name, target);
            self.entry(parent, as_caller(request, make), reply);
        });
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.turn(request, false, || {
            let owner = Creds {
                uid: request.uid(),
                gid: request.gid(),
                umask: 0,
            };
            let Some(mode) = rename_mode(flags.bits(), owner) else {
                return reply.error(fuser::Errno::EINVAL);
            };
            let (from, to) = (
                (parent.0, name.as_bytes()),
                (new_parent.0, new_name.as_bytes()),
            );
            let moved = as_caller(request, || self.server.rename(from, to, mode));
            empty(moved, reply);
        });
    }

    fn link(
        &self,
        request: &Request,
        ino: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        self.turn(request, false, || {
            let link = || (self.server).link(ino.0, new_parent.0, new_name.as_bytes());
            self.entry(new_parent, as_caller(request, link), reply);
        });
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.turn(request, false, || {
            let mode = open_mode(flags.0, self.options.sync);
            let open = || (self.server).open(caller(request), ino.0, mode);
            match as_caller(request, open) {
                Ok(open) => reply.opened(FileHandle(open.handle), self.open_flags(open.settled)),
                Err(errno) => reply.error(number(errno)),
            }
        });
    }

    fn read(
        &self,
        request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.turn(request, size as usize >= LONG_BYTES, || {
            if owner.is_none() {
                self.server.note_pages(ino.0);
            }
            let read = || {
                (self.server).read_for(ino.0, offset, size as usize, |read| match read {
                    Ok(data) => reply.data(data),
                    Err(errno) => reply.error(number(errno)),
                });
            };
            match open_mode(flags.0, false).no_access_time {
                true => NoAccessTime::scope(read),
                false => read(),
            }
        });
    }

    fn write(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.turn(request, data.len() >= LONG_BYTES, || {
            let kill = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
            // Only direct transfers name the owner of locks.
            if owner.is_none() {
                self.server.note_pages(ino.0);
            }
            let cached = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
            let done = match cached {
                // For the program that dirtied the pages (A2).
                true => self.server.write_cached(ino.0, offset, data, kill),
                false => as_caller(request, || {
                    let mode = open_mode(flags.0, false);
                    (self.server).write(ino.0, handle.0, offset, data, mode, kill)
                }),
            };
            let direct = owner.is_some() && self.server.may_have_pages(ino.0);
            self.answer_write(ino, (offset, data.len()), done, (cached, direct), reply);
        });
    }

    fn flush(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // Nothing is held back for a close; after this answer the kernel does not ask again.
        reply.error(fuser::Errno::ENOSYS);
    }

    fn release(
        &self,
        request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.turn(request, false, || {
            empty(self.server.release(handle.0), reply);
        });
    }

    fn fsync(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.turn(request, false, || {
            empty(self.server.fsync(ino.0, handle.0, data_only), reply);
        });
    }

    fn opendir(&self, request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.turn(request, false, || {
            match (self.server).open(caller(request), ino.0, OpenMode::default()) {
                Ok(open) => reply.opened(FileHandle(open.handle), FopenFlags::empty()),
                Err(errno) => reply.error(number(errno)),
            }
        });
    }

    fn readdir(
        &self,
        request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.turn(request, false, || {
            let mut from = offset;
            loop {
                let entries = match self.server.readdir(ino.0, from, ENTRIES) {
                    Ok(entries) => entries,
                    Err(errno) if from == offset => return reply.error(number(errno)),
                    Err(_) => return reply.ok(),
                };
                let Some(last) = entries.last() else {
                    return reply.ok();
                };
                from = last.next;
                for entry in &entries {
                    let name = OsStr::from_bytes(&entry.name);
                    let kind = file_type(entry.kind);
                    if reply.add(INodeNo(entry.ino.0.into()), entry.next, kind, name) {
                        return reply.ok();
                    }
                }
            }
        });
    }

    fn readdirplus(
        &self,
        request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.turn(request, false, || {
            let entries = match self.server.readdir_plus(ino.0, offset, ENTRIES) {
                Ok(entries) => entries,
                Err(errno) => return reply.error(number(errno)),
            };
            let name_ttl = self.server.name_ttl(ino.0);
            let mut full = false;
            for (entry, attr) in &entries {
                let generation = Generation(attr.as_ref().map_or(0, |a| a.generation.into()));
                let (about, ttl) = match attr {
                    Some(attr) => (self.file_attr(attr), self.attr_ttl().min(name_ttl)),
                    // No node: the kernel takes the name, and looks the rest up when it is asked
                    // for.
                    None => (unknown(entry.ino.0.into(), entry.kind), Duration::ZERO),
                };
                let node = attr.as_ref().map_or(0, |a| self.server.number(a.ino));
                full = full
                    || reply.add(
                        INodeNo(node),
                        entry.next,
                        OsStr::from_bytes(&entry.name),
                        &ttl,
                        &about,
                        generation,
                    );
                if full && attr.is_some() {
                    self.server.forget(node, 1);
                }
            }
            reply.ok();
        });
    }

    fn releasedir(
        &self,
        request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.turn(request, false, || {
            empty(self.server.release(handle.0), reply);
        });
    }

    fn fsyncdir(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.turn(request, false, || {
            empty(self.server.fsync(ino.0, handle.0, data_only), reply);
        });
    }

    fn statfs(&self, request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        self.turn(request, false, || space(self.server.statfs(), reply));
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        self.turn(request, false, || {
            let mode = match flags {
                libc::XATTR_CREATE => XattrMode::Create,
                libc::XATTR_REPLACE => XattrMode::Replace,
                _ => XattrMode::Any,
            };
            let groups = || groups_of(request.pid());
            let name = name.as_bytes();
            let set = || (self.server).setxattr(caller(request), &groups, ino.0, name, value, mode);
            empty(as_caller(request, set), reply);
        });
    }

    fn getxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        self.turn(request, false, || {
            xattr(self.server.getxattr(ino.0, name.as_bytes()), size, reply);
        });
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.turn(request, false, || {
            let names = self.server.listxattr(caller(request), ino.0);
            xattr(names, size, reply);
        });
    }

    fn removexattr(&self, request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.turn(request, false, || {
            let remove = || (self.server).removexattr(caller(request), ino.0, name.as_bytes());
            empty(as_caller(request, remove), reply);
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        self.turn(request, false, || {
            let name = name.as_bytes();
            let maker = self.maker(request, umask);
            let open = open_mode(flags, self.options.sync);
            let create = || (self.server).create(maker, parent.0, name, mode as u16, open);
            match as_caller(request, create) {
                Ok((attr, open)) => reply.created(
                    &self.server.name_ttl(parent.0).min(self.attr_ttl()),
                    &self.file_attr(&attr),
                    Generation(attr.generation.into()),
                    FileHandle(open.handle),
                    self.open_flags(open.settled),
                ),
                Err(errno) => reply.error(number(errno)),
            }
        });
    }

    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.turn(request, true, || {
            let Some(mode) = fallocate_mode(mode) else {
                return reply.error(fuser::Errno::EOPNOTSUPP);
            };
            let file = (ino.0, handle.0);
            let allocate = || (self.server).fallocate(caller(request), file, mode, offset, length);
            empty(as_caller(request, allocate), reply);
        });
    }

    fn lseek(
        &self,
        request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.turn(request, false, || {
            if self.options.writeback {
                // What the kernel has gathered has not come here yet, and it does not send it
                // first: it answers by itself from now on.
                return reply.error(fuser::Errno::ENOSYS);
            }
            let mode = match whence {
                libc::SEEK_DATA => SeekMode::Data,
                libc::SEEK_HOLE => SeekMode::Hole,
                _ => return reply.error(fuser::Errno::EINVAL),
            };
            match self.server.seek(ino.0, offset, mode) {
                Ok(at) => reply.offset(at as i64),
                Err(errno) => reply.error(number(errno)),
            }
        });
    }

    fn ioctl(
        &self,
        request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        _flags: IoctlFlags,
        cmd: u32,
        in_data: &[u8],
        out_size: u32,
        reply: ReplyIoctl,
    ) {
        self.turn(request, true, || {
            let control = || (self.server).ioctl(caller(request), ino.0, cmd, in_data);
            match as_caller(request, control) {
                Ok(Some(data)) => reply.ioctl(0, &data[..data.len().min(out_size as usize)]),
                Ok(None) => reply.error(fuser::Errno::ENOTTY),
                Err(errno) => reply.error(number(errno)),
            }
        });
    }

    fn copy_file_range(
        &self,
        request: &Request,
        ino_in: INodeNo,
        _handle_in: FileHandle,
        offset_in: u64,
        ino_out: INodeNo,
        handle_out: FileHandle,
        offset_out: u64,
        len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        self.turn(request, true, || {
            let from = (ino_in.0, offset_in);
            let to = (ino_out.0, handle_out.0, offset_out);
            let copy = || self.server.copy(caller(request), from, to, len);
            written(as_caller(request, copy), reply);
        });
    }
}
