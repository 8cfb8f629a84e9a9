//! Reading a directory (readdir).

use crate::{Ext4, dir};
use base::Ino;
use fscore::{DirEntry, FsResult};

impl Ext4 {
    pub(crate) fn op_readdir(&self, dir: Ino, from: u64, max: usize) -> FsResult<Vec<DirEntry>> {
        let dir = self.directory(dir)?;
        let _gate = dir.gate.read();
        if dir.core().disk.links() == 0 {
            // The directory was removed but is still open: it is empty.
            return Ok(Vec::new());
        }
        let found = dir::read_entries(&self.view_dir(&dir), from, max)?;
        rt::charge_each(base::cost::ext4::READDIR_ENTRY, found.len() as u64);
        let entries = found.into_iter().map(|entry| {
            let dir::RawEntry {
                ino,
                kind,
                name,
                next,
            } = entry;
            let kind = match kind {
                Some(kind) => kind,
                None => self.inode(ino)?.kind()?,
            };
            Ok(DirEntry {
                ino,
                kind,
                name,
                next,
            })
        });
        let entries = entries.collect::<FsResult<Vec<DirEntry>>>()?;
        self.note_access(&dir)?;
        Ok(entries)
    }
}
