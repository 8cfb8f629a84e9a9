//! Answers the requests of the ring with the calls of [`Server`] that the adapter of `/dev/fuse`
//! uses, too.
//!
//! The payload holds the request first and then its answer: a function takes all that it needs of
//! the request before it writes. No panic leaves a request, and none is left unanswered (fuse-U2).

use super::answers::{Writer, dirent_bytes};
use super::entry::Delivered;
use super::turns::Answer;
use super::wire::{Fields, Head, opcode, words};
use crate::convert::{fallocate_mode, open_mode, rename_mode};
use crate::groups::groups_of;
use crate::notices::Notices;
use crate::options::{Access, Options};
use crate::server::{Caller, Change, OpenMode, REMOUNT_XATTR, Server};
use rt::WallTime;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vfs::{
    Attr, Creds, Errno, FileKind, NoAccessTime, RenameMode, Requester, SeekMode, TimeSet, XattrMode,
};

/// Entries that a directory is asked for at a time.
pub(crate) const ENTRIES: usize = 64;

/// Of a read or a write: it names the owner of locks, as only direct transfers do.
const OF_OWNER: u32 = 1 << 1;
const WRITE_CACHE: u32 = 1 << 0;
const WRITE_KILL: u32 = 1 << 2;
const FSYNC_DATA: u32 = 1 << 0;
/// Of an ioctl: its arguments are not described by its number.
const IOCTL_UNRESTRICTED: u32 = 1 << 1;
/// What a SETATTR names, by bit.
const SET_MODE: u32 = 1 << 0;
const SET_UID: u32 = 1 << 1;
const SET_GID: u32 = 1 << 2;
const SET_SIZE: u32 = 1 << 3;
const SET_ATIME: u32 = 1 << 4;
const SET_MTIME: u32 = 1 << 5;
const SET_HANDLE: u32 = 1 << 6;
const SET_ATIME_NOW: u32 = 1 << 7;
const SET_MTIME_NOW: u32 = 1 << 8;
const SET_CTIME: u32 = 1 << 10;

/// What answers requests.
pub(crate) struct Desk {
    pub server: Arc<Server>,
    pub options: Options,
    pub notices: Arc<Notices>,
    /// The kernel leaves the umask to the file system.
    pub unmasked: Arc<AtomicBool>,
    /// The user who has mounted.
    pub owner: u32,
}

/// Whether the answer mounts the volume again, whose tasks begin then.
pub(super) fn starts_threads(request: &Delivered<'_>) -> bool {
    let name = &request.payload[..request.given];
    request.head.opcode == opcode::GETXATTR && name.starts_with(REMOUNT_XATTR.as_bytes())
}

impl Desk {
    /// Answers a request, also where that panics (fuse-U2).
    pub(super) fn answer(&self, mut request: Delivered<'_>) -> Answer {
        let head = request.head;
        if !self.may_ask(&head) {
            return Err(libc::EACCES);
        }
        let work = || Requester(head.pid).scope(|| self.dispatch(&head, &mut request));
        rt::foreign(work).unwrap_or(Err(libc::EIO))
    }

    /// Whether this user may use the mount. What the kernel asks without a user is answered.
    fn may_ask(&self, head: &Head) -> bool {
        let of_kernel = matches!(
            head.opcode,
            opcode::READ
                | opcode::WRITE
                | opcode::READDIR
                | opcode::READDIRPLUS
                | opcode::FSYNC
                | opcode::FSYNCDIR
                | opcode::RELEASE
                | opcode::RELEASEDIR
        );
        let owner = head.uid == self.owner;
        match self.options.access {
            Access::All => true,
            Access::Owner => owner || of_kernel,
            Access::Root => owner || of_kernel || head.uid == 0,
        }
    }

    fn dispatch(&self, head: &Head, request: &mut Delivered<'_>) -> Answer {
        let op = request.op_in;
        let op = Fields(&op);
        let given = request.given;
        let payload = &mut *request.payload;
        match head.opcode {
            opcode::LOOKUP => self.lookup(head, payload, given),
            opcode::GETATTR => self.attr(payload, self.server.getattr(head.node)),
            opcode::SETATTR => self.setattr(head, op, payload),
            opcode::READLINK => bytes(payload, self.server.readlink(head.node)),
            opcode::SYMLINK => self.symlink(head, payload, given),
            opcode::MKNOD => self.mknod(head, op, payload, given),
            opcode::MKDIR => self.mkdir(head, op, payload, given),
            opcode::UNLINK => {
                let ([name], _) = words(&payload[..given]).ok_or(libc::EIO)?;
                empty(self.server.unlink(head.node, name))
            }
            opcode::RMDIR => {
                let ([name], _) = words(&payload[..given]).ok_or(libc::EIO)?;
                empty(self.server.rmdir(head.node, name))
            }
            opcode::RENAME => self.rename(head, (op.u64(0), 0), &payload[..given]),
            opcode::RENAME2 => self.rename(head, (op.u64(0), op.u32(8)), &payload[..given]),
            opcode::LINK => self.link(head, op, payload, given),
            opcode::OPEN => self.open(head, op, payload),
            opcode::READ => self.read(head, op, payload),
            opcode::WRITE => self.write(head, op, payload, given),
            opcode::STATFS => {
                let stat = self.server.statfs().map_err(Errno::code)?;
                Writer::new(payload).statfs_out(&stat).done()
            }
            opcode::RELEASE | opcode::RELEASEDIR => empty(self.server.release(op.u64(0))),
            opcode::FSYNC | opcode::FSYNCDIR => {
                let data_only = op.u32(8) & FSYNC_DATA != 0;
                empty(self.server.fsync(head.node, op.u64(0), data_only))
            }
            opcode::SETXATTR => self.setxattr(head, op, &payload[..given]),
            opcode::GETXATTR => {
                let ([name], _) = words(&payload[..given]).ok_or(libc::EIO)?;
                let value = self.server.getxattr(head.node, name);
                xattr(payload, value, op.u32(0))
            }
            opcode::LISTXATTR => {
                let names = self.server.listxattr(caller(head), head.node);
                xattr(payload, names, op.u32(0))
            }
            opcode::REMOVEXATTR => {
                let ([name], _) = words(&payload[..given]).ok_or(libc::EIO)?;
                let remove = || (self.server).removexattr(caller(head), head.node, name);
                empty(as_caller(head, remove))
            }
            opcode::OPENDIR => {
                let open = (self.server).open(caller(head), head.node, OpenMode::default());
                let handle = open.map_err(Errno::code)?.handle;
                Writer::new(payload).open_out(handle, 0).done()
            }
            opcode::READDIR => self.readdir(head, op, payload),
            opcode::READDIRPLUS => self.readdir_plus(head, op, payload),
            opcode::CREATE => self.create(head, op, payload, given),
            opcode::IOCTL => self.ioctl(head, op, payload, given),
            opcode::FALLOCATE => self.fallocate(head, op),
            opcode::LSEEK => self.seek(head, op, payload),
            opcode::COPY_FILE_RANGE => self.copy(head, op, payload),
            // The kernel does without, and does not ask again.
            _ => Err(libc::ENOSYS),
        }
    }

    /// The creator of a new inode, with this umask.
    fn maker(&self, head: &Head, umask: u32) -> Caller {
        let unmasked = self.unmasked.load(Ordering::Relaxed);
        Caller {
            umask: if unmasked { umask as u16 } else { 0 },
            ..caller(head)
        }
    }

    fn lookup(&self, head: &Head, payload: &mut [u8], given: usize) -> Answer {
        let ([name], _) = words(&payload[..given]).ok_or(libc::EIO)?;
        match self.server.lookup(head.node, name) {
            Err(Errno::NoEnt) => (Writer::new(payload))
                .bare_entry(0, FileKind::File, self.server.absence_ttl(head.node))
                .done(),
            found => self.entry(head, payload, found),
        }
    }

    fn entry(&self, head: &Head, payload: &mut [u8], found: Result<Attr, Errno>) -> Answer {
        let attr = found.map_err(Errno::code)?;
        let number = self.server.number(attr.ino);
        let ttls = (self.server.name_ttl(head.node), self.options.attr_timeout);
        Writer::new(payload).entry_out(number, &attr, ttls).done()
    }

    /// Attributes, where the number is no address of the protocol.
    fn attr(&self, payload: &mut [u8], found: Result<Attr, Errno>) -> Answer {
        let attr = found.map_err(Errno::code)?;
        let ttl = self.options.attr_timeout;
        let number = attr.ino.0.into();
        Writer::new(payload).attr_out(number, &attr, ttl).done()
    }

    fn setattr(&self, head: &Head, op: Fields<'_>, payload: &mut [u8]) -> Answer {
        let valid = op.u32(0);
        let has = |bit: u32| valid & bit != 0;
        let time = |set, now, secs, nanos| match (has(set), has(now)) {
            (false, _) => None,
            (true, true) => Some(TimeSet::Now),
            (true, false) => Some(TimeSet::To(WallTime {
                secs: op.i64(secs),
                nanos: op.u32(nanos),
            })),
        };
        let change = Change {
            perm: has(SET_MODE).then(|| op.u32(68) as u16 & 0o7777),
            uid: has(SET_UID).then(|| op.u32(76)),
            gid: has(SET_GID).then(|| op.u32(80)),
            size: has(SET_SIZE).then(|| op.u64(16)),
            atime: time(SET_ATIME, SET_ATIME_NOW, 32, 56),
            mtime: time(SET_MTIME, SET_MTIME_NOW, 40, 60),
            of_writes: has(SET_CTIME) && has(SET_HANDLE),
        };
        let set = || self.server.setattr(caller(head), head.node, &change);
        let changed = as_caller(head, set);
        self.attr(payload, changed)
    }

    fn symlink(&self, head: &Head, payload: &mut [u8], given: usize) -> Answer {
        let ([name, target], _) = words(&payload[..given]).ok_or(libc::EIO)?;
        let make = || (self.server).symlink(caller(head), head.node, name, target);
        let made = as_caller(head, make);
        self.entry(head, payload, made)
    }

    fn mknod(&self, head: &Head, op: Fields<'_>, payload: &mut [u8], given: usize) -> Answer {
        let ([name], _) = words(&payload[..given]).ok_or(libc::EIO)?;
        let (mode, rdev) = (op.u32(0) as u16, op.u32(4));
        let maker = self.maker(head, op.u32(8));
        let make = || (self.server).mknod(maker, head.node, name, mode, rdev);
        let made = as_caller(head, make);
        self.entry(head, payload, made)
    }

    fn mkdir(&self, head: &Head, op: Fields<'_>, payload: &mut [u8], given: usize) -> Answer {
        let ([name], _) = words(&payload[..given]).ok_or(libc::EIO)?;
        let maker = self.maker(head, op.u32(4));
        let make = || (self.server).mkdir(maker, head.node, name, op.u32(0) as u16);
        let made = as_caller(head, make);
        self.entry(head, payload, made)
    }

    fn rename(&self, head: &Head, (to, flags): (u64, u32), given: &[u8]) -> Answer {
        let ([old, new], _) = words(given).ok_or(libc::EIO)?;
        let owner = Creds {
            uid: head.uid,
            gid: head.gid,
            umask: 0,
        };
        let mode: RenameMode = rename_mode(flags, owner).ok_or(libc::EINVAL)?;
        let rename = || self.server.rename((head.node, old), (to, new), mode);
        empty(as_caller(head, rename))
    }

    fn link(&self, head: &Head, op: Fields<'_>, payload: &mut [u8], given: usize) -> Answer {
        let ([name], _) = words(&payload[..given]).ok_or(libc::EIO)?;
        let link = || self.server.link(op.u64(0), head.node, name);
        let made = as_caller(head, link);
        self.entry(head, payload, made)
    }

    fn open(&self, head: &Head, op: Fields<'_>, payload: &mut [u8]) -> Answer {
        let mode = open_mode(op.i32(0), self.options.sync);
        let open = || (self.server).open(caller(head), head.node, mode);
        let open = as_caller(head, open).map_err(Errno::code)?;
        let flags = self.options.open_flags(open.settled);
        Writer::new(payload).open_out(open.handle, flags).done()
    }

    fn create(&self, head: &Head, op: Fields<'_>, payload: &mut [u8], given: usize) -> Answer {
        let ([name], _) = words(&payload[..given]).ok_or(libc::EIO)?;
        let (mode, perm) = (open_mode(op.i32(0), self.options.sync), op.u32(4) as u16);
        let maker = self.maker(head, op.u32(8));
        let create = || (self.server).create(maker, head.node, name, perm, mode);
        let (attr, open) = as_caller(head, create).map_err(Errno::code)?;
        let (number, ttls) = (
            self.server.number(attr.ino),
            (self.server.name_ttl(head.node), self.options.attr_timeout),
        );
        (Writer::new(payload).entry_out(number, &attr, ttls))
            .open_out(open.handle, self.options.open_flags(open.settled))
            .done()
    }

    fn read(&self, head: &Head, op: Fields<'_>, payload: &mut [u8]) -> Answer {
        let (offset, size, flags) = (op.u64(8), op.u32(16), op.u32(20));
        if flags & OF_OWNER == 0 {
            self.server.note_pages(head.node);
        }
        let mut read = || {
            let put = |read: Result<&[u8], Errno>| {
                let data = read.map_err(Errno::code)?;
                Writer::new(payload).put(data).done()
            };
            (self.server).read_for(head.node, offset, size as usize, put)
        };
        match open_mode(op.i32(32), false).no_access_time {
            true => NoAccessTime::scope(read),
            false => read(),
        }
    }

    fn write(&self, head: &Head, op: Fields<'_>, payload: &mut [u8], given: usize) -> Answer {
        let (handle, offset, flags) = (op.u64(0), op.u64(8), op.u32(20));
        let data = &payload[..given.min(op.u32(16) as usize)];
        let kill = flags & WRITE_KILL != 0;
        if flags & OF_OWNER == 0 {
            self.server.note_pages(head.node);
        }
        let cached = flags & WRITE_CACHE != 0;
        let done = match cached {
            // For the program that dirtied the pages.
            true => self.server.write_cached(head.node, offset, data, kill),
            false => as_caller(head, || {
                let mode = open_mode(op.i32(32), false);
                (self.server).write(head.node, handle, offset, data, mode, kill)
            }),
        };
        if cached && done == Err(Errno::NoSpc) {
            self.notices.drop_refused(head.node, offset, data.len());
        }
        written(payload, done)
    }

    fn setxattr(&self, head: &Head, op: Fields<'_>, given: &[u8]) -> Answer {
        let ([name], rest) = words(given).ok_or(libc::EIO)?;
        let value = rest.get(..op.u32(0) as usize).ok_or(libc::EIO)?;
        let mode = match op.i32(4) {
            libc::XATTR_CREATE => XattrMode::Create,
            libc::XATTR_REPLACE => XattrMode::Replace,
            _ => XattrMode::Any,
        };
        let groups = || groups_of(head.pid);
        let set = || (self.server).setxattr(caller(head), &groups, head.node, name, value, mode);
        empty(as_caller(head, set))
    }

    fn readdir(&self, head: &Head, op: Fields<'_>, payload: &mut [u8]) -> Answer {
        let (offset, most) = (op.u64(8), op.u32(16) as usize);
        let most = most.min(payload.len());
        let mut writer = Writer::new(&mut payload[..most]);
        let mut from = offset;
        loop {
            let entries = match self.server.readdir(head.node, from, ENTRIES) {
                Ok(entries) => entries,
                Err(errno) if from == offset => return Err(errno.code()),
                Err(_) => return writer.done(),
            };
            let Some(last) = entries.last() else {
                return writer.done();
            };
            from = last.next;
            for entry in &entries {
                if writer.len() + dirent_bytes(&entry.name) > most {
                    return writer.done();
                }
                writer.dirent(entry.ino.0.into(), entry.next, entry.kind, &entry.name);
            }
        }
    }

    fn readdir_plus(&self, head: &Head, op: Fields<'_>, payload: &mut [u8]) -> Answer {
        const ENTRY_BYTES: usize = 128;
        let (offset, most) = (op.u64(8), op.u32(16) as usize);
        let most = most.min(payload.len());
        let entries = self.server.readdir_plus(head.node, offset, ENTRIES);
        let entries = entries.map_err(Errno::code)?;
        let name_ttl = self.server.name_ttl(head.node);
        let mut writer = Writer::new(&mut payload[..most]);
        let mut full = false;
        for (entry, attr) in &entries {
            let bytes = ENTRY_BYTES + dirent_bytes(&entry.name);
            full = full || writer.len() + bytes > most;
            let number = attr.as_ref().map_or(0, |a| self.server.number(a.ino));
            if full {
                // The kernel does not see this one, so it does not forget it either.
                if attr.is_some() {
                    self.server.forget(number, 1);
                }
                continue;
            }
            let ino: u64 = entry.ino.0.into();
            let own = match attr {
                Some(attr) => {
                    let ttl = self.options.attr_timeout;
                    writer.entry_out(number, attr, (ttl.min(name_ttl), ttl));
                    number
                }
                // No node: the kernel takes the name, and looks the rest up when it is asked for.
                None => {
                    writer.bare_entry(ino, entry.kind, Duration::ZERO);
                    ino
                }
            };
            writer.dirent(own, entry.next, entry.kind, &entry.name);
        }
        writer.done()
    }

    fn ioctl(&self, head: &Head, op: Fields<'_>, payload: &mut [u8], given: usize) -> Answer {
        let (flags, command) = (op.u32(8), op.u32(12));
        let (in_size, out_size) = (op.u32(24) as usize, op.u32(28) as usize);
        if flags & IOCTL_UNRESTRICTED != 0 {
            return Err(libc::ENOSYS);
        }
        let data = &payload[..given.min(in_size)];
        let control = || (self.server).ioctl(caller(head), head.node, command, data);
        let done = as_caller(head, control).map_err(Errno::code)?;
        let data = done.ok_or(libc::ENOTTY)?;
        let mut writer = Writer::new(payload);
        // The result 0, no flags, no further parts in or out.
        writer.u32(0).u32(0).u32(1).u32(1);
        writer.put(&data[..data.len().min(out_size)]).done()
    }

    fn fallocate(&self, head: &Head, op: Fields<'_>) -> Answer {
        let (file, offset, len) = ((head.node, op.u64(0)), op.u64(8), op.u64(16));
        let mode = fallocate_mode(op.i32(24)).ok_or(libc::EOPNOTSUPP)?;
        let allocate = || (self.server).fallocate(caller(head), file, mode, offset, len);
        empty(as_caller(head, allocate))
    }

    fn seek(&self, head: &Head, op: Fields<'_>, payload: &mut [u8]) -> Answer {
        if self.options.writeback {
            // What the kernel has gathered has not come here yet, and it does not send it first: it
            // answers by itself from now on.
            return Err(libc::ENOSYS);
        }
        let mode = match op.i32(16) {
            libc::SEEK_DATA => SeekMode::Data,
            libc::SEEK_HOLE => SeekMode::Hole,
            _ => return Err(libc::EINVAL),
        };
        let at = self.server.seek(head.node, op.i64(8), mode);
        Writer::new(payload).u64(at.map_err(Errno::code)?).done()
    }

    fn copy(&self, head: &Head, op: Fields<'_>, payload: &mut [u8]) -> Answer {
        let from = (head.node, op.u64(8));
        let to = (op.u64(16), op.u64(24), op.u64(32));
        let copy = || self.server.copy(caller(head), from, to, op.u64(40));
        written(payload, as_caller(head, copy))
    }
}

fn caller(head: &Head) -> Caller {
    Caller {
        uid: head.uid,
        gid: head.gid,
        umask: 0,
    }
}

/// Runs a request as its caller, whose right decides whether it may take held back blocks.
fn as_caller<T>(head: &Head, work: impl FnOnce() -> T) -> T {
    vfs::Caller::of_process(head.uid, head.gid, head.pid, groups_of).scope(work)
}

fn empty(done: Result<(), Errno>) -> Answer {
    done.map(|()| 0).map_err(Errno::code)
}

fn bytes(payload: &mut [u8], found: Result<Vec<u8>, Errno>) -> Answer {
    let found = found.map_err(Errno::code)?;
    Writer::new(payload).put(&found).done()
}

fn written(payload: &mut [u8], done: Result<usize, Errno>) -> Answer {
    // A request has at most 1 GiB.
    let n = done.map_err(Errno::code)? as u32;
    Writer::new(payload).u32(n).u32(0).done()
}

/// Answers with the size, or with the bytes if the caller has room for them.
fn xattr(payload: &mut [u8], value: Result<Vec<u8>, Errno>, size: u32) -> Answer {
    let value = value.map_err(Errno::code)?;
    let mut writer = Writer::new(payload);
    match size as usize {
        0 => writer.u32(value.len() as u32).u32(0).done(),
        room if value.len() > room => Err(libc::ERANGE),
        _ => writer.put(&value).done(),
    }
}
