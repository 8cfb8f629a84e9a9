//! Where our checker and e2fsck may disagree, and why.

use crate::corpus::Case;
use varve_ext4::check::{Kind, Report};

/// The class of a disagreement; `theirs`: e2fsck found something and we did not, else the other way round.
pub fn excuse(case: &Case, theirs: bool, report: &Report) -> Option<&'static str> {
    let target = case.target.name.as_str();
    let only = |kinds: &[Kind]| report.findings.iter().all(|f| kinds.contains(&f.kind));
    if !theirs
        && target.starts_with("backup ")
        && only(&[Kind::BackupSuperblock, Kind::BackupDescriptor])
    {
        return Some("backups: e2fsck reads them only when the primary is of no use");
    }
    if !theirs && target.starts_with("pointer block of 7") && only(&[Kind::ResizeInode]) {
        return Some("lists of the resize inode: e2fsck looks at some of the words");
    }
    if !theirs && target.ends_with("inode 1") && only(&[Kind::SharedBlock]) {
        return Some("list of bad blocks: e2fsck says nothing of metadata on it");
    }
    None
}
