//! Turns answers of the server into those of the FUSE protocol.
// Times of this protocol library are those of std; no clock is read here.
#![allow(clippy::disallowed_types)]

use super::Adapter;
use crate::convert::{BLOCK_BYTES, file_type, system_time, unknown};
use crate::server::STATFS_NAME_BYTES;
use fuser::{
    FileAttr, FopenFlags, Generation, INodeNo, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyStatfs,
    ReplyWrite, ReplyXattr,
};
use std::time::Duration;
use vfs::{Attr, Errno, FileKind, FsStat};

/// In the answer to a lookup: the name does not exist.
const NO_NODE: u64 = 0;

impl Adapter {
    /// Answers a write of so many bytes: one of pages from the kernel's cache (`cached`) that found
    /// no room, or a direct one beside which the kernel may have pages (`direct`), has these
    /// dropped (write-W5, fuse-U8).
    pub(super) fn answer_write(
        &self,
        ino: INodeNo,
        (offset, len): (u64, usize),
        done: Result<usize, Errno>,
        (cached, direct): (bool, bool),
        reply: ReplyWrite,
    ) {
        match done {
            Err(Errno::NoSpc) if cached => {
                reply.error(number(Errno::NoSpc));
                self.notices.drop_refused(ino.0, offset, len);
            }
            Ok(n) if direct => {
                self.notices.answer_without_pages(ino, offset, n, reply);
            }
            done => written(done, reply),
        }
    }

    /// How long the kernel may keep attributes.
    pub(super) fn attr_ttl(&self) -> Duration {
        self.options.attr_timeout
    }

    pub(super) fn file_attr(&self, attr: &Attr) -> FileAttr {
        FileAttr {
            ino: INodeNo(self.server.number(attr.ino)),
            size: attr.size,
            blocks: attr.sectors,
            atime: system_time(attr.atime),
            mtime: system_time(attr.mtime),
            ctime: system_time(attr.ctime),
            crtime: system_time(attr.crtime),
            kind: file_type(attr.kind),
            perm: attr.perm,
            nlink: attr.nlink,
            uid: attr.uid,
            gid: attr.gid,
            rdev: attr.rdev,
            blksize: BLOCK_BYTES,
            flags: 0,
        }
    }

    /// Attributes where the number is not an address of the protocol: the root has its own.
    pub(super) fn own_attr(&self, attr: &Attr) -> FileAttr {
        FileAttr {
            ino: INodeNo(attr.ino.0.into()),
            ..self.file_attr(attr)
        }
    }

    pub(super) fn entry(&self, dir: INodeNo, found: Result<Attr, Errno>, reply: ReplyEntry) {
        match found {
            Ok(attr) => reply.entry_with_ttls(
                &self.attr_ttl(),
                &self.server.name_ttl(dir.0),
                &self.file_attr(&attr),
                Generation(attr.generation.into()),
            ),
            Err(errno) => reply.error(number(errno)),
        }
    }

    /// The kernel keeps the absence of a name: a request that makes the name goes through the
    /// kernel, too.
    pub(super) fn no_entry(&self, dir: INodeNo, reply: ReplyEntry) {
        let none = unknown(NO_NODE, FileKind::File);
        let ttl = self.server.absence_ttl(dir.0);
        reply.entry_with_ttls(&Duration::ZERO, &ttl, &none, Generation(0));
    }

    pub(super) fn attr(&self, found: Result<Attr, Errno>, reply: ReplyAttr) {
        match found {
            Ok(attr) => reply.attr(&self.attr_ttl(), &self.own_attr(&attr)),
            Err(errno) => reply.error(number(errno)),
        }
    }

    pub(super) fn open_flags(&self, settled: bool) -> FopenFlags {
        FopenFlags::from_bits_retain(self.options.open_flags(settled))
    }
}

pub(super) fn number(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.code())
}

pub(super) fn empty(done: Result<(), Errno>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(number(errno)),
    }
}

pub(super) fn written(done: Result<usize, Errno>, reply: ReplyWrite) {
    match done {
        // A request has at most 1 GiB.
        Ok(n) => reply.written(n as u32),
        Err(errno) => reply.error(number(errno)),
    }
}

/// Answers with the size, or with the bytes if the caller has room for them.
pub(super) fn xattr(value: Result<Vec<u8>, Errno>, size: u32, reply: ReplyXattr) {
    match value {
        Err(errno) => reply.error(number(errno)),
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(fuser::Errno::ERANGE),
        Ok(value) => reply.data(&value),
    }
}

/// Answers with space and inodes.
pub(super) fn space(found: Result<FsStat, Errno>, reply: ReplyStatfs) {
    match found {
        Ok(stat) => reply.statfs(
            stat.blocks,
            stat.blocks_free,
            stat.blocks_available,
            stat.inodes,
            stat.inodes_free,
            stat.block_bytes,
            stat.name_bytes_max.min(STATFS_NAME_BYTES),
            stat.block_bytes,
        ),
        Err(errno) => reply.error(number(errno)),
    }
}
