//! Where our checker and fsck.f2fs may disagree, and why. The same list stands in
//! `docs/use/fsck.md`. In all cases but the last our checker has a finding and fsck.f2fs has none.

use super::judge::Judged;
use varve_f2fs::check::Kind;

/// Kinds of which fsck.f2fs 1.15 does not see all.
const CLASSES: [(&str, &[Kind]); 10] = [
    (
        "superblocks: fsck.f2fs takes the other one without a word, and compares nothing",
        &[
            Kind::SuperblockCopy,
            Kind::SuperblockOther,
            Kind::SuperblockDiffers,
        ],
    ),
    (
        "the journal behind the volume: fsck.f2fs does not know it",
        &[Kind::JournalArea, Kind::SuperblockDiffers],
    ),
    (
        "the place that a node notes: fsck.f2fs does not look",
        &[Kind::NodePlace],
    ),
    (
        "numbers of the checkpoint: fsck.f2fs looks at some",
        &[Kind::CheckpointField],
    ),
    (
        "journals in the pack: fsck.f2fs passes over entries that cannot be",
        &[Kind::Journal],
    ),
    ("files that are not understood here", &[Kind::Unsupported]),
    (
        "attributes that pass the end of their place: fsck.f2fs looks at the names only",
        &[Kind::Xattr],
    ),
    (
        "targets of symbolic links: fsck.f2fs does not look",
        &[Kind::Inline],
    ),
    (
        "NAT bits: fsck.f2fs compares those of its own blocks only",
        &[Kind::NatBits],
    ),
    (
        "size and levels of a directory, 0 links of a file with a name: fsck.f2fs does not look",
        &[Kind::InodeField, Kind::InodeSize, Kind::LinkCount],
    ),
];

/// What fsck.f2fs says of quota files begins so, and so does its sum of that.
const QUOTA: [&str; 2] = ["(fsck_chk_quota_files", "other corrupted bugs"];

/// The class of a disagreement; `theirs`: fsck.f2fs found something, `said`, and we did not, else
/// the other way round.
pub fn excuse(theirs: bool, judged: &Judged, said: &str) -> Option<&'static str> {
    if theirs {
        let mut bad = said
            .lines()
            .filter(|l| l.contains("[ASSERT]") || l.contains("[Fail]"));
        let only = bad.all(|line| QUOTA.iter().any(|words| line.contains(words)));
        return only.then_some("what hidden quota files hold: not looked at here");
    }
    // Several fields may be of several classes.
    let all: Vec<Kind> = CLASSES
        .iter()
        .flat_map(|(_, kinds)| kinds.iter().copied())
        .collect();
    let of_class = |(_, kinds): &&(&str, &[Kind])| judged.only(kinds);
    let found = CLASSES.iter().find(of_class).map(|(why, _)| *why);
    found.or_else(|| judged.only(&all).then_some("several of these"))
}
