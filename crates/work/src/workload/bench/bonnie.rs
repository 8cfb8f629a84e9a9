//! Bonnie's write phases (Bray, Bonnie: textuality.com/bonnie) on one file, from its beginning on.
//!
//! - `char`: each byte goes by `putc` through a stdio buffer of 4 KiB, so the file system sees
//!   writes of 4 KiB; `putc` itself is charged (`base::cost::host`).
//! - `block`: `write` of 4 KiB.
//! - `rewrite`: each 4 KiB is read, changed, and written to the same place.
//!
//! Bonnie's own chunk for `rewrite` is larger; the JFTL paper names 4 KiB.

use super::super::Done;
use super::super::values::{SpecError, number};
use super::{Bench, Sync, expect, timed};
use crate::RunError;
use base::cost::host::PUTC_4K;
use std::fmt;
use std::sync::Arc;
use vfs::{File, OpenFlags, Vfs};

base::words! {
    /// A phase of Bonnie.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Phase: "phase" {
        /// `putc` through a stdio buffer.
        Char => "char",
        /// `write` of 4 KiB.
        Block => "block",
        /// Reads, changes and writes each chunk.
        Rewrite => "rewrite",
    }
}

/// Parameters of the program `bonnie`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BonnieSpec {
    /// The phase that runs.
    pub phase: Phase,
    /// Size of the file, MiB.
    pub mib: u32,
}

const MIB_MAX: u64 = 1 << 16;
/// Bytes of a call, and of the stdio buffer.
const CHUNK: usize = 4096;
const FILE: &str = "/Bonnie";

impl Default for BonnieSpec {
    fn default() -> Self {
        BonnieSpec {
            phase: Phase::Block,
            mib: 64,
        }
    }
}

impl BonnieSpec {
    pub(super) const KEYS: &'static str = "phase, mib";

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<bool, SpecError> {
        match name {
            "phase" => self.phase = value.parse()?,
            "mib" => self.mib = number(value, 1..=MIB_MAX)? as u32,
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.mib) << 20
    }

    pub(super) fn operations(&self) -> u64 {
        self.bytes() / CHUNK as u64
    }
}

impl fmt::Display for BonnieSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bonnie:phase={},mib={}", self.phase.word(), self.mib)
    }
}

pub(super) struct Bonnie {
    spec: BonnieSpec,
    vfs: Arc<Vfs>,
}

/// The byte at `at`. Each block begins with its number, so no two are equal: a block in a wrong
/// place shows, and a device that looks at content has nothing to share.
fn byte(at: u64) -> u8 {
    let (block, within) = (at / CHUNK as u64, (at % CHUNK as u64) as usize);
    match (block + 1).to_le_bytes().get(within) {
        Some(byte) => *byte,
        None => (at % 251) as u8,
    }
}

/// Mask by which the rewrite changes a byte.
const DIRTIED: u8 = 0x80;

fn chunk(n: u64) -> Vec<u8> {
    let first = n * CHUNK as u64;
    (0..CHUNK as u64).map(|i| byte(first + i)).collect()
}

impl Bonnie {
    pub(super) fn new(spec: &BonnieSpec, vfs: Arc<Vfs>) -> Bonnie {
        let spec = spec.clone();
        Bonnie { spec, vfs }
    }

    fn open(&self, flags: OpenFlags) -> Result<File, RunError> {
        Ok(self.vfs.open(FILE, flags, 0o644)?)
    }

    /// Writes 4 KiB after 4 KiB.
    fn blocks(&self, done: &mut Done<'_>) -> Result<(), RunError> {
        let file = self.open(OpenFlags::WRITE | OpenFlags::CREATE)?;
        for n in 0..self.spec.operations() {
            timed("write", done, || {
                Ok(file.write_at(n * CHUNK as u64, &chunk(n))?)
            })?;
        }
        Self::end(file)
    }

    /// Writes byte after byte by `putc`.
    fn characters(&self, done: &mut Done<'_>) -> Result<(), RunError> {
        let file = self.open(OpenFlags::WRITE | OpenFlags::CREATE)?;
        let mut buffer = Vec::with_capacity(CHUNK);
        let mut at = 0;
        for position in 0..self.spec.bytes() {
            buffer.push(byte(position));
            if buffer.len() == CHUNK {
                rt::charge(PUTC_4K);
                timed("putc", done, || Ok(file.write_at(at, &buffer)?))?;
                at += CHUNK as u64;
                buffer.clear();
            }
        }
        Self::end(file)
    }

    fn rewrite(&self, done: &mut Done<'_>) -> Result<(), RunError> {
        let file = self.open(OpenFlags::READ_WRITE)?;
        let mut buffer = vec![0; CHUNK];
        for n in 0..self.spec.operations() {
            timed("rewrite", done, || {
                let at = n * CHUNK as u64;
                let length = file.read_at(at, &mut buffer)?;
                if length != CHUNK || buffer != chunk(n) {
                    return Err(RunError::Check(format!(
                        "block {n} of {FILE} is not as it was written"
                    )));
                }
                buffer[0] ^= DIRTIED;
                Ok(file.write_at(at, &buffer)?)
            })?;
        }
        Self::end(file)
    }

    fn end(file: File) -> Result<(), RunError> {
        file.fsync()?;
        Ok(file.close()?)
    }
}

impl Bench for Bonnie {
    fn prepare(&mut self, sync: &Sync<'_>) -> Result<(), RunError> {
        if self.spec.phase == Phase::Rewrite {
            self.blocks(&mut |_| {})?;
        }
        sync()
    }

    fn run(&mut self, _: &Sync<'_>, done: &mut Done<'_>) -> Result<(), RunError> {
        match self.spec.phase {
            Phase::Char => self.characters(done),
            Phase::Block => self.blocks(done),
            Phase::Rewrite => self.rewrite(done),
        }
    }

    fn check(&mut self) -> Result<(), RunError> {
        let file = self.open(OpenFlags::READ)?;
        for n in 0..self.spec.operations() {
            let mut wanted = chunk(n);
            if self.spec.phase == Phase::Rewrite {
                wanted[0] ^= DIRTIED;
            }
            expect(&file, n * CHUNK as u64, &wanted)?;
        }
        Ok(file.close()?)
    }
}
