//! Names in roll-forward: an inode that the checkpoint does not know gets the name that its inode
//! block in the chain says.

use super::RecoveryReport;
use crate::F2fs;
use crate::dir::{Found, NewEntry};
use crate::inode::Inode;
use crate::ops::Op;
use base::Ino;
use fscore::shell::names::is_dot;
use fscore::{FsError, FsResult};
use ondisk::f2fs::{FileType, InodeFields, InodeName, NAME_BYTES_MAX};

impl F2fs {
    /// Gives an inode its name; an inode that had this name loses it.
    pub(super) fn apply_name(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        fields: &InodeFields,
        report: &mut RecoveryReport,
    ) -> FsResult<()> {
        let (ino, name) = (inode.ino, fields.name.as_bytes());
        if name.is_empty() || is_dot(name) || name.iter().any(|b| matches!(b, 0 | b'/')) {
            let name = name.escape_ascii();
            return Err(FsError::corrupt(format!(
                "inode {ino} says its name is `{name}`"
            )));
        }
        let dir = self.inode(Ino(fields.pino.0)).map_err(|e| {
            let what = format!("inode {ino} says it lies in directory {}: {e}", fields.pino);
            FsError::corrupt(what)
        })?;
        if !dir.is_dir() {
            let pino = fields.pino;
            return Err(FsError::corrupt(format!(
                "inode {ino} lies in {pino}, no directory"
            )));
        }
        let found = self.dir_find(&dir, name).map_err(|e| {
            let (pino, name) = (fields.pino, name.escape_ascii());
            FsError::corrupt(format!(
                "inode {ino} says its name in directory {pino} is `{name}`: {e}"
            ))
        })?;
        if let Some(found) = found {
            if found.ino == ino {
                return Ok(());
            }
            self.displace(op, &dir, &found, name)?;
            report.names_displaced += 1;
        }
        let entry = NewEntry {
            name,
            ino,
            kind: FileType::Regular,
        };
        self.dir_insert(op, &dir, entry)?;
        {
            let mut core = inode.core();
            (core.fields.pino, core.fields.name) = (fields.pino, fields.name);
        }
        self.put_inode(op, inode)?;
        self.put_inode(op, &dir)?;
        report.names += 1;
        Ok(())
    }

    /// Takes a name from the inode that has it at the checkpoint: that name was removed, or moved
    /// away, since then. If the inode was moved away and not synced, it is lost with the name,
    /// because its new name is lost too. A directory keeps its content, under another name.
    fn displace(&self, op: &Op<'_>, dir: &Inode, found: &Found, name: &[u8]) -> FsResult<()> {
        let former = self.inode(found.ino)?;
        self.dir_remove(op, dir, found, name)?;
        if former.is_dir() {
            return self.put_aside(op, dir, &former, name);
        }
        let unnamed = {
            let mut core = former.core();
            core.fields.links = core.fields.links.saturating_sub(1);
            core.fields.links == 0
        };
        self.put_inode(op, &former)?;
        if unnamed {
            self.free_inode(op, &former)?;
        }
        Ok(())
    }

    fn put_aside(&self, op: &Op<'_>, dir: &Inode, former: &Inode, name: &[u8]) -> FsResult<()> {
        let suffix = format!(".{}", former.ino);
        let mut stem = name.len().min(NAME_BYTES_MAX - suffix.len());
        // A strict volume without regard to case takes whole characters only.
        while stem > 0 && std::str::from_utf8(name).is_ok_and(|text| !text.is_char_boundary(stem)) {
            stem -= 1;
        }
        let aside = [&name[..stem], suffix.as_bytes()].concat();
        if self.dir_find(dir, &aside)?.is_some() {
            let what = format!(
                "directory {}: no name is left for inode {}",
                dir.ino, former.ino
            );
            return Err(FsError::corrupt(what));
        }
        let entry = NewEntry {
            name: &aside,
            ino: former.ino,
            kind: FileType::Directory,
        };
        self.dir_insert(op, dir, entry)?;
        former.core().fields.name = InodeName::new(&aside).unwrap_or_default();
        self.put_inode(op, former)
    }
}
