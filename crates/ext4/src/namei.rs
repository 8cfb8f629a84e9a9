//! Operations on names.

use crate::{Ext4, dir};
use base::Ino;
use fscore::{Attr, Creds, DirEntry, Errno, FileKind, FsResult, RenameMode};

impl Ext4 {
    pub(crate) fn op_lookup(&self, dir: Ino, name: &[u8]) -> FsResult<Ino> {
        let inode = self.inode(dir)?;
        if !inode.is_dir() {
            return Err(Errno::NotDir.into());
        }
        let _gate = inode.gate.read();
        let found = dir::lookup(&self.view_dir(&inode), name)?;
        Ok(found.ok_or(Errno::NoEnt)?.ino)
    }
    pub(crate) fn op_create(
        &self,
        _dir: Ino,
        _name: &[u8],
        _kind: FileKind,
        _perm: u16,
        _rdev: u32,
        _creds: Creds,
    ) -> FsResult<Attr> {
        Err(Errno::NoSys.into())
    }
    pub(crate) fn op_mkdir(&self, _: Ino, _: &[u8], _: u16, _: Creds) -> FsResult<Attr> {
        Err(Errno::NoSys.into())
    }
    pub(crate) fn op_symlink(&self, _: Ino, _: &[u8], _: &[u8], _: Creds) -> FsResult<Attr> {
        Err(Errno::NoSys.into())
    }
    pub(crate) fn op_readlink(&self, _: Ino) -> FsResult<Vec<u8>> {
        Err(Errno::NoSys.into())
    }
    pub(crate) fn op_link(&self, _: Ino, _: Ino, _: &[u8]) -> FsResult<Attr> {
        Err(Errno::NoSys.into())
    }
    pub(crate) fn op_unlink(&self, _: Ino, _: &[u8]) -> FsResult<()> {
        Err(Errno::NoSys.into())
    }
    pub(crate) fn op_rmdir(&self, _: Ino, _: &[u8]) -> FsResult<()> {
        Err(Errno::NoSys.into())
    }
    pub(crate) fn op_rename(
        &self,
        _: Ino,
        _: &[u8],
        _: Ino,
        _: &[u8],
        _: RenameMode,
    ) -> FsResult<()> {
        Err(Errno::NoSys.into())
    }
    pub(crate) fn op_readdir(&self, _: Ino, _: u64, _: usize) -> FsResult<Vec<DirEntry>> {
        Err(Errno::NoSys.into())
    }
}
