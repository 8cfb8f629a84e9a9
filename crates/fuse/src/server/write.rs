//! Writes, and what the kernel is told of a write for which the volume has too little room.
//!
//! A count below the size of a request means something different to the kernel for each of the
//! three kinds of writes, so each has its own rule:
//!
//! - W1 a buffered write(2) that fits in part is answered with the count. The kernel hands the
//!   count to the program, and keeps nothing of the rest;
//! - W2 a direct write is written as a whole or refused. The kernel turns a short count of a direct
//!   write into EIO (`fuse_get_res_by_io`), and cuts a file that a refused write has made longer
//!   (`fuse_direct_IO`), so the error is ENOSPC and no byte behind the old end stays;
//! - W3 a write from the kernel's cache is written as far as there is room, *page by page*, and
//!   refused if a page had none. The kernel takes no notice of a short count here: it would call
//!   all pages of the request clean. An error it keeps for every open descriptor
//!   (`mapping_set_error`): the next fsync, msync or close tells it. Pages behind one without room
//!   are written, because they may lie over blocks that the file has had for long;
//! - W4 what a count or a success covers can be written back, however full the volume gets: the
//!   file system below has promised blocks to each page before it answered (ext4-space-S1; F2FS
//!   gives a page its address in the log or its reservation in the same call);
//! - W5 what was refused by W3 does not stay in the kernel's cache, where programs would read it
//!   until the page is evicted: the pages are dropped, and what is read is what the file holds, as
//!   with the kernel's ext4 (notices-P4);
//! - W6 a file whose last pages were refused by W3 is nevertheless as long as the request says:
//!   with `writeback` the kernel has told programs that size, and tells it for as long as it knows
//!   the inode. What was refused is a hole, before a remount and after it.
//!
//! Room for pages of a shared mapping cannot be asked for when they are dirtied, as a file system
//! inside the kernel does it before it lets a page be written (SIGBUS): FUSE has no request for
//! that moment. W3 is what remains, and keeps the promise of fsync.

use super::attrs::OFFSET_MAX;
use super::{OpenMode, Server};
use base::Ino;
use vfs::{Accepted, Errno, FsResult, SetAttr};

impl Server {
    /// Writes `data` at `offset` for a write(2) (fuse-U3, W1, W2, W4). With `kill` set-user-ID and
    /// set-group-ID go, as the kernel asks for callers without `CAP_FSETID`.
    ///
    /// # Errors
    /// Those of `write(2)`.
    pub fn write(
        &self,
        number: u64,
        handle: u64,
        offset: u64,
        data: &[u8],
        mode: OpenMode,
        kill: bool,
    ) -> Result<usize, Errno> {
        let ino = self.ino(number);
        let n = self.run_for_room(|| {
            check_end(offset, data.len())?;
            self.drop_privileges(ino, kill)?;
            match self.vfs().write_pinned(ino, offset, data)? {
                n if n < data.len() && mode.direct => self.finish_direct(ino, offset, data, n),
                n => Ok(n),
            }
        })?;
        if mode.syncs() {
            self.fsync(number, handle, !mode.sync)?;
        }
        Ok(n)
    }

    /// Writes what the kernel had in its cache (W3). It has no handle that counts, and syncs by
    /// itself. A flag that forbids writes may have been set since the kernel took it.
    ///
    /// # Errors
    /// Those of `write(2)`; ENOSPC if a page had no room, when all others have been written.
    pub fn write_cached(
        &self,
        number: u64,
        offset: u64,
        data: &[u8],
        kill: bool,
    ) -> Result<usize, Errno> {
        let ino = self.ino(number);
        self.run_for_room(|| {
            check_end(offset, data.len())?;
            Accepted::scope(|| {
                self.drop_privileges(ino, kill)?;
                self.write_pages(ino, offset, data)
            })
        })
    }

    /// The rest of a direct write of which `done` bytes were taken: the reason why it stopped
    /// there, or the whole count (W2).
    fn finish_direct(
        &self,
        ino: Ino,
        offset: u64,
        data: &[u8],
        mut done: usize,
    ) -> FsResult<usize> {
        while done < data.len() {
            match self
                .vfs()
                .write_pinned(ino, offset + done as u64, &data[done..])?
            {
                0 => return Err(Errno::NoSpc.into()),
                n => done += n,
            }
        }
        Ok(done)
    }

    fn write_pages(&self, ino: Ino, offset: u64, data: &[u8]) -> FsResult<usize> {
        let mut done = 0;
        let mut refused = None;
        while done < data.len() {
            let at = offset + done as u64;
            match self.vfs().write_pinned(ino, at, &data[done..]) {
                Ok(n) if n > 0 => done += n,
                Ok(_) => return Err(Errno::Io.into()),
                Err(e) if e.errno() == Errno::NoSpc => {
                    refused = Some(e);
                    done += self.to_next_block(at)?.min(data.len() - done);
                }
                Err(e) => return Err(e),
            }
        }
        match refused {
            None => Ok(done),
            Some(e) => {
                self.keep_size(ino, offset + data.len() as u64);
                Err(e)
            }
        }
    }

    /// Makes the file at least so long (W6).
    fn keep_size(&self, ino: Ino, end: u64) {
        let size = SetAttr {
            size: Some(end),
            ..SetAttr::default()
        };
        let is_shorter = self.vfs().fs().getattr(ino).map(|attr| attr.size < end);
        if is_shorter.unwrap_or(false) {
            // The request is refused anyway, with the error that says why.
            let _ = self.vfs().set_attr_pinned(ino, &size);
        }
    }

    /// Bytes from `at` to where the next block of the file begins.
    fn to_next_block(&self, at: u64) -> FsResult<usize> {
        let block = u64::from(self.vfs().statfs()?.block_bytes).max(1);
        Ok((block - at % block) as usize)
    }
}

fn check_end(offset: u64, len: usize) -> FsResult<()> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= OFFSET_MAX => Ok(()),
        _ => Err(Errno::FBig.into()),
    }
}
