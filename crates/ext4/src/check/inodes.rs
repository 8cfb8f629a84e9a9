//! The inode tables.

use super::finding::{Finding, Kind};
use super::mapping::{self, Mapping};
use super::orphans::OrphanFile;
use super::state::{Dir, File, State};
use super::volume::Volume;
use super::{inline, resize, symlink, xattrs};
use base::Ino;
use base::bytes::{get_le16, get_le32, is_zero};
use ondisk::ext4::{
    Compat, FileType, GroupFlags, Incompat, Inode, InodeFlags, RESIZE_INO, ROOT_INO, RoCompat,
    Superblock,
};

/// The inode of bad blocks: a block map and nothing else.
const BAD_BLOCKS_INO: u32 = 1;
/// Those of quotas in older volumes.
const QUOTA_INOS: [u32; 2] = [3, 4];
/// The boot loader's: may hold a file.
const BOOT_LOADER_INO: u32 = 5;

/// Reads all inodes that were ever used.
pub(super) fn scan(volume: &Volume<'_>, state: &mut State<'_>) {
    let sb = &volume.sb;
    for group in 0..sb.groups_count() {
        let per_group = sb.inodes_per_group();
        let unused = volume.unused_inodes(group);
        if volume.flags(group).has(GroupFlags::INODE_UNINIT) || unused >= per_group {
            continue;
        }
        scan_table(volume, state, group, per_group - unused);
    }
}

fn scan_table(volume: &Volume<'_>, state: &mut State<'_>, group: u32, count: u32) {
    let sb = &volume.sb;
    let bytes = sb.inode_bytes();
    let per_block = (volume.block_bytes() / bytes) as u32;
    let table = volume.descs[group as usize].inode_table().0;
    for n in 0..count.div_ceil(per_block) {
        let at = table + u64::from(n);
        let Some(block) = volume.reader.block(at, state.found) else {
            continue;
        };
        let first = n * per_block;
        for index in first..count.min(first + per_block) {
            let ino = group * sb.inodes_per_group() + index + 1;
            let from = (index - first) as usize * bytes;
            let raw = &block[from..from + bytes];
            if !is_zero(raw) {
                check_raw(volume, state, ino, at, raw);
            }
        }
    }
}

/// One inode.
pub(super) fn check_one(volume: &Volume<'_>, state: &mut State<'_>, ino: Ino) {
    let sb = &volume.sb;
    let Some(place) = sb.inode_place(ino) else {
        return state.at_inode(ino.0, Kind::InodeField, "there is no such inode");
    };
    let bytes = sb.inode_bytes();
    let per_block = (volume.block_bytes() / bytes) as u32;
    let table = volume.descs[place.group as usize].inode_table().0;
    let at = table + u64::from(place.index / per_block);
    if let Some(block) = volume.reader.block(at, state.found) {
        let from = (place.index % per_block) as usize * bytes;
        check_raw(volume, state, ino.0, at, &block[from..from + bytes]);
    }
}

fn check_raw(volume: &Volume<'_>, state: &mut State<'_>, ino: u32, block: u64, raw: &[u8]) {
    let inode = match Inode::parse(raw, raw.len()) {
        Ok(inode) => inode,
        Err(e) => {
            // Only the size of the extra fields is wrong; the rest of the inode still owns its blocks.
            if get_le16(raw, 0x1A) != 0 {
                state.at_block(ino, block, Kind::InodeField, e.to_string());
            }
            let mut whole = raw.to_vec();
            base::bytes::put_le16(&mut whole, 0x80, 0);
            let Ok(inode) = Inode::parse(&whole, whole.len()) else {
                return;
            };
            return check_inode(volume, state, ino, &inode);
        }
    };
    if let Some(seed) = volume.seed
        && let Err(e) = inode.verify_checksum(seed, Ino(ino))
    {
        state.at_block(ino, block, Kind::InodeChecksum, e.to_string());
    }
    check_inode(volume, state, ino, &inode);
}

fn check_inode(volume: &Volume<'_>, state: &mut State<'_>, ino: u32, inode: &Inode) {
    let sb = &volume.sb;
    if ino == RESIZE_INO.0 {
        if inode.links() != 0 {
            check_flags(volume, state, ino, inode);
        }
        return resize::check(volume, state, inode);
    }
    let journal = is_journal(sb, ino);
    if ino < sb.first_ino().0 && ino != ROOT_INO.0 && !journal {
        return check_reserved(volume, state, ino, inode);
    }
    let orphan = state.orphans.contains(&ino);
    if inode.links() == 0 && !orphan {
        if inode.mode() != 0 && inode.deletion_time() == 0 {
            state.at_inode(
                ino,
                Kind::InodeDeletion,
                "deleted, without a time of deletion",
            );
        }
        return;
    }
    if journal {
        check_deletion_time(volume, state, ino, inode);
    } else if inode.deletion_time() != 0 && !orphan {
        let what = format!(
            "{} links and a time of deletion ({})",
            inode.links(),
            inode.deletion_time()
        );
        state.at_inode(ino, Kind::InodeDeletion, what);
    }
    let orphan_file = sb.compat().has(Compat::ORPHAN_FILE) && ino == sb.orphan_file_ino().0;
    state.files.insert(
        ino,
        File {
            kind: FileType::of_mode(inode.mode()),
            links: inode.links(),
            names: 0,
            nameless: journal || orphan_file || (orphan && inode.links() == 0),
            parent: None,
            dotdot: None,
        },
    );
    check_flags(volume, state, ino, inode);
    let keep = inode.is_dir() || journal || orphan_file || inode.is_symlink();
    let mapping = check_content(volume, state, ino, inode, keep);
    if journal {
        state.journal = inode.is_regular().then(|| (inode.size(), mapping.runs));
    } else if orphan_file {
        state.orphan_file = inode.is_regular().then(|| OrphanFile {
            generation: inode.generation(),
            size: inode.size(),
            runs: mapping.runs,
        });
    } else if inode.is_dir() {
        state.dirs.push(Dir {
            ino,
            generation: inode.generation(),
            flags: inode.flags(),
            runs: mapping.runs,
            inline: mapping.inline,
        });
    }
}

/// A number below that of the inodes is a link in a list of orphans, unless the clock was that early.
fn check_deletion_time(volume: &Volume<'_>, state: &mut State<'_>, ino: u32, inode: &Inode) {
    let (sb, time) = (&volume.sb, inode.deletion_time());
    let inodes = u64::from(sb.inodes_count());
    let late = |secs: u64| secs >= inodes;
    let clock = late(sb.write_time()) && late(sb.mount_time().max(sb.mkfs_time()));
    if time != 0 && !late(time.into()) && clock {
        let what = format!("deleted, and part of a list of orphans (next is {time})");
        state.at_inode(ino, Kind::InodeDeletion, what);
    }
}

/// Reserved inodes hold nothing; those of bad blocks and of the boot loader may own blocks.
fn check_reserved(volume: &Volume<'_>, state: &mut State<'_>, ino: u32, inode: &Inode) {
    if ino == BAD_BLOCKS_INO {
        return check_bad_blocks(volume, state, inode);
    }
    if inode.links() == 0 {
        check_deletion_time(volume, state, ino, inode);
    }
    if QUOTA_INOS.contains(&ino) {
        return check_no_quota(state, ino, inode);
    }
    let free = ino == BOOT_LOADER_INO && !inode.is_dir();
    if inode.mode() != 0 && !free {
        let what = format!("reserved, with mode {:#o}", inode.mode());
        state.at_inode(ino, Kind::InodeMode, what);
    }
    if free && inode.links() != 0 {
        mapping::map(volume, state, ino, inode, false);
        return;
    }
    check_flags(volume, state, ino, inode);
    check_regular_size(volume, state, ino, inode, 0);
    check_sectors(volume, state, ino, inode, 0);
}

fn check_bad_blocks(volume: &Volume<'_>, state: &mut State<'_>, inode: &Inode) {
    check_deletion_time(volume, state, BAD_BLOCKS_INO, inode);
    let owned = inode.uid() != 0 || inode.gid() != 0 || get_le32(inode.bytes(), 0x68) != 0;
    if inode.mode() != 0 || inode.links() != 0 || owned {
        let what = "the list of bad blocks has mode, links, owner or attributes";
        state.at_inode(BAD_BLOCKS_INO, Kind::InodeMode, what);
    }
    mapping::map(volume, state, BAD_BLOCKS_INO, inode, false);
}

/// Volumes with feature quota are not checked. Of the count of sectors the lower half counts, as for e2fsck.
fn check_no_quota(state: &mut State<'_>, ino: u32, inode: &Inode) {
    let in_use = inode.links() != 0
        || get_le32(inode.bytes(), 0x1C) != 0
        || get_le32(inode.block_area(), 0) != 0;
    if in_use {
        let what = "in use without feature quota";
        state.at_inode(ino, Kind::InodeField, what);
    }
}

fn is_journal(sb: &Superblock, ino: u32) -> bool {
    sb.compat().has(Compat::HAS_JOURNAL) && ino == sb.journal_ino().0
}

fn check_flags(volume: &Volume<'_>, state: &mut State<'_>, ino: u32, inode: &Inode) {
    let (sb, flags) = (&volume.sb, inode.flags());
    let mut bad = |what: &str| state.at_inode(ino, Kind::InodeField, what);
    // e2fsck does not look at these of reserved inodes, and nobody reads them.
    let system = (ino < sb.first_ino().0 && ino != ROOT_INO.0) || is_journal(sb, ino);
    let fragment = get_le32(inode.bytes(), 0x70);
    if fragment != 0 && !system {
        bad(&format!("i_faddr = {fragment}; there are no fragments"));
    }
    let huge = sb.ro_compat().has(RoCompat::HUGE_FILE);
    if !huge && get_le16(inode.bytes(), 0x74) != 0 && !system {
        bad("i_blocks_hi without feature huge_file");
    }
    if flags.has(InodeFlags::EXTENTS) && !sb.incompat().has(Incompat::EXTENTS) {
        bad("extents without feature extent");
    }
    if flags.has(InodeFlags::INDEX) && !(inode.is_dir() && sb.compat().has(Compat::DIR_INDEX)) {
        bad("flag of a hash index on something that has none");
    }
    for (flag, feature, known) in [
        (
            InodeFlags::INLINE_DATA,
            "inline_data",
            Incompat::INLINE_DATA,
        ),
        (InodeFlags::ENCRYPT, "encrypt", Incompat::ENCRYPT),
        (InodeFlags::EA_INODE, "ea_inode", Incompat::NONE),
        (InodeFlags::CASEFOLD, "casefold", Incompat::CASEFOLD),
        (InodeFlags::VERITY, "verity", Incompat::NONE),
    ] {
        let has = !known.is_empty() && sb.incompat().has(known);
        if flags.has(flag) && !has {
            bad(&format!("flag {flag} without feature {feature}"));
        }
    }
    if flags.has(InodeFlags::CASEFOLD) && !inode.is_dir() {
        bad("flag casefold on something that is no directory");
    }
    if sb.inode_bytes() > 128 && inode.extra_bytes() > 0 && inode.extra_bytes() < 4 {
        bad(&format!("i_extra_isize = {}", inode.extra_bytes()));
    }
}

/// Mapping, attributes, size and count of sectors.
fn check_content(
    volume: &Volume<'_>,
    state: &mut State<'_>,
    ino: u32,
    inode: &Inode,
    keep: bool,
) -> Mapping {
    let attributes = xattrs::check(volume, state, ino, inode);
    let mapping = match FileType::of_mode(inode.mode()) {
        _ if is_inline(volume, inode) => {
            let inline = inline::check(state, ino, inode);
            check_sectors(volume, state, ino, inode, attributes.into());
            return Mapping {
                inline,
                ..Mapping::default()
            };
        }
        FileType::Regular | FileType::Directory => mapping::map(volume, state, ino, inode, keep),
        FileType::Symlink if symlink::is_fast(volume, inode, attributes) => Mapping::default(),
        FileType::Symlink => mapping::map(volume, state, ino, inode, keep),
        FileType::Unknown => {
            let what = format!("mode {:#o} is of no type", inode.mode());
            state.at_inode(ino, Kind::InodeMode, what);
            return Mapping {
                broken: true,
                ..Mapping::default()
            };
        }
        _ => {
            if inode.flags().has(InodeFlags::EXTENTS) || inode.flags().has(InodeFlags::INDEX) {
                state.at_inode(
                    ino,
                    Kind::InodeField,
                    "a device, pipe or socket with flags of a file",
                );
            }
            Mapping::default()
        }
    };
    check_size(volume, state, ino, inode, &mapping);
    // An encrypted target is any bytes behind their length.
    if inode.is_symlink() && !inode.flags().has(InodeFlags::ENCRYPT) {
        symlink::check(volume, state, ino, inode, &mapping, attributes);
    }
    if !mapping.broken {
        let blocks = mapping.blocks + u64::from(attributes);
        check_sectors(volume, state, ino, inode, blocks);
    }
    mapping
}

fn check_size(
    volume: &Volume<'_>,
    state: &mut State<'_>,
    ino: u32,
    inode: &Inode,
    mapping: &Mapping,
) {
    let size = inode.size();
    let block = volume.block_bytes() as u64;
    let what = match FileType::of_mode(inode.mode()) {
        FileType::Directory if !mapping.broken && size != mapping.end * block => {
            format!("{size} bytes in a directory of {} blocks", mapping.end)
        }
        FileType::Regular => {
            let written_end = match mapping.broken {
                true => 0,
                false => mapping.written_end,
            };
            return check_regular_size(volume, state, ino, inode, written_end);
        }
        FileType::CharDevice | FileType::BlockDevice | FileType::Fifo | FileType::Socket
            if size != 0 =>
        {
            format!("{size} bytes in a device, pipe or socket")
        }
        _ => return,
    };
    state.at_inode(ino, Kind::InodeSize, what);
}

/// `written_end`: one past the last block that was written.
pub(super) fn check_regular_size(
    volume: &Volume<'_>,
    state: &mut State<'_>,
    ino: u32,
    inode: &Inode,
    written_end: u64,
) {
    let (size, block) = (inode.size(), volume.block_bytes() as u64);
    let what = if written_end * block > size.saturating_add(block) {
        format!("{size} bytes, and data up to block {written_end}")
    } else if size > block * most_blocks(volume, inode) {
        format!("{size} bytes are more than can be mapped")
    } else {
        return;
    };
    state.at_inode(ino, Kind::InodeSize, what);
}

/// Blocks that the mapping of a file can reach.
fn most_blocks(volume: &Volume<'_>, inode: &Inode) -> u64 {
    if inode.flags().has(InodeFlags::EXTENTS) {
        return 1 << 32;
    }
    let pointers = volume.pointers();
    12 + pointers + pointers.pow(2) + pointers.pow(3)
}

/// True if the content lies in the inode.
fn is_inline(volume: &Volume<'_>, inode: &Inode) -> bool {
    let feature = volume.sb.incompat().has(Incompat::INLINE_DATA);
    feature && inode.flags().has(InodeFlags::INLINE_DATA)
}

/// Compares the count of sectors with the blocks that were met.
pub(super) fn check_sectors(
    volume: &Volume<'_>,
    state: &mut State<'_>,
    ino: u32,
    inode: &Inode,
    blocks: u64,
) {
    let huge = volume.sb.ro_compat().has(RoCompat::HUGE_FILE);
    let sectors = inode.sectors(huge, volume.sb.block_bytes());
    let expected = volume.sectors(blocks);
    if sectors != expected {
        let what = format!("{sectors} sectors noted, {expected} in use");
        state
            .found
            .add(Finding::new(Kind::InodeSectors, what).ino(ino));
    }
}
