//! Small files in one directory, with a sync after each group of them; some are removed at the end.

use super::super::Done;
use super::super::values::{SpecError, number, size, size_text};
use super::{Bench, Sync, expect, timed};
use crate::RunError;
use crate::workload::fsync::content;
use std::fmt;
use std::sync::Arc;
use vfs::{OpenFlags, Vfs};

/// Parameters of the program `small`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SmallSpec {
    /// Number of files.
    pub count: u32,
    /// Bytes of each file.
    pub size: u64,
    /// Number of files after which the file system is synced.
    pub every: u32,
    /// Number of files that are removed at the end, the first ones.
    pub unlink: u32,
}

const COUNT_MAX: u64 = 1_000_000;
const SIZE_MAX: u64 = 16 << 20;

impl Default for SmallSpec {
    fn default() -> Self {
        SmallSpec {
            count: 3000,
            size: 4 << 10,
            every: 50,
            unlink: 1000,
        }
    }
}

impl SmallSpec {
    pub(super) const KEYS: &'static str = "count, size, every, unlink";

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<bool, SpecError> {
        match name {
            "count" => self.count = number(value, 1..=COUNT_MAX)? as u32,
            "size" => self.size = size(value, 1..=SIZE_MAX)?,
            "every" => self.every = number(value, 1..=COUNT_MAX)? as u32,
            "unlink" => self.unlink = number(value, 0..=COUNT_MAX)? as u32,
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn check(&self) -> Result<(), SpecError> {
        if self.unlink <= self.count {
            return Ok(());
        }
        Err(SpecError::Together(format!(
            "unlink={} is above count={}",
            self.unlink, self.count
        )))
    }

    pub(super) fn operations(&self) -> u64 {
        u64::from(self.count) + u64::from(self.unlink)
    }

    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.count) * self.size
    }
}

impl fmt::Display for SmallSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (size, every) = (size_text(self.size), self.every);
        write!(
            f,
            "small:count={},size={size},every={every},unlink={}",
            self.count, self.unlink
        )
    }
}

pub(super) struct Small {
    spec: SmallSpec,
    vfs: Arc<Vfs>,
}

impl Small {
    pub(super) fn new(spec: &SmallSpec, vfs: Arc<Vfs>) -> Small {
        let spec = spec.clone();
        Small { spec, vfs }
    }

    fn path(n: u32) -> String {
        format!("/f{n}")
    }

    fn create(&self, n: u32) -> Result<(), RunError> {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE;
        let file = self.vfs.open(Self::path(n), flags, 0o644)?;
        file.write_at(0, &content(n.into(), self.spec.size))?;
        Ok(file.close()?)
    }
}

impl Bench for Small {
    fn prepare(&mut self, _: &Sync<'_>) -> Result<(), RunError> {
        Ok(())
    }

    fn run(&mut self, sync: &Sync<'_>, done: &mut Done<'_>) -> Result<(), RunError> {
        for n in 0..self.spec.count {
            timed("create", done, || self.create(n))?;
            if (n + 1).is_multiple_of(self.spec.every) {
                sync()?;
            }
        }
        for n in 0..self.spec.unlink {
            timed("unlink", done, || Ok(self.vfs.unlink(Self::path(n))?))?;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), RunError> {
        for n in self.spec.unlink..self.spec.count {
            let file = self.vfs.open(Self::path(n), OpenFlags::READ, 0)?;
            expect(&file, 0, &content(n.into(), self.spec.size))?;
            file.close()?;
        }
        let gone = (0..self.spec.unlink).find(|n| self.vfs.stat(Self::path(*n)).is_ok());
        match gone {
            None => Ok(()),
            Some(n) => Err(RunError::Check(format!(
                "{} is there, it was removed",
                Self::path(n)
            ))),
        }
    }
}
