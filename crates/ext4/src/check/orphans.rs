//! The list of orphans, and the orphan file.

use super::Options;
use super::finding::{Finding, Kind};
use super::state::State;
use super::volume::Volume;
use base::{BlockNo, Ino};
use ondisk::ext4::{Compat, Inode, OrphanBlock, RoCompat, verify_orphan_checksum};

/// Follows the list. An unmounted volume has none.
pub(super) fn follow(volume: &Volume<'_>, state: &mut State<'_>, options: &Options) {
    let sb = &volume.sb;
    let mut next = sb.last_orphan();
    if next.0 != 0 && !options.in_use {
        let what = format!("the list of orphans begins with inode {next}; recovery empties it");
        return state
            .found
            .add(Finding::new(Kind::Orphans, what).ino(next.0).block(0));
    }
    while next.0 != 0 {
        let bad = |what| Finding::new(Kind::Orphans, what).ino(next.0);
        if next < sb.first_ino() || next.0 > sb.inodes_count() {
            return state
                .found
                .add(bad("on the list of orphans, and none of a file"));
        }
        // C2: each turn adds one.
        if !state.orphans.insert(next.0) {
            return state.found.add(bad("on the list of orphans twice"));
        }
        let Some(inode) = read_inode(volume, state, next) else {
            return;
        };
        if inode.mode() == 0 {
            return state
                .found
                .add(bad("on the list of orphans, and not in use"));
        }
        next = Ino(inode.deletion_time());
    }
}

fn read_inode(volume: &Volume<'_>, state: &mut State<'_>, ino: Ino) -> Option<Inode> {
    let place = volume.sb.inode_place(ino)?;
    let at = volume.descs[place.group as usize].inode_table().0 + place.table_block;
    let block = volume.reader.block(at, state.found)?;
    Inode::parse(&block[place.offset..], volume.sb.inode_bytes()).ok()
}

/// Checks the blocks of the orphan file, which of an unmounted volume is empty.
pub(super) fn check_file(volume: &Volume<'_>, state: &mut State<'_>, options: &Options) {
    let sb = &volume.sb;
    if !sb.compat().has(Compat::ORPHAN_FILE) {
        return;
    }
    let ino = sb.orphan_file_ino();
    let Some((generation, runs)) = state.orphan_file.take() else {
        return state.at_inode(ino.0, Kind::OrphanFile, "the orphan file is not in use");
    };
    if sb.ro_compat().has(RoCompat::ORPHAN_PRESENT) && !options.in_use {
        state.at_inode(
            ino.0,
            Kind::OrphanFile,
            "marked as not empty; recovery empties it",
        );
    }
    for at in runs.iter().flat_map(|run| run.start..run.start + run.len) {
        let Some(block) = volume.reader.block(at, state.found) else {
            continue;
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
}
