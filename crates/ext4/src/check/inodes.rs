//! Checks the inodes in the inode tables.

use super::finding::Kind;
use super::mapping::{self, Mapping};
use super::quota;
use super::state::{Apart, Charge, Dir, File, Holds, OrphanFile, QuotaFile, State};
use super::volume::Volume;
use super::{crypt, inline, resize, symlink, xattrs};
use base::Ino;
use base::bytes::{get_le16, get_le32, is_zero};
use ondisk::ext4::{
    Compat, FileType, GroupFlags, Incompat, Inode, InodeFlags, RESIZE_INO, ROOT_INO, RoCompat,
    Superblock,
};

/// The inode of bad blocks, which has a block map and nothing else.
const BAD_BLOCKS_INO: u32 = 1;
/// The inodes of quotas in older volumes.
const QUOTA_INOS: [u32; 2] = [3, 4];
/// The inode of the boot loader, which may hold a file.
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
            // Only the size of the extra fields is wrong; the rest of the inode still owns its
            // blocks.
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
    let quota = quota::kind_of(sb, ino);
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
    } else if !orphan {
        check_not_deleted(state, ino, inode);
    }
    let orphan_file = sb.compat().has(Compat::ORPHAN_FILE) && ino == sb.orphan_file_ino().0;
    let policy = crypt::policy_of(volume, state, ino, inode);
    let imagic = sb.compat().has(Compat::IMAGIC_INODES) && inode.flags().has(InodeFlags::IMAGIC);
    state.files.insert(
        ino,
        File {
            kind: FileType::of_mode(inode.mode()),
            links: inode.links(),
            names: 0,
            nameless: journal
                || orphan_file
                || imagic
                || quota.is_some()
                || (orphan && inode.links() == 0),
            parent: None,
            dotdot: None,
            policy,
            holds: held_values(sb, inode),
        },
    );
    check_flags(volume, state, ino, inode);
    if !journal {
        check_times(state, ino, inode);
    }
    let keep = inode.is_dir() || journal || orphan_file || quota.is_some() || inode.is_symlink();
    let mapping = check_content(volume, state, ino, inode, keep);
    if let Some(kind) = quota {
        let runs = mapping.runs;
        state.quotas[kind] = inode.is_regular().then_some(QuotaFile { runs });
    } else if journal {
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

/// Checks that an inode with links has no time of deletion.
fn check_not_deleted(state: &mut State<'_>, ino: u32, inode: &Inode) {
    let (links, time) = (inode.links(), inode.deletion_time());
    if time != 0 {
        let what = format!("{links} links and a time of deletion ({time})");
        state.at_inode(ino, Kind::InodeDeletion, what);
    }
}

/// What an inode for values of attributes says of them; it stores this in its fields for times.
fn held_values(sb: &Superblock, inode: &Inode) -> Option<Holds> {
    let holds = is_value(sb, inode);
    holds.then(|| {
        let word = |at| get_le32(inode.bytes(), at);
        let (access, change, version) = (word(0x08), word(0x0C), word(0x24));
        Holds {
            references: u64::from(change) << 32 | u64::from(version),
            uncounted: access == change,
        }
    })
}

/// Checks a time of deletion. One below the number of inodes is a link in a list of orphans, unless
/// the clock was that early.
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

/// Checks a reserved inode: it holds nothing, except that those of bad blocks and of the boot
/// loader may own blocks.
fn check_reserved(volume: &Volume<'_>, state: &mut State<'_>, ino: u32, inode: &Inode) {
    if ino == BAD_BLOCKS_INO {
        return check_bad_blocks(volume, state, inode);
    }
    if inode.links() == 0 {
        check_deletion_time(volume, state, ino, inode);
    }
    if let Some(kind) = quota::kind_of(&volume.sb, ino) {
        return check_quota(volume, state, (ino, kind), inode);
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

/// Checks the file of a quota among the reserved inodes.
fn check_quota(
    volume: &Volume<'_>,
    state: &mut State<'_>,
    (ino, kind): (u32, usize),
    inode: &Inode,
) {
    if !inode.is_regular() {
        let what = format!("the file of a quota, with mode {:#o}", inode.mode());
        return state.at_inode(ino, Kind::InodeMode, what);
    }
    let mapping = mapping::map(volume, state, ino, inode, true);
    if !mapping.broken {
        check_regular_size(volume, state, ino, inode, mapping.written_end);
        check_sectors(volume, state, ino, inode, mapping.clusters);
    }
    let runs = mapping.runs;
    state.quotas[kind] = Some(QuotaFile { runs });
}

/// Checks that a volume without quotas has no file of one. Of the count of sectors only the lower
/// half is looked at, as e2fsck does.
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

/// An inode that holds the value of an extended attribute, which no name leads to.
fn is_value(sb: &Superblock, inode: &Inode) -> bool {
    sb.incompat().has(Incompat::EA_INODE) && inode.flags().has(InodeFlags::EA_INODE)
}

fn check_flags(volume: &Volume<'_>, state: &mut State<'_>, ino: u32, inode: &Inode) {
    let (sb, flags) = (&volume.sb, inode.flags());
    let mut bad = |what: &str| state.at_inode(ino, Kind::InodeField, what);
    // e2fsck does not look at these fields of reserved inodes, and no code reads them.
    let system = (ino < sb.first_ino().0 && ino != ROOT_INO.0) || is_journal(sb, ino);
    // Nor at these two of an inode that no name leads to.
    let own_file = quota::kind_of(sb, ino).is_some() || ino == sb.orphan_file_ino().0;
    let nameless = system || own_file || is_value(sb, inode);
    let fragment = get_le32(inode.bytes(), 0x70);
    if fragment != 0 && !nameless {
        bad(&format!("i_faddr = {fragment}; there are no fragments"));
    }
    let huge = sb.ro_compat().has(RoCompat::HUGE_FILE);
    if !huge && get_le16(inode.bytes(), 0x74) != 0 && !nameless {
        bad("i_blocks_hi without feature huge_file");
    }
    if flags.has(InodeFlags::EXTENTS) && !sb.incompat().has(Incompat::EXTENTS) {
        bad("extents without feature extent");
    }
    if flags.has(InodeFlags::INDEX) && !(inode.is_dir() && sb.compat().has(Compat::DIR_INDEX)) {
        bad("flag of a hash index on something that has none");
    }
    for (flag, feature, has) in flags_of_features(sb) {
        if flags.has(flag) && !has && (flag == InodeFlags::CASEFOLD || !system) {
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

/// Flags that need a feature, and whether the volume has it. In reserved inodes e2fsck and Linux
/// look only at the flag of casefold.
fn flags_of_features(sb: &Superblock) -> [(InodeFlags, &'static str, bool); 6] {
    let incompat = |feature| sb.incompat().has(feature);
    [
        (
            InodeFlags::INLINE_DATA,
            "inline_data",
            incompat(Incompat::INLINE_DATA),
        ),
        (InodeFlags::ENCRYPT, "encrypt", incompat(Incompat::ENCRYPT)),
        (
            InodeFlags::EA_INODE,
            "ea_inode",
            incompat(Incompat::EA_INODE),
        ),
        (
            InodeFlags::CASEFOLD,
            "casefold",
            incompat(Incompat::CASEFOLD),
        ),
        (
            InodeFlags::VERITY,
            "verity",
            sb.ro_compat().has(RoCompat::VERITY),
        ),
        (
            InodeFlags::IMAGIC,
            "imagic_inodes",
            sb.compat().has(Compat::IMAGIC_INODES),
        ),
    ]
}

/// Checks for times before 1970 in the form that kernels before 3.13 wrote: their extra bits look
/// like those of a far-off year. Until 2242 e2fsck takes them for times before 1970.
fn check_times(state: &mut State<'_>, ino: u32, inode: &Inode) {
    // Each time with the word of its extra bits, counted from the start of the inode.
    const TIMES: [(&str, usize, usize); 4] = [
        ("i_atime", 0x08, 0x8C),
        ("i_ctime", 0x0C, 0x84),
        ("i_mtime", 0x10, 0x88),
        ("i_crtime", 0x90, 0x94),
    ];
    let (raw, end) = (inode.bytes(), 128 + usize::from(inode.extra_bytes()));
    for (field, low, extra) in TIMES {
        let there = extra + 4 <= raw.len().min(end);
        if there && get_le32(raw, low) >> 31 == 1 && get_le32(raw, extra) & 3 == 3 {
            let what = format!("{field} lies beyond the year 2310: likely one before 1970");
            return state.at_inode(ino, Kind::InodeTime, what);
        }
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
            check_sectors(volume, state, ino, inode, attributes.clusters);
            charge(volume, state, ino, inode, attributes);
            return Mapping {
                inline,
                ..Mapping::default()
            };
        }
        FileType::Regular | FileType::Directory => mapping::map(volume, state, ino, inode, keep),
        FileType::Symlink if symlink::is_fast(volume, inode, attributes.clusters) => {
            Mapping::default()
        }
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
    // An encrypted target consists of a length and any bytes.
    if inode.is_symlink() && !inode.flags().has(InodeFlags::ENCRYPT) {
        symlink::check(volume, state, ino, inode, &mapping, attributes.clusters);
    }
    let all = Apart {
        clusters: mapping.clusters + attributes.clusters,
        ..attributes
    };
    if !mapping.broken {
        check_sectors(volume, state, ino, inode, all.clusters);
        check_clustered(volume, state, ino, inode, mapping.clusters);
    }
    charge(volume, state, ino, inode, all);
    mapping
}

/// Charges the owners of an inode for clusters: those of the inode and those of its attributes'
/// values.
fn charge(volume: &Volume<'_>, state: &mut State<'_>, ino: u32, inode: &Inode, all: Apart) {
    let charge = Charge {
        bytes: volume.cluster_bytes(all.clusters),
        inodes: 1 + all.inodes,
    };
    quota::charge(volume, state, ino, inode, charge);
}

/// Linux allocates clusters to files with extents only.
fn check_clustered(
    volume: &Volume<'_>,
    state: &mut State<'_>,
    ino: u32,
    inode: &Inode,
    clusters: u64,
) {
    let mapped = clusters > 0 && !inode.flags().has(InodeFlags::EXTENTS);
    let own = ino == ROOT_INO.0 || ino >= volume.sb.first_ino().0;
    let holds = inode.is_regular() || inode.is_dir();
    if mapped && own && holds && volume.sb.ro_compat().has(RoCompat::BIGALLOC) {
        let what = "mapped by blocks on a volume with clusters (bigalloc)";
        state.at_inode(ino, Kind::InodeField, what);
    }
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

/// Checks the size of a regular file; `written_end` is one past the last block that was written.
pub(super) fn check_regular_size(
    volume: &Volume<'_>,
    state: &mut State<'_>,
    ino: u32,
    inode: &Inode,
    written_end: u64,
) {
    let (size, block) = (inode.size(), volume.block_bytes() as u64);
    // Behind its end, a file under fs-verity has the tree of its hashes.
    let verity = inode.flags().has(InodeFlags::VERITY);
    let what = if !verity && written_end * block > size.saturating_add(block) {
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

/// Compares the count of sectors with the clusters that were met.
pub(super) fn check_sectors(
    volume: &Volume<'_>,
    state: &mut State<'_>,
    ino: u32,
    inode: &Inode,
    clusters: u64,
) {
    let huge = volume.sb.ro_compat().has(RoCompat::HUGE_FILE);
    let sectors = inode.sectors(huge, volume.sb.block_bytes());
    let expected = volume.sectors(clusters);
    if sectors != expected {
        let what = format!("{sectors} sectors noted, {expected} in use");
        state.found.at_inode(ino, Kind::InodeSectors, what);
    }
}
