//! Inodes of the model, with the content of files and directories.

use super::FILE_BYTES_MAX;
use base::Ino;
use fscore::{Attr, Creds, Errno, FileFlags, FileKind, FsResult};
use rt::WallTime;
use std::collections::BTreeMap;

const PAGE_BYTES: usize = 4096;

/// One inode of the model.
pub(super) struct Inode {
    pub(super) body: Body,
    pub(super) perm: u16,
    pub(super) nlink: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) atime: WallTime,
    pub(super) mtime: WallTime,
    pub(super) ctime: WallTime,
    crtime: WallTime,
    generation: u32,
    /// Number of opens less releases.
    pub(super) pins: u64,
    /// Extended attributes by full name, as `user.a`.
    pub(super) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// The part of an inode that depends on its kind.
pub(super) enum Body {
    File(File),
    Dir(Dir),
    Symlink(Vec<u8>),
    Special(FileKind, u32),
}

/// Content of a regular file.
#[derive(Default)]
pub(super) struct File {
    size: u64,
    /// Pages by number; a missing one is a hole. Bytes beyond `size` are zero.
    pages: BTreeMap<u64, Box<[u8]>>,
    /// Pages that fallocate allocated, as ranges that do not touch: each first page with the one
    /// past its last. They read as zeros unless they are in `pages`.
    reserved: BTreeMap<u64, u64>,
}

/// Content of a directory.
pub(super) struct Dir {
    pub(super) parent: Ino,
    pub(super) names: BTreeMap<Vec<u8>, (Ino, Cookie)>,
    /// Names in the order in which they were made; a cookie is never used twice.
    pub(super) order: BTreeMap<Cookie, Vec<u8>>,
    next: Cookie,
}

/// The place of an entry in the order of `readdir`.
pub(super) type Cookie = u64;
/// The first cookie of an entry; 0 is `.` and 1 is `..`.
const FIRST_COOKIE: Cookie = 2;

impl Inode {
    pub(super) fn new(body: Body, perm: u16, creds: Creds, generation: u32) -> Inode {
        let now = rt::wall();
        Inode {
            body,
            perm,
            nlink: 1,
            uid: creds.uid,
            gid: creds.gid,
            atime: now,
            mtime: now,
            ctime: now,
            crtime: now,
            generation,
            pins: 0,
            xattrs: BTreeMap::new(),
        }
    }
    pub(super) fn kind(&self) -> FileKind {
        match self.body {
            Body::File(_) => FileKind::File,
            Body::Dir(_) => FileKind::Dir,
            Body::Symlink(_) => FileKind::Symlink,
            Body::Special(kind, _) => kind,
        }
    }
    pub(super) fn attr(&self, ino: Ino) -> Attr {
        let (size, rdev) = match &self.body {
            Body::File(file) => (file.size, 0),
            Body::Dir(_) => (PAGE_BYTES as u64, 0),
            Body::Symlink(target) => (target.len() as u64, 0),
            Body::Special(_, rdev) => (0, *rdev),
        };
        Attr {
            ino,
            kind: self.kind(),
            perm: self.perm,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            rdev,
            size,
            sectors: self.sectors(),
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            crtime: self.crtime,
            generation: self.generation,
            flags: FileFlags::default(),
        }
    }
    pub(super) fn sectors(&self) -> u64 {
        match &self.body {
            Body::File(file) => file.allocated() * 8,
            Body::Dir(_) => 8,
            Body::Symlink(_) | Body::Special(..) => 0,
        }
    }
    pub(super) fn file(&mut self) -> FsResult<&mut File> {
        match &mut self.body {
            Body::File(file) => Ok(file),
            Body::Dir(_) => Err(Errno::IsDir.into()),
            _ => Err(Errno::Inval.into()),
        }
    }
    pub(super) fn dir(&mut self) -> FsResult<&mut Dir> {
        match &mut self.body {
            Body::Dir(dir) => Ok(dir),
            _ => Err(Errno::NotDir.into()),
        }
    }
    /// Sets the times of a change of content.
    pub(super) fn touch_content(&mut self) {
        self.mtime = rt::wall();
        self.ctime = self.mtime;
    }
    /// Sets the time of a change of the inode.
    pub(super) fn touch_inode(&mut self) {
        self.ctime = rt::wall();
    }
}

/// The number of a page, and the range in it that begins at `at` and ends with the page or after
/// `left` bytes.
fn piece(at: u64, left: usize) -> (u64, std::ops::Range<usize>) {
    let page = at / PAGE_BYTES as u64;
    let start = (at % PAGE_BYTES as u64) as usize;
    (page, start..PAGE_BYTES.min(start + left))
}

impl File {
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        let len = buf.len().min(self.size.saturating_sub(offset) as usize);
        let mut done = 0;
        while done < len {
            let (page, range) = piece(offset + done as u64, len - done);
            let out = &mut buf[done..done + range.len()];
            done += range.len();
            match self.pages.get(&page) {
                Some(bytes) => out.copy_from_slice(&bytes[range]),
                None => out.fill(0),
            }
        }
        len
    }
    pub(super) fn write(&mut self, offset: u64, data: &[u8]) -> FsResult<usize> {
        if offset >= FILE_BYTES_MAX {
            return Err(Errno::FBig.into());
        }
        let len = data.len().min((FILE_BYTES_MAX - offset) as usize);
        let mut done = 0;
        while done < len {
            let (page, range) = piece(offset + done as u64, len - done);
            let n = range.len();
            let bytes = self
                .pages
                .entry(page)
                .or_insert_with(|| vec![0; PAGE_BYTES].into());
            bytes[range].copy_from_slice(&data[done..done + n]);
            done += n;
        }
        self.size = self.size.max(offset + len as u64);
        Ok(len)
    }
    /// Allocates `offset..end`; with `grow` the size reaches `end`.
    pub(super) fn reserve(&mut self, offset: u64, end: u64, grow: bool) -> FsResult<()> {
        if end > FILE_BYTES_MAX {
            return Err(Errno::FBig.into());
        }
        let mut range = offset / PAGE_BYTES as u64..end.div_ceil(PAGE_BYTES as u64);
        let touching = self.reserved.range(..=range.end);
        let touching: Vec<(u64, u64)> = (touching.filter(|&(_, &to)| to >= range.start))
            .map(|(&from, &to)| (from, to))
            .collect();
        for (from, to) in touching {
            self.reserved.remove(&from);
            range = range.start.min(from)..range.end.max(to);
        }
        self.reserved.insert(range.start, range.end);
        if grow {
            self.size = self.size.max(end);
        }
        Ok(())
    }
    /// Number of pages that are allocated.
    fn allocated(&self) -> u64 {
        let unwritten = |(&from, &to): (&u64, &u64)| {
            let written = self.pages.range(from..to).count() as u64;
            to - from - written
        };
        self.pages.len() as u64 + self.reserved.iter().map(unwritten).sum::<u64>()
    }
    pub(super) fn truncate(&mut self, size: u64) -> FsResult<()> {
        if size > FILE_BYTES_MAX {
            return Err(Errno::FBig.into());
        }
        let first_gone = size.div_ceil(PAGE_BYTES as u64);
        self.pages.split_off(&first_gone);
        // A file that grows keeps what is allocated beyond its end.
        if size <= self.size {
            self.reserved.split_off(&first_gone);
            if let Some(mut last) = self.reserved.last_entry() {
                let end = (*last.get()).min(first_gone);
                last.insert(end);
            }
        }
        let (page, rest) = piece(size, PAGE_BYTES);
        if let Some(bytes) = self.pages.get_mut(&page) {
            bytes[rest].fill(0);
        }
        self.size = size;
        Ok(())
    }
}

impl Dir {
    pub(super) fn new(parent: Ino) -> Dir {
        Dir {
            parent,
            names: BTreeMap::new(),
            order: BTreeMap::new(),
            next: FIRST_COOKIE,
        }
    }
    pub(super) fn insert(&mut self, name: &[u8], ino: Ino) {
        self.names.insert(name.to_vec(), (ino, self.next));
        self.order.insert(self.next, name.to_vec());
        self.next += 1;
    }
    pub(super) fn remove(&mut self, name: &[u8]) {
        if let Some((_, cookie)) = self.names.remove(name) {
            self.order.remove(&cookie);
        }
    }
    /// Points an existing name to another inode; the name keeps its cookie.
    pub(super) fn replace(&mut self, name: &[u8], ino: Ino) {
        if let Some(entry) = self.names.get_mut(name) {
            entry.0 = ino;
        }
    }
}
