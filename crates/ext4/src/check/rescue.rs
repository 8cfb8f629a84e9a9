//! Finds a backup of the superblock where the primary one cannot be used.

use super::groups;
use crate::mkfs::common_shapes;
use crate::superblock::is_older;
use base::bytes::{get_le16, get_le32};
use fscore::check::Reader;
use ondisk::ext4::{GroupDesc, SUPERBLOCK_BYTES, SUPERBLOCK_MAGIC, Superblock};

/// Block sizes, as shifts of 1 KiB.
const LOG_SIZES: std::ops::RangeInclusive<u32> = 0..=6;
/// Groups that always have a backup, whatever the features say of the others.
const GROUPS: [u64; 6] = [1, 3, 5, 7, 9, 25];
/// The block size and group size in the damaged superblock are tried as well, because groups may be
/// smaller than a bitmap allows.
const LOG_BLOCK_SIZE_AT: usize = 0x18;
const BLOCKS_PER_GROUP_AT: usize = 0x20;
const MAGIC_AT: usize = 0x38;

/// A backup, and where it lies.
pub(super) struct Backup {
    pub sb: Superblock,
    pub block: u64,
}

/// True if the bytes say that they are a superblock.
pub(super) fn has_magic(raw: &[u8]) -> bool {
    get_le16(raw, MAGIC_AT) == SUPERBLOCK_MAGIC
}

/// The first usable backup of a volume whose primary superblock, `raw`, is damaged.
pub(super) fn backup(reader: &Reader<'_>, raw: &[u8]) -> Option<Backup> {
    let own = (
        get_le32(raw, LOG_BLOCK_SIZE_AT),
        u64::from(get_le32(raw, BLOCKS_PER_GROUP_AT)),
    );
    let mut shapes: Vec<(u32, u64)> = common().collect();
    if LOG_SIZES.contains(&own.0) && (8..=8192 << own.0).contains(&own.1) {
        shapes.insert(0, own);
    }
    let torn = Superblock::parse_torn(raw).ok();
    let sectors = 2 * reader.in_blocks_of(1024).blocks();
    let older = |sb: &Superblock| torn.as_ref().is_some_and(|t| is_older(sb, t, sectors));
    for (log, per_group) in shapes {
        for at in in_groups(log, per_group) {
            let found = usable(reader, log, at, has_magic(raw));
            if let Some(sb) = found.filter(|sb| !older(sb)) {
                return Some(Backup { sb, block: at });
            }
        }
    }
    None
}

/// Block size, as a shift of 1 KiB, and size of the groups, as they are commonly.
fn common() -> impl Iterator<Item = (u32, u64)> {
    common_shapes().map(|(size, group)| ((size.bytes() / 1024).ilog2(), group.into()))
}

/// The blocks in which a backup may lie.
fn in_groups(log: u32, per_group: u64) -> impl Iterator<Item = u64> {
    GROUPS
        .map(|group| group * per_group + u64::from(log == 0))
        .into_iter()
}

/// The byte offsets at which backups of volumes of all block sizes are looked for.
pub(crate) fn backup_places() -> impl Iterator<Item = u64> {
    common().flat_map(|(log, per_group)| in_groups(log, per_group).map(move |n| n << (10 + log)))
}

/// The superblock at the start of block `at`, if it is the backup of a group that begins there and
/// group descriptors match it: those behind the primary superblock, or, if that one at least has
/// its magic number, those behind the backup. On a device that another file system has taken over,
/// none match.
fn usable(reader: &Reader<'_>, log: u32, at: u64, magic: bool) -> Option<Superblock> {
    let reader = reader.in_blocks_of(1024 << log);
    let block = reader.try_block(at).ok()?;
    let mut sb = Superblock::parse(&block[..SUPERBLOCK_BYTES]).ok()?;
    let (group, bit) = sb.block_place(base::BlockNo(at))?;
    let there = sb.log_block_size() == log && bit == 0 && group > 0;
    if !there || sb.blocks_count() > reader.blocks() {
        return None;
    }
    let primary = sb.desc_place(0).0.0;
    let fits = fits(&reader, &sb, primary) || (magic && fits(&reader, &sb, at + 1));
    if !fits {
        return None;
    }
    sb.set_group_of_copy(0);
    Some(sb)
}

/// True if block `at` begins with the descriptor of group 0.
fn fits(reader: &Reader<'_>, sb: &Superblock, at: u64) -> bool {
    let Ok(block) = reader.try_block(at) else {
        return false;
    };
    GroupDesc::parse(&block, sb.desc_bytes()).is_ok_and(|desc| {
        desc.verify_checksum(sb, 0).is_ok() && groups::misplaced_field(sb, 0, &desc).is_none()
    })
}
