//! A second task that writes while a workload runs.

use super::spec::{SpecError, number};
use crate::RunError;
use base::{BLOCK_BYTES, Nanos, Rng};
use rt::{JoinHandle, Mutex};
use std::fmt;
use std::sync::Arc;
use vfs::{File, OpenFlags, Vfs};

/// KiB a second that the writer writes; 0: no writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Background(u32);

/// Largest rate: more than any device here takes.
const KIB_PER_S_MAX: u64 = 1 << 20;
/// Size of the file it writes in.
const FILE_BLOCKS: u64 = 16 << 8;
/// Blocks between two fdatasyncs: 256 KiB.
const SYNC_EVERY: u64 = 64;
const PATH: &str = "/background";

impl Background {
    pub(super) fn parse(text: &str) -> Result<Background, SpecError> {
        Ok(Background(number(text, 0..=KIB_PER_S_MAX)? as u32))
    }

    /// Time between two writes; `None` without a writer.
    pub(crate) fn pause(self) -> Option<Nanos> {
        (BLOCK_BYTES as u64 * 1_000_000_000 / 1024)
            .checked_div(self.0.into())
            .map(Nanos)
    }

    /// Makes the file and starts the writer, which writes 4 KiB at random places of a file of 16 MiB and calls fdatasync after
    /// each 256 KiB. `None` without a writer.
    ///
    /// # Errors
    /// Of the file system.
    pub fn start(self, vfs: &Arc<Vfs>, seed: u64) -> Result<Option<Writer>, RunError> {
        if self.0 == 0 {
            return Ok(None);
        }
        let file = vfs.open(PATH, OpenFlags::READ_WRITE | OpenFlags::CREATE, 0o644)?;
        for n in 0..FILE_BLOCKS {
            file.write_at(n * BLOCK_BYTES as u64, &[1; BLOCK_BYTES])?;
        }
        file.fsync()?;
        let stop = Arc::new(Mutex::named("background writer", false));
        let pause = self.pause().expect("the rate is not 0");
        let (seen, rng) = (stop.clone(), Rng::named(seed, "workload/background"));
        let task = rt::spawn("background writer", move || {
            write(&file, rng, pause, &seen).and(Ok(file))
        });
        Ok(Some(Writer { stop, task }))
    }
}

fn write(file: &File, mut rng: Rng, pause: Nanos, stop: &Mutex<bool>) -> Result<(), RunError> {
    let content = vec![2; BLOCK_BYTES];
    let mut written = 0;
    while !*stop.lock() {
        file.write_at(rng.below(FILE_BLOCKS) * BLOCK_BYTES as u64, &content)?;
        written += 1;
        if written % SYNC_EVERY == 0 {
            file.fdatasync()?;
        }
        rt::sleep(pause);
    }
    Ok(())
}

/// The running writer.
pub struct Writer {
    stop: Arc<Mutex<bool>>,
    task: JoinHandle<Result<File, RunError>>,
}

impl Writer {
    /// Ends it.
    ///
    /// # Errors
    /// What the file system said to it.
    pub fn stop(self) -> Result<(), RunError> {
        *self.stop.lock() = true;
        match self.task.join() {
            Ok(file) => Ok(file?.close()?),
            Err(_) => Err(RunError::Check("the background writer panicked".into())),
        }
    }
}

impl fmt::Display for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
