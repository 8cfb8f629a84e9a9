//! The findings of a check, in one form for every kind of file system.

use super::{ext, f2fs};
use std::fmt;

/// One finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Number of its kind, which never changes.
    pub number: u16,
    /// Name of its kind.
    pub name: &'static str,
    /// What to do about it.
    pub advice: &'static str,
    /// Block group of ext4, segment of F2FS.
    pub area: Option<u32>,
    /// The inode that it concerns.
    pub ino: Option<u32>,
    /// The block of the device in which it lies.
    pub block: Option<u64>,
    /// The facts.
    pub what: String,
    /// Nothing is lost, and the next mount or checkpoint repairs it.
    pub is_notice: bool,
    /// It cannot be repaired.
    pub is_beyond_repair: bool,
    /// A mount for writing puts it right, so that it is not there after a recovery.
    kept: bool,
    /// All of it as a line.
    text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The findings, in the order in which they were met.
    pub findings: Vec<Finding>,
    /// Findings beyond the limit.
    pub beyond: u64,
    /// The next mount has something to recover.
    pub needs_recovery: bool,
    /// A superblock was torn or damaged.
    pub torn_superblock: bool,
    /// No file system of the kind, or one that cannot be judged.
    pub cannot_judge: bool,
    /// Inodes in use.
    pub inodes: u64,
    /// Directories among them.
    pub directories: u64,
    /// Blocks in use.
    pub blocks: u64,
}

impl Report {
    /// True if there is no finding but notices.
    pub fn is_clean(&self) -> bool {
        self.beyond == 0 && self.findings.iter().all(|f| f.is_notice)
    }
}

impl Report {
    /// Takes over what recovery in memory has put right: on the volume it is still so.
    pub(super) fn keep_from(&mut self, before: Report) {
        let kept = before.findings.into_iter().filter(|f| f.kept);
        self.findings.splice(0..0, kept);
    }
}

impl Finding {
    /// What a check did not see and a mount does not accept.
    pub(super) fn refused(why: String) -> Finding {
        Finding::from(&f2fs::Finding::new(f2fs::Kind::Refused, why))
    }
}

impl From<ext::Report> for Report {
    fn from(report: ext::Report) -> Report {
        use ext::Kind;
        let beyond_us = |f: &ext::Finding| matches!(f.kind, Kind::Unsupported | Kind::Unreadable);
        Report {
            torn_superblock: report.findings.iter().any(|f| f.kind == Kind::Superblock),
            cannot_judge: !report.judged || report.findings.first().is_some_and(beyond_us),
            findings: report.findings.iter().map(Finding::from).collect(),
            beyond: report.beyond,
            needs_recovery: report.needs_recovery,
            inodes: report.inodes,
            directories: report.directories,
            blocks: report.blocks,
        }
    }
}

impl From<&ext::Finding> for Finding {
    fn from(f: &ext::Finding) -> Finding {
        Finding {
            number: f.kind.number(),
            name: f.kind.name(),
            advice: f.kind.advice(),
            area: f.group.map(|group| group as u32),
            ino: f.ino.map(|ino| ino.0),
            block: f.block.map(|block| block.0),
            what: f.what.clone(),
            is_notice: false,
            is_beyond_repair: false,
            kept: f.kind == ext::Kind::Superblock,
            text: f.to_string(),
        }
    }
}

impl From<f2fs::Report> for Report {
    fn from(report: f2fs::Report) -> Report {
        use f2fs::Kind;
        let beyond_us = |f: &f2fs::Finding| {
            let kinds = [
                Kind::Superblock,
                Kind::Checkpoint,
                Kind::Unsupported,
                Kind::Unreadable,
            ];
            kinds.contains(&f.kind)
        };
        let torn = |f: &f2fs::Finding| f.kind == Kind::SuperblockCopy;
        Report {
            torn_superblock: report.findings.iter().any(torn),
            cannot_judge: report.findings.first().is_some_and(beyond_us),
            findings: report.findings.iter().map(Finding::from).collect(),
            beyond: report.beyond,
            needs_recovery: report.needs_recovery,
            inodes: report.inodes,
            directories: report.directories,
            blocks: report.blocks,
        }
    }
}

impl From<&f2fs::Finding> for Finding {
    fn from(f: &f2fs::Finding) -> Finding {
        Finding {
            number: f.kind.number(),
            name: f.kind.name(),
            advice: f.kind.advice(),
            area: f.segment.map(|segment| segment as u32),
            ino: f.ino.map(|ino| ino.0),
            block: f.block.map(|block| block.0),
            what: f.what.clone(),
            is_notice: f.kind.severity() == f2fs::Severity::Notice,
            is_beyond_repair: matches!(
                f.kind,
                f2fs::Kind::Superblock | f2fs::Kind::Checkpoint | f2fs::Kind::CheckpointField
            ),
            kept: matches!(
                f.kind,
                f2fs::Kind::SuperblockCopy | f2fs::Kind::NotUnmounted
            ),
            text: f.to_string(),
        }
    }
}
