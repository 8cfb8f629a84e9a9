//! Reads recordings of system calls as strace writes them: `strace -f -tt -T -o FILE COMMAND`, with
//! `-ttt` or `-r` in place of `-tt`, with or without `-y`, `-Y`, `-i`, `-n` and `-k`, of 64-bit and
//! 32-bit programs.
//!
//! What the lines do not say is concluded by these rules. Each decision is counted in
//! [`Reading::rules`], and what is left out in [`Reading::left_out`]:
//!
//! - S1: A relative path begins at the working directory: that of `-y`, of chdir or of getcwd;
//!   before any of these the root of the volume stands for it.
//! - S2: A descriptor that no open of the recording made is the file whose path `-y` tells, which
//!   was there before; without `-y` its calls are left out.
//! - S3: A file that no call makes, writes, sizes, renames, removes or syncs is left out with its
//!   reads: what stays in the page cache moves nothing.
//! - S4: A file opened with `O_CREAT` was there before if a look found it or a later call shows
//!   more content than the recording wrote; else the open makes it.
//! - S5: A file that was there is as long as its first sizes (fstat, stat, lseek to the end) and
//!   reads show. Where none does, it has one block.
//! - S6: Each write through `O_SYNC`, `O_DSYNC`, `RWF_SYNC` or `RWF_DSYNC` is a write and a sync.
//! - S7: fallocate that makes a file longer sets its size; other kinds of it are left out.
//! - S8: A link whose old name goes away later is a rename at the time of the link, and that
//!   removal is none; another link is left out.
//! - S9: What contradicts the other calls after all that is dropped, or made true.
//! - S10: A process takes the number of one that has ended, because each number becomes a task.
//! - S11: A copy within the kernel (copy_file_range, sendfile, splice, FICLONE) is a read and a
//!   write of the bytes that it moved, because the file system of a replay shares no blocks between
//!   files.
//! - S12: sync and syncfs are a sync of the whole volume, whatever file system they were for.
//!
//! strace cannot show stores to mapped files, nor requests through io_uring and Linux AIO. Such
//! mappings and requests are counted among what is left out.

mod calls;
mod files;
mod follow;
mod lines;
mod text;
mod world;

pub use lines::is_call;

use super::reading::Reading;
use super::{Recording, repair};
use crate::RunError;
use std::io::BufRead;

/// Reads a whole recording.
///
/// # Errors
/// There are more calls than can be held, or no line has a time; with `strict`, also the first
/// line at fault.
pub fn read(
    name: &str,
    lines: &mut dyn BufRead,
    strict: bool,
) -> Result<(Recording, Reading), RunError> {
    let mut reading = Reading {
        name: name.into(),
        format: "strace".into(),
        ..Reading::default()
    };
    let steps = lines::read(lines, strict, &mut reading)?;
    if steps.is_empty() && reading.faults.contains_key(lines::NO_TIME) {
        let what = "its lines have no times; record with `varve record` or `strace -f -tt -T -y -o FILE COMMAND`";
        return Err(RunError::Recording(format!("{name}: {what}")));
    }
    let rebuilt = follow::rebuild(steps, &mut reading);
    let recording = repair::recording(name, rebuilt, &mut reading);
    Ok((recording, reading))
}

#[cfg(test)]
mod tests;
