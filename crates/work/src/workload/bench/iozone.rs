//! IOzone's write and rewrite (iozone.org): a file is written record by record, each forced to the
//! medium before the next (unless `sync=none`).
//!
//! `write` makes the file, so records allocate; `rewrite` writes the same records again; `both` is
//! one after the other, and between them everything is brought home.

use super::super::Done;
use super::super::values::{SpecError, size, size_text};
use super::{Bench, Sync, expect, timed};
use crate::RunError;
use crate::workload::fsync::{Sync as Force, content};
use std::fmt;
use std::sync::Arc;
use vfs::{OpenFlags, Vfs};

base::words! {
    /// The test that is measured.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum IozoneOp: "operation" {
        /// Writes a new file.
        Write => "write",
        /// Writes an existing file once more.
        Rewrite => "rewrite",
        /// Runs `write`, then `rewrite`.
        Both => "both",
    }
}

/// Parameters of the program `iozone`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IozoneSpec {
    /// The test that is measured.
    pub op: IozoneOp,
    /// Bytes of the file (`-s`).
    pub file: u64,
    /// Bytes of a record (`-r`).
    pub record: u64,
    /// How a record is forced to the medium.
    pub sync: Force,
}

const FILE_MAX: u64 = 1 << 30;
const FILE: &str = "/iozone.tmp";

impl Default for IozoneSpec {
    fn default() -> Self {
        IozoneSpec {
            op: IozoneOp::Write,
            file: 4 << 20,
            record: 4 << 10,
            sync: Force::Fsync,
        }
    }
}

impl IozoneSpec {
    pub(super) const KEYS: &'static str = "op, file, record, sync";

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<bool, SpecError> {
        match name {
            "op" => self.op = value.parse()?,
            "file" => self.file = size(value, 1..=FILE_MAX)?,
            "sync" => self.sync = value.parse()?,
            "record" => self.record = size(value, 1..=FILE_MAX)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn check(&self) -> Result<(), SpecError> {
        if self.file.is_multiple_of(self.record) {
            return Ok(());
        }
        let (file, record) = (size_text(self.file), size_text(self.record));
        Err(SpecError::Together(format!(
            "file={file} is no multiple of record={record}"
        )))
    }

    fn records(&self) -> u64 {
        self.file / self.record
    }

    fn rounds(&self) -> u64 {
        match self.op {
            IozoneOp::Both => 2,
            _ => 1,
        }
    }

    pub(super) fn operations(&self) -> u64 {
        self.rounds() * self.records()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.rounds() * self.file
    }
}

impl fmt::Display for IozoneSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, record) = (size_text(self.file), size_text(self.record));
        let (op, sync) = (self.op.word(), self.sync.word());
        write!(f, "iozone:op={op},file={file},record={record},sync={sync}")
    }
}

pub(super) struct Iozone {
    spec: IozoneSpec,
    vfs: Arc<Vfs>,
}

impl Iozone {
    pub(super) fn new(spec: &IozoneSpec, vfs: Arc<Vfs>) -> Iozone {
        let spec = spec.clone();
        Iozone { spec, vfs }
    }

    /// Writes all records with the content of round `round`.
    fn round(&self, round: u64, done: &mut Done<'_>) -> Result<(), RunError> {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE;
        let file = self.vfs.open(FILE, flags, 0o644)?;
        for n in 0..self.spec.records() {
            let kind = if round == 0 { "write" } else { "rewrite" };
            timed(kind, done, || {
                file.write_at(n * self.spec.record, &self.record(round, n))?;
                match self.spec.sync {
                    Force::Fsync => file.fsync()?,
                    Force::Fdatasync => file.fdatasync()?,
                    Force::None => {}
                }
                Ok(())
            })?;
        }
        Ok(file.close()?)
    }

    /// Content of a record; no two blocks of 4 KiB are equal.
    fn record(&self, round: u64, n: u64) -> Vec<u8> {
        const BLOCK: u64 = 4096;
        let blocks = self.spec.record.div_ceil(BLOCK);
        let first = (round * self.spec.records() + n) * blocks;
        let part = |i| content(first + i, BLOCK.min(self.spec.record - i * BLOCK));
        (0..blocks).flat_map(part).collect()
    }

    /// The round whose content remains.
    fn last(&self) -> u64 {
        u64::from(self.spec.op != IozoneOp::Write)
    }
}

impl Bench for Iozone {
    fn prepare(&mut self, sync: &Sync<'_>) -> Result<(), RunError> {
        if self.spec.op == IozoneOp::Rewrite {
            self.round(0, &mut |_| {})?;
        }
        sync()
    }

    fn run(&mut self, sync: &Sync<'_>, done: &mut Done<'_>) -> Result<(), RunError> {
        if self.spec.op == IozoneOp::Both {
            self.round(0, done)?;
            sync()?;
        }
        self.round(self.last(), done)
    }

    fn check(&mut self) -> Result<(), RunError> {
        let file = self.vfs.open(FILE, OpenFlags::READ, 0)?;
        for n in 0..self.spec.records() {
            expect(&file, n * self.spec.record, &self.record(self.last(), n))?;
        }
        Ok(file.close()?)
    }
}
