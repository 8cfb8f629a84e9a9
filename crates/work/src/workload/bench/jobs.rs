//! Processes that each write in a file of their own, as fio runs them with `numjobs`, `rw`,
//! `fsync=N` and `fallocate`.

use super::super::values::{SpecError, number, size, size_text};
use super::super::{Done, Told};
use super::{Bench, Sync, expect};
use crate::RunError;
use crate::workload::fsync::content;
use base::Rng;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use vfs::{FallocateMode, File, OpenFlags, Vfs};

base::words! {
    /// The order in which places are written.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Order: "order" {
        /// Any place at random, with repetition.
        Random => "random",
        /// Each place once, shuffled (fio's random map), then again.
        Shuffled => "shuffled",
        /// From beginning to end, then again.
        Sequential => "sequential",
    }
}

base::words! {
    /// How a file is laid out before the run.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Fill: "filling" {
        /// Written from beginning to end.
        Write => "write",
        /// Allocated but unwritten.
        Fallocate => "fallocate",
        /// Empty.
        None => "none",
    }
}

/// Parameters of the program `jobs`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobsSpec {
    /// Number of processes.
    pub processes: u32,
    /// Bytes of each file.
    pub file: u64,
    /// Bytes of a write.
    pub size: u64,
    /// Number of writes of each process; 0: as many as there are places in the file.
    pub count: u64,
    /// Number of writes of each process before the measured part.
    pub warm: u64,
    /// Number of writes after which an fsync follows; 0: none follows.
    pub every: u64,
    /// The order of places.
    pub order: Order,
    /// How the files are laid out before.
    pub fill: Fill,
}

const PROCESSES_MAX: u64 = 64;
const FILE_MAX: u64 = 16 << 30;
const SIZE_MAX: u64 = 64 << 20;
const COUNT_MAX: u64 = 100_000_000;

impl Default for JobsSpec {
    fn default() -> Self {
        JobsSpec {
            processes: 1,
            file: 16 << 20,
            size: 4 << 10,
            count: 0,
            warm: 0,
            every: 1,
            order: Order::Random,
            fill: Fill::Write,
        }
    }
}

impl JobsSpec {
    pub(super) const KEYS: &'static str = "procs, file, size, count, warm, every, order, fill";

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<bool, SpecError> {
        match name {
            "procs" => self.processes = number(value, 1..=PROCESSES_MAX)? as u32,
            "file" => self.file = size(value, 1..=FILE_MAX)?,
            "size" => self.size = size(value, 1..=SIZE_MAX)?,
            "count" => self.count = number(value, 0..=COUNT_MAX)?,
            "warm" => self.warm = number(value, 0..=COUNT_MAX)?,
            "every" => self.every = number(value, 0..=COUNT_MAX)?,
            "order" => self.order = value.parse()?,
            "fill" => self.fill = value.parse()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn check(&self) -> Result<(), SpecError> {
        if self.file.is_multiple_of(self.size) {
            return Ok(());
        }
        let (file, size) = (size_text(self.file), size_text(self.size));
        Err(SpecError::Together(format!(
            "file={file} is no multiple of size={size}"
        )))
    }

    fn places(&self) -> u64 {
        self.file / self.size
    }

    fn writes(&self) -> u64 {
        match self.count {
            0 => self.places(),
            count => count,
        }
    }

    pub(super) fn operations(&self) -> u64 {
        u64::from(self.processes) * self.writes()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.operations() * self.size
    }
}

impl fmt::Display for JobsSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, size) = (size_text(self.file), size_text(self.size));
        write!(f, "jobs:procs={},file={file},size={size},", self.processes)?;
        let (count, warm) = (self.count, self.warm);
        write!(f, "count={count},warm={warm},every={},", self.every)?;
        write!(f, "order={},fill={}", self.order.word(), self.fill.word())
    }
}

pub(super) struct Jobs {
    spec: JobsSpec,
    vfs: Arc<Vfs>,
    seed: u64,
    /// The processes, while they do not run.
    processes: Vec<Process>,
}

/// One process and its file.
struct Process {
    spec: JobsSpec,
    file: File,
    rng: Rng,
    /// Number of its first write, by which content differs between processes.
    first: u64,
    /// Places that are still to be written in this round.
    left: Vec<u64>,
    last: BTreeMap<u64, u64>,
    told: Vec<Told>,
}

impl Process {
    fn place(&mut self, n: u64) -> u64 {
        let places = self.spec.places();
        match self.spec.order {
            Order::Sequential => n % places,
            Order::Random => self.rng.below(places),
            Order::Shuffled => {
                if self.left.is_empty() {
                    self.left = (0..places).collect();
                }
                let at = self.rng.below(self.left.len() as u64) as usize;
                self.left.swap_remove(at)
            }
        }
    }

    fn run(&mut self, writes: Range<u64>) -> Result<(), RunError> {
        for n in writes {
            let start = rt::now();
            let at = self.place(n) * self.spec.size;
            let number = self.first + n;
            self.last.insert(at, number);
            self.file.write_at(at, &content(number, self.spec.size))?;
            if self.spec.every > 0 && (n + 1).is_multiple_of(self.spec.every) {
                self.file.fsync()?;
            }
            self.told.push(Told::now("write", rt::now() - start));
        }
        Ok(())
    }
}

impl Jobs {
    pub(super) fn new(spec: &JobsSpec, vfs: Arc<Vfs>, seed: u64) -> Jobs {
        Jobs {
            spec: spec.clone(),
            vfs,
            seed,
            processes: Vec::new(),
        }
    }

    fn path(process: u32) -> String {
        format!("/job.{process}")
    }

    fn process(&self, number: u32) -> Result<Process, RunError> {
        let flags = OpenFlags::READ_WRITE | OpenFlags::CREATE;
        Ok(Process {
            spec: self.spec.clone(),
            file: self.vfs.open(Self::path(number), flags, 0o644)?,
            rng: Rng::named(self.seed, &format!("workload/jobs/{number}")),
            first: u64::from(number) * (self.spec.warm + self.spec.writes()),
            left: Vec::new(),
            last: BTreeMap::new(),
            told: Vec::new(),
        })
    }

    /// Lets every process make these writes, all processes at once.
    fn together(&mut self, writes: &Range<u64>) -> Result<(), RunError> {
        let mut running = Vec::new();
        for (number, mut process) in std::mem::take(&mut self.processes).into_iter().enumerate() {
            let writes = writes.clone();
            running.push(rt::spawn(&format!("job {number}"), move || {
                let result = process.run(writes);
                (process, result)
            }));
        }
        let mut failure = Ok(());
        for task in running {
            let joined = task.join();
            let (process, result) =
                joined.map_err(|_| RunError::Check("a process panicked".into()))?;
            failure = failure.and(result);
            self.processes.push(process);
        }
        failure
    }
}

/// Lays out a file.
fn fill(file: &File, spec: &JobsSpec) -> Result<(), RunError> {
    const CHUNK: u64 = 64 << 10;
    match spec.fill {
        Fill::None => Ok(()),
        Fill::Fallocate => Ok(file.fallocate(FallocateMode::Allocate, 0, spec.file)?),
        Fill::Write => {
            let zeros = vec![0; CHUNK as usize];
            for at in (0..spec.file).step_by(CHUNK as usize) {
                let part = (spec.file - at).min(CHUNK);
                file.write_at(at, &zeros[..part as usize])?;
            }
            Ok(file.fsync()?)
        }
    }
}

impl Bench for Jobs {
    fn prepare(&mut self, sync: &Sync<'_>) -> Result<(), RunError> {
        for number in 0..self.spec.processes {
            let process = self.process(number)?;
            fill(&process.file, &self.spec)?;
            self.processes.push(process);
        }
        if self.spec.warm > 0 {
            self.together(&(0..self.spec.warm))?;
            self.processes.iter_mut().for_each(|p| p.told.clear());
        }
        sync()
    }

    fn run(&mut self, _: &Sync<'_>, done: &mut Done<'_>) -> Result<(), RunError> {
        self.together(&(self.spec.warm..self.spec.warm + self.spec.writes()))?;
        for process in &mut self.processes {
            let told = std::mem::take(&mut process.told);
            told.into_iter().for_each(&mut *done);
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), RunError> {
        for process in std::mem::take(&mut self.processes) {
            for (&at, &n) in &process.last {
                expect(&process.file, at, &content(n, self.spec.size))?;
            }
            process.file.close()?;
        }
        Ok(())
    }
}
