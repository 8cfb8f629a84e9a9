//! Checks the list of orphans, and the orphan file.

use super::Options;
use super::finding::{Finding, Findings, Kind};
use super::mapping;
use super::state::{OrphanFile, Run, State};
use super::volume::Volume;
use base::{BlockNo, Ino};
use ondisk::ext4::{Compat, Inode, OrphanBlock, RoCompat, verify_orphan_checksum};

/// Follows list and file of a volume in use. An unmounted volume has no orphans; for its file
/// [`check_file`] checks that.
pub(super) fn follow(volume: &Volume<'_>, state: &mut State<'_>, options: &Options) {
    let first = volume.sb.last_orphan();
    if options.in_use {
        follow_list(volume, state, first);
        follow_file(volume, state);
    } else if first.0 != 0 {
        let what = format!("the list of orphans begins with inode {first}; recovery empties it");
        let found = Finding::new(Kind::Orphans, what).ino(first.0).block(0u32);
        state.found.add(found);
    }
}

fn follow_list(volume: &Volume<'_>, state: &mut State<'_>, first: Ino) {
    let mut next = first;
    while next.0 != 0 {
        // ext4-check-C2: each turn adds one orphan.
        let Some(inode) = gather(volume, state, next, Kind::Orphans, "on the list of orphans")
        else {
            return;
        };
        next = Ino(inode.deletion_time());
    }
}

fn follow_file(volume: &Volume<'_>, state: &mut State<'_>) {
    let sb = &volume.sb;
    if !sb.compat().has(Compat::ORPHAN_FILE) {
        return;
    }
    // Faults of the file itself are found when all inodes are read.
    let mut unsaid = Findings::new(0);
    let mut aside = State::new(&mut unsaid);
    let ino = sb.orphan_file_ino();
    let Some(inode) = read_inode(volume, &mut aside, ino) else {
        return;
    };
    let runs = mapping::map(volume, &mut aside, ino.0, &inode, true).runs;
    let mut named = Vec::new();
    for at in blocks(&runs) {
        let block = volume.reader.block(at, aside.found);
        let parsed = block.as_deref().map(OrphanBlock::parse);
        if let Some(Ok(parsed)) = parsed {
            named.extend(parsed.orphans().map(|(_, orphan)| orphan));
        }
    }
    for orphan in &named {
        gather(
            volume,
            state,
            *orphan,
            Kind::OrphanFile,
            "in the orphan file",
        );
    }
    if !named.is_empty() && !sb.ro_compat().has(RoCompat::ORPHAN_PRESENT) {
        let what = format!("{} inodes in it, and marked as empty", named.len());
        state.at_inode(ino.0, Kind::OrphanFile, what);
    }
}

/// Notes an orphan once; answers `None`, with a finding, if the inode cannot be an orphan.
fn gather(
    volume: &Volume<'_>,
    state: &mut State<'_>,
    ino: Ino,
    kind: Kind,
    place: &str,
) -> Option<Inode> {
    let sb = &volume.sb;
    let file = sb.compat().has(Compat::ORPHAN_FILE) && ino == sb.orphan_file_ino();
    if file || ino < sb.first_ino() || ino.0 > sb.inodes_count() {
        state.at_inode(ino.0, kind, format!("{place}, and none of a file"));
        return None;
    }
    if !state.orphans.insert(ino.0) {
        state.at_inode(ino.0, kind, format!("{place}, and an orphan already"));
        return None;
    }
    let inode = read_inode(volume, state, ino)?;
    if inode.mode() == 0 {
        state.at_inode(ino.0, kind, format!("{place}, and not in use"));
        return None;
    }
    Some(inode)
}

fn read_inode(volume: &Volume<'_>, state: &mut State<'_>, ino: Ino) -> Option<Inode> {
    let place = volume.sb.inode_place(ino)?;
    let at = volume.descs[place.group as usize].inode_table().0 + place.table_block;
    let block = volume.reader.block(at, state.found)?;
    Inode::parse(&block[place.offset..], volume.sb.inode_bytes()).ok()
}

fn blocks(runs: &[Run]) -> impl Iterator<Item = u64> {
    runs.iter().flat_map(|run| run.start..run.start + run.len)
}

/// Checks the blocks of the orphan file, which must be empty in an unmounted volume.
pub(super) fn check_file(volume: &Volume<'_>, state: &mut State<'_>, options: &Options) {
    let sb = &volume.sb;
    let ino = sb.orphan_file_ino();
    let marked = sb.ro_compat().has(RoCompat::ORPHAN_PRESENT);
    if !sb.compat().has(Compat::ORPHAN_FILE) {
        if marked {
            let what = "orphan_present without an orphan file";
            state.at_inode(ino.0, Kind::OrphanFile, what);
        }
        return;
    }
    let Some(file) = state.orphan_file.take() else {
        let what = "the orphan file is no regular file in use";
        return state.at_inode(ino.0, Kind::OrphanFile, what);
    };
    if !sb.compat().has(Compat::HAS_JOURNAL) {
        state.at_inode(ino.0, Kind::OrphanFile, "an orphan file without a journal");
    }
    if marked && !options.in_use {
        let what = "marked as not empty; recovery empties it";
        state.at_inode(ino.0, Kind::OrphanFile, what);
    }
    check_length(volume, state, ino, &file);
    for at in blocks(&file.runs) {
        check_block(volume, state, options, (ino, file.generation), at);
    }
}

/// Checks that all blocks of the file are mapped.
fn check_length(volume: &Volume<'_>, state: &mut State<'_>, ino: Ino, file: &OrphanFile) {
    let block = volume.block_bytes() as u64;
    let mut mapped = 0;
    for run in &file.runs {
        if run.logical != mapped {
            break;
        }
        mapped += run.len;
    }
    if !file.size.is_multiple_of(block) || file.size / block > mapped {
        let what = format!(
            "{} bytes, of which {mapped} blocks are mapped without a hole",
            file.size
        );
        state.at_inode(ino.0, Kind::OrphanFile, what);
    }
}

fn check_block(
    volume: &Volume<'_>,
    state: &mut State<'_>,
    options: &Options,
    (ino, generation): (Ino, u32),
    at: u64,
) {
    let Some(block) = volume.reader.block(at, state.found) else {
        return;
    };
    if let Some(seed) = volume.seed
        && let Err(e) = verify_orphan_checksum(seed.inode(ino, generation), BlockNo(at), &block)
    {
        state.at_block(ino.0, at, Kind::OrphanFile, e.to_string());
    }
    match OrphanBlock::parse(&block) {
        Err(e) => state.at_block(ino.0, at, Kind::OrphanFile, e.to_string()),
        Ok(parsed) if !options.in_use => {
            if let Some((slot, orphan)) = parsed.orphans().next() {
                let what = format!("slot {slot} names inode {orphan}; recovery empties it");
                state.at_block(ino.0, at, Kind::OrphanFile, what);
            }
        }
        Ok(_) => {}
    }
}
