//! Benchmarks: Bonnie's phases, IOzone's sweep, random writers, small files, trees that come and
//! go, operations on names, fio, Filebench and commands on a source tree.
//!
//! In a run ([`crate::run`]) each ends with everything at its home address: a sync, and then what
//! Linux's `sync` writes as well, the committed blocks whose home is still old. That is part of the
//! measured time, because the JFTL paper (section 4) says of its runs that all data are written to
//! flash memory. A caller that measures by itself leaves that sync away ([`Bench::run`]).

mod bonnie;
mod churn;
mod fio;
mod iozone;
mod jobs;
mod meta;
pub mod room;
mod small;
#[cfg(test)]
mod tests;
mod tree;

pub use bonnie::{BonnieSpec, Phase};
pub use churn::ChurnSpec;
pub use fio::{Case, FioSpec, Rw};
pub use iozone::{IozoneOp, IozoneSpec};
pub use jobs::{Fill, JobsSpec, Order};
pub use meta::{MetaOp, MetaSpec};
pub use small::SmallSpec;
pub use tree::{Command, TreeSpec};

use super::fio_jobs::{FioJobs, FioJobsSpec};
use super::values::{SpecError, key};
use super::{Background, Done, Filebench, FilebenchSpec, Told};
use crate::RunError;
use std::fmt;
use std::sync::Arc;
use vfs::Vfs;

/// A benchmark, and what surrounds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BenchSpec {
    /// The benchmark itself.
    pub program: Program,
    /// What runs beside it.
    pub background: Background,
}

/// A benchmark by its program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Program {
    /// One phase of Bonnie on one file.
    Bonnie(BonnieSpec),
    /// IOzone's write and rewrite.
    Iozone(IozoneSpec),
    /// Several processes, each writing in a file of its own.
    Jobs(JobsSpec),
    /// Many small files, of which some are removed.
    Small(SmallSpec),
    /// Trees of directories that are made and removed.
    Churn(ChurnSpec),
    /// One operation on names, many times.
    Meta(MetaSpec),
    /// One file under fio.
    Fio(FioSpec),
    /// A workload model of Filebench.
    Filebench(FilebenchSpec),
    /// The jobs of a job file of fio.
    FioJobs(FioJobsSpec),
    /// A command on a source tree.
    Tree(TreeSpec),
}

/// Brings everything home, as `sync` does in Linux.
pub type Sync<'a> = dyn Fn() -> Result<(), RunError> + 'a;

/// A benchmark on a mounted file system.
pub trait Bench {
    /// Makes what the benchmark works on, unmeasured. Everything is home when it returns.
    fn prepare(&mut self, sync: &Sync<'_>) -> Result<(), RunError>;
    /// Runs the measured part, without its last sync.
    fn run(&mut self, sync: &Sync<'_>, done: &mut Done<'_>) -> Result<(), RunError>;
    /// Compares what is there with what was written.
    fn check(&mut self) -> Result<(), RunError>;
    /// Bytes of file content that the measured part wrote, if only the run knows them.
    fn written(&self) -> Option<u64> {
        None
    }
    /// Remarks on the run for the report.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The names of all programs.
pub const NAMES: [&str; 9] = [
    "bonnie",
    "iozone",
    "jobs",
    "small",
    "churn",
    "meta",
    "fio",
    "filebench",
    "tree",
];

impl BenchSpec {
    /// The benchmark of that name with default parameters.
    pub(super) fn named(name: &str) -> Option<BenchSpec> {
        let program = match name {
            "bonnie" => Program::Bonnie(BonnieSpec::default()),
            "iozone" => Program::Iozone(IozoneSpec::default()),
            "jobs" => Program::Jobs(JobsSpec::default()),
            "small" => Program::Small(SmallSpec::default()),
            "churn" => Program::Churn(ChurnSpec::default()),
            "meta" => Program::Meta(MetaSpec::default()),
            "fio" => Program::Fio(FioSpec::default()),
            "filebench" => Program::Filebench(FilebenchSpec::default()),
            "fiojobs" => Program::FioJobs(FioJobsSpec::default()),
            "tree" => Program::Tree(TreeSpec::default()),
            _ => return None,
        };
        Some(BenchSpec {
            program,
            background: Background::default(),
        })
    }

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), SpecError> {
        let (workload, known, keys) = match &mut self.program {
            Program::Bonnie(spec) => ("bonnie", spec.set(name, value)?, BonnieSpec::KEYS),
            Program::Iozone(spec) => ("iozone", spec.set(name, value)?, IozoneSpec::KEYS),
            Program::Jobs(spec) => ("jobs", spec.set(name, value)?, JobsSpec::KEYS),
            Program::Small(spec) => ("small", spec.set(name, value)?, SmallSpec::KEYS),
            Program::Churn(spec) => ("churn", spec.set(name, value)?, ChurnSpec::KEYS),
            Program::Meta(spec) => ("meta", spec.set(name, value)?, MetaSpec::KEYS),
            Program::Fio(spec) => ("fio", spec.set(name, value)?, FioSpec::KEYS),
            Program::Filebench(spec) => {
                let keys = FilebenchSpec::KEYS;
                ("filebench", spec.set(name, value)?, keys)
            }
            Program::FioJobs(spec) => ("fiojobs", spec.set(name, value)?, FioJobsSpec::KEYS),
            Program::Tree(spec) => ("tree", spec.set(name, value)?, TreeSpec::KEYS),
        };
        if known || self.background.set(name, value)? {
            return Ok(());
        }
        let valid = format!("{keys}, {}", Background::KEYS);
        Err(key(workload, name, &valid))
    }

    pub(super) fn check(&self) -> Result<(), SpecError> {
        match &self.program {
            Program::Bonnie(_) | Program::Churn(_) | Program::Meta(_) | Program::FioJobs(_) => {
                Ok(())
            }
            Program::Iozone(spec) => spec.check(),
            Program::Jobs(spec) => spec.check(),
            Program::Small(spec) => spec.check(),
            Program::Fio(spec) => spec.check(),
            Program::Filebench(spec) => spec.check(),
            Program::Tree(spec) => spec.check(),
        }
    }

    /// Number of operations of the measured part; 0: not known before the run.
    pub fn operations(&self) -> u64 {
        match &self.program {
            Program::Bonnie(spec) => spec.operations(),
            Program::Iozone(spec) => spec.operations(),
            Program::Jobs(spec) => spec.operations(),
            Program::Small(spec) => spec.operations(),
            Program::Churn(spec) => spec.operations(),
            Program::Meta(spec) => spec.operations(),
            Program::Fio(spec) => spec.operations(),
            Program::Filebench(spec) => spec.ops().unwrap_or(0),
            Program::FioJobs(_) => 0,
            Program::Tree(spec) => spec.operations(),
        }
    }

    /// Bytes of file content that the measured part writes; 0: only [`Bench::written`] knows.
    pub fn bytes(&self) -> u64 {
        match &self.program {
            Program::Bonnie(spec) => spec.bytes(),
            Program::Iozone(spec) => spec.bytes(),
            Program::Jobs(spec) => spec.bytes(),
            Program::Small(spec) => spec.bytes(),
            Program::Churn(spec) => spec.bytes(),
            Program::Meta(spec) => spec.bytes(),
            Program::Fio(spec) => spec.bytes(),
            Program::Tree(spec) => spec.bytes(),
            Program::Filebench(_) | Program::FioJobs(_) => 0,
        }
    }

    /// Reads the model file of the benchmark, if it has one; `path` is where that file is.
    ///
    /// # Errors
    /// No path is given, or the file cannot be read or is not valid.
    pub fn load(&mut self, path: Option<&std::path::Path>) -> Result<(), RunError> {
        match &mut self.program {
            Program::Filebench(spec) => spec.load(path),
            Program::FioJobs(spec) => spec.load(path),
            _ => Ok(()),
        }
    }

    /// The benchmark on a mounted file system.
    pub fn on(&self, vfs: &Arc<Vfs>, seed: u64) -> Box<dyn Bench> {
        let vfs = vfs.clone();
        match &self.program {
            Program::Bonnie(spec) => Box::new(bonnie::Bonnie::new(spec, vfs)),
            Program::Iozone(spec) => Box::new(iozone::Iozone::new(spec, vfs)),
            Program::Jobs(spec) => Box::new(jobs::Jobs::new(spec, vfs, seed)),
            Program::Small(spec) => Box::new(small::Small::new(spec, vfs)),
            Program::Churn(spec) => Box::new(churn::Churn::new(spec, vfs)),
            Program::Meta(spec) => Box::new(meta::Meta::new(spec, vfs)),
            Program::Fio(spec) => Box::new(fio::Fio::new(spec, vfs, seed)),
            Program::Filebench(spec) => Box::new(Filebench::new(spec, vfs, seed)),
            Program::FioJobs(spec) => Box::new(FioJobs::new(spec, vfs, seed)),
            Program::Tree(spec) => Box::new(tree::Tree::new(spec, vfs, seed)),
        }
    }
}

impl fmt::Display for BenchSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.program {
            Program::Bonnie(spec) => spec.fmt(f),
            Program::Iozone(spec) => spec.fmt(f),
            Program::Jobs(spec) => spec.fmt(f),
            Program::Small(spec) => spec.fmt(f),
            Program::Churn(spec) => spec.fmt(f),
            Program::Meta(spec) => spec.fmt(f),
            Program::Fio(spec) => spec.fmt(f),
            Program::Filebench(spec) => spec.fmt(f),
            Program::FioJobs(spec) => spec.fmt(f),
            Program::Tree(spec) => spec.fmt(f),
        }?;
        match self.background {
            none if none == Background::default() => Ok(()),
            some => write!(f, ",{some}"),
        }
    }
}

/// Content number `id` from byte `at` of a file on, where a block begins. Each 4 KiB differ.
pub(in crate::workload) fn pattern(id: u64, at: u64, bytes: u64) -> Vec<u8> {
    const BLOCK: u64 = base::BLOCK_BYTES as u64;
    let first = (id << 24) ^ (at / BLOCK);
    let mut all = Vec::with_capacity(bytes as usize);
    for n in 0..bytes.div_ceil(BLOCK) {
        let part = (bytes - n * BLOCK).min(BLOCK);
        all.extend(super::fsync::content(first + n, part));
    }
    all
}

/// Measures the duration of one operation.
fn timed<T>(
    kind: &'static str,
    done: &mut Done<'_>,
    work: impl FnOnce() -> Result<T, RunError>,
) -> Result<T, RunError> {
    let start = rt::now();
    let value = work()?;
    done(Told::now(kind, rt::now() - start));
    Ok(value)
}

/// Checks that the file holds `wanted` at `at`.
pub(in crate::workload) fn expect(
    file: &vfs::File,
    at: u64,
    wanted: &[u8],
) -> Result<(), RunError> {
    let mut found = vec![0; wanted.len()];
    let length = file.read_at(at, &mut found)?;
    if length != wanted.len() || found != *wanted {
        return Err(RunError::Check(format!(
            "the {} bytes at {at} of a file are not those that were written",
            wanted.len()
        )));
    }
    Ok(())
}
