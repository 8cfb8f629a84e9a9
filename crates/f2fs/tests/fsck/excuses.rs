//! Where our checker and fsck.f2fs may disagree, and why. The same list stands in `docs/fsck.md`.

use crate::corpus::Case;
use crate::judge::Judged;
use varve_f2fs::check::Kind;

/// The class of a disagreement; `theirs`: fsck.f2fs found something and we did not, else the other way round.
pub fn excuse(case: &Case, theirs: bool, judged: &Judged, _said: &str) -> Option<&'static str> {
    let name = case.targets[0].name.as_str();
    if !theirs
        && name.starts_with("superblock")
        && judged.only(&[Kind::SuperblockOther, Kind::SuperblockCopy])
    {
        return Some("superblock copies");
    }
    None
}
