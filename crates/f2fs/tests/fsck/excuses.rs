//! Where our checker and fsck.f2fs may disagree, and why. The same list stands in `docs/fsck.md`. In all of them ours is the finding about
//! which fsck.f2fs is silent.

use crate::judge::Judged;
use varve_f2fs::check::Kind;

/// Kinds of which fsck.f2fs 1.15 does not see all.
const CLASSES: [(&str, &[Kind]); 7] = [
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
        "size and levels of a directory, 0 links of a file with a name: fsck.f2fs does not look",
        &[Kind::InodeField, Kind::InodeSize, Kind::LinkCount],
    ),
];

/// The class of a disagreement; `theirs`: fsck.f2fs found something and we did not, else the other way round.
pub fn excuse(theirs: bool, judged: &Judged) -> Option<&'static str> {
    let of_class = |(_, kinds): &&(&str, &[Kind])| !theirs && judged.only(kinds);
    CLASSES.iter().find(of_class).map(|(why, _)| *why)
}
