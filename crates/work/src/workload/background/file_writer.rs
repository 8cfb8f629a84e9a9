//! `beside=writer`: writes 4 KiB after 4 KiB into a large file, without a pause and without a sync.
//!
//! The eMMC paper's data-intensive program "continuously wrote 4KB data to a 4GB file", and the
//! paper says no more. We read that as plain buffered writes from beginning to end: it names no
//! sync, and a file of 4 GB is larger than the 2 GB of memory of its board, so the page cache
//! cannot hold it and the limit on dirty pages brings the program to the speed of the device. At
//! the end of the file the program begins again. Without `file=` the file here is a quarter of what
//! is free, at most 4 GiB.

use super::{Stop, unknown};
use crate::RunError;
use crate::workload::SpecError;
use crate::workload::values::{size, size_text};
use base::{BLOCK_BYTES, Nanos, Rng};
use std::fmt;
use std::sync::Arc;
use vfs::{File, OpenFlags, Vfs};

/// Parameters of `beside=writer`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileWriter {
    /// Bytes of the file; 0: a quarter of what is free, at most 4 GiB.
    pub bytes: u64,
    /// Where the writes go.
    pub order: Order,
    /// Bytes that it writes before the workload begins. Without any, a workload of a second may
    /// be over before the first page is written back.
    pub ahead: u64,
}

base::words! {
    /// Order of the writes.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Order: "order" {
        /// From beginning to end, then again: the first time they allocate.
        Sequential => "sequential",
        /// Anywhere in the file.
        Random => "random",
    }
}

impl Default for FileWriter {
    fn default() -> Self {
        FileWriter {
            bytes: 0,
            order: Order::Sequential,
            ahead: 0,
        }
    }
}

const FILE_MAX: u64 = 64 << 30;
/// Bytes of the file in the eMMC paper.
const PAPER_BYTES: u64 = 4 << 30;
const PATH: &str = "/beside";
/// CPU time of one buffered write of 4 KiB: copying at 1 GiB/s, and the call itself, on a core of a
/// phone. The device takes ten times as long for the same block, so this value decides nothing; but
/// a program that writes without end must take some virtual time.
const WRITE: Nanos = Nanos(10_000);

impl FileWriter {
    const KEYS: &'static str = "file, order, ahead";

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), SpecError> {
        match name {
            "file" => {
                self.bytes = match value {
                    "auto" => 0,
                    _ => size(value, BLOCK_BYTES as u64..=FILE_MAX)?,
                }
            }
            "order" => self.order = value.parse()?,
            "ahead" => self.ahead = size(value, 0..=FILE_MAX)?,
            _ => return Err(unknown("writer", name, Self::KEYS)),
        }
        Ok(())
    }

    /// Makes the empty file, or refuses a volume that has no room for it.
    pub(super) fn prepare(self, vfs: &Arc<Vfs>, seed: u64) -> Result<EndlessWriter, RunError> {
        let free = vfs.statfs()?.blocks_available;
        let blocks = match self.bytes {
            0 => (free / 4).min(PAPER_BYTES / BLOCK_BYTES as u64),
            bytes => bytes / BLOCK_BYTES as u64,
        };
        if blocks == 0 || blocks > free {
            return Err(RunError::Spec(SpecError::Together(format!(
                "beside={self} needs {} MiB, the volume has {} MiB free; choose a smaller file or a larger volume",
                blocks / 256,
                free / 256
            ))));
        }
        let file = vfs.open(PATH, OpenFlags::READ_WRITE | OpenFlags::CREATE, 0o644)?;
        Ok(EndlessWriter {
            file,
            blocks,
            order: self.order,
            ahead: self.ahead,
            next: 0,
            rng: Rng::named(seed, "workload/beside"),
        })
    }
}

impl fmt::Display for FileWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = match self.bytes {
            0 => "auto".into(),
            bytes => size_text(bytes),
        };
        write!(f, "writer+file={file}+order={}", self.order.word())?;
        match self.ahead {
            0 => Ok(()),
            ahead => write!(f, "+ahead={}", size_text(ahead)),
        }
    }
}

/// The writer on a volume, ready to run.
pub(super) struct EndlessWriter {
    file: File,
    blocks: u64,
    order: Order,
    ahead: u64,
    /// Number of the next write.
    next: u64,
    rng: Rng,
}

impl EndlessWriter {
    /// Writes what comes before the workload.
    pub(super) fn begin(&mut self) -> Result<(), RunError> {
        let content = vec![3; BLOCK_BYTES];
        while self.next < self.ahead / BLOCK_BYTES as u64 && rt::powered() {
            self.write(&content)?;
        }
        Ok(())
    }

    pub(super) fn run(mut self, stop: &Stop) -> Result<(), RunError> {
        let content = vec![3; BLOCK_BYTES];
        while !stop.asked() {
            self.write(&content)?;
        }
        Ok(self.file.close()?)
    }

    fn write(&mut self, content: &[u8]) -> Result<(), RunError> {
        let block = match self.order {
            Order::Sequential => self.next % self.blocks,
            Order::Random => self.rng.below(self.blocks),
        };
        self.next += 1;
        rt::sleep(WRITE);
        self.file.write_at(block * BLOCK_BYTES as u64, content)?;
        Ok(())
    }
}
