//! Trees that come and go: directories with files are made, the file system is synced, and the tree
//! is removed, several times. So a volume sees allocation and freeing in turn.

use super::super::values::{SpecError, number, size, size_text};
use super::super::{Done, names};
use super::{Bench, Sync, timed};
use crate::RunError;
use crate::workload::fsync::content;
use std::fmt;
use std::sync::Arc;
use vfs::{OpenFlags, Vfs};

/// Parameters of the program `churn`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChurnSpec {
    /// How often a tree is made and removed.
    pub rounds: u32,
    /// Number of directories of a tree.
    pub dirs: u32,
    /// Number of files in each directory.
    pub files: u32,
    /// Bytes of each file.
    pub size: u64,
}

const ROUNDS_MAX: u64 = 100_000;
const NAMES_MAX: u64 = 10_000;
const SIZE_MAX: u64 = 16 << 20;
const ROOT: &str = "/tree";

impl Default for ChurnSpec {
    fn default() -> Self {
        ChurnSpec {
            rounds: 13,
            dirs: 8,
            files: 26,
            size: 12 << 10,
        }
    }
}

impl ChurnSpec {
    pub(super) const KEYS: &'static str = "rounds, dirs, files, size";

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<bool, SpecError> {
        match name {
            "rounds" => self.rounds = number(value, 1..=ROUNDS_MAX)? as u32,
            "dirs" => self.dirs = number(value, 1..=NAMES_MAX)? as u32,
            "files" => self.files = number(value, 0..=NAMES_MAX)? as u32,
            "size" => self.size = size(value, 1..=SIZE_MAX)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn files_of_a_round(&self) -> u64 {
        u64::from(self.dirs) * u64::from(self.files)
    }

    /// Number of operations: each directory and file is made and removed, and the tree's root, too.
    pub(super) fn operations(&self) -> u64 {
        2 * u64::from(self.rounds) * (1 + u64::from(self.dirs) + self.files_of_a_round())
    }

    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.rounds) * self.files_of_a_round() * self.size
    }
}

impl fmt::Display for ChurnSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = size_text(self.size);
        write!(
            f,
            "churn:rounds={},dirs={},files={},size={size}",
            self.rounds, self.dirs, self.files
        )
    }
}

pub(super) struct Churn {
    spec: ChurnSpec,
    vfs: Arc<Vfs>,
}

fn dir(d: u32) -> String {
    format!("{ROOT}/d{d}")
}

fn file(d: u32, n: u32) -> String {
    format!("{ROOT}/d{d}/f{n}")
}

impl Churn {
    pub(super) fn new(spec: &ChurnSpec, vfs: Arc<Vfs>) -> Churn {
        let spec = spec.clone();
        Churn { spec, vfs }
    }

    fn make(&self, round: u32, done: &mut Done<'_>) -> Result<(), RunError> {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE;
        timed("mkdir", done, || Ok(self.vfs.mkdir(ROOT, 0o755)?))?;
        for d in 0..self.spec.dirs {
            timed("mkdir", done, || Ok(self.vfs.mkdir(dir(d), 0o755)?))?;
            for n in 0..self.spec.files {
                timed("create", done, || {
                    let file = self.vfs.open(file(d, n), flags, 0o644)?;
                    let bytes = content((round + d + n).into(), self.spec.size);
                    file.write_at(0, &bytes)?;
                    Ok(file.close()?)
                })?;
            }
        }
        Ok(())
    }

    fn remove(&self, done: &mut Done<'_>) -> Result<(), RunError> {
        for d in 0..self.spec.dirs {
            for n in 0..self.spec.files {
                timed("unlink", done, || Ok(self.vfs.unlink(file(d, n))?))?;
            }
            timed("rmdir", done, || Ok(self.vfs.rmdir(dir(d))?))?;
        }
        timed("rmdir", done, || Ok(self.vfs.rmdir(ROOT)?))
    }
}

impl Bench for Churn {
    fn prepare(&mut self, _: &Sync<'_>) -> Result<(), RunError> {
        Ok(())
    }

    fn run(&mut self, sync: &Sync<'_>, done: &mut Done<'_>) -> Result<(), RunError> {
        for round in 0..self.spec.rounds {
            self.make(round, done)?;
            sync()?;
            self.remove(done)?;
        }
        Ok(())
    }

    /// Checks that the directory in which every tree was has `lost+found` and nothing else.
    fn check(&mut self) -> Result<(), RunError> {
        match names(&self.vfs, "/")? {
            1 => Ok(()),
            found => Err(RunError::Check(format!(
                "the root has {found} names, it should have lost+found alone"
            ))),
        }
    }
}
