//! Requests on open files: reading, syncing, allocating, copying.

use super::attrs::OFFSET_MAX;
use super::{Caller, Server};
use base::Ino;
use vfs::{Attr, Errno, ErrorSeen, FallocateMode, FileKind, FsResult, SeekMode, SetAttr};

/// Bytes that one step of a copy moves.
const COPY_BYTES: usize = 1 << 20;

/// Buffers of reads that are kept for the next ones, at most.
const BUFFERS_MAX: usize = 4;
/// Bytes of the largest buffer that is kept.
const BUFFER_BYTES_MAX: usize = 1 << 20;

/// How a file is opened, and how a write to it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenMode {
    /// For writing.
    pub write: bool,
    /// `O_TRUNC`.
    pub truncate: bool,
    /// `O_APPEND`.
    pub append: bool,
    /// `O_SYNC`: data and metadata are durable before a write is answered.
    pub sync: bool,
    /// `O_DSYNC`: the data is, and what is needed to read it.
    pub data_sync: bool,
    /// `O_DIRECT`: the kernel takes back a write that does not fit as a whole (write-W2).
    pub direct: bool,
    /// `O_NOATIME`: reads leave the access time as it is.
    pub no_access_time: bool,
}

impl OpenMode {
    /// Whether a change is synced before its answer.
    pub(super) fn syncs(self) -> bool {
        self.sync || self.data_sync
    }
}

/// An open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opened {
    /// Its handle.
    pub handle: u64,
    /// A read would not change the access time: what the kernel has cached may stay.
    pub settled: bool,
}

impl Server {
    /// Opens a file or directory.
    ///
    /// # Errors
    /// Those of `open(2)`.
    pub fn open(&self, caller: Caller, number: u64, mode: OpenMode) -> Result<Opened, Errno> {
        let ino = self.ino(number);
        self.run_for_room(|| {
            self.vfs().fs().open(ino)?;
            let told = ErrorSeen::at_open(self.write_errors(ino));
            let (handle, pinned) = self.nodes.lock().opened(ino, told, mode.syncs());
            if pinned {
                self.unpin(ino);
            }
            match self.begin(caller, ino, mode) {
                Ok(settled) => Ok(Opened { handle, settled }),
                Err(e) => {
                    self.close(handle);
                    Err(e)
                }
            }
        })
    }

    fn begin(&self, caller: Caller, ino: Ino, mode: OpenMode) -> FsResult<bool> {
        (self.vfs().fs().getattr(ino)?).check_open(mode.write, mode.append, mode.truncate)?;
        if mode.truncate {
            self.drop_privileges(ino, caller.uid != 0)?;
            let set = SetAttr {
                size: Some(0),
                ..SetAttr::default()
            };
            self.vfs().set_attr_pinned(ino, &set)?;
        }
        Ok(mode.no_access_time || self.is_settled(&self.vfs().fs().getattr(ino)?))
    }

    /// Whether reading changes nothing, the access time included.
    fn is_settled(&self, attr: &Attr) -> bool {
        let times = *self.access_times.read();
        !times.is_due(rt::wall(), attr.atime, attr.mtime, attr.ctime)
    }

    fn close(&self, handle: u64) {
        let last = self.nodes.lock().closed(handle);
        if let Some(ino) = last {
            self.unpin(ino);
            self.died(ino);
        }
    }

    /// Makes a file and opens it; counts as a lookup.
    ///
    /// # Errors
    /// Those of `open(2)` with `O_CREAT`.
    pub fn create(
        &self,
        caller: Caller,
        dir: u64,
        name: &[u8],
        perm: u16,
        mode: OpenMode,
    ) -> Result<(Attr, Opened), Errno> {
        let bits = perm & 0o7777 | FileKind::File.mode_bits();
        let attr = self.mknod(caller, dir, name, bits, 0)?;
        let number = self.number(attr.ino);
        let mode = OpenMode {
            // It is new, and empty.
            truncate: false,
            ..mode
        };
        match self.open(caller, number, mode) {
            Ok(opened) => Ok((attr, opened)),
            Err(errno) => {
                self.forget(number, 1);
                Err(errno)
            }
        }
    }

    /// Ends an open file or directory.
    ///
    /// # Errors
    /// EIO after a panic.
    pub fn release(&self, handle: u64) -> Result<(), Errno> {
        self.run(|| {
            self.close(handle);
            Ok(())
        })
    }

    /// Reads up to `len` bytes at `offset`; fewer only at the end of the file.
    ///
    /// # Errors
    /// EISDIR; of the file system.
    pub fn read(&self, number: u64, offset: u64, len: usize) -> Result<Vec<u8>, Errno> {
        self.read_for(number, offset, len, |read| read.map(<[u8]>::to_vec))
    }

    /// As [`read`](Server::read), for a caller that needs the bytes only during the call: memory of
    /// earlier reads is used again.
    ///
    /// # Errors
    /// Those of [`read`](Server::read), as `answer` passes them on.
    pub fn read_for<T>(
        &self,
        number: u64,
        offset: u64,
        len: usize,
        answer: impl FnOnce(Result<&[u8], Errno>) -> T,
    ) -> T {
        let kept = self.buffers.lock().pop();
        let mut buf = kept.unwrap_or_default();
        if buf.len() < len {
            buf = vec![0; len];
        }
        let read = self.run(|| {
            self.vfs()
                .fs()
                .read(self.ino(number), offset, &mut buf[..len])
        });
        let answered = answer(read.map(|n| &buf[..n]));
        let mut buffers = self.buffers.lock();
        if buffers.len() < BUFFERS_MAX && len <= BUFFER_BYTES_MAX {
            buffers.push(buf);
        }
        answered
    }

    /// A request for a page of the kernel's cache has come, and is about to be answered (fuse-U8,
    /// notices-P1).
    pub fn note_pages(&self, number: u64) {
        self.nodes.lock().note_pages(self.ino(number));
    }

    /// Whether the kernel may hold pages of the file (fuse-U8, notices-P3).
    pub fn may_have_pages(&self, number: u64) -> bool {
        self.nodes.lock().may_have_pages(self.ino(number))
    }

    /// Makes a file or directory durable (fuse-U4).
    ///
    /// # Errors
    /// EIO if data could not be written; of the file system.
    pub fn fsync(&self, number: u64, handle: u64, data_only: bool) -> Result<(), Errno> {
        let ino = self.ino(number);
        let open = self
            .nodes
            .lock()
            .file(handle)
            .filter(|open| open.ino == ino);
        self.run(|| {
            let result = self.vfs().fs().fsync(ino, data_only);
            match &open {
                Some(open) => {
                    let told = open.told.after(result, self.write_errors(ino));
                    self.nodes.lock().note_told(ino);
                    told
                }
                None => result,
            }
        })
    }

    /// Syncs what an allocation or a copy has changed, if the file was opened so (fuse-U3). The
    /// kernel sends no sync after them, as it leaves it to the file system.
    fn settle(&self, number: u64, handle: u64) -> Result<(), Errno> {
        let open = self.nodes.lock().file(handle);
        match open.is_some_and(|open| open.syncs) {
            true => self.fsync(number, handle, false),
            false => Ok(()),
        }
    }

    /// Allocates the blocks of a range, or gives them up.
    ///
    /// # Errors
    /// Those of `fallocate(2)`.
    pub fn fallocate(
        &self,
        caller: Caller,
        (number, handle): (u64, u64),
        mode: FallocateMode,
        offset: u64,
        len: u64,
    ) -> Result<(), Errno> {
        let ino = self.ino(number);
        self.run_for_room(|| {
            if len == 0 || offset > OFFSET_MAX || len > OFFSET_MAX {
                return Err(Errno::Inval.into());
            }
            if offset + len > OFFSET_MAX {
                return Err(Errno::FBig.into());
            }
            self.drop_privileges(ino, caller.uid != 0)?;
            let done = self.vfs().fs().fallocate(ino, mode, offset, len);
            if matches!(&done, Err(e) if matches!(e.errno(), Errno::NoSpc | Errno::Io)) {
                // It may have failed in the middle, and the kernel drops its pages of what has
                // changed only where a call succeeds.
                self.kernel.content_changed(number, offset);
            }
            done
        })?;
        self.settle(number, handle)
    }

    /// Where the next data, or the next hole, begins.
    ///
    /// # Errors
    /// Those of `lseek(2)`.
    pub fn seek(&self, number: u64, offset: i64, mode: SeekMode) -> Result<u64, Errno> {
        self.run(|| {
            let offset = u64::try_from(offset).map_err(|_| Errno::NxIo)?;
            self.vfs().fs().seek(self.ino(number), offset, mode)
        })
    }

    /// Tells the device which free space it need not keep (`FITRIM`), after a sync: what was freed
    /// just now can be needed until then. Answers how many bytes that were.
    ///
    /// # Errors
    /// EPERM for every caller but the superuser, EOPNOTSUPP, EINVAL.
    pub fn trim(&self, caller: Caller, start: u64, len: u64, min: u64) -> Result<u64, Errno> {
        self.run(|| match caller.uid {
            0 => {
                self.vfs().sync()?;
                self.vfs().fs().trim(start..start.saturating_add(len), min)
            }
            _ => Err(Errno::Perm.into()),
        })
    }

    /// Copies up to `len` bytes between two files, or within one, each given with the offset, and
    /// the target with its handle before; the answer counts what was copied, which ends where the
    /// source does.
    ///
    /// # Errors
    /// Those of `copy_file_range(2)`.
    pub fn copy(
        &self,
        caller: Caller,
        from: (u64, u64),
        (to, handle, to_offset): (u64, u64, u64),
        len: u64,
    ) -> Result<usize, Errno> {
        let (source, target) = (self.ino(from.0), self.ino(to));
        // The answer has 32 bits.
        let len = len.min(1 << 30) as usize;
        let done = self.run_for_room(|| {
            self.drop_privileges(target, caller.uid != 0)?;
            let mut buf = vec![0; len.min(COPY_BYTES)];
            let mut done = 0;
            while done < len {
                let want = buf.len().min(len - done);
                let n = (self.vfs().fs()).read(source, from.1 + done as u64, &mut buf[..want])?;
                let wrote = match n {
                    0 => 0,
                    n => match self
                        .vfs()
                        .write_pinned(target, to_offset + done as u64, &buf[..n])
                    {
                        Err(e) if done == 0 => return Err(e),
                        Err(_) => 0,
                        Ok(wrote) => wrote,
                    },
                };
                done += wrote;
                if wrote < want {
                    break;
                }
            }
            Ok(done)
        })?;
        self.settle(to, handle)?;
        Ok(done)
    }
}
