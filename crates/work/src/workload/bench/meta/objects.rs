//! The objects of `meta:` in their tree, and what each operation does with one of them.

use super::{MetaOp, MetaSpec};
use crate::RunError;
use crate::workload::bench::expect;
use crate::workload::fsync::content;
use std::sync::Arc;
use vfs::{Errno, OpenFlags, Vfs};

/// Root of the tree with the files that `copy` reads.
const SOURCE: &str = "/source";
/// Root of the tree with everything else: the root of the volume.
const TREE: &str = "";

/// A set of objects in a tree of directories. They are numbered like those of filebench: `width`
/// successive ones are in one directory.
pub(super) struct Objects {
    pub spec: MetaSpec,
    pub vfs: Arc<Vfs>,
}

impl Objects {
    /// The directories above the `n`th object, from the top: each holds `width` directories.
    fn dirs(&self, tree: &str, n: u32) -> Vec<String> {
        let width = self.spec.width;
        let mut above = vec![n / width];
        while let Some(&last) = above.last().filter(|n| **n >= width) {
            above.push(last / width);
        }
        let mut path = String::from(tree);
        let levels = above.iter().rev().map(|number| {
            path = format!("{path}/d{number}");
            path.clone()
        });
        levels.collect()
    }

    fn dir(&self, tree: &str, n: u32) -> String {
        let mut dirs = self.dirs(tree, n);
        dirs.pop().expect("one level at least")
    }

    fn at(&self, tree: &str, n: u32) -> String {
        format!("{}/e{n}", self.dir(tree, n))
    }

    /// The path of the `n`th object.
    pub fn path(&self, n: u32) -> String {
        self.at(TREE, n)
    }

    /// Makes the directories, and the sources for a copy.
    pub fn prepare(&self) -> Result<(), RunError> {
        self.make_dirs(TREE)?;
        if self.spec.op == MetaOp::Copy {
            self.vfs.mkdir(SOURCE, 0o755)?;
            self.make_dirs(SOURCE)?;
            for n in 0..self.spec.count {
                self.write(&self.at(SOURCE, n), &content(n.into(), self.spec.size))?;
            }
        }
        let Some(op) = self.spec.op.before() else {
            return Ok(());
        };
        (0..self.spec.count).try_for_each(|n| self.apply(op, n))
    }

    fn make_dirs(&self, tree: &str) -> Result<(), RunError> {
        for first in (0..self.spec.count).step_by(self.spec.width as usize) {
            for dir in self.dirs(tree, first) {
                match self.vfs.mkdir(&dir, 0o755) {
                    Ok(_) => {}
                    Err(e) if e.errno() == Errno::Exist => {}
                    Err(e) => return Err(e.into()),
                }
            }
        }
        Ok(())
    }

    /// Does `op` with the `n`th object.
    pub fn apply(&self, op: MetaOp, n: u32) -> Result<(), RunError> {
        let path = self.path(n);
        match op {
            MetaOp::Mkdir => self.vfs.mkdir(path, 0o755).map(|_| ())?,
            MetaOp::Rmdir => self.vfs.rmdir(path)?,
            MetaOp::Create => self.write(&path, &content(n.into(), self.spec.size))?,
            MetaOp::Unlink => self.vfs.unlink(path)?,
            MetaOp::Copy => self.copy(&self.at(SOURCE, n), &path)?,
            MetaOp::Stat => self.vfs.lstat(path).map(|_| ())?,
            MetaOp::Readdir => self.list(n)?,
        }
        Ok(())
    }

    /// Writes a file whole, as filebench's `createfile`, `writewholefile`, `closefile` do; nothing
    /// is written to an empty file.
    fn write(&self, path: &str, bytes: &[u8]) -> Result<(), RunError> {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::EXCL;
        let file = self.vfs.open(path, flags, 0o644)?;
        if !bytes.is_empty() {
            file.write_at(0, bytes)?;
        }
        Ok(file.close()?)
    }

    /// Copies as filebench's copyfiles does: the source is open until the copy is written.
    fn copy(&self, from: &str, to: &str) -> Result<(), RunError> {
        let source = self.vfs.open(from, OpenFlags::READ, 0)?;
        let mut bytes = vec![0; self.spec.size as usize];
        let length = source.read_at(0, &mut bytes)?;
        bytes.truncate(length);
        self.write(to, &bytes)?;
        Ok(source.close()?)
    }

    fn list(&self, n: u32) -> Result<(), RunError> {
        let dir = self.dir(TREE, n);
        let found = crate::workload::names(&self.vfs, &dir)?;
        let first = n - n % self.spec.width;
        let files = self.spec.width.min(self.spec.count - first) as usize;
        match found >= files {
            true => Ok(()),
            false => Err(RunError::Check(format!(
                "{dir}: {found} names are listed, {files} files were made in it"
            ))),
        }
    }

    /// Compares what has the name of the `n`th object with what `op` leaves there.
    pub fn check(&self, op: MetaOp, n: u32) -> Result<(), RunError> {
        let path = self.path(n);
        let there = self
            .vfs
            .lstat(&path)
            .ok()
            .map(|attr| (attr.kind, attr.size));
        let (kind, wanted) = (there.map(|t| t.0), op.leaves());
        if kind != wanted {
            let what = format!("{path}: there is {kind:?}, wanted is {wanted:?}");
            return Err(RunError::Check(what));
        }
        let Some((vfs::FileKind::File, size)) = there else {
            return Ok(());
        };
        if size != self.spec.size {
            let wanted = self.spec.size;
            let what = format!("{path}: it has {size} bytes, {wanted} were written");
            return Err(RunError::Check(what));
        }
        let file = self.vfs.open(&path, OpenFlags::READ, 0)?;
        expect(&file, 0, &content(n.into(), self.spec.size))?;
        Ok(file.close()?)
    }
}
