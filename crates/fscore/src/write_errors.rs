//! Failures of write-back, and which open files were told of them.
//!
//! The rule is that of Linux (`errseq_t`): failures are counted at the inode, and each open file
//! remembers up to which failure it was told. Every file that was open at the time of a failure is
//! told once; one that is opened later is told if no open file was told yet.

use crate::{Errno, FsError, FsResult};
use std::sync::atomic::{AtomicU64, Ordering};

/// Failures of write-back of one inode.
#[derive(Clone, Default, Debug)]
pub struct WriteErrors {
    counts: WriteErrorCounts,
    last: Option<FsError>,
}

/// Counts of failures.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct WriteErrorCounts {
    /// All failures.
    pub all: u64,
    /// Up to the last one that any open file was told.
    pub told: u64,
    /// The last one was for want of space.
    pub no_space: bool,
}

impl WriteErrorCounts {
    /// These, and those of a later mount, which counts anew.
    #[must_use]
    pub fn and_later(self, later: WriteErrorCounts) -> WriteErrorCounts {
        WriteErrorCounts {
            all: self.all + later.all,
            told: match later.told {
                0 => self.told,
                told => self.all + told,
            },
            no_space: match later.all {
                0 => self.no_space,
                _ => later.no_space,
            },
        }
    }
}

impl WriteErrors {
    /// Notes a failure.
    pub fn note(&mut self, e: FsError) {
        self.counts.all += 1;
        self.counts.no_space = matches!(e, FsError::Posix(Errno::NoSpc));
        self.last = Some(e);
    }
    /// The failures so far: an fsync remembers this when it begins.
    pub fn count(&self) -> u64 {
        self.counts.all
    }
    /// All and those told.
    pub fn counts(&self) -> WriteErrorCounts {
        self.counts
    }
    /// The newest failure, if one of them was never reported.
    pub fn unreported(&self) -> Option<&FsError> {
        self.last
            .as_ref()
            .filter(|_| self.counts.all > self.counts.told)
    }
    /// The failure that an fsync has to report which began after `begin` failures: each failure is
    /// reported by the next fsync, and by every fsync that was under way when it happened,
    /// whichever of them waited for the data first.
    pub fn report(&mut self, begin: u64) -> Option<FsError> {
        if self.counts.all <= begin.min(self.counts.told) {
            return None;
        }
        self.counts.told = self.counts.all;
        self.last.clone()
    }
}

/// Up to which failure an open file was told.
#[derive(Debug)]
pub struct ErrorSeen(AtomicU64);

impl ErrorSeen {
    /// For a file that is being opened: it is not told of failures that another file was told of.
    pub fn at_open(counts: WriteErrorCounts) -> ErrorSeen {
        ErrorSeen(AtomicU64::new(counts.told))
    }

    /// The answer to a sync of this open file for which the file system returned `result`; `counts`
    /// are the failures after it.
    ///
    /// # Errors
    /// That of the sync; ENOSPC or EIO for a failure that this file was not told.
    pub fn after(&self, result: FsResult<()>, counts: WriteErrorCounts) -> FsResult<()> {
        let seen = self.0.swap(counts.all, Ordering::Relaxed);
        result?;
        match (counts.all > seen, counts.no_space) {
            (true, true) => Err(Errno::NoSpc.into()),
            (true, false) => Err(FsError::Io {
                what: "an earlier write of this file's data failed; what it wrote is not on the device".into(),
                power_lost: false,
            }),
            (false, _) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> FsError {
        FsError::Io {
            what: "x".into(),
            power_lost: false,
        }
    }

    #[test]
    fn each_open_file_is_told_once() {
        let mut errors = WriteErrors::default();
        let open = |errors: &WriteErrors| ErrorSeen::at_open(errors.counts());
        let sync = |errors: &mut WriteErrors, seen: &ErrorSeen| {
            let begin = errors.count();
            let result = errors.report(begin).map_or(Ok(()), Err);
            seen.after(result, errors.counts()).is_ok()
        };
        let (a, b) = (open(&errors), open(&errors));
        assert!(sync(&mut errors, &a));
        errors.note(failure());
        errors.note(failure());
        let late = open(&errors);
        assert_eq!(
            [&a, &a, &b, &b].map(|s| sync(&mut errors, s)),
            [false, true, false, true]
        );
        assert!(!sync(&mut errors, &late), "opened before anybody was told");
        let last = open(&errors);
        assert!(sync(&mut errors, &last), "and after");
        errors.note(failure());
        assert_eq!([&late, &a].map(|s| sync(&mut errors, s)), [false, false]);
        errors.note(Errno::NoSpc.into());
        assert!(!sync(&mut errors, &a));
        let told = last.after(Ok(()), errors.counts());
        assert_eq!(told.map_err(|e| e.errno()), Err(Errno::NoSpc));
    }
}
