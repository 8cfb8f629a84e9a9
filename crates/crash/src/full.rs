//! Workloads on volumes that are nearly full: how a volume is filled, and what is written down of
//! an operation for which there was no room.
//!
//! The log of a task says what was done: a refused operation stands there as one that does nothing,
//! a write that found room for its front as a shorter one. An allocation that is refused changes no
//! size. So the oracle needs no
//! rule of its own for full volumes. It also follows that a cut inside such an operation may leave
//! only what the operation was later answered.

use super::ops::Op;
use crate::CrashError;
use std::sync::Arc;
use vfs::{Errno, FallocateMode, FsError, FsResult, OpenFlags, Vfs};

/// Stands in a log for an operation that was refused.
pub(super) const NOTHING: Op = Op::Pause(0);

/// The file that takes the room which is not to be free, outside of the tasks' directories.
const FILLER: &str = "/filler";
const FILLER_PERM: u16 = 0o600;
const STEP_BYTES: u64 = 8 << 20;
/// The smallest step of filling: a block.
const STEP_BYTES_MIN: u64 = 4096;

/// Takes all room of a fresh volume but `free` bytes.
///
/// # Errors
/// An error of the file system, other than that it is full.
pub(super) fn leave(vfs: &Arc<Vfs>, free: u64) -> Result<(), CrashError> {
    let flags = OpenFlags::READ_WRITE | OpenFlags::CREATE | OpenFlags::EXCL;
    let file = vfs.open(FILLER, flags, FILLER_PERM)?;
    let (mut end, mut step) = (0, STEP_BYTES);
    while step >= STEP_BYTES_MIN {
        match file.fallocate(FallocateMode::Allocate, end, step) {
            Ok(()) => end += step,
            Err(e) if e.errno() == Errno::NoSpc => step /= 2,
            // Files with a block map have no blocks without content, so zeros are written.
            Err(e) if e.errno() == Errno::NotSup => match write_step(&file, end, step)? {
                0 => step /= 2,
                n => end += n,
            },
            Err(e) => return Err(e.into()),
        }
    }
    file.close()?;
    vfs.truncate(FILLER, end.saturating_sub(free))?;
    Ok(vfs.sync()?)
}

/// Gives back what [`leave`] has taken, and syncs: only then freed blocks can be used again.
///
/// # Errors
/// An error of the file system.
pub(super) fn give_back(vfs: &Arc<Vfs>) -> FsResult<()> {
    match vfs.truncate(FILLER, 0) {
        Ok(()) => vfs.sync(),
        Err(e) if e.errno() == Errno::NoEnt => Ok(()),
        Err(e) => Err(e),
    }
}

fn write_step(file: &vfs::File, at: u64, len: u64) -> Result<u64, FsError> {
    match file.write_at(at, &vec![0; len as usize]) {
        Ok(n) => Ok(n as u64),
        Err(e) if e.errno() == Errno::NoSpc => Ok(0),
        Err(e) => Err(e),
    }
}

/// Whether a full volume may answer this operation so. It must never refuse what frees blocks, nor
/// what makes acknowledged changes durable.
pub(super) fn may_be_refused(op: &Op, e: &FsError) -> bool {
    let gives = matches!(
        op,
        Op::Unlink(_)
            | Op::Rmdir(_)
            | Op::RemoveXattr { .. }
            | Op::Fsync(_)
            | Op::Fdatasync(_)
            | Op::SyncDir(_)
            | Op::Sync
            | Op::Hold(_)
            | Op::Chmod { .. }
    );
    e.errno() == Errno::NoSpc && !gives
}

/// The write, shortened to the `len` bytes that were taken.
pub(super) fn shortened(op: &Op, len: u64) -> Option<Op> {
    match op {
        Op::Write { path, offset, .. } if len > 0 => Some(Op::Write {
            path: path.clone(),
            offset: *offset,
            len,
        }),
        _ => Some(NOTHING),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_in_part_stands_in_the_log_as_what_was_done() {
        let path = || "/f".to_string();
        let write = Op::Write {
            path: path(),
            offset: 512,
            len: 9000,
        };
        let said = |op: Option<Op>| op.map(|op| op.to_string());
        let short = said(shortened(&write, 3584));
        assert_eq!(short.as_deref(), Some("write /f 512+3584"));
        assert_eq!(shortened(&write, 0), Some(NOTHING));
        let full = FsError::from(Errno::NoSpc);
        assert!(may_be_refused(&write, &full));
        assert!(!may_be_refused(&write, &Errno::Io.into()));
        assert!(!may_be_refused(&Op::Fsync(path()), &full));
    }
}
