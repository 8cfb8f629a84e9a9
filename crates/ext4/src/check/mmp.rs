//! Checks the block in which a machine that shares the device with others says that it uses the
//! volume (feature `mmp`).

use super::finding::Kind;
use super::state::State;
use super::volume::Volume;
use base::bytes::{get_le32, get_le64};
use base::checksum::crc32c;
use ondisk::ext4::{FsSeed, Incompat};

/// Where the superblock names the block (`s_mmp_block`).
const PLACE_AT: usize = 0x168;
const MAGIC: u32 = 0x004D_4D50;
/// The sequence number of a volume that no machine uses.
const CLEAN: u32 = 0xFF4D_4D50;
const CHECKSUM_AT: usize = 0x3FC;

/// Takes and checks the block.
pub(super) fn check(volume: &Volume<'_>, state: &mut State<'_>) {
    let sb = &volume.sb;
    if !sb.incompat().has(Incompat::MMP) {
        return;
    }
    let at = get_le64(&sb.bytes()[..], PLACE_AT);
    let bad = |state: &mut State<'_>, what: String| state.found.at_block(at, Kind::Mmp, what);
    if !volume.inside(at, 1) {
        return bad(state, "lies outside the volume".into());
    }
    if state.usage.take(volume, at, 1).is_some() {
        bad(state, "belongs to something else, too".into());
    }
    let Some(block) = volume.reader.block(at, state.found) else {
        return;
    };
    let (magic, sequence) = (get_le32(&block, 0), get_le32(&block, 4));
    if magic != MAGIC {
        return bad(
            state,
            format!("magic number {magic:#x}, should be {MAGIC:#x}"),
        );
    }
    if let Some(FsSeed(seed)) = volume.seed {
        let (stored, computed) = (
            get_le32(&block, CHECKSUM_AT),
            crc32c(seed, &block[..CHECKSUM_AT]),
        );
        if stored != computed {
            bad(
                state,
                format!("checksum {stored:#010x} stored, {computed:#010x} computed"),
            );
        }
    }
    if sequence != CLEAN {
        bad(
            state,
            format!("sequence {sequence:#x}: somebody uses the volume, or has died over it"),
        );
    }
}
