//! Checking the file system on a disk.

use crate::{Disk, Error, Kind, Result};
use rig::Fs;
use rig::fsck::{Checked, fsck_device};
use std::fmt;

/// Findings that are kept.
const FINDINGS_MAX: usize = 1000;

/// The outcome of a check.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Check {
    /// The kind of file system; ext4 if it cannot be told.
    pub kind: Kind,
    /// What is wrong with the volume, after its recovery.
    pub findings: Vec<Finding>,
    /// Findings beyond the 1000 that are kept.
    pub beyond: u64,
    /// The volume was not unmounted, and was recovered: on the disk or in memory.
    pub recovered: bool,
    /// Why the volume cannot be mounted, if it cannot.
    pub refused: Option<String>,
    /// Inodes in use.
    pub inodes: u64,
    /// Blocks in use.
    pub blocks: u64,
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// What, and where.
    pub what: String,
    /// What to do about it.
    pub advice: &'static str,
}

impl Check {
    /// Nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.beyond == 0 && self.refused.is_none()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.advice)
    }
}

impl Disk {
    /// Checks the volume, without a change of the disk: one that was not unmounted is recovered in
    /// memory first.
    ///
    /// # Errors
    /// [`Error::Mounted`]; [`Error::Device`]: the device fails.
    pub fn check(&self) -> Result<Check> {
        self.checked(false)
    }

    /// Recovers the volume on the disk if it was not unmounted, then checks it. Findings are not
    /// repaired.
    ///
    /// # Errors
    /// As [`check`](Disk::check); [`Error::ReadOnlyDisk`].
    pub fn recover(&self) -> Result<Check> {
        self.checked(true)
    }

    fn checked(&self, write: bool) -> Result<Check> {
        self.check_free(write)?;
        let checked = fsck_device(self.below(), write, FINDINGS_MAX);
        Ok(of(checked.map_err(|e| Error::Device(e.to_string()))?))
    }
}

fn of(checked: Checked) -> Check {
    let report = checked.report;
    let findings = report.findings.into_iter().map(|f| Finding {
        what: f.to_string(),
        advice: f.advice,
    });
    Check {
        kind: match checked.kind {
            Fs::Ext4 => Kind::Ext4,
            Fs::Ext3 => Kind::Ext3,
            Fs::F2fs => Kind::F2fs,
        },
        findings: findings.collect(),
        beyond: report.beyond,
        recovered: checked.recovered,
        refused: checked.refused,
        inodes: report.inodes,
        blocks: report.blocks,
    }
}
