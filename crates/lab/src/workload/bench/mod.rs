//! Benchmarks that write: Bonnie's phases, IOzone's sweep, random writers, small files, trees that come and go, one
//! operation on names.
//!
//! Each ends with everything at its home address: a sync, and then what Linux's `sync` writes as well, the committed blocks whose home is
//! still old. That is in the time: the JFTL paper (section 4) says of its runs that all data are written to flash memory.

mod bonnie;
mod churn;
mod iozone;
mod jobs;
mod meta;
mod small;
#[cfg(test)]
mod tests;

pub use bonnie::{BonnieSpec, Phase};
pub use churn::ChurnSpec;
pub use iozone::{IozoneOp, IozoneSpec};
pub use jobs::{Fill, JobsSpec, Order};
pub use meta::{MetaOp, MetaSpec};
pub use small::SmallSpec;

use super::spec::{SpecError, key};
use super::{Background, Done};
use crate::RunError;
use std::fmt;
use std::sync::Arc;
use vfs::Vfs;

/// A benchmark and what runs beside it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BenchSpec {
    /// What it does.
    pub program: Program,
    /// What runs beside it.
    pub background: Background,
}

/// What a benchmark does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Program {
    /// One phase of Bonnie on one file.
    Bonnie(BonnieSpec),
    /// IOzone's write and rewrite.
    Iozone(IozoneSpec),
    /// Several processes, each writing in a file of its own.
    Jobs(JobsSpec),
    /// Many small files, some removed.
    Small(SmallSpec),
    /// Trees of directories, made and removed.
    Churn(ChurnSpec),
    /// One operation on names, many times.
    Meta(MetaSpec),
}

/// Brings everything home: what `sync` does in Linux.
pub type Sync<'a> = dyn Fn() -> Result<(), RunError> + 'a;

/// A benchmark on a mounted file system.
pub(crate) trait Bench {
    /// Makes what it works on; not measured. Everything is home when it returns.
    fn prepare(&mut self, sync: &Sync<'_>) -> Result<(), RunError>;
    /// The measured part but its last sync.
    fn run(&mut self, sync: &Sync<'_>, done: &mut Done<'_>) -> Result<(), RunError>;
    /// Compares what is there with what was written.
    fn check(&mut self) -> Result<(), RunError>;
}

/// The names of the programs.
pub const NAMES: [&str; 6] = ["bonnie", "iozone", "jobs", "small", "churn", "meta"];

impl BenchSpec {
    /// The benchmark of that name with its defaults.
    pub(super) fn named(name: &str) -> Option<BenchSpec> {
        let program = match name {
            "bonnie" => Program::Bonnie(BonnieSpec::default()),
            "iozone" => Program::Iozone(IozoneSpec::default()),
            "jobs" => Program::Jobs(JobsSpec::default()),
            "small" => Program::Small(SmallSpec::default()),
            "churn" => Program::Churn(ChurnSpec::default()),
            "meta" => Program::Meta(MetaSpec::default()),
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
        };
        if known || self.background.set(name, value)? {
            return Ok(());
        }
        let valid = format!("{keys}, {}", Background::KEYS);
        Err(key(workload, name, &valid))
    }

    pub(super) fn check(&self) -> Result<(), SpecError> {
        match &self.program {
            Program::Bonnie(_) | Program::Churn(_) | Program::Meta(_) => Ok(()),
            Program::Iozone(spec) => spec.check(),
            Program::Jobs(spec) => spec.check(),
            Program::Small(spec) => spec.check(),
        }
    }

    /// Operations of the measured part.
    pub fn operations(&self) -> u64 {
        match &self.program {
            Program::Bonnie(spec) => spec.operations(),
            Program::Iozone(spec) => spec.operations(),
            Program::Jobs(spec) => spec.operations(),
            Program::Small(spec) => spec.operations(),
            Program::Churn(spec) => spec.operations(),
            Program::Meta(spec) => spec.operations(),
        }
    }

    /// Bytes of file content that the measured part writes.
    pub fn bytes(&self) -> u64 {
        match &self.program {
            Program::Bonnie(spec) => spec.bytes(),
            Program::Iozone(spec) => spec.bytes(),
            Program::Jobs(spec) => spec.bytes(),
            Program::Small(spec) => spec.bytes(),
            Program::Churn(spec) => spec.bytes(),
            Program::Meta(spec) => spec.bytes(),
        }
    }

    /// It on a mounted file system.
    pub(crate) fn on(&self, vfs: &Arc<Vfs>, seed: u64) -> Box<dyn Bench> {
        let vfs = vfs.clone();
        match &self.program {
            Program::Bonnie(spec) => Box::new(bonnie::Bonnie::new(spec, vfs)),
            Program::Iozone(spec) => Box::new(iozone::Iozone::new(spec, vfs)),
            Program::Jobs(spec) => Box::new(jobs::Jobs::new(spec, vfs, seed)),
            Program::Small(spec) => Box::new(small::Small::new(spec, vfs)),
            Program::Churn(spec) => Box::new(churn::Churn::new(spec, vfs)),
            Program::Meta(spec) => Box::new(meta::Meta::new(spec, vfs)),
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
        }?;
        match self.background {
            none if none == Background::default() => Ok(()),
            some => write!(f, ",{some}"),
        }
    }
}

/// Times one operation.
fn timed<T>(
    kind: &'static str,
    done: &mut Done<'_>,
    work: impl FnOnce() -> Result<T, RunError>,
) -> Result<T, RunError> {
    let start = rt::now();
    let value = work()?;
    done(kind, rt::now() - start);
    Ok(value)
}

/// The file has to hold this at `at`.
fn expect(file: &vfs::File, at: u64, wanted: &[u8]) -> Result<(), RunError> {
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
