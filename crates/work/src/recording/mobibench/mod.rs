//! Reads recordings of system calls as Mobibench's generator makes them from strace: `thread
//! microseconds call arguments`.
//!
//! These recordings have gaps: paths of opens are cut to `data/data` (a lost path), opens before
//! the recording began are missing, and so are `ftruncate` and `rename`. The other calls mostly
//! tell what the application did, by the rules below. Each decision is counted in
//! [`Reading::rules`], and what M3 leaves out in [`Reading::left_out`]; docs/use/recordings.md says
//! how many calls each rule decides in the two recordings of the paper's applications:
//!
//! - M1: An open of a bare path (`/data/data` without quotes, `O_WRONLY|O_CREAT|O_TRUNC`) at the
//!   very microsecond of the thread's next call, which is on that descriptor, was made up by the
//!   recorder for a descriptor it had not seen. It is no call.
//! - M2: A descriptor that is opened again was closed in between.
//! - M3: A descriptor without an open and without a placed write, sync or truncation is a pipe, a
//!   socket or an event, and left out. One that is only read with `pread` is a package or a font,
//!   and left out too, unless M5 names it: reads of what stays in the page cache move nothing.
//! - M4: `open data/data O_RDWR|O_CREAT` directly before the same thread opens a directory, after
//!   it asked `access "X-journal"` for an X in that directory, opens X-journal: so SQLite begins a
//!   transaction (journal, then the directory for its sync).
//! - M5: A descriptor whose file is not known and that a thread examines (`fstat`, or `pread` of 16
//!   bytes at 24, the change counter) as its first descriptor after `access "X-journal"` is X: so
//!   SQLite takes its shared lock.
//! - M6: A rollback journal (M4) that is closed was removed after its close if the next look at it
//!   does not find it (SQLite's journal mode DELETE). If the look finds it, or none follows, it was
//!   emptied before its close (TRUNCATE; had it content, the next reader would open it and read its
//!   header).
//! - M7: `open data/data ..O_EXCL` makes the file that the thread found missing last; without such
//!   a name, a file of unknown name.
//! - M8: `open data/data O_CREAT|O_TRUNC` after the thread found X there and X.bak missing replaces
//!   X, which it renamed to X.bak before (Android's SharedPreferences); the later unlink of X.bak
//!   confirms it.
//! - M9: `open data/data` with `O_TRUNC` (for the first time) or without `O_CREAT`, when the last
//!   lost path that the thread opened was a new file and is closed, opens that file (createNewFile
//!   and FileOutputStream; Chromium's cache opens what it made).
//! - M10: Another lost path with `O_CREAT` and `O_EXCL` or `O_TRUNC` is a new file; one without is
//!   a file that was there, and so is a descriptor without an open that M3 keeps.
//! - M11: A name that is removed and was never opened is the oldest closed file of unknown name
//!   that the thread made; else one that was there before the recording (counted as M14).
//! - M12: Reads and writes without offset go on where the last one on the descriptor ended, from
//!   the beginning, or, for writes with `O_APPEND`, from the end: seeks are not recorded.
//! - M13: A file that was there is as long as the recording shows: reads, and pages of a database
//!   that its rollback journal saved before they were written. Pages above that which the journal
//!   did not save are new.
//! - M14: A file of which nothing is known but that it was there has one block.
//!
//! A call that still contradicts the others after that (a name that is not there) is dropped, or
//! what it needs is put in place; either is counted as `M15`.

mod lines;
mod names;
mod rebuild;
mod sessions;

pub use lines::is_call;

use super::reading::Reading;
use super::{Recording, repair};
use crate::RunError;
use std::io::BufRead;

/// Reads a whole recording.
///
/// # Errors
/// There are more calls than can be held; with `strict`, also the first line at fault.
pub fn read(
    name: &str,
    lines: &mut dyn BufRead,
    strict: bool,
) -> Result<(Recording, Reading), RunError> {
    let mut reading = Reading {
        name: name.into(),
        format: "mobibench".into(),
        ..Reading::default()
    };
    let calls = lines::read(lines, strict, &mut reading)?;
    let sessions = sessions::Sessions::of(&calls, &mut reading);
    let rebuilt = rebuild::rebuild(&calls, &sessions, &mut reading);
    let recording = repair::recording(name, rebuilt, &mut reading);
    Ok((recording, reading))
}
