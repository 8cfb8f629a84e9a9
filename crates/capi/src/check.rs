//! The checker.

use crate::disk::varve_disk;
use crate::error::{fill, guarded, varve_error};
use crate::text::{handle, place};
use std::ffi::{c_char, c_int};

/// What a check found.
#[repr(C)]
pub struct varve_check {
    /// Number of findings.
    pub findings: u64,
    /// The volume was not unmounted, and was recovered.
    pub recovered: bool,
    /// Inodes in use.
    pub inodes: u64,
    /// Blocks in use.
    pub blocks: u64,
    /// The first finding, or why the volume cannot be mounted; empty if it is clean.
    pub first: [c_char; 512],
}

/// Checks the volume on a disk that is not mounted. One that was not unmounted is recovered first:
/// with `recover` on the disk, otherwise in memory only. Answers 0 if it is clean, and 1 if not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varve_fsck(
    disk: *const varve_disk,
    recover: bool,
    check: *mut varve_check,
    error: *mut varve_error,
) -> c_int {
    guarded(error, || {
        // SAFETY: the caller passes null, or a disk and a place.
        let (disk, out) = unsafe { (handle(disk, "disk")?, place(check, "the check")?) };
        let found = match recover {
            true => disk.disk.recover()?,
            false => disk.disk.check()?,
        };
        let first = found.findings.first().map(ToString::to_string);
        let first = found.refused.clone().or(first).unwrap_or_default();
        out.findings = found.findings.len() as u64 + found.beyond;
        out.recovered = found.recovered;
        out.inodes = found.inodes;
        out.blocks = found.blocks;
        fill(&mut out.first, first.as_bytes());
        Ok(c_int::from(!found.is_clean()))
    })
}
