//! Cases in which Varve's checker and e2fsck may disagree, and why.

use super::corpus::Case;
use varve_ext4::check::{Kind, Report};

/// The class of a disagreement. `theirs` means that only e2fsck found something; else only Varve's
/// checker did.
pub fn excuse(case: &Case, theirs: bool, report: &Report) -> Option<&'static str> {
    let target = case.target.name.as_str();
    let only = |kinds: &[Kind]| report.findings.iter().all(|f| kinds.contains(&f.kind));
    if !theirs
        && (target.starts_with("backup ") || target == "superblock")
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
    if !theirs && target == "reserved inode 8" && only(&[Kind::MapOutside, Kind::Xattr]) {
        return Some("attributes of the journal's inode: Linux refuses them, e2fsck does not look");
    }
    let first = || report.findings.iter().any(|f| f.what.contains("s_first"));
    if !theirs && target == "journal superblock" && only(&[Kind::JournalSuperblock]) && first() {
        return Some(
            "first block of the log: Linux refuses an impossible one, e2fsck does not look",
        );
    }
    let tree = || report.findings.iter().any(|f| f.kind == Kind::ExtentNode);
    if !theirs && target.starts_with("extent block") && tree() {
        return Some(
            "depth of lower extent nodes: Linux refuses a wrong one, e2fsck counts itself",
        );
    }
    if !theirs && target == "superblock" && only(&[Kind::Orphans]) {
        return Some("list of orphans: e2fsck -n does not walk along it");
    }
    if theirs && target.starts_with("deleted inode") && has_odd_extra(case) {
        return Some("deleted inodes with an i_extra_isize that cannot be: nobody reads them");
    }
    None
}

/// True if the inode has more extra bytes than there is room behind its first 128, or so few that
/// they end in the middle of a field.
fn has_odd_extra(case: &Case) -> bool {
    let target = &case.target;
    let raw = &case.changed[&target.block][target.offset..target.offset + target.len];
    if raw.len() <= 130 {
        return false;
    }
    let extra = usize::from(base::bytes::get_le16(raw, 128));
    extra > raw.len() - 128 || !extra.is_multiple_of(4)
}
