//! Checks the superblock and its backups.

use super::finding::{Finding, Findings, Kind};
use super::quota;
use super::rescue::{self, Backup};
use super::volume::Volume;
use super::{Options, Report};
use crate::mount::{INCOMPAT_SUPPORTED, REVISION_MAX, RO_COMPAT_SUPPORTED};
use crate::superblock;
use fscore::check::Reader;
use ondisk::Corrupt;
use ondisk::ext4::{
    Compat, GroupDesc, INODE_BYTES_OLD, Incompat, RoCompat, SUPERBLOCK_AT, SUPERBLOCK_BYTES, State,
    Superblock,
};
use std::ops::Range;

/// Features that are checked: those that can be mounted, and some that can only be read.
const INCOMPAT_CHECKED: Incompat =
    Incompat(INCOMPAT_SUPPORTED.0 | Incompat::EA_INODE.0 | Incompat::MMP.0);
/// Features that a reader need not know.
const RO_COMPAT_CHECKED: RoCompat = RoCompat(
    RO_COMPAT_SUPPORTED.0
        | RoCompat::QUOTA.0
        | RoCompat::BIGALLOC.0
        | RoCompat::READONLY.0
        | RoCompat::SHARED_BLOCKS.0
        | RoCompat::VERITY.0,
);

/// Reads and checks the primary superblock, and uses a backup if the primary one is damaged; `None`
/// if the volume cannot be judged.
pub(super) fn load(
    reader: &Reader<'_>,
    options: &Options,
    found: &mut Findings,
    report: &mut Report,
) -> Option<Superblock> {
    report.judged = false;
    let block = reader.block(0u32, found)?;
    let raw = &block[SUPERBLOCK_AT as usize..][..SUPERBLOCK_BYTES];
    let sb = match Superblock::parse(raw) {
        Ok(sb) => sb,
        Err(e) => {
            // A torn write of the superblock leaves its magic number.
            report.needs_recovery = e.is_checksum();
            stand_in(reader, raw, &e, found)?
        }
    };
    if let Some(what) = unsupported(&sb) {
        found.at_block(0u32, Kind::Unsupported, what);
        return None;
    }
    report.judged = true;
    report.needs_recovery |= sb.incompat().has(Incompat::RECOVER);
    let block_bytes = sb.block_bytes();
    let device_blocks = reader.in_blocks_of(block_bytes as usize).blocks();
    if sb.blocks_count() > device_blocks {
        let what = format!(
            "{} blocks of {block_bytes} bytes on a device of {device_blocks}",
            sb.blocks_count()
        );
        found.at_block(0u32, Kind::CutOff, what);
        return None;
    }
    let clusters = sb.ro_compat().has(RoCompat::BIGALLOC);
    if sb.first_data_block() != u32::from(block_bytes == 1024 && !clusters)
        || !sb.inodes_per_group().is_multiple_of(8)
    {
        let what = format!(
            "s_first_data_block = {}, s_inodes_per_group = {}",
            sb.first_data_block(),
            sb.inodes_per_group()
        );
        found.at_block(0u32, Kind::Superblock, what);
        return None;
    }
    let mut bad = |what: String| found.at_block(0u32, Kind::SuperblockField, what);
    check_fields(&sb, options, &mut bad);
    Some(sb)
}

/// The superblock to use instead of a damaged primary one: a backup, or the primary one itself if
/// only its checksum is wrong.
fn stand_in(
    reader: &Reader<'_>,
    raw: &[u8],
    damage: &Corrupt,
    found: &mut Findings,
) -> Option<Superblock> {
    let mut bad = |kind, what: String| found.at_block(0u32, kind, what);
    if let Some(Backup { mut sb, block }) = rescue::backup(reader, raw) {
        let bytes = sb.block_bytes();
        let what = format!(
            "{damage}; the backup in block {block} (of {bytes} bytes) can be used, and the rest is judged by it"
        );
        bad(Kind::Superblock, what);
        // The totals in a backup are those of the time when it was written.
        sb.set_state(sb.state().without(State::VALID));
        return Some(sb);
    }
    if !rescue::has_magic(raw) {
        bad(Kind::NoFileSystem, damage.to_string());
        return None;
    }
    if damage.is_checksum()
        && let Ok(sb) = Superblock::parse_torn(raw)
    {
        let what = format!("{damage}; no backup is left, and the rest is judged by what it says");
        bad(Kind::Superblock, what);
        return Some(sb);
    }
    bad(Kind::Superblock, format!("{damage}; no backup is left"));
    None
}

/// The first thing that the volume uses and the checker does not know, if any.
fn unsupported(sb: &Superblock) -> Option<String> {
    if sb.revision() > REVISION_MAX {
        return Some(format!("revision {}", sb.revision()));
    }
    let unknown = sb.incompat().without(INCOMPAT_CHECKED);
    if !unknown.is_empty() {
        return Some(format!("feature {unknown}"));
    }
    let unknown = sb.ro_compat().without(RO_COMPAT_CHECKED);
    if !unknown.is_empty() {
        return Some(format!("feature {unknown}"));
    }
    let folding = superblock::folding(sb);
    folding.err().map(|e| e.to_string())
}

/// Finds fields that contradict each other.
fn check_fields(sb: &Superblock, options: &Options, bad: &mut dyn FnMut(String)) {
    let journal = sb.compat().has(Compat::HAS_JOURNAL);
    if sb.incompat().has(Incompat::RECOVER) && !journal {
        bad("needs_recovery without a journal".into());
    }
    if journal && sb.journal_ino().0 != 0 && sb.journal_uuid() != [0; 16] {
        bad("an external journal is named (s_journal_uuid), and an inode for one".into());
    }
    if !sb.ro_compat().has(RoCompat::BIGALLOC) && sb.log_cluster_size() != sb.log_block_size() {
        bad(format!(
            "s_log_cluster_size = {} without feature bigalloc",
            sb.log_cluster_size()
        ));
    }
    quota::check_fields(sb, bad);
    let first = sb.first_ino().0;
    if first < 11 || first > sb.inodes_count() {
        bad(format!(
            "s_first_ino = {first} of {} inodes",
            sb.inodes_count()
        ));
    }
    if sb.reserved_blocks() > sb.blocks_count() / 2 {
        bad(format!(
            "{} of {} blocks are reserved",
            sb.reserved_blocks(),
            sb.blocks_count()
        ));
    }
    if !options.in_use
        && (sb.free_blocks() > sb.blocks_count() || sb.free_inodes() > sb.inodes_count())
    {
        bad(format!(
            "{} free blocks, {} free inodes in {} groups",
            sb.free_blocks(),
            sb.free_inodes(),
            sb.groups_count()
        ));
    }
    check_extra_bytes(sb, bad);
    if sb.incompat().has(Incompat::META_BG) && sb.first_meta_group() > sb.desc_blocks() {
        bad(format!(
            "s_first_meta_bg = {} of {} blocks of descriptors",
            sb.first_meta_group(),
            sb.desc_blocks()
        ));
    }
    let both = RoCompat::GDT_CSUM | RoCompat::METADATA_CSUM;
    if sb.ro_compat().has(both) {
        bad("uninit_bg and metadata_csum exclude each other".into());
    }
}

/// Checks the sizes of inodes' extra fields: the least size, and that of new inodes.
fn check_extra_bytes(sb: &Superblock, bad: &mut dyn FnMut(String)) {
    let room = sb.inode_bytes() - INODE_BYTES_OLD;
    let fields = [
        ("s_min_extra_isize", usize::from(sb.min_extra_isize())),
        ("s_want_extra_isize", usize::from(sb.want_extra_isize())),
    ];
    for (field, bytes) in fields {
        let possible = bytes.is_multiple_of(4) && bytes <= room;
        if room > 0 && !possible {
            bad(format!(
                "{field} = {bytes} in inodes of {} bytes",
                sb.inode_bytes()
            ));
        }
    }
}

/// Checks the backups of superblock and group descriptors. A mounted system may change counts and
/// flags without changing the backups, but never geometry, UUID and places.
pub(super) fn check_backups(volume: &Volume<'_>, found: &mut Findings) {
    let sb = &volume.sb;
    for group in 1..sb.groups_count() {
        if !sb.has_superblock(group) {
            continue;
        }
        let at = sb.group_first_block(group).0;
        let Some(block) = volume.reader.block(at, found) else {
            continue;
        };
        if let Some(what) = backup_difference(sb, &block, group) {
            found.add(
                Finding::new(Kind::BackupSuperblock, what)
                    .group(group)
                    .block(at),
            );
        }
        let old_style = old_style_descs(sb);
        check_backup_descs(volume, group, (at + 1, 0..old_style), found);
    }
    check_meta_backups(volume, found);
}

/// Blocks of descriptors behind the superblock and its backups: all of them, or with `meta_bg`
/// those of the groups before the first meta group.
fn old_style_descs(sb: &Superblock) -> u32 {
    match sb.incompat().has(Incompat::META_BG) {
        true => sb.first_meta_group().min(sb.desc_blocks()),
        false => sb.desc_blocks(),
    }
}

/// Checks the copies of descriptors in meta groups: a meta group has its block of descriptors in
/// its first group, and copies in its second and last one.
fn check_meta_backups(volume: &Volume<'_>, found: &mut Findings) {
    let sb = &volume.sb;
    let (each, groups) = (sb.descs_per_block(), sb.groups_count());
    for meta in old_style_descs(sb)..sb.desc_blocks() {
        let first = meta * each;
        for group in [first + 1, first + each - 1] {
            if group >= groups || group == first {
                continue;
            }
            let at = sb.group_first_block(group).0 + u64::from(sb.has_superblock(group));
            check_backup_descs(volume, group, (at, meta..meta + 1), found);
        }
    }
}

fn backup_difference(sb: &Superblock, block: &[u8], group: u32) -> Option<String> {
    let backup = match Superblock::parse(block) {
        Ok(backup) => backup,
        Err(e) => return Some(e.to_string()),
    };
    let facts = |sb: &Superblock| {
        [
            ("s_blocks_count", sb.blocks_count()),
            ("s_inodes_count", sb.inodes_count().into()),
            ("s_blocks_per_group", sb.blocks_per_group().into()),
            ("s_inodes_per_group", sb.inodes_per_group().into()),
            ("s_inode_size", sb.inode_bytes() as u64),
            ("s_desc_size", sb.desc_bytes() as u64),
            ("s_log_block_size", sb.log_block_size().into()),
            ("s_first_ino", sb.first_ino().0.into()),
        ]
    };
    for ((field, ours), (_, theirs)) in facts(sb).into_iter().zip(facts(&backup)) {
        if ours != theirs {
            return Some(format!("{field} = {theirs}, of the primary {ours}"));
        }
    }
    if sb.uuid() != backup.uuid() {
        return Some("another UUID than the primary's".into());
    }
    let nr = backup.group_of_copy();
    (u32::from(nr) != group & 0xFFFF).then(|| format!("s_block_group_nr = {nr}"))
}

/// Compares copies in `group`, of these blocks of descriptors, that lie at `first` and behind.
fn check_backup_descs(
    volume: &Volume<'_>,
    group: u32,
    (first, blocks): (u64, Range<u32>),
    found: &mut Findings,
) {
    let sb = &volume.sb;
    for (at, nr) in (first..).zip(blocks) {
        let Some(block) = volume.reader.block(at, found) else {
            return;
        };
        let from = nr * sb.descs_per_block();
        let to = sb.groups_count().min(from + sb.descs_per_block());
        for described in from..to {
            let offset = (described - from) as usize * sb.desc_bytes();
            if let Some(what) = desc_difference(volume, described, &block[offset..]) {
                found.add(
                    Finding::new(Kind::BackupDescriptor, what)
                        .group(group)
                        .block(at),
                );
                return;
            }
        }
    }
}

fn desc_difference(volume: &Volume<'_>, described: u32, bytes: &[u8]) -> Option<String> {
    let sb = &volume.sb;
    let copy = match GroupDesc::parse(bytes, sb.desc_bytes()) {
        Ok(copy) => copy,
        Err(e) => return Some(e.to_string()),
    };
    if let Err(e) = copy.verify_checksum(sb, described) {
        return Some(e.to_string());
    }
    let places = |desc: &GroupDesc| (desc.block_bitmap(), desc.inode_bitmap(), desc.inode_table());
    (places(&copy) != places(&volume.descs[described as usize]))
        .then(|| format!("other places for group {described} than in the primary"))
}
