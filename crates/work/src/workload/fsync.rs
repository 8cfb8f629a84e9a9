//! One kind of file operation, many times, each made durable before the next (unless `sync=none`):
//! what a commit costs shows most plainly where nothing else happens.

use super::values::{SpecError, key, number, size, size_text};
use super::{Background, Done, Told, names};
use crate::RunError;
use base::Rng;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use vfs::{File, OpenFlags, RenameMode, Vfs};

/// Parameters of the workload `fsync`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FsyncSpec {
    /// The operation.
    pub op: Op,
    /// Bytes written by each operation; for `rename` and `unlink` the size of the files.
    pub bytes: u64,
    /// Number of operations.
    pub count: u32,
    /// Bytes of the file that `overwrite` and `random` write in.
    pub file_bytes: u64,
    /// How a write is made durable.
    pub sync: Sync,
    /// What runs beside it.
    pub background: Background,
}

base::words! {
    /// The operation that is repeated.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Op: "operation" {
        /// Writes at the end of a file that grows.
        Append => "append",
        /// Writes over a file, from beginning to end, then again.
        Overwrite => "overwrite",
        /// Writes over a file at random places.
        Random => "random",
        /// Writes a new file.
        Create => "create",
        /// Replaces a file safely: writes a new one under another name, syncs it, renames it, syncs
        /// the directory.
        Replace => "replace",
        /// Renames a file and syncs the directory.
        Rename => "rename",
        /// Removes a file and syncs the directory.
        Unlink => "unlink",
    }
}

base::words! {
    /// What follows a write.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Sync: "sync" {
        /// fsync.
        Fsync => "fsync",
        /// fdatasync.
        Fdatasync => "fdatasync",
        /// No sync.
        None => "none",
    }
}

impl Default for FsyncSpec {
    fn default() -> Self {
        FsyncSpec {
            op: Op::Append,
            bytes: 4096,
            count: 1000,
            file_bytes: 16 << 20,
            sync: Sync::Fsync,
            background: Background::default(),
        }
    }
}

/// Largest number of operations: a run with more would not end in a day.
const COUNT_MAX: u64 = 10_000_000;
const BYTES_MAX: u64 = 64 << 20;
const FILE_MAX: u64 = 1 << 30;

impl FsyncSpec {
    const KEYS: &'static str = "op, size, count, file, sync, writer, beside";

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), SpecError> {
        match name {
            "op" => self.op = value.parse()?,
            "size" => self.bytes = size(value, 1..=BYTES_MAX)?,
            "count" => self.count = number(value, 0..=COUNT_MAX)? as u32,
            "file" => self.file_bytes = size(value, 4096..=FILE_MAX)?,
            "sync" => self.sync = value.parse()?,
            _ if self.background.set(name, value)? => {}
            _ => return Err(key("fsync", name, Self::KEYS)),
        }
        Ok(())
    }

    pub(super) fn check(&self) -> Result<(), SpecError> {
        if self.bytes > self.file_bytes && matches!(self.op, Op::Overwrite | Op::Random) {
            let (size, file) = (size_text(self.bytes), size_text(self.file_bytes));
            return Err(SpecError::Together(format!(
                "size={size} does not fit into file={file}; choose a smaller size or a larger file"
            )));
        }
        Ok(())
    }
}

impl fmt::Display for FsyncSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (size, file) = (size_text(self.bytes), size_text(self.file_bytes));
        write!(
            f,
            "fsync:op={},size={size},count={},",
            self.op.word(),
            self.count
        )?;
        write!(
            f,
            "file={file},sync={},{}",
            self.sync.word(),
            self.background
        )
    }
}

const DIR: &str = "/d";
const FILE: &str = "/d/file";

fn numbered(prefix: &str, n: u64) -> String {
    format!("{DIR}/{prefix}{n}")
}

/// Content of the `n`-th write. No two writes are equal, so a lost one shows.
pub fn content(n: u64, bytes: u64) -> Vec<u8> {
    let stamp = n
        .wrapping_add(1)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .to_le_bytes();
    let mut content = stamp.repeat(bytes.div_ceil(8) as usize);
    content.truncate(bytes as usize);
    content
}

/// The workload while it runs, and what has to be there afterwards.
pub struct FsyncRun<'a> {
    spec: &'a FsyncSpec,
    vfs: Arc<Vfs>,
    /// The file that is appended to or written over.
    file: Option<File>,
    rng: Rng,
    /// The number of the last write at each offset of the file.
    last: BTreeMap<u64, u64>,
}

impl<'a> FsyncRun<'a> {
    /// Makes the files that the operations work on, and makes them durable.
    ///
    /// # Errors
    /// The file system fails.
    pub fn prepare(
        spec: &'a FsyncSpec,
        vfs: &Arc<Vfs>,
        seed: u64,
    ) -> Result<FsyncRun<'a>, RunError> {
        let mut run = FsyncRun {
            spec,
            vfs: vfs.clone(),
            file: None,
            rng: Rng::named(seed, "workload/fsync"),
            last: BTreeMap::new(),
        };
        vfs.mkdir(DIR, 0o755)?;
        match spec.op {
            Op::Append | Op::Overwrite | Op::Random => run.file = Some(run.make(FILE, &[])?),
            Op::Replace => run.make(FILE, &content(u64::MAX, spec.bytes))?.close()?,
            Op::Rename | Op::Unlink => {
                for n in 0..spec.count.into() {
                    run.make(&numbered("f", n), &content(n, spec.bytes))?
                        .close()?;
                }
            }
            Op::Create => {}
        }
        if matches!(spec.op, Op::Overwrite | Op::Random) {
            let file = run.file.as_ref().expect("made above");
            let chunk = vec![0; 1 << 16];
            let mut at = 0;
            while at < spec.file_bytes {
                let part = (spec.file_bytes - at).min(chunk.len() as u64);
                file.write_at(at, &chunk[..part as usize])?;
                at += part;
            }
        }
        vfs.sync()?;
        Ok(run)
    }

    fn make(&self, path: &str, bytes: &[u8]) -> Result<File, RunError> {
        let flags = OpenFlags::READ_WRITE | OpenFlags::CREATE;
        let file = self.vfs.open(path, flags, 0o644)?;
        file.write_at(0, bytes)?;
        Ok(file)
    }

    fn sync(&self, file: &File) -> Result<(), RunError> {
        match self.spec.sync {
            Sync::Fsync => Ok(file.fsync()?),
            Sync::Fdatasync => Ok(file.fdatasync()?),
            Sync::None => Ok(()),
        }
    }

    fn sync_dir(&self) -> Result<(), RunError> {
        match self.spec.sync {
            Sync::None => Ok(()),
            _ => Ok(self.vfs.sync_dir(DIR)?),
        }
    }

    /// Runs all operations.
    ///
    /// # Errors
    /// The first operation that fails.
    pub fn run(&mut self, done: &mut Done<'_>) -> Result<(), RunError> {
        for n in 0..self.spec.count.into() {
            let start = rt::now();
            self.operation(n)?;
            done(Told::now(self.spec.op.word(), rt::now() - start));
        }
        Ok(())
    }

    fn operation(&mut self, n: u64) -> Result<(), RunError> {
        let bytes = self.spec.bytes;
        match self.spec.op {
            Op::Append | Op::Overwrite | Op::Random => {
                let slots = (self.spec.file_bytes / bytes).max(1);
                let slot = match self.spec.op {
                    Op::Append => n,
                    Op::Overwrite => n % slots,
                    _ => self.rng.below(slots),
                };
                self.last.insert(slot * bytes, n);
                let file = self.file.as_ref().expect("made by prepare");
                file.write_at(slot * bytes, &content(n, bytes))?;
                self.sync(file)
            }
            Op::Create => {
                let file = self.make(&numbered("f", n), &content(n, bytes))?;
                self.sync(&file)?;
                Ok(file.close()?)
            }
            Op::Replace => {
                let temporary = numbered("t", n);
                let file = self.make(&temporary, &content(n, bytes))?;
                self.sync(&file)?;
                file.close()?;
                self.vfs.rename(temporary, FILE, RenameMode::Replace)?;
                self.sync_dir()
            }
            Op::Rename => {
                let (from, to) = (numbered("f", n), numbered("g", n));
                self.vfs.rename(from, to, RenameMode::Replace)?;
                self.sync_dir()
            }
            Op::Unlink => {
                self.vfs.unlink(numbered("f", n))?;
                self.sync_dir()
            }
        }
    }

    /// Closes the file, and compares what is there with what was written.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(mut self) -> Result<(), RunError> {
        if let Some(file) = self.file.take() {
            for (&at, &n) in &self.last {
                expect(&file, at, &content(n, self.spec.bytes))?;
            }
            file.close()?;
        }
        let count: u64 = self.spec.count.into();
        match self.spec.op {
            Op::Append | Op::Overwrite | Op::Random => Ok(()),
            Op::Create => (0..count).try_for_each(|n| self.expect_file(&numbered("f", n), n)),
            Op::Rename => (0..count).try_for_each(|n| self.expect_file(&numbered("g", n), n)),
            Op::Replace => self.expect_file(FILE, count.wrapping_sub(1)),
            Op::Unlink => match names(&self.vfs, DIR)? {
                0 => Ok(()),
                left => Err(RunError::Check(format!(
                    "{left} files are there that were removed"
                ))),
            },
        }
    }

    fn expect_file(&self, path: &str, n: u64) -> Result<(), RunError> {
        let file = self.vfs.open(path, OpenFlags::READ, 0)?;
        expect(&file, 0, &content(n, self.spec.bytes))?;
        Ok(file.close()?)
    }
}

fn expect(file: &File, at: u64, wanted: &[u8]) -> Result<(), RunError> {
    let mut found = vec![0; wanted.len()];
    let length = file.read_at(at, &mut found)?;
    if found[..length] != *wanted {
        let bytes = wanted.len();
        return Err(RunError::Check(format!(
            "the {bytes} bytes at {at} of a file are not those that were written"
        )));
    }
    Ok(())
}
