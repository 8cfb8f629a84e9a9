//! What a workload meets: what runs beside it, which is a writer with a fixed pause between its
//! writes (`writer=`) and a program that never pauses (`beside=`); and how the volume was aged
//! before (`aged=`, [`Aged`]).
//!
//! A background task begins before the measured part and ends with it: then it is asked to stop,
//! and joined. Its operations are not the workload's and count in no rate and no latency of
//! operations. What it makes file system and device do does count, as nothing below can tell whose
//! block it is; so do the fdatasyncs of `writer=`, among the fsyncs of the run.

mod fdtree;
mod file_writer;
mod rate;
#[cfg(test)]
mod tests;

pub use fdtree::Fdtree;
pub use file_writer::{FileWriter, Order};

use super::aged::Aged;
use super::values::{SpecError, key, number};
use crate::RunError;
use base::Nanos;
use rt::{JoinHandle, Mutex};
use std::fmt;
use std::sync::Arc;
use vfs::Vfs;

/// What runs beside a workload, and on what volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Background {
    /// How the volume is aged before; by default it is not.
    pub aged: Aged,
    /// KiB per second of the writer; 0: there is no writer.
    rate: u32,
    beside: Option<Beside>,
}

/// A program that never pauses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beside {
    /// Makes and removes a tree of files and directories, again and again.
    Fdtree(Fdtree),
    /// Writes 4 KiB after 4 KiB into a large file.
    Writer(FileWriter),
}

/// Largest rate: more than any device here accepts.
const KIB_PER_S_MAX: u64 = 1 << 20;

impl Background {
    /// The keys of a workload that say what it meets.
    pub const KEYS: &'static str = "writer, beside, aged, overwrites";

    /// True if nothing runs beside the workload, whatever the age of the volume.
    pub(crate) fn is_nothing(&self) -> bool {
        self.rate == 0 && self.beside.is_none()
    }

    /// Nothing runs but this program.
    pub fn of(beside: Beside) -> Background {
        Background {
            beside: Some(beside),
            ..Background::default()
        }
    }

    /// Sets a parameter of a workload; false if the key is none of [`Background::KEYS`].
    ///
    /// # Errors
    /// The value is not valid.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, SpecError> {
        match name {
            "writer" => self.rate = number(value, 0..=KIB_PER_S_MAX)? as u32,
            "beside" => self.beside = Beside::parse(value)?,
            _ => return self.aged.set(name, value),
        }
        Ok(true)
    }

    /// The program that never pauses.
    pub fn beside(&self) -> Option<Beside> {
        self.beside
    }

    /// Time between two writes of the writer; `None` if there is none.
    pub fn pause(self) -> Option<Nanos> {
        rate::pause(self.rate)
    }

    /// Bytes of the file of the writer; 0 if there is none.
    pub(crate) fn writer_bytes(&self) -> u64 {
        match self.rate {
            0 => 0,
            _ => rate::FILE_BYTES,
        }
    }

    /// Makes what the background needs, and starts it. Its files are there when this returns.
    ///
    /// # Errors
    /// The file system fails, or the volume has no room for it.
    pub fn start(self, vfs: &Arc<Vfs>, seed: u64) -> Result<Running, RunError> {
        let mut running = Running::default();
        if let Some(pause) = self.pause() {
            let writer = rate::prepare(vfs, seed, pause)?;
            running.spawn("background writer", move |stop| writer.run(stop));
        }
        match self.beside {
            None => {}
            Some(Beside::Fdtree(spec)) => {
                let tree = spec.prepare(vfs)?;
                running.spawn("fdtree", move |stop| tree.run(stop));
            }
            Some(Beside::Writer(spec)) => {
                let mut writer = spec.prepare(vfs, seed)?;
                writer.begin()?;
                running.spawn("4 KiB writer", move |stop| writer.run(stop));
            }
        }
        Ok(running)
    }
}

impl fmt::Display for Background {
    /// Prints it as parameters of a workload.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "writer={}", self.rate)?;
        if let Some(beside) = self.beside {
            write!(f, ",beside={beside}")?;
        }
        match self.aged == Aged::default() {
            true => Ok(()),
            false => write!(f, ",{}", self.aged),
        }
    }
}

impl Beside {
    fn parse(text: &str) -> Result<Option<Beside>, SpecError> {
        let mut parts = text.split('+');
        let name = parts.next().unwrap_or_default().trim();
        let mut beside = match name {
            "none" if text == name => return Ok(None),
            "fdtree" => Beside::Fdtree(Fdtree::default()),
            "writer" => Beside::Writer(FileWriter::default()),
            _ => {
                return Err(SpecError::Value {
                    given: text.into(),
                    valid: "none, fdtree, writer, with their parameters behind `+`".into(),
                });
            }
        };
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            match &mut beside {
                Beside::Fdtree(spec) => spec.set(name.trim(), value)?,
                Beside::Writer(spec) => spec.set(name.trim(), value)?,
            }
        }
        Ok(Some(beside))
    }
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Beside::Fdtree(spec) => spec.fmt(f),
            Beside::Writer(spec) => spec.fmt(f),
        }
    }
}

/// A background task asks it between two operations whether to end.
#[derive(Clone)]
struct Stop(Arc<Mutex<bool>>);

impl Stop {
    /// True once the foreground has ended, or the power is gone.
    fn asked(&self) -> bool {
        *self.0.lock() || !rt::powered()
    }
}

impl Default for Stop {
    fn default() -> Self {
        Stop(Arc::new(Mutex::named("end of the background", false)))
    }
}

/// Background tasks that run; [`Running::stop`] ends them.
#[derive(Default)]
pub struct Running {
    stop: Stop,
    tasks: Vec<(&'static str, JoinHandle<Result<(), RunError>>)>,
}

impl Running {
    fn spawn(
        &mut self,
        name: &'static str,
        body: impl FnOnce(&Stop) -> Result<(), RunError> + Send + 'static,
    ) {
        let stop = self.stop.clone();
        self.tasks
            .push((name, rt::spawn(name, move || body(&stop))));
    }

    /// Asks the tasks to stop, and waits for their end.
    ///
    /// # Errors
    /// The first error that the file system gave to one of them.
    pub fn stop(self) -> Result<(), RunError> {
        *self.stop.0.lock() = true;
        let mut first = Ok(());
        for (name, task) in self.tasks {
            let outcome = match task.join() {
                Ok(outcome) => outcome,
                Err(_) => Err(RunError::Check(format!("the task `{name}` panicked"))),
            };
            first = first.and(outcome);
        }
        first
    }
}

/// The error for a parameter that a program beside does not have.
fn unknown(program: &str, given: &str, valid: &str) -> SpecError {
    key(&format!("beside={program}"), given, valid)
}
