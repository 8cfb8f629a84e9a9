//! One operation on names, many times: the microbenchmarks of the F2FSJ paper (section 5.3; filebench's makedir, removedir, createfile,
//! deletefile), one process, `width` entries a directory.

use super::super::Done;
use super::super::spec::{SpecError, number, size, size_text};
use super::{Bench, Sync, expect, timed};
use crate::RunError;
use crate::workload::fsync::content;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use vfs::{FileKind, OpenFlags, Vfs};

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MetaOp {
    /// Makes directories.
    Mkdir,
    /// Removes empty directories.
    Rmdir,
    /// Makes files and writes them whole.
    Create,
    /// Removes files.
    Unlink,
}

impl MetaOp {
    /// All of them.
    pub const ALL: [MetaOp; 4] = [MetaOp::Mkdir, MetaOp::Rmdir, MetaOp::Create, MetaOp::Unlink];
    /// Its name in specs and results.
    pub const fn name(self) -> &'static str {
        match self {
            MetaOp::Mkdir => "mkdir",
            MetaOp::Rmdir => "rmdir",
            MetaOp::Create => "create",
            MetaOp::Unlink => "unlink",
        }
    }
}

impl FromStr for MetaOp {
    type Err = SpecError;
    fn from_str(text: &str) -> Result<MetaOp, SpecError> {
        let found = MetaOp::ALL.into_iter().find(|op| op.name() == text);
        found.ok_or_else(|| SpecError::Value {
            given: text.into(),
            valid: MetaOp::ALL.map(MetaOp::name).join(", "),
        })
    }
}

/// Parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MetaSpec {
    /// Operation.
    pub op: MetaOp,
    /// How many.
    pub count: u32,
    /// Bytes of a file; with `create` and `unlink`. May be 0.
    pub size: u64,
    /// Entries of a directory.
    pub width: u32,
}

const COUNT_MAX: u64 = 10_000_000;
const SIZE_MAX: u64 = 16 << 20;
const WIDTH_MAX: u64 = 1_000_000;

impl Default for MetaSpec {
    fn default() -> Self {
        MetaSpec {
            op: MetaOp::Create,
            count: 20_000,
            size: 4 << 10,
            width: 100,
        }
    }
}

impl MetaSpec {
    pub(super) const KEYS: &'static str = "op, count, size, width";

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<bool, SpecError> {
        match name {
            "op" => self.op = value.parse()?,
            "count" => self.count = number(value, 1..=COUNT_MAX)? as u32,
            "size" => self.size = size(value, 0..=SIZE_MAX)?,
            "width" => self.width = number(value, 2..=WIDTH_MAX)? as u32,
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn operations(&self) -> u64 {
        self.count.into()
    }

    pub(super) fn bytes(&self) -> u64 {
        match self.op {
            MetaOp::Create => u64::from(self.count) * self.size,
            MetaOp::Mkdir | MetaOp::Rmdir | MetaOp::Unlink => 0,
        }
    }
}

impl fmt::Display for MetaSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (op, count, width) = (self.op.name(), self.count, self.width);
        write!(
            f,
            "meta:op={op},count={count},size={},width={width}",
            size_text(self.size)
        )
    }
}

pub(super) struct Meta {
    spec: MetaSpec,
    vfs: Arc<Vfs>,
}

impl Meta {
    pub(super) fn new(spec: &MetaSpec, vfs: Arc<Vfs>) -> Meta {
        let spec = spec.clone();
        Meta { spec, vfs }
    }

    /// The directory of the `n`th object: a tree with `width` directories a level.
    fn dir(&self, n: u32) -> Vec<String> {
        let width = self.spec.width;
        let mut above = vec![n / width];
        while let Some(&last) = above.last().filter(|n| **n >= width) {
            above.push(last / width);
        }
        let mut path = String::new();
        let levels = above.iter().rev().map(|number| {
            path = format!("{path}/d{number}");
            path.clone()
        });
        levels.collect()
    }

    fn path(&self, n: u32) -> String {
        let dirs = self.dir(n);
        format!("{}/e{n}", dirs.last().expect("one level at least"))
    }

    fn make_dirs(&self) -> Result<(), RunError> {
        for first in (0..self.spec.count).step_by(self.spec.width as usize) {
            for dir in self.dir(first) {
                match self.vfs.mkdir(&dir, 0o755) {
                    Ok(_) => {}
                    Err(e) if e.errno() == vfs::Errno::Exist => {}
                    Err(e) => return Err(e.into()),
                }
            }
        }
        Ok(())
    }

    fn mkdir(&self, n: u32) -> Result<(), RunError> {
        self.vfs.mkdir(self.path(n), 0o755)?;
        Ok(())
    }

    fn create(&self, n: u32) -> Result<(), RunError> {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::EXCL;
        let file = self.vfs.open(self.path(n), flags, 0o644)?;
        if self.spec.size > 0 {
            file.write_at(0, &content(n.into(), self.spec.size))?;
        }
        Ok(file.close()?)
    }
}

impl Bench for Meta {
    fn prepare(&mut self, sync: &Sync<'_>) -> Result<(), RunError> {
        self.make_dirs()?;
        for n in 0..self.spec.count {
            match self.spec.op {
                MetaOp::Rmdir => self.mkdir(n)?,
                MetaOp::Unlink => self.create(n)?,
                MetaOp::Mkdir | MetaOp::Create => {}
            }
        }
        sync()
    }

    fn run(&mut self, _: &Sync<'_>, done: &mut Done<'_>) -> Result<(), RunError> {
        for n in 0..self.spec.count {
            timed(self.spec.op.name(), done, || {
                match self.spec.op {
                    MetaOp::Mkdir => self.mkdir(n)?,
                    MetaOp::Rmdir => self.vfs.rmdir(self.path(n))?,
                    MetaOp::Create => self.create(n)?,
                    MetaOp::Unlink => self.vfs.unlink(self.path(n))?,
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), RunError> {
        for n in 0..self.spec.count {
            let path = self.path(n);
            let there = self.vfs.lstat(&path).ok().map(|attr| attr.kind);
            let wanted = match self.spec.op {
                MetaOp::Mkdir => Some(FileKind::Dir),
                MetaOp::Create => Some(FileKind::File),
                MetaOp::Rmdir | MetaOp::Unlink => None,
            };
            if there != wanted {
                let what = format!("{path}: there is {there:?}, wanted is {wanted:?}");
                return Err(RunError::Check(what));
            }
            if self.spec.op == MetaOp::Create && self.spec.size > 0 {
                let file = self.vfs.open(&path, OpenFlags::READ, 0)?;
                expect(&file, 0, &content(n.into(), self.spec.size))?;
                file.close()?;
            }
        }
        Ok(())
    }
}
