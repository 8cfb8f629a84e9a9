//! `writer=`: 4 KiB at random places of a small file, with an fdatasync after each 256 KiB. The
//! pause between two writes is fixed, so the rate that is asked for is the highest: what a write or
//! fdatasync takes comes on top of the pauses.

use super::Stop;
use crate::RunError;
use base::{BLOCK_BYTES, Nanos, Rng};
use std::sync::Arc;
use vfs::{File, OpenFlags, Vfs};

/// Blocks of the file that it writes in.
const FILE_BLOCKS: u64 = 16 << 8;
/// Blocks between two fdatasyncs: 256 KiB.
const SYNC_EVERY: u64 = 64;
const PATH: &str = "/background";

/// Time between two writes at `kib_per_s`; `None` for a rate of 0.
pub(super) fn pause(kib_per_s: u32) -> Option<Nanos> {
    (BLOCK_BYTES as u64 * 1_000_000_000 / 1024)
        .checked_div(kib_per_s.into())
        .map(Nanos)
}

/// The writer: 4 KiB at random places of a file of 16 MiB, with fdatasync after each 256 KiB.
pub(super) struct RateWriter {
    file: File,
    rng: Rng,
    pause: Nanos,
}

/// Bytes of the file.
pub(super) const FILE_BYTES: u64 = FILE_BLOCKS * BLOCK_BYTES as u64;

/// Writes the file once, or refuses a volume that has no room for it.
pub(super) fn prepare(vfs: &Arc<Vfs>, seed: u64, pause: Nanos) -> Result<RateWriter, RunError> {
    let free = vfs.statfs()?.blocks_available;
    if free < FILE_BLOCKS {
        return Err(RunError::Room(format!(
            "writer= needs {} MiB, the volume has {} MiB free; choose a larger volume",
            FILE_BLOCKS / 256,
            free / 256
        )));
    }
    let file = vfs.open(PATH, OpenFlags::READ_WRITE | OpenFlags::CREATE, 0o644)?;
    for n in 0..FILE_BLOCKS {
        file.write_at(n * BLOCK_BYTES as u64, &[1; BLOCK_BYTES])?;
    }
    file.fsync()?;
    let rng = Rng::named(seed, "workload/background");
    Ok(RateWriter { file, rng, pause })
}

impl RateWriter {
    pub(super) fn run(mut self, stop: &Stop) -> Result<(), RunError> {
        let content = vec![2; BLOCK_BYTES];
        let mut written = 0;
        while !stop.asked() {
            let at = self.rng.below(FILE_BLOCKS) * BLOCK_BYTES as u64;
            self.file.write_at(at, &content)?;
            written += 1;
            if written % SYNC_EVERY == 0 {
                self.file.fdatasync()?;
            }
            rt::sleep(self.pause);
        }
        Ok(self.file.close()?)
    }
}
