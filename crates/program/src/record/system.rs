//! The recorder as a file system: each operation that changes or syncs something is carried out and
//! noted under the lock of the recording (record-R1).

use super::acks::AckFile;
use super::fault::Word;
use super::nodes::kind_of;
use super::recorder::{Recorder, Tape};
use crate::call::{Attribute, What};
use base::{Bytes, Ino, Time};
use vfs::{
    Attr, Creds, DirEntry, Errno, FallocateMode, FileFlags, FileKind, FileSystem, FsResult, FsStat,
    RenameMode, SeekMode, SetAttr, WriteErrorCounts, XattrMode,
};

impl Recorder {
    /// Makes a node with a name.
    fn make(
        &self,
        call: Word,
        (dir, name): (Ino, &[u8]),
        make: impl FnOnce() -> FsResult<Attr>,
    ) -> FsResult<Attr> {
        let Some(mut tape) = self.rolling() else {
            return make();
        };
        let path = tape.nodes.path_in(dir, name);
        tape.admit(call, &path, 0)?;
        let parent = tape.nodes.of(dir)?;
        let made = make();
        tape.note_full(call, &path, (None, 0, 0), &made);
        let attr = made?;
        let node = tape.nodes.new_node(attr.ino);
        tape.nodes.named(node, parent, name);
        let what = What::Create {
            dir: parent,
            name: name.to_vec(),
            node,
            kind: kind_of(&*self.below, &attr)?,
            mode: attr.perm,
            owner: (attr.uid, attr.gid),
        };
        tape.note(path.clone(), what);
        tape.note_xattrs(&path, attr.ino, &[], &self.acls(attr.ino)?)?;
        Ok(attr)
    }

    /// Removes a name.
    fn remove(
        &self,
        call: Word,
        (dir, name): (Ino, &[u8]),
        remove: impl FnOnce() -> FsResult<()>,
    ) -> FsResult<()> {
        let Some(mut tape) = self.rolling() else {
            return remove();
        };
        let path = tape.nodes.path_in(dir, name);
        tape.admit(call, &path, 0)?;
        let node = self.below.lookup(dir, name)?;
        remove()?;
        let what = What::Unlink {
            dir: tape.nodes.of(dir)?,
            name: name.to_vec(),
            node: tape.nodes.of(node)?,
        };
        tape.note(path, what);
        Ok(())
    }

    /// Moves a name while the tape rolls.
    fn moved(
        &self,
        tape: &mut Tape,
        (from_dir, from): (Ino, &[u8]),
        (to_dir, to): (Ino, &[u8]),
        mode: RenameMode,
    ) -> FsResult<()> {
        let path = tape.nodes.path_in(from_dir, from);
        tape.admit(Word::Rename, &path, 0)?;
        if mode.whiteout().is_some() {
            // A second name that is made with the move: a recording has no word for it (record-R3).
            tape.refused.add("rename(RENAME_WHITEOUT)", &path);
            return Err(Errno::Inval.into());
        }
        let moved = self.below.lookup(from_dir, from)?;
        let replaced = match self.below.lookup(to_dir, to) {
            Ok(ino) => Some(ino),
            Err(e) if e.errno() == Errno::NoEnt => None,
            Err(e) => return Err(e),
        };
        self.below.rename(from_dir, from, to_dir, to, mode)?;
        if replaced == Some(moved) {
            // Two names of one file: nothing has changed.
            return Ok(());
        }
        let (old, new) = (tape.nodes.of(from_dir)?, tape.nodes.of(to_dir)?);
        let node = tape.nodes.of(moved)?;
        let replaced = replaced.map(|ino| tape.nodes.of(ino)).transpose()?;
        let exchange = mode == RenameMode::Exchange;
        let to_path = tape.nodes.path_in(to_dir, to);
        tape.nodes.named(node, new, to);
        if let Some(other) = replaced.filter(|_| exchange) {
            tape.nodes.named(other, old, from);
        }
        let what = What::Rename {
            from: (old, from.to_vec()),
            to: (new, to.to_vec()),
            node,
            replaced,
            exchange,
        };
        tape.note(format!("{path}, {to_path}"), what);
        Ok(())
    }

    /// Changes extended attributes while the tape rolls. A change of an ACL changes the mode, too.
    fn change_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: Option<&[u8]>,
        change: impl FnOnce() -> FsResult<()>,
    ) -> FsResult<()> {
        if AckFile::of(ino).is_some() {
            return Err(Errno::NotSup.into());
        }
        let Some(mut tape) = self.rolling() else {
            return change();
        };
        let path = tape.nodes.path(ino);
        tape.admit(Word::Setxattr, &path, value.map_or(0, <[u8]>::len))?;
        let (attr, acls) = (self.below.getattr(ino)?, self.acls(ino)?);
        let done = change();
        let named = || format!("setxattr({})", base::plain::shown(name));
        tape.refused.note(&named(), &path, &done);
        tape.note_full(Word::Setxattr, &path, (Some(ino), 0, 0), &done);
        done?;
        if name.starts_with(b"system.posix_acl_") {
            // Some ACLs are a mode and nothing else.
            tape.note_xattrs(&path, ino, &acls, &self.acls(ino)?)?;
        } else {
            let attribute = Attribute::Xattr(name.to_vec(), value.map(<[u8]>::to_vec));
            let node = tape.nodes.of(ino)?;
            tape.note(path.clone(), What::SetAttribute { node, attribute });
        }
        tape.note_attributes(&path, &attr, &self.below.getattr(ino)?)
    }

    /// Syncs a file while the tape rolls; a failure is noted, because the program was told of it
    /// (call-C3).
    fn synced(&self, tape: &mut Tape, ino: Ino, data_only: bool) -> FsResult<()> {
        let call = match data_only {
            true => Word::Fdatasync,
            false => Word::Fsync,
        };
        let path = tape.nodes.path(ino);
        let done = tape.admit(call, &path, 0);
        let done = done.and_then(|()| self.below.fsync(ino, data_only));
        let what = What::Sync {
            node: tape.nodes.of(ino)?,
            data_only,
            failed: done.as_ref().err().map(|e| e.errno().code()),
        };
        tape.note(path, what);
        done
    }
}

impl FileSystem for Recorder {
    fn root(&self) -> Ino {
        self.below.root()
    }
    fn ignores_case(&self, dir: Ino) -> Option<bool> {
        self.below.ignores_case(dir)
    }
    fn lookup(&self, dir: Ino, name: &[u8]) -> FsResult<Ino> {
        match AckFile::named(name).filter(|_| dir == self.root()) {
            Some(file) => Ok(file.ino()),
            None => self.below.lookup(dir, name),
        }
    }
    fn getattr(&self, ino: Ino) -> FsResult<Attr> {
        match AckFile::of(ino) {
            Some(file) => Ok(self.tape.lock().acks.attr(file)),
            None => self.below.getattr(ino),
        }
    }
    fn setattr(&self, ino: Ino, set: &SetAttr) -> FsResult<Attr> {
        if let Some(file) = AckFile::of(ino) {
            let mut tape = self.tape.lock();
            if set.size.is_some() {
                tape.end_acks(file);
            }
            return Ok(tape.acks.attr(file));
        }
        let Some(mut tape) = self.rolling() else {
            return self.below.setattr(ino, set);
        };
        let path = tape.nodes.path(ino);
        if set.size.is_some() {
            tape.admit_on(Word::Truncate, &path, (Some(ino), 0, 0))?;
        }
        if set.perm.is_some() || set.uid.is_some() || set.gid.is_some() {
            tape.admit(Word::Chmod, &path, 0)?;
        }
        let (before, acls) = (self.below.getattr(ino)?, self.acls(ino)?);
        let after = self.below.setattr(ino, set)?;
        if before.size != after.size {
            let what = What::Truncate {
                node: tape.nodes.of(ino)?,
                size: after.size,
                size_before: before.size,
            };
            tape.note(path.clone(), what);
        }
        tape.note_attributes(&path, &before, &after)?;
        tape.note_xattrs(&path, ino, &acls, &self.acls(ino)?)?;
        Ok(after)
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
        let make = || self.below.create(dir, name, kind, perm, rdev, creds);
        self.make(Word::Create, (dir, name), make)
    }
    fn mkdir(&self, dir: Ino, name: &[u8], perm: u16, creds: Creds) -> FsResult<Attr> {
        let make = || self.below.mkdir(dir, name, perm, creds);
        self.make(Word::Mkdir, (dir, name), make)
    }
    fn symlink(&self, dir: Ino, name: &[u8], target: &[u8], creds: Creds) -> FsResult<Attr> {
        let make = || self.below.symlink(dir, name, target, creds);
        self.make(Word::Symlink, (dir, name), make)
    }
    fn tmpfile(&self, dir: Ino, perm: u16, creds: Creds) -> FsResult<Attr> {
        let Some(mut tape) = self.rolling() else {
            return self.below.tmpfile(dir, perm, creds);
        };
        let path = tape.nodes.path(dir);
        tape.admit(Word::Create, &path, 0)?;
        let attr = self.below.tmpfile(dir, perm, creds)?;
        let what = What::CreateUnnamed {
            node: tape.nodes.new_node(attr.ino),
            mode: attr.perm,
            owner: (attr.uid, attr.gid),
        };
        let path = tape.nodes.path(attr.ino);
        tape.note(path.clone(), what);
        tape.note_xattrs(&path, attr.ino, &[], &self.acls(attr.ino)?)?;
        Ok(attr)
    }
    fn readlink(&self, ino: Ino) -> FsResult<Vec<u8>> {
        self.below.readlink(ino)
    }
    fn link(&self, ino: Ino, dir: Ino, name: &[u8]) -> FsResult<Attr> {
        let Some(mut tape) = self.rolling() else {
            return self.below.link(ino, dir, name);
        };
        let path = tape.nodes.path_in(dir, name);
        tape.admit(Word::Link, &path, 0)?;
        let from = tape.nodes.path(ino);
        let (node, parent) = (tape.nodes.of(ino)?, tape.nodes.of(dir)?);
        let attr = self.below.link(ino, dir, name)?;
        tape.nodes.named(node, parent, name);
        let what = What::Link {
            node,
            dir: parent,
            name: name.to_vec(),
        };
        tape.note(format!("{from}, {path}"), what);
        Ok(attr)
    }
    fn unlink(&self, dir: Ino, name: &[u8]) -> FsResult<()> {
        self.remove(Word::Unlink, (dir, name), || self.below.unlink(dir, name))
    }
    fn rmdir(&self, dir: Ino, name: &[u8]) -> FsResult<()> {
        self.remove(Word::Rmdir, (dir, name), || self.below.rmdir(dir, name))
    }
    fn rename(
        &self,
        from_dir: Ino,
        from: &[u8],
        to_dir: Ino,
        to: &[u8],
        mode: RenameMode,
    ) -> FsResult<()> {
        match self.rolling() {
            Some(mut tape) => self.moved(&mut tape, (from_dir, from), (to_dir, to), mode),
            None => self.below.rename(from_dir, from, to_dir, to, mode),
        }
    }
    fn readdir(&self, dir: Ino, from: u64, max: usize) -> FsResult<Vec<DirEntry>> {
        self.below.readdir(dir, from, max)
    }
    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> FsResult<usize> {
        if AckFile::of(ino).is_some() {
            return Ok(0);
        }
        if let Some(mut tape) = self.rolling_unnoted() {
            let path = tape.nodes.path(ino);
            if let Some(errno) = tape.read_fails(&path, ino) {
                return Err(errno.into());
            }
        }
        self.below.read(ino, offset, buf)
    }
    fn write(&self, ino: Ino, offset: u64, data: &[u8]) -> FsResult<usize> {
        if let Some(file) = AckFile::of(ino) {
            self.tape_of_call().take_acks(file, data);
            if file == AckFile::Stdout {
                (self.echo)(data);
            }
            return Ok(data.len());
        }
        let Some(mut tape) = self.rolling() else {
            return self.below.write(ino, offset, data);
        };
        let path = tape.nodes.path(ino);
        let about = (Some(ino), offset, data.len());
        tape.admit_on(Word::Write, &path, about)?;
        let size_before = self.below.getattr(ino)?.size;
        let done = self.below.write(ino, offset, data);
        tape.note_full(Word::Write, &path, about, &done);
        let done = done?;
        if done > 0 {
            let what = What::Write {
                node: tape.nodes.of(ino)?,
                offset,
                data: Bytes::copy_from_slice(&data[..done]),
                size_before,
            };
            tape.note(path.clone(), what);
        }
        if done < data.len() {
            // There was room for a part alone. Who does not look at the number takes the rest for
            // written, so it counts as a write that failed; who writes it again makes it good.
            let rest = (Some(ino), offset + done as u64, data.len() - done);
            let full: FsResult<()> = Err(Errno::NoSpc.into());
            tape.note_full(Word::Write, &path, rest, &full);
        }
        Ok(done)
    }
    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> FsResult<()> {
        self.change_xattr(ino, name, Some(value), || {
            self.below.setxattr(ino, name, value, mode)
        })
    }
    fn getxattr(&self, ino: Ino, name: &[u8]) -> FsResult<Vec<u8>> {
        match AckFile::of(ino) {
            Some(_) => Err(Errno::NoData.into()),
            None => self.below.getxattr(ino, name),
        }
    }
    fn listxattr(&self, ino: Ino) -> FsResult<Vec<Vec<u8>>> {
        match AckFile::of(ino) {
            Some(_) => Ok(Vec::new()),
            None => self.below.listxattr(ino),
        }
    }
    fn obeys_acls(&self) -> bool {
        self.below.obeys_acls()
    }
    fn removexattr(&self, ino: Ino, name: &[u8]) -> FsResult<()> {
        self.change_xattr(ino, name, None, || self.below.removexattr(ino, name))
    }
    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64) -> FsResult<()> {
        if AckFile::of(ino).is_some() {
            return Err(Errno::NotSup.into());
        }
        let Some(mut tape) = self.rolling() else {
            return self.below.fallocate(ino, mode, offset, len);
        };
        let path = tape.nodes.path(ino);
        tape.admit(Word::Fallocate, &path, 0)?;
        let zero = match mode {
            FallocateMode::Allocate | FallocateMode::KeepSize | FallocateMode::Unshare => false,
            FallocateMode::PunchHole
            | FallocateMode::ZeroRange
            | FallocateMode::ZeroRangeKeepSize => true,
            // A recording has no word for content that moves (record-R3).
            FallocateMode::CollapseRange => {
                tape.refused
                    .add("fallocate(FALLOC_FL_COLLAPSE_RANGE)", &path);
                return Err(Errno::NotSup.into());
            }
            FallocateMode::InsertRange => {
                tape.refused.add("fallocate(FALLOC_FL_INSERT_RANGE)", &path);
                return Err(Errno::NotSup.into());
            }
        };
        let size_before = self.below.getattr(ino)?.size;
        let done = self.below.fallocate(ino, mode, offset, len);
        tape.refused.note("fallocate", &path, &done);
        tape.note_full(Word::Fallocate, &path, (Some(ino), 0, 0), &done);
        let size = self.below.getattr(ino)?.size;
        // Without room for all of the range a part of it may have been allocated.
        if done.is_ok() || size != size_before {
            let what = What::Allocate {
                node: tape.nodes.of(ino)?,
                offset,
                len: if done.is_ok() { len } else { 0 },
                zero,
                size,
                size_before,
            };
            tape.note(path, what);
        }
        done
    }
    fn seek(&self, ino: Ino, offset: u64, mode: SeekMode) -> FsResult<u64> {
        match AckFile::of(ino) {
            Some(_) => Err(Errno::NxIo.into()),
            None => self.below.seek(ino, offset, mode),
        }
    }
    fn file_flags(&self, ino: Ino) -> FsResult<FileFlags> {
        self.below.file_flags(ino)
    }
    fn project(&self, ino: Ino) -> FsResult<u32> {
        self.below.project(ino)
    }
    fn open(&self, ino: Ino) -> FsResult<()> {
        match AckFile::of(ino) {
            Some(_) => Ok(()),
            None => self.below.open(ino),
        }
    }
    fn open_handle(&self, ino: Ino) -> FsResult<()> {
        match AckFile::of(ino) {
            Some(_) => Ok(()),
            None => self.below.open_handle(ino),
        }
    }
    fn release(&self, ino: Ino) -> FsResult<()> {
        match AckFile::of(ino) {
            Some(_) => Ok(()),
            None => self.below.release(ino),
        }
    }
    fn fsync(&self, ino: Ino, data_only: bool) -> FsResult<()> {
        match (AckFile::of(ino), self.rolling()) {
            (Some(_), _) => Ok(()),
            (None, Some(mut tape)) => self.synced(&mut tape, ino, data_only),
            (None, None) => self.below.fsync(ino, data_only),
        }
    }
    fn write_errors(&self, ino: Ino) -> WriteErrorCounts {
        self.below.write_errors(ino)
    }
    fn sync(&self) -> FsResult<()> {
        let Some(mut tape) = self.rolling() else {
            return self.below.sync();
        };
        self.below.sync()?;
        tape.note(String::from("."), What::SyncAll);
        Ok(())
    }
    fn writeback(&self, older_than: Time) -> FsResult<()> {
        self.below.writeback(older_than)
    }
    fn dirty_pages(&self) -> u64 {
        self.below.dirty_pages()
    }
    fn statfs(&self) -> FsResult<FsStat> {
        self.below.statfs()
    }
    fn unmount(&self) -> FsResult<()> {
        self.below.unmount()
    }
}
