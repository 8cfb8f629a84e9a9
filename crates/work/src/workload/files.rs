//! PostMark's mix: many small files in one directory are created, read, appended to and removed.
//!
//! As in PostMark 1.5 with its defaults sizes are equally distributed, and a transaction is a read
//! or an append of one random file and then a creation or a removal, all four equally likely. The
//! length of an append is a multiple of 512 bytes, PostMark's buffer; each read and write is one
//! call here, not one a buffer.

use super::values::{SpecError, key, number, size, size_text, switch};
use super::{Background, Done, Told, names};
use crate::RunError;
use base::{Nanos, Rng, Time};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use vfs::{OpenFlags, Vfs};

/// Parameters of the workload `files`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilesSpec {
    /// Files created at first (`set number`).
    pub files: u32,
    /// Transactions (`set transactions`).
    pub transactions: u32,
    /// Smallest and largest size of a file, bytes (`set size`).
    pub sizes: (u64, u64),
    /// fsync after each creation and append; PostMark itself has none.
    pub sync: bool,
    /// What runs beside it.
    pub background: Background,
    /// CPU time of the application before each operation, microseconds.
    pub pause_us: u32,
}

impl Default for FilesSpec {
    fn default() -> Self {
        FilesSpec {
            files: 500,
            transactions: 1000,
            sizes: (1000, 10240),
            sync: false,
            background: Background::default(),
            pause_us: 0,
        }
    }
}

const COUNT_MAX: u64 = 1_000_000;
const BYTES_MAX: u64 = 16 << 20;
const PAUSE_US_MAX: u64 = 1_000_000;
const APPEND_UNIT: u64 = 512;
/// The directory of the files.
pub const DIR: &str = "/postmark";

impl FilesSpec {
    const KEYS: &'static str = "count, transactions, min, max, sync, pause, writer, beside";

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), SpecError> {
        match name {
            "count" => self.files = number(value, 1..=COUNT_MAX)? as u32,
            "transactions" => self.transactions = number(value, 0..=COUNT_MAX)? as u32,
            "min" => self.sizes.0 = size(value, 1..=BYTES_MAX)?,
            "max" => self.sizes.1 = size(value, 1..=BYTES_MAX)?,
            "sync" => self.sync = switch(value)?,
            "pause" => self.pause_us = number(value, 0..=PAUSE_US_MAX)? as u32,
            _ if self.background.set(name, value)? => {}
            _ => return Err(key("files", name, Self::KEYS)),
        }
        Ok(())
    }

    pub(super) fn check(&self) -> Result<(), SpecError> {
        let (min, max) = self.sizes;
        if min > max {
            let (min, max) = (size_text(min), size_text(max));
            return Err(SpecError::Together(format!("min={min} is above max={max}")));
        }
        Ok(())
    }

    /// Least number of operations: creations, transactions, and the removals at the end.
    pub fn operations(&self) -> u64 {
        2 * u64::from(self.files) + 2 * u64::from(self.transactions)
    }
}

impl fmt::Display for FilesSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (min, max) = (size_text(self.sizes.0), size_text(self.sizes.1));
        let sync = if self.sync { "on" } else { "off" };
        write!(
            f,
            "files:count={},transactions={},",
            self.files, self.transactions
        )?;
        write!(f, "min={min},max={max},sync={sync}")?;
        if self.pause_us > 0 {
            write!(f, ",pause={}", self.pause_us)?;
        }
        match self.background {
            none if none == Background::default() => Ok(()),
            some => write!(f, ",{some}"),
        }
    }
}

/// One of the three phases of the workload, with the sync that ends it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Phase {
    /// `create`, `transactions` or `delete`.
    pub name: &'static str,
    /// When the phase began.
    pub begin: Time,
    /// When the phase was over; `None` while it runs.
    pub end: Option<Time>,
}

/// Where a run stands between two phases, for a later mount: its files and random numbers.
#[derive(Clone, Debug)]
pub struct FilesState {
    rng: Rng,
    live: Vec<(u32, u64)>,
    next: u32,
}

/// The workload while it runs.
pub struct FilesRun<'a> {
    spec: &'a FilesSpec,
    vfs: Arc<Vfs>,
    rng: Rng,
    /// The files there are: number and size.
    live: Vec<(u32, u64)>,
    next: u32,
    phases: Vec<Phase>,
}

impl<'a> FilesRun<'a> {
    /// Makes the directory and returns a run at its beginning.
    ///
    /// # Errors
    /// The file system fails.
    pub fn prepare(
        spec: &'a FilesSpec,
        vfs: &Arc<Vfs>,
        seed: u64,
    ) -> Result<FilesRun<'a>, RunError> {
        vfs.mkdir(DIR, 0o755)?;
        vfs.sync()?;
        Ok(FilesRun {
            spec,
            vfs: vfs.clone(),
            rng: Rng::named(seed, "workload/files"),
            live: Vec::new(),
            next: 0,
            phases: Vec::new(),
        })
    }

    /// Runs the phases create, transactions and remove all, each followed by a sync.
    ///
    /// # Errors
    /// The file system fails.
    pub fn run(&mut self, done: &mut Done<'_>) -> Result<(), RunError> {
        self.begin(done)?;
        self.finish(done)
    }

    /// Runs the first phase only.
    ///
    /// # Errors
    /// The file system fails.
    pub fn begin(&mut self, done: &mut Done<'_>) -> Result<(), RunError> {
        self.phase("create", done, Self::create_all)
    }

    /// Runs the other two phases, with the comparison between them.
    ///
    /// # Errors
    /// The file system fails, or files are not as they were written.
    pub fn finish(&mut self, done: &mut Done<'_>) -> Result<(), RunError> {
        self.transact(done)?;
        self.check()?;
        self.remove(done)
    }

    /// Runs the second phase only.
    ///
    /// # Errors
    /// The file system fails.
    pub fn transact(&mut self, done: &mut Done<'_>) -> Result<(), RunError> {
        self.phase("transactions", done, Self::transact_all)
    }

    /// Runs the last phase only.
    ///
    /// # Errors
    /// The file system fails.
    pub fn remove(&mut self, done: &mut Done<'_>) -> Result<(), RunError> {
        self.phase("delete", done, Self::delete_all)
    }

    /// The state of the run, for [`FilesRun::resume`] on a later mount of the volume.
    pub fn state(&self) -> FilesState {
        FilesState {
            rng: self.rng.clone(),
            live: self.live.clone(),
            next: self.next,
        }
    }

    /// Continues a run that was left with [`FilesRun::state`] when the volume was unmounted.
    pub fn resume(spec: &'a FilesSpec, vfs: &Arc<Vfs>, state: FilesState) -> FilesRun<'a> {
        FilesRun {
            spec,
            vfs: vfs.clone(),
            rng: state.rng,
            live: state.live,
            next: state.next,
            phases: Vec::new(),
        }
    }

    /// The phases so far, in order. The last one has no end if it runs or broke off.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    fn phase(
        &mut self,
        name: &'static str,
        done: &mut Done<'_>,
        work: fn(&mut Self, &mut Done<'_>) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let begin = rt::now();
        self.phases.push(Phase {
            name,
            begin,
            end: None,
        });
        work(self, done)?;
        self.vfs.sync()?;
        self.phases.last_mut().expect("pushed above").end = Some(rt::now());
        Ok(())
    }

    fn create_all(&mut self, done: &mut Done<'_>) -> Result<(), RunError> {
        for _ in 0..self.spec.files {
            self.timed("create", done, Self::create)?;
        }
        Ok(())
    }

    fn transact_all(&mut self, done: &mut Done<'_>) -> Result<(), RunError> {
        for _ in 0..self.spec.transactions {
            match self.rng.below(2) {
                0 => self.timed("read", done, Self::read)?,
                _ => self.timed("append", done, Self::append)?,
            }
            match self.rng.below(2) {
                0 => self.timed("create", done, Self::create)?,
                _ => self.timed("delete", done, Self::delete)?,
            }
        }
        Ok(())
    }

    fn delete_all(&mut self, done: &mut Done<'_>) -> Result<(), RunError> {
        while !self.live.is_empty() {
            self.timed("delete", done, Self::delete)?;
        }
        Ok(())
    }

    fn timed(
        &mut self,
        kind: &'static str,
        done: &mut Done<'_>,
        operation: fn(&mut Self) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        if self.spec.pause_us > 0 {
            rt::sleep(Nanos::from_micros(self.spec.pause_us.into()));
        }
        let start = rt::now();
        operation(self)?;
        done(Told::now(kind, rt::now() - start));
        Ok(())
    }

    fn path(n: u32) -> String {
        format!("{DIR}/{n}")
    }

    fn write(&self, n: u32, at: u64, bytes: u64) -> Result<(), RunError> {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE;
        let file = self.vfs.open(Self::path(n), flags, 0o644)?;
        file.write_at(at, &vec![n as u8; bytes as usize])?;
        if self.spec.sync {
            file.fsync()?;
        }
        Ok(file.close()?)
    }

    fn create(&mut self) -> Result<(), RunError> {
        let (min, max) = self.spec.sizes;
        let bytes = min + self.rng.below(max - min + 1);
        let n = self.next;
        self.next += 1;
        self.live.push((n, bytes));
        self.write(n, 0, bytes)
    }

    /// Index of a random file; `None` if all are gone.
    fn pick(&mut self) -> Option<usize> {
        match self.live.len() {
            0 => None,
            len => Some(self.rng.below(len as u64) as usize),
        }
    }

    fn read(&mut self) -> Result<(), RunError> {
        let Some(at) = self.pick() else { return Ok(()) };
        let (n, bytes) = self.live[at];
        let file = self.vfs.open(Self::path(n), OpenFlags::READ, 0)?;
        let mut found = vec![0; bytes as usize];
        let length = file.read_at(0, &mut found)?;
        file.close()?;
        if length as u64 != bytes || found.iter().any(|b| *b != n as u8) {
            return Err(RunError::Check(format!(
                "file {n} is not as it was written"
            )));
        }
        Ok(())
    }

    fn append(&mut self) -> Result<(), RunError> {
        let Some(at) = self.pick() else { return Ok(()) };
        let (n, old) = self.live[at];
        let room = self.spec.sizes.1.saturating_sub(old);
        let bytes = (1 + self.rng.below(room / APPEND_UNIT + 1)) * APPEND_UNIT;
        self.live[at].1 = old + bytes;
        self.write(n, old, bytes)
    }

    fn delete(&mut self) -> Result<(), RunError> {
        let Some(at) = self.pick() else { return Ok(()) };
        let (n, _) = self.live.swap_remove(at);
        Ok(self.vfs.unlink(Self::path(n))?)
    }

    /// Compares names and sizes with what was written; before the last phase, which removes all.
    ///
    /// # Errors
    /// The file system fails, or something is not as it was written.
    pub fn check(&self) -> Result<(), RunError> {
        let wanted: BTreeMap<String, u64> = self
            .live
            .iter()
            .map(|(n, bytes)| (Self::path(*n), *bytes))
            .collect();
        for (path, bytes) in &wanted {
            let found = self.vfs.stat(path)?.size;
            if found != *bytes {
                return Err(RunError::Check(format!(
                    "{path} has {found} bytes, {bytes} were written"
                )));
            }
        }
        match names(&self.vfs, DIR)? {
            found if found == wanted.len() => Ok(()),
            found => Err(RunError::Check(format!(
                "{DIR} has {found} files, it should have {}",
                wanted.len()
            ))),
        }
    }
}
